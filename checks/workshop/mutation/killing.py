"""Runs the tests of `make test` on mutants, those of the same room first."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from bisection.kernels.local import BenchError, make
from workshop.mutation.mutants import Mutant

LIMIT = 1800  # s for the tests of a mutant; one that runs longer is killed
FAILED = re.compile(r"(?m)^(?:(?:FAILED|ERROR) (\S+)|\s*\d+ - (\S+) \()")
# folder of src -> names of its tests, where they are not named after the folder
KERNELS = {
    "common": "unit|harness|processor|first_kernel|patterns",
    "burn": "burn|unit_adapters",
    "network": "patterns|pairs|noise|congestion|device",
    "transpose": "transpose|unit_(geometry|plan)",
    "md": "md|mesh|constraints|restart",
}
SIDE_BY_SIDE = "2"
AGAIN = {  # what runs a test that failed once more
    "Python": ["--last-failed", "--last-failed-no-failures=none"],
    "C and Fortran": ["--rerun-failed"],
}


def build(tree: Path, tests: str = "", level: str = "") -> Path:
    """Builds the kernels of a tree; returns the build folder.

    Args:
        tree: a copy of the repository.
        tests: a regular expression: only the programs of these tests are built; "": all.
        level: of optimisation; "": that of a release.

    Raises:
        BenchError: it does not build.
    """
    folder = tree / ".bisection" / "build"
    # Tests of simulated launches are long: not run on mutants.
    options = ["-DCMAKE_EXPORT_COMPILE_COMMANDS=ON", "-DBX_SMPIRUN=OFF"]
    if level:
        options += [f"-DCMAKE_{name}_FLAGS_RELEASE={level} -DNDEBUG" for name in ("C", "Fortran")]
    if tests:
        make(folder, options, ["help"], root=tree)
    make(folder, options, _programs(folder, tests) if tests else ["all"], root=tree)
    return folder


def _programs(folder: Path, tests: str) -> Sequence[str]:
    """The targets that tests name, and that the test `launcher` of many of them names."""
    lines = re.findall(
        r"add_test\(\[=\[(.*?)\]=\] (.*)\)", (folder / "tests/CTestTestfile.cmake").read_text()
    )
    words = [words for name, words in lines if re.search(f"^launcher$|{tests}", name)]
    named = {Path(word).name for word in re.findall(r'"(.*?)"', " ".join(words))}
    return sorted(named & {target.stem for target in folder.glob("*/CMakeFiles/*.dir")})


def killer(mutant: Mutant, tree: Path) -> str:
    """Returns the first test that fails on a mutant, "" if none does. The test has to fail a second
    time, and to pass without the mutant.

    Raises:
        BenchError: the test, or the build, fails without the mutant too.
    """
    for command, tests in _commands(mutant, tree):
        second_command = [*command, *AGAIN[mutant.language]]
        with mutant.in_force(tree):
            try:
                _built(mutant, tree, tests)
            except BenchError:
                failed, killed = "the build", True
            else:
                failed = _failed(command, tree)
                killed = bool(failed and _failed(second_command, tree))
        if not killed:
            continue
        _built(mutant, tree, tests)
        if failed != "the build" and _failed(second_command, tree):
            raise BenchError(f"{failed} fails without a mutant too")
        return failed
    return ""


def _commands(mutant: Mutant, tree: Path) -> Iterator[tuple[Sequence[str], str]]:
    """The tests that may tell, and of ctest's the regular expression for `build`: the test that
    told last, those of the file, of its room, and all."""
    path = Path(mutant.file)
    if mutant.language == "Python":
        suites = ["checks/bisection/tests", "checks/interconnect/tests"]
        room = Path(suites[0], path.parts[2] if len(path.parts) > 3 else "checks")
        if path.parts[1] == "interconnect":
            room = Path(suites[1])
        python = str(tree / ".bisection" / "venv" / "bin" / "python")  # of the copy, as tests ask
        run = [python, "-m", "pytest", "-qx", "-n", SIDE_BY_SIDE]
        uses = re.compile(rf"\b{path.parent.name}(\.| import .*\b){path.stem}\b")
        near = [
            str(file.relative_to(tree))
            for suite in suites
            for file in sorted((tree / suite).rglob("test_*.py"))
            if file.stem == f"test_{path.stem}" or uses.search(file.read_text())
        ]
        if mutant.test and (tree / mutant.test).exists():
            yield [*run, mutant.test], ""
        if near:
            yield [*run, *near], ""
        if (tree / room).is_dir():
            yield [*run, str(room), *(f"--ignore={file}" for file in near)], ""
        suites = [suite for suite in suites if (tree / suite).is_dir()]
        yield [*run, *suites, *(f"--ignore={file}" for file in [room, *near])], ""
    else:
        names = KERNELS.get(path.parts[1], path.parts[1])
        ctest = ["ctest", "--test-dir", str(tree / ".bisection" / "build"), "-LE", "long"]
        ctest += ["--stop-on-failure", "-j", SIDE_BY_SIDE]
        for regex in filter(None, (mutant.test and f"^{mutant.test}$", names)):
            yield [*ctest, "--tests-regex", regex], regex
        yield [*ctest, "--exclude-regex", names], ""


def _built(mutant: Mutant, tree: Path, tests: str) -> None:
    if mutant.language != "Python":
        build(tree, tests, "-O1")  # half of the time of -O3


def _failed(command: Sequence[str], tree: Path) -> str:
    """Returns the first test that fails, "" if none does."""
    environ = {**os.environ, "PYTHONPATH": str(tree / "checks")}
    environ.pop("BISECTION_HOME", None)
    try:
        done = subprocess.run(
            command,
            timeout=LIMIT,
            cwd=tree,
            env=environ,
            capture_output=True,
            text=True,
            errors="replace",
        )
    except subprocess.TimeoutExpired:
        return f"no end within {LIMIT} s"
    if done.returncode in (0, pytest.ExitCode.NO_TESTS_COLLECTED):
        return ""
    failed = FAILED.search(done.stdout)
    return next(filter(None, failed.groups())) if failed else f"{command[0]}: {done.returncode}"
