"""Medians with intervals, by resampling."""

import math
from collections.abc import Sequence

import numpy as np

from bisection.kernels.local import Estimate

RESAMPLES = 2000


def estimate(ratios: Sequence[float] | np.ndarray, part: float = 0.95) -> Estimate:
    """The median of ratios with an interval of this part by resampling; the same from the same."""
    if not len(ratios):
        return Estimate(math.nan, math.nan, math.nan)
    drawn = np.random.default_rng(1).choice(ratios, (RESAMPLES, len(ratios)))
    low, high = np.quantile(np.median(drawn, axis=1), ((1 - part) / 2, (1 + part) / 2))
    return Estimate(float(np.median(ratios)), float(low), float(high))
