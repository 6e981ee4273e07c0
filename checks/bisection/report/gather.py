"""Gathers what a report holds, and writes every form of it."""

import contextlib
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from bisection.analysis.blame import Blame
from bisection.analysis.compare import compare
from bisection.analysis.events import events_of
from bisection.analysis.explain import explain_points
from bisection.analysis.history import histories, regular, series_of
from bisection.analysis.interconnect import Interconnect, judge
from bisection.analysis.model import Comparison, changes
from bisection.analysis.network import blames, launches, note
from bisection.analysis.nodes import recent, suspects
from bisection.analysis.outlying import FEW_SAMPLES, faster
from bisection.analysis.predict import predictions
from bisection.analysis.retest import reason_of
from bisection.core import paths
from bisection.core.format import some
from bisection.core.identity import POINT
from bisection.core.reasons import Code, Reason
from bisection.report import exports
from bisection.report.events import alarms_of
from bisection.report.model import Report
from bisection.report.words import group
from bisection.runs.folder import kept_verdicts
from bisection.runs.model import RunVerdict
from bisection.store.database import Session, Store
from bisection.store.sample_file import StoreError
from bisection.store.selection import EARLIER, SelectionError, select

PAST = 60  # sessions whose history is drawn


def _page(report: Report) -> str:
    """The report as a page. jinja2 and matplotlib load here: they take a second."""
    from bisection.report import page

    return page.html(report)


FORMS = {
    "report.html": _page,
    "report.md": exports.markdown,
    "junit.xml": exports.junit,
    "bisection.prom": exports.prometheus,
    "nodecheck.txt": exports.nodecheck,
}


def gather(
    store: Store,
    sessions: Sequence[Session],
    comparison: Comparison | None,
    run: RunVerdict | None,
    of_run: bool = False,
    network: tuple[list[Blame], Interconnect | None] | None = None,
) -> Report:
    """The report on stored sessions. The alarms of their history become those of the run.

    Args:
        store: where they are stored.
        sessions: those to report on, oldest first.
        comparison: of these with others.
        run: the verdict on the newest of them, if it is known.
        of_run: whether the report is part of that run.
        network: what the run says of pairs of nodes and of its network, if that is judged already.
    """
    chosen, last = {session.uuid for session in sessions}, sessions[-1]
    past = [s for s in store.sessions() if s.start <= last.start]
    past = [session for session in past if not session.excluded or session.uuid in chosen]
    if of_run:  # no other tier, system or environment
        past = [session for session in past if session.kind[:3] == last.kind[:3]]
    usual = regular(past)
    past = (usual if last in usual else past)[-PAST:]
    past_series = histories(store, past)
    measured = {case.identity for case in run.cases} if of_run else None
    looked_at = [
        history
        for history in past_series
        if measured is None
        or (history[0].identity in measured and POINT.sub("", history[1].name) not in FEW_SAMPLES)
    ]
    events, series, _ = events_of(looked_at, past)
    explain_points([point for event in events for point in event.points], past, store)
    drawn = {part.key for part in series}
    series += [
        series_of(test, metric, indices, values, past)
        for test, metric, indices, values in past_series
        if metric.name == "time" and len(values) > 1 and (*test.identity, metric.name) not in drawn
    ]
    if run:
        systems = {case.system for case in run.cases}
        run.alarms = alarms_of([event for event in events if event.system in systems])
    named = [{"uuid": s.uuid, "start": s.start} for s in sessions]
    software = [last.facts.get(name) for name in ("compiler", "MPI", "libraries")]
    if network is None:
        between = blames(run, before_it(store, last, run))[0] if run else []
        network = between, judge(run, between, comparison) if run else None
    nodes = some((last.facts.get("nodes") or "").split(", "), 3)
    return Report(
        title=(last.tags.get("system") or "Bisection") + (f" on {nodes}" if nodes else ""),
        about="; ".join(filter(None, (f"session {group(named)}", *software))),
        made=time.time(),
        comparison=comparison,
        history=events,
        series=series,
        pairs=network[0],
        interconnect=network[1],
        predictions=predictions(store, sessions),
        run=run,
        of_run=of_run,
    )


def before_it(store: Store, session: Session, run: RunVerdict) -> list[RunVerdict]:
    """The newest kept runs of a session's kind before it, if the run measured pairs of nodes."""
    if not any(launches(run)):
        return []
    uuids = [s.uuid for s in recent(store, session) if s.uuid != session.uuid]
    earlier = kept_verdicts(uuids)
    return [earlier[uuid] for uuid in uuids if uuid in earlier]


def pairs_of(store: Store | None, run: RunVerdict) -> list[Blame]:
    """Judges what a run measured between nodes, beside earlier runs where it is stored, and notes
    it with the run."""
    earlier = []
    if store:
        with contextlib.suppress(StoreError, SelectionError):  # a trouble of the run already
            earlier = before_it(store, select(run.session, store)[0], run)
    return note(run, earlier)


def compare_run(store: Store, run: RunVerdict, against: str | None = None) -> Comparison | None:
    """A run that is stored beside other sessions, None if there are none. Notes with the run how
    many there are, what changed since the last one, and what became faster.

    Args:
        store: where it is stored.
        run: the verdict on it.
        against: the other sessions; None: the earlier ones of its kind.

    Raises:
        SelectionError: the run is not stored.
        StoreError: the store cannot be read.
    """
    now = select(run.session, store)
    try:
        before = select(against or EARLIER, store, now)
    except SelectionError:
        before = []
    run.nights = len(before) + 1
    accused = suspects(store, recent(store, now[0]))
    run.remarks += [Reason.of(Code.SLOW_NODE, **asdict(suspect)) for suspect in accused]
    if not before:
        return None
    comparison = compare(store, before, now)
    comparison.suspects = accused
    since = before[-1]
    for change in changes([since], now):
        run.remarks.append(Reason.of(Code.CHANGED, **asdict(change), since=since.start))
    if better := faster(comparison.rows):
        run.remarks.append(reason_of(Code.FASTER, better[0], metrics=len(better)))
    if moved := [row for row in comparison.rows if row.baseline_moved]:
        run.remarks.append(reason_of(Code.BASELINES_MOVED, moved[0], metrics=len(moved)))
    return comparison


def report_on_run(
    store: Store,
    run: RunVerdict,
    comparison: Comparison | None,
    network: tuple[list[Blame], Interconnect | None] | None = None,
) -> Report | None:
    """The report on a run, whose alarms become those of the run; None if the run is not stored, and
    a trouble of the run if the store cannot be read.

    Args:
        store: where the run is stored.
        run: the verdict on it.
        comparison: of the run with earlier sessions of its kind; None if there are none.
        network: what the run says of its network, if that is judged already.
    """
    if not (run.session and run.judged):
        return None
    with as_defect(run, "no report"), contextlib.suppress(SelectionError):  # a trouble already
        try:
            now = select(run.session, store)
            return gather(store, now, comparison, run, of_run=True, network=network)
        except StoreError as error:
            run.troubles.append(Reason.of(Code.STORE_UNUSABLE, error=str(error)))
    return None


@contextlib.contextmanager
def as_defect(run: RunVerdict, lost: str) -> Iterator[None]:
    """Makes a defect in judging a trouble of the run, which keeps its verdict.

    Args:
        run: the verdict on it.
        lost: what there is not, for people.
    """
    try:
        yield
    except Exception as error:
        traceback.print_exc()
        run.troubles.append(Reason.of(Code.NOT_KEPT, error=f"{lost}: {error!r}"))


def write(report: Report, folder: Path | str) -> dict[str, Path]:
    """Writes every form of the report. A reader sees the old or the new file, never a part of one.

    Returns:
        name -> path.
    """
    report.folder = folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: form(report) for name, form in FORMS.items()}
    return {name: paths.write_whole(folder / name, text) for name, text in texts.items()}
