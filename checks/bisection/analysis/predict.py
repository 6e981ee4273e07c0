"""What all-to-all, halo, allreduce and the transposes should take by the network's primitives.

Lower bounds of LogGP's kind (Alexandrov et al. 1995), for P ranks, p per node, blocks of m bytes:

    all-to-all >= latency + max((P-1) gap, p (P-p) m / node, P^2 m / 4 / bisection)
    halo       >= latency + max(k gap, T(m) - latency, p k' m / node)
    allreduce  >= latency log2 P + 2 (N-1)/N m / node
    transpose  =  calls x all-to-all of its block

with k neighbours, k' of them on other nodes; latency, T: one message; gap: between short messages
of a rank; node, bisection: bytes/s each way of a node with all its ranks, of half of the nodes with
the other half. On one node, each rank takes the part of a node.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from bisection.analysis.explain import NETWORK, SCALE, SIZE
from bisection.analysis.observations import Key, Observations
from bisection.core.identity import Geometry, parsed
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Word
from bisection.kernels import fits
from bisection.store.database import Session, Store

SHORT = 8.0  # bytes: what latency and gap are of
ALLTOALL = ("alltoall", "alltoallv")


class Finding(Word):
    """What a measured time is, beside its prediction."""

    EXPLAINED = "explained"
    CONTENTION = "contention"  # random pairs of nodes are as slow
    ALGORITHM = "algorithm"  # neither single messages nor random pairs are
    FEWER = "fewer messages, or memory"


@dataclass(frozen=True)
class Prediction:
    """A measured time beside its prediction."""

    test: str
    size: float  # bytes per block
    measured: float  # s, median of the sessions
    predicted: float  # s
    low: float  # measured over predicted, the least of the sessions
    high: float  # the largest
    bound: str  # latency, messages, node or bisection: what the prediction turns on
    finding: Finding

    @property
    def ratio(self) -> float:
        """Measured over predicted."""
        return self.measured / self.predicted


@dataclass(frozen=True)
class Primitives:
    """What a network does for its nodes, or for ranks where there is one node."""

    ranks: int
    per_unit: int  # ranks
    one: fits.Fit  # a single message
    gap: float  # s between short messages of a rank
    unit: float  # bytes/s of a unit, each way
    bisection: float  # bytes/s of half of the units, each way
    random: float  # the same where pairs are random

    @property
    def units(self) -> int:
        """Nodes, or ranks where there is one node."""
        return self.ranks // self.per_unit

    def alltoall(self, size: float, bisection: float) -> tuple[float, str]:
        """(s, what it turns on) of an all-to-all of blocks of `size` bytes."""
        ranks, unit = self.ranks, self.per_unit
        bounds = {
            "messages": (ranks - 1) * self.gap,
            "node": unit * (ranks - unit) * size / self.unit,
            "bisection": ranks**2 * size / 4 / bisection,
        }
        return self._over(bounds)

    def halo(self, size: float) -> tuple[float, str]:
        """(s, what it turns on) of an exchange with the neighbours in a grid of ranks."""
        neighbours, outside = _neighbours(self.ranks, self.per_unit)
        bounds = {
            "messages": neighbours * self.gap,
            "message": self.one.seconds(size) - self.one.latency,
            "node": outside * size / self.unit,
        }
        return self._over(bounds)

    def allreduce(self, size: float) -> tuple[float, str]:
        """(s, what it turns on) of a sum of vectors of `size` bytes."""
        latency = self.one.latency * max(1, math.ceil(math.log2(self.ranks)))
        node = 2 * (self.units - 1) / self.units * size / self.unit
        return latency + node, "node" if node > latency else "latency"

    def _over(self, bounds: dict[str, float]) -> tuple[float, str]:
        largest = max(bounds, key=lambda name: bounds[name])
        most = bounds[largest]
        return self.one.latency + most, largest if most > self.one.latency else "latency"


def _neighbours(ranks: int, per_node: int) -> tuple[int, int]:
    """(neighbours of a rank, blocks that a full node sends to others) in the grid of ranks that
    MPI_Dims_create makes: factors, the largest first, each to the shortest side."""
    sides, rest, factors = [1, 1, 1], ranks, []
    for factor in range(2, ranks + 1):
        while rest % factor == 0:
            factors.append(factor)
            rest //= factor
    for factor in reversed(factors):
        sides[sides.index(min(sides))] *= factor
    sides.sort(reverse=True)
    strides = (sides[1] * sides[2], sides[2], 1)
    neighbours = 2 * sum(side > 1 for side in sides)
    outside = 0
    for rank in range(min(per_node, ranks)):
        for side, stride in zip(sides, strides, strict=True):
            at = rank // stride % side
            for step in (1, -1) if side > 1 else ():
                other = rank + ((at + step) % side - at) * stride
                outside += other // per_node != rank // per_node
    return neighbours, outside


def primitives(side: Observations, layout: Key, shape: Geometry) -> Primitives | None:
    """The primitives that sessions measured.

    Args:
        side: the sessions.
        layout: system, partition, environment, check, case and layout of the patterns.
        shape: nodes, and ranks per node.

    Returns:
        None where pingpong, message-rate or bisecting were not measured.
    """
    one = fits.segmented(_times(side, (*layout, "pingpong")))
    gap = _times(side, (*layout, "message-rate")).get(SHORT)
    across, alone, random = (
        _times(side, (*layout, name)) for name in ("bisecting", "node-to-node", "random-matching")
    )
    if one is None or gap is None or not across or shape.ranks < 2:
        return None
    per_unit = shape.ranks_per_node if shape.nodes > 1 else 1
    half = shape.ranks // per_unit // 2

    def rate(times: dict[float, float]) -> float:
        """Bytes/s of a unit, without the latency that many messages in flight hide."""
        fit = fits.segmented(times)
        return per_unit * (fit.bandwidth if fit else max(times) / times[max(times)])

    return Primitives(
        *(shape.ranks, per_unit, one, gap),
        unit=rate(alone or across),
        bisection=half * rate(across),
        random=half * rate(random or across),
    )


def _times(side: Observations, test: Key) -> dict[float, float]:
    """Bytes -> seconds of a pattern, the median of the sessions."""
    values = {s: _by_session(side, (*test, name)) for s, name in _names(side, test).items()}
    return {size: median(seconds) for size, seconds in values.items() if seconds}


def _names(side: Observations, test: Key) -> dict[float, str]:
    names = {key[-1]: SIZE.fullmatch(key[-1]) for key in side.values if key[:-1] == test}
    return {float(m[1]) * SCALE[m[2]]: name for name, m in names.items() if m}


def _by_session(side: Observations, key: Key) -> list[float]:
    return [median(values) for values in side.side(key)[1].values()]


def predictions(store: Store, sessions: Sequence[Session]) -> list[Prediction]:
    """What the primitives say of the collectives, halos and transposes of some sessions.

    Args:
        store: where the sessions are stored.
        sessions: those to look at, of one state of the machine.

    Returns:
        A prediction per test and size, in the order of tests; none where primitives lack.

    Raises:
        StoreError: the store cannot be read.
    """
    side = Observations(store, sessions)
    tests = dict.fromkeys(key[:-1] for key in side.values)
    result = []
    for layout in dict.fromkeys(test[:6] for test in tests if test[3:5] == NETWORK):
        shape = _shape(side, layout)
        network = primitives(side, layout, shape) if shape else None
        if not network:
            continue
        for test in tests:
            if test[:6] == layout and test[6] in (*ALLTOALL, "halo", "allreduce"):
                result += _of_pattern(side, test, network)
            elif (*test[:3], test[5]) == (*layout[:3], layout[5]) and test[3] == "transpose":
                result += _of_transpose(side, test, network)
    return result


def _shape(side: Observations, layout: Key) -> Geometry | None:
    shapes = {kind[0] for key, kinds in side.kinds.items() if key[:6] == layout for kind in kinds}
    return parsed(next(iter(shapes))) if len(shapes) == 1 else None


def _of_pattern(side: Observations, test: Key, network: Primitives) -> list[Prediction]:
    result = []
    for size, name in sorted(_names(side, test).items()):
        values = _by_session(side, (*test, name))
        if not values:
            continue
        if test[6] in ALLTOALL:
            made, other = (
                network.alltoall(size, rate) for rate in (network.bisection, network.random)
            )
        else:
            made = other = (network.halo if test[6] == "halo" else network.allreduce)(size)
        result.append(_beside(test, size, values, made, other))
    return result


def _of_transpose(side: Observations, test: Key, network: Primitives) -> list[Prediction]:
    """The time inside collective calls beside that of as many all-to-alls of the mean block."""
    share, size, calls = (
        side.side((*test, f"collective_{name}"))[0].median for name in ("share", "size", "calls")
    )
    times = _by_session(side, (*test, "time"))
    if not (share and size and calls and times):
        return []
    made, other = (network.alltoall(size, rate) for rate in (network.bisection, network.random))
    made, other = ((calls * seconds, bound) for seconds, bound in (made, other))
    return [_beside(test, size, [share * time for time in times], made, other)]


def _beside(
    test: Key, size: float, values: list[float], made: tuple[float, str], other: tuple[float, str]
) -> Prediction:
    predicted, bound = made
    ratio = median(values) / predicted
    if ratio < LIMITS.explained_low:
        finding = Finding.FEWER
    elif ratio <= LIMITS.explained_high:
        finding = Finding.EXPLAINED
    elif median(values) / other[0] <= LIMITS.explained_high:
        finding = Finding.CONTENTION
    else:
        finding = Finding.ALGORITHM
    name = " ".join(test[3:])
    low, high = min(values) / predicted, max(values) / predicted
    return Prediction(name, size, median(values), predicted, low, high, bound, finding)
