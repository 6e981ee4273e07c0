"""Releases: which one this is, and which changes of later ones may change verdicts.

CHANGELOG.md has the rule of when stored nights remain comparable, and the changes of each release.
"""

import os
import re
from collections.abc import Iterable

from bisection import __version__
from bisection.core import paths
from bisection.core.commands import ask

NUMBER = re.compile(r"\d+(?:\.\d+)+")


def described() -> str:
    """This release with its commit: 1.0.0 (v1.0.0-0-g8ae15bcb); without git, the release alone."""
    ceiling = {**os.environ, "GIT_CEILING_DIRECTORIES": str(paths.ROOT.parent)}
    words = "describe --tags --always --long --dirty".split()
    git = ask("git", "-C", str(paths.ROOT), *words, environ=ceiling)
    return f"{__version__} ({git.text.strip()})" if git else __version__


def release_of(facts: dict[str, str]) -> str:
    """The newest release whose kernels a session ran, by its facts; "" if none is recorded."""
    builds = facts.get("kernels", "").split(", ")
    numbers = filter(NUMBER.fullmatch, (text.split(" ")[0] for text in builds))
    return max(numbers, key=_order, default="")


def changes_between(releases: Iterable[str]) -> list[str]:
    """The changes that may change verdicts, of releases behind the first of these up to the last,
    as CHANGELOG.md has them."""
    numbers, changes = sorted(map(_order, releases)), []
    release = _order("0")
    for line in paths.text_of(paths.ROOT / "CHANGELOG.md").splitlines():
        if line.startswith("## "):
            number = NUMBER.match(line[3:])
            release = _order(number[0] if number else "0")
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if cells[-1].startswith("yes") and numbers and numbers[0] < release <= numbers[-1]:
            changes.append(cells[0])
    return changes


def _order(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))
