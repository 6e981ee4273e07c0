"""The tables of a report."""

from dataclasses import dataclass

from bisection.core.format import NONE, amount, finite, interval, plural, short, times, utc
from bisection.core.verdicts import NOT_MEASURED, REGRESSED
from bisection.report.model import (
    case_name,
    place,
    roots,
    row_why,
    scopes_of,
    tags,
    test_name,
    worst_first,
)


@dataclass
class Table:
    """Rows of text under `head`; `kinds` says of each column how it is shown."""

    head: list[str]
    kinds: list[str]  # text | num | verdict | against | code | small
    rows: list[list[str]]
    note: str = ""  # what was left out


def cut(rows, limit, what="rows"):
    """The first rows, and a sentence about the others."""
    rows = list(rows)
    left = len(rows) - limit
    return rows[:limit], f"{left:,} more {what} are not listed." if left > 0 else ""


def columns(rows):
    """Rows of cells as aligned lines."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


# What tables list at most.
ROWS, SESSIONS, FAILURES, SPARKLINES, POINTS = 300, 10, 60, 48, 60


def filled(head, kinds, rows, note=""):
    """A Table without the columns in which no row says anything."""
    used = [any(row[i] not in ("", NONE) for row in rows) for i in range(len(head))]
    head, kinds, *rows = [
        [cell for cell, keep in zip(cells, used, strict=True) if keep]
        for cells in (head, kinds, *rows)
    ]
    return Table(head, kinds, rows, note)


def sessions_table(comparison):
    """The newest sessions of each side."""
    rows, left_out = [], []
    for side, sessions in (
        ("before", comparison.before),
        ("again", comparison.again),
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


def _session_cells(side, session):
    cells = [side, utc(session.get("start")), short(tags(session), 120)]
    return [*cells, short(session.get("uuid") or "", 40), short(session.get("folder") or "", 160)]


def changes_table(changes):
    rows = [[short(c.what), short(c.before) or NONE, short(c.after) or NONE] for c in changes]
    rows, note = cut(rows, ROWS // 3, "changes")
    return Table(["what", "before", "after"], ["text", "text", "text"], rows, note)


def rows_table(rows, limit=ROWS):
    """All rows, worst first."""
    shown, note = cut(worst_first(rows), limit, "rows")
    scopes = scopes_of(rows)
    head = ["verdict", "test", "metric", "better", "where", "before", "after", "after / before"]
    head += ["interval", "p", "why"]
    kinds = ["verdict", "text", "text", "text", "small", *["num"] * 5, "small"]
    cells = [
        [
            row.verdict,
            short(row.test, 120) + (" (control)" if row.control else ""),
            short(row.metric, 60),
            row.better,
            short(place(row), 80),
            amount(row.before.median, row.unit),
            amount(row.after.median, row.unit),
            times(row.ratio),
            interval(row.low, row.high),
            f"{row.p:.2g}" if finite(row.p) else "",
            short(row_why(row, len(scopes) > 1), 240),
        ]
        for row in shown
    ]
    return filled(head, kinds, cells, note)


def points_table(points):
    shown = sorted(points, key=lambda p: (p.verdict != REGRESSED, -_step(p)))
    shown, note = cut(shown, POINTS, "change points")
    head = ["verdict", "metric", "where", "since", "new / old level", "sessions", "changed then"]
    kinds = ["verdict", "text", "small", "date", "num", "num", "small"]
    cells = [
        [
            point.verdict,
            short(test_name(point), 140),
            short(place(point), 80),
            f"{utc(point.at)} ({short(point.session, 8)})",
            times(point.ratio),
            f"{point.before} before, {point.after} since",
            short(_changed(point.changes), 400),
        ]
        for point in shown
    ]
    return Table(head, kinds, cells, note)


def _step(point):
    """How far a level moved, as a factor above 1."""
    if not finite(point.ratio) or point.ratio <= 0:
        return 0.0
    return max(point.ratio, 1 / point.ratio)


def _changed(changes):
    texts = [f"{c.what}: {c.before or NONE} \u2192 {c.after or NONE}" for c in changes]
    return "; ".join(texts) or "nothing that is recorded"


def suspects_table(suspects):
    head = ["node", "partition", "cost on it / elsewhere", "jobs", "why"]
    rows = [
        [short(s.node, 80), short(s.where, 80), times(s.ratio), str(s.jobs), short(s.why)]
        for s in suspects
    ]
    rows, note = cut(rows, ROWS // 3, "nodes")
    return Table(head, ["text", "text", "num", "num", "small"], rows, note)


def failures_table(failures):
    own, followed = roots(failures)
    shown, note = cut(own, FAILURES, "cases")
    if followed:
        note += f" {plural(followed, 'case')} only followed another one's failure."
    head = ["verdict", "case", "where", "cause", "nodes", "again", "files"]
    kinds = ["verdict", "text", "small", "text", "small", "command", "code"]
    cells = [
        [
            case.get("verdict") or NOT_MEASURED,
            short(case_name(case), 160),
            short(f"{case.get('partition') or ''} {case.get('environ') or ''}".strip(), 80),
            short(case.get("cause") or "no cause is recorded", 600),
            _nodes(case.get("hosts") or []),
            short(case.get("again") or "", 1200),
            short(case.get("files") or "", 240),
        ]
        for case in shown
    ]
    return filled(head, kinds, cells, note.strip())


def _nodes(hosts, most=8):
    """Names of nodes, each once."""
    found = list(dict.fromkeys(map(str, hosts)))
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return short(" ".join(found[:most]), 200) + more
