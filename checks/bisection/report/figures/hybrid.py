"""Figures of one session: layouts and fractions of communication."""

from collections.abc import Iterator, Sequence
from functools import partial

from bisection.core.format import NONE, amount, duration, finite, plural
from bisection.report.figures import common
from bisection.report.figures.common import Group, MeasuredCase, Panel
from bisection.report.figures.sessions import speedup_curves
from bisection.report.svg.plots import curves_svg, dots_svg, stacks_svg
from bisection.report.svg.style import IDEAL, Style, Styles, legend_of, swatch, symbol
from bisection.report.tables import cells_table


def hybrids(cases: Sequence[MeasuredCase], styles: Styles) -> list[Group]:
    """Layouts against each other, each with its fastest method: speed-up against cores where a case
    was measured on several numbers of cores, else times beside that of one rank per core."""
    groups = []
    for place in common.comparable(cases):
        fastest: dict[tuple[object, ...], MeasuredCase] = {}
        for case in sorted(place, key=lambda case: case.time):
            fastest.setdefault((case.check, case.case, case.shape.cores, case.layout), case)
        kept = [case for case in place if case in fastest.values()]
        several = [
            part
            for part in common.split(kept, "check").values()
            if len(common.split(part, "layout")) > 1
        ]
        compared = [case for part in several for case in part]
        if compared:
            groups.append(_hybrid_group(compared, styles))
    return groups


def _hybrid_group(cases: list[MeasuredCase], styles: Styles) -> Group:
    layouts = sorted({case.layout for case in cases}, key=common.layout_rank)
    looks = {layout: styles.layout(layout) for layout in layouts}
    panels, curves = [], []
    for (check,), of_check in common.split(cases, "check").items():
        curves = [
            _hybrid_curves(check, part, looks)
            for part in common.split(of_check, "case").values()
            if len({case.shape.cores for case in part}) > 1
        ]
        panels += curves or [_hybrid_dots(check, of_check, looks)]
    head = ["check", "case", "cores", *layouts, "best"]
    kinds = ["text", "text", "num", *["num"] * len(layouts), "text"]
    legend = legend_of(looks, "layout ", lines=bool(curves))
    legend += [(symbol(**IDEAL), "ideal")] if curves else []
    table = cells_table(head, kinds, _hybrid_cells(cases, layouts))
    return Group(common.place_of(cases), panels, table, legend + common.legend_of_preempted(cases))


def _hybrid_cells(cases: list[MeasuredCase], layouts: list[str]) -> Iterator[list[str]]:
    def cell(case: MeasuredCase | None) -> str:
        return f"{duration(case.time)} ({case.geometry} {case.method})" if case else NONE

    for (check, name), part in common.split(cases, "check", "case").items():
        for cores in sorted({c.shape.cores for c in part}):
            at = {c.layout: c for c in part if c.shape.cores == cores}
            best = min(at.values(), key=lambda c: c.time)
            yield [check, name, str(cores), *(cell(at.get(x)) for x in layouts), best.layout]


def _hybrid_curves(check: str, part: list[MeasuredCase], looks: dict[str, Style]) -> Panel:
    fewest = min(part, key=lambda c: (c.shape.cores, common.layout_rank(c.layout)))
    curves = speedup_curves(part, "layout", fewest.time, looks)
    ideal = fewest.shape.cores
    draw = partial(curves_svg, curves, "cores", "speed-up", log="xy", ideal=ideal)
    title = f"{check} {part[0].case}".strip()
    describe = f"Speed-up of each layout over {fewest.layout} on {ideal} cores, {title}"
    return Panel(title, f"{describe}; {common.ends_of(curves)}", draw)


def _hybrid_dots(check: str, cases: list[MeasuredCase], looks: dict[str, Style]) -> Panel:
    """Times over that of the first layout that a case has."""
    names = list(dict.fromkeys(case.case for case in cases))[: common.STACKS]
    dots = []
    for index, name in enumerate(names):
        part = [case for case in cases if case.case == name]
        unit = min(part, key=lambda c: common.layout_rank(c.layout)).time
        dots += [(index, c.time / unit, looks[c.layout], c.preempted) for c in part]
    first = next(iter(looks))
    describe = f"Time of each layout over that of {first}, {check}"
    draw = partial(dots_svg, names, dots, f"time over that of layout {first}", mark=1)
    return Panel(check, describe, draw)


# What of a step is communication: the profile where there is one, else the phases that communicate.
PROFILE = ("p2p", "collective", "barrier", "onesided", "one-sided")
PHASES = ("exchange", "redistribute", "reduce", "paw-sum")
WORDS = {"p2p": "point-to-point", "onesided": "one-sided", "paw-sum": "sum of PAW's parts"}


def shares(cases: Sequence[MeasuredCase]) -> list[Group]:
    """The fraction of the time that goes into communication, by kind."""
    groups = []
    for check, title, members in common.by_check(cases):
        base, parts = common.baseline(members), _parts(members)
        # A case without messages has its share of MPI, none; a preempted one has no share at all.
        named = {"mpi_share", *(f"{part}_share" for part in parts)}
        stacks: dict[tuple[str, str], MeasuredCase] = {}
        for case in (case for case in members if named & case.metrics.keys()):
            key = case.case, case.seat
            if key not in stacks or case.method == base:
                stacks[key] = case
        if parts:
            groups.append(_share_group(check, title, common.in_order(stacks.values()), parts))
    return groups


def _parts(cases: list[MeasuredCase]) -> list[str]:
    """The names of the shares to stack, in order."""
    known = {name[: -len("_share")] for c in cases for name in c.metrics if name.endswith("_share")}
    for names in (PROFILE, PHASES, ("communication",)):
        if parts := [name for name in names if name in known]:
            return parts
    return []


def _share_group(check: str, title: str, stacks: list[MeasuredCase], parts: list[str]) -> Group:
    shown = stacks[: common.STACKS]
    labels = [
        f"{case.case} {case.seat}" + (" (preempted)" if case.preempted else "") for case in shown
    ]
    values = [[case.metrics.get(f"{part}_share", 0.0) for part in parts] for case in shown]
    methods = list(dict.fromkeys(case.method for case in shown))
    most = max(sum(row) for row in values)
    describe = f"Share of the time spent communicating, {check}; at most {most:.0%}"
    caption = f"method {' or '.join(methods[:3])}" if methods[0] else ""
    panel = Panel(caption, describe, partial(stacks_svg, labels, values))
    names = [WORDS.get(part, part) for part in parts]
    cells = []
    for case in stacks:
        each = [case.metrics.get(f"{part}_share") for part in parts]
        each.append(sum(value for value in each if finite(value)))
        cells.append([case.case, case.seat, case.method])
        cells[-1] += [amount(value, "share") for value in each]
    head = ["case", "layout", "method", *names, "together"]
    table = cells_table(head, ["text"] * 3 + ["num"] * (len(parts) + 1), cells)
    drawn = [any(row[index] > 0 for row in values) for index in range(len(parts))]
    legend = [(swatch(index), name) for index, name in enumerate(names) if drawn[index]]
    left = len(stacks) - len(shown)
    note = f"{plural(left, 'more case')} not drawn." if left > 0 else ""
    return Group(title, [panel], table, legend, note)
