"""Bounds that a metric stays within in a night without fault, from the nights of a whole table.

reference/README.md, "How wide limits are", has the rules. The second half of the nights shows how
far own noise goes beyond what the first half has shown: tails, states, and noise that changes.
"""

import math

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis import noise
from bisection.analysis.shared_factors import factors, two_states
from bisection.analysis.statistics import medians
from bisection.core.thresholds import LIMITS


def bounds(
    logs: np.ndarray, kernels: np.ndarray, days: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The lower and upper bounds of the metrics of a table, and the standard deviation of their own
    noise, [metrics]; logarithms.

    Args:
        logs: logarithms of values, [metrics, nights], nights in order; NaN where a night did not
            measure. Each metric has three values or more.
        kernels: the number of the kernel of each metric, [metrics].
        days: of the week, [nights]; None: not known.
    """
    clear, many = logs, len(logs) >= LIMITS.few_metrics
    # One night of a day of the week may be an outlier.
    if days is not None and np.unique(days, return_counts=True)[1].min() > 1:
        clear = noise.without_weeks(logs, days)
    weekly = np.nan_to_num(logs - clear)
    middle = medians(clear, 1)
    rest, usual, reach = _beside_factors(clear - middle[:, None], kernels)
    off = medians(rest, 1)
    rest -= off[:, None]
    sigma, rho = noise.spread(rest), np.zeros(len(logs))
    if many:  # one metric's correlation cannot be estimated from its few nights
        rho = noise.correlation(rest, sigma)
    states = two_states(rest, rest.shape[1] // 2).two.mean() > LIMITS.two_states
    lasts = many and (np.median(rho) > LIMITS.persistence or states)
    chance = LIMITS.lasting_chance if lasts else LIMITS.reference_chance
    # Of independent noise: it is beyond a limit in the run, and again in the retest.
    share = math.sqrt((LIMITS.lasting_tail if lasts else LIMITS.reference_tail) / len(logs))
    size, df = _one_more(rest, rho)
    least, level = math.log1p(LIMITS.margin), middle + usual + off

    def allowed(side: int) -> np.ndarray:
        far = -scipy.special.stdtrit(df, chance)
        if many:
            far = np.maximum(far, _news(side * rest, rho, share))
        own = np.maximum(far * size, np.nanmax(side * rest, axis=1) + size)
        beside = -scipy.special.stdtrit(df, LIMITS.beside_factor) * size
        return own + reach if lasts else np.maximum(np.hypot(own, reach), beside + reach)

    low = np.minimum(level - allowed(-1), middle - least) + weekly.min(axis=1)
    high = np.maximum(level + allowed(1), middle + least) + weekly.max(axis=1)
    return low, high, sigma


def _beside_factors(
    apart: np.ndarray, kernels: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Takes the factors of nights, and of kernels in nights, from values beside their metric's
    level. Returns what is left, [metrics, nights]; the mean of the factors, and how far those of
    one more night go, [metrics]."""
    session, kernel = factors(apart, kernels)
    usual, reach = np.zeros(len(kernel)), np.zeros(len(kernel))
    for series, parts in ((session[None], 1), (kernel, len(kernel))):
        n = np.isfinite(series).sum(axis=1)
        mean = np.nanmean(series, axis=1)
        error = np.nanstd(series, axis=1) * np.sqrt((n + 1) / (n - 1))
        far = -scipy.special.stdtrit(n - 1, LIMITS.factor_chance / parts) * error
        # A state of all metrics that few nights were in.
        far = np.maximum(far, np.nanmax(np.abs(series - mean[:, None]), axis=1))
        usual, reach = usual + mean, np.hypot(reach, far)
    rest = apart - np.nan_to_num(session + kernel[kernels])
    return rest, usual[kernels], reach[kernels]


def _one_more(rest: np.ndarray, rho: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The standard deviation of one more night beside the level of these, and its degrees of
    freedom, [metrics]; of nights that resemble their neighbours, fewer count."""
    n = np.maximum(np.isfinite(rest).sum(axis=1), 2)
    level = np.minimum(noise.mean_variance(n, rho), 0.8)
    size = np.maximum(noise.spread(rest), LIMITS.reference_finest)
    size *= np.sqrt((1 + level) / (1 - level))
    return noise.pooled(size, (n - 1) * (1 - rho**2) / (1 + rho**2))


def _news(rest: np.ndarray, rho: np.ndarray, share: float) -> float:
    """How many standard deviations the second half of the nights goes beyond what the first half
    has shown, but in a share of nights."""
    half = rest.shape[1] // 2
    first, second = rest[:, :half], rest[:, half:]
    first, second, rho = (part[np.isfinite(first).sum(axis=1) > 2] for part in (first, second, rho))
    level = medians(first, 1)
    size, _ = _one_more(first - level[:, None], rho)
    before, most = (np.fmax.reduce(part, axis=1) for part in (first, second))
    news = np.where(most > before + size, (most - level) / size, 0)
    return float(np.quantile(np.append(news, 0), max(1 - share * second.shape[1], 0)))
