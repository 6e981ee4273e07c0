"""Colours and symbols of figures, legends, sparklines."""

import functools
import html
import itertools
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from bisection.core.format import finite, plain
from bisection.core.identity import TestId
from bisection.report.svg.figure import INK, MUTED, PAPER, drawn, plot

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
DASHES = ("-", "--", ":")
HATCHES = ("", "////", "\\\\\\\\", "----", "xxxx", "||||")  # dots would be ten times as long
BLUE, GREY, RED, YELLOW = "#0072b2", "#8a94a3", "#d55e00", "#e69f00"
LAYOUTS = ("mpi", "node", "node2", "domain")
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
    def number(cls, index: int) -> "Style":
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
        self._layouts = {name: index for index, name in enumerate(LAYOUTS)}

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


def sparkline(values: Sequence[Any], points: Sequence[int], better: str, label: str) -> str:
    """A metric's history as a small SVG.

    Args:
        values: the metric in each session; what is no number is left out.
        points: indices where a new level begins: each gets a tick and a triangle, down for worse.
        better: lower | higher.
        label: the same in words.
    """
    width, height, top = 240, 46, 12
    known = [(index, value) for index, value in enumerate(values) if finite(value)]
    if not known:
        return ""
    low, high = _span([value for _, value in known])
    across = (width - 12) / max(len(values) - 1, 1)
    up = (height - top - 5) / (high - low) if high > low else 0.0

    def at(index: int, value: float) -> str:
        y = height - 5 - (value - low) * up if up else (height + top) / 2
        return f"{6 + index * across:.1f},{y:.1f}"

    line = "L".join(at(index, value) for index, value in known)
    parts = [f'<path class="line" d="M{line}"/>']
    starts = sorted(index for index in points if 0 < index < len(values))
    for index, worse in zip(starts, _worse(values, starts, better), strict=True):
        x = 6 + index * across
        mark = f"M{x - 4:.1f},1h8l-4,7z" if worse else f"M{x - 4:.1f},8h8l-4,-7z"
        kind = "worse" if worse else "better"
        parts.append(f'<path class="tick {kind}" d="M{x:.1f},9V{height}"/>')
        parts.append(f'<path class="mark {kind}" d="{mark}"/>')
    x, y = at(*known[-1]).split(",")
    parts.append(f'<circle class="last" cx="{x}" cy="{y}" r="2.6"/>')
    title = html.escape(plain(label), quote=True)
    return (
        f'<svg class="spark" viewBox="0 0 {width} {height}" role="img" aria-label="{title}">'
        f"<title>{title}</title>{''.join(parts)}</svg>"
    )


def _span(values: Sequence[float]) -> tuple[float, float]:
    """What a line covers from bottom to top: at least a fifth of its median, so that noise of a few
    percent does not look like a step."""
    low, high = min(values), max(values)
    if low <= 0:
        return low, high
    middle = statistics.median(values)
    return min(low, 0.9 * middle), max(high, 1.1 * middle)


def _worse(values: Sequence[Any], starts: Sequence[int], better: str) -> list[bool]:
    """Whether the level that begins at each of `starts` is worse than the one before it."""
    levels = []
    for first, last in itertools.pairwise([0, *starts, len(values)]):
        level = [value for value in values[first:last] if finite(value)]
        levels.append(statistics.median(level) if level else 0.0)
    return [(new > old) == (better == "lower") for old, new in itertools.pairwise(levels)]
