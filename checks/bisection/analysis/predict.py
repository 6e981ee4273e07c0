"""Predicts times of all-to-all, halo, allreduce and transposes from the network's primitives.

Lower bounds of LogGP's kind (Alexandrov et al. 1995), for P ranks, p per node, blocks of m bytes:

    all-to-all >= latency + max((P-1) gap, p (P-p) m / node, P^2 m / 4 / bisection)
    halo       >= latency + max(k gap, T(m) - latency, p k' m / node)
    allreduce  >= latency log2 P + 2 (N-1)/N m / node
    transpose  =  calls x all-to-all of its block

with k neighbours, k' of them on other nodes; latency, T: one message; gap: between short messages
of a rank; node, bisection: bytes/s each way of a node with all its ranks, of half of the nodes with
the other half. On one node, each rank takes the part of a node.

Random pairs of nodes at once carry the traffic of an all-to-all, without its algorithm. A message
of theirs that takes longer than that of one pair alone, at the same size, has collided. Each
message that a pattern sends to other nodes may collide as much: contention. A pattern that is
slower than that, or than the other form of all-to-all, has another algorithm. Where random pairs
were not measured, or only with shorter messages, neither is named.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bisection.analysis.explain import NETWORK, median_of, sizes_of
from bisection.analysis.observations import Key, Observations
from bisection.core.identity import Geometry, parsed
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Word
from bisection.kernels import fits
from bisection.store.database import Session, Store

SHORT = 8.0  # bytes: what latency and gap are of
ALLTOALL = ("alltoall", "alltoallv")


class Finding(Word):
    """Classes of measured times, relative to the prediction."""

    EXPLAINED = "explained"
    CONTENTION = "contention"  # random pairs of nodes collide as much
    ALGORITHM = "algorithm"  # neither single messages nor random pairs are as slow
    UNEXPLAINED = "unexplained"  # contention or algorithm: random pairs were not measured
    FEWER = "fewer messages, or memory"


@dataclass(frozen=True)
class Prediction:
    """A measured time beside its prediction."""

    test: str
    size: float  # bytes per block
    seconds: float  # the median of the sessions
    predicted: float  # s
    bound: str  # latency, messages, node or bisection: what the prediction turns on
    finding: Finding

    @property
    def ratio(self) -> float:
        return self.seconds / self.predicted


class Bound(NamedTuple):
    """The time that the primitives allow."""

    seconds: float
    name: str  # latency, messages, message, node or bisection: what it turns on
    crowded: float  # s, where messages collide as those of random pairs do; NaN: not measured


@dataclass(frozen=True)
class Primitives:
    """Performance of a network between its nodes, or for ranks where there is one node."""

    ranks: int
    per_unit: int  # ranks
    message: fits.SegmentedFit  # a single message
    gap: float  # s between short messages of a rank
    unit: float  # bytes/s of a unit, each way
    bisection: float  # bytes/s of half of the units, each way
    alone: Mapping[float, float]  # bytes -> s of a message, one pair of units
    random: Mapping[float, float]  # the same, random pairs at once; empty: not measured

    def alltoall(self, size: float) -> Bound:
        """An all-to-all of blocks of `size` bytes."""
        ranks, others = self.ranks, self.ranks - self.per_unit
        node = self.per_unit * others * size / self.unit
        bounds = {"messages": (ranks - 1) * self.gap, "node": node}
        return self._over(bounds, others, size, ranks**2 * size / 4 / self.bisection)

    def halo(self, size: float) -> Bound:
        """An exchange of `size` bytes with each neighbour in a grid of ranks."""
        neighbours, outside = _neighbours(self.ranks, self.per_unit)
        bounds = {
            "messages": neighbours * self.gap,
            "message": self.message.seconds(size) - self.message.latency,
            "node": outside * size / self.unit,
        }
        return self._over(bounds, outside / self.per_unit, size)

    def allreduce(self, size: float) -> Bound:
        """A sum of vectors of `size` bytes, of which each rank exchanges its part."""
        latency = self.message.latency * max(1, math.ceil(math.log2(self.ranks)))
        units = self.ranks // self.per_unit
        vectors = 2 * (units - 1) / units
        node = vectors * size / self.unit
        collisions = vectors * self._collisions(size / self.per_unit)
        name = "node" if node > latency else "latency"
        return Bound(latency + node, name, latency + node + collisions)

    def _over(
        self, bounds: Mapping[str, float], messages: float, size: float, bisection: float = 0.0
    ) -> Bound:
        """The largest bound, over the latency. `bounds`: name -> s; `messages`: those of `size`
        bytes that a rank sends to other units; `bisection`: s, a bound in which messages collide
        already."""
        latency, alone = self.message.latency, max(bounds.values())
        named = {"latency": latency, **bounds, "bisection": bisection}
        name, seconds = max(named, key=named.__getitem__), latency + max(alone, bisection)
        crowded = alone + messages * self._collisions(size)
        return Bound(seconds, name, latency + max(crowded, bisection))  # NaN stays, as the first

    def _collisions(self, size: float) -> float:
        """Returns how much longer (s) a message takes in random pairs at once than in one pair
        alone; NaN beyond the longest that both sent. The same of the shortest message is latency,
        which many messages in flight hide."""
        if size > min(max(times, default=0.0) for times in (self.random, self.alone)):
            return math.nan
        crowded, quiet = (
            np.interp([size, SHORT], [*times], [*times.values()])
            for times in (self.random, self.alone)
        )
        long, short = crowded - quiet
        return max(0.0, float(long - short))


def _neighbours(ranks: int, per_node: int) -> tuple[int, int]:
    """(neighbours of a rank, blocks that a full node sends to others) in the grid of ranks that
    MPI_Dims_create makes: factors, the largest first, each to the shortest side."""
    sides, rest = [1, 1, 1], ranks
    for factor in range(ranks, 1, -1):
        while rest % factor == 0 and all(factor % n for n in range(2, math.isqrt(factor) + 1)):
            sides[sides.index(min(sides))] *= factor
            rest //= factor
    shape = sorted(sides, reverse=True)
    node = np.arange(ranks).reshape(shape) // per_node
    moves = [(step, axis) for axis, side in enumerate(shape) if side > 1 for step in (1, -1)]
    outside = sum((np.roll(node, *move) != node).ravel()[:per_node].sum() for move in moves)
    return len(moves), int(outside)


def primitives(side: Observations, layout: Key, shape: Geometry) -> Primitives | None:
    """The primitives that sessions measured; None where pingpong, message-rate or bisecting were
    not measured. `layout`: system, partition, environment, check, case and layout of the
    patterns."""
    methods = ("pingpong", "message-rate", "bisecting", "node-to-node", "random-matching")
    pingpong, rates, across, alone, random = (_times(side, (*layout, name)) for name in methods)
    single, gap = fits.segmented(pingpong), rates.get(SHORT)
    if single is None or gap is None or not across or shape.ranks < 2:
        return None
    per_unit = shape.ranks_per_node if shape.nodes > 1 else 1
    half = shape.ranks // per_unit // 2

    def rate(times: dict[float, float]) -> float:
        """Bytes/s of a unit, without the latency that many messages in flight hide."""
        fit = fits.segmented(times)
        return per_unit * (fit.bandwidth if fit else max(times) / times[max(times)])

    alone = alone or across
    unit, bisection = rate(alone), half * rate(across)
    return Primitives(shape.ranks, per_unit, single, gap, unit, bisection, alone, random)


def _times(side: Observations, test: Key) -> dict[float, float]:
    """Bytes -> seconds of a pattern, the median of the sessions, in rising order of bytes."""
    times = {size: median_of(side, (*test, name)) for size, name in sizes_of(side, test).items()}
    return {size: seconds for size, seconds in sorted(times.items()) if seconds}


def predictions(store: Store, sessions: Sequence[Session]) -> Iterator[Prediction]:
    """Yields what the primitives say of the collectives, halos and transposes of sessions of one
    state of the machine: a prediction per test and size; none where primitives lack."""
    side = Observations(store, sessions)
    tests = dict.fromkeys(key[:-1] for key in side.values)
    for layout in dict.fromkeys(test[:6] for test in tests if test[3:5] == NETWORK):
        shapes = {k[0] for key, kinds in side.kinds.items() if key[:6] == layout for k in kinds}
        shape = parsed(shapes.pop()) if len(shapes) == 1 else None
        network = primitives(side, layout, shape) if shape else None
        if not network:
            continue
        for test in tests:
            if test[:6] == layout and test[6] in (*ALLTOALL, "halo", "allreduce"):
                yield from _of_pattern(side, test, network)
            elif (*test[:3], test[5]) == (*layout[:3], layout[5]) and test[3] == "transpose":
                yield from _of_transpose(side, test, network)


def _of_pattern(side: Observations, test: Key, network: Primitives) -> Iterator[Prediction]:
    alike = [_times(side, (*test[:6], name)) for name in ALLTOALL if test[6] in ALLTOALL]
    bound = {"halo": network.halo, "allreduce": network.allreduce}.get(test[6], network.alltoall)
    for size, seconds in _times(side, test).items():
        least = min((times[size] for times in alike if size in times), default=math.inf)
        yield _beside(test, size, seconds, bound(size), least)


def _of_transpose(side: Observations, test: Key, network: Primitives) -> Iterator[Prediction]:
    """The time inside collective calls beside that of as many all-to-alls of the mean block."""
    names = ("collective_share", "collective_size", "collective_calls", "time")
    share, size, calls, time = (median_of(side, (*test, name)) for name in names)
    if share and size and calls and time:
        seconds, name, crowded = network.alltoall(size)
        yield _beside(test, size, share * time, Bound(calls * seconds, name, calls * crowded))


def _beside(
    test: Key, size: float, seconds: float, bound: Bound, least: float = math.inf
) -> Prediction:
    """A measured time (s) beside what the primitives allow. `least`: s, of what carries the same
    traffic."""
    ratio, high = seconds / bound.seconds, LIMITS.explained_high
    if ratio < LIMITS.explained_low:
        finding = Finding.FEWER
    elif ratio <= high:
        finding = Finding.EXPLAINED
    elif seconds > high * least or seconds > high * bound.crowded:
        finding = Finding.ALGORITHM
    else:
        finding = Finding.UNEXPLAINED if math.isnan(bound.crowded) else Finding.CONTENTION
    return Prediction(" ".join(test[3:]), size, seconds, bound.seconds, bound.name, finding)
