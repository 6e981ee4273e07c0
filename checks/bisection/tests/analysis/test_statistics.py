"""The statistics against what is known otherwise: SciPy, dense linear algebra, coverage."""

import numpy as np
import pytest
import scipy.stats
from nights import PERSISTENCE, in_state, kernels_of, walk

from bisection.analysis.judging import decide
from bisection.analysis.noise import differences, mean_variance
from bisection.analysis.shared_factors import evidence, two_states
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict


@pytest.mark.parametrize("rho", [0, 0.3, 0.8])
@pytest.mark.parametrize("nights", [1, 5, 20])
def test_the_variance_of_a_mean_is_that_of_the_matrix_of_correlations(nights, rho):
    at = np.arange(nights)
    apart = np.abs(at[:, None] - at)
    assert mean_variance(nights, rho) == pytest.approx((rho**apart).mean(), rel=1e-12)


@pytest.mark.parametrize(("count", "rho"), [(5, 0), (10, 0), (10, PERSISTENCE), (20, PERSISTENCE)])
def test_intervals_cover_as_often_as_they_say(count, rho):
    rng = np.random.default_rng(3)
    covered = []
    for _ in range(10):
        shape = (300, 2 * count)
        values = walk(rng, shape, 1.0) if rho else rng.normal(size=shape)
        seen = differences(values[:, :count], values[:, count:] + 0.3)
        covered.append(np.abs(seen.estimate - 0.3) <= seen.half_width)
    assert np.mean(covered) >= LIMITS.confidence - (0.04 if rho else 0.01)


def test_few_metrics_learn_nothing_from_those_that_do_not_vary():
    rng = np.random.default_rng(4)
    values = rng.normal(0, 0.03, (12, 20))
    alone = differences(values[:, :10], values[:, 10:])
    still = np.concatenate([values, np.zeros((12, 20))])
    beside = differences(still[:, :10], still[:, 10:])
    assert beside.p[:12] == pytest.approx(alone.p, rel=0.05)
    assert beside.p[12:] == pytest.approx(1)


def test_states_are_those_that_values_change_between():
    rng = np.random.default_rng(6)
    values = rng.normal(0, 0.02, (4, 20))
    values[0, [1, 4, 12, 17, 18]] += 0.3  # two states
    values[1, 10:] += 0.3  # a step
    values[2, [3, 8, 11, 15]] += [0.1, 0.4, 0.7, 1.0]  # outliers
    values[3, 10:] += 0.3  # all nights in the slower of two states
    values[3, [2, 5, 7]] += 0.3
    split = two_states(values, 10)
    assert split.two.tolist() == [True, False, False, True]
    assert split.gap[0] == pytest.approx(0.3, abs=0.03)
    assert split.share[:, 0].tolist() == [0.2, 0.3]


def test_sides_that_visit_each_other_differ_by_fishers_test():
    rng = np.random.default_rng(6)
    values = rng.normal(0, 0.02, (30, 20))
    values[3, 10:] += 0.3
    values[3, [2, 5, 12]] += [0.3, 0.3, -0.3]
    p = differences(values[:, :10], values[:, 10:]).p[3]
    assert p == pytest.approx(scipy.stats.fisher_exact([[2, 9], [8, 1]]).pvalue)


def test_states_are_the_same_with_nights_missing():
    rng = np.random.default_rng(7)
    values = rng.normal(0, 0.02, (50, 20)) + 0.3 * (rng.random((50, 20)) < 0.3)
    fewer = values.copy()
    fewer[:, 13] = np.nan
    split, least = two_states(fewer, 10), two_states(np.delete(values, 13, axis=1), 10)
    assert split.two.tolist() == least.two.tolist()
    assert split.gap == pytest.approx(least.gap)


@pytest.mark.parametrize(("kept", "verdict"), [(0.8, Verdict.INCONCLUSIVE), (0, Verdict.REGRESSED)])
def test_a_metric_has_changed_by_more_than_others_do_by_themselves(kept, verdict):
    """Beside metrics with two states, which last or not, one that never varied much is slower."""
    rng = np.random.default_rng(8)
    values = rng.normal(0, 0.01, (100, 20)) + 0.3 * in_state(rng, (100, 20), 0.3, kept)
    values[0] = rng.normal(0, 0.01, 20) + 0.2 * (np.arange(20) >= 10)
    kernels = kernels_of(100)
    seen, _ = evidence(values[:, :10], values[:, 10:], kernels, np.zeros(100, bool))
    assert (seen.news > 0.25) == (kept > 0)
    assert decide(seen, seen.p)[0] == verdict


def test_ticks_of_a_clock_are_no_outliers():
    """Most values of a loud metric are the same, in a table of unequal noise."""
    rng = np.random.default_rng(9)
    values = rng.normal(size=(100, 20)) * np.geomspace(0.003, 0.1, 100)[:, None]
    values[0] = 0.2 * rng.permutation([0] * 12 + [-1] * 4 + [1] * 4)
    seen = differences(values[:, :10], values[:, 10:])
    assert seen.sigma[0] > 0.8 * np.std(values[0])
    assert seen.p[0] > 0.05


def test_a_short_side_that_is_three_times_louder_has_not_shifted_by_chance():
    """40 quiet nights do not say how much ten loud ones vary."""
    rng = np.random.default_rng(10)
    values = rng.normal(0, 0.03, (2000, 50))
    values[:1000, 40:] *= 3
    p = differences(values[:, :40], values[:, 40:]).p
    for half in (p[:1000], p[1000:]):
        assert (half < 0.001).mean() < 0.006
