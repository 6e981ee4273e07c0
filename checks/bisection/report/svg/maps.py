"""Maps of pairs of nodes: one image, a pixel per pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import matplotlib
import numpy as np

from bisection.core.format import short
from bisection.report.svg.figure import FONT, INK, drawn, plot

if TYPE_CHECKING:  # takes most of a second, which pages without figures spare
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STEPS = np.arange(0.35, 1.16, 0.1)  # of the scale: finer ones would show noise, and cost bytes
SIDE = 560  # of a map, in pixels, at most
LABELS, BESIDE = 16, 13  # of a side, at most; pixels between two


@dataclass
class Map:
    """The content of a map."""

    values: np.ndarray  # speed over what is usual, a pixel each; NaN: not measured
    rows: list[str]
    columns: list[str]
    row_switches: list[str]  # "" where they are not known
    column_switches: list[str]
    named: set[str]  # nodes and switches of bad components


@drawn
def map_svg(part: Map, width: int) -> Figure:
    """A map in cividis, slow pairs dark."""
    letters = [
        max(len(short(name, 18)) for name in [*side, ""]) for side in (part.rows, part.columns)
    ]
    left, top = (16 + 6.4 * (count + 2) for count in letters)
    across = min(width - left - 70, SIDE)
    down = across * len(part.rows) / len(part.columns)
    down = min(max(down, min(12.0 * len(part.rows), 0.6 * across)), SIDE)
    row_ticks = _ticks(part.rows, part.row_switches, part.named, down)
    column_ticks = _ticks(part.columns, part.column_switches, part.named, across)
    figure, axes = plot(left + across + 70, down + top + 12, left, 12, 70, top)
    from matplotlib.colors import BoundaryNorm

    colours = matplotlib.colormaps["cividis"].copy()
    edges = (0, len(part.columns), len(part.rows), 0)
    image = axes.imshow(
        np.ma.masked_invalid(part.values),
        cmap=colours,
        norm=BoundaryNorm(STEPS, colours.N, extend="both"),
        extent=edges,
        aspect="auto",
        interpolation="none",
    )
    axes.xaxis.tick_top()
    axes.tick_params(length=2)
    axes.set_xticks([k + 0.5 for k in column_ticks], labels=[*column_ticks.values()], rotation=90)
    axes.set_yticks([k + 0.5 for k in row_ticks], labels=[*row_ticks.values()])
    axes.spines[:].set_visible(False)
    _borders(axes, part)
    box = axes.get_position()
    size = figure.get_size_inches() * figure.dpi
    bar = figure.add_axes((box.x1 + 14 / size[0], box.y0, 12 / size[0], box.height))
    figure.colorbar(image, cax=bar, ticks=[0.4, 0.6, 0.8, 1.0])
    bar.set_title("speed", size=FONT - 1, pad=8)
    bar.tick_params(labelsize=FONT - 1)
    return figure


def _ticks(
    names: Sequence[str], switches: Sequence[str], named: set[str], pixels: float
) -> dict[float, str]:
    """Place -> label, with room for each: nodes that are named, the middle of each switch, or some
    nodes."""
    wanted = [(k, f"{short(name, 18)} *") for k, name in enumerate(names) if name in named]
    groups, start = [], 0
    for switch, members in groupby(switches):
        count = len(list(members))
        mark = " *" if switch in named else ""
        groups.append((start + count / 2 - 0.5, short(switch, 18) + mark))
        start += count
    step = max(1, -(-len(names) // LABELS))
    by_switch = 1 < len(groups) <= 2 * LABELS and groups[0][1]
    wanted += (
        groups if by_switch else [(k, short(names[k], 18)) for k in range(0, len(names), step)]
    )
    room, ticks = BESIDE * len(names) / pixels, {}
    for place, label in wanted:
        if all(abs(place - other) >= room for other in ticks):
            ticks[place] = label
    return ticks


def _borders(axes: Axes, part: Map) -> None:
    """Thin lines between switches."""
    look = {"color": INK, "linewidth": 0.4, "alpha": 0.5}
    for switches, line in ((part.row_switches, axes.axhline), (part.column_switches, axes.axvline)):
        changes = [k for k in range(1, len(switches)) if switches[k] != switches[k - 1]]
        for k in changes if len(changes) <= 4 * LABELS else ():
            line(k, **look)
