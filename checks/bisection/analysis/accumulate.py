"""Evidence of changes of level, accumulated over nights, for all series of a table at once.

A step is found by the generalised likelihood ratio: the difference of two parts of a series in
units of its noise, the largest of all ways to part it. README.md, "Changes over many nights", lists
what makes this hold for real nights: scale, tails and correlation of each metric's own, and ranks.
A series of no table of many, such as the level of all metrics, is judged by its ranks alone.
"""

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.shared_factors import lasting_gaps, like_states, states
from bisection.analysis.shifts import PRIOR, RHOS, mean, posterior
from bisection.analysis.statistics import Pool, medians, scale
from bisection.core.thresholds import LIMITS

TAILS = np.array([2.0, 3, 4, 6, 10, 20, 100])  # degrees of freedom of Student's t
TINY = 1e-12  # a standard deviation
YEAR = 365.0  # nights
ROUNDS, ROUNDS_OF_SCALE = 6, 8  # of changes found in what remains; of a scale


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


def look(
    series: np.ndarray,
    chance: float,
    table: bool,
    repeats: np.ndarray | None = None,
    ticks: np.ndarray | None = None,
) -> list[Findings]:
    """Looks for changes of level and for drift in series that belong together.

    Args:
        series: logarithms, [series, nights]; NaN: missing.
        chance: that any of the series has a change by chance.
        table: whether the series are of one table, and show together how nights vary.
        repeats: of how many launches each value is the mean, and the sum of squares that the
            launches after the first are off their own mean by, [2, series, nights]; None: one each.
        ticks: the least distance of two unequal values of each series, [series]; None: 0.
    """
    findings = [Findings() for _ in series]
    rows, packed, counts, variance = _packed(series, repeats)
    if not len(rows):
        return findings
    ticks = np.zeros(len(rows)) if ticks is None else ticks[rows]
    rest = packed.copy()
    table = table and len(rows) >= LIMITS.table
    starts: list[dict[int, float]] = [{} for _ in rows]  # of each row: start -> chance
    drifts: dict[int, float] = {}
    pending = [(row, 0, count) for row, count in enumerate(counts)]
    # The newest nights, where they were repeated, may be of a new level that is too short to be
    # told from tails.
    age, repeated = _age(packed), variance < 1
    new, before = age < LIMITS.level, age == LIMITS.level
    new &= (new & repeated).any(axis=1)[:, None] & ~(before & repeated).any(axis=1)[:, None]
    known = ~np.isnan(rest)
    gaps = lasting_gaps(states(rest, rest.shape[1]), known) if table else np.zeros(len(rest))
    for round_number in range(ROUNDS):
        noise = _whitened(rest, table, variance, new, ticks)
        hits = _scan(noise, rest, gaps, pending, math.log(chance / len(rows)))
        if round_number == 0:
            correlations = noise.correlation
        pending = []
        for (row, low, high), cuts, log_chance in hits:
            if (low, high) == (0, counts[row]) and row not in drifts:
                slope = _slope(packed[row, :high], cuts, correlations[row])
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
        values = packed[row, : counts[row]] - drifts.get(row, 0.0) * np.arange(counts[row])
        shifts = _levels(values, starts[row])
        findings[place] = Findings(shifts, drifts.get(row), float(correlations[row]))
    return findings


def newest(series: np.ndarray, repeats: np.ndarray | None, ticks: np.ndarray) -> np.ndarray:
    """The standard errors by which the mean of the newest nights of each series, at most four, is
    above its usual level: the most of them; -inf where too little is known. Arguments as of look().
    """
    errors = np.full(len(series), -np.inf)
    rows, packed, counts, variance = _packed(series, repeats)
    if len(rows):
        noise = _whitened(packed, True, variance, _age(packed) < LIMITS.level, ticks[rows])
        last = counts[:, None] - 2 - np.arange(LIMITS.level)
        scores, weights = (
            np.take_along_axis(part, last, axis=1) for part in (noise.values, noise.weights)
        )
        means = np.cumsum(scores * np.sqrt(weights), axis=1) / np.sqrt(np.cumsum(weights, axis=1))
        errors[rows] = means.max(axis=1)
    return errors


def _packed(
    series: np.ndarray, repeats: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The series that vary and have nights enough, by their numbers; these, with NaN behind their
    last night; how many nights each has; the variances of these."""
    order = np.argsort(np.isnan(series), axis=1, kind="stable")
    packed, counts = np.take_along_axis(series, order, axis=1), (~np.isnan(series)).sum(axis=1)
    varies = np.nanmax(packed, 1, initial=-np.inf) > np.nanmin(packed, 1, initial=np.inf)
    rows = np.flatnonzero((counts >= 2 * LIMITS.level) & varies)
    if repeats is not None:
        repeats = np.take_along_axis(repeats, order[None], axis=2)[:, rows]
    return rows, packed[rows], counts[rows], _variances(packed[rows], repeats)


def _age(packed: np.ndarray) -> np.ndarray:
    """Which night of its series each is, from the newest on: 1, 2, ...; [series, nights]."""
    return (~np.isnan(packed))[:, ::-1].cumsum(axis=1)[:, ::-1]


# ---- noise ----


@dataclass
class _Noise:
    """Series as independent normal noise of deviation 1, as far as they have no change."""

    correlation: np.ndarray  # [series]
    values: np.ndarray  # [series, nights - 1]: what each night has beside the night before
    weights: np.ndarray  # 1 / the variance of each, in units of that of a night of one launch
    df: np.ndarray  # degrees of freedom of each scale, [series]
    tail: np.ndarray  # degrees of freedom of Student's t of the nights, [series]
    plain: np.ndarray  # the same in units of the scale, with the tails that the series has
    by_ranks: bool


def _whitened(
    series: np.ndarray, table: bool, variance: np.ndarray, new: np.ndarray, ticks: np.ndarray
) -> _Noise:
    """`new` nights do not say what is usual."""
    correlation = _correlation(np.where(new, np.nan, series), table)
    like = correlation[:, None]
    fresh = series[:, 1:] - like * series[:, :-1]
    if table:
        weights = (1 + like**2) / (variance[:, 1:] + like**2 * variance[:, :-1])
        scores, df, tail, plain = _own_scores(
            fresh * np.sqrt(weights), new[:, 1:], ticks * np.sqrt(1 + correlation**2)
        )
        scores /= np.sqrt(_lasting(like))
        return _Noise(correlation, scores, weights, df, tail, plain, by_ranks=False)
    ranks = scipy.stats.rankdata(fresh, axis=1, nan_policy="omit") - 0.5
    scores = scipy.special.ndtri(ranks / (~np.isnan(fresh)).sum(axis=1, keepdims=True))
    many = np.full(len(series), np.inf)
    return _Noise(correlation, scores, np.ones(fresh.shape), many, many, fresh, by_ranks=True)


def _lasting(rho: float | np.ndarray) -> float | np.ndarray:
    """The variance of means of nights by that of AR(1): beside white noise or states, levels wander
    longer than their correlation with the night before says. Chosen by simulation."""
    return 1 + LIMITS.wander * rho * np.maximum(LIMITS.wander_below - rho, 0)


def _variances(series: np.ndarray, repeats: np.ndarray | None) -> np.ndarray:
    """The variance of each night's value, in units of that of one launch. What part of it differs
    between launches of a night, repeated nights show: those of the series, and of all.
    `series` are logarithms, NaN behind the last; `repeats` as in look()."""
    if repeats is None or (repeats[0] == 1).all():
        return np.ones(series.shape)
    launches, squares = repeats
    off = np.where(launches > 1, np.nan, _clear(series))
    single = (~np.isnan(off)).sum(axis=1)
    own_variance = np.maximum(np.nansum(off**2, axis=1) / np.maximum(single, 1), TINY**2)
    df, size = np.maximum(launches - 2, 0).sum(axis=1), squares.sum(axis=1) / own_variance
    pool, most = LIMITS.launch_pool, LIMITS.launch_most
    usual = (LIMITS.launch_part * pool + np.minimum(size, df).sum()) / (pool + df.sum())
    part = np.minimum((usual * pool + size) / (pool + df), most)
    # Ticks of a clock, most of whose values are alike, do not say how much others vary.
    part[(single < 2 * LIMITS.level) | ((off == 0).sum(axis=1) > single / 2)] = 0
    return 1 - part[:, None] * (1 - 1 / launches)


def _own_scores(series: np.ndarray, new: np.ndarray, ticks: np.ndarray) -> tuple[np.ndarray, ...]:
    """Normal scores of each series by the Student's t of its own nights, drawn towards those of the
    table as far as they are alike; the degrees of freedom of their scale, and of Student's t; and
    the distances from the usual level, in units of the scale."""
    off = series - medians(series, 1)[:, None]
    clear = _clear(np.where(new, np.nan, off))
    count = np.maximum((~np.isnan(clear)).sum(axis=1), 1)
    # A value is known to half a tick (Sheppard 1898). Where most values are equal, the scale would
    # be far below a tick, and some values one tick off a change.
    squares = np.nan_to_num(np.maximum(clear**2, ticks[:, None] ** 2 / 12))
    spread = _spread(clear)
    least = spread**2 / 10
    scales, logs = [], []
    for tail in TAILS:
        size = spread**2
        for _ in range(ROUNDS_OF_SCALE):
            weights = (tail + 1) / (tail + squares / size[:, None])
            size = np.maximum((weights * squares).sum(axis=1) / count, least)
        far = np.log1p(squares / (tail * size[:, None])).sum(axis=1)
        gamma = scipy.special.gammaln([(tail + 1) / 2, tail / 2]) @ [1, -1]
        logs.append(count * (gamma - np.log(tail * size) / 2) - (tail + 1) / 2 * far)
        scales.append(np.log(size))
    chances = posterior(np.array(logs).T, np.ones(len(TAILS)))
    tail = (1 / (chances @ (1 / TAILS)))[:, None]
    df = np.maximum(count - 2.0, 1.0)
    own_variance = np.exp((chances.T * scales).sum(axis=0)) * count / df
    pool = Pool(own_variance, df)
    size = pool.sigma(own_variance, df, quiet=LIMITS.unlike_variance) ** 2
    df += np.where(np.isclose(size, own_variance), 0, min(pool.prior, LIMITS.scale_pool))
    scores = np.sign(off) * np.sqrt(tail * np.log1p(off**2 / (tail * size[:, None])))
    # Wallace 1959
    return scores * (8 * tail + 1) / (8 * tail + 3), df, tail[:, 0], off / np.sqrt(size)[:, None]


def _correlation(series: np.ndarray, table: bool) -> np.ndarray:
    """Returns what each series may keep from night to night at most. Series of a table are alike;
    of others, most keep little."""
    clear = _clear(series)
    bound = LIMITS.noise_cut * _spread(clear)[:, None]
    clear = np.clip(clear, -bound, bound)
    df = np.maximum((~np.isnan(series)).sum(axis=1) - 2, 1)
    logs = []
    for rho in RHOS:
        _, worth, squares, log = mean(clear, np.ones(series.shape), rho)
        logs.append(-(log + np.log(worth) + df * np.log(np.maximum(squares, TINY))) / 2)
    chances = posterior(np.array(logs).T, PRIOR, learns=table)
    number = (np.cumsum(chances, axis=1) < LIMITS.correlation_chance).sum(axis=1)
    return RHOS[number.clip(max=len(RHOS) - 1)]


def _clear(series: np.ndarray) -> np.ndarray:
    """Series less the medians before and after the night where they differ most, and a second such
    night if these differ much; or less a line, if that is nearer."""
    off = series - medians(series, 1)[:, None]
    count, time = (~np.isnan(off)).sum(axis=1)[:, None], np.arange(off.shape[1])
    first, _ = _cut(off, count, np.zeros_like(count))
    by_levels = off - _levels_at(off, time >= first)
    second, sure = _cut(by_levels, count, first)
    parts = (time >= first) + (sure & (time >= second)).astype(int)
    by_levels = off - _levels_at(off, parts)
    ahead = np.where(time < count, time - (count - 1) / 2, 0)
    slope = np.nansum(ahead * off, axis=1) / np.maximum((ahead**2).sum(axis=1), 1)
    by_line = off - slope[:, None] * ahead
    by_line -= medians(by_line, 1)[:, None]
    sizes = [np.nansum(np.abs(beside), axis=1)[:, None] for beside in (by_line, by_levels)]
    return np.where(sizes[0] < sizes[1], by_line, by_levels)


def _cut(off: np.ndarray, count: np.ndarray, first: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The night where the values before and after differ most, and whether they do for sure; each
    [series, 1]. Both are of the nights before `first`, or of those since: a level that was taken
    back differs from what is after it alone."""
    level = LIMITS.level
    places = np.arange(level, off.shape[1] - level + 1)
    if not len(places):
        return np.zeros_like(count), np.zeros_like(count, bool)
    sums = np.zeros((len(off), off.shape[1] + 1))
    np.cumsum(np.clip(np.nan_to_num(off / _spread(off)[:, None]), -3, 3), axis=1, out=sums[:, 1:])
    since = places > first
    before, nights = places - since * first, np.where(since, count - first, first)
    after, at_first = nights - before, np.take_along_axis(sums, first, axis=1)
    whole = np.where(since, sums[:, -1:] - at_first, at_first)
    with np.errstate(all="ignore"):
        squares = (sums[:, places] - since * at_first - before / nights * whole) ** 2
        squares *= nights / (before * after)
    squares[(before < level) | (after < level)] = 0
    sure = squares.max(axis=1) > LIMITS.second_cut**2
    return places[squares.argmax(axis=1)][:, None], sure[:, None]


def _levels_at(off: np.ndarray, part: np.ndarray) -> np.ndarray:
    """The median of each part of a series, [series, nights]."""
    sides = (np.where(part == number, off, np.nan) for number in range(3))
    levels = [np.where(np.isnan(side), 0, medians(side, 1)[:, None]) for side in sides]
    return np.sum(levels, axis=0)


def _spread(off: np.ndarray) -> np.ndarray:
    """Standard deviations by medians; of series most of whose values are alike, by means."""
    means = np.nansum(np.abs(off), axis=1) / np.maximum((~np.isnan(off)).sum(axis=1), 1)
    return np.maximum(np.fmax(scale(off, 1), means / 2), TINY)


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
    noise: _Noise, series: np.ndarray, gaps: np.ndarray, pieces: list[_Piece], least: float
) -> list[tuple[_Piece, list[int], float]]:
    """The pieces of series that have a change, each with the nights at which levels begin, and the
    logarithm of its chance over `least`, which makes it a change. `noise`, `series`: as noise and
    as they are; `gaps`: between states that last, of each series, 0 of one without."""
    level = LIMITS.level
    pieces = [(row, low, high) for row, low, high in pieces if high - low - 1 >= 2 * level]
    if not pieces:
        return []
    rows, lows, highs = np.array(pieces).T
    widths = highs - lows - 1  # nights with one before
    longest = int(widths.max())
    # Nights, for the length of a level.
    stands_for = np.where(noise.weights > LIMITS.surer_night, 2, 1)
    weighted = np.array([noise.values * np.sqrt(noise.weights), noise.weights, stands_for])
    there = np.arange(longest) < widths[:, None]
    at = np.where(there, lows[:, None] + np.arange(longest), 0)
    sums = np.zeros((3, len(pieces), longest + 1))  # of weighted values, of weights, of nights
    np.cumsum(np.where(there, weighted[:, rows[:, None], at], 0), axis=2, out=sums[..., 1:])

    def strongest(before: np.ndarray, until: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The part of each piece that is most unlike the others, and by how many deviations: of
        parts whose sums are between these."""
        (total, most, nights), (parts, weights, length) = sums[..., -1:], until - before
        with np.errstate(all="ignore"):
            squares = (parts - weights * (total / most)) ** 2 / (weights - weights**2 / most)
        squares[(length < level) | (nights - until[2] < level)] = 0
        return squares.argmax(axis=1), np.sqrt(squares.max(axis=1))

    best, ends = np.zeros(len(pieces)), np.zeros((len(pieces), 2), int)
    inner = sums[..., level : longest - level + 1]
    for length in _lengths(longest):
        place, largest = strongest(inner[..., :-length], inner[..., length:])
        more = largest > best
        best[more] = largest[more]
        ends[more] = np.stack([place, place + length], axis=1)[more] + level
    place, single = strongest(sums[..., :1], sums[..., 1:longest])
    place += 1
    steps, pulses = np.sqrt(widths) / LIMITS.step_part, 1.5 * widths / LIMITS.pulse_part
    trials = np.log(LIMITS.trials * np.array([steps, pulses]))
    df, tail = noise.df[rows], noise.tail[rows]
    strength = np.array([single, best])
    # A wrong scale changes the scores of heavy tails by less than itself.
    nights = np.array([place, np.maximum(np.diff(ends)[:, 0], 1)])
    far = strength**2 / np.minimum(nights, widths - nights)
    far = np.maximum(far / tail, TINY)
    df = df * (far / -np.expm1(-far)) ** 2  # one-sided: only what is worse is an alarm
    logs = trials + scipy.stats.t.logsf(strength, df)
    kind = logs.argmin(axis=0)  # 0: a step, 1: a pulse
    ends = np.where(kind, ends.T, [place, widths])
    # Few series are judged by their ranks alone, which few nights can give a small chance.
    worth = (logs.min(axis=0) <= least) | (noise.by_ranks & (np.maximum(single, best) > 2.5))
    hits = []
    for index in np.flatnonzero(worth):
        row, low, high = pieces[index]
        first, middle, last = np.split(np.arange(low, high - 1), ends[:, index])
        sides = middle, np.concatenate([first, last])
        of_kind = kind[index], index
        if not noise.by_ranks:
            alone = strength[of_kind] / _louder(noise, row, *sorted(sides, key=len))
            log_chance = trials[of_kind] + scipy.stats.t.logsf(alone, df[of_kind])
            if log_chance > least:
                continue
        cuts = [int(end) + 1 for end in ends[:, index] if low + end + 1 < high]
        levels = _medians(series[row, low:high], cuts)
        if like_states(np.abs(np.diff(levels)).max(), gaps):
            continue
        few = min(map(len, sides))
        mine, other = (noise.values[row, at] for at in sides)
        exact = few <= 10
        test = scipy.stats.mannwhitneyu(mine, other, method="exact" if exact else "asymptotic")
        ranks = test.pvalue / 2  # one-sided
        # Two or three repeated nights cannot have a smaller chance than beyond all others.
        ways = math.lgamma(high - low) - math.lgamma(few + 1) - math.lgamma(high - low - few)
        least_rank = 1.001 * math.exp(-ways)
        if noise.by_ranks:
            log_chance = math.log(max(ranks, 1e-300)) + trials[of_kind]
            agrees = log_chance <= least
        else:
            agrees = ranks <= max(LIMITS.rank_chance, least_rank)
        if agrees:
            hits.append((pieces[index], [low + cut for cut in cuts], log_chance - least))
    return hits


def _louder(noise: _Noise, row: int, few: np.ndarray, many: np.ndarray) -> float:
    """By how much the difference of the levels of two sides is less sure than it usually is, if the
    shorter side is louder than the other. Its variance is drawn towards the usual one."""
    squares, errors = [], []
    for at in (few, many):
        values, roots = noise.plain[row, at], np.sqrt(noise.weights[row, at])
        if at is few:
            cut = LIMITS.loud_cut
            values = np.clip(values - roots * np.median(values / roots), -cut, cut)
        squares.append(((values - roots * (roots @ values / (roots @ roots))) ** 2).sum())
        errors.append(1 / (roots @ roots))
    usual = max(1.0, squares[1] / (len(many) - 1))
    most = max(1.0, _loudness(noise.values, few, many))
    pool = LIMITS.loud_pool
    louder = max(1.0, (pool * most + squares[0] / usual) / (pool + len(few) - 1))
    return math.sqrt((louder * errors[0] + errors[1]) / sum(errors))


def _loudness(values: np.ndarray, few: np.ndarray, many: np.ndarray) -> float:
    """The variance of a few nights over that of many others, as most series of a table have it."""
    known = ~np.isnan(values[:, few]).any(axis=1)
    known &= (~np.isnan(values[:, many])).sum(axis=1) > 1
    half, ratio = (len(few) - 1) / 2, np.var(values[known][:, few], axis=1, ddof=1)
    ratio /= np.maximum(np.nanvar(values[known][:, many], axis=1), TINY)
    return float(np.median(ratio) * half / scipy.special.gammaincinv(half, 0.5))  # of chi-squared


def nights_until(
    step: float, sigma: float, rho: float, metrics: int, launches: int = 1
) -> int | None:
    """How many nights of a new level it takes until half of such changes are found; None if none
    within LIMITS.latest_nights.

    Args:
        step: logarithm of the new level over the old one, which lasted LIMITS.usual_nights.
        sigma: standard deviation of the logarithm between nights; rho: correlation of neighbours.
        metrics: of the table; launches: whose mean each new night is.
    """
    nights = range(2 if launches > 1 else LIMITS.level, LIMITS.latest_nights + 1)
    error = sigma * math.sqrt(1 - LIMITS.launch_part * (1 - 1 / launches))
    return next((n for n in nights if chance_of_alarm(n, step, error, rho, metrics) >= 0.5), None)


def chance_of_alarm(
    nights: int, step: float, sigma: float | np.ndarray, rho: float | np.ndarray, metrics: int
) -> float | np.ndarray:
    """The chance that a change is found after so many nights of its new level. Arguments as of
    nights_until(), the noise of one metric or of several."""
    error = sigma * np.sqrt((1 + rho) / (1 - rho))
    chance = LIMITS.false_alarms / YEAR * LIMITS.alarm_nights / metrics
    usual = LIMITS.usual_nights
    trials = LIMITS.trials * math.sqrt(nights + usual) / LIMITS.step_part
    least = -scipy.special.stdtrit(usual, chance / trials)
    seen = step / error * math.sqrt(nights * usual / (nights + usual))
    return scipy.special.ndtr(seen - least * np.sqrt(_lasting(rho)))


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
    """The logarithm of the likelihood that a level began in each night; -inf outside of both
    levels. `values`: logarithms of one series without missing nights; `shift`: a change of level in
    it; `correlation`: from night to night."""
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
