"""The sections of a report in order of importance, for both the page and Markdown."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from bisection.analysis.model import Comparison
from bisection.analysis.outlying import faster, slower
from bisection.analysis.predict import Prediction
from bisection.core import paths
from bisection.core.format import amount, plural, short, size_of, times
from bisection.core.grouping import grouped
from bisection.core.reasons.performance import SharedChange
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Against, Verdict
from bisection.report import devices, osu, verdict_text, words
from bisection.report.report_data import Report
from bisection.report.text_tables import (
    CELLS,
    POINTS,
    ROWS,
    TextTable,
    cells_table,
    listing,
    nodes_of,
    rows_by_check,
    rows_table,
)
from bisection.runs.run_verdict import RunVerdict, TestResult

if TYPE_CHECKING:  # it loads matplotlib, which Markdown does not need
    from bisection.report.figures.common import FigureGroup

PURPOSE = (
    "Bisection runs acceptance and regression tests for machines that run plane-wave, "
    "molecular-dynamics, mesh and quantum-chemistry codes. It verifies every answer, and judges "
    "times by references and by earlier sessions."
)
WORST = 30  # rows of the section of what is worse; all are in the last one


@dataclass
class Section:
    """A part of the report: figures, which only the page has, then tables and notes."""

    id: str
    title: str
    lead: str = ""
    tables: list[TextTable] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    groups: list["FigureGroup"] = field(default_factory=list)
    sparks: list[dict[str, Any]] = field(default_factory=list)

    @property
    def shown(self) -> bool:
        return bool(self.groups or self.tables or self.sparks or self.notes)


def sections(report: Report) -> Iterator[Section]:
    """Yields all sections in order: what is worse, what failed, what was measured, then what
    explains it. Sections of figures alone are empty here."""
    first = ["network", "predicted"] if report.interconnect else []
    for name in dict.fromkeys([*first, *SECTIONS]):
        title, build = SECTIONS[name]
        lead, contents, notes = (build, [], []) if isinstance(build, str) else build(report)
        contents = [table for table in contents if table.rows or table.folded]
        yield Section(name, title, lead, contents, notes)


Content = tuple[str, list[TextTable], list[str]]  # lead, tables, notes


def _worse(report: Report) -> Content:
    codes, others = words.split_codes(report.rows)
    bad = {Verdict.REGRESSED, Verdict.MISSING, Against.BELOW}
    rows = [r for r in words.unshared(others) if slower([r]) or bad & {r.verdict, r.against}]
    titled = {words.CODES.capitalize(): codes, "": rows}
    contents = [rows_table(part, WORST, title) for title, part in titled.items()]
    run = report.run
    reasons = [*run.slower[:WORST], *run.outliers[:WORST]] if run else []
    shared = (words.finding(each) for each in _shared(report, Verdict.REGRESSED))
    alarms = report.alarms[: words.MOST]
    steps = [TextTable(*words.STEPS, words.next_steps(alarm), title=str(alarm)) for alarm in alarms]
    return "", [*steps, *contents], [*shared, *map(str, reasons)]


def _better(report: Report) -> Content:
    own = words.unshared(report.rows)
    rows = [row for row in own if row.verdict == Verdict.IMPROVED or faster([row])]
    shared = [words.finding(each) for each in _shared(report, Verdict.IMPROVED)]
    return "", [rows_table(rows, WORST)], shared


def _shared(report: Report, verdict: Verdict) -> list[SharedChange]:
    findings = report.comparison.findings if report.comparison else ()
    return [finding for finding in findings if words.direction(finding) == verdict]


def _notes(report: Report) -> Content:
    return "", [], list(map(str, report.run.remarks)) if report.run else []


def _failures(report: Report) -> Content:
    run = report.run or RunVerdict()
    notes = list(map(str, (*run.troubles, *run.failures)))
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
    lead = "Tests that went wrong alike are one row. The command repeats them."
    return lead, [listing(verdict_text.failure_groups(run), columns, POINTS, "groups")], notes


def _every_node(report: Report) -> Content:
    rows = report.run.every_node if report.run else ()
    lead = "Each node of the campaign beside its peers: nodes of its kind, in the same tests."
    return lead, [listing(rows, verdict_text.EVERY_NODE, ROWS, "nodes")], []


def _files(group: verdict_text.FailureGroup, folder: Path | None) -> str:
    """Links from the report's folder to those of a group's files that exist, one per line."""
    pattern = Path(paths.ROOT, group.files)
    files = sorted(pattern.parent.glob(pattern.name)) if folder and group.files else []
    return "\n".join(quote(os.path.relpath(file, folder)) for file in files[:8])


def _checks(report: Report) -> Content:
    blocks = verdict_text.summary_blocks(report.run) if report.run else {}
    kinds, room = ["text", "text", "num", "text", "text"], CELLS // max(1, len(blocks))
    contents = [
        replace(cells_table(verdict_text.SUMMARY, kinds, rows, room), title=short(heading))
        for heading, rows in blocks.items()
    ]
    return f"A line per kernel and case; {verdict_text.USED}.", contents, []


def _changes(report: Report) -> Content:
    changes = report.comparison.changes if report.comparison else []
    columns = (
        ("what", "text", lambda change: short(change.what)),
        ("before", "text", lambda change: short(change.before) or "none"),
        ("after", "text", lambda change: short(change.after) or "none"),
    )
    notes = ["Nothing that is recorded."] if report.comparison and not changes else []
    return "", [listing(changes, columns, ROWS // 3, "changes")], notes


def _nodes(report: Report) -> Content:
    columns = (
        ("node", "text", lambda suspect: short(" or ".join(suspect.nodes), 400)),
        ("partition", "text", lambda suspect: short(suspect.where, 80)),
        ("time on it / elsewhere", "num", lambda suspect: times(suspect.ratio)),
        ("jobs", "num", lambda suspect: str(suspect.jobs)),
    )
    lead = "A node is suspect if jobs on it take longer than the others."
    return lead, [listing(report.suspects, columns, ROWS // 3, "nodes")], []


def _network(report: Report) -> Content:
    if not report.evidence.blames and not report.interconnect:
        return "", [], []
    from interconnect import section

    return section.content(report)


def _predicted(report: Report) -> Content:
    lead = (
        "Collectives, halos and transposes, and the time that messages, nodes and the bisection "
        f"allow. {LIMITS.explained_low:g} to {LIMITS.explained_high:g} is explained. Contention: "
        "random pairs of nodes collide as much. Algorithm: they do not; look at MPI's library."
    )
    return lead, [predictions_table(report.predictions)], []


def predictions_table(rows: Sequence[Prediction]) -> TextTable:
    """Patterns and transposes beside what the primitives say: a line per test and finding."""
    groups = grouped(rows, lambda row: (row.test, row.finding, row.bound))

    def ends(values: Iterable[float], form: Callable[[float], str]) -> str:
        ordered = sorted(values)
        return " to ".join(dict.fromkeys((form(ordered[0]), form(ordered[-1]))))

    columns = (
        ("test", "text", lambda group: short(group[0].test, 120)),
        ("sizes", "num", lambda g: ends((round(row.size) for row in g), size_of)),
        ("measured / predicted", "num", lambda g: ends((row.ratio for row in g), times)),
        ("turns on", "text", lambda group: group[0].bound),
        ("finding", "text", lambda group: group[0].finding),
    )
    return listing(groups.values(), columns, POINTS, "predictions")


def _devices(report: Report) -> Content:
    rows = devices.trios(report.run)
    return devices.LEAD if rows else "", [devices.table(rows)], devices.slower(rows)


def _osu(report: Report) -> Content:
    measured = osu.measured(report.run)
    return osu.LEAD if measured else "", [*map(osu.table, measured)], []


def _history(report: Report) -> Content:
    lead = "Each line is a metric over its nights. The list has what changed, and is no alarm."
    return lead, [], words.no_alarms(report.evidence.events)


def _undecided(report: Report) -> Content:
    lead = f"The last column is for a change of {LIMITS.margin:.0%} in the usual metric."
    groups = report.comparison.undecided if report.comparison else []
    return lead, [listing(groups, words.UNDECIDED)], []


# Of a check of files: heading -> metric.
FILES = {
    "restart": {
        "written": "bandwidth_write",
        "read": "bandwidth_read",
        "of it in memory": "cached_share",
        "p99 of a write": "time_write_p99",
        "over a copy": "ratio_copy",
    },
    "restart_metadata": {
        phase: f"operations_{phase}"
        for phase in ("create", "stat", "rename", "list", "read", "remove")
    },
}


def _restart(report: Report) -> Content:
    contents = []
    for check, columns in FILES.items():
        judged = report.run.judged if report.run else []
        cases = [case for case in judged if case.check == check and case.metrics]
        values = ((head, "num", partial(_metric, name=name)) for head, name in columns.items())
        words = ((name, "text", attrgetter(name)) for name in ("case", "layout", "method"))
        contents.append(listing(cases, (*words, *values), ROWS // 3, "tests"))
    lead = "Restart files are written to disk and read by other ranks; small files are not synced."
    return lead, contents, []


def _metric(case: TestResult, name: str) -> str:
    return next((amount(m.value, m.unit) for m in case.metrics if m.name == name), "")


def _compared(report: Report) -> Content:
    compared = report.comparison or Comparison([], [], [])
    sides = {"before": compared.before, "A/A": compared.aa, "after": compared.after}
    notes = [f"{side}: {words.group(sessions)}" for side, sessions in sides.items() if sessions]
    advice = map(str, compared.advice) if report.of_run else ()  # else it is at the top
    return "", [], [*notes, *advice]


def _rows(report: Report) -> Content:
    scopes = words.scopes(report.rows)
    lead = "Every metric that was compared, the worst first."
    lead += f" The verdicts hold for {scopes[0]}." if len(scopes) == 1 else ""
    return lead, rows_by_check(report.rows), []


# identifier -> title; the content, or the lead of a section of figures alone
SECTIONS: dict[str, tuple[str, str | Callable[[Report], Content]]] = {
    "worse": ("Worse than before", _worse),
    "failures": ("Failed and not measured", _failures),
    "every-node": ("Every node", _every_node),
    "nodes": ("Nodes", _nodes),
    "checks": ("Checks of the newest run", _checks),
    "notes": ("Notes", _notes),
    "history": ("History", _history),
    "better": ("Better than before", _better),
    "changes": ("What changed", _changes),
    "burn": (
        "Burn-in",
        "Each node under full load. The curves are of the node that keeps least of its rate, over "
        "where they began; the table has it beside others.",
    ),
    "network": ("Network", _network),
    "speedups": (
        "Speed-up",
        "Performance after over before: a bar per test, from 1 (as before) to its ratio of "
        "medians. To the right is faster. Under each name: ranks \u00d7 threads, nodes, software. "
        "Bars of other ranks or software are not one number.",
    ),
    "undecided": ("Inconclusive, by reason", _undecided),
    "methods": ("Methods", "The ways to communicate, in the newest session."),
    "npar": ("NPAR", "Time against the number of groups that share the bands."),
    "layouts": (
        "Hybrid layouts",
        "Ranks against threads on the same cores, each layout with its fastest method.",
    ),
    "shares": (
        "Communication",
        "The fraction of the time spent communicating, by kind of MPI call. Where other processes "
        f"had the cores for more than {LIMITS.disturbed_note:.0%} of the time, it is that of the "
        "kernel's phases in undisturbed steps, if they are known.",
    ),
    "osu": ("OSU benchmarks", _osu),
    "devices": ("Device memory", _devices),
    "files": ("Files", _restart),
    "predicted": ("What the network explains", _predicted),
    "sweeps": ("Message sizes", "Time of one exchange against the size of its messages."),
    "compared": ("What was compared", _compared),
    "rows": ("All rows", _rows),
}
