"""The report as one HTML page, with its data."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from bisection.core.format import amount, finite, plain, plural, short, times, utc
from bisection.core.verdicts import (
    FAIL,
    IMPROVED,
    KNOWN,
    MISSING,
    NOT_APPLICABLE,
    NOT_MEASURED,
    PASS,
    REGRESSED,
    VERDICTS,
)
from bisection.report.figures import common, hybrid, sessions
from bisection.report.figures.common import Group
from bisection.report.figures.comparison import scaling, speedups
from bisection.report.model import (
    MARKS,
    STATES,
    headline,
    place,
    scopes_of,
    series_key,
    test_name,
    worst_first,
)
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


@dataclass
class Section:
    """A part of the page: figures, then tables; left out where both are empty."""

    id: str
    title: str
    lead: str = ""
    groups: list[Group] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    sparks: list[dict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def side_by_side(self):
        """Whether its figures are small enough for two in a row."""
        alone = all(len(group.panels) == 1 for group in self.groups)
        return alone and len(self.groups) > 1 and self.id != "speedups"


def html(report):
    """The report as one page that needs nothing else, smaller than a megabyte."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
    environment.globals.update(embed=_embedder(Markup), raw=Markup, marks=MARKS, states=STATES)
    template = environment.get_template("page.html.jinja")
    state, words = headline(report)
    page = template.render(
        report=report,
        comparison=report.comparison,
        state=state,
        words=words,
        tiles=tiles(report),
        sections=drawn(sections(report)),
        settings=_settings(report.comparison),
        made=utc(report.made, seconds_too=True),
        data="",
    )
    data, left_out = embedded(report, LIMIT - len(page.encode("utf-8", "replace")) - 1000)
    tail = {"data": Markup(data), "left_out": left_out}
    page, body, end = page.rpartition("</body>")
    page += "".join(template.blocks["tail"](template.new_context(tail)))
    return (page + body + end).encode("utf-8", "replace").decode()


def drawn(found):
    """The sections that have something to show, their figures drawn as far as there is room."""
    room = FIGURES
    for section in sorted(found, key=lambda s: s.id not in ("speedups", "scaling", "nodes")):
        section.groups, room = common.draw(section.groups, room)
    return [s for s in found if s.groups or s.tables or s.sparks or s.notes]


def _embedder(markup):
    """A function for the template that puts a drawing in, each time under another prefix."""
    count = iter(range(1, 1 << 30))

    def embed(svg, title, describe):
        return markup(figure.embed(svg, f"f{next(count)}", title, describe))

    return embed


def tiles(report):
    """For the banner, (title, [(verdict, number)]): of the comparison every verdict, of the run
    those that occur."""
    found = []
    if report.comparison:
        found = [(verdict, report.comparison.count(verdict)) for verdict in VERDICTS]
    run = Counter(c.get("verdict") for c in report.latest if not c.get("fixture"))
    if not run:
        run = Counter(case.get("verdict") for case in report.failures)
    order = (FAIL, NOT_MEASURED, KNOWN, NOT_APPLICABLE, PASS)
    of_run = [(verdict, run[verdict]) for verdict in order if run[verdict]]
    return [("Metrics compared", found), ("Checks of the newest run", of_run)]


def sections(report):
    """What the page shows, in order."""
    comparison = report.comparison
    rows = comparison.rows if comparison else []
    expected = comparison.expected if comparison else None
    styles = Styles(report.latest, rows)
    found = []
    if comparison:
        found += _comparison_sections(comparison, styles, expected)
    found += _session_sections(report.latest, styles)
    found += [_nodes_section(report), _history_section(report), _failures_section(report)]
    if rows:
        scopes = scopes_of(rows)
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


def _comparison_sections(comparison, styles, expected):
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


def _session_sections(latest, styles):
    cases = common.timed(latest)
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


def _nodes_section(report):
    suspects = report.comparison.suspects if report.comparison else []
    tables = [suspects_table(suspects)] if suspects else []
    notes = [f"{pairs.title}: {text}" for pairs in report.pairs for text in pairs.suspects]
    groups = hybrid.heat_maps(report.pairs[:6])
    lead = "A node is suspected where jobs on it differ from the others'; a pair, where its value "
    lead += "differs from what its two nodes do elsewhere." if groups or tables else ""
    return Section("nodes", "Nodes", lead, groups, tables, notes=notes[:POINTS])


def _failures_section(report):
    tables = [failures_table(report.failures)] if report.failures else []
    return Section("failures", "Failed and not measured", LEADS["failures"], tables=tables)


def _history_section(report):
    sparks, left = sparklines(report)
    notes = [f"{left:,} more metrics have a history that is not drawn."] if left else []
    tables = [points_table(report.history)] if report.history else []
    return Section("history", "History", LEADS["history"], [], tables, sparks, notes)


def sparklines(report):
    """(what the template draws, how many series it does not): first what changed or failed."""
    rows = report.comparison.rows if report.comparison else []
    verdicts = {series_key(row): row.verdict for row in rows}
    points = {series_key(point) for point in report.history}
    failed = {(c.get("check"), c.get("case"), c.get("method")) for c in report.failures}
    rank = {verdict: index for index, verdict in enumerate(VERDICTS)}

    def urgency(series):
        key = series_key(series)
        in_failed = (series.check, series.case, series.method) in failed
        changed = verdicts.get(key) in (REGRESSED, MISSING, NOT_MEASURED, IMPROVED)
        told = changed or key in points or bool(series.points) or in_failed
        return not told, rank.get(verdicts.get(key), len(rank)), series.metric != "time"

    order = sorted((s for s in report.series if any(map(finite, s.values))), key=urgency)
    told = sum(not urgency(series)[0] for series in order)
    shown = order[: min(SPARKLINES, max(told, SPARKLINES // 2))]
    return [_spark(s, verdicts.get(series_key(s), "")) for s in shown], len(order) - len(shown)


def _spark(series, verdict):
    known = [value for value in series.values if finite(value)]
    low, high, last = (amount(v, series.unit) for v in (min(known), max(known), known[-1]))
    known_times = [when for when in series.times if finite(when)] or [None]
    span = " to ".join(utc(end(known_times))[:10] for end in (min, max))
    name = test_name(series)
    label = f"{name}: {len(known)} sessions, least {low}, most {high}, last {last}"
    if series.points:
        label += f", {plural(len(series.points), 'change point')}"
    svg = style.sparkline(series.values, series.points, series.better, label)
    return {
        "name": short(name, 120),
        "place": short(place(series), 80),
        "verdict": verdict,
        "svg": svg,
        "low": low,
        "high": high,
        "last": last,
        "sessions": len(known),
        "span": span,
        "better": series.better,
    }


def _settings(comparison):
    """How it was judged, as (name, value)."""
    settings = dict(comparison.settings) if comparison else {}
    if comparison and finite(comparison.expected):
        settings.setdefault("expected ratio", times(comparison.expected))
    return [
        (str(name).replace("_", " "), f"{v:g}" if isinstance(v, float) else short(v, 400))
        for name, v in settings.items()
    ]


def embedded(report, budget):
    """(JSON that is safe in a script element, sentence on what is left out), in `budget` bytes."""
    comparison = report.comparison
    head = {"title": report.title, "made": report.made, "outcome": report.outcome}
    if comparison:
        head |= {k: v for k, v in asdict(_without_rows(comparison)).items() if k != "rows"}
    rows = worst_first(comparison.rows) if comparison else []
    lists = {
        "failures": report.failures,
        "rows": map(asdict, rows),
        "history": map(asdict, report.history),
        "pairs": map(asdict, report.pairs),
        "latest": map(_measured, report.latest),
        "series": map(_rounded, report.series),
    }
    totals = {"failures": len(report.failures), "rows": len(rows)}
    totals |= {"history": len(report.history), "pairs": len(report.pairs)}
    totals |= {"latest": len(report.latest), "series": len(report.series)}
    text = safe_json(head)
    if len(text) > budget:
        text = safe_json({"title": short(report.title), "made": report.made})
    budget -= len(text) + 200
    parts, left_out = [text[:-1]], []
    for name, items in lists.items():
        kept, budget = _within(items, budget - len(name) - 8)
        parts.append(f',"{name}":[{",".join(kept)}]')
        if len(kept) < totals[name]:
            left_out.append(f"{len(kept):,} of {totals[name]:,} {name}")
    said = f"To stay small it holds {', '.join(left_out)}." if left_out else ""
    return "".join(parts) + "}", said


def _within(items, budget):
    """The items as JSON as long as there is room, and the room that is left."""
    kept = []
    for item in items:
        text = safe_json(item)
        if len(text) + 1 > budget:
            break
        kept.append(text)
        budget -= len(text) + 1
    return kept, budget


def _without_rows(comparison):
    return replace(comparison, rows=[])


def _measured(case):
    """A case without what is only of use to the run."""
    kept = "check case layout geometry method partition environ verdict cause".split()
    found = {name: case.get(name) for name in kept if case.get(name)}
    metrics = case.get("metrics") or []
    found["metrics"] = {m["name"]: [_digits(m["value"]), m["unit"]] for m in metrics}
    return found


def _rounded(series):
    found = asdict(series)
    found["times"] = [round(t) if finite(t) else None for t in series.times]
    found["values"] = [_digits(v) for v in series.values]
    return found


def _digits(value):
    """As many digits as a measurement has, and no more."""
    return float(f"{value:.5g}") if finite(value) else None


def safe_json(value):
    """JSON in ASCII, without what would end a script element, and null for what is no number."""
    text = json.dumps(
        _null(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"), default=str
    )
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


def _null(value):
    """The same with null for numbers that JSON does not have."""
    if isinstance(value, float):
        return value if finite(value) else None
    if isinstance(value, dict):
        return {str(key): _null(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_null(item) for item in value]
    return value
