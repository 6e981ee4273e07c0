"""What the figures of a report show: each as drawings, and the same as a table.

Each public function takes stored results and gives a list of Groups, empty if there is nothing to
show. Nothing here measures, judges or reads a file.
"""

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from bisection.comparison import (
    ABOVE,
    AT,
    BELOW,
    IMPROVED,
    NOT_MEASURED,
    REGRESSED,
    UNCHANGED,
    VERDICTS,
    Place,
)
from bisection.drawing import (
    BLUE,
    GREY,
    LAYOUTS,
    RED,
    YELLOW,
    Bar,
    Curve,
    Style,
    bars_svg,
    curves_svg,
    dots_svg,
    heat_svg,
    legend_of,
    stacks_svg,
    swatch,
)
from bisection.layout import Geometry, parsed
from bisection.texts import (
    BYTES,
    NONE,
    Table,
    amount,
    before_after,
    better_high,
    cut,
    finite,
    interval,
    plain,
    plural,
    scaled,
    short,
    size_of,
    times,
)
from bisection.verdict import duration

# What figures and tables show at most; the rest is counted.
BARS, STACKS, CELLS = 30, 24, 1200
GROUPS, PANELS = 8, 24  # of a section


@dataclass
class Panel:
    """One drawing, made when there is room for it. `draw_narrow` makes another for small screens,
    where the same would be too small to read."""

    title: str
    describe: str  # in words, for those who do not see it
    draw: Callable[[], str]
    draw_narrow: Callable[[], str] | None = None
    svg: str = ""
    narrow: str = ""


@dataclass
class Group:
    """Panels that share a legend and, beneath them, a table."""

    title: str
    panels: list[Panel]
    table: Table
    legend: list[tuple[str, str]] = field(default_factory=list)  # (symbol as SVG, what it means)
    note: str = ""


def draw(groups, room):
    """Draws what fits in `room` bytes of a section's groups: (groups, the room that is left)."""
    each = max(2, PANELS // max(len(groups), 1))
    drawn = []
    for group in groups[:GROUPS]:
        panels = []
        for panel in group.panels[:each]:
            if room <= 0:
                break
            panel.svg = panel.draw()
            panel.narrow = panel.draw_narrow() if panel.draw_narrow else ""
            room -= len(panel.svg) + len(panel.narrow) + len(panel.describe)
            panels.append(panel)
        if panels:
            room -= sum(len(cell) + 12 for row in group.table.rows for cell in row)
            left = len(group.panels) - len(panels)
            note = f"{group.note} {plural(left, 'more figure')} not drawn." if left else group.note
            drawn.append(replace(group, panels=panels, note=note.strip()))
    if drawn and len(drawn) < len(groups):
        names = ", ".join(group.title for group in groups[len(drawn) :])
        drawn[-1].note += f" Left out to keep this page small: {short(names)}."
    return drawn, room


def _table(head, kinds, rows):
    """A Table of as many rows as a page has room for."""
    return Table(head, kinds, *cut(rows, CELLS // len(head)))


# ---- two sides ----


def speedups(rows, expected):
    """Performance after over before, a bar a test, like figure 17 of the HPCx report (2004)."""
    expected = expected if finite(expected) and expected > 0 else None
    found = primary(rows)
    rank = {verdict: index for index, verdict in enumerate(VERDICTS)}
    found.sort(key=lambda row: (rank.get(row.verdict, 0), row.speedup[0]))
    shown = sorted(found[:BARS], key=lambda row: row.speedup[0])
    if not shown:
        return []
    bars = [_bar(row, expected) for row in shown]
    describe = "; ".join(f"{bar.label}: {bar.value} {bar.words}" for bar in bars)
    drawn = [partial(bars_svg, bars, expected, narrow) for narrow in (False, True)]
    panel = Panel("Speed-up of each test", describe, *drawn)
    table = _speedup_table(shown, expected)
    if len(found) > len(shown):
        table.note = f"{len(found) - len(shown)} more tests are not drawn; all are listed below."
    return [Group("", [panel], table, note=_mixed(shown))]


def primary(rows):
    """The rows whose ratio is a speed-up: of each test its time, or else its rates, or else the
    message size of a sweep whose time changed most."""
    tests = {}
    for row in rows:
        if finite(row.ratio) and row.ratio > 0 and nearness(row):
            tests.setdefault(row.identity, []).append(row)
    chosen = []
    for found in tests.values():
        best = min(map(nearness, found))
        found = [row for row in found if nearness(row) == best]
        chosen += found if best != SWEEP else [max(found, key=lambda r: abs(math.log(r.ratio)))]
    return chosen


TIME, RATE, SWEEP = 1, 2, 3


def nearness(row):
    """How near a metric is to what one asks of a test; 0 if it is no speed."""
    if row.metric == "time":
        return TIME
    if row.unit.endswith("/s"):
        return RATE
    return SWEEP if row.base == "time" else 0


# Colour and hatch, told apart by hatch where they may look alike.
LOOKS = {
    ABOVE: (BLUE, ""),
    IMPROVED: (BLUE, ""),
    AT: (GREY, ""),
    UNCHANGED: (GREY, ""),
    BELOW: (RED, "////"),
    REGRESSED: (RED, "////"),
}
UNSURE = (YELLOW, "xxxx")


def _bar(row, expected):
    ratio, low, high = row.speedup
    word = row.against if expected and row.against else row.verdict
    colour, hatch = LOOKS.get(word, UNSURE)
    metric = "" if row.metric == "time" else f" {row.metric}"
    control = " (control)" if row.control else ""
    return Bar(
        label=short(row.test + metric + control, 90),
        place=short(" \N{MIDDLE DOT} ".join(_where(row)), 120),
        value=times(ratio),
        interval=interval(low, high),
        words=word,
        ratio=ratio,
        low=low if finite(low) and low > 0 else None,
        high=high if finite(high) and high > 0 else None,
        colour=colour,
        hatch=hatch,
    )


def _where(row):
    """Geometry and software of a row, each side's if they differ."""
    geometry = before_after(_brief(row.before.geometry), _brief(row.after.geometry))
    software = before_after(row.before.software, row.after.software)
    return [geometry] + ([software] if software else [])


def _brief(geometry):
    """Ranks x threads, and nodes."""
    found = parsed(geometry)
    if found is None:
        return geometry or "geometry not known"
    size = f"{found.ranks} \N{MULTIPLICATION SIGN} {found.threads}"
    return f"{size}, {plural(found.nodes, 'node')}"


def _speedup_table(rows, expected):
    head = ["test", "where", "geometry", "software", "speed-up", "interval", "verdict"]
    kinds = ["text", "small", "text", "small", "num", "num", "verdict"]
    if expected:
        head += ["against expected", "communicating before", "explained by a faster network"]
        kinds += ["against", "num", "small"]
    cells = []
    for row in rows:
        ratio, low, high = row.speedup
        where = f"{row.system}:{row.partition} {row.environ}"
        software = before_after(row.before.software, row.after.software)
        geometry = before_after(row.before.geometry, row.after.geometry)
        metric = "" if row.metric == "time" else f" {row.metric}"
        cells.append([short(row.test + metric, 120), short(where, 80), short(geometry, 60)])
        cells[-1] += [short(software, 200), times(ratio), interval(low, high), row.verdict]
        if expected:
            share = amount(row.communication, "share")
            cells[-1] += [row.against or NONE, share, short(row.explained, 200) or NONE]
    return Table(head, kinds, cells)


def _mixed(rows):
    """A warning where bars do not compare the same geometry or the same software."""
    ranks = sorted({found.ranks for row in rows if (found := parsed(row.after.geometry))})
    states = {(row.before.software, row.after.software) for row in rows}
    differ = [row for row in rows if row.before.geometry != row.after.geometry]
    texts = []
    if len(ranks) > 1:
        listed = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
        texts.append(f"The bars are at different numbers of ranks ({listed}).")
    if len(states) > 1:
        texts.append(f"They compare {len(states)} different pairs of software states.")
    if differ:
        texts.append(f"{plural(len(differ), 'bar')} compare unlike geometries.")
    texts += ["Each bar says its own; do not read them as one number."] if texts else []
    return " ".join(texts)


def scaling(rows, expected, styles):
    """Speed-up after over before against ranks, where a test was measured at several geometries."""
    sized = [
        (row, found.ranks)
        for row in primary(rows)
        if (found := parsed(row.after.geometry)) and row.before.geometry == row.after.geometry
    ]
    # Two partitions with as many ranks are two machines: no line goes through both.
    seen = Counter((*_line(row), row.method, ranks) for row, ranks in sized)
    twice = {key[:-2] for key, count in seen.items() if count > 1}
    groups = {}
    for row, ranks in sized:
        key = (*_line(row), row.partition if _line(row) in twice else "")
        line = groups.setdefault(row.check, {}).setdefault(key, {}).setdefault(row.method, {})
        line[ranks] = row
    found = []
    for check, panels in groups.items():
        panels = {key: _long(lines) for key, lines in panels.items() if _long(lines)}
        if panels:
            found.append(_scaling_group(check, panels, expected, styles))
    return found


def _line(row):
    return row.system, row.environ, row.check, row.case, row.layout, row.metric


def _long(lines):
    """The lines of more than one point."""
    return {method: points for method, points in lines.items() if len(points) > 1}


def _scaling_group(check, found, expected, styles):
    panels, cells, methods = [], [], {}
    for (_, _, _, case, layout, metric, partition), lines in found.items():
        words = (case, layout, "" if metric == "time" else metric, partition)
        title = " ".join(word for word in words if word)
        curves = []
        for method, points in lines.items():
            methods[method] = styles.method(check, method)
            points = dict(sorted(points.items()))
            curve = {ranks: row.speedup for ranks, row in points.items()}
            curves.append(Curve(methods[method], curve))
            cells += [_scaling_cells(title, row) for row in points.values()]
        marks = [(1.0, "as before")]
        marks += [(expected, "expected")] if finite(expected) and expected > 0 else []
        drawn = partial(curves_svg, curves, "ranks", "speed-up", marks, log="xy")
        describe = f"Speed-up after over before against ranks, {check} {title}; {_said(curves)}"
        panels.append(Panel(title or check, describe, drawn))
    head = ["case", "method", "ranks", "geometry", "speed-up", "interval", "against expected"]
    kinds = ["text", "text", "num", "text", "num", "num", "against"]
    return Group(check, panels, _table(head, kinds, cells), legend_of(methods))


def _scaling_cells(title, row):
    ratio, low, high = row.speedup
    cells = [title, row.method or NONE, str(parsed(row.after.geometry).ranks), row.after.geometry]
    return [*cells, times(ratio), interval(low, high), row.against or NONE]


def _said(curves):
    """Ends of each curve, in words."""
    said = []
    for curve in curves:
        (first, at_first), (last, at_last) = min(curve.points.items()), max(curve.points.items())
        said.append(f"{times(at_first[0])} at {first} to {times(at_last[0])} at {last}")
    return "; ".join(said[:12])


# ---- one session: of its cases as `measured` or `timed` gives them ----


@dataclass
class Measured(Place):
    """A case of verdict.json with its numbers at hand."""

    geometry: str
    shape: Geometry
    metrics: dict[str, float]

    @property
    def time(self):
        return self.metrics["time"]


def measured(cases):
    """The cases that were measured and have a geometry; of those that ran several times the
    medians."""
    runs = {}
    for case in cases:
        usable = not case.get("fixture") and case.get("verdict") != NOT_MEASURED
        if usable and parsed(case.get("geometry")):
            key = tuple(plain(case.get(name) or "") for name in _NAMES)
            numbers = {m["name"]: m["value"] for m in case.get("metrics") or []}
            numbers = {name: value for name, value in numbers.items() if finite(value)}
            runs.setdefault((*key, case["geometry"]), []).append(numbers)
    return [_measured(key, numbers) for key, numbers in runs.items()]


def _measured(key, runs):
    names = dict.fromkeys(name for numbers in runs for name in numbers)
    metrics = {
        name: statistics.median(numbers[name] for numbers in runs if name in numbers)
        for name in names
    }
    system, _, partition = key[0].partition(":")
    return Measured(system, partition, *key[1:], parsed(key[-1]), metrics)


def timed(cases):
    """Those of `measured` whose time is known."""
    return [case for case in measured(cases) if case.metrics.get("time", 0) > 0]


_NAMES = ("partition", "environ", "check", "case", "layout", "method")


def _split(found, *names):
    """Cases by the attributes `names`, in order."""
    groups = {}
    for case in found:
        groups.setdefault(tuple(getattr(case, name) for name in names), []).append(case)
    return groups


def _comparable(found):
    """Cases in groups of one environment of one system, in which cores tell geometries apart; of
    one partition if two of a system have as many cores."""
    for cases in _split(found, "system", "environ").values():
        keys = [(c.check, c.case, c.layout, c.method, c.shape.cores) for c in cases]
        if len(set(keys)) == len(keys):
            yield cases
        else:
            yield from _split(cases, "partition").values()


def baseline(cases):
    """The method that others are set against: the one in the name of a ratio, or else the first."""
    methods = dict.fromkeys(case.method for case in cases)
    named = [name[6:] for case in cases for name in case.metrics if name.startswith("ratio_")]
    return next((name for name in named if name in methods), next(iter(methods)))


def crossovers(cases, styles):
    """Methods against each other: speed-up against cores where a case was measured on several
    numbers of cores, as figures 3 to 8 of the GWW report (2010) have it; times elsewhere."""
    groups = []
    for place in _comparable(cases):
        for (check,), found in _split(place, "check").items():
            methods = {case.method for case in found}
            if len(methods) > 1 and not all(map(_NPAR.fullmatch, methods)):
                groups.append(_crossover_group(check, found, styles))
    return groups


def _crossover_group(check, found, styles):
    base = baseline(found)
    methods = {case.method: styles.method(check, case.method) for case in found}
    panels, layouts = [], {}
    for (case,), of_case in _split(found, "case").items():
        if len({c.shape.cores for c in of_case}) > 1:
            for (layout,), part in _split(of_case, "layout").items():
                title = f"{case} {layout}".strip()
                panels.append(_speedup_panel(title, check, part, base, methods))
        else:
            panels.append(_dots_panel(case, check, of_case, styles))
            layouts.update({c.layout: styles.layout(c.layout) for c in of_case})
    legend = legend_of(layouts, "layout ") if layouts else legend_of(methods)
    return Group(f"{check} on {_place(found)}", panels, _pivot(found), legend)


def _place(found):
    """System, partition where there is but one, and environment."""
    partitions = {case.partition for case in found}
    where = f":{partitions.pop()}" if len(partitions) == 1 else ""
    return f"{found[0].system}{where}, environment {found[0].environ}"


def _speedup_panel(title, check, part, base, methods):
    fewest = min(case.shape.cores for case in part)
    first = [case for case in part if case.shape.cores == fewest]
    unit = next((case.time for case in first if case.method == base), first[0].time)
    curves = []
    for (method,), points in _split(part, "method").items():
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


def _dots_panel(title, check, part, styles):
    names = list(dict.fromkeys(case.method for case in part))
    scale, unit = scaled(max(case.time for case in part), "s")
    dots = [(names.index(c.method), c.time * scale, styles.layout(c.layout)) for c in part]
    best = min(part, key=lambda case: case.time)
    describe = f"Time of each method and layout, {check} {title}. Shortest: {best.method}, "
    describe += f"layout {best.layout}, {duration(best.time)}"
    return Panel(title, describe, partial(dots_svg, names, dots, unit))


def _pivot(found):
    """Times: a row a case and geometry, a column a method."""
    methods = list(dict.fromkeys(case.method for case in found))
    cells = []
    for (case, layout, geometry), part in _split(_in_order(found), *_ROW).items():
        by_method = {c.method: duration(c.time) for c in part}
        cells.append([case, f"{layout} {geometry}", str(part[0].shape.cores)])
        cells[-1] += [by_method.get(method, NONE) for method in methods]
    head = ["case", "layout", "cores", *(method or "time" for method in methods)]
    return _table(head, ["text", "text", *["num"] * (len(head) - 2)], cells)


_ROW = ("case", "layout", "geometry")


def _in_order(found):
    """Cases in the order in which they came, of each the smallest first."""
    cases = list(dict.fromkeys(case.case for case in found))
    return sorted(found, key=lambda c: (cases.index(c.case), c.shape.cores, _layout_rank(c.layout)))


def npar_curves(cases, styles):
    """Time against the number of band groups."""
    groups = []
    for place in _comparable(cases):
        for (check,), found in _split(place, "check").items():
            points = [(case, int(m[1])) for case in found if (m := _NPAR.fullmatch(case.method))]
            if len({groups_ for _, groups_ in points}) > 1:
                groups.append(_npar_group(check, points, styles))
    return [group for group in groups if group.panels]


_NPAR = re.compile("npar-([1-9][0-9]{0,5})")


def _npar_group(check, points, styles):
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
    place = _place([case for case, _ in points])
    return Group(f"{check} on {place}", panels, _table(head, kinds, cells), legend_of(looks))


def hybrids(cases, styles):
    """Layouts against each other, each with its fastest method: speed-up against cores where a case
    was measured on several numbers of cores, else times beside that of one rank a core."""
    groups = []
    for place in _comparable(cases):
        fastest = {}
        for case in place:
            key = case.check, case.case, case.shape.cores, case.layout
            if key not in fastest or case.time < fastest[key].time:
                fastest[key] = case
        found = [
            case
            for part in _split(fastest.values(), "check").values()
            for case in part
            if len({c.layout for c in part}) > 1
        ]
        if found:
            groups.append(_hybrid_group(found, styles))
    return groups


def _hybrid_group(found, styles):
    layouts = sorted({case.layout for case in found}, key=_layout_rank)
    looks = {layout: styles.layout(layout) for layout in layouts}
    panels = []
    for (check,), of_check in _split(found, "check").items():
        curves = [
            _hybrid_curves(check, part, looks)
            for part in _split(of_check, "case").values()
            if len({case.shape.cores for case in part}) > 1
        ]
        panels += curves or [_hybrid_dots(check, of_check, looks)]
    head = ["check", "case", "cores", *layouts, "best"]
    kinds = ["text", "text", "num", *["num"] * len(layouts), "text"]
    table = _table(head, kinds, _hybrid_cells(found, layouts))
    return Group(_place(found), panels, table, legend_of(looks, "layout "))


def _layout_rank(layout):
    return LAYOUTS.index(layout) if layout in LAYOUTS else len(LAYOUTS), layout


def _hybrid_cells(found, layouts):
    for (check, case), part in _split(found, "check", "case").items():
        for cores in sorted({c.shape.cores for c in part}):
            at = {c.layout: c for c in part if c.shape.cores == cores}
            best = min(at.values(), key=lambda c: c.time)
            times_ = [_hybrid_cell(at.get(layout)) for layout in layouts]
            yield [check, case, str(cores), *times_, best.layout]


def _hybrid_cell(case):
    return f"{duration(case.time)} ({case.geometry} {case.method})" if case else NONE


def _hybrid_curves(check, part, looks):
    fewest = min(part, key=lambda c: (c.shape.cores, _layout_rank(c.layout)))
    curves = []
    for (layout,), points in _split(part, "layout").items():
        points = {c.shape.cores: (fewest.time / c.time, None, None) for c in points}
        curves.append(Curve(looks[layout], dict(sorted(points.items()))))
    ideal = fewest.shape.cores
    drawn = partial(curves_svg, curves, "cores", "speed-up", [], log="xy", ideal=ideal)
    title = f"{check} {part[0].case}".strip()
    describe = f"Speed-up of each layout over {fewest.layout} on {ideal} cores, {title}"
    return Panel(title, f"{describe}; {_said(curves)}", drawn)


def _hybrid_dots(check, found, looks):
    """Times over that of the first layout a case has."""
    by_case = _split(found, "case")
    names = [case for (case,) in by_case][:STACKS]
    dots = []
    for index, name in enumerate(names):
        part = by_case[name,]
        unit = min(part, key=lambda c: _layout_rank(c.layout)).time
        dots += [(index, case.time / unit, looks[case.layout]) for case in part]
    first = next(iter(looks))
    describe = f"Time of each layout over that of {first}, {check}"
    drawn = partial(dots_svg, names, dots, f"time over that of layout {first}", mark=1)
    return Panel(check, describe, drawn)


# What of a step is communication: the profile where there is one, else the phases that communicate.
PROFILE = ("p2p", "collective", "barrier", "onesided", "one-sided")
PHASES = ("exchange", "redistribute", "reduce", "paw-sum", "paw-wait")
WORDS = {"p2p": "point-to-point", "onesided": "one-sided", "paw-sum": "sum of PAW's parts"}


def shares(cases):
    """What part of the time goes into communication, by kind."""
    groups = []
    for place in _comparable(cases):
        for (check,), found in _split(place, "check").items():
            base = baseline(found)
            parts, stacks = _parts(found), {}
            for case in found:
                key = case.case, case.layout, case.geometry
                if key not in stacks or case.method == base:
                    stacks[key] = case
            if parts:
                groups.append(_share_group(check, _in_order(stacks.values()), parts))
    return groups


def _parts(found):
    """The names of the shares to stack, in order."""
    known = {name[: -len("_share")] for c in found for name in c.metrics if name.endswith("_share")}
    for names in (PROFILE, PHASES, ("communication",)):
        if parts := [name for name in names if name in known]:
            return parts
    return []


def _share_group(check, stacks, parts):
    shown = stacks[:STACKS]
    labels = [f"{case.case} {case.layout} {case.geometry}" for case in shown]
    values = [[case.metrics.get(f"{part}_share", 0.0) for part in parts] for case in shown]
    methods = list(dict.fromkeys(case.method for case in shown))
    total = max(sum(row) for row in values)
    describe = f"Share of the time spent communicating, {check}; at most {total:.0%}"
    title = f"method {' or '.join(methods[:3])}" if methods[0] else ""
    panel = Panel(title, describe, partial(stacks_svg, labels, values))
    head = ["case", "layout", "method", *(WORDS.get(part, part) for part in parts), "together"]
    cells = []
    for case in stacks:
        each = [case.metrics.get(f"{part}_share") for part in parts]
        total = sum(value for value in each if finite(value))
        row = [case.case, f"{case.layout} {case.geometry}", case.method]
        cells.append(row + [amount(value, "share") for value in (*each, total)])
    table = _table(head, ["text", "text", "text", *["num"] * (len(parts) + 1)], cells)
    legend = [(swatch(index), WORDS.get(part, part)) for index, part in enumerate(parts)]
    left = len(stacks) - len(shown)
    note = f"{plural(left, 'more case')} not drawn." if left > 0 else ""
    return Group(f"{check} on {_place(stacks)}", [panel], table, legend, note)


def sweeps(cases, styles):
    """Time against message size, where a check sweeps it."""
    places = {}
    for case in cases:
        if len(points := _sizes(case)) > 1:
            place = case.system, case.partition, case.environ
            places.setdefault(place, []).append((case, points))
    return [_sweep_group(found, styles) for found in places.values()]


def _sizes(case):
    """Bytes -> time of a case."""
    found = ((_SIZE.fullmatch(name), value) for name, value in case.metrics.items())
    times_ = {int(m[1]) * BYTES[m[2]]: value for m, value in found if m and value > 0}
    return dict(sorted(times_.items()))


def _sweep_group(found, styles):
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
    table = _table(head, ["text", "text", *["num"] * len(sizes)], cells)
    return Group(_place([case for case, _ in found]), drawn, table, legend_of(looks))


_SIZE = re.compile("time_([1-9][0-9]*)(B|KiB|MiB|GiB)")


# ---- nodes ----

MATRIX = 16  # nodes of which a table shows every pair


def heat_maps(pairs):
    """A map of each matrix of pairs."""
    groups = []
    for found in pairs:
        values = _square(found)
        if not any(finite(value) for row in values for value in row):
            continue
        named = [
            n
            for n in found.nodes
            if any(re.search(rf"\b{re.escape(n)}\b", s) for s in found.suspects)
        ]
        drawn = partial(heat_svg, found, values, named)
        worst = "; ".join(found.suspects) or "no pair is suspected"
        describe = f"{found.unit} between {plural(len(found.nodes), 'node')}, {short(worst)}"
        panel = Panel(short(found.title, 120), describe, drawn)
        note = "Rows send, columns receive; a cross is a pair that was not measured"
        note += ", an asterisk a suspect." if named else "."
        groups.append(Group("", [panel], _pair_table(found, values), note=note))
    return groups


def _square(found):
    """The values as a full matrix, None where something lacks."""
    size = len(found.nodes)
    rows = [list(row[:size]) + [None] * (size - len(row)) for row in found.values[:size]]
    rows += [[None] * size] * (size - len(rows))
    return [[v if finite(v) else None for v in row] for row in rows]


def _pair_table(found, values):
    size = len(found.nodes)
    if size <= MATRIX:
        cells = [
            [short(node, 40), *(NONE if v is None else amount(v, found.unit) for v in row)]
            for node, row in zip(found.nodes, values, strict=True)
        ]
        return Table(["from \\ to", *found.nodes], ["text", *["num"] * size], cells)
    listed = [
        (value, found.nodes[i], found.nodes[j])
        for i, row in enumerate(values)
        for j, value in enumerate(row)
        if value is not None and i != j
    ]
    listed.sort(reverse=not better_high(found.unit))
    middle = statistics.median(value for value, _, _ in listed) if listed else 1.0
    cells = [
        [sender, receiver, amount(value, found.unit), times(value / middle) if middle else NONE]
        for value, sender, receiver in listed[:24]
    ]
    note = f"The worst {len(cells)} of {len(listed):,} pairs."
    return Table(
        ["from", "to", found.unit, "over the median"], ["text", "text", "num", "num"], cells, note
    )
