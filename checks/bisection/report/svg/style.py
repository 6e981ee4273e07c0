"""Colours and symbols of figures, legends, sparklines."""

from __future__ import annotations

import functools
import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bisection.core.format import finite
from bisection.core.identity import TestId
from bisection.kernels.layouts import ALL_LAYOUTS
from bisection.report.svg.figure import BETTER, INK, MUTED, PAPER, STYLE, WORSE, drawn, plot

if TYPE_CHECKING:  # takes most of a second, which pages without figures spare
    from matplotlib.figure import Figure

COLOURS = tuple(STYLE["axes.prop_cycle"].by_key()["color"])
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
DASHES = ("-", "--", ":")
HATCHES = ("", "////", "\\\\\\\\", "----", "xxxx", "||||")  # dots would be ten times as long
BLUE, GREY, RED, YELLOW = "#0072b2", "#8a94a3", "#d55e00", "#e69f00"
# How matplotlib draws a level that is ideal, the best point, and what was preempted.
IDEAL = {"color": MUTED, "linewidth": 1, "linestyle": (0, (1, 3))}
RING = {"marker": "o", "markerfacecolor": "none", "markeredgecolor": INK, "markersize": 13,
        "markeredgewidth": 1.2, "linestyle": "none"}  # fmt: skip
HOLLOW = {"markerfacecolor": PAPER, "markeredgewidth": 1.6}


@dataclass(frozen=True)
class Style:
    """How one method or layout looks in every figure."""

    colour: str
    marker: str
    dash: str

    @classmethod
    def number(cls, index: int) -> Style:
        """The style of the index-th thing: colour and marker turn first, then dashes."""
        return cls(
            COLOURS[index % len(COLOURS)],
            MARKERS[index % len(MARKERS)],
            DASHES[index // len(COLOURS) % len(DASHES)],
        )

    def marked(self, preempted: bool = False) -> dict[str, Any]:
        """How matplotlib draws its markers: hollow where the launch was preempted."""
        edge = {"markeredgecolor": self.colour, **HOLLOW} if preempted else {}
        return {"color": self.colour, "marker": self.marker, "linestyle": "none", **edge}


class Styles:
    """Styles by check and method, in the order in which they come, and by layout."""

    def __init__(self, cases: Iterable[TestId] = (), rows: Iterable[TestId] = ()) -> None:
        self._methods: dict[str, dict[str, int]] = {}
        for test in (*cases, *rows):
            self.method(test.check, test.method)
        self._layouts = {name: index for index, name in enumerate(ALL_LAYOUTS)}

    def method(self, check: str, method: str) -> Style:
        """The style of a method, the same in all figures."""
        known = self._methods.setdefault(check, {})
        return Style.number(known.setdefault(method, len(known)))

    def layout(self, layout: str) -> Style:
        """The style of a layout, the same in all figures."""
        return Style.number(self._layouts.setdefault(layout, len(self._layouts)))


Legend = list[tuple[str, str]]  # (symbol as SVG, what it means)


def legend_of(styles: Mapping[str, Style], before: str = "", lines: bool = True) -> Legend:
    """The legend of methods or layouts.

    Args:
        styles: name -> style.
        before: goes before each name.
        lines: whether the figures join the markers by lines.
    """
    return [
        (symbol(**style.marked() | ({"linestyle": style.dash} if lines else {})), before + name)
        for name, style in styles.items()
        if name
    ]


def symbol(**look: Any) -> str:
    """A piece of line with its marker as SVG; arguments as of matplotlib's plot."""
    return _symbol(tuple(look.items()))


@functools.cache
@drawn
def _symbol(look: tuple[tuple[str, Any], ...]) -> Figure:
    figure, axes = plot(32, 14)
    axes.set(xlim=(0, 32), ylim=(0, 14))
    axes.set_axis_off()
    axes.plot([1, 16, 31], [7, 7, 7], markevery=[1], **dict(look))
    return figure


@functools.cache
@drawn
def swatch(index: int) -> Figure:
    """A box of a stack, as SVG."""
    figure, axes = plot(32, 14)
    axes.set(xlim=(0, 32), ylim=(0, 14))
    axes.set_axis_off()
    axes.barh(7, 28, 12, left=2, **filled(index))
    return figure


def filled(index: int) -> dict[str, str]:
    """Colour and hatch of the index-th part of a stack."""
    return {"color": COLOURS[index % 6], "hatch": HATCHES[index % 6], "edgecolor": PAPER}


@drawn
def sparkline(values: Sequence[Any], points: Sequence[int], better: str) -> Figure:
    """A metric's history as a small figure.

    Args:
        values: the metric in each session; what is no number is left out.
        points: indices where a new level begins: each gets a tick and a triangle, down for worse.
        better: lower | higher.
    """
    figure, axes = plot(240, 46, 6, 3, 6, 9)
    axes.set_axis_off()
    known = [(index, value) for index, value in enumerate(values) if finite(value)]
    # At least a fifth of the median from bottom to top: noise of a few percent is no step.
    middle = statistics.median(value for _, value in known)
    around = (0.9 * middle, 1.1 * middle) if min(known, key=lambda k: k[1])[1] > 0 else ()
    axes.plot(*zip(*known, strict=True), color=MUTED, linewidth=1.3)
    axes.plot(*known[-1], "o", color=INK, markersize=5)
    axes.update_datalim([(0, y) for y in around])
    axes.autoscale_view()
    axes.set_xlim(-0.5, len(values) - 0.5)
    starts = sorted(index for index in points if 0 < index < len(values))
    levels = []
    for first, last in itertools.pairwise([0, *starts, len(values)]):
        level = [value for index, value in known if first <= index < last]
        levels.append(statistics.median(level) if level else 0.0)
    for start, (old, new) in zip(starts, itertools.pairwise(levels), strict=True):
        worse = (new > old) == (better == "lower")
        colour, marker = (WORSE, "v") if worse else (BETTER, "^")
        axes.axvline(start, color=colour, linewidth=1.2, linestyle=(0, (3, 2)))
        above = {"transform": axes.get_xaxis_transform(), "clip_on": False}
        axes.plot([start], [1.05], marker, color=colour, **above)
    return figure
