"""The histories of a partition as arrays: costs, what metrics share, and what a retest repeated."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bisection.analysis.histories import History, nightly
from bisection.analysis.noise import without_weeks
from bisection.analysis.shared_factors import factors
from bisection.analysis.statistics import medians, scale
from bisection.core.grouping import grouped
from bisection.core.thresholds import LIMITS
from bisection.core.units import is_absolute
from bisection.store.database import DAY, Session


@dataclass
class NightTable:
    """The metrics of one partition, in the nights of it."""

    histories: list[History]
    sessions: list[Session]
    costs: np.ndarray  # logarithms, of all launches of a night, [metrics, nights]; NaN: missing
    kernels: np.ndarray  # number of each metric's check
    shared: np.ndarray  # by all metrics, and by those of each check beside it: [1 + checks, nights]
    apart: np.ndarray  # what metrics have beside both, [metrics, nights]
    mildest: np.ndarray  # launch of each night that was repeated, as `apart`; NaN: was not
    notes: list[str]  # on sessions and metrics that do not count


def tables_of(looked_at: Sequence[History], sessions: Sequence[Session]) -> list[NightTable]:
    """A table per partition, of histories of these sessions, which are in order of time. Those that
    never varied have no part in what metrics share: beside it, they would seem to change."""
    varying = (history for history in looked_at if len(set(history.values.tolist())) > 1)
    groups = grouped(varying, lambda history: history.test.identity[:3]).values()
    return [_table(histories, sessions) for histories in groups]


def _table(histories: list[History], sessions: Sequence[Session]) -> NightTable:
    costs, kept, notes = nightly(histories, sessions)
    there = [sessions[night] for night in kept]
    _, kernels = np.unique([test.check for test, *_ in histories], return_inverse=True)
    clear = without_weeks(costs, np.array([int(s.start // DAY % 7) for s in there]))
    residuals = clear - medians(clear, 1)[:, None]
    shared = np.vstack(factors(residuals, kernels))
    apart = residuals - np.nan_to_num(shared[0]) - np.nan_to_num(shared[1:])[kernels]
    middle, mildest = (part - costs for part in _with_repeats(histories, costs, apart, kept))
    clear, apart, mildest = clear + middle, apart + middle, apart + mildest
    return NightTable(histories, there, clear, kernels, shared, apart, mildest, notes)


def _with_repeats(
    histories: list[History], costs: np.ndarray, apart: np.ndarray, kept: list[int]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the median cost of all launches of a night, and the mildest one of a night that was
    repeated (else NaN); logarithms, [metrics, nights].

    The machine may be faster or slower in the retest than in the run. Times and rates lose what
    those share there that were as usual in the run. If these are few, their repeats do not count.
    """
    again: dict[int, dict[int, np.ndarray]] = defaultdict(dict)  # night -> row -> logarithms
    column = {night: place for place, night in enumerate(kept)}
    for row, history in enumerate(histories):
        for night in history.again.keys() & column.keys():
            again[column[night]][row] = np.log(history.again[night]) * history.metric.sign
    middle, mildest = costs.copy(), np.full(costs.shape, np.nan)
    usual = np.abs(apart) < LIMITS.noise_cut * scale(apart, 1)[:, None]
    absolute = [is_absolute(history.metric.unit) for history in histories]
    for night, of_night in again.items():
        as_usual = [row for row in of_night if absolute[row] and usual[row, night]]
        moved = [np.median(of_night[row]) - costs[row, night] for row in as_usual]
        shift = np.median(moved) if len(moved) >= LIMITS.kernel_metrics else np.nan
        for row, logs in of_night.items():
            launches = np.append(costs[row, night], logs - (shift if absolute[row] else 0))
            if np.isfinite(launches).all():
                middle[row, night], mildest[row, night] = np.median(launches), min(launches)
    return middle, mildest
