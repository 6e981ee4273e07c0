"""A Fortran kernel under the harness, and what it sends by mpi_f08, counted.

Usage: test_fortran.py FORTRAN_KERNEL [unittest arguments]
"""

import sys
import unittest

from kernel_run import run

KERNEL = ""


class FortranKernel(unittest.TestCase):
    def test_verified_and_counted(self):
        ranks = 5
        out = run(KERNEL, ranks, "--factor", "3", "--repeats", "2", "--block", "4")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        self.assertIn("a note from Fortran", out.stdout)
        self.assertEqual(out.result["parameters"]["factor"], 3)
        allreduce, ring = out.result["results"]
        self.assertEqual(allreduce["method"], "allreduce")
        sent = allreduce["communication"]["collective"]
        self.assertEqual((sent["calls"]["mean"], sent["bytes"]["mean"]), (1, 8))
        self.assertEqual(allreduce["communication"]["p2p"]["calls"]["max"], 0)
        sent = ring["communication"]["p2p"]
        self.assertEqual(
            (sent["messages"]["min"], sent["bytes"]["max"]), (ranks - 1, 8 * (ranks - 1))
        )
        self.assertEqual(len(ring["samples"]["seconds"]), 8)
        # 2 rounds of 1 + 4 steps and one to verify, all within the region
        region = out.result["communication"]["regions"]["sum"]
        self.assertEqual(region["collective"]["calls"]["mean"], 11)
        self.assertEqual(region["p2p"]["messages"]["mean"], 11 * (ranks - 1))

    def test_waiting_is_told_apart(self):
        out = run(KERNEL, 2, "--method", "allreduce", "--separate-waiting", "--repeats", "1")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        sent = out.result["results"][0]["communication"]["collective"]
        self.assertGreater(sent["waiting"]["mean"], 0)
        self.assertLess(sent["waiting"]["mean"], sent["seconds"]["mean"])

    def test_refusal_from_fortran(self):
        out = run(KERNEL, 3, "--factor", "7")
        self.assertEqual(out.code, 2)
        self.assertIn("--factor 7: unlucky", out.stderr)
        self.assertIsNone(out.result)


if __name__ == "__main__":
    KERNEL = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
