"""The effects of nodes and hop classes on what was measured between pairs of nodes.

    log value(i to j) = level of the pair's hop class + out_i + in_j + e

Latency and the bandwidth of both ways at once have one effect per node: u_i + u_j. The effects are
medians, taken in turn (Tukey 1977, chapter 11).
"""

from dataclasses import dataclass, replace

import numpy as np

from bisection.analysis.pairs import Kind, Matrix
from bisection.analysis.statistics import scale
from bisection.core.thresholds import LIMITS

MEDIAN = 1.2533  # standard error of a median over that of a mean, of normal values: sqrt(pi / 2)
TURNS = 40  # of the medians, at most
GOOD = 0.75  # of five repeats, all but one are as slow or slower


@dataclass
class Observations:
    """Values of one kind: s to r, or between s and r."""

    s: np.ndarray  # [observations] node numbers
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
        if self.directed:
            return self.s * self.nodes + self.r
        return np.minimum(self.s, self.r) * self.nodes + np.maximum(self.s, self.r)


def observations(matrix: Matrix, kind: Kind, stage: int) -> Observations:
    """Returns what a stage measured of one kind; of pairs that were measured repeatedly the
    medians."""
    records = matrix.stage(stage)
    ends = [(records["a"], records["b"]), (records["b"], records["a"])]
    parts = [(*end, records[name]) for end, name in zip(ends, kind.fields, strict=False)]
    s, r, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    known = np.isfinite(y)
    s, r, y = s[known].astype(np.int64), r[known].astype(np.int64), y[known].astype(float)
    y = kind.sign * np.log(y)
    nodes = len(matrix.nodes)
    switches = np.zeros((0, nodes)) if matrix.switches is None else matrix.switches
    values = Observations(s, r, y, y, s * 0, 1 + len(switches), nodes, len(kind.fields) > 1)
    keys, first, group = np.unique(values.key, return_index=True, return_inverse=True)
    best, y = quantiles(group, y, len(keys), GOOD), medians(group, y, len(keys))
    repeats, s, r = len(group) / max(len(keys), 1), s[first], r[first]
    hops = (switches[:, s] != switches[:, r]).sum(axis=0)  # switch levels that a pair has to climb
    return replace(values, s=s, r=r, y=y, best=best, hops=hops, repeats=repeats)


def quantiles(group: np.ndarray, values: np.ndarray, count: int, part: float) -> np.ndarray:
    """The value at `part` (0 to 1) of the order of `values` in each group (0 to count - 1, none
    empty)."""
    ranked = values[np.lexsort((values, group))]
    sizes = np.bincount(group, minlength=count)
    return ranked[np.cumsum(sizes) - sizes + (part * (sizes - 1)).astype(int)]


def medians(group: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """The median of `values` by `group` (0 to count - 1); NaN where a group is empty."""
    ranked, sizes = values[np.lexsort((values, group))], np.bincount(group, minlength=count)
    start, filled, middle = np.cumsum(sizes) - sizes, sizes > 0, np.full(count, np.nan)
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
    """Splits the logarithms into levels, effects and the rest by medians in turn."""
    ends = np.concatenate((values.s, values.q))
    sizes = np.bincount(ends, minlength=values.effects)
    rows = np.full((values.effects, max(sizes.max(), 1)), len(values.y))
    order, start = np.argsort(ends, kind="stable"), np.cumsum(sizes) - sizes
    rows[ends[order], np.arange(len(ends)) - start[ends[order]]] = order % len(values.y)
    halfway = [part[:, None] for part in halves(sizes)]
    sides = [slice(values.nodes), slice(values.nodes, None)] if values.directed else [slice(None)]
    effects, step = np.zeros(values.effects), np.array(np.inf)
    for iteration in range(TURNS + 1):
        both = values.y - effects[values.s] - effects[values.q]
        level = medians(values.hops, both, values.classes)
        rest = both - level[values.hops]
        if iteration == TURNS or np.abs(step).max() < 1e-4:
            break
        ranked = np.sort(np.append(rest, np.inf)[rows], axis=1)
        low, high = (np.take_along_axis(ranked, part, 1)[:, 0] for part in halfway)
        step = np.where(sizes > 0, (low + high) / 2, 0)
        effects += step * (0.5 if iteration < 3 else 0.8)  # both ends take the same step
        for side in sides:
            effects[side] -= np.median(effects[side])
    taken = min(values.effects - len(sides) + values.classes, len(rest) - 1)
    away = np.sort(np.abs(rest))[taken:]  # medians leave so many at 0
    sigma = max(float(scale(away)), LIMITS.pair_resolution)
    spread = MEDIAN * sigma / np.sqrt(np.maximum(sizes, 1))
    for side in sides:
        spread[side] = np.maximum(spread[side], scale(effects[side]))
    return Fit(effects, rest, level, sigma, spread)
