"""Bounds that a metric stays within in a night without fault, from the nights of a whole table.

reference/README.md, "How wide limits are", has the model and the rules: factors of the night and of
the kernel, and own noise, each with its limit. How much a factor keeps of the night before cannot
be estimated from its few nights (the error is 0.2): its chance is small instead. How strict the
first look is follows from the retest's cost and not from false alarms: what is beyond a bound is
launched again.
"""

import math

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.statistics import Pool, medians, scale
from bisection.core.thresholds import LIMITS

TINY = 1e-5  # standard deviation of the logarithm where all values are the same


def bounds(logs: np.ndarray, kernels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lower and upper bounds of the metrics of a table, and the standard deviation of their own
    noise, [metrics]; logarithms.

    Args:
        logs: logarithms of values, [metrics, nights], nights in order; NaN where a night did not
            measure. Each metric has three values or more.
        kernels: to which kernel each metric belongs, [metrics].
    """
    counts = np.isfinite(logs).sum(axis=1)
    middle = medians(logs, 1)
    rest, usual, reach = _factors(logs - middle[:, None], kernels)
    level, variance, near = _core(rest)
    apart = np.where(near, rest - level[:, None], 0)
    persistence = _persistence(apart, counts)
    lasts = persistence > 0 or _two_states(rest, level, variance, near) > LIMITS.two_states
    # Of nights that resemble their neighbours, a variance is worth fewer.
    worth = (1 - persistence**2) / (1 + persistence**2)
    pool = Pool(variance, worth * (near.sum(axis=1) - 1))
    ahead = _one_more(counts, persistence)
    seen = _left_out(rest, pool, worth) / ahead[:, None]
    chance = LIMITS.lasting_chance if lasts else LIMITS.reference_chance
    sigma = pool.sigma(variance, pool.df)
    margin, level = math.log1p(LIMITS.margin), middle + usual + level

    def beyond(side: int, chance: float, share: float) -> np.ndarray:
        """How far own noise goes: by Student's t, and by this share of the table's values."""
        far = -scipy.special.stdtrit(np.minimum(pool.prior + pool.df, 1e6), chance)
        if len(logs) >= LIMITS.few_metrics:
            far = np.maximum(far, np.nanquantile(side * seen, 1 - share))
        return far * ahead * sigma

    def allowed(side: int) -> np.ndarray:
        noise = np.maximum(beyond(side, chance, 0.0 if lasts else LIMITS.reference_tail), margin)
        if lasts:
            return noise + reach
        beside = beyond(side, LIMITS.beside_factor, LIMITS.beside_factor)
        return np.maximum(np.hypot(noise, reach), beside + reach)

    low = np.minimum(level - allowed(-1), middle - margin)
    return low, np.maximum(level + allowed(1), middle + margin), sigma


def _factors(apart: np.ndarray, kernels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes from values, by their metric's level, the factors of nights and of kernels in nights.
    Returns what is left, [metrics, nights]; the mean of the factors, and how far those of one more
    night go, [metrics]."""
    rest, usual, reach = apart, np.zeros(len(apart)), np.zeros(len(apart))
    tables = [np.full(len(apart), True), *(kernels == kernel for kernel in np.unique(kernels))]
    for number, here in enumerate(tables):
        if here.sum() < LIMITS.few_metrics or (number and len(tables) == 2):
            continue
        nights = np.isfinite(rest[here]).sum(axis=0) >= LIMITS.few_metrics
        if nights.sum() < LIMITS.reference_state:
            continue
        factors = np.where(nights, medians(rest[here], 0), 0)
        rest = np.where(here[:, None], rest - factors, rest)
        factors = factors[nights]
        # Medians vary by the noise of their metrics alone: that is no factor.
        noise = math.pi / 2 * np.nanmedian(np.nanvar(rest[here], axis=1)) / here.sum()
        n, away = len(factors), factors - factors.mean()
        variance = max(factors.var(ddof=1) - noise, 0) * (1 + 1 / n)
        chance = LIMITS.factor_chance / (max(len(tables) - 1, 1) if number else 1)
        far = -scipy.special.stdtrit(n - 1, chance) * math.sqrt(variance)
        if variance:  # a state of all metrics that few nights were in
            far = max(far, np.abs(away).max())
        usual[here] += factors.mean()
        reach[here] = np.hypot(reach[here], far)
    return rest, usual, reach


def _core(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and variance of each row without what is far from its median; which values are near. Of
    few metrics all are: no table shows how far others go."""
    away = np.abs(values - medians(values, 1)[:, None])
    near = away <= LIMITS.reference_far * scale(away, 1)[:, None] + TINY
    near = np.isfinite(values) if len(values) < LIMITS.few_metrics else near
    count = near.sum(axis=1)
    mean = np.where(near, values, 0).sum(axis=1) / count
    squares = np.where(near, (values - mean[:, None]) ** 2, 0).sum(axis=1)
    return mean, np.maximum(squares / np.maximum(count - 1, 1), TINY**2), near


def _persistence(apart: np.ndarray, counts: np.ndarray) -> float:
    """The correlation of a metric's own noise from night to night, of the table; 0 if there is
    none. It is corrected for the level's being of the same nights (Kendall 1954). `apart` is from
    the level, [metrics, nights], 0 where there is no value or a far one; `counts` are of values."""
    squares = (apart**2).sum()
    n = counts.mean()
    if len(apart) < LIMITS.few_metrics or n <= 4 or not squares:
        return 0.0
    near_by = (apart[:, 1:] * apart[:, :-1]).sum() / squares
    correlation = min((near_by + 1 / n) / (1 - 3 / n), 0.9)
    return correlation if correlation > LIMITS.persistence else 0.0


def _two_states(
    values: np.ndarray, level: np.ndarray, variance: np.ndarray, near: np.ndarray
) -> float:
    """The fraction of metrics with a second state: values far from the others on one side, and
    close to each other."""
    far = np.where(near, np.nan, values - level[:, None])
    both = np.zeros(len(values), bool)
    for side in (-1, 1):
        here = side * far > 0
        count = here.sum(axis=1)
        mean = np.where(here, far, 0).sum(axis=1) / np.maximum(count, 1)
        squares = np.where(here, (far - mean[:, None]) ** 2, 0).sum(axis=1)
        both |= (count >= LIMITS.reference_state) & (squares < 4 * count * variance)
    return float(both.mean())


def _one_more(counts: np.ndarray, persistence: float) -> np.ndarray:
    """The standard deviation of one more night beside the mean of `counts`, in those that they
    show; of nights that resemble their neighbours, fewer count."""
    factors = []
    for n in counts.tolist():
        lags = np.arange(1, n)
        worth = n / (1 + 2 * ((1 - lags / n) * persistence**lags).sum())
        factors.append((1 + 1 / worth) / (1 - 1 / worth) * (1 - 1 / n))
    return np.sqrt(factors)


def _left_out(rest: np.ndarray, pool: Pool, worth: float) -> np.ndarray:
    """Each value beside the others of its metric, in their standard deviations, [metrics, nights]:
    what one more night shows."""
    seen = np.full(rest.shape, np.nan)
    for night in range(rest.shape[1]):
        rows = np.isfinite(rest[:, night])
        mean, variance, near = _core(np.delete(rest[rows], night, axis=1))
        df = np.maximum(worth * (near.sum(axis=1) - 1), 1.0)
        seen[rows, night] = (rest[rows, night] - mean) / pool.sigma(variance, df)
    return seen
