"""A report on stored results: one HTML page, Markdown, JUnit, Prometheus, a list of bad nodes.

Rendering alone: what is reported was judged before, nothing here needs ReFrame, MPI or a database.
"""

import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from bisection import charts, drawing
from bisection.comparison import (
    BELOW,
    IMPROVED,
    INCONCLUSIVE,
    MISSING,
    NEW,
    NOT_MEASURED,
    REGRESSED,
    UNCHANGED,
    VERDICTS,
    ChangePoint,
    Comparison,
    Pairs,
    Series,
)
from bisection.history import RECENT
from bisection.texts import (
    NONE,
    Table,
    amount,
    before_after,
    cut,
    finite,
    interval,
    plain,
    plural,
    replace_whole,
    short,
    times,
    utc,
)
from bisection.verdict import FAIL, FOLLOWS, KNOWN, NOT_APPLICABLE, PASS

HERE = Path(__file__).resolve().parent

# The page stays below this, in bytes, whatever is reported, and its figures take so much of it;
# what does not fit is counted.
LIMIT, FIGURES = 960_000, 450_000
# What tables list at most.
ROWS, SESSIONS, FAILURES, SPARKLINES, POINTS = 300, 10, 60, 48, 60


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


# ---- the verdict ----

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


# ---- tables ----


def filled(head, kinds, rows, note=""):
    """A Table without the columns in which no row says anything."""
    used = [any(row[i] not in ("", NONE) for row in rows) for i in range(len(head))]
    head, kinds, *rows = [
        [cell for cell, keep in zip(cells, used, strict=True) if keep]
        for cells in (head, kinds, *rows)
    ]
    return Table(head, kinds, rows, note)


def sessions_table(comparison):
    """The newest sessions of each side."""
    rows, left_out = [], []
    for side, sessions in (
        ("before", comparison.before),
        ("again", comparison.again),
        ("after", comparison.after),
    ):
        newest = sorted(sessions, key=lambda s: -s["start"] if finite(s.get("start")) else 0)
        rows += [_session_cells(side, session) for session in newest[:SESSIONS]]
        if len(newest) > SESSIONS:
            first = utc(newest[-1].get("start"))
            left_out.append(f"{len(newest) - SESSIONS} more {side}, since {first}")
    note = f"{' and '.join(left_out)}." if left_out else ""
    head = ["side", "started", "tags", "session", "folder"]
    return filled(head, ["text", "date", "text", "code", "code"], rows, note)


def _session_cells(side, session):
    cells = [side, utc(session.get("start")), short(tags(session), 120)]
    return [*cells, short(session.get("uuid") or "", 40), short(session.get("folder") or "", 160)]


def changes_table(changes):
    rows = [[short(c.what), short(c.before) or NONE, short(c.after) or NONE] for c in changes]
    rows, note = cut(rows, ROWS // 3, "changes")
    return Table(["what", "before", "after"], ["text", "text", "text"], rows, note)


def rows_table(rows, limit=ROWS):
    """All rows, worst first."""
    shown, note = cut(worst_first(rows), limit, "rows")
    scopes = scopes_of(rows)
    head = ["verdict", "test", "metric", "better", "where", "before", "after", "after / before"]
    head += ["interval", "p", "why"]
    kinds = ["verdict", "text", "text", "text", "small", *["num"] * 5, "small"]
    cells = [
        [
            row.verdict,
            short(row.test, 120) + (" (control)" if row.control else ""),
            short(row.metric, 60),
            row.better,
            short(place(row), 80),
            amount(row.before.median, row.unit),
            amount(row.after.median, row.unit),
            times(row.ratio),
            interval(row.low, row.high),
            f"{row.p:.2g}" if finite(row.p) else "",
            short(row_why(row, len(scopes) > 1), 240),
        ]
        for row in shown
    ]
    return filled(head, kinds, cells, note)


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


def points_table(points):
    shown = sorted(points, key=lambda p: (p.verdict != REGRESSED, -_step(p)))
    shown, note = cut(shown, POINTS, "change points")
    head = ["verdict", "metric", "where", "since", "new / old level", "sessions", "changed then"]
    kinds = ["verdict", "text", "small", "date", "num", "num", "small"]
    cells = [
        [
            point.verdict,
            short(test_name(point), 140),
            short(place(point), 80),
            f"{utc(point.at)} ({short(point.session, 8)})",
            times(point.ratio),
            f"{point.before} before, {point.after} since",
            short(_changed(point.changes), 400),
        ]
        for point in shown
    ]
    return Table(head, kinds, cells, note)


def _step(point):
    """How far a level moved, as a factor above 1."""
    if not finite(point.ratio) or point.ratio <= 0:
        return 0.0
    return max(point.ratio, 1 / point.ratio)


def _changed(changes):
    texts = [f"{c.what}: {c.before or NONE} \u2192 {c.after or NONE}" for c in changes]
    return "; ".join(texts) or "nothing that is recorded"


def suspects_table(suspects):
    head = ["node", "partition", "cost on it / elsewhere", "jobs", "why"]
    rows = [
        [short(s.node, 80), short(s.where, 80), times(s.ratio), str(s.jobs), short(s.why)]
        for s in suspects
    ]
    rows, note = cut(rows, ROWS // 3, "nodes")
    return Table(head, ["text", "text", "num", "num", "small"], rows, note)


def failures_table(failures):
    own, followed = roots(failures)
    shown, note = cut(own, FAILURES, "cases")
    if followed:
        note += f" {plural(followed, 'case')} only followed another one's failure."
    head = ["verdict", "case", "where", "cause", "nodes", "again", "files"]
    kinds = ["verdict", "text", "small", "text", "small", "command", "code"]
    cells = [
        [
            case.get("verdict") or NOT_MEASURED,
            short(case_name(case), 160),
            short(f"{case.get('partition') or ''} {case.get('environ') or ''}".strip(), 80),
            short(case.get("cause") or "no cause is recorded", 600),
            _nodes(case.get("hosts") or []),
            short(case.get("again") or "", 1200),
            short(case.get("files") or "", 240),
        ]
        for case in shown
    ]
    return filled(head, kinds, cells, note.strip())


def _nodes(hosts, most=8):
    """Names of nodes, each once."""
    found = list(dict.fromkeys(map(str, hosts)))
    more = f" and {len(found) - most} more" if len(found) > most else ""
    return short(" ".join(found[:most]), 200) + more


# ---- HTML ----


@dataclass
class Section:
    """A part of the page: figures, then tables; left out where both are empty."""

    id: str
    title: str
    lead: str = ""
    groups: list[charts.Group] = field(default_factory=list)
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
    template = environment.get_template("report.html.jinja")
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
        section.groups, room = charts.draw(section.groups, room)
    return [s for s in found if s.groups or s.tables or s.sparks or s.notes]


def _embedder(markup):
    """A function for the template that puts a drawing in, each time under another prefix."""
    count = iter(range(1, 1 << 30))

    def embed(svg, title, describe):
        return markup(drawing.embed(svg, f"f{next(count)}", title, describe))

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
    styles = drawing.Styles(report.latest, rows)
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
    speedups = charts.speedups(comparison.rows, expected)
    scaling = charts.scaling(comparison.rows, expected, styles)
    return [
        Section("compared", "What was compared", tables=[sessions_table(comparison)]),
        Section(
            "changes",
            "What changed",
            tables=[changes_table(comparison.changes)] if comparison.changes else [],
            notes=[] if comparison.changes else ["Nothing that is recorded."],
        ),
        Section("speedups", "Speed-up", LEADS["speedups"] + clock, speedups),
        Section("scaling", "Speed-up against ranks", LEADS["scaling"], scaling),
    ]


def _session_sections(latest, styles):
    cases = charts.timed(latest)
    return [
        Section("methods", "Methods", LEADS["methods"], charts.crossovers(cases, styles)),
        Section("npar", "NPAR", LEADS["npar"], charts.npar_curves(cases, styles)),
        Section("layouts", "Hybrid layouts", LEADS["layouts"], charts.hybrids(cases, styles)),
        Section("shares", "Communication", LEADS["shares"], charts.shares(cases)),
        Section(
            "sweeps",
            "Message sizes",
            LEADS["sweeps"],
            charts.sweeps(charts.measured(latest), styles),
        ),
    ]


def _nodes_section(report):
    suspects = report.comparison.suspects if report.comparison else []
    tables = [suspects_table(suspects)] if suspects else []
    notes = [f"{pairs.title}: {text}" for pairs in report.pairs for text in pairs.suspects]
    groups = charts.heat_maps(report.pairs[:6])
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
    svg = drawing.sparkline(series.values, series.points, series.better, label)
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


# ---- data in the page ----


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


# ---- Markdown ----


def markdown(report):
    """The report as Markdown, for a summary page of CI or a mail."""
    state, words = headline(report)
    lines = [f"# {_md(report.title)}", "", f"**{STATES[state]} {_md(words)}**", ""]
    comparison = report.comparison
    lines += [f"{_md(text)}\n" for text in (report.outcome,) if text]
    if comparison:
        lines += _md_comparison(comparison)
    if report.history:
        lines += ["## Change points", "", *_md_table(points_table(report.history)), ""]
    if comparison and comparison.suspects:
        lines += ["## Suspect nodes", "", *_md_table(suspects_table(comparison.suspects)), ""]
    sentences = [(pairs.title, text) for pairs in report.pairs for text in pairs.suspects]
    lines += [f"* {_md(title)}: {_md(text)}" for title, text in sentences]
    lines += [""] if sentences else []
    if report.failures:
        lines += ["## Failed and not measured", "", *_md_table(failures_table(report.failures)), ""]
    lines.append(f"Made {utc(report.made)}.")
    return "\n".join(lines) + "\n"


def _md_comparison(comparison):
    lines = [f"{_md(comparison.sentence)}\n"] if comparison.sentence else []
    if comparison.unsafe:
        lines += [f"> **Not to be trusted:** {_md(comparison.unsafe)}", ""]
    lines += [f"* {_md(text)}" for text in comparison.advice]
    if comparison.rerun:
        lines.append(f"* again: {_md_code(comparison.rerun)}")
    lines += ["", "## Compared", "", *_md_table(sessions_table(comparison)), ""]
    lines += ["## What changed", ""]
    if comparison.changes:
        lines += [*_md_table(changes_table(comparison.changes)), ""]
    else:
        lines += ["Nothing that is recorded.", ""]
    counted = [f"{comparison.count(word)} {word}" for word in VERDICTS]
    lines += ["## Rows", "", ", ".join(counted) + ".", ""]
    told = [row for row in comparison.rows if row.verdict != UNCHANGED]
    if told:
        lines += [*_md_table(rows_table(told, 50)), ""]
    return lines


def _md_table(table):
    rules = ["---:" if kind == "num" else "---" for kind in table.kinds]
    code = [kind in ("code", "command") for kind in table.kinds]
    lines = [f"| {' | '.join(table.head)} |", f"| {' | '.join(rules)} |"]
    for row in table.rows:
        cells = [
            _md_code(cell).replace("|", "\\|") if is_code else _md(cell)
            for cell, is_code in zip(row, code, strict=True)
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return lines + (["", table.note] if table.note else [])


def _md(text):
    """Text on one line that Markdown takes for nothing else."""
    text = " ".join(plain(text).split())
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_|\[\]#~])", r"\\\1", text)


def _md_code(text):
    """Text as code, in a fence longer than any in it."""
    text = " ".join(plain(text).split())
    if not text:
        return ""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", text)), default=0))
    pad = " " if len(fence) > 1 else ""
    return f"{fence}{pad}{text}{pad}{fence}"


# ---- JUnit ----

TAGS = {
    REGRESSED: "failure",
    FAIL: "failure",
    NOT_MEASURED: "error",
    MISSING: "error",
    INCONCLUSIVE: "skipped",
}


def junit(report):
    """JUnit XML: regressed is a failure, not measured and missing are errors, inconclusive is
    skipped."""
    rows = worst_first(report.comparison.rows) if report.comparison else []
    found = [
        (f"{row.check}.{place(row)}", test_name(row), row.verdict, _row_message(row))
        for row in rows
    ]
    found += [
        (
            f"{case.get('check') or 'build'}.{case.get('partition')}.{case.get('environ')}",
            case.get("test") or case_name(case),
            case.get("verdict") or NOT_MEASURED,
            case.get("cause") or "no cause is recorded",
        )
        for case in report.failures
    ]
    counted = Counter(TAGS.get(verdict) for _, _, verdict, _ in found)
    suite = ET.Element(
        "testsuite",
        name="bisection report",
        tests=str(len(found)),
        failures=str(counted["failure"]),
        errors=str(counted["error"]),
        skipped=str(counted["skipped"]),
    )
    for where, name, verdict, message in found:
        test = ET.SubElement(suite, "testcase", classname=plain(where), name=plain(name))
        if tag := TAGS.get(verdict):
            ET.SubElement(test, tag, message=plain(message))
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)


def _row_message(row):
    """Verdict, both values and their ratio in one line."""
    text = f"{row.verdict}: {amount(row.before.median, row.unit)} before, "
    text += f"{amount(row.after.median, row.unit)} after"
    if finite(row.ratio):
        text += f", ratio {times(row.ratio)} {interval(row.low, row.high)}".rstrip()
    return f"{text}; {row.why}" if row.why else text


# ---- Prometheus ----

LABELS = ["system", "partition", "environ", "check", "case", "layout", "method", "metric"]


def prometheus(report):
    """Gauges for the textfile collector of Prometheus's node exporter."""
    from prometheus_client import CollectorRegistry, Gauge, generate_latest

    registry = CollectorRegistry()

    def gauge(name, text, value=None, labels=()):
        made = Gauge(f"bisection_{name}", text, labels, registry=registry)
        if value is not None:
            made.set(value)
        return made

    gauge("exit_code", "0 if nothing regressed and all was measured", exit_code(report))
    if finite(report.made):
        gauge("report_made_seconds", "Unix time at which the report was made", report.made)
    failed = gauge("failed_cases", "Cases that failed or were not measured", None, ["verdict"])
    counted = Counter(case.get("verdict") for case in report.failures)
    for verdict in (FAIL, NOT_MEASURED):
        failed.labels(verdict).set(counted[verdict])
    if report.comparison:
        _gauges_of_comparison(report.comparison, gauge)
    return generate_latest(registry).decode()


def _gauges_of_comparison(comparison, gauge):
    start = gauge("session_start_seconds", "Unix time of the newest session", None, ["side"])
    for side, sessions in (("before", comparison.before), ("after", comparison.after)):
        starts = [s["start"] for s in sessions if finite(s.get("start"))]
        if starts:
            start.labels(side).set(max(starts))
    counts = gauge("verdicts", "Rows of the comparison by verdict", None, ["verdict"])
    for verdict in VERDICTS:
        counts.labels(verdict).set(comparison.count(verdict))
    gauge("unsafe", "1 if the verdicts are not to be trusted", int(bool(comparison.unsafe)))
    if finite(comparison.expected):
        gauge("expected_ratio", "Performance that the change should give", comparison.expected)
    suspects = gauge("suspect_node_ratio", "Cost on it over elsewhere", None, ["node", "partition"])
    for suspect in comparison.suspects:
        if finite(suspect.ratio):
            suspects.labels(plain(suspect.node), plain(suspect.where)).set(suspect.ratio)
    ratios = {
        name: gauge(name, text, None, LABELS)
        for name, text in (
            ("ratio", "After over before, of values as measured"),
            ("ratio_low", "Lower end of the ratio's interval"),
            ("ratio_high", "Upper end of the ratio's interval"),
        )
    }
    verdicts = gauge("verdict", "1 for the verdict on the row", None, [*LABELS, "verdict"])
    for row in comparison.rows:
        labels = [plain(value) for value in series_key(row)]
        for name, value in (("ratio", row.ratio), ("ratio_low", row.low), ("ratio_high", row.high)):
            if finite(value):
                ratios[name].labels(*labels).set(value)
        verdicts.labels(*labels, row.verdict).set(1)


# ---- nodes ----


def nodecheck(report):
    """A line a suspect node: its name and why, as health checks and `scontrol update
    nodename=NODE reason=WHY` take them; empty if there is none."""
    reasons = {}
    for node, reason in _suspected(report):
        node = node.strip()
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", node):
            known = reasons.setdefault(node, [])
            text = _reason(reason)
            if text not in known:
                known.append(text)
    return "".join(
        f"{node} bisection: {short('; '.join(found), 240)}\n"
        for node, found in sorted(reasons.items())
    )


def _suspected(report):
    """(node, reason), of nodes that results accuse by name."""
    for suspect in report.comparison.suspects if report.comparison else []:
        text = f"{times(suspect.ratio)} times the cost of other nodes in {suspect.where}"
        yield suspect.node, f"{text}, {plural(suspect.jobs, 'job')}; {suspect.why}".rstrip("; ")
    for pairs in report.pairs:
        for sentence in pairs.suspects:
            named = [node for node in pairs.nodes if names(sentence, node)]
            if len(named) == 1:  # of two, the path between them is suspected
                yield named[0], sentence
    for case in report.failures:
        for host in case.get("hosts") or []:
            if names(case.get("cause") or "", str(host)):
                yield str(host), f"{case_name(case)}: {case['cause']}"


def names(sentence, node):
    """Whether `node` is a word of the sentence."""
    return bool(node) and bool(re.search(rf"(?<![\w.-]){re.escape(node)}(?![\w-])", sentence))


def _reason(text):
    """On one line, without what a shell would take for its own."""
    return " ".join(re.sub(r"[\"'`$\\]", "", plain(text)).split())


# ---- files ----

FILES = {
    "report.html": "html",
    "report.md": "markdown",
    "report-junit.xml": "junit",
    "bisection.prom": "prometheus",
    "nodecheck.txt": "nodecheck",
}


def write(report, folder):
    """Every form of the report in `folder`; name -> path. A reader sees the old or the new file,
    never a part of one."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: globals()[form](report) for name, form in FILES.items()}
    return {name: replace_whole(folder / name, text) for name, text in texts.items()}
