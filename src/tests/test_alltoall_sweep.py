"""bisection-alltoall-sweep as a user runs it: the sweep, faults, refusals.

Usage: test_alltoall_sweep.py ALLTOALL_SWEEP FAULTY_ALLTOALL [unittest arguments]
"""

import sys
import unittest

from kernel_run import listed, run

SWEEP = FAULTY = ""
QUICK = ("--repeats", "1", "--block", "2")


class Sweep(unittest.TestCase):
    def test_every_size_of_figure_2(self):
        out = run(SWEEP, 2, *QUICK)
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        for method in listed(SWEEP, "methods"):
            entries = [entry for entry in out.result["results"] if entry["method"] == method]
            sizes = [entry["point"]["bytes"] for entry in entries]
            self.assertEqual(sizes, [2**power for power in range(3, 21)])
            for entry in entries:
                self.assertTrue(entry["verification"]["passed"])
                metrics = entry["metrics"]
                self.assertTrue(0 < metrics["time_min"]["value"] <= metrics["time"]["value"])
                self.assertLessEqual(metrics["time"]["value"], metrics["time_p99"]["value"])
                self.assertGreater(metrics["ratio_alltoallv"]["value"], 0)

    def test_time_is_of_one_exchange(self):
        """Small blocks are exchanged several times in a step."""
        out = run(SWEEP, 3, "--largest", "8", *QUICK)
        for entry in out.result["results"]:
            calls = entry["communication"]["collective"]["calls"]["max"]
            self.assertGreater(calls, 1)
            shortest = min(entry["samples"]["seconds"])
            self.assertAlmostEqual(entry["metrics"]["time_min"]["value"] * calls / shortest, 1)
            sent = entry["communication"]["collective"]["bytes"]["max"]
            self.assertEqual(sent, calls * 2 * 8)  # to two others


class Verification(unittest.TestCase):
    """Collectives broken on purpose, at once and only after the first verification."""

    def test_faults_are_caught(self):
        for fault in ("byte", "swap", "blocks", "skip"):
            for first in ("0", "2"):
                with self.subTest(fault=fault, first=first):
                    # blocks of 64 KiB are exchanged once in a step: no fault is made good
                    out = run(
                        FAULTY, 3, "--smallest", "65536", "--largest", "65536", *QUICK,
                        BX_FAULT=fault, BX_FAULT_FROM=first,
                    )  # fmt: skip
                    self.assertEqual(out.code, 1, out.stdout + out.stderr)
                    for entry in out.result["results"]:
                        self.assertFalse(entry["verification"]["passed"], entry["method"])

    def test_fault_in_any_one_exchange_is_caught(self):
        """64 exchanges of 8 bytes in a step; one verifying step, then warm-up and two samples."""
        for fault in ("byte", "blocks", "skip"):
            for call in (0, 1, 31, 62, 63, 64, 127, 150, 255):
                with self.subTest(fault=fault, call=call):
                    out = run(
                        FAULTY, 3, "--largest", "8", "--method", "alltoall", *QUICK,
                        BX_FAULT=fault, BX_FAULT_FROM=str(call), BX_FAULT_ONCE="1",
                    )  # fmt: skip
                    self.assertEqual(out.code, 1, out.stdout + out.stderr)

    def test_the_same_collectives_unbroken(self):
        out = run(FAULTY, 3, "--largest", "1024", *QUICK)
        self.assertEqual(out.code, 0, out.stdout + out.stderr)


class Refusals(unittest.TestCase):
    """One line that names the value, no result."""

    def refused(self, code: int, ranks: int, *arguments: str, named: str):
        with self.subTest(arguments=arguments):
            out = run(SWEEP, ranks, *arguments, *QUICK)
            ours = [line for line in out.stderr.splitlines() if line.startswith("bisection-")]
            self.assertEqual(out.code, code, out.stdout + out.stderr)
            self.assertEqual(len(ours), 1, out.stderr)
            self.assertIn(named, ours[0])
            self.assertEqual(out.stdout, "")
            self.assertIsNone(out.result)

    def test_sizes(self):
        self.refused(2, 2, "--largest", "100", named="--largest 100: not a power of two")
        self.refused(2, 2, "--smallest", "24", named="--smallest 24: not a power of two")
        self.refused(2, 2, "--smallest", "0", named="--smallest 0")
        self.refused(2, 2, "--largest", "-8", named="--largest -8")
        self.refused(2, 2, "--largest", "1e9", named="--largest 1e9")
        self.refused(2, 2, "--smallest", "64", "--largest", "8", named="more than --largest 8")

    def test_more_than_counts_or_memory_hold(self):
        self.refused(3, 17, "--largest", "1073741824", named="17 ranks may have")


if __name__ == "__main__":
    SWEEP, FAULTY = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
