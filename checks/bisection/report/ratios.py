"""How a change of a metric is worded."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from bisection.analysis.model import Row


def change(row: Row | Mapping[str, Any]) -> str:
    """A ratio with its confidence interval: 14% [11%, 17%] slower; 3.1 [2.9, 3.3] times as fast.

    Args:
        row: a row, or the `change` of one.
    """
    if not isinstance(row, Row):
        row = _row_of(row)
    if row.ratio is None:
        return ""
    bounds = (row.low, row.high) if row.low is not None and math.isfinite(row.high) else ()
    if not row.absolute and row.unit != "GHz":
        return ratio_words((row.ratio, *bounds), "more", "less", "times as much")
    if row.slowdown < 1:
        values = row.speedup if bounds else row.speedup[:1]
        return ratio_words(values, "faster", "slower", "times as fast")
    values = (row.slowdown, *(row.slowdown_interval if bounds else ()))
    return ratio_words(values, "slower", "faster", "times slower")


def _row_of(values: Mapping[str, Any]) -> Row:
    numbers = {
        n: None if values.get(n) is None else float(values[n]) for n in ("ratio", "low", "high")
    }
    names = (values["metric"], values["unit"], values["better"])
    return Row(*[""] * 7, *names, False, None, None, **numbers)


def ratio_words(values: Sequence[float], more: str, less: str, times: str) -> str:
    """Words a ratio and its bounds.

    Args:
        values: the ratio, which says the word, and the two ends of its interval if they are known.
        more: the word for a ratio above one.
        less: the word for a ratio below one.
        times: the words for a ratio of two and more.

    Returns:
        A percentage or a factor: 14% [11%, 17%] slower.
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
