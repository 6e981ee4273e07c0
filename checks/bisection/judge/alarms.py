"""Changes since the session before, and since which session metrics are worse by their history."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from bisection.analysis.model import ChangePoint, Event, Row
from bisection.analysis.outlying import faster
from bisection.core.format import utc
from bisection.core.grouping import grouped
from bisection.core.identity import IDENTITY
from bisection.core.reasons import Code, Kind, Reason
from bisection.core.thresholds import LIMITS
from bisection.judge.evidence import Evidence
from bisection.runs.command import bisection_command, rerun
from bisection.runs.model import Request, RunVerdict

NAMED = 10  # sessions that a command names one by one


def rule_changes(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Notes how many sessions there are, what changed since the last one, and what is faster. Tests
    that are gone are not measured; nor is what ran on other ranks than before: nothing slower could
    be seen."""
    verdict = replace(verdict, nights=evidence.nights)
    if evidence.gone:
        verdict = verdict.noting(troubles=[Code.TESTS_GONE(tests=evidence.gone)])
    rows = evidence.comparison.rows if evidence.comparison else []
    changes = evidence.changes
    if unlike := [row for row in rows if row.is_of_other_ranks]:
        cores = next((asdict(change) for change in changes if change.what == "cores"), None)
        verdict = verdict.noting(
            troubles=[
                Code.OTHER_RANKS(
                    tests=len({row.identity for row in unlike}),
                    before=unlike[0].before.geometry,
                    now=unlike[0].after.geometry,
                    cores=cores and Code.CHANGED(**cores, since=evidence.since),
                )
            ]
        )
    remarks = [Code.CHANGED(**asdict(c), since=evidence.since) for c in changes]
    if better := faster(rows):
        remarks.append(reason_of(Code.FASTER, better[0], metrics=len(better)))
    if moved := [row for row in rows if row.baseline_moved]:
        remarks.append(reason_of(Code.BASELINES_MOVED, moved[0], metrics=len(moved)))
    return verdict.noting(remarks=remarks)


def reason_of(code: Kind, row: Row, **more: Any) -> Reason:
    """The Reason of this code on a metric: its test, both sides, how many times slower it is."""
    names = (*IDENTITY, "metric", "unit")
    values: Mapping[str, Any] = {name: getattr(row, name) for name in names}
    sides = {"before": row.before.median, "after": row.seen, "factor": row.excess}
    return code(**values, **sides, sessions=row.before.sessions, **more)


def rule(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Names the events in the history of this system that are alarms."""
    systems = {case.system for case in verdict.cases}
    here = [event for event in evidence.events if event.system in systems]
    return replace(verdict, alarms=tuple(alarms_of(here, verdict.request)))


def alarms_of(events: Sequence[Event], request: Request | None = None) -> Iterator[Reason]:
    """Yields the events that are alarms, as reasons. `request`: the newest run's if known."""
    names = ("session", "at", "first", "last")
    for event in (event for event in events if event.alarm):
        values = {name: getattr(event, name) for name in names} | _commands(event, request)
        values |= {"where": f"{event.system}:{event.partition}", "checks": by_check(event)}
        values |= zip(("changes", "candidates"), causes(event), strict=True)
        yield Code.WORSE_SINCE(worse=len(event.worse), **values)


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


def by_check(event: Event) -> dict[str, dict[str, Any]]:
    """Check -> how many of its metrics changed, the one that did most, and the least, the median
    and the largest change of cost; the check of most such metrics first. Of an event for the
    worse, only those count that have not recovered."""
    if not event.points:  # a drift
        return {check: {"changed": n, "of": of} for check, (n, of) in event.metrics.items()}
    changed = grouped(worst_first(event.worse or event.points), lambda point: point.check)
    parts = {}
    for check, points in sorted(changed.items(), key=lambda item: -len(item[1])):
        costs, (_, of) = [point.cost for point in points], event.metrics[check]
        sizes = [costs[-1], statistics.median(costs), costs[0]]
        most = f"{points[0].test} {points[0].metric}"
        parts[check] = {"changed": len(points), "of": of, "most": most, "sizes": sizes}
    return parts


def worst_first(points: Iterable[ChangePoint]) -> list[ChangePoint]:
    return sorted(points, key=lambda point: -abs(point.cost - 1))


def causes(event: Event) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns what changed with an event; the most probable of what may have, with its odds."""
    candidates = [{**asdict(change), "odds": odds} for change, odds in event.candidates[:3]]
    return [asdict(change) for change in event.changes], candidates
