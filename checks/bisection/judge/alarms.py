"""Changes since the session before, and since which session metrics are worse by their history."""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, astuple, replace

from bisection.analysis.model import ChangePoint, Event
from bisection.analysis.outlying import faster
from bisection.core.format import plural, some, utc
from bisection.core.grouping import grouped
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.performance import (
    Candidate,
    CheckChanged,
    Fact,
    FactChanged,
    Slower,
    WorseSince,
    fact,
)
from bisection.core.thresholds import LIMITS
from bisection.judge.evidence import Evidence
from bisection.runs.command import bisection_command, rerun
from bisection.runs.run_verdict import Request, RunVerdict

NAMED = 10  # sessions that a command names one by one


def rule_changes(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Notes how many sessions there are, what changed since the last one, and what is faster. Tests
    that are gone are not measured; nor is what ran on other ranks than before: nothing slower could
    be seen."""
    verdict = replace(verdict, nights=evidence.nights)
    if evidence.vanished:
        text = f"tests of the last session are gone: {some(evidence.vanished)}"
        verdict = verdict.adding(troubles=[Text(text)])
    rows = evidence.comparison.rows if evidence.comparison else []
    changes = evidence.changes
    if unlike := [row for row in rows if row.is_of_other_ranks]:
        tests = plural(len({row.identity for row in unlike}), "test")
        before, now = unlike[0].before.geometry, unlike[0].after.geometry
        cores = [f"; {fact(*astuple(change))}" for change in changes if change.what == "cores"]
        text = f"{tests} ran as {now}, in earlier sessions as {before}: not compared"
        accept = "`bisection sessions exclude` of the earlier sessions accepts the change"
        verdict = verdict.adding(troubles=[Text(f"{text}{''.join(cores[:1])}; {accept}")])
    remarks: list[Reason] = [FactChanged(**asdict(c), since=evidence.since) for c in changes]
    if better := faster(rows):
        count = plural(len(better), "metric")
        sides = Slower(**better[0].moved).sides
        remarks.append(Text(f"{count} faster than in all earlier sessions, such as {sides}"))
    if moved := [row for row in rows if row.baseline_moved]:
        count, sides = plural(len(moved), "ratio"), Slower(**moved[0].moved).sides
        remarks.append(Text(f"{count} changed because the baseline did, such as {sides}"))
    return verdict.adding(remarks=remarks)


def rule(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Names the events in the history of this system that are alarms."""
    systems = {case.system for case in verdict.cases}
    here = [event for event in evidence.events if event.system in systems]
    return replace(verdict, alarms=tuple(alarms_of(here, verdict.request)))


def alarms_of(events: Sequence[Event], request: Request | None = None) -> Iterator[WorseSince]:
    """Yields the alarms among events as reasons, the new ones first. `request`: of the newest run,
    if it is known."""
    alarming = (event for event in events if event.alarm)
    for event in sorted(alarming, key=lambda event: not event.is_new):
        changes, candidates = causes(event)
        yield WorseSince(
            session=event.session,
            at=event.at,
            first=event.first,
            last=event.last,
            where=f"{event.system}:{event.partition}",
            nights=len(event.after),
            raised=event.raised,
            is_new=event.is_new,
            worse=len(event.worse),
            checks=by_check(event),
            changes=changes,
            candidates=candidates,
            **_commands(event, request),
        )


def _commands(event: Event, request: Request | None) -> dict[str, str]:
    """The commands that compare both levels, measure the new one again, and accept it."""
    sides = event.before, event.after
    days = [[utc(session.start)[:10] for session in side] for side in sides]
    if {*days[0]} & {*days[1]}:
        sides = event.before[-NAMED:], event.after[-NAMED:]
        named = [",".join(session.uuid[:8] for session in side) for side in sides]
    else:
        named = [f"{side[0]}..{side[-1]}" for side in days]
    tier = event.after[0].tags.get("tier", "nightly")
    request = request or Request(tier, event.system, event.environ)
    return {
        "compare": bisection_command("compare", *named),
        "rerun": f"{rerun(event.worse, request, LIMITS.fewest - 1)} --against {named[0]}",
        "accept": bisection_command("history", "--accept", event.session[:8], "-m", "REASON"),
    }


def by_check(event: Event) -> tuple[CheckChanged, ...]:
    """Each check: how many of its metrics changed, the one that did most, and the least, the median
    and the largest change of cost; the check of most such metrics first. Of an event for the
    worse, only those count that have not recovered."""
    if not event.points:  # a drift
        return tuple((check, n, of, "", ()) for check, (n, of) in event.metrics.items())
    changed = grouped(worst_first(event.worse or event.points), lambda point: point.check)
    parts = []
    for check, points in sorted(changed.items(), key=lambda item: -len(item[1])):
        costs, (_, of) = [point.cost for point in points], event.metrics[check]
        sizes = (costs[-1], statistics.median(costs), costs[0])
        most = f"{points[0].test} {points[0].metric}"
        parts.append((check, len(points), of, most, sizes))
    return tuple(parts)


def worst_first(points: Iterable[ChangePoint]) -> list[ChangePoint]:
    return sorted(points, key=lambda point: -abs(point.cost - 1))


def causes(event: Event) -> tuple[tuple[Fact, ...], tuple[Candidate, ...]]:
    """Returns what changed with an event; the most probable of what may have, with its odds."""
    candidates = [(c.what, c.before, c.after, odds) for c, odds in event.candidates[:3]]
    changes = [(change.what, change.before, change.after) for change in event.changes]
    return tuple(changes), tuple(candidates)
