"""The kernels on simulated machines: the made-up fat tree is what it claims to be.

Usage: test_simulated.py FOLDER [unittest arguments]
FOLDER is what src/tests/simgrid was built to. Exit code 77: nothing can be simulated here.
"""

import sys
import unittest
from pathlib import Path

import simulated
from simulated import Tree, simulate

FOLDER = Path()


class FatTree(unittest.TestCase):
    def sweep(self, tree: Tree, cables: str = "") -> "dict[int, float]":
        """Seconds of MPI_Alltoallv by bytes, 8 B and 64 KiB."""
        out = simulate(
            FOLDER, "alltoall-sweep", tree, "--method", "alltoallv", "--repeats", "1",
            "--block", "1", "--largest", "65536", cables=cables,
        )  # fmt: skip
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        times = {e["point"]["bytes"]: e["metrics"]["time"]["value"] for e in out.result["results"]}
        hosts = [entry["host"] for entry in out.result["layout"]["per_rank"]]
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
            out = simulate(FOLDER, "alltoall-sweep", Tree(4, 4, 4), cables=cables)
            self.assertNotEqual(out.code, 0)
            self.assertIn("is not understood", out.stderr)


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1])
    reason = simulated.missing(FOLDER)
    if reason:
        print("skipped:", reason)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
