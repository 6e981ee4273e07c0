"""Since which session metrics are worse, by their history."""

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from bisection.analysis.model import ChangePoint, Event
from bisection.core.reasons import Code, Reason
from bisection.core.reasons.performance import whole_checks
from bisection.core.verdicts import Verdict
from bisection.judge.evidence import Evidence
from bisection.runs.model import RunVerdict


def rule(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Names the events in the history of this system that are alarms."""
    systems = {case.system for case in verdict.cases}
    here = [event for event in evidence.events if event.system in systems]
    return replace(verdict, alarms=alarms_of(here))


def alarms_of(events: Sequence[Event]) -> list[Reason]:
    """The events that are alarms, as reasons."""
    alarms = []
    for event in (event for event in events if event.alarm):
        times = {"at": event.at, "first": event.first, "last": event.last}
        who = {"worse": len(event.worse), "metrics": counts(event), "most": most(event)}
        changes, candidates = causes(event)
        why = {"factors": factors(event), "changes": changes, "candidates": candidates}
        alarms.append(Code.WORSE_SINCE(session=event.session, **times, **who, **why))
    return alarms


def counts(event: Event) -> dict[str, tuple[int, int]]:
    """Check -> (its metrics that got worse, all that it has); those that got better where none is
    worse, those that drift."""
    if not event.points:
        return event.metrics
    changed = Counter(point.check for point in event.worse or event.points)
    return {check: (count, event.metrics[check][1]) for check, count in changed.most_common()}


def most(event: Event) -> list[str]:
    """The metrics that changed most, of checks that are not named whole."""
    named = whole_checks(counts(event))
    points = worst_first(event.worse or event.points)
    return [f"{p.test} {p.metric}" for p in points if p.check not in named][:3]


def worst_first(points: Iterable[ChangePoint]) -> list[ChangePoint]:
    """Change points, the largest loss first."""
    return sorted(points, key=lambda p: (p.verdict != Verdict.REGRESSED, -abs(p.cost - 1)))


def factors(event: Event) -> tuple[float, float, float]:
    """Of the changes of cost the least, the median and the largest."""
    costs = [point.cost for point in event.worse or event.points]
    costs.sort(key=lambda factor: abs(factor - 1))
    return costs[0], statistics.median(costs), costs[-1]


def causes(event: Event) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Returns what changed with an event; the most probable of what may have, with its odds."""
    candidates = [{**asdict(change), "odds": odds} for change, odds in event.candidates[:3]]
    return [asdict(change) for change in event.changes], candidates
