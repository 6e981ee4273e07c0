"""bisection-halo as a user runs it: bits on every decomposition, orders of the schemes, faults.

Usage: test_halo.py HALO FAULTY_HALO [unittest arguments]
"""

import math
import sys
import unittest

from kernel_run import assert_refused, checks, entry, listed, run

HALO = FAULTY = ""
ONCE = ("--repeats", "1", "--block", "3", "--warmup", "0")
SMALL = ("pchan-24", "polcoms-48", "thor-24")
PLAIN = ("--baseline", "none")


def checksum(out):
    return out.result["details"]["halo"]["checksum"]


class Decompositions(unittest.TestCase):
    def verified(self, out):
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        for item in out.result["results"]:
            if item["applicable"]:
                self.assertTrue(item["verification"]["passed"], item["method"])
        return checksum(out)

    def test_the_same_bits_on_every_decomposition(self):
        """Each launch verifies that all of its methods give the same bits."""
        for case in SMALL:
            sums = {}
            for ranks in (1, 2, 3, 5, 7):
                out = run(HALO, ranks, "--case", case, *ONCE, *PLAIN, "--ranks-per-node", "2")
                sums[ranks] = self.verified(out)
            self.assertEqual(len(set(sums.values())), 1, f"{case}: {sums}")

    def test_more_ranks_than_cells(self):
        """Ranks without a cell, and halos that reach beyond the neighbour."""
        for case, grid in (("pchan-24", "3,2,1"), ("polcoms-48", "2,2,3"), ("thor-24", "1,3,1")):
            sums = {
                self.verified(
                    run(HALO, ranks, "--case", case, "--grid", grid, *ONCE, *PLAIN,
                        "--ranks-per-node", "3")
                )
                for ranks in (1, 2, 7)
            }  # fmt: skip
            self.assertEqual(len(sums), 1, case)

    def test_permuted_nodes_give_the_permuted_answer(self):
        """The hash knows cells by their place in the grid, not by their number in memory."""
        ordered = run(HALO, 3, "--case", "thor-24", *ONCE, *PLAIN)
        shuffled = run(HALO, 3, "--case", "thor-24", "--order", "shuffled", *ONCE, *PLAIN)
        self.assertEqual(self.verified(ordered), self.verified(shuffled))

    def test_threads_do_not_change_bits(self):
        for case in SMALL:
            sums = {
                self.verified(run(HALO, 2, "--case", case, *ONCE, *PLAIN, threads=threads))
                for threads in (1, 3)
            }
            self.assertEqual(len(sums), 1, case)

    def test_one_rank_has_no_windows_or_has_them(self):
        """A method that cannot run says why."""
        out = run(HALO, 1, *ONCE, *PLAIN)
        away = {e["method"]: e["why"] for e in out.result["results"] if not e["applicable"]}
        self.assertLessEqual(set(away), {"rma-fence", "rma-pscw"})
        for why in away.values():
            self.assertRegex(why, "^MPI makes no window here: MPI_Win_create: ")


class Solutions(unittest.TestCase):
    """The error against the differential equation's solution falls with the scheme's order."""

    def error(self, case, grid, courant, steps, *options):
        out = run(
            HALO, 2, "--case", case, "--grid", grid, "--courant", str(courant), *PLAIN, *options,
            "--method", "isend", "--repeats", "1", "--warmup", "0", "--block", str(steps),
        )  # fmt: skip
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        self.assertIn("solution", checks(out, "isend"))
        return out.result["details"]["halo"]["error_exact"]

    def test_pchan_is_of_fourth_order(self):
        """The time step falls with the square of the cell: leapfrog is of second order in it."""
        coarse = self.error("pchan-24", "24,24,24", 0.2, 30)
        fine = self.error("pchan-24", "48,48,48", 0.1, 120)
        self.assertGreater(math.log2(coarse / fine), 3.9)

    def test_polcoms_is_of_second_order(self):
        coarse = self.error("polcoms-48", "24,24,4", 0.2, 30, "--land", "none")
        fine = self.error("polcoms-48", "96,96,4", 0.2, 120, "--land", "none")
        self.assertGreater(math.log2(coarse / fine) / 2, 1.9)

    def test_thor_is_of_second_order(self):
        """Sweeps are steps of the equation of heat, four times as many for half the cell."""
        coarse = self.error("thor-24", "16,16,16", 0.3, 20)
        fine = self.error("thor-24", "32,32,32", 0.3, 80)
        self.assertGreater(math.log2(coarse / fine), 1.9)


class Counts(unittest.TestCase):
    def test_messages_and_bytes_of_eight_cubes(self):
        """Counted by hand: both neighbours along x are one rank, as along z; y has a wall."""
        out = run(HALO, 8, "--case", "pchan-24", *ONCE, *PLAIN)
        faces = 12 * 12 * 2  # two cells deep
        for method in ("isend", "sendrecv", "persistent", "datatype", "overlap"):
            p2p = entry(out, method)["communication"]["p2p"]
            for which in ("min", "max"):
                self.assertEqual(p2p["messages"][which], 3 * 5, method)
                self.assertEqual(p2p["bytes"][which], (2 + 1 + 2) * faces * 5 * 8, method)
        aggregated = entry(out, "aggregated")["communication"]["p2p"]
        self.assertEqual(aggregated["messages"]["max"], 3)
        self.assertEqual(aggregated["bytes"]["max"], 5 * faces * 5 * 8)
        collective = entry(out, "neighbour-collective")["communication"]["collective"]
        self.assertEqual(collective["messages"]["max"], 3)
        self.assertEqual(collective["bytes"]["max"], 5 * faces * 5 * 8)
        for method in ("rma-fence", "rma-pscw"):
            puts = entry(out, method)["communication"]["one_sided"]
            self.assertEqual(puts["messages"]["max"], 3 * 5)
        self.assertEqual(entry(out, "shm")["communication"]["p2p"]["messages"]["max"], 0)

    def test_shm_sends_what_leaves_the_node(self):
        out = run(HALO, 8, "--case", "pchan-24", *ONCE, *PLAIN, "--ranks-per-node", "4")
        near, far = (entry(out, m)["communication"]["p2p"] for m in ("shm", "isend"))
        self.assertGreater(near["messages"]["mean"], 0)
        self.assertEqual(near["messages"]["mean"], far["off_node_messages"]["mean"])
        self.assertEqual(near["bytes"]["mean"], far["off_node_bytes"]["mean"])

    def test_land_is_neither_computed_nor_sent(self):
        wet, all_of = (
            run(HALO, 4, "--case", "polcoms-48", "--land", land, *ONCE, *PLAIN)
            for land in ("islands", "none")
        )
        details = [out.result["details"]["halo"] for out in (wet, all_of)]
        self.assertLess(details[0]["computed_share"], 0.9)
        self.assertEqual(details[1]["computed_share"], 1)
        self.assertLess(details[0]["received"]["mean"], details[1]["received"]["mean"])
        points = details[0]["points"]
        self.assertLess(points["most"] / points["mean"], 1.1)  # balanced by wet columns


class Faults(unittest.TestCase):
    """Exchanges broken on purpose, from the first on, later, and once."""

    def wrong(self, fault, case, after, *methods, once=False):
        environment = {"BX_FAULT": fault, "BX_FAULT_AFTER": str(after)}
        if once:
            environment["BX_FAULT_ONCE"] = "1"
        chosen = ("--method", ",".join(methods)) if methods else ()
        out = run(FAULTY, 2, "--case", case, *ONCE, *PLAIN, *chosen, **environment)
        failed = {
            e["method"]
            for e in out.result["results"]
            if e["applicable"] and not e["verification"]["passed"]
        }
        ran = {e["method"] for e in out.result["results"] if e["applicable"]}
        return out.code, failed, ran

    def test_every_method_is_caught(self):
        for case in SMALL:
            for fault in ("byte", "swap", "message", "skip"):
                with self.subTest(case=case, fault=fault):
                    code, failed, ran = self.wrong(fault, case, 0)
                    self.assertEqual(code, 1)
                    self.assertEqual(failed, ran)
                    self.assertEqual(ran, set(listed(FAULTY, "methods")))

    def test_one_fault_in_any_exchange_is_caught(self):
        """Two exchanges of marks, three steps of the verification, three that are timed."""
        for fault in ("byte", "swap", "message", "skip", "double"):
            for after in (0, 1, 2, 4, 5, 7):
                if fault == "double" and after < 2:
                    continue  # marks of own cells are read nowhere
                with self.subTest(fault=fault, after=after):
                    code, failed, _ = self.wrong(fault, "pchan-24", after, "isend", once=True)
                    self.assertEqual((code, failed), (1, {"isend"}))

    def test_a_changed_land_is_caught(self):
        code, failed, _ = self.wrong("land", "polcoms-48", 6, "isend", "shm")
        self.assertEqual((code, failed), (1, {"isend", "shm"}))

    def test_unbroken(self):
        for case in SMALL:
            code, failed, _ = self.wrong("none", case, 0)
            self.assertEqual((code, failed), (0, set()))


class Refusals(unittest.TestCase):
    """One line that names the value, no result."""

    def refused(self, code, *arguments, named):
        with self.subTest(arguments=arguments):
            assert_refused(self, run(HALO, 2, *arguments), code, named)

    def test_options(self):
        self.refused(2, "--order", "random", named="--order random: unknown; choose from ordered")
        self.refused(2, "--land", "yes", named="--land yes: unknown; choose from islands, none")
        self.refused(2, "--grid", "0,1,1", named="--grid 0,1,1")
        self.refused(2, "--grid", "5000,1,1", named="--grid 5000,1,1")
        self.refused(2, "--courant", "0.6", named="--courant 0.6")
        self.refused(2, "--case", "pchan-25", named="--case pchan-25")

    def test_too_large(self):
        self.refused(3, "--grid", "4096,4096,4096", named="--grid 4096,4096,4096")


if __name__ == "__main__":
    HALO, FAULTY = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
