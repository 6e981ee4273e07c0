"""Evidence on a run besides its own launches, read from disk once, before the rulings."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from bisection.analysis.comparison import compare
from bisection.analysis.environment import changes
from bisection.analysis.events import events_of
from bisection.analysis.explain import explain_points
from bisection.analysis.histories import drawn, histories, regular
from bisection.analysis.model import Change, ChangePoint, Comparison, DrawnHistory, Event
from bisection.analysis.night_tables import tables_of
from bisection.analysis.nodes import recent, suspects
from bisection.analysis.outlying import FEW_SAMPLES
from bisection.analysis.retest_plan import Plan
from bisection.core.identity import POINT
from bisection.core.reasons.base import Reason
from bisection.core.reasons.performance import SlowNode
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import RAN, Verdict
from bisection.judge.raised import note_raised
from bisection.runs.run_verdict import RunVerdict, TestResult
from bisection.store.database import Outcome, Session, Store
from bisection.store.selection import EARLIER, SelectionError, of_no_use, select

if TYPE_CHECKING:  # it needs this; the others load where a network was measured
    from bisection.judge.every_node import Survey
    from interconnect.blame import Blame
    from interconnect.impact import Impact


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
    survey: "Survey | None" = None  # of a campaign over every node
    # Of its results folder, and of those of earlier runs:
    blames: tuple["Blame", ...] = ()  # of each launch of pairs
    unreadable: tuple[Reason, ...] = ()  # matrices of pairs
    impacts: tuple["Impact", ...] = ()
    # Of the store:
    before: tuple[Session, ...] = ()  # sessions that the run is compared with
    last: Mapping[tuple[str, ...], Verdict] = field(default_factory=dict)  # in `before[-1]`
    vanished: tuple[str, ...] = ()  # tests of the session before that ran once, and are no more
    nights: int | None = None  # of its kind, this one among them, which references may be made from
    nodes: tuple[SlowNode, ...] = ()  # slow by the times of all launches
    comparison: Comparison | None = None
    since: float = 0.0  # Unix time of the session before
    changes: tuple[Change, ...] = ()  # since then
    events: tuple[Event, ...] = ()  # of the history
    series: tuple[DrawnHistory, ...] = ()  # to be drawn

    @property
    def unusual(self) -> list[ChangePoint]:
        """What may have got worse lately, the surest first."""
        points = [point for event in self.events for point in event.points if point.suspect]
        lately = (point for point in points if point.after <= LIMITS.latest_nights)
        return sorted(lately, key=lambda point: -point.errors)


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
    last, vanished = _last(store, before), tuple(_vanished(store, now))
    evidence = replace(evidence, before=tuple(before), nodes=nodes, last=last, vanished=vanished)
    evidence = count_nights(evidence, store, run)
    if not before:
        return evidence
    comparison = compare(store, before, now, suspects=nodes)
    since = tuple(changes(before[-1:], now))
    return replace(evidence, comparison=comparison, changes=since, since=before[-1].start)


def _last(store: Store, before: Sequence[Session]) -> dict[tuple[str, ...], Verdict]:
    """Test -> its worst verdict in the last of these sessions."""
    rising = [Verdict.NOT_APPLICABLE, Verdict.PASS, Verdict.KNOWN, Verdict.NOT_MEASURED]
    rising.append(Verdict.FAIL)
    outcomes = store.outcomes(before[-1:]) if before else []
    outcomes.sort(key=lambda job: rising.index(Verdict(job.verdict)))
    tests = store.tests() if outcomes else {}
    return {tests[job.test].identity: Verdict(job.verdict) for job in outcomes}


def _vanished(store: Store, now: Sequence[Session]) -> list[str]:
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
    events, _ = events_of(tables_of(judged, past))
    note_raised(events, judged, past)
    explain_points([point for event in events for point in event.points], past, store)
    series = drawn(past_series, past, events)
    return replace(evidence, events=tuple(events), series=tuple(series))
