"""Shifts between two sides of nights that are noisy, and may resemble the nights before them.

    log cost = level of the side + noise, whose correlation falls by rho a night

The mean of a side is the one of generalised least squares under AR(1). What rho is, nobody knows of
one metric in ten nights: each value of a grid counts by its likelihood, and by how many metrics of
the table have it (the mixing distribution, by EM; Laird 1978). Variances are shrunk towards that of
the table (Smyth 2004, limma). Values far from their side's median are cut to a distance.
"""

from dataclasses import dataclass

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.statistics import Pool, medians, scale
from bisection.core.thresholds import LIMITS

RHOS = np.array([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.96])
PRIOR = LIMITS.independent_metrics * (1 - RHOS) / (1 - RHOS).sum()
ROUNDS = 50  # of EM
ROUNDS_OF_WIDTH = 3
WHOLE = 100.0  # of a shared factor nothing is cut: its states are no outliers
SAME = 1e-9  # standard deviation of the logarithm of what does not vary
Times = tuple[np.ndarray, np.ndarray]


@dataclass
class Shifts:
    """Of each series, [series], on logarithms."""

    estimate: np.ndarray  # after - before
    half_width: np.ndarray  # of its confidence interval
    df: np.ndarray  # degrees of freedom of its standard error
    p: np.ndarray  # two-sided p-value of no shift
    sigma: np.ndarray  # standard deviation between nights
    rho: np.ndarray  # correlation of neighbouring nights

    @property
    def error(self) -> np.ndarray:
        """The standard error that an interval of this width has by Student's t."""
        return self.half_width / scipy.special.stdtrit(self.df, (1 + LIMITS.confidence) / 2)


def shifts(
    before: np.ndarray,
    after: np.ndarray,
    times: Times | None = None,
    cut: float = LIMITS.noise_cut,
) -> Shifts:
    """The shift of each series of a table.

    Args:
        before, after: [series, observations], in order of time; NaN where there is none. Each
            series has two or more of either.
        times: of the observations of either side, nights; without them, one a night.
        cut: standard deviations from the median, beyond which a value counts as that far.
    """
    nightly = [np.arange(values.shape[1], dtype=float) for values in (before, after)]
    pairs = zip((before, after), times or nightly, strict=True)
    sides = [packed(values, at) for values, at in pairs]
    counts = np.array([np.isfinite(values).sum(axis=1) for values, _ in sides])
    df = np.maximum(counts.sum(axis=0) - 2.0, 1.0)
    sides, far = _cut(sides, df, cut)
    grid = np.array([[mean(*side, rho) for side in sides] for rho in RHOS])
    means, worths, squares, logs = grid.transpose(2, 1, 3, 0)  # each [sides, series, RHOS]
    estimate, variance = means[1] - means[0], (1 / worths).sum(axis=0)
    of_side = squares
    squares = np.sum(of_side, axis=0)
    logs = (logs + np.log(worths)).sum(axis=0)
    # What does not vary says nothing about rho, nor about how much others vary.
    varies = squares[:, 0] > SAME**2
    squares = np.maximum(squares, SAME**2)
    alone = (-logs / 2 - df[:, None] / 2 * np.log(squares))[varies]
    likely = int(np.argmax((alone - alone.max(axis=1, keepdims=True)).sum(axis=0)))
    prior: float = 0.0
    usual: float = 0.0
    if varies.any():
        pool = Pool(squares[varies, likely] / df[varies], df[varies])
        prior, usual = min(pool.prior, LIMITS.noise_pool), pool.variance
    total, weight = prior * usual + squares, prior + df
    # By its own variance: beside a loud table, a quiet metric would seem to wander slowly.
    scaled = prior * squares[:, [likely]] / df[:, None] + squares
    likelihood = np.where(varies[:, None], -logs / 2 - weight[:, None] / 2 * np.log(scaled), 0)
    # A large table shows by itself how many are independent.
    known = PRIOR * min(1, LIMITS.table / max(varies.sum(), 1))
    chances = posterior(likelihood, known, varies)
    # What was cut, and as much at the other end, does not say how values vary (Tukey 1963).
    weight = np.maximum(weight - 2 * far, 1)
    deviations = total / weight[:, None]
    # The shorter side may be the louder one: then each has its own variance, drawn towards both's
    # as by one value, and the degrees of freedom are Welch's.
    values_of_side = counts[..., None]
    parts = (deviations + of_side) / values_of_side / worths
    pooled, apart = deviations * variance, parts.sum(axis=0)
    louder = apart > LIMITS.louder_side * pooled
    errors = np.sqrt(np.where(louder, apart, pooled))
    welch = apart**2 / (parts**2 / values_of_side).sum(axis=0)
    weight = np.where(louder, np.minimum(welch, weight[:, None]), weight[:, None])[:, likely]
    shift = (chances * estimate).sum(axis=1)
    against = np.where(shift < 0, 1, -1)[:, None] * estimate / errors
    return Shifts(
        shift,
        _half_width(chances, errors, weight[:, None]),
        weight,
        np.minimum(2 * (chances * scipy.special.stdtr(weight[:, None], against)).sum(axis=1), 1),
        np.sqrt((chances * deviations).sum(axis=1)),
        chances @ RHOS,
    )


def _half_width(posterior: np.ndarray, errors: np.ndarray, df: np.ndarray) -> np.ndarray:
    """The distance beyond which a mixture of Student's t of these scales has the tails, by false
    position: the logarithm of the tail falls smoothly with that of the distance."""
    tail = (1 - LIMITS.confidence) / 2
    quantile = scipy.special.stdtrit(df[:, 0], 1 - tail)

    def excess(scale: np.ndarray) -> np.ndarray:
        chances = scipy.special.stdtr(df, -(quantile * np.exp(scale))[:, None] / errors)
        return np.log((posterior * chances).sum(axis=1) / tail)

    low, high = np.log(errors.min(axis=1)), np.log(errors.max(axis=1))
    over, under = excess(low), excess(high)
    for _ in range(ROUNDS_OF_WIDTH):
        middle = low + (high - low) * np.clip(over / np.maximum(over - under, SAME), 0, 1)
        here = excess(middle)
        above = here > 0
        low, over = np.where(above, middle, low), np.where(above, here, over)
        high, under = np.where(above, high, middle), np.where(above, under, here)
    return quantile * np.exp(middle)


def worth(nights: int, rho: float) -> float:
    """Returns how many independent nights some are worth for their mean, by their correlation rho
    with the night before."""
    return (nights - (nights - 2) * rho) / (1 + rho)


def packed(values: np.ndarray, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values of a side without gaps, NaN behind the last; and the nights since the value before."""
    order = np.argsort(~np.isfinite(values), axis=1, kind="stable")
    at = np.take_along_axis(np.broadcast_to(times, values.shape), order, axis=1)
    values = np.take_along_axis(values, order, axis=1)
    since = np.maximum(np.diff(at, axis=1, prepend=0), 0)
    return values, np.where(np.isfinite(values), since, 1)


def _cut(
    sides: list[tuple[np.ndarray, np.ndarray]], df: np.ndarray, cut: float
) -> tuple[list[tuple[np.ndarray, np.ndarray]], np.ndarray]:
    """The sides with values far from their side's median moved nearer, to `cut` robust standard
    deviations of the series, which are drawn towards the usual one of the table; and how many."""
    away = [values - medians(values, 1)[:, None] for values, _ in sides]
    known = [np.abs(side) for side in away]
    # Of values that are often the same, ticks of a clock, the others say what is usual.
    few = np.mean(np.concatenate(known, axis=1) > SAME, axis=1, keepdims=True) < LIMITS.noise_often
    parts = [scale(np.where((side > SAME) | few, side, np.nan), 1) for side in known]
    spread = np.fmax(*parts)  # one side may be louder
    usual = np.median(spread[spread > SAME]) if (spread > SAME).any() else 0.0
    pool = LIMITS.cut_pool
    most = cut * np.sqrt((pool * usual**2 + df * spread**2) / (pool + df))[:, None]
    nearer = (np.clip(off, -most, most) - off for off in away)
    cut_off = [(values + by, since) for (values, since), by in zip(sides, nearer, strict=True)]
    return cut_off, sum((side > most).sum(axis=1) for side in known)


def mean(values: np.ndarray, since: np.ndarray, rho: float) -> tuple[np.ndarray, ...]:
    """The mean of a side under AR(1), by values made white; 1 / its variance, in units of that of a
    value; the sum of squared residuals, white; the logarithm of the determinant of the
    correlations; each [series]. `values` and `since` are packed."""
    known = np.isfinite(values)
    like = rho**since if rho else np.zeros_like(since)
    like[:, 0] = 0
    new = 1 - like**2
    before = np.concatenate([np.zeros((len(values), 1)), values[:, :-1]], axis=1)
    ones = np.where(known, (1 - like) / np.sqrt(new), 0)
    white = np.where(known, (values - like * before) / np.sqrt(new), 0)
    counts = (ones**2).sum(axis=1)
    middle = (ones * white).sum(axis=1) / counts
    squares = np.maximum((white**2).sum(axis=1) - counts * middle**2, 0)
    return middle, counts, squares, np.where(known, np.log(new), 0).sum(axis=1)


def posterior(
    log_likelihood: np.ndarray,
    prior: np.ndarray,
    varies: np.ndarray | slice = slice(None),
    learns: bool = True,
) -> np.ndarray:
    """How probable each of several models is of each series, [series, models].

    Args:
        log_likelihood: of each series under each model, [series, models].
        prior: how many series are known to be of each model.
        varies: series that count; default: all.
        learns: whether the series of a table show which models are common (EM, Laird 1978).
    """
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    mixing = prior / prior.sum()
    for _ in range(ROUNDS if learns else 1):
        chances = mixing * likelihood
        chances /= chances.sum(axis=1, keepdims=True)
        mixing = prior + chances[varies].sum(axis=0)
        mixing /= mixing.sum()
    return chances
