"""Every kind of plot: bars, curves, dots, stacks, maps."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bisection.analysis.model import Pairs
from bisection.core.format import duration, finite, scaled, short, size_of, times
from bisection.report.svg.figure import canvas, decades, drawn, new_axes, plain_ticks, ratio_ticks
from bisection.report.svg.style import (
    COLOURS,
    EXPECTED,
    FONT,
    GRID,
    HATCHES,
    INK,
    MUTED,
    PAPER,
    Style,
)

Mark = tuple[float, str]  # a level across a plot, and its name


@dataclass
class Bar:
    """A speed-up with its interval."""

    label: str
    place: str  # geometry and software
    value: str
    interval: str
    words: str  # above | at | below | unclear, or the verdict
    ratio: float
    low: float | None
    high: float | None
    colour: str
    hatch: str


@dataclass
class Curve:
    """(x -> (y, low, high)) and how it looks; `best` is an x to ring."""

    style: Style
    points: dict[float, tuple[float, float | None, float | None]]
    best: float | None = None


@drawn
def bars_svg(bars: Sequence[Bar], expected: float | None, narrow: bool) -> Figure:
    """Bars from 1, which is as before, on a logarithmic axis."""
    width, row = (350, 50) if narrow else (880, 38)
    left, right = (4, 10) if narrow else (330, 170)
    bottom, top = 34, 24
    height = bottom + top + row * len(bars)
    figure = canvas(width, height)
    axes = new_axes(figure, left, bottom, right, top)
    _bar_scale(axes, bars, expected)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    for index, bar in enumerate(bars):
        y = index + (0.24 if narrow else 0)
        axes.barh(
            y,
            bar.ratio - 1,
            0.3 if narrow else 0.46,
            left=1,
            color=bar.colour,
            hatch=bar.hatch,
            edgecolor=PAPER,
            linewidth=0,
        )
        if bar.low is not None and bar.high is not None:
            axes.plot(
                [bar.low, bar.high], [y, y], color=INK, linewidth=1.2, marker="|", markersize=7
            )
        _bar_label(axes, index, bar, narrow)
    _verticals(axes, expected, len(bars), narrow)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("speed-up: 1 is as before (logarithmic)", fontsize=FONT - 0.5)
    return figure


def _bar_scale(axes: Axes, bars: Sequence[Bar], expected: float | None) -> None:
    ratios = [bar.ratio for bar in bars] + [1.0] + ([expected] if finite(expected) else [])
    ends = [end for bar in bars for end in (bar.low, bar.high) if end is not None]
    low = max(min(ratios + ends), min(ratios) / 1.6) / 1.04
    high = min(max(ratios + ends), max(ratios) * 1.6) * 1.04
    low, high = min(low, 0.92), max(high, 1.09)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    plain_ticks(axes.xaxis, ratio_ticks(low, high))


def _bar_label(axes: Axes, index: int, bar: Bar, narrow: bool) -> None:
    values = f"{bar.value}  {bar.words}"
    along = axes.get_yaxis_transform()
    if narrow:
        label, place = short(bar.label, 34), short(bar.place, 56)
        axes.text(0, index - 0.3, label, transform=along, va="center", weight="bold", size=FONT)
        axes.text(1, index - 0.3, values, transform=along, va="center", ha="right", size=FONT)
        axes.text(0, index - 0.04, place, transform=along, va="center", size=FONT - 2, color=MUTED)
        return
    label, place = short(bar.label, 44), short(bar.place, 60)
    gap = 12 / (axes.bbox.width)
    axes.text(-gap, index - 0.17, label, transform=along, va="center", ha="right", weight="bold")
    axes.text(
        -gap,
        index + 0.21,
        place,
        transform=along,
        va="center",
        ha="right",
        size=FONT - 2,
        color=MUTED,
    )
    axes.text(1 + gap, index - 0.17, values, transform=along, va="center", weight="bold")
    axes.text(
        1 + gap,
        index + 0.21,
        bar.interval,
        transform=along,
        va="center",
        size=FONT - 2,
        color=MUTED,
    )


def _verticals(axes: Axes, expected: float | None, count: int, narrow: bool) -> None:
    """Lines at no change and at what was expected; not through the labels of a narrow figure."""
    above, (low, high) = axes.get_xaxis_transform(), axes.get_xlim()
    spans = [(i + 0.05, i + 0.43) for i in range(count)] if narrow else [(-0.5, count - 0.5)]
    lines = [(1.0, "" if narrow else "as before", INK, "-", 1.1)]
    if finite(expected) and low < expected < high:
        lines.append((expected, f"expected {times(expected)}", EXPECTED, (0, (5, 3)), 1.6))
    if not narrow:
        axes.grid(axis="x", color=GRID, linewidth=0.8)
    for level, text, colour, dash, width in lines:
        for first, last in spans:
            axes.plot([level, level], [first, last], color=colour, linestyle=dash, linewidth=width)
        right = len(lines) == 2 and level == min(line[0] for line in lines)
        look = {"ha": "right" if right else "left", "color": colour, "size": FONT - 1}
        shift = (-2 if right else 2, 3)
        axes.annotate(
            text, (level, 1), xycoords=above, xytext=shift, textcoords="offset points", **look
        )


@drawn
def curves_svg(
    curves: Sequence[Curve],
    across: str,
    up: str,
    marks: Sequence[Mark],
    log: str = "",
    ideal: int | None = None,
    unit: str = "ratio",
    sizes: bool = False,
) -> Figure:
    """Lines with markers; `log` names the logarithmic axes, `ideal` draws y = x / ideal."""
    figure = canvas(330, 240)
    axes = new_axes(figure, 46, 38, 12, 22)
    xs = sorted({x for curve in curves for x in curve.points})
    if "x" in log:
        axes.set_xscale("log", base=2)
    if "y" in log:
        axes.set_yscale("log", base=2 if unit == "ratio" else 10)
    if ideal:
        axes.plot(
            [xs[0], xs[-1]],
            [x / ideal for x in (xs[0], xs[-1])],
            color=MUTED,
            linewidth=1,
            linestyle=(0, (1, 3)),
        )
    for curve in curves:
        _draw_curve(axes, curve)
    for level, text in marks:
        _horizontal(axes, level, text, xs)
    _curve_scale(axes, curves, marks, log, unit, ideal, xs)
    most = 5 if sizes and len(xs) > 7 else 7
    wanted = xs if len(xs) <= most else xs[:: -(-len(xs) // most)]
    plain_ticks(axes.xaxis, wanted, size_of if sizes else "{:g}".format)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_xlabel(across, labelpad=3)
    figure.text(4 / 330, 1 - 11 / 240, up, size=FONT - 0.5, va="center", color=MUTED)
    return figure


def _draw_curve(axes: Axes, curve: Curve) -> None:
    style, xs = curve.style, list(curve.points)
    ys = [y for y, _, _ in curve.points.values()]
    look = {
        "color": style.colour,
        "linestyle": style.dash,
        "marker": style.marker,
        "markersize": 6.5,
    }
    axes.plot(xs, ys, **look, markeredgecolor=PAPER, markeredgewidth=0.5)
    for x, (_, low, high) in curve.points.items():
        if finite(low) and finite(high):
            axes.plot(
                [x, x], [low, high], color=style.colour, linewidth=1, marker="_", markersize=5
            )
    if curve.best is not None:
        ring = {"markerfacecolor": "none", "markeredgecolor": INK, "markersize": 13}
        axes.plot([curve.best], [curve.points[curve.best][0]], "o", **ring)


def _horizontal(axes: Axes, level: float, text: str, xs: Sequence[float]) -> None:
    dash = "-" if text == "as before" else (0, (5, 3))
    colour = INK if text == "as before" else EXPECTED
    axes.axhline(level, color=colour, linewidth=1.1, linestyle=dash)
    label = text if text == "as before" else f"{text} {times(level)}"
    axes.annotate(
        label,
        (1, level),
        xycoords=axes.get_yaxis_transform(),
        xytext=(0, 3),
        size=FONT - 2,
        textcoords="offset points",
        ha="right",
        va="bottom",
        color=colour,
    )


def _curve_scale(
    axes: Axes,
    curves: Sequence[Curve],
    marks: Sequence[Mark],
    log: str,
    unit: str,
    ideal: int | None,
    xs: Sequence[float],
) -> None:
    """Limits and ticks of both axes."""
    ys = [y for curve in curves for y, _, _ in curve.points.values()]
    ys += [level for level, _ in marks] + ([1.0] if ideal else [])
    low, high = min(ys), max(ys)
    if "y" in log:
        low, high = low / 1.12, high * 1.12
        axes.set_ylim(low, high)
        ticks = ratio_ticks(low, high) if unit == "ratio" else decades(low, high)
        plain_ticks(axes.yaxis, ticks, duration if unit == "s" else "{:g}".format)
    else:
        axes.set_ylim(0, high * 1.12)
        axes.locator_params(axis="y", nbins=6)
    if "x" in log and len(xs) > 1:
        reach = (xs[-1] / xs[0]) ** 0.06
        axes.set_xlim(xs[0] / reach, xs[-1] * reach)


@drawn
def dots_svg(
    names: Sequence[str],
    dots: Sequence[tuple[int, float, Style]],
    along: str,
    mark: float | None = None,
) -> Figure:
    """A row for each name, a dot for each (row, value, style)."""
    left = 14 + 6.4 * max(len(short(name, 22)) for name in names)
    figure = canvas(330, 40 + 21 * len(names))
    axes = new_axes(figure, left, 34, 16, 6)
    high = max([value for _, value, _ in dots] + ([mark] if mark else [])) * 1.08
    styles = list(dict.fromkeys(style for _, _, style in dots))
    for row, value, style in dots:
        y = row + (styles.index(style) - (len(styles) - 1) / 2) * 0.2
        axes.plot(
            [value],
            [y],
            style.marker,
            color=style.colour,
            markersize=7.5,
            markeredgecolor=PAPER,
            markeredgewidth=0.6,
        )
    for row in range(1, len(names)):
        axes.axhline(row - 0.5, color=GRID, linewidth=0.8)
    if mark:
        axes.axvline(mark, color=INK, linewidth=1)
    axes.set_xlim(0, high)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), labels=[short(name, 22) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel(along, labelpad=2)
    return figure


@drawn
def stacks_svg(labels: Sequence[str], values: Sequence[Sequence[float]]) -> Figure:
    """Shares stacked in a row for each label."""
    left = 14 + 6.2 * max(len(short(label, 30)) for label in labels)
    figure = canvas(440, 40 + 20 * len(labels))
    axes = new_axes(figure, left, 34, 46, 6)
    for row, parts in enumerate(values):
        start = 0.0
        for index, part in enumerate(parts):
            part = 100 * part if finite(part) and part > 0 else 0.0
            axes.barh(
                row,
                part,
                0.66,
                left=start,
                color=COLOURS[index % 6],
                hatch=HATCHES[index % len(HATCHES)],
                edgecolor=PAPER,
                linewidth=0.4,
            )
            start += part
        axes.annotate(
            f"{start:.2g}%" if start < 10 else f"{start:.0f}%",
            (start, row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            size=FONT - 1,
        )
    most = max(sum(p for p in parts if finite(p)) for parts in values)
    axes.set_xlim(0, max(1.0, min(100.0, 100 * most * 1.05)))
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_yticks(range(len(labels)), labels=[short(label, 30) for label in labels])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_xlabel("share of the time, in percent", labelpad=2)
    return figure


@drawn
def heat_svg(
    found: Pairs, values: Sequence[Sequence[float | None]], named: Sequence[str]
) -> Figure:
    """A map in cividis; pairs without a value are crossed out."""
    size = len(found.nodes)
    labels = [short(node, 14) + (" *" if node in named else "") for node in found.nodes]
    margin = 16 + 6.2 * max(len(label) for label in labels)
    figure = canvas(390 + margin, 330 + margin)
    axes = new_axes(figure, margin, 12, 76, margin)
    factor, unit = scaled(max(v for row in values for v in row if v is not None), found.unit)
    values = [[None if v is None else v * factor for v in row] for row in values]
    grid = np.array([[np.nan if v is None else v for v in row] for row in values], float)
    if size <= 40:
        edges = np.arange(size + 1) - 0.5
        image = axes.pcolormesh(edges, edges, grid, cmap="cividis", linewidth=0)
    else:
        image = axes.imshow(grid, cmap="cividis", interpolation="nearest", aspect="auto")
    axes.set_ylim(size - 0.5, -0.5)
    axes.set_xlim(-0.5, size - 0.5)
    _heat_cells(axes, values, image)
    shown = _labelled(size, [found.nodes.index(node) for node in named[:4]])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xticks(shown, labels=[labels[i] for i in shown], rotation=90)
    axes.set_yticks(shown, labels=[labels[i] for i in shown])
    for spine in axes.spines.values():
        spine.set_visible(False)
    _colour_bar(figure, axes, image, unit)
    return figure


def _labelled(size: int, always: Sequence[int]) -> list[int]:
    """Which of many labels to write: about 24, and those of `always` with room around them."""
    step = -(-size // 24)
    free = [i for i in range(0, size, step) if all(abs(i - k) >= step for k in always)]
    return sorted({*free, *always})


def _heat_cells(axes: Axes, values: Sequence[Sequence[float | None]], image: Any) -> None:
    """Numbers in the cells of a small map; a cross where there is none."""
    size = len(values)
    if size > 40:
        return
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            if value is None and i != j:
                axes.text(j, i, "\N{MULTIPLICATION SIGN}", ha="center", va="center", color=MUTED)
            elif value is not None and size <= 10:
                dark = image.norm(value) < 0.55
                colour = "#ffffff" if dark else "#111111"
                text = f"{value:.3g}"
                axes.text(j, i, text, ha="center", va="center", color=colour, size=FONT - 1)


def _colour_bar(figure: Figure, axes: Axes, image: Any, unit: str) -> None:
    box = axes.get_position()
    width = figure.get_size_inches()[0] * 72
    bar = figure.add_axes((box.x1 + 14 / width, box.y0, 12 / width, box.height))
    figure.colorbar(image, cax=bar)
    bar.set_title(short(unit, 10), size=FONT - 1, loc="left", pad=6)
    bar.tick_params(length=3, labelsize=FONT - 1)
