"""Statistics that are robust, vectorised over metrics.

All take natural logarithms of positive values, in arrays [metrics, observations]. An observation is
a night or a job, never a repeat within a job.
"""

import math
from collections.abc import Sequence

import numpy as np

from bisection.core.thresholds import MAD
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


def estimate(ratios: Sequence[float] | np.ndarray, part: float = 0.95) -> Estimate:
    """The median of ratios with an interval of this part by resampling; the same from the same."""
    if not len(ratios):
        return Estimate(math.nan, math.nan, math.nan)
    drawn = np.random.default_rng(1).choice(ratios, (RESAMPLES, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), ((1 - part) / 2, (1 + part) / 2))
    return Estimate(float(np.median(ratios)), float(low), float(high))
