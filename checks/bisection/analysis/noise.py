"""The noise of a table's metrics from night to night, and the levels beside it.

    log cost = level + factor of the night + factor of the kernel + own noise

The noise of a metric has a scale (Huber 1964), tails (how often nights are so far off) and a
correlation from night to night. Each is measured beside the metric's levels, and drawn to that of
the table where a metric has few nights. METHODS.md of the workshop says what each rule buys.

All arrays are of logarithms of costs, [metrics, nights]; NaN: not measured.
"""

import math

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.statistics import medians, scale
from bisection.core.thresholds import LIMITS

TINY = 1e-5  # standard deviation of the logarithm: no time is known better


def spread(off: np.ndarray, cut: float = LIMITS.noise_cut) -> np.ndarray:
    """The scale of each row by Huber's proposal 2: the root mean square of values that count as
    `cut` scales where they are further off."""
    size = np.maximum(scale(off, 1), TINY)
    count = np.maximum(np.isfinite(off).sum(axis=1), 1)
    squares = np.nan_to_num(off) ** 2
    for _ in range(6):
        near = np.minimum(squares, (cut * size[:, None]) ** 2)
        size = np.maximum(np.sqrt(near.sum(axis=1) / count), TINY)
    return size


def pooled(size: np.ndarray, df: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The scales of a table, each drawn to the table's as far as they are alike; and the degrees of
    freedom that each is worth then (Smyth 2004, by medians)."""
    if len(size) < LIMITS.few_metrics:
        return size, df
    logs = 2 * np.log(size) - scipy.special.digamma(df / 2) + np.log(df / 2)
    middle = np.median(logs)
    unlike = float(scale(logs - middle)) ** 2 - np.mean(scipy.special.polygamma(1, df / 2))
    prior = min(2 / max(unlike, TINY), LIMITS.noise_pool)  # trigamma(x) is about 1 / x
    return np.sqrt((prior * np.exp(middle) + df * size**2) / (prior + df)), df + prior


def correlation(rest: np.ndarray, size: np.ndarray) -> np.ndarray:
    """What each metric keeps from night to night, drawn to the table's; `rest` is beside levels, in
    order without gaps, `size` its scale."""
    cut = LIMITS.noise_cut
    values = np.clip(rest / size[:, None], -cut, cut)
    both = np.isfinite(values[:, 1:]) & np.isfinite(values[:, :-1])
    before, after = (np.where(both, part, 0) for part in (values[:, :-1], values[:, 1:]))
    pairs = np.maximum(both.sum(axis=1), 1)
    squares = (before**2 + after**2).sum(axis=1) / 2
    # The level is of the same nights (Kendall 1954).
    kept = (before * after).sum(axis=1) / np.maximum(squares, TINY) + both.any(axis=1) / pairs
    if len(kept) < LIMITS.few_metrics:
        return np.clip(kept, 0, 0.8)
    middle = np.median(kept)
    unlike = max(float(scale(kept - middle)) ** 2 - float(np.median(1 / pairs)), 0.01)
    return np.clip(middle + (kept - middle) * unlike / (unlike + 1 / pairs), 0, 0.8)


def mean_variance(nights: np.ndarray | float, rho: np.ndarray | float) -> np.ndarray | float:
    """The variance of the mean of so many nights of AR(1), in units of that of a night."""
    whole = (1 + rho) / (1 - rho)
    return (whole - 2 * rho * (1 - rho**nights) / (nights * (1 - rho) ** 2)) / nights


class Tails:
    """How often nights without a change are so far off: those of the table, and each metric's own.

    Far off the table's follow a power law through its largest two hundredth part (Hill 1975); they
    are never lighter than normal. They count as LIMITS.tail_nights of a metric's nights.

    Args:
        off: beside levels, in scales, [metrics, nights].
    """

    def __init__(self, off: np.ndarray) -> None:
        sizes = np.abs(off)
        self.own = np.sort(np.where(np.isfinite(sizes), sizes, np.inf), axis=1)
        self.counts = np.isfinite(sizes).sum(axis=1)
        self.all = np.sort(sizes[np.isfinite(sizes)])
        top = np.maximum(self.all[-max(len(self.all) // 200, 10) :], TINY)
        self.start, self.share = top[0], len(top) / len(self.all)
        self.power = 1 / max(float(np.mean(np.log(top / top[0]))), 0.1)

    def chance(self, row: int, far: np.ndarray) -> np.ndarray:
        """That a night of a metric is as many scales off, to either side."""
        table = 1 - np.searchsorted(self.all, far) / len(self.all)
        law = self.share * (np.maximum(far, self.start) / self.start) ** -self.power
        table = np.maximum(np.where(far > self.start, law, table), 2 * scipy.special.ndtr(-far))
        count, worth = self.counts[row], LIMITS.tail_nights
        mine = count - np.searchsorted(self.own[row, :count], far)
        return (mine + worth * table) / (count + worth)

    def scores(self, row: int, off: np.ndarray) -> np.ndarray:
        """Normal scores of nights of a metric that are so many scales off."""
        chance = np.clip(self.chance(row, np.abs(off)), 1e-12, 1)
        return np.sign(off) * -scipy.special.ndtri(chance / 2)


# ---- what metrics share ----


def factors(residuals: np.ndarray, kernels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns what the metrics of a night share: the session factor, [nights], and that of each
    kernel beside it, [kernels, nights]. A kernel of few metrics has none (0), nor have sessions of
    fewer than three other kernels. NaN: nothing was measured.

    Args:
        residuals: beside a level per metric.
        kernels: the number of each metric's kernel, [metrics].
    """
    count = int(kernels.max(initial=-1)) + 1
    kernel = np.zeros((count, residuals.shape[1]))
    large = np.bincount(kernels, minlength=count) >= LIMITS.kernel_metrics
    for number in np.flatnonzero(large):
        kernel[number] = medians(residuals[kernels == number], axis=0)
    if large.sum() < 3:
        return np.zeros(residuals.shape[1]), kernel
    session = medians(kernel[large], axis=0)
    kernel[large] -= session
    return session, kernel


def without_weeks(costs: np.ndarray, days: np.ndarray) -> np.ndarray:
    """Costs without what a day of the week has beside the days around it, where that is sure.
    `days`: of the week, [nights]."""
    around = np.pad(costs, ((0, 0), (3, 3)), constant_values=np.nan)
    weeks = np.lib.stride_tricks.sliding_window_view(around, 7, axis=1)
    beside = costs - medians(weeks.reshape(-1, 7), 1).reshape(costs.shape)
    clear, size = costs.copy(), scale(beside, 1)
    for day in np.unique(days):
        here = beside[:, days == day]
        effect, nights = medians(here, 1), (~np.isnan(here)).sum(axis=1)
        error = np.maximum(size, scale(here - effect[:, None], 1))
        error *= np.sqrt(math.pi / 2 / np.maximum(nights, 1))  # of medians
        sure = np.abs(effect) > LIMITS.shared_sure * error
        clear[:, days == day] -= np.where(sure, effect, 0)[:, None]
    return clear
