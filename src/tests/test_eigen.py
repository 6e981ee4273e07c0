"""bisection-eigen as it is run: every method, spectrum, team and case; refusals; faults.

Usage: test_eigen.py KERNEL FAULTY-KERNEL
"""

import re
import sys
import unittest

from kernel_run import assert_refused, checks, listed, main, run

KERNEL, FAULTY = sys.argv[1:3]
QUICK = ("--repeats", "1")
METHODS = set(listed(KERNEL, "methods"))
ELPA = {"elpa1", "elpa2"}
SPECTRA = ("uniform", "clustered", "graded", "fock")


def entries(out):
    return {entry["method"]: entry for entry in out.result["results"]}


# Of a launch in which ELPA crashes there is no result, and no test.
SMALLEST = run(KERNEL, 1, "--size", "8", *QUICK)
NOT_BUILT = {m for m in ELPA if entries(SMALLEST)[m].get("why") == "built without ELPA"}
ELPA_VERSION = SMALLEST.result["build"]["libraries"].get("elpa", "")


def text(out):
    return out.stdout + out.stderr


def metric(out, method, name):
    return entries(out)[method]["metrics"][name]["value"]


class Answers(unittest.TestCase):
    def verified(self, ranks, *arguments, left_out=frozenset()):
        """Runs a launch that must verify all methods but those that may be left out."""
        out = run(KERNEL, ranks, *arguments, *QUICK)
        self.assertEqual(out.code, 0, text(out))
        solvers = entries(out)
        self.assertEqual(set(solvers), METHODS | {"dsyevd"})
        for method in set(solvers) - left_out - NOT_BUILT:
            self.assertTrue(solvers[method]["applicable"], solvers[method].get("why"))
            tests = checks(out, method)
            for name in ("residual", "eigenvalues", "beside LAPACK", "probe"):
                self.assertEqual(tests[name]["tolerance"], 10)
            limit = 200 if method == "pdsyevr" else 10
            self.assertEqual(tests["orthogonality"]["tolerance"], limit)
        return out

    def test_every_method_spectrum_and_team(self):
        """Real and complex in turns: each spectrum as both, on few ranks and on many."""
        for ranks in (1, 2, 3, 4, 6):
            for place, spectrum in enumerate(SPECTRA):
                if ranks > 2 and (ranks + place) % 2:
                    continue
                more = ("--complex",) if (ranks + place) % 3 == 0 else ()
                with self.subTest(ranks=ranks, spectrum=spectrum, more=more):
                    arguments = ("--size", "70", "--spectrum", spectrum, "--block-size", "8", *more)
                    left_out = {"pdsyevr"} if spectrum == "clustered" else set()
                    out = self.verified(ranks, *arguments, left_out=left_out)
                    self.assertEqual(out.result["details"]["block"], 8)
                    product = metric(out, "pdsyev", "efficiency") * ranks
                    self.assertAlmostEqual(product * metric(out, "pdsyev", "ratio_dsyevd"), 1)

    def test_grids_teams_and_few_rows(self):
        for ranks, arguments, left_out in (
            (6, ("--size", "50", "--grid-rows", "3", "--block-size", "4"), set()),
            (6, ("--size", "40", "--grid-rows", "6", "--complex"), set()),
            (6, ("--size", "50", "--row-major", "--block-size", "4"), set()),
            (6, ("--size", "41", "--row-major", "--complex", "--grid-rows", "3"), set()),
            (4, ("--size", "41", "--team-ranks", "2", "--kpoints", "4"), set()),
            (4, ("--size", "150", "--block-size", "64"), set()),
            (6, ("--size", "2"), ELPA),
            (3, ("--size", "1", "--complex"), ELPA | {"pdsyev"}),
            (1, ("--size", "1"), set()),
        ):
            with self.subTest(ranks=ranks, arguments=arguments):
                self.verified(ranks, *arguments, left_out=left_out)

    def test_cases_in_small(self):
        for ranks, arguments in (
            # of levels in clusters the occupied ones must end with a cluster
            (3, ("--case", "aimpro-mini", "--size", "60", "--spectrum", "clustered")),
            (4, ("--case", "aimpro-mini", "--size", "60", "--kpoints", "4", "--team-ranks", "2")),
            (2, ("--case", "crystal-mini", "--size", "60", "--complex")),
        ):
            with self.subTest(arguments=arguments):
                more = {"pdsyevr"} if "clustered" in arguments else set()
                out = self.verified(ranks, *arguments, left_out={"jacobi", *more})
                self.assertEqual(entries(out)["jacobi"]["applicable"], "crystal" in arguments[1])
                check = "products" if "aimpro" in arguments[1] else "integrals"
                self.assertIn(check, checks(out, "pdsyevd"))

    def test_teams_send_less(self):
        """H06 of HPCxTR0417: k-points on teams of their own lessen the traffic."""
        case = ("--case", "aimpro-mini", "--size", "60", "--kpoints", "4", "--method", "pdsyevd")
        sent = {
            ranks: metric(run(KERNEL, 4, *case, "--team-ranks", ranks, *QUICK), "pdsyevd", "bytes")
            for ranks in ("4", "2", "1")
        }
        self.assertGreater(sent["4"], 1.3 * sent["2"])
        self.assertEqual(sent["1"], 0)


class Jacobi(unittest.TestCase):
    def sweeps(self, ranks, *arguments):
        out = run(KERNEL, ranks, "--method", "jacobi", *arguments, *QUICK)
        self.assertEqual(out.code, 0, text(out))
        return metric(out, "jacobi", "sweeps")

    def test_guesses_spare_sweeps(self):
        for ranks, more in ((1, ("--spectrum", "clustered")), (3, ("--complex",))):
            with self.subTest(ranks=ranks, more=more):
                size = ("--size", "200", *more)
                cold = self.sweeps(ranks, *size)
                near = self.sweeps(ranks, *size, "--guess-error", "1e-3")
                self.assertEqual(self.sweeps(ranks, *size, "--guess-error", "0"), 1)
                self.assertLess(near, cold)
                self.assertLessEqual(self.sweeps(ranks, *size, "--guess-error", "1e-6"), near)

    def test_a_rank_sends_one_block_a_round(self):
        """A block: columns of V and W, a record.  After an odd sweep they return to their ranks."""
        ranks, size = 4, 200
        out = run(KERNEL, ranks, "--method", "jacobi", "--size", str(size), *QUICK)
        self.assertEqual(out.code, 0, text(out))
        sweeps, blocks, width = metric(out, "jacobi", "sweeps"), 2 * ranks, size // (2 * ranks)
        block = 8 * (2 * size * width + width + 2)
        sent = entries(out)["jacobi"]["communication"]["p2p"]["bytes"]["mean"]
        expected = (sweeps * blocks + 2 * (sweeps % 2)) * block
        self.assertAlmostEqual(sent / expected, 1, delta=1e-3)

    def test_memory_is_known_beforehand(self):
        """V and W, 2 n^2/ranks numbers, and small matrices, whose share falls with the size."""
        for ranks in (1, 4):
            out = run(KERNEL, ranks, "--method", "jacobi", "--size", "600", *QUICK)
            self.assertEqual(out.code, 0, text(out))
            both = 2 * 600**2 * 8 / ranks
            asked = metric(out, "jacobi", "matrices") + metric(out, "jacobi", "workspace_asked")
            self.assertGreaterEqual(asked, both)
            self.assertLess(asked, (1.15 if ranks > 1 else 1.08) * both)


class Memory(unittest.TestCase):
    def test_the_claim_holds_the_workspace_of_the_method_that_needs_most(self):
        """pdsyevx has one whole matrix more than pdsyev on each rank."""
        claimed = {}
        for method in ("pdsyev", "pdsyevx", "pdsyev,pdsyevx"):
            out = run(KERNEL, 6, "--size", "300", "--method", method, *QUICK)
            self.assertEqual(out.code, 0, text(out))
            claimed[method] = float(re.search(r"needs ([\d.e+-]+) GiB", out.stdout)[1])
        self.assertEqual(claimed["pdsyev,pdsyevx"], claimed["pdsyevx"])
        more = (claimed["pdsyevx"] - claimed["pdsyev"]) * 2**30 / (8 * 300**2)
        self.assertGreater(more, 4)  # ranks but the first, whose baseline needs more
        self.assertLess(more, 7)


class Refusals(unittest.TestCase):
    def refused(self, code, ranks, *arguments, parts):
        assert_refused(self, run(KERNEL, ranks, *arguments, *QUICK), code, *parts)

    def test_what_does_not_fit_is_refused(self):
        small = ("--size", "20")
        self.refused(2, 4, *small, "--grid-rows", "3", parts=["--grid-rows 3", "4 ranks"])
        self.refused(2, 4, *small, "--team-ranks", "3", parts=["--team-ranks 3", "4 ranks"])
        self.refused(
            2, 4, *small, "--team-ranks", "1", "--kpoints", "3", parts=["--kpoints 3", "4 teams"]
        )
        self.refused(2, 1, *small, "--spectrum", "flat", parts=["flat", "uniform, clustered"])
        self.refused(2, 1, "--size", "0", parts=["--size 0"])
        self.refused(2, 1, *small, "--guess-error", "2", parts=["--guess-error 2"])
        self.refused(
            3, 2, "--size", "32000", "--kpoints", "64", "--limit", "1e9",
            parts=["--size 32000", "GiB"],
        )  # fmt: skip
        long = ("--case", "pdsyevd-3888", "--limit", "90")
        self.refused(3, 2, *long, parts=["--size 3888", "--limit, which is 90 s"])


class Faults(unittest.TestCase):
    def faulty(self, fault, ranks, *arguments, methods="pdsyevd"):
        return run(
            FAULTY, ranks, "--size", "50", "--method", methods, *arguments, *QUICK, BX_FAULT=fault
        )

    def test_without_a_fault_it_verifies(self):
        self.assertEqual(self.faulty("", 2).code, 0)

    def test_wrong_answers_are_found(self):
        everything = ",".join(METHODS - NOT_BUILT)
        for fault, methods, named in (
            ("transpose", everything, ("residual", "probe")),
            ("swap", everything, ("residual", "probe")),
            ("workspace", "pdsyevd,pdsyevr,pdsyevx,pdsyev", ("info",)),
        ):
            for ranks in (2, 4):
                with self.subTest(fault=fault, ranks=ranks):
                    out = self.faulty(fault, ranks, methods=methods)
                    self.assertEqual(out.code, 1, text(out))
                    for method in methods.split(","):
                        tests = checks(out, method)
                        for name in named:
                            error = tests[name]["error"]
                            bad = error is None or error > tests[name]["tolerance"]
                            self.assertTrue(bad, (method, tests))

    def test_elpa_is_built_in_with_a_version_or_not_at_all(self):
        self.assertEqual(NOT_BUILT, set() if ELPA_VERSION else ELPA)

    @unittest.skipUnless(ELPA_VERSION, "built without ELPA")
    def test_elpa2_is_left_out_where_its_vectors_are_wrong_and_nowhere_else(self):
        """Complex rows, one more than k bands, on a grid of more than k rows."""
        for ranks, left_out, *arguments in (
            (4, True, "--size", "33", "--complex"),
            (8, True, "--size", "33", "--complex"),
            (3, True, "--size", "67", "--complex", "--block-size", "3", "--grid-rows", "3"),
            (4, False, "--size", "33"),
            (4, False, "--size", "34", "--complex", "--block-size", "8"),
            (4, False, "--size", "65", "--complex", "--block-size", "8"),
            (4, False, "--size", "33", "--complex", "--grid-rows", "1", "--block-size", "8"),
        ):
            with self.subTest(ranks=ranks, arguments=arguments):
                out = run(KERNEL, ranks, *arguments, "--method", "elpa1,elpa2", *QUICK)
                self.assertEqual(out.code, 0, text(out))
                entry = entries(out)["elpa2"]
                self.assertEqual(entry["applicable"], not left_out, entry["why"])
                if left_out:
                    self.assertRegex(entry["why"], rf"{arguments[1]} complex rows in bands of 3\d")

    def test_workspace_that_does_not_fit_is_refused_before_it_is_allocated(self):
        for methods in ("pdsyevd", "jacobi"):
            out = self.faulty("memory", 3, methods=methods)
            self.assertEqual(out.code, 3, text(out))
            self.assertRegex(out.stderr, r"--size 50 --kpoints 1: needs [\d.e+]+ GiB on this node")
            self.assertIsNone(out.result)

    def test_wrong_work_around_the_solver_is_found(self):
        for fault, case in (("products", "aimpro-mini"), ("integrals", "crystal-mini")):
            out = self.faulty(fault, 2, "--case", case)
            self.assertEqual(out.code, 1, text(out))
            self.assertIn(f"wrong: {fault} error", out.stdout)

    def test_a_matrix_that_is_not_finite_is_not_solved(self):
        for ranks in (1, 3):
            out = self.faulty("nan", ranks, methods=",".join(METHODS - NOT_BUILT))
            self.assertEqual(out.code, 1, text(out))
            self.assertRegex(out.stderr, r"numbers of the matrix are not finite; \w+ is not called")

    def test_a_lost_rank_is_no_hang(self):
        out = self.faulty("lost", 3, "--progress-timeout", "3")
        self.assertEqual(out.code, 4, text(out))
        self.assertIn("nothing finished for 3 s", out.stderr)
        self.assertNotEqual(self.faulty("killed", 3).code, 0)


if __name__ == "__main__":
    main(*sys.argv[3:])
