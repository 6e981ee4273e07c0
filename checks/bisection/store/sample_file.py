"""Sample files: the sessions that the store is made from, as JSON lines.

    {"schema": "bisection-samples", "version": 4, "session": "7f3c...", "start": 1795249161.9,
     "tags": {"system": "lab", "tier": "nightly"}, "facts": {"MPI": "Open MPI 4.1.4"}}
    {"check": "transpose", "case": "cnt40", "layout": "mpi", "method": "p2p", "system": "localhost",
     "partition": "default", "environ": "system", "geometry": "2x1", "hosts": ["n1"],
     "metrics": {"time": [8.9e-05, "s", "lower"]}}

sample.schema.json beside this file says what each field means and which must be there. The last
line of a run's file has its verdict, of which verdict.json is made.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from bisection.core.paths import regular, write_whole
from bisection.core.verdicts import BisectionError

SCHEMA, VERSION = "bisection-samples", 4
MANY = 8  # hosts: more are listed once
HUGE = 1e300  # no metric is that large
SPOOLED = "samples.jsonl"  # in a results folder
VERDICT = '{"verdict":'  # how the line with the verdict on a session begins

Line = dict[str, Any]
Contents = tuple[Line, list[Line]]  # a session and its test cases


class StoreError(BisectionError):
    """The store or a sample file cannot be used; the text is one line that says why."""


def finite_or_none(value: Any) -> float | None:
    """A finite number as it is; None for anything else, and for what sums would overflow."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return value if number and abs(value) < HUGE else None


def write_samples(path: Path | str, session: Line, cases: Iterable[Line]) -> None:
    """Writes a sample file; it is whole or not there. StoreError: it cannot be written, or a value
    is not what JSON can hold."""
    lines = (
        json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n"
        for line in (session, *_with_hosts_once(cases))
    )
    try:
        write_whole(path, lines)
    except (OSError, ValueError) as error:
        raise StoreError(f"cannot write {path}: {getattr(error, 'strerror', error)}") from None


def _with_hosts_once(cases: Iterable[Line]) -> Iterator[Line]:
    """Test cases in which many hosts are the number of the first test case that has them."""
    known: dict[tuple[str, ...], int] = {}
    for number, case in enumerate(cases):
        hosts = tuple(case.get("hosts") or ())
        first = known.setdefault(hosts, number) if len(hosts) > MANY else number
        yield case if first == number else {**case, "hosts": first}


def read_samples(path: Path | str) -> Iterator[Contents]:
    """Yields each session of a sample file with its test cases, once the whole file is read.
    StoreError names the line that is wrong."""
    sessions: dict[str, Contents] = {}
    cases: list[Line] | None = None
    try:
        with open(regular(path), encoding="utf-8") as file:
            for number, text in enumerate(file, 1):
                where = f"{path}:{number}"
                if not text.strip() or text.startswith(VERDICT):
                    continue
                line = _parsed(text, where)
                if "schema" in line:
                    name = line["session"]
                    cases = []
                    if name in sessions:
                        raise StoreError(f"{where}: session {name} twice")
                    sessions[name] = line, cases
                elif cases is None:
                    raise StoreError(f"{where}: a test case before any session")
                else:
                    if isinstance(place := line.get("hosts"), int):
                        if place >= len(cases):
                            raise StoreError(f"{where}: hosts is {place}: no test case before it")
                        line["hosts"] = cases[place].get("hosts")
                    cases.append(line)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error  # without the path, again
        raise StoreError(f"cannot read {path}: {reason}") from None
    if not sessions:
        raise StoreError(f"{path}: no session in it")
    yield from sessions.values()


def add_verdict(path: Path, verdict: Mapping[str, Any]) -> None:
    """Puts the verdict on a session at the end of its sample file, in place of one that is there.
    OSError: it cannot be written."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    lines = [line for line in lines if not line.startswith(VERDICT)]
    write_whole(path, [*lines, f"{VERDICT} {json.dumps(verdict)}}}\n"])


def verdict_in(path: Path) -> dict[str, Any] | None:
    """The verdict in a sample file; None without one. OSError, ValueError: it cannot be read."""
    with open(regular(path), encoding="utf-8") as file:
        lines = [line for line in file if line.startswith(VERDICT)]
    return json.loads(lines[-1])["verdict"] if lines else None


def first_session(path: Path | str) -> str | None:
    """The identifier of a sample file's first session; None if it cannot be read."""
    try:
        with open(regular(path), encoding="utf-8") as file:
            return json.loads(file.readline()).get("session")
    except (OSError, ValueError, AttributeError, RecursionError):
        return None


@cache
def _validator(kind: str) -> Callable[[Line], Line]:
    """Checks a line of this kind (session, case). 50 times as fast as jsonschema, which would take
    a minute for a year and a half of nights."""
    import fastjsonschema

    schema = json.loads(Path(__file__).with_name("sample.schema.json").read_text())
    return fastjsonschema.compile(schema["definitions"][kind])


def check_line(line: Line, where: str) -> None:
    """Raises StoreError, naming `where` and the field, if a line is not what the schema allows."""
    from fastjsonschema import JsonSchemaValueException

    try:
        _validator("session" if "schema" in line else "case")(line)
    except JsonSchemaValueException as error:
        if error.rule == "required":
            missing = next(name for name in error.rule_definition if name not in error.value)
            field = ".".join([*error.path[1:], missing])
            raise StoreError(f"{where}: {field} is missing") from None
        field, value = ".".join(error.path[1:]) or "line", json.dumps(error.value)[:60]
        rule = error.message.partition(" must ")[2]
        raise StoreError(f"{where}: {field} is {value}: it must {rule}") from None


def _parsed(text: str, where: str) -> Line:
    try:
        line = json.loads(
            text,
            parse_constant=lambda _: None,  # NaN
            parse_float=lambda number: finite_or_none(float(number)),  # 1e309
        )
    except (ValueError, RecursionError):
        raise StoreError(f"{where}: not JSON, or cut short: {text.strip()[:40]}") from None
    if not isinstance(line, dict):
        raise StoreError(f"{where}: not an object")
    if "schema" in line and (line["schema"] != SCHEMA or line.get("version") != VERSION):
        raise StoreError(
            f"{where}: schema {line['schema']!r} version {line.get('version')!r}, of another "
            f"Bisection; only {SCHEMA!r} version {VERSION} can be read"
        )
    check_line(line, where)
    if "\\ud" in text.lower():
        try:
            json.dumps(line, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise StoreError(f"{where}: half of a surrogate pair: not Unicode text") from None
    return line
