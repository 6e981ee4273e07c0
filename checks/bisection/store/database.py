"""The store: an index of every metric of every test of all sessions, in one SQLite file.

The record of a session is its sample file (sample_file.py). The store is made from these files
(sync.py), and may be deleted.
"""

import contextlib
import functools
import json
import sqlite3
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bisection.core.identity import IDENTITY, TestId
from bisection.core.reasons import read_reason
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.launches import Disturbed, LeftOut
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict
from bisection.store.marks import Mark, marks_file, read_marks, write_marks
from bisection.store.sample_file import Contents, Line, StoreError, finite_or_none

DATABASE_VERSION = 6
DAY = 86400  # s
TIMEOUT = 60  # s to wait for another writer
TABLES = f"""
CREATE TABLE sessions(id INTEGER PRIMARY KEY, uuid TEXT NOT NULL UNIQUE,
    start REAL NOT NULL, tags TEXT NOT NULL, facts TEXT NOT NULL, work TEXT NOT NULL);
CREATE TABLE tests(id INTEGER PRIMARY KEY, system TEXT NOT NULL,
    partition TEXT NOT NULL, environ TEXT NOT NULL, check_name TEXT NOT NULL,
    case_name TEXT NOT NULL, layout TEXT NOT NULL, method TEXT NOT NULL, geometry TEXT NOT NULL,
    control INTEGER NOT NULL, UNIQUE(system, partition, environ, check_name, case_name, layout,
    method, geometry, control));
CREATE TABLE metrics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, unit TEXT NOT NULL,
    better TEXT NOT NULL, UNIQUE(name, unit, better));
CREATE TABLE places(id INTEGER PRIMARY KEY, hosts TEXT NOT NULL UNIQUE);
CREATE TABLE outcomes(session INTEGER NOT NULL, test INTEGER NOT NULL,
    run INTEGER NOT NULL, verdict TEXT NOT NULL, cause TEXT NOT NULL, disturbed REAL NOT NULL,
    place INTEGER NOT NULL, seconds TEXT NOT NULL,
    PRIMARY KEY(session, test, run)) WITHOUT ROWID;
CREATE TABLE samples(session INTEGER NOT NULL, test INTEGER NOT NULL,
    metric INTEGER NOT NULL, run INTEGER NOT NULL, value REAL,
    PRIMARY KEY(session, test, metric, run)) WITHOUT ROWID;
CREATE TABLE repeats(session INTEGER NOT NULL, test INTEGER NOT NULL,
    metric INTEGER NOT NULL, run INTEGER NOT NULL, value REAL,
    PRIMARY KEY(session, test, metric, run)) WITHOUT ROWID;
PRAGMA user_version = {DATABASE_VERSION};
"""


_reason = functools.lru_cache(maxsize=4096)(read_reason)
# Tags that `bisection run` gives every session; sessions of one kind have equal ones.
KIND = ("tier", "system", "environ", "arguments")


@dataclass(frozen=True)
class Session:
    """One run. Tags name it, facts are what it ran on and with, work is what it computed."""

    uuid: str
    start: float  # Unix time
    tags: dict[str, str] = field(hash=False)
    facts: dict[str, str] = field(hash=False)
    id: int = 0
    work: dict[str, dict[str, str]] = field(hash=False, default_factory=dict)
    excluded: str = ""  # why its numbers are left out; "" if they are not
    accepted: str = ""  # why what got worse since then is no alarm; "" if it is

    @property
    def kind(self) -> tuple[str | None, ...]:
        """Returns what sessions of one kind have in common, in the order of KIND."""
        return tuple(self.tags.get(name) for name in KIND)

    @property
    def ahead(self) -> bool:
        return self.start > time.time() + DAY

    @property
    def own_tags(self) -> dict[str, str]:
        return own_tags(self.tags)


def own_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """The tags that a person gave."""
    return {name: value for name, value in tags.items() if name not in KIND}


def works_of(sessions: Iterable[Session]) -> dict[tuple[str, str], dict[int, str]]:
    """What tests computed, as far as it is known: (check, case) -> {number of a session: options},
    in the order of the sessions."""
    works: dict[tuple[str, str], dict[int, str]] = {}
    for session in sessions:
        for check, cases in session.work.items():
            for case, work in cases.items():
                works.setdefault((check, case), {})[session.id] = work
    return works


@dataclass
class StoredTest(TestId):
    """A test with what its history may have several of."""

    geometry: str
    control: bool  # measures the cores alone


class Metric(NamedTuple):
    """A metric's name, unit and direction."""

    name: str
    unit: str
    better: str  # lower | higher

    @property
    def sign(self) -> int:
        """Of the logarithm of its values in the logarithm of a cost."""
        return 1 if self.better == "lower" else -1


class Outcome(NamedTuple):
    """The outcome of one job of a test."""

    session: int
    test: int
    run: int
    verdict: str
    cause: str  # a Reason as JSON, or ""
    disturbed: float  # fraction of samples
    hosts: tuple[str, ...]
    seconds: tuple[float, ...] = ()  # that each launch that it needs held its nodes

    @property
    def reason(self) -> Reason | None:
        return _reason(self.cause)

    @property
    def left_out(self) -> bool:
        inapplicable = self.verdict == Verdict.NOT_APPLICABLE
        return inapplicable and isinstance(self.reason, LeftOut)

    @property
    def unusable(self) -> Reason | None:
        """Returns why the job's numbers are not to be used; None if they are."""
        if self.verdict == Verdict.NOT_MEASURED:
            return self.reason or Text("not measured")
        if self.disturbed > LIMITS.disturbed_launch:
            return Disturbed(fraction=self.disturbed)
        return None


@dataclass
class Tally:
    """How the tests of a session came out, controls and inapplicable tests not among them."""

    counts: dict[str, int] = field(default_factory=dict)  # verdict -> jobs
    disturbed: float = 0.0  # fraction of samples, the mean job

    @property
    def jobs(self) -> int:
        return sum(self.counts.values())

    @property
    def measured_part(self) -> float:
        lost = self.counts.get(Verdict.NOT_MEASURED, 0)
        return (self.jobs - lost) / self.jobs if self.jobs else 0.0

    @property
    def verdict(self) -> Verdict:
        """FAIL if any test failed, else NOT_MEASURED if any is missing, else PASS."""
        if self.counts.get(Verdict.FAIL):
            return Verdict.FAIL
        complete = self.jobs and not self.counts.get(Verdict.NOT_MEASURED)
        return Verdict.PASS if complete else Verdict.NOT_MEASURED


class Store(contextlib.AbstractContextManager["Store"]):
    """The database; it and the folders above it are made when it is opened first. One of another
    version is emptied. Each function raises StoreError if it cannot be used, or is damaged."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self.hosts: dict[int, tuple[str, ...]] = {}  # of places that were read
        with self._own_errors():
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.connection = sqlite3.connect(self.path, timeout=TIMEOUT, isolation_level=None)
            if not self._is_of_this_version():
                with self.writing():
                    self._create()

    def _is_of_this_version(self) -> bool:
        return self._rows("PRAGMA user_version") == [(DATABASE_VERSION,)]

    def _create(self) -> None:
        if self._is_of_this_version():  # another process was first
            return
        for (name,) in self._rows("SELECT name FROM sqlite_master WHERE type = 'table'"):
            self.connection.execute(f"DROP TABLE {name}")
        for statement in TABLES.split(";"):
            self.connection.execute(statement)

    def close(self) -> None:
        self.connection.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextlib.contextmanager
    def _own_errors(self) -> Iterator[None]:
        """Turns errors of SQLite, of the file system and of what is stored into ours."""
        try:
            yield
        except OSError as error:
            raise StoreError(f"cannot open {self.path}: {error.strerror}") from None
        except ValueError as error:  # a text that is not Unicode, or a damaged record
            raise StoreError(f"{self.path}: {error}") from None
        except sqlite3.Error as error:
            text = " ".join(str(error).split())
            if type(error) is sqlite3.DatabaseError:  # the file is damaged, or is no database
                text += "; remove it: the next command makes it again"
            raise StoreError(f"{self.path}: {text}") from None

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """A transaction: all of it is stored, or nothing."""
        with self._own_errors(), self.connection:
            self.connection.execute("BEGIN IMMEDIATE")
            yield

    def add(self, contents: Iterable[Contents]) -> int:
        """Stores sessions with their test cases, all of them or none; returns how many. Stored
        sessions stay as they are, forgotten ones stay forgotten."""
        with self.writing():
            gone = self.forgotten()
            return sum(self._add(*part) for part in contents if part[0]["session"] not in gone)

    def replace(self, session: Line, cases: Iterable[Line]) -> None:
        """Stores a session in place of what is stored of it; its marks stay."""
        with self.writing():
            self._remove(session["session"])
            self._add(session, cases)

    def _add(self, session: Line, cases: Iterable[Line]) -> bool:
        run = self.connection.execute
        names = ("tags", "facts", "work")
        text = [json.dumps(session.get(name) or {}, sort_keys=True) for name in names]
        inserted = run(
            "INSERT INTO sessions(uuid, start, tags, facts, work) VALUES(?, ?, ?, ?, ?) "
            "ON CONFLICT(uuid) DO NOTHING",
            (session["session"], session["start"], *text),
        )
        if not inserted.rowcount:
            return False
        number = int(inserted.lastrowid or 0)
        known: dict[tuple[Any, ...], int] = {}  # (table, values) -> number there
        rows: dict[str, list[tuple[Any, ...]]] = {"outcomes": [], "samples": [], "repeats": []}
        runs: set[tuple[int, bool, int]] = set()
        for case in cases:
            columns = [str(case.get(name) or "") for name in (*IDENTITY, "geometry")]
            test = self._id(known, "tests", *columns, bool(case.get("control")))
            run_number = int(case.get("run") or 0)
            repeat = bool(case.get("repeat"))
            while (test, repeat, run_number) in runs:  # repeated, each time as a job of its own
                run_number += 1
            runs.add((test, repeat, run_number))
            verdict, reason = case.get("verdict") or Verdict.PASS, case.get("reason")
            cause = json.dumps(reason, sort_keys=True) if reason else ""
            hosts, disturbed = tuple(case.get("hosts") or ()), case.get("disturbed") or 0.0
            seconds = tuple(filter(finite_or_none, case.get("seconds") or ()))
            outcome = Outcome(number, test, run_number, verdict, cause, disturbed, hosts, seconds)
            if repeat and outcome.unusable:
                continue
            if not repeat:
                place = self._id(known, "places", " ".join(hosts))
                rows["outcomes"].append((*outcome[:6], place, " ".join(map(str, seconds))))
            for name, (value, unit, better) in case["metrics"].items():
                metric = self._id(known, "metrics", name, unit, better)
                row = (number, test, metric, run_number, finite_or_none(value))
                rows["repeats" if repeat else "samples"].append(row)
        for table, marks in (("outcomes", "?, ?, ?, "), ("samples", ""), ("repeats", "")):
            query = f"INSERT OR IGNORE INTO {table} VALUES({marks}?, ?, ?, ?, ?)"
            self.connection.executemany(query, rows[table])
        return True

    def _id(self, known: dict[tuple[Any, ...], int], table: str, *values: Any) -> int:
        key = (table, *values)
        if key not in known:
            run = self.connection.execute
            names = [row[1] for row in run(f"PRAGMA table_info({table})")][1:]
            marks = ", ".join("?" * len(values))
            run(f"INSERT OR IGNORE INTO {table}({', '.join(names)}) VALUES({marks})", values)
            where = " AND ".join(f"{name} = ?" for name in names)
            query = f"SELECT id FROM {table} WHERE {where}"
            known[key] = run(query, values).fetchone()[0]
        return known[key]

    # ---- what people note about sessions ----

    @contextlib.contextmanager
    def marking(self) -> Iterator[dict[str, Mark]]:
        """The marks {session: Mark}, to be changed: they are written whole at the end, by one
        process at a time, and sessions that are then forgotten leave the store."""
        with self.writing():
            marks = read_marks(marks_file(self.path))
            yield marks
            write_marks(marks_file(self.path), marks)
            for name in self.forgotten():
                self._remove(name)

    def _remove(self, uuid: str) -> None:
        run = self.connection.execute
        for table in ("samples", "outcomes", "repeats"):
            numbers = "SELECT id FROM sessions WHERE uuid = ?"
            run(f"DELETE FROM {table} WHERE session IN ({numbers})", (uuid,))
        run("DELETE FROM sessions WHERE uuid = ?", (uuid,))

    def forgotten(self) -> dict[str, str]:
        """The sessions that are not to be stored again: {identifier: day it was forgotten}."""
        marks = read_marks(marks_file(self.path))
        return {name: mark.forgotten for name, mark in marks.items() if mark.forgotten}

    # ---- reading ----

    def sessions(self) -> list[Session]:
        """All sessions, oldest first, with their marks."""
        query = "SELECT uuid, start, tags, facts, work, id FROM sessions ORDER BY start, id"
        marks, none = read_marks(marks_file(self.path)), Mark()
        sessions = []
        for uuid, start, *texts, number in self._rows(query):
            mark = marks.get(uuid, none)
            if mark.forgotten:
                continue
            with self._own_errors():
                tags, facts, work = map(json.loads, texts)
            tags = {name: value for name, value in {**tags, **mark.tags}.items() if value}
            more = (facts, number, work, mark.excluded, mark.accepted)
            sessions.append(Session(uuid, float(start), tags, *more))
        return sessions

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self._own_errors():
            return self.connection.execute(query, values).fetchall()

    def tallies(self) -> dict[int, Tally]:
        """How the tests of each session came out, by the session's number in the store."""
        query = (
            "SELECT session, verdict, count(*), sum(disturbed) FROM outcomes "
            "JOIN tests ON tests.id = test WHERE NOT control AND verdict != ? "
            "GROUP BY session, verdict"
        )
        tallies: dict[int, Tally] = {}
        for number, verdict, jobs, disturbed in self._rows(query, (Verdict.NOT_APPLICABLE.value,)):
            tally = tallies.setdefault(number, Tally())
            tally.counts[verdict] = jobs
            tally.disturbed += disturbed
        for tally in tallies.values():
            tally.disturbed /= tally.jobs
        return tallies

    def tests(self) -> dict[int, StoredTest]:
        rows = self._rows("SELECT * FROM tests")
        values = {number: [*words, bool(control)] for number, *words, control in rows}
        return {number: StoredTest(*each) for number, each in values.items()}

    def metrics(self) -> dict[int, Metric]:
        return {number: Metric(*row) for number, *row in self._rows("SELECT * FROM metrics")}

    def outcomes(self, sessions: Sequence[Session]) -> list[Outcome]:
        rows = self._rows(f"SELECT * FROM outcomes WHERE session IN ({_numbers(sessions)})")
        return [
            Outcome._make([*row, self._hosts(place), tuple(map(float, seconds.split()))])
            for *row, place, seconds in rows
        ]

    def _hosts(self, place: int) -> tuple[str, ...]:
        """The hosts of a place: of many outcomes the same tuple, as they may be thousands."""
        if place not in self.hosts:
            ((text,),) = self._rows("SELECT hosts FROM places WHERE id = ?", (place,))
            self.hosts[place] = tuple(map(sys.intern, text.split()))
        return self.hosts[place]

    def repeats(self, sessions: Sequence[Session]) -> list[tuple[int, int, int, float]]:
        """Returns what usable repeats of launches of these sessions measured: the numbers of test,
        metric and session, and the value."""
        query = "SELECT test, metric, session, value FROM repeats WHERE value > 0 AND "
        return self._rows(f"{query}session IN ({_numbers(sessions)})")

    def array(self, query: str, sessions: Sequence[Session], kind: list[Any]) -> np.ndarray:
        """The rows of a query of these sessions, as a structured array."""
        with self._own_errors():
            rows = self.connection.execute(f"{query} ({_numbers(sessions)})")
            return np.fromiter(rows, kind)


def _numbers(sessions: Sequence[Session]) -> str:
    return ", ".join(str(session.id) for session in sessions)
