"""What a session leaves: samples of every metric of every test, as JSON lines.

A sample file is one that `bisection run` leaves in its results folder, or any other tool writes:

    {"schema": "bisection-samples", "version": 1, "session": "7f3c...", "start": 1795249161.9,
     "tags": {"tier": "nightly"}, "facts": {"MPI": "Open MPI 4.1.4"}}
    {"check": "transpose", "case": "cnt40", "layout": "mpi", "method": "p2p", "system": "generic",
     "partition": "default", "environ": "system", "geometry": "2x1", "run": 0, "verdict": "pass",
     "cause": "", "disturbed": 0.0, "hosts": ["n1"], "control": false, "again": "/1a2b3c4d",
     "metrics": {"time": [8.9e-05, "s", "lower"]}}

A line with `schema` begins a session, the others are its test cases until the next. Of a session,
`schema`, `version`, `session` and `start` (Unix time) must be there, of a test case `check` and
`metrics`; a metric is [value or null, unit, "lower" or "higher", whichever is better]. `run` tells
the jobs of one test in one session apart; equal ones are counted on. `control` marks what measures
the cores alone; "pair": ["n1", "n2"] in a test case says that it is of two nodes. A session stands
once in a file.
"""

import contextlib
import json
import os
import sys
from pathlib import Path

SCHEMA, VERSION = "bisection-samples", 1
LAST = 2**37  # s: no session starts later
RUNS = 2**20  # of one test in one session
SPOOLED = "samples.jsonl"  # in a results folder


class StoreError(Exception):
    """The store or a sample file cannot be used; the text is one line that says why."""


def finite_or_none(value):
    return value if _number(value, -sys.float_info.max, sys.float_info.max) else None


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


def told(error):
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
