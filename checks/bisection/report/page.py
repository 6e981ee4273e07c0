"""The report as one HTML page."""

import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from bisection.analysis.model import ChangePoint, DrawnHistory, Row
from bisection.core import thresholds
from bisection.core.format import amount, finite, plain, plural, short, utc
from bisection.core.verdicts import COMPARED, Verdict
from bisection.report.figures import burn_figures, session_figures
from bisection.report.figures.common import FigureGroup, MeasuredCase, draw, measured_cases
from bisection.report.opening import opening
from bisection.report.report_data import MARKS, STATES, Report
from bisection.report.sections import PURPOSE, Section
from bisection.report.sections import sections as contents
from bisection.report.svg.style import embed, sparkline

HERE = Path(__file__).resolve().parent
# The page stays below this, in bytes, whatever is reported, as its figures take at most so much of
# it; what does not fit is counted.
LIMIT, FIGURES = 960_000, 520_000
SPARKLINES = 36  # that the page draws at most
SHOWN = 12  # rows, notes and sparklines of a section: more are folded, or a phone scrolls for long
HOT = ("worse", "failures", "nodes")  # sections of what is wrong
CHANGED = (Verdict.REGRESSED, Verdict.MISSING, Verdict.NOT_MEASURED, Verdict.IMPROVED)


def html(report: Report) -> str:
    """The report as one page that needs nothing else, smaller than a megabyte."""
    template = page_template("page.html.jinja")
    comparison = report.comparison
    page = template.render(
        title=report.title,
        about=report.about,
        purpose=PURPOSE,
        opening=opening(report),
        tiles=tiles(report),
        sections=sections(report),
        expected=comparison.expected if comparison else None,
        limits=thresholds.listed(),
        made=utc(report.written, seconds_too=True),
    )
    return page.encode("utf-8", "replace").decode()


def page_template(name: str, folder: Path = HERE) -> Template:
    """The template of this name in a folder, which may include what this folder has."""
    prefixes = itertools.count(1)  # else two drawings would have the same identifiers

    def drawing(svg: str, *words: str) -> Markup:
        return Markup(embed(svg, f"f{next(prefixes)}", *words))

    environment = Environment(
        loader=FileSystemLoader([folder, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: plain(value) if type(value) is str else value,
    )
    names = {"marks": MARKS, "states": STATES, "shown": SHOWN, "hot": HOT}
    environment.globals.update(embed=drawing, **names)
    environment.filters.update(unbroken=_unbroken, command=_command)
    return environment.get_template(name)


CODE = re.compile("`([^`&]{1,60})`")
WHOLE = re.compile(r"(?<![\w-])(?:--?[A-Za-z]|\d{4}-)[\w=.-]{0,30}")


def _unbroken(text: str) -> Markup:
    """Text in which no line ends within a date or an option, as after the hyphens of --reruns; what
    stands between backquotes is code."""
    coded = CODE.sub(r"<code>\1</code>", str(escape(plain(text))))
    return Markup(WHOLE.sub(r'<span class="nowrap">\g<0></span>', coded))


def _command(text: str) -> Markup:
    """A command whose lines end at blanks alone, so that it can be read and copied."""
    word, code = Markup('<span class="nowrap">{}</span>'), Markup('<code class="command">{}</code>')
    words = map(word.format, plain(text).split(" "))
    return code.format(Markup(" ").join(words)) if text else Markup()


def tiles(report: Report) -> list[tuple[str, list[tuple[Verdict, int]]]]:
    """(title, [(verdict, number)]) of what occurs: in the run, in the history of what changed and
    was not accepted, in the comparison."""
    run = report.run
    counts = Counter(map(run.outcome, run.judged)) if run else {}
    checks = [(verdict, counts[verdict]) for verdict in Verdict if counts.get(verdict)]
    compared = Counter(row.verdict for row in report.rows)
    metrics = [(verdict, compared[verdict]) for verdict in COMPARED if compared[verdict]]
    levels = Counter(point.verdict for point in _level(report))
    history = sorted(levels.items(), reverse=True)
    titles = "Checks of the newest run", "Metrics by their history", "Metrics compared"
    return [*zip(titles, (checks, history, metrics), strict=True)]


def _level(report: Report) -> list[ChangePoint]:
    """The change points since which metrics are as they are now, without accepted ones."""
    events = (event for event in report.evidence.events if not event.accepted)
    return [p for event in events for p in event.points if p.stands and not p.back]


def sections(report: Report) -> list[Section]:
    """Returns the content of the page, in order, its figures drawn as far as there is room."""
    parts, room = {section.id: section for section in contents(report)}, FIGURES
    for name, groups in figures(report).items():
        parts[name].groups, room = draw(list(groups), room)
    history = parts["history"]
    history.sparks, left = sparklines(report)
    if any(series.points for series in report.evidence.series):
        history.lead += " A tick with a triangle marks where a new level begins, \u25bc for worse, "
        history.lead += "\u25b2 for better. The dot is the newest value."
    history.notes += [f"{left:,} more metrics have a history that is not drawn."] if left else []
    return [section for section in parts.values() if section.shown]


def figures(report: Report) -> dict[str, Iterable[FigureGroup]]:
    """Section -> figures, those first that must not be left out."""
    rows, expected = report.rows, report.comparison.expected if report.comparison else None
    tests = report.run.cases if report.run else ()
    cases = [*measured_cases(tests)]
    comparable = _timed(measured_cases(test for test in tests if test.has_alternatives))
    return {
        "speedups": session_figures.speedups(rows, expected),
        "burn": burn_figures.curves(report.run),
        "network": _maps(report),
        "methods": session_figures.crossovers(comparable),
        "npar": session_figures.npar_curves(comparable),
        "layouts": session_figures.hybrids(comparable),
        "shares": session_figures.shares(_timed(cases)),
        "sweeps": session_figures.sweeps(cases),
    }


def _timed(cases: Iterable[MeasuredCase]) -> list[MeasuredCase]:
    return [case for case in cases if case.metrics.get("time", 0) > 0]


def _maps(report: Report) -> Iterable[FigureGroup]:
    if not report.evidence.blames:
        return ()
    from interconnect.maps import maps

    return maps(report.evidence.blames[:4])


def sparklines(report: Report) -> tuple[list[dict[str, Any]], int]:
    """(what the template draws, how many series it does not): first what changed or failed."""
    judged: list[Row | ChangePoint] = [*report.rows, *_level(report)]
    verdicts = {each.key: each.verdict for each in judged}
    new = {p.key for event in report.evidence.events if event.is_new for p in event.worse}
    bad = report.run.bad if report.run else []
    failed = {(case.check, case.case, case.method) for case in bad}
    ranks = [*COMPARED, None]  # None: of metrics that were not compared

    def urgency(series: DrawnHistory) -> tuple[bool, bool, int, bool]:
        verdict, test = verdicts.get(series.key), (series.check, series.case, series.method)
        urgent = verdict in CHANGED or bool(series.points) or test in failed
        return series.key not in new, not urgent, ranks.index(verdict), series.metric != "time"

    order = sorted((s for s in report.evidence.series if any(map(finite, s.values))), key=urgency)
    shown = [_spark(series, verdicts.get(series.key)) for series in order[:SPARKLINES]]
    return shown, len(order) - len(shown)


def _spark(series: DrawnHistory, verdict: Verdict | None) -> dict[str, Any]:
    """Returns the values of a series for the template."""
    known = [value for value in series.values if finite(value)]
    low, high, last = (amount(v, series.unit) for v in (min(known), max(known), known[-1]))
    known_times = [when for when in series.times if finite(when)] or [math.nan]
    span = " to ".join(utc(end(known_times))[:10] for end in (min, max))
    steps = plural(len(series.points), "change point")
    return {
        "name": short(series.label, 120),
        "place": short(series.place, 80),
        "verdict": None if verdict == Verdict.INCONCLUSIVE else verdict,  # its usual one
        "svg": sparkline(series.values, series.points, series.better),
        "describe": f"{plural(len(known), 'session')}, {low} to {high}, last {last}; {steps}",
        "range": f"{low} to {high}, {series.better} is better",
        "last": last,
        "span": f"{plural(len(known), 'session')}, {span}",
    }
