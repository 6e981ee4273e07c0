"""The statistics against what is known otherwise: SciPy, enumeration, scaling."""

import itertools
import math

import numpy as np
import pytest
import scipy.stats

from bisection.analysis import statistics
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict


def by_enumeration(n, m, confidence):
    """The cut, by all orders in which n and m values can fall."""
    counts = {}
    for chosen in itertools.combinations(range(n + m), n):
        below = sum(place - index for index, place in enumerate(chosen))
        counts[below] = counts.get(below, 0) + 1
    total, sum_, cut = math.comb(n + m, n), 0, 0
    for value in sorted(counts):
        sum_ += counts[value]
        if 2 * sum_ / total > (1 - confidence) * (1 + 1e-9):
            break
        cut += 1
    return cut


@pytest.mark.parametrize(("n", "m"), [(3, 3), (4, 4), (5, 5), (4, 6), (3, 9), (6, 7)])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.98, 0.99])
def test_rank_cut_is_exact(n, m, confidence):
    assert statistics.mann_whitney_rank(n, m, confidence) == by_enumeration(n, m, confidence)


def test_rank_cut_of_many_is_as_the_exact_one():
    assert statistics.mann_whitney_rank(63, 63) == pytest.approx(
        statistics.mann_whitney_rank(63, 64), abs=40
    )


def test_four_samples_a_side_prove_nothing():
    assert statistics.mann_whitney_rank(4, 4) == 0
    assert statistics.mann_whitney_rank(5, 5) > 0
    assert LIMITS.fewest == 5


def test_interval_covers_as_often_as_it_says():
    rng = np.random.default_rng(3)
    for n, m in ((5, 5), (8, 12), (20, 20)):
        _, low, high = statistics.hodges_lehmann(
            rng.normal(0, 1, (20000, n)), rng.normal(0.3, 1, (20000, m))
        )
        covered = np.mean((low <= 0.3) & (high >= 0.3))
        assert LIMITS.confidence - 0.003 <= covered <= 0.996


def test_shift_is_that_of_the_definition():
    before, after = np.array([[1.0, 2, 4, 8, 16]]), np.array([[3.0, 5, 9, 17, 20, 21]])
    estimate, low, high = statistics.hodges_lehmann(before, after)
    pairs = sorted(b - a for a in before[0] for b in after[0])
    assert estimate[0] == np.median(pairs)
    cut = statistics.mann_whitney_rank(5, 6)
    assert (low[0], high[0]) == (pairs[cut - 1], pairs[-cut])


def test_too_few_samples_have_no_interval():
    _, low, high = statistics.hodges_lehmann(np.zeros((1, 1)), np.ones((1, 3)))
    assert (low[0], high[0]) == (-math.inf, math.inf)


def test_spread_is_the_standard_deviation_and_ignores_outliers():
    values = np.random.default_rng(4).normal(0, 0.03, (2000, 20))
    assert np.mean(statistics.mad_sigma(values)) == pytest.approx(0.03, rel=0.08)
    values[:, 0] += 1
    assert np.mean(statistics.mad_sigma(values)) < 0.036


def test_chance_of_one_sample_is_one():
    assert statistics.yuen_pvalue(np.zeros((3, 1)), np.ones((3, 5))).tolist() == [1, 1, 1]


def test_chance_of_equal_samples_is_a_number():
    assert statistics.yuen_pvalue(np.zeros((1, 5)), np.zeros((1, 5))).tolist() == [1]


def test_judge():
    margin = np.full(5, 0.05)
    names = statistics.classify(
        estimate=np.array([0.10, -0.10, 0.01, 0.10, 0.03]),
        low=np.array([0.02, -0.15, -0.02, -0.01, 0.02]),
        high=np.array([0.15, -0.02, 0.04, 0.20, 0.06]),
        p=np.array([1e-4, 1e-4, 0.5, 1e-4, 1e-4]),
        margin=margin,
    )
    assert names.tolist() == [
        Verdict.REGRESSED,
        Verdict.IMPROVED,
        Verdict.UNCHANGED,
        Verdict.INCONCLUSIVE,
        Verdict.INCONCLUSIVE,
    ]


def test_an_effect_that_is_sure_is_not_unchanged_because_nights_vary():
    margin = np.full(3, 0.2)  # by the noise; 5% are of interest
    names = statistics.classify(
        estimate=np.array([0.15, -0.15, 0.15]),
        low=np.array([0.12, -0.18, 0.03]),
        high=np.array([0.18, -0.12, 0.18]),
        p=np.full(3, 1e-9),
        margin=margin,
    )
    assert names.tolist() == [Verdict.REGRESSED, Verdict.IMPROVED, Verdict.INCONCLUSIVE]


def test_shift_is_the_same_in_parts(monkeypatch):
    rng = np.random.default_rng(5)
    before, after = rng.normal(size=(7, 9)), rng.normal(size=(7, 6))
    whole = statistics.hodges_lehmann(before, after)
    monkeypatch.setattr(statistics, "PAIRS", 2 * 9 * 6)
    assert np.array_equal(whole, statistics.hodges_lehmann(before, after))


def test_a_table_asks_for_more_than_one_metric_does():
    p = np.concatenate([[0.01], np.full(199, 0.5)])
    assert statistics.adjust_fdr(p[:1])[0] <= LIMITS.false_discoveries
    assert statistics.adjust_fdr(p)[0] > LIMITS.false_discoveries


def test_mad_is_that_of_scipy():
    values = np.random.default_rng(3).normal(size=(7, 11))
    expected = scipy.stats.median_abs_deviation(values, axis=1, scale="normal")
    assert statistics.normal_mad(values) == pytest.approx(expected, rel=1e-12)
