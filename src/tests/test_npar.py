"""bisection-npar as it is run: every grid of ranks and knob, refusals, the split run, checkpoints.

Usage: test_npar.py KERNEL FAULTY-KERNEL [TEST...]
"""

import os
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from kernel_run import ENVIRONMENT, MPIEXEC, checks, choices, kill, listed, long, main, run

KERNEL, FAULTY = sys.argv[1:3]
QUICK = ("--repeats", "1", "--block", "1", "--planner", "estimate")
SMALL = ("--bands", "9", "--atoms", "1", "--box", "8", "--cutoff", "15.2", *QUICK)
GRIDS = ("--method", "npar")  # without knobs
HYBRID = ("--case", "mini2", *QUICK, "--iterations", "3")
PUBLISHED = listed(KERNEL, "published")
ROUTINES = {
    f"MPI_{name}" for name in ("Isend", "Irecv", "Waitall", "Allreduce", "Alltoall", "Alltoallv")
}
KNOBS = set(listed(KERNEL, "methods")) - {"npar-1"}
# A crash of ELPA is no reason to leave it out.
ELPA = "built without ELPA" not in run(KERNEL, 1, *SMALL, "--driver", "elpa1").stderr
NEEDS_SCALAPACK = unittest.skipIf(
    "built without ScaLAPACK" in run(KERNEL, 1, *SMALL, "--driver", "pdsyevd").stderr,
    "built without ScaLAPACK",
)


def entries(out):
    return {entry["method"]: entry for entry in out.result["results"]}


def text(out):
    return out.stdout + out.stderr


@NEEDS_SCALAPACK
class Grid(unittest.TestCase):
    PLAIN, COMPLEX, NODES = (), ("--kpoints", "2"), ("--ranks-per-node", "2")

    def test_every_grid_of_ranks_and_knob(self):
        for ranks, *options in ((1, self.PLAIN), (2, self.PLAIN, self.COMPLEX, self.NODES),
                                (3, self.COMPLEX, self.NODES), (4, self.PLAIN), (6, self.PLAIN),
                                (8, self.NODES)):  # fmt: skip
            self.verify(ranks, *options)

    @long
    def test_many_ranks(self):
        self.verify(3, self.PLAIN)
        self.verify(8, self.PLAIN, self.COMPLEX)

    def verify(self, ranks, *options):
        for more in options:
            with self.subTest(ranks=ranks, more=more):
                out = run(KERNEL, ranks, *SMALL, *more)
                self.assertEqual(out.code, 0, text(out))
                divisors = {f"npar-{n}" for n in range(1, ranks + 1) if ranks % n == 0}
                entry_of = entries(out)
                self.assertEqual(set(entry_of), divisors | KNOBS)
                for method in divisors | KNOBS - {"elpa"}:
                    self.assertTrue(entry_of[method]["verification"]["passed"], method)
                    agreement = checks(out, method)["agreement"]
                    self.assertEqual(agreement["tolerance"], 1e-10)


class Sweep(unittest.TestCase):
    def test_from_far_away_it_converges_to_the_same_energies(self):
        self.converge(2)

    @long
    def test_from_far_away_it_converges_with_complex_waves(self):
        self.converge(3, "--kpoints", "2")

    def converge(self, ranks, *more):
        far = ("--noise", "0.02", "--iterations", "100")
        with self.subTest(ranks=ranks):
            out = run(KERNEL, ranks, *SMALL, *far, *more)
            self.assertEqual(out.code, 0, text(out))

    def test_teams_that_lie_differently_on_nodes(self):
        """Node boundaries cut the teams of npar-2 and npar-4 at other places."""
        out = run(
            KERNEL, 8, *SMALL, "--ranks-per-node", "3", "--transpose", "leaders",
            "--method", "npar-2,npar-4",
        )  # fmt: skip
        self.assertEqual(out.code, 0, text(out))

    def test_tolerances_follow_from_what_the_cutoff_leaves_out(self):
        for ranks, arguments in (
            (4, ("--box", "6,13,7", "--cutoff", "15", "--bands", "9", "--kpoints", "2")),
            (3, ("--box", "10.6,9.46,7.5", "--cutoff", "12.8", "--bands", "3", "--kpoints", "3")),
        ):
            with self.subTest(arguments=arguments):
                out = run(KERNEL, ranks, "--atoms", "1", *arguments, *GRIDS, *QUICK)
                self.assertEqual(out.code, 0, text(out))
                density = checks(out, "npar-1")["density"]
                self.assertGreater(density["error"], 1e-6)
                self.assertLess(density["tolerance"], 1e-5)
        out = run(KERNEL, 1, "--case", "mini1", *QUICK, "--method", "npar-1")
        self.assertLess(checks(out, "npar-1")["density"]["tolerance"], 1e-6)

    def test_small_gap_does_not_let_the_density_oscillate(self):
        few = ("--bands", "2", "--kpoints", "2", "--iterations", "20", "--method", "npar-1")
        out = run(KERNEL, 1, *SMALL, *few)
        self.assertEqual(out.code, 0, text(out))
        self.assertLess(checks(out, "npar-1")["density"]["error"], 1e-7)

    def test_exact_exchange_of_closed_shells(self):
        box = ("--box", "8", "--cutoff", "15.2", "--atoms", "1")
        for ranks, arguments in (
            (3, (*box, "--bands", "9")),  # with every knob
            (5, (*box, "--bands", "7", *GRIDS)),
            (1, ("--box", "6.34", "--cutoff", "12.2", "--atoms", "2", "--bands", "8")),
            (2, ("--box", "6,7,9.3", "--cutoff", "16", "--atoms", "2", "--bands", "20", *GRIDS)),
        ):
            with self.subTest(ranks=ranks, arguments=arguments):
                out = run(KERNEL, ranks, "--functional", "hybrid", "--gamma", *arguments, *QUICK)
                self.assertEqual(out.code, 0, text(out))


@NEEDS_SCALAPACK
class Matrices(unittest.TestCase):
    def test_elpa_only_where_every_column_of_ranks_has_bands(self):
        few = (*SMALL, "--method", "npar-1,elpa", "--bands")
        for ranks, bands in ((3, 2), (8, 2)):
            with self.subTest(ranks=ranks, bands=bands):
                out = run(KERNEL, ranks, *few, str(bands))
                self.assertEqual(out.code, 0, text(out))
                elpa = entries(out)["elpa"]
                self.assertFalse(elpa["applicable"])
                self.assertRegex(elpa["why"], "grid's|built without ELPA")
        elpa = entries(run(KERNEL, 8, *few, "4"))["elpa"]
        if elpa["applicable"]:
            self.assertTrue(elpa["verification"]["passed"])

    def test_every_driver_of_distributed_matrices(self):
        """Real and complex; 6 ranks are a grid of 2x3, and 10 are more than the bands."""
        for ranks, more in ((1, ()), (6, ("--kpoints", "2")), (3, ("--collectives", "emulated"))):
            for driver in ("pdsyevd", "pdsyevx", "pdsyev", "elpa1", "elpa2"):
                knob = "elpa" if driver.startswith("elpa") else "scalapack"
                if not ELPA and knob == "elpa":
                    continue
                if "emulated" in more and driver not in ("pdsyevd", "elpa2"):
                    continue  # collectives are the same for all drivers of a library
                with self.subTest(ranks=ranks, driver=driver):
                    methods = ("--method", f"npar-1,{knob}", "--driver", driver)
                    out = run(KERNEL, ranks, *SMALL, *more, *methods)
                    self.assertEqual(out.code, 0, text(out))
                    self.assertTrue(entries(out)[knob]["verification"]["passed"])
        out = run(KERNEL, 10, *SMALL, "--method", "scalapack")
        self.assertEqual(out.code, 0, text(out))

    def test_distributed_matrices_take_less_memory_on_more_ranks(self):
        """The second reason for ScaLAPACK in the 2010 report: whole matrices stay on each rank."""
        taken = {}
        for ranks in (1, 2, 4):
            out = run(
                KERNEL, ranks, "--case", "mini1", *QUICK, "--method", "npar-1,scalapack",
                "--iterations", "1",
            )  # fmt: skip
            self.assertEqual(out.code, 0, text(out))
            for method in ("npar-1", "scalapack"):
                metric = entries(out)[method]["metrics"]["matrix_bytes_per_rank"]
                taken[method, ranks] = metric["value"]
        whole = 8 * out.result["details"]["bands"] ** 2
        self.assertEqual(taken["npar-1", 4], taken["npar-1", 1])
        self.assertGreater(taken["npar-1", 1], 3 * whole)  # LAPACK's workspace is two matrices
        self.assertLess(taken["scalapack", 2], 0.7 * taken["scalapack", 1])
        self.assertLess(taken["scalapack", 4], 0.5 * taken["scalapack", 1])


@NEEDS_SCALAPACK
class Options(unittest.TestCase):
    def test_hybrid_fixes_npar(self):
        out = run(KERNEL, 3, *HYBRID, *GRIDS)
        self.assertEqual(out.code, 0, text(out))
        entry_of = entries(out)
        self.assertIn("fixes NPAR at the number of ranks", entry_of["npar-1"]["why"])
        self.assertTrue(entry_of["npar-3"]["verification"]["passed"])
        self.assertLess(checks(out, "npar-3")["exchange"]["error"], 1e-10)

    def test_more_ranks_than_atoms_planes_and_bands(self):
        out = run(
            KERNEL, 16, *SMALL, "--bands", "5", "--grid", "16,16,16",
            "--method", "npar-1,npar-16,paw-alltoall", "--projectors", "by-atom",
        )  # fmt: skip
        self.assertEqual(out.code, 0, text(out))
        self.assertEqual(out.result["details"]["idle_ranks"], 15)
        idle = entries(out)["npar-16"]["metrics"]["idle_share"]
        self.assertAlmostEqual(idle["value"], 15 / 16)

    def test_knobs_as_options(self):
        for more in (
            ("--collectives", "emulated", "--paw-reduce", "alltoall", "--zeroing", "on"),
            ("--linear-algebra", "scalapack", "--kpoints", "2"),
            ("--projectors", "by-atom", "--kpoints", "2", "--zeroing", "on"),
            ("--projectors", "by-atom"),
            ("--npar", "2", "--gamma", "--minimisations", "3"),
        ):
            with self.subTest(more=more):
                out = run(KERNEL, 4, *SMALL, *GRIDS, *more)
                self.assertEqual(out.code, 0, text(out))
        out = run(KERNEL, 4, *SMALL, *GRIDS, "--npar", "2")
        self.assertEqual(entries(out)["npar-2"]["metrics"]["ratio_base"]["value"], 1)
        self.assertIn("--npar 2", entries(out)["npar-4"]["why"])

    def test_every_transpose_method(self):
        methods = choices(KERNEL, "--transpose")
        self.assertIn("overlap", methods)
        for method in methods:
            with self.subTest(method=method):
                out = run(
                    KERNEL, 4, *SMALL, "--transpose", method, "--ranks-per-node", "2",
                    "--method", "npar-1",
                )  # fmt: skip
                lacks_library = "no method can run here: npar-1: built without" in out.stderr
                self.assertEqual(out.code, 3 if lacks_library else 0, text(out))

    def test_threads(self):
        out = run(KERNEL, 2, *SMALL, threads=2)
        self.assertEqual(out.code, 0, text(out))

    def test_the_best_and_the_profile(self):
        out = run(KERNEL, 4, *SMALL, "--method", "npar,zeroing,scalapack", "--profile",
                  "--separate-waiting")  # fmt: skip
        best = out.result["best"]["npar"]
        self.assertEqual(entries(out)[best]["metrics"]["ratio_best"]["value"], 1)
        self.assertNotIn("ratio_best", entries(out)["zeroing"]["metrics"])
        profile = entries(out)["npar-1"]["profile"]
        self.assertAlmostEqual(profile["user"] + profile["library"] + profile["MPI"], 1)
        names = [part["name"] for part in profile["parts"]]
        self.assertEqual(len(names), len(set(names)))
        for name in ("MPI_Allreduce", "waiting for MPI_Allreduce", "MPI_Alltoallv", "fft2d"):
            self.assertIn(name, names)
        scalapack = [part["name"] for part in entries(out)["scalapack"]["profile"]["parts"]]
        self.assertTrue([name for name in scalapack if "(ScaLAPACK)" in name], scalapack)
        self.assertIn("time of npar-2, mean over ranks", out.stdout)
        phases = entries(out)["npar-1"]["samples"]["phases"]
        self.assertNotIn("paw-wait", phases)  # no barrier of our own before the sum


@NEEDS_SCALAPACK
class Published(unittest.TestCase):
    """Codes as published: of VASP's ladder each is the one before with one change."""

    def climb(self, ranks, *more):
        """Launches all; returns the MPI routines of each."""
        out = run(KERNEL, ranks, *SMALL, "--method", "published", "--profile", *more)
        self.assertEqual(out.code, 0, text(out))
        entry_of = entries(out)
        self.assertEqual(list(entry_of), PUBLISHED)
        for name, entry in entry_of.items():
            self.assertTrue(entry["verification"]["passed"], name)
            for count in ("messages", "bytes"):
                self.assertEqual(checks(out, name)[count]["tolerance"], 0)
        self.assertEqual(entry_of["original"]["metrics"]["ratio_original"]["value"], 1)
        self.assertNotIn("ratio_base", entry_of["original"]["metrics"])
        return {
            name: {part["name"] for part in entry["profile"]["parts"]} & ROUTINES
            for name, entry in entry_of.items()
        }

    def test_every_code_on_every_number_of_ranks(self):
        points = ("--kpoints", "2")
        for ranks, *options in ((1, ()), (2, points), (3, ("--npar", "3")), (4, points)):
            self.climb_on(ranks, *options)

    @long
    def test_every_code_with_the_other_options(self):
        points = ("--kpoints", "2")
        for ranks, *options in ((2, (), ("--npar", "2")), (3, (), points), (4, (), ("--npar", "4")),
                                (6, (), points, ("--npar", "6"))):  # fmt: skip
            self.climb_on(ranks, *options)

    def climb_on(self, ranks, *options):
        for more in options:
            with self.subTest(ranks=ranks, more=more):
                self.climb(ranks, *more, "--ranks-per-node", "2" if ranks % 2 == 0 else "3")

    def test_each_rung_changes_what_the_report_changed(self):
        """MPI_Alltoall redistributes bands, MPI_Alltoallv is of the FFT: told apart."""
        apart = ("--ranks-per-node", "1")
        routines = self.climb(4, "--npar", "2", "--bands", "8", *apart)
        usual = {"MPI_Allreduce", "MPI_Alltoall", "MPI_Alltoallv"}
        self.assertEqual(routines["original"], {"MPI_Isend", "MPI_Irecv", "MPI_Waitall"})
        for name in ("collectives", "allreduce", "nozero", "with-scalapack", "with-shm", "shm"):
            self.assertEqual(routines[name], usual, name)
        self.assertEqual(routines["padded"], {"MPI_Allreduce", "MPI_Alltoall"})
        alone = self.climb(4, "--npar", "1", *apart)
        self.assertIn("MPI_Alltoall", alone["collectives"])  # of the PAW sum
        self.assertNotIn("MPI_Alltoall", alone["allreduce"])
        uneven = self.climb(4, "--npar", "4", "--bands", "9", *apart)
        self.assertNotIn("MPI_Alltoall", uneven["allreduce"])

    def test_options_leave_published_codes_as_they_are(self):
        """A code that equals the base is measured; --npar and --driver are no knobs."""
        more = ("--zeroing", "on", "--transpose", "direct", "--paw-reduce", "alltoall")
        self.assertEqual(self.climb(2), self.climb(2, *more))
        out = run(KERNEL, 2, *SMALL, "--method", "all")
        self.assertFalse(set(PUBLISHED) & set(entries(out)))
        out = run(KERNEL, 2, *SMALL, "--method", "nozero,npar", "--driver", "pdsyev")
        self.assertEqual(list(entries(out)), ["npar-1", "npar-2", "nozero"])

    def test_shm_takes_no_team_that_cuts_nodes(self):
        reason = "NPAR 2: teams of 3 ranks cut nodes; shm needs teams of whole nodes, or within one"
        for ranks, node, npar, why in (
            (6, 4, 1, None), (6, 4, 2, reason), (8, 2, 2, None), (6, 4, 6, None),
        ):  # fmt: skip
            with self.subTest(ranks=ranks, npar=npar):
                out = run(KERNEL, ranks, *SMALL, "--npar", str(npar), "--ranks-per-node", str(node),
                          "--method", "nozero,shm,with-shm")  # fmt: skip
                self.assertEqual(out.code, 0, text(out))
                for name in ("shm", "with-shm"):
                    self.assertEqual(entries(out)[name].get("why"), why)
        out = run(KERNEL, 6, *SMALL, "--npar", "2", "--ranks-per-node", "4", "--transpose", "shm",
                  "--method", "npar-2")  # fmt: skip
        self.assertEqual(out.code, 2, text(out))
        self.assertIn(reason, out.stderr)

    def test_first_stage_of_gww(self):
        """All ranks share a transform, so that its exchange is what differs."""
        out = run(KERNEL, 4, "--case", "cnt40-scf", *QUICK, "--ranks-per-node", "2",
                  "--method", "nozero,shm,padded")  # fmt: skip
        self.assertEqual(out.code, 0, text(out))
        self.assertEqual(out.result["details"]["base_npar"], 1)
        self.assertEqual(out.result["details"]["grid_points"], 30**3)

    def test_exchange_of_gww(self):
        """The ranks of one team share the FFTs of pair densities, on odd ranks and nodes, too."""
        for ranks in (1, 3, 5):
            out = run(KERNEL, ranks, "--case", "cnt40-nscf2", *QUICK, "--ranks-per-node", "2",
                      "--method", "nozero,shm,padded,node-aware")  # fmt: skip
            self.assertEqual(out.code, 0, text(out))
            for name in ("nozero", "shm", "padded", "node-aware"):
                verified = checks(out, name)
                wanted = ("exchange", "exchanged bands", "messages", "bytes")
                self.assertTrue(all(verified[check]["passed"] for check in wanted), name)
        out = run(KERNEL, 2, "--case", "cnt40-nscf2", "--npar", "2", "--method", "npar-2")
        self.assertEqual(out.code, 2, text(out))
        self.assertIn("--npar 2: a hybrid functional fixes NPAR at 1", out.stderr)

    def test_idle_ranks_wait_in_the_reduction(self):
        """The report's profiles have the wait in MPI_Allreduce; an option tells it apart."""
        for more, waits in ((), False), (("--separate-waiting",), True):
            out = run(KERNEL, 4, *SMALL, "--method", "npar-4", "--profile", *more)
            self.assertEqual(out.code, 0, text(out))
            names = {part["name"] for part in entries(out)["npar-4"]["profile"]["parts"]}
            self.assertEqual("waiting for MPI_Allreduce" in names, waits)
            self.assertEqual(entries(out)["npar-4"]["metrics"]["idle_share"]["value"], 0.75)


@NEEDS_SCALAPACK
class Wrong(unittest.TestCase):
    def test_a_broken_exchange_is_found(self):
        for way in ("forward", "inverse"):
            with self.subTest(way=way):
                methods = ("--method", "all,published")
                out = run(FAULTY, 2, *SMALL, *methods, BX_FAULT="swap", BX_FAULT_WAY=way)
                self.assertEqual(out.code, 1, text(out))
                for method in ("npar-1", "npar-2", *PUBLISHED):
                    # the residual may fall: the wrong operator has eigenstates too
                    for name in ("bands", "density"):
                        self.assertFalse(checks(out, method)[name]["passed"], name)
                    self.assertTrue(checks(out, method)["messages"]["passed"])

    def test_refusals(self):
        for ranks, arguments, words in (
            (4, ("--npar", "3"), "--npar 3: does not divide the 4 ranks; choose from 1, 2, 4"),
            (4, ("--npar", "8"), "choose from 1, 2, 4"),
            (2, ("--case", "mini2", "--npar", "1"),
             "a hybrid functional fixes NPAR at the number of ranks, 2"),
            (1, ("--functional", "lda"), "--functional lda: unknown; choose from gga, hybrid"),
            (1, ("--collectives", "none"), "choose from mpi, emulated"),
            (1, ("--paw-reduce", "x"), "choose from allreduce, alltoall"),
            (1, ("--zeroing", "maybe"), "choose from on, off"),
            (1, ("--projectors", "x"), "choose from together, by-atom"),
            (1, ("--linear-algebra", "magma"), "choose from lapack, scalapack"),
            (1, ("--driver", "jacobi"), "--driver jacobi: no solver of distributed matrices"),
            (1, ("--driver", "lapack"), "--driver lapack: the solver of whole matrices"),
            (2, ("--driver", "pdsyevr"), "vectors of equal eigenvalues are not orthogonal"),
            (1, ("--transpose", "magic"), "choose from alltoallv, p2p"),
            (1, ("--gamma", "--kpoints", "2"), "one or the other"),
            (1, ("--functional", "hybrid", "--kpoints", "2"), "for real waves only"),
            (1, ("--box", "a"), "--box a: not L or LX,LY,LZ"),
            (1, ("--box", "1,2"), "--box 1,2: not L or LX,LY,LZ"),
            (1, ("--grid", "8,44,44", "--cutoff", "13"), "too small for the cutoff"),
            (1, ("--bands", "3000"), "--bands 3000 --atoms 16: too many for a cutoff"),
            (1, ("--atoms", "500"), "--atoms 500: too many for a cutoff"),
            (1, ("--bands", "1"), "--bands 1: not a whole number from 2"),
            (1, ("--bands", "32767"), "--bands 32767: not a whole number from 2 to 32766"),
            (1, ("--box", "1e-9"), "--box 1e-9: along one edge the cutoff, 13.75 Hartree"),
            (1, ("--box", "9999"), "--box 9999: the grid would have"),
            (1, ("--cutoff", "1e6"), "--cutoff 1E+06: the grid would have"),
            (1, ("--noise", "0.1"), "--noise 0.1 --iterations 2: may not converge"),
            (7, ("--case", "mini2", "--bands", "4"), "--functional hybrid --bands 4: exact"),
            (7, ("--case", "mini2", "--bands", "4"), "try --bands 7"),
            (4, ("--functional", "hybrid", "--box", "10.6,10.2,10.5", "--cutoff", "13", "--atoms",
                 "3", "--bands", "7"), "exact exchange may multiply errors by 6.7 a step"),
            (4, ("--box", "9.73", "--cutoff", "17.8", "--atoms", "1", "--bands", "5", "--kpoints",
                 "1", "--noise", "0.1", "--iterations", "100", "--method", "npar-4"),
             "--noise 0.1: npar-4 converges, but needs more --iterations"),
            (1, ("--functional", "hybrid", "--box", "8", "--cutoff", "4", "--grid", "8,8,8",
                 "--atoms", "1", "--bands", "100"), "at least 11,11,11"),
            (4, ("--npar", "2", "--method", "npar-4"), "--method npar-4: --npar 2 alone"),
            (1, ("--kpoints", "0"), "--kpoints 0: not a whole number from 1"),
            (1, ("--case", "mini2", "--split-calculation", "1"), "needs --checkpoint FILE"),
            (1, ("--checkpoint", "x"), "goes with --split-calculation 1 or 2"),
            (1, ("--split-calculation", "1", "--checkpoint", "x"), "--functional hybrid"),
            (2, ("--case", "mini2", "--split-calculation", "1", "--checkpoint", "x"),
             "needs one method"),
            (1, ("--case", "bench9"), "--case bench9: unknown"),
            (1, ("--method", "npar-2"), "--method npar-2: unknown"),
        ):  # fmt: skip
            with self.subTest(arguments=arguments):
                out = run(KERNEL, ranks, *arguments)
                self.assertEqual(out.code, 2, text(out))
                self.assertIn(words, out.stderr)
                self.assertIsNone(out.result)

    def test_sizes_that_need_hours_or_a_larger_machine(self):
        for arguments, words in (
            (("--case", "bench2"), "--case bench2 --functional hybrid: takes about"),
            (("--case", "bench4"), "--case bench4 --kpoints 108: takes about"),
            (("--bands", "32766", "--atoms", "1", "--cutoff", "20", "--box", "25"),
             "--grid 105,105,105: the bands of a rank are over MPI's count limit of 2^31 - 1"),
        ):  # fmt: skip
            with self.subTest(arguments=arguments):
                out = run(KERNEL, 1, *arguments)
                self.assertEqual(out.code, 3, text(out))
                self.assertIn(words, out.stderr)
                self.assertEqual(out.stdout, "")

    def test_estimate_is_near_the_time_taken(self):
        """The fastest step, which neighbours disturb least, within a factor of ten; measured: 3."""
        out = run(KERNEL, 1, "--case", "mini1", "--method", "npar-1", "--repeats", "5", *QUICK[2:])
        words = out.stdout.splitlines()[0].rpartition("about ")[2].split()
        self.assertEqual(words[1], "s", out.stdout)
        steps = 5 * 2 + 3
        taken = steps * entries(out)["npar-1"]["metrics"]["time_min"]["value"]
        self.assertLess(float(words[0]), 10 * taken)
        self.assertGreater(float(words[0]), taken / 10)


class Split(unittest.TestCase):
    """Diagonalisation, checkpoint, and exchange from it (finding G21)."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.file = Path(self.folder.name, "bands")

    def part(self, number, ranks, *more):
        file = ("--checkpoint", str(self.file)) if number else ()
        arguments = ("--method", f"npar-{ranks}", "--split-calculation", str(number))
        return run(KERNEL, ranks, *HYBRID, *arguments, *file, *more)

    def refused(self, *words, ranks=2, more=()):
        out = self.part(2, ranks, *more)
        self.assertEqual(out.code, 2, text(out))
        for word in (str(self.file), *words):
            self.assertIn(word, out.stderr)

    def test_in_two_parts_as_in_one(self):
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                whole, first, second = (self.part(number, ranks) for number in (0, 1, 2))
                for out in (whole, first, second):
                    self.assertEqual(out.code, 0, text(out))
                self.assertEqual(
                    whole.result["details"]["exchange_energy"].hex(),
                    second.result["details"]["exchange_energy"].hex(),
                )

    def test_what_is_no_checkpoint_of_this_calculation(self):
        self.refused("No such file")
        self.file.write_text("short")
        self.refused("is no bisection-npar-checkpoint-2, or truncated")
        self.assertEqual(self.part(1, 2).code, 0)
        good = self.file.read_bytes()
        self.refused("its ranks is 2, here it is 3", ranks=3)
        self.refused("its bands is 16, here it is 12", more=("--bands", "12"))
        self.refused("its seed is 1, here it is 5", more=("--seed", "5"))
        self.file.write_bytes(good[: len(good) // 2])
        self.refused("truncated")
        self.file.write_bytes(good.replace(b"npar-checkpoint-2", b"npar-checkpoint-9"))
        self.refused("is no bisection-npar-checkpoint-2")
        damaged = bytearray(good)
        damaged[len(good) // 2] ^= 1
        self.file.write_bytes(damaged)
        self.refused("is damaged")
        self.file.write_bytes(good)
        self.assertEqual(self.part(2, 2).code, 0)

    def test_file_that_cannot_be_is_refused_before_anything_is_computed(self):
        pipe, device = Path(self.folder.name, "pipe"), Path(self.folder.name, "null")
        os.mkfifo(pipe)
        files = [pipe, Path(self.folder.name), Path(self.folder.name, "missing", "bands")]
        if os.geteuid() == 0:  # who could replace it
            os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            files.append(device)
        for number in (1, 2):
            for self.file in files:
                with self.subTest(number=number, file=self.file):
                    out = self.part(number, 2)
                    self.assertEqual((out.code, out.stdout), (2, ""), text(out))
                    self.assertIn(f"--checkpoint {self.file}: ", out.stderr)
        if device in files:
            self.assertTrue(stat.S_ISCHR(device.stat().st_mode))

    def test_full_disk_keeps_the_older_file(self):
        disk = Path(self.folder.name, "disk")
        disk.mkdir()
        mount = ("mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk))
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode != 0:
            self.skipTest("a small file system cannot be mounted here")
        self.addCleanup(subprocess.run, ("umount", str(disk)), check=True)
        self.file = disk / "bands"
        self.file.write_text("older")
        out = self.part(1, 2)
        self.assertEqual(out.code, 3, text(out))
        lines = [line for line in out.stderr.splitlines() if line.startswith("bisection-npar")]
        self.assertEqual(len(lines), 1, text(out))
        self.assertIn("No space left on device", lines[0])
        self.assertEqual([file.name for file in disk.iterdir()], ["bands"])
        self.assertEqual(self.file.read_text(), "older")

    def test_killed_while_writing(self):
        self.assertEqual(self.part(1, 2).code, 0)
        good = self.file.read_bytes()
        partial = Path(f"{self.file}.partial")
        # Many plane waves of few bands: a long file after a short calculation.
        large = ("--iterations", "1", "--bands", "8", "--atoms", "1", "--cutoff", "160")
        one = ("--method", "npar-2", "--split-calculation", "1", "--checkpoint", str(self.file))
        caught, tries = 0, 0
        while caught < 2 and tries < 5:
            tries += 1
            process = subprocess.Popen(
                [*MPIEXEC, "-n", "2", KERNEL, *HYBRID, *large, *one],
                env={**os.environ, **ENVIRONMENT, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
            while process.poll() is None and not partial.exists():
                time.sleep(0.0005)
            caught += process.poll() is None
            kill(process)
            if self.file.read_bytes() != good:
                self.assertFalse(partial.exists(), "the file changed, and a part is left")
                self.file.write_bytes(good)  # it was whole before it was killed: try again
            partial.unlink(missing_ok=True)
        self.assertGreater(caught, 0, "it was never caught writing")
        self.assertEqual(self.part(2, 2).code, 0)


if __name__ == "__main__":
    main(*sys.argv[3:])
