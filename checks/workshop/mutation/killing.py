"""Runs the tests of `make test` on mutants, those of the same room first."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bisection.kernels.local import make
from workshop.mutation.mutants import Mutant

LIMIT = 1800  # s for the tests of a mutant; one that runs longer is killed
FAILED = re.compile(r"(?m)^(?:(?:FAILED|ERROR) (\S+)|\s*\d+ - (\S+) \()")
# folder of src -> names of its tests, where they are not named after the folder
KERNELS = {
    "common": "unit_(harness|adapters|profile|processor|layout)|harness|processor|first_kernel",
    "network": "patterns|pairs|noise|congestion",
    "transpose": "transpose|unit_(geometry|plan)",
    "md": "md|mesh|constraints|restart",
}
SIDE_BY_SIDE = "2"


def build(tree: Path) -> Path:
    """Builds the kernels of a tree; returns the build folder.

    Raises:
        BenchError: it does not build.
    """
    folder = tree / ".bisection" / "build"
    make(folder, ["-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"], root=tree)
    return folder


def killer(mutant: Mutant, tree: Path) -> str:
    """Returns the first test that fails on a mutant, "" if none does."""
    with mutant.in_force(tree):
        for command in _commands(mutant, tree):
            if failed := _failed(command, tree):
                return failed
    return ""


def _commands(mutant: Mutant, tree: Path) -> Iterator[Sequence[str]]:
    """The tests that may tell, those of the same room first."""
    parts = Path(mutant.file).parts
    if mutant.language == "Python":
        tests = Path("checks", "bisection", "tests")
        room = tests / (parts[2] if len(parts) > 3 else "checks")
        python = str(
            tree / ".bisection" / "venv" / "bin" / "python"
        )  # of the copy, as its tests ask
        run = [python, "-m", "pytest", "-qx", "-n", SIDE_BY_SIDE]
        if (tree / room).is_dir():
            yield [*run, str(room)]
        yield [*run, str(tests), f"--ignore={room}"]
    else:
        folder = tree / ".bisection" / "build"
        names = KERNELS.get(parts[1], parts[1])
        ctest = ["ctest", "--test-dir", str(folder), "-LE", "long", "--stop-on-failure"]
        ctest += ["-j", SIDE_BY_SIDE]
        yield ["cmake", "--build", str(folder), "--parallel", str(os.cpu_count())]
        yield [*ctest, "--tests-regex", names]
        yield [*ctest, "--exclude-regex", names]


def _failed(command: Sequence[str], tree: Path) -> str:
    """Returns the first test that fails, "" if none does."""
    environ = {**os.environ, "PYTHONPATH": str(tree / "checks")}
    environ.pop("BISECTION_HOME", None)
    how = {"cwd": tree, "env": environ, "capture_output": True, "text": True, "errors": "replace"}
    try:
        done = subprocess.run(command, timeout=LIMIT, **how)
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT} s"
    if done.returncode in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        return ""
    failed = FAILED.search(done.stdout)
    return next(filter(None, failed.groups())) if failed else f"{command[0]}: {done.returncode}"
