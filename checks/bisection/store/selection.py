"""Naming stored sessions on the command line.

    latest, latest~3       the newest, the one three before it
    earlier, earlier:20    all, or the last 20, before the other side, of its tiers and systems;
                           without those tagged `slower`: SLOWER THAN BEFORE, or suspected of it
    2026-11-20             a day (UTC); 2026-11-01..2026-11-20 all of these days, either end open
    phase=before           a tag, as given to `bisection run --tag phase=before`
    7f3c9a                 the beginning of a session's identifier
    FOLDER or FILE         a results folder or a sample file, which is stored first

Several with commas between are all of them.
"""

import math
import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

from bisection.core.verdicts import BisectionError
from bisection.store.database import Session, Store
from bisection.store.sources import import_file

HELP = "latest, latest~N, earlier, a day, DAY..DAY, TAG=VALUE, an identifier, a folder, a file"
SLOWER = "slower"  # a tag: of sessions that were, or may have been, slower than all before
EARLIER = "earlier:20"  # what a session is set beside unless told otherwise
DAY = r"\d{4}-\d{2}-\d{2}"


class SelectionError(BisectionError):
    """The text names no session; the message is one line with the text and what there is."""


def select(text: str, store: Store, other: Sequence[Session] = ()) -> list[Session]:
    """The sessions that a text names, oldest first.

    Args:
        text: see above.
        store: where they are stored.
        other: the sessions of the other side, which "earlier" sessions are before.

    Raises:
        SelectionError: the text names none.
        StoreError: a file that it names cannot be read.
    """
    found = {}
    if not store.count() and not Path(text).exists():
        raise SelectionError(_known(store))
    for word in filter(None, (part.strip() for part in text.split(","))):
        for session in _of_word(word, store, other):
            found[session.uuid] = session
    if not found:
        raise SelectionError(f"{text!r} names no session: {_known(store)}")
    return sorted(found.values(), key=lambda session: (session.start, session.id))


def _of_word(word: str, store: Store, other: Sequence[Session]) -> list[Session]:
    sessions = store.sessions()
    if match := re.fullmatch(r"latest(?:~(\d+))?", word):
        back = int(match[1] or 0)
        if back >= len(sessions):
            raise SelectionError(f"{word!r}: {_known(store)}")
        return [sessions[-1 - back]]
    if match := re.fullmatch(r"earlier(?::(\d+))?", word):
        return _earlier(sessions, other, int(match[1]) if match[1] else None)
    if match := re.fullmatch(rf"({DAY})|({DAY})?\.\.({DAY})?", word):
        first, last = (match[1], match[1]) if match[1] else (match[2], match[3])
        return _of_days(word, first, last, sessions)
    if found := [session for session in sessions if session.uuid == word]:
        return found
    name, equals, value = word.partition("=")
    if found := [s for s in sessions if equals and s.tags.get(name) == value]:
        return found
    if "/" in word or _is_path(word):
        return _of_path(Path(word), store)
    found = [session for session in sessions if session.uuid.startswith(word)]
    if len(found) > 1:
        raise SelectionError(f"{word!r} begins {len(found)} identifiers; give more of it")
    return found


def _is_path(word: str) -> bool:
    try:
        return Path(word).exists()
    except OSError:  # longer than a path may be
        return False


def _of_days(
    word: str, first: str | None, last: str | None, sessions: Sequence[Session]
) -> list[Session]:
    try:
        begin = _midnight(first).timestamp() if first else -math.inf
        end = (_midnight(last) + timedelta(days=1)).timestamp() if last else math.inf
    except (ValueError, OverflowError):
        raise SelectionError(f"{word!r}: no such day; days are YYYY-MM-DD") from None
    return [session for session in sessions if begin <= session.start < end]


def _midnight(day: str) -> datetime:
    return datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=timezone.utc)


def _earlier(
    sessions: Sequence[Session], other: Sequence[Session], most: int | None
) -> list[Session]:
    if not other:
        raise SelectionError("'earlier' is before the other side; name that one otherwise")
    kinds, names = {kind_of(session) for session in other}, {session.uuid for session in other}
    start = min(session.start for session in other)
    found = [
        session
        for session in sessions
        if session.start <= start
        and session.uuid not in names
        and kind_of(session) in kinds
        and SLOWER not in session.tags
    ]
    return found if most is None else found[-most:] if most else []


def kind_of(session: Session) -> tuple[str | None, ...]:
    """What sessions of one kind have in common."""
    return tuple(session.tags.get(name) for name in ("tier", "system", "environ", "arguments"))


def _of_path(path: Path, store: Store) -> list[Session]:
    """Sessions of a results folder or a sample file; both are stored if they are not yet."""
    found, _ = import_file(store, store.path.parent, path)
    names = {session["session"] for session, _ in found}
    return [session for session in store.sessions() if session.uuid in names]


def _known(store: Store) -> str:
    sessions = store.sessions()
    if not sessions:
        return "the store is empty; `bisection run` fills it"
    days = [
        datetime.fromtimestamp(session.start, timezone.utc).strftime("%Y-%m-%d")
        for session in (sessions[0], sessions[-1])
    ]
    return f"there are {len(sessions)}, of {days[0]} to {days[1]}"
