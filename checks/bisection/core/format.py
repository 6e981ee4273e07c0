"""Numbers, units and times as people read them, and as they type them."""

import argparse
import contextlib
import math
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from typing import Any, TypeGuard

from bisection.core.units import is_absolute

NONE = "\N{EN DASH}"  # where there is no number
WIDEST = 80  # columns of a mail, and of what a terminal shows


def finite(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def plain(text: Any) -> str:
    """Text without what XML and terminals take amiss: control characters, lone surrogates."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", str(text))
    return re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", " ", text)


def printable(lines: Iterable[str]) -> str:
    """Lines as one text for a terminal, whatever names they have from files of others."""
    return "\n".join(map(plain, lines))


def short(text: Any, limit: int = 300) -> str:
    text = plain(text)
    return text if len(text) <= limit else text[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"


def amount(value: Any, unit: str) -> str:
    """A value with its unit: 118 us, 13%, 7.31 M atom-steps/s."""
    if not finite(value):
        return NONE
    if unit == "s":
        return duration(value) if value > 0 else f"{value:.3g} s"
    if unit == "share":
        return f"{100 * value:.3g}%"
    if unit in ("", "ratio"):
        return number(value)
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= max(factor, 1e4):
            # It goes before B/s, and stands alone before words.
            gap = "" if re.match(r"(B|flops?|it|Hz)(/s)?$", unit) else " "
            return f"{value / factor:.3g} {prefix}{gap}{unit}"
    return f"{value:.4g} {unit}"


def times(ratio: Any) -> str:
    return number(ratio) if finite(ratio) else NONE


def interval(low: Any, high: Any) -> str:
    """An interval as text, "" if neither end is known."""
    if not finite(low) and not finite(high):
        return ""
    return f"[{times(low)}, {times(high)}]"


def utc(seconds: Any, seconds_too: bool = False) -> str:
    """Unix time as a date and time in UTC."""
    if not finite(seconds):
        return NONE
    form = "%Y-%m-%d %H:%M:%S UTC" if seconds_too else "%Y-%m-%d %H:%M UTC"
    with contextlib.suppress(OverflowError, OSError, ValueError):
        return datetime.fromtimestamp(seconds, timezone.utc).strftime(form)
    return NONE


def plural(count: int, word: str, several: str = "") -> str:
    """1 rank, 2 ranks; `several` is the plural of a word that takes no s."""
    return f"{count} {word}" if count == 1 else f"{count:,} {several or word + 's'}"


def before_after(before: str, after: str) -> str:
    """Both, or one if they are the same, or nothing."""
    if before == after:
        return after
    return f"{before or NONE} \N{RIGHTWARDS ARROW} {after or NONE}"


BYTES = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def size_of(size: float) -> str:
    """A number of bytes: 8 B, 64 KiB."""
    for unit in ("GiB", "MiB", "KiB"):
        if size >= BYTES[unit]:
            return f"{size / BYTES[unit]:.4g} {unit}"
    return f"{size:g} B"


def number(value: float) -> str:
    """Two decimals where they are significant, else two digits."""
    return f"{value:.2f}" if 0.095 <= abs(value) < 1000 else f"{value:.2g}"


def duration(seconds: float) -> str:
    """Seconds with fitting units: 118 us, 3.4 s, 2 min 5 s, 1 d."""
    if seconds >= 60:
        left, parts = int(seconds), []
        for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
            count, left = divmod(left, size)
            parts += [f"{count} {unit}"] if count else []
        return " ".join(parts)
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def one_line(text: Any, most: int = 300) -> str:
    """Text on one line of at most `most` characters."""
    return short(" ".join(str(text).split()), most)


def some(names: Iterable[Any], most: int = 12) -> str:
    """Names in a sentence, the first of many."""
    names = [str(name) for name in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more if names else "none"


# ---- the change of a metric ----


def change(
    unit: str, better: str, ratio: float | None, low: float | None, high: float | None
) -> str:
    """A ratio of values with its confidence interval: 14% [11%, 17%] slower; 3.1 [2.9, 3.3] times
    as fast."""
    if ratio is None:
        return ""
    values = [ratio]
    if low is not None and high is not None and math.isfinite(high):
        values += [low, high]
    if not is_absolute(unit) and unit != "GHz":
        return ratio_words(values, "more", "less", "times as much")
    inverse = [1 / value if value else math.inf for value in (values[0], *values[:0:-1])]
    cost, speed = (values, inverse) if better == "lower" else (inverse, values)
    if cost[0] < 1:
        return ratio_words(speed, "faster", "slower", "times as fast")
    return ratio_words(cost, "slower", "faster", "times slower")


def ratio_words(values: Sequence[float], more: str, less: str, times: str) -> str:
    """Words a ratio and, if they are known, the two ends of its interval: 14% [11%, 17%] slower.
    `more`, `less`, `times`: the words for a ratio above one, below one, and of two or more."""
    if values[0] >= 2:
        word, texts = times, [f"{value:.3g}" for value in values]
    elif values[0] >= 1:
        word, texts = more, [_percent(value - 1) for value in values]
    else:
        word, texts = less, [_percent(1 - value) for value in (values[0], *values[:0:-1])]
    return f"{texts[0]} [{', '.join(texts[1:])}] {word}" if texts[1:] else f"{texts[0]} {word}"


def _percent(part: float) -> str:
    return f"{part:.1%}" if abs(part) < 0.0995 else f"{part:.0%}"


# ---- types of command-line arguments: argparse prints their errors as usage errors ----


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def number_from(least: float, most: float) -> Callable[[str], float]:
    """The type of numbers from `least` to `most`."""

    def value(text: str) -> float:
        if not least <= _float(text) <= most:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least:g} to {most:g}")
        return float(text)

    return value


def part(text: str) -> float:
    """A part of a value, above 0 and at most 1: 5% or 0.05."""
    digits = text.strip().removesuffix("%")
    value = _float(digits) / (100 if digits != text.strip() else 1)
    if not 0 < value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a part such as 5%, at most 100%")
    return value


def regex(text: str) -> re.Pattern[str]:
    """A compiled regular expression."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def at_least(least: int, most: int = 1_000_000) -> Callable[[str], int]:
    """The type of whole numbers from `least` to `most`."""

    def whole_number(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", text) or not least <= int(text) <= most:
            words = f"{short(repr(text), 40)} is not a whole number above {least - 1}"
            raise argparse.ArgumentTypeError(f"{words}, at most {most}")
        return int(text)

    return whole_number


def node_hours(text: str) -> float:
    """Hours of a node: 20 or 0.5; as a duration, 90s, 8m or 20h."""
    hours = _float(text)
    if math.isnan(hours):
        try:
            hours = seconds_of(text) / 3600
        except argparse.ArgumentTypeError:
            message = f"{text!r} is not node-hours such as 20, 0.5 or 8m"
            raise argparse.ArgumentTypeError(message) from None
    if not 0 < hours < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not above 0")
    return hours


def seconds_of(text: str) -> float:
    """The seconds of a duration: 90, 90s, 5m, 1h."""
    match = re.fullmatch(r"(\d{1,6})([smh]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 90s, 5m or 1h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
