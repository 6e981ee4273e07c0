"""Explains a slower code by the network.

A code spends a fraction of its time in the calls that a pattern of the check `network` stands for,
with messages of a size that its kernel has counted. If that pattern, at that size, now takes r
times as long, the code should take 1 + fraction * (r - 1) times as long. What is missing of the
measured slow-down has other causes: the cores, the library above, another algorithm.

Time inside calls is also time of waiting for slower ranks, which no network shortens: collective
calls count as so many patterns at most.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from bisection.analysis.model import ChangePoint, Row
from bisection.analysis.observations import Key, Observations
from bisection.core.reasons import Code, Reason
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict
from bisection.store.database import Session, Store

NETWORK = ("network", "sweep")  # check and case of the patterns
CODES = ("transpose", "npar", "md")
TIMES, FASTEST = ("time", "atom_steps"), "time_min"
ONE_VECTOR = 1.5  # peers per call; a reduction counts one
SIZE = re.compile(r"time_(\d+)(B|KiB|MiB)")
SCALE = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20}
# Of a metric of the network: (slow-down, its interval), 1 where it is as before; None if not known.
Changed = Callable[[Key], tuple[float, float, float] | None]


@dataclass(frozen=True)
class Pattern:
    """The pattern that stands for a class of calls of a code, and how much of the code it is."""

    method: str  # of the check network
    size: float  # bytes per message
    fraction: float  # of the code's time
    calls: float | None = None  # collective ones, of a work item


def patterns_of(test: Key, side: Observations) -> list[Pattern]:
    """The patterns that stand for a code's communication.

    Args:
        test: the code's identity, seven words.
        side: what it sends, in the metrics `p2p_share`, `collective_size` and so on.
    """
    patterns = []
    for name in ("p2p", "collective"):
        share, size, peers, calls = (
            _median(side, (*test, f"{name}_{part}")) for part in ("share", "size", "peers", "calls")
        )
        if share and size is not None and peers is not None:
            calls = calls if name == "collective" else None
            patterns.append(Pattern(_method(test[3], name, peers), size, share, calls))
    return patterns


def _method(check: str, calls: str, peers: float) -> str:
    """The pattern of a class of calls. All transposes exchange between all pairs; a domain has
    neighbours; a collective call that sends one message per rank is a reduction."""
    if check == "md" and calls == "p2p":
        return "halo"
    pairs = check == "transpose" or calls == "p2p" or peers > ONE_VECTOR
    return "alltoallv" if pairs else "allreduce"


def _median(side: Observations, key: Key) -> float | None:
    return side.side(key)[0].median


def _network(test: Key, method: str) -> Key:
    """A method of the check network, where a test runs: the same layout."""
    return (*test[:3], *NETWORK, test[5], method)


def sizes_of(side: Observations, test: Key) -> dict[float, str]:
    """Bytes -> metric of the times that a side has of a pattern."""
    names = (key[-1] for key in side.values if key[:-1] == test)
    matches = ((name, SIZE.fullmatch(name)) for name in names)
    return {float(m[1]) * SCALE[m[2]]: name for name, m in matches if m}


def explain(test: Key, cost: float, before: Observations, changed: Changed) -> Reason | None:
    """Returns what of the network explains that a code got slower.

    Args:
        test: the code's identity, seven words.
        cost: its slow-down, above 1.
        before: what it sent, and what the network took, before.
        changed: the slow-down of a metric of the network.

    Returns:
        How much is explained by what, or that nothing does; None where the patterns were not
        measured on both sides, or it is not known what the code sends.
    """
    parts = [part for p in patterns_of(test, before) if (part := _part(test, p, before, changed))]
    if not parts:
        return None
    excess = cost - 1
    points = [sum(part["points"][i] for part in parts) for i in range(3)]
    most = max(parts, key=lambda part: part["points"][0])
    if points[0] < LIMITS.explained_least * excess:
        names = [[part["method"], part["size"]] for part in parts]
        return Code.NETWORK_EXPLAINS_NOTHING(
            patterns=names,
            fraction=sum(part["fraction"] for part in parts),
            points=points[0],
            of=excess,
        )
    return Code.NETWORK_EXPLAINS(
        **{name: most[name] for name in ("cause", "change", "method", "size")},
        points=min(points[0], excess),
        low=min(points[1], excess),
        high=min(points[2], excess),
        of=excess,
    )


def _part(
    test: Key, pattern: Pattern, before: Observations, changed: Changed
) -> dict[str, Any] | None:
    """Returns what a pattern adds to a code's time, as a fraction of it, and why the pattern
    changed."""
    key = _network(test, pattern.method)
    sizes = sizes_of(before, key)
    if not sizes:
        return None
    size = min(sizes, key=lambda s: max(s, pattern.size) / max(1.0, min(s, pattern.size)))
    slower = changed((*key, sizes[size]))
    if slower is None:
        return None
    fraction, time = pattern.fraction, _median(before, (*test, "time"))
    alone = _median(before, (*key, sizes[size]))
    if pattern.calls and time and alone:
        fraction = min(fraction, pattern.calls * alone / time)
    cause, change = _cause(test, pattern.method, size, slower[0], before, changed)
    return {
        "method": pattern.method,
        "size": size,
        "fraction": fraction,
        "cause": cause,
        "change": change,
        "points": [fraction * (ratio - 1) for ratio in slower],
    }


def _cause(
    test: Key, method: str, size: float, slower: float, before: Observations, changed: Changed
) -> tuple[str, float]:
    """Returns why a pattern is slower, and by how much that changed: "pattern", unless a single
    message of the size got slower by half as much; "latency" or "bandwidth" where that adds half of
    what such a message takes longer, else "message"."""
    pingpong = _network(test, "pingpong")
    sizes = sizes_of(before, pingpong)
    if not sizes:
        return "pattern", slower - 1
    near = min(sizes, key=lambda s: max(s, size) / min(s, size))
    single = changed((*pingpong, sizes[near]))
    if single is None or single[0] - 1 < (slower - 1) / 2:
        return "pattern", slower - 1
    latency, bandwidth = (changed((*pingpong, f"fit_{part}")) for part in ("latency", "bandwidth"))
    longest = _median(before, (*pingpong, "fit_latency"))
    rate = _median(before, (*pingpong, "fit_bandwidth"))
    alone = _median(before, (*pingpong, sizes[near]))
    if None in (latency, bandwidth, longest, rate, alone):
        return "message", single[0] - 1
    added = longest * (latency[0] - 1), near / rate * (bandwidth[0] - 1)
    if max(added) < alone * (single[0] - 1) / 2:
        return "message", single[0] - 1
    if added[0] >= added[1]:
        return "latency", latency[0] - 1
    return "bandwidth", 1 / bandwidth[0] - 1


# ---- comparisons ----


def explain_rows(rows: Sequence[Row], before: Observations) -> None:
    """Sets `cause` of the rows of codes that got slower.

    Args:
        rows: all rows of a comparison, judged.
        before: its first side.
    """
    by_key = {row.key: row for row in rows}

    def changed(key: Key) -> tuple[float, float, float] | None:
        row = by_key.get(key)
        if row is None or row.ratio is None:
            return None
        if row.outlier and row.excess:
            return row.excess, row.excess, row.excess
        if row.verdict not in (Verdict.REGRESSED, Verdict.IMPROVED):
            return 1.0, 1.0, 1.0
        return row.slowdown, *row.slowdown_interval

    for row in slower_codes(rows):
        worse = row.excess if row.outlier else row.slowdown
        row.cause = explain(row.identity, worse, before, changed)


def slower_codes(rows: Sequence[Row]) -> list[Row]:
    """A row per code that got slower: its time; where neighbours leave that open, its fastest
    sample."""
    closed = {
        row.identity
        for row in rows
        if row.metric in TIMES and row.verdict in (Verdict.UNCHANGED, Verdict.IMPROVED)
    }
    codes = [row for row in rows if row.check in CODES and row.is_worse]
    fastest = [row for row in codes if row.metric == FASTEST and row.identity not in closed]
    shown = {row.identity: row for row in fastest}
    return [*(shown | {row.identity: row for row in codes if row.metric in TIMES}).values()]


# ---- histories ----


def explain_points(
    points: Iterable[ChangePoint], sessions: Sequence[Session], store: Store
) -> None:
    """Sets `cause` of the change points at which codes got slower.

    Args:
        points: all change points.
        sessions: those that were looked at, in order of time.
        store: where they are stored.
    """
    points = list(points)
    order = {session.uuid: index for index, session in enumerate(sessions)}
    for uuid in dict.fromkeys(p.session for p in points):
        here = {p.key: p for p in points if p.session == uuid}
        worse = [
            p
            for p in here.values()
            if p.check in CODES and p.metric in TIMES and p.verdict == Verdict.REGRESSED
        ]
        if not worse:
            continue
        first = order[uuid]
        before = Observations(store, sessions[max(0, first - LIMITS.level) : first])
        after = Observations(store, sessions[first : first + LIMITS.level])

        def changed(
            key: Key, here: dict[Key, ChangePoint] = here, after: Observations = after
        ) -> tuple[float, float, float] | None:
            if key in here:
                return (here[key].cost,) * 3
            return (1.0, 1.0, 1.0) if key in after.values else None

        for point in worse:
            point.cause = explain(point.identity, point.cost, before, changed)
