"""Figures of a comparison: speed-ups; of one session: methods, layouts, NPAR, sizes, shares."""

import math
import re
from collections.abc import Iterator, Sequence
from functools import partial

from bisection.analysis.model import Row
from bisection.core.format import amount, before_after, finite, plural, short, size_of, times
from bisection.core.grouping import grouped
from bisection.core.identity import parsed, swept_size
from bisection.core.verdicts import COMPARED, Against, Verdict
from bisection.report.figures import common
from bisection.report.figures.common import FigureGroup, MeasuredCase, Panel, pivot, split
from bisection.report.svg import style
from bisection.report.svg.plots import Bar, Curve, bars_svg, curves_svg, dots_svg, stacks_svg
from bisection.report.svg.style import Legend, Style, layout_rank, legend_of, symbol
from bisection.report.text_tables import rows_table

NPAR = re.compile("npar-([1-9][0-9]{0,5})")
STACKS = 24  # rows of a stack


def crossovers(cases: Sequence[MeasuredCase]) -> Iterator[FigureGroup]:
    """Methods against each other, as figures 3 to 8 of the GWW report (2010) have them."""
    for _, title, members in common.by_check(cases):
        methods = style.numbered(case.method for case in members)
        if len(methods) > 1 and not all(map(NPAR.fullmatch, methods)):
            cells = (((c.case, c.seat, str(c.cores)), c.method, c.took) for c in members)
            panels, legend = _compared(members, "method", methods)
            yield FigureGroup(title, panels, pivot(["case", "layout", "cores"], cells), legend)


def hybrids(cases: Sequence[MeasuredCase]) -> Iterator[FigureGroup]:
    """Layouts against each other, each with its fastest method."""
    for _, title, members in common.by_check(cases):
        parts = split(members, "case", "cores", "layout").values()
        fastest = [min(part, key=lambda case: case.time) for part in parts]
        layouts = style.of_layouts(case.layout for case in fastest)
        if len(layouts) > 1:
            fastest.sort(key=lambda case: layout_rank(case.layout))
            cells = (
                ((c.case, str(c.cores)), c.layout, f"{c.took} ({c.geometry} {c.method})")
                for c in fastest
            )
            panels, legend = _compared(fastest, "layout", layouts)
            yield FigureGroup(title, panels, pivot(["case", "cores"], cells), legend)


def _compared(
    members: list[MeasuredCase], name: str, looks: dict[str, Style]
) -> tuple[list[Panel], Legend]:
    """Panels and legend of cases: speed-up against cores where a case was measured on several
    numbers of cores, times elsewhere. `name` is the attribute that is compared."""
    panels, legend, dots = [], [], []
    before, further = ("layout ", []) if name == "layout" else ("", ["layout"])
    for (case,), part in split(members, "case").items():
        if len(split(part, "cores")) > 1:
            legend = [*legend_of(looks, before), (symbol(**style.IDEAL), "ideal")]
            for names, line in split(part, *further).items():
                panels.append(_speedups(" ".join((case, *names)).strip(), line, name, looks))
        else:
            panels.append(_dots(case, part, name))
            dots += part
    layouts = style.of_layouts(case.layout for case in dots)
    return panels, legend + legend_of(layouts, "layout ", lines=False)


def _speedups(title: str, part: list[MeasuredCase], name: str, looks: dict[str, Style]) -> Panel:
    """Speed-ups against cores, over the baseline on the fewest cores; a curve has one value of the
    attribute `name`: method or layout."""
    part = sorted(part, key=lambda case: (case.cores, layout_rank(case.layout)))
    base = common.baseline(part) if name == "method" else part[0].layout
    unit = next((c for c in part if getattr(c, name) == base and c.cores == part[0].cores), part[0])
    curves = [
        Curve(looks[value], {case.cores: unit.time / case.time for case in points})
        for (value,), points in split(part, name).items()
    ]
    best = [min(points, key=lambda c: c.time) for points in split(part, "cores").values()]
    over = f"Speed-up over {getattr(unit, name)} on {unit.cores} cores against cores, {title}"
    named = ", ".join(f"{getattr(case, name)} on {case.cores}" for case in best)
    draw = partial(curves_svg, curves, "cores", "speed-up", log="xy", ideal=unit.cores)
    return Panel(title, f"{over}. Best: {named}; {common.ends_of(curves)}", draw)


def _dots(title: str, part: list[MeasuredCase], name: str) -> Panel:
    """Times, a row per method or layout, a dot per layout."""
    looks = style.of_layouts(case.layout for case in part)
    dots = [(getattr(case, name), case.time, looks[case.layout]) for case in part]
    best = min(part, key=lambda case: case.time)
    describe = f"Time of each {'method and ' * (name == 'method')}layout, {title}. Shortest: "
    describe += f"{best.method}, layout {best.layout}, {best.took}"
    names = list(dict.fromkeys(row for row, _, _ in dots))
    return Panel(title, describe, partial(dots_svg, names, dots))


def npar_curves(cases: Sequence[MeasuredCase]) -> Iterator[FigureGroup]:
    """Time against the number of band groups."""
    for check, title, members in common.by_check(cases):
        numbers = {m[0]: int(m[1]) for case in members if (m := NPAR.fullmatch(case.method))}
        kept = [case for case in members if case.method in numbers]
        kept.sort(key=lambda case: numbers[case.method])
        panels, looks = [], style.numbered(case.seat for case in kept)
        for (name,), of_case in split(kept, "case").items():
            curves = []
            for (seat,), line in split(of_case, "seat").items():
                points = {float(numbers[case.method]): case.time for case in line}
                fastest = min(points, key=points.__getitem__)
                curves.append(Curve(looks[seat], points, fastest))
            curves = [curve for curve in curves if len(curve.points) > 1]
            draw = partial(curves_svg, curves, "NPAR (band groups)", "time", log="x", unit="s")
            panels += [Panel(name, f"Time against NPAR, {check} {name}", draw)] if curves else []
        if panels:
            cells = (((c.case, c.seat), c.method, c.took) for c in kept)
            legend = [*legend_of(looks), (symbol(**style.RING), "best")]
            yield FigureGroup(title, panels, pivot(["case", "layout"], cells), legend)


def sweeps(cases: Sequence[MeasuredCase]) -> Iterator[FigureGroup]:
    """Time against message size, where a check sweeps it."""
    for _, place, members in common.by_check(case for case in cases if len(_sizes(case)) > 1):
        panels, cells, looks = [], [], style.numbered(case.method for case in members)
        for words, part in split(members, "case", "seat").items():
            title, curves = " ".join(words), []
            for case in part:
                points = {float(size): time for size, time in _sizes(case).items()}
                curves.append(Curve(looks[case.method], points))
                cells += [((title, case.method), n, points[n]) for n in points]
            draw = partial(curves_svg, curves, "bytes", "time", log="xy", unit="s")
            panels.append(Panel(title, f"Time against message size, {title}", draw))
        cells.sort(key=lambda cell: cell[1])
        texts = ((key, size_of(size), amount(value, "s")) for key, size, value in cells)
        table = pivot(["case", "method"], texts)
        yield FigureGroup(place, panels, table, legend_of(looks))


def _sizes(case: MeasuredCase) -> dict[int, float]:
    points = ((swept_size(name), value) for name, value in case.metrics.items())
    return dict(sorted((size, value) for size, value in points if size and value > 0))


# What of a step is communication: the profile where there is one, else the phases that communicate.
SHARES = (
    ("p2p", "collective", "barrier", "onesided", "one-sided"),
    ("exchange", "redistribute", "reduce", "paw-sum"),
    ("communication",),
)
WORDS = {"p2p": "point-to-point", "onesided": "one-sided", "paw-sum": "sum of PAW's parts"}


def shares(cases: Sequence[MeasuredCase]) -> Iterator[FigureGroup]:
    """The fraction of the time that goes into communication, by kind."""
    for check, title, members in common.by_check(cases):
        base = common.baseline(members)
        known = {name for case in members for name in case.metrics}
        kinds = ([part for part in names if f"{part}_share" in known] for names in SHARES)
        parts = next((kind for kind in kinds if kind), [])
        # A case without messages has its share of MPI, none; a disturbed one has no share at all.
        named = {"mpi_share", *(f"{part}_share" for part in parts)}
        seats = split([c for c in members if named & c.metrics.keys()], "case", "seat").values()
        stacks = [next((c for c in seat if c.method == base), seat[0]) for seat in seats]
        if parts:
            yield _share_group(check, title, stacks, parts)


def _share_group(
    check: str, title: str, stacks: list[MeasuredCase], parts: list[str]
) -> FigureGroup:
    values = [[max(0, case.metrics.get(f"{part}_share", 0)) for part in parts] for case in stacks]
    names = [WORDS.get(part, part) for part in parts]
    labels = [f"{case.case} {case.seat}" for case in stacks]
    methods = list(dict.fromkeys(case.method for case in stacks))
    most = max(map(sum, values))
    describe = f"Share of the time spent communicating, {check}; at most {most:.0%}"
    caption = f"method {' or '.join(methods[:3])}" if methods[0] else ""
    draw = partial(stacks_svg, labels[:STACKS], values[:STACKS])
    cells = (
        ((case.case, case.seat, case.method), name, amount(value, "share"))
        for case, row in zip(stacks, values, strict=True)
        for name, value in zip([*names, "together"], [*row, sum(row)], strict=True)
    )
    legend = [
        (style.swatch(index), name)
        for index, name in enumerate(names)
        if any(row[index] for row in values)
    ]
    left = len(stacks) - STACKS
    note = f"{plural(left, 'more case')} not drawn." if left > 0 else ""
    table = pivot(["case", "layout", "method"], cells)
    return FigureGroup(title, [Panel(caption, describe, draw)], table, legend, note)


# ---- speed-ups ----

BARS = 30  # that a figure shows at most; the rest is counted
# Colour and hatch, told apart by hatch where they may look alike.
LOOKS = {
    Against.ABOVE: (style.BLUE, ""),
    Verdict.IMPROVED: (style.BLUE, ""),
    Against.AT: (style.GREY, ""),
    Verdict.UNCHANGED: (style.GREY, ""),
    Against.BELOW: (style.RED, "////"),
    Verdict.REGRESSED: (style.RED, "////"),
}
UNSURE = (style.YELLOW, "xxxx")


def speedups(rows: Sequence[Row], expected: float | None) -> list[FigureGroup]:
    """Performance after over before, a bar a test, like figure 17 of the HPCx report (2004)."""
    candidates = primary(rows)
    if all(row.verdict == Verdict.INCONCLUSIVE and not row.against for row in candidates):
        return []
    candidates.sort(key=lambda row: (COMPARED.index(row.verdict), row.speedup[0] or 0.0))
    shown = candidates[:BARS]
    by_speedup = sorted(shown, key=lambda row: row.speedup[0] or 0.0)
    bars = [_bar(row, expected) for row in by_speedup]
    describe = "; ".join(f"{bar.label}: {times(bar.ratio)} {bar.words}" for bar in bars)
    panel = Panel("Speed-up of each test", describe, partial(bars_svg, bars, expected))
    left = len(candidates) - len(shown)
    note = f"{left} more tests are not drawn; all are listed below. " if left else ""
    note += "A black line is the confidence interval. " if any(bar.low for bar in bars) else ""
    if expected:
        note += (
            "The dashed line is what the change alone should give, such as the ratio of clocks: a "
            "bar beyond it gained from something else as well, one short of it lost on the way."
        )
    return [FigureGroup("", [panel], rows_table(shown), note=note.strip())]


def primary(rows: Sequence[Row]) -> list[Row]:
    """The rows whose ratio is a speed-up: of each test its time, or else its rates, or else the
    message size of a sweep whose time changed most."""
    changed = [row for row in rows if finite(row.ratio) and row.ratio > 0]
    chosen = []
    for metrics in grouped(changed, lambda row: row.identity).values():
        times = [row for row in metrics if row.metric == "time"]
        rates = [row for row in metrics if row.unit.endswith("/s")]
        sizes = [row for row in metrics if row.base == "time"]
        sizes.sort(key=lambda row: -abs(math.log(row.ratio or 1.0)))
        chosen += times or rates or sizes[:1]
    return chosen


def _bar(row: Row, expected: float | None) -> Bar:
    ratio, low, high = row.speedup
    word = row.against if expected and row.against else row.verdict
    geometry = before_after(_brief(row.before.geometry), _brief(row.after.geometry))
    software = before_after(row.before.software, row.after.software)
    return Bar(
        short(row.label + (" (control)" if row.control else ""), 90),
        short(" \N{MIDDLE DOT} ".join(filter(None, (geometry, software))), 120),
        word,
        ratio or math.nan,
        low if finite(low) and low > 0 else None,
        high if finite(high) and high > 0 else None,
        *LOOKS.get(word, UNSURE),
    )


def _brief(geometry: str) -> str:
    shape = parsed(geometry)
    if shape is None:
        return geometry or "geometry not known"
    size = f"{shape.ranks} \N{MULTIPLICATION SIGN} {shape.threads}"
    return f"{size}, {plural(shape.nodes, 'node')}"
