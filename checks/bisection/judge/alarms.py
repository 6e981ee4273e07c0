"""Changes since the session before, and since which session metrics are worse by their history."""

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from bisection.analysis.model import ChangePoint, Event, Row
from bisection.analysis.outlying import faster
from bisection.core.identity import IDENTITY
from bisection.core.reasons import Code, Kind, Reason
from bisection.core.reasons.performance import whole_checks
from bisection.core.verdicts import Verdict
from bisection.judge.evidence import Evidence
from bisection.runs.model import RunVerdict


def rule_changes(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Notes how many sessions there are, what changed since the last one, and what is faster."""
    verdict = replace(verdict, nights=evidence.nights)
    rows = evidence.comparison.rows if evidence.comparison else []
    changes = evidence.changes
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
