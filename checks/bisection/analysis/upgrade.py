"""An upgrade against what was expected of it, the clock's ratio say (HPCx report, section 8)."""

import itertools
import math
from collections import defaultdict

from bisection.analysis.statistics import MARGIN, NOISE_MARGIN
from bisection.core.identity import parsed
from bisection.core.verdicts import ABOVE, AT, BELOW, UNCLEAR


def set_against(rows, expected):
    """Where each speed-up stands beside the expected ratio, and whether a network explains it."""
    for row in rows:
        if row.low is None or row.control or not row.absolute:
            continue
        speed, low, high = row.speedup
        margin = 1 + max(MARGIN, NOISE_MARGIN * max(row.before.spread or 0, row.after.spread or 0))
        row.against = UNCLEAR
        if low > expected and speed >= expected * margin:
            row.against = ABOVE
        elif high < expected and speed <= expected / margin:
            row.against = BELOW
        elif low > expected / margin and high < expected * margin:
            row.against = AT
        row.explained = explain(row, speed, expected)
    for found in _by_ranks(rows).values():
        _tell_growth(found)


def explain(row, speed, expected):
    """Whether communication alone fits: 1 / speed = (1 - f) / expected + f / network, with the
    communication fraction f before the upgrade."""
    f = row.communication
    if row.against not in (ABOVE, BELOW):
        return ""
    if f is None:
        return "no communication fraction is known"
    left = 1 / speed - (1 - f) / expected
    if f < 0.005:
        return f"not by the network: only {f:.1%} of the time was communication"
    if left <= 0:
        most = expected / (1 - f) if f < 1 else math.inf
        return (
            f"not by the network alone: with {f:.0%} communication no network gives more than "
            f"{most:.2f}"
        )
    network = f / left
    if row.against == ABOVE or network >= 1:
        return f"fits a network {network:.3g} times as fast, with {f:.0%} communication"
    return f"fits a network {1 / network:.3g} times slower, with {f:.0%} communication"


def _by_ranks(rows):
    """Rows that differ in their layout and number of ranks alone, with their ranks."""
    found = defaultdict(list)
    for row in rows:
        if row.against and (shape := parsed(row.after.geometry)):
            key = (*row.identity[:5], row.method, row.metric, shape.threads)
            found[key].append((shape.ranks, row))
    return found


def _tell_growth(found):
    found.sort(key=lambda pair: pair[0])
    speeds = [row.speedup[0] for _, row in found]
    if len({ranks for ranks, _ in found}) < 2:
        return
    rises = speeds[-1] > speeds[0] * (1 + MARGIN) and all(
        later >= sooner / (1 + MARGIN) for sooner, later in itertools.pairwise(speeds)
    )
    for _, row in found:
        if row.against == ABOVE:
            row.explained += "; it rises with the ranks" if rises else "; it does not with ranks"
