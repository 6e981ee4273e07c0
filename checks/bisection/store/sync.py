"""Sources of sessions, and what keeps the store in step with them: judged runs, results folders,
copies of imported files, ReFrame's database."""

import contextlib
import hashlib
import json
import os
import sqlite3
import statistics
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from urllib.parse import quote

from bisection.core import paths
from bisection.core.format import some
from bisection.core.identity import IDENTITY
from bisection.core.reasons.base import Text
from bisection.core.verdicts import Verdict
from bisection.runs.model import RunVerdict, TestResult
from bisection.runs.report import read
from bisection.sites.site import Defect
from bisection.store import sample_file
from bisection.store.database import IMPORT_AGAIN, TIMEOUT, Store
from bisection.store.sample_file import SPOOLED, Contents, Line, StoreError, write_samples

IMPORTED = "imported"  # folder with copies of what came from elsewhere
NOT_STORED = "not stored: {}; `bisection import` stores it later"
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
        **{name: getattr(case, name) for name in IDENTITY},
        "geometry": record.geometry,
        "hosts": [*record.hosts],
        "run": case.run,
        "verdict": case.verdict,
        "reason": case.reason.as_dict() if case.reason else None,
        "disturbed": record.preempted,
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


def _of_report(text: str | bytes, where: str | Path) -> Contents:
    """The session of a report of ReFrame. StoreError, which names `where`: it is none."""
    try:
        return of_verdict(read(json.loads(text)).without_preempted())
    except (
        *(ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError),
        StoreError,
    ) as error:
        fault = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise StoreError(f"{where}: not a report of ReFrame: {fault}") from None


def contents(path: Path | str) -> list[Contents]:
    """All sessions of a sample file, of a report of ReFrame (*.json), or of a results folder.
    StoreError: it is none of these, or cannot be read."""
    source = Path(path)
    if source.is_dir():
        samples = source / SPOOLED
        source = samples if samples.exists() else source / "report.json"
    if source.suffix != ".json":
        return list(sample_file.read_samples(source))
    try:
        return [_of_report(paths.regular(source).read_bytes(), source)]
    except OSError as error:
        raise StoreError(f"cannot read {source}: {error.strerror}") from None


def import_file(store: Store, home: Path | str, path: Path | str) -> tuple[set[str], int]:
    """Stores the sessions of a file or folder (`contents`), and keeps a copy below `home`, so that
    the store can be made again. Forgotten sessions stay forgotten.

    Returns:
        The identifiers of all its sessions, and how many were not stored before.

    Raises:
        StoreError: the file cannot be read, or a session is of no system or tier, as of another
            program that runs ReFrame: no session could be compared with it. Nothing is stored.
    """
    sessions = contents(path)
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


# ---- the store in step with them ----


def opened(home: Path | str) -> Store:
    """The store of `home`, with everything that ReFrame's database and results folders hold, to be
    closed by the caller. What cannot be read is reported on standard error."""
    store = Store(paths.store_db(home))
    _, fault = synchronise(store, home)
    ahead = [s.uuid[:8] for s in store.sessions() if s.ahead and not s.excluded]
    if ahead and not fault:
        fault = f"`latest` leaves out sessions that begin in the future: {some(ahead, 4)}"
    if fault:
        print(f"warning: {fault}", file=sys.stderr)
    return store


def synchronise(store: Store, home: Path | str) -> tuple[int, str]:
    """Stores what results folders, copies and ReFrame's database have and the store has not.
    Returns how many sessions that were, and the first fault of what cannot be read, or ""."""
    known = {session.uuid for session in store.sessions()} | store.forgotten().keys()
    added, faults = 0, []
    spooled = Path(home).glob(f"results/*/{SPOOLED}")
    for path in sorted([*spooled, *Path(home).glob(f"{IMPORTED}/*.jsonl")]):
        if sample_file.first_session(path) not in known:
            try:
                sessions = list(sample_file.read_samples(path))
            except StoreError as error:
                faults.append(str(error))
                continue
            added += store.add(sessions)
            known |= {session["session"] for session, _ in sessions}
    for name, text in recorded(home, known):
        try:
            session = _of_report(text, f"{paths.results_db(home)}: session {name}")
        except StoreError as error:
            faults.append(str(error))
            continue
        added += store.add([session])
    return added, next(iter(faults), "")


def recorded(home: Path | str, known: Collection[str] = ()) -> Iterator[tuple[str, str]]:
    """Yields identifier and report of the sessions of ReFrame's database that are not `known`."""
    path = paths.results_db(home)
    if not path.exists():
        return
    try:
        with contextlib.closing(_existing(path)) as database:
            for (name,) in database.execute("SELECT uuid FROM sessions").fetchall():
                if name not in known:
                    query = "SELECT json_blob FROM sessions WHERE uuid = ?"
                    yield name, database.execute(query, (name,)).fetchone()[0]
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from None


# ---- damage ----


def _existing(path: Path | str) -> sqlite3.Connection:
    """A connection to a database that must be there. It can be written to, where the file can: what
    a writer that was killed left half done is then taken back."""
    return sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True, timeout=TIMEOUT)


def damage(path: Path) -> str:
    """Returns what is wrong with an SQLite file, in a clause; "" if nothing, if there is none, or
    if it is only out of reach: another process writes to it, or this one may not read it."""
    if not path.exists():
        return ""
    try:
        with contextlib.closing(_existing(path)) as database:
            answer = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        reached = not path.is_file() or os.access(path, os.R_OK)
        answer = str(error) if reached and "locked" not in str(error) else "ok"
    return "" if answer == "ok" else " ".join(answer.split())


def set_damaged_aside(home: Path | str) -> list[Text]:
    """Moves damaged databases out of the way, so that the next run is stored. Each goes with its
    journal, which a new one would take for its own. Returns a trouble per damaged database, which
    says where it is now, or why it cannot be moved."""
    troubles = []
    for path in (paths.results_db(home), paths.store_db(home)):
        if fault := damage(path):
            stamp = time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime())
            aside = path.with_name(f"{path.name}.broken-{stamp}")
            now = f"is now {aside.name}"
            try:
                for suffix in ("-journal", "-wal", "-shm", ""):
                    with contextlib.suppress(FileNotFoundError):  # another process was first
                        Path(f"{path}{suffix}").replace(f"{aside}{suffix}")
            except OSError as refused:
                now = f"cannot set {path} aside: {refused.strerror}"
            troubles.append(Text(f"{path} was damaged ({fault}) and {now}"))
    return troubles


def store_defects(home: Path | str) -> list[Defect]:
    """Returns what is wrong with ReFrame's database and with the store; one that is not there is
    none."""
    path, results = paths.store_db(home), paths.results_db(home)
    defects = []
    if fault := damage(results):
        defects.append(Defect.of(results, 1, f"is damaged: {fault}"))
    fault = damage(path)
    if path.exists() and not fault:
        try:
            with Store(path) as store:
                store.forgotten()  # reads the file of marks
        except StoreError as error:
            fault = str(error).removeprefix(f"{path} ").removesuffix(IMPORT_AGAIN)
    return [*defects, *([Defect.of(path, 1, unusable(fault))] if fault else [])]


def unusable(error: str) -> str:
    """A store that cannot be used, and what to do."""
    return f"{error}; `bisection import` rebuilds it"


def keep(
    store: Store,
    home: Path | str,
    verdict: RunVerdict,
    folder: Path | str,
    retest: RunVerdict | None = None,
) -> list[Text]:
    """Writes the samples of a run and of its retest to its results folder, and stores them in place
    of what is stored of the run. A store that is new is filled with all earlier sessions of `home`.
    Returns a trouble for each part of this that failed."""
    try:
        session, cases = of_verdict(verdict, retest)
    except StoreError as error:
        return [Text(NOT_STORED.format(error))]
    troubles = []
    try:
        write_samples(Path(folder) / SPOOLED, session, cases)
    except StoreError as error:
        troubles.append(Text(str(error)))
    stored: set[str] = set()
    try:
        stored = {each.uuid for each in store.sessions()}
        store.replace(session, cases)
        if not stored and (fault := synchronise(store, home)[1]):
            troubles.append(Text(NOT_STORED.format(fault)))
    except StoreError as error:  # `import` skips what is stored already
        of_retest = "what the retest showed is not stored: {}"
        text = of_retest if verdict.session in stored else NOT_STORED
        troubles.append(Text(text.format(error)))
    return troubles
