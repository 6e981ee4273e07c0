"""Comparisons and histories as text."""

from collections import Counter
from collections.abc import Sequence

from bisection.analysis.histories import History
from bisection.analysis.model import Comparison, Event, Row
from bisection.analysis.outlying import FEW_SAMPLES, slower
from bisection.core.format import amount, plural
from bisection.core.grouping import grouped
from bisection.core.reasons.base import clause
from bisection.core.reasons.performance import Excluded, OtherReleases
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import COMPARED, Against, Scope, Verdict
from bisection.judge import alarms
from bisection.report import verdict_text, words
from bisection.report.lines import commanded, wrapped
from bisection.report.text_tables import lines_of, noted

BESIDE = (Excluded, OtherReleases)  # advice that a run has, too
MOST = 30  # rows of a verdict that are listed one by one
LISTED = [v for v in COMPARED if v not in (Verdict.INCONCLUSIVE, Verdict.UNCHANGED)]


def comparison_text(result: Comparison) -> list[str]:
    """The comparison as lines of text."""
    sides = f"before: {words.group(result.before)}", f"after:  {words.group(result.after)}"
    lines = [*wrapped(words.sentence(result)), "", *wrapped(*sides), ""]
    lines += [*wrapped(*map(words.finding, result.findings)), ""] if result.findings else []
    codes, others = words.split_codes(result.rows)
    tables = {words.CODES: codes}
    for verdict in LISTED:
        tables[verdict] = [row for row in words.unshared(others) if row.verdict == verdict]
    tables["outliers"] = [row for row in others if row.outlier]
    for title, rows in tables.items():
        lines += [*_table(title, rows), ""] if rows else []
    if result.expected is not None:
        lines += [*_upgrade(result), ""]
    lines += [*undecided(result), ""] if result.undecided else []
    notes = [f"changed: {c.what}: {c.before} -> {c.after}" for c in result.changes]
    notes += list(map(str, result.suspects))
    notes += [f"unsafe: {words.unsafe(result)}"] if result.unsafe else []
    notes += [f"note: {advice}" for advice in result.advice]
    lines += wrapped(*notes)
    again = words.rerun_of(result)
    return lines + (commanded("rerun", again) if again else [])


def undecided(result: Comparison) -> list[str]:
    """The inconclusive metrics by reason, as lines of a table."""
    return lines_of(result.undecided, words.UNDECIDED) if result.undecided else []


def against_earlier(result: Comparison) -> list[str]:
    """Returns the comparison of one run with earlier sessions, as lines."""
    count = len(result.before)
    earlier = f"{count} earlier sessions" if count > 1 else "the session before"
    counts = [f"{result.count(kind)} {kind}" for kind in LISTED if result.count(kind)]
    if count < LIMITS.fewest:
        counts.append(f"slower and faster ones are named from {LIMITS.fewest} sessions on")
    else:
        worse = len(slower(result.rows))
        better = sum(row.outlier for row in result.rows) - worse
        counts.append(f"{worse} slower and {better} faster than all of them")
    text = f"{', '.join(counts)} (of {plural(len(result.rows), 'metric')})"
    if any(row.scope == Scope.SESSIONS for row in result.rows):  # by the jobs of --reruns
        text = words.sentence(result)
    lines = [f"compared with {earlier}: {text}"]
    lines += [f"note: {advice}" for advice in result.advice if isinstance(advice, BESIDE)]
    return lines + ([f"unsafe: {words.unsafe(result)}"] if result.unsafe else [])


def _table(title: str, rows: Sequence[Row]) -> list[str]:
    """A line per test, with the metric that says most; of a sweep, its point that does."""
    several = len({row.place for row in rows}) > 1
    lines = []
    for group in grouped(rows, lambda row: (row.test, row.place)).values():
        # least and largest times come after the others
        first = min(group, key=lambda row: (row.base in FEW_SAMPLES, not row.absolute))
        lines.append((first, group))

    def metric(line: tuple[Row, list[Row]]) -> str:
        first, group = line
        points = sum(row.base == first.base for row in group)
        return first.metric + (f" of {points}" if points > 1 else "")

    def why(line: tuple[Row, list[Row]]) -> str:
        first, group = line
        others = ", ".join(dict.fromkeys(r.base for r in group if r.base != first.base))
        return "; ".join(filter(None, (words.why(first), f"also {others}" if others else "")))

    columns = (
        ("test", "text", lambda line: line[0].test),
        ("where", "text", lambda line: line[0].place if several else ""),
        ("metric", "text", metric),
        ("before", "num", lambda line: amount(line[0].before.median, line[0].unit)),
        ("after", "num", lambda line: amount(line[0].after.median, line[0].unit)),
        ("change", "text", lambda line: line[0].change),
    )
    about = "" if several else f" on {rows[0].place}"
    text = [f"{title}{about}:", *(f"  {line}" for line in noted(lines, columns, why, MOST))]
    left = len(lines) - MOST
    return text + ([f"  and {plural(left, 'more test')}"] if left > 0 else [])


UPGRADE = (
    ("test", "text", lambda row: row.test),
    ("metric", "text", lambda row: row.metric),
    ("speed-up", "num", lambda row: "{:.2f} [{:.2f}, {:.2f}]".format(*row.speedup)),
    ("", "text", lambda row: row.against),
    ("ranks x threads", "text", lambda row: row.after.geometry),
    ("nodes", "num", lambda row: str(len(row.after.hosts) or "")),
)


def _upgrade(result: Comparison) -> list[str]:
    """Speed-ups beside the expected one."""
    rows = [row for row in result.rows if row.against]
    if not rows:
        return [f"expected ratio {result.expected:g}: no speed-up to compare with it"]
    rows.sort(key=lambda row: -(row.speedup[0] or 0.0))
    counts = Counter(row.against for row in rows)
    text = ", ".join(f"{counts[against]} {against}" for against in Against)
    software = rows[0].after.software  # that of all sessions after
    text = f"speed-up, against the expected {result.expected:g} ({text})"
    lines = wrapped(f"{text}{software and ', with '}{software}:")
    table = noted(rows, UPGRADE, lambda row: clause(row.explained), MOST)
    return lines + [f"  {line}" for line in table]


# ---- histories ----

POINTS = (
    ("", "text", lambda point: f"{point.test} {point.metric}"),
    ("", "text", lambda point: f"x{point.ratio:.3g}"),
    ("", "text", lambda p: f"{plural(p.before, 'session')} before, {p.after} since"),
)


def history_text(
    events: Sequence[Event],
    histories: Sequence[History],
    count: int,
    notes: Sequence[str] = (),
    all_metrics: bool = False,
) -> list[str]:
    """The first events in the histories of `count` sessions, as lines: new alarms, others, what is
    no alarm; then notes on what does not count, and the metrics of each event, if `all_metrics`."""
    is_long = any(history.is_long for history in histories)
    is_new = any(event.is_new for event in events)
    lines = ["new tonight: nothing"] if is_long and not is_new else []
    lines += verdict_text.alarms([*alarms.alarms_of(events)])
    lines += wrapped(*words.no_alarms(events))
    for event in (event for event in events if all_metrics and event.points):
        worst = alarms.worst_first(event.points)
        points = noted(worst, POINTS, lambda point: clause(point.cause), len(worst))[1:]
        lines += ["", f"{event.session[:8]} {words.state(event)}:", *points]
    lines += [""] if lines else []
    needed = 2 * LIMITS.level
    longest = max((len(history.values) for history in histories), default=0)
    short = sum(not history.is_long for history in histories)
    worse = sum(len(event.worse) for event in events if event.alarm)
    text = f"{plural(worse, 'metric')} worse" if worse else "no alarm"
    text += "" if all_metrics or not events else " (--metrics lists those of each event)"
    if not is_long:
        text = f"a change of level needs {needed} sessions that measured it, and the most that a "
        text += f"metric has is {longest} (disturbed launches do not count)"
    elif short:
        have = "has" if short == 1 else "have"
        text += f"; {plural(short, 'metric')} {have} fewer than {needed} sessions: not looked at"
    lines += wrapped(*(f"note: {note}" for note in notes))
    metrics = f"{plural(len(histories), 'metric')} in {plural(count, 'session')}"
    return lines + wrapped(f"{metrics}: {text}")
