"""Kernels that were compiled for another processor end with one line, before any instruction of it.

Usage: test_processor.py UNIT_PROCESSOR KERNEL [unittest arguments]
"""

import os
import shutil
import subprocess
import sys
import unittest

from kernel_run import run

UNIT = KERNEL = ""


def start(*command, **environment):
    env = {**os.environ, **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)


class Processor(unittest.TestCase):
    def refused(self, done, lacks):
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertIn(": compiled for another processor: that of ", done.stderr)
        self.assertIn(lacks, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)

    def test_other_processor_is_refused_before_main(self):
        self.refused(start(UNIT), " lacks time-travel, avx-none; ")

    def test_one_rank_of_a_node_speaks(self):
        for variable in ("OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"):
            self.refused(start(UNIT, **{variable: "0"}), " lacks time-travel")
            done = start(UNIT, **{variable: "1"})
            self.assertEqual((done.returncode, done.stdout, done.stderr), (3, "", ""))

    def test_result_names_what_it_was_compiled_for(self):
        out = run(KERNEL, 1, "--largest", "8", "--repeats", "1", "--block", "1")
        self.assertEqual(out.code, 0, out.stderr)
        build = out.result["build"]
        self.assertIn("march", build)
        with open("/proc/cpuinfo") as file:
            flags = file.read().split()
        if build["march"] == "native" and "avx2" in flags:
            self.assertIn("avx2", build["instructions"])

    def test_emulated_processor_is_refused(self):
        emulator = shutil.which("qemu-x86_64") or shutil.which("qemu-x86_64-static")
        if not emulator or os.uname().machine != "x86_64":
            self.skipTest("needs qemu-user, and x86-64")
        done = start(emulator, "-cpu", "Nehalem", KERNEL, "--help")
        if done.returncode == 0:
            self.skipTest("compiled for old processors")
        self.refused(done, " lacks ")
        self.assertIn("avx", done.stderr)


if __name__ == "__main__":
    UNIT, KERNEL = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
