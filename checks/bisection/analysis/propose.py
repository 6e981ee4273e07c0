"""References made from stored sessions, and whether they are still true."""

import functools
import itertools
import math
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bisection.analysis.bounds import bounds
from bisection.analysis.environment import changes
from bisection.analysis.histories import histories
from bisection.core.format import number
from bisection.core.grouping import grouped
from bisection.core.reference_files import Case, faults, lookup, span_of
from bisection.core.thresholds import LIMITS
from bisection.core.units import CONTEXT, COUNTED, KIND_OF_UNIT
from bisection.sites.reference_edit import EditableReferences
from bisection.sites.reference_edit import ReferencePath as Place
from bisection.sites.site_files import Defect, Site
from bisection.store.database import Session, Store
from bisection.store.selection import LeftOutAs, of_no_use

# Facts that make references those of another machine, if they change.
MACHINE = ("CPU", "operating system's kernel", "firmware")
SOFTWARE = (*MACHINE, "compiler", "flags", "MPI", "libraries", "MPI environment", "lock")
KEEP = "keep"  # a comment behind an entry that begins so keeps it from being changed
MADE_BY = "bisection references propose"
HEADER = """\
References of the system `{system}`, made by `{made_by}` from stored sessions.
An entry is [reference, lower, upper]: what passes is reference * (1 + lower) to
reference * (1 + upper). The reference is the median of the sessions. Limits: at most 1 of 100
healthy nights has any metric outside them twice, in the run and in its retest.
Each entry has the number of its sessions and their last day; provenance is of the last change.
"""

# A proposal mixes neither these nor versions of the kernels unless it may.
ALIKE = (*SOFTWARE, "kernels")

Nights = dict[Session, list[float]]


def usable(
    store: Store,
    sessions: Sequence[Session],
    site: Site,
    also: Collection[str] = (),
    tags: Collection[str] = (),
) -> tuple[list[Session], dict[LeftOutAs, list[Session]]]:
    """The sessions of a site that references may be made from, and the others by reason. `also`:
    kinds of LeftOutAs to use nevertheless; `tags`: NAME=VALUE, which leave no session out."""
    parts = grouped(of_site(sessions, site), of_no_use(store, also, tags))
    return parts.get(None, []), {reason: parts[reason] for reason in LeftOutAs if reason in parts}


def of_site(sessions: Iterable[Session], site: Site) -> list[Session]:
    return [s for s in sessions if s.tags.get("system", site.name).partition(":")[0] == site.name]


def mixed(sessions: Sequence[Session]) -> dict[str, Counter[str]]:
    """Returns what of ALIKE is not the same in all sessions: {fact: {text: sessions}}.

    A library that fewer kernels need is no difference; other versions and replacements are.
    """
    unlike = {tuple(session.facts.get(name) for name in ALIKE): [session] for session in sessions}
    pairs = itertools.combinations(unlike.values(), 2)
    differing = {change.what for pair in pairs for change in changes(*pair)}
    return {
        name: Counter(session.facts.get(name, "not recorded") for session in sessions)
        for name in ALIKE
        if name in differing
    }


@dataclass
class Entry:
    """A reference made from sessions. `bounds` is [reference, lower, upper], None if the sessions
    spread too widely for one."""

    case: Case
    metric: str
    nights: Nights
    unit: str = "ratio"
    bounds: list[float] | None = None
    sigma: float = 0.0  # standard deviation of the logarithm between sessions

    @property
    def name(self) -> str:
        return _name(self.case, self.metric)


@dataclass
class Proposal:
    """References of a system, proposed from stored sessions."""

    entries: list[Entry] = field(default_factory=list)
    wide: list[Entry] = field(default_factory=list)  # too wide for a reference
    few: list[Entry] = field(default_factory=list)  # of too few sessions
    unmeasured: list[Case] = field(default_factory=list)  # no session has them
    # What amending a file left as it is: (entry, bounds in the file), (place, tests without one).
    wider: list[tuple[Entry, Sequence[Any]]] = field(default_factory=list)
    kept: list[tuple[Entry, Sequence[Any]]] = field(default_factory=list)  # as a person asks
    shared: list[tuple[Place, list[str]]] = field(default_factory=list)


def propose(
    store: Store,
    sessions: Sequence[Session],
    site: Site,
    kinds: Collection[str] | None = None,
    least: int = LIMITS.reference_sessions,
) -> Proposal:
    """References for what the checks of a site assert and these sessions measured. `kinds`: kinds
    of references, None for those that the partitions claim; `least`: sessions that each needs."""
    claimed = {p["fullname"]: p["extras"].get("references", []) for p in site.partitions}
    samples = _samples(store, sessions)
    known = {test[:-1] for test in samples}
    proposal = Proposal(unmeasured=[case for case in site.cases if _test(case) not in known])
    entries: list[Entry] = []
    for case in site.cases:
        for metric in case["required"]:
            # Layouts of the same geometry have the same references.
            unit, nights = samples.pop((*_test(case), metric), ("", {}))
            if nights and KIND_OF_UNIT.get(unit) in (kinds or claimed[case["$partition"]]):
                entry = Entry(case, metric, nights, unit)
                (proposal.few if len(nights) < least else entries).append(entry)
    for entry in (entry for entry in entries if entry.unit in COUNTED):
        values = {value for of_night in entry.nights.values() for value in of_night}
        if len(values) == 1 and min(values) > 0:
            entry.bounds = [values.pop(), 0.0, 0.0]  # exactly, and none if it has changed
    measured = (entry for entry in entries if entry.unit not in COUNTED)
    for alike in grouped(measured, lambda entry: entry.unit == "share").values():
        _set_bounds(alike)
    proposal.wide = [entry for entry in entries if not entry.bounds]
    proposal.entries = [entry for entry in entries if entry.bounds]
    return proposal


def _test(case: Case) -> tuple[str, ...]:
    names = ("check", "$partition", "$environ", "geometry", "case", "method")
    return tuple(case[name] for name in names)


def test_name(case: Case) -> str:
    check, _, _, *names = _test(case)
    return " ".join(map(str, (check, *names)))


def _name(case: Case, metric: str) -> str:
    return f"{test_name(case)} {metric}"


def _samples(
    store: Store, sessions: Sequence[Session]
) -> dict[tuple[str, ...], tuple[str, Nights]]:
    """A test and a metric -> (unit, session -> values). Of a metric that changed its unit, values
    in the last one."""
    samples: dict[tuple[str, ...], dict[str, Nights]] = {}
    for test, metric, indices, values, _ in histories(store, sessions, left_out=("groups",)):
        place = (f"{test.system}:{test.partition}", test.environ, test.geometry)
        key = (test.check, *place, test.case, test.method, metric.name)
        nights = samples.setdefault(key, {}).setdefault(metric.unit, {})
        for index, value in zip(indices.tolist(), values.tolist(), strict=True):
            nights.setdefault(sessions[index], []).append(value)
    return {
        key: max(units.items(), key=lambda item: max(session.start for session in item[1]))
        for key, units in samples.items()
    }


def _set_bounds(entries: Sequence[Entry]) -> None:
    """References for the metrics of a table, from the median of each session.

    A share, which explains a time and is near zero or far from it, may double or halve, and is
    never too wide. Any other reference that is too wide to say anything is None.
    """
    order, none = _in_order(entries), (math.nan,)
    values = [[statistics.median(e.nights.get(s, none)) for s in order] for e in entries]
    kernels = [" ".join(_test(entry.case)[:2]) for entry in entries]
    logs, numbers = np.log(values), np.unique(kernels, return_inverse=True)[1]
    days = np.array([time.gmtime(session.start).tm_wday for session in order])
    table = np.transpose([np.nanmedian(logs, axis=1), *bounds(logs, numbers, days)])
    for entry, (middle, low, high, sigma) in zip(entries, table.tolist(), strict=True):
        entry.sigma = sigma
        if entry.unit == "share":
            low = max(min(low, middle - math.log(2)), middle - math.log(1e3))
            high = max(middle, min(max(high, middle + math.log(2)), math.log(0.99)))
        elif max(high - middle, middle - low) > math.log1p(LIMITS.reference_widest):
            continue
        entry.bounds = _rounded(*map(math.exp, (middle, low, high)))


def _in_order(entries: Iterable[Entry]) -> list[Session]:
    used = {session for entry in entries for session in entry.nights}
    return sorted(used, key=lambda session: (session.start, session.id))


def _rounded(value: float, low: float, high: float) -> list[float]:
    return [float(f"{part:.4g}") for part in (value, low / value - 1, high / value - 1)]


# ---- in a file ----


def amend(proposal: Proposal, file: EditableReferences, site: Site, widen: bool) -> bool:
    """Puts what is proposed into a file, and adds to the proposal what that keeps; True if an entry
    was changed. An entry of several tests is changed, to bounds within which all of them are, if
    each has a proposal; else those that have one get their own, as do metrics without an entry."""
    changed = False
    for place, entries in _by_place(proposal, file, site):
        together, now = _together(entries), file.where(entries[0].case, entries[0].metric)
        old = file.get(now)
        if old is None or faults(old):  # text, or no bounds: it never passed
            old = None
        elif file.comment(now).startswith(KEEP):
            proposal.kept.append((together, old))
            continue
        elif not widen and _is_wider(together.bounds or [], old):
            proposal.wider.append((together, old))
            continue
        if old is None or list(old[:3]) != together.bounds:
            last = _day(max(session.start for session in together.nights))
            comment = f"{len(together.nights)} sessions to {last}, spread {together.sigma:.1%}"
            file.put(place, together.bounds or [], comment)
            changed = True
    if changed:
        _set_provenance(_in_order(proposal.entries), file)
    return changed


def _by_place(
    proposal: Proposal, file: EditableReferences, site: Site
) -> list[tuple[Place, list[Entry]]]:
    """What is proposed, by its place in the file. Places that several tests share come first, as
    entries of a test's own begin with what is there. Where tests of a place have no proposal, that
    is noted, unless no session has their environment."""
    unused = {case["$environ"] for case in proposal.unmeasured}
    unused -= {case["$environ"] for case in site.cases if case not in proposal.unmeasured}
    tests: dict[Place, set[tuple[str, ...]]] = defaultdict(set)  # that take their reference there
    own: dict[Place, set[tuple[str, ...]]] = defaultdict(set)
    for case in site.cases:
        for metric in case["required"] if case["$environ"] not in unused else ():
            tests[file.where(case, metric)].add(_test(case))
            own[file.own(case, metric)].add(_test(case))
    places: list[tuple[Place, list[Entry]]] = []
    alone: list[tuple[Place, list[Entry]]] = []
    for place, entries in grouped(proposal.entries, lambda e: file.where(e.case, e.metric)).items():
        if file.get(place) is not None and tests[place] <= {_test(e.case) for e in entries}:
            places.append((place, entries))
        else:
            alone += grouped(entries, lambda entry: file.own(entry.case, entry.metric)).items()
    for place, entries in alone:
        if missing := own[place] - {_test(entry.case) for entry in entries}:
            proposal.shared.append((place, sorted(" ".join(map(str, test)) for test in missing)))
        else:
            places.append((place, entries))
    return places


def _together(entries: Sequence[Entry]) -> Entry:
    """One reference for all of these."""
    lows, highs = zip(*(span_of(entry.bounds or []) for entry in entries), strict=True)
    middle = statistics.median(entry.bounds[0] for entry in entries if entry.bounds)
    fewest = min(entries, key=lambda entry: len(entry.nights))
    sigma = max(entry.sigma for entry in entries)
    return replace(fewest, bounds=_rounded(middle, min(lows), max(highs)), sigma=sigma)


def _is_wider(new: Sequence[Any], old: Sequence[Any]) -> bool:
    """True if anything passes by `new` that did not by `old`, beyond rounding."""
    (low, high), (least, most) = span_of(new), span_of(old)
    return low < least * (1 - 1e-3) or high > most * (1 + 1e-3)


def _set_provenance(sessions: Sequence[Session], file: EditableReferences) -> None:
    """Where the references come from; in a file by hand beside what it says itself."""
    facts: dict[str, dict[str, None]] = {}
    for session in sessions:
        for name, text in session.facts.items():
            facts.setdefault(name, {})[text] = None
    provenance = {
        "made by": MADE_BY,
        "date": _day(sessions[-1].start),
        "first": _day(sessions[0].start),
        "count": len(sessions),
        "lock": " | ".join(facts.pop("lock", {})) or "none",
        "facts": {name: " | ".join(texts) for name, texts in sorted(facts.items())},
        "sessions": [session.uuid for session in sessions],
    }
    present = file.tree.get("provenance")
    if present is None:
        file.tree.insert(0, "provenance", provenance)
    elif present.get("made by") == MADE_BY:
        file.tree["provenance"] = provenance
    else:
        present["amended"] = provenance


def _day(start: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(start))


def stale(store: Store, site: Site, file: Path, tree: Mapping[str, Any]) -> Iterator[Defect]:
    """Yields why new references should be made: those of a file with this content are old, of other
    software, or left behind by the machine."""
    sessions = of_site((s for s in store.sessions() if not s.excluded), site)
    if not sessions:
        return
    provenance = tree.get("provenance") or {}
    provenance = provenance.get("amended") or provenance
    defect, day = functools.partial(Defect.of, file, 1), str(provenance.get("date", ""))
    try:
        age = (time.time() - time.mktime(time.strptime(day, "%Y-%m-%d"))) / 86400
        if age > LIMITS.stale:
            yield defect(f"from {day}, {round(age)} days old; {LIMITS.stale} days are allowed")
    except ValueError:
        yield defect(f"provenance.date {day!r} is not a day, YYYY-MM-DD")
    last = sessions[-1].facts
    known = {**(provenance.get("facts") or {}), "lock": provenance.get("lock")}
    for name, text in known.items():
        recorded = name in SOFTWARE and name in last and text not in (None, "none")
        if recorded and last[name] not in text.split(" | "):
            yield defect(f"made with {name} {text}; the last session has {last[name]}")
    samples = _samples(store, sessions[-LIMITS.drift_sessions :])
    for case in site.cases:
        for metric, reference in (lookup(tree.get(case["check"]), case) or {}).items():
            unit, nights = samples.get((*_test(case), metric), ("", {}))
            few = len(nights) < LIMITS.drift_sessions
            if few or unit in (*COUNTED, *CONTEXT) or faults(reference):
                continue
            middle = statistics.median(map(statistics.median, nights.values()))
            low, high = span_of(reference)
            if not low <= middle <= high:  # most of the sessions would fail
                value, *ends = map(number, (middle, low, high))
                of = f"{_name(case, metric)}: the last {len(nights)} sessions have {value}"
                yield defect(f"{of}, allowed is {'..'.join(ends)}")
