"""What figures have in common: panels and groups, cases that were measured."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from bisection.core.format import finite, plain, plural, short, times
from bisection.core.identity import Geometry, TestId, parsed
from bisection.core.verdicts import Verdict
from bisection.report.svg.plots import Curve
from bisection.report.svg.style import LAYOUTS
from bisection.report.tables import Table, cut
from bisection.runs.model import TestResult

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


def draw(groups: Sequence[Group], room: int) -> tuple[list[Group], int]:
    """Draws what fits in `room` bytes of a section's groups.

    Returns:
        The groups with their drawings, and the room that is left.
    """
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


def table_of(head: list[str], kinds: list[str], rows: Iterable[list[str]]) -> Table:
    """A Table of as many rows as a page has room for."""
    return Table(head, kinds, *cut(rows, CELLS // len(head)))


def ends_of(curves: Sequence[Curve]) -> str:
    """Ends of each curve, in words."""
    texts = []
    for curve in curves:
        (first, at_first), (last, at_last) = min(curve.points.items()), max(curve.points.items())
        texts.append(f"{times(at_first[0])} at {first} to {times(at_last[0])} at {last}")
    return "; ".join(texts[:12])


@dataclass
class MeasuredCase(TestId):
    """A test of one session with its numbers at hand."""

    geometry: str
    shape: Geometry
    metrics: dict[str, float]

    @property
    def time(self) -> float:
        """The time (s)."""
        return self.metrics["time"]


def measured(cases: Iterable[TestResult]) -> list[MeasuredCase]:
    """The tests that were measured and have a geometry; of those that ran several times the
    medians."""
    runs: dict[tuple[str, ...], list[dict[str, float]]] = {}
    for case in cases:
        usable = not case.fixture and case.verdict != Verdict.NOT_MEASURED
        if usable and parsed(case.geometry):
            numbers = {m.name: m.value for m in case.metrics if finite(m.value)}
            key = (*map(plain, case.identity), case.geometry)
            runs.setdefault(key, []).append(numbers)
    return [_measured(key, numbers) for key, numbers in runs.items()]


def _measured(key: tuple[str, ...], runs: list[dict[str, float]]) -> MeasuredCase:
    names = dict.fromkeys(name for numbers in runs for name in numbers)
    metrics = {
        name: statistics.median(numbers[name] for numbers in runs if name in numbers)
        for name in names
    }
    return MeasuredCase(*key, parsed(key[-1]), metrics)


def timed(cases: Iterable[TestResult]) -> list[MeasuredCase]:
    """Those of `measured` whose time is known."""
    return [case for case in measured(cases) if case.metrics.get("time", 0) > 0]


def split(found: Iterable[MeasuredCase], *names: str) -> dict[tuple[str, ...], list[MeasuredCase]]:
    """Cases by the attributes `names`, in order."""
    groups = {}
    for case in found:
        groups.setdefault(tuple(getattr(case, name) for name in names), []).append(case)
    return groups


def comparable(found: Sequence[MeasuredCase]) -> Iterator[list[MeasuredCase]]:
    """Cases in groups of one environment of one system, in which cores tell geometries apart; of
    one partition if two of a system have as many cores."""
    for cases in split(found, "system", "environ").values():
        keys = [(c.check, c.case, c.layout, c.method, c.shape.cores) for c in cases]
        if len(set(keys)) == len(keys):
            yield cases
        else:
            yield from split(cases, "partition").values()


def baseline(cases: Sequence[MeasuredCase]) -> str:
    """The method that others are set against: the one in the name of a ratio, or else the first."""
    methods = dict.fromkeys(case.method for case in cases)
    named = [name[6:] for case in cases for name in case.metrics if name.startswith("ratio_")]
    return next((name for name in named if name in methods), next(iter(methods)))


def place_of(found: Sequence[MeasuredCase]) -> str:
    """System, partition where there is but one, and environment."""
    partitions = {case.partition for case in found}
    where = f":{partitions.pop()}" if len(partitions) == 1 else ""
    return f"{found[0].system}{where}, environment {found[0].environ}"


def in_order(found: Iterable[MeasuredCase]) -> list[MeasuredCase]:
    """Cases in the order in which they came, of each the smallest first."""
    cases = list(dict.fromkeys(case.case for case in found))
    return sorted(found, key=lambda c: (cases.index(c.case), c.shape.cores, layout_rank(c.layout)))


def layout_rank(layout: str) -> tuple[int, str]:
    """Sorts layouts: those of ours in their order, then others by name."""
    return LAYOUTS.index(layout) if layout in LAYOUTS else len(LAYOUTS), layout
