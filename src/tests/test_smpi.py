"""Kernels on the machines of checks/workshop/smpi.

Usage: test_smpi.py FOLDER TRANSPOSE MD [unittest arguments]
FOLDER is what a build with BX_SIMULATED was made in; the kernels are those of the real MPI library.
Exit code 77: nothing can be simulated here.
"""

import functools
import math
import subprocess
import sys
import unittest
from pathlib import Path

import simulated
from kernel_run import Outcome, run, seats
from simulated import executable, simulate_machine

FOLDER = Path()
REAL: "list[str]" = []  # kernels of the real MPI library: transpose, md
SAMPLE = ("--repeats", "1", "--block", "1", "--warmup", "0")


class Kernels(unittest.TestCase):
    """Each gives the right answer, on one node, an odd part of one, and two."""

    # fmt: off
    KERNELS = {
        "transpose": ("--case", "cnt40", "--bands", "1", "--planner", "estimate"),
        "md": ("--case", "cu3au", "--cells", "8", "--baseline", "none"),
        "npar": ("--bands", "9", "--atoms", "4", "--box", "8", "--cutoff", "15.2",
                 "--planner", "estimate"),
        "patterns": ("--largest", "512"),
        "halo": ("--case", "thor-24", "--method", "aggregated,shm", "--baseline", "none"),
        "tasks": ("--blocks", "5", "--rows", "7", "--partners", "3", "--work", "2000"),
    }
    # fmt: on

    def test_answers_are_right(self):
        for kernel in self.KERNELS:
            for ranks in (1, 3, 9):
                with self.subTest(kernel=kernel, ranks=ranks):
                    out = first_launch(kernel, ranks)
                    self.assertEqual(out.code, 0, out.stdout + out.stderr)
                    result = out.result
                    self.assertTrue(result["verified"])
                    expected = {"by": "SimGrid 3.32", "machine": "hector-xt4", "hollow": False}
                    self.assertEqual(result["simulated"] | {"by": expected["by"]}, expected)
                    nodes = [seat["host"] for seat in seats(out.result)]
                    self.assertEqual(nodes, [f"n{rank // 4}" for rank in range(ranks)])

    def test_what_needs_other_libraries_is_refused_by_name(self):
        without = "built without ELPA" if has_scalapack() else "built without ScaLAPACK"
        refused = ("elpa",) if has_scalapack() else ("elpa", "scalapack")
        for kernel, arguments, reason in (
            *(("npar", ("--case", "mini1", "--method", name), without) for name in refused),
            (
                "md",
                ("--case", "sic", "--method", "packed", "--restart", __file__),
                "no restart files",
            ),
            ("patterns", ("--buffers", "device"), "no device is simulated"),
        ):
            out = simulate_machine(FOLDER, kernel, "merlin", 2, *SAMPLE, *arguments)
            self.assertIn(out.code, (2, 3))
            self.assertIn(reason, out.stdout + out.stderr)

    def test_h14_counter_balances_and_its_latency_decides(self):
        """The shared counter of GAMESS-UK: within a node, and between nodes that are far apart."""

        def times(machine: str, ranks: int) -> "dict[str, dict[str, float]]":
            """The metrics of each method."""
            out = simulate_machine(FOLDER, "tasks", machine, ranks, *SAMPLE,
                                   "--method", "static,counter,hierarchical")  # fmt: skip
            self.assertEqual(out.code, 0, out.stdout + out.stderr)
            return {
                e["method"]: {name: m["value"] for name, m in e["metrics"].items()}
                for e in out.result["results"]
            }

        node = times("hpcx-phase2-sp7", 8)
        self.assertLess(node["counter"]["time"], 0.85 * node["static"]["time"])
        near, far = (  # tasks of one length, whatever rate is fitted
            times(f"hpcx-phase1 pairs=1e9 latency={latency}", 16) for latency in (20e-6, 200e-6)
        )
        for metrics, latency in ((near, 20e-6), (far, 200e-6)):  # there and back
            self.assertAlmostEqual(metrics["counter"]["latency"] / latency, 2, delta=0.1)
        self.assertGreater(far["counter"]["time"], 5 * near["counter"]["time"])
        for metrics in (near, far):
            self.assertLess(metrics["hierarchical"]["time"], 0.6 * metrics["counter"]["time"])


def launch(kernel: str, ranks: int) -> Outcome:
    arguments = (*SAMPLE, *Kernels.KERNELS[kernel])
    return simulate_machine(FOLDER, kernel, "hector-xt4", ranks, *arguments)


first_launch = functools.cache(launch)


def has_scalapack() -> bool:
    """True if sources of ScaLAPACK were given to the simulated build."""
    return Path(simulated.executable(FOLDER, "eigen")).exists()


class Eigensolver(unittest.TestCase):
    """ScaLAPACK's divide and conquer, of data and hollow."""

    def setUp(self):
        if not has_scalapack():
            self.skipTest("no ScaLAPACK: BISECTION_SCALAPACK_URL names no sources")

    def entry(self, ranks: int, hollow: int, *arguments: str) -> dict:
        """The result of pdsyevd, whose eigenvalues are right."""
        out = simulate_machine(FOLDER, "eigen", "hpcx-phase2", ranks, *SAMPLE, *arguments,
                               "--method", "pdsyevd", "--baseline", "none",
                               BX_HOLLOW=str(hollow))  # fmt: skip
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        entry = out.result["results"][0]
        checks = {check["name"]: check["passed"] for check in entry["verification"]["checks"]}
        self.assertTrue(checks["eigenvalues"])
        self.assertEqual("beside LAPACK" in checks, hollow == 0)
        return entry

    def test_a_hollow_run_finds_the_eigenvalues_and_sends_the_messages_of_a_real_one(self):
        """Deflation, which the eigenvalues decide on, has messages; there are three merges."""
        for spectrum in ("uniform", "fock"):
            arguments = ("--size", "100", "--spectrum", spectrum, "--block-size", "13")
            full, hollow = (self.entry(4, flag, *arguments) for flag in (0, 1))
            for name in ("p2p", "collective"):
                for count in ("calls", "messages", "bytes"):
                    sent = hollow["communication"][name][count]
                    self.assertEqual(sent, full["communication"][name][count], (name, count))
            seconds = [entry["samples"]["seconds"][0] for entry in (full, hollow)]
            # a hollow run is not verified before: its ranks begin in another order
            self.assertAlmostEqual(seconds[1] / seconds[0], 1, delta=0.01)

    def test_some_panels_stand_for_all(self):
        arguments = ("--size", "500", "--spectrum", "fock", "--block-size", "16")
        each, some = (self.entry(6, flag, *arguments) for flag in (1, 8))
        ratio = some["samples"]["seconds"][0] / each["samples"]["seconds"][0]
        self.assertAlmostEqual(ratio, 1, delta=0.03)
        self.assertLess(some["communication"]["p2p"]["messages"]["mean"],
                        0.7 * each["communication"]["p2p"]["messages"]["mean"])  # fmt: skip


class Layer(unittest.TestCase):
    """SimGrid's MPI, and what stands between it and the kernels."""

    def test_mpi_f08_gives_what_the_real_module_gives(self):
        """Closed forms, which ctest's unit_f08_N check with the real module."""
        for ranks in (1, 3, 4):
            out = simulate_machine(FOLDER, str(FOLDER / "smpi/unit_f08"), "merlin", ranks)
            self.assertEqual(out.code, 0, out.stdout + out.stderr)

    def test_traffic_is_what_the_real_library_is_given(self):
        """Calls, messages and bytes per rank of each class, of the same launch."""
        counted = ("calls", "messages", "off_node_messages", "bytes", "off_node_bytes")
        for kernel, program in (("transpose", REAL[0]), ("md", REAL[1])):
            arguments = (*SAMPLE, *Kernels.KERNELS[kernel], "--ranks-per-node", "2")
            simulated_run = simulate_machine(FOLDER, kernel, "hector-xt4", 4, *arguments)
            real = run(program, 4, *arguments)
            self.assertEqual((simulated_run.code, real.code), (0, 0), real.stderr)
            entries = {entry["method"]: entry for entry in real.result["results"]}
            for ours in simulated_run.result["results"]:
                theirs = entries[ours["method"]]
                for name in ("p2p", "collective", "barrier", "one_sided"):
                    for count in counted:
                        where = (kernel, ours["method"], name, count)
                        sent = ours["communication"][name][count]
                        self.assertEqual(sent, theirs["communication"][name][count], where)


class Clock(unittest.TestCase):
    def entries(self, kernel: str, machine: str, ranks: int, *arguments: str, **environment: str):
        arguments = (*SAMPLE, *arguments)
        return self.entries_of(
            simulate_machine(FOLDER, kernel, machine, ranks, *arguments, **environment)
        )

    def entries_of(self, out: Outcome):
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        return {
            (entry["method"], *(entry.get("point") or {}).values()): entry
            for entry in out.result["results"]
        }

    def samples(self, entries):
        return {key: entry["samples"] for key, entry in entries.items()}

    def test_a_rerun_gives_the_same_digits(self):
        for kernel in Kernels.KERNELS:
            first, second = (self.entries_of(each(kernel, 9)) for each in (first_launch, launch))
            self.assertEqual(self.samples(first), self.samples(second))

    def test_hollow_runs_take_as_long(self):
        for kernel in ("transpose", "npar", "halo"):
            arguments = Kernels.KERNELS[kernel]
            full, hollow = (
                self.entries(kernel, "hector-xt4", 8, *arguments, BX_HOLLOW=flag) for flag in "01"
            )
            self.assertEqual(full.keys(), hollow.keys())
            for key, entry in full.items():
                if entry["applicable"]:
                    seconds = hollow[key]["samples"]["seconds"][0]
                    # ScaLAPACK has other eigenvalues, which decide on messages
                    margin = 0.02 if "scalapack" in key[0] else 1e-8
                    ratio = entry["samples"]["seconds"][0] / seconds
                    self.assertAlmostEqual(ratio, 1, delta=margin, msg=str(key))

    def test_one_pair_stands_for_all_of_exact_exchange(self):
        arguments = ("--case", "mini2", "--method", "npar-4", "--planner", "estimate")
        full, hollow = (
            self.entries("npar", "hector-xt4", 4, *arguments, BX_HOLLOW=flag)["npar-4",]
            for flag in "01"
        )
        ratio = full["samples"]["seconds"][0] / hollow["samples"]["seconds"][0]
        self.assertAlmostEqual(ratio, 1, places=8)
        for name in ("p2p", "collective"):
            for count in ("messages", "bytes"):
                sent = (entry["communication"][name][count] for entry in (full, hollow))
                self.assertEqual(*sent, (name, count))

    def test_a_hollow_step_of_bands_takes_as_long_without_their_data(self):
        """mini5: two groups of teams, matrices between bands whole and in panels.  Of a sampled run
        (BX_HOLLOW=32) messages are left out."""
        arguments = ("--case", "mini5", "--method", "npar-2,zeroing,emulated,with-scalapack",
                     "--planner", "estimate", "--iterations", "1",
                     "--projectors", "by-atom")  # fmt: skip
        full, hollow, sampled = (
            self.entries("npar", "hector-xt4", 8, *arguments, BX_HOLLOW=flag)
            for flag in ("0", "1", "32")
        )
        for key, entry in full.items():
            if not entry["applicable"]:
                continue
            seconds = entry["samples"]["seconds"][0]
            self.assertAlmostEqual(sampled[key]["samples"]["seconds"][0] / seconds, 1, delta=0.01)
            if key == ("with-scalapack",):  # whose eigenvalues are others
                continue
            self.assertAlmostEqual(hollow[key]["samples"]["seconds"][0] / seconds, 1, places=10)
            for name in ("p2p", "collective"):
                for count in ("calls", "messages", "bytes"):
                    sent = [e[key]["communication"][name][count] for e in (full, hollow, sampled)]
                    self.assertEqual(sent[0], sent[1], (key, name, count))
                    if sent[0]["mean"] > 0:
                        self.assertLess(sent[2]["mean"], 0.5 * sent[0]["mean"], (key, name, count))

    def test_matrices_beyond_the_caches_are_read_from_memory(self):
        """Projectors of an atom, for each band; LAPACK's matrix, while it is reduced."""
        arguments = ("--case", "mini1", "--method", "npar-1", "--planner", "estimate",
                     "--iterations", "1", "--projectors", "by-atom")  # fmt: skip
        waves, channels, bands, atoms, applications, parts = 2085, 18, 64, 16, 3, 2

        def seconds(cache):
            machine = f"hector-xt4 cache={cache} memory=1e9 cache_bandwidth=5e9"
            entry = self.entries("npar", machine, 1, *arguments, BX_HOLLOW="1")["npar-1",]
            return entry["samples"]["seconds"][0]

        for cache in (100_000, 8_000):
            beyond = 2 * applications * bands * parts * atoms * (8 * waves * channels - cache)
            triangles = [4 * rows**2 - cache for rows in range(bands + 1)]
            beyond += sum(max(0, triangle) for triangle in triangles)
            expected = beyond * (1 / (2 * 1e9) - 1 / 5e9)
            measured = seconds(cache) - seconds(0)
            self.assertAlmostEqual(measured / expected, 1, places=6, msg=cache)

    def test_messages_cost_what_the_machine_says(self):
        """A ping-pong of 8 B takes the latency; blocks of all pairs wait for their node's gap."""
        arguments = ("--method", "pingpong,alltoallv", "--smallest", "8", "--largest", "1024")

        def seconds(machine, ranks=8):
            entries = self.entries("patterns", machine, ranks, *arguments)
            return {key: entry["metrics"]["time"]["value"] for key, entry in entries.items()}

        self.assertAlmostEqual(seconds("merlin", 9)["pingpong", 8], 1.8e-6, delta=0.05e-6)
        sound = seconds("hector-xt4")
        # 4 ranks of a node send 4 messages each to the other one
        without = seconds("hector-xt4 gap=0")
        self.assertGreater(sound["alltoallv", 8] - without["alltoallv", 8], 10 * 5e-6)
        slow = seconds("hector-xt4 slow_link=1:0.01")
        self.assertGreater(slow["alltoallv", 1024], 2 * sound["alltoallv", 1024])

    def test_short_blocks_are_stored_and_forwarded(self):
        """Up to the machine's size, and only MPI_Alltoall: 12 messages of a node in place of 448;
        blocks are copied seven times: at first, in five turns (half of them, twice), last."""
        arguments = ("--method", "alltoall,alltoallv", "--smallest", "256", "--largest", "1024")
        times = {
            limit: {
                key: entry["metrics"]["time"]["value"]
                for key, entry in self.entries(
                    "patterns", f"hector-xt4 store_forward={limit}", 32, *arguments
                ).items()
            }
            for limit in (0, 512)
        }
        for (method, size), ours in times[512].items():
            if method == "alltoall" and 0 < size <= 512:
                self.assertLess(ours, 0.5 * times[512]["alltoallv", size], size)
                self.assertGreater(ours, 7 * 32 * size / 1.5e9, size)
            else:
                self.assertAlmostEqual(ours / times[0][method, size], 1, places=6)

    def test_findings_fall_with_the_mechanism_that_they_rest_on(self):
        """G01 and G05 of reference/literature: the gap per message; one rank that sends for its
        node."""

        def times(machine, ranks, *more):
            arguments = (*Kernels.KERNELS["transpose"], "--published", "--baseline", "none",
                         "--method", "alltoallv,gather-scatter", *more)  # fmt: skip
            entries = self.entries("transpose", machine, ranks, *arguments, BX_HOLLOW="1")
            return {key[0]: entry["samples"]["seconds"][0] for key, entry in entries.items()}

        name = "alltoallv"
        self.assertGreater(times("hector-xt4", 16)[name], times("hector-xt4", 8)[name])
        self.assertLess(times("hector-xt4 gap=0", 16)[name], times("hector-xt4 gap=0", 8)[name])
        alone = ("--ranks-per-node", "1")
        gathered, scattered = times("hector-xt4", 32), times("hector-xt4", 32, *alone)
        self.assertLess(gathered["gather-scatter"], 0.5 * gathered[name])
        self.assertGreater(scattered["gather-scatter"], 0.9 * scattered[name])

    def test_cpmd_takes_the_time_of_the_largest_share_of_planes(self):
        """Magic numbers of ranks, and threads that use the cores beyond the planes.

        A slow processor, so that FFTs alone count: lines along z of 405 columns, along y of the 23
        x that have columns, along x of a whole plane.
        """
        line = 5 * 48 * math.log2(48) / 1e5  # s
        arguments = ("--case", "cpmd-mini", "--bands", "1", "--planner", "estimate",
                     "--method", "alltoallv", "--baseline", "none")  # fmt: skip
        shares = ((16, 1, 3), (23, 1, 3), (24, 1, 2), (47, 1, 2), (48, 1, 1), (64, 1, 1), (8, 8, 6))
        for ranks, threads, planes in shares:
            entry = self.entries("transpose", "hpcx-phase1 fft=1e5", ranks, *arguments,
                                 BX_HOLLOW="1", OMP_NUM_THREADS=str(threads))[
                "alltoallv",
            ]  # fmt: skip
            lines = math.ceil(405 / ranks) + planes * (23 + 48)
            seconds = entry["metrics"]["time"]["value"]
            self.assertAlmostEqual(seconds / (lines * line / threads), 1, places=2)
            shared = entry["metrics"]["imbalance"]["value"]
            self.assertAlmostEqual(shared, planes * ranks / 48)

    def test_own_blocks_are_copied(self):
        """With --published one rank per node exchanges its node's own blocks with itself: at twice
        intra_bandwidth, and not at its share of the node's memory."""
        arguments = (*Kernels.KERNELS["transpose"], "--method", "shm")
        own, without = (
            self.entries("transpose", "hector-xt4", 4, *arguments, *more)["shm",]
            for more in (("--published",), ())
        )
        elements = 27000 * 657 / 900 * 3 / 4  # of columns, less what stays with its rank
        copied = own["samples"]["seconds"][0] - without["samples"]["seconds"][0]
        self.assertGreater(copied, 2 * 0.9 * 16 * elements / 3e9)
        self.assertLess(copied, 2 * 0.9 * 16 * elements / 1.5e9)

    def test_a_transpose_copies_what_its_header_says(self):
        """There and back, on two nodes of two ranks of equal work. A copy is of a rank's planes,
        or of what leaves its columns; `direct` has one in a node, and two between nodes. What is
        charged stands where plan_fields.c copies."""
        planes_only, with_columns, direct = 1, 1 + 3 / 4, 1 / 2 + 2 / 2
        wanted = {
            **dict.fromkeys(("alltoallv", "p2p", "padded", "overlap", "overlap-poll"), planes_only),
            **dict.fromkeys(("shm", "shm-padded", "leaders", "alltoallw"), with_columns),
            "direct": direct,
        }
        published = {
            **dict.fromkeys(("alltoallv", "p2p", "leaders"), with_columns),
            "padded": 2,
            "direct": direct,
        }
        rate, planes = 1e3, 16 * 16 * 16 / 4 * 16  # B/s of copies: all else takes no time; B
        field = ("--grid", "16,16,16", "--radius", "20", "--bands", "1", "--transpose-only")
        for more, copies in (((), wanted), (("--published",), published)):
            entries = self.entries(
                "transpose", f"hector-xt4 copy={rate} cores=2", 4, *field, *more,
                "--method", ",".join(copies), "--baseline", "none",
            )  # fmt: skip
            for method, times in copies.items():
                copied = entries[method,]["samples"]["seconds"][0] * rate
                self.assertAlmostEqual(copied / planes, 2 * times, places=3, msg=method)

    def test_parts_of_a_step_are_of_the_same_clock(self):
        """md takes its shares from OpenMP's clock, the profile from MPI's."""
        entry = self.entries("md", "merlin", 8, *Kernels.KERNELS["md"], "--method", "dlpoly3")[
            "dlpoly3",
        ]
        time = entry["samples"]["seconds"][0]
        for name in ("p2p", "collective"):
            share = entry["metrics"][f"{name}_share"]["value"]
            seconds = entry["communication"][name]["seconds"]["mean"]
            self.assertAlmostEqual(share * time / seconds, 1, delta=0.05)

    def test_charges_are_those_of_the_machine(self):
        """The serial transform: 10 n log2 n flop there and back, whatever else the machine is."""
        arguments = ("--case", "cnt40", "--bands", "1", "--method", "alltoallv", "--baseline",
                     "serial", "--planner", "estimate")  # fmt: skip
        for machine, rate in (("hector-xt4", 1e9), ("hector-xt4 fft=2e9 gap=0", 2e9)):
            entry = self.entries("transpose", machine, 2, *arguments)["serial",]
            seconds = entry["samples"]["seconds"][0]
            self.assertAlmostEqual(seconds / (10 * 27000 * math.log2(27000) / rate), 1, places=6)


class Launches(unittest.TestCase):
    def test_a_kernel_without_its_launcher_says_so(self):
        """Also one of Fortran; by another MPI library's launcher each rank says it."""
        for kernel in ("patterns", "md"):
            program = executable(FOLDER, kernel)
            line = f"bisection-{kernel}: built for simulated machines: start it by "
            alone = subprocess.run([program, "--list"], capture_output=True, text=True)
            by_mpi = run(program, 2, "--list")
            for code, out, err in (
                (alone.returncode, alone.stdout, alone.stderr),
                (by_mpi.code, by_mpi.stdout, by_mpi.stderr),
            ):
                self.assertEqual((code, out), (2, ""), err)
                self.assertIn(line, err)
            self.assertEqual(alone.stderr.count("\n"), 1)

    def test_bad_machines_and_layouts_are_refused(self):
        for machine, ranks, reason in (
            ("", 2, "'': not one of hector-xt4,"),
            ("cray", 2, "'cray': not one of hector-xt4,"),
            ("merlin gap", 2, "'gap': not QUANTITY=VALUE"),
            ("merlin speed=2", 2, "'speed=2': not QUANTITY=VALUE"),
            ("merlin alltoall=a,b", 2, "'a,b' is not the name of an algorithm"),
            ("merlin gap=fast", 2, "'fast' is not a number"),
            ("merlin slow_link=3", 2, "'3' is not a number, or NODE:FACTOR"),
            ("stella", 129, "17 nodes: stella has 16"),
            ("stella", 0, "0 ranks"),
            ("stella nodes=10000000", 10000000, "sysctl -w vm.max_map_count="),
        ):
            out = simulate_machine(FOLDER, "patterns", machine, ranks)
            self.assertEqual((out.code, out.result), (2, None), machine)
            self.assertIn(reason, out.stderr)


if __name__ == "__main__":
    FOLDER, REAL = Path(sys.argv[1]), sys.argv[2:4]
    reason = simulated.missing(FOLDER, *Kernels.KERNELS)
    if reason:
        print("skipped:", reason)
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
