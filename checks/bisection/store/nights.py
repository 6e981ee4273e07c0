"""Stored sessions as arrays: the one way from the store to all analyses."""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict
from bisection.store.database import Metric, Outcome, Session, Store, StoredTest

USABLE, NOT_MEASURED, DISTURBED = range(3)  # the states of a job's numbers
JOB = [("test", "i4"), ("metric", "i4"), ("at", "i4"), ("run", "i4"), ("value", "f8"), ("of", "i1")]
DISTURBED_JOB = f"disturbed > {LIMITS.disturbed_launch}"
JOIN = f"""
SELECT test, metric, session, run, ifnull(value, 9e999), ifnull(state, {USABLE}) FROM samples
LEFT JOIN (
    SELECT session, test, run,
        CASE WHEN {DISTURBED_JOB} THEN {DISTURBED} ELSE {NOT_MEASURED} END AS state
    FROM outcomes WHERE {DISTURBED_JOB} OR verdict = '{Verdict.NOT_MEASURED}')
USING (session, test, run) WHERE session IN"""


class Series(NamedTuple):
    """A metric of a test, by its jobs in the order of sessions."""

    test: StoredTest
    metric: Metric
    jobs: np.ndarray  # see `Nights.jobs`

    def medians(self, sessions: int, zero: bool = False) -> np.ndarray:
        """The median of each of so many sessions, by its usable jobs with positive values, or with
        any; NaN where it has none."""
        row, of_jobs = np.full(sessions, np.nan), self.jobs["value"]
        known = np.isfinite(of_jobs) if zero else of_jobs > 0
        used = self.jobs[(self.jobs["of"] == USABLE) & known]
        starts, values = np.flatnonzero(np.diff(used["at"], prepend=-1)), used["value"]
        if len(starts) < len(values):
            values = [np.median(of_session) for of_session in np.split(values, starts[1:])]
        row[used["at"][starts]] = values
        return row


class Nights:
    """What sessions measured, and on which hosts. Each part is read when it is needed first."""

    def __init__(self, store: Store, sessions: Sequence[Session]) -> None:
        self.store, self.sessions = store, sessions
        self.numbers = np.array([session.id for session in sessions], int)  # in the store
        self.places = {session.id: at for at, session in enumerate(sessions)}
        self.tests = store.tests()

    @cached_property
    def launches(self) -> list[Outcome]:
        """What became of each job of each test, with its hosts, in the order of sessions."""
        places = self.places
        return sorted(self.store.outcomes(self.sessions), key=lambda each: places[each.session])

    @cached_property
    def jobs(self) -> np.ndarray:
        """The values of all jobs, by test, metric, session and run: a structured array with the
        numbers of test and metric in the store, `at`, the place of the session, `run`, `value`
        (NaN: not measured), and `of`, the state: USABLE, NOT_MEASURED, DISTURBED."""
        jobs = self.store.array(JOIN, self.sessions, JOB)
        order = np.argsort(self.numbers)
        jobs["at"] = order[np.searchsorted(self.numbers[order], jobs["at"])]
        jobs["value"][np.isinf(jobs["value"])] = np.nan  # no infinity is stored
        return jobs[np.lexsort([jobs[name] for name in ("run", "at", "metric", "test")])]

    @cached_property
    def series(self) -> list[Series]:
        """All metrics of all tests, in the order of the store."""
        jobs, metrics = self.jobs, self.store.metrics()
        if not len(jobs):
            return []
        splits = np.flatnonzero(np.diff(jobs["test"]) | np.diff(jobs["metric"])) + 1
        return [
            Series(self.tests[int(part["test"][0])], metrics[int(part["metric"][0])], part)
            for part in np.split(jobs, splits)
        ]

    @cached_property
    def repeats(self) -> dict[tuple[int, int], dict[int, list[float]]]:
        """Returns what usable repeats of launches measured: {(test, metric): {place of the session:
        values}}."""
        values: dict[tuple[int, int], dict[int, list[float]]] = {}
        for test, metric, session, value in self.store.repeats(self.sessions):
            of_series = values.setdefault((test, metric), {})
            of_series.setdefault(self.places[session], []).append(value)
        return values
