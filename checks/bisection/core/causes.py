"""What launchers, MPI libraries and the system print of a launch that does not end well, and the
meaning: the rows of causes.csv.

The first row counts whose words are in the output: what explains how a rank died stands before
deaths, and deaths before the words of ranks that were left behind. What is not measured is what
keeps a kernel from beginning.
"""

import csv
import re
from dataclasses import dataclass
from pathlib import Path

FAILED, NOT_MEASURED, NOTE = "failed", "not measured", "note"


@dataclass(frozen=True)
class Cause:
    """A row of the table; texts take the groups of `words` in braces."""

    about: str
    program: str  # that prints it
    launcher: str  # ReFrame's name of the only launcher under which it counts; "": any
    exit: str  # code with which ranks or the launcher end; "": any
    nodes: str  # "some": counts if it is about some nodes of the job, and not about the others
    words: re.Pattern[str]
    verdict: str  # on the launch, and "note" if it is noted where the launch succeeds
    kind: str  # of the reason
    cause: str
    next: str  # what to do
    source: str  # public report, as owner/repository#number of GitHub

    @property
    def ends(self) -> bool:
        return self.verdict != NOTE

    @property
    def notes(self) -> bool:
        return NOTE in self.verdict


def _cause(row: dict[str, str]) -> Cause:
    words = re.compile(row.pop("words"), re.MULTILINE)
    return Cause(**row, words=words)


with open(Path(__file__).with_suffix(".csv"), newline="", encoding="utf-8") as file:
    CAUSES = tuple(map(_cause, csv.DictReader(file)))


def kinds(verdict: str) -> set[str]:
    return {row.kind for row in CAUSES if row.verdict.startswith(verdict)}
