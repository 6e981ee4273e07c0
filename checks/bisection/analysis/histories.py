"""The history of each metric in the store, session after session."""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from bisection.analysis.model import DrawnHistory, Event
from bisection.core.format import plural, some, utc
from bisection.core.grouping import grouped
from bisection.core.thresholds import LIMITS
from bisection.core.units import CONTEXT, COUNTED
from bisection.store.database import Metric, Session, Store, StoredTest, works_of
from bisection.store.nights import Nights
from bisection.store.selection import SLOWER


class History(NamedTuple):
    """A metric's values, session after session."""

    test: StoredTest
    metric: Metric
    indices: np.ndarray  # of sessions
    values: np.ndarray
    again: Mapping[int, Sequence[float]] = MappingProxyType({})  # of a session: repeats' values

    @property
    def key(self) -> tuple[str, ...]:
        return (*self.test.identity, self.metric.name)

    @property
    def fields(self) -> dict[str, Any]:
        metric = self.metric
        names = {"metric": metric.name, "unit": metric.unit, "better": metric.better}
        return {**self.test.by_name, **names}

    def cut(self, first: int, end: int) -> "History":
        """The history in some of the sessions alone."""
        part = slice(*np.searchsorted(self.indices, (first, end)).tolist())
        again = {at - first: more for at, more in self.again.items() if first <= at < end}
        indices, values = self.indices[part] - first, self.values[part]
        return self._replace(indices=indices, values=values, again=again)

    @property
    def is_long(self) -> bool:
        """True if it can show a change of level."""
        return len(self.values) >= 2 * LIMITS.level


def histories(
    store: Store,
    sessions: Sequence[Session],
    name: re.Pattern[str] | None = None,
    left_out: Collection[str] = (*CONTEXT, *COUNTED),
    repeats: bool = False,
) -> list[History]:
    """The history of each test and metric that has positive values: a session by the median of its
    usable jobs, since the test computes what it does in the newest session. Indices are of
    `sessions`, values in the metric's unit.

    Args:
        sessions: in order of time.
        name: only tests whose names match it.
        left_out: units of metrics that are left out.
        repeats: with what a retest repeated in the same session.
    """
    nights, result, other_work = Nights(store, sessions), [], {}
    for place, works in works_of(sessions).items():
        *_, now = works.values()
        other_work[place] = [nights.places[at] for at, work in works.items() if work != now]
    for series in nights.series:
        test, metric, jobs = series
        if metric.unit in left_out or (name and not name.search(" ".join(test.identity[3:]))):
            continue
        medians = series.medians(len(sessions))
        known = np.isfinite(medians)
        known[other_work.get((test.check, test.case), [])] = False
        if indices := np.flatnonzero(known).tolist():
            number = int(jobs["test"][0]), int(jobs["metric"][0])
            again = nights.repeats.get(number, {}) if repeats else {}
            result.append(History(test, metric, np.array(indices), medians[known], again))
    return result


def regular(sessions: Sequence[Session]) -> list[Session]:
    """The sessions that a history is made of: of each system and environment those of one tier and
    one selection of tests, which most sessions have, without those that a person tagged."""
    untagged = [session for session in sessions if not session.own_tags.keys() - {SLOWER}]
    kinds = grouped((session.kind for session in untagged), lambda kind: kind[1:3])
    usual = {Counter(alike).most_common(1)[0][0] for alike in kinds.values()}
    return [session for session in untagged if session.kind in usual]


def usual(chosen: Sequence[Session]) -> tuple[list[Session], list[str]]:
    """The sessions of a history, without experiments and such of the future; notes on those."""
    ahead = [session for session in chosen if session.ahead]
    sessions = regular([session for session in chosen if session not in ahead])
    others = [s for s in chosen if s not in sessions and s not in ahead]
    wrong = "ignored, dated in the future (wrong clock)"
    another = "sessions of another tier or selection, or tagged, left out"
    named = ((wrong, ahead), (another, others))
    notes = [f"{text}: {some(s.uuid[:8] for s in group)}" for text, group in named if group]
    return sessions, notes


def nights_of(sessions: Sequence[Session]) -> dict[int, int]:
    """The number of each session's night, by the session's number in the store."""
    night: dict[int, int] = {}
    began: list[float] = []
    for session in sorted(sessions, key=lambda session: session.start):
        if not began or session.start - began[-1] >= 3600 * LIMITS.night:
            began.append(session.start)
        night[session.id] = len(began) - 1
    return night


def drawn(
    histories: Sequence[History], sessions: Sequence[Session], events: Sequence[Event]
) -> Iterator[DrawnHistory]:
    """The histories that a page draws: times, and metrics whose level changed in these events."""
    changed = grouped((point for event in events for point in event.points), lambda p: p.key)
    for history in histories:
        points, values = changed.get(history.key, []), history.values.tolist()
        if points or (history.metric.name == "time" and len(values) > 1):
            times = [sessions[index].start for index in history.indices]
            starts = sorted({p.at for p in points if times[0] < p.at <= times[-1]})
            at = np.searchsorted(times, starts).tolist()
            yield DrawnHistory(**history.fields, times=times, values=values, points=at)


def nightly(
    histories: Sequence[History], sessions: Sequence[Session]
) -> tuple[np.ndarray, list[int], list[str]]:
    """Returns the histories of a partition in its nights, every night once: logarithms of costs,
    [metrics, nights], NaN: missing; the number of each night's session; notes on sessions and
    metrics that do not count."""
    costs = np.full((len(histories), len(sessions)), np.nan)
    for row, history in enumerate(histories):
        costs[row, history.indices] = np.log(history.values) * history.metric.sign
    nights: dict[object, int] = {}
    notes = []
    for night in np.flatnonzero((~np.isnan(costs)).any(axis=0)).tolist():
        values = costs[:, night]
        many = (~np.isnan(values)).sum() >= LIMITS.twin_metrics  # a few may be equal by chance
        first = nights.setdefault(values.tobytes() if many else night, night)
        if first != night:
            names = f"{sessions[first].uuid[:8]}, {sessions[night].uuid[:8]}"
            notes.append(f"duplicate sessions, only the first is used: {names}")
    kept = sorted(nights.values())
    costs = costs[:, kept]
    return costs, kept, notes + _ended(histories, [sessions[night] for night in kept], costs)


def _ended(
    histories: Sequence[History], sessions: Sequence[Session], costs: np.ndarray
) -> list[str]:
    """Metrics that the newest nights lack, and what replaced them."""
    count, known = len(sessions), ~np.isnan(costs)
    if count <= 2 * LIMITS.gone:
        return []
    last = count - 1 - known[:, ::-1].argmax(axis=1)
    newest = last >= count - LIMITS.gone
    newer = {
        (*test.identity, metric.name): (test, metric)
        for (test, metric, *_), here in zip(histories, newest, strict=True)
        if here
    }
    ends = defaultdict(list)
    for row in np.flatnonzero(~newest & (known.sum(axis=1) >= LIMITS.level)):
        test, metric, *_ = histories[int(row)]
        how = ""
        if now := newer.get((*test.identity, metric.name)):
            how = f"geometry {test.geometry} -> {now[0].geometry}"
            if now[1] != metric:
                how = f"unit {metric.unit} -> {now[1].unit}"
        ends[int(last[row]), how].append(f"{test.test} {metric.name}")
    notes = []
    for (end, how), names in sorted(ends.items(), reverse=True)[:5]:
        day = utc(sessions[end + 1].start)[:10]
        which = names[0] + (" and others" if names[1:] else "") + (f": {how}" if how else "")
        notes.append(f"{plural(len(names), 'metric')} not measured since {day}, {which}")
    return notes
