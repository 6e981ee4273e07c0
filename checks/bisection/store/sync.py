"""Keeps the store, sample files and ReFrame's database in step."""

import contextlib
import json
import os
import re
import sqlite3
import sys
import time
from pathlib import Path
from urllib.parse import quote

from bisection.core import paths
from bisection.sites.site import Defect
from bisection.store import from_run, sample_file
from bisection.store.database import TIMEOUT, Store, Unreadable
from bisection.store.from_run import BAD_REPORT, contents, of_report
from bisection.store.sample_file import SPOOLED, StoreError, read_samples, told, write_samples


def opened(home):
    """The store of `home`, with all that ReFrame's database and results folders hold; what of that
    cannot be read is told on stderr."""
    store = Store(paths.store_db(home))
    try:
        synchronise(store, home)
    except Unreadable as error:
        print(f"warning: {error}", file=sys.stderr)
    except BaseException:
        store.close()
        raise
    return store


IMPORTED = "imported"  # folder with copies of what came from elsewhere


def take(store, home, path):
    """Stores the sessions of a sample file, a report or a results folder, and keeps a copy, so that
    the store can be made again. Returns (all its sessions, how many were stored)."""
    found = contents(path)
    known = {session.uuid for session in store.sessions()}
    added = store.add(found)
    (Path(home) / IMPORTED).mkdir(parents=True, exist_ok=True)
    for session, cases in found:
        if session["session"] not in known:
            name = re.sub(r"[^\w.-]", "_", session["session"])
            write_samples(Path(home) / IMPORTED / f"{name}.jsonl", session, cases)
    return found, added


def synchronise(store, home):
    """Stores what ReFrame's database and the results folders have and the store has not. Returns
    how many sessions that were; what cannot be read is told when all else is stored."""
    known = {session.uuid for session in store.sessions()}
    added, fault = 0, None
    spooled = Path(home).glob(f"results/*/{SPOOLED}")
    for path in sorted([*spooled, *Path(home).glob(f"{IMPORTED}/*.jsonl")]):
        if _first_session(path) in known:
            continue
        try:
            found = list(read_samples(path))
        except StoreError as error:
            fault = fault or error
            continue
        added += store.add(found)
        known |= {session["session"] for session, _ in found}
    try:
        for session, cases in recorded(paths.results_db(home), known):
            added += store.add([(session, cases)])
    except Unreadable as error:
        fault = fault or error
    if fault:
        raise fault if isinstance(fault, Unreadable) else Unreadable(str(fault))
    return added


def _first_session(path):
    """The identifier of a sample file's first session; None if it cannot be read."""
    try:
        with open(path, encoding="utf-8") as file:
            return json.loads(file.readline()).get("session")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None


def recorded(path, known=()):
    """Yields (session, cases) of ReFrame's database, but of the sessions `known`; those that cannot
    be read are told after the others."""
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
                        yield of_report(json.loads(blob))
                    except BAD_REPORT as error:
                        text = f"{path}: session {name}: not a report of ReFrame: {told(error)}"
                        fault = fault or Unreadable(text)
    except sqlite3.Error as error:
        raise StoreError(f"{path}: {error}") from None
    if fault:
        raise fault


def _existing(path):
    """A connection to a database that must be there. It can be written to, where the file can: what
    a writer that was killed left half done is then taken back."""
    return sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True, timeout=TIMEOUT)


def set_aside(path):
    """Moves a damaged database out of the way, with its journal, which a new one would take for its
    own; returns where it is now. StoreError if it cannot be moved."""
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


def damage(path):
    """What is wrong with an SQLite file, in a clause; "" if nothing, if there is none, or if it is
    only out of reach: another process writes to it, or this one may not read it."""
    path = Path(path)
    if not path.exists():
        return ""
    try:
        with contextlib.closing(_existing(path)) as database:
            found = database.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.Error as error:
        reached = not path.is_file() or os.access(path, os.R_OK)
        return " ".join(str(error).split()) if reached and "locked" not in str(error) else ""
    return "" if found == "ok" else " ".join(found.split())


def store_defects(home):
    """What is wrong with the store, as a list of Defect; a store that is not there is none."""
    path = paths.store_db(home)
    if not path.exists():
        return []
    fault = damage(path)
    if not fault:
        try:
            Store(path).close()
        except StoreError as error:
            fault = str(error).removeprefix(f"{path}: ")
    again = f"{fault}; `bisection import` makes it again"
    return [Defect(paths.shown(path), 1, again)] if fault else []


def prepare(home):
    """Sets aside databases that are damaged, so that the run to come is stored. Returns troubles,
    one line each."""
    troubles = []
    for path in (paths.results_db(home), paths.store_db(home)):
        if fault := damage(path):
            try:
                told = f"is now {set_aside(path).name}"
            except StoreError as error:
                told = str(error)
            troubles.append(f"{path} was damaged ({fault}) and {told}")
    return troubles


def keep(report, folder, home):
    """Writes the run's samples to its folder and stores them. Returns troubles."""
    if report is None:
        return []
    try:
        session, cases = from_run.of_report(report)
    except BAD_REPORT as error:
        return [f"not stored: not a report of ReFrame: {error!r}"]
    troubles = []
    try:
        sample_file.write_samples(Path(folder) / SPOOLED, session, cases)
    except StoreError as error:
        troubles.append(str(error))
    try:
        with Store(paths.store_db(home)) as store:
            store.add([(session, cases)])
            synchronise(store, home)
    except StoreError as error:
        troubles.append(f"not stored: {error}; `bisection import` stores it later")
    return troubles
