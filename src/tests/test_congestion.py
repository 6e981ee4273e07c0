"""bisection-congestion as a user runs it: windows, placement, faults.

Usage: test_congestion.py CONGESTION FAULTY_CONGESTION [unittest arguments]
"""

import sys
import unittest

from kernel_run import assert_refused, listed, run

CONGESTION = FAULTY = ""
ONE = ("--repeats", "1", "--block", "1", "--warmup", "0")
QUICK = (*ONE, "--window", "0.001")
VICTIMS = ["allreduce", "alltoallv", "halo"]
AGGRESSORS = ["incast", "alltoall", "broadcast"]


class Windows(unittest.TestCase):
    def test_each_cycle_has_all_windows(self):
        quick = ("--repeats", "2", "--block", "1", "--warmup", "0", "--window", "0.001")
        out = run(CONGESTION, 4, *quick, "--ranks-per-node", "1")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        self.assertEqual(listed(CONGESTION, "methods"), VICTIMS)
        details = out.result["details"]["congestion"]
        self.assertEqual(details["place"], "apart")
        windows = {(w["victim"], w["cycle"], w["window"]): w for w in details["windows"]}
        self.assertEqual(len(windows), len(details["windows"]))
        wanted = {
            (v, c, w) for v in VICTIMS for c in (0, 1) for w in (*AGGRESSORS, "quiet", "again")
        }
        wanted |= {("alone", c, w) for c in (0, 1) for w in AGGRESSORS}
        self.assertEqual(windows.keys(), wanted)
        for (victim, _, name), window in windows.items():
            self.assertEqual(window["load"] is not None, name in AGGRESSORS)
            if name in AGGRESSORS:
                self.assertGreater(window["load"], 1e5)
            if victim == "alone":
                self.assertIsNone(window["mean"])
                continue
            self.assertGreaterEqual(window["count"], 8)
            self.assertGreater(window["mean"], 0)
            self.assertGreater(window["p99"], 0)
        for entry in out.result["results"]:
            self.assertEqual("quiet" in entry["metrics"], not entry["baseline"])
            if entry["baseline"]:
                continue
            quiet = [windows[entry["method"], c, "quiet"]["mean"] for c in (0, 1)]
            self.assertAlmostEqual(entry["metrics"]["quiet"]["value"] / (sum(quiet) / 2), 1)
            for name in ("again", *AGGRESSORS):
                ratios = [
                    windows[entry["method"], c, name]["mean"]
                    / windows[entry["method"], c, "quiet"]["mean"]
                    for c in (0, 1)
                ]
                metric = entry["metrics"][f"impact_{name}"]
                self.assertAlmostEqual(metric["value"], sum(ratios) / 2)

    def test_too_few_nodes(self):
        for ranks, case, says in (
            (1, "apart", "needs 4 nodes, 2 for victims and 2 for aggressors; there is 1"),
            (3, "apart", "there are 3"),
            (3, "beside", "needs 2 nodes with 2 ranks each; there are 3, one with 1"),
        ):
            out = run(CONGESTION, ranks, *QUICK, "--case", case, "--ranks-per-node", "1")
            self.assertEqual(out.code, 3)
            self.assertIn("bisection-congestion: no method can run here: allreduce: ", out.stderr)
            self.assertIn(says, out.stderr)

    def test_refusals(self):
        for value in ("0", "-1", "nan", "soon"):
            out = run(CONGESTION, 2, "--window", value)
            assert_refused(self, out, 2, f"--window {value}")
        out = run(CONGESTION, 4, "--window", "60", "--ranks-per-node", "1")
        assert_refused(self, out, 3, "--window")


class Clock(unittest.TestCase):
    def test_ranks_that_write_slowly_do_not_lengthen_exchanges(self):
        arguments = (*QUICK, "--ranks-per-node", "1", "--baseline", "none")
        out = run(FAULTY, 5, *arguments, BX_FAULT="slow")  # ranks write for 1 to 5 s of its clock
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        windows = out.result["details"]["congestion"]["windows"]
        self.assertEqual({window["victim"] for window in windows}, {*VICTIMS})
        for window in windows:
            self.assertLess(window["p99"], 1e-3, window)


class Faults(unittest.TestCase):
    def wrong(self, fault: str, first: str, **more: str) -> "dict[str, list[str]]":
        """The names of the checks that did not pass, by method."""
        out = run(FAULTY, 5, *QUICK, "--ranks-per-node", "1", BX_FAULT=fault, BX_FAULT_FROM=first,
                  **more)  # fmt: skip
        self.assertEqual(out.code, 1, out.stdout + out.stderr)
        return {
            entry["method"]: [c["name"] for c in entry["verification"]["checks"] if not c["passed"]]
            for entry in out.result["results"]
        }

    def test_victim_that_receives_a_wrong_bit_is_named(self):
        for victim in VICTIMS:
            for first in ("0", "90"):  # during verification; in a window
                with self.subTest(victim=victim, first=first):
                    wrong = self.wrong(victim, first, BX_FAULT_ONCE="1")
                    self.assertTrue(wrong.pop(victim))
                    self.assertFalse(any(wrong.values()), wrong)

    def test_aggressor_that_receives_a_wrong_bit_is_named(self):
        for aggressor in AGGRESSORS:
            with self.subTest(aggressor=aggressor):
                for checks in self.wrong(aggressor, "0").values():
                    self.assertEqual(checks, [f"content of {aggressor}"])

    def test_first_word_of_any_round_of_an_aggressor_is_looked_at(self):
        for aggressor in AGGRESSORS:
            with self.subTest(aggressor=aggressor):
                wrong = self.wrong(aggressor, "41", BX_FAULT_ONCE="1").values()
                self.assertIn([f"content of {aggressor}"], wrong)


if __name__ == "__main__":
    CONGESTION, FAULTY = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
