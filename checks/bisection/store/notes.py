"""What people note about stored sessions: tags, sessions to leave out, to forget, to restore."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timezone

from bisection.core import paths
from bisection.core.format import some
from bisection.core.verdicts import BisectionError
from bisection.store.database import Session, Store
from bisection.store.marks import Mark
from bisection.store.sync import synchronise


def mark(store: Store, sessions: Iterable[Session], action: str, text: str = "") -> None:
    """Notes about sessions: tag (`text`: NAME=VALUE, NAME= removes it), exclude (why), include,
    forget."""
    with store.marking() as marks:
        for session in sessions:
            note = marks.setdefault(session.uuid, Mark())
            if action == "tag":
                name, _, note.tags[name] = text.partition("=")
            elif action == "forget":
                note.forgotten = datetime.now(timezone.utc).strftime("%Y-%m-%d")
            else:
                note.excluded = text


def restore(store: Store, words: Sequence[str]) -> dict[str, bool]:
    """Stores forgotten sessions again from what is left of them; returns of each whether anything
    is. BisectionError: a word names none alone."""
    names = []
    for word in words:
        fitting = [name for name in store.forgotten() if name.startswith(word)]
        if len(fitting) != 1:
            known = some([name[:8] for name in store.forgotten()], 4)
            raise BisectionError(f"{word!r} names no forgotten session alone; forgotten: {known}")
        names += fitting
    with store.marking() as marks:
        for name in names:
            marks[name].forgotten = ""
    synchronise(store, paths.home())
    stored = {session.uuid for session in store.sessions()}
    return {name: name in stored for name in names}
