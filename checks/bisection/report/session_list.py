"""Stored sessions as a list."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from bisection.analysis.environment import changes
from bisection.analysis.model import Change
from bisection.analysis.propose import ALIKE
from bisection.core import paths
from bisection.core.format import plural, short, some, utc
from bisection.core.verdicts import Verdict
from bisection.report.documents import SessionsDocument, StoredSession
from bisection.report.lines import WIDTH, wrapped
from bisection.report.text_tables import columns
from bisection.store.database import Session, Store, Tally, own_tags
from bisection.store.marks import results_of
from bisection.store.selection import NONE_STORED


def listed(store: Store, chosen: Iterable[Session]) -> SessionsDocument:
    """These sessions, and which are forgotten."""
    tallies, sessions = store.tallies(), []
    for session, differing in beside_last(chosen):
        tally = tallies.get(session.id, Tally())
        sessions.append(
            StoredSession(
                session=session.uuid,
                start=session.start,
                tags=session.tags,
                facts=session.facts,
                excluded=session.excluded or None,
                verdict=tally.verdict,
                jobs=tally.counts,
                disturbed=tally.disturbed,
                changed={change.what: (change.before, change.after) for change in differing},
            )
        )
    return SessionsDocument(sessions=sessions, forgotten=store.forgotten())


def list_text(document: SessionsDocument) -> list[str]:
    """The list as lines of text."""
    lines = _table(document.sessions) if document.sessions else [NONE_STORED]
    if document.forgotten:
        names = some([name[:8] for name in document.forgotten], 4)
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


def _table(sessions: Sequence[StoredSession]) -> list[str]:
    """A line per session, with lines on it below; what all sessions share stands above once."""
    names = ("system", "tier", "environ")
    shared = {n: {session.tags.get(n, "") for session in sessions} for n in names}
    varying = [name for name in names if len(shared[name]) > 1]
    alike = [name for name in names if len(shared[name]) == 1]
    same = [f"{name} {short(text)}" for name in alike for text in shared[name]]
    cells = [["session", "started (UTC)", *varying, "verdict", "passed", "disturbed"]]
    for session in sessions:
        tags = [short(session.tags.get(name, ""), 12) for name in varying]
        passed = f"{session.jobs.get(Verdict.PASS, 0)}/{sum(session.jobs.values())}"
        started = utc(session.start).removesuffix(" UTC")
        ends = [session.verdict.upper(), passed, f"{session.disturbed:.0%}"]
        cells.append([session.session[:8], started, *tags, *ends])
    head, *lines = columns(cells)
    text = [f"{plural(len(sessions), 'session')}: {', '.join(same)}" if same else "", head]
    for line, session in zip(lines, sessions, strict=True):
        own = ", ".join(f"{name}={value}" for name, value in own_tags(session.tags).items())
        short_tags = len(line) + 2 + len(own) <= WIDTH
        line = f"{line}  {own}".rstrip() if short_tags else line
        notes = [] if short_tags else [own]
        notes += [f"excluded: {session.excluded}"] if session.excluded else []
        changes = session.changed.items()
        notes += [f"changed: {name}: {before} -> {after}" for name, (before, after) in changes]
        text += [line, *wrapped(*notes, indent="    ")]
    return [line for line in text if line]


def noted(sessions: Sequence[Session], action: str, text: str) -> Iterator[str]:
    """A line on each session that was marked by this action; `sessions`: as they were before."""
    folders = results_of(paths.home(), [session.uuid for session in sessions])
    for session in sessions:
        name, _, value = text.partition("=")
        folder = folders.get(session.uuid)
        stays = f"; its results stay in {paths.shown(folder)}" if folder else ""
        done = {
            "tag": f"tagged {text}" if value else f"tag {name} removed",
            "exclude": f"excluded: {text}",
            "include": "included" if session.excluded else "included already",
            "forget": f"forgotten{stays}",
        }
        yield f"{session.uuid[:8]} of {utc(session.start)}: {done[action]}"


def restored(sessions: Mapping[str, bool]) -> Iterator[str]:
    """A line on each forgotten session: whether it is stored again."""
    gone = "nothing is left of it; `bisection import FILE` stores it from a file"
    for name, is_stored in sessions.items():
        yield f"{name[:8]}: {'stored again' if is_stored else gone}"
