"""Everything that a report tells, and its headline."""

from collections import Counter
from dataclasses import dataclass, field

from bisection.analysis.history import RECENT
from bisection.analysis.model import ChangePoint, Comparison, Pairs, Series
from bisection.core.format import before_after, finite, plural, utc
from bisection.core.verdicts import (
    BELOW,
    FAIL,
    FOLLOWS,
    IMPROVED,
    INCONCLUSIVE,
    KNOWN,
    MISSING,
    NEW,
    NOT_APPLICABLE,
    NOT_MEASURED,
    PASS,
    REGRESSED,
    UNCHANGED,
    VERDICTS,
)


@dataclass
class Report:
    """Everything that a report tells."""

    title: str
    made: float  # Unix time
    comparison: Comparison | None = None
    history: list[ChangePoint] = field(default_factory=list)
    series: list[Series] = field(default_factory=list)
    pairs: list[Pairs] = field(default_factory=list)
    failures: list[dict] = field(default_factory=list)  # cases of verdict.json, with `again`
    outcome: str = ""  # the run's own verdict
    latest: list[dict] = field(default_factory=list)  # cases of verdict.json of the newest session
    code: int | None = None  # the run's exit code


GOOD, BAD, UNMEASURED, UNCERTAIN, UNSAFE = "good", "bad", "unmeasured", "uncertain", "unsafe"
# What a verdict looks like: the class of its colour, its symbol.
MARKS = {
    REGRESSED: (BAD, "\u25bc"),
    FAIL: (BAD, "\u2715"),
    MISSING: (UNMEASURED, "\u2205"),
    NOT_MEASURED: (UNMEASURED, "?"),
    INCONCLUSIVE: (UNCERTAIN, "~"),
    IMPROVED: ("better", "\u25b2"),
    NEW: ("better", "+"),
    UNCHANGED: (GOOD, "="),
    PASS: (GOOD, "\u2713"),
    KNOWN: (UNCERTAIN, "!"),
    NOT_APPLICABLE: ("aside", "\u2212"),
}
STATES = {GOOD: "\u2713", BAD: "\u2715", UNMEASURED: "?", UNCERTAIN: "~", UNSAFE: "!"}


def headline(report):
    """(state, words): the verdict in a few words."""
    comparison = report.comparison
    failed = Counter(case.get("verdict") for case in report.failures)
    parts = [f"{failed[FAIL]} failed"] if failed[FAIL] else []
    rows = comparison.rows if comparison else []
    counts = Counter(row.verdict for row in rows)
    unmeasured = max(counts[NOT_MEASURED], failed[NOT_MEASURED])
    parts += [f"{counts[word]} {word}" for word in (REGRESSED, MISSING) if counts[word]]
    parts += [f"{unmeasured} not measured"] if unmeasured else []
    below = sum(row.against == BELOW for row in rows)
    parts += [f"{below} below the expected {comparison.expected:g}"] if below else []
    state = BAD if failed[FAIL] or counts[REGRESSED] or below else UNMEASURED
    if not parts:
        state, parts = _nothing_wrong(report, counts)
    judged = sum(counts[word] for word in (REGRESSED, IMPROVED, UNCHANGED, MISSING))
    if report.code == 0 and comparison and not judged and not failed:
        few = min(len(comparison.before), len(comparison.after))
        parts = [f"Everything measured passed; {plural(few, 'session')} a side to compare"]
        state = GOOD
    words = ", ".join(parts)
    if comparison and comparison.unsafe and failed[FAIL]:  # which needs no comparison
        return BAD, f"{words} (the comparison is not to be trusted)"
    if comparison and comparison.unsafe:
        return UNSAFE, f"Not to be trusted: {words[0].lower()}{words[1:]}"
    return state, words


def _nothing_wrong(report, counts):
    """State and words where no case failed and no row is worse or absent."""
    if report.outcome.startswith("FAIL"):
        return BAD, ["The run failed"]
    if report.outcome.startswith(NOT_MEASURED.upper()):
        return UNMEASURED, ["Not everything was measured"]
    if report.comparison is None:
        passed = report.outcome.startswith("PASS")
        return (GOOD, ["Everything measured passed"]) if passed else (UNMEASURED, ["No verdict"])
    if not counts:
        return UNMEASURED, ["Nothing was compared"]
    worse = any(p.verdict == REGRESSED and p.after <= RECENT for p in report.history)
    if not counts[UNCHANGED] and not counts[IMPROVED] and not worse:
        found = [f"{counts[word]} {word}" for word in (INCONCLUSIVE, NEW) if counts[word]]
        return UNCERTAIN, [f"{'Nothing judged:' if len(found) > 1 else 'All'} {', '.join(found)}"]
    more = [f"{counts[word]} {word}" for word in (IMPROVED, INCONCLUSIVE) if counts[word]]
    since = [p for p in report.history if p.verdict == REGRESSED and p.after <= RECENT]
    if since:
        day = utc(min(p.at for p in since))[:10]
        return BAD, [f"{plural(len(since), 'metric')} worse since {day}", *more]
    suspect = sum(row.suspect for row in report.comparison.rows)
    if suspect:
        return UNCERTAIN, [f"{suspect} unlike all earlier sessions", "nothing proven", *more]
    return GOOD, ["Nothing regressed", *more]


def exit_code(report):
    """The run's exit code, or the comparison's, or what the run's verdict says."""
    if report.code is not None:
        return report.code
    if report.comparison is not None:
        return report.comparison.exit_code
    verdicts = {case.get("verdict") for case in report.failures}
    if FAIL in verdicts or report.outcome.startswith("FAIL"):
        return 1
    return 0 if report.outcome.startswith("PASS") and not verdicts else 3


def worst_first(rows):
    """Rows in the order of VERDICTS, the largest loss first."""
    rank = {verdict: index for index, verdict in enumerate(VERDICTS)}

    def key(row):
        worse = row.worse if finite(row.ratio) and row.ratio > 0 else None
        return (
            rank.get(row.verdict, 0),
            -(worse or 0.0),
            (row.system, row.partition, row.environ, row.test, row.metric),
        )

    return sorted(rows, key=key)


def tags(session):
    """The tags of a session as text, whatever holds them."""
    found = session.get("tags") or {}
    if isinstance(found, dict):
        found = dict(sorted(found.items(), key=lambda tag: len(str(tag[1]))))
        return ", ".join(f"{key}={value}" for key, value in found.items())
    return found if isinstance(found, str) else ", ".join(map(str, found))


def place(found):
    """Partition and environment of a row, a series or a change point."""
    return f"{found.system}:{found.partition} {found.environ}"


def series_key(found):
    """What rows, series and change points of the same metric have in common."""
    return (
        found.system,
        found.partition,
        found.environ,
        found.check,
        found.case,
        found.layout,
        found.method,
        found.metric,
    )


def test_name(found):
    """Test and metric for people, of a row, a series or a change point."""
    words = (found.check, found.case, found.layout, found.method, found.metric)
    return " ".join(word for word in words if word and word != "time")


def case_name(case):
    """The same of a case of verdict.json."""
    words = [case.get(name) or "" for name in ("check", "case", "layout", "geometry", "method")]
    return " ".join(word for word in words if word) or case.get("test") or "unnamed case"


def roots(failures):
    """(cases that failed by themselves, number of those that only followed)."""
    own = [case for case in failures if not (case.get("cause") or "").endswith(FOLLOWS)]
    return (own, len(failures) - len(own)) if own else (failures, 0)


def scopes_of(rows):
    """What the verdicts are about: the machine, or the sessions alone."""
    return sorted({row.scope for row in rows} - {""})


def row_why(row, scope):
    """Why, with what else a person should know of a row."""
    words = [row.why, f"holds for {row.scope}" if scope and row.scope else ""]
    words += ["one session outside of what earlier ones showed"] if row.suspect else []
    if row.before.geometry != row.after.geometry and row.before.geometry and row.after.geometry:
        words.append(f"geometries differ: {before_after(row.before.geometry, row.after.geometry)}")
    return "; ".join(word for word in words if word)
