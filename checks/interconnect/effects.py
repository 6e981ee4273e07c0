"""The effects of nodes and hop classes on what was measured between pairs of nodes.

    log value(i to j) = level of the pair's hop class + out_i + in_j + e

Latency and the bandwidth of both ways at once have one effect per node: u_i + u_j. The effects are
medians, taken in turn (Tukey 1977, chapter 11).
"""

from dataclasses import dataclass, replace

import numpy as np

from bisection.analysis.statistics import scale
from bisection.core.thresholds import LIMITS, MAD
from interconnect.pairs import PIECE, RETEST, Kind, Matrix, pieces

MEDIAN = 1.2533  # standard error of a median over that of a mean, of normal values: sqrt(pi / 2)
TURNS = 40  # of the medians, at most
SOME = 64  # pairs of a node, of which the first turns are
GROUP = np.uint64(32)  # where a group begins in a number of 64 bits


@dataclass
class PairValues:
    """Values of one kind: s to r, or between s and r."""

    s: np.ndarray  # [observations] node numbers; where there is no direction, the lower one
    r: np.ndarray
    y: np.ndarray  # logarithm; worse is lower, whatever the kind
    best: np.ndarray  # of repeats the upper quartile: of five the second fastest
    hops: np.ndarray  # hop class, 0 the nearest
    classes: int
    nodes: int
    directed: bool
    repeats: float = 1  # of an observation, which is their median

    @property
    def q(self) -> np.ndarray:
        """The effect of the second end: of `nodes` (one each), or 2 `nodes` (out, then in)."""
        return self.r + self.nodes * self.directed

    @property
    def effects(self) -> int:
        return self.nodes * (1 + self.directed)

    @property
    def key(self) -> np.ndarray:
        """A number per pair, the same for both of its directions where there are none."""
        return self.s * np.int64(self.nodes) + self.r


def observations(matrix: Matrix, kind: Kind, stage: int) -> PairValues:
    """Returns what a stage measured of one kind; of pairs that were measured repeatedly the
    medians."""
    nodes, directed, count = len(matrix.nodes), len(kind.fields) > 1, 0
    both = np.empty(len(matrix.records) * len(kind.fields), np.uint64)
    for piece in pieces(len(matrix.records)):
        records = matrix.records[piece]
        of_stage = records["stage"] == stage
        for name, *ends in zip(kind.fields, "ab", "ba", strict=False):
            known = of_stage & np.isfinite(records[name])
            s, r = (records[end][known].astype(np.uint32) for end in ends)
            if not directed:
                s, r = np.minimum(s, r), np.maximum(s, r)
            both[count : count + len(s)] = pack(s * np.uint32(nodes) + r, records[name][known])
            count += len(s)
    both = both[:count]
    both.sort()
    key = np.empty(count, np.uint32)
    for part in pieces(count):
        key[part] = both[part] >> GROUP
    start = np.flatnonzero(np.concatenate(([len(key) > 0], key[1:] != key[:-1])))
    sizes, key = np.diff(start, append=len(key)), key[start]
    switches = np.zeros((0, nodes)) if matrix.switches is None else matrix.switches
    s, r = np.empty((2, len(start)), np.int32)
    y = best = np.empty(len(start))
    hops = np.zeros(len(start), np.int16)  # switch levels that a pair has to climb
    for part in pieces(len(start)):
        low, high = (np.log(unpack(both[start[part] + rank])) for rank in halves(sizes[part]))
        y[part] = kind.sign * (low + high) / 2
        s[part], r[part] = np.divmod(key[part], nodes)
        for level in switches:
            hops[part] += level[s[part]] != level[r[part]]
    if stage == RETEST:
        rank = (LIMITS.pair_repeats * (sizes - 1)).astype(int)  # of the order from the worst on
        rank = rank if kind.sign > 0 else sizes - 1 - rank
        best = kind.sign * np.log(unpack(both[start + rank]))
    repeats, size = len(both) / max(len(start), 1), (1 + len(switches), nodes)
    return PairValues(s, r, y, best, hops, *size, directed, repeats)


def pack(group: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Numbers of 64 bits in the order of groups (whole numbers below 2^32), and within each of
    values in single precision. They are sorted in a tenth of the time that two keys take.

    The bits of a float have its order if those of a negative one are inverted.
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    bits = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    return group.astype(np.uint64) << GROUP | bits


def unpack(packed: np.ndarray) -> np.ndarray:
    bits = packed.astype(np.uint32)
    bits = np.where(bits >> 31, bits & np.uint32((1 << 31) - 1), ~bits)
    return bits.view(np.float32).astype(float)


def medians(group: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """The median of `values` by `group` (0 to count - 1); NaN where a group is empty."""
    ranked = np.empty(len(group), np.uint64)
    for part in pieces(len(group)):
        ranked[part] = pack(group[part], values[part])
    ranked.sort()
    sizes, middle = np.bincount(group, minlength=count), np.full(count, np.nan)
    start, filled = np.cumsum(sizes) - sizes, sizes > 0
    low, high = (unpack(ranked[(start + rank)[filled]]) for rank in halves(sizes))
    middle[filled] = (low + high) / 2
    return middle


def halves(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two ranks in the middle of so many values."""
    return np.maximum(sizes - 1, 0) // 2, sizes // 2


def _middle(values: np.ndarray, above: int = 0) -> float:
    """The median of values without the `above` lowest; reorders them. np.median partitions them at
    several places, and takes six times as long."""
    low, high = (above + int(rank) for rank in halves(np.array(len(values) - above)))
    values.partition(high)
    return (values[high] + (values[high] if low == high else values[:high].max())) / 2


@dataclass
class Fit:
    """The effects of nodes and hop classes."""

    effects: np.ndarray  # [effects] of the logarithm, below 0 is worse
    rest: np.ndarray  # [observations] what they leave
    levels: np.ndarray  # [hop classes]
    sigma: float  # of an observation
    spread: np.ndarray  # [effects] what a healthy node's effect may be off by

    def short(self, values: PairValues, end: int) -> np.ndarray:
        """Returns what values fall short of, without what the other end explains; `end`: 0 the
        first end's own, 1 the second one's."""
        other = values.q if end == 0 else values.s
        return values.y - self.levels[values.hops] - np.minimum(self.effects, 0)[other]

    def left(self, values: PairValues) -> np.ndarray:
        """Returns what the effects of both ends leave of values."""
        ends = self.effects[values.s] + self.effects[values.q]
        return values.y - self.levels[values.hops] - ends


def fit(values: PairValues) -> Fit:
    """Splits the logarithms into levels, effects and the rest by medians in turn. Of many pairs
    some show nearly all: the turns over all begin from their effects."""
    effects, step = np.zeros(values.effects), np.array(np.inf)
    damped: tuple[float, ...] = (0.5, 0.5, 0.5, 0.8)
    if len(values.y) > 2 * SOME * values.effects:
        share = SOME * values.effects / len(values.y)
        kept = np.random.default_rng(values.nodes).random(len(values.y)) < share
        names = ("s", "r", "y", "best", "hops")
        some = replace(values, **{name: getattr(values, name)[kept] for name in names})
        effects, damped = fit(some).effects, (1.0,)
    narrow = np.min_scalar_type(values.effects)  # few bits, which are sorted by counting
    s, q = values.s, values.q
    ends = np.concatenate((s, q)).astype(narrow)
    sizes = np.bincount(ends, minlength=values.effects)
    rows = np.full((values.effects, max(sizes.max(), 1)), len(values.y), np.int32)
    order = np.argsort(ends, kind="stable")
    np.subtract(order, len(values.y), out=order, where=order >= len(values.y))
    rows[np.arange(rows.shape[1]) < sizes[:, None]] = order
    halfway = [part[:, None] for part in halves(sizes)]
    sides = [slice(values.nodes), slice(values.nodes, None)] if values.directed else [slice(None)]
    classes = [values.hops == number for number in range(values.classes)]
    rest, single = np.empty(len(values.y)), np.full(len(values.y) + 1, np.inf, np.float32)
    for iteration in range(TURNS + 1):
        for part in pieces(len(rest)):
            rest[part] = values.y[part] - effects[s[part]] - effects[q[part]]
        level = np.array([_middle(rest[of]) if of.any() else np.nan for of in classes])
        for part in pieces(len(rest)):
            rest[part] -= level[values.hops[part]]
        if iteration == TURNS or np.abs(step).max() < 1e-4:
            break
        single[:-1], step = rest, np.zeros(values.effects, np.float32)
        for part in pieces(len(rows), max(PIECE // rows.shape[1], 1)):
            ranked = single[rows[part]]
            ranked.sort(axis=1)
            low, high = (np.take_along_axis(ranked, rank[part], 1)[:, 0] for rank in halfway)
            step[part] = np.where(sizes[part] > 0, (low + high) / 2, 0)
        # Both ends take the same step; where each has many partners, these differ.
        effects += step * damped[min(iteration, len(damped) - 1)]
        for side in sides:
            effects[side] -= np.median(effects[side])
    taken = min(values.effects - len(sides) + values.classes, len(rest) - 1)
    away = _middle(np.abs(rest), taken)  # medians leave so many at 0
    sigma = max(float(MAD * away), LIMITS.pair_resolution)
    spread = MEDIAN * sigma / np.sqrt(np.maximum(sizes, 1))
    for side in sides:
        spread[side] = np.maximum(spread[side], scale(effects[side]))
    return Fit(effects, rest, level, sigma, spread)
