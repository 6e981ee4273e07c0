"""Whether one session is outside of what all earlier ones showed, and whether a retest confirms it.

The bound on a metric is the prediction of one more session from n earlier ones, on logarithms:
mean + t(n - 1) * standard deviation * sqrt(1 + 1/n). The chance of a metric is the larger of the
one by Student's t and the fraction of earlier values that the same rule, applied to each without
it, finds as improbable: nights with heavy tails set their own bound. The chances of one night are
adjusted for the number of its metrics by Benjamini and Hochberg (1995). A metric is outside if it
is beyond that bound, beyond every earlier session, and slower than their mean by a margin.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np
from scipy.special import stdtr, stdtrit

from bisection.analysis.model import Row
from bisection.analysis.observations import Jobs, Key
from bisection.analysis.statistics import adjust_fdr
from bisection.core.identity import COUNTED
from bisection.core.reasons import Code
from bisection.core.thresholds import LIMITS

FEW_SAMPLES = ("time_min", "time_p99")  # metrics of few samples of a launch
HUGE = 700  # a logarithm whose exponential is still a number
TINY = 1e-9  # standard deviation of the logarithm where all earlier values are the same


def mark_suspects(
    rows: Sequence[Row], samples: Sequence[tuple[Jobs, Jobs]], lost: Mapping[Key, Sequence[float]]
) -> None:
    """Marks the rows in which few new sessions are outside of all earlier ones, and notes with each
    what was set beside them, and beyond which value it is slower.

    Args:
        rows: a judged table.
        samples: of each row, the jobs before and after.
        lost: values after from launches whose cores others had: they count where there are no
            others, as nothing that is slow may pass for that reason alone.
    """
    values = []
    for row, (_, now) in zip(rows, samples, strict=True):
        usable = [median(jobs) for jobs in now.values()] or lost.get(row.key, [])
        values.append(median(usable) if usable else None)
    here = [i for i, row in enumerate(rows) if values[i] is not None and _is_open(row)]
    if not here:
        return
    sign = np.array([1 if rows[i].better == "lower" else -1 for i in here])
    earlier = np.full((len(here), max(len(samples[i][0]) for i in here)), np.nan)
    for line, i in enumerate(here):
        sessions = [median(jobs) for jobs in samples[i][0].values()]
        earlier[line, : len(sessions)] = np.log(sessions)
    new = np.log([values[i] for i in here])
    earlier, new = sign[:, None] * earlier, sign * new
    slower, bound = outside(earlier, new)
    faster, _ = outside(-earlier, -new)
    for line, i in enumerate(here):
        rows[i].seen = values[i]
        rows[i].limit = float(np.exp(np.clip(sign[line] * bound[line], -HUGE, HUGE)))
        rows[i].suspect = bool(slower[line] or faster[line])


def _is_open(row: Row) -> bool:
    """Whether a row has enough earlier sessions, and too few new ones to be compared otherwise.

    The fastest sample and the slowest percent are of few samples: they jump from night to night.
    """
    enough = row.before.sessions >= LIMITS.fewest > row.after.sessions
    unlike = row.reason is not None and row.reason.code == Code.UNLIKE
    return enough and not unlike and row.unit not in COUNTED and row.base not in FEW_SAMPLES


def outside(earlier: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which metrics of a new session are higher than all earlier ones say.

    Args:
        earlier: logarithms of costs, [metrics, sessions]; NaN where a session did not measure.
        new: of the new session, [metrics].

    Returns:
        Whether each is outside, [metrics]; the bound of each, [metrics].
    """
    known = np.isfinite(earlier)
    n = known.sum(axis=1)
    values = np.where(known, earlier, 0)
    mean = values.sum(axis=1) / n
    apart = np.where(known, earlier - mean[:, None], 0)
    squares = (apart**2).sum(axis=1)
    spread = _spread(squares, n)
    chance = stdtr(n - 1, (mean - new) / spread)
    # Each earlier value by the others: leaving out x moves their mean by (x - mean) / (n - 1).
    rest = n[:, None] - 1
    moved = apart / rest
    others = np.maximum(squares[:, None] - apart**2 - rest * moved**2, 0)
    tested = stdtr(rest - 1, -(apart + moved) / _spread(others, rest))
    tested = np.sort(tested[known])
    observed = np.searchsorted(tested, chance, side="right") / len(tested)
    adjusted = adjust_fdr(np.maximum(chance, observed))
    # The largest chance that is outside, with as many metrics as are: again for the retest.
    critical = LIMITS.slower_chance * max((adjusted <= LIMITS.slower_chance).sum(), 1) / len(new)
    fewer = int(critical * len(tested))
    if fewer < len(tested):
        critical = min(critical, np.nextafter(tested[fewer], 0))
    bound = np.maximum.reduce(
        [
            mean - stdtrit(n - 1, critical) * spread,
            np.where(known, earlier, -np.inf).max(axis=1),
            mean + math.log1p(LIMITS.slower_margin),
        ]
    )
    return new > bound, bound


def _spread(squares: np.ndarray, n: np.ndarray) -> np.ndarray:
    """The standard deviation of one more value beside the mean of n, by their squared distances."""
    return np.maximum(np.sqrt(squares / (n - 1)), TINY) * np.sqrt(1 + 1 / n)


def slower(rows: Sequence[Row]) -> list[Row]:
    """The rows that are slower than in all earlier sessions, the worst first."""
    rows = [row for row in rows if row.suspect and row.excess > 1]
    return sorted(rows, key=lambda row: -row.excess)


def faster(rows: Sequence[Row]) -> list[Row]:
    """The rows that are faster than in all earlier sessions, the fastest first."""
    rows = [row for row in rows if row.suspect and row.excess < 1]
    return sorted(rows, key=lambda row: row.excess)
