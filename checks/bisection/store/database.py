"""The store: all samples of all sessions, in one SQLite file.

ReFrame's own database is the record of a run; the store is made from it, or from sample files
(sample_file.py), and can be made again.
"""

import contextlib
import json
import sqlite3
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from bisection.core.verdicts import DISTURBED, NOT_MEASURED, PASS
from bisection.store.sample_file import StoreError, finite_or_none

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
    if outcome.verdict == NOT_MEASURED:
        return outcome.cause or "not measured"
    if outcome.disturbed > DISTURBED:
        return f"other processes had the cores in {outcome.disturbed:.0%} of the samples"
    return ""


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
                    *(number, test, turn, case.get("verdict") or PASS),
                    *(case.get("cause") or "", case.get("disturbed") or 0.0),
                    *(" ".join(case.get("hosts") or []), case.get("again") or ""),
                )
            )
            for name, (value, unit, better) in case["metrics"].items():
                metric = self._id("metrics", Metric(name, unit, better), metrics)
                samples.append((number, test, metric, turn, finite_or_none(value)))
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
            return set(self.connection.execute(query, (NOT_MEASURED, DISTURBED)))

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
