"""Tables: of a terminal, and of a report's page."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bisection.analysis.model import Row
from bisection.core.format import (
    NONE,
    amount,
    before_after,
    finite,
    interval,
    plain,
    short,
    some,
    times,
)
from bisection.core.grouping import grouped
from bisection.core.reasons.base import clause
from bisection.core.verdicts import COMPARED
from bisection.report import words
from bisection.report.lines import WIDTH, fitting
from bisection.runs.run_verdict import TestResult


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Aligns cells for a terminal, equally many per row; the first row is the head. Columns of
    numbers are aligned to the right."""
    from tabulate import tabulate

    right = [
        all(re.fullmatch(r"[-+x]?\d[\d.,]*%?( [A-Za-z]+)?|-|", row[i]) for row in rows[1:])
        for i in range(len(rows[0]))
    ]
    align = ["right" if number and len(rows) > 1 else "left" for number in right]
    text = tabulate(rows, tablefmt="plain", disable_numparse=True, colalign=align)
    return [line.rstrip() for line in text.splitlines()]


def indented(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as aligned lines, indented, the first row being the head."""
    return ["  " + line for line in columns(rows)]


@dataclass
class TextTable:
    """Rows of text under `head`; `kinds` says of each column how it is shown: text | num |
    small | verdict | against | code | command | lines (several, one below the other) | files."""

    head: list[str]
    kinds: list[str]
    rows: list[list[str]]
    note: str = ""  # what was left out
    title: str = ""
    alike: str = ""  # what all rows have in common, in place of columns
    folded: bool = False  # whether a page shows it only when asked


# What tables list at most.
ROWS, POINTS, CELLS = 300, 60, 1200
Column = tuple[str, str, Callable[[Any], str]]  # head, kind, the cell of an item


def listing(
    items: Iterable[Any],
    columns: Sequence[Column],
    most: int = ROWS,
    name: str = "rows",
    title: str = "",
) -> TextTable:
    """A row per item, `most` of them; the note counts the others, by `name`. Columns that are empty
    in all rows are left out. Of text that is the same in all rows, a line is left."""
    items = list(items)
    rows = [[cell(item) for _, _, cell in columns] for item in items[:most]]
    values = [set(column) for column in zip(*rows, strict=True)]
    used = [i for i, cells in enumerate(values) if cells - {"", "-", NONE}]
    wordy = [i for i in used if columns[i][1] in ("text", "small")]
    alike = [i for i in wordy if len(rows) > 2 and len(values[i]) == 1]
    used = [i for i in used if i not in alike]
    left = len(items) - most
    return TextTable(
        [columns[i][0] for i in used],
        [columns[i][1] for i in used],
        [[row[i] for i in used] for row in rows],
        f"{left:,} more {name} are not listed." if left > 0 else "",
        title,
        alike="; ".join(f"{columns[i][0]}: {rows[0][i]}" for i in alike),
    )


def lines_of(items: Iterable[Any], columns_of: Sequence[Column], most: int = ROWS) -> list[str]:
    """The same as lines of a terminal, with all columns that have content."""
    table = listing(items, [(head, "num", cell) for head, _, cell in columns_of], most)
    return columns([table.head, *table.rows])


def noted(
    items: Sequence[Any], columns_of: Sequence[Column], note: Callable[[Any], str], most: int = ROWS
) -> list[str]:
    """The same, with a note on each item behind its line; or below it, where there is no room."""
    head, *lines = lines_of(items, columns_of, most)
    widest = max(map(len, lines), default=0)
    result = [head]
    for item, line in zip(items[:most], lines, strict=True):
        beside = f"{line:{widest}}  {(text := note(item))}".rstrip()
        room = WIDTH - 2  # indented
        below = [line, *fitting(plain(text), "    ", "    ", room)]
        result += below if text and len(beside) > room else [beside]
    return result


def cells_table(
    head: Sequence[str], kinds: Sequence[str], rows: Iterable[list[str]], cells: int = CELLS
) -> TextTable:
    """A table of cells, as many rows as a page has room for."""
    rows, most = list(rows), cells // len(head)
    left = len(rows) - most
    note = f"{left:,} more rows are not listed." if left > 0 else ""
    return TextTable(list(head), list(kinds), rows[:most], note)


def rows_table(rows: Sequence[Row], most: int = ROWS, title: str = "") -> TextTable:
    """Rows of a comparison, whether they are judged or not with their numbers."""
    several = len(words.scopes(rows)) > 1

    def why(row: Row) -> str:
        scope = f"holds for {row.scope}" if several and row.scope else ""
        return short("; ".join(filter(None, (words.why(row), clause(row.explained), scope))), 240)

    def geometries(row: Row) -> str:
        sides = row.before.geometry, row.after.geometry
        return short(before_after(*sides), 60) if all(sides) and sides[0] != sides[1] else ""

    columns = (
        ("verdict", "verdict", lambda row: row.verdict),
        ("test", "text", lambda row: short(row.test, 120) + (" (control)" if row.control else "")),
        ("metric", "text", lambda row: short(row.metric, 60)),
        ("better", "text", lambda row: row.better),
        ("where", "small", lambda row: short(row.place, 80)),
        ("geometry", "small", geometries),
        ("before", "num", lambda row: amount(row.before.median, row.unit)),
        ("after", "num", lambda row: amount(row.after.median, row.unit)),
        ("after / before", "num", lambda row: times(row.ratio)),
        ("interval", "num", lambda row: interval(row.low, row.high)),
        ("p", "num", lambda row: f"{row.p:.2g}" if finite(row.p) else ""),
        ("against expected", "against", lambda row: row.against or ""),
        ("why", "small", why),
    )
    return listing(rows, columns, most, title=title)


def rows_by_check(rows: Sequence[Row]) -> list[TextTable]:
    """A folded table for each check, with its verdicts counted: the check with the worst row first.
    All tables together have as many rows as a page has room for."""
    tables, room = [], ROWS
    for check, part in grouped(rows, lambda row: row.check).items():
        verdicts = Counter(row.verdict for row in part)
        counts = ", ".join(f"{verdicts[v]:,} {v}" for v in COMPARED if verdicts[v])
        tables.append(replace(rows_table(part, room, f"{check}: {counts}"), folded=True))
        room -= len(tables[-1].rows)
    return tables


def case_name(case: TestResult) -> str:
    names = (case.check, case.case, case.layout, case.record.geometry, case.method)
    return " ".join(filter(None, names)) or case.name or "unnamed test"


def nodes_of(cases: Iterable[TestResult]) -> str:
    nodes = dict.fromkeys(host for case in cases for host in case.record.hosts)
    return short(some(nodes, 8), 200) if nodes else ""
