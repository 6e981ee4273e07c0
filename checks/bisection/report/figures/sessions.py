"""Figures of one session: methods, NPAR, message sizes."""

import re
from collections.abc import Sequence
from functools import partial

from bisection.core.format import BYTES, NONE, duration, scaled, size_of
from bisection.report.figures import common
from bisection.report.figures.common import Group, MeasuredCase, Panel
from bisection.report.svg.plots import Curve, curves_svg, dots_svg
from bisection.report.svg.style import IDEAL, RING, Style, Styles, legend_of, symbol
from bisection.report.tables import Table, cells_table

NPAR = re.compile("npar-([1-9][0-9]{0,5})")
SIZE = re.compile("time_([1-9][0-9]*)(B|KiB|MiB|GiB)")


def crossovers(cases: Sequence[MeasuredCase], styles: Styles) -> list[Group]:
    """Methods against each other: speed-up against cores where a case was measured on several
    numbers of cores, as figures 3 to 8 of the GWW report (2010) have it; times elsewhere."""
    groups = []
    for check, title, members in common.by_check(cases):
        methods = {case.method: styles.method(check, case.method) for case in members}
        if len(methods) > 1 and not all(map(NPAR.fullmatch, methods)):
            groups.append(_crossover_group(check, title, members, methods, styles))
    return groups


def _crossover_group(
    check: str,
    title: str,
    members: list[MeasuredCase],
    methods: dict[str, Style],
    styles: Styles,
) -> Group:
    panels, layouts, legend = [], {}, []
    for (case,), of_case in common.split(members, "case").items():
        if len({c.shape.cores for c in of_case}) > 1:
            legend = [*legend_of(methods), (symbol(**IDEAL), "ideal")]
            panels += [
                _speedup_panel(
                    f"{case} {layout}".strip(), check, part, common.baseline(members), methods
                )
                for (layout,), part in common.split(of_case, "layout").items()
            ]
        else:
            panels.append(_dots_panel(case, check, of_case, styles))
            layouts.update({c.layout: styles.layout(c.layout) for c in of_case})
    legend += legend_of(layouts, "layout ", lines=False) + common.legend_of_preempted(members)
    return Group(title, panels, _pivot(members), legend)


def _speedup_panel(
    title: str, check: str, part: list[MeasuredCase], base: str, methods: dict[str, Style]
) -> Panel:
    fewest = min(case.shape.cores for case in part)
    first = [case for case in part if case.shape.cores == fewest]
    unit = next((case.time for case in first if case.method == base), first[0].time)
    curves = speedup_curves(part, "method", unit, methods)
    best: dict[int, MeasuredCase] = {}
    for case in sorted(part, key=lambda case: (case.shape.cores, case.time)):
        best.setdefault(case.shape.cores, case)
    fastest = ", ".join(f"{case.method} on {cores}" for cores, case in best.items())
    describe = f"Speed-up over {base} on {fewest} cores against cores, {check} {title}. "
    draw = partial(curves_svg, curves, "cores", "speed-up", log="xy", ideal=fewest)
    return Panel(title, f"{describe}Best: {fastest}", draw)


def speedup_curves(
    part: Sequence[MeasuredCase], name: str, unit: float, looks: dict[str, Style]
) -> list[Curve]:
    """Speed-ups against cores.

    Args:
        part: the cases.
        name: the attribute that a curve has one value of: method or layout.
        unit: the time with the speed-up 1, s.
        looks: how each curve looks.
    """
    curves = []
    for (value,), points in common.split(sorted(part, key=lambda c: c.shape.cores), name).items():
        speedups = {case.shape.cores: (unit / case.time, None, None) for case in points}
        preempted = {case.shape.cores for case in points if case.preempted}
        curves.append(Curve(looks[value], speedups, preempted=preempted))
    return curves


def _dots_panel(title: str, check: str, part: list[MeasuredCase], styles: Styles) -> Panel:
    names = list(dict.fromkeys(case.method for case in part))
    scale, unit = scaled(max(case.time for case in part), "s")
    dots = [
        (names.index(c.method), c.time * scale, styles.layout(c.layout), c.preempted) for c in part
    ]
    best = min(part, key=lambda case: case.time)
    describe = f"Time of each method and layout, {check} {title}. Shortest: {best.method}, "
    describe += f"layout {best.layout}, {duration(best.time)}"
    return Panel(title, describe, partial(dots_svg, names, dots, unit))


def _pivot(cases: list[MeasuredCase]) -> Table:
    """Times: a row per case and geometry, a column per method."""
    methods = list(dict.fromkeys(case.method for case in cases))
    rows = []
    for (case, seat), part in common.split(common.in_order(cases), "case", "seat").items():
        times = {c.method: duration(c.time) for c in part}
        rows.append([case, seat, str(part[0].shape.cores)])
        rows[-1] += [times.get(method, NONE) for method in methods]
    head = ["case", "layout", "cores", *(method or "time" for method in methods)]
    return cells_table(head, ["text", "text", *["num"] * (len(head) - 2)], rows)


def npar_curves(cases: Sequence[MeasuredCase]) -> list[Group]:
    """Time against the number of band groups."""
    groups = []
    for check, title, members in common.by_check(cases):
        points = [(case, int(m[1])) for case in members if (m := NPAR.fullmatch(case.method))]
        if len({npar for _, npar in points}) > 1:
            groups.append(_npar_group(check, title, points))
    return [group for group in groups if group.panels]


def _npar_group(check: str, title: str, points: list[tuple[MeasuredCase, int]]) -> Group:
    numbers = sorted({npar for _, npar in points})
    lines: dict[str, dict[str, dict[int, MeasuredCase]]] = {}
    for case, npar in sorted(points, key=lambda point: point[1]):
        lines.setdefault(case.case, {}).setdefault(case.seat, {})[npar] = case
    panels, looks, cells = [], {}, []
    for name, seats in lines.items():
        scale, unit = scaled(max(c.time for line in seats.values() for c in line.values()), "s")
        curves = []
        for seat, line in seats.items():
            best = min(line, key=lambda npar: line[npar].time)
            times = (duration(line[n].time) if n in line else NONE for n in numbers)
            cells.append([name, seat, *times, str(best)])
            if len(line) > 1:
                style = looks.setdefault(seat, Style.number(len(looks)))
                curve = {npar: (case.time * scale, None, None) for npar, case in line.items()}
                preempted = {npar for npar, case in line.items() if case.preempted}
                curves.append(Curve(style, curve, best, preempted))
        if curves:
            draw = partial(curves_svg, curves, "NPAR (band groups)", unit, log="x")
            panels.append(Panel(name, f"Time against NPAR, {check} {name}", draw))
    head = ["case", "layout", *(f"NPAR {n}" for n in numbers), "best"]
    kinds = ["text", "text", *["num"] * (len(numbers) + 1)]
    legend = [*legend_of(looks), (symbol(**RING), "best")]
    legend += common.legend_of_preempted(case for case, _ in points if case.seat in looks)
    return Group(title, panels, cells_table(head, kinds, cells), legend)


def sweeps(cases: Sequence[MeasuredCase], styles: Styles) -> list[Group]:
    """Time against message size, where a check sweeps it."""
    swept = [case for case in cases if len(_sizes(case)) > 1]
    places = common.split(swept, "system", "partition", "environ").values()
    return [_sweep_group(members, styles) for members in places]


def _sizes(case: MeasuredCase) -> dict[int, float]:
    """Bytes -> time of a case."""
    matches = ((SIZE.fullmatch(name), value) for name, value in case.metrics.items())
    points = {int(m[1]) * BYTES[m[2]]: value for m, value in matches if m and value > 0}
    return dict(sorted(points.items()))


def _sweep_group(cases: list[MeasuredCase], styles: Styles) -> Group:
    panels, looks, cells = [], {}, []
    sizes = sorted({size for case in cases for size in _sizes(case)})
    for words, members in common.split(cases, "check", "case", "layout", "geometry").items():
        title, curves = " ".join(filter(None, words)), []
        for case in members:
            style = looks.setdefault(case.method, styles.method(case.check, case.method))
            points = _sizes(case)
            curve = {size: (value, None, None) for size, value in points.items()}
            curves.append(Curve(style, curve, preempted=set(curve) if case.preempted else set()))
            times = (duration(points[size]) if size in points else NONE for size in sizes)
            cells.append([title, case.method, *times])
        look = {"log": "xy", "unit": "s", "sizes": True}
        draw = partial(curves_svg, curves, "bytes", "time", **look)
        panels.append(Panel(title, f"Time against message size, {title}", draw))
    head = ["case", "method", *map(size_of, sizes)]
    table = cells_table(head, ["text", "text", *["num"] * len(sizes)], cells)
    legend = legend_of(looks) + common.legend_of_preempted(cases)
    return Group(common.place_of(cases), panels, table, legend)
