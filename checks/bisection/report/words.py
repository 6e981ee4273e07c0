"""English for rows and nodes of a comparison, for the comparison itself, and for events."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bisection.analysis.explain import slower_codes
from bisection.analysis.model import Comparison, Event, Row
from bisection.core.format import plural, ratio_words, some, utc
from bisection.core.grouping import grouped
from bisection.core.reasons import DISTURBED, performance
from bisection.core.reasons.base import Reason, clause
from bisection.core.reasons.performance import (
    AfterChange,
    JobsLost,
    NetworkExplains,
    SharedChange,
    SlowNode,
    WorseSince,
)
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import COMPARED, Scope, Verdict
from bisection.judge.alarms import by_check, causes
from bisection.judge.decision import BAD
from bisection.runs.command import rerun
from bisection.runs.run_verdict import Request, RunVerdict
from bisection.sites.site_files import Defect


def defect_line(defect: Defect) -> str:
    """A defect as `path:line: what is wrong`; a note says that it is one."""
    note = "note: " if defect.is_note else ""
    return f"{defect.path}:{defect.line}: {note}{defect.text}"


# ---- rows ----


def why(row: Row) -> str:
    """Returns why a row has its verdict, in one clause; "" where the numbers say it."""
    text = clause(row.reason)
    if isinstance(row.reason, AfterChange):
        text = f"{row.change}, {text}"
    if row.outlier:
        text += f"; but outside of what {row.before.sessions} earlier ones showed"
    return "; ".join(filter(None, (text, clause(row.cause))))


def direction(finding: SharedChange) -> Verdict:
    return Verdict.REGRESSED if finding.ratio > 1 else Verdict.IMPROVED


def finding(reason: SharedChange) -> str:
    return f"{direction(reason)}: {reason}"


def unshared(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if not isinstance(row.reason, SharedChange)]


CODES = "slower codes, and what of it the network explains"  # heading of rows with a cause


def split_codes(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Returns what got worse of the codes that were set against the network, their times first, and
    all other rows."""
    codes = {row.identity for row in rows if row.cause}
    worse = [row for row in rows if row.identity in codes and row.is_worse]
    others = [row for row in rows if not (row.identity in codes and row.is_worse)]
    return sorted(worse, key=lambda row: row.cause is None), others


# ---- nodes ----


def slow_nodes(suspects: Sequence[SlowNode], verdict: RunVerdict) -> list[str]:
    """Returns how many nodes are slow, and how many may be, with names, for headlines."""
    reasons = [*suspects, *verdict.slow_nodes]
    slow = {" or ".join(r.nodes) if isinstance(r, SlowNode) else r.host: 0 for r in reasons}
    maybe = {reason.host: 0 for reason in verdict.suspect_nodes if reason.host not in slow}
    texts = [f"{plural(len(slow), 'slow node')}: {some(slow, 3)}"] if slow else []
    suspected = f"{plural(len(maybe), 'node')} suspected to be slow: {some(maybe, 3)}"
    return texts + ([suspected] if maybe else [])


# ---- comparisons ----


def unsafe(comparison: Comparison) -> str:
    return "; ".join(map(str, comparison.unsafe))


def counted(comparison: Comparison, left_out: Sequence[Verdict] = ()) -> Iterator[str]:
    """Counts of the verdicts, the worst first; of what is inconclusive, by reason."""
    for verdict in COMPARED:
        count = comparison.count(verdict)
        if verdict in left_out or not count:
            continue
        if verdict != Verdict.INCONCLUSIVE or not comparison.undecided:
            yield f"{count} {verdict}"
            continue
        first, *others = comparison.undecided
        yield f"{first.metrics} {verdict} by {first.why}"
        yield from (f"{other.metrics} by {other.why}" for other in others)


# Columns of a table of the inconclusive ones: head, kind, the cell of a reason.
UNDECIDED = (
    ("inconclusive by", "text", lambda group: group.why),
    ("metrics", "num", lambda group: str(group.metrics)),
    ("nights per side that decide", "text", lambda group: group.nights),
)


def sentence(comparison: Comparison) -> str:
    """The verdict in one line: counts, and what they mean together."""
    rows = comparison.rows
    numbers = ", ".join(counted(comparison)) or "nothing to compare"
    strange = sum(row.outlier for row in rows)
    among = f", {plural(strange, 'outlier')} among them" if strange else ""
    text = f"{numbers} (of {plural(len(rows), 'metric')}{among})"
    parts = [*map(str, comparison.findings), *_by_kind(rows)]
    if looked_at := [row.cause for row in rows if row.cause]:
        count = sum(isinstance(cause, NetworkExplains) for cause in looked_at)
        slower = plural(len(slower_codes(rows)), "slower code")
        parts.append(f"the network explains {count} of {slower}")
    busy = sum(row.verdict == Verdict.NOT_MEASURED and _disturbed(row.reason) for row in rows)
    parts += [f"{busy} not measured, as other processes used the cores"] if busy else []
    parts += map(str, comparison.suspects)
    return f"{text}: {'; '.join(parts)}" if parts else text


def rerun_of(comparison: Comparison) -> str:
    """The command that measures again what got worse or was not measured; "" if nothing was."""
    bad = [row for row in comparison.rows if row.verdict in BAD or row.outlier]
    bad = [row for row in bad if row.system and not row.control]  # what was run here
    if not bad:
        return ""
    (system, environ), here = next(iter(grouped(bad, lambda r: (r.system, r.environ)).items()))
    tier = comparison.after[-1]["tags"].get("tier", "nightly")
    return rerun(here, Request(tier, system, environ), reruns=LIMITS.fewest - 1)


def _disturbed(reason: Reason | None) -> bool:
    if isinstance(reason, JobsLost):
        return _disturbed(reason.cause)
    return isinstance(reason, DISTURBED)


# What a test's time is made of, by the fraction of it that is communication, at least.
KINDS = {
    "communication-bound checks are": LIMITS.network_bound,
    "mixed ones are": LIMITS.mixed,
    "compute is": 0.0,
}


def _kind(row: Row) -> str:
    return next(name for name, least in KINDS.items() if (row.communication or 0.0) >= least)


def _by_kind(rows: Sequence[Row]) -> Iterator[str]:
    """A clause per partition: how its checks that wait for the network did, and the others."""
    timed = [r for r in rows if r.control or (r.base == "time" and r.communication is not None)]
    timed = [row for row in timed if row.ratio is not None and row.low is not None]
    for place, group in grouped(timed, lambda row: f"{row.system}:{row.partition}").items():
        if any(row.verdict in WAYS for row in group):
            kinds = grouped(group, _kind)
            parts = [f"{name} {_together(kinds[name])}" for name in KINDS if name in kinds]
            yield f"on {place} {', '.join(parts)}"


# a change -> words of it as a part, its opposite, and as a factor
WAYS = {
    Verdict.REGRESSED: ("slower", "faster", "times slower"),
    Verdict.IMPROVED: ("faster", "slower", "times as fast"),
}


def _together(rows: Sequence[Row]) -> str:
    """How a group of rows did: medians of ratio and bounds over those that changed, each way."""
    texts = []
    for verdict, way in WAYS.items():
        if hit := [row for row in rows if row.verdict == verdict]:
            costs = np.median(
                [(row.slowdown, *(row.slowdown_interval or ())) for row in hit], axis=0
            )
            costs = 1 / costs[[0, 2, 1]] if verdict == Verdict.IMPROVED else costs
            some = "" if len(hit) == len(rows) else f" in {len(hit)} of {len(rows)}"
            texts.append(ratio_words(tuple(costs), *way) + some)
    same = sum(row.verdict == Verdict.UNCHANGED for row in rows)
    return " and ".join(texts) or ("unchanged" if same > len(rows) / 2 else "inconclusive")


def scopes(rows: Sequence[Row]) -> list[Scope]:
    return sorted({row.scope for row in rows if row.scope})


def group(sessions: Sequence[Mapping[str, Any]]) -> str:
    """The sessions of a side, as identifiers and times."""
    ends = [sessions[0], sessions[-1]] if len(sessions) > 1 else sessions
    names = [f"{s['uuid'][:8]} of {utc(s['start'])}" for s in ends]
    count = f"{len(sessions)} sessions, " if len(sessions) > 1 else ""
    return count + " to ".join(names)


# ---- events of histories: what changed, since when, and what changed with it ----

MOST = 10  # events that are listed


def state(event: Event) -> str:
    """Returns the meaning of an event, in a word."""
    if event.drift is not None:
        return "drift"
    if event.accepted:
        return "accepted"
    if event.alarm:
        return "worse"
    if any(point.back for point in event.points):
        return "back"  # where it was before it got better for a while
    if any(point.suspect for point in event.points):
        return "suspected"  # not sure yet: its launches are measured again
    return "better" if all(p.verdict == Verdict.IMPROVED for p in event.points) else "ended"


# Of events that are no alarms, as they are listed.
STATES = ("drift", "suspected", "back", "accepted", "better", "ended")


def no_alarms(events: Sequence[Event]) -> list[str]:
    """A sentence on each event that is no alarm, but what was better for a while."""
    lasting = (e for e in events if e.drift or any(p.stands or p.cost > 1 for p in e.points))
    quiet = [event for event in lasting if not event.alarm]
    quiet.sort(key=lambda event: STATES.index(state(event)))
    more = [f"and {plural(len(quiet) - MOST, 'more event')}"] if quiet[MOST:] else []
    return [*map(_sentence, quiet[:MOST]), *more]


def _sentence(event: Event) -> str:
    where, what, kind = f"{event.system}:{event.partition}", metrics_of(event), state(event)
    if kind == "drift":
        return f"drift, no alarm, on {where}: {what}"
    night = performance.nights(event.first, event.at, event.last)
    if kind == "back":
        for_nights = plural(max(p.before for p in event.points if p.back), "night")
        names = performance.what_changed([(*part[:4], ()) for part in by_check(event)])
        return f"better for {for_nights}, then back: {names}, {night}"
    head = {
        "accepted": f"accepted ({event.accepted}): worse",
        "suspected": "perhaps worse, to be measured again,",
        "ended": "ended: worse",
    }
    since = f"{head.get(kind, kind)} since {night} on {where}, session {event.session[:8]}"
    return f"{since}: {what}; {performance.changed_then(*causes(event))}"


def metrics_of(event: Event) -> str:
    """Which metrics changed, and by how much."""
    text = performance.what_changed(by_check(event))
    if event.drift is not None:
        share, total = event.drift - 1, event.drift**event.nights - 1
        way = "slower" if share > 0 else "faster"
        text += f", {abs(share):.2%} a night {way}, {abs(total):.0%} in {event.nights} nights"
    return text


def banner(alarms: Sequence[WorseSince]) -> str:
    """The alarms in a line, the event of most metrics with its night."""
    first = alarms[0]
    text = "new tonight: " if first.is_new else ""
    text += f"{plural(first.worse, 'metric')} worse since {utc(first.at)[:10]}"
    if first.changes:
        text += f" ({'; '.join(performance.fact(*each) for each in first.changes[:2])})"
    rest = len(alarms) - 1
    return f"{text}, and {plural(rest, 'more alarm')}" if rest else text


STEPS = ["next", "command"], ["text", "command"]  # of a table: head, kinds


def next_steps(alarm: WorseSince) -> list[list[str]]:
    """The steps after an alarm, with a command each: look at what may have caused
    it, measure again, accept the new level."""
    facts = [change[0] for change in alarm.changes or alarm.candidates]
    look = some(facts or ["nodes", "power limits", "what else is not recorded"], 3)
    steps = f"look at {look}; compare both levels", "measure again", "accept the new level"
    commands = alarm.compare, alarm.rerun, alarm.accept
    return [list(step) for step in zip(steps, commands, strict=True) if step[1]]
