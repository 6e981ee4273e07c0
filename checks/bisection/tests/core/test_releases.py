"""The version of the suite, and what it says of sessions of several releases."""

import re
import subprocess

import pytest
from made_up import nights
from running import CHECKS

from bisection import __version__
from bisection.core import paths, releases
from bisection.core.reasons.performance import OtherReleases
from bisection.kernels import results
from bisection.report.comparison_text import against_earlier
from bisection.runs import run_verdict
from bisection.store import sample_file

CHANGES = """# Changes

| change | may change verdicts |
|---|---|
| no release | yes: of none |

## Unreleased

| change | may change verdicts |
|---|---|
| to come | yes: of no session yet |

## 1.10.0 (2027-03-01)

| change | may change verdicts |
|---|---|
| a barrier | yes: times get shorter |
| an option | no: of no earlier test |

## 1.9.0

| change | may change verdicts |
|---|---|
| a clock | yes: times of 1 us |

## 1.0.0
"""


def git(folder, *words):
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "-C", folder, *author, *words], check=True, capture_output=True)


def test_version_has_commit_and_formats(command_line):
    code, text, _ = command_line("--version")
    first, formats = text.splitlines()
    assert code == 0
    assert re.fullmatch(rf"bisection {re.escape(__version__)}( \([\w.-]+\))?", first)
    assert formats == (
        f"formats: sample file {sample_file.VERSION}, verdict.json {run_verdict.VERSION}, "
        f"kernel result {results.VERSION}"
    )


def test_commit_and_tag_are_those_of_this_repository_alone(tmp_path, monkeypatch):
    root = tmp_path / "suite"
    root.mkdir()
    monkeypatch.setattr(paths, "ROOT", root)
    git(tmp_path, "init")
    git(tmp_path, "commit", "--allow-empty", "-m", "another project, which the suite is in")
    assert releases.described() == __version__
    git(root, "init")
    git(root, "commit", "--allow-empty", "-m", "a release")
    assert re.fullmatch(rf"{__version__} \([0-9a-f]{{7,}}\)", releases.described())
    git(root, "tag", "v1.0.0")
    git(root, "commit", "--allow-empty", "-m", "a change")
    assert re.fullmatch(rf"{__version__} \(v1.0.0-1-g[0-9a-f]{{7,}}\)", releases.described())


def test_the_version_is_the_same_in_each_file():
    root = CHECKS.parent
    for file, line in (
        ("pyproject.toml", f'version = "{__version__}"'),
        ("CITATION.cff", f"version: {__version__}"),
        ("src/CMakeLists.txt", f"project(bisection VERSION {__version__} LANGUAGES C Fortran)"),
    ):
        assert f"\n{line}\n" in (root / file).read_text()
    dated = re.search(r"^date-released: (.*)$", (root / "CITATION.cff").read_text(), re.M)[1]
    newest = re.findall(r"^## \d.*$", (root / "CHANGELOG.md").read_text(), re.M)[0]
    assert newest == f"## {__version__} ({dated})"


def test_each_row_of_the_changes_says_whether_verdicts_may_change():
    rows = [
        line for line in (CHECKS.parent / "CHANGELOG.md").read_text().splitlines() if "|" in line
    ]
    cells = [row.strip("| ").split(" | ") for row in rows]
    kinds = [tuple(row) for row in cells if "---" not in row[0] and row[0] != "change"]
    assert len(kinds) > 10
    assert [row for row in kinds if len(row) != 2 or not re.match(r"(yes|no)\b", row[1])] == []


@pytest.mark.parametrize(
    ("names", "changes"),
    [
        (["1.9.0", "1.10.0"], ["a barrier"]),
        (["1.10.0", "1.0.0"], ["a barrier", "a clock"]),
        (["1.0.0", "1.9.0"], ["a clock"]),
        (["1.10.0"], []),
        (["1.10.0", "1.11.0"], []),
        ([], []),
    ],
)
def test_changes_between_releases_count(names, changes, tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    assert releases.changes_between(names) == []  # without the file
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    assert releases.changes_between(names) == changes


def test_a_comparison_says_that_a_release_between_may_change_verdicts(
    compared, tmp_path, monkeypatch
):
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    (tmp_path / "CHANGELOG.md").write_text(CHANGES)
    old, new, newer = (
        {"facts": {"kernels": text}}
        for text in (
            "1.0.0 5fa1e11 Release",
            "1.9.0 abc Debug, 1.10.0 abc Release",
            "1.10.0 f Release",
        )
    )
    values = {"p2p": [1e-3] * 4}
    result = compared(nights(values, **old), nights(values, first=4, **new))
    (advice,) = [each for each in result.advice if isinstance(each, OtherReleases)]
    assert str(advice) == (
        "sessions of releases 1.0.0, 1.10.0: CHANGELOG.md lists 2 changes between them "
        "that may change verdicts"
    )
    assert f"note: {advice}" in against_earlier(result)
    for facts in (newer, {"facts": {}}):
        result = compared(nights(values, first=8, **new), nights(values, first=12, **facts))
        assert not any(isinstance(each, OtherReleases) for each in result.advice)
