"""Finds outliers of one session among all earlier ones, and those that a retest confirms.

The bound on a metric is the prediction of one more session from n earlier ones, on logarithms:
mean + t(n - 1) * standard deviation * sqrt(1 + 1/n). README.md, "One night and the earlier ones",
has the rules: the share of earlier values that are as improbable, the adjustment for the number of
metrics, and the times of a launch, a kernel and a partition as one.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.model import Row
from bisection.analysis.observations import Jobs, Key
from bisection.analysis.statistics import exp, medians
from bisection.core.identity import POINT
from bisection.core.reasons.performance import Unlike
from bisection.core.thresholds import LIMITS
from bisection.core.units import COUNTED

LAUNCH = 6  # words that name one
FEW_SAMPLES = ("time_min", "time_p99")  # metrics of few samples of a launch
TINY = 1e-9  # standard deviation of the logarithm where all earlier values are the same


def mark_outliers(
    rows: Sequence[Row],
    samples: Sequence[tuple[Jobs, Jobs]],
    lost: Mapping[Key, Sequence[float]],
    environment_changed: bool = False,
) -> None:
    """Marks the rows in which few new sessions are outside of all earlier ones, and notes with each
    the value that was judged, and beyond which one it is slower.

    Args:
        rows, samples: a judged table, and of each row the jobs before and after.
        lost: values after from launches whose cores others had: they count where there are no
            others, as nothing that is slow may pass for that reason alone.
        environment_changed: a fact is another one than before: a change is more probable.
    """
    open_rows, earlier_values = [], []
    for row, (was, now) in zip(rows, samples, strict=True):
        usable = [median(jobs) for jobs in now.values()] or lost.get(row.key, [])
        if usable and _is_open(row):
            row.seen = median(usable)
            open_rows.append(row)
            earlier_values.append(was)
    if not open_rows:
        return
    sign = np.array([1 if row.better == "lower" else -1 for row in open_rows])
    sessions, none = sorted({session for was in earlier_values for session in was}), (math.nan,)
    values = [[median(was.get(session, none)) for session in sessions] for was in earlier_values]
    earlier = sign[:, None] * np.log(values)
    new = sign * np.log([row.seen or math.nan for row in open_rows])
    chance = LIMITS.changed_chance if environment_changed else LIMITS.slower_chance
    level = np.nanmean(earlier, axis=1)
    groups = _groups(open_rows)
    nights = np.column_stack([earlier, new]) - level[:, None]
    slower, bound = outside(earlier, new, chance, _shared(groups, nights, chance))
    faster, _ = outside(-earlier, -new)
    together, size = _together(groups, nights, chance)
    for line, row in enumerate(open_rows):
        row.limit = exp(sign[line] * bound[line])
        if new[line] > level[line] + together[line]:
            row.shared = int(size[line])
            row.shared_limit = exp(sign[line] * (level[line] + together[line]))
            row.limit = row.limit if slower[line] else row.shared_limit
        row.outlier = bool(slower[line] or row.shared or faster[line])
    _leave_baselines(open_rows, new - level)


def _groups(rows: Sequence[Row]) -> dict[tuple[str, ...], list[int]]:
    """The numbers of the times of each launch, of each kernel and of each partition, by its names;
    of those that have several."""
    groups = defaultdict(list)
    for line, row in enumerate(rows):
        if row.absolute and not row.control:
            for words in (LAUNCH, 4, 3):
                groups[row.identity[:words]].append(line)
    return {name: lines for name, lines in groups.items() if len(lines) >= LIMITS.together}


def _shared(
    groups: Mapping[tuple[str, ...], Sequence[int]], nights: np.ndarray, chance: float
) -> np.ndarray:
    """Returns what the times of each launch share, [metrics, nights]; 0 of other metrics.

    Of the last night, no more than a launch has shown before: beyond that, what most of its times
    share is news, and no reason for others to be so. It may exceed the range of the earlier nights
    by a part, or as much as it does by this chance. `nights` are from the metrics' levels,
    logarithms, [metrics, nights]; NaN: a session did not measure.
    """
    shared = np.zeros(nights.shape)
    for name, lines in groups.items():
        if len(name) == LAUNCH:
            *earlier, now = _in_common(nights[lines])
            known = np.array(earlier)[np.isfinite(earlier)]
            mean, count = known.mean(), np.array(len(known))
            error = _spread(((known - mean) ** 2).sum(), count)
            above = mean - scipy.special.stdtrit(count - 1, chance) * error
            above = max(above, known.max() + LIMITS.wider * np.ptp(known))
            shared[lines] = [*earlier, np.clip(now, known.min(), above)]
    return shared


def _together(
    groups: Mapping[tuple[str, ...], Sequence[int]], nights: np.ndarray, chance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Tests what the times of a launch, a kernel and a partition have in common. Returns of each
    metric the bound that its launch, kernel or partition is beyond, infinite if none is, and how
    many times its launch has, [metrics]. `nights` are the earlier ones and the new one, from the
    metrics' levels, logarithms of costs, [metrics, nights]."""
    bounds, size = np.full(len(nights), np.inf), np.zeros(len(nights), int)
    if not groups:
        return bounds, size
    for name, lines in groups.items():
        size[lines] = len(lines) if len(name) == LAUNCH else size[lines]
    apart, new = nights[:, :-1], nights[:, -1]
    shifts = np.array([_in_common(nights[lines]) for lines in groups.values()])
    beyond, limits = outside(shifts[:, :-1], shifts[:, -1], chance)
    # Of independent metrics each is beyond its n earlier values by a chance of 1 / (n + 1).
    highest = new > np.nanmax(apart, axis=1)
    alone = 1 / (1 + np.isfinite(apart).sum(axis=1))
    above = scipy.special.bdtrc  # the chance of more than so many
    for lines, is_beyond, limit in zip(groups.values(), beyond, limits, strict=True):
        by_chance = above(highest[lines].sum() - 1, len(lines), alone[lines].max())
        if is_beyond and by_chance <= chance / len(groups):
            bounds[lines] = np.minimum(bounds[lines], limit)
    return bounds, size


def _in_common(apart: np.ndarray) -> np.ndarray:
    """Returns what metrics have in common, [sessions]: the lower of their median, which few
    outliers do not move, and of their mean, which few metrics with two states do not move far.
    `apart` is from the metrics' levels, [metrics, sessions]; NaN: a session did not measure."""
    known = np.isfinite(apart)
    with np.errstate(invalid="ignore"):
        mean = np.where(known, apart, 0).sum(axis=0) / known.sum(axis=0)
    return np.minimum(medians(apart, 0), mean)


def _leave_baselines(rows: Sequence[Row], moved: np.ndarray) -> None:
    """Marks a ratio that is outside because its baseline changed, and not its own time: no method
    is slower or faster by that. `moved` is the new session from the metrics' levels, logarithms of
    costs, [metrics]."""
    times = {row.key: cost for row, cost in zip(rows, moved, strict=True) if row.absolute}
    for row, ratio in zip(rows, moved, strict=True):
        if row.outlier and row.unit == "ratio":
            point = POINT.search(row.metric)
            time = times.get((*row.identity, f"time{point[0] if point else ''}"))
            if time is not None and time / ratio < LIMITS.baseline_part:
                row.outlier, row.baseline_moved = False, True


def _is_open(row: Row) -> bool:
    """True if a row has enough earlier sessions, and too few new ones to be compared otherwise.
    Metrics of few samples jump from night to night."""
    enough = row.before.sessions >= LIMITS.fewest > row.after.sessions
    unlike = isinstance(row.reason, Unlike)
    return enough and not unlike and row.unit not in COUNTED and row.base not in FEW_SAMPLES


def outside(
    earlier: np.ndarray,
    new: np.ndarray,
    chance: float = LIMITS.slower_chance,
    shared: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Which metrics of a new session are higher than all earlier ones say, and the bound of each,
    [metrics].

    Args:
        earlier: logarithms of costs, [metrics, sessions]; NaN where a session did not measure.
        new: of the new session, [metrics].
        chance: that a session like all others has a metric outside.
        shared: what metrics share, of both, [metrics, sessions + 1]: they are judged beside it.
    """
    shared = np.zeros((len(new), earlier.shape[1] + 1)) if shared is None else shared
    rest, now = earlier - shared[:, :-1], new - shared[:, -1]
    known = np.isfinite(rest)
    n = known.sum(axis=1)
    values = np.where(known, rest, 0)
    mean = values.sum(axis=1) / n
    apart = np.where(known, rest - mean[:, None], 0)
    squares = (apart**2).sum(axis=1)
    spread = _spread(squares, n)
    p = scipy.special.stdtr(n - 1, (mean - now) / spread)
    # Each earlier value by the others: leaving out x moves their mean by (x - mean) / (n - 1).
    others = n[:, None] - 1
    moved = apart / others
    left = np.maximum(squares[:, None] - apart**2 - others * moved**2, 0)
    tail = _Tail(scipy.special.stdtr(others - 1, -(apart + moved) / _spread(left, others))[known])
    adjusted = scipy.stats.false_discovery_control(np.maximum(p, tail.observed(p)))
    # The largest chance that is outside, with as many metrics as are: again for the retest.
    critical = tail.critical(chance * max((adjusted <= chance).sum(), 1) / len(new))
    predicted = mean - scipy.special.stdtrit(n - 1, critical) * spread + shared[:, -1]
    least = np.nanmean(earlier, axis=1) + math.log1p(LIMITS.slower_margin)
    worst = np.where(known, earlier, -np.inf).max(axis=1)
    bound = np.maximum.reduce([predicted, worst, least])
    return new > bound, bound


class _Tail:
    """How often a p-value is as small as this one, by those of the earlier values: their share, and
    below the smallest fiftieth of them no less than by a power law through it (Hill 1975)."""

    def __init__(self, values: np.ndarray) -> None:
        """Takes p-values of values without a change, in any order."""
        self.values = np.sort(values)
        self.count = len(values) // 50
        self.power = 0.0  # 0: too few
        if self.count >= 5:
            last, *smaller = np.maximum(self.values[self.count :: -1], 1e-300)
            self.last, self.share = last, self.count / len(values)
            self.power = min(1 / max(float(np.mean(np.log(last / smaller))), 1e-9), 1.0)

    def observed(self, p: np.ndarray) -> np.ndarray:
        """The share of the earlier values, by this tail, with a p-value no larger."""
        shares = np.searchsorted(self.values, p, side="right") / len(self.values)
        if not self.power:
            return shares
        law = self.share * (np.maximum(p, 1e-300) / self.last) ** self.power
        return np.where(p < self.last, np.maximum(shares, law), shares)

    def critical(self, share: float) -> float:
        """The largest p-value of which the observed share is no larger than this one."""
        p, fewer = share, int(share * len(self.values))
        if fewer < len(self.values):
            p = min(p, np.nextafter(self.values[fewer], 0))
        if self.power and share < self.share:
            p = min(p, self.last * (share / self.share) ** (1 / self.power))
        return p


def _spread(squares: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The standard deviation of one more value beside the mean of n, by their squared distances."""
    return np.maximum(np.sqrt(squares / (n - 1)), TINY) * np.sqrt(1 + 1 / n)


def slower(rows: Sequence[Row]) -> list[Row]:
    rows = [row for row in rows if row.outlier and (row.excess or 0.0) > 1]
    return sorted(rows, key=lambda row: -(row.excess or 0.0))


def faster(rows: Sequence[Row]) -> list[Row]:
    rows = [row for row in rows if row.outlier and (row.excess or 1.0) < 1]
    return sorted(rows, key=lambda row: row.excess or 0.0)
