"""Every kind of plot: bars, curves, dots, stacks. Each is drawn at a width in pixels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bisection.core.format import interval, short, size_of, times
from bisection.report.svg import style
from bisection.report.svg.style import FONT, INK, Style, drawn, plot

if TYPE_CHECKING:  # takes most of a second, which pages without figures spare
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


INKED = {"color": INK, "markeredgecolor": INK}


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
    """x -> y, and how it looks."""

    style: Style
    points: dict[float, float]
    best: float | None = None  # an x to ring
    hollow: bool = False


def _log_axis(axes: Axes, name: str, low: float, high: float, form: Any = "{x:g}") -> None:
    """Makes an axis logarithmic, from `low` to `high`, with few round numbers; `form` gives a
    tick's text."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    axes.set(**{f"{name}scale": "log", f"{name}lim": (low, high)})
    subs = (1, 2, 5) if high < 300 * low else (1, 3) if high < 1e4 * low else (1,)
    few = MaxNLocator(6, steps=(1, 2, 5, 10))
    locator = few if high < 3 * low else LogLocator(subs=subs, numticks=8)
    ticks = [tick for tick in locator.tick_values(low, high) if low <= tick <= high]
    _ticks(axes, name, ticks, form)


def _ticks(axes: Axes, name: str, ticks: Sequence[float], form: Any) -> None:
    from matplotlib.ticker import NullLocator

    axis = getattr(axes, f"{name}axis")
    axis.set_ticks(ticks)
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(form if isinstance(form, str) else lambda x, _=None: form(x))


@drawn
def bars_svg(bars: Sequence[Bar], expected: float | None, width: int) -> Figure:
    """Bars from 1, which is as before, on a logarithmic axis; `expected` is another level."""
    figure, axes = plot(width, 58 + 38 * len(bars), (330, 34, 170, 24))
    axes.set(ylim=(len(bars) - 0.5, -0.5), yticks=[])
    axes.spines["left"].set_visible(False)
    ratios = [1.0, *(bar.ratio for bar in bars), *([expected] if expected else [])]
    ends = [end for bar in bars for end in (bar.low, bar.high) if end is not None]
    low = max(min(ratios + ends), min(ratios) / 1.6) / 1.04
    high = min(max(ratios + ends), max(ratios) * 1.6) * 1.04
    _log_axis(axes, "x", min(low, 0.92), max(high, 1.09))
    axes.grid(axis="x")
    gap = 12 / axes.bbox.width
    look: dict[str, Any] = {"transform": axes.get_yaxis_transform(), "va": "center"}
    little = look | {"size": FONT - 2, "color": style.MUTED}
    for y, bar in enumerate(bars):
        axes.barh(y, bar.ratio - 1, 0.46, left=1, color=bar.colour, hatch=bar.hatch,
                  edgecolor=style.PAPER, linewidth=0)  # fmt: skip
        if bar.low is not None and bar.high is not None:
            axes.plot([bar.low, bar.high], [y, y], "|-", linewidth=1.2, **INKED)
        axes.text(-gap, y - 0.17, short(bar.label, 44), weight="bold", ha="right", **look)
        axes.text(-gap, y + 0.21, short(bar.place, 60), ha="right", **little)
        axes.text(1 + gap, y - 0.17, f"{times(bar.ratio)}  {bar.words}", weight="bold", **look)
        axes.text(1 + gap, y + 0.21, interval(bar.low, bar.high), **little)
    levels: list[tuple[float, str, str, float, Any]] = [(1.0, "as before", INK, 1.1, "-")]
    if expected:
        named = f"expected {times(expected)}"
        levels.append((expected, named, style.EXPECTED, 1.6, (0, (5, 3))))
    for level, text, colour, wide, dash in levels:
        axes.axvline(level, color=colour, linewidth=wide, linestyle=dash)
        shift, side = (-2, "right") if level < max(levels)[0] else (2, "left")
        axes.annotate(text, (level, 1), (shift, 3), axes.get_xaxis_transform(), "offset points",
                      ha=side, color=colour, size=FONT - 1)  # fmt: skip
    axes.set_xlabel("speed-up: 1 is as before (logarithmic)", fontsize=FONT - 0.5)
    return figure


@drawn
def curves_svg(
    curves: Sequence[Curve],
    across: str,
    up: str,
    width: int,
    log: str = "",
    ideal: int | None = None,
    unit: str = "",
) -> Figure:
    """Lines with markers, `width` pixels wide. `across` and `up`: titles of the axes; bytes are
    sizes of messages. `log`: names of the logarithmic axes: x, xy. `unit` of y: s, B; none of a
    ratio. `ideal` draws y = x / ideal."""
    from matplotlib.ticker import EngFormatter

    figure, axes = plot(width, 280 if width > 400 else 240, (46, 38, 12, 22))
    axes.set_title(up, x=4 / width - 46 / width, pad=8)
    axes.set_xlabel(across)
    axes.grid()
    xs = sorted({x for curve in curves for x in curve.points})
    ys = [y for curve in curves for y in curve.points.values()] + [1.0] * bool(ideal)
    if ideal:
        axes.plot([xs[0], xs[-1]], [xs[0] / ideal, xs[-1] / ideal], **style.IDEAL)
    for curve in curves:
        look = curve.style.marked(curve.hollow) | {"linestyle": curve.style.dash}
        axes.plot(*zip(*curve.points.items(), strict=True), **look)
        if curve.best is not None:
            axes.plot([curve.best], [curve.points[curve.best]], **style.RING)
    form = EngFormatter(unit) if unit else "{x:g}"
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
    sizes = across == "bytes"
    most = (5 if sizes else 7) * width // 330
    _ticks(axes, "x", xs[:: -(-len(xs) // most)], size_of if sizes else "{x:g}")
    return figure


def _named_rows(
    names: Sequence[str], width: int, row: int, across: str, right: int
) -> tuple[Figure, Axes]:
    """A plot with a name at each row, from the top, and a grid of verticals."""
    names = [short(name, 34) for name in names]
    left = 14 + 6.4 * max(map(len, names))
    figure, axes = plot(width, 40 + row * len(names), (left, 34, right, 6))
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), labels=names)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x")
    axes.set_xlabel(across)
    return figure, axes


@drawn
def dots_svg(names: Sequence[str], dots: Sequence[tuple[str, float, Style]], width: int) -> Figure:
    """A row per name, a dot per (name, seconds, style)."""
    from matplotlib.ticker import EngFormatter

    figure, axes = _named_rows(names, width, 21, "time", 16)
    looks = list(dict.fromkeys(look for _, _, look in dots))
    for name, value, look in dots:
        y = names.index(name) + (looks.index(look) - (len(looks) - 1) / 2) * 0.2
        axes.plot([value], [y], **look.marked())
    for row in range(1, len(names)):
        axes.axhline(row - 0.5, color=style.GRID, linewidth=0.8)
    axes.set_xlim(0, max(value for _, value, _ in dots) * 1.08)
    axes.locator_params(axis="x", nbins=max(5, width // 100))
    axes.xaxis.set_major_formatter(EngFormatter("s"))
    return figure


@drawn
def stacks_svg(labels: Sequence[str], values: Sequence[Sequence[float]], width: int) -> Figure:
    """Fractions stacked in a row for each label."""
    figure, axes = _named_rows(labels, width, 20, "share of the time, in percent", 46)
    for row, parts in enumerate(values):
        start = 0.0
        for index, part in enumerate(parts):
            axes.barh(row, 100 * part, 0.66, left=start, linewidth=0.4, **style.filled(index))
            start += 100 * part
        text = f"{start:.2g}%" if start < 10 else f"{start:.0f}%"
        look = {"textcoords": "offset points", "va": "center", "size": FONT - 1}
        axes.annotate(text, (start, row), (4, 0), **look)
    axes.set_xlim(0, max(1.0, min(100.0, 105 * max(map(sum, values)))))
    return figure
