"""Numbers as people read them."""

import math

import pytest

from bisection.core import format


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.000118, "s", "118 us"),
        (0.0034, "s", "3.4 ms"),
        (125, "s", "2 min 5 s"),
        (900, "s", "15 min"),
        (90001, "s", "1 d 1 h 1 s"),
        (5e-8, "s", "50 ns"),
        (0.0, "s", "0 s"),
        (0.1341, "share", "13.4%"),
        (7311750.0, "atom-steps/s", "7.31 M atom-steps/s"),
        (11.8e9, "B/s", "11.8 GB/s"),
        (296368, "B", "296 kB"),
        (10, "messages", "10 messages"),
        (1.3269, "ratio", "1.33"),
        (None, "s", "\u2013"),
        (math.nan, "s", "\u2013"),
    ],
)
def test_amounts(value, unit, text):
    assert format.amount(value, unit) == text
