"""Finds metrics that became slower or faster in the stored nights, and since when.

Small changes are found over several nights. Metrics that changed together are one event. An event
has its night, the nights in which it may have begun, and the changes of the environment then. It
stays an alarm until the metrics recover, or until `--accept EVENT` accepts its level as normal.
"""

import argparse
from collections.abc import Sequence

from bisection.analysis.events import events_of
from bisection.analysis.explain import explain_points
from bisection.analysis.histories import histories, usual
from bisection.analysis.model import Event
from bisection.analysis.night_tables import tables_of
from bisection.core import paths
from bisection.core.format import number_from, regex
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import BisectionError, Exit
from bisection.judge import decision
from bisection.judge.raised import note_raised
from bisection.report.comparison_text import history_text
from bisection.report.documents import HistoryDocument, HistoryEvent, add_json, shown, uuids
from bisection.store.database import Store
from bisection.store.marks import Mark
from bisection.store.selection import HELP, left_out, select
from bisection.store.sync import opened

CODES = {Exit.NOT_MEASURED: "too few sessions", Exit.SLOWER: "metrics, since a session"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    sessions = f"{HELP}; default: the nights of the usual tier, untagged"
    add("sessions", nargs="?", help=sessions)
    add("-n", "--name", metavar="REGEX", type=regex, help="only tests whose names match REGEX")
    rate = "false alarms per year of nights that are aimed at (default: %(default)g); a larger "
    rate += "number detects small changes earlier"
    number = {"metavar": "N", "type": number_from(0.01, 50), "default": LIMITS.false_alarms}
    add("--false-alarms-per-year", **number, help=rate)
    add("--metrics", action="store_true", help="list the metrics of each event")
    add("-m", "--reason", metavar="TEXT", default="accepted", help="reason for --accept")
    add_json(parser)
    marking = parser.add_mutually_exclusive_group()
    marking.add_argument("--accept", metavar="EVENT", help="accept the level since EVENT as normal")
    marking.add_argument("--revoke", metavar="EVENT", help="undo `--accept`")


def act(options: argparse.Namespace) -> Exit:
    if options.json and (options.accept or options.revoke):
        raise BisectionError(
            "--json: the history alone is printed as JSON, no --accept or --revoke"
        )
    with opened(paths.home()) as store:
        chosen = select(options.sessions or "..", store)
        sessions, notes = (list(chosen), []) if options.sessions else usual(chosen)
        series = histories(store, sessions, options.name, repeats=True)
        events, more = events_of(tables_of(series, sessions), options.false_alarms_per_year)
        if name := options.accept or options.revoke:
            reason = (options.reason or "accepted") if options.accept else ""
            named = _accept(store, events, name, reason)
            print(f"{named[:8]}: {'accepted' if options.accept else 'alarm re-enabled'}")
            return Exit.OK
        note_raised(events, series, sessions, options.false_alarms_per_year)
        explain_points([p for event in events for p in event.points], sessions, store)
    notes += [*([str(excluded)] if (excluded := left_out(chosen)) else []), *more]
    alarms, too_short = [e for e in events if e.alarm], sum(not h.is_long for h in series)
    document = HistoryDocument(
        exit_code=decision.of_history(alarms, too_short < len(series)),
        sessions=uuids(sessions),
        metrics=len(series),
        too_short=too_short,
        events=[*map(HistoryEvent.of, events)],
        notes=notes,
    )
    text = history_text(events, series, len(sessions), notes, options.metrics)
    print(shown(options, document, text))
    return document.exit_code


def _accept(store: Store, events: Sequence[Event], name: str, reason: str) -> str:
    """Accepts what got worse since the session that begins with `name`, on all partitions; without
    a reason, takes that back. Returns the session. BisectionError: nothing did, or it is not
    accepted."""
    open_to = [event for event in events if (event.worse if reason else event.accepted)]
    uuids = list(dict.fromkeys(event.session for event in open_to))
    named = [uuid for uuid in uuids if uuid.startswith(name)]
    if len(named) != 1:
        names = ", ".join(uuid[:8] for uuid in uuids) or "none"
        raise BisectionError(f"{name!r}: no event of this name; events: {names}")
    (uuid,) = named
    with store.marking() as marks:
        if reason:
            marks.setdefault(uuid, Mark()).accepted = reason
        else:
            near = {s.uuid for event in open_to if event.session == uuid for s in event.near}
            for session in near & marks.keys():
                marks[session].accepted = ""
    return uuid
