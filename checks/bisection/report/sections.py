"""The sections of a report in order of importance, for both the page and Markdown."""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from bisection.core import paths
from bisection.core.format import plural, short
from bisection.core.reasons import clause
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Against, Verdict
from bisection.report import interconnect, pairs, words
from bisection.report.events import MOST
from bisection.report.model import Report, headline
from bisection.report.run import (
    SUMMARY,
    USED,
    FailureGroup,
    failure_groups,
    sentence,
    summary_blocks,
)
from bisection.report.tables import (
    EVENTS,
    FAILURES,
    POINTS,
    Table,
    changes_table,
    listing,
    nodes_of,
    points_table,
    predictions_table,
    rows_by_check,
    rows_table,
    sessions_table,
    suspects_table,
)

if TYPE_CHECKING:  # it loads matplotlib, which Markdown does not need
    from bisection.report.figures.common import Group

PURPOSE = (
    "Bisection runs acceptance and regression tests for machines that run plane-wave and "
    "molecular-dynamics codes. It verifies every answer, and judges times by references and by "
    "earlier sessions."
)
LINES = 150  # of the section of checks
WORST = 30  # rows of the section of what is worse; all are in the last one


@dataclass
class Section:
    """A part of the report: figures, which only the page has, then tables and notes."""

    id: str
    title: str
    lead: str = ""
    tables: list[Table] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    groups: list["Group"] = field(default_factory=list)
    sparks: list[dict[str, Any]] = field(default_factory=list)
    words_first: bool = False  # notes and tables stand above the figures

    @property
    def shown(self) -> bool:
        """True if it has content."""
        return bool(self.groups or self.tables or self.sparks or self.notes)


class Opening(NamedTuple):
    """The part above the sections."""

    state: str  # a key of STATES
    headline: str
    sentences: list[str]
    unsafe: str  # why the verdicts cannot be trusted; "" if they can
    advice: list[str]
    rerun: str  # command


def opening(report: Report) -> Opening:
    """The verdict and what to do about it."""
    comparison, run = report.comparison, report.run
    state, title = headline(report)
    if network := report.interconnect:
        title = interconnect.headline(network) + (f". {title}" if not network.findings else "")
    sentences = [f"Against earlier sessions: {words.sentence(comparison)}"] if comparison else []
    return Opening(
        state,
        title,
        ([f"The run: {sentence(run)}"] if run else []) + sentences,
        words.unsafe(comparison) if comparison else "",
        list(map(clause, comparison.advice)) if comparison else [],
        comparison.rerun if comparison else "",
    )


def sections(report: Report) -> list[Section]:
    """All sections in order: what is worse, what failed, what was measured, then what explains it.
    Sections of figures alone are empty here."""
    first = [_network, _predicted] if report.interconnect else []
    return [build(report) for build in dict.fromkeys([*first, *ORDER])]


def _worse(report: Report) -> Section:
    rows = [
        row
        for row in words.alone(report.comparison.rows if report.comparison else [])
        if row.verdict in (Verdict.REGRESSED, Verdict.MISSING)
        or row.outlier
        or row.against == Against.BELOW
    ]
    codes = words.beside_network(report.comparison.rows) if report.comparison else []
    listed = {row.key for row in codes}
    rows = [row for row in rows if row.key not in listed]
    tables = [rows_table(each, WORST) for each in (codes, rows) if each]
    if codes:
        tables[0].title = words.CODES.capitalize()
    run = report.run
    reasons = [*run.slower[:WORST], *run.outliers[:WORST], *run.remarks] if run else []
    shared = map(words.finding, report.comparison.findings if report.comparison else ())
    notes = [*shared, *map(clause, [*reasons, *report.alarms[:MOST]])]
    return Section("worse", "Worse than before", "", tables, notes)


def _failures(report: Report) -> Section:
    run = report.run
    if run is None or not (run.bad or run.troubles or run.failures):
        return Section("failures", "Failed and not measured")
    lead = "Tests that went wrong alike are one row. The command repeats them."
    notes = list(map(clause, (*run.troubles, *run.failures)))
    followed = sum(bool(case.follows) for case in run.judged)
    notes += [f"{plural(followed, 'test')} only followed another one's failure."] * bool(followed)
    columns = (
        ("verdict", "verdict", lambda group: group.verdict),
        ("where", "text", lambda group: short(group.where, 200)),
        ("cause", "lines", lambda group: "\n".join(short(cause, 600) for cause in group.causes)),
        ("nodes", "text", lambda group: nodes_of(group.cases)),
        ("rerun", "command", lambda group: short(group.rerun, 1200)),
        ("files", "files", lambda group: _files(group, report.folder)),
    )
    table = listing(failure_groups(run), columns, FAILURES, "groups")
    return Section("failures", "Failed and not measured", lead, [table], notes)


def _files(group: FailureGroup, folder: Path | None) -> str:
    """Links from the report's folder to those of a group's files that exist, one per line."""
    pattern = Path(paths.ROOT, group.files)
    files = sorted(pattern.parent.glob(pattern.name)) if folder and group.files else []
    return "\n".join(quote(os.path.relpath(file, folder)) for file in files[:8])


def _checks(report: Report) -> Section:
    blocks = summary_blocks(report.run) if report.run and report.run.judged else {}
    kinds = ["text", "text", "num", "text", "text"]
    tables, left = [], LINES
    for heading, rows in blocks.items():
        tables += [Table(list(SUMMARY), kinds, rows[:left], title=short(heading))] if left else []
        left = max(0, left - len(rows))
    hidden = sum(map(len, blocks.values())) - LINES
    if hidden > 0:
        tables[-1].note = f"{hidden:,} more lines are in verdict.txt."
    lead = f"A line per kernel and case; {USED}."
    return Section("checks", "Checks of the newest run", lead, tables)


def _changes(report: Report) -> Section:
    comparison = report.comparison
    tables = [changes_table(comparison.changes)] if comparison and comparison.changes else []
    notes = [] if tables or not comparison else ["Nothing that is recorded."]
    return Section("changes", "What changed", "", tables, notes)


def _nodes(report: Report) -> Section:
    suspects = report.comparison.suspects if report.comparison else []
    tables = [suspects_table(suspects)] if suspects else []
    lead = "A node is suspect if jobs on it take longer than the others."
    return Section("nodes", "Nodes", lead, tables)


def _network(report: Report) -> Section:
    tables, notes = [], []
    for blame in report.pairs:
        place = f"{short(blame.place, 80)}: " if len(report.pairs) > 1 else ""
        tables += pairs.tables(blame)
        notes += [place + note for note in pairs.notes(blame)]
    lead = "Measurements between pairs of nodes. A component is reported if it explains its slow "
    lead += "pairs, beyond chance, and if a rerun of these pairs alone confirms it."
    lead = lead if tables else ""
    if network := report.interconnect:
        lead = f"{interconnect.MEANING[network.grade]} {lead}"
        tables = interconnect.findings(network) + tables + interconnect.beside(report)
        notes += interconnect.notes(report)
    return Section("network", "Network", lead, tables, notes[:POINTS], words_first=True)


def _predicted(report: Report) -> Section:
    lead = "Collectives, halos and transposes, and the time that messages, nodes and the bisection "
    lead += (
        f"allow. {LIMITS.explained_low:g} to {LIMITS.explained_high:g} is explained. Contention: "
    )
    lead += "random pairs of nodes collide as much. Algorithm: they do not; look at MPI's library."
    tables = [predictions_table(report.predictions)] if report.predictions else []
    return Section("predicted", "What the network explains", lead, tables)


def _history(report: Report) -> Section:
    events = report.history
    points = [point for event in events for point in event.points]
    tables = [listing(events, EVENTS, MOST, "events"), points_table(points)] if events else []
    lead = (
        "What changed over the nights, and since when. Each line below is a metric over its nights."
    )
    return Section("history", "History", lead, tables)


def _compared(report: Report) -> Section:
    tables = [sessions_table(report.comparison)] if report.comparison else []
    return Section("compared", "What was compared", "", tables)


def _rows(report: Report) -> Section:
    rows = report.comparison.rows if report.comparison else []
    scopes = words.scopes(rows)
    lead = "Every metric that was compared, the worst first."
    lead += f" The verdicts hold for {scopes[0]}." if len(scopes) == 1 else ""
    return Section("rows", "All rows", lead, rows_by_check(rows))


def _drawn(name: str, title: str, lead: str) -> Callable[[Report], Section]:
    return lambda report: Section(name, title, lead)


ORDER: tuple[Callable[[Report], Section], ...] = (
    _worse,
    _failures,
    _checks,
    _changes,
    _drawn(
        "speedups",
        "Speed-up",
        "Performance after over before: a bar per test, from 1 (as before) to its ratio of "
        "medians. To the right is faster. Under each name: ranks \u00d7 threads, nodes, software. "
        "Bars of other ranks or software are not one number.",
    ),
    _drawn(
        "scaling",
        "Speed-up against ranks",
        "The same tests on several numbers of ranks. A ratio that falls as ranks rise points to "
        "the network or to noise, one that rises to a better network.",
    ),
    _nodes,
    _network,
    _history,
    _drawn("methods", "Methods", "The ways to communicate, in the newest session."),
    _drawn("npar", "NPAR", "Time against the number of groups that share the bands."),
    _drawn(
        "layouts",
        "Hybrid layouts",
        "Ranks against threads on the same cores, each layout with its fastest method.",
    ),
    _drawn(
        "shares",
        "Communication",
        "The fraction of the time spent communicating, by kind of MPI call. Where other processes "
        f"had the cores for more than {LIMITS.preempted_note:.0%} of the time, it is that of the "
        "kernel's phases in undisturbed steps, if they are known.",
    ),
    _predicted,
    _drawn("sweeps", "Message sizes", "Time of one exchange against the size of its messages."),
    _compared,
    _rows,
)
