"""The effects of nodes and hop classes on what was measured between pairs of nodes.

    log value(i to j) = level of the pair's hop class + out_i + in_j + e

Latency and the bandwidth of both ways at once have one effect per node: u_i + u_j. The effects are
medians, taken in turn (Tukey 1977, chapter 11).
"""

from dataclasses import dataclass, replace

import numpy as np

from bisection.analysis.pairs import PIECE, RETEST, Kind, Matrix
from bisection.analysis.statistics import scale
from bisection.core.thresholds import LIMITS

MEDIAN = 1.2533  # standard error of a median over that of a mean, of normal values: sqrt(pi / 2)
TURNS = 40  # of the medians, at most
SOME = 64  # pairs of a node, of which the first turns are
GROUP = np.uint64(32)  # where a group begins in a number of 64 bits
GOOD = 0.75  # of five repeats, all but one are as slow or slower


@dataclass
class Observations:
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
        """Returns how many effects there are."""
        return self.nodes * (1 + self.directed)

    @property
    def key(self) -> np.ndarray:
        """A number per pair, the same for both of its directions where there are none."""
        return self.s * np.int64(self.nodes) + self.r


def observations(matrix: Matrix, kind: Kind, stage: int) -> Observations:
    """Returns what a stage measured of one kind; of pairs that were measured repeatedly the
    medians."""
    nodes, directed, packed = len(matrix.nodes), len(kind.fields) > 1, []
    for begin in range(0, len(matrix.records), PIECE):
        records = matrix.records[begin : begin + PIECE]
        of_stage = records["stage"] == stage
        for name, *ends in zip(kind.fields, "ab", "ba", strict=False):
            known = of_stage & np.isfinite(records[name])
            s, r = (records[end][known].astype(np.uint32) for end in ends)
            if not directed:
                s, r = np.minimum(s, r), np.maximum(s, r)
            packed.append(pack(s * np.uint32(nodes) + r, records[name][known]))
    both = np.concatenate(packed or [np.zeros(0, np.uint64)])
    both.sort()
    key = (both >> GROUP).astype(np.uint32)
    start = np.flatnonzero(np.concatenate(([len(key) > 0], key[1:] != key[:-1])))
    sizes, key = np.diff(start, append=len(key)), key[start]
    low, high = (np.log(unpack(both[start + rank])) for rank in halves(sizes))
    y = best = kind.sign * (low + high) / 2
    if stage == RETEST:
        rank = (GOOD * (sizes - 1)).astype(int)  # of the order from the worst on
        rank = rank if kind.sign > 0 else sizes - 1 - rank
        best = kind.sign * np.log(unpack(both[start + rank]))
    s, r = (ends.astype(np.int32) for ends in np.divmod(key, nodes))
    switches = np.zeros((0, nodes)) if matrix.switches is None else matrix.switches
    hops = np.zeros(len(s), np.int16)  # switch levels that a pair has to climb
    for level in switches:
        hops += level[s] != level[r]
    repeats, size = len(both) / max(len(start), 1), (1 + len(switches), nodes)
    return Observations(s, r, y, best, hops, *size, directed, repeats)


def pack(group: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Numbers of 64 bits in the order of groups (whole numbers below 2^32), and within each of
    values in single precision. They are sorted in a tenth of the time that two keys take.

    The bits of a float have its order if those of a negative one are inverted.
    """
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    bits = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
    return group.astype(np.uint64) << GROUP | bits


def unpack(packed: np.ndarray) -> np.ndarray:
    """The values that were packed."""
    bits = packed.astype(np.uint32)
    bits = np.where(bits >> 31, bits & np.uint32((1 << 31) - 1), ~bits)
    return bits.view(np.float32).astype(float)


def medians(group: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """The median of `values` by `group` (0 to count - 1); NaN where a group is empty."""
    ranked = unpack(np.sort(pack(group, values)))
    sizes, middle = np.bincount(group, minlength=count), np.full(count, np.nan)
    start, filled = np.cumsum(sizes) - sizes, sizes > 0
    low, high = (ranked[(start + rank)[filled]] for rank in halves(sizes))
    middle[filled] = (low + high) / 2
    return middle


def halves(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two ranks in the middle of so many values."""
    return np.maximum(sizes - 1, 0) // 2, sizes // 2


@dataclass
class Fit:
    """The effects of nodes and hop classes."""

    effects: np.ndarray  # [effects] of the logarithm, below 0 is worse
    rest: np.ndarray  # [observations] what they leave
    levels: np.ndarray  # [hop classes]
    sigma: float  # of an observation
    spread: np.ndarray  # [effects] what a healthy node's effect may be off by

    def short(self, values: Observations, end: int) -> np.ndarray:
        """Returns what values fall short of, without what the other end explains; `end`: 0 the
        first end's own, 1 the second one's."""
        other = values.q if end == 0 else values.s
        return values.y - self.levels[values.hops] - np.minimum(self.effects[other], 0)

    def left(self, values: Observations) -> np.ndarray:
        """Returns what the effects of both ends leave of values."""
        ends = self.effects[values.s] + self.effects[values.q]
        return values.y - self.levels[values.hops] - ends


def fit(values: Observations) -> Fit:
    """Splits the logarithms into levels, effects and the rest by medians in turn. Of many pairs
    some show nearly all: the turns over all begin from their effects."""
    effects, step, damped = np.zeros(values.effects), np.array(np.inf), (0.5, 0.5, 0.5, 0.8)
    if len(values.y) > 2 * SOME * values.effects:
        share = SOME * values.effects / len(values.y)
        kept = np.random.default_rng(values.nodes).random(len(values.y)) < share
        names = ("s", "r", "y", "best", "hops")
        some = replace(values, **{name: getattr(values, name)[kept] for name in names})
        effects, damped = fit(some).effects, (1.0,)
    narrow = np.min_scalar_type(values.effects)  # few bits, which are sorted by counting
    s, q = values.s, values.q
    ends = np.concatenate((s, q)).astype(narrow)
    sizes = np.diff(np.searchsorted(np.sort(ends), np.arange(values.effects + 1)))
    rows = np.full((values.effects, max(sizes.max(), 1)), len(values.y), np.int32)
    order = np.argsort(ends, kind="stable")
    order[order >= len(values.y)] -= len(values.y)
    rows[np.arange(rows.shape[1]) < sizes[:, None]] = order
    halfway = [part[:, None] for part in halves(sizes)]
    sides = [slice(values.nodes), slice(values.nodes, None)] if values.directed else [slice(None)]
    classes = [values.hops == number for number in range(values.classes)]
    for iteration in range(TURNS + 1):
        both = values.y - effects[s] - effects[q]
        level = np.array([np.median(both[of]) if of.any() else np.nan for of in classes])
        rest = both - level[values.hops]
        if iteration == TURNS or np.abs(step).max() < 1e-4:
            break
        ranked = np.append(rest, np.inf).astype(np.float32)[rows]
        ranked.sort(axis=1)
        low, high = (np.take_along_axis(ranked, part, 1)[:, 0] for part in halfway)
        step = np.where(sizes > 0, (low + high) / 2, 0)
        # Both ends take the same step; where each has many partners, these differ.
        effects += step * damped[min(iteration, len(damped) - 1)]
        for side in sides:
            effects[side] -= np.median(effects[side])
    taken = min(values.effects - len(sides) + values.classes, len(rest) - 1)
    away = np.sort(np.abs(rest))[taken:]  # medians leave so many at 0
    sigma = max(float(scale(away)), LIMITS.pair_resolution)
    spread = MEDIAN * sigma / np.sqrt(np.maximum(sizes, 1))
    for side in sides:
        spread[side] = np.maximum(spread[side], scale(effects[side]))
    return Fit(effects, rest, level, sigma, spread)
