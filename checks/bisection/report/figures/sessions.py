"""Figures of one session: methods, NPAR, message sizes."""

import re
from collections.abc import Sequence
from functools import partial

from bisection.core.format import BYTES, NONE, duration, scaled, size_of
from bisection.report.figures.common import (
    Group,
    MeasuredCase,
    Panel,
    baseline,
    comparable,
    in_order,
    place_of,
    split,
    table_of,
)
from bisection.report.svg.plots import Curve, curves_svg, dots_svg
from bisection.report.svg.style import Style, Styles, legend_of
from bisection.report.tables import Table


def crossovers(cases: Sequence[MeasuredCase], styles: Styles) -> list[Group]:
    """Methods against each other: speed-up against cores where a case was measured on several
    numbers of cores, as figures 3 to 8 of the GWW report (2010) have it; times elsewhere."""
    groups = []
    for place in comparable(cases):
        for (check,), found in split(place, "check").items():
            methods = {case.method for case in found}
            if len(methods) > 1 and not all(map(_NPAR.fullmatch, methods)):
                groups.append(_crossover_group(check, found, styles))
    return groups


def _crossover_group(check: str, found: list[MeasuredCase], styles: Styles) -> Group:
    base = baseline(found)
    methods = {case.method: styles.method(check, case.method) for case in found}
    panels, layouts = [], {}
    for (case,), of_case in split(found, "case").items():
        if len({c.shape.cores for c in of_case}) > 1:
            for (layout,), part in split(of_case, "layout").items():
                title = f"{case} {layout}".strip()
                panels.append(_speedup_panel(title, check, part, base, methods))
        else:
            panels.append(_dots_panel(case, check, of_case, styles))
            layouts.update({c.layout: styles.layout(c.layout) for c in of_case})
    legend = legend_of(layouts, "layout ") if layouts else legend_of(methods)
    return Group(f"{check} on {place_of(found)}", panels, _pivot(found), legend)


def _speedup_panel(
    title: str, check: str, part: list[MeasuredCase], base: str, methods: dict[str, Style]
) -> Panel:
    fewest = min(case.shape.cores for case in part)
    first = [case for case in part if case.shape.cores == fewest]
    unit = next((case.time for case in first if case.method == base), first[0].time)
    curves = []
    for (method,), points in split(part, "method").items():
        points = {case.shape.cores: (unit / case.time, None, None) for case in points}
        curves.append(Curve(methods[method], dict(sorted(points.items()))))
    drawn = partial(curves_svg, curves, "cores", "speed-up", [], log="xy", ideal=fewest)
    best = {}
    for case in part:
        if case.shape.cores not in best or case.time < best[case.shape.cores].time:
            best[case.shape.cores] = case
    said = ", ".join(f"{best[cores].method} on {cores}" for cores in sorted(best))
    describe = (
        f"Speed-up over {base} on {fewest} cores against cores, {check} {title}. Best: {said}"
    )
    return Panel(title, describe, drawn)


def _dots_panel(title: str, check: str, part: list[MeasuredCase], styles: Styles) -> Panel:
    names = list(dict.fromkeys(case.method for case in part))
    scale, unit = scaled(max(case.time for case in part), "s")
    dots = [(names.index(c.method), c.time * scale, styles.layout(c.layout)) for c in part]
    best = min(part, key=lambda case: case.time)
    describe = f"Time of each method and layout, {check} {title}. Shortest: {best.method}, "
    describe += f"layout {best.layout}, {duration(best.time)}"
    return Panel(title, describe, partial(dots_svg, names, dots, unit))


def _pivot(found: list[MeasuredCase]) -> Table:
    """Times: a row a case and geometry, a column a method."""
    methods = list(dict.fromkeys(case.method for case in found))
    cells = []
    for (case, layout, geometry), part in split(in_order(found), *_ROW).items():
        by_method = {c.method: duration(c.time) for c in part}
        cells.append([case, f"{layout} {geometry}", str(part[0].shape.cores)])
        cells[-1] += [by_method.get(method, NONE) for method in methods]
    head = ["case", "layout", "cores", *(method or "time" for method in methods)]
    return table_of(head, ["text", "text", *["num"] * (len(head) - 2)], cells)


_ROW = ("case", "layout", "geometry")


def npar_curves(cases: Sequence[MeasuredCase], styles: Styles) -> list[Group]:
    """Time against the number of band groups."""
    groups = []
    for place in comparable(cases):
        for (check,), found in split(place, "check").items():
            points = [(case, int(m[1])) for case in found if (m := _NPAR.fullmatch(case.method))]
            if len({groups_ for _, groups_ in points}) > 1:
                groups.append(_npar_group(check, points, styles))
    return [group for group in groups if group.panels]


_NPAR = re.compile("npar-([1-9][0-9]{0,5})")


def _npar_group(check: str, points: list[tuple[MeasuredCase, int]], styles: Styles) -> Group:
    tuned, looks, cells = {}, {}, []
    for case, npar in points:
        tuned.setdefault(case.case, {}).setdefault((case.layout, case.geometry), {})[npar] = (
            case.time
        )
    panels, numbers = [], sorted({npar for _, npar in points})
    for name, lines in tuned.items():
        curves = []
        scale, unit = scaled(max(max(line.values()) for line in lines.values()), "s")
        for (layout, geometry), line in lines.items():
            text = f"{layout} {geometry}"
            best = min(line, key=line.get)
            cells.append([name, text, *(duration(line[n]) if n in line else NONE for n in numbers)])
            cells[-1].append(str(best))
            if len(line) > 1:
                looks.setdefault(text, Style.number(len(looks)))
                curve = {npar: (line[npar] * scale, None, None) for npar in sorted(line)}
                curves.append(Curve(looks[text], curve, best=best))
        if curves:
            drawn = partial(curves_svg, curves, "NPAR (band groups)", unit, [], log="x")
            panels.append(Panel(name, f"Time against NPAR, {check} {name}", drawn))
    head = ["case", "layout", *(f"NPAR {n}" for n in numbers), "best"]
    kinds = ["text", "text", *["num"] * (len(numbers) + 1)]
    place = place_of([case for case, _ in points])
    return Group(f"{check} on {place}", panels, table_of(head, kinds, cells), legend_of(looks))


def sweeps(cases: Sequence[MeasuredCase], styles: Styles) -> list[Group]:
    """Time against message size, where a check sweeps it."""
    places = {}
    for case in cases:
        if len(points := _sizes(case)) > 1:
            place = case.system, case.partition, case.environ
            places.setdefault(place, []).append((case, points))
    return [_sweep_group(found, styles) for found in places.values()]


def _sizes(case: MeasuredCase) -> dict[int, float]:
    """Bytes -> time of a case."""
    found = ((_SIZE.fullmatch(name), value) for name, value in case.metrics.items())
    times_ = {int(m[1]) * BYTES[m[2]]: value for m, value in found if m and value > 0}
    return dict(sorted(times_.items()))


def _sweep_group(found: list[tuple[MeasuredCase, dict[int, float]]], styles: Styles) -> Group:
    panels, looks = {}, {}
    for case, points in found:
        title = " ".join(w for w in (case.check, case.case, case.layout, case.geometry) if w)
        looks[case.method] = styles.method(case.check, case.method)
        curve = {size: (value, None, None) for size, value in points.items()}
        panels.setdefault(title, []).append((case.method, points, Curve(looks[case.method], curve)))
    drawn = [
        Panel(
            title,
            f"Time against message size, {title}",
            partial(
                curves_svg,
                [curve for _, _, curve in lines],
                "bytes",
                "time",
                [],
                log="xy",
                unit="s",
                sizes=True,
            ),
        )
        for title, lines in panels.items()
    ]
    sizes = sorted({size for _, points in found for size in points})
    cells = [
        [title, method, *(duration(points[size]) if size in points else NONE for size in sizes)]
        for title, lines in panels.items()
        for method, points, _ in lines
    ]
    head = ["case", "method", *(size_of(size) for size in sizes)]
    table = table_of(head, ["text", "text", *["num"] * len(sizes)], cells)
    return Group(place_of([case for case, _ in found]), drawn, table, legend_of(looks))


_SIZE = re.compile("time_([1-9][0-9]*)(B|KiB|MiB|GiB)")
