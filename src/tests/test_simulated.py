"""The kernels on simulated machines: the made-up fat tree is what it claims to be.

Usage: test_simulated.py FOLDER TRANSPOSE MD [unittest arguments]
FOLDER is what a build with BX_SIMULATED was built to; the kernels of the usual build are those of
test_smpi.py, which has the same arguments. Exit code 77: nothing can be simulated here.
"""

import struct
import sys
import unittest
from pathlib import Path

import simulated
from kernel_run import seats
from simulated import Tree, simulate

FOLDER = Path()


class FatTree(unittest.TestCase):
    def sweep(self, tree: Tree, cables: str = "") -> "dict[int, float]":
        """Seconds of MPI_Alltoallv by bytes, 8 B and 64 KiB."""
        out = simulate(
            FOLDER, "patterns", tree, "--method", "alltoallv", "--repeats", "1",
            "--block", "1", "--largest", "65536", cables=cables,
        )  # fmt: skip
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        times = {e["point"]["bytes"]: e["metrics"]["time"]["value"] for e in out.result["results"]}
        hosts = [seat["host"] for seat in seats(out.result)]
        self.assertEqual(hosts, tree.names())
        return times

    def test_links_take_what_they_should(self):
        """15 blocks of 64 KiB leave each host at 12.5 GB/s, less SMPI's own overhead."""
        sound = self.sweep(Tree(4, 4, 4))
        ideal = 15 * 65536 / 12.5e9
        self.assertTrue(1 < sound[65536] / ideal < 1.6, sound[65536] / ideal)
        self.assertLess(sound[8], 20e-6)
        half = self.sweep(Tree(4, 4, 4), cables="node 5 both 0.5 0")
        self.assertTrue(1.4 < half[65536] / sound[65536] < 2.5)
        late = self.sweep(Tree(4, 4, 4), cables="uplink 3 0 out 1 1e-4")
        self.assertTrue(1e-4 < late[8] - sound[8] < 1e-3, late[8])

    def test_a_4_to_1_tree_is_slow_between_its_leaves(self):
        """12 of 15 blocks of each host leave their leaf switch, over a quarter of the links."""
        factor = self.sweep(Tree(4, 4, 1))[65536] / self.sweep(Tree(4, 4, 4))[65536]
        self.assertTrue(2 < factor < 4.5, factor)

    def test_unknown_cables_are_refused(self):
        for cables in ("node 16 both 0.5 0", "uplink 0 4 out 1 0", "node 1 up 1 0", "spine 1"):
            out = simulate(FOLDER, "patterns", Tree(4, 4, 4), cables=cables)
            self.assertNotEqual(out.code, 0)
            self.assertIn("is not understood", out.stderr)


class Pairs(unittest.TestCase):
    """The matrix of bisection-pairs against what the tree is made of. The judgement is not here."""

    TREE = Tree(4, 4, 4)

    def matrix(self, *arguments: str, cables: str = "", tree: Tree = TREE):
        """(latency, bandwidth) of each way from node to node, and the nodes measured again."""
        out = simulate(
            FOLDER, "pairs", tree, "--switches", "{switches}", "--case", "all", "--samples", "1",
            "--bytes", "1000000", *arguments, cables=cables,
        )  # fmt: skip
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        self.assertEqual(out.result["details"]["pairs"]["nodes"], tree.names())
        ways, again, repeats = {}, set(), []
        for stage, number, a, b, latency, there, back, _ in struct.iter_unpack(
            "<hhiiffff", out.files["result.pairs"]
        ):
            if stage == 1:
                again |= {(a, b), (b, a)}
                repeats.append((number, a, b))
            else:
                ways[a, b], ways[b, a] = (latency, there), (latency, back)
        self.assertEqual(len(ways), 16 * 15)
        rounds = [[pair[1:] for pair in repeats if pair[0] == number] for number in range(5)]
        self.assertEqual(sum(map(len, rounds)), len(repeats))
        self.assertEqual(rounds, [rounds[0]] * 5)
        return ways, again

    def slow(self, ways) -> "set[tuple[int, int]]":
        return {way for way, (_, bandwidth) in ways.items() if bandwidth < 0.75 * 10.2e9}

    def test_sound_trees_have_no_slow_pair_unless_all_meet_at_once(self):
        for spines, mode in ((4, "thin"), (1, "thin"), (1, "serial")):
            ways, again = self.matrix("--mode", mode, tree=Tree(4, 4, spines))
            self.assertEqual((self.slow(ways), again), (set(), set()))
        crowded, _ = self.matrix("--mode", "concurrent", tree=Tree(4, 4, 1))
        self.assertGreater(len(self.slow(crowded)), 60)

    def test_ways_are_told_apart(self):
        for way, expected in (
            ("out", {(5, k) for k in range(16) if k != 5}),
            ("in", {(k, 5) for k in range(16) if k != 5}),
        ):
            ways, again = self.matrix(cables=f"node 5 {way} 0.5 0")
            self.assertEqual(self.slow(ways), expected)
            self.assertEqual(len({pair for pair in again if pair[0] == 5}), 3 + 4)

    def test_an_uplink_is_slow_for_what_it_carries(self):
        ways, again = self.matrix(cables="uplink 1 2 out 0.5 0")
        carried = {(a, b) for a in range(4, 8) for b in (2, 10, 14)}
        self.assertEqual(self.slow(ways), carried)
        self.assertLessEqual(carried, again)

    def test_latency(self):
        ways, _ = self.matrix(cables="node 5 both 1 1e-6")
        late = {way for way, (latency, _) in ways.items() if latency > 3e-6}
        self.assertEqual(late, {way for way in ways if 5 in way})


class Congestion(unittest.TestCase):
    """What aggressors cost victims on a full tree, and where nodes share a narrow trunk."""

    def impacts(self, tree: Tree) -> "dict[tuple[str, str], float]":
        out = simulate(FOLDER, "congestion", tree, "--window", "0.002", "--repeats", "3",
                       "--block", "1", "--warmup", "0")  # fmt: skip
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        return {
            (entry["method"], name): entry["metrics"][f"impact_{name}"]["value"]
            for entry in out.result["results"]
            for name in (() if entry["baseline"] else ("again", "incast", "alltoall", "broadcast"))
        }

    def test_full_tree_keeps_victims_from_aggressors(self):
        for pair, impact in self.impacts(Tree(4, 4, 4)).items():
            self.assertTrue(0.97 < impact <= 1.1, (pair, impact))

    def test_narrow_trunk_is_felt_by_what_crosses_it(self):
        impacts = self.impacts(Tree(4, 4, 1))
        self.assertGreater(impacts["alltoallv", "alltoall"], 1.25)
        self.assertGreater(impacts["halo", "alltoall"], 1.3)
        self.assertLess(impacts["allreduce", "alltoall"], 1.1)  # the simulation has no queues
        for victim in ("allreduce", "alltoallv", "halo"):
            self.assertAlmostEqual(impacts[victim, "again"], 1, delta=0.02)


class Patterns(unittest.TestCase):
    METHODS = ("node-to-node", "bisecting", "random-matching", "alltoall", "put", "get")

    def bandwidths(self, tree: Tree) -> "dict[str, float]":
        """Bytes/s per node, by method, of blocks of 512 KiB."""
        out = simulate(
            FOLDER, "patterns", tree, "--method", ",".join(self.METHODS), "--smallest", "524288",
            "--largest", "524288", "--repeats", "4", "--block", "1", "--warmup", "0",
        )  # fmt: skip
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        entries = out.result["results"]
        return {e["method"]: e["metrics"]["bandwidth"]["value"] for e in entries}

    def test_a_narrow_trunk_shows_in_what_crosses_it(self):
        """A 4:1 tree: one uplink for the four hosts of a leaf switch."""
        full, narrow = self.bandwidths(Tree(4, 4, 4)), self.bandwidths(Tree(4, 4, 1))
        self.assertTrue(0.6 < full["node-to-node"] / 12.5e9 < 1.01, full)
        part = {method: narrow[method] / full[method] for method in full}
        self.assertTrue(0.95 < part["node-to-node"] < 1.05, part)
        self.assertTrue(0.2 < part["bisecting"] < 0.35, part)
        self.assertTrue(part["bisecting"] <= part["random-matching"] < 0.8, part)
        self.assertTrue(0.2 < part["alltoall"] < 0.6, part)
        self.assertLess(full["random-matching"], 0.98 * full["bisecting"])  # routes collide


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1])
    reason = simulated.missing(FOLDER)
    if reason:
        print("skipped:", reason)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
