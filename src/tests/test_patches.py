"""bisection-patches as a user runs it: a trajectory by hand, bits on every layout, counts, faults.

Usage: test_patches.py PATCHES FAULTY_PATCHES [unittest arguments]
"""

import math
import sys
import unittest
from concurrent.futures import ThreadPoolExecutor

from kernel_run import assert_refused, checks, drawn, entry, listed, run

PATCHES = FAULTY = ""
ONCE = ("--repeats", "1", "--block", "2", "--warmup", "0", "--steps", "2")
TINY = ("--cells", "4,4,4", "--patches", "3,3,3", "--cutoff", "1.5")  # 256 atoms
METHODS = ["static", "testsome", "iprobe", "waitany", "aggregated"]


def uniform(seed: int, index: int) -> float:
    """Splitmix64 as a number from -1 to 1, as bx_random_uniform has it."""
    z = drawn(seed, index)
    return (z - 2**64 * (z >> 63)) / 2**63


def energy_and_pull(r2: float, cutoff: float) -> "tuple[float, float]":
    """Of a pair: u(r) with its switching function, and -u'(r) / r."""
    end, begin = cutoff**2, (0.85 * cutoff) ** 2
    if r2 >= end:
        return 0, 0
    r = math.sqrt(r2)
    u, du = 4 * (r**-12 - r**-6), 4 * (-12 * r**-13 + 6 * r**-7)
    if r2 <= begin:
        return u, -du / r
    cube = (end - begin) ** 3
    s = (end - r2) ** 2 * (end + 2 * r2 - 3 * begin) / cube
    ds = 12 * r * (end - r2) * (begin - r2) / cube
    return u * s, -(du * s + u * ds) / r


def trajectory(cells: int, cutoff: float, steps: int) -> "list[tuple[float, float]]":
    """Potential and kinetic energy in each step: all pairs, nearest images, leapfrog."""
    edge, step, fastest = cells * 1.55, 0.004, math.sqrt(3 * 0.05)
    x, v = [], []
    for point in ((a, b, c) for c in range(2 * cells) for b in range(2 * cells)
                  for a in range(2 * cells) if (a + b + c) % 2 == 0):  # fmt: skip
        site = (point[2] * 2 * cells + point[1]) * cells + point[0] // 2
        draw = [uniform(1, 6 * site + n) for n in range(6)]
        x.append([(p + 0.5) * 1.55 / 2 + 0.01 * d for p, d in zip(point, draw[:3], strict=True)])
        v.append([fastest * d for d in draw[3:]])
    energies = []
    for _ in range(steps):
        potential, kinetic = 0.0, 0.0
        force = [[0.0, 0.0, 0.0] for _ in x]
        for i, a in enumerate(x):
            for j in range(i):
                d = [p - q for p, q in zip(a, x[j], strict=True)]
                d = [p - edge * round(p / edge) for p in d]
                r2 = sum(p * p for p in d)
                u, pull = energy_and_pull(r2, cutoff)
                potential += u
                for c in range(3):
                    force[i][c] += pull * d[c]
                    force[j][c] -= pull * d[c]
        for i, f in enumerate(force):
            for c in range(3):
                kinetic += (v[i][c] + f[c] * step / 2) ** 2 / 2
                v[i][c] += f[c] * step
                x[i][c] += v[i][c] * step
        energies.append((potential, kinetic))
    return energies


def state(out) -> str:
    return out.result["details"]["state"]


class Physics(unittest.TestCase):
    def test_energies_are_those_of_a_trajectory_by_hand(self):
        cutoff = "1.5000067991"  # lists end 4e-10 before a pair, which may be in them
        out = run(PATCHES, 3, *TINY[:-1], cutoff, *ONCE, "--seed", "1")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        expected = trajectory(4, float(cutoff), 4)
        for step, wanted in ((0, expected[0]), (1, expected[-1])):
            for kind in (0, 1):  # potential, kinetic
                computed = out.result["details"]["energies"][step][kind]
                self.assertAlmostEqual(computed, wanted[kind], delta=1e-7 * abs(wanted[kind]))

    def test_energy_is_kept_over_many_steps(self):
        block = ("--repeats", "1", "--block", "1", "--warmup", "0", "--steps", "400")
        out = run(PATCHES, 1, *TINY, *block, "--method", "testsome")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        self.assertLess(checks(out, "testsome")["drift"]["error"], 0.005)

    def test_few_atoms_in_a_box_verify(self):
        """Patches without atoms stand beside others."""
        sparse = ("--cells", "4,8,4", "--patches", "3,6,3", "--cutoff", "1.5", "--atoms", "50")
        out = run(PATCHES, 2, *sparse, *ONCE, "--seed", "754750543", "--baseline", "forces")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)

    def test_block_that_is_too_long_for_its_lists_is_refused(self):
        sparse = ("--cells", "5,4,6", "--patches", "3,3,4", "--cutoff", "1.5", "--atoms", "50")
        block = ("--block", "1", "--warmup", "0", "--repeats", "1", "--method", "static")
        line = "--steps 72: lists of pairs hold for 71 of the 72 steps of a block"
        assert_refused(self, run(PATCHES, 2, *sparse, *block, "--steps", "72"), 2, line)
        out = run(PATCHES, 2, *sparse, *block, "--steps", "71")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)


class Layouts(unittest.TestCase):
    def verified(self, out) -> str:
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        for item in out.result["results"]:
            self.assertTrue(item["verification"]["passed"], item["method"])
        return state(out)

    def test_the_same_bits_on_every_layout(self):
        """Each launch verifies that all of its methods give the same bits."""
        states = {
            self.verified(run(PATCHES, ranks, *TINY, *ONCE, threads=threads))
            for ranks, threads in ((1, 1), (2, 1), (5, 1), (2, 3))
        }
        self.assertEqual(len(states), 1)

    def test_more_ranks_than_patches_and_patches_without_atoms(self):
        few = ("--atoms", "5", *ONCE, "--ranks-per-node", "7")
        states = {self.verified(run(PATCHES, ranks, *TINY, *few)) for ranks in (1, 31)}
        self.assertEqual(len(states), 1)


class Counts(unittest.TestCase):
    def test_messages_of_patches_with_ranks_of_their_own(self):
        """27 ranks, each with a patch: all 26 others are neighbours."""
        out = run(PATCHES, 27, *TINY, *ONCE, "--ranks-per-node", "9")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        copies = out.result["details"]["copies_per_patch"]
        self.assertTrue(10 <= copies <= 26, copies)
        for method in METHODS:
            sent = entry(out, method)["communication"]["p2p"]["messages"]["mean"] / 2  # steps
            joined = method == "aggregated"
            if not joined:
                self.assertAlmostEqual(sent, 2 * copies)
            per_patch = entry(out, method)["metrics"]["messages_per_patch"]["value"]
            self.assertAlmostEqual(per_patch, sent)
            rate = entry(out, method)["metrics"]["message_rate"]["value"]
            time = entry(out, method)["metrics"]["time"]["value"]
            self.assertAlmostEqual(rate * time, sent * 27 / 3)

    def test_aggregated_sends_one_message_to_each_rank_and_direction(self):
        out = run(PATCHES, 2, *TINY, *ONCE)
        joined = entry(out, "aggregated")["communication"]["p2p"]
        single = entry(out, "testsome")["communication"]["p2p"]
        self.assertEqual(joined["messages"]["max"], 2 * 2)  # positions, forces; two steps
        self.assertGreater(single["messages"]["mean"], 10 * 2)
        self.assertEqual(joined["bytes"], single["bytes"])


class Faults(unittest.TestCase):
    def wrong(self, fault: str, block: int, first: int) -> "dict[str, set[str]]":
        """The names of the checks that did not pass, by method."""
        out = run(FAULTY, 3, *TINY, *ONCE, BX_FAULT=fault, BX_FAULT_BLOCK=str(block),
                  BX_FAULT_FROM=str(first))  # fmt: skip
        self.assertEqual(out.code, 1, fault + out.stdout + out.stderr)
        self.assertEqual(listed(FAULTY, "methods"), METHODS)
        return {
            method: {name for name, check in checks(out, method).items() if not check["passed"]}
            for method in METHODS
        }

    def test_without_a_fault(self):
        self.assertEqual(run(FAULTY, 3, *TINY, *ONCE).code, 0)

    def test_wrong_messages_under_every_method(self):
        for block in (0, 1):  # during verification; in a block that is timed
            for fault in ("byte", "header", "double"):
                with self.subTest(fault=fault, block=block):
                    for method, names in self.wrong(fault, block, 1).items():
                        self.assertIn("messages", names, method)

    def test_skipped_neighbour_and_wrong_force_under_every_method(self):
        for block in (0, 1):
            for fault in ("skip", "force"):
                with self.subTest(fault=fault, block=block):
                    for method, names in self.wrong(fault, block, 7).items():
                        self.assertIn("state", names, method)

    def test_message_that_nobody_expects_is_named(self):
        """Only a probe sees it: posted receives are of messages that are due."""
        for block in (0, 1):
            with self.subTest(block=block):
                fault = {"BX_FAULT": "stray", "BX_FAULT_BLOCK": str(block), "BX_FAULT_FROM": "1"}
                out = run(FAULTY, 2, *TINY, *ONCE, "--method", "iprobe", **fault)
                self.assertEqual(out.code, 1, out.stdout + out.stderr)
                self.assertEqual(checks(out, "iprobe")["messages"]["error"], 1)
                self.assertTrue(checks(out, "iprobe")["state"]["passed"])
                self.assertIn("rank 1: no message is due from rank 0 with tag 999", out.stderr)

    def test_lost_message_ends_every_method(self):
        """Nothing runs without it: the launch is ended as one that hangs."""

        def lose(method: str):
            fault = {"BX_FAULT": "lose", "BX_FAULT_BLOCK": "0", "BX_FAULT_FROM": "1"}
            arguments = ("--method", method, "--progress-timeout", "1")
            return run(FAULTY, 2, *TINY, *ONCE, *arguments, **fault)

        with ThreadPoolExecutor() as pool:
            for method, out in zip(METHODS, pool.map(lose, METHODS), strict=True):
                if out.code != 4:  # MPICH's launcher may return the signal by which it ended a rank
                    self.assertRegex(out.stdout, rf"EXIT STRING: \w+ \(signal {out.code}\)", method)
                self.assertIn("nothing finished for 1 s", out.stderr, method)


class Refusals(unittest.TestCase):
    """One line that names the value, no result."""

    def refused(self, code: int, *arguments: str, named: str) -> None:
        with self.subTest(arguments=arguments):
            assert_refused(self, run(PATCHES, 2, *arguments), code, named)

    def test_options(self):
        self.refused(2, "--patches", "2,3,3", named="--patches 2,3,3")
        self.refused(2, "--patches", "4,3,3", named="--patches: 4 along x are 3.49 sigma wide")
        self.refused(
            2, "--cutoff", "9", named="3 along x are 4.65 sigma wide; cutoff and skin need 9.42"
        )
        self.refused(2, "--atoms", "3000", named="--atoms 3000: 9 x 9 x 9 cells have 2916 sites")
        self.refused(2, "--steps", "0", named="--steps 0")
        self.refused(2, "--cells", "400,400,400", named="atoms per patch")

    def test_as_many_patches_as_there_are_tags(self):
        """Two of each of 27, from 0."""
        out = run(FAULTY, 2, *TINY, *ONCE, "--method", "static", BX_TAG_UB="53")
        self.assertEqual(out.code, 0, out.stderr)
        out = run(FAULTY, 2, *TINY, *ONCE, BX_TAG_UB="52")
        assert_refused(self, out, 2, "--patches: 27 in all; this MPI library has tags for 26")

    def test_too_large(self):
        self.refused(3, "--case", "f1-atpase", "--steps", "1000", named="--steps 1000")


if __name__ == "__main__":
    PATCHES, FAULTY = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
