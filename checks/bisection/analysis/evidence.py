"""Judges a table of nights before and after: each metric, and the changes that metrics share.

    log cost = level of the metric + session + kernel + own noise

A kernel's metrics share a factor of each night, and kernels share one of the session (nights.py).
A shift of such a factor is one finding. A metric is judged by its shift beside its factor, unless
that factor has shifted for sure; then by its whole shift.
"""

from dataclasses import dataclass

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.nights import factors
from bisection.analysis.shifts import SAME, WHOLE, Shifts, Times, shifts
from bisection.analysis.states import States, states
from bisection.analysis.statistics import medians
from bisection.core.thresholds import LIMITS

LEAST = np.log1p(LIMITS.shared_margin)
ALL = -1  # in place of a kernel's number
MOST = 0.75  # of the kernels must have shifted by as much as all are found to


@dataclass
class Shared:
    """A shift that metrics have in common, as logarithms."""

    kernel: int  # its number, or ALL
    estimate: float
    half_width: float
    metrics: np.ndarray  # the numbers of those that it explains


@dataclass
class Evidence:
    """Of each metric, [metrics], on logarithms of costs."""

    estimate: np.ndarray  # of its shift, and the interval
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray  # p-value of no shift, not adjusted for the table
    apart: np.ndarray  # the part of the shift that no factor has
    followed: np.ndarray  # whether its factor has shifted for sure
    covered: np.ndarray  # whether that explains its shift
    sigma: np.ndarray  # standard deviation of its own noise between nights
    rho: np.ndarray  # correlation of that in neighbouring nights
    common_sigma: np.ndarray  # likewise of its factor
    common_rho: np.ndarray
    states: States


def evidence(
    before: np.ndarray,
    after: np.ndarray,
    kernels: np.ndarray,
    ratios: np.ndarray,
    times: Times | None = None,
) -> tuple[Evidence, list[Shared]]:
    """Looks for shifts.

    Args:
        before, after: logarithms of costs, [metrics, nights], in order of time; NaN where there
            is none. Each metric has two or more of either.
        kernels: the number of each metric's kernel from 0 on, [metrics].
        ratios: whether a metric is no time and no rate, [metrics]: those have factors of their own.
        times: of the nights of either side, in nights; without them, one a night.
    """
    costs, count = np.concatenate([before, after], axis=1), before.shape[1]
    residuals = costs - medians(before, 1)[:, None]
    series, group = [], np.zeros(len(costs), int)
    owners = []  # of each series: a kernel's number, ALL, or None of ratios
    for here, is_ratio in ((~ratios, False), (ratios, True)):
        session, kernel = factors(residuals[here], kernels[here])
        large = np.flatnonzero((kernel != 0).any(axis=1))
        place = np.full(len(kernel), len(series))
        place[large] += 1 + np.arange(len(large))
        group[here] = place[kernels[here]]
        series += [session, *(session + kernel[large])]
        owners += [None] * (1 + len(large)) if is_ratio else [ALL, *large.tolist()]
    series = np.array(series)
    common = shifts(series[:, :count], series[:, count:], times, WHOLE)
    own, split = _own(costs - series[group], count, times)
    estimate = own.estimate + common.estimate[group]
    half = np.hypot(own.half_width, common.half_width[group])
    findings, sure = _findings(common, owners)
    followed = sure[group]
    covered = followed & (np.abs(own.estimate) <= own.half_width)
    error = np.hypot(own.error, common.error[group])
    p = np.where(followed, 2 * scipy.special.stdtr(own.df, -np.abs(estimate) / error), own.p)
    table = Evidence(
        *(estimate, estimate - half, estimate + half, p, own.estimate, followed, covered),
        *(own.sigma, own.rho, common.sigma[group], common.rho[group], split),
    )
    shared = []
    for number in findings:
        kernel = owners[number]
        mine = (
            group == number if kernel != ALL else ~ratios & ~np.isin(group, findings[findings > 0])
        )
        width = float(common.half_width[number])
        here = np.flatnonzero(mine & covered)
        shared.append(Shared(kernel, float(common.estimate[number]), width, here))
    return table, shared


def _findings(common: Shifts, owners: list[int | None]) -> tuple[np.ndarray, np.ndarray]:
    """Returns which shared shifts are findings, by their numbers, and which are sure, [series].

    All kernels are slower if most are, and by what most are at least. A kernel is, if it is by more
    than that.
    """
    kernel = np.array([owner is not None and owner != ALL for owner in owners])
    by = np.sort(common.estimate[kernel])
    left = int(len(by) * (1 - MOST))
    every = max(by[left], 0) + min(by[-1 - left], 0) if len(by) >= 3 else 0.0
    varying = max((common.sigma > SAME).sum(), 1)
    large = np.abs(common.estimate) >= LEAST
    sure = (common.p * varying <= LIMITS.shared_chance) & large
    sure[0] &= abs(every) >= LEAST
    beyond = np.sign(common.estimate) * (common.estimate - every) >= LEAST
    is_finding = sure & kernel & beyond
    is_finding[0] = sure[0]
    with_all = sure[0] & kernel & large & (np.sign(common.estimate) == np.sign(every))
    return np.flatnonzero(is_finding), sure & (is_finding | ~kernel) | with_all


def _own(costs: np.ndarray, count: int, times: Times | None) -> tuple[Shifts, States]:
    """The shifts of what is the metrics' own. Of one with two states, either its levels shifted,
    or the share of its nights in the slower one."""
    split = states(costs, count)
    whole = shifts(costs[:, :count], costs[:, count:], times)
    if not split.two.any():
        return whole, split
    level = costs - split.slow * split.gap[:, None]
    level = shifts(level[:, :count], level[:, count:], times)
    share = np.maximum(split.p, whole.p)
    by_share = split.two & (share < level.p)
    both = np.minimum(1, 2 * np.minimum(level.p, share))
    mixed = {
        name: np.where(by_share, getattr(whole, name), getattr(level, name))
        for name in ("estimate", "half_width", "df", "sigma", "rho")
    }
    return Shifts(**mixed, p=np.where(split.two, both, level.p)), split
