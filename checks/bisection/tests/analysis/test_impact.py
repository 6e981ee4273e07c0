"""The impact of other traffic: medians and intervals over cycles, grades, what is withheld."""

import dataclasses

import numpy as np
import pytest
from made_up_traffic import launch

from bisection.analysis import impact
from bisection.core.reasons import Code
from bisection.core.verdicts import Grade
from bisection.kernels.local import Estimate


def judged(**how):
    (verdict,) = impact.judge(launch(**how))
    return verdict


@pytest.mark.parametrize(
    ("how", "mean", "grade"),
    [
        ({}, None, Grade.GO),
        ({"mean": 1.15}, None, Grade.GO),
        ({"mean": 1.3}, None, Grade.LOOK),
        ({"mean": 1.1, "p99": 1.4}, None, Grade.GO),
        ({"mean": 1.1, "p99": 1.7}, None, Grade.LOOK),
        ({"mean": 2.4}, None, Grade.NO_GO),
        ({"mean": 1.1, "p99": 3.0}, None, Grade.NO_GO),
        # by the interval
        ({}, (2.4, 1.3, 3.0), Grade.NO_GO),
        ({}, (2.4, 1.1, 3.0), Grade.LOOK),  # it may be what is good
        ({}, (1.3, 1.05, 1.8), Grade.LOOK),
        ({}, (1.4, 0.9, 1.8), Grade.GO),  # it may be no impact at all
    ],
)
def test_grades(how, mean, grade):
    verdict = judged(**how)
    verdict = dataclasses.replace(verdict, mean=Estimate(*mean) if mean else verdict.mean)
    assert verdict.grade == grade
    assert (verdict.reason is None) == (grade == Grade.GO)


# Sets in 100 that are go, look or no-go, withheld: by the noise of a window, and the impact.
SIMULATED = [
    (0.05, 1.0, (100, 0, 0)),
    (0.05, 1.5, (0, 100, 0)),
    (0.1, 1.0, (93, 0, 7)),
    (0.1, 1.3, (5, 88, 7)),
    (0.1, 1.5, (0, 93, 7)),
    (0.2, 1.0, (67, 0, 33)),
    (0.2, 1.5, (0, 67, 33)),
    (0.2, 3.0, (0, 67, 33)),
]


@pytest.mark.parametrize(("noise", "mean", "rates"), SIMULATED)
def test_rates_of_grades(noise, mean, rates, full):
    sets = 400 if full else 60
    grades = [judged(mean=mean, noise=noise, seed=seed).grade for seed in range(sets)]
    shares = [sum(g == Grade.GO for g in grades), 0, sum(g is None for g in grades)]
    shares[1] = sets - sum(shares)
    for share, rate in zip(shares, rates, strict=True):
        slack = 3.3 * np.sqrt(max(rate * (100 - rate), 400) / sets)
        assert 100 * share / sets == pytest.approx(rate, abs=slack), shares


def test_median_and_interval_over_cycles():
    verdict = judged(mean=1.5)
    assert verdict.mean.value == pytest.approx(1.5, rel=0.02)
    assert verdict.mean.low < verdict.mean.value < verdict.mean.high
    assert verdict.mean.high - verdict.mean.low < 0.15  # the levels of the deals do not count
    assert verdict.load == pytest.approx(0.9)
    assert judged(mean=1.5) == verdict  # seeded


def test_intervals_hold_the_truth():
    """Of 95% intervals of the median of 10, made by resampling, at least 85% do."""
    held = [judged(mean=1.5, noise=0.1, seed=seed).mean for seed in range(200)]
    assert sum(part.low <= 1.5 <= part.high for part in held) >= 170


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ({"again": 1.2}, Code.NOT_QUIET(ratio=1.2)),
        ({"again": 0.8}, Code.NOT_QUIET(ratio=0.8)),
        ({"load": 0.4}, Code.NOT_LOADED_ENOUGH(load=0.4)),
        ({"alone": False}, Code.LOAD_UNKNOWN()),
        ({"taken": 4}, Code.PREEMPTED(fraction=0.4)),
        ({"cycles": 4}, Code.FEW_CYCLES(cycles=4, needed=5)),
    ],
)
def test_what_is_not_judged(how, reason):
    verdict = judged(mean=3.0, **how)
    assert verdict.grade is None
    assert verdict.withheld.code == reason.code
    assert verdict.withheld.values == pytest.approx(dict(reason.values), rel=0.02)
    assert verdict.reason["why"] == verdict.withheld.as_dict()


def test_a_launch_without_windows_has_no_impacts():
    assert impact.judge({"details": {}}) == []
    assert impact.judge({}) == []
