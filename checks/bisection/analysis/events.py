"""Events in the histories of all metrics: what changed together, since which night, with what.

Levels are looked for in what all metrics share, in what each kernel shares beside that, and in
each metric beside both (evidence.py, accumulate.py). What may have begun in the same night is one
event. Its night is the median of what all evidence together makes probable, which is the estimate
that errs by the fewest nights.
"""

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bisection.analysis.accumulate import Findings, Shift, look, odds
from bisection.analysis.evidence import factors
from bisection.analysis.history import History, series_of
from bisection.analysis.model import Candidate, Change, ChangePoint, Event, Series, changes
from bisection.analysis.statistics import medians, scale
from bisection.core.reasons import Code, Reason
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict
from bisection.store.database import Session

SHARED = 0.1  # of the chance of a false alarm: what all metrics, and kernels, share
ALIKE = 0.5  # of a shared step: a metric that moved by less is nearer to its old level
SURE = 4.0  # standard errors: by more, what metrics share has moved
UNLIKELY = -5.0  # logarithm of the likelihood of a night, beside the likeliest: another event
WRONG = -50.0  # and of one that one metric cannot exclude more than that
TWIN = 10  # metrics that two sessions have in common to be the same night
YEAR = 365.0  # nights


@dataclass
class _Table:
    """The metrics of one partition, in the nights of it."""

    histories: list[History]
    sessions: list[Session]
    costs: np.ndarray  # logarithms, [metrics, nights]; NaN: missing
    kernels: np.ndarray  # number of each metric's check
    checks: list[str]
    false_alarms: float  # a year
    # What the metrics of a night share, and of a kernel beside it; what they have beside both:
    session: np.ndarray  # [nights]
    kernel: np.ndarray  # [checks, nights]
    own: np.ndarray  # [metrics, nights]


@dataclass
class _Trace:
    """One change of level in one series."""

    rows: np.ndarray  # of the metrics that it is of
    test: object  # that it is of: metrics of one test vary together
    shared: bool  # whether the series is what these metrics share
    size: float  # logarithm of new over old
    left: int  # nights: of the level before, and after the new one
    right: int
    logs: np.ndarray  # likelihood of each night as the first one, [nights]
    chance: float


def events_of(
    measured: Sequence[History],
    sessions: Sequence[Session],
    false_alarms: float = LIMITS.false_alarms,
) -> tuple[list[Event], list[Series], list[Reason]]:
    """The events in histories.

    Args:
        measured: histories of these sessions.
        sessions: in order of time.
        false_alarms: how many a year of nightly sessions may have without a change.

    Returns:
        Events, those of most metrics for the worse first; the histories with change points as
        series to draw; notes on sessions and metrics that do not count.
    """
    chance = false_alarms / YEAR * LIMITS.alarm_nights
    places: dict[tuple[str, ...], list[History]] = {}
    for history in measured:
        test = history[0]
        places.setdefault((test.system, test.partition, test.environ), []).append(history)
    events: list[Event] = []
    series: list[Series] = []
    notes: list[Reason] = []
    for histories in places.values():
        table, twins = _table(histories, sessions, false_alarms)
        part = chance * len(histories) / len(measured)
        happened, drawn = _of_table(table, part)
        events += happened
        series += drawn
        notes += twins + _ended(table)
    events.sort(key=lambda e: (not e.alarm, -len(e.worse), -len(e.points), -e.at))
    return events, series, list(dict.fromkeys(notes))


def _table(
    histories: list[History], sessions: Sequence[Session], false_alarms: float
) -> tuple[_Table, list[Reason]]:
    """The histories of one partition as an array, every night once."""
    costs = np.full((len(histories), len(sessions)), np.nan)
    for row, (_, metric, indices, values) in enumerate(histories):
        costs[row, indices] = np.log(values) if metric.better == "lower" else -np.log(values)
    nights: dict[object, int] = {}
    twins = []
    varying = (costs != costs[:, :1]).any(axis=1)
    for night in np.flatnonzero((~np.isnan(costs)).any(axis=0)):
        values = costs[varying, night]
        many = (~np.isnan(values)).sum() >= TWIN  # a few may be equal by chance
        first = nights.setdefault(values.tobytes() if many else int(night), int(night))
        if first != night:
            names = [sessions[first].uuid[:8], sessions[night].uuid[:8]]
            twins.append(Code.SAME_NIGHT(sessions=names))
    kept = sorted(nights.values())
    checks, kernels = np.unique([test.check for test, *_ in histories], return_inverse=True)
    costs, there = costs[:, kept], [sessions[night] for night in kept]
    residuals = costs - medians(costs, 1)[:, None]
    session, kernel = factors(residuals, kernels)
    own = residuals - np.nan_to_num(session) - np.nan_to_num(kernel)[kernels]
    table = _Table(
        *(list(histories), there, costs, kernels, list(checks), false_alarms, session, kernel, own)
    )
    return table, twins


def _of_table(table: _Table, chance: float) -> tuple[list[Event], list[Series]]:
    shared, own = np.vstack([table.session, table.kernel]), table.own
    every = np.arange(len(own))
    of_kernels = [every, *(np.flatnonzero(table.kernels == k) for k in range(len(table.checks)))]
    traces: list[_Trace] = []
    drifts: list[tuple[np.ndarray, float]] = []
    for series, members, findings in (
        (shared, of_kernels, look(shared, SHARED * chance, table=False)),
        (own, every[:, None], look(own, (1 - SHARED) * chance, table=True)),
    ):
        for values, rows, finding in zip(series, members, findings, strict=True):
            test = None if series is shared else table.histories[rows[0]][0].identity
            traces += [_trace(values, rows, test, shift, finding) for shift in finding.shifts]
            drifts += [(rows, finding.drift)] if finding.drift is not None else []
    events = [_drift(table, rows, slope) for rows, slope in drifts]
    starts: dict[int, list[int]] = {}
    for night, together, low, high in _together(traces):
        event = _event(table, night, together, low, high, starts)
        events += [event] if event.points else []
    _which_stand(events)
    drawn = []
    for row, nights in starts.items():
        test, metric, _, values = table.histories[row]
        known = np.flatnonzero(~np.isnan(table.costs[row]))
        at = sorted(int(np.searchsorted(known, night)) for night in nights)
        kept = np.exp(table.costs[row, known] * (1 if metric.better == "lower" else -1))
        drawn.append(series_of(test, metric, known, kept, table.sessions, at))
    return events, drawn


# ---- when ----


def _trace(
    values: np.ndarray, rows: np.ndarray, test: object, shift: Shift, finding: Findings
) -> _Trace:
    """A change of level with the likelihood of each night of the table."""
    known = np.flatnonzero(~np.isnan(values))
    clear = values[known] - (finding.drift or 0.0) * np.arange(len(known))
    size = np.median(clear[shift.start : shift.right]) - np.median(clear[shift.left : shift.start])
    logs = np.full(len(values), -np.inf)
    following = np.searchsorted(known, np.arange(known[-1] + 1))  # a night without a value is as
    logs[: known[-1] + 1] = odds(clear, shift, finding.correlation)[following]  # the next with one
    left, right = known[shift.left], known[shift.right - 1] + 1
    return _Trace(rows, test, test is None, float(size), int(left), int(right), logs, shift.chance)


def _probable(logs: np.ndarray) -> np.ndarray:
    chances = np.exp(logs - logs.max())
    return chances / chances.sum()


def _span(chances: np.ndarray) -> tuple[int, int]:
    """The first and the last of the fewest nights that have the chance `night_chance` together."""
    order = np.argsort(-chances, kind="stable")
    count = int(np.searchsorted(np.cumsum(chances[order]), LIMITS.night_chance)) + 1
    return int(order[:count].min()), int(order[:count].max())


def _together(traces: list[_Trace]) -> list[tuple[np.ndarray, list[_Trace], int, int]]:
    """Changes that may have begun in the same night: (chance of each night, them, first, last)."""
    rest = [(trace, _probable(trace.logs)) for trace in traces]
    groups = []
    while rest:
        night = int(np.sum([chances for _, chances in rest], axis=0).argmax())
        group = [entry for entry in rest if entry[0].logs[night] > UNLIKELY] or rest[:1]
        rest = [entry for entry in rest if not any(entry is other for other in group)]
        members = [trace for trace, _ in group]
        tests: dict[object, _Trace] = {}  # the surest of each: metrics of a test vary together
        for trace in sorted(members, key=lambda t: (not t.shared, t.chance)):
            tests.setdefault(trace.test or id(trace), trace)
        chances = _probable(sum(np.maximum(trace.logs, WRONG) for trace in tests.values()))
        groups.append((chances, members, *_span(chances)))
    return groups


# ---- what ----


def _event(
    table: _Table,
    chances: np.ndarray,
    traces: list[_Trace],
    low: int,
    high: int,
    starts: dict[int, list[int]],
) -> Event:
    """Returns what began in a night; notes the night of each metric in `starts`."""
    night = int(np.searchsorted(np.cumsum(chances), 0.5))
    points: dict[int, ChangePoint] = {}
    for trace in sorted(traces, key=lambda t: t.shared):
        rows, nights = trace.rows, (trace.left, night, trace.right)
        moved = _moved(table, *nights)[rows]
        # Where the shared level is as before, a metric is judged beside it: it varies less.
        beside = (moved == 0) & (not trace.shared)
        values = np.where(beside[:, None], table.own[rows], table.costs[rows])
        size, before, after = _step(values, *nights)
        part = (before > 0) & (after > 0)
        part &= np.abs(size) >= np.maximum(math.log1p(LIMITS.step), ALIKE * np.abs(moved))
        if trace.shared:
            part &= size / trace.size >= ALIKE
        for index in np.flatnonzero(part):
            row = int(trace.rows[index])
            counts = int(before[index]), int(after[index])
            points.setdefault(row, _point(table, row, night, float(size[index]), *counts))
    for row in points:
        starts.setdefault(row, []).append(night)
    rate = table.false_alarms * min(trace.chance for trace in traces)
    event = _made(table, list(points), night, low, high, rate)
    event.points = list(points.values())
    _environment(event, table, chances, low, high)
    return event


def _step(
    values: np.ndarray, left: int, night: int, right: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """By how much the level of each series changed in a night; how many nights it has before and
    since."""
    parts = values[:, left:night], values[:, night:right]
    before, after = ((~np.isnan(part)).sum(axis=1) for part in parts)
    return medians(parts[1], 1) - medians(parts[0], 1), before, after


def _moved(table: _Table, left: int, night: int, right: int) -> np.ndarray:
    """By how much the level of what each metric shares with others changed in a night, [metrics]; 0
    where that is no more than its nights vary."""
    shared = table.session + table.kernel
    size, before, after = _step(shared, left, night, right)
    parts = shared[:, left:night], shared[:, night:right]
    around = np.hstack([part - medians(part, 1)[:, None] for part in parts])
    nights = 1 / np.maximum(before, 1) + 1 / np.maximum(after, 1)
    error = scale(around, 1) * np.sqrt(math.pi / 2 * nights)  # of medians
    sure = np.abs(size) >= np.maximum(math.log1p(LIMITS.step), SURE * error)
    return np.where(sure, size, 0.0)[table.kernels]


def _made(
    table: _Table, rows: Sequence[int], night: int, low: int, high: int, rate: float
) -> Event:
    first = table.histories[0][0]
    there = Counter(table.checks[k] for k in table.kernels)
    changed = Counter(table.checks[table.kernels[row]] for row in rows)
    at = [session.start for session in table.sessions]
    accepted = [s.accepted for s in table.sessions[max(0, low - 1) : high + 2] if s.accepted]
    return Event(
        *(first.system, first.partition, first.environ),
        session=table.sessions[night].uuid,
        at=at[night],
        first=at[low],
        last=at[high],
        rate=rate,
        metrics={check: (count, there[check]) for check, count in changed.most_common()},
        accepted=accepted[0] if accepted else "",
    )


def _point(
    table: _Table, row: int, night: int, size: float, before: int, after: int
) -> ChangePoint:
    test, metric, *_ = table.histories[row]
    first = table.sessions[night]
    return ChangePoint(
        *test.identity,
        *metric,
        session=first.uuid,
        at=first.start,
        ratio=math.exp(size if metric.better == "lower" else -size),
        before=before,
        after=after,
        verdict=Verdict.REGRESSED if size > 0 else Verdict.IMPROVED,
    )


def _drift(table: _Table, rows: np.ndarray, slope: float) -> Event:
    """All that drifts together, from the first night on."""
    last = len(table.sessions) - 1
    event = _made(table, list(rows), 0, 0, 0, 0.0)
    event.drift, event.nights = math.exp(slope), last
    return event


def _which_stand(events: Sequence[Event]) -> None:
    """Notes which points are of the newest level of their metric."""
    newest: dict[tuple[str, ...], float] = {}
    for point in (p for event in events for p in event.points):
        newest[point.key] = max(newest.get(point.key, 0.0), point.at)
    for point in (p for event in events for p in event.points):
        point.stands = point.at == newest[point.key]


# ---- with what ----


def _environment(event: Event, table: _Table, chances: np.ndarray, low: int, high: int) -> None:
    """Adds what of the environment changed when an event began, or may have begun."""
    for night in range(max(1, low), high + 1):
        for change in _lasting_changes(table.sessions, night):
            if chances[night] >= LIMITS.cause_chance:
                event.changes.append(change)
            else:
                candidate = Candidate(change, table.sessions[night].start, float(chances[night]))
                event.candidates.append(candidate)
    event.candidates.sort(key=lambda candidate: -candidate.odds)


def _lasting_changes(sessions: Sequence[Session], night: int) -> list[Change]:
    """Returns what changed in a night and was the same in the nights before, and in those since:
    the nodes of a job that the scheduler chooses each night are not among it."""
    before = sessions[max(0, night - LIMITS.cause_nights) : night]
    after = sessions[night : night + LIMITS.cause_nights]

    def constant(facts_key: str) -> bool:
        return all(
            len({s.facts[facts_key] for s in side if s.facts.get(facts_key)}) == 1
            for side in (before, after)
        )

    return [change for change in changes(before, after) if constant(change.what)]


def _ended(table: _Table) -> list[Reason]:
    """Metrics that the newest nights lack, and what replaced them."""
    count = len(table.sessions)
    if count <= 2 * LIMITS.gone:
        return []
    known = ~np.isnan(table.costs)
    last = count - 1 - known[:, ::-1].argmax(axis=1)
    newer = {}
    for (test, metric, *_), end in zip(table.histories, last, strict=True):
        if end >= count - LIMITS.gone:
            newer[(*test.identity, metric.name)] = (test, metric)
    ends: dict[tuple[int, str], list[str]] = {}
    for (test, metric, *_), end, nights in zip(
        table.histories, last, known.sum(axis=1), strict=True
    ):
        if end >= count - LIMITS.gone or nights < LIMITS.level:
            continue
        now = newer.get((*test.identity, metric.name))
        how = ""
        if now and now[1] != metric:
            how = f"unit {metric.unit} -> {now[1].unit}"
        elif now:
            how = f"geometry {test.geometry} -> {now[0].geometry}"
        ends.setdefault((int(end), how), []).append(f"{test.test} {metric.name}")
    return [
        Code.HISTORY_ENDS(at=table.sessions[end + 1].start, change=how, metrics=len(names),
            example=names[0],
        )
        for (end, how), names in itertools.islice(sorted(ends.items(), reverse=True), 5)
    ]  # fmt: skip
