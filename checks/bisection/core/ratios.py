"""How a change of a metric is worded."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bisection.core.units import is_absolute


def change(row: Mapping[str, Any]) -> str:
    """The `change` of a row, a ratio with its confidence interval: 14% [11%, 17%] slower; 3.1 [2.9,
    3.3] times as fast."""
    values = [None if row.get(n) is None else float(row[n]) for n in ("ratio", "low", "high")]
    if values[0] is None:
        return ""
    values = values[: 3 if values[1] is not None and math.isfinite(values[2]) else 1]
    if not is_absolute(row["unit"]) and row["unit"] != "GHz":
        return ratio_words(values, "more", "less", "times as much")
    inverse = [1 / value if value else math.inf for value in (values[0], *values[:0:-1])]
    cost, speed = (values, inverse) if row["better"] == "lower" else (inverse, values)
    if cost[0] < 1:
        return ratio_words(speed, "faster", "slower", "times as fast")
    return ratio_words(cost, "slower", "faster", "times slower")


def ratio_words(values: Sequence[float], more: str, less: str, times: str) -> str:
    """Words a ratio and, if they are known, the two ends of its interval: 14% [11%, 17%] slower.

    Args:
        values: the ratio, which decides on the word, and the ends.
        more, less, times: the words for a ratio above one, below one, and of two or more.
    """
    if values[0] >= 2:
        texts = [f"{value:.3g}" for value in values]
        word = times
    else:
        word = more if values[0] >= 1 else less
        sign = 1 if values[0] >= 1 else -1
        values = values if sign > 0 else (values[0], *values[:0:-1])
        texts = [_percent(sign * (value - 1)) for value in values]
    return f"{texts[0]} [{', '.join(texts[1:])}] {word}" if texts[1:] else f"{texts[0]} {word}"


def _percent(part: float) -> str:
    return f"{part:.1%}" if abs(part) < 0.0995 else f"{part:.0%}"
