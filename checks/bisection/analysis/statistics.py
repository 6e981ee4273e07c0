"""Statistics that are robust, vectorised over metrics.

All take natural logarithms of positive values, in arrays [metrics, observations]. An observation is
a night or a job, never a repeat within a job.
"""

import math
from collections.abc import Sequence

import numpy as np
import scipy  # its parts load when they are used

from bisection.core.thresholds import LIMITS, MAD
from bisection.kernels.local import Estimate

HUGE = 700  # a logarithm whose exponential is still a number
RESAMPLES = 2000  # of a bootstrap


def medians(values: np.ndarray, axis: int) -> np.ndarray:
    """Medians without NaN; NaN where there is nothing else. np.nanmedian takes ten times as long.

    Args:
        values: [rows, columns].
        axis: along which medians are taken.
    """
    if not values.shape[axis]:
        return np.full(np.delete(values.shape, axis), np.nan)
    ranked, counts = np.sort(values, axis=axis), (~np.isnan(values)).sum(axis=axis)
    middle = (np.expand_dims(place, axis) for place in ((counts - 1) // 2, counts // 2))
    low, high = (np.take_along_axis(ranked, place, axis=axis) for place in middle)
    return ((low + high) / 2).squeeze(axis)


def scale(away: np.ndarray, axis: int = 0) -> np.ndarray:
    """The standard deviation of normal values, by the median of their sizes (MAD).

    Args:
        away: what values are off their middle by; NaN is left out.
        axis: along which the median is taken.
    """
    return MAD * medians(np.abs(away), axis)


def exp(logarithm: float) -> float:
    """The exponential; of what would be no number, one that is."""
    return math.exp(min(max(logarithm, -HUGE), HUGE))


class Pool:
    """Variances of a table, by which that of each metric is made surer: the mean of both, weighted
    by what each is worth. One that is larger than chance explains stays as it is.

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
        spread = float(scale(logs - middle)) ** 2
        spread -= np.median(scipy.special.polygamma(1, half))
        self.prior = 2 * _inverse_trigamma(spread) if spread > 0 else math.inf
        if len(logs) < LIMITS.few_metrics:
            self.prior = 0.0
        self.variance = math.exp(middle)
        if 0 < self.prior < math.inf:
            self.variance *= math.exp(scipy.special.digamma(self.prior / 2)) / (self.prior / 2)

    def sigma(self, variance: np.ndarray, df: np.ndarray, quiet: float = 0) -> np.ndarray:
        """The standard deviations, [metrics], for variances of `df` degrees of freedom. One that
        is as small only by a chance of `quiet` stays as it is, too."""
        if not self.prior:
            return np.sqrt(variance)
        prior = min(self.prior, 1e6)
        shrunk = (prior * self.variance + df * variance) / (prior + df)
        chance = scipy.special.fdtr(df, prior, variance / self.variance)
        unlike = (chance > 1 - LIMITS.unlike_variance) | (chance < quiet)
        return np.sqrt(np.where(unlike, variance, shrunk))


def _inverse_trigamma(value: float) -> float:
    """By Newton's method (Smyth 2004, appendix)."""
    y = 0.5 + 1 / value
    for _ in range(50):
        now = scipy.special.polygamma(1, y)
        y += now * (1 - now / value) / scipy.special.polygamma(2, y)
    return float(y)


def estimate(ratios: Sequence[float] | np.ndarray, part: float = 0.95) -> Estimate:
    """The median of ratios with an interval of this part by resampling; the same from the same."""
    if not len(ratios):
        return Estimate(math.nan, math.nan, math.nan)
    drawn = np.random.default_rng(1).choice(ratios, (RESAMPLES, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), ((1 - part) / 2, (1 + part) / 2))
    return Estimate(float(np.median(ratios)), float(low), float(high))
