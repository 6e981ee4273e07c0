"""The report as one HTML page."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from bisection.analysis.model import Comparison, Series
from bisection.core import thresholds
from bisection.core.format import amount, finite, plain, plural, short, utc
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import COMPARED, Verdict
from bisection.report import words
from bisection.report.clauses import clause
from bisection.report.exports import embedded
from bisection.report.figures import common, hybrid, sessions
from bisection.report.figures.common import Group, MeasuredCase
from bisection.report.figures.comparison import scaling, speedups
from bisection.report.model import MARKS, STATES, Report, headline
from bisection.report.run import sentence
from bisection.report.svg import figure, style
from bisection.report.svg.style import Styles
from bisection.report.tables import (
    POINTS,
    SPARKLINES,
    Table,
    changes_table,
    failures_table,
    points_table,
    rows_table,
    sessions_table,
    suspects_table,
)

HERE = Path(__file__).resolve().parent
# The page stays below this, in bytes, whatever is reported, and its figures take so much of it;
# what does not fit is counted.
LIMIT, FIGURES = 960_000, 450_000
CHANGED = (Verdict.REGRESSED, Verdict.MISSING, Verdict.NOT_MEASURED, Verdict.IMPROVED)


@dataclass
class Section:
    """A part of the page: figures, then tables; left out where both are empty."""

    id: str
    title: str
    lead: str = ""
    groups: list[Group] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    sparks: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def side_by_side(self) -> bool:
        """Whether its figures are small enough for two in a row."""
        alone = all(len(group.panels) == 1 for group in self.groups)
        return alone and len(self.groups) > 1 and self.id != "speedups"


def html(report: Report) -> str:
    """The report as one page that needs nothing else, smaller than a megabyte."""
    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
    environment.globals.update(embed=_embedder(), raw=Markup, marks=MARKS, states=STATES)
    template = environment.get_template("page.html.jinja")
    state, headwords = headline(report)
    comparison = report.comparison
    limits = comparison.limits if comparison else LIMITS
    page = template.render(
        title=report.title,
        state=state,
        headwords=headwords,
        sentence=words.sentence(comparison) if comparison else "",
        outcome=sentence(report.run) if report.run else "",
        unsafe=words.unsafe(comparison) if comparison else "",
        advice=list(map(clause, comparison.advice)) if comparison else [],
        rerun=comparison.rerun if comparison else "",
        tiles=tiles(report),
        sections=drawn(sections(report)),
        expected=comparison.expected if comparison and finite(comparison.expected) else None,
        limits=[
            (name, f"{value:g} {unit}", why) for name, value, unit, why in thresholds.listed(limits)
        ],
        made=utc(report.made, seconds_too=True),
        data="",
    )
    data, left_out = embedded(report, LIMIT - len(page.encode("utf-8", "replace")) - 1000)
    tail = {"data": Markup(data), "left_out": left_out}
    page, body, end = page.rpartition("</body>")
    page += "".join(template.blocks["tail"](template.new_context(tail)))
    return (page + body + end).encode("utf-8", "replace").decode()


def drawn(found: Sequence[Section]) -> list[Section]:
    """The sections that have something to show, their figures drawn as far as there is room."""
    room = FIGURES
    for section in sorted(found, key=lambda s: s.id not in ("speedups", "scaling", "nodes")):
        section.groups, room = common.draw(section.groups, room)
    return [s for s in found if s.groups or s.tables or s.sparks or s.notes]


def _embedder() -> Callable[[str, str, str], Markup]:
    """A function for the template that puts a drawing in, each time under another prefix."""
    count = iter(range(1, 1 << 30))

    def embed(svg: str, title: str, describe: str) -> Markup:
        return Markup(figure.embed(svg, f"f{next(count)}", title, describe))

    return embed


def tiles(report: Report) -> list[tuple[str, list[tuple[Verdict, int]]]]:
    """For the banner, (title, [(verdict, number)]): of the comparison every verdict, of the run
    those that occur."""
    found = []
    if report.comparison:
        found = [(verdict, report.comparison.count(verdict)) for verdict in COMPARED]
    run = Counter(case.verdict for case in report.cases if not case.fixture)
    of_run = [(verdict, run[verdict]) for verdict in Verdict if run[verdict]]
    return [("Metrics compared", found), ("Checks of the newest run", of_run)]


def sections(report: Report) -> list[Section]:
    """What the page shows, in order."""
    comparison = report.comparison
    rows = comparison.rows if comparison else []
    expected = comparison.expected if comparison else None
    styles = Styles(report.cases, rows)
    found = []
    if comparison:
        found += _comparison_sections(comparison, styles, expected)
    found += _session_sections(report.cases, styles)
    found += [_nodes_section(report), _history_section(report), _failures_section(report)]
    if rows:
        scopes = words.scopes(rows)
        lead = LEADS["rows"] + (f" The verdicts hold for {scopes[0]}." if len(scopes) == 1 else "")
        found.append(Section("rows", "All rows", lead, tables=[rows_table(rows)]))
    return found


LEADS = {
    "speedups": "Performance after over before: a bar a test, from 1 (as before) to its ratio of "
    "medians, with the interval. To the right is faster. Under each name: ranks \u00d7 threads, "
    "nodes, software.",
    "clock": " The dashed line is what the change alone should give, such as the ratio of clocks: "
    "a bar beyond it gained from something else as well, one short of it lost on the way.",
    "scaling": "The same tests on several numbers of ranks. A ratio that falls as ranks rise "
    "points to the network or to noise, one that rises to a better network.",
    "methods": "The ways to communicate, in the newest session. Where a case was measured on "
    "several numbers of cores: speed-up over the reference method on the fewest; dots are "
    "the ideal. Elsewhere: times at the one geometry.",
    "npar": "Time against the number of groups that share the bands. A ring marks the best.",
    "layouts": "Ranks against threads on the same cores, each layout with its fastest method.",
    "shares": "The part of the time that goes into communication, by kind.",
    "sweeps": "Time of one exchange against the size of its messages.",
    "history": "Each line is a metric over its sessions. A tick with a triangle marks where a new "
    "level begins, \u25bc for worse, \u25b2 for better; the dot is the newest value.",
    "failures": "What failed or was not measured, why, and the command that repeats it.",
    "rows": "Every metric that was compared, the worst first.",
}


def _comparison_sections(
    comparison: Comparison, styles: Styles, expected: float | None
) -> list[Section]:
    clock = LEADS["clock"] if finite(expected) else ""
    bars = speedups(comparison.rows, expected)
    curves = scaling(comparison.rows, expected, styles)
    return [
        Section("compared", "What was compared", tables=[sessions_table(comparison)]),
        Section(
            "changes",
            "What changed",
            tables=[changes_table(comparison.changes)] if comparison.changes else [],
            notes=[] if comparison.changes else ["Nothing that is recorded."],
        ),
        Section("speedups", "Speed-up", LEADS["speedups"] + clock, bars),
        Section("scaling", "Speed-up against ranks", LEADS["scaling"], curves),
    ]


def _session_sections(latest: Sequence[Any], styles: Styles) -> list[Section]:
    cases: list[MeasuredCase] = common.timed(latest)
    return [
        Section("methods", "Methods", LEADS["methods"], sessions.crossovers(cases, styles)),
        Section("npar", "NPAR", LEADS["npar"], sessions.npar_curves(cases, styles)),
        Section("layouts", "Hybrid layouts", LEADS["layouts"], hybrid.hybrids(cases, styles)),
        Section("shares", "Communication", LEADS["shares"], hybrid.shares(cases)),
        Section(
            "sweeps",
            "Message sizes",
            LEADS["sweeps"],
            sessions.sweeps(common.measured(latest), styles),
        ),
    ]


def _nodes_section(report: Report) -> Section:
    suspects = report.comparison.suspects if report.comparison else []
    tables = [suspects_table(suspects)] if suspects else []
    notes = [
        f"{pairs.title}: {words.named(odd)}" for pairs in report.pairs for odd in pairs.suspects
    ]
    groups = hybrid.heat_maps(report.pairs[:6])
    lead = "A node is suspected where jobs on it differ from the others'; a pair, where its value "
    lead += "differs from what its two nodes do elsewhere." if groups or tables else ""
    return Section("nodes", "Nodes", lead, groups, tables, notes=notes[:POINTS])


def _failures_section(report: Report) -> Section:
    tables = [failures_table(report.run)] if report.failures else []
    return Section("failures", "Failed and not measured", LEADS["failures"], tables=tables)


def _history_section(report: Report) -> Section:
    sparks, left = sparklines(report)
    notes = [f"{left:,} more metrics have a history that is not drawn."] if left else []
    tables = [points_table(report.history)] if report.history else []
    return Section("history", "History", LEADS["history"], [], tables, sparks, notes)


def sparklines(report: Report) -> tuple[list[dict[str, Any]], int]:
    """(what the template draws, how many series it does not): first what changed or failed."""
    rows = report.comparison.rows if report.comparison else []
    verdicts = {row.key: row.verdict for row in rows}
    points = {point.key for point in report.history}
    failed = {(c.check, c.case, c.method) for c in report.failures}
    rank = {verdict: index for index, verdict in enumerate(COMPARED)}

    def urgency(series: Series) -> tuple[bool, int, bool]:
        key = series.key
        in_failed = (series.check, series.case, series.method) in failed
        changed = verdicts.get(key) in CHANGED
        urgent = changed or key in points or bool(series.points) or in_failed
        return not urgent, rank.get(verdicts.get(key), len(rank)), series.metric != "time"

    order = sorted((s for s in report.series if any(map(finite, s.values))), key=urgency)
    urgent = sum(not urgency(series)[0] for series in order)
    shown = order[: min(SPARKLINES, max(urgent, SPARKLINES // 2))]
    return [_spark(s, verdicts.get(s.key)) for s in shown], len(order) - len(shown)


def _spark(series: Series, verdict: Verdict | None) -> dict[str, Any]:
    known = [value for value in series.values if finite(value)]
    low, high, last = (amount(v, series.unit) for v in (min(known), max(known), known[-1]))
    known_times = [when for when in series.times if finite(when)] or [None]
    span = " to ".join(utc(end(known_times))[:10] for end in (min, max))
    name = series.label
    label = f"{name}: {len(known)} sessions, least {low}, most {high}, last {last}"
    if series.points:
        label += f", {plural(len(series.points), 'change point')}"
    svg = style.sparkline(series.values, series.points, series.better, label)
    return {
        "name": short(name, 120),
        "place": short(series.place, 80),
        "verdict": verdict,
        "svg": svg,
        "low": low,
        "high": high,
        "last": last,
        "sessions": len(known),
        "span": span,
        "better": series.better,
    }
