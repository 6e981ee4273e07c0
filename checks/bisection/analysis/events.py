"""Events in the histories of all metrics: what changed together, since which night, with what.

Levels are looked for in what all metrics share, in what each kernel shares beside that, and in
each metric beside both (noise.py). What may have begun in the same night is one event for the
worse, and one for the better. Their night is the median of what all evidence together makes
probable, which is the estimate that errs by the fewest nights.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bisection.analysis.environment import note_causes
from bisection.analysis.model import ChangePoint, Event
from bisection.analysis.night_tables import NightTable
from bisection.analysis.noise import LEAST, TINY, Level, Levels, independent, levels
from bisection.analysis.statistics import medians, scale
from bisection.core.grouping import grouped
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict


@dataclass(eq=False)
class _Trace:
    """A change of level in a series."""

    rows: np.ndarray  # of the metrics that it is of
    test: object  # that it is of: metrics of one test vary together; None: of what metrics share
    level: Level  # its indices are of the table's nights
    logs: np.ndarray  # likelihood of each night as the first one, [nights]


def events_of(
    looked_at: Sequence[NightTable], false_alarms: float = LIMITS.false_alarms
) -> tuple[list[Event], list[str]]:
    """The events in the histories of tables, those of most metrics for the worse first; notes on
    sessions and metrics that do not count. `false_alarms`: how many a year of nightly sessions may
    have without a change."""
    metrics = sum(len(table.histories) for table in looked_at)
    events: list[Event] = []
    notes: list[str] = []
    for table in looked_at:
        events += _of_table(table, false_alarms * len(table.histories) / metrics)
        notes += table.notes
    events.sort(key=lambda e: (not e.alarm, -len(e.worse), -len(e.points), -e.at))
    return events, list(dict.fromkeys(notes))


def _of_table(table: NightTable, a_year: float) -> list[Event]:
    shared, apart, every = table.shared, table.apart, np.arange(len(table.apart))
    kernels = [np.flatnonzero(table.kernels == number) for number in range(len(shared) - 1)]
    tests = [*[None] * len(shared), *(history.test.identity for history in table.histories)]
    its_levels = levels(shared, LIMITS.shared_part * a_year)
    its_levels += levels(apart, (1 - LIMITS.shared_part) * a_year, table.mildest)
    series, members = [*shared, *apart], [every, *kernels, *every[:, None]]
    traces: list[_Trace] = []
    events: list[Event] = []
    for values, rows, test, of_series in zip(series, members, tests, its_levels, strict=True):
        traces += [_trace(values, rows, test, level, of_series) for level in of_series.new]
        if of_series.drift:  # of all together, from the first night on
            drift = {"drift": math.exp(of_series.drift), "nights": len(table.sessions) - 1}
            events.append(_event(table, rows, (0, 0, 0), **drift))
    for chances, together in _together(traces):
        night = int(np.searchsorted(np.cumsum(chances), 0.5))
        # The fewest nights that have the chance `night_chance` together.
        likely = np.argsort(-chances, kind="stable")
        fewest = np.searchsorted(np.cumsum(chances[likely]), LIMITS.night_chance) + 1
        low, high = int(likely[:fewest].min()), int(likely[:fewest].max())
        sides = grouped(_points(table, night, together).items(), lambda item: item[1].verdict)
        for verdict, side in sides.items():
            points = dict(side)
            event = _event(table, points, (low, night, high), points=[*points.values()])
            if verdict == Verdict.REGRESSED:
                event.near = table.sessions[max(0, low - 1) : high + 2]
                event.accepted = next((s.accepted for s in event.near if s.accepted), "")
            note_causes(event, table.sessions, chances, range(max(1, low), high + 1))
            events.append(event)
    return events


def _event(
    table: NightTable, rows: Iterable[int], when: tuple[int, int, int], **more: Any
) -> Event:
    """An event of these metrics, which are rows of the table; `when` are the first night in which
    it may have begun, the most probable one, and the last one."""
    low, night, _ = when
    tests = [test for test, *_ in table.histories]
    there = Counter(test.check for test in tests)
    changed = Counter(tests[row].check for row in rows)
    first, at, last = (table.sessions[n].start for n in when)
    return Event(
        system=tests[0].system,
        partition=tests[0].partition,
        environ=tests[0].environ,
        session=table.sessions[night].uuid,
        at=at,
        first=first,
        last=last,
        metrics={check: (count, there[check]) for check, count in changed.most_common()},
        before=table.sessions[max(0, low - LIMITS.event_sessions) : low],
        after=table.sessions[night:],
        **more,
    )


# ---- when ----


def _trace(
    values: np.ndarray, rows: np.ndarray, test: object, level: Level, of_series: Levels
) -> _Trace:
    """A change of level, with the logarithm of the likelihood that it was in each night of the
    table; -inf outside of the level and the one before."""
    known = np.flatnonzero(np.isfinite(values))
    clear = values[known] - of_series.drift * np.arange(len(known))
    sides = clear[level.left : level.start], clear[level.start : level.right]
    middles = np.repeat([np.median(side) for side in sides], [len(side) for side in sides])
    off = np.concatenate(sides) - middles
    far = 3 * max(float(scale(off)), TINY)
    part = middles + np.clip(off, -far, far)
    part -= part.mean()
    count, first = len(part), np.arange(1, len(part))
    gain = np.cumsum(part)[:-1] ** 2 * count / (first * (count - first))
    rest = np.maximum((part**2).sum() - gain, TINY**2)
    by_night = -independent(count, of_series.rho) / 2 * np.log(rest)
    its = known[level.left : level.right]
    nights = np.arange(its[0] + 1, its[-1] + 1)  # one without a value is as the next with one
    logs = np.full(len(values), -np.inf)
    logs[nights] = (by_night - by_night.max())[np.searchsorted(its[1:], nights)]
    return _Trace(rows, test, replace(level, left=int(its[0]), right=int(its[-1]) + 1), logs)


def _probable(logs: np.ndarray) -> np.ndarray:
    chances = np.exp(logs - logs.max())
    return chances / chances.sum()


def _together(traces: list[_Trace]) -> list[tuple[np.ndarray, list[_Trace]]]:
    """Changes that may have begun in the same night, with the chance of each night, [nights]."""
    rest, groups = traces, []
    while rest:
        night = int(np.sum([_probable(trace.logs) for trace in rest], axis=0).argmax())
        members = [trace for trace in rest if trace.logs[night] > LIMITS.other_event] or rest[:1]
        rest = [trace for trace in rest if trace not in members]
        # The surest of each test: its metrics vary together.
        order = sorted(members, key=lambda t: (t.test is not None, -t.level.errors))
        tests = grouped(order, lambda trace: trace.test or id(trace)).values()
        chances = _probable(sum(np.maximum(alike[0].logs, LIMITS.least_likely) for alike in tests))
        groups.append((chances, members))
    return groups


# ---- what ----


def _points(table: NightTable, night: int, traces: list[_Trace]) -> dict[int, ChangePoint]:
    """The metrics whose level changed in a night, by their number."""
    points: dict[int, ChangePoint] = {}
    first = table.sessions[night]
    for trace in sorted(traces, key=lambda t: t.test is None):
        rows, level = trace.rows, trace.level
        nights = level.left, night, level.right
        shared = (table.shared[0] + table.shared[1:])[table.kernels[rows]]
        common, error, *_ = _step(shared, *nights)
        moved = np.abs(common) >= np.maximum(LEAST, LIMITS.shared_sure * error)
        # Where the shared level is as before, a metric is judged beside it: it varies less.
        beside = trace.test is not None and not moved.any()
        values = table.apart[rows] if beside else table.costs[rows]
        size, _, before, after = _step(values, *nights)
        least = np.where(moved, LIMITS.shared_step * np.abs(common), 0)
        part = np.abs(size) >= np.maximum(LEAST, least)
        if trace.test is None:
            part &= np.minimum(size / level.step, common / level.step) >= LIMITS.shared_step
        for index in np.flatnonzero(part):
            history, cost = table.histories[rows[index]], float(size[index])
            point = ChangePoint(
                **history.fields,
                session=first.uuid,
                at=first.start,
                ratio=math.exp(cost * history.metric.sign),
                before=int(before[index]),
                after=int(after[index]),
                verdict=Verdict.REGRESSED if cost > 0 else Verdict.IMPROVED,
                errors=level.errors,
                stands=level.newest,
                alarm=level.alarm and cost > 0,
                back=level.back,
            )
            points.setdefault(int(rows[index]), point).alarm |= point.alarm
    return points


def _step(
    values: np.ndarray, left: int, night: int, right: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """By how much the level of each series changed in a night, and the standard error of that; its
    nights before and since. NaN where it has none of either."""
    parts = values[:, left:night], values[:, night:right]
    old, new = (medians(part, 1) for part in parts)
    before, after = ((~np.isnan(part)).sum(axis=1) for part in parts)
    around = np.hstack([parts[0] - old[:, None], parts[1] - new[:, None]])
    nights = 1 / np.maximum(before, 1) + 1 / np.maximum(after, 1)
    error = scale(around, 1) * np.sqrt(math.pi / 2 * nights)  # of medians
    return new - old, error, before, after
