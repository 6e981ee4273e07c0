"""Lists stored sessions; tags experiments, excludes or forgets sessions.

`list` (the default) prints the sessions, the newest last. SESSIONS are named as for `bisection
compare`; here every word also selects excluded sessions. Below a session, the list has its tags,
the reason of its exclusion, and the changes of hardware and software since the session before.

`exclude` keeps sessions in the store, and leaves them out of comparisons (`earlier`, days, tags,
`latest`), histories, references and advice. `include` undoes that. `tag` adds a tag, and
NAME= removes it; tagged sessions make no references. `forget` removes sessions from the store, and
`bisection import` does not restore them; results folders stay. `restore` undoes that.
Exit code: 0 done, 2 usage.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

from bisection.analysis.model import Change, changes
from bisection.analysis.propose import ALIKE
from bisection.core import paths
from bisection.core.format import plural, short, some, utc
from bisection.core.verdicts import BisectionError, Exit
from bisection.report.lines import WIDTH, wrapped
from bisection.report.tables import columns
from bisection.runs.command import tag
from bisection.store.database import Session, Store, Tally
from bisection.store.marks import Mark, results_of
from bisection.store.selection import HELP, NONE_STORED, Selection, select
from bisection.store.sync import opened, synchronise


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    parser.set_defaults(sessions=[], json=False)
    actions = parser.add_subparsers(dest="action", metavar="ACTION")
    listing = actions.add_parser("list", help="print sessions (the default)")
    listing.add_argument("--json", action="store_true", help="print JSON, with all facts")
    tagging = actions.add_parser("tag", help="tag sessions")
    tagging.add_argument("tag", metavar="NAME=VALUE", type=tag, help="NAME= removes the tag")
    excluding = actions.add_parser("exclude", help="leave sessions out of all analyses")
    excluding.add_argument("-m", "--reason", metavar="TEXT", required=True, type=_text)
    including = actions.add_parser("include", help="undo `exclude`")
    forgetting = actions.add_parser("forget", help="remove sessions from the store for good")
    restoring = actions.add_parser("restore", help="undo `forget`")
    for action in (listing, tagging, excluding, including, forgetting, restoring):
        many = "*" if action is listing else "+"
        names = "identifiers that `list` prints" if action is restoring else HELP
        action.add_argument("sessions", nargs=many, metavar="SESSIONS", help=names)


def _text(text: str) -> str:
    if not text.strip():
        raise argparse.ArgumentTypeError("the text is empty")
    return " ".join(text.split())


def act(options: argparse.Namespace) -> Exit:
    """Runs the subcommand; returns its exit code."""
    with opened(paths.home()) as store:
        if options.action == "restore":
            lines = restored(store, options.sessions)
        elif options.action in (None, "list"):
            lines = listed(store, options.sessions, options.json)
        else:
            chosen = select(",".join(options.sessions), store, excluded_too=True)
            lines = marked(store, chosen, options)
    print("\n".join(lines))
    return Exit.OK


# ---- the list ----


def listed(store: Store, words: Sequence[str], as_json: bool) -> list[str]:
    """The sessions that `words` name, all without words, as lines of text or of JSON."""
    chosen = store.sessions()
    if words:
        chosen = select(",".join(words), store, excluded_too=True)
    tallies, forgotten = store.tallies(), store.forgotten()
    rows = [(s, tallies.get(s.id, Tally()), differences) for s, differences in beside_last(chosen)]
    if as_json:
        content = {"sessions": [_as_json(*row) for row in rows], "forgotten": forgotten}
        return [json.dumps(content, indent=1)]
    lines = _table(rows) if rows else [NONE_STORED]
    if forgotten:
        names = some([name[:8] for name in forgotten], 4)
        lines.append(f"forgotten: {names} (`bisection sessions restore` brings them back)")
    return lines


def beside_last(sessions: Iterable[Session]) -> Iterable[tuple[Session, list[Change]]]:
    """Each session, and what of its hardware and software differs from what sessions before it on
    the same system recorded last."""
    last: dict[str | None, Session] = {}
    for session in sessions:
        system = session.tags.get("system")
        before = last.get(system, session)
        differing = [change for change in changes([before], [session]) if change.what in ALIKE]
        yield session, differing
        last[system] = replace(session, facts={**before.facts, **session.facts})


def _table(rows: Sequence[tuple[Session, Tally, list[Change]]]) -> list[str]:
    """A line per session, with lines on it below; what all sessions share stands above once."""
    names = ("system", "tier", "environ")
    shared = {n: {session.tags.get(n, "") for session, *_ in rows} for n in names}
    varying = [name for name in names if len(shared[name]) > 1]
    alike = [name for name in names if len(shared[name]) == 1]
    same = [f"{name} {short(text)}" for name in alike for text in shared[name]]
    cells = [["session", "started (UTC)", *varying, "verdict", "passed", "preempted"]]
    for session, tally, _ in rows:
        tags = [short(session.tags.get(name, ""), 12) for name in varying]
        passed = f"{tally.counts.get('pass', 0)}/{tally.jobs}"
        started = utc(session.start).removesuffix(" UTC")
        ends = [tally.verdict.upper(), passed, f"{tally.preempted:.0%}"]
        cells.append([session.uuid[:8], started, *tags, *ends])
    head, *lines = columns(cells)
    text = [f"{plural(len(rows), 'session')}: {', '.join(same)}" if same else "", head]
    for line, (session, _, differing) in zip(lines, rows, strict=True):
        own = ", ".join(f"{name}={value}" for name, value in session.own_tags.items())
        short_tags = len(line) + 2 + len(own) <= WIDTH
        line = f"{line}  {own}".rstrip() if short_tags else line
        notes = [] if short_tags else [own]
        notes += [f"excluded: {session.excluded}"] if session.excluded else []
        notes += [f"changed: {c.what}: {c.before} -> {c.after}" for c in differing]
        text += [line, *wrapped(*notes, indent="    ")]
    return [line for line in text if line]


def _as_json(session: Session, tally: Tally, differing: Sequence[Change]) -> dict[str, Any]:
    return {
        "session": session.uuid,
        "start": session.start,
        "tags": session.tags,
        "facts": session.facts,
        "excluded": session.excluded or None,
        "verdict": tally.verdict,
        "jobs": tally.counts,
        "preempted": tally.preempted,
        "changed": {change.what: [change.before, change.after] for change in differing},
    }


# ---- notes ----


def marked(store: Store, chosen: Selection, options: argparse.Namespace) -> list[str]:
    """Notes about sessions what the command line asks for; returns a line on each of them."""
    folders = results_of(paths.home(), [session.uuid for session in chosen])
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    lines = []
    with store.marking() as marks:
        for session in chosen:
            mark = marks.setdefault(session.uuid, Mark())
            if options.action == "tag":
                name, _, mark.tags[name] = options.tag.partition("=")
                done = f"tagged {options.tag}" if mark.tags[name] else f"tag {name} removed"
            elif options.action == "exclude":
                mark.excluded = options.reason
                done = f"excluded: {options.reason}"
            elif options.action == "include":
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
