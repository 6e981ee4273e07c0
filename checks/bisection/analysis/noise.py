"""The noise of a table's metrics from night to night, and the levels beside it.

    log cost = level + factor of the night + factor of the kernel + own noise

The noise of a metric has a scale (Huber 1964), tails (how often nights are so far off) and a
correlation from night to night. Each is measured beside the metric's levels, and drawn to that of
the table where a metric has few nights. METHODS.md of the workshop says what each rule buys.

All arrays are of logarithms of costs, [metrics, nights]; NaN: not measured.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.statistics import HUGE, medians, scale, tail_index
from bisection.core.thresholds import LIMITS

TINY = 1e-5  # standard deviation of the logarithm: no time is known better
YEAR = 365.0  # nights
LEAST = math.log1p(LIMITS.step)
ROUNDS = 3  # of levels by the noise beside the levels before
BLOCK = 400  # nights that are partitioned at once
ROWS = 128  # of a table: what is made of so many stays in a processor's cache


def spread(off: np.ndarray, cut: float = LIMITS.noise_cut) -> np.ndarray:
    """The scale of each row by Huber's proposal 2: the root mean square of values that count as
    `cut` scales where they are further off."""
    count = np.maximum(np.isfinite(off).sum(axis=1), 1)
    # Most values may be alike: ticks of a clock.
    size = np.maximum(np.fmax(scale(off, 1), np.nansum(np.abs(off), axis=1) / count / 2), TINY)
    squares = np.nan_to_num(off) ** 2
    for _ in range(6):
        near = np.minimum(squares, (cut * size[:, None]) ** 2)
        size = np.maximum(np.sqrt(near.sum(axis=1) / count), TINY)
    return size


def pooled(size: np.ndarray, df: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The scales of a table, each drawn to the table's as far as they are alike; and the degrees of
    freedom that each is worth then (Smyth 2004, by medians)."""
    varies = size > 2 * TINY
    if varies.sum() < LIMITS.few_metrics:
        return size, df
    logs = 2 * np.log(size) - scipy.special.digamma(df / 2) + np.log(df / 2)
    middle = np.median(logs[varies])
    by_chance = np.mean(scipy.special.polygamma(1, df[varies] / 2))
    unlike = float(scale(logs[varies] - middle)) ** 2 - by_chance
    prior = min(2 / max(unlike, TINY), LIMITS.noise_pool)  # trigamma(x) is about 1 / x
    return np.sqrt((prior * np.exp(middle) + df * size**2) / (prior + df)), df + prior


def correlation(rest: np.ndarray, size: np.ndarray) -> np.ndarray:
    """What each metric keeps from night to night, drawn to the table's; `rest` is beside levels of
    the same nights (Kendall 1954), in order, and `size` its scale, [metrics]."""
    cut = LIMITS.noise_cut
    values = np.clip(rest / size[:, None], -cut, cut)
    both = np.isfinite(values[:, 1:]) & np.isfinite(values[:, :-1])
    before, after = (np.where(both, part, 0) for part in (values[:, :-1], values[:, 1:]))
    pairs, nights = np.maximum(both.sum(axis=1), 1), np.isfinite(rest).sum(axis=1)
    squares = (before**2 + after**2).sum(axis=1) / 2
    kept = (before * after).sum(axis=1) / np.maximum(squares, TINY)
    kept = (kept + 1 / np.maximum(nights, 1)) / (1 - 3 / np.maximum(nights, 6))
    varies = squares > TINY
    if varies.sum() < LIMITS.few_metrics:  # no table shows how much is usual: as much as may be
        return np.where(varies, np.clip(kept + 1 / np.sqrt(pairs), 0, 0.8), 0)
    middle = np.median(kept[varies])
    by_chance = float(np.median(1 / pairs))
    unlike = max(float(scale(kept[varies] - middle)) ** 2 - by_chance, 0.01)
    return np.clip(middle + (kept - middle) * unlike / (unlike + 1 / pairs), 0, 0.8)


def independent(nights: np.ndarray | float, rho: np.ndarray | float) -> np.ndarray | float:
    """How many independent nights many of AR(1) are worth."""
    return nights * (1 - rho) / (1 + rho)


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
        self.own = np.abs(off)
        self.all = np.sort(self.own[np.isfinite(self.own)])
        top = np.maximum(self.all[-max(len(self.all) // 200, 10) :], TINY)
        self.start, self.share = top[0], len(top) / len(self.all)
        self.power = 1 / tail_index(top)

    def scores(self, row: int, off: np.ndarray) -> np.ndarray:
        """Normal scores of nights of a metric that are so many scales off."""
        far, worth, own = np.abs(off), LIMITS.tail_nights, np.sort(self.own[row])  # NaN last
        count = np.isfinite(own).sum()
        law = self.share * (np.maximum(far, self.start) / self.start) ** -self.power
        table = 1 - np.searchsorted(self.all, far) / len(self.all)
        table = np.where(far > self.start, law, table)
        table = np.maximum(table, 2 * scipy.special.ndtr(-far))
        beyond = count - np.searchsorted(own, far)
        chance = np.clip((beyond + worth * table) / (count + worth), 1e-12, 1)
        return np.sign(off) * -scipy.special.ndtri(chance / 2)


@dataclass
class Noise:
    """Of each metric beside its levels, [metrics]."""

    size: np.ndarray  # scale
    df: np.ndarray  # degrees of freedom of that
    rho: np.ndarray  # correlation with the night before
    tails: Tails


def noise_beside(values: np.ndarray, counts: np.ndarray, cuts: list[list[int]]) -> Noise:
    """The noise beside the medians between cuts; `values` are packed."""
    rest = values - medians(values, 1)[:, None]
    for row, starts in enumerate(cuts):
        for part in np.split(np.arange(counts[row]), starts) if starts else ():
            rest[row, part] = values[row, part] - np.median(values[row, part])
    taken = np.array([1 + len(starts) for starts in cuts])
    size = spread(rest, LIMITS.level_cut) * np.sqrt(counts / np.maximum(counts - taken, 1))
    rho = correlation(rest, size)
    df = np.maximum(independent(counts, rho) - 2, 3)
    return Noise(size, df, rho, Tails(rest / size[:, None]))


# ---- differences of two groups of nights ----


@dataclass
class Differences:
    """Of each metric, [metrics]."""

    estimate: np.ndarray  # after - before
    error: np.ndarray  # its standard error
    df: np.ndarray  # degrees of freedom of that
    p: np.ndarray  # two-sided p-value of no difference, not adjusted for the table
    sigma: np.ndarray  # standard deviation between nights
    rho: np.ndarray  # correlation of neighbouring nights

    @property
    def half_width(self) -> np.ndarray:
        """Of the confidence interval."""
        return scipy.special.stdtrit(self.df, (1 + LIMITS.confidence) / 2) * self.error


def differences(
    before: np.ndarray, after: np.ndarray, cut: float = LIMITS.noise_cut
) -> Differences:
    """The differences of the levels of two sides, [metrics, nights] each, in order of time; each
    metric has two nights or more of either.

    Means count values as `cut` scales from the median at most (Huber 1964). Where the sides are
    apart as states are, it matters how many nights of each are at the level of the other: then the
    p-value is Fisher's (1922), if that is larger.
    """
    sides = before, after
    counts = np.array([np.isfinite(side).sum(axis=1) for side in sides])
    middles = np.array([medians(side, 1) for side in sides])
    off = [side - middle[:, None] for side, middle in zip(sides, middles, strict=True)]
    rest, total = np.hstack(off), counts.sum(axis=0)
    size = spread(rest, cut)
    rho = correlation(rest, size)
    # The medians are of the same nights.
    size *= np.sqrt(total / np.maximum(total - 2, 1)) * LIMITS.of_medians
    size, df = pooled(size, np.maximum(independent(total - 2, rho), 3))
    far = cut * size[:, None]
    nearer = [np.nanmean(np.clip(side, -far, far), axis=1) for side in off]
    (estimate,) = np.diff(middles + nearer, axis=0)
    # Beside white noise or states, levels wander for longer than AR(1) says.
    wander = 1 + LIMITS.wander * rho * np.maximum(LIMITS.wander_below - rho, 0)
    parts = wander * np.array([mean_variance(nights, rho) for nights in counts])
    # A louder side counts by its own variance (Welch 1947), drawn to that of both.
    loud = np.array([spread(side, cut) / size for side in off]) ** 2
    own = parts * (LIMITS.loud_pool + counts * loud) / (LIMITS.loud_pool + counts)
    louder = own.sum(axis=0) > parts.sum(axis=0)
    error = size * np.sqrt(np.where(louder, own, parts).sum(axis=0))
    welch = own.sum(axis=0) ** 2 / (own**2 / counts).sum(axis=0)
    df = np.where(louder, np.minimum(df, welch), df)
    p = 2 * scipy.special.stdtr(df, -np.abs(estimate) / error)
    between, apart = middles.mean(axis=0), np.abs(np.diff(middles, axis=0)[0])
    above = np.array([(side > between[:, None]).sum(axis=1) for side in sides])
    crossed = np.min([above, counts - above], axis=1).sum(axis=0) > 0
    doubtful = crossed & (apart > LIMITS.sides_apart * size) & (p < LIMITS.false_discoveries)
    for row in np.flatnonzero(doubtful):
        table = np.array([above[:, row], (counts - above)[:, row]])
        p[row] = max(p[row], scipy.stats.fisher_exact(table).pvalue)
    return Differences(estimate, error, df, p, size, rho)


# ---- levels ----


def _around(values: np.ndarray, reach: int) -> np.ndarray:
    """The median of each night and of so many before and after it."""
    width, result = 2 * reach + 1, np.empty(values.shape)
    wide = np.pad(values, ((0, 0), (reach, reach)), constant_values=np.nan)
    for at in range(0, len(values), ROWS):
        rows = slice(at, at + ROWS)
        windows = np.lib.stride_tricks.sliding_window_view(wide[rows], width, axis=1)
        result[rows] = medians(windows.reshape(-1, width), 1).reshape(result[rows].shape)
    return result


def without_weeks(costs: np.ndarray, days: np.ndarray) -> np.ndarray:
    """Costs without the effect of a day of the week, where that is significant.
    `days`: of the week, [nights]."""
    beside = costs - _around(costs, 3)
    clear, size = costs.copy(), scale(beside, 1)
    for day in np.unique(days):
        here = beside[:, days == day]
        effect, nights = medians(here, 1), (~np.isnan(here)).sum(axis=1)
        error = np.maximum(size, scale(here - effect[:, None], 1))
        error *= np.sqrt(math.pi / 2 / np.maximum(nights, 1))  # of medians
        sure = np.abs(effect) > LIMITS.shared_sure * error
        clear[:, days == day] -= np.where(sure, effect, 0)[:, None]
    return clear


@dataclass
class Level:
    """A new level of a series. Indices are of nights that the series has."""

    start: int  # its first night
    left: int  # the first night of the level before
    right: int  # the first night after it
    step: float = 0.0  # logarithm of this level over the one before
    errors: float = 0.0  # standard errors between both levels
    sure: bool = False  # enough for an alarm, and not only to be listed
    newest: bool = False
    alarm: bool = False  # the newest one, surely worse, as the metric has not been
    back: bool = False  # the newest one, worse than the one before, as the metric has been


@dataclass
class Levels:
    """Of one series."""

    new: list[Level]
    rho: float = 0.0  # correlation from night to night
    drift: float = 0.0  # logarithm per night, where a line explains more than levels


def levels(
    series: np.ndarray,
    a_year: float = LIMITS.false_alarms,
    mildest: np.ndarray | None = None,
) -> list[Levels]:
    """Finds the levels of series that belong together.

    Cuts are proposed liberally, by optimal partitioning (Jackson 2005). The weakest one is taken
    back, again and again, until each has evidence enough beside the noise that then remains.

    Args:
        series: logarithms of costs, [series, nights]; NaN: missing.
        a_year: how many false alarms all of them may have in a year of nights.
        mildest: of the launches of each night that was repeated, [series, nights]; NaN: was not.
    """
    result = [Levels([]) for _ in series]
    known = np.isfinite(series)
    rows = np.flatnonzero(known.sum(axis=1) >= 2 * LIMITS.level)
    rows = rows[[bool(np.ptp(series[row, known[row]]) > TINY) for row in rows]]
    if not len(rows):
        return result
    values, order, counts = _packed(series[rows])
    mild = np.full(series.shape, np.nan) if mildest is None else mildest
    mild = np.take_along_axis(mild[rows], order, axis=1)
    cuts, drifts, noise = _proposed(values, counts)
    nights = [row[:count] for row, count in zip(values, counts, strict=True)]
    states = _states(nights, cuts, noise, 2, LIMITS.several_part)
    proposed = cuts
    listed: list[list[Level]] = []
    for _ in range(ROUNDS):
        least = needed_errors(noise.df, max(a_year, LIMITS.listed_a_year))
        listed = [_kept(v, cuts[row], noise, row, least[row]) for row, v in enumerate(nights)]
        cuts = [[level.start for level in of_row] for of_row in listed]
        noise = noise_beside(values, counts, cuts)
    least = needed_errors(noise.df, a_year)
    for row, of_row in enumerate(listed):
        sure = {level.start for level in _kept(nights[row], cuts[row], noise, row, least[row])}
        for level in of_row:
            level.sure = level.start in sure
        for level in reversed(of_row):
            until = nights[row][: level.right]
            _judge_newest(level, until, mild[row], proposed[row], states, noise.size[row])
            if counts[row] - level.start >= LIMITS.level:
                break  # a night or two do not end the level before
        result[rows[row]] = Levels(of_row, float(noise.rho[row]), float(drifts[row]))
    return result


def _judge_newest(
    level: Level,
    values: np.ndarray,
    mild: np.ndarray,
    starts: list[int],
    states: float,
    size: float,
) -> None:
    """Whether the newest level is an alarm. It is, if it is surely worse; or if it may be, and all
    launches of two of its nights say so, which were repeated.

    It is none if states of many metrics of the table are as far apart. Nor is it one if the metric
    has been there for some nights, unless it then was elsewhere for weeks, and was there for weeks,
    or is now. `starts`: of its levels, as they were proposed.
    """
    level.newest = True
    now = float(np.median(values[level.start :]))
    middle = now - level.step / 2
    repeated = (np.nan_to_num(mild[level.start : len(values)], nan=-np.inf) > middle).sum()
    stay = len(values) - level.start
    enough = level.sure and stay >= LIMITS.level
    worse = level.step > states and (enough or repeated >= LIMITS.level_repeated)
    as_bad = max(middle, now - max(LEAST, size))
    before = np.split(values[: level.start], [at for at in starts if at < level.start])
    nights = sum(len(part) for part in before if np.median(part) > as_bad)
    short = min(level.start - level.left, max(nights, stay)) < LIMITS.level_long
    level.back = level.step > 0 and short and nights >= min(stay, LIMITS.level)
    level.alarm = bool(worse) and not level.back


def _packed(series: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The nights that each series has, with NaN behind the last; their places; how many."""
    known = np.isfinite(series)
    order = np.argsort(~known, axis=1, kind="stable")
    return np.take_along_axis(series, order, axis=1), order, known.sum(axis=1)


def needed_errors(df: np.ndarray, a_year: float) -> np.ndarray:
    """The standard errors that each series exceeds by chance, as often as all do `a_year`."""
    return -scipy.special.stdtrit(df, a_year / (YEAR * len(df) * LIMITS.trials))


def _proposed(values: np.ndarray, counts: np.ndarray) -> tuple[list[list[int]], np.ndarray, Noise]:
    """Cuts that may be, the drift per night that was taken from `values` (0: none), the noise."""
    size = spread(np.diff(values, axis=1)) / math.sqrt(2)
    clear = _without_spikes(values, size)
    cuts = _partitioned(clear, counts, size, np.full(len(values), 0.3))
    parts = zip(clear, counts, cuts, strict=True)
    drifts = np.array([_drift(row[:count], starts) for row, count, starts in parts])
    values -= drifts[:, None] * np.arange(values.shape[1])
    noise = noise_beside(values, counts, cuts)
    cuts = _partitioned(_without_spikes(values, noise.size), counts, noise.size, noise.rho)
    return cuts, drifts, noise_beside(values, counts, cuts)


def _without_spikes(values: np.ndarray, size: np.ndarray) -> np.ndarray:
    middle, far = _around(values, 2), LIMITS.level_cut * size[:, None]
    return middle + np.clip(values - middle, -far, far)


def _partitioned(
    values: np.ndarray, counts: np.ndarray, size: np.ndarray, rho: np.ndarray
) -> list[list[int]]:
    """The cuts of each row that minimise squares about the means, and a penalty per cut. Every
    BLOCK nights there is one, so that long series take no longer."""
    (rows, nights), cuts = values.shape, []
    if rows > ROWS:
        for at in range(0, rows, ROWS):
            here = slice(at, at + ROWS)
            cuts += _partitioned(values[here], counts[here], size[here], rho[here])
        return cuts
    sums = np.cumsum(np.nan_to_num(values / size[:, None]), axis=1)
    sums = np.hstack([np.zeros((rows, 1)), sums])
    # The least of squares and penalties up to each night, without the squares of its values.
    least, last = np.zeros((rows, nights + 1)), np.zeros((rows, nights + 1), int)
    worth, every = 1 / np.arange(min(nights, BLOCK), 0, -1), np.arange(rows)
    penalty = LIMITS.level_penalty / independent(1, rho)
    for end in range(1, nights + 1):
        begin = (end - 1) // BLOCK * BLOCK
        cost = (sums[:, end, None] - sums[:, begin:end]) ** 2
        cost *= worth[begin - end :]
        np.subtract(least[:, begin:end], cost, out=cost)
        chosen = cost.argmin(axis=1)
        last[:, end] = begin + chosen
        least[:, end] = cost[every, chosen] + penalty
    for row, end in enumerate(counts.tolist()):
        inner = [int(last[row, end])]
        while inner[-1]:
            inner.append(int(last[row, inner[-1]]))
        cuts.append(inner[-2::-1])
    return cuts


def _drift(values: np.ndarray, cuts: list[int]) -> float:
    """The change per night if a line explains a series better than its levels; else 0."""
    nights, time = len(values), np.arange(len(values))
    if not cuts:
        return 0.0
    slope, start = np.polyfit(time, values, 1)
    steps = sum(((part - part.mean()) ** 2).sum() for part in np.split(values, cuts))
    off = values - start - slope * time
    line, kept = (off**2).sum(), (off[1:] * off[:-1]).sum()
    worth = (line + TINY - kept) / (line + TINY + kept)  # of a night that resembles the one before
    sure = abs(slope) * math.sqrt(nights**3 / 12 * worth) / math.sqrt(line / nights + TINY**2)
    more = 2 * (len(cuts) - 1) * math.log(nights)  # parameters, of a level that was taken back
    better = nights * math.log((line + TINY**2) / (steps + TINY**2)) < more
    better &= sure > 2 * LIMITS.shared_sure and abs(slope) * nights > LEAST
    return float(slope) if better else 0.0


def _kept(
    values: np.ndarray, starts: Sequence[int], noise: Noise, row: int, least: float
) -> list[Level]:
    """The levels of a series that have evidence enough, the weakest taken back one by one."""
    starts = list(starts)
    while starts:
        edges = [0, *starts, len(values)]
        parts = zip(edges, starts, edges[2:], strict=False)
        new = [Level(start, left, right) for left, start, right in parts]
        for level in new:
            _weigh(level, values, noise, row)
        weakest = min(new, key=lambda level: level.errors)
        if weakest.errors >= least:
            return new
        starts.remove(weakest.start)
    return []


def _weigh(level: Level, values: np.ndarray, noise: Noise, row: int) -> None:
    """Sets the step of a level and the standard errors between it and the one before.

    Nights of the shorter side are scored by the tails, from the median of the longer one. They are
    louder if the nights near the change are: their variance is drawn towards the usual one.
    """
    left, right = values[level.left : level.start], values[level.start : level.right]
    level.step = float(np.median(right) - np.median(left))
    passing = len(left) < LIMITS.level or (len(right) < LIMITS.level and level.right < len(values))
    if passing or abs(level.step) < LEAST:  # spikes are no levels, but the newest may become one
        level.errors = abs(level.step) - HUGE
        return
    few, many, side = (right, left, 1) if len(right) <= len(left) else (left, right, -1)
    near = many[-LIMITS.loud_near :] if side > 0 else many[: LIMITS.loud_near]
    size, rho, cut = noise.size[row], noise.rho[row], LIMITS.level_cut
    louder = 1.0
    for part in (near, few):
        squares = (np.clip((part - np.median(part)) / size, -cut, cut) ** 2).sum()
        louder = max(louder, (LIMITS.loud_pool + squares) / (LIMITS.loud_pool + len(part) - 1))
    off = side * (few - np.median(many)) / (size * math.sqrt(louder))
    variance = mean_variance(len(few), rho) + mean_variance(len(many), rho)
    variance *= 1 + LIMITS.wander * max(rho - LIMITS.wander_above, 0)  # levels wander, too
    errors = float(noise.tails.scores(row, off).mean()) / math.sqrt(variance)
    level.errors = errors if level.step > 0 else -errors


def _returns(values: np.ndarray, starts: list[int], size: float) -> np.ndarray:
    """By how much a series was elsewhere and came back, for each time that it did."""
    parts = np.split(values, starts)
    nights, middle = (np.array([*map(of, parts)]) for of in (len, np.median))
    there, back = np.diff(middle)[:-1], np.diff(middle)[1:]
    gaps = np.minimum(np.abs(there), np.abs(back))
    is_return = (there * back < 0) & (np.abs(there + back) < np.abs(there) / 2)
    is_return &= nights[1:-1] >= LIMITS.level
    return gaps[is_return & (gaps > max(LEAST, LIMITS.states_apart * size))]


def _states(
    nights: Sequence[np.ndarray], cuts: list[list[int]], noise: Noise, returns: int, part: float
) -> float:
    """How far a new level must be from the one before, where many metrics of a table went and came
    back so often: a step as large is no news there."""
    gaps = [_returns(*each) for each in zip(nights, cuts, noise.size, strict=True)]
    many = [each for each in gaps if len(each) >= returns]
    if len(many) < max(2, part * len(gaps)):
        return 0.0
    return LIMITS.states_beyond * float(np.median(np.concatenate(many)))


def states_of(series: np.ndarray) -> float:
    """The step that is no news in a table, as many of its metrics went as far and came back within
    these nights, so often as states do; 0 if few did. `series`: [metrics, nights], with nights of
    each."""
    values, _, counts = _packed(series)
    cuts, _, noise = _proposed(values, counts)
    nights = [row[:count] for row, count in zip(values, counts, strict=True)]
    returns = 1 + series.shape[1] // LIMITS.several_nights
    return _states(nights, cuts, noise, returns, LIMITS.several_compared)
