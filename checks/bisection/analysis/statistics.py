"""Statistics that are robust, vectorised over metrics.

All take natural logarithms of positive values, in arrays [metrics, observations]. An observation is
a night or a job, never a repeat within a job.
"""

import math

import numpy as np
import scipy  # its parts load when they are used

SIGMA = 0.6744897501960817  # the upper quartile of the normal distribution
MAD = 1.4826  # standard deviations per median absolute deviation, of the normal distribution
FEW = 10  # metrics: fewer show neither factors, nor tails, nor how alike their spreads are


def normal_mad(values: np.ndarray) -> np.ndarray:
    """The median absolute deviation along the last axis, in standard deviations of the normal
    distribution.

    What scipy.stats.median_abs_deviation(scale="normal") gives, fifteen times as fast for the short
    series of histories.
    """
    middle = np.median(values, axis=-1, keepdims=True)
    return np.median(np.abs(values - middle), axis=-1) / SIGMA


def adjust_fdr(p: np.ndarray) -> np.ndarray:
    """p-values adjusted for the size of the table (Benjamini and Hochberg 1995)."""
    order = np.argsort(p)[::-1]
    rank = np.arange(len(p), 0, -1)
    adjusted = np.empty(len(p))
    adjusted[order] = np.minimum(np.minimum.accumulate(p[order] * len(p) / rank), 1)
    return adjusted


class Pool:
    """Variances of a table, by which that of each metric is made surer: the mean of both, weighted
    by what each is worth. One that chance does not explain stays as it is.

    Smyth 2004 (limma), by medians. `prior` are the degrees of freedom that the table is worth.

    Args:
        variance: of each metric, [metrics].
        df: the degrees of freedom of each.
    """

    def __init__(self, variance: np.ndarray, df: np.ndarray) -> None:
        self.df = np.maximum(df, 1.0)
        half = self.df / 2
        logs = np.log(variance) - scipy.special.digamma(half) + np.log(half)
        middle = np.median(logs)
        spread = (MAD * np.median(np.abs(logs - middle))) ** 2
        spread -= np.median(scipy.special.polygamma(1, half))
        self.prior = 2 * _inverse_trigamma(spread) if spread > 0 else math.inf
        if len(logs) < FEW:
            self.prior = 0.0
        self.variance = math.exp(middle)
        if 0 < self.prior < math.inf:
            self.variance *= math.exp(scipy.special.digamma(self.prior / 2)) / (self.prior / 2)

    def sigma(self, variance: np.ndarray, df: np.ndarray) -> np.ndarray:
        """The standard deviations, [metrics], for variances of `df` degrees of freedom."""
        if not self.prior:
            return np.sqrt(variance)
        prior = min(self.prior, 1e6)
        shrunk = (prior * self.variance + df * variance) / (prior + df)
        unlike = variance > self.variance * scipy.special.fdtri(df, prior, 1 - 1e-3)
        return np.sqrt(np.where(unlike, variance, shrunk))


def _inverse_trigamma(value: float) -> float:
    """By Newton's method (Smyth 2004, appendix)."""
    y = 0.5 + 1 / value
    for _ in range(50):
        now = scipy.special.polygamma(1, y)
        y += now * (1 - now / value) / scipy.special.polygamma(2, y)
    return float(y)
