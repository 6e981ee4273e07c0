"""bisection-transpose as a user runs it: findings, faults, refusals.

Usage: test_transpose.py TRANSPOSE FAULTY_TRANSPOSE COUNTING_TRANSPOSE [unittest arguments]
"""

import re
import sys
import tempfile
import unittest
from pathlib import Path

from kernel_run import assert_refused, built, checks, entry, inapplicable, long, main, run

TRANSPOSE = FAULTY = COUNTING = ""
METHODS: "list[str]" = []
QUICK = ("--repeats", "1", "--block", "1")
AGGREGATED = ("shm", "shm-padded", "gather-scatter", "leaders")


class Findings(unittest.TestCase):
    """What Bethune (2010) states and any machine can show."""

    def test_g17_g18_messages_and_distribution(self):
        out = run(TRANSPOSE, 16, "--case", "cnt40", "--ranks-per-node", "4", "--bands", "1",
                  "--planner", "estimate", "--baseline", "none", *QUICK)  # fmt: skip
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        details = out.result["details"]
        self.assertEqual(
            details["distribution"]["planes"], [{"ranks": 14, "each": 2}, {"ranks": 2, "each": 1}]
        )
        self.assertEqual(
            details["distribution"]["columns"],
            [{"ranks": 1, "each": 42}, {"ranks": 15, "each": 41}],
        )
        self.assertEqual(details["distribution"]["block_sizes"], [84, 82, 42, 41])
        self.assertEqual(round(details["distribution"]["elements_mean"]), 1232)
        self.assertEqual(details["distribution"]["elements_padded"], 1344)
        counts = details["counts"]
        self.assertEqual(counts["alltoallv"]["64 ranks, 4 per node"]["messages"], 4032)
        self.assertEqual(counts["shm"]["64 ranks, 4 per node"]["messages"], 240)
        published = counts["alltoallv"]["288 ranks, 24 per node"]
        self.assertEqual((published["messages"], published["off_node_messages"]), (82656, 76032))
        self.assertEqual(counts["shm"]["288 ranks, 24 per node"]["messages"], 132)
        for method in METHODS:
            self.assertTrue(checks(out, method)["messages sent"]["passed"], method)
            self.assertIn(method, out.stdout)

    @long
    def test_g19_a_thousand_loops(self):
        """Largest element error about 1e-14 of a normalised band, as a wave function is.

        Our elements are of order one, a normalised band's smaller by its norm.
        """
        out = run(
            TRANSPOSE, 2, "--case", "cnt80", "--bands", "1", "--method", "direct",
            "--baseline", "none", "--repeats", "1", "--block", "999", "--warmup", "1",
        )  # fmt: skip
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        elements = out.result["details"]["distribution"]["columns_total"] * 81
        norm = (elements * 2 / 3) ** 0.5  # real and imaginary parts are uniform in [-1, 1)
        error = checks(out, "direct")["loop"]["error"] / norm
        self.assertGreater(error, 0)
        self.assertLess(error, 1e-14)


class Published(unittest.TestCase):
    def test_blocks_of_one_node_are_exchanged_as_published(self):
        """A node's root exchanges with itself, where ours has its ranks read or copies."""
        size = ("--case", "cnt40", "--bands", "1", "--method", ",".join(AGGREGATED), *QUICK)
        for published in ((), ("--published",)):
            out = run(TRANSPOSE, 3, *size, "--baseline", "none", "--profile", *published)
            self.assertEqual(out.code, 0, out.stdout + out.stderr)
            for method in AGGREGATED:
                parts = {part["name"] for part in entry(out, method)["profile"]["parts"]}
                self.assertEqual(any(name in parts for name in ("MPI_Alltoall", "MPI_Alltoallv")),
                                 bool(published), method)  # fmt: skip
                self.assertTrue(checks(out, method)["messages sent"]["passed"], method)


class Verification(unittest.TestCase):
    """Each method, broken on purpose, is caught."""

    def test_faults_are_caught(self):
        """On one node and on three in turns: each fault, and each way, on both."""
        for place, fault in enumerate(("swap", "byte", "skip")):
            for turn, way in enumerate(("forward", "inverse")):
                ranks, nodes = ((2, ()), (5, ("--ranks-per-node", "2")))[(place + turn) % 2]
                with self.subTest(fault=fault, way=way, ranks=ranks):
                    out = run(
                        FAULTY, ranks, "--grid", "9,8,10", "--bands", "2", *nodes, *QUICK,
                        BX_FAULT=fault, BX_FAULT_WAY=way,
                    )  # fmt: skip
                    self.assertEqual(out.code, 1, out.stdout + out.stderr)
                    self.assertFalse(out.result["verified"])
                    for method in METHODS:
                        self.assertFalse(checks(out, method)["exchange"]["passed"], method)

    def test_faults_are_caught_in_what_was_published(self):
        for way in ("forward", "inverse"):
            for nodes in ((), ("--ranks-per-node", "2")):
                with self.subTest(way=way, nodes=nodes):
                    out = run(
                        FAULTY, 5, "--grid", "9,8,10", "--bands", "2", "--published", *nodes,
                        *QUICK, BX_FAULT="byte", BX_FAULT_WAY=way,
                    )  # fmt: skip
                    self.assertEqual(out.code, 1, out.stdout + out.stderr)
                    for method in AGGREGATED:
                        self.assertFalse(checks(out, method)["exchange"]["passed"], method)

    def test_faults_are_caught_in_each_of_two_exchanges(self):
        for exchange in ("first", "second"):
            for way in ("forward", "inverse"):
                for more in ((), ("--published",)):
                    with self.subTest(exchange=exchange, way=way, more=more):
                        out = run(
                            FAULTY, 5, "--grid", "9,8,10", "--bands", "2", "--exchanges", "2",
                            "--ranks-per-node", "2", *more, *QUICK,
                            BX_FAULT="byte", BX_FAULT_WAY=way, BX_FAULT_EXCHANGE=exchange,
                        )  # fmt: skip
                        self.assertEqual(out.code, 1, out.stdout + out.stderr)
                        for method in METHODS:
                            self.assertFalse(checks(out, method)["exchange"]["passed"], method)

    def test_faults_that_begin_when_timing_does(self):
        """Verification before the timing has 3 exchanges a way; a later fault is the loop's."""
        for way in ("forward", "inverse"):
            for more in ((), ("--transpose-only",)):
                with self.subTest(way=way, more=more):
                    out = run(
                        FAULTY, 3, "--grid", "9,8,10", "--bands", "1", "--repeats", "2",
                        "--block", "2", *more,
                        BX_FAULT="skip", BX_FAULT_WAY=way, BX_FAULT_FROM="3",
                    )  # fmt: skip
                    self.assertEqual(out.code, 1, out.stdout + out.stderr)
                    for method in METHODS:
                        self.assertTrue(checks(out, method)["exchange"]["passed"], method)
                        self.assertFalse(checks(out, method)["loop"]["passed"], method)

    def test_fault_in_any_one_exchange_is_caught(self):
        """Three exchanges a way verify; then warm-up and two samples of five bands each. The two
        faults in turns: each way has each of them three times."""
        # a byte's lowest bits drown in the rounding of an FFT
        faults = (("swap", ()), ("byte", ("--transpose-only",)))
        for place, after in enumerate((3, 4, 8, 10, 14, 17)):
            for turn, way in enumerate(("forward", "inverse")):
                fault, more = faults[(place + turn) % 2]
                with self.subTest(way=way, after=after, more=more):
                    out = run(
                        FAULTY, 3, "--grid", "9,8,10", "--bands", "5", "--repeats", "1",
                        "--block", "2", "--baseline", "none", *more,
                        BX_FAULT=fault, BX_FAULT_WAY=way, BX_FAULT_FROM=str(after),
                        BX_FAULT_ONCE="1",
                    )  # fmt: skip
                    self.assertEqual(out.code, 1, out.stdout + out.stderr)
                    for method in METHODS:
                        self.assertFalse(checks(out, method)["loop"]["passed"], method)

    def test_the_same_methods_unbroken(self):
        out = run(FAULTY, 3, "--grid", "9,8,10", "--bands", "2", *QUICK)
        self.assertEqual(out.code, 0, out.stdout + out.stderr)


class Planes(unittest.TestCase):
    """A rank has whole planes: only numbers of ranks that divide them share real space evenly."""

    def check(self, ranks: int, busiest: int, mean: float, *size: str) -> None:
        """The points of the busiest rank and the mean of all, in planes or rows."""
        out = run(TRANSPOSE, ranks, *size, "--bands", "1", "--method", "alltoallv,direct",
                  "--planner", "estimate", "--baseline", "none", *QUICK)  # fmt: skip
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        for method in ("alltoallv", "direct"):
            imbalance = entry(out, method)["metrics"]["imbalance"]["value"]
            self.assertAlmostEqual(imbalance, busiest / mean, places=12)

    def test_numbers_of_ranks_that_divide_the_planes_and_others(self):
        for ranks, busiest in ((1, 48), (3, 16), (5, 10), (7, 7)):
            self.check(ranks, busiest, 48 / ranks, "--case", "cpmd-mini")

    def test_ranks_without_planes(self):
        self.check(5, 1, 3 / 5, "--grid", "9,8,3")

    def test_rows_after_a_second_exchange(self):
        self.check(5, 5, 8 * 3 / 5, "--grid", "9,8,3", "--exchanges", "2")


class Sizes(unittest.TestCase):
    """The serial reference to 128^3, plane waves above."""

    SERIAL = (2, "serial transform", "--grid", "128,128,128")
    WAVES = (3, "plane waves", "--grid", "132,128,128", "--radius", "40")

    def check(self, methods, ranks, reference, *size):
        out = run(TRANSPOSE, ranks, *size, "--bands", "1", "--planner", "estimate", "--baseline",
                  "none", "--method", ",".join(methods), *QUICK)  # fmt: skip
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        for method in methods:
            self.assertIn(reference, checks(out, method))

    def test_serial_reference(self):
        self.check(("alltoallv", "direct"), *self.SERIAL)

    def test_plane_waves(self):
        self.check(("alltoallv", "direct"), *self.WAVES)

    def test_plane_waves_of_columns_throughout(self):
        self.check(("alltoallv", "direct"), *self.WAVES, "--exchanges", "2")

    def test_nodes_without_columns_or_planes(self):
        size = ("--grid", "2,3,2", "--ranks-per-node", "2")
        for more in ((), ("--published",), ("--exchanges", "2")):
            self.check(METHODS, 8, "serial transform", *size, *more)

    @long
    def test_every_method(self):
        self.check(METHODS, *self.SERIAL)
        self.check(METHODS, *self.WAVES)


class Refusals(unittest.TestCase):
    """One line naming the value and what is allowed, the code, and nothing left behind."""

    def refused(self, code: int, *arguments: str, named: str):
        with self.subTest(arguments=arguments):
            out = run(TRANSPOSE, 3, *arguments)
            assert_refused(self, out, code, named)
            self.assertEqual(out.leftovers, [])

    def test_usage(self):
        self.refused(2, "--methd", "shm", named="--methd")
        self.refused(2, "--method", "shmm", named="shm-padded")
        self.refused(2, "--case", "cnt41", named="cnt40, cnt80")
        self.refused(2, "--ranks-per-node", "0", named="from 1")
        self.refused(2, "--grid", "0,0,0", named="from 1")
        self.refused(2, "--repeats", "-1", named="-1")
        self.refused(2, "--repeats", "1e9999", named="1e9999")
        self.refused(2, "--grid", "8,8,8", "--radius", "-1", named="-1")
        self.refused(2, "--grid", "8,8,8", "--radius", "0", named="0.001")
        self.refused(2, "--output", "/proc/nowhere/result.json", named="/proc/nowhere/result.json")
        self.refused(2, "--output", "/tmp", named="/tmp")
        self.refused(2, "--label", "a=1", "--label", "a=2", named="a=2")
        self.refused(2, "--repeats", "1000000", "--block", "1000000", named="samples")
        self.refused(2, "--exchanges", "3", named="from 1 to 2")
        self.refused(2, "--planner", "lazy", named="estimate, measure, patient")

    def test_unwritable_wisdom(self):
        out = run(TRANSPOSE, 2, "--case", "cnt40", "--wisdom", "/proc/nowhere/wisdom", *QUICK)
        self.assertEqual(out.code, 2, out.stderr)
        self.assertIn("/proc/nowhere/wisdom", out.stderr)

    def test_wisdom_is_kept_and_nothing_else_is_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            wisdom, other = Path(folder, "wisdom"), Path(folder, "other")
            for baselines in ("serial", "none"):  # what one run wrote, another reads
                out = run(TRANSPOSE, 2, "--wisdom", str(wisdom), "--baseline", baselines, *QUICK)
                self.assertEqual(out.code, 0, out.stderr)
            other.write_text("dear diary")
            self.refused(2, "--wisdom", str(other), named="no FFTW wisdom")
            self.assertEqual(other.read_text(), "dear diary")

    def test_too_large_for_memory(self):
        self.refused(3, "--grid", "512,512,8192", "--bands", "4096", named="512,512,8192")

    def test_methods_too_large_for_memory(self):
        """They are left out, those that need most first; alone, each names what could run."""
        grid = ("--grid", "64,64,64", "--planner", "estimate", "--baseline", "none", *QUICK)
        needs = r"3 ranks: needs ([0-9.e-]+) GiB on a node, ([0-9.e-]+) are left"

        def launch(gib: float, *arguments: str):
            with tempfile.TemporaryDirectory() as root:
                Path(root, "proc").mkdir()
                Path(root, "proc/meminfo").write_text(f"MemAvailable: {int(gib * 2**20)} kB\n")
                return run(TRANSPOSE, 3, *grid, *arguments, BX_SYS_ROOT=root)

        without = launch(0.002)
        assert_refused(self, without, 3, "--grid 64,64,64 --bands 4: needs")
        fields = float(re.search(r"needs ([0-9.e-]+) GiB on this node", without.stderr)[1])
        alone = launch(fields * 1.01, "--method", "padded")
        assert_refused(self, alone, 3, "no method can run here: padded: 3 ranks")
        padded = float(re.search(needs, alone.stderr)[1])
        alone = launch(fields + 0.8 * padded, "--method", "padded")
        assert_refused(self, alone, 3, "alltoallv ")
        named = re.findall(r"([a-z2-]+) [0-9.e-]+", re.search("less: (.*)", alone.stderr)[1])
        self.assertEqual(len(named), 3)
        for method in named:
            out = launch(fields + 0.8 * padded, "--method", method)
            self.assertEqual(out.code, 0, out.stderr)
        out = launch(fields + 2 * padded)
        self.assertEqual(out.code, 0, out.stderr)
        refused = {m: float(re.match(needs, why)[1]) for m, why in inapplicable(out).items()}
        self.assertIn("shm-padded", refused)
        self.assertNotIn("alltoallv", refused)
        self.assertGreaterEqual(min(refused.values()), padded / 2)


class Counts(unittest.TestCase):
    """Kernels whose MPI counts up to 8000 stand for sizes beyond 2^31 - 1."""

    def launch(self, executable: str, ranks: int, *arguments: str):
        return run(executable, ranks, *arguments, "--planner", "estimate", *QUICK)

    def reasons(self, out) -> "dict[str, str]":
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        return inapplicable(out)

    def test_methods_that_mpi_cannot_count_are_left_out(self):
        """Planes of a rank have 7200 elements; in those of a node, 10512 arrive."""
        size = ("--case", "cnt40", "--ranks-per-node", "2", "--baseline", "none")
        reasons = self.reasons(self.launch(COUNTING, 4, *size))
        self.assertEqual(set(reasons), {*AGGREGATED, "direct", "alltoallw"})
        for method, why in reasons.items():
            self.assertIn("bytes" if method == "alltoallw" else "buffers of", why)
            self.assertIn("2^31 - 1", why)
        alone = self.launch(COUNTING, 4, *size, "--method", "shm")
        assert_refused(self, alone, 3, "no method can run here: shm: buffers of 1.05e+04 elements")

    def test_ranks_that_mpi_cannot_count_are_refused(self):
        out = self.launch(COUNTING, 2, "--case", "cnt40")
        assert_refused(self, out, 3, "--grid 30,30,30: a rank's part is over MPI's count limit")

    def test_npar_leaves_out_what_mpi_cannot_count(self):
        size = ("--bands", "8", "--atoms", "1", "--grid", "40,40,40")
        counting = Path(COUNTING).with_name("counting-npar")
        if not counting.exists():
            self.skipTest("npar was not built")
        reasons = self.reasons(
            self.launch(str(counting), 2, *size, "--method", "npar-1,node-aware")
        )
        self.assertEqual(set(reasons), {"node-aware"})
        self.assertIn("buffers of", reasons["node-aware"])


class Listing(unittest.TestCase):
    def test_list_and_help(self):
        listing = run(TRANSPOSE, 1, "--list")
        self.assertEqual(listing.code, 0)
        for name in ("alltoallv", "shm-padded", "overlap", "cnt40", "tin-8k", "serial"):
            self.assertIn(f"  {name} ", listing.stdout)
        text = run(TRANSPOSE, 1, "--help")
        self.assertEqual(text.code, 0)
        self.assertIn("--ranks-per-node", text.stdout)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    TRANSPOSE, FAULTY, COUNTING = sys.argv[1:4]
    METHODS = built(TRANSPOSE, *QUICK)
    main(*sys.argv[4:])
