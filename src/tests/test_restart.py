"""bisection-restart as a user runs it: what files hold, faults of the file system, refusals.

Usage: test_restart.py RESTART FAULTY_RESTART METADATA FAULTY_METADATA [unittest arguments]
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from kernel_run import ENVIRONMENT, MPIEXEC, assert_refused, checks, drawn, entry, kill, listed, run

RESTART = FAULTY = METADATA = FAULTY_METADATA = ""
QUICK = ("--repeats", "1", "--block", "1", "--warmup", "0")
SMALL = (*QUICK, "--case", "waves-mini", "--bytes-per-rank", "200000")
PREFIX = "bisection-restart-"


class Folder:
    """Each test has a folder, in which nothing is left."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def launch(self, executable, ranks, *arguments, **environment):
        size = SMALL if "--case" not in arguments else QUICK
        return run(
            executable, ranks, *size, "--directory", str(self.folder), *arguments, **environment
        )


class Files(Folder, unittest.TestCase):
    def test_one_file_has_the_array_in_its_order(self):
        """Bands are dealt to ranks in turn: in the file they stand in order."""
        keep = self.folder / "keep"
        keep.mkdir()
        out = self.launch(
            FAULTY, 3, "--method", "mpi-io-collective", "--seed", "5",
            BX_FAULT="keep", BX_KEEP=str(keep),
        )  # fmt: skip
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        words = (keep / "array-0").read_bytes()
        self.assertEqual(len(words), out.result["details"]["bytes"])
        first = int.from_bytes(words[:8], sys.byteorder)
        seed = next(seed for seed in range(5, 20) if drawn(seed, 0) == first)  # one more per step
        for index in (1, 16383, 16384, 40000, len(words) // 8 - 1):
            word = int.from_bytes(words[8 * index : 8 * index + 8], sys.byteorder)
            self.assertEqual(word, drawn(seed, index), index)

    def test_a_file_of_a_group_has_the_boxes_of_its_ranks(self):
        for method, files in (("file-per-rank", 5), ("file-per-node", 3), ("root", 1)):
            with self.subTest(method=method):
                keep = self.folder / method
                keep.mkdir()
                out = self.launch(
                    FAULTY, 5, "--method", method, "--ranks-per-node", "2",
                    BX_FAULT="keep", BX_KEEP=str(keep),
                )  # fmt: skip
                self.assertEqual(out.code, 0, out.stdout + out.stderr)
                sizes = [file.stat().st_size for file in keep.iterdir()]
                self.assertEqual(len(sizes), files)
                self.assertEqual(sum(sizes), out.result["details"]["bytes"])

    def test_each_file_is_read_on_another_node_than_it_was_written(self):
        """Nodes get ranks in turn; of five ranks on two nodes, one has no file elsewhere."""
        for ranks, per_node in ((4, 2), (5, 3), (7, 2)):
            arguments = ("--ranks-per-node", str(per_node), "--directory", str(self.folder))
            for executable, more in ((FAULTY, SMALL), (FAULTY_METADATA, QUICK)):
                with self.subTest(ranks=ranks, per_node=per_node, executable=executable):
                    out = run(executable, ranks, *more, *arguments, BX_NODES="turn")
                    self.assertEqual(out.code, 0, out.stdout + out.stderr)

    def test_fewer_readers_read_all_and_none_of_their_own(self):
        for ranks, readers in ((3, 1), (3, 2), (4, 2), (7, 4)):
            with self.subTest(ranks=ranks, readers=readers):
                out = self.launch(RESTART, ranks, "--readers", str(readers))
                self.assertEqual(out.code, 0, out.stdout + out.stderr)

    def test_nothing_is_left(self):
        self.assertEqual(self.launch(RESTART, 3).code, 0)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_folder_of_a_killed_launch_is_removed_by_the_next(self):
        command = [*MPIEXEC, "-n", "2", RESTART, *SMALL, "--repeats", "100000"]
        process = subprocess.Popen(
            [*command, "--directory", str(self.folder)],
            env={**os.environ, **ENVIRONMENT}, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        limit = time.monotonic() + 60
        while not list(self.folder.glob(f"{PREFIX}*/*-*")) and time.monotonic() < limit:
            time.sleep(0.02)
        kill(process)
        (left,) = self.folder.glob(f"{PREFIX}*")
        (elsewhere := self.folder / f"{PREFIX}other").mkdir()
        (elsewhere / "owner").write_text("another-host")
        out = self.launch(RESTART, 2)
        self.assertEqual(out.code, 0, out.stderr)
        self.assertIn(left.name, out.stderr)
        self.assertEqual(list(self.folder.iterdir()), [elsewhere])

    def test_leftovers_are_removed_before_space_is_looked_at(self):
        (left := self.folder / f"{PREFIX}left").mkdir()
        (left / "owner").write_text(socket.gethostname())
        out = self.launch(RESTART, 2, "--most", "1000")
        self.assertEqual(out.code, 3, out.stderr)
        self.assertIn("--most", out.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])


class Faults(Folder, unittest.TestCase):
    def test_a_spoiled_file_is_a_wrong_answer_of_each_method(self):
        for fault in ("flip", "lost", "short"):
            out = self.launch(FAULTY, 3, BX_FAULT=fault)
            self.assertEqual(out.code, 1, out.stdout + out.stderr)
            for method in listed(RESTART, "methods"):
                if not entry(out, method)["applicable"]:
                    continue
                with self.subTest(fault=fault, method=method):
                    self.assertFalse(checks(out, method)["words"]["passed"])
                    self.assertIn(f"{method}: word ", out.stderr)

    def test_what_is_not_on_disk_is_a_wrong_answer(self):
        """Where the file system shows it: this folder is on disk, others may be in memory."""
        with tempfile.TemporaryDirectory(dir=".") as folder:
            out = run(FAULTY, 2, *SMALL, "--directory", folder, BX_FAULT="stays")
        if not out.result["details"]["shows_unsynced"]:
            self.skipTest("pages of this file system do not show it")
        self.assertEqual(out.code, 1, out.stdout + out.stderr)
        for method in ("file-per-rank", "root", "mpi-io-independent", "checkpoint"):
            with self.subTest(method=method):
                failed = {name for name, c in checks(out, method).items() if not c["passed"]}
                self.assertEqual(failed, {"not on disk"})

    def test_a_write_of_nothing_ends_the_launch(self):
        for method in ("file-per-rank", "root"):
            fault = {"BX_FAULT": "nothing"}
            out = self.launch(FAULTY, 2, "--method", method, "--progress-timeout", "10", **fault)
            self.assertEqual(out.code, 3, out.stdout + out.stderr)
            self.assertRegex(out.stderr, "bisection-restart: .* written: No space left")

    def test_a_full_file_system_ends_the_launch_with_its_reason(self):
        methods = ("file-per-rank", "root", "checkpoint", "mpi-io-collective", "mpi-io-independent")
        for method in methods:
            with self.subTest(method=method):
                out = self.launch(
                    FAULTY, 3, "--method", method, "--progress-timeout", "10", BX_FAULT="full"
                )
                # A collective write that failed is a success to Open MPI 4.1 and 5.0; 5.0's
                # MPI_File_sync then returns on one rank only.
                codes = (1, 3, 4) if method == "mpi-io-collective" else (3,)
                self.assertIn(out.code, codes, out.stdout + out.stderr)
                self.assertIn("bisection-restart: ", out.stderr)
                if out.code == 4:
                    self.assertIn("File_sync", out.stderr)
                    shutil.rmtree(*self.folder.iterdir())
                self.assertEqual(list(self.folder.iterdir()), [])


class Metadata(Folder, unittest.TestCase):
    def launch(self, executable, *arguments, **environment):
        size = (*QUICK, "--files-per-rank", "3", "--directory", str(self.folder))
        return run(executable, 3, *size, *arguments, **environment)

    def test_rates_are_of_samples_alone(self):
        """Neither what is verified nor the warm-up counts."""
        arguments = ("--case", "files-50", "--repeats", "1", "--block", "1", "--warmup", "4")
        out = run(METADATA, 1, *arguments, "--directory", str(self.folder))
        for result in out.result["results"]:
            rates = [m["value"] for n, m in result["metrics"].items() if "operations_" in n]
            seconds = sum(50 / rate for rate in rates)
            self.assertAlmostEqual(seconds / result["samples"]["seconds"][0], 1, delta=0.01)

    def test_each_fault_has_its_check(self):
        methods = listed(METADATA, "methods")
        for fault, wrong in (
            ("flip", {"contents"}),
            ("short", {"sizes", "contents"}),
            ("lost", {"names", "contents"}),
            ("unnamed", {"names", "contents", "removed"}),
            ("left", {"removed"}),
        ):
            out = self.launch(FAULTY_METADATA, BX_FAULT=fault)
            for method in methods:
                with self.subTest(fault=fault, method=method):
                    failed = {n for n, c in checks(out, method).items() if not c["passed"]}
                    self.assertEqual(failed, wrong, out.stderr)

    def test_a_full_file_system_ends_the_launch_with_its_reason(self):
        """At once, not after all rounds: these would take longer than a test may."""
        out = self.launch(FAULTY_METADATA, "--repeats", "1000000", BX_FAULT="full")
        self.assertEqual(out.code, 3, out.stderr)
        self.assertRegex(out.stderr, "bisection-metadata: .*: cannot be written: No space left")
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_operations_are_counted_and_nothing_is_left(self):
        out = self.launch(METADATA)
        self.assertEqual(out.code, 0, out.stderr)
        self.assertEqual(list(self.folder.iterdir()), [])
        for method in listed(METADATA, "methods"):
            metrics = entry(out, method)["metrics"]
            rates = [metric["value"] for name, metric in metrics.items() if "operations" in name]
            self.assertEqual(len(rates), len(entry(out, method)["samples"]["phases"]))
            self.assertGreater(min(rates), 0)


class Refusals(Folder, unittest.TestCase):
    def test_folders(self):
        (self.folder / "file").write_text("")
        for name, code in (("missing", 2), ("file", 2)):
            with self.subTest(name=name):
                out = run(RESTART, 2, *SMALL, "--directory", str(self.folder / name))
                assert_refused(self, out, code, f"--directory {self.folder / name}")

    def test_sizes(self):
        for option, value in (("--most", "1000"), ("--share", "0.000001"), ("--readers", "3")):
            with self.subTest(option=option):
                out = self.launch(RESTART, 2, option, value)
                assert_refused(self, out, 2 if option == "--readers" else 3, option)
        self.assertEqual(list(self.folder.iterdir()), [])


if __name__ == "__main__":
    import kernel_run

    RESTART, FAULTY, METADATA, FAULTY_METADATA = sys.argv[1:5]
    kernel_run.main(*sys.argv[5:])
