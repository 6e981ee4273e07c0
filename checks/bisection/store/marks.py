"""Notes of people about stored sessions: tags, sessions to leave out, sessions to forget.

The notes are in sessions.json beside the store, because the store can be made again from results
and the notes cannot:

    {"version": 1, "sessions": {
        "7f3c9a...": {"tags": {"fan": "broken"}, "excluded": "MPI through TCP"},
        "a4fe4d...": {"forgotten": "2026-11-21"}}}
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bisection.core.paths import store_db, write_whole
from bisection.store.sample_file import SPOOLED, StoreError, first_session

VERSION = 1


@dataclass
class Mark:
    """The notes about one session."""

    tags: dict[str, str] = field(default_factory=dict)  # added by hand; "" removes a tag
    excluded: str = ""  # why its numbers are left out; "" if they are not
    accepted: str = ""  # why what got worse since this session is no alarm; "" if it is
    forgotten: str = ""  # the day it was forgotten, YYYY-MM-DD; "" if it was not


def marks_file(store: Path) -> Path:
    return store.with_name("sessions.json")


def read_marks(path: Path) -> dict[str, Mark]:
    """The marks in a file: {session: Mark}; empty if there is no file. StoreError: it cannot be
    read, or is not a file of marks."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["version"] > VERSION:
            raise StoreError(f"{path} has version {content['version']}, of a newer Bisection")
        return {name: Mark(**mark) for name, mark in content["sessions"].items()}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error.strerror}") from None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise StoreError(f"{path}: not a file of session marks: {error}") from None


def write_marks(path: Path, marks: Mapping[str, Mark]) -> None:
    """Writes a file of marks whole, or raises StoreError."""
    parts = {name: {k: v for k, v in vars(mark).items() if v} for name, mark in marks.items()}
    content = {"version": VERSION, "sessions": {name: part for name, part in parts.items() if part}}
    try:
        write_whole(path, json.dumps(content, indent=1) + "\n")
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from None


def results_of(home: Path, sessions: Collection[str]) -> dict[str, Path]:
    """The results folders of these sessions that `home` still has: {session: folder}."""
    names = {first_session(path): path.parent for path in home.glob(f"results/*/{SPOOLED}")}
    return {name: folder for name, folder in names.items() if name and name in sessions}


def excluded_folders(home: Path) -> list[Path]:
    """The results folders in `home` of sessions that are excluded or forgotten."""
    marks = read_marks(marks_file(store_db(home)))
    names = {name for name, mark in marks.items() if mark.excluded or mark.forgotten}
    return sorted(results_of(home, names).values())
