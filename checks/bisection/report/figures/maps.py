"""Maps of what was measured between pairs of nodes, ordered by switch: a pixel per pair."""

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
PIXELS = 512  # of a side: of more nodes, each pixel shows the worst of several pairs


def maps(blames: Sequence[Blame]) -> list[Group]:
    """A group of maps per judgement: bandwidth, and latency where a component shows in it."""
    return [group for blame in blames for group in _of(blame)]


def _of(blame: Blame) -> Iterator[Group]:
    kinds = {judged.kind.name: judged.kind for judged in blame.kinds}
    shown = {symptom.kind for part in blame.bad for symptom in part.symptoms}
    shown |= {"bandwidth"} if "bandwidth" in kinds else set(list(kinds)[:1])
    for name in kinds:
        if name in shown and (name != "both ways" or "bandwidth" not in shown):
            yield _group(blame, kinds[name])


def _group(blame: Blame, kind: Kind) -> Group:
    order = _order(blame)
    speeds, levels = _matrix(blame, kind)
    whole = _map(blame, speeds, order, order)
    zooms = [(part, _near(blame, part, order)) for part in _worst_first(blame, kind)[:ZOOMS]]
    title = f"{kind.name}, {plural(len(order), 'node')}"
    rows = "rows send, columns receive" if len(kind.fields) > 1 else "both halves are the same"
    text = "; ".join(worst(part) for part in blame.bad[:6]) or "no bad component"
    panels = [Panel(title, f"{title} by switch: {text}", partial(map_svg, whole))]
    for part, rows_of in zooms:
        near = _map(blame, speeds, rows_of, order)
        panels.append(
            Panel(short(worst(part), 90), f"Enlarged: {worst(part)}", partial(map_svg, near))
        )
    note = f"A pixel per pair, {rows}; nodes in the order of their switches."
    if whole.pooled > 1:
        note = f"A pixel per {whole.pooled} x {whole.pooled} pairs shows the worst; {rows}."
    note += " The scale is speed over the median of pairs as far apart; empty: not measured."
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


def _map(blame: Blame, speeds: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> Map:
    pool = -(-len(columns) // PIXELS) if len(rows) == len(columns) else 1
    part, leaf = speeds[np.ix_(rows, columns)], blame.matrix.switch_names(0)
    named = {name for bad in blame.bad for name in bad.names}
    nodes = blame.matrix.nodes
    return Map(
        _pooled(part, pool),
        *([nodes[k] for k in side] for side in (rows, columns)),
        *([leaf.get(nodes[k], "") for k in side] for side in (rows, columns)),
        named,
        pool,
    )


def _pooled(values: np.ndarray, size: int) -> np.ndarray:
    """The worst of every `size` x `size` values."""
    if size == 1:
        return values
    short_of = [-side % size for side in values.shape]
    padded = np.pad(values, [(0, more) for more in short_of], constant_values=np.nan)
    rows, columns = (side // size for side in padded.shape)
    return np.fmin.reduce(np.fmin.reduce(padded.reshape(rows, size, columns, size), 3), 1)


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
