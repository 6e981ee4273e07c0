"""Prints the builds, runs and clusters that passed here, as the table of checks/docs/tested.md.

A row is made of what a program wrote when it ran: CMake the compilers and the MPI library of a
build, ctest and pytest their counts, `bisection run` its verdict.
"""

import argparse
import json
import platform
import re
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree

from bisection.core import paths
from bisection.core.verdicts import Exit

PAGE = paths.ROOT / "checks" / "docs" / "tested.md"
HEAD = "| what ran | MPI | compilers | processor | system | scheduler | passed | day |\n"
TABLE = re.compile(re.escape(HEAD) + r"\|[-|]+\|\n((?:\|.*\n)*)")


SYSTEM = platform.freedesktop_os_release().get("PRETTY_NAME", platform.system())


class Met(NamedTuple):
    """A row of the table."""

    ran: str
    mpi: str
    compilers: str
    processor: str
    system: str
    scheduler: str
    passed: int
    day: str  # 2026-11-26


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    parser.add_argument("--write", action="store_true", help="update the table of the page")


def act(options: argparse.Namespace) -> Exit:
    rows = [row for row in (*tests(paths.home()), *runs(paths.home())) if row.passed]
    text = PAGE.read_text()
    table = TABLE.search(text)
    known = [*map(parse, table[1].splitlines())] if table and options.write else []
    lines = "".join(map(line, newest([*known, *rows])))
    if options.write and table:
        PAGE.write_text(text[: table.start(1)] + lines + text[table.end(1) :])
    else:
        print(HEAD + "|---" * len(Met._fields) + "|\n" + lines, end="")
    return Exit.OK


def line(row: Met) -> str:
    """A row's line of the table."""
    return f"| {' | '.join(map(str, row))} |\n"


def parse(text: str) -> Met:
    """The row of a line of the table."""
    *texts, passed, day = (cell.strip() for cell in text.strip(" |").split("|"))
    ran, mpi, compilers, processor, system, scheduler = texts
    return Met(ran, mpi, compilers, processor, system, scheduler, int(passed), day)


def newest(rows: Iterable[Met]) -> list[Met]:
    """Of rows that differ in count and day alone, the newest, in order."""
    return sorted({row[:-2]: row for row in sorted(rows, key=lambda row: row.day)}.values())


def suite(file: Path) -> tuple[int, str, dict[str, str]]:
    """Of a JUnit file: tests that passed (0 if one failed), its day, its properties."""
    suites = [*ElementTree.parse(file).getroot().iter("testsuite")]

    def count(key: str) -> int:
        return sum(int(each.get(key) or 0) for each in suites)

    passed = count("tests") - count("skipped") - count("disabled")
    wrong = count("failures") + count("errors")
    properties = {p.get("name", ""): p.get("value", "") for p in suites[0].iter("property")}
    day = time.strftime("%Y-%m-%d", time.localtime(file.stat().st_mtime))
    return 0 if wrong else passed, day, properties


def tests(home: Path) -> Iterator[Met]:
    """What ctest passed in each folder of a build, and pytest on virtual clusters."""
    for file in home.glob("build*/built-with.json"):
        built = json.loads(file.read_text())
        if not file.with_name("tests.xml").exists():
            continue
        passed, day, _ = suite(file.with_name("tests.xml"))
        kind = f"tests {file.parent.name.removeprefix('build').strip('-')}".strip()
        yield Met(kind, **built, system=SYSTEM, scheduler="none", passed=passed, day=day)
    for file in home.glob("testbed.xml"):
        passed, day, properties = suite(file)
        yield Met("virtual clusters", **properties, system=SYSTEM, passed=passed, day=day)


def runs(home: Path) -> Iterator[Met]:
    """What `bisection run` passed on this machine, whole tiers without selected checks."""
    for file in home.glob("results/2*/verdict.json"):
        verdict = json.loads(file.read_text())
        facts = [launch["facts"] for launch in verdict["launches"] if "MPI" in launch["facts"]]
        if verdict["exit_code"] or verdict["arguments"] or not verdict["is_local"] or not facts:
            continue
        passed = sum(not case["fixture"] and case["verdict"] == "pass" for case in verdict["cases"])
        yield Met(
            f"`run --tier {verdict['tier']}`",
            facts[-1]["MPI"],
            facts[-1]["compiler"],
            platform.machine(),
            SYSTEM,
            "none",
            passed,
            file.parent.name[:10],
        )
