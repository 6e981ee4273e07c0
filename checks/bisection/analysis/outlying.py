"""Finds metrics of one session that are slower or faster than all earlier ones say.

Each earlier value beside the others of its metric shows how far the metrics of a usual session are.
README.md, "One night and the earlier ones", has the rules.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.model import Row
from bisection.analysis.observations import Jobs, Key
from bisection.analysis.statistics import exp, medians, tail_index
from bisection.core.identity import POINT
from bisection.core.reasons.performance import Unlike
from bisection.core.thresholds import LIMITS
from bisection.core.units import COUNTED

LAUNCH = 6  # words that name one
FEW_SAMPLES = ("time_min", "time_p99")  # metrics of few samples of a launch


def mark_outliers(
    rows: Sequence[Row],
    samples: Sequence[tuple[Jobs, Jobs]],
    lost: Mapping[Key, Sequence[float]],
    environment_changed: bool = False,
) -> None:
    """Marks the rows in which few new sessions are outside of all earlier ones, and those that may
    be; notes with each the value that was judged, and beyond which one it is measured again.

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
    sign = np.array([row.sign for row in open_rows])
    sessions, none = sorted({session for was in earlier_values for session in was}), (math.nan,)
    values = [[median(was.get(session, none)) for session in sessions] for was in earlier_values]
    earlier = sign[:, None] * np.log(values)
    new = sign * np.log([row.seen or math.nan for row in open_rows])
    more = LIMITS.outliers_changed if environment_changed else 1.0
    level = np.nanmean(earlier, axis=1)
    nights = np.column_stack([earlier, new]) - level[:, None]
    shared, together = _shared(open_rows, nights, more)
    limits = limits_of(earlier, LIMITS.retested, more, shared)
    alike, again = new > level + together, new > limits
    sure = new > limits_of(earlier, LIMITS.outliers, more, shared)
    faster = -new > limits_of(-earlier, LIMITS.outliers)
    times = Counter(row.identity[:LAUNCH] for row in open_rows if _is_time(row))
    for line, row in enumerate(open_rows):
        row.limit = exp(sign[line] * limits[line])
        if alike[line]:
            row.shared = times[row.identity[:LAUNCH]]
            row.shared_limit = exp(sign[line] * (level[line] + together[line]))
            row.limit = row.limit if again[line] else row.shared_limit
        row.again = bool(again[line] or alike[line])
        row.outlier = bool(sure[line] or alike[line] or faster[line])
    _leave_baselines(open_rows, new - level)


def _is_time(row: Row) -> bool:
    return row.absolute and not row.control


def _shared(rows: Sequence[Row], nights: np.ndarray, more: float) -> tuple[np.ndarray, np.ndarray]:
    """What the times of a launch share, of a kernel, and of a partition: their medians.

    Returns of each metric what its launch shares, [metrics, nights], and above its level the bound
    that its launch, kernel or partition exceeds, infinite if none does, [metrics]. Of the last
    night a launch shares no more than it has before, and a part of that range: beyond that, what
    most of its times share is news, and no reason for others to be so.

    Args:
        nights: the earlier ones and the new one, from the metrics' levels, logarithms of costs,
            [metrics, nights]; NaN: a session did not measure.
        more: times as many of these groups are beyond by chance.
    """
    shared, together = np.zeros(nights.shape), np.full(len(nights), np.inf)
    groups = defaultdict(list)
    for line, row in enumerate(rows):
        if _is_time(row):
            for words in (LAUNCH, 4, 3):
                groups[row.identity[:words]].append(line)
    several = [item for item in groups.items() if len(item[1]) >= LIMITS.together]
    if not several:
        return shared, together
    shifts = np.array([medians(nights[lines], 0) for _, lines in several])
    limits = limits_of(shifts[:, :-1], LIMITS.outliers, more)
    low, high = np.nanmin(shifts[:, :-1], axis=1), np.nanmax(shifts[:, :-1], axis=1)
    usual = np.clip(shifts[:, -1], low, high + LIMITS.wider * (high - low))
    for number, (name, lines) in enumerate(several):
        if shifts[number, -1] > limits[number]:
            together[lines] = np.minimum(together[lines], limits[number])
        if len(name) == LAUNCH:
            shared[lines] = np.nan_to_num([*shifts[number, :-1], usual[number]])
    return shared, together


def _leave_baselines(rows: Sequence[Row], moved: np.ndarray) -> None:
    """Marks a ratio that is outside because its baseline changed, and not its own time: no method
    is slower or faster by that. `moved` is the new session from the metrics' levels, logarithms of
    costs, [metrics]."""
    times = {row.key: cost for row, cost in zip(rows, moved, strict=True) if row.absolute}
    for row, ratio in zip(rows, moved, strict=True):
        if (row.outlier or row.again) and row.unit == "ratio":
            point = POINT.search(row.metric)
            time = times.get((*row.identity, f"time{point[0] if point else ''}"))
            if time is not None and time / ratio < LIMITS.baseline_part:
                row.outlier = row.again = False
                row.baseline_moved = True


def _is_open(row: Row) -> bool:
    """True if a row has enough earlier sessions, and too few new ones to be compared otherwise.
    Metrics of few samples jump from night to night."""
    enough = row.before.sessions >= LIMITS.fewest > row.after.sessions
    unlike = isinstance(row.reason, Unlike)
    return enough and not unlike and row.unit not in COUNTED and row.base not in FEW_SAMPLES


def limits_of(
    earlier: np.ndarray, by_chance: float, more: float = 1.0, shared: np.ndarray | None = None
) -> np.ndarray:
    """The cost of each metric beyond which one more session is slower than the earlier ones,
    [metrics]. As many of a table are, if the session is like these.

    Args:
        earlier: logarithms of costs, [metrics, sessions]; NaN where a session did not measure.
        by_chance: how many metrics of a usual session.
        more: times as many.
        shared: what metrics share, with the new session, [metrics, sessions + 1]: they are judged
            beside it.
    """
    shared = np.zeros((len(earlier), earlier.shape[1] + 1)) if shared is None else shared
    rest, known = earlier - shared[:, :-1], np.isfinite(earlier)
    n = known.sum(axis=1)
    mean = np.nanmean(rest, axis=1)
    apart = rest - mean[:, None]
    squares, finest = np.nansum(apart**2, axis=1), LIMITS.reference_finest
    size = np.fmax(np.sqrt(squares / (n - 1)), finest)
    # Leaving out a value moves the mean by apart / (n - 1).
    part = (n / (n - 1))[:, None]
    left = np.maximum(squares[:, None] - part * apart**2, 0) / (n - 2)[:, None]
    far = np.sqrt(part) * apart / np.fmax(np.sqrt(left), finest)
    ranked = np.sort(np.where(known, earlier, -np.inf), axis=1)
    worst = np.where(earlier == ranked[:, -1:], ranked[:, -2:-1], ranked[:, -1:])
    others = (np.nansum(earlier, axis=1)[:, None] - earlier) / (n - 1)[:, None]
    least = math.log1p(LIMITS.slower_margin)
    alone = far[(earlier > np.maximum(worst, others + least)) & (far > 0)]
    reach = _reach(alone, more * by_chance * earlier.shape[1])
    chance = more * min(by_chance / max(len(n), LIMITS.together), LIMITS.outlier_nights)
    beyond = np.maximum(reach, -scipy.special.stdtrit(n - 1, chance))
    limit = mean + beyond * size * np.sqrt(1 + 1 / n) + shared[:, -1]
    return np.maximum.reduce([limit, ranked[:, -1], np.nanmean(earlier, axis=1) + least])


def _reach(values: np.ndarray, count: float) -> float:
    """What so many values exceed, by a power law through the largest ones (Hill 1975)."""
    top = np.sort(values)[::-1][: max(int(count) + 1, LIMITS.tail_values)]
    if len(top) <= count:
        return 0.0
    return float(top[-1] * (len(top) / count) ** tail_index(top))


def retested(rows: Sequence[Row]) -> list[Row]:
    """Those that may be slower than in all earlier sessions, the worst first."""
    return _worst([row for row in rows if row.again])


def slower(rows: Sequence[Row]) -> list[Row]:
    """Those that are slower than in all earlier sessions, the worst first."""
    return _worst([row for row in rows if row.outlier])


def _worst(rows: Sequence[Row]) -> list[Row]:
    rows = [row for row in rows if (row.excess or 0.0) > 1]
    return sorted(rows, key=lambda row: -(row.excess or 0.0))


def faster(rows: Sequence[Row]) -> list[Row]:
    rows = [row for row in rows if row.outlier and (row.excess or 1.0) < 1]
    return sorted(rows, key=lambda row: row.excess or 0.0)
