"""Finds metrics that became slower or faster in the stored nights, and since when.

Small changes are found over several nights. Metrics that changed together are one event: its night,
the nights in which it may have begun, and the changes of the environment then. An event stays an
alarm until the metrics recover or `--accept EVENT` accepts its level as normal.
Exit code: 0 no alarm, 1 metrics are worse, 2 usage, 3 too few sessions.
"""

import argparse
from collections.abc import Sequence

from bisection.analysis.events import events_of, tables_of
from bisection.analysis.explain import explain_points
from bisection.analysis.history import histories, regular
from bisection.analysis.model import Event
from bisection.core import paths
from bisection.core.format import number_from, printable, regex, some
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import BisectionError, Exit
from bisection.report.text import history_text
from bisection.store.database import Session, Store
from bisection.store.marks import Mark
from bisection.store.selection import HELP, left_out, select
from bisection.store.sync import opened


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    add = parser.add_argument
    sessions = f"{HELP}; default: the nights of the usual tier, untagged"
    add("sessions", nargs="?", help=sessions)
    add("-n", "--name", metavar="REGEX", type=regex, help="only tests whose names match it")
    rate = "false alarms that a year of nights may raise, over all metrics (default: %(default)g); "
    rate += "a larger number finds small changes earlier"
    number = {"metavar": "N", "type": number_from(0.01, 50), "default": LIMITS.false_alarms}
    add("--false-alarms-per-year", **number, help=rate)
    add("--metrics", action="store_true", help="list the metrics of each event")
    add("-m", "--reason", metavar="TEXT", default="accepted", help="why it is accepted")
    marking = parser.add_mutually_exclusive_group()
    marking.add_argument("--accept", metavar="EVENT", help="accept what got worse since then")
    marking.add_argument("--revoke", metavar="EVENT", help="undo `--accept`")


def act(options: argparse.Namespace) -> Exit:
    """Runs the subcommand; returns its exit code."""
    with opened(paths.home()) as store:
        chosen = select(options.sessions or "..", store)
        sessions, notes = (list(chosen), []) if options.sessions else usual(chosen)
        series = histories(store, sessions, options.name, repeats=True)
        events, more = events_of(tables_of(series, sessions), options.false_alarms_per_year)
        if options.accept or options.revoke:
            mark(store, events, options)
            return Exit.OK
        explain_points([p for event in events for p in event.points], sessions, store)
    notes += [*([str(excluded)] if (excluded := left_out(chosen)) else []), *more]
    print(printable(history_text(events, series, len(sessions), notes, options.metrics)))
    if max((len(history.values) for history in series), default=0) < 2 * LIMITS.level:
        return Exit.NOT_MEASURED
    return Exit.FAILED if any(event.alarm for event in events) else Exit.OK


def usual(chosen: Sequence[Session]) -> tuple[list[Session], list[str]]:
    """The sessions of a history, without experiments and such of the future; notes on those."""
    ahead = [session for session in chosen if session.ahead]
    sessions = regular([session for session in chosen if session not in ahead])
    others = [s for s in chosen if s not in sessions and s not in ahead]
    notes = [
        f"{text}: {some(session.uuid[:8] for session in group)}"
        for text, group in (
            ("ignored, dated in the future (wrong clock)", ahead),
            ("sessions of another tier or selection, or tagged, left out", others),
        )
        if group
    ]
    return sessions, notes


def mark(store: Store, events: Sequence[Event], options: argparse.Namespace) -> None:
    """Accepts what got worse since a session, on all partitions, or takes that back.
    BisectionError: nothing did, or it is not accepted."""
    name = options.accept or options.revoke
    open_to = [event for event in events if (event.worse if options.accept else event.accepted)]
    uuids = list(dict.fromkeys(event.session for event in open_to))
    named = [uuid for uuid in uuids if uuid.startswith(name)]
    if len(named) != 1:
        names = ", ".join(uuid[:8] for uuid in uuids) or "none"
        raise BisectionError(f"{name!r}: no event of this name; events: {names}")
    (uuid,) = named
    with store.marking() as marks:
        if options.accept:
            marks.setdefault(uuid, Mark()).accepted = options.reason
        else:
            near = {s.uuid for event in open_to if event.session == uuid for s in event.near}
            for session in near & marks.keys():
                marks[session].accepted = ""
    print(f"{uuid[:8]}: {'accepted' if options.accept else 'alarm re-enabled'}")
