"""An upgrade against what was expected of it (HPCx report, 2004, section 8)."""

from collections.abc import Sequence

from bisection.analysis.model import Row
from bisection.core.reasons.base import Text
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Against


def set_against(rows: Sequence[Row], expected: float) -> None:
    """Sets `against` and `explained` of each speed-up: where it is beside the expected ratio, and
    whether a network explains it."""
    for row in rows:
        if row.low is None or row.control or not row.absolute:
            continue
        speed, low, high = row.speedup
        if speed is None or low is None or high is None:
            continue
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


def explain(row: Row, speed: float, expected: float) -> Text | None:
    """Returns the reason for a speed-up, by a fit of communication alone: 1 / speed = (1 - f) /
    expected + f / network, with the fraction f of communication before the upgrade."""
    f = row.communication
    if row.against not in (Against.ABOVE, Against.BELOW):
        return None
    if f is None:
        return Text("no communication fraction is known")
    left = 1 / speed - (1 - f) / expected
    if f < LIMITS.no_network:
        return Text(f"not by the network: only {f:.1%} of the time was communication")
    if left <= 0:
        most = f"no network gives more than {expected / (1 - f):.2f}"
        return Text(f"not by the network alone: with {f:.0%} communication {most}")
    network = f / left
    if row.against == Against.ABOVE or network >= 1:
        return Text(f"fits a network {network:.3g} times as fast, with {f:.0%} communication")
    return Text(f"fits a network {1 / network:.3g} times slower, with {f:.0%} communication")
