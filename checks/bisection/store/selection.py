"""Naming stored sessions on the command line.

    latest, latest~3       the newest, the one three before it
    earlier, earlier:20    all, or the last 20, before the other side, of its tiers and systems;
                           without those tagged `slower`: SLOWER THAN BEFORE, or with outliers
    2026-11-20             a day (UTC); 2026-11-01..2026-11-20 all of these days, either end open
    phase=before           a tag, as given to `bisection run --tag phase=before`
    7f3c9a                 the beginning of a session's identifier
    FOLDER or FILE         a results folder or a sample file, which is stored first

Several with commas between are all of them. An excluded session (`bisection sessions exclude`) is
named by its identifier, its folder or its file only; all other words leave it out.
"""

import itertools
import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime

from bisection.core.format import plural, some, utc
from bisection.core.reasons.performance import Excluded
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import BisectionError, Verdict, Word
from bisection.store.database import Session, Store, Tally
from bisection.store.sync import import_file

HELP = "latest, latest~N, earlier, a day, DAY..DAY, TAG=VALUE, an identifier, a folder, a file"
SLOWER = "slower"  # a tag: of sessions that were, or may have been, slower than all before
NONE_STORED = "no session is stored; `bisection run` stores one"
EARLIER = "earlier:20"  # what a session is set beside unless told otherwise
DAY = r"\d{4}-\d{2}-\d{2}"


class SelectionError(BisectionError):
    """The text names no session; the message is one line with the text and what there is."""


class Selection(list[Session]):
    """Sessions, oldest first; `excluded` are those that were left out as excluded."""

    def __init__(self, chosen: Iterable[Session], excluded: Iterable[Session] = ()) -> None:
        self.excluded = _in_order(excluded)
        super().__init__(_in_order(chosen))


class LeftOutAs(Word):
    """Reasons to leave a session out of references. The first that applies counts."""

    EXCLUDED = "excluded"
    TAGGED = "tagged"
    DISTURBED = "disturbed"
    FAILED = "failed"
    NOT_MEASURED = "not-measured"


def sides_of(
    before: str, after: str, aa: str | None, store: Store
) -> tuple[Selection, Selection, Selection]:
    """The sessions before and after a change, and those of an A/A test; either of the first two may
    be `earlier` than the other. SelectionError: two of them share a session."""
    later = None if after.startswith("earlier") else select(after, store)
    sooner = select(before, store, later or ())
    later = later or select(after, store, sooner)
    same = select(aa, store, sooner) if aa else Selection([])
    sides = ((before, sooner), (after, later), (aa, same))
    for (name, side), (other_name, other) in itertools.combinations(sides, 2):
        if both := {s.uuid for s in side} & {s.uuid for s in other}:  # compared with itself
            text = f"{name!r} and {other_name!r} both have session {min(both)}"
            raise SelectionError(f"{text}; name other sessions before or after the change")
    return sooner, later, same


def alike(text: str | None, most: int, store: Store) -> list[Session]:
    """The sessions that a text names; without one, the newest of the kind of the latest."""
    if text:
        return select(text, store)
    (newest,) = select("latest", store)
    kind = [each for each in store.sessions() if each.kind == newest.kind]
    return [each for each in kind if not each.excluded][-most:]


def of_no_use(
    store: Store, also: Collection[str] = (), tags: Collection[str] = ()
) -> Callable[[Session], LeftOutAs | None]:
    """A function that says why no reference is made from a stored session; None: it is a night.
    `also`: kinds of LeftOutAs to use nevertheless; sessions with one of the `tags` (NAME=VALUE) are
    not left out as tagged."""
    tallies = store.tallies()

    def why(session: Session) -> LeftOutAs | None:
        tally = tallies.get(session.id, Tally())
        labels = {f"{name}={value}" for name, value in session.own_tags.items()}
        reasons = {
            LeftOutAs.EXCLUDED: bool(session.excluded),
            LeftOutAs.TAGGED: bool(labels) and not labels & set(tags),
            LeftOutAs.DISTURBED: tally.disturbed > LIMITS.disturbed_launch,
            LeftOutAs.FAILED: tally.verdict == Verdict.FAIL,
            LeftOutAs.NOT_MEASURED: tally.measured_part < LIMITS.measured_part,
        }
        return next((r for r, holds in reasons.items() if holds and r not in also), None)

    return why


def left_out(*sides: Sequence[Session]) -> Excluded | None:
    """The Reason that names the excluded sessions of Selections; None if there are none."""
    excluded = _in_order(session for side in sides for session in getattr(side, "excluded", ()))
    return Excluded(tuple(s.uuid[:8] for s in excluded)) if excluded else None


def _in_order(sessions: Iterable[Session]) -> list[Session]:
    by_name = {session.uuid: session for session in sessions}
    return sorted(by_name.values(), key=lambda session: (session.start, session.id))


def select(
    text: str, store: Store, other: Sequence[Session] = (), excluded_too: bool = False
) -> Selection:
    """The stored sessions that a text names. "earlier" ones are before those of the other side.
    `excluded_too`: every word names excluded sessions, too.

    Raises:
        SelectionError: the text names none.
        StoreError: a file that it names cannot be read.
    """
    sessions = store.sessions()
    open_to = [session for session in sessions if excluded_too or not session.excluded]
    chosen: list[Session] = []
    excluded: list[Session] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        unseen: list[Session] = []
        if not (named := [session for session in sessions if session.uuid == word]):
            if (group := _group(word, sessions, other)) is not None:
                named = _group(word, open_to, other) or []
                unseen = [session for session in group if session not in open_to]
            elif "/" in word or os.path.exists(word):
                named = _of_path(word, store)
            else:
                named = [session for session in sessions if session.uuid.startswith(word)]
                if len(named) > 1:
                    text = f"{word!r} begins {len(named)} identifiers; give more of it"
                    raise SelectionError(text)
        if not named:
            raise _names_none(word[:80], sessions, unseen)
        chosen += named
        excluded += unseen
    if not chosen:
        raise _names_none(text, sessions)
    return Selection(chosen, excluded)


def _group(
    word: str, sessions: Sequence[Session], other: Sequence[Session]
) -> list[Session] | None:
    """The sessions that a word names by their time or by a tag; None if it is no such word."""
    if match := re.fullmatch(r"latest(?:~([0-9]{1,9}))?", word):
        back, past = int(match[1] or 0), [s for s in sessions if not s.ahead]
        return [past[-1 - back]] if back < len(past) else []
    if match := re.fullmatch(r"earlier(?::([0-9]{1,9}))?", word):
        if not other:
            raise SelectionError("'earlier' is before the other side; name that one otherwise")
        kinds, names = {session.kind for session in other}, {session.uuid for session in other}
        start = min(session.start for session in other)
        before = [s for s in sessions if s.start <= start and s.uuid not in names]
        before = [s for s in before if s.kind in kinds and SLOWER not in s.tags]
        most = int(match[1] or len(before))
        return before[max(len(before) - most, 0) :]
    if match := re.fullmatch(rf"({DAY})|({DAY})?\.\.({DAY})?", word):
        first, last = (match[1], match[1]) if match[1] else (match[2], match[3])
        try:
            for day in filter(None, (first, last)):
                datetime.strptime(day, "%Y-%m-%d")
        except ValueError:
            raise SelectionError(f"{word!r}: no such day; days are YYYY-MM-DD") from None
        return [s for s in sessions if (first or "") <= utc(s.start)[:10] <= (last or "9999")]
    name, equals, value = word.partition("=")
    return [s for s in sessions if equals and s.tags.get(name) == value] or None


def _of_path(word: str, store: Store) -> list[Session]:
    """Sessions of a results folder or a sample file; both are stored if they are not yet."""
    names, _ = import_file(store, store.path.parent, word)
    if gone := names & store.forgotten().keys():
        name = min(gone)[:8]
        text = f"{word!r}: session {name} is forgotten; `bisection sessions restore {name}`"
        raise SelectionError(text)
    return [session for session in store.sessions() if session.uuid in names]


def _names_none(
    text: str, sessions: Sequence[Session], excluded: Sequence[Session] = ()
) -> SelectionError:
    """The error for a text that names no session, with the sessions to select from."""
    if excluded:
        names = some([session.uuid[:8] for session in excluded], 3)
        there = f"{plural(len(excluded), 'session')} excluded ({names})"
    elif "=" in text and sessions:
        name = text.partition("=")[0]
        values = dict.fromkeys(filter(None, (s.tags.get(name) for s in sessions)))
        tags = dict.fromkeys(f"{n}={v}" for s in sessions for n, v in s.own_tags.items())
        there = f"tag {name} is {some(values)}" if values else f"tags are {some(tags)}"
    elif sessions:
        first, last = (utc(session.start)[:10] for session in (sessions[0], sessions[-1]))
        days = f"of {first}" if first == last else f"of {first} to {last}"
        there = f"{plural(len(sessions), 'session')} stored, {days}"
    else:
        # Commands select ".." by default: nobody typed it.
        return SelectionError(NONE_STORED if text == ".." else f"{text!r}: {NONE_STORED}")
    return SelectionError(f"{text!r} names no session: {there}")
