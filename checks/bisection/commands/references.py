"""Makes references from stored sessions.

`propose` makes references for the asserted metrics on the partitions of a system. It shows the
changes of reference/systems/SYSTEM.yaml, and writes them with --write; comments stay. An entry for
several tests changes only if all of them were measured; otherwise each measured test gets an entry
of its own. Limits become wider only with --widen. An entry whose comment begins with `keep` does
not change.

`propose` leaves out sessions that are excluded (`bisection sessions exclude`), tagged (by
`bisection run --tag` or `bisection sessions tag`: an experiment), disturbed, failed or half
measured, and prints how many. --also includes them; so does a tag in --sessions. Sessions with
other hardware or software are mixed only with --mix.
"""

import argparse
import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bisection.analysis import propose
from bisection.core import paths, reference_files
from bisection.core.format import at_least, plural, some
from bisection.core.grouping import grouped
from bisection.core.reasons.launches import span
from bisection.core.reference_files import span_of
from bisection.core.thresholds import LIMITS
from bisection.core.units import COUNTED, KINDS
from bisection.core.verdicts import BisectionError, Exit
from bisection.report.documents import (
    ProposedReference,
    ReferencesDocument,
    add_json,
    shown,
    uuids,
)
from bisection.report.lines import wrapped
from bisection.report.words import defect_line, group
from bisection.sites.reference_edit import EditableReferences
from bisection.sites.site_files import Site, load_site, require_site
from bisection.store.database import Session, Store
from bisection.store.selection import HELP, LeftOutAs, select
from bisection.store.sync import opened

CODES = {
    Exit.FAILED: "the file would change (use --write), or limits would become wider",
    Exit.USAGE: "or the sessions differ",
    Exit.NOT_MEASURED: "too few sessions",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    propose_parser = actions.add_parser("propose", help="make references from stored sessions")
    add = propose_parser.add_argument
    add("--sessions", default="..", metavar="SESSIONS", help=f"{HELP}; default: all")
    least = f"sessions needed for a reference; default: {LIMITS.reference_sessions}"
    few = at_least(3)  # of two, the spread is not known
    add("--least", type=few, default=LIMITS.reference_sessions, metavar="N", help=least)
    add("--kinds", metavar="KINDS", help="ratio,time; default: the kinds that partitions enable")
    also = f"use sessions that are otherwise left out: {','.join(LeftOutAs)}"
    add("--also", type=_reasons, default=(), metavar="REASONS", help=also)
    add("--mix", action="store_true", help="mix sessions of different hardware or software")
    add("--widen", action="store_true", help="also change limits that become wider")
    add("--write", action="store_true", help="write the changes to the file")
    add("--system", default="localhost", metavar="NAME", help="default: localhost")
    add_json(propose_parser)


def _reasons(text: str) -> tuple[str, ...]:
    reasons = tuple(word.strip() for word in text.split(","))
    if unknown := [reason for reason in reasons if reason not in list(LeftOutAs)]:
        known = ", ".join(LeftOutAs)
        raise argparse.ArgumentTypeError(f"{unknown[0]!r}: allowed are {known}")
    return reasons


def act(options: argparse.Namespace) -> Exit:
    kinds = options.kinds.split(",") if options.kinds else None
    if kinds and set(kinds) - set(KINDS):
        raise BisectionError(f"--kinds {options.kinds}: {', '.join(KINDS)} are allowed")
    require_site(options.system)
    site = load_site(options.system)
    if not site.cases:
        defects = "; ".join(map(defect_line, site.defects))
        raise BisectionError(defects or f"no check runs on {options.system}")
    target = reference_files.path(site.name)
    try:
        header = propose.HEADER.format(system=site.name, made_by=propose.MADE_BY)
        file = EditableReferences(target, header)
        with opened(paths.home()) as store:
            sessions, left_out, notes = _used(store, site, options)
            proposal = propose.propose(store, sessions, site, kinds, options.least)
        changed = propose.amend(proposal, file, site, options.widen)
    except ValueError as error:
        raise BisectionError(str(error)) from None
    notes += _notes(proposal, options.least)
    new = file.text() if changed else file.before
    if changed and options.write:
        target.parent.mkdir(parents=True, exist_ok=True)
        paths.write_whole(target, new)
    document = ReferencesDocument(
        exit_code=_exit_code(proposal, changed, options.write),
        system=site.name,
        file=paths.shown(target),
        changes=changed,
        written=changed and options.write,
        entries=_listed(proposal.entries),
        too_wide=_listed(proposal.wide),
        too_few=_listed(proposal.few),
        not_widened=_staying(proposal.wider),
        kept=_staying(proposal.kept),
        not_changed={" / ".join(place): tests for place, tests in proposal.shared},
        not_measured=[propose.test_name(case) for case in proposal.unmeasured],
        used=uuids(sessions),
        left_out={reason.value: uuids(group) for reason, group in left_out.items()},
        notes=notes,
    )
    print(shown(options, document, _text(document, file.before, new)))
    return document.exit_code


def _exit_code(proposal: propose.Proposal, changed: bool, writes: bool) -> Exit:
    if not proposal.entries or (proposal.shared and not changed):
        return Exit.NOT_MEASURED
    return Exit.FAILED if proposal.wider or (changed and not writes) else Exit.OK


def _text(document: ReferencesDocument, before: str, after: str) -> Iterable[str]:
    """The proposal as lines of text: the changes of the file, the notes, what became of it."""
    if not document.entries:
        return wrapped(*document.notes, "no reference to propose")
    texts = before.splitlines(), after.splitlines()
    diff = difflib.unified_diff(*texts, document.file, "proposed", lineterm="")
    left = len(document.not_changed) + len(document.not_widened) + len(document.kept)
    unchanged = f"unchanged, {plural(left, 'entry', 'entries')} above" if left else ""
    end = f"{document.file}: {unchanged or 'as proposed already'}"
    if document.changes:
        written = f"{document.file}: written"
        end = written if document.written else f"not written: --write changes {document.file}"
    return [*diff, *wrapped(*document.notes), end]


def _listed(entries: Iterable[propose.Entry]) -> list[ProposedReference]:
    return [_entry(entry) for entry in entries]


def _staying(pairs: Iterable[tuple[propose.Entry, Sequence[Any]]]) -> list[ProposedReference]:
    return [_entry(entry, [*present]) for entry, present in pairs]


def _entry(entry: propose.Entry, present: Sequence[Any] | None = None) -> ProposedReference:
    case, names = entry.case, ("environ", "check", "geometry", "case", "method")
    return ProposedReference(
        partition=case["$partition"],
        **{name: case["$environ" if name == "environ" else name] for name in names},
        metric=entry.metric,
        unit=entry.unit,
        bounds=entry.bounds,
        spread=entry.sigma,
        sessions=uuids(entry.nights),
        present=present,
    )


def _used(
    store: Store, site: Site, options: argparse.Namespace
) -> tuple[list[Session], dict[LeftOutAs, list[Session]], list[str]]:
    """The sessions to make references from, the others by reason, and lines on both."""
    asked = select(options.sessions, store, excluded_too=True)
    words = options.sessions.split(",")
    used, left_out = propose.usable(store, asked, site, options.also, tags=words)
    notes = [f"used: {group([asdict(session) for session in used])}" if used else "used: none"]
    notes += [f"left out: {_counted(left_out)}"] if left_out else []
    differing = propose.mixed(used)
    for name, texts in differing.items():
        counts = (f"{text} ({plural(count, 'session')})" for text, count in texts.items())
        notes.append(f"mixed: {name}: {'; '.join(counts)}")
    if differing and not options.mix:
        if not options.json:
            print("\n".join(wrapped(*notes)))
        raise BisectionError(
            f"the sessions differ in {', '.join(differing)}: choose by --sessions, exclude some "
            "(`bisection sessions exclude`), or allow it by --mix"
        )
    return used, left_out, notes


def _counted(left_out: Mapping[LeftOutAs, Sequence[Session]]) -> str:
    """Returns how many sessions are left out, by reason; of tagged ones, the tags."""
    counts = []
    for reason, sessions in left_out.items():
        tags = {f"{name}={text}" for s in sessions for name, text in s.own_tags.items()}
        which = f" ({some(sorted(tags), 3)})" if reason == LeftOutAs.TAGGED else ""
        counts.append(f"{len(sessions)} {reason}{which}")
    return f"{', '.join(counts)} (--also REASON uses them)"


def _notes(proposal: propose.Proposal, least: int) -> Iterable[str]:
    """Lines on what has no reference, or keeps the one it has, and why."""
    for entry in (entry for entry in proposal.wide if entry.unit in COUNTED):
        values = sorted({count for night in entry.nights.values() for count in night})
        yield f"no reference: {entry.name} was {' and '.join(f'{n:g}' for n in values[:4])}"
    spread = [entry for entry in proposal.wide if entry.unit not in COUNTED]
    for check, entries in grouped(spread, lambda entry: entry.case["check"]).items():
        example = f"{entries[0].name}: {entries[0].sigma:.0%} between sessions"
        yield f"too wide for a reference: {len(entries)} of {check}, such as {example}"
    for entry, old in proposal.wider:
        now, then = (span(*span_of(bounds)) for bounds in (entry.bounds or old, old))
        yield f"not widened: {entry.name}: {then} would become {now}; --widen allows it"
    for entry, old in proposal.kept:
        yield f"kept, by its comment: {entry.name}: {span(*span_of(old))}"
    for place, tests in proposal.shared:
        yield f"not changed: {' / '.join(place)}: without enough sessions of {some(tests, 2)}"
    environs = grouped(proposal.unmeasured, lambda case: case["$environ"])
    for environ, cases in environs.items():
        parts = grouped(cases, lambda case: case["check"]).items()
        names = (f"{check} {some(sorted({c['case'] for c in alike}), 4)}" for check, alike in parts)
        count = plural(len(cases), "test")
        yield f"not measured in environment {environ}: {count}: {'; '.join(names)}"
    if proposal.few:
        checks = Counter(entry.case["check"] for entry in proposal.few)
        counts = ", ".join(f"{count} of {check}" for check, count in checks.items())
        yield f"fewer than {least} sessions: {counts}"
