"""Maps of pairs of nodes: one image, a pixel per pair."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import BoundaryNorm
from matplotlib.figure import Figure

from bisection.core.format import short
from bisection.report.svg.figure import FONT, INK, drawn, plot

STEPS = np.arange(0.4, 1.151, 0.05)  # of the scale: finer ones would show noise, and cost bytes
SIDE = 560  # of a map, in pixels, at most
LABELS = 16  # of a side, at most


@dataclass
class Map:
    """What is drawn."""

    values: np.ndarray  # [rows, columns] speed over what is usual; NaN: not measured
    rows: list[str]
    columns: list[str]
    row_switches: list[str]  # "" where they are not known
    column_switches: list[str]
    named: set[str]  # nodes and switches of bad components
    pooled: int = 1  # nodes per pixel of a side


@drawn
def map_svg(part: Map, width: int) -> Figure:
    """A map in cividis, slow pairs dark."""
    row_ticks = _ticks(part.rows, part.row_switches, part.named)
    column_ticks = _ticks(part.columns, part.column_switches, part.named)
    left = 16 + 6.4 * max((len(label) for label in row_ticks.values()), default=0)
    top = 16 + 6.4 * max((len(label) for label in column_ticks.values()), default=0)
    across = min(width - left - 70, SIDE)
    down = across * len(part.rows) / len(part.columns)
    down = max(down, min(12.0 * len(part.rows), 0.6 * across))
    figure, axes = plot(left + across + 70, down + top + 12, left, 12, 70, top)
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


def _ticks(names: Sequence[str], switches: Sequence[str], named: set[str]) -> dict[float, str]:
    """Place -> label: nodes that are named, else the middle of each switch, else some nodes."""
    ticks = {float(k): f"{short(name, 18)} *" for k, name in enumerate(names) if name in named}
    ticks = dict(list(ticks.items())[:4])
    groups, start = [], 0
    for switch, members in groupby(switches):
        count = len(list(members))
        groups.append((start + count / 2 - 0.5, switch, count))
        start += count
    step = max(1, -(-len(names) // LABELS))
    if 1 < len(groups) <= LABELS and groups[0][1]:
        more = {
            place: short(switch, 18) + (" *" if switch in named else "")
            for place, switch, _ in groups
        }
    else:
        more = {float(k): short(names[k], 18) for k in range(0, len(names), step)}
    room = len(names) / (2 * LABELS)
    return ticks | {
        place: label for place, label in more.items() if all(abs(place - k) > room for k in ticks)
    }


def _borders(axes: Axes, part: Map) -> None:
    """Thin lines between switches."""
    look = {"color": INK, "linewidth": 0.4, "alpha": 0.5}
    for switches, line in ((part.row_switches, axes.axhline), (part.column_switches, axes.axvline)):
        changes = [k for k in range(1, len(switches)) if switches[k] != switches[k - 1]]
        for k in changes if len(changes) <= 4 * LABELS else ():
            line(k, **look)
