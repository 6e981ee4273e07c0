"""Judges a table of nights before and after: each metric, and the changes that metrics share.

    log cost = level of the metric + session + kernel + own noise

A kernel's metrics share a factor of each night, and kernels share one of the session. Both are
medians, so that a metric that changed alone does not move them. A session is the median of kernels
and not of metrics: a kernel with most of the metrics is one. A shift of such a factor is one
finding. A metric is judged by its shift beside its factor, unless that factor has shifted for sure;
then by its whole shift.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.shifts import SAME, WHOLE, Shifts, Times, shifts
from bisection.analysis.statistics import medians
from bisection.core.thresholds import LIMITS

LEAST = np.log1p(LIMITS.shared_margin)
ALL = -1  # in place of a kernel's number


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
    slow: np.ndarray  # [metrics, nights]: in the slower one
    gap: np.ndarray  # between the states, logarithm; 0 if it has one
    share: np.ndarray  # of the nights of either side in the slower state, [2, metrics]
    p: np.ndarray  # p-value of such shares, if both sides have the same (Fisher 1922)


@dataclass
class MetricShifts:
    """Of each metric, [metrics], on logarithms of costs."""

    estimate: np.ndarray  # of its shift, and the interval
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray  # p-value of no shift, not adjusted for the table
    followed: np.ndarray  # whether its factor has shifted for sure
    apart: Shifts  # of what no factor has
    states: States
    moves: float  # the third largest shift of one within a side, logarithm; 0: none lasts
    like_states: np.ndarray  # whether it shifted by as much as states of others are apart that last


def evidence(
    before: np.ndarray,
    after: np.ndarray,
    kernels: np.ndarray,
    ratios: np.ndarray,
    times: Times | None = None,
) -> tuple[MetricShifts, list[Shared]]:
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
    shared = shifts(series[:, :count], series[:, count:], times, WHOLE)
    findings, sure = _findings(shared, owners)
    noise = costs - series[group]
    (apart, split), moves = _own_shifts(noise, count, times), _moves(noise, count)
    followed, estimate = sure[group], apart.estimate + shared.estimate[group]
    half = np.hypot(apart.half_width, shared.half_width[group])
    error = np.hypot(apart.error, shared.error[group])
    p = np.where(followed, 2 * scipy.special.stdtr(apart.df, -np.abs(estimate) / error), apart.p)
    covered = followed & (np.abs(apart.estimate) <= apart.half_width)
    alike = like_states(apart.estimate, lasting_gaps(split, np.isfinite(noise)))
    interval = estimate - half, estimate + half
    table = MetricShifts(estimate, *interval, p, followed, apart, split, moves, alike)
    explained = []
    for number in findings:
        beside_others = ~ratios & ~np.isin(group, findings[findings > 0])
        mine = beside_others if owners[number] == ALL else group == number
        shift = float(shared.estimate[number]), float(shared.half_width[number])
        explained.append(Shared(owners[number], *shift, np.flatnonzero(mine & covered)))
    return table, explained


def factors(residuals: np.ndarray, kernels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns what the metrics of a night share: the session factor, [nights], and that of each
    kernel beside it, [kernels, nights]; logarithms. A kernel of few metrics has none (0), nor have
    sessions of fewer than three other kernels. NaN: nothing was measured.

    `residuals` are logarithms of costs less a level per metric, [metrics, nights]; NaN: missing.
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


def _findings(common: Shifts, owners: list[int | None]) -> tuple[np.ndarray, np.ndarray]:
    """Returns which shared shifts are findings, by their numbers, and which are sure, [series].

    All kernels are slower if most are, and by what most are at least. A kernel is, if it is by more
    than that.
    """
    kernel = np.array([owner is not None and owner != ALL for owner in owners])
    by = np.sort(common.estimate[kernel])
    left = int(len(by) * (1 - LIMITS.most_kernels))
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


def _own_shifts(costs: np.ndarray, count: int, times: Times | None) -> tuple[Shifts, States]:
    """The shifts of what is the metrics' own. Of one with two states, either its levels shifted,
    or the share of its nights in the slower one."""
    split = states(costs, count)
    whole = shifts(costs[:, :count], costs[:, count:], times)
    if not split.two.any():
        return whole, split
    level = costs - split.slow * split.gap[:, None]
    level = shifts(level[:, :count], level[:, count:], times)
    share = np.maximum(split.p, whole.p)
    by_share = split.two & (share < np.maximum(level.p, LIMITS.share_chance))
    p = np.where(split.two, np.minimum(1, 2 * np.minimum(level.p, share)), level.p)
    parts = zip(vars(whole).values(), vars(level).values(), strict=True)
    return replace(Shifts(*(np.where(by_share, *pair) for pair in parts)), p=p), split


def _moves(noise: np.ndarray, count: int) -> float:
    """The third largest shift of a metric's own between earlier and later nights of one side: one
    or two metrics that changed there say nothing about others. 0 if nights resemble the nights
    before them no more than in any other order: then none lasts."""
    rest, longest = noise.shape[1] - count, max(count, noise.shape[1] - count)
    series = np.full((2 * len(noise), longest), np.nan)
    series[: len(noise), :count], series[len(noise) :, :rest] = np.split(noise, [count], axis=1)
    away = series - np.nanmean(series, axis=1, keepdims=True)
    pairs, squares = away[:, 1:] * away[:, :-1], np.nansum(away**2, axis=1)
    known, beside = (np.isfinite(values).sum(axis=1) for values in (away, pairs))
    alike = np.nansum(pairs, axis=1) / np.maximum(squares, SAME**2) + beside / known / (known - 1)
    alike = alike[squares > SAME**2]
    if alike.sum() <= 2 * np.sqrt((alike**2).sum()):
        return 0.0
    later = np.isfinite(series[:, longest // 2 :]).sum(axis=1)
    seen, _ = _own_shifts(series[np.minimum(later, known - later) >= 2], longest // 2, None)
    moved = np.sort(np.abs(seen.estimate[seen.p <= LIMITS.side_chance]))
    return float(moved[-LIMITS.several_metrics]) if len(moved) >= LIMITS.several_metrics else 0.0


def lasting_gaps(split: States, known: np.ndarray) -> np.ndarray:
    """How far apart the states of each metric are that last; 0 if its own do not, or those of the
    table: they change less often from night to night than those of independent nights."""
    both = known[:, 1:] & known[:, :-1]
    share = split.slow.sum(axis=1) / np.maximum(known.sum(axis=1), 1)
    changes = (np.diff(split.slow, axis=1) & both).sum(axis=1)
    by_chance = 2 * share * (1 - share) * both.sum(axis=1)
    fewer = (by_chance - changes)[split.two].sum()
    last = split.two & (changes >= LIMITS.state_changes)
    last &= changes < LIMITS.states_last * by_chance
    last &= fewer > LIMITS.states_surely * np.sqrt(by_chance[split.two].sum())
    return np.where(last, split.gap, 0)


def like_states(steps: np.ndarray, gaps: np.ndarray) -> np.ndarray:
    """Whether each step is as large as the states of several metrics, and of a part of the table,
    are apart: a few of thousands say nothing about others. `gaps` are as of lasting_gaps()."""
    apart = np.log(np.maximum(gaps, SAME)) - np.log(np.maximum(np.abs(steps), SAME))[..., None]
    alike = ((np.abs(apart) < LIMITS.states_alike) & (gaps > 0)).sum(axis=-1)
    return alike >= max(LIMITS.several_metrics, LIMITS.several_part * len(gaps))


def states(values: np.ndarray, nights: int) -> States:
    """The states of the metrics of a table. The values of both sides are cut in two where the
    squared distances from both means are least. The parts are states if they are far apart, each is
    compact, and one side has both. `values` are logarithms of costs, [metrics, nights of both
    sides], NaN where there is none; `nights` are of the first side."""
    fewest, least_gap = LIMITS.state_values, np.log1p(LIMITS.states_gap)
    known = np.isfinite(values)
    middle = medians(values, 1)[:, None]
    ranked = np.sort(values - middle, axis=1)
    sums, squares = (np.cumsum(np.nan_to_num(ranked) ** power, axis=1) for power in (1, 2))
    below = np.arange(1, values.shape[1])  # values below a cut
    above = known.sum(axis=1, keepdims=True) - below
    with np.errstate(all="ignore"):
        means = sums[:, :-1] / below, (sums[:, -1:] - sums[:, :-1]) / above
        low = squares[:, :-1] - below * means[0] ** 2
        high = squares[:, -1:] - squares[:, :-1] - above * means[1] ** 2
        fits = (below >= fewest) & (above >= fewest)
        best = np.where(fits, low + high, np.inf).argmin(axis=1)[:, None]

        def there(table: np.ndarray) -> np.ndarray:
            return np.take_along_axis(table, best, axis=1)[:, 0]

        widest = np.maximum(there(low / (below - 1)), there(high / (above - 1)))
        gap = there(means[1]) - there(means[0])
        least = np.maximum(LIMITS.states_apart * np.sqrt(np.maximum(widest, 0)), least_gap)
        two = there(fits) & (gap > least)
    slow = known & (values - middle > there(ranked[:, :-1])[:, None])
    sides = slice(None, nights), slice(nights, None)
    hits, of = (np.array([x[:, side].sum(axis=1) for side in sides]) for x in (slow, known))
    fewest //= 2
    two &= ((hits >= fewest) & (of - hits >= fewest)).any(axis=0)
    p = np.ones(len(two))
    if two.any():
        urn = scipy.stats.hypergeom(of.sum(axis=0)[two], hits.sum(axis=0)[two], of[1, two])
        rarer = np.minimum(urn.sf(hits[1, two] - 1), urn.cdf(hits[1, two]))
        p[two] = np.minimum(2 * rarer, 1)
    return States(two, slow & two[:, None], np.where(two, gap, 0), hits / np.maximum(of, 1), p)
