"""Maps of what was measured between pairs of nodes, by switch: a pixel per pair, or, of many nodes,
per pair of switches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from typing import TYPE_CHECKING

import matplotlib
import numpy as np

from bisection.core.format import NONE, amount, plural, short, times
from bisection.report.figures.common import FigureGroup, Panel
from bisection.report.svg.style import FONT, INK, drawn, plot
from bisection.report.text_tables import TextTable
from interconnect.blame import Blame
from interconnect.effects import PairValues, medians, observations
from interconnect.pairs import TOURNAMENT, Kind, Matrix

if TYPE_CHECKING:  # takes most of a second, which pages without figures spare
    from matplotlib.figure import Figure

SPARSE = 0.5  # a map of which less was measured would be empty: several pairs are one pixel
MANY = 256  # nodes: of more, a pixel is a pair of switches, where they are known
LISTED = 24  # pairs or nodes beneath a map
PIXELS = 512  # of a side: of more nodes, each pixel shows the worst of several pairs
STEPS = np.arange(0.35, 1.16, 0.1)  # of the scale: finer ones would show noise, and cost bytes
SIDE = 560  # of a map, in pixels of the page, at most
LABELS, BESIDE = 16, 13  # of a side, at most; pixels between two


def maps(blames: Sequence[Blame]) -> Iterator[FigureGroup]:
    """A group of maps per judgement: bandwidth, and latency where a component shows in it."""
    for blame in blames:
        kinds = {judged.kind.name: judged.kind for judged in blame.kinds}
        shown = {symptom.kind for part in blame.bad for symptom in part.symptoms}
        shown |= {"bandwidth"} if "bandwidth" in kinds else set(list(kinds)[:1])
        shown -= {"both ways"} if "bandwidth" in shown else set()
        names = [name for name in kinds if name in shown]
        names.sort(key=lambda name: name != "bandwidth")
        yield from (_group(blame, kinds[name]) for name in names)


def _group(blame: Blame, kind: Kind) -> FigureGroup:
    matrix, directed = blame.matrix, len(kind.fields) > 1
    values, speed = _speeds(blame, kind)
    rows, side = _rows(blame)
    count, nodes = len(side.names), plural(len(matrix.nodes), "node")
    cells = rows[values.s] * count + rows[values.r]
    if not directed:
        cells = np.concatenate((cells, rows[values.r] * count + rows[values.s]))
    speeds = medians(cells, np.resize(speed, len(cells)), count**2).reshape(count, count)
    title, share = f"{kind.name}, {nodes}", np.isfinite(speeds).mean()
    text = "; ".join(part.brief for part in blame.bad[:6]) or "no bad component"
    seen = "The scale is speed over the median of pairs as far apart; empty: not measured."
    ends = "rows send, columns receive" if directed else "both halves are the same"
    pool, views, table = (1, 1), {"": speeds}, _slowest_pairs(blame, kind, values, speed)
    if count < len(matrix.nodes):
        title = f"{title} on {count} switches"
        note = f"A pixel per pair of switches, the median of their nodes' pairs; {ends}. {seen} "
        note += "The slowest nodes are listed with the numbers."
        table = _slowest_nodes(matrix, values, speed)
    elif share < SPARSE:
        pool = (1, math.ceil(2 / share))
        views = {"sends": speeds, "receives": speeds.T} if directed else views
        note = f"A row per node; a pixel is the slowest of its pairs with {pool[1]} others. {seen}"
    else:
        pool = (-(-count // PIXELS),) * 2
        each = "pair" if pool == (1, 1) else f"{pool[0]} x {pool[1]} pairs, the slowest"
        note = f"A pixel per {each}; {ends}; nodes in the order of their switches. {seen}"
    panels = []
    for way, view in views.items():
        draw = partial(map_svg, _pooled(view, pool), side)
        panels.append(Panel(f"{title} {way}".strip(), f"{title} {way}, by switch: {text}", draw))
    return FigureGroup(short(blame.place, 80), panels, table, note=note)


def _rows(blame: Blame) -> tuple[np.ndarray, MapSide]:
    """The row of each node, [nodes], and the side of the map: a row per node, by switch, the
    uppermost level first, then by name; of many nodes a row per switch."""
    matrix, named = blame.matrix, {name for part in blame.bad for name in part.names}
    switches = [] if matrix.switches is None else [*matrix.switches]
    each, names, above = np.arange(len(matrix.nodes)), matrix.nodes, matrix.switch_names(0)
    for level, numbers in enumerate(switches if len(names) > MANY else ()):
        if 1 < len(np.unique(numbers)) <= MANY:
            leaf, over = matrix.switch_names(level), switches[level + 1 :]
            _, each, row_of = np.unique(numbers, return_index=True, return_inverse=True)
            named |= {leaf[name] for name in named & leaf.keys()}
            above = matrix.switch_names(level + 1) if over else {}
            above = {leaf[node]: above.get(node, "") for node in matrix.nodes}
            names, switches = [leaf[matrix.nodes[first]] for first in each], over
            break
    else:
        row_of = each
    by_name = np.argsort(np.argsort(np.array(names, dtype=str)))
    order = np.lexsort([by_name, *(numbers[each] for numbers in switches)])
    names = [names[k] for k in order]
    side = MapSide(names, [above.get(name, "") for name in names], named)
    return np.argsort(order)[row_of], side


def _speeds(blame: Blame, kind: Kind) -> tuple[PairValues, np.ndarray]:
    """What was measured of a kind; of each pair the speed over the median of its hop class."""
    judged = next(judged for judged in blame.kinds if judged.kind == kind)
    values = judged.values or observations(blame.matrix, kind, TOURNAMENT)
    level = np.zeros(values.classes)
    for part in judged.levels:
        level[part.hops] = kind.sign * np.log(part.value)
    return values, np.exp(values.y - level[values.hops])


def _pooled(values: np.ndarray, pool: tuple[int, int]) -> np.ndarray:
    """The slowest of every pool[0] x pool[1] values."""
    more = [(0, -side % size) for side, size in zip(values.shape, pool, strict=True)]
    padded = np.pad(values, more, constant_values=np.nan)
    rows, columns = (side // size for side, size in zip(padded.shape, pool, strict=True))
    return np.fmin.reduce(padded.reshape(rows, pool[0], columns, pool[1]), (1, 3))


def _slowest_pairs(blame: Blame, kind: Kind, values: PairValues, speed: np.ndarray) -> TextTable:
    nodes, cells = blame.matrix.nodes, []
    for k in _lowest(speed):
        value = float(np.exp(kind.sign * values.y[k]))
        ends = nodes[values.s[k]], nodes[values.r[k]]
        cells.append([*ends, amount(value, kind.unit), times(float(speed[k]))])
    note = f"The slowest {len(cells)} of {plural(len(speed), 'value')}." if cells else NONE
    head = ["from", "to", kind.unit, "speed over the median"]
    return TextTable(head, ["text", "text", "num", "num"], cells, note)


def _slowest_nodes(matrix: Matrix, values: PairValues, speed: np.ndarray) -> TextTable:
    """The slowest nodes, by the medians of their pairs."""
    count, switch = len(matrix.nodes), matrix.switch_names(0)
    ends = [values.s, values.r] if values.directed else [np.concatenate((values.s, values.r))]
    ways = [medians(end, np.resize(speed, len(end)), count) for end in ends]
    names = ["sends", "receives"] if values.directed else ["speed"]
    cells = [
        [node := matrix.nodes[k], switch[node], *(times(float(way[k])) for way in ways)]
        for k in _lowest(np.fmin.reduce(ways))
    ]
    note = f"The slowest {len(cells)} of {plural(count, 'node')}: speed over the median."
    return TextTable(
        ["node", "switch", *names], ["text", "text", *["num"] * len(ways)], cells, note
    )


def _lowest(values: np.ndarray) -> np.ndarray:
    most = min(LISTED, len(values))
    places = np.argpartition(values, most - 1)[:most] if most else np.arange(0)
    return places[np.argsort(values[places], kind="stable")]


@dataclass
class MapSide:
    """The nodes along a side of a map."""

    names: list[str]
    switches: list[str]  # "" where they are not known
    named: set[str]  # nodes and switches of bad components

    def ticks(self, pixels: float) -> dict[float, str]:
        """Place -> label, with room for each: nodes that are named, the middle of each switch, or
        some nodes."""
        wanted = [(k, f"{short(n, 18)} *") for k, n in enumerate(self.names) if n in self.named]
        groups, start = [], 0
        for switch, members in groupby(self.switches):
            count = len(list(members))
            mark = " *" * (switch in self.named)
            groups.append((start + count / 2 - 0.5, short(switch, 18) + mark))
            start += count
        if not (1 < len(groups) <= 2 * LABELS and groups[0][1]):
            step = -(-len(self.names) // LABELS)
            every = enumerate(self.names)
            groups = [(float(k), short(name, 18)) for k, name in every][::step]
        room = BESIDE * len(self.names) / pixels
        ticks: dict[float, str] = {}
        for place, label in wanted + groups:
            if all(abs(place + 0.5 - other) >= room for other in ticks):
                ticks[place + 0.5] = label
        return ticks


@drawn
def map_svg(values: np.ndarray, side: MapSide, width: int) -> Figure:
    """A map in cividis of speeds over what is usual, a pixel each, slow pairs dark; NaN: not
    measured. `side` is that of rows and of columns."""
    from matplotlib.colors import BoundaryNorm

    edge = 16 + 6.4 * (2 + max(len(short(name, 18)) for name in side.names))
    size, count = min(width - edge - 70, SIDE), len(side.names)
    figure, axes = plot(edge + size + 70, size + edge + 12, (edge, 12, 70, edge))
    colours = matplotlib.colormaps["cividis"]
    image = axes.imshow(
        np.ma.masked_invalid(values),
        cmap=colours,
        norm=BoundaryNorm(STEPS, colours.N, extend="both"),
        extent=(0, count, count, 0),
        aspect="auto",
        interpolation="none",
    )
    axes.xaxis.tick_top()
    axes.tick_params(length=2)
    ticks = side.ticks(size)
    axes.set_xticks(list(ticks), labels=[*ticks.values()], rotation=90)
    axes.set_yticks(list(ticks), labels=[*ticks.values()])
    axes.spines[:].set_visible(False)
    pairs = enumerate(pairwise(side.switches), 1)
    borders = [place for place, (last, switch) in pairs if last != switch]
    for place in borders if len(borders) <= 4 * LABELS else ():
        axes.axhline(place, color=INK, linewidth=0.4, alpha=0.5)
        axes.axvline(place, color=INK, linewidth=0.4, alpha=0.5)
    bar = axes.inset_axes((1 + 14 / size, 0, 12 / size, 1))
    figure.colorbar(image, cax=bar, ticks=[0.4, 0.6, 0.8, 1.0])
    bar.set_title("speed", size=FONT - 1, pad=8)
    bar.tick_params(labelsize=FONT - 1)
    return figure
