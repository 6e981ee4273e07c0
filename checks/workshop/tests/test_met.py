"""The table of what the suite has met: of what programs wrote, and of nothing else."""

import json

import pytest

from workshop.cli import main
from workshop.commands import met

BUILT = {"mpi": "Open MPI v5.0.7", "compilers": "GNU 14.2.0", "processor": "aarch64, emulated"}
KNOWN = met.Met(
    "kernels' tests", "MPICH 4.0.2", "Clang 14", "x86_64", "Debian 12", "none", 90, "2026-11-20"
)


def suite(failures, *properties):
    """A JUnit file of ten tests, two of them skipped."""
    inside = "".join(f'<property name="{name}" value="{text}"/>' for name, text in properties)
    count = f'tests="10" failures="{failures}" errors="0" skipped="1" disabled="1"'
    return (
        f"<testsuites><testsuite {count}><properties>{inside}</properties></testsuite></testsuites>"
    )


@pytest.fixture
def home(home, monkeypatch):
    """A home folder with a build whose tests passed, and a page that knows another."""
    page = home / "tested.md"
    page.write_text(f"Above.\n\n{met.HEAD}|---|\n{met.line(KNOWN)}\nBelow.\n")
    monkeypatch.setattr(met, "PAGE", page)
    (home / "build").mkdir()
    (home / "build/built-with.json").write_text(json.dumps(BUILT))
    (home / "build/tests.xml").write_text(suite(0))
    return home


def rows(home):
    return [*map(met.parse, met.TABLE.search((home / "tested.md").read_text())[1].splitlines())]


def test_what_passed_is_written_beside_what_is_known_and_replaces_what_is_old(home):
    for _ in range(2):
        assert main(["met", "--write"]) == 0
    known, new = sorted(rows(home), key=lambda row: row.mpi)
    assert known == KNOWN
    assert (new.mpi, new.processor, new.passed) == (BUILT["mpi"], BUILT["processor"], 8)
    text = (home / "tested.md").read_text()
    assert text.startswith("Above.\n")
    assert text.endswith("\nBelow.\n")


def test_what_failed_is_left_out(home):
    (home / "build/tests.xml").write_text(suite(1))
    assert main(["met", "--write"]) == 0
    assert rows(home) == [KNOWN]


def test_a_virtual_cluster_has_its_scheduler(home, capsys):
    properties = [*BUILT.items(), ("scheduler", "slurm 24.11.5")]
    (home / "testbed.xml").write_text(suite(0, *properties))
    assert main(["met"]) == 0
    assert "| slurm 24.11.5 | 8 |" in capsys.readouterr().out


def test_a_run_counts_where_it_passed_on_this_machine(home, capsys):
    verdict = {
        "exit_code": 0,
        "arguments": [],
        "is_local": True,
        "tier": "quick",
        "launches": [{"facts": {}}, {"facts": {"MPI": "MPICH 5.0.2", "compiler": "GNU 12.2.0"}}],
        "cases": [{"fixture": fixture, "verdict": "pass"} for fixture in (True, False, False)],
    }
    others = ({"exit_code": 1}, {"is_local": False}, {"arguments": ["-n", "^pairs"]})
    for day, change in zip(("01", "02", "03", "04"), ({}, *others), strict=True):
        folder = home / f"results/2026-11-{day}T061125Z"
        folder.mkdir(parents=True)
        (folder / "verdict.json").write_text(json.dumps(verdict | change))
    assert main(["met"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "MPICH 5.0.2" in line]
    assert [met.parse(line)[-2:] for line in lines] == [(2, "2026-11-01")]
