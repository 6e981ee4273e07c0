"""Explains a slower code by the network.

A code spends a fraction of its time in the calls that a pattern of the check `network` stands for,
with messages of a size that its kernel has counted. If that pattern, at that size, now takes r
times as long, the code should take 1 + fraction * (r - 1) times as long. What is missing of the
measured slow-down has other causes: the cores, the library above, another algorithm.

Time inside calls is also time of waiting for slower ranks, which no network shortens: collective
calls count as so many patterns at most.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from bisection.analysis.model import ChangePoint, Row
from bisection.analysis.observations import Key, Observations
from bisection.core.format import size_of, some
from bisection.core.identity import swept_size
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.performance import NetworkExplains
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict
from bisection.store.database import Session, Store

NETWORK = ("network", "sweep")  # check and case of the patterns
CODES = ("transpose", "npar", "md")
TIMES, FASTEST = ("time", "atom_steps"), "time_min"
# Of a metric of the network: (slow-down, its interval), 1 where it is as before; None if not known.
Changed = Callable[[Key], tuple[float, float, float] | None]


def median_of(side: Observations, key: Key) -> float | None:
    return side.side(key)[0].median


def sizes_of(side: Observations, test: Key) -> dict[float, str]:
    """Bytes -> metric of the times that a side has of a pattern."""
    names = (key[-1] for key in side.values if key[:-1] == test)
    return {float(size): name for name in names if (size := swept_size(name))}


def _nearest(side: Observations, test: Key, size: float) -> tuple[float, Key] | None:
    """The size nearest to `size` (bytes) that a side has of a pattern, and its metric."""
    sizes = sizes_of(side, test)
    if not sizes:
        return None
    near = min(sizes, key=lambda s: max(s, size) / max(1.0, min(s, size)))
    return near, (*test, sizes[near])


def explain(test: Key, cost: float, before: Observations, changed: Changed) -> Reason | None:
    """What of the network explains that a code got slower, or that nothing does; None where the
    patterns were not measured on both sides, or it is not known what the code sends.

    Args:
        test: the code's identity, seven words.
        cost: its slow-down, above 1.
        before: what it sent, and what the network took, before.
        changed: the slow-down of a metric of the network.
    """
    parts = list(_parts(test, before, changed))
    if not parts:
        return None
    excess = cost - 1
    points = [sum(values) for values in zip(*(part.points for part in parts), strict=True)]
    if points[0] < LIMITS.explained_least * excess:
        names = some([f"{part.method} at {size_of(part.size)}" for part in parts], 4)
        time = f"{sum(part.fraction for part in parts):.0%} of the time"
        gives = f"{100 * max(0.0, points[0]):.0f} of {100 * excess:.0f} points"
        return Text(f"the network does not explain it: {names}, {time}, gives {gives}")
    most = max(parts, key=lambda part: part.points[0])
    middle, low, high = (min(value, excess) for value in points)
    return NetworkExplains(
        cause=most.cause,
        change=most.change,
        method=most.method,
        size=most.size,
        points=middle,
        within=(low, high),
        of=excess,
    )


class _Part(NamedTuple):
    method: str  # the pattern that stands for it
    size: float
    fraction: float  # of the code's time
    points: tuple[float, ...]  # of its time, that are added, with the ends of their interval
    cause: str  # why the pattern changed
    change: float


def _parts(test: Key, before: Observations, changed: Changed) -> Iterator[_Part]:
    """Yields what each class of calls adds to a code's time, as a fraction of it, by the pattern
    that stands for it; and why the pattern changed."""
    for calls in ("p2p", "collective"):
        names = [f"{calls}_{part}" for part in ("share", "size", "peers", "calls")]
        share, size, peers, count, time = (
            median_of(before, (*test, name)) for name in (*names, "time")
        )
        if not share or size is None or peers is None:
            continue
        method = _method(test[3], calls, peers)
        nearest = _nearest(before, _network(test, method), size)
        slower = changed(nearest[1]) if nearest else None
        if nearest is None or slower is None:
            continue
        alone = median_of(before, nearest[1])
        if calls == "collective" and count and time and alone:
            share = min(share, count * alone / time)
        cause, change = _cause(test, nearest[0], slower[0], before, changed)
        points = tuple(share * (ratio - 1) for ratio in slower)
        yield _Part(method, nearest[0], share, points, cause, change)


def _method(check: str, calls: str, peers: float) -> str:
    """The pattern of a class of calls. All transposes exchange between all pairs; a domain has
    neighbours; a collective call that sends one message per rank is a reduction."""
    if check == "md" and calls == "p2p":
        return "halo"
    pairs = check == "transpose" or calls == "p2p" or peers > LIMITS.reduction_peers
    return "alltoallv" if pairs else "allreduce"


def _network(test: Key, method: str) -> Key:
    return (*test[:3], *NETWORK, test[5], method)


def _cause(
    test: Key, size: float, slower: float, before: Observations, changed: Changed
) -> tuple[str, float]:
    """Why a pattern is slower, and by how much that changed: "pattern", unless a single
    message of the size got slower by half as much; "latency" or "bandwidth" where that adds half of
    what such a message takes longer, else "message"."""
    pingpong = _network(test, "pingpong")
    nearest = _nearest(before, pingpong, size)
    single = changed(nearest[1]) if nearest else None
    if nearest is None or single is None or single[0] - 1 < (slower - 1) / 2:
        return "pattern", slower - 1
    fitted = [(*pingpong, f"fit_{part}") for part in ("latency", "bandwidth")]
    latency, bandwidth = map(changed, fitted)
    longest, rate, alone = (median_of(before, key) for key in (*fitted, nearest[1]))
    if latency is None or bandwidth is None or longest is None or rate is None or alone is None:
        return "message", single[0] - 1
    added = longest * (latency[0] - 1), nearest[0] / rate * (bandwidth[0] - 1)
    if max(added) < alone * (single[0] - 1) / 2:
        return "message", single[0] - 1
    if added[0] >= added[1]:
        return "latency", latency[0] - 1
    return "bandwidth", 1 / bandwidth[0] - 1


# ---- comparisons ----


def explain_rows(rows: Sequence[Row], before: Observations) -> None:
    """Sets `cause` of the rows of codes that got slower, of all judged rows of a comparison;
    `before`: its first side."""
    costs: dict[Key, tuple[float, float, float]] = {}
    for row in rows:
        if row.slowdown is not None:
            changed = row.verdict in (Verdict.REGRESSED, Verdict.IMPROVED)
            interval = row.slowdown_interval or (row.slowdown, row.slowdown)
            costs[row.key] = (row.slowdown, *interval) if changed else (1.0, 1.0, 1.0)
            if row.outlier and row.excess:
                costs[row.key] = (row.excess, row.excess, row.excess)
    for row in slower_codes(rows):
        worse = (row.excess if row.outlier else row.slowdown) or 1.0
        row.cause = explain(row.identity, worse, before, costs.get)


def slower_codes(rows: Sequence[Row]) -> list[Row]:
    """A row per code that got slower: its time; where neighbours leave that open, its fastest
    sample."""
    closed = {
        row.identity
        for row in rows
        if row.metric in TIMES and row.verdict in (Verdict.UNCHANGED, Verdict.IMPROVED)
    }
    codes = [row for row in rows if row.check in CODES and row.is_worse]
    shown = {r.identity: r for r in codes if r.metric == FASTEST and r.identity not in closed}
    return [*(shown | {row.identity: row for row in codes if row.metric in TIMES}).values()]


# ---- histories ----


def explain_points(
    points: Iterable[ChangePoint], sessions: Sequence[Session], store: Store
) -> None:
    """Sets `cause` of the change points at which codes got slower, in a history of sessions in
    order of time."""
    points, uuids = list(points), [session.uuid for session in sessions]
    for uuid in dict.fromkeys(p.session for p in points):
        here = {p.key: p for p in points if p.session == uuid}
        slower = [p for p in here.values() if p.check in CODES and p.metric in TIMES]
        slower = [p for p in slower if p.verdict == Verdict.REGRESSED]
        if not slower:
            continue
        first = uuids.index(uuid)
        before = Observations(store, sessions[max(0, first - LIMITS.level) : first])
        after = Observations(store, sessions[first : first + LIMITS.level])
        costs = dict.fromkeys(after.values, (1.0, 1.0, 1.0))
        costs |= {key: (point.cost,) * 3 for key, point in here.items()}
        for point in slower:
            point.cause = explain(point.identity, point.cost, before, costs.get)
