"""Gathers what a report holds, and writes every form of it."""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from bisection.analysis.predict import predictions
from bisection.core import paths
from bisection.core.format import some
from bisection.judge.evidence import Evidence
from bisection.report import exports, verdict_text
from bisection.report.documents import VerdictDocument
from bisection.report.report_data import Report
from bisection.report.words import group
from bisection.runs.run_verdict import RunVerdict
from bisection.store.database import Session, Store
from bisection.store.sample_file import SPOOLED, add_verdict

FORMS = {
    # jinja2 and matplotlib load with the page: they take a second.
    "report.html": lambda report: import_module("bisection.report.page").html(report),
    "report.md": exports.markdown,
    "junit.xml": exports.junit,
    "bisection.prom": exports.prometheus,
    "nodecheck.txt": exports.nodecheck,
}


def gather(
    store: Store,
    sessions: Sequence[Session],
    run: RunVerdict | None,
    evidence: Evidence,
    of_run: bool = False,
) -> Report:
    """The report on stored sessions, oldest first, with what is known beside them; `run` is the
    verdict on the newest, `of_run` whether the report is part of that run."""
    last = sessions[-1]
    named = group([{"uuid": s.uuid, "start": s.start} for s in sessions])
    about = [named if len(sessions) > 1 else f"session {named}"]
    about += filter(None, map(last.facts.get, ("compiler", "MPI", "libraries")))
    nodes = some((last.facts.get("nodes") or "").split(", "), 3)
    return Report(
        title=(last.tags.get("system") or "Bisection") + (f" on {nodes}" if nodes else ""),
        about="; ".join(about),
        written=time.time(),
        evidence=evidence,
        predictions=[*predictions(store, sessions)],
        run=run,
        of_run=of_run,
    )


def write(report: Report, folder: Path | str) -> dict[str, Path]:
    """Writes every form of the report; returns name -> path. A reader sees the old or the new file,
    never a part of one."""
    report.folder = folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: form(report) for name, form in FORMS.items()}
    return {name: paths.write_whole(folder / name, text) for name, text in texts.items()}


def write_verdict(verdict: RunVerdict, results: Path) -> None:
    """Writes the verdict on a run into its results folder: as text, JSON and JUnit."""
    lines = [*verdict_text.text(verdict, verbose=True), ""]
    paths.write_whole(results / "verdict.txt", "\n".join(lines))
    installed = paths.text_of(Path(sys.prefix).parent / "installed.txt").splitlines()
    document = VerdictDocument.of(replace(verdict, installed=installed))
    paths.write_whole(results / "verdict.json", document.text())
    if (record := results / SPOOLED).exists():
        add_verdict(record, document.data())
    report = Report("", verdict.started, run=verdict, of_run=True)
    paths.write_whole(results / "junit.xml", exports.junit(report))
