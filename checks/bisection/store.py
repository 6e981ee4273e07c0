"""The store: samples of every metric of every test, by session, in one SQLite file.

ReFrame's own database is the record of a run; the store is made from it, or from sample files, and
can be made again. A sample file is JSON lines, which any tool may write:

    {"schema": "bisection-samples", "version": 1, "session": "7f3c...", "start": 1795249161.9,
     "tags": {"tier": "nightly"}, "facts": {"MPI": "Open MPI 4.1.4"}}
    {"check": "transpose", "case": "cnt40", "layout": "mpi", "method": "p2p", "system": "generic",
     "partition": "default", "environ": "system", "geometry": "2x1", "run": 0, "verdict": "pass",
     "cause": "", "disturbed": 0.0, "hosts": ["n1"], "control": false, "again": "/1a2b3c4d",
     "metrics": {"time": [8.9e-05, "s", "lower"]}}

The first line is a session, the others are its test cases until the next session. Of a session,
`session` and `start` (Unix time) must be there, of a test case `check` and `metrics`; a metric is
[value or null, unit, "lower" or "higher", whichever is better]. `run` tells the jobs of one test in
one session apart; equal ones are counted on. `control` marks what measures the cores alone;
"pair": ["n1", "n2"] in a test case says that it is of two nodes. A session stands once in a file.
"""

import contextlib
import json
import os
import sqlite3
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from bisection import verdict as verdicts

SCHEMA, VERSION = "bisection-samples", 1
DATABASE_VERSION = 1
LAST = 2**37  # s: no session starts later
RUNS = 2**20  # of one test in one session
# What is raised for a report that is none.
BAD_REPORT = (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)
SPOOLED = "samples.jsonl"  # in a results folder
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


class StoreError(Exception):
    """The store or a sample file cannot be used; the text is one line that says why."""


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


# ---- what a report of ReFrame holds ----


def of_report(report, tags=None):
    """(session, cases) of ReFrame's report, as the two kinds of lines of a sample file."""
    info = report["session_info"]
    known = {"data_version", "hostname", "uuid", "cmdline", "config_files", "log_files"}
    known |= {"prefix_output", "prefix_stage", "user", "version", "workdir"}
    extras = {
        name: str(value)
        for name, value in info.items()
        if name not in known and not name.startswith(("time_", "num_"))
    }
    session = {
        "schema": SCHEMA,
        "version": VERSION,
        "session": info["uuid"],
        "start": info["time_start_unix"],
        "tags": {**extras, **(tags or {})},
        "facts": _facts(report),
    }
    for name in ("session", "start"):
        if not OF_SESSION[name](session[name]):
            raise ValueError(f"{name} is {session[name]!r}")
    return session, [line for run in report["runs"] for line in _cases(run, report)]


def _cases(run, report):
    judged = verdicts.judge({**report, "runs": [run]}).cases
    shares = {case.launch: case.disturbed for case in judged if case.fixture}
    for case, entry in zip(judged, run["testcases"], strict=True):
        case.disturbed = shares.get(case.launch, 0.0)
        if case.fixture:
            # Of a launch that was placed wrongly no time counts, that of the cores alone neither.
            yield from _controls(case, entry) if case.verdict == verdicts.PASS else ()
        elif case.verdict != verdicts.NOT_APPLICABLE:
            higher = entry.get("higher") or []
            metrics = {
                m.name: [_finite(m.value), m.unit, "higher" if m.name in higher else "lower"]
                for m in case.metrics
            }
            yield {**_place(case), "hosts": entry.get("hosts") or [], "metrics": metrics}


def _controls(case, entry):
    for name, value in (entry.get("controls") or {}).items():
        metric = ["GHz", "higher"] if name == "clock" else ["s", "lower"]
        yield {
            **_place(case),
            "check": entry["kernel"],
            "method": name,
            "hosts": entry.get("hosts") or [],
            "control": True,
            "metrics": {"clock" if name == "clock" else "time": [_finite(value), *metric]},
        }


def _place(case):
    return {
        "check": case.check,
        "case": case.case,
        "layout": case.layout,
        "method": case.method,
        "system": case.partition.partition(":")[0],
        "partition": case.partition.partition(":")[2],
        "environ": case.environ,
        "geometry": case.geometry,
        "run": case.run,
        "verdict": case.verdict,
        "cause": case.cause,
        "disturbed": case.disturbed,
        "again": f"/{case.hash}",
    }


LISTS = ("libraries", "nodes", "MPI environment")  # facts that are lists of their items


def _facts(report):
    """What the session's launches ran on and with; where they differ, every answer."""
    found, clocks = {}, []
    for entry in (entry for run in report["runs"] for entry in run["testcases"]):
        facts = dict(entry.get("facts") or {})
        for name in ("lock", "software"):
            facts[name] = entry.get(name) if entry["fixture"] else ""
        facts["nodes"] = ", ".join(entry.get("hosts") or [])
        for name, text in facts.items():
            items = text.split(", ") if name in LISTS and text else [text]
            found.setdefault(name, set()).update(filter(None, items))
        clocks += filter(_finite, [(entry.get("controls") or {}).get("clock")])
    if clocks:
        found["clock"] = [f"{statistics.median(clocks):.1f} GHz"]
    return {name: ", ".join(sorted(items)) for name, items in sorted(found.items()) if items}


def _finite(value):
    return value if _number(value, -sys.float_info.max, sys.float_info.max) else None


# ---- sample files ----


def write_samples(path, session, cases):
    """Writes a sample file; it is whole or not there."""
    path = Path(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(partial, "w", encoding="utf-8") as file:
            for line in (session, *cases):
                file.write(json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from None
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)


def read_samples(path):
    """Yields (session, cases) of a sample file; StoreError names the line that is wrong."""
    session, cases, seen = None, [], set()
    try:
        with open(path, encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                if not text.strip():
                    continue
                line = _parsed(text, f"{path}:{number}")
                if "schema" in line:
                    if session:
                        yield session, cases
                    if line["session"] in seen:
                        raise StoreError(f"{path}:{number}: session {line['session']} again")
                    seen.add(line["session"])
                    session, cases = line, []
                elif session is None:
                    raise StoreError(f"{path}:{number}: a test case before any session")
                else:
                    cases.append(line)
    except (OSError, UnicodeDecodeError) as error:
        raise StoreError(f"cannot read {path}: {error}") from None
    if session is None:
        raise StoreError(f"{path}: no session in it")
    yield session, cases


def contents(path):
    """All (session, cases) of a sample file, a report file of ReFrame, or a results folder."""
    source = Path(path)
    if source.is_dir():
        samples = source / SPOOLED
        source = samples if samples.exists() else source / "report.json"
    if source.suffix != ".json":
        return list(read_samples(source))
    try:
        report = verdicts.load_report(source)
        if report is None:
            raise StoreError(f"there is no {source}")
        return [of_report(report)]
    except BAD_REPORT as error:
        raise StoreError(f"{source}: not a report of ReFrame: {_told(error)}") from None


def _told(error):
    return f"no {error}" if isinstance(error, KeyError) else str(error)


def _texts(value):
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def _named_texts(value):
    return isinstance(value, dict) and all(isinstance(part, str) for part in value.values())


def _number(value, low, high):
    """Whether `value` is a number in [low, high]; NaN is not."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and low <= value <= high


# What a line may hold: field -> whether a value is allowed. The first two must be there.
OF_SESSION = {
    "session": lambda value: isinstance(value, str) and value != "",
    "start": lambda value: _number(value, 0, LAST),
    "tags": _named_texts,
    "facts": _named_texts,
}
OF_CASE = {
    "check": lambda value: isinstance(value, str) and value != "",
    "metrics": lambda value: isinstance(value, dict),
    "run": lambda value: _number(value, 0, RUNS - 1) and value == int(value),
    "disturbed": lambda value: _number(value, 0, 1),
    "hosts": _texts,
    "pair": lambda value: _texts(value) and len(value) in (0, 2),
    "control": lambda value: isinstance(value, bool),
    **dict.fromkeys(
        (
            *("case", "layout", "method", "system", "partition", "environ", "geometry"),
            *("verdict", "cause", "again"),
        ),
        lambda value: isinstance(value, str),
    ),
}


def _parsed(text, where):
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        raise StoreError(f"{where}: not JSON, or cut short: {text.strip()[:40]}") from None
    if not isinstance(line, dict):
        raise StoreError(f"{where}: not an object")
    fields = OF_SESSION if "schema" in line else OF_CASE
    for index, (key, allowed) in enumerate(fields.items()):
        if (index < 2 or line.get(key) is not None) and not allowed(line.get(key)):
            raise StoreError(f"{where}: {key} is {json.dumps(line.get(key))[:60]}")
    if "schema" in line:
        if line["schema"] != SCHEMA or line.get("version") != VERSION:
            raise StoreError(
                f"{where}: schema {line['schema']!r} version {line.get('version')!r}; "
                f"{SCHEMA!r} version {VERSION} can be read"
            )
        return line
    for name, metric in line["metrics"].items():
        if not (isinstance(metric, list) and len(metric) == 3 and isinstance(metric[1], str)):
            raise StoreError(f"{where}: metric {name} is not [value, unit, better]")
        if metric[2] not in ("lower", "higher"):
            raise StoreError(f"{where}: metric {name}: {metric[2]!r} is not lower or higher")
        number = isinstance(metric[0], (int, float)) and not isinstance(metric[0], bool)
        if metric[0] is not None and not number:
            raise StoreError(f"{where}: metric {name}: {json.dumps(metric[0])} is not a number")
    return line


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
            raise kind(f"{self.path}: {error}") from None

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
                samples.append((number, test, metric, turn, _finite(value)))
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


def synchronise(store, home):
    """Stores what ReFrame's database and the results folders have and the store has not. Returns
    how many sessions that were; what cannot be read is told when all else is stored."""
    known = {session.uuid for session in store.sessions()}
    added, fault = 0, None
    for path in sorted((Path(home) / "results").glob(f"*/{SPOOLED}")):
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
                        text = f"{path}: session {name}: not a report of ReFrame: {_told(error)}"
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
        return str(error) if reached and "locked" not in str(error) else ""
    return "" if found == "ok" else found


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
