"""Types of command-line arguments; argparse prints their errors as usage errors."""

import argparse
import math
import re
from collections.abc import Callable


def ratio(text: str) -> float:
    """A finite number above zero."""
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return value


def regex(text: str) -> re.Pattern[str]:
    """A compiled regular expression."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from None


def at_least(least: int) -> Callable[[str], int]:
    """The type of whole numbers of at least `least`."""

    def whole_number(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number above {least - 1}")
        return int(text)

    return whole_number


positive = at_least(1)


def duration(text: str) -> float:
    """Seconds: 90, 90s, 5m, 1h."""
    match = re.fullmatch(r"(\d{1,6})([smh]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a duration such as 90s, 5m or 1h")
    return float(match[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[match[2]]
