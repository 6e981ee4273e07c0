"""Evidence on a run besides its own launches, read from disk once, before the rulings."""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bisection.analysis import blame, impact, pairs
from bisection.analysis.blame import Blame
from bisection.analysis.comparison import compare
from bisection.analysis.events import drawn, events_of, tables_of, unusual
from bisection.analysis.explain import explain_points
from bisection.analysis.histories import History, histories, regular
from bisection.analysis.impact import Impact
from bisection.analysis.model import Change, Comparison, DrawnHistory, Event, Suspect, changes
from bisection.analysis.nodes import recent, suspects
from bisection.analysis.outlying import FEW_SAMPLES
from bisection.analysis.pairs import Matrix
from bisection.analysis.retest_plan import Plan
from bisection.core import paths
from bisection.core.identity import POINT
from bisection.core.reasons.base import Reason, Text
from bisection.core.thresholds import LIMITS
from bisection.core.topology import TopologyError, parse
from bisection.core.verdicts import RAN, Verdict
from bisection.kernels.results import ResultError, load
from bisection.runs.folder import kept_verdicts
from bisection.runs.model import RunVerdict, TestResult
from bisection.store.database import Outcome, Session, Store
from bisection.store.sample_file import StoreError
from bisection.store.selection import EARLIER, SelectionError, of_no_use, select


@dataclass(frozen=True)
class DisturbedRerun:
    """Launches that were rerun because other processes used their cores."""

    launches: tuple[TestResult, ...]
    rerun: RunVerdict | None  # None: nothing was measured


@dataclass(frozen=True)
class Retest:
    """The plan of a retest, and its results."""

    plan: Plan
    rerun: RunVerdict | None = None  # None: there was no retest (yet)


@dataclass(frozen=True)
class Evidence:
    """Evidence besides the run itself."""

    disturbed: tuple[DisturbedRerun, ...] = ()
    retest: Retest | None = None
    # Of its results folder, and of those of earlier runs:
    blames: tuple[Blame, ...] = ()  # of each launch of pairs
    unreadable: tuple[Reason, ...] = ()  # matrices of pairs
    impacts: tuple[Impact, ...] = ()
    # Of the store:
    before: tuple[Session, ...] = ()  # sessions that the run is compared with
    gone: tuple[str, ...] = ()  # tests of the session before that ran once, and are no more
    nights: int | None = None  # of its kind, this one among them, which references may be made from
    nodes: tuple[Suspect, ...] = ()  # slow by the times of all launches
    comparison: Comparison | None = None
    since: float = 0.0  # Unix time of the session before
    changes: tuple[Change, ...] = ()  # since then
    events: tuple[Event, ...] = ()  # of the history
    unusual: tuple[tuple[float, History], ...] = ()  # what may have got worse: standard errors
    series: tuple[DrawnHistory, ...] = ()  # to be drawn


def of_network(evidence: Evidence, store: Store | None, run: RunVerdict) -> Evidence:
    """Adds what a run measured of its network, and what earlier runs measured by its pairs.
    `store`: None if none is stored."""
    earlier: list[RunVerdict] = []
    if store and any(launches(run)):
        with contextlib.suppress(StoreError, SelectionError):  # a trouble of the run already
            (session,) = select(run.session, store)
            uuids = [s.uuid for s in recent(store, session) if s.uuid != session.uuid]
            kept = kept_verdicts(uuids)
            earlier = [kept[uuid] for uuid in uuids if uuid in kept]
    judged, unreadable = blames(run, earlier)
    impacts: list[Impact] = []
    for case in launches(run, impact.KERNEL):
        with contextlib.suppress(ResultError):
            impacts += impact.judge(load(file_of(case, "json"), impact.KERNEL))
    return replace(
        evidence, blames=tuple(judged), unreadable=tuple(unreadable), impacts=tuple(impacts)
    )


def launches(run: RunVerdict, kernel: str = pairs.KERNEL) -> Iterator[TestResult]:
    """The launches of a kernel in a run that ended well and whose files were kept."""
    for case in run.cases:
        ran = case.fixture and case.record.kernel == kernel and case not in run.bad
        if ran and case.files.endswith(".*") and file_of(case, "json").is_file():
            yield case


def file_of(case: TestResult, suffix: str) -> Path:
    return Path(paths.ROOT, case.files[:-1] + suffix)


def matrix_of(case: TestResult, most: int = -1) -> Matrix:
    """The matrix of a launch, or so many of its records, with the switches that Slurm knew then;
    ResultError if a file of it is missing, truncated or of something else."""
    matrix = pairs.read(file_of(case, "json"), most)
    try:
        return matrix.placed(parse(file_of(case, "topology").read_text()))
    except (OSError, TopologyError):  # the scheduler knows no switches
        return matrix


def blames(run: RunVerdict, earlier: Iterable[RunVerdict] = ()) -> tuple[list[Blame], list[Text]]:
    """Judges all that a run measured between nodes: a judgement per launch, and why matrices could
    not be read. `earlier`: runs before it, oldest first, whose same launches are the past."""
    judged: list[Blame] = []
    faults: list[Text] = []
    now = list(launches(run))
    past: dict[tuple[str | int, ...], list[Matrix]] = defaultdict(list)
    for case in (case for before in earlier if now for case in launches(before)):
        with contextlib.suppress(ResultError):  # a trouble of its own run
            past[case.launch[:-1]].append(matrix_of(case, blame.PAST))
    for case in now:
        try:
            judgement = blame.judge(matrix_of(case), past[case.launch[:-1]])
        except ResultError as error:
            faults.append(Text(str(error)))
            continue
        judgement.place = case.place + (f" run {case.run}" if case.run else "")
        judged.append(judgement)
    return judged, faults


def of_nights(
    evidence: Evidence, store: Store, run: RunVerdict, against: str | None = None
) -> Evidence:
    """Adds a run that is stored beside other sessions, by default the earlier ones of its kind.

    Raises:
        SelectionError: the run is not stored.
        StoreError: the store cannot be read.
    """
    now = select(run.session, store)
    before: Sequence[Session]
    try:
        before = select(against or EARLIER, store, now)
    except SelectionError:
        before = []
    nodes = tuple(suspects(store, recent(store, now[0])))
    evidence = replace(evidence, before=tuple(before), nodes=nodes, gone=tuple(_gone(store, now)))
    evidence = count_nights(evidence, store, run)
    if not before:
        return evidence
    comparison = compare(store, before, now, suspects=nodes)
    since = tuple(changes(before[-1:], now))
    return replace(evidence, comparison=comparison, changes=since, since=before[-1].start)


def _gone(store: Store, now: Sequence[Session]) -> list[str]:
    """The tests of the session before that are gone, or whose kernel is left out of the build now,
    if they ever ran."""
    tests = store.tests()

    def keys(jobs: Iterable[Outcome]) -> set[tuple[str, ...]]:
        return {tests[job.test].identity for job in jobs if not tests[job.test].control}

    try:
        last = store.outcomes(select("earlier:1", store, now))
    except SelectionError:
        return []
    gone = keys(job for job in last if job.verdict != Verdict.NOT_APPLICABLE)
    gone -= keys(job for job in store.outcomes(now) if not job.left_out)
    if gone:
        earlier = store.outcomes(select(EARLIER, store, now))
        gone &= keys(job for job in earlier if job.verdict in RAN)
    return sorted(" ".join(filter(None, key[3:])) for key in gone)


def count_nights(evidence: Evidence, store: Store, run: RunVerdict) -> Evidence:
    """Counts the nights that references may be made from, as the run is stored now. SelectionError:
    it is not."""
    nights = [*evidence.before, *select(run.session, store)]
    return replace(evidence, nights=[*map(of_no_use(store), nights)].count(None))


def of_history(
    evidence: Evidence,
    store: Store,
    sessions: Sequence[Session],
    run: RunVerdict | None = None,
) -> Evidence:
    """Adds the events in the history of stored sessions, oldest first. `run`: the last of them;
    only its tests, and sessions of its kind, count. StoreError if the store cannot be read."""
    chosen, last = {session.uuid for session in sessions}, sessions[-1]
    past = [s for s in store.sessions() if s.start <= last.start]
    past = [session for session in past if not session.excluded or session.uuid in chosen]
    if run:  # no other tier, system or environment
        past = [session for session in past if session.kind[:3] == last.kind[:3]]
    usual = regular(past)
    past = (usual if last in usual else past)[-LIMITS.history_sessions :]
    past_series = histories(store, past, repeats=True)
    judged = past_series
    if run:
        tests = {case.identity for case in run.cases}
        judged = [
            each
            for each in past_series
            if each.test.identity in tests and POINT.sub("", each.metric.name) not in FEW_SAMPLES
        ]
    looked_at = tables_of(judged, past)
    events, _ = events_of(looked_at)
    explain_points([point for event in events for point in event.points], past, store)
    series = drawn(past_series, past, events)
    may_be_worse = tuple(unusual(looked_at, events, past[-1])) if run else ()  # to be repeated
    return replace(evidence, events=tuple(events), series=tuple(series), unusual=may_be_worse)
