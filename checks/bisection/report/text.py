"""Comparisons and histories as text."""

import math
from collections import Counter

from bisection.analysis.history import LEAST
from bisection.analysis.wording import change, group
from bisection.core.format import duration, number, utc
from bisection.core.verdicts import (
    ABOVE,
    AT,
    BELOW,
    IMPROVED,
    MISSING,
    NEW,
    NOT_MEASURED,
    REGRESSED,
    UNCLEAR,
)
from bisection.report.tables import columns

MOST = 30  # rows of a verdict that are told one by one
TOLD = (REGRESSED, MISSING, NOT_MEASURED, IMPROVED, NEW)


def text(result):
    """The comparison as lines of text."""
    lines = [f"before: {group(result.before)}", f"after:  {group(result.after)}", ""]
    for verdict in TOLD:
        rows = [row for row in result.rows if row.verdict == verdict]
        if rows:
            lines += [*(_tests if verdict in (MISSING, NEW) else _table)(verdict, rows), ""]
    suspect = [row for row in result.rows if row.suspect]
    if suspect:
        lines += [*_table("unlike all earlier sessions", suspect), ""]
    if result.expected is not None:
        lines += [*_upgrade(result), ""]
    lines += [
        f"changed: {change.what}: {change.before} -> {change.after}" for change in result.changes
    ]
    lines += [f"node {s.node} ({s.where}): {s.why}" for s in result.suspects]
    lines += [f"unsafe: {result.unsafe}"] if result.unsafe else []
    lines += [f"note: {advice}" for advice in result.advice]
    lines += [f"again: {result.rerun}"] if result.rerun else []
    return [*lines, result.sentence]


def value(amount, unit):
    """A measured value with its unit."""
    if amount is None:
        return ""
    return duration(amount) if unit == "s" and amount > 0 else f"{number(amount)} {unit}"


def where_of(row):
    where = ":".join(filter(None, (row.system, row.partition)))
    return " ".join(filter(None, (where, row.environ))) or "no system's"


def _table(title, rows):
    """A line for each test, with the metric that says most; of a sweep, its point that does."""
    tests = {}
    for row in rows:
        tests.setdefault((row.test, where_of(row)), []).append(row)
    where = len({where_of(row) for row in rows}) > 1
    cells = [_line(found, where) for found in list(tests.values())[:MOST]]
    head = ["test", *(["where"] if where else []), "metric", "before", "after", "change", ""]
    about = "" if where else f" on {where_of(rows[0])}"
    lines = [f"{title}{about}:", *("  " + line for line in columns([head, *cells]))]
    return lines + _rest([row for found in list(tests.values())[MOST:] for row in found])


def _line(rows, where):
    first = min(rows, key=lambda row: (_secondary(row), not row.absolute))  # else the largest
    points = sum(row.base == first.base for row in rows)
    others = dict.fromkeys(row.base for row in rows)
    others.pop(first.base)
    words = [first.why, f"also {', '.join(others)}" if others else ""]
    return [
        first.test,
        *([where_of(first)] if where else []),
        first.metric + (f" of {points}" if points > 1 else ""),
        value(first.before.median, first.unit),
        value(first.after.median, first.unit),
        change(first),
        "; ".join(filter(None, words)),
    ]


def _secondary(row):
    """Least and largest times are told after the others."""
    return row.base in ("time_min", "time_p99")


def _tests(title, rows):
    """What is on one side alone: tests, each with how many metrics."""
    counts = Counter((where_of(row), row.test) for row in rows)
    shown = list(counts.items())[:MOST]
    lines = [f"{title}:"]
    lines += [
        "  " + line
        for line in columns([[where, test, f"{n} metrics"] for (where, test), n in shown])
    ]
    names = {name for name, _ in shown}
    return lines + _rest([row for row in rows if (where_of(row), row.test) not in names])


def _rest(rows):
    """A line on metrics that are not shown, by check."""
    if not rows:
        return []
    counts = Counter(row.check for row in rows)
    text = ", ".join(f"{count} of {check}" for check, count in counts.items())
    return [f"  and {len(rows)} more metrics: {text}"]


def _upgrade(result):
    """Speed-ups beside the expected one."""
    rows = [row for row in result.rows if row.against]
    if not rows:
        return [f"expected ratio {result.expected:g}: no speed-up to set beside it"]
    rows.sort(key=lambda row: -row.speedup[0])
    head = ["test", "metric", "speed-up", "", "ranks x threads", "nodes", "software", ""]
    cells = [
        [
            row.test,
            row.metric,
            "{:.2f} [{:.2f}, {:.2f}]".format(*row.speedup),
            row.against,
            row.after.geometry,
            str(len(row.after.hosts) or ""),
            row.after.software,
            row.explained,
        ]
        for row in rows[:MOST]
    ]
    counts = Counter(row.against for row in rows)
    told = ", ".join(f"{counts[name]} {name}" for name in (ABOVE, AT, BELOW, UNCLEAR))
    lines = [f"speed-up, against the expected {result.expected:g} ({told}):"]
    return lines + ["  " + line for line in columns([head, *cells])]


def history_text(points, found, count):
    """The change points as lines, session by session."""
    lines = []
    for session in dict.fromkeys(p.session for p in sorted(points, key=lambda p: p.at)):
        here = [point for point in points if point.session == session]
        lines += [*_of_session(here), ""]
    longest = max((len(values) for *_, values in found), default=0)
    worse = sum(point.verdict == REGRESSED for point in points)
    told = f"{worse} got worse, {len(points) - worse} better" if points else "no change of level"
    short = sum(len(values) < 2 * LEAST for *_, values in found)
    if longest < 2 * LEAST:
        told = (
            f"a change of level needs {2 * LEAST} sessions, the most that a metric has is {longest}"
        )
    elif short:
        told += f"; {short} metrics have fewer than {2 * LEAST} sessions and are not looked at"
    return [*lines, f"{len(found)} metrics in {count} sessions: {told}"]


def _of_session(points):
    """What began in one session: a line for each test, with the metric that changed most."""
    first = points[0]
    lines = [f"since {utc(first.at)}, session {first.session[:8]}:"]
    tests = {}
    for point in sorted(points, key=lambda p: (p.verdict != REGRESSED, -abs(math.log(p.ratio)))):
        tests.setdefault((point.test, point.verdict), []).append(point)
    cells = [
        [
            test,
            found[0].metric + (f" and {len(found) - 1} more" if len(found) > 1 else ""),
            f"x{found[0].ratio:.3g}",
            "worse" if verdict == REGRESSED else "better",
            f"{found[0].before} sessions before, {found[0].after} since",
        ]
        for (test, verdict), found in list(tests.items())[:MOST]
    ]
    lines += ["  " + line for line in columns(cells)]
    if len(tests) > MOST:
        lines.append(f"  and {len(tests) - MOST} more tests")
    differs = [f"  differs: {c.what}: {c.before} -> {c.after}" for c in first.changes]
    return lines + (differs or ["  nothing that is recorded differs from the session before"])
