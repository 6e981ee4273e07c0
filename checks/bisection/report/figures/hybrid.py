"""Figures of one session: layouts, shares of communication, pairs of nodes."""

import statistics
from collections.abc import Iterator, Sequence
from functools import partial

from bisection.analysis.model import OddNode, Pairs
from bisection.core.format import NONE, amount, better_high, duration, finite, plural, short, times
from bisection.report import words
from bisection.report.figures.common import (
    STACKS,
    Group,
    MeasuredCase,
    Panel,
    baseline,
    comparable,
    ends_of,
    in_order,
    layout_rank,
    place_of,
    split,
    table_of,
)
from bisection.report.svg.plots import Curve, curves_svg, dots_svg, heat_svg, stacks_svg
from bisection.report.svg.style import Style, Styles, legend_of, swatch
from bisection.report.tables import Table


def hybrids(cases: Sequence[MeasuredCase], styles: Styles) -> list[Group]:
    """Layouts against each other, each with its fastest method: speed-up against cores where a case
    was measured on several numbers of cores, else times beside that of one rank a core."""
    groups = []
    for place in comparable(cases):
        fastest = {}
        for case in place:
            key = case.check, case.case, case.shape.cores, case.layout
            if key not in fastest or case.time < fastest[key].time:
                fastest[key] = case
        found = [
            case
            for part in split(fastest.values(), "check").values()
            for case in part
            if len({c.layout for c in part}) > 1
        ]
        if found:
            groups.append(_hybrid_group(found, styles))
    return groups


def _hybrid_group(found: list[MeasuredCase], styles: Styles) -> Group:
    layouts = sorted({case.layout for case in found}, key=layout_rank)
    looks = {layout: styles.layout(layout) for layout in layouts}
    panels = []
    for (check,), of_check in split(found, "check").items():
        curves = [
            _hybrid_curves(check, part, looks)
            for part in split(of_check, "case").values()
            if len({case.shape.cores for case in part}) > 1
        ]
        panels += curves or [_hybrid_dots(check, of_check, looks)]
    head = ["check", "case", "cores", *layouts, "best"]
    kinds = ["text", "text", "num", *["num"] * len(layouts), "text"]
    table = table_of(head, kinds, _hybrid_cells(found, layouts))
    return Group(place_of(found), panels, table, legend_of(looks, "layout "))


def _hybrid_cells(found: list[MeasuredCase], layouts: list[str]) -> Iterator[list[str]]:
    for (check, case), part in split(found, "check", "case").items():
        for cores in sorted({c.shape.cores for c in part}):
            at = {c.layout: c for c in part if c.shape.cores == cores}
            best = min(at.values(), key=lambda c: c.time)
            times_ = [_hybrid_cell(at.get(layout)) for layout in layouts]
            yield [check, case, str(cores), *times_, best.layout]


def _hybrid_cell(case: MeasuredCase | None) -> str:
    return f"{duration(case.time)} ({case.geometry} {case.method})" if case else NONE


def _hybrid_curves(check: str, part: list[MeasuredCase], looks: dict[str, Style]) -> Panel:
    fewest = min(part, key=lambda c: (c.shape.cores, layout_rank(c.layout)))
    curves = []
    for (layout,), points in split(part, "layout").items():
        points = {c.shape.cores: (fewest.time / c.time, None, None) for c in points}
        curves.append(Curve(looks[layout], dict(sorted(points.items()))))
    ideal = fewest.shape.cores
    drawn = partial(curves_svg, curves, "cores", "speed-up", [], log="xy", ideal=ideal)
    title = f"{check} {part[0].case}".strip()
    describe = f"Speed-up of each layout over {fewest.layout} on {ideal} cores, {title}"
    return Panel(title, f"{describe}; {ends_of(curves)}", drawn)


def _hybrid_dots(check: str, found: list[MeasuredCase], looks: dict[str, Style]) -> Panel:
    """Times over that of the first layout a case has."""
    by_case = split(found, "case")
    names = [case for (case,) in by_case][:STACKS]
    dots = []
    for index, name in enumerate(names):
        part = by_case[name,]
        unit = min(part, key=lambda c: layout_rank(c.layout)).time
        dots += [(index, case.time / unit, looks[case.layout]) for case in part]
    first = next(iter(looks))
    describe = f"Time of each layout over that of {first}, {check}"
    drawn = partial(dots_svg, names, dots, f"time over that of layout {first}", mark=1)
    return Panel(check, describe, drawn)


# What of a step is communication: the profile where there is one, else the phases that communicate.
PROFILE = ("p2p", "collective", "barrier", "onesided", "one-sided")
# Sessions of earlier versions have paw-wait.
PHASES = ("exchange", "redistribute", "reduce", "paw-sum", "paw-wait")
WORDS = {"p2p": "point-to-point", "onesided": "one-sided", "paw-sum": "sum of PAW's parts"}


def shares(cases: Sequence[MeasuredCase]) -> list[Group]:
    """What part of the time goes into communication, by kind."""
    groups = []
    for place in comparable(cases):
        for (check,), found in split(place, "check").items():
            base = baseline(found)
            parts, stacks = _parts(found), {}
            for case in found:
                key = case.case, case.layout, case.geometry
                if key not in stacks or case.method == base:
                    stacks[key] = case
            if parts:
                groups.append(_share_group(check, in_order(stacks.values()), parts))
    return groups


def _parts(found: list[MeasuredCase]) -> list[str]:
    """The names of the shares to stack, in order."""
    known = {name[: -len("_share")] for c in found for name in c.metrics if name.endswith("_share")}
    for names in (PROFILE, PHASES, ("communication",)):
        if parts := [name for name in names if name in known]:
            return parts
    return []


def _share_group(check: str, stacks: list[MeasuredCase], parts: list[str]) -> Group:
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
    table = table_of(head, ["text", "text", "text", *["num"] * (len(parts) + 1)], cells)
    legend = [(swatch(index), WORDS.get(part, part)) for index, part in enumerate(parts)]
    left = len(stacks) - len(shown)
    note = f"{plural(left, 'more case')} not drawn." if left > 0 else ""
    return Group(f"{check} on {place_of(stacks)}", [panel], table, legend, note)


MATRIX = 16  # nodes of which a table shows every pair


def heat_maps(pairs: Sequence[Pairs]) -> list[Group]:
    """A map of each matrix of pairs."""
    groups = []
    for found in pairs:
        values = _square(found)
        if not any(finite(value) for row in values for value in row):
            continue
        suspect = set()
        for odd in found.suspects:
            suspect |= {odd.node} if isinstance(odd, OddNode) else set(odd.nodes)
        named = [node for node in found.nodes if node in suspect]
        drawn = partial(heat_svg, found, values, named)
        worst = "; ".join(map(words.named, found.suspects)) or "no pair is suspected"
        describe = f"{found.unit} between {plural(len(found.nodes), 'node')}, {short(worst)}"
        panel = Panel(short(found.title, 120), describe, drawn)
        note = "Rows send, columns receive; a cross is a pair that was not measured"
        note += ", an asterisk a suspect." if named else "."
        groups.append(Group("", [panel], _pair_table(found, values), note=note))
    return groups


def _square(found: Pairs) -> list[list[float | None]]:
    """The values as a full matrix, None where something lacks."""
    size = len(found.nodes)
    rows = [list(row[:size]) + [None] * (size - len(row)) for row in found.values[:size]]
    rows += [[None] * size] * (size - len(rows))
    return [[v if finite(v) else None for v in row] for row in rows]


def _pair_table(found: Pairs, values: list[list[float | None]]) -> Table:
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
