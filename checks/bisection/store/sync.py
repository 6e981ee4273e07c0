"""Keeps the store, sample files and ReFrame's database in step."""

import contextlib
import json
import os
import sqlite3
import sys
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from urllib.parse import quote

from bisection.core import paths
from bisection.core.format import some
from bisection.core.reasons import Code, Reason
from bisection.runs.model import RunVerdict
from bisection.runs.report import read
from bisection.sites.site import Defect
from bisection.store.database import IMPORT_AGAIN, TIMEOUT, Store, Unreadable
from bisection.store.sample_file import (
    SPOOLED,
    Contents,
    StoreError,
    first_session,
    read_samples,
    write_samples,
)
from bisection.store.selection import SelectionError, select
from bisection.store.sources import BAD_REPORT, IMPORTED, not_a_report, of_verdict


def opened(home: Path | str) -> Store:
    """The store of `home`, with everything that ReFrame's database and results folders hold; what
    cannot be read is reported on standard error.

    Args:
        home: the folder of everything that is generated.

    Returns:
        The open store, to be closed by the caller.

    Raises:
        StoreError: the store itself cannot be used.
    """
    store = Store(paths.store_db(home))
    try:
        synchronise(store, home)
        if ahead := [s.uuid[:8] for s in store.sessions() if s.ahead and not s.excluded]:
            names = some(ahead, 4)
            raise Unreadable(f"`latest` leaves out sessions that begin in the future: {names}")
    except Unreadable as error:
        print(f"warning: {error}", file=sys.stderr)
    except BaseException:
        store.close()
        raise
    return store


def synchronise(store: Store, home: Path | str) -> int:
    """Stores what ReFrame's database and the results folders have and the store has not.

    Args:
        store: where to store it.
        home: the folder with `results`, `imported` and `reframe`.

    Returns:
        How many sessions that were.

    Raises:
        Unreadable: something cannot be read; everything else is stored.
        StoreError: the store cannot be written.
    """
    known = {session.uuid for session in store.sessions()} | store.forgotten().keys()
    added, fault = 0, None
    spooled = Path(home).glob(f"results/*/{SPOOLED}")
    for path in sorted([*spooled, *Path(home).glob(f"{IMPORTED}/*.jsonl")]):
        if first_session(path) in known:
            continue
        try:
            sessions = list(read_samples(path))
        except StoreError as error:
            fault = fault or error
            continue
        added += store.add(sessions)
        known |= {session["session"] for session, _ in sessions}
    try:
        for session, cases in recorded(paths.results_db(home), known):
            added += store.add([(session, cases)])
    except Unreadable as error:
        fault = fault or error
    if fault:
        raise fault if isinstance(fault, Unreadable) else Unreadable(str(fault))
    return added


def recorded(path: Path | str, known: Collection[str] = ()) -> Iterator[Contents]:
    """Yields the sessions of ReFrame's database that are not `known`.

    Args:
        path: the database; one that does not exist has no sessions.
        known: identifiers of sessions to pass over.

    Raises:
        Unreadable: a session cannot be read; after all others.
        StoreError: the database cannot be read.
    """
    if not Path(path).exists():
        return
    fault = None
    try:
        with contextlib.closing(_existing(path)) as database:
            names = [row[0] for row in database.execute("SELECT uuid FROM sessions")]
            for name in names:
                if name not in known:
                    query = "SELECT json_blob FROM sessions WHERE uuid = ?"
                    blob = database.execute(query, (name,)).fetchone()[0]
                    try:
                        yield of_verdict(read(json.loads(blob)).without_preempted())
                    except BAD_REPORT as error:
                        text = f"{path}: session {name}: {not_a_report(error)}"
                        fault = fault or Unreadable(text)
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from None
    if fault:
        raise fault


def _existing(path: Path | str) -> sqlite3.Connection:
    """A connection to a database that must be there. It can be written to, where the file can: what
    a writer that was killed left half done is then taken back."""
    return sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True, timeout=TIMEOUT)


def set_aside(path: Path | str) -> Path:
    """Moves a damaged database out of the way, with its journal, which a new one would take for its
    own.

    Returns:
        Where it is now.

    Raises:
        StoreError: it cannot be moved.
    """
    stamp = time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime())
    aside = Path(path).with_name(f"{Path(path).name}.broken-{stamp}")
    try:
        for suffix in ("-journal", "-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{path}{suffix}").replace(f"{aside}{suffix}")
        with contextlib.suppress(FileNotFoundError):  # another process was first
            Path(path).replace(aside)
    except OSError as error:
        raise StoreError(f"cannot set {path} aside: {error.strerror}") from None
    return aside


def damage(path: Path | str) -> str:
    """Returns what is wrong with an SQLite file, in a clause; "" if nothing, if there is none, or
    if it is only out of reach: another process writes to it, or this one may not read it."""
    path = Path(path)
    if not path.exists():
        return ""
    try:
        with contextlib.closing(_existing(path)) as database:
            answer = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        reached = not path.is_file() or os.access(path, os.R_OK)
        return " ".join(str(error).split()) if reached and "locked" not in str(error) else ""
    return "" if answer == "ok" else " ".join(answer.split())


def store_defects(home: Path | str) -> list[Defect]:
    """Returns what is wrong with ReFrame's database and with the store, as a list of Defect; one
    that is not there is none."""
    path, results = paths.store_db(home), paths.results_db(home)
    defects = [
        Defect.of(results, 1, Code.DATABASE_DAMAGED, error=fault)
        for fault in filter(None, [damage(results)])
    ]
    fault = damage(path)
    if path.exists() and not fault:
        try:
            with Store(path) as store:
                store.forgotten()  # reads the file of marks
        except StoreError as error:
            fault = str(error).removeprefix(f"{path} ").removesuffix(IMPORT_AGAIN)
    return [*defects, *([Defect.of(path, 1, Code.STORE_UNUSABLE, error=fault)] if fault else [])]


# ---- what a run keeps ----


def prepare(home: Path | str) -> list[Reason]:
    """Sets aside databases that are damaged, so that the next run is stored.

    Args:
        home: the folder of everything that is generated.

    Returns:
        A trouble of the run per damaged database.
    """
    troubles = []
    for path in (paths.results_db(home), paths.store_db(home)):
        if fault := damage(path):
            damaged = {"path": str(path), "fault": fault}
            try:
                now = set_aside(path).name
                troubles.append(Code.WAS_DAMAGED(**damaged, now=now))
            except StoreError as error:
                troubles.append(Code.WAS_DAMAGED(**damaged, error=str(error)))
    return troubles


def keep(store: Store, home: Path | str, verdict: RunVerdict, folder: Path | str) -> list[Reason]:
    """Writes a run's samples to its results folder and stores them; fills a store that is new with
    all earlier sessions.

    Args:
        store: where to store them.
        home: the folder of everything that is generated.
        verdict: the run.
        folder: its results folder.

    Returns:
        A trouble of the run for each part of this that failed.
    """
    try:
        session, cases = of_verdict(verdict)
    except StoreError as error:
        return [Code.NOT_STORED(error=str(error))]
    troubles = []
    try:
        write_samples(Path(folder) / SPOOLED, session, cases)
    except StoreError as error:
        troubles.append(Code.NOT_KEPT(error=str(error)))
    try:
        new = not store.count()
        store.add([(session, cases)])
        if new:
            synchronise(store, home)
    except StoreError as error:
        troubles.append(Code.NOT_STORED(error=str(error)))
    return troubles


def revise(store: Store, verdict: RunVerdict, folder: Path | str) -> list[Reason]:
    """Stores a run in place of what is stored of it, and in its sample file, from which the store
    can be made again. Returns troubles."""
    try:
        session, cases = of_verdict(verdict)
        store.replace(session, cases)
        write_samples(Path(folder) / SPOOLED, session, cases)
    except StoreError as error:
        return [Code.NOT_STORED(error=str(error))]
    return []


def tests_gone(store: Store, verdict: RunVerdict) -> list[Reason]:
    """Returns what tests of the last session of this kind are in this run no more.

    Args:
        store: where both are stored.
        verdict: the run.

    Returns:
        One trouble of the run with their names, or none.

    Raises:
        StoreError: the store cannot be read.
    """
    try:
        now = select(verdict.session, store)
        last = select("earlier:1", store, now)
    except SelectionError:
        return []
    tests = store.tests()
    stored = ([tests[o.test] for o in store.outcomes(side)] for side in (last, now))
    before, after = ({test.key for test in side if not test.control} for side in stored)
    gone = sorted(" ".join(filter(None, key[3:])) for key in before - after)
    return [Code.TESTS_GONE(tests=gone)] if gone else []
