"""Every kind of plot: bars, curves, dots, stacks, maps. Each is drawn at a width in pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bisection.core.format import duration, finite, interval, short, size_of, times
from bisection.report.svg.figure import (
    EXPECTED,
    FONT,
    GRID,
    INK,
    MUTED,
    PAPER,
    drawn,
    log_ticks,
    plot,
)
from bisection.report.svg.style import IDEAL, RING, Style, filled

if TYPE_CHECKING:  # takes most of a second, which pages without figures spare
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Mark = tuple[float, str]  # a level across a plot, and its name
NARROW = 330  # what a small screen has room for
DASHED = (0, (5, 3))


@dataclass
class Bar:
    """A speed-up with its interval."""

    label: str
    place: str  # geometry and software
    words: str  # above | at | below | unclear, or the verdict
    ratio: float
    low: float | None
    high: float | None
    colour: str
    hatch: str


@dataclass
class Curve:
    """(x -> (y, low, high)) and how it looks."""

    style: Style
    points: dict[float, tuple[float, float | None, float | None]]
    best: float | None = None  # an x to ring
    preempted: set[float] = field(default_factory=set)  # x whose launch was preempted


@drawn
def bars_svg(bars: Sequence[Bar], expected: float | None, width: int) -> Figure:
    """Bars from 1, which is as before, on a logarithmic axis."""
    narrow = width <= NARROW
    row, left, right = (50, 4, 10) if narrow else (38, 330, 170)
    figure, axes = plot(width, 58 + row * len(bars), left, 34, right, 24)
    axes.set(ylim=(len(bars) - 0.5, -0.5), yticks=[])
    axes.spines["left"].set_visible(False)
    _bar_scale(axes, bars, expected)
    axes.grid(axis="x", visible=not narrow)
    for index, bar in enumerate(bars):
        y, thick = (index + 0.24, 0.3) if narrow else (index, 0.46)
        look = {"color": bar.colour, "hatch": bar.hatch, "edgecolor": PAPER, "linewidth": 0}
        axes.barh(y, bar.ratio - 1, thick, left=1, **look)
        if bar.low is not None and bar.high is not None:
            line = {"color": INK, "linewidth": 1.2, "marker": "|", "markeredgecolor": INK}
            axes.plot([bar.low, bar.high], [y, y], **line)
        _bar_label(axes, index, bar, narrow)
    _verticals(axes, expected, len(bars), narrow)
    axes.set_xlabel("speed-up: 1 is as before (logarithmic)", fontsize=FONT - 0.5)
    return figure


def _bar_scale(axes: Axes, bars: Sequence[Bar], expected: float | None) -> None:
    ratios = [bar.ratio for bar in bars] + [1.0] + ([expected] if finite(expected) else [])
    ends = [end for bar in bars for end in (bar.low, bar.high) if end is not None]
    low = max(min(ratios + ends), min(ratios) / 1.6) / 1.04
    high = min(max(ratios + ends), max(ratios) * 1.6) * 1.04
    _log_axis(axes, "x", min(low, 0.92), max(high, 1.09))


def _log_axis(axes: Axes, name: str, low: float, high: float, form: Any = "{x:g}") -> None:
    """Makes an axis logarithmic, from `low` to `high`, `form` giving a tick's text."""
    axes.set(**{f"{name}scale": "log", f"{name}lim": (low, high)})
    _ticks(axes, name, log_ticks(low, high), form)


def _ticks(axes: Axes, name: str, ticks: Sequence[float], form: Any = "{x:g}") -> None:
    """Puts ticks at these numbers only."""
    from matplotlib.ticker import NullLocator

    axis = getattr(axes, f"{name}axis")
    axis.set_ticks(ticks)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(form if isinstance(form, str) else lambda x, _=None: form(x))


def _bar_label(axes: Axes, index: int, bar: Bar, narrow: bool) -> None:
    """Name and values of a bar: above it, or to its left and right."""
    gap = 12 / axes.bbox.width
    left, right, far = (0, 1, "right") if narrow else (-gap, 1 + gap, "left")
    rows = (index - 0.3, index - 0.04) if narrow else (index - 0.17, index + 0.21)
    sizes = (34, 56) if narrow else (44, 60)
    near = {"ha": "left" if narrow else "right"}
    look = {"transform": axes.get_yaxis_transform(), "va": "center"}
    little = {"size": FONT - 2, "color": MUTED}
    weight = {"weight": "normal" if narrow else "bold"}
    axes.text(left, rows[0], short(bar.label, sizes[0]), weight="bold", **look, **near)
    axes.text(left, rows[1], short(bar.place, sizes[1]), **look, **little, **near)
    axes.text(right, rows[0], f"{times(bar.ratio)}  {bar.words}", ha=far, **look, **weight)
    if not narrow:
        axes.text(right, rows[1], interval(bar.low, bar.high), **look, **little)


def _verticals(axes: Axes, expected: float | None, count: int, narrow: bool) -> None:
    """Lines at no change and at what was expected; not through the labels of a narrow figure."""
    low, high = axes.get_xlim()
    spans = [(i + 0.05, i + 0.43) for i in range(count)] if narrow else [(-0.5, count - 0.5)]
    lines = [(1.0, "" if narrow else "as before", {"color": INK, "linewidth": 1.1})]
    if finite(expected) and low < expected < high:
        look = {"color": EXPECTED, "linewidth": 1.6, "linestyle": DASHED}
        lines.append((expected, f"expected {times(expected)}", look))
    for level, text, look in lines:
        for first, last in spans:
            axes.plot([level, level], [first, last], **look)
        right = len(lines) == 2 and level == min(line[0] for line in lines)
        axes.annotate(
            text,
            (level, 1),
            xycoords=axes.get_xaxis_transform(),
            xytext=(-2 if right else 2, 3),
            textcoords="offset points",
            ha="right" if right else "left",
            color=look["color"],
            size=FONT - 1,
        )


@drawn
def curves_svg(
    curves: Sequence[Curve],
    across: str,
    up: str,
    width: int,
    marks: Sequence[Mark] = (),
    log: str = "",
    ideal: int | None = None,
    unit: str = "ratio",
    sizes: bool = False,
) -> Figure:
    """Lines with markers.

    Args:
        curves: the lines.
        across: what the x axis shows.
        up: what the y axis shows.
        width: of the figure, in pixels.
        marks: levels to draw across the plot.
        log: names of the logarithmic axes: x, xy.
        ideal: draws y = x / ideal.
        unit: of y, ratio, s or B.
        sizes: whether x are sizes in bytes.
    """
    figure, axes = plot(width, 240 if width <= NARROW else 280, 46, 38, 12, 22)
    axes.set_title(up, x=4 / width - 46 / width, pad=8)
    axes.set_xlabel(across)
    axes.grid()
    xs = sorted({x for curve in curves for x in curve.points})
    if ideal:
        axes.plot([xs[0], xs[-1]], [xs[0] / ideal, xs[-1] / ideal], **IDEAL)
    for curve in curves:
        _draw_curve(axes, curve)
    for level, text in marks:
        _horizontal(axes, level, text)
    ys = [y for curve in curves for y, _, _ in curve.points.values()]
    ys += [level for level, _ in marks] + ([1.0] if ideal else [])
    from matplotlib.ticker import EngFormatter

    form = {"s": _duration, "B": EngFormatter("B")}.get(unit, "{x:g}")
    if "y" in log:
        _log_axis(axes, "y", min(ys) / 1.12, max(ys) * 1.12, form)
    else:
        axes.set_ylim(0, (max(ys) or 1) * 1.12)
        axes.locator_params(axis="y", nbins=6)
        axes.yaxis.set_major_formatter(form)  # matplotlib's own puts an exponent above the axis
    if "x" in log:
        axes.set_xscale("log", base=2)
        reach = (xs[-1] / xs[0]) ** 0.06 if len(xs) > 1 else 2
        axes.set_xlim(xs[0] / reach, xs[-1] * reach)
    most = (5 if sizes else 7) * width // NARROW
    _ticks(axes, "x", xs[:: -(-len(xs) // most)], size_of if sizes else "{x:g}")
    return figure


def _duration(seconds: float, _: int | None = None) -> str:
    """A tick of seconds."""
    return duration(seconds) if seconds else "0"


def _draw_curve(axes: Axes, curve: Curve) -> None:
    style = curve.style
    ys = [y for y, _, _ in curve.points.values()]
    axes.plot(list(curve.points), ys, color=style.colour, linestyle=style.dash)
    for x, (y, low, high) in curve.points.items():
        if finite(low) and finite(high):
            ends = {"color": style.colour, "linewidth": 1, "marker": "_"}
            axes.plot([x, x], [low, high], markeredgecolor=style.colour, **ends)
        axes.plot([x], [y], **style.marked(x in curve.preempted))
    if curve.best is not None:
        axes.plot([curve.best], [curve.points[curve.best][0]], **RING)


def _horizontal(axes: Axes, level: float, text: str) -> None:
    before = text == "as before"
    colour = INK if before else EXPECTED
    axes.axhline(level, color=colour, linewidth=1.1, linestyle="-" if before else DASHED)
    axes.annotate(
        text if before else f"{text} {times(level)}",
        (1, level),
        xycoords=axes.get_yaxis_transform(),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        color=colour,
        size=FONT - 2,
    )


def _named_rows(
    names: Sequence[str], longest: int, width: int, row: int, across: str, right: int
) -> tuple[Figure, Axes]:
    """A plot with a name at each row, from the top, and a grid of verticals."""
    names = [short(name, longest) for name in names]
    left = 14 + 6.4 * max(map(len, names))
    figure, axes = plot(width, 40 + row * len(names), left, 34, right, 6)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), labels=names)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_xlabel(across)
    return figure, axes


@drawn
def dots_svg(
    names: Sequence[str],
    dots: Sequence[tuple[int, float, Style, bool]],
    across: str,
    width: int,
    mark: float | None = None,
) -> Figure:
    """A row per name, a dot per (row, value, style, whether it was preempted); `mark` is a value to
    draw a line at."""
    figure, axes = _named_rows(names, 22, width, 21, across, 16)
    styles = list(dict.fromkeys(style for _, _, style, _ in dots))
    for row, value, style, preempted in dots:
        y = row + (styles.index(style) - (len(styles) - 1) / 2) * 0.2
        axes.plot([value], [y], **style.marked(preempted))
    for row in range(1, len(names)):
        axes.axhline(row - 0.5, color=GRID, linewidth=0.8)
    if mark:
        axes.axvline(mark, color=INK, linewidth=1)
    axes.set_xlim(0, max([value for _, value, _, _ in dots] + [mark or 0]) * 1.08)
    axes.locator_params(axis="x", nbins=max(5, width // 80))
    return figure


@drawn
def stacks_svg(labels: Sequence[str], values: Sequence[Sequence[float]], width: int) -> Figure:
    """Fractions stacked in a row for each label."""
    figure, axes = _named_rows(labels, 34, width, 20, "share of the time, in percent", 46)
    for row, parts in enumerate(values):
        start = 0.0
        for index, part in enumerate(parts):
            part = 100 * part if finite(part) and part > 0 else 0.0
            axes.barh(row, part, 0.66, left=start, linewidth=0.4, **filled(index))
            start += part
        text = f"{start:.2g}%" if start < 10 else f"{start:.0f}%"
        beside = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
        axes.annotate(text, (start, row), size=FONT - 1, **beside)
    most = max(sum(p for p in parts if finite(p)) for parts in values)
    axes.set_xlim(0, max(1.0, min(100.0, 100 * most * 1.05)))
    return figure
