"""Judges a table of nights before and after: each metric, and the changes that metrics share.

    log cost = level of the metric + session + kernel + own noise

A kernel's metrics share a factor of each night, and kernels share one of the session. Both are
medians, so that a metric that changed alone does not move them. A session is the median of kernels
and not of metrics: a kernel with most of the metrics is one. A shift of such a factor is one
finding. A metric is judged by its shift beside its factor, unless that factor has shifted for sure;
then by its whole shift.
"""

from dataclasses import dataclass

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.noise import TINY, Differences, differences, states_of
from bisection.analysis.statistics import medians
from bisection.core.thresholds import LIMITS

LEAST = np.log1p(LIMITS.shared_margin)
ALL = -1  # in place of a kernel's number
WHOLE = 100.0  # scales: of a shared factor nothing is cut, its states are no outliers


@dataclass
class Shared:
    """A shift that metrics have in common, as logarithms."""

    kernel: int  # its number, or ALL
    estimate: float
    half_width: float
    metrics: np.ndarray  # the numbers of those that it explains


@dataclass
class States:
    """Levels between which metrics change from night to night, [metrics]."""

    two: np.ndarray  # whether it has two states
    gap: np.ndarray  # between the states, logarithm; 0 if it has one
    share: np.ndarray  # of the nights of either side in the slower state, [2, metrics]
    slow: np.ndarray  # [metrics, nights]: in the slower state


@dataclass
class MetricShifts:
    """Of each metric, [metrics], on logarithms of costs."""

    estimate: np.ndarray  # of its shift, and the interval
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray  # p-value of no shift, not adjusted for the table
    followed: np.ndarray  # whether its factor has shifted for sure
    apart: Differences  # of what no factor has
    news: float  # logarithm of the step that states of the table do not explain
    states: States


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


def evidence(
    before: np.ndarray,
    after: np.ndarray,
    kernels: np.ndarray,
    ratios: np.ndarray,
) -> tuple[MetricShifts, list[Shared]]:
    """Looks for shifts.

    Args:
        before, after: logarithms of costs, [metrics, nights], in order of time; NaN where there
            is none. Each metric has two or more of either.
        kernels: the number of each metric's kernel from 0 on, [metrics].
        ratios: whether a metric is no time and no rate, [metrics]: those have factors of their own.
    """
    costs, count = np.concatenate([before, after], axis=1), before.shape[1]
    residuals = costs - medians(before, 1)[:, None]
    listed: list[np.ndarray] = []
    group = np.zeros(len(costs), int)
    owners: list[int | None] = []  # of each series: a kernel's number, ALL, or None of ratios
    for here, is_ratio in ((~ratios, False), (ratios, True)):
        session, kernel = factors(residuals[here], kernels[here])
        large = np.flatnonzero((kernel != 0).any(axis=1))
        place = np.full(len(kernel), len(listed))
        place[large] += 1 + np.arange(len(large))
        group[here] = place[kernels[here]]
        listed += [session, *(session + kernel[large])]
        owners += [None] * (1 + len(large)) if is_ratio else [ALL, *large.tolist()]
    series = np.array(listed)
    shared = differences(series[:, :count], series[:, count:], WHOLE)
    findings, sure = _findings(shared, owners)
    noise = costs - series[group]
    states = two_states(noise, count)
    # Where a metric is as often in the slower state as before, its levels show what changed.
    alike = states.two & (np.abs(states.share[1] - states.share[0]) < LIMITS.share_apart)
    level = noise - np.where(alike[:, None], states.slow * states.gap[:, None], 0)
    apart = differences(level[:, :count], level[:, count:])
    followed, estimate = sure[group], apart.estimate + shared.estimate[group]
    half = np.hypot(apart.half_width, shared.half_width[group])
    error = np.hypot(apart.error, shared.error[group])
    p = np.where(followed, 2 * scipy.special.stdtr(apart.df, -np.abs(estimate) / error), apart.p)
    covered = followed & (np.abs(apart.estimate) <= apart.half_width)
    interval = estimate - half, estimate + half
    table = MetricShifts(estimate, *interval, p, followed, apart, states_of(noise), states)
    explained = []
    for number in findings:
        beside_others = ~ratios & ~np.isin(group, findings[findings > 0])
        mine = beside_others if owners[number] == ALL else group == number
        shift = float(shared.estimate[number]), float(shared.half_width[number])
        explained.append(Shared(owners[number], *shift, np.flatnonzero(mine & covered)))
    return table, explained


def _findings(common: Differences, owners: list[int | None]) -> tuple[np.ndarray, np.ndarray]:
    """Returns which shared shifts are findings, by their numbers, and which are sure, [series].

    All kernels are slower if most are, and by what most are at least. A kernel is, if it is by more
    than that.
    """
    kernel = np.array([owner is not None and owner != ALL for owner in owners])
    by = np.sort(common.estimate[kernel])
    left = int(len(by) * (1 - LIMITS.most_kernels))
    every = max(by[left], 0) + min(by[-1 - left], 0) if len(by) >= 3 else 0.0
    varying = max((common.sigma > TINY).sum(), 1)
    large = np.abs(common.estimate) >= LEAST
    sure = (common.p * varying <= LIMITS.shared_chance) & large
    sure[0] &= abs(every) >= LEAST
    beyond = np.sign(common.estimate) * (common.estimate - every) >= LEAST
    is_finding = sure & kernel & beyond
    is_finding[0] = sure[0]
    with_all = sure[0] & kernel & large & (np.sign(common.estimate) == np.sign(every))
    return np.flatnonzero(is_finding), sure & (is_finding | ~kernel) | with_all


def two_states(values: np.ndarray, nights: int) -> States:
    """The states of the metrics of a table: the parts of their values below and above the widest
    gap, if they are far apart, each is compact, and one side has both. `values`: [metrics, nights
    of both sides]; `nights`: of the first side."""
    fewest, known = LIMITS.state_values, np.isfinite(values)
    ranked, counts = np.sort(values, axis=1), known.sum(axis=1)
    gaps = np.diff(ranked, axis=1)
    place = np.arange(1, values.shape[1])
    gaps[(place < fewest) | (place > counts[:, None] - fewest) | np.isnan(gaps)] = 0
    at = gaps.argmax(axis=1)[:, None]
    slow = known & (values > np.take_along_axis(ranked, at, axis=1))
    parts = np.array([known & ~slow, slow])
    sizes = np.maximum(parts.sum(axis=2), 2)
    means = np.where(parts, values, 0).sum(axis=2) / sizes
    off = np.where(parts, values - means[..., None], 0)
    wide = ((off**2).sum(axis=2) / (sizes - 1)).max(axis=0)
    gap = means[1] - means[0]
    hits = np.array([side.sum(axis=2) for side in np.split(parts, [nights], axis=2)])
    two = gap > np.maximum(LIMITS.states_far * np.sqrt(wide), np.log1p(LIMITS.states_gap))
    two &= (hits >= fewest // 2).all(axis=1).any(axis=0)
    share = hits[:, 1] / np.maximum(hits.sum(axis=1), 1)
    return States(two, np.where(two, gap, 0), share, slow)
