"""An upgrade against what was expected of it."""

import numpy as np
import pytest
from made_up import case, nights, row, sessions, times
from reports import CLOCK, HPCX
from scipy.stats import norm

from bisection.analysis import model
from bisection.analysis.judging import explain
from bisection.core.reasons import clause
from bisection.core.verdicts import Against
from bisection.report.text import comparison_text
from bisection.report.words import explained


def test_published_upgrade(compared):
    """The report gives ratios alone: here each is of ten nights a side with 3% noise, as normal
    scores in a random order, so that the estimate is the published one."""
    order = np.random.default_rng(0).permutation(10)
    scores = np.exp(0.03 * norm.ppf((order + 0.5) / 10))
    ratios = {f"{code}-{data}-{ranks}": (r, where) for _, code, data, ranks, r, _, where in HPCX}
    before = dict.fromkeys(ratios, scores)
    after = {name: scores / ratio for name, (ratio, _) in ratios.items()}
    result = compared(nights(before), nights(after, first=50), expected=CLOCK)
    for name, (ratio, against) in ratios.items():
        time = row(result, name)
        assert time.against == against, (name, time.speedup)
        assert time.speedup[0] == pytest.approx(ratio, rel=1e-9)
    assert result.unsafe == []
    assert "speed-up, against the expected 1.31" in "\n".join(comparison_text(result))


def test_below_the_expected_ratio_can_fail(rng, compared):
    sides = nights({"p2p": times(rng)}), nights({"p2p": times(rng, 1 / 1.13)}, 100)
    assert compared(*sides, expected=1.31, fail_on=(Against.BELOW,)).exit_code == 1


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


def test_speed_up_that_rises_with_ranks_is_told(rng, compared):
    mpi = {"mpi_share": [0.6, "share", "lower"]}
    places = [{"layout": "mpi", "geometry": "64x1"}, {"layout": "node", "geometry": "4x64x1"}]

    def sized(ratios, first):
        return sessions(
            first,
            (
                [
                    case(metrics={"time": times(rng, 1 / ratio, 1)[0], **mpi}, **place)
                    for place, ratio in zip(places, ratios, strict=True)
                ]
                for _ in range(20)
            ),
        )

    result = compared(sized((1, 1), 0), sized((1.6, 2.2), 100), expected=1.31)
    assert all("speed-up grows with rank count" in explained(r) for r in result.rows)


def test_speed_ups_of_other_partitions_or_threads_are_no_growth(rng, compared):
    places = [
        {"geometry": "64x1"},
        {"geometry": "8x8", "layout": "node"},
        {"geometry": "128x1", "partition": "gpu"},
    ]

    def sides(ratios, first):
        return sessions(
            first,
            (
                [
                    case(metrics={"time": times(rng, 1 / ratio, 1)[0]}, **place)
                    for place, ratio in zip(places, ratios, strict=True)
                ]
                for _ in range(20)
            ),
        )

    result = compared(sides((1, 1, 1), 0), sides((1.6, 2.0, 2.4), 100), expected=1.31)
    assert not any("with the ranks" in explained(r) for r in result.rows)
