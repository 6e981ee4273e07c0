"""Evidence of changes of level, accumulated over nights, for all series of a table at once.

A step is found by the generalised likelihood ratio: the difference of two parts of a series in
units of its noise, the largest of all ways to part it. README.md, "Changes over many nights", lists
what makes this hold for real nights: normal scores, prewhitening, the scatter of longer means, and
ranks. A series of no table of many, such as the level of all metrics, is judged by its ranks alone.
"""

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.statistics import medians, scale
from bisection.core.thresholds import LIMITS

ASSUMED = (0.3, 0.3)  # correlation from night to night where no table shows it: mean, deviation
UPPER = 1.64  # deviations above the expected correlation that a series is taken to have
STEPS, PULSES = 0.9, 0.1  # of the chance: for one change of level; for one that was taken back
ROUNDS = 6  # of changes found in what remains


@dataclass
class Shift:
    """Where a series has a new level. Indices are of nights that the series has."""

    start: int  # the first night of the new level
    left: int  # the first night of the level before
    right: int  # the first night after the new level
    chance: float  # of so much evidence in a table without a change, over the one asked for


@dataclass
class Findings:
    """The findings in one series."""

    shifts: list[Shift] = field(default_factory=list)
    drift: float | None = None  # logarithm per night, where a line explains more than levels
    correlation: float = 0.0  # from night to night, that was taken


def look(series: np.ndarray, chance: float, table: bool) -> list[Findings]:
    """Looks for changes of level and for drift in series that belong together.

    Args:
        series: logarithms, [series, nights]; NaN: missing.
        chance: that any of the series has a change by chance.
        table: whether the series are of one table, and show together how nights vary.
    """
    findings = [Findings() for _ in series]
    order = np.argsort(np.isnan(series), axis=1, kind="stable")
    packed = np.take_along_axis(series, order, axis=1)  # NaN behind the last night
    counts = (~np.isnan(packed)).sum(axis=1)
    varies = np.nanmax(packed, 1, initial=-np.inf) > np.nanmin(packed, 1, initial=np.inf)
    rows = np.flatnonzero((counts >= 2 * LIMITS.level) & varies)
    if not len(rows):
        return findings
    rest, counts = packed[rows], counts[rows]
    table = table and len(rows) >= LIMITS.table
    starts: list[dict[int, float]] = [{} for _ in rows]  # of each row: start -> chance
    drifts: dict[int, float] = {}
    pending = [(row, 0, count) for row, count in enumerate(counts)]
    for turn in range(ROUNDS):
        noise = _whitened(rest, table)
        hits = _scan(noise, pending, math.log(chance / len(rows)))
        if turn == 0:
            correlations = noise.correlation
        pending = []
        for (row, low, high), cuts, log_chance in hits:
            if (low, high) == (0, counts[row]) and row not in drifts:
                slope = _slope(packed[rows[row], :high], cuts, correlations[row])
                if slope is not None:
                    drifts[row] = slope
                    rest[row, :high] -= slope * np.arange(high)
                    pending.append((row, low, high))
                    continue
            starts[row] |= dict.fromkeys(cuts, math.exp(min(0.0, log_chance)))
            for a, b in itertools.pairwise([low, *cuts, high]):
                rest[row, a:b] -= np.median(rest[row, a:b])
                pending.append((row, a, b))
        if not hits:
            break
        if table:  # the others stand out more, once these do not spoil how the table looks
            touched = drifts.keys() | {row for row, cuts in enumerate(starts) if cuts}
            pending += [(r, 0, counts[r]) for r in range(len(rows)) if r not in touched]
    for row, place in enumerate(rows):
        values = packed[place, : counts[row]] - drifts.get(row, 0.0) * np.arange(counts[row])
        shifts = _levels(values, starts[row])
        findings[place] = Findings(shifts, drifts.get(row), float(correlations[row]))
    return findings


# ---- noise ----


@dataclass
class _Noise:
    """Series as independent normal noise of deviation 1, as far as they have no change."""

    values: np.ndarray  # [series, nights - 1]: what each night has beside the night before
    correlation: np.ndarray  # [series]
    uncertain: float  # standard deviation of the logarithm of a series' own scale
    table: bool


def _whitened(series: np.ndarray, table: bool) -> _Noise:
    scores, first = _normal(series) if table else (_row_scores(_around_levels(series)), 0.0)
    correlation = _correlation(scores, table)
    values = scores if table else series  # ranks by themselves would make all steps alike
    fresh = values[:, 1:] - correlation[:, None] * values[:, :-1]
    values, second = _normal(fresh) if table else (_row_scores(fresh), 0.0)
    by_nights = math.sqrt(1.2 / max(series.shape[1], 1))  # no worse than by its own nights
    return _Noise(values, correlation, min(max(first, second), by_nights), table)


def _row_scores(series: np.ndarray) -> np.ndarray:
    """Normal scores (van der Waerden) of each series by itself."""
    ranks = scipy.stats.rankdata(series, axis=1, nan_policy="omit")
    return scipy.special.ndtri((ranks - 0.5) / (~np.isnan(series)).sum(axis=1, keepdims=True))


def _normal(series: np.ndarray) -> tuple[np.ndarray, float]:
    """Normal scores by the distribution of all values of the table, each series in its own scale;
    and how uncertain the logarithm of that scale is."""
    scales, uncertain = _shrunk(
        lambda part: np.log(np.maximum(_mean(_ordinary(np.diff(part, axis=1))), 1e-12)), series
    )
    scaled = (series - medians(series, 1)[:, None]) * np.exp(-scales)[:, None]
    known = ~np.isnan(scaled)
    scores = np.full(series.shape, np.nan)
    places = np.argsort(np.argsort(scaled[known], kind="stable"))
    scores[known] = scipy.special.ndtri((places + 0.5) / known.sum())
    return scores, uncertain


def _correlation(scores: np.ndarray, table: bool) -> np.ndarray:
    """Returns what each series keeps from night to night: 0 to 0.95. The mean squares of
    differences over two nights and over one show it, which levels and drift hardly touch."""

    def squares(part: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        two_nights = _mean(_ordinary(part[:, 2:] - part[:, :-2]) ** 2)
        return two_nights, np.maximum(_mean(_ordinary(np.diff(part, axis=1)) ** 2), 1e-12)

    two_nights, one_night = squares(scores)
    alone = two_nights / one_night - 1
    if table:
        expected, deviation = _shrunk(lambda part: np.divide(*squares(part)) - 1, scores)
        expected += np.nansum(two_nights) / np.nansum(one_night) - 1 - np.nanmedian(alone)
    else:
        count = np.maximum((~np.isnan(scores)).sum(axis=1), 4)
        near = _mean(scores[:, 1:] * scores[:, :-1]) / np.maximum(_mean(scores**2), 1e-12)
        alone = (alone + near + (1 + 4 * near) / count) / 2  # Kendall's bias (1954)
        weight = ASSUMED[1] ** 2 / (ASSUMED[1] ** 2 + 1.5 / count)
        expected = ASSUMED[0] + weight * (alone - ASSUMED[0])
        deviation = ASSUMED[1] * np.sqrt(1 - weight)
    return np.clip(expected + UPPER * deviation, 0.0, 0.95)


def _around_levels(series: np.ndarray) -> np.ndarray:
    """Series less the medians before and after the night where the ranks differ most, or less a
    line, whichever is nearer."""
    around = series.copy()
    for row, values in enumerate(series):
        part = values[~np.isnan(values)]
        count = len(part)
        places = np.arange(LIMITS.level, count - LIMITS.level + 1)
        share = places / count
        ranks = np.cumsum(scipy.stats.rankdata(part) - (count + 1) / 2)[places - 1]
        cut = places[np.abs(ranks / np.sqrt(share * (1 - share))).argmax()]
        levels = np.where(np.arange(count) < cut, np.median(part[:cut]), np.median(part[cut:]))
        line = np.polyval(np.polyfit(np.arange(count), part, 1), np.arange(count))
        around[row, :count] -= min(levels, line, key=lambda fit: np.abs(part - fit).sum())
    return around


def _ordinary(differences: np.ndarray) -> np.ndarray:
    """Sizes of differences without those of a step: NaN where they are beyond 3 deviations."""
    sizes = np.abs(differences)
    return np.where(sizes <= 4.45 * medians(sizes, 1)[:, None], sizes, np.nan)


def _mean(values: np.ndarray) -> np.ndarray:
    """Means over nights; NaN where there are none."""
    known = (~np.isnan(values)).sum(axis=1)
    return np.where(known > 0, np.nansum(values, axis=1) / np.maximum(known, 1), np.nan)


def _shrunk(
    estimate: Callable[[np.ndarray], np.ndarray], series: np.ndarray
) -> tuple[np.ndarray, float]:
    """Estimates of series, [series, nights], shrunk towards their median as far as they are noise
    (empirical Bayes): what both halves of the nights have in common is none.

    Returns:
        The estimates, [series], and the standard deviation of what is left unknown.
    """
    middle = series.shape[1] // 2
    whole, first, second = map(estimate, (series, series[:, :middle], series[:, middle:]))
    usable = np.isfinite(whole) & np.isfinite(first) & np.isfinite(second)
    middle = np.median(whole[usable]) if usable.any() else 0.0
    whole = np.where(np.isfinite(whole), whole, middle)
    if usable.sum() < LIMITS.table:
        return whole, 0.3
    first, second = first[usable], second[usable]
    chance = 1.5 * first.std() * second.std() / math.sqrt(len(first))
    real = max(0.0, float(np.cov(first, second)[0, 1]) - chance)
    noise = max(float(whole[usable].var()) - real, 1e-9)
    weight = real / (real + noise)
    return middle + weight * (whole - middle), math.sqrt(real * (1 - weight))


# ---- scanning ----

_Piece = tuple[int, int, int]  # series, its first night, the night after its last


def _lengths(nights: int) -> list[int]:
    """Nights of the parts that are compared with all others: 5, 6, 7, 8, 9, 11, ..."""
    lengths, length = [], 5.0
    while length <= nights - 2 * LIMITS.level:
        lengths.append(int(length))
        length = max(length + 1, length * 1.2)
    return lengths


def _scan(
    noise: _Noise, pieces: list[_Piece], least: float
) -> list[tuple[_Piece, list[int], float]]:
    """The pieces of series that have a change.

    Args:
        noise: the series.
        pieces: of them, to look at.
        least: logarithm of the chance of one series that makes it a change.

    Returns:
        Each with the nights at which a level begins, and the logarithm of its chance over `least`.
    """
    level = LIMITS.level
    pieces = [(row, low, high) for row, low, high in pieces if high - low - 1 >= 2 * level]
    if not pieces:
        return []
    widths = np.array([high - low - 1 for _, low, high in pieces])  # nights with one before
    longest = int(widths.max())
    sums = np.zeros((len(pieces), longest + 1))
    for index, (row, low, high) in enumerate(pieces):
        np.cumsum(noise.values[row, low : high - 1], out=sums[index, 1 : high - low])
        sums[index, high - low :] = sums[index, high - low - 1]

    def strongest(
        parts: np.ndarray, last: np.ndarray, length: int | np.ndarray, wider: float | np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """The part of each piece that is most unlike the others, and by how many deviations.

        Args:
            parts: sums over so many nights, [pieces, parts], up to the night `last`.
            wider: by how much such sums scatter wider.
        """
        share = length / widths[:, None]
        with np.errstate(all="ignore"):
            off = np.abs(parts - share * sums[:, -1:])
            off /= np.sqrt(share * (1 - share) * widths[:, None])
        strength = np.where(last <= widths[:, None] - level, off, 0) / wider
        return strength.argmax(axis=1), strength.max(axis=1)

    scatter = _wider(noise.values) if noise.table else ([0], [1.0])
    best, ends = np.zeros(len(pieces)), np.zeros((len(pieces), 2), int)
    for length in _lengths(longest):
        last = np.arange(level + length, longest - level + 1)
        parts = sums[:, last] - sums[:, last - length]
        place, largest = strongest(parts, last, length, np.interp(length, *scatter))
        more = largest > best
        best[more] = largest[more]
        ends[more] = np.stack([place, place + length], axis=1)[more] + level
    places = np.arange(level, longest - level + 1)
    wider = np.interp(np.minimum(places, np.abs(longest - places)), *scatter)
    place, single = strongest(sums[:, places], places, places, wider)
    trials = np.log([3 * np.sqrt(widths) / STEPS, 5 * widths / PULSES])
    strengths = np.array([single, best])
    logs = trials + scipy.special.log_ndtr(-strengths)  # one-sided: only what is worse is an alarm
    if noise.uncertain >= 0.01:
        logs = trials + scipy.stats.t.logsf(strengths, 1 / (2 * noise.uncertain**2))
    kind = logs.argmin(axis=0)  # 0: a step, 1: a pulse
    ends = np.where(kind, ends.T, [places[place], widths])
    # Few series are judged by their ranks alone, which few nights can give a small chance.
    worth = logs.min(axis=0) <= least if noise.table else np.maximum(single, best) > 2.5
    hits = []
    for index in np.flatnonzero(worth):
        row, low, high = pieces[index]
        first, middle, last = np.split(noise.values[row, low : high - 1], ends[:, index])
        sides = middle, np.concatenate([first, last])
        method = "exact" if min(map(len, sides)) <= 10 else "asymptotic"
        ranks = scipy.stats.mannwhitneyu(*sides, method=method).pvalue / 2  # one-sided
        log_chance = logs[kind[index], index]
        if not noise.table:
            log_chance = math.log(max(ranks, 1e-300)) + trials[kind[index], index]
        elif ranks > LIMITS.rank_chance:
            continue
        if log_chance <= least:
            cuts = [int(end) + low + 1 for end in ends[:, index] if end + low + 1 < high]
            hits.append((pieces[index], cuts, log_chance - least))
    return hits


def _wider(values: np.ndarray) -> tuple[list[int], list[float]]:
    """How much further means of several nights scatter over a table than independent nights would.

    Args:
        values: series of deviation 1, [series, nights].

    Returns:
        Numbers of nights, and at least 1 for each; 1 for any where there are too few nights.
    """
    nights = values.shape[1]
    if not _lengths(nights):
        return [0], [1.0]
    excess = _scatter(np.nan_to_num(values)) / _independent(nights) - 2.3 / math.sqrt(len(values))
    return _lengths(nights), np.maximum(excess, 1.0).tolist()


@functools.cache
def _independent(nights: int) -> np.ndarray:
    return _scatter(np.random.default_rng(nights).normal(size=(1000, nights)))


def _scatter(values: np.ndarray) -> np.ndarray:
    """The median size of means of 5, 6, ... nights, of series without the largest step of each: a
    night in which most metrics changed is no noise."""
    count, nights = values.shape
    places = np.arange(LIMITS.level, nights - LIMITS.level + 1)
    sums = np.cumsum(values, axis=1)
    left = sums[:, places - 1] - sums[:, -1:] * places / nights
    cut = places[np.abs(left / np.sqrt(places * (nights - places))).argmax(axis=1)][:, None]
    first = np.take_along_axis(sums, cut - 1, axis=1)
    before = np.arange(nights) < cut
    clear = values - np.where(before, first / cut, (sums[:, -1:] - first) / (nights - cut))
    sums = np.concatenate([np.zeros((count, 1)), np.cumsum(clear, axis=1)], axis=1)
    return np.array(
        [np.median(np.abs(sums[:, n:] - sums[:, :-n])) / math.sqrt(n) for n in _lengths(nights)]
    )


# ---- levels, drift, nights ----


def _levels(values: np.ndarray, starts: dict[int, float]) -> list[Shift]:
    """The changes between levels that differ by more than the least step of interest."""
    cuts, least = sorted(starts), math.log1p(LIMITS.step)
    while cuts and (sizes := np.abs(np.diff(_medians(values, cuts)))).min() < least:
        del cuts[sizes.argmin()]
    ends = [0, *cuts, len(values)]
    parts = zip(ends, cuts, ends[2:], strict=False)
    return [Shift(middle, left, right, starts[middle]) for left, middle, right in parts]


def _medians(values: np.ndarray, cuts: list[int]) -> np.ndarray:
    """The levels of the parts of a series."""
    return np.array([np.median(part) for part in np.split(values, cuts)])


def _clipped(values: np.ndarray, cuts: list[int]) -> np.ndarray:
    """Values with those far from all levels, of parts of the series, moved nearer."""
    levels = _medians(values, cuts)
    nearest = levels[np.abs(values[:, None] - levels).argmin(axis=1)]
    return nearest + _near(values - nearest)


def _near(off: np.ndarray) -> np.ndarray:
    """Distances, those beyond three standard deviations cut to that."""
    bound = 3 * max(float(scale(off)), 1e-12)
    return np.clip(off, -bound, bound)


def _slope(values: np.ndarray, cuts: list[int], correlation: float) -> float | None:
    """The drift per night if a line explains a series better than these levels; else None."""
    nights = len(values)
    time = np.arange(nights)
    levels = np.searchsorted(cuts, time, side="right") == np.arange(len(cuts) + 1)[:, None]
    line = np.stack([np.ones(nights), time])
    costs = []
    for parts in (levels, line):
        clear = values if parts is line else _clipped(values, cuts)
        target = clear[1:] - correlation * clear[:-1]
        design = (parts[:, 1:] - correlation * parts[:, :-1]).T
        weights, *_ = np.linalg.lstsq(design, target, rcond=None)
        costs.append(float((_near(target - design @ weights) ** 2).sum()))
    more = 2 * (len(cuts) - 1) * math.log(nights)  # parameters, of a level that was taken back
    line_cost, level_cost = (nights * math.log(cost + 1e-300) for cost in costs[::-1])
    return float(weights[1]) if line_cost < level_cost + more else None


def odds(values: np.ndarray, shift: Shift, correlation: float) -> np.ndarray:
    """How probable it is that a level began in each night.

    Args:
        values: logarithms of one series without missing nights.
        shift: a change of level in it.
        correlation: from night to night.

    Returns:
        The logarithm of the likelihood of each night of `values`; -inf outside of both levels.
    """
    logs = np.full(len(values), -np.inf)
    part = _clipped(values[shift.left : shift.right], [shift.start - shift.left])
    count = len(part)
    time = np.arange(count)
    target = part[1:] - correlation * part[:-1]
    first = np.arange(2, count - 1)
    after = (time[None, :] >= first[:, None]).astype(float)  # [starts, nights]
    step = after[:, 1:] - correlation * after[:, :-1]
    step -= step.mean(axis=1, keepdims=True)
    target = target - target.mean()
    gain = (step @ target) ** 2 / np.maximum((step**2).sum(axis=1), 1e-12)
    rest = np.maximum((target**2).sum() - gain, 1e-12 * max((target**2).sum(), 1e-30))
    logs[shift.left + first] = -0.5 * (count - 3) * np.log(rest)
    return logs - logs.max()
