"""The statistics of verdicts: robust, exact where observations are few, vectorised over metrics.

All take natural logarithms of positive values, in arrays [metrics, observations]. An observation is
independent of the others: a session or a job, never a repeat within a job.
"""

import functools
import math
import warnings

import numpy as np
from scipy import stats

from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict

SIGMA = 0.6744897501960817  # the upper quartile of the normal distribution
PAIRS = 4_000_000  # differences in memory at a time


def normal_mad(values: np.ndarray) -> np.ndarray:
    """The median absolute deviation along the last axis, in standard deviations of the normal
    distribution.

    What scipy.stats.median_abs_deviation(scale="normal") gives, fifteen times as fast for the short
    series of histories.
    """
    middle = np.median(values, axis=-1, keepdims=True)
    return np.median(np.abs(values - middle), axis=-1) / SIGMA


@functools.cache
def mann_whitney_rank(n: int, m: int, confidence: float = LIMITS.confidence) -> int:
    """The rank of the pairwise differences that bounds a shift.

    By the exact distribution of the Mann-Whitney statistic; above 4000 pairs by its normal
    approximation.

    Args:
        n, m: observations per side.
        confidence: of the interval.

    Returns:
        k, so that the k-th smallest and largest of the n*m differences bound the shift with at
        least `confidence`; 0 if no k does.
    """
    tail = (1 - confidence) / 2
    if n * m > 4000:
        deviation = math.sqrt(n * m * (n + m + 1) / 12)
        return max(0, math.floor(n * m / 2 + stats.norm.ppf(tail) * deviation))
    # The generating function of the statistic: the product of (1 - x^(m+i)) / (1 - x^i).
    counts = np.zeros(n * m + 1)
    counts[0] = 1
    for i in range(1, n + 1):
        counts[m + i :] -= counts[: -(m + i)].copy() if m + i <= n * m else 0
        for j in range(i, n * m + 1):
            counts[j] += counts[j - i]
    below = np.cumsum(counts) / math.comb(n + m, n)
    return int(np.searchsorted(below, tail * (1 + 1e-12), side="right"))


def hodges_lehmann(
    before: np.ndarray, after: np.ndarray, confidence: float = LIMITS.confidence
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The Hodges-Lehmann estimate of after - before with its exact confidence interval.

    Args:
        before, after: [metrics, observations].
        confidence: of the interval.

    Returns:
        (estimate, low, high), each [metrics]; the interval is infinite where observations are too
        few for one.
    """
    n, m = before.shape[1], after.shape[1]
    cut = mann_whitney_rank(min(n, m), max(n, m), confidence)
    low, middle, high = cut - 1, (n * m - 1) // 2, n * m - cut
    shifts = np.empty((3, len(before)))
    step = max(1, PAIRS // (n * m))  # metrics at a time
    for first in range(0, len(before), step):
        here = slice(first, first + step)
        pairs = (after[here, :, None] - before[here, None, :]).reshape(-1, n * m)
        wanted = {middle, n * m // 2} | ({low, high} if cut else set())
        pairs.partition(sorted(wanted), axis=1)
        shifts[0, here] = (pairs[:, middle] + pairs[:, n * m // 2]) / 2
        shifts[1:, here] = pairs[:, [low, high]].T if cut else [[-math.inf], [math.inf]]
    return tuple(shifts)


def mad_sigma(*sides: np.ndarray) -> np.ndarray:
    """Robust standard deviation between observations: the median distance from the median of each
    side, pooled, scaled for the normal distribution and for few observations.

    Args:
        sides: [metrics, observations] each.

    Returns:
        [metrics].
    """
    distances = [np.abs(side - np.median(side, axis=1, keepdims=True)) for side in sides]
    count = sum(side.shape[1] - 1 for side in sides)
    together = np.concatenate(distances, axis=1)
    return 1.4826 * np.median(together, axis=1) * (1 + 1 / max(count, 1))


def yuen_pvalue(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """p-values of a difference of trimmed means (Yuen 1974), which distinguish far from near where
    ranks alone cannot.

    With one variance for both sides: with two, five observations beside twenty gave false verdicts
    in 8% of tables, with one in 2%.

    Args:
        before, after: [metrics, observations].

    Returns:
        [metrics]; 1 where nothing can be said.
    """
    if min(before.shape[1], after.shape[1]) < 2:
        return np.ones(len(before))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # of values that are nearly equal
        p = stats.ttest_ind(before, after, axis=1, trim=LIMITS.trimmed).pvalue
    return np.where(np.isfinite(p), p, 1.0)


def adjust_fdr(p: np.ndarray) -> np.ndarray:
    """p-values adjusted for the size of the table (Benjamini and Hochberg 1995)."""
    return stats.false_discovery_control(p) if len(p) else p


def margins(sigma: np.ndarray) -> np.ndarray:
    """The logarithm of the smallest effect that counts, by the noise between observations."""
    return np.maximum(math.log1p(LIMITS.margin), LIMITS.noise_margin * sigma)


def classify(
    estimate: np.ndarray, low: np.ndarray, high: np.ndarray, p: np.ndarray, margin: np.ndarray
) -> np.ndarray:
    """Verdicts on slow-downs. A sure effect of interest is not unchanged because nights
    vary by more than it.

    Args:
        estimate, low, high: the logarithm of the slow-down and its interval, [metrics].
        p: adjusted p-values, [metrics].
        margin: the logarithm of the smallest effect that counts, [metrics].

    Returns:
        Verdicts, [metrics].
    """
    verdicts = np.full(len(estimate), Verdict.INCONCLUSIVE, dtype=object)
    sure, least = p <= LIMITS.false_discoveries, math.log1p(LIMITS.margin)
    effect = sure & ((low > 0) | (high < 0)) & (np.abs(estimate) >= least)
    verdicts[(low > -margin) & (high < margin) & ~effect] = Verdict.UNCHANGED
    verdicts[sure & (low > 0) & ((estimate >= margin) | (low >= least))] = Verdict.REGRESSED
    verdicts[sure & (high < 0) & ((estimate <= -margin) | (high <= -least))] = Verdict.IMPROVED
    return verdicts
