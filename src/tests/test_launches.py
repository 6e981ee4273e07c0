"""Launches of kernels that must verify: launches.txt.

Usage: test_launches.py BUILD_FOLDER [EXECUTABLE...]

Lines that begin with `long` are for `ctest -L long`, and with `sanitized` for builds with
sanitizers, where BX_SANITIZED is set and nothing else is launched.  Those with `device` are for
test_device.py.
"""

import itertools
import os
import re
import sys
import unittest
from pathlib import Path

from kernel_run import LONG, long, main, misfit, run

BUILD = Path()
CHOSEN: "list[str]" = []  # all, if it is empty
KIND = "long " if LONG else "sanitized " if "BX_SANITIZED" in os.environ else ""


def launches(wanted: str = KIND) -> "dict[str, list[str]]":
    """The command lines of each executable, with braces expanded; RANKS and THREADS first."""
    lines = Path(__file__).with_name("launches.txt").read_text().splitlines()
    commands: dict[str, list[str]] = {}
    for line in lines:
        kind, command = re.fullmatch(r"((?:long |sanitized |device )?)(.*?)(?:#.*)?", line).groups()
        if kind != wanted:
            continue
        parts = re.split(r"\{(.*?)\}", command)
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
            executable = next(path for path in BUILD.glob(f"*/{name}") if path.is_file())
            for layout, *arguments in commands:
                ranks, _, threads = layout.partition("x")
                with self.subTest(" ".join([layout, name, *arguments])):
                    out = run(str(executable), int(ranks), *arguments, threads=int(threads or 1))
                    self.assertEqual(out.code, 0, out.stdout + out.stderr)
                    self.assertTrue(out.result["verified"])
                    self.assertEqual(misfit(out), "")
                    self.assertNotIn("Fortran runtime", out.stderr)

    def test_every_method_verifies(self):
        self.verify()

    @long
    def test_every_method_verifies_on_more_layouts(self):
        self.verify()


if __name__ == "__main__":
    BUILD, CHOSEN = Path(sys.argv[1]), sys.argv[2:]
    main()
