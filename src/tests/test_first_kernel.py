"""The example kernels, in C and in Fortran: two programs that give the same.

Usage: test_first_kernel.py EXAMPLE_IN_C EXAMPLE_IN_FORTRAN [unittest arguments]
"""

import sys
import unittest

from kernel_run import assert_refused, checks, run

EXAMPLES = []


class Examples(unittest.TestCase):
    def test_both_are_verified_and_give_the_same(self):
        for ranks in (1, 2, 3):
            seen = []
            for example in EXAMPLES:
                out = run(example, ranks, "--numbers", "99", "--repeats", "2", "--block", "3")
                self.assertEqual(out.code, 0, out.stdout + out.stderr)
                messages = {}
                for result in out.result["results"]:
                    self.assertIn("ratio_allreduce", result["metrics"])
                    rate, time = (result["metrics"][m]["value"] for m in ("rate", "time"))
                    self.assertAlmostEqual(rate * time, 99)
                    sent = result["communication"]["p2p"]
                    messages[result["method"]] = sent["messages"]["max"], sent["bytes"]["max"]
                    self.assertTrue(checks(out, result["method"])["sum"]["passed"])
                hops = ranks - 1
                self.assertEqual(messages, {"allreduce": (0, 0), "ring": (hops, hops * 99 * 8)})
                seen.append(run(example, ranks, "--list").stdout)
            self.assertEqual(*seen)

    def test_refusals(self):
        for example in EXAMPLES:
            for number in ("0", "13", "1000001"):
                out = run(example, 2, "--numbers", number)
                assert_refused(self, out, 2, f"--numbers {number}: ")


if __name__ == "__main__":
    EXAMPLES = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
