"""Sessions go one way: from a judged run to its sample file, the record, and from sample files to
the store, their index."""

import contextlib
import hashlib
import os
import sqlite3
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from bisection.core import paths
from bisection.core.format import some
from bisection.core.reasons.base import Text
from bisection.core.verdicts import Verdict
from bisection.runs.run_verdict import RunVerdict, TestResult
from bisection.store import sample_file
from bisection.store.database import TIMEOUT, Store
from bisection.store.sample_file import SPOOLED, Contents, Line, StoreError, write_samples

IMPORTED = "imported"  # folder with copies of what came from elsewhere
MANY = 50  # sessions to store: then a bar shows the progress
LISTS = ("libraries", "nodes", "MPI environment", "modules")  # facts that are lists of their items

# ---- sessions as lines of sample files ----


def of_verdict(verdict: RunVerdict, retest: RunVerdict | None = None) -> Contents:
    """The session of a judged run, and a line per test case and per control, with repeats by its
    retest. StoreError: the run has no identifier or no time."""
    work: dict[str, dict[str, str]] = {}  # check -> case -> options
    for case in verdict.cases:
        if case.record.work is not None:
            check = case.record.kernel if case.fixture else case.check  # a kernel: its controls
            work.setdefault(check, {})[case.case] = case.record.work
    session = {
        "schema": sample_file.SCHEMA,
        "version": sample_file.VERSION,
        "session": verdict.session,
        "start": verdict.started,
        "tags": {**verdict.tags},
        "facts": _facts(verdict),
        "work": work,
    }
    sample_file.check_line(session, "session")
    lines = [line for case in verdict.cases for line in _lines(case)]
    for case in retest.cases if retest else ():
        lines += [{**line, "repeat": True} for line in _lines(case)]
    return session, lines


def _lines(case: TestResult) -> Iterator[Line]:
    record = case.record
    place = {
        **case.by_name,
        "geometry": record.geometry,
        "hosts": [*record.hosts],
        "run": case.run,
        "verdict": case.verdict,
        "reason": case.reason.as_dict() if case.reason else None,
        "disturbed": record.disturbed,
        "seconds": record.seconds,
    }
    if not case.fixture:
        metrics = {
            m.name: [sample_file.finite_or_none(m.value), m.unit, m.better] for m in case.metrics
        }
        yield {**place, "metrics": metrics}
    # Of a launch that was placed wrongly no time counts, that of the cores alone neither.
    elif case.verdict == Verdict.PASS:
        place |= {"check": record.kernel, "control": True}
        for name, value in record.controls.items():
            clock = name == "clock"
            metric, *kind = ("clock", "GHz", "higher") if clock else ("time", "s", "lower")
            hosts = [record.slowest] if clock and record.slowest else place["hosts"]
            metrics = {metric: [sample_file.finite_or_none(value), *kind]}
            yield {**place, "method": name, "hosts": hosts, "metrics": metrics}


def _facts(verdict: RunVerdict) -> dict[str, str]:
    """Returns what the session's launches ran on and with; where they differ, every answer."""
    items: dict[str, set[str]] = {}
    for record in {id(case.record): case.record for case in verdict.cases}.values():
        items.setdefault("nodes", set()).update(record.hosts)
        for name, text in record.facts.items():
            parts = text.split(", ") if name in LISTS else [text]
            items.setdefault(name, set()).update(filter(None, parts))
    read = (case.record.controls.get("clock") for case in verdict.cases)
    if clocks := list(filter(None, map(sample_file.finite_or_none, read))):
        items["clock"] = {f"{statistics.median(clocks):.1f} GHz"}
    return {name: ", ".join(sorted(parts)) for name, parts in sorted(items.items()) if parts}


def import_file(store: Store, home: Path | str, path: Path | str) -> tuple[set[str], int]:
    """Stores the sessions of a sample file, or of the one in a results folder, and keeps a copy
    below `home`: the record of them there. Forgotten sessions stay forgotten. Returns the
    identifiers of all its sessions, and how many were not stored before.

    Raises:
        StoreError: the file cannot be read, or a session is of no system or tier: no session could
            be compared with it. Nothing is stored.
    """
    file = Path(path, SPOOLED) if Path(path).is_dir() else path
    sessions = list(sample_file.read_samples(file))
    for session, _ in sessions:
        tags = session.get("tags") or {}
        if lacks := [name for name in ("system", "tier") if not tags.get(name)]:
            text = f"session {session['session'][:40]} names no {' and no '.join(lacks)}"
            raise StoreError(f"{path}: {text}: it is not one of `bisection run`")
    known = {session.uuid for session in store.sessions()} | store.forgotten().keys()
    (Path(home) / IMPORTED).mkdir(parents=True, exist_ok=True)
    copies = []
    try:  # first the copies: what is stored without one is lost with the store
        for session, cases in sessions:
            if session["session"] not in known:
                name = hashlib.sha256(session["session"].encode()).hexdigest()
                copies.append(Path(home) / IMPORTED / f"{name}.jsonl")
                write_samples(copies[-1], session, cases)
        return {session["session"] for session, _ in sessions}, store.add(sessions)
    except BaseException:
        for copy in copies:
            copy.unlink(missing_ok=True)
        raise


# ---- the index of the files ----


def warn(fault: Text) -> None:
    print(f"warning: {fault}", file=sys.stderr)


def opened(home: Path | str, check: bool = False, on_fault: Callable[[Text], None] = warn) -> Store:
    """The store of `home`, with the sessions of all of its sample files, to be closed by the
    caller. A damaged one is made again. `check`: looks for damage in all of it, which takes two
    seconds per 100 MB; `on_fault` gets a reason per sample file that cannot be read."""
    path = paths.store_db(home)
    if is_damaged(path, check):
        _remove(path)
    store = Store(path)
    for fault in synchronise(store, home):
        on_fault(fault)
    ahead = [s.uuid[:8] for s in store.sessions() if s.ahead and not s.excluded]
    if ahead:
        names = some(ahead, 4)
        warn(Text(f"`latest` leaves out sessions that begin in the future: {names}"))
    return store


def synchronise(store: Store, home: Path | str) -> list[Text]:
    """Stores what the sample files of results folders and imported ones have and the store has not.
    Returns a reason per file that cannot be read as a whole."""
    known = {session.uuid for session in store.sessions()} | store.forgotten().keys()
    files = [*Path(home).glob(f"results/*/{SPOOLED}"), *Path(home).glob(f"{IMPORTED}/*.jsonl")]
    files = [path for path in sorted(files) if sample_file.first_session(path) not in known]
    faults = []
    for number, path in enumerate(files):
        try:
            sessions = list(sample_file.read_samples(path))
        except StoreError as error:
            faults.append(
                Text(f"{error}: restore this file, or move it away; all other files are used")
            )
        else:
            store.add(sessions)
        _show_progress(number + 1, len(files))
    return faults


def _show_progress(done: int, of: int) -> None:
    """A bar on a terminal, where many sessions are stored."""
    if of >= MANY and sys.stderr.isatty():
        bar, end = "#" * (40 * done // of), "\n" if done == of else ""
        print(f"\rindex [{bar:40}] {done}/{of} sessions", end=end, file=sys.stderr, flush=True)


def is_damaged(path: Path, whole: bool = True) -> bool:
    """True if a file can be read and SQLite finds damage in its head, or in the `whole`. One that
    is not there, or is out of reach, as another process writes to it, is not damaged."""
    if not path.is_file() or not os.access(path, os.R_OK):
        return False
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=TIMEOUT)) as database:
            query = "PRAGMA quick_check(1)" if whole else "PRAGMA schema_version"
            (answer,) = database.execute(query).fetchone()
            return whole and answer != "ok"
    except sqlite3.Error as error:
        return type(error) is sqlite3.DatabaseError


def _remove(path: Path) -> None:
    """Removes a store with its journal, which a new one would take for its own."""
    try:
        for suffix in ("-journal", "-wal", "-shm", ""):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"{path} is damaged, and cannot be removed: {error.strerror}") from None


def keep(
    store: Store | None,
    verdict: RunVerdict,
    folder: Path | str,
    retest: RunVerdict | None = None,
) -> list[Text]:
    """Records a run and its retest: writes the sample file in its results folder, and stores that
    in place of what is stored of the run. `store`: None if it cannot be used. Returns a trouble for
    each part of this that failed."""
    try:
        session, cases = of_verdict(verdict, retest)
    except StoreError as error:
        return [Text(f"not stored: {error}")]
    troubles = []
    try:
        write_samples(Path(folder) / SPOOLED, session, cases)
    except StoreError as error:
        troubles.append(Text(str(error)))
    try:
        if store:
            store.replace(session, cases)
    except StoreError as error:
        troubles.append(Text(f"not stored{' with its retest' if retest else ''}: {error}"))
    return troubles
