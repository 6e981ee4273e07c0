"""Proposed bounds: how many nights without fault fail by them, and what is found in one night.

A night fails if a metric is outside its limits, and in the mean of two retests too. A retest draws
the noise of launches anew; what belongs to the night (factors, wandering levels) it has again.
Of noises like real ones, what is the machine's lasts, and what is of a launch is drawn anew.
`--full` simulates 100 sets of each noise.
"""

import numpy as np
import pytest
from nights import (
    NOISES,
    bimodal,
    common,
    drifting,
    kernels_of,
    like_real_ones,
    lognormal,
    wandering,
)
from scipy.stats import binom

from bisection.analysis.bounds import bounds

METRICS, EARLIER, NEW = 2100, 20, 10
ONE_IN = 100  # nights, of which one may fail
SETS = 100  # with --full; else a few
DAYS = np.arange(EARLIER) % 7
LASTING = "3% of each metric that lasts the night"

# A noise -> what lasts a night, and what is of one launch.
PARTS = {name: (None, noise) for name, noise in NOISES.items()} | {
    "20% of nights 1.3 times slower, per metric": (bimodal(0), lognormal(0.03)),
    "20% of launches 1.3 times slower, per metric": (None, bimodal(0.03)),
    "20% of nights 1.3 times slower, all metrics": (bimodal(0, True), lognormal(0.03)),
    "common factor 2%, own 2%": (common(0.02, 0), lognormal(0.02)),
    "common factor 7%, own 3%": (common(0.07, 0), lognormal(0.03)),
    "AR(1) 0.7, 3%, per metric": (wandering(0.03, "metric"), lognormal(0)),
    "AR(1) 0.7, 3%, per kernel": (wandering(0.03, "kernel", 0), lognormal(0.01)),
    "AR(1) 0.7, 3%, all metrics": (wandering(0.03, "all", 0), lognormal(0.01)),
    "drift 0.1% a night, 1%": (drifting(0), lognormal(0.01)),
    "drift 0.1% a night, 3%": (drifting(0), lognormal(0.03)),
    # Not promised: a retest does not remove it.
    LASTING: (lognormal(0.03), lognormal(0)),
}
REAL = like_real_ones(launches=3, share=0)


def simulated(rng, noise):
    """The three launches of nights: logarithms of costs, [launches, metrics, nights]."""
    shape = (METRICS, EARLIER + NEW)
    if noise in REAL:
        return REAL[noise](rng, shape)
    lasting, fresh = PARTS[noise]
    if noise == "independent, metrics of 1 to 8%":  # the same metric in each launch
        return fresh(rng, (METRICS, 3 * shape[1])).reshape(METRICS, 3, shape[1]).swapaxes(0, 1)
    night = lasting(rng, shape) if lasting else 0
    return np.array([night + fresh(rng, shape) for _ in range(3)])


def failures(limits, launches):
    """Of each metric and night, whether it is outside at first; and in the retests too."""
    low, high = (bound[:, None] for bound in limits[:2])
    first, again = launches[0], (launches[1] + launches[2]) / 2
    outside = (first < low) | (first > high)
    return outside, outside & ((again < low) | (again > high))


@pytest.mark.parametrize("noise", [*PARTS, *REAL])
def test_nights_without_fault_that_fail(noise, told, full):
    rng = np.random.default_rng(20261122)
    sets = SETS if full else 2
    retested = failed = metrics = 0
    wide, power = [], []
    for _ in range(sets):
        launches = simulated(rng, noise)
        earlier = launches[0][:, :EARLIER]
        limits = bounds(earlier, kernels_of(METRICS), DAYS)
        first, both = failures(limits, launches[..., EARLIER:])
        retested += first.any(axis=0).sum()
        metrics += first.sum()
        failed += both.any(axis=0).sum()
        wide.append(np.expm1(np.median(limits[1] - np.nanmedian(earlier, axis=1))))
        slow = launches[..., EARLIER:] + np.log([[[[1.2]]], [[[1.5]]]])
        power.append([failures(limits, ratio)[1].mean() for ratio in slow])
    nights = sets * NEW
    powers = np.mean(power, axis=0)
    told.append(
        f"| {noise} | +{np.mean(wide):.0%} | {retested / nights:.0%} | {metrics / nights:.1f} "
        f"| {failed / nights:.1%} | {powers[0]:.1%} | {powers[1]:.0%} |"
    )
    assert failed <= binom.isf(1e-3, nights, 0.2 if noise == LASTING else 1 / ONE_IN)
    if noise == "independent 3%":
        assert powers[0] >= 0.95


def test_few_metrics_are_judged_by_their_own_nights():
    rng = np.random.default_rng(3)
    outside = 0
    for _ in range(300):
        logs = rng.normal(0, 0.03, (2, EARLIER + 1))
        low, high, _ = bounds(logs[:, :-1], np.zeros(2, int))
        outside += ((logs[:, -1] < low) | (logs[:, -1] > high)).sum()
    assert outside == 0


def test_nights_that_did_not_measure_a_metric_count_for_the_others():
    rng = np.random.default_rng(4)
    logs = rng.normal(0, 0.03, (200, EARLIER))
    _, whole, _ = bounds(logs, kernels_of(200))
    logs[:100, ::2] = np.nan
    _, sparse, _ = bounds(logs, kernels_of(200))
    assert np.isfinite(sparse).all()
    assert sparse[:100].mean() == pytest.approx(whole[:100].mean(), rel=0.2)
    assert sparse[100:].mean() == pytest.approx(whole[100:].mean(), rel=0.05)


def test_values_that_are_all_the_same_pass_within_the_margin():
    low, high, _ = bounds(np.zeros((30, 10)), kernels_of(30))
    assert np.exp(high) == pytest.approx(1.05)
    assert np.exp(low) == pytest.approx(1 / 1.05)
