"""Comparisons and histories as text."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bisection.analysis.history import History
from bisection.analysis.model import Comparison, Event, Row
from bisection.analysis.outlying import slower
from bisection.core.format import plural, utc
from bisection.core.ratios import change
from bisection.core.reasons import Code, Reason, clause
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Against, Scope, Verdict
from bisection.judge import alarms
from bisection.report import events as happened
from bisection.report import words
from bisection.report.tables import columns
from bisection.runs.command import rerun
from bisection.runs.model import Request
from bisection.store.database import Session

MOST = 30  # rows of a verdict that are listed one by one
NAMED = 10  # sessions that a command names one by one
LISTED = (
    *(Verdict.REGRESSED, Verdict.MISSING, Verdict.NOT_MEASURED, Verdict.IMPROVED),
    Verdict.NEW,
)


def comparison_text(result: Comparison) -> list[str]:
    """The comparison as lines of text."""
    lines = [f"before: {words.group(result.before)}", f"after:  {words.group(result.after)}", ""]
    lines += [*map(words.finding, result.findings), ""] if result.findings else []
    codes = words.beside_network(result.rows)
    lines += [*_table(words.CODES, codes), ""] if codes else []
    listed = {row.key for row in codes}
    others = [row for row in result.rows if row.key not in listed]
    for verdict in LISTED:
        rows = [row for row in words.alone(others) if row.verdict == verdict]
        one_sided = verdict in (Verdict.MISSING, Verdict.NEW)
        if rows:
            lines += [*(_tests if one_sided else _table)(verdict, rows), ""]
    outliers = [row for row in others if row.outlier]
    lines += [*_table("unlike all earlier sessions", outliers), ""] if outliers else []
    if result.expected is not None:
        lines += [*_upgrade(result), ""]
    lines += [f"changed: {c.what}: {c.before} -> {c.after}" for c in result.changes]
    lines += map(words.suspected, result.suspects)
    lines += [f"unsafe: {words.unsafe(result)}"] if result.unsafe else []
    lines += [f"note: {clause(advice)}" for advice in result.advice]
    lines += [f"rerun: {result.rerun}"] if result.rerun else []
    return [*lines, words.sentence(result)]


def beside(result: Comparison) -> list[str]:
    """Returns the comparison of one run with earlier sessions, as lines."""
    count = len(result.before)
    earlier = f"{count} earlier sessions" if count > 1 else "the session before"
    lines = [f"compared with {earlier}: {_of_one(result)}"]
    lines += [f"note: {clause(a)}" for a in result.advice if a.code == Code.EXCLUDED]
    return lines + ([f"unsafe: {words.unsafe(result)}"] if result.unsafe else [])


def _of_one(result: Comparison) -> str:
    if any(row.scope == Scope.SESSIONS for row in result.rows):  # by the jobs of --reruns
        return words.sentence(result)
    kinds = (Verdict.REGRESSED, Verdict.MISSING, Verdict.NOT_MEASURED, Verdict.IMPROVED)
    kinds += (Verdict.NEW,)
    counts = [f"{result.count(kind)} {kind}" for kind in kinds if result.count(kind)]
    if len(result.before) < LIMITS.fewest:
        counts.append(f"slower and faster ones are named from {LIMITS.fewest} sessions on")
    else:
        worse = len(slower(result.rows))
        better = sum(row.outlier for row in result.rows) - worse
        counts.append(f"{worse} slower and {better} faster than all of them")
    return f"{', '.join(counts)} (of {plural(len(result.rows), 'metric')})"


def _place(row: Row) -> str:
    return row.place or "no system's"


def _table(title: str, rows: Sequence[Row]) -> list[str]:
    """A line per test, with the metric that says most; of a sweep, its point that does."""
    tests: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        tests.setdefault((row.test, _place(row)), []).append(row)
    where = len({_place(row) for row in rows}) > 1
    cells = [_line(group, where) for group in list(tests.values())[:MOST]]
    head = ["test", *(["where"] if where else []), "metric", "before", "after", "change", ""]
    about = "" if where else f" on {_place(rows[0])}"
    lines = [f"{title}{about}:", *("  " + line for line in columns([head, *cells]))]
    return lines + _rest([row for group in list(tests.values())[MOST:] for row in group])


def _line(rows: Sequence[Row], where: bool) -> list[str]:
    first = min(rows, key=lambda row: (_secondary(row), not row.absolute))  # else the largest
    points = sum(row.base == first.base for row in rows)
    others = dict.fromkeys(row.base for row in rows)
    others.pop(first.base)
    notes = [words.why(first), f"also {', '.join(others)}" if others else ""]
    return [
        first.test,
        *([_place(first)] if where else []),
        first.metric + (f" of {points}" if points > 1 else ""),
        words.value(first.before.median, first.unit),
        words.value(first.after.median, first.unit),
        change(first.change),
        "; ".join(filter(None, notes)),
    ]


def _secondary(row: Row) -> bool:
    """Least and largest times come after the others."""
    return row.base in ("time_min", "time_p99")


def _tests(title: str, rows: Sequence[Row]) -> list[str]:
    """Returns the tests of one side alone, each with how many metrics."""
    counts = Counter((_place(row), row.test) for row in rows)
    shown = list(counts.items())[:MOST]
    cells = [[where, test, plural(n, "metric")] for (where, test), n in shown]
    lines = [f"{title}:", *("  " + line for line in columns(cells))]
    names = {name for name, _ in shown}
    return lines + _rest([row for row in rows if (_place(row), row.test) not in names])


def _rest(rows: Sequence[Row]) -> list[str]:
    """A line on metrics that are not shown, by check."""
    if not rows:
        return []
    counts = Counter(row.check for row in rows)
    text = ", ".join(f"{count} of {check}" for check, count in counts.items())
    return [f"  and {plural(len(rows), 'more metric')}: {text}"]


def _upgrade(result: Comparison) -> list[str]:
    """Speed-ups beside the expected one."""
    rows = [row for row in result.rows if row.against]
    if not rows:
        return [f"expected ratio {result.expected:g}: no speed-up to compare with it"]
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
            clause(row.explained),
        ]
        for row in rows[:MOST]
    ]
    counts = Counter(row.against for row in rows)
    text = ", ".join(f"{counts[against]} {against}" for against in Against)
    lines = [f"speed-up, against the expected {result.expected:g} ({text}):"]
    return lines + ["  " + line for line in columns([head, *cells])]


def comparison_as_json(comparison: Comparison) -> dict[str, Any]:
    """A comparison as JSON has it, its reasons as codes with values and in words."""
    fields = asdict(comparison)
    for row, cells in zip(comparison.rows, fields["rows"], strict=True):
        cells["why"] = words.why(row)
    for suspect, cells in zip(comparison.suspects, fields["suspects"], strict=True):
        cells["why"] = words.suspected(suspect)
    return fields | {
        "sentence": words.sentence(comparison),
        "advice": list(map(clause, comparison.advice)),
        "unsafe": words.unsafe(comparison),
    }


# ---- histories ----

EVENT = (happened.state, happened.since, happened.what, happened.size, happened.why)  # a line


def history_text(
    events: Sequence[Event],
    histories: Sequence[History],
    count: int,
    notes: Sequence[Reason] = (),
    all_metrics: bool = False,
) -> list[str]:
    """The events as lines, at most ten.

    Args:
        events: the alarms first.
        histories: that they were looked for in.
        count: how many sessions were looked at.
        notes: on sessions and metrics that do not count.
        all_metrics: whether the metrics of each event are listed.
    """
    cells = [
        [
            event.session[:8],
            *(words_of(event) for words_of in EVENT),
            f"accepted: {event.accepted}" if event.accepted else happened.sure(event),
        ]
        for event in events[: happened.MOST]
    ]
    head = ["event", "", "since", "what", "size", "changed", "false alarm"]
    lines = columns([head, *cells]) if cells else []
    if len(events) > happened.MOST:
        lines.append(f"and {plural(len(events) - happened.MOST, 'more event')}")
    if all_metrics:
        lines += [line for event in events if event.points for line in _metrics(event)]
    lines += [""] if lines else []
    needed = 2 * LIMITS.level
    longest = max((len(values) for *_, values in histories), default=0)
    short = sum(len(values) < needed for *_, values in histories)
    worse = sum(len(event.worse) for event in events if event.alarm)
    text = f"{plural(worse, 'metric')} worse" if worse else "no alarm"
    if longest < needed:
        text = f"a change of level needs {needed} sessions, the most that a metric has is {longest}"
    elif short:
        have = "has" if short == 1 else "have"
        text += f"; {plural(short, 'metric')} {have} fewer than {needed} sessions: not looked at"
    lines += [f"note: {clause(note)}" for note in notes]
    return [*lines, f"{plural(len(histories), 'metric')} in {plural(count, 'session')}: {text}"]


def next_steps(events: Sequence[Event], sessions: Sequence[Session]) -> list[str]:
    """The commands that look into the alarm of most metrics, as lines; none without an alarm.

    Args:
        events: the alarms first.
        sessions: that they were looked for in.
    """
    if not (events and events[0].alarm):
        return []
    event = events[0]
    since = [session for session in sessions if session.start >= event.at]
    names = [session.uuid[:8] for session in since]
    after = ",".join(names) if len(names) <= NAMED else f"{utc(event.at)[:10]}.."
    request = Request(since[0].tags.get("tier", "nightly"), event.system, event.environ)
    return [
        "to list the metrics of each event: bisection history --metrics",
        f"to compare both levels: bisection compare earlier:20 {after}",
        f"to rerun: {rerun(event.worse, request)}",
        f"to accept the new level: bisection history --accept {event.session[:8]} -m REASON",
    ]


def _metrics(event: Event) -> list[str]:
    """The metrics of an event, a line each."""
    cells = [
        [
            f"{point.test} {point.metric}",
            f"x{point.ratio:.3g}",
            "worse" if point.verdict == Verdict.REGRESSED else "better",
            f"{plural(point.before, 'session')} before, {point.after} since",
            clause(point.cause) if point.cause else "",
        ]
        for point in alarms.worst_first(event.points)
    ]
    return ["", f"{event.session[:8]}:", *("  " + line for line in columns(cells))]
