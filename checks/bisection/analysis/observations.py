"""Stored values of two groups of sessions as the rows of a table."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median  # of few values much faster than NumPy's
from typing import Any

import numpy as np

from bisection.analysis.model import Row, Side
from bisection.analysis.statistics import scale
from bisection.core.identity import IDENTITY, is_ratio_to_itself
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.performance import Unlike
from bisection.core.thresholds import LIMITS
from bisection.core.units import CONTEXT, COUNTED
from bisection.core.verdicts import Verdict
from bisection.store.database import Outcome, Session, Store, works_of
from bisection.store.nights import DISTURBED, USABLE, Nights, Series

Key = tuple[str, ...]  # a test's identity, and the name of a metric behind it
Jobs = dict[int, list[float]]  # session -> usable values, one per job


class Observations:
    """The values of one side, by test and metric."""

    def __init__(self, store: Store, sessions: Sequence[Session]) -> None:
        self.sessions, self.software = sessions, _software(sessions)
        self.works = works_of(sessions)
        nights = Nights(store, sessions)
        self.order = nights.places
        self.outcomes: dict[Key, list[Outcome]] = defaultdict(list)  # by test
        for outcome in nights.launches:
            self.outcomes[nights.tests[outcome.test].identity].append(outcome)
        self.fits: dict[Key, bool] = defaultdict(bool)  # of a launch: it has something to measure
        for test, outcomes in self.outcomes.items():
            self.fits[_launch(test)] |= outcomes[-1].verdict != Verdict.NOT_APPLICABLE
        self.values: dict[Key, list[tuple[int, int, float]]] = defaultdict(list)  # session, run
        self.lost: dict[Key, list[float]] = defaultdict(list)  # values while others had the cores
        # key -> (geometry, unit, better, control)
        self.kinds: dict[Key, set[tuple[str, str, str, bool]]] = defaultdict(set)
        self.geometries: dict[Key, dict[int, str]] = defaultdict(dict)  # by session
        self.hosts: dict[frozenset[int], list[str]] = {}
        self.compared: set[Key] = set()  # tests with metrics that are compared
        self.elsewhere: set[Key] = set()  # tests with numbers that are not
        for series in sorted(nights.series, key=lambda each: each.jobs["at"][0]):
            self._add(series, nights)
        for values in self.values.values():  # of several geometries or units
            values.sort(key=lambda job: self.order[job[0]])

    def _add(self, series: Series, nights: Nights) -> None:
        test, metric, jobs = series
        usable = jobs["of"] == USABLE
        if metric.unit in CONTEXT and np.isfinite(jobs["value"][usable]).any():
            self.elsewhere.add(test.identity)
        if is_ratio_to_itself(metric.name, test.method):
            return
        if metric.unit not in CONTEXT:
            self.compared.add(test.identity)
        key = (*test.identity, metric.name)
        self.kinds[key].add((test.geometry, metric.unit, metric.better, test.control))
        if metric.unit in COUNTED:
            usable = np.full(len(jobs), True)
        numbers = nights.numbers[jobs["at"]]
        self.geometries[key].update(dict.fromkeys(numbers.tolist(), test.geometry))
        columns = (column[usable].tolist() for column in (numbers, jobs["run"], jobs["value"]))
        if values := [*zip(*columns, strict=True)]:
            self.values[key] += values
        lost = ~usable & (jobs["of"] == DISTURBED) & (jobs["value"] > 0)
        if lost.any():
            self.lost[key] += jobs["value"][lost].tolist()

    def gone(self, row: Row) -> int:
        """In how many of the newest sessions a row's test or metric is not, if those are enough to
        say that it is gone; else 0. Of a test, sessions of its kind count; of a metric, those in
        which its test passed."""
        outcomes = self.outcomes[row.identity]
        last = max(self.order[outcome.session] for outcome in outcomes)
        kind = self.sessions[last].kind
        since = sum(session.kind == kind for session in self.sessions[last + 1 :])
        if since < LIMITS.gone and row.after.median is not None:
            last = max((self.order[at] for at, *_ in self.values.get(row.key, ())), default=-1)
            passed = (o for o in outcomes if o.verdict == Verdict.PASS and not o.unusable)
            since = len({o.session for o in passed if self.order[o.session] > last})
        return since if since >= LIMITS.gone else 0

    def inapplicable(self, test: Key, was_measured: bool) -> bool:
        """True if the test has nothing to measure here any more. One that was `measured` has, if
        only the build lacks its kernel now."""
        outcomes = self.outcomes.get(test)
        if not outcomes:  # a control of a launch that is not made any more
            return not self.fits.get(_launch(test), True)
        lost = was_measured and outcomes[-1].left_out
        return outcomes[-1].verdict == Verdict.NOT_APPLICABLE and not lost

    def work(self, key: Key) -> str | None:
        """Returns what the test of a metric computed in the newest session of which it is known."""
        works = list(self.works.get((key[3], key[4]), {}).values())
        return works[-1] if works else None

    def geometry(self, key: Key) -> str | None:
        """Returns the ranks and threads of a metric's test in the newest session that has it."""
        geometries = self.geometries.get(key, {})
        return geometries[max(geometries, key=self.order.__getitem__)] if geometries else None

    def is_usual(self, key: Key, geometry: str | None) -> bool:
        """True if a metric's test ran on these ranks and threads in half of the sessions or more:
        then a session on others is the odd one."""
        geometries = [*self.geometries.get(key, {}).values()]
        same = sum(each == geometry for each in geometries)
        return bool(geometries) and 2 * same >= len(geometries)

    def side(
        self, key: Key, work: str | None = None, geometry: str | None = None
    ) -> tuple[Side, Jobs]:
        """One metric on this side, without the sessions in which its test is known to have computed
        other work, nor, with a `geometry`, those on other ranks or threads."""
        works, kinds = self.works.get((key[3], key[4]), {}), self.kinds.get(key, set())
        geometries = self.geometries.get(key, {})
        counted = any(unit in COUNTED for _, unit, *_ in kinds)
        jobs: Jobs = defaultdict(list)
        for session, _, value in self.values.get(key, ()):
            same = work is None or works.get(session, work) == work
            same = same and geometry in (None, geometries[session])
            if same and (value > 0 or (counted and value == value)):
                jobs[session].append(value)
        outcomes = self.outcomes.get(key[:-1], ())
        medians = [median(values) for values in jobs.values()]
        return Side(
            sessions=len(jobs),
            jobs=sum(map(len, jobs.values())),
            median=float(median(medians)) if medians else None,
            geometry=geometry or " | ".join(sorted({kind[0] for kind in kinds})),
            hosts=self._hosts(outcomes),
            software=self.software,
            disturbed=float(np.mean([o.disturbed for o in outcomes])) if outcomes else 0.0,
        ), jobs

    def _hosts(self, outcomes: Sequence[Outcome]) -> list[str]:
        """The hosts of outcomes: one list of all tests that have the same, as they may be many."""
        sets = {id(outcome.hosts): outcome.hosts for outcome in outcomes}
        key = frozenset(sets)
        if key not in self.hosts:
            self.hosts[key] = sorted(set().union(*sets.values()))
        return self.hosts[key]


def _launch(test: Key) -> Key:
    """What a test has in common with the controls of its launch: all but check and method."""
    return (*test[:3], *test[4:6])


def _software(sessions: Sequence[Session]) -> str:
    """MPI, compiler and lock of the sessions; where they differ, every one."""
    texts: dict[str, None] = {}
    for facts in (session.facts for session in sessions):
        lock = facts.get("lock") and f"lock {facts['lock'][:8]}"
        texts[", ".join(filter(None, (facts.get("MPI"), facts.get("compiler"), lock)))] = None
    return " | ".join(filter(None, texts))


def rows_of(
    before: Observations, after: Observations, name: re.Pattern[str] | None = None
) -> tuple[list[Row], list[tuple[Jobs, Jobs]]]:
    """The outer join of two sides: rows, those with a ruling that need no numbers to be looked at;
    and for each row the jobs of both sides. A test without a metric to compare has a row, too, so
    that none vanishes. With `name`, only tests that match it, and the controls of their launches.
    """
    rows: list[Row] = []
    samples: list[tuple[Jobs, Jobs]] = []
    kinds: dict[Key, set[tuple[str, str, str, bool]]] = {
        key: before.kinds.get(key, set()) | after.kinds.get(key, set())
        for key in before.kinds | after.kinds
    }
    controls = {key[:-1] for key, values in kinds.items() if any(kind[3] for kind in values)}
    known = before.compared | after.compared | after.elsewhere
    for test in dict.fromkeys([*before.outcomes, *after.outcomes]):
        if test not in known:
            kinds |= {(*test, ""): set()}
    tests = {key[:-1] for key in kinds}
    chosen = {test for test in tests if not name or name.search(" ".join(test[3:]))}
    launches = {_launch(test) for test in chosen - controls}
    chosen |= {test for test in controls if _launch(test) in launches}
    for key, values in kinds.items():
        units = {kind[1] for kind in values}
        if key[:-1] not in chosen or (units and units <= set(CONTEXT)):
            continue
        if after.inapplicable(key[:-1], was_measured=key in before.kinds):
            continue
        work, geometry = after.work(key), after.geometry(key)
        if before.is_usual(key, geometry):
            values = {kind for kind in values if kind[0] == geometry} | after.kinds[key]
        else:
            geometry = None
        (left, was), (right, now) = before.side(key, work, geometry), after.side(key, work)
        _, unit, better, control = min(values, default=("", "", "lower", False))
        identity: dict[str, Any] = dict(zip((*IDENTITY, "metric"), key, strict=True))
        identity |= {"unit": unit, "better": better, "control": control}
        row = Row(**identity, before=left, after=right)
        if ruling := _without_numbers(row, values, before, after):
            row.rule(*ruling)
        row.communication = _communication(before, key)
        rows.append(row)
        samples.append((was, now))
    return rows, samples


NO_NUMBER = Text("no number above zero in any session after")


def _without_numbers(
    row: Row, kinds: set[tuple[str, str, str, bool]], before: Observations, after: Observations
) -> tuple[Verdict, Reason | None] | None:
    """The ruling where numbers need not be looked at; None where they must."""
    here, there = after.outcomes.get(row.identity), before.outcomes.get(row.identity)
    if not here:
        return Verdict.MISSING, Text(f"in none of the sessions after ({len(after.sessions)})")
    if since := after.gone(row):
        return Verdict.MISSING, Text(f"not in the last {since} sessions after")
    if row.after.median is None:
        causes = [cause for o in here if (cause := o.unusable or o.reason)]
        return Verdict.NOT_MEASURED, causes[-1] if causes else NO_NUMBER
    if there and row.before.median is None and before.side(row.key)[1]:
        works = tuple(side.work(row.key) or "default" for side in (before, after))
        return Verdict.NOT_MEASURED, Unlike(what="work", values=works)
    if not there or row.before.median is None:
        return Verdict.NEW, Text("not measured before") if there else None
    for index, name in ((1, "unit"), (0, "geometry"), (2, "direction")):
        values = {str(kind[index]) for kind in kinds}
        if len(values) > 1:
            return Verdict.NOT_MEASURED, Unlike(what=name, values=tuple(sorted(values)))
    return None


def _communication(before: Observations, key: Key) -> float | None:
    """The fraction of the metric's time that is communication, in the median; None if unknown."""
    match = re.fullmatch("time(_.+)?|atom_steps", key[-1])
    if not match:
        return None
    for share in [f"mpi_share{match[1]}"] if match[1] else ["mpi_share", "communication_share"]:
        values = [v for _, _, v in before.values.get((*key[:-1], share), ()) if v == v]
        if values:
            return float(np.median(values))
    return None


def by_night(jobs: Jobs, night: Mapping[int, int]) -> dict[int, float]:
    """The number of a night -> the median of its sessions, each by the median of its jobs."""
    nights = defaultdict(list)
    for session, values in jobs.items():
        nights[night[session]].append(median(values))
    return {number: median(values) for number, values in sorted(nights.items())}


def spread_of(values: Sequence[float]) -> float:
    """The robust standard deviation of the logarithms, for few values made larger."""
    logs = np.log(values)
    return float(scale(logs - np.median(logs))) * (1 + 1 / max(len(logs) - 1, 1))
