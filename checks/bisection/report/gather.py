"""Gathers what a report holds, and writes every form of it."""

import time
from collections.abc import Sequence
from pathlib import Path

from bisection.analysis.compare import compare
from bisection.analysis.history import changes_of, histories, series_of
from bisection.analysis.model import Comparison
from bisection.analysis.nodes import pairs
from bisection.core import paths
from bisection.report import exports, page
from bisection.report.model import Report
from bisection.report.words import group
from bisection.runs.model import RunVerdict
from bisection.store.database import Session, Store
from bisection.store.selection import EARLIER, SelectionError, select

PAST = 60  # sessions whose history is drawn
FORMS = {
    "report.html": page.html,
    "report.md": exports.markdown,
    "report-junit.xml": exports.junit,
    "bisection.prom": exports.prometheus,
    "nodecheck.txt": exports.nodecheck,
}


def gather(
    store: Store,
    sessions: Sequence[Session],
    comparison: Comparison | None,
    run: RunVerdict | None,
    of_run: bool = False,
) -> Report:
    """The report on stored sessions.

    Args:
        store: where they are stored.
        sessions: those to report on, oldest first.
        comparison: of these with others.
        run: the verdict on the newest of them, if it is known.
        of_run: whether the report is part of that run.
    """
    chosen = {session.uuid for session in sessions}
    past = [s for s in store.sessions() if not s.excluded or s.uuid in chosen]
    past = [session for session in past if session.start <= sessions[-1].start][-PAST:]
    found = histories(store, past)
    points, series = changes_of(found, past)
    drawn = {part.key for part in series}
    series += [
        series_of(test, metric, indices, values, past)
        for test, metric, indices, values in found
        if metric.name == "time" and len(values) > 1 and (*test.identity, metric.name) not in drawn
    ]
    return Report(
        title=f"{sessions[-1].tags.get('system') or 'Bisection'}: "
        + group([{"uuid": s.uuid, "start": s.start} for s in sessions]),
        made=time.time(),
        comparison=comparison,
        history=points,
        series=series,
        pairs=pairs(store, sessions),
        run=run,
        of_run=of_run,
    )


def report_on_run(store: Store, run: RunVerdict) -> Report:
    """The report on a run that is stored, beside the earlier sessions of its kind.

    Raises:
        SelectionError: the run is not stored.
        StoreError: the store cannot be read.
    """
    now = select(run.session, store)
    try:
        before = select(EARLIER, store, now)
    except SelectionError:
        before = []
    comparison = compare(store, before, now) if before else None
    return gather(store, now, comparison, run, of_run=True)


def write(report: Report, folder: Path | str) -> dict[str, Path]:
    """Writes every form of the report. A reader sees the old or the new file, never a part of one.

    Returns:
        name -> path.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: form(report) for name, form in FORMS.items()}
    return {name: paths.write_whole(folder / name, text) for name, text in texts.items()}
