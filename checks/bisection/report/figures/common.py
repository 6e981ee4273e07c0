"""What figures have in common: panels and groups, cases that were measured."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from bisection.core.format import finite, plain, plural, short, times
from bisection.core.identity import Geometry, Place, parsed
from bisection.core.verdicts import NOT_MEASURED
from bisection.report.svg.style import LAYOUTS
from bisection.report.tables import Table, cut

# What figures and tables show at most; the rest is counted.
STACKS, CELLS = 24, 1200
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


def table_of(head, kinds, rows):
    """A Table of as many rows as a page has room for."""
    return Table(head, kinds, *cut(rows, CELLS // len(head)))


def said(curves):
    """Ends of each curve, in words."""
    said = []
    for curve in curves:
        (first, at_first), (last, at_last) = min(curve.points.items()), max(curve.points.items())
        said.append(f"{times(at_first[0])} at {first} to {times(at_last[0])} at {last}")
    return "; ".join(said[:12])


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


def split(found, *names):
    """Cases by the attributes `names`, in order."""
    groups = {}
    for case in found:
        groups.setdefault(tuple(getattr(case, name) for name in names), []).append(case)
    return groups


def comparable(found):
    """Cases in groups of one environment of one system, in which cores tell geometries apart; of
    one partition if two of a system have as many cores."""
    for cases in split(found, "system", "environ").values():
        keys = [(c.check, c.case, c.layout, c.method, c.shape.cores) for c in cases]
        if len(set(keys)) == len(keys):
            yield cases
        else:
            yield from split(cases, "partition").values()


def baseline(cases):
    """The method that others are set against: the one in the name of a ratio, or else the first."""
    methods = dict.fromkeys(case.method for case in cases)
    named = [name[6:] for case in cases for name in case.metrics if name.startswith("ratio_")]
    return next((name for name in named if name in methods), next(iter(methods)))


def place_of(found):
    """System, partition where there is but one, and environment."""
    partitions = {case.partition for case in found}
    where = f":{partitions.pop()}" if len(partitions) == 1 else ""
    return f"{found[0].system}{where}, environment {found[0].environ}"


def in_order(found):
    """Cases in the order in which they came, of each the smallest first."""
    cases = list(dict.fromkeys(case.case for case in found))
    return sorted(found, key=lambda c: (cases.index(c.case), c.shape.cores, layout_rank(c.layout)))


def layout_rank(layout):
    return LAYOUTS.index(layout) if layout in LAYOUTS else len(LAYOUTS), layout
