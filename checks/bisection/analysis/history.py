"""The history of each metric in the store, session after session."""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bisection.core.grouping import grouped
from bisection.core.thresholds import LIMITS
from bisection.core.units import CONTEXT, COUNTED
from bisection.store.database import Metric, Session, Store, StoredTest, works_of
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
        """The identity of the metric of a test: eight words."""
        return (*self.test.identity, self.metric.name)


def histories(
    store: Store,
    sessions: Sequence[Session],
    name: re.Pattern[str] | None = None,
    left_out: Collection[str] = (*CONTEXT, *COUNTED),
    repeats: bool = False,
) -> list[History]:
    """Every metric's history, a session by the median of its jobs, since the test computes what it
    does in the newest session.

    Args:
        sessions: in order of time.
        name: only tests whose names match it.
        left_out: units of metrics that are left out.
        repeats: with what a retest repeated in the same session.

    Returns:
        A history per test and metric that has positive values, without unusable jobs; indices are
        of `sessions`, values in the metric's unit.
    """
    tests, metrics = store.tests(), store.metrics()
    rows = store.samples(sessions, usable=True)
    wanted = [
        number
        for number, test in tests.items()
        if not test.pair and (not name or name.search(" ".join(test.identity[3:])))
    ]
    context = [n for n, metric in metrics.items() if metric.unit in left_out]
    keep = (rows["value"] > 0) & np.isin(rows["test"], wanted) & ~np.isin(rows["metric"], context)
    for place, works in works_of(sessions).items():
        last = list(works.values())[-1]
        if other := [session for session, work in works.items() if work != last]:
            of_case = [n for n, test in tests.items() if (test.check, test.case) == place]
            keep &= ~(np.isin(rows["test"], of_case) & np.isin(rows["session"], other))
    rows = rows[keep]
    if not len(rows):
        return []
    numbers = np.array([session.id for session in sessions])
    order = np.argsort(numbers)
    when = order[np.searchsorted(numbers[order], rows["session"])]
    rows = rows[by := np.lexsort((when, rows["metric"], rows["test"]))]
    when = when[by]
    repeated = store.repeats(sessions) if repeats else {}
    of_metric = grouped(repeated, lambda key: key[:2])
    splits = np.flatnonzero(np.diff(rows["test"]) | np.diff(rows["metric"])) + 1
    result = []
    for part, indices in zip(np.split(rows, splits), np.split(when, splits), strict=True):
        starts, values = np.flatnonzero(np.diff(indices, prepend=-1)), part["value"]
        if len(starts) < len(indices):
            values = np.array([np.median(jobs) for jobs in np.split(values, starts[1:])])
        key = int(part["test"][0]), int(part["metric"][0])
        history = History(tests[key[0]], metrics[key[1]], indices[starts], values)
        nights = {each[-1]: repeated[each] for each in of_metric.get(key, ())}
        result.append(
            _with_repeats(history, part["session"][starts], nights) if nights else history
        )
    return result


def _with_repeats(
    history: History, sessions: np.ndarray, nights: Mapping[int, Sequence[float]]
) -> History:
    """The history with its repeats. `sessions`: the number of each value's; `nights`: what launches
    measured again, by the session's number."""
    repeats = np.zeros((3, len(sessions)))
    repeats[0] = 1
    for place, session in enumerate(sessions.tolist()):
        if session in nights:
            logs = np.log(nights[session])
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
