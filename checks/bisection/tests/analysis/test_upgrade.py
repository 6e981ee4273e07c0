"""An upgrade against what was expected of it."""

import numpy as np
import pytest
from made_up import nights, row
from reports import CLOCK, HPCX
from scipy.stats import norm

from bisection.analysis import model
from bisection.analysis.upgrade import explain
from bisection.core.reasons.base import clause
from bisection.core.verdicts import Against
from bisection.report.comparison_text import comparison_text


def test_published_upgrade(compared):
    """The report gives ratios alone: here each is of ten nights a side with 3% noise, as normal
    scores in a random order, so that the estimate is the published one."""
    order = np.random.default_rng(0).permutation(10)
    scores = np.exp(0.03 * norm.ppf((order + 0.5) / 10))
    ratios = {f"{code}-{data}-{ranks}": (r, where) for code, data, ranks, r, where in HPCX}
    before = dict.fromkeys(ratios, scores)
    after = {name: scores / ratio for name, (ratio, _) in ratios.items()}
    result = compared(nights(before), nights(after, first=50), expected=CLOCK)
    for name, (ratio, against) in ratios.items():
        time = row(result, name)
        assert time.against == against, (name, time.speedup)
        assert time.speedup[0] == pytest.approx(ratio, rel=1e-9)
    assert result.unsafe == []
    assert "speed-up, against the expected 1.31" in "\n".join(comparison_text(result))


@pytest.mark.parametrize(
    ("f", "speed", "against", "says"),
    [
        (0.5, 1.31 / 0.75, Against.ABOVE, "fits a network 2.62 times as fast"),
        (0.02, 2.5, Against.ABOVE, "not by the network alone: with 2% communication"),
        (0.001, 2.5, Against.ABOVE, "not by the network: only 0.1%"),
        (0.5, 1.0, Against.BELOW, "fits a network 1.24 times slower"),
        (None, 2.5, Against.ABOVE, "no communication fraction is known"),
    ],
)
def test_communication_fraction_explains_or_does_not(f, speed, against, says):
    sides = model.Side(), model.Side()
    time = model.Row(*["x"] * 7, "time", "s", "lower", False, *sides)
    time.communication, time.against = f, against
    assert says in clause(explain(time, speed, 1.31))
