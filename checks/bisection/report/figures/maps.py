"""Maps of what was measured between pairs of nodes, ordered by switch: a pixel per pair."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

import matplotlib
import numpy as np

from bisection.analysis.blame import BadComponent, Blame
from bisection.analysis.effects import observations
from bisection.analysis.pairs import TOURNAMENT, Kind
from bisection.analysis.suspicions import Part
from bisection.core.format import NONE, amount, plural, short, times
from bisection.report.figures.common import Group, Panel
from bisection.report.pairs import worst
from bisection.report.svg.style import FONT, INK, drawn, plot
from bisection.report.tables import Table

if TYPE_CHECKING:  # takes most of a second, which pages without figures spare
    from matplotlib.figure import Figure

ZOOMS = 3  # components of which a part of the map is shown enlarged
AROUND = 8  # nodes beside one where the switches are not known
SPARSE = 0.5  # a map of which less was measured would be empty: several pairs are one pixel
PIXELS = 512  # of a side: of more nodes, each pixel shows the worst of several pairs
STEPS = np.arange(0.35, 1.16, 0.1)  # of the scale: finer ones would show noise, and cost bytes
SIDE = 560  # of a map, in pixels of the page, at most
LABELS, BESIDE = 16, 13  # of a side, at most; pixels between two


def maps(blames: Sequence[Blame]) -> list[Group]:
    """A group of maps per judgement: bandwidth, and latency where a component shows in it."""
    return [group for blame in blames for group in _of(blame)]


def _of(blame: Blame) -> Iterator[Group]:
    kinds = {judged.kind.name: judged.kind for judged in blame.kinds}
    shown = {symptom.kind for part in blame.bad for symptom in part.symptoms}
    shown |= {"bandwidth"} if "bandwidth" in kinds else set(list(kinds)[:1])
    for name in sorted(kinds, key=lambda name: name != "bandwidth"):
        if name in shown and (name != "both ways" or "bandwidth" not in shown):
            yield _group(blame, kinds[name])


def _group(blame: Blame, kind: Kind) -> Group:
    # Node numbers by switch, the uppermost level first, then by name.
    by_name = np.argsort(np.argsort(np.array(blame.matrix.nodes, dtype=str)))
    switches = blame.matrix.switches
    order = np.lexsort([by_name, *(switches if switches is not None else [])])
    speeds, levels = _matrix(blame, kind)
    title, share = f"{kind.name}, {plural(len(order), 'node')}", np.isfinite(speeds).mean()
    text = "; ".join(worst(part) for part in blame.bad[:6]) or "no bad component"
    seen = "The scale is speed over the median of pairs as far apart; empty: not measured."
    directed = len(kind.fields) > 1
    if share < SPARSE:
        pool = whole = (1, math.ceil(2 / share))
        views = {"sends": speeds, "receives": speeds.T} if directed else {"": speeds}
        note = f"A row per node; a pixel is the slowest of its pairs with {pool[1]} others. {seen}"
    else:
        pool, whole, views = (1, 1), (-(-len(order) // PIXELS),) * 2, {"": speeds}
        each = "pair" if whole == pool else f"{whole[0]} x {whole[1]} pairs, the slowest"
        ends = "rows send, columns receive" if directed else "both halves are the same"
        note = f"A pixel per {each}; {ends}; nodes in the order of their switches. {seen}"
    drawings = {f"{title} {way}".strip(): (view, order, whole) for way, view in views.items()}
    bad = [part for part in blame.bad if any(s.kind == kind.name for s in part.symptoms)]
    for part in sorted(bad, key=lambda part: list(Part).index(part.part))[:ZOOMS]:
        receives = {symptom.way for symptom in part.symptoms} - {""} == {"receives"}
        view = speeds.T if directed and receives else speeds
        rows = _near(blame, part, order)
        if 2 * len(rows) <= len(order):  # of a few nodes the whole map is large enough
            drawings[f"{worst(part)}{', rows receive' * (view is not speeds)}"] = view, rows, pool
    named = {name for part in blame.bad for name in part.names}
    panels = []
    for name, (view, rows, size) in drawings.items():
        values = _pooled(view[np.ix_(rows, order)], size)
        sides = _side(blame, rows), _side(blame, order)
        draw = partial(map_svg, values, *sides, named)
        panels.append(Panel(short(name, 90), f"{name}, by switch: {text}", draw))
    return Group(short(blame.place, 80), panels, _table(blame, kind, speeds, levels), note=note)


def _matrix(blame: Blame, kind: Kind) -> tuple[np.ndarray, np.ndarray]:
    """Speed over the median of the pair's hop class, and that median: [nodes, nodes]."""
    values = observations(blame.matrix, kind, TOURNAMENT)
    judged = next(judged for judged in blame.kinds if judged.kind == kind)
    level = np.zeros(values.classes)
    sign = 1 if kind.better == "higher" else -1
    for part in judged.levels:
        level[part.hops] = sign * np.log(part.value)
    speeds, levels = np.full((2, values.nodes, values.nodes), np.nan)
    ends = [(values.s, values.r)] + ([] if values.directed else [(values.r, values.s)])
    for s, r in ends:
        speeds[s, r] = np.exp(values.y - level[values.hops])
        levels[s, r] = np.exp(sign * level[values.hops])
    return speeds, levels


def _pooled(values: np.ndarray, pool: tuple[int, int]) -> np.ndarray:
    """The slowest of every pool[0] x pool[1] values."""
    more = [(0, -side % size) for side, size in zip(values.shape, pool, strict=True)]
    padded = np.pad(values, more, constant_values=np.nan)
    rows, columns = (side // size for side, size in zip(padded.shape, pool, strict=True))
    return np.fmin.reduce(padded.reshape(rows, pool[0], columns, pool[1]), (1, 3))


def _near(blame: Blame, part: BadComponent, order: np.ndarray) -> np.ndarray:
    """The rows to enlarge: nodes of the switches that the component is on, or beside its nodes."""
    nodes, leaf = blame.matrix.nodes, blame.matrix.switch_names(0)
    switches = {leaf[name] for name in part.names if name in leaf} or set(part.names)
    inside = [k for k in order if leaf.get(nodes[k]) in switches]
    if inside:
        return np.array(inside)
    places = np.flatnonzero(np.isin(np.array(nodes, dtype=str)[order], part.names))
    distance = np.abs(np.arange(len(order)) - places[:, None])
    return order[(distance <= AROUND).any(axis=0)]


def _table(blame: Blame, kind: Kind, speeds: np.ndarray, levels: np.ndarray) -> Table:
    """The slowest pairs."""
    s, r = np.nonzero(np.isfinite(speeds))
    kept = s < r if len(kind.fields) == 1 else s != r
    s, r = s[kept], r[kept]
    slowest = np.argsort(speeds[s, r], kind="stable")[:24]
    nodes, cells = blame.matrix.nodes, []
    for k in slowest:
        speed, level = speeds[s[k], r[k]], levels[s[k], r[k]]
        value = level * speed if kind.better == "higher" else level / speed
        cells.append(
            [nodes[s[k]], nodes[r[k]], amount(float(value), kind.unit), times(float(speed))]
        )
    note = f"The slowest {len(cells)} of {plural(len(s), 'value')}." if cells else NONE
    head = ["from", "to", kind.unit, "speed over the median"]
    return Table(head, ["text", "text", "num", "num"], cells, note)


@dataclass
class Side:
    """The nodes along a side of a map."""

    names: list[str]
    switches: list[str]  # "" where they are not known

    def ticks(self, named: set[str], pixels: float) -> dict[float, str]:
        """Place -> label, with room for each: nodes that are named, the middle of each switch, or
        some nodes."""
        wanted = [(k, f"{short(n, 18)} *") for k, n in enumerate(self.names) if n in named]
        groups, start = [], 0
        for switch, members in groupby(self.switches):
            count = len(list(members))
            groups.append((start + count / 2 - 0.5, short(switch, 18) + " *" * (switch in named)))
            start += count
        if not (1 < len(groups) <= 2 * LABELS and groups[0][1]):
            step = -(-len(self.names) // LABELS)
            groups = [(k, short(name, 18)) for k, name in enumerate(self.names)][::step]
        room, ticks = BESIDE * len(self.names) / pixels, {}
        for place, label in wanted + groups:
            if all(abs(place - other) >= room for other in ticks):
                ticks[place] = label
        return ticks

    def borders(self) -> list[int]:
        """The places between two switches; none if they are many."""
        pairs = enumerate(zip(self.switches, self.switches[1:], strict=False), 1)
        changes = [k for k, (last, switch) in pairs if last != switch]
        return changes if len(changes) <= 4 * LABELS else []


def _side(blame: Blame, numbers: np.ndarray) -> Side:
    names = [blame.matrix.nodes[k] for k in numbers]
    leaf = blame.matrix.switch_names(0)
    return Side(names, [leaf.get(name, "") for name in names])


@drawn
def map_svg(values: np.ndarray, rows: Side, columns: Side, named: set[str], width: int) -> Figure:
    """A map in cividis, slow pairs dark.

    Args:
        values: speed over what is usual, a pixel each; NaN: not measured.
        rows: the nodes of the rows.
        columns: the nodes of the columns.
        named: nodes and switches of bad components.
        width: of the figure, in pixels.
    """
    from matplotlib.colors import BoundaryNorm

    letters = (max(len(short(name, 18)) for name in side.names) for side in (rows, columns))
    left, top = (16 + 6.4 * (count + 2) for count in letters)
    across = min(width - left - 70, SIDE)
    down = across * len(rows.names) / len(columns.names)
    down = min(max(down, min(12.0 * len(rows.names), 0.6 * across)), SIDE)
    figure, axes = plot(left + across + 70, down + top + 12, left, 12, 70, top)
    colours = matplotlib.colormaps["cividis"]
    image = axes.imshow(
        np.ma.masked_invalid(values),
        cmap=colours,
        norm=BoundaryNorm(STEPS, colours.N, extend="both"),
        extent=(0, len(columns.names), len(rows.names), 0),
        aspect="auto",
        interpolation="none",
    )
    axes.xaxis.tick_top()
    axes.tick_params(length=2)
    ticks = columns.ticks(named, across)
    axes.set_xticks([k + 0.5 for k in ticks], labels=[*ticks.values()], rotation=90)
    ticks = rows.ticks(named, down)
    axes.set_yticks([k + 0.5 for k in ticks], labels=[*ticks.values()])
    axes.spines[:].set_visible(False)
    for side, line in ((rows, axes.axhline), (columns, axes.axvline)):
        for place in side.borders():
            line(place, color=INK, linewidth=0.4, alpha=0.5)
    bar = axes.inset_axes((1 + 14 / across, 0, 12 / across, 1))
    figure.colorbar(image, cax=bar, ticks=[0.4, 0.6, 0.8, 1.0])
    bar.set_title("speed", size=FONT - 1, pad=8)
    bar.tick_params(labelsize=FONT - 1)
    return figure
