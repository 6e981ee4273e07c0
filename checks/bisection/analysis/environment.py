"""What of the environment changed between sessions."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from bisection.analysis.model import Change, Event
from bisection.core.thresholds import LIMITS
from bisection.store.database import Session


def changes(before: Sequence[Session], after: Sequence[Session]) -> Iterator[Change]:
    """Yields the facts that both sides record and that are not the same."""
    for name in dict.fromkeys(name for session in (*before, *after) for name in session.facts):
        old, new = (_different(s.facts.get(name) for s in side) for side in (before, after))
        if name == "libraries":
            old, new = _comparable(old, new)
        if not (old and new) or set(old) == set(new):
            continue
        if len(old) == len(new) == 1 and ", " in old[0] + new[0]:  # lists: the items that differ
            items = [text.split(", ") for text in (old[0], new[0])]
            old, new = (
                [", ".join(item for item in mine if item not in theirs) or "none"]
                for mine, theirs in (items, items[::-1])
            )
        yield Change(name, " | ".join(old), " | ".join(new))


def _different(texts: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(filter(None, texts)))


def _comparable(old: list[str], new: list[str]) -> tuple[list[str], list[str]]:
    """Lists of libraries without those that one side has in addition: fewer kernels ran on the
    other side. Libraries that both sides have alone replace each other, and stay."""
    first, second = (
        {item.partition(" ")[0] for text in side for item in text.split(", ")}
        for side in (old, new)
    )
    if first - second and second - first:
        return old, new

    def common(text: str) -> str:
        items = text.split(", ")
        return ", ".join(item for item in items if item.partition(" ")[0] in first & second)

    return _different(map(common, old)), _different(map(common, new))


def note_causes(
    event: Event, sessions: Sequence[Session], chances: np.ndarray, nights: Iterable[int]
) -> None:
    """Adds what of the environment changed when an event began, or may have begun. It was the same
    in the nights before, and in those since: the nodes of a job that the scheduler chooses each
    night are not among it."""
    for night in nights:
        before = sessions[max(0, night - LIMITS.cause_nights) : night]
        after = sessions[night : night + LIMITS.cause_nights]
        for change in changes(before, after):
            texts = ({s.facts.get(change.what) for s in side} for side in (before, after))
            if any(len(side - {None, ""}) > 1 for side in texts):
                continue
            if chances[night] >= LIMITS.cause_chance:
                event.changes.append(change)
            else:
                event.candidates.append((change, float(chances[night])))
    event.candidates.sort(key=lambda candidate: -candidate[1])
