"""Common parts of figures: panels and groups, cases that were measured."""

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from bisection.core.format import NONE, duration, finite, plain, plural, short, times
from bisection.core.grouping import grouped
from bisection.core.identity import IDENTITY, Geometry, TestId, parsed
from bisection.core.verdicts import Verdict
from bisection.report.svg.plots import Curve
from bisection.report.svg.style import Legend, layout_rank
from bisection.report.text_tables import TextTable, cells_table
from bisection.runs.run_verdict import TestResult

GROUPS, PANELS = 8, 24  # that a section shows at most; the rest is counted
# Pixels of a panel where one, two or three are beside each other in a page of 1280.
WIDTHS = {1: 1036, 2: 507, 3: 330}


Test = TypeVar("Test", bound=TestId)


@dataclass
class Panel:
    """One drawing, made when there is room for it."""

    title: str
    describe: str  # in words, for those who do not see it
    draw: Callable[..., str]  # takes `width`, in pixels
    svg: str = ""


@dataclass
class FigureGroup:
    """Panels that share a legend and, beneath them, a table."""

    title: str
    panels: list[Panel]
    table: TextTable
    legend: Legend = field(default_factory=list)
    note: str = ""

    @property
    def beside(self) -> int:  # panels, where there is room
        count = len(self.panels)
        return count if count < 3 else 2 if count == 4 else 3


def draw(groups: Sequence[FigureGroup], room: int) -> tuple[list[FigureGroup], int]:
    """Draws the groups of a section as far as there is room, in bytes; returns them and the room
    that is left."""
    each = max(2, PANELS // max(len(groups), 1))
    shown = []
    for group in groups[:GROUPS]:
        drawn = replace(group, panels=group.panels[:each])
        for panel in drawn.panels:
            panel.svg = panel.draw(width=WIDTHS[drawn.beside]) if room > 0 else ""
            room -= len(panel.svg) + len(panel.describe)
        drawn.panels = [panel for panel in drawn.panels if panel.svg]
        if drawn.panels:
            room -= sum(len(cell) + 60 for row in group.table.rows for cell in row)
            left = len(group.panels) - len(drawn.panels)
            more = f" {plural(left, 'more figure')} not drawn." if left else ""
            drawn.note = (group.note + more).strip()
            shown.append(drawn)
    if shown and len(shown) < len(groups):
        names = ", ".join(group.title for group in groups[len(shown) :])
        shown[-1].note += f" Left out to keep this page small: {short(names)}."
    return shown, room


def ends_of(curves: Iterable[Curve]) -> str:
    texts = []
    for curve in curves:
        (first, at_first), (last, at_last) = min(curve.points.items()), max(curve.points.items())
        texts.append(f"{times(at_first)} at {first} to {times(at_last)} at {last}")
    return "; ".join(texts[:12])


def pivot(names: Sequence[str], cells: Iterable[tuple[tuple[str, ...], str, str]]) -> TextTable:
    """A table of cells, each (key, column, text): a row per key, under `names`, and a column per
    kind of value."""
    rows: dict[tuple[str, ...], dict[str, str]] = {}
    heads: dict[str, None] = {}
    for key, column, text in cells:
        rows.setdefault(key, {})[column] = text
        heads.setdefault(column)
    kinds = ["text"] * len(names) + ["num"] * len(heads)
    lines = ([*key, *(row.get(head, NONE) for head in heads)] for key, row in rows.items())
    return cells_table([*names, *(head or "time" for head in heads)], kinds, lines)


@dataclass
class MeasuredCase(TestId):
    """A test of one session with its numbers at hand."""

    geometry: str
    shape: Geometry
    metrics: dict[str, float]

    @property
    def time(self) -> float:
        return self.metrics["time"]  # s

    @property
    def took(self) -> str:
        return duration(self.time)

    @property
    def cores(self) -> int:
        return self.shape.cores

    @property
    def seat(self) -> str:
        return f"{self.layout} {self.geometry}"


def measured_cases(cases: Iterable[TestResult]) -> Iterator[MeasuredCase]:
    """The tests that were measured and have a geometry; of those that ran several times the
    medians."""
    usable = (c for c in cases if not c.fixture and c.verdict != Verdict.NOT_MEASURED)
    runs = grouped(usable, lambda case: (*map(plain, case.identity), case.record.geometry))
    for key, members in runs.items():
        metrics = [m for case in members for m in case.metrics if finite(m.value)]
        medians = {
            name: statistics.median(metric.value for metric in values)
            for name, values in grouped(metrics, lambda metric: metric.name).items()
        }
        if shape := parsed(key[-1]):
            values = dict(zip((*IDENTITY, "geometry"), key, strict=True))
            yield MeasuredCase(**values, shape=shape, metrics=medians)


def split(cases: Iterable[Test], *names: str) -> dict[tuple[str, ...], list[Test]]:
    """Tests by the attributes `names`, in order."""
    return grouped(cases, lambda case: tuple(getattr(case, name) for name in names))


def by_check(cases: Iterable[MeasuredCase]) -> Iterator[tuple[str, str, list[MeasuredCase]]]:
    """(check, title, cases) of each check of one environment of one system, the smallest cases
    first. Cores tell geometries apart: if two partitions of a system have as many, they are apart.
    """
    for (system, environ), group in split(cases, "system", "environ").items():
        unlike = len(split(group, "check", "case", "layout", "method", "cores")) == len(group)
        names = ["check"] if unlike else ["partition", "check"]
        for (*_, check), members in split(group, *names).items():
            partitions = {case.partition for case in members}
            where = f"{system}:{partitions.pop()}" if len(partitions) == 1 else system
            order = {case: place for place, (case,) in enumerate(split(members, "case"))}
            members.sort(key=lambda c: (order[c.case], c.cores, layout_rank(c.layout)))
            yield check, f"{check} on {where}, environment {environ}", members


def baseline(cases: Sequence[MeasuredCase]) -> str:
    """The method that others are set against: the one in the name of a ratio, or else the first."""
    methods = dict.fromkeys(case.method for case in cases)
    named = [name[6:] for case in cases for name in case.metrics if name.startswith("ratio_")]
    return next((name for name in named if name in methods), next(iter(methods)))
