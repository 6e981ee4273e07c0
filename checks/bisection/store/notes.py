"""What people note about stored sessions: tags, sessions to leave out, to forget, to restore."""

from collections.abc import Sequence
from datetime import datetime, timezone

from bisection.core import paths
from bisection.core.format import some, utc
from bisection.core.verdicts import BisectionError
from bisection.store.database import Store
from bisection.store.marks import Mark, results_of
from bisection.store.selection import Selection
from bisection.store.sync import synchronise


def marked(store: Store, chosen: Selection, action: str, text: str = "") -> list[str]:
    """Notes about sessions, by an action: tag (`text`: NAME=VALUE), exclude (why), include, forget.
    Returns a line on each of them."""
    folders = results_of(paths.home(), [session.uuid for session in chosen])
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    lines = []
    with store.marking() as marks:
        for session in chosen:
            mark = marks.setdefault(session.uuid, Mark())
            if action == "tag":
                name, _, mark.tags[name] = text.partition("=")
                done = f"tagged {text}" if mark.tags[name] else f"tag {name} removed"
            elif action == "exclude":
                mark.excluded = text
                done = f"excluded: {text}"
            elif action == "include":
                mark.excluded = ""
                done = "included" if session.excluded else "included already"
            else:
                mark.forgotten = today
                folder = folders.get(session.uuid)
                stays = f"; its results stay in {paths.shown(folder)}" if folder else ""
                done = f"forgotten{stays}"
            lines.append(f"{session.uuid[:8]} of {utc(session.start)}: {done}")
    return lines


def restored(store: Store, words: Sequence[str]) -> list[str]:
    """Stores forgotten sessions again from what is left of them; returns a line on each."""
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
    gone = "nothing is left of it; `bisection import FILE` stores it from a file"
    return [f"{name[:8]}: {'stored again' if name in stored else gone}" for name in names]
