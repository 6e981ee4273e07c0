"""The statistics of verdicts: robust, exact where samples are few, vectorised over metrics.

All take natural logarithms of positive values, in arrays [metrics, samples]; a sample is what was
drawn independently of the others, a session or a job, never a repeat within a job.
"""

import functools
import math
import warnings

import numpy as np

from bisection.core.verdicts import IMPROVED, INCONCLUSIVE, REGRESSED, UNCHANGED

CONFIDENCE = 0.98
MARGIN = 0.05  # a smaller effect is of no interest
NOISE_MARGIN = 1.0  # nor is one smaller than this many standard deviations between samples
FALSE_DISCOVERIES = 0.05  # expected share of wrong verdicts among those of one table
FEWEST = 5  # samples a side: with four, no difference reaches the confidence
PAIRS = 4_000_000  # differences in memory at a time


@functools.cache
def rank_cut(n, m, confidence=CONFIDENCE):
    """k, so that the k-th smallest and largest of the n*m pairwise differences bound the shift with
    at least `confidence`, by the exact distribution of the Mann-Whitney statistic; 0 if no k does.
    Above 4000 pairs by its normal approximation.
    """
    tail = (1 - confidence) / 2
    if n * m > 4000:
        from scipy import stats  # slow to import: only where it is needed

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


def shift(before, after, confidence=CONFIDENCE):
    """The Hodges-Lehmann estimate of after - before and its exact interval: (estimate, low, high),
    each [metrics]. An interval that so few samples cannot give is infinite."""
    n, m = before.shape[1], after.shape[1]
    cut = rank_cut(min(n, m), max(n, m), confidence)
    low, middle, high = cut - 1, (n * m - 1) // 2, n * m - cut
    found = np.empty((3, len(before)))
    step = max(1, PAIRS // (n * m))  # metrics at a time
    for first in range(0, len(before), step):
        here = slice(first, first + step)
        pairs = (after[here, :, None] - before[here, None, :]).reshape(-1, n * m)
        wanted = {middle, n * m // 2} | ({low, high} if cut else set())
        pairs.partition(sorted(wanted), axis=1)
        found[0, here] = (pairs[:, middle] + pairs[:, n * m // 2]) / 2
        found[1:, here] = pairs[:, [low, high]].T if cut else [[-math.inf], [math.inf]]
    return tuple(found)


def spread(*sides):
    """Robust standard deviation between samples, [metrics]: the median distance from the median of
    each side, scaled for the normal distribution and for few samples."""
    distances = [np.abs(side - np.median(side, axis=1, keepdims=True)) for side in sides]
    count = sum(side.shape[1] - 1 for side in sides)
    together = np.concatenate(distances, axis=1)
    return 1.4826 * np.median(together, axis=1) * (1 + 1 / max(count, 1))


def chance(before, after):
    """The probability of such a difference where there is none: Yuen's t test on trimmed means,
    which tells far from near where ranks alone cannot. (With one variance for both sides: with two,
    five samples beside twenty gave false verdicts in 8% of tables, with one in 2%.)"""
    from scipy import stats

    if min(before.shape[1], after.shape[1]) < 2:
        return np.ones(len(before))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # of samples that are nearly equal
        p = stats.ttest_ind(before, after, axis=1, trim=0.2).pvalue
    return np.where(np.isfinite(p), p, 1.0)


def controlled(p):
    """p-values adjusted for the size of the table (Benjamini and Hochberg)."""
    from scipy import stats

    return stats.false_discovery_control(p) if len(p) else p


def margins(sigma):
    """The logarithm of the least effect that counts, by the noise between samples."""
    return np.maximum(math.log1p(MARGIN), NOISE_MARGIN * sigma)


def judge(estimate, low, high, p, margin):
    """Verdicts [metrics] on costs, larger is worse; `p` is already controlled. An effect that is
    sure and of interest is not called unchanged because nights vary by more than it."""
    found = np.full(len(estimate), INCONCLUSIVE, dtype=object)
    sure, least = p <= FALSE_DISCOVERIES, math.log1p(MARGIN)
    effect = sure & ((low > 0) | (high < 0)) & (np.abs(estimate) >= least)
    found[(low > -margin) & (high < margin) & ~effect] = UNCHANGED
    found[sure & (low > 0) & ((estimate >= margin) | (low >= least))] = REGRESSED
    found[sure & (high < 0) & ((estimate <= -margin) | (high <= -least))] = IMPROVED
    return found
