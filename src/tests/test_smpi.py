"""Kernels on the machines of src/smpi.

Usage: test_smpi.py FOLDER [unittest arguments]
FOLDER is what a build with BX_SIMULATED was made in. Exit code 77: nothing can be simulated here.
"""

import sys
import unittest
from pathlib import Path

import simulated
from simulated import simulate_machine

FOLDER = Path()
SAMPLE = ("--repeats", "1", "--block", "1", "--warmup", "0")


class Kernels(unittest.TestCase):
    """Each gives the right answer, on one node, an odd part of one, and two."""

    # fmt: off
    KERNELS = {
        "transpose": ("--case", "cnt40", "--bands", "1", "--planner", "estimate"),
        "md": ("--case", "cu3au", "--cells", "8", "--baseline", "none"),
        "npar": ("--bands", "9", "--atoms", "4", "--box", "8", "--cutoff", "15.2",
                 "--planner", "estimate"),
        "patterns": ("--largest", "4096"),
    }
    # fmt: on

    def test_answers_are_right(self):
        for kernel, arguments in self.KERNELS.items():
            for ranks in (1, 3, 8):
                with self.subTest(kernel=kernel, ranks=ranks):
                    out = simulate_machine(FOLDER, kernel, "hector-xt4", ranks, *SAMPLE, *arguments)
                    self.assertEqual(out.code, 0, out.stdout + out.stderr)
                    result = out.result
                    self.assertTrue(result["verified"])
                    expected = {"by": "SimGrid 3.32", "machine": "hector-xt4", "hollow": False}
                    self.assertEqual(result["simulated"] | {"by": expected["by"]}, expected)
                    nodes = [entry["host"] for entry in result["layout"]["per_rank"]]
                    self.assertEqual(nodes, [f"n{rank // 4}" for rank in range(ranks)])

    def test_what_needs_other_libraries_is_refused_by_name(self):
        for kernel, arguments, reason in (
            ("npar", ("--case", "mini1", "--method", "scalapack"), "built without ScaLAPACK"),
            ("npar", ("--case", "mini1", "--method", "elpa"), "built without ScaLAPACK and ELPA"),
            (
                "md",
                ("--case", "sic", "--method", "packed", "--restart", __file__),
                "no restart files",
            ),
        ):
            out = simulate_machine(FOLDER, kernel, "merlin", 2, *SAMPLE, *arguments)
            self.assertIn(out.code, (2, 3))
            self.assertIn(reason, out.stdout + out.stderr)


class Launches(unittest.TestCase):
    def test_bad_machines_and_layouts_are_refused(self):
        for machine, ranks, reason in (
            ("", 2, "'': not one of hector-xt4,"),
            ("cray", 2, "'cray': not one of hector-xt4,"),
            ("merlin gap", 2, "'gap': not QUANTITY=VALUE"),
            ("merlin speed=2", 2, "'speed=2': not QUANTITY=VALUE"),
            ("merlin gap=fast", 2, "'fast' is not a number"),
            ("merlin slow_link=3", 2, "'3' is not a number, or NODE:FACTOR"),
            ("stella", 129, "17 nodes: stella has 16"),
            ("stella", 0, "0 ranks"),
        ):
            out = simulate_machine(FOLDER, "patterns", machine, ranks)
            self.assertEqual((out.code, out.result), (2, None), machine)
            self.assertIn(reason, out.stderr)


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1])
    reason = simulated.missing(FOLDER, *Kernels.KERNELS)
    if reason:
        print("skipped:", reason)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
