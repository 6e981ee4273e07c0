"""Sources of sessions: judged runs, reports of ReFrame, files of other tools."""

import hashlib
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

from bisection.core.verdicts import Verdict
from bisection.runs.model import RunVerdict, TestResult
from bisection.runs.reframe_log import load_report
from bisection.runs.report import read
from bisection.store.database import Store
from bisection.store.sample_file import (
    SCHEMA,
    SPOOLED,
    VERSION,
    Contents,
    Line,
    StoreError,
    check_line,
    finite_or_none,
    read_samples,
    write_samples,
)

# What is raised for a report that is not one of ReFrame's.
BAD_REPORT = (
    *(OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError),
    StoreError,
)
IMPORTED = "imported"  # folder with copies of what came from elsewhere
LISTS = ("libraries", "nodes", "MPI environment", "modules")  # facts that are lists of their items


def of_verdict(verdict: RunVerdict) -> Contents:
    """The session of a run and its test cases, as the two kinds of lines of a sample file.

    Args:
        verdict: the run, judged.

    Returns:
        The line of the session, and a line per test case and per control.

    Raises:
        StoreError: the run has no identifier or no time.
    """
    session = {
        "schema": SCHEMA,
        "version": VERSION,
        "session": verdict.session,
        "start": verdict.started,
        "tags": {**verdict.tags},
        "facts": _facts(verdict),
        "work": _work(verdict),
    }
    check_line(session, "session")
    return session, [line for case in verdict.cases for line in _lines(case)]


def _lines(case: TestResult) -> Iterator[Line]:
    if not case.fixture:
        metrics = {m.name: [finite_or_none(m.value), m.unit, m.better] for m in case.metrics}
        yield {**_place(case), "hosts": [*case.record.hosts], "metrics": metrics}
    elif case.verdict == Verdict.PASS:
        # Of a launch that was placed wrongly no time counts, that of the cores alone neither.
        yield from _controls(case)


def _controls(case: TestResult) -> Iterator[Line]:
    record = case.record
    for name, value in record.controls.items():
        clock = name == "clock"
        metric = ["GHz", "higher"] if clock else ["s", "lower"]
        yield {
            **_place(case),
            "check": record.kernel,
            "method": name,
            "hosts": [record.slowest] if clock and record.slowest else [*record.hosts],
            "control": True,
            "metrics": {"clock" if clock else "time": [finite_or_none(value), *metric]},
        }


def _place(case: TestResult) -> Line:
    return {
        "check": case.check,
        "case": case.case,
        "layout": case.layout,
        "method": case.method,
        "system": case.system,
        "partition": case.partition,
        "environ": case.environ,
        "geometry": case.record.geometry,
        "run": case.run,
        "verdict": case.verdict,
        "reason": case.reason.as_dict() if case.reason else None,
        "disturbed": case.record.preempted,
        "again": f"/{case.hash}",
    }


def _work(verdict: RunVerdict) -> dict[str, dict[str, str]]:
    """Returns what the session's tests computed: {check: {case: options}}."""
    work: dict[str, dict[str, str]] = {}
    for case in verdict.cases:
        if case.record.work is not None:
            check = (
                case.record.kernel if case.fixture else case.check
            )  # a kernel's for its controls
            work.setdefault(check, {})[case.case] = case.record.work
    return work


def _facts(verdict: RunVerdict) -> dict[str, str]:
    """Returns what the session's launches ran on and with; where they differ, every answer."""
    items: dict[str, set[str]] = {}
    clocks = []
    for case in verdict.cases:
        for name, text in {**case.record.facts, "nodes": ", ".join(case.record.hosts)}.items():
            parts = text.split(", ") if name in LISTS else [text]
            items.setdefault(name, set()).update(filter(None, parts))
        clocks += [clock] if (clock := finite_or_none(case.record.controls.get("clock"))) else []
    if clocks:
        items["clock"] = {f"{statistics.median(clocks):.1f} GHz"}
    return {name: ", ".join(sorted(parts)) for name, parts in sorted(items.items()) if parts}


def contents(path: Path | str) -> list[Contents]:
    """All sessions of a sample file, a report file of ReFrame, or a results folder.

    Args:
        path: the file or folder; a file named *.json is taken for a report.

    Returns:
        Each session with its test cases.

    Raises:
        StoreError: it is none of these, or cannot be read.
    """
    source = Path(path)
    if source.is_dir():
        samples = source / SPOOLED
        source = samples if samples.exists() else source / "report.json"
    if source.suffix != ".json":
        return list(read_samples(source))
    try:
        report = load_report(source)
        if report is not None:
            return [of_verdict(read(report).without_preempted())]
    except BAD_REPORT as error:
        raise StoreError(f"{source}: {not_a_report(error)}") from None
    raise StoreError(f"there is no {source}")


def not_a_report(error: Exception) -> str:
    """Returns what to say of a file of which BAD_REPORT was raised."""
    text = f"no {error}" if isinstance(error, KeyError) else str(error)
    return f"not a report of ReFrame: {text}"


def import_file(store: Store, home: Path | str, path: Path | str) -> tuple[list[Contents], int]:
    """Stores the sessions of a sample file, a report or a results folder, and keeps a copy, so that
    the store can be made again. Forgotten sessions stay forgotten.

    Args:
        store: where to store them.
        home: the folder that the copy goes below.
        path: the file or folder.

    Returns:
        All its sessions, and how many were not stored before.

    Raises:
        StoreError: the file cannot be read; nothing of it is stored.
    """
    sessions = contents(path)
    known = {session.uuid for session in store.sessions()} | store.forgotten().keys()
    (Path(home) / IMPORTED).mkdir(parents=True, exist_ok=True)
    copies = []
    try:  # first the copies: what is stored without one is lost with the store
        for session, cases in sessions:
            if session["session"] not in known:
                copies.append(Path(home) / IMPORTED / _copy_name(session["session"]))
                write_samples(copies[-1], session, cases)
        return sessions, store.add(sessions)
    except BaseException:
        for copy in copies:
            copy.unlink(missing_ok=True)
        raise


def _copy_name(session: str) -> str:
    """The file name of a session's copy, which no other session's has."""
    name = re.sub(r"[^A-Za-z0-9_.-]", "_", session)[:80]
    digest = hashlib.sha256(session.encode()).hexdigest()[:12]
    return f"{name}.jsonl" if name == session else f"{name}-{digest}.jsonl"
