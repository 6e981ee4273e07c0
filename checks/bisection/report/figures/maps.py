"""Maps of what was measured between pairs of nodes, ordered by switch: a pixel per pair."""

import math
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from bisection.analysis.blame import BadComponent, Blame
from bisection.analysis.effects import observations
from bisection.analysis.pairs import TOURNAMENT, Kind
from bisection.analysis.suspicions import Part
from bisection.core.format import NONE, amount, plural, short, times
from bisection.report.figures.common import Group, Panel
from bisection.report.pairs import worst
from bisection.report.svg.maps import Map, map_svg
from bisection.report.tables import Table

ZOOMS = 3  # components of which a part of the map is shown enlarged
AROUND = 8  # nodes beside one where the switches are not known
SPARSE = 0.5  # a map of which less was measured would be empty: several pairs are one pixel
PIXELS = 512  # of a side: of more nodes, each pixel shows the worst of several pairs


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
    order = _order(blame)
    speeds, levels = _matrix(blame, kind)
    title, filled = f"{kind.name}, {plural(len(order), 'node')}", np.isfinite(speeds).mean()
    text = "; ".join(worst(part) for part in blame.bad[:6]) or "no bad component"
    seen = "The scale is speed over the median of pairs as far apart; empty: not measured."
    directed = len(kind.fields) > 1
    if filled < SPARSE:
        pool = whole = (1, math.ceil(2 / filled))
        views = {"sends": speeds, "receives": speeds.T} if directed else {"": speeds}
        note = f"A row per node; a pixel is the slowest of its pairs with {pool[1]} others. {seen}"
    else:
        pool, whole, views = (1, 1), (-(-len(order) // PIXELS),) * 2, {"": speeds}
        each = "pair" if whole == pool else f"{whole[0]} x {whole[1]} pairs, the slowest"
        ends = "rows send, columns receive" if directed else "both halves are the same"
        note = f"A pixel per {each}; {ends}; nodes in the order of their switches. {seen}"
    drawn = {
        f"{title} {way}".strip(): _map(blame, view, order, order, whole)
        for way, view in views.items()
    }
    for part in _worst_first(blame, kind)[:ZOOMS]:
        receives = {symptom.way for symptom in part.symptoms} - {""} == {"receives"}
        view = speeds.T if directed and receives else speeds
        name = f"{worst(part)}{', rows receive' * (view is not speeds)}"
        rows = _near(blame, part, order)
        if 2 * len(rows) <= len(order):  # of a few nodes the whole map is large enough
            drawn[name] = _map(blame, view, rows, order, pool)
    panels = [
        Panel(short(name, 90), f"{name}, by switch: {text}", partial(map_svg, part))
        for name, part in drawn.items()
    ]
    return Group(short(blame.place, 80), panels, _table(blame, kind, speeds, levels), note=note)


def _order(blame: Blame) -> np.ndarray:
    """Node numbers by switch, the uppermost level first, then by name."""
    matrix = blame.matrix
    keys = [np.argsort(np.argsort(np.array(matrix.nodes, dtype=str)))]
    return np.lexsort([*keys, *(matrix.switches if matrix.switches is not None else [])])


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


def _map(
    blame: Blame, speeds: np.ndarray, rows: np.ndarray, columns: np.ndarray, pool: tuple[int, int]
) -> Map:
    leaf, nodes = blame.matrix.switch_names(0), blame.matrix.nodes
    return Map(
        _pooled(speeds[np.ix_(rows, columns)], pool),
        *([nodes[k] for k in side] for side in (rows, columns)),
        *([leaf.get(nodes[k], "") for k in side] for side in (rows, columns)),
        {name for bad in blame.bad for name in bad.names},
    )


def _pooled(values: np.ndarray, pool: tuple[int, int]) -> np.ndarray:
    """The slowest of every pool[0] x pool[1] values."""
    more = [(0, -side % size) for side, size in zip(values.shape, pool, strict=True)]
    padded = np.pad(values, more, constant_values=np.nan)
    rows, columns = (side // size for side, size in zip(padded.shape, pool, strict=True))
    blocks = padded.reshape(rows, pool[0], columns, pool[1])
    return np.fmin.reduce(np.fmin.reduce(blocks, 3), 1)


def _worst_first(blame: Blame, kind: Kind) -> list[BadComponent]:
    mine = [part for part in blame.bad if any(s.kind == kind.name for s in part.symptoms)]
    return sorted(mine, key=lambda part: list(Part).index(part.part))


def _near(blame: Blame, part: BadComponent, order: np.ndarray) -> np.ndarray:
    """The rows to enlarge: nodes of the switches that the component is on, or beside its nodes."""
    nodes, leaf = blame.matrix.nodes, blame.matrix.switch_names(0)
    ends = [name for name in part.names if name in leaf]
    switches = {leaf[name] for name in ends} or set(part.names)
    inside = [k for k in order if leaf.get(nodes[k]) in switches]
    if inside:
        return np.array(inside)
    at = [i for i, k in enumerate(order) if nodes[k] in part.names]
    beside = {i for middle in at for i in range(middle - AROUND, middle + AROUND + 1)}
    return order[sorted(beside & set(range(len(order))))]


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
