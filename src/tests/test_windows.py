"""Kernels where windows cannot be had: methods that need them do not apply, all others run.

Usage: test_windows.py FOLDER_OF_KERNELS ODD_WINDOWS [unittest arguments]

Exit code 77 without mount namespaces.
"""

import itertools
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from kernel_run import MPIEXEC, Outcome, inapplicable, launchers, run

KERNELS = Path()
ODD = ""  # a library to preload
NAMESPACE = ("unshare", "--mount", *(() if os.geteuid() == 0 else ("--map-root-user",)))
ONCE = ("--repeats", "1", "--block", "1", "--progress-timeout", "60")
SMALL = ("--grid", "72,72,72", "--bands", "1", "--planner", "estimate", "--baseline", "none")
# Its messages take up to 24 MiB a rank in a run of transpose, and crash where these cannot be had.
INTEL = launchers.library(MPIEXEC[0])[0] == "intel-mpi"
NO_ROOM = r"needs [0-9.]+ MiB of shared memory on host \S+; /dev/shm has room for [0-9.]+ MiB"


def launch(kernel: str, ranks: int, *arguments: str, mib: float = 0, **environment: str) -> Outcome:
    """With a /dev/shm of so many MiB, unless it is 0; BX_WINDOWS is for the odd library.

    Raises unittest.SkipTest where this MPI library does not start with so little: MPICH 5.0.2
    crashes in MPI_Init with less than 2 MiB, and its UCX with 16.
    """
    mount = f'mount -t tmpfs -o size={int(mib * 1024)}k tmpfs /dev/shm && exec "$@"'
    small = (*NAMESPACE, "sh", "-c", mount, "sh") if mib else ()
    executable = KERNELS / kernel.partition(" ")[0] / f"bisection-{kernel.rpartition(' ')[2]}"
    odd = ("env", f"LD_PRELOAD={ODD}") if "BX_WINDOWS" in environment else ()
    command, *words = (*odd, str(executable), *arguments, *ONCE)
    out = run(command, ranks, *words, before=small, **environment)
    if mib and out.code > 4 and run(command, ranks, "--list", before=small, **environment).code:
        raise unittest.SkipTest(f"this MPI library does not start with {mib:.2g} MiB in /dev/shm")
    return out


class Windows(unittest.TestCase):
    def reasons(self, out: Outcome) -> "dict[str, str]":
        """Of the methods that did not run; all others are verified."""
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        self.assertTrue(out.result["verified"])
        return inapplicable(out)

    def assert_refused(self, out: Outcome) -> None:
        """By a line, not by a signal or the watchdog."""
        self.assertEqual(out.code, 3, out.stdout + out.stderr)
        self.assertRegex(out.stderr, rf"bisection-\w+: no method can run here: \w+: {NO_ROOM}")


class SmallSharedMemory(Windows):
    """A container has 64 MiB for the most part; MPI's own buffers need 8 MiB of 16."""

    def test_transpose_runs_what_needs_no_window(self):
        for ranks, nodes in ((2, ()), (3, ("--ranks-per-node", "2"))):
            with self.subTest(ranks=ranks):
                mib = 24 * ranks if INTEL else 16
                reasons = self.reasons(launch("transpose", ranks, *SMALL, *nodes, mib=mib))
                self.assertEqual(set(reasons), {"shm", "shm-padded", "direct", "leaders"})
                for why in reasons.values():
                    self.assertRegex(why, NO_ROOM)

    def test_transpose_refuses_a_launch_that_needs_a_window(self):
        size = ("--grid", "192,192,192", "--bands", "1", "--planner", "estimate")
        self.assert_refused(
            launch("transpose", 2, *size, "--method", "shm", "--baseline", "none", mib=64)
        )

    def test_transpose_finds_the_library_s_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            out = launch("transpose", 2, *SMALL, mib=16, OMPI_MCA_osc_sm_backing_directory=folder)
        if "Open MPI v4" not in out.result["build"]["mpi"]:
            self.skipTest("has no such parameter")
        self.assertEqual(self.reasons(out), {})

    def test_teams_agree_on_the_methods(self):
        """Two k-points on three ranks: one team's windows are twice the other's."""
        size = ("--grid", "64,64,64", "--kpoints", "2", "--bands", "2", "--planner", "estimate")
        for exchanges in ("1", "2"):
            out = launch("transpose", 3, *size, "--exchanges", exchanges, mib=24)
            self.assertLessEqual(
                {"direct"}, set(self.reasons(out)), f"{exchanges} exchanges: {out.stdout}"
            )

    def test_halo_runs_what_needs_no_window(self):
        size = ("--case", "pchan-24", "--grid", "64,64,64", "--baseline", "none")
        out = launch("halo", 2, *size, mib=16)
        reasons = self.reasons(out)
        self.assertRegex(reasons.pop("shm"), NO_ROOM)
        self.assertLessEqual(set(reasons), {"rma-fence", "rma-pscw"})

    def test_tasks_refuses_alike_on_all_ranks(self):
        self.assert_refused(launch("tasks", 3, "--rows", "200", mib=16))

    def test_npar_runs_what_needs_no_window(self):
        size = ("--bands", "8", "--atoms", "1", "--grid", "100,100,100")
        out = launch("npar", 2, *size, "--method", "npar-1,node-aware", mib=16)
        reasons = self.reasons(out)
        self.assertEqual(set(reasons), {"node-aware"})
        self.assertRegex(reasons["node-aware"], NO_ROOM)

    def test_64_kib_are_enough_to_start(self):
        settings = {
            "OMPI_MCA_btl": "self,tcp",
            "OMPI_MCA_btl_tcp_if_include": "lo",
            "UCX_TLS": "self,sysv",
        }
        self.assert_refused(launch("tasks", 2, "--rows", "200", mib=1 / 16, **settings))
        reasons = self.reasons(launch("transpose", 2, *SMALL, mib=1 / 16, **settings))
        self.assertEqual(set(reasons), {"shm", "shm-padded", "direct", "leaders"})

    def test_intel_keeps_room_for_its_messages(self):
        reasons = self.reasons(launch("transpose", 2, *SMALL, mib=40, BX_WINDOWS="intel"))
        self.assertEqual(set(reasons), {"shm", "shm-padded", "direct", "leaders"})

    def test_patterns_run(self):
        reasons = self.reasons(launch("network patterns", 3, "--largest", "4096", mib=16))
        self.assertLessEqual(set(reasons), {"put", "get", "message-rate", "node-to-node"})


class WithoutWindows(Windows):
    """Some sites set Open MPI so; other libraries have windows all the same."""

    def test_kernels_run(self):
        for kernel, components in itertools.product(
            ("transpose", "halo"), ("^sm,rdma,pt2pt,ucx", "ucx")
        ):
            with self.subTest(kernel=kernel, components=components):
                reasons = self.reasons(launch(kernel, 2, OMPI_MCA_osc=components))
                for why in reasons.values():
                    self.assertRegex(why, r"^MPI makes no window here: MPI_Win_\w+: \w+")

    def test_tasks_needs_no_progress_of_its_own_words(self):
        out = launch("tasks", 2, "--rows", "20", OMPI_MCA_osc="ucx")
        if "MPI makes no window here" in out.stderr:
            self.skipTest("this library has no such component")
        self.assertEqual(self.reasons(out), {})

    def test_ranks_agree_where_one_fails(self):
        for kernel, methods in (
            ("transpose", {"shm", "shm-padded", "direct", "leaders"}),
            ("halo", {"shm"}),
        ):
            with self.subTest(kernel=kernel):
                reasons = self.reasons(launch(kernel, 2, BX_WINDOWS="fail"))
                self.assertLessEqual(methods, set(reasons))
                for method in methods:
                    self.assertIn("MPI_Win_allocate_shared: ", reasons[method])


if __name__ == "__main__":
    KERNELS, ODD = Path(sys.argv[1]), sys.argv[2]
    os.environ["TMPDIR"] = "/tmp"  # `make test` has it in /dev/shm, which the tests cover
    if subprocess.run([*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"]).returncode:
        print("skipped: no mount namespaces without root rights")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
