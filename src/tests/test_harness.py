"""What every kernel has from the harness, as a user meets it: files, arguments, time, progress.

Usage: test_harness.py TRANSPOSE ODD-HOST [unittest arguments]
"""

import contextlib
import json
import os
import signal
import socket
import stat
import statistics
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from kernel_run import (
    ENVIRONMENT,
    MPIEXEC,
    TIMEOUT,
    assert_refused,
    kill,
    long,
    main,
    members,
    run,
    seats,
    unlike,
)

TRANSPOSE = ODD_HOST = ""
PAIRS = ("--ranks-per-node", "1", "--repeats", "1", "--block", "1", "--warmup", "0")
QUICK = ("--case", "cnt40", "--method", "direct", "--repeats", "1", "--block", "1")


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def device(self) -> Path:
        """A null device of the test's own, which root could replace by a file."""
        path = self.folder / "null"
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:
            self.skipTest("only root may create a device")
        return path

    def test_device_is_not_replaced(self):
        device = self.device()
        for option in ("--output", "--wisdom"):
            assert_refused(self, run(TRANSPOSE, 2, *QUICK, option, str(device)), 2, str(device))
            self.assertTrue(stat.S_ISCHR(device.stat().st_mode), option)

    def test_pipe_is_refused_and_does_not_hang(self):
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for option in ("--output", "--wisdom"):
            assert_refused(self, run(TRANSPOSE, 2, *QUICK, option, str(pipe)), 2, "no regular file")

    def test_folder_and_missing_folder_are_refused(self):
        for path in (self.folder, self.folder / "none" / "file"):
            for option in ("--output", "--wisdom"):
                assert_refused(self, run(TRANSPOSE, 1, *QUICK, option, str(path)), 2, str(path))

    def test_one_file_for_two_options_is_refused(self):
        same = self.folder / "same"
        twins = [same, self.folder / "." / "same"]
        link = self.folder / "link"
        link.symlink_to(same)
        for existing in (False, True):
            if existing:
                same.write_text("(fftw-3.3 nothing)\n")
                twins.append(link)
            for other in twins:
                out = run(TRANSPOSE, 2, *QUICK, "--output", str(same), "--wisdom", str(other))
                assert_refused(self, out, 2, "--wisdom", "is also the file of --output")
                self.assertEqual(same.exists(), existing)

    def test_symbolic_link_stays_one(self):
        target, link = self.folder / "target", self.folder / "link"
        target.write_text("older")
        link.symlink_to(target)
        self.assertEqual(run(TRANSPOSE, 1, *QUICK, "--output", str(link)).code, 0)
        self.assertTrue(link.is_symlink())
        self.assertIn("bisection-result", target.read_text())


class Arguments(unittest.TestCase):
    def test_arguments_without_meaning_are_refused(self):
        for arguments in (("--",), ("--", "stray"), ("--repeats", "\t3"), ("--repeats", "\n3")):
            with self.subTest(arguments=arguments):
                assert_refused(self, run(TRANSPOSE, 2, *QUICK[:4], *arguments, "--list"), 2)

    def test_name_that_is_given_twice_is_refused(self):
        for option, names, name in (
            ("method", "all,all", "all"),
            ("method", "p2p,padded,direct,padded", "padded"),
            ("baseline", "copy,serial,copy", "copy"),
        ):
            with self.subTest(names=names):
                out = run(TRANSPOSE, 2, *QUICK[:4], f"--{option}", names, "--list")
                assert_refused(self, out, 2, f"--{option} {names}: {name} is given twice")
        self.assertEqual(run(TRANSPOSE, 2, "--method", "p2p,all", "--list").code, 0)

    def test_threads_that_cannot_be_are_refused(self):
        for threads in ("0", "-2", "2147483648", "100000", "two"):
            with self.subTest(threads=threads):
                out = run(TRANSPOSE, 2, *QUICK, OMP_NUM_THREADS=threads)
                assert_refused(self, out, 2, f"OMP_NUM_THREADS {threads}")

    def test_threads_that_openmp_does_not_grant_are_refused(self):
        for name, value in (("OMP_THREAD_LIMIT", "1"), ("OMP_MAX_ACTIVE_LEVELS", "0")):
            with self.subTest(name=name):
                out = run(TRANSPOSE, 2, *QUICK, threads=2, **{name: value})
                assert_refused(self, out, 3, "OMP_NUM_THREADS 2: OpenMP grants 1", name)
                self.assertEqual(run(TRANSPOSE, 2, *QUICK, **{name: value}).code, 0)
        out = run(TRANSPOSE, 2, *QUICK, threads=2, OMP_DYNAMIC="true")
        self.assertEqual((out.code, out.result["layout"]["threads"]), (0, 2))

    def test_threads_that_mpi_does_not_grant_are_refused(self):
        out = run(ODD_HOST, 2, *PAIRS, threads=2, BX_HOST="single")
        assert_refused(self, out, 3, "OMP_NUM_THREADS 2: this MPI library grants MPI_THREAD_SINGLE")
        self.assertEqual(run(ODD_HOST, 2, *PAIRS, BX_HOST="single").code, 0)

    def test_different_arguments_on_different_ranks_are_refused(self):
        for last in (("--bands", "2"), ("--bands", "x")):
            kernel = (TRANSPOSE, *QUICK)
            process = subprocess.run(
                unlike(kernel, (*kernel, *last)),
                env={**os.environ, **ENVIRONMENT, "OMP_NUM_THREADS": "1"},
                capture_output=True, text=True, timeout=TIMEOUT,
            )  # fmt: skip
            lines = [x for x in process.stderr.splitlines() if x.startswith("bisection-")]
            self.assertEqual((process.returncode, len(lines)), (2, 1), process.stderr)


class Facts(unittest.TestCase):
    def test_clock_and_host_of_every_rank(self):
        out = run(TRANSPOSE, 3, *QUICK, "--ranks-per-node", "2", threads=2)
        ranks = seats(out.result)
        self.assertEqual([rank["rank"] for rank in ranks], [0, 1, 2])
        for rank in ranks:
            before, after = rank["ghz"]
            self.assertTrue(0.01 < before < 10 and 0.01 < after < 10, rank)
        (host,) = out.result["hosts"]  # one host, though two nodes are emulated
        self.assertEqual(host["names"], [socket.gethostname()])
        self.assertEqual(host["kernel"], os.uname().release)
        self.assertEqual(host["architecture"], os.uname().machine)
        self.assertTrue(host["cpu"])

    def test_how_steps_begin_and_which_ranks_have_the_extremes(self):
        """Of the times nothing is asserted: neighbours come and go."""
        kernel = ("--grid", "16,16,16", "--method", "alltoallv,p2p")
        kernel += ("--baseline", "none", "--repeats", "2", "--block", "3")
        shared = len(os.sched_getaffinity(0)) < 2
        for how in ("barrier", "window", "auto"):
            out = run(TRANSPOSE, 2, *kernel, "--start", how)
            if shared and how == "window":
                assert_refused(self, out, 3, "--start window", "choose barrier")
                continue
            self.assertEqual(out.code, 0, out.stderr)
            for entry in out.result["results"]:
                start, ranks = entry["start"], entry["ranks"]
                self.assertIn(start["by"], ("barrier", "window") if how == "auto" else (how,))
                self.assertEqual([start["skew"] is None, start["share"] is None], [shared] * 2)
                self.assertTrue(shared or (start["skew"] >= 0 and start["share"] >= 0))
                self.assertEqual([*ranks["phases"]], [*entry["samples"]["phases"]])
                sent = entry["communication"]["collective"]["bytes"]
                for spread in (ranks["step"], ranks["outside_mpi"], sent):
                    ordered = spread["min"] <= spread["mean"] <= spread["max"]
                    self.assertTrue(ordered, spread)
                    if spread["min"] < spread["max"]:
                        self.assertEqual({spread["min_rank"], spread["max_rank"]}, {0, 1})
                middle = statistics.median(entry["samples"]["seconds"])
                items = middle / entry["metrics"]["time_all"]["value"]
                least = min(entry["samples"]["seconds"]) / items
                self.assertAlmostEqual(entry["metrics"]["time_min"]["value"] / least, 1)
        out = run(TRANSPOSE, 2, *kernel, "--ranks-per-node", "1")
        self.assertEqual({e["start"]["by"] for e in out.result["results"]}, {"barrier"})
        assert_refused(self, run(TRANSPOSE, 2, *kernel, "--start", "late"), 2, "late", "window")
        shared_cores = len(os.sched_getaffinity(0)) + 1
        out = run(TRANSPOSE, shared_cores, *kernel)
        self.assertEqual({e["start"]["skew"] for e in out.result["results"]}, {None})
        self.assertEqual({e["start"]["by"] for e in out.result["results"]}, {"barrier"})

    def test_kinds_of_core_and_a_processor_without_a_name(self):
        """Slow cores by design, and the processor of an Arm server."""
        cpus = sorted(os.sched_getaffinity(0))[:2]
        if len(cpus) < 2:
            self.skipTest("one core")
        with tempfile.TemporaryDirectory() as root:
            Path(root, "proc").mkdir()
            about = "CPU implementer : 0x41\nCPU variant : 0x0\nCPU part : 0xd4f\n"
            Path(root, "proc/cpuinfo").write_text(f"processor : 0\n{about}")
            files = [Path(root, f"sys/devices/system/cpu/cpu{n}/cpu_capacity") for n in cpus]
            for file in files:
                file.parent.mkdir(parents=True)
            bound = {"OMP_PLACES": f"{{{cpus[0]}}},{{{cpus[1]}}}", "OMP_PROC_BIND": "close"}
            texts = {frozenset({0, 1}): "0-1", frozenset({0}): "0", frozenset({1}): "1"}
            for capacities, threads, alike in (
                ((1024, 620), 2, False),
                ((620, 1024), 1, False),
                ((1024, 620), 1, False),
                ((1024, 1010), 2, True),
            ):
                for file, capacity in zip(files, capacities, strict=True):
                    file.write_text(f"{capacity}\n")
                out = run(TRANSPOSE, 1, *QUICK, threads=threads, BX_SYS_ROOT=root, **bound)
                self.assertEqual(out.code, 0, out.stderr)
                (seat,) = out.result["layout"]["seats"]
                # Where a library brings a second OpenMP, that of GCC, all threads are on one core.
                cores = {cpus.index(int(cpu)) for cpu in seat["threads"][0]}
                kinds = frozenset(int(capacities[core] < max(capacities)) for core in cores)
                self.assertEqual(seat.get("kinds"), None if alike else [texts[kinds]])
                model = "implementer 0x41, part 0xd4f, variant 0x0"
                self.assertEqual(out.result["hosts"][0]["cpu"], model)

    def test_a_host_of_2048_cpus(self):
        out = run(ODD_HOST, 2, *PAIRS, threads=2, BX_HOST="large")
        self.assertEqual(out.code, 0, out.stderr)
        cpus = [*map(str, range(1, 1999, 2)), "1999-2001", *map(str, range(2003, 2048, 2))]
        for rank in seats(out.result):
            for text in (rank["cpus"], *rank["threads"]):
                self.assertEqual(text.split(","), cpus)


# A daemon that takes 10% of a core.
DAEMON = """
import time
while True:
    end = time.process_time() + 0.01
    while time.process_time() < end:
        pass
    time.sleep(0.09)
"""


class Neighbours(unittest.TestCase):
    def samples(
        self, threads: int, program: str = "while True: pass", repeats: int = 20
    ) -> "dict[str, list[float]]":
        """Of short steps, whose last thread shares its core with a process."""
        mine = os.sched_getaffinity(0)
        cores = sorted(mine)[:threads]
        if len(cores) < threads:
            self.skipTest(f"{len(mine)} core, fewer than {threads}")
        busy = subprocess.Popen([sys.executable, "-c", program])
        self.addCleanup(busy.wait)
        self.addCleanup(busy.kill)
        self.addCleanup(os.sched_setaffinity, 0, mine)
        os.sched_setaffinity(busy.pid, cores[-1:])
        os.sched_setaffinity(0, cores)
        shared = (*QUICK[:4], "--repeats", str(repeats), "--block", "20")
        places = ",".join(f"{{{core}}}" for core in cores)
        bound = {"OMP_PLACES": places, "OMP_PROC_BIND": "close"}
        out = run(TRANSPOSE, 1, *shared, threads=threads, **bound)
        samples = out.result["results"][0]["samples"]
        if None in samples["waited"]:
            self.skipTest("no /proc/self/task/*/schedstat")
        return samples

    def test_short_steps_beside_a_busy_process_are_marked(self):
        """A step of a millisecond meets a busy neighbour once in several steps, for a time slice.
        Less its wait, such a step takes as long as the others, and all waits are the neighbour's
        half of the time."""
        samples = self.samples(threads=1)
        columns = ("seconds", "waited", "disturbed")
        steps = list(zip(*(samples[name] for name in columns), strict=True))
        for seconds, waited, mark in steps:
            self.assertEqual(mark, waited > 0.05 * seconds)
        self.assertGreater(sum(samples["disturbed"]), 40)
        alone = statistics.median(seconds for seconds, _, mark in steps if not mark)
        without = statistics.median(seconds - waited for seconds, waited, mark in steps if mark)
        self.assertTrue(0.5 < without / alone < 2, (without, alone))
        self.assertGreater(sum(samples["waited"]), 0.2 * sum(samples["seconds"]))

    def test_a_daemon_that_takes_a_tenth_of_a_core_shows_in_a_count(self):
        """A fifth of what it takes, or more: much of it falls between two steps."""
        samples = self.samples(threads=1, program=DAEMON, repeats=100)
        seconds = sum(samples["seconds"])
        self.assertGreater(sum(samples["disturbed"]), 0.2 * seconds / 0.1)  # of its periods
        self.assertGreater(sum(samples["waited"]), 0.02 * seconds)

    def test_each_thread_is_watched(self):
        samples = self.samples(threads=2)
        self.assertGreater(sum(samples["waited"]), 0.2 * sum(samples["seconds"]))


class Limits(unittest.TestCase):
    def test_work_of_hours_is_refused_with_its_estimate(self):
        out = run(TRANSPOSE, 2, "--grid", "512,512,2", "--bands", "300", "--repeats", "100")
        assert_refused(self, out, 3, "--grid 512,512,2 --bands 300", " h here", "--limit", "10 min")
        out = run(TRANSPOSE, 2, *QUICK, "--limit", "1000")
        self.assertEqual(out.code, 0, out.stderr)
        self.assertIn("GiB of memory per node, about ", out.stdout.splitlines()[0])

    def test_world_of_another_size_is_refused(self):
        out = run(TRANSPOSE, 2, *QUICK, "--expect-ranks", "4")
        assert_refused(self, out, 3, "--expect-ranks 4: this MPI world has 2")
        self.assertEqual(run(TRANSPOSE, 2, *QUICK, "--expect-ranks", "2").code, 0)

    def test_placement_is_in_the_result_before_anything_is_verified(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "result.json")
            process = subprocess.Popen(
                [*MPIEXEC, "-n", "2", TRANSPOSE, "--grid", "120,120,120", "--output", str(path)],
                env={**os.environ, **ENVIRONMENT, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            try:
                limit = time.monotonic() + TIMEOUT
                while not path.exists() and time.monotonic() < limit:
                    time.sleep(0.002)
                result = json.loads(path.read_text())
            finally:
                kill(process)
        self.assertEqual((result["status"], result["results"]), ("running", []))
        self.assertEqual([seat["rank"] for seat in seats(result)], [0, 1])

    def stop_rank_1(self, before: "tuple[str, ...]" = (), **environment: str) -> str:
        """What a launch prints whose rank 1, started by `before`, stops while it measures."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        output = Path(folder.name, "result.json")
        arguments = ("--grid", "16,16,16", "--repeats", "1000000", "--limit", "1e9")
        kernel = (TRANSPOSE, *arguments, "--progress-timeout", "2", "--output", str(output))
        as_usual = {"OMPI_MCA_odls_base_sigkill_timeout": "1"}  # no rank is left when mpiexec ends
        env = {**os.environ, **ENVIRONMENT, **as_usual, "OMP_NUM_THREADS": "1", **environment}
        process = subprocess.Popen(
            unlike(kernel, (*before, *kernel)),
            env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            start_new_session=True,
        )  # fmt: skip
        try:
            rank = self.wait_for_rank(process.pid, 1)
            limit = time.monotonic() + TIMEOUT
            while process.poll() is None and time.monotonic() < limit:
                if output.exists() and json.loads(output.read_text())["results"]:
                    break
                time.sleep(0.05)
            time.sleep(0.2)
            os.kill(rank, signal.SIGSTOP)
            _, errors = process.communicate(timeout=TIMEOUT)
            self.assertNotEqual(process.returncode, 0)
            self.assertRegex(errors, r"nothing finished for 2 s on host \S+; its ranks:\n")
            self.assertRegex(
                errors, r"\n  rank 0 on \S+: in .*, timing .*\n    \S+ \(\S+\+0x[0-9a-f]+\)"
            )
            stack = errors.partition("  rank 0 on ")[2].partition("  rank 1")[0]
            self.assertRegex(stack, r"    bx_measure_all \(bisection-transpose\+")
            while members(process.pid) and time.monotonic() < limit + TIMEOUT:
                time.sleep(0.05)  # killed ranks outlive their mpiexec for a while
            self.assertFalse(members(process.pid))
        finally:
            kill(process)
        return errors

    def test_stopped_rank_ends_the_launch_and_is_named(self):
        self.assertRegex(self.stop_rank_1(), r"\n  rank 1 on \S+: no answer")

    @long
    def test_stopped_rank_ends_a_launch_without_shared_windows(self):
        errors = self.stop_rank_1(OMPI_MCA_osc="^sm,rdma,pt2pt")
        self.assertRegex(errors, r"\n  rank 1 on \S+: no answer")

    def test_stopped_rank_ends_a_launch_whose_ranks_share_nothing(self):
        """In a process namespace of its own, a rank cannot open the others' memory."""
        alone = ("unshare", "--pid", "--fork", "--mount-proc")
        alone += () if os.geteuid() == 0 else ("--map-root-user",)
        kernel = (TRANSPOSE, *QUICK)
        # without copies from another process, which fail between namespaces
        env = {**os.environ, **ENVIRONMENT, "OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
        launch = unlike(kernel, (*alone, *kernel))
        if subprocess.run(launch, env=env, capture_output=True, timeout=TIMEOUT).returncode:
            self.skipTest("ranks cannot have process namespaces of their own here")
        errors = self.stop_rank_1(alone, OMPI_MCA_btl_vader_single_copy_mechanism="none")
        self.assertNotRegex(errors, r"  rank 1 on")

    @long
    def test_library_that_does_not_end_is_named(self):
        out = run(ODD_HOST, 2, *PAIRS, "--progress-timeout", "2", BX_HOST="endless")
        self.assertEqual(out.code, 4, out.stdout + out.stderr)
        self.assertRegex(out.stderr, r"\n  ranks 0-1 on \S+: in MPI_Finalize, ending\n")
        self.assertTrue(out.result["verified"])

    def wait_for_rank(self, session: int, rank: int) -> int:
        """The process of a rank, by the variables of Open MPI, MPICH and PMI."""
        names = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
        limit = time.monotonic() + TIMEOUT
        while time.monotonic() < limit:
            for pid in members(session):
                with contextlib.suppress(OSError):
                    command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
                    variables = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
                    if command == TRANSPOSE and any(f"{n}={rank}" in variables for n in names):
                        return pid
            time.sleep(0.05)
        raise TimeoutError("the rank has not started")

    def test_launch_longer_than_the_timeout_is_not_a_stall(self):
        out = run(TRANSPOSE, 1, "--grid", "16,16,16", "--method", "direct", "--baseline", "none",
                  "--repeats", "20000", "--block", "1", "--progress-timeout", "2")  # fmt: skip
        self.assertEqual(out.code, 0, out.stderr)
        self.assertGreater(out.result["harness"]["measure_s"], 2)


if __name__ == "__main__":
    TRANSPOSE, ODD_HOST = sys.argv[1:3]
    main(*sys.argv[3:])
