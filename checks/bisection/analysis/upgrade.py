"""An upgrade against what was expected of it, for example the ratio of clocks (HPCx report, 2004,
section 8)."""

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence

from bisection.analysis.model import Row
from bisection.core.identity import parsed
from bisection.core.reasons import Code, Reason
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Against


def set_against(rows: Sequence[Row], expected: float) -> None:
    """Says of each speed-up where it is beside the expected ratio, and whether a network explains
    it."""
    for row in rows:
        if row.low is None or row.control or not row.absolute:
            continue
        speed, low, high = row.speedup
        noise = max(row.before.spread or 0, row.after.spread or 0)
        margin = 1 + max(LIMITS.margin, LIMITS.noise_margin * noise)
        row.against = Against.UNCLEAR
        if low > expected and speed >= expected * margin:
            row.against = Against.ABOVE
        elif high < expected and speed <= expected / margin:
            row.against = Against.BELOW
        elif low > expected / margin and high < expected * margin:
            row.against = Against.AT
        row.explained = explain(row, speed, expected)
    for group in _by_ranks(rows).values():
        _note_growth(group)


def explain(row: Row, speed: float, expected: float) -> Reason | None:
    """Whether communication alone fits a speed-up: 1 / speed = (1 - f) / expected + f / network,
    with the fraction f of communication before the upgrade.

    Args:
        row: the row, with `against` and `communication`.
        speed: its speed-up.
        expected: the speed-up of everything but communication.
    """
    f = row.communication
    if row.against not in (Against.ABOVE, Against.BELOW):
        return None
    if f is None:
        return Reason.of(Code.FRACTION_UNKNOWN)
    left = 1 / speed - (1 - f) / expected
    if f < LIMITS.no_network:
        return Reason.of(Code.NOT_THE_NETWORK, fraction=f)
    if left <= 0:
        most = expected / (1 - f) if f < 1 else math.inf
        return Reason.of(Code.NOT_THE_NETWORK_ALONE, fraction=f, most=most)
    network = f / left
    if row.against == Against.ABOVE or network >= 1:
        return Reason.of(Code.NETWORK_FASTER, fraction=f, factor=network)
    return Reason.of(Code.NETWORK_SLOWER, fraction=f, factor=1 / network)


def _by_ranks(rows: Sequence[Row]) -> dict[tuple[object, ...], list[tuple[int, Row]]]:
    """Rows that differ in their layout and number of ranks alone, with their ranks."""
    groups = defaultdict(list)
    for row in rows:
        if row.against and (shape := parsed(row.after.geometry)):
            key = (*row.identity[:5], row.method, row.metric, shape.threads)
            groups[key].append((shape.ranks, row))
    return groups


def _note_growth(group: list[tuple[int, Row]]) -> None:
    """Notes whether a speed-up above the expected one rises with the ranks."""
    group.sort(key=lambda pair: pair[0])
    speeds = [row.speedup[0] for _, row in group]
    if len({ranks for ranks, _ in group}) < 2:
        return
    rises = speeds[-1] > speeds[0] * (1 + LIMITS.margin) and all(
        later >= sooner / (1 + LIMITS.margin) for sooner, later in itertools.pairwise(speeds)
    )
    for _, row in group:
        if row.against == Against.ABOVE:
            row.rises = rises
