"""Launches of kernels that must verify: launches.txt.

Usage: test_launches.py BUILD_FOLDER [EXECUTABLE...]

Lines that begin with `long` are for `ctest -L long`.
"""

import itertools
import re
import sys
import unittest
from pathlib import Path

from kernel_run import LONG, long, main, run

BUILD = Path()
CHOSEN: "list[str]" = []  # all, if it is empty


def launches() -> "dict[str, list[str]]":
    """The command lines of each executable, with braces expanded; RANKS and THREADS first."""
    lines = Path(__file__).with_name("launches.txt").read_text().splitlines()
    commands: dict[str, list[str]] = {}
    for line in lines:
        line = line.partition("#")[0]
        if line.startswith("long ") != LONG:
            continue
        parts = re.split(r"\{(.*?)\}", line[len("long ") :] if LONG else line)
        for texts in itertools.product(*(part.split(",") for part in parts[1::2])):
            texts = [*texts, ""]
            words = "".join(map("".join, zip(parts[::2], texts, strict=True))).split()
            if words:
                commands.setdefault(words.pop(1), []).append(words)
    return commands


class Launches(unittest.TestCase):
    def verify(self):
        for name, commands in launches().items():
            if CHOSEN and name not in CHOSEN:
                continue
            executable = next((p for p in BUILD.glob(f"*/{name}") if p.is_file()), None)
            if not executable and name.startswith("checked-"):
                continue  # gfortran's
            for layout, *arguments in commands:
                ranks, _, threads = layout.partition("x")
                with self.subTest(" ".join([layout, name, *arguments])):
                    out = run(str(executable), int(ranks), *arguments, threads=int(threads or 1))
                    self.assertEqual(out.code, 0, out.stdout + out.stderr)
                    self.assertTrue(out.result["verified"])
                    self.assertNotIn("Fortran runtime", out.stderr)

    def test_every_method_verifies(self):
        self.verify()

    @long
    def test_every_method_verifies_on_more_layouts(self):
        self.verify()


if __name__ == "__main__":
    BUILD, CHOSEN = Path(sys.argv[1]), sys.argv[2:]
    main()
