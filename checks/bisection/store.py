"""The store: all samples of all sessions, in one SQLite file.

ReFrame's own database is the record of a run; the store is made from it, or from sample files
(samples.py), and can be made again.
"""

import contextlib
import json
import os
import re
import sqlite3
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from bisection import verdict as verdicts
from bisection.samples import (
    BAD_REPORT,
    SPOOLED,
    StoreError,
    contents,
    finite,
    of_report,
    read_samples,
    told,
    write_samples,
)

DATABASE_VERSION = 1
TIMEOUT = 60  # s to wait for another writer

TABLES = """
CREATE TABLE sessions(id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE, start REAL NOT NULL,
    tags TEXT NOT NULL, facts TEXT NOT NULL);
CREATE TABLE tests(id INTEGER PRIMARY KEY, system TEXT NOT NULL, partition TEXT NOT NULL,
    environ TEXT NOT NULL, check_name TEXT NOT NULL, case_name TEXT NOT NULL, layout TEXT NOT NULL,
    method TEXT NOT NULL, geometry TEXT NOT NULL, control INTEGER NOT NULL, pair TEXT NOT NULL,
    UNIQUE(system, partition, environ, check_name, case_name, layout, method, geometry, control,
    pair));
CREATE TABLE metrics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, unit TEXT NOT NULL,
    better TEXT NOT NULL, UNIQUE(name, unit, better));
CREATE TABLE outcomes(session INTEGER NOT NULL, test INTEGER NOT NULL, run INTEGER NOT NULL,
    verdict TEXT NOT NULL, cause TEXT NOT NULL, disturbed REAL NOT NULL, hosts TEXT NOT NULL,
    again TEXT NOT NULL, PRIMARY KEY(session, test, run)) WITHOUT ROWID;
CREATE TABLE samples(session INTEGER NOT NULL, test INTEGER NOT NULL, metric INTEGER NOT NULL,
    run INTEGER NOT NULL, value REAL, PRIMARY KEY(session, test, metric, run)) WITHOUT ROWID;
"""


class Unreadable(StoreError):
    """A sample file or a session of ReFrame's cannot be read; all else was stored."""


class BrokenStore(StoreError):
    """The database file is damaged, or is none."""


class Test(NamedTuple):
    """What identifies a test case; geometry may change without another test coming into being."""

    system: str
    partition: str
    environ: str
    check: str
    case: str
    layout: str
    method: str
    geometry: str
    control: bool
    pair: str  # names of two nodes with a blank between, or ""

    @property
    def identity(self):
        """What the test is, whatever its geometry; of a pair of nodes, each pair is its own."""
        case = f"{self.case} {self.pair}".strip()
        return (*self[:4], case, *self[5:7])


class Metric(NamedTuple):
    name: str
    unit: str
    better: str


@dataclass(frozen=True)
class Session:
    uuid: str
    start: float
    tags: dict = field(hash=False)
    facts: dict = field(hash=False)
    id: int = 0


class Outcome(NamedTuple):
    session: int
    test: int
    run: int
    verdict: str
    cause: str
    disturbed: float
    hosts: tuple
    again: str


def unusable(outcome):
    """Why numbers of a job are not to be used; "" if they are."""
    if outcome.verdict == verdicts.NOT_MEASURED:
        return outcome.cause or "not measured"
    if outcome.disturbed > verdicts.DISTURBED:
        return f"other processes had the cores in {outcome.disturbed:.0%} of the samples"
    return ""


# ---- the database ----


class Store:
    """The database of samples; made when it is first written to."""

    def __init__(self, path):
        self.path = Path(path)
        self.connection = None
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.connection = sqlite3.connect(self.path, timeout=TIMEOUT, isolation_level=None)
            with self._told():
                self._prepare()
        except OSError as error:
            raise StoreError(f"cannot open {self.path}: {error.strerror}") from None
        except StoreError:
            self.close()
            raise

    def close(self):
        if self.connection:
            self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @contextlib.contextmanager
    def _told(self):
        """Turns SQLite's errors into ours."""
        try:
            yield
        except sqlite3.Error as error:
            broken = isinstance(error, sqlite3.DatabaseError) and not isinstance(
                error, (sqlite3.OperationalError, sqlite3.IntegrityError)
            )
            kind = BrokenStore if broken else StoreError
            words = " ".join(str(error).split())
            mend = "; `bisection import` sets it aside and makes it again" if broken else ""
            raise kind(f"{self.path}: {words}{mend}") from None

    def _prepare(self):
        version = self.connection.execute("PRAGMA user_version").fetchone()[0]
        if version > DATABASE_VERSION:
            raise StoreError(
                f"{self.path} has version {version}, of a newer Bisection; up to "
                f"{DATABASE_VERSION} can be read"
            )
        if version < DATABASE_VERSION:
            with self.writing():
                if not self.connection.execute("PRAGMA user_version").fetchone()[0]:
                    for statement in filter(str.strip, TABLES.split(";")):
                        self.connection.execute(statement)
                    self.connection.execute(f"PRAGMA user_version = {DATABASE_VERSION}")

    @contextlib.contextmanager
    def writing(self):
        """A transaction: all of it is stored, or nothing."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                self.connection.execute("ROLLBACK")
            raise

    def add(self, contents):
        """Stores all of these (session, cases), but those that are there, or none if anything
        fails. Returns how many were stored."""
        with self._told(), self.writing():
            return sum(self._add(session, cases) for session, cases in contents)

    def _add(self, session, cases):
        run = self.connection.execute
        text = [json.dumps(session.get(name) or {}, sort_keys=True) for name in ("tags", "facts")]
        done = run(
            "INSERT INTO sessions(uuid, start, tags, facts) VALUES(?, ?, ?, ?) "
            "ON CONFLICT(uuid) DO NOTHING",
            (session["session"], session["start"], *text),
        )
        if not done.rowcount:
            return False
        number, tests, metrics = done.lastrowid, {}, {}
        outcomes, samples, turns = [], [], set()
        for case in cases:
            test = self._id("tests", _test(case), tests)
            turn = int(case.get("run") or 0)
            while (test, turn) in turns:  # a test that was repeated, each time as a job of its own
                turn += 1
            turns.add((test, turn))
            outcomes.append(
                (
                    *(number, test, turn, case.get("verdict") or verdicts.PASS),
                    *(case.get("cause") or "", case.get("disturbed") or 0.0),
                    *(" ".join(case.get("hosts") or []), case.get("again") or ""),
                )
            )
            for name, (value, unit, better) in case["metrics"].items():
                metric = self._id("metrics", Metric(name, unit, better), metrics)
                samples.append((number, test, metric, turn, finite(value)))
        many = self.connection.executemany
        many("INSERT INTO outcomes VALUES(?, ?, ?, ?, ?, ?, ?, ?)", outcomes)
        many("INSERT OR IGNORE INTO samples VALUES(?, ?, ?, ?, ?)", samples)
        return True

    def _id(self, table, values, known):
        if values not in known:
            columns = [row[1] for row in self.connection.execute(f"PRAGMA table_info({table})")]
            names, marks = columns[1:], ", ".join("?" * len(values))
            self.connection.execute(
                f"INSERT OR IGNORE INTO {table}({', '.join(names)}) VALUES({marks})", values
            )
            where = " AND ".join(f"{name} = ?" for name in names)
            found = self.connection.execute(f"SELECT id FROM {table} WHERE {where}", values)
            known[values] = found.fetchone()[0]
        return known[values]

    # ---- reading ----

    def sessions(self):
        """All sessions, oldest first."""
        with self._told():
            rows = self.connection.execute(
                "SELECT uuid, start, tags, facts, id FROM sessions ORDER BY start, id"
            ).fetchall()
        try:
            return [Session(u, float(s), json.loads(t), json.loads(f), i) for u, s, t, f, i in rows]
        except ValueError:
            raise BrokenStore(f"{self.path}: a session's tags or facts are damaged") from None

    def count(self):
        """How many sessions there are."""
        with self._told():
            return self.connection.execute("SELECT count(*) FROM sessions").fetchone()[0]

    def unmeasured(self):
        """(session, test, run) of the jobs whose numbers are not to be used."""
        with self._told():
            query = "SELECT session, test, run FROM outcomes WHERE verdict = ? OR disturbed > ?"
            return set(self.connection.execute(query, (verdicts.NOT_MEASURED, verdicts.DISTURBED)))

    def tests(self):
        with self._told():
            rows = self.connection.execute("SELECT * FROM tests").fetchall()
        return {row[0]: Test(*row[1:9], bool(row[9]), row[10]) for row in rows}

    def metrics(self):
        with self._told():
            rows = self.connection.execute("SELECT * FROM metrics").fetchall()
        return {row[0]: Metric(*row[1:]) for row in rows}

    def outcomes(self, sessions):
        """Outcomes of these sessions."""
        with self._told():
            rows = self.connection.execute(
                f"SELECT * FROM outcomes WHERE session IN ({_numbers(sessions)})"
            )
            return [Outcome(*row[:6], tuple(row[6].split()), row[7]) for row in rows]

    def samples(self, sessions=None):
        """An array with the fields session, test, metric, run and value (NaN: not measured) of
        these sessions, or of all."""
        import numpy as np

        kind = np.dtype(
            [(name, np.int32) for name in ("session", "test", "metric", "run")] + [("value", "f8")]
        )
        where = "" if sessions is None else f" WHERE session IN ({_numbers(sessions)})"
        parts = []
        with self._told():
            rows = self.connection.execute(f"SELECT * FROM samples{where}")
            while chunk := rows.fetchmany(100_000):
                parts.append(np.array(chunk, dtype=object).astype("f8"))
        rows = np.concatenate(parts) if parts else np.empty((0, 5))
        found = np.empty(len(rows), kind)
        for column, name in enumerate(kind.names):
            found[name] = rows[:, column]
        return found


def _numbers(sessions):
    return ", ".join(str(session.id) for session in sessions)


def _test(case):
    return Test(
        *(str(case.get(name) or "") for name in Test._fields[:8]),
        bool(case.get("control")),
        " ".join(case.get("pair") or []),
    )


# ---- where they are ----


def database(home):
    return Path(home) / "store.db"


def record(home):
    """ReFrame's own database."""
    return Path(home) / "reframe" / "results.db"


def opened(home):
    """The store of `home`, with all that ReFrame's database and results folders hold; what of that
    cannot be read is told on stderr."""
    store = Store(database(home))
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
        for session, cases in recorded(record(home), known):
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


def defects(home):
    """Sentences on what is wrong with the store, one each."""
    path = database(home)
    if fault := damage(path):
        return [f"{path}: {fault}; `bisection import` makes it again"]
    if not path.exists():
        return []
    try:
        Store(path).close()
    except StoreError as error:
        return [str(error)]
    return []
