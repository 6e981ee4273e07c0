"""Tables: of a terminal, and of a report's page."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tabulate import tabulate

from bisection.analysis.model import Change, ChangePoint, Comparison, Row, Suspect
from bisection.core.format import (
    NONE,
    amount,
    before_after,
    finite,
    interval,
    plural,
    short,
    times,
    utc,
)
from bisection.core.verdicts import Scope, Verdict
from bisection.report import words
from bisection.report.clauses import clause
from bisection.report.model import roots, worst_first
from bisection.runs.command import rerun
from bisection.runs.model import RunVerdict, TestResult


def columns(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows of cells as aligned lines, the first row being the head; numbers to the right."""
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
class Table:
    """Rows of text under `head`; `kinds` says of each column how it is shown."""

    head: list[str]
    kinds: list[str]  # text | num | verdict | against | code | small
    rows: list[list[str]]
    note: str = ""  # what was left out


def cut(rows: Iterable[Any], limit: int, name: str = "rows") -> tuple[list[Any], str]:
    """The first rows, and a sentence about the others."""
    rows = list(rows)
    left = len(rows) - limit
    return rows[:limit], f"{left:,} more {name} are not listed." if left > 0 else ""


# What tables list at most.
ROWS, SESSIONS, FAILURES, SPARKLINES, POINTS = 300, 10, 60, 48, 60


def filled(head: list[str], kinds: list[str], rows: list[list[str]], note: str = "") -> Table:
    """A Table without the columns that are empty in all rows."""
    used = [any(row[i] not in ("", NONE) for row in rows) for i in range(len(head))]
    head, kinds, *rows = [
        [cell for cell, keep in zip(cells, used, strict=True) if keep]
        for cells in (head, kinds, *rows)
    ]
    return Table(head, kinds, rows, note)


def sessions_table(comparison: Comparison) -> Table:
    """The newest sessions of each side."""
    rows, left_out = [], []
    for side, sessions in (
        ("before", comparison.before),
        ("A/A", comparison.aa),
        ("after", comparison.after),
    ):
        newest = sorted(sessions, key=lambda s: -s["start"] if finite(s.get("start")) else 0)
        rows += [_session_cells(side, session) for session in newest[:SESSIONS]]
        if len(newest) > SESSIONS:
            first = utc(newest[-1].get("start"))
            left_out.append(f"{len(newest) - SESSIONS} more {side}, since {first}")
    note = f"{' and '.join(left_out)}." if left_out else ""
    head = ["side", "started", "tags", "session", "folder"]
    return filled(head, ["text", "date", "text", "code", "code"], rows, note)


def _session_cells(side: str, session: Mapping[str, Any]) -> list[str]:
    cells = [side, utc(session.get("start")), short(_tags(session), 120)]
    return [*cells, short(session.get("uuid") or "", 40), short(session.get("folder") or "", 160)]


def _tags(session: Mapping[str, Any]) -> str:
    """The tags of a session, the short ones first."""
    tags = sorted((session.get("tags") or {}).items(), key=lambda tag: len(str(tag[1])))
    return ", ".join(f"{name}={value}" for name, value in tags)


def changes_table(changes: Sequence[Change]) -> Table:
    """Facts that differ between two sides."""
    rows = [[short(c.what), short(c.before) or NONE, short(c.after) or NONE] for c in changes]
    rows, note = cut(rows, ROWS // 3, "changes")
    return Table(["what", "before", "after"], ["text", "text", "text"], rows, note)


def rows_table(rows: Sequence[Row], limit: int = ROWS) -> Table:
    """All rows of a comparison, worst first."""
    shown, note = cut(worst_first(rows), limit, "rows")
    several = len(words.scopes(rows)) > 1
    head = ["verdict", "test", "metric", "better", "where", "before", "after", "after / before"]
    head += ["interval", "p", "why"]
    kinds = ["verdict", "text", "text", "text", "small", *["num"] * 5, "small"]
    cells = [
        [
            row.verdict,
            short(row.test, 120) + (" (control)" if row.control else ""),
            short(row.metric, 60),
            row.better,
            short(row.place, 80),
            amount(row.before.median, row.unit),
            amount(row.after.median, row.unit),
            times(row.ratio),
            interval(row.low, row.high),
            f"{row.p:.2g}" if finite(row.p) else "",
            short(_why(row, row.scope if several else None), 240),
        ]
        for row in shown
    ]
    return filled(head, kinds, cells, note)


def _why(row: Row, scope: Scope | None) -> str:
    """Why, with what else a person should know of a row."""
    texts = [words.why(row), f"holds for {scope}" if scope else ""]
    geometries = (row.before.geometry, row.after.geometry)
    if all(geometries) and geometries[0] != geometries[1]:
        texts.append(f"geometries differ: {before_after(*geometries)}")
    return "; ".join(filter(None, texts))


def points_table(points: Sequence[ChangePoint]) -> Table:
    """Change points, the largest loss first."""
    shown = sorted(points, key=lambda p: (p.verdict != Verdict.REGRESSED, -_step(p)))
    shown, note = cut(shown, POINTS, "change points")
    head = ["verdict", "metric", "where", "since", "new / old level", "sessions", "changed then"]
    kinds = ["verdict", "text", "small", "date", "num", "num", "small"]
    cells = [
        [
            point.verdict,
            short(point.label, 140),
            short(point.place, 80),
            f"{utc(point.at)} ({short(point.session, 8)})",
            times(point.ratio),
            f"{point.before} before, {point.after} since",
            short(_changed(point.changes), 400),
        ]
        for point in shown
    ]
    return Table(head, kinds, cells, note)


def _step(point: ChangePoint) -> float:
    """How far a level moved, as a factor above 1."""
    if not finite(point.ratio) or point.ratio <= 0:
        return 0.0
    return max(point.ratio, 1 / point.ratio)


def _changed(changes: Sequence[Change]) -> str:
    texts = [f"{c.what}: {c.before or NONE} \u2192 {c.after or NONE}" for c in changes]
    return "; ".join(texts) or "nothing that is recorded"


def suspects_table(suspects: Sequence[Suspect]) -> Table:
    """Nodes that stand out by their jobs."""
    head = ["node", "partition", "time on it / elsewhere", "jobs"]
    rows = [[short(s.node, 80), short(s.where, 80), times(s.ratio), str(s.jobs)] for s in suspects]
    rows, note = cut(rows, ROWS // 3, "nodes")
    return Table(head, ["text", "text", "num", "num"], rows, note)


def failures_table(run: RunVerdict) -> Table:
    """Tests that failed or were not measured, with the command that repeats each."""
    own, followed = roots(run.bad)
    shown, note = cut(own, FAILURES, "tests")
    if followed:
        note += f" {plural(followed, 'test')} only followed another one's failure."
    head = ["verdict", "test", "where", "cause", "nodes", "rerun", "files"]
    kinds = ["verdict", "text", "small", "text", "small", "command", "code"]
    cells = [
        [
            case.verdict,
            short(case_name(case), 160),
            short(case.place, 80),
            short(clause(case.reason) or "no cause is recorded", 600),
            _nodes(case.hosts),
            short(rerun([case], run.request), 1200),
            short(case.files, 240),
        ]
        for case in shown
    ]
    return filled(head, kinds, cells, note.strip())


def case_name(case: TestResult) -> str:
    """A test of a run with its geometry, for people."""
    names = (case.check, case.case, case.layout, case.geometry, case.method)
    return " ".join(filter(None, names)) or case.name or "unnamed test"


def _nodes(hosts: Sequence[str], most: int = 8) -> str:
    """Names of nodes, each once."""
    nodes = list(dict.fromkeys(hosts))
    more = f" and {len(nodes) - most} more" if len(nodes) > most else ""
    return short(" ".join(nodes[:most]), 200) + more
