"""The history of each metric in the store, session after session."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bisection.core.format import some
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
    # Of each night, by logarithms: how many launches it has; the sum of squares by which those that
    # a retest repeated are off their mean; this mean less the value: [3, values]. None: no repeats.
    repeats: np.ndarray | None = None

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
        repeats = None if self.repeats is None else self.repeats[:, part]
        indices, values = self.indices[part] - first, self.values[part]
        return self._replace(indices=indices, values=values, repeats=repeats)

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
            history = History(test, metric, np.array(indices), medians[known])
            number = int(jobs["test"][0]), int(jobs["metric"][0])
            again = nights.repeats.get(number) if repeats else None
            result.append(_with_repeats(history, again) if again else history)
    return result


def _with_repeats(history: History, again: Mapping[int, Sequence[float]]) -> History:
    """The history with its repeats; `again`: the values of a session's launches that were repeated,
    by its index."""
    repeats = np.zeros((3, len(history.indices)))
    repeats[0] = 1
    for place, at in enumerate(history.indices.tolist()):
        if at in again:
            logs = np.log(again[at])
            more = logs.mean() - np.log(history.values[place])
            repeats[:, place] = 1 + len(logs), len(logs) * logs.var(), more
    return history._replace(repeats=repeats)


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


def nights_of(sessions: Sequence[Session]) -> tuple[dict[int, int], np.ndarray]:
    """The number of each session's night, by the session's number, and when the nights were, in
    units of the usual time between them."""
    night: dict[int, int] = {}
    began: list[float] = []
    for session in sorted(sessions, key=lambda session: session.start):
        if not began or session.start - began[-1] >= 3600 * LIMITS.night:
            began.append(session.start)
        night[session.id] = len(began) - 1
    when = np.array(began)
    return night, (when - when[:1]) / (np.median(np.diff(when)) if len(when) > 1 else 1)
