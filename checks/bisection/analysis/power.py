"""How many nights a change takes, by the noise of stored ones."""

import bisect
import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.histories import History, histories, nights_of
from bisection.analysis.noise import Differences, independent, mean_variance, needed_errors
from bisection.analysis.shared_factors import evidence
from bisection.core.thresholds import LIMITS
from bisection.core.units import is_absolute
from bisection.store.database import Session, Store

STEPS = (0.5, 0.2, 0.1, 0.05, 0.02)  # changes that are of interest


@dataclass
class Power:
    """Of comparisons of some metrics."""

    sigma: float  # standard deviation of the logarithm between nights
    rho: float  # correlation with the night before
    metrics: int
    nights: tuple[int, ...] = ()  # of the usual metric, before and after

    def visible(self, before: int, after: int) -> float:
        """The smallest change that is found in LIMITS.seen of comparisons of so many nights, as a
        part of the value."""
        variance = sum(mean_variance(n, self.rho) for n in (before, after))
        error = self.sigma * math.sqrt(variance)
        df = independent(before + after - 2, self.rho)
        df += LIMITS.noise_pool if self.metrics >= LIMITS.few_metrics else 0
        sure = -scipy.special.stdtrit(df, LIMITS.false_discoveries / 2 / self.metrics)
        # Half of the margin must be exceeded by the estimate, all of it by its interval.
        quantile = scipy.special.stdtrit(df, (1 - LIMITS.confidence) / 2)
        reach = math.log1p(LIMITS.margin) + quantile * error
        least = max(sure * error, math.log1p(LIMITS.shared_margin), reach)
        return math.expm1(least + scipy.special.ndtri(LIMITS.seen) * error)

    def alarm(self, effect: float, launches: int = 1) -> int | None:
        """The nights after which a run raises an alarm at a change of this size, as a part of the
        value, in half of all cases; None if it takes too many. `launches`: of each, a night."""
        least = LIMITS.level_repeated if launches > 1 else LIMITS.level
        sigma = self.sigma * math.sqrt(1 - LIMITS.launch_part * (1 - 1 / launches))
        return nights_until(math.log1p(effect), sigma, self.rho, self.metrics, least)

    def needed(self, effect: float) -> int | None:
        """The nights per side with which a change of this size is found; None if none suffice."""
        nights = range(LIMITS.fewest, LIMITS.plan_most + 1)
        least = bisect.bisect_left(nights, -effect, key=lambda n: -self.visible(n, n))
        return nights[least] if least < len(nights) else None


def chance_of_alarm(
    nights: int, step: float, size: float | np.ndarray, rho: float | np.ndarray, metrics: int
) -> float | np.ndarray:
    """The chance that a step is an alarm after so many nights.

    Args:
        nights: of the new level.
        step: logarithm of the new level over the old one, which lasted LIMITS.usual_nights.
        size: standard deviation of the logarithm between nights, of one metric or several.
        rho: correlation of neighbouring nights.
        metrics: of the table.
    """
    usual = LIMITS.usual_nights
    least = needed_errors(np.full(metrics, usual), LIMITS.false_alarms)
    error = size * np.sqrt(mean_variance(nights, rho) + mean_variance(usual, rho))
    return scipy.special.ndtr(step / error - least[0])


def nights_until(
    step: float, size: float, rho: float, metrics: int, least: int = LIMITS.level
) -> int | None:
    """How many nights of a new level it takes until half of such changes are found, from `least`
    on; None if none within LIMITS.latest_nights. Other arguments as of chance_of_alarm()."""
    nights = range(least, LIMITS.latest_nights + 1)
    return next((n for n in nights if chance_of_alarm(n, step, size, rho, metrics) >= 0.5), None)


@dataclass
class NoiseTable:
    """The metrics of one partition that have enough nights."""

    place: str  # system:partition
    histories: list[History]
    values: np.ndarray  # logarithms, [metrics, nights]; NaN: missing
    kernels: np.ndarray  # the number of each metric's check, [metrics]
    noise: Differences  # between the halves of the nights, of what they do not share


def noise_tables(
    store: Store, sessions: Sequence[Session], name: re.Pattern[str] | None
) -> list[NoiseTable]:
    """The noise of stored nights; a change of level between their first and second half is none."""
    numbers = nights_of(sessions)
    at, count = [numbers[session.id] for session in sessions], max(numbers.values(), default=-1) + 1
    half = count // 2
    places = defaultdict(list)
    for history in histories(store, sessions, name):
        row = np.full(count, np.nan)
        row[[at[i] for i in history.indices]] = np.log(history.values)
        if min(np.isfinite(part).sum() for part in (row[:half], row[half:])) >= LIMITS.fewest:
            places[f"{history.test.system}:{history.test.partition}"].append((history, row))
    tables = []
    for place, members in places.items():
        series, rows = [history for history, _ in members], np.array([row for _, row in members])
        kernels = np.unique([history.test.check for history in series], return_inverse=True)[1]
        ratios = np.array([not is_absolute(history.metric.unit) for history in series])
        before, after = np.split(rows, [half], axis=1)
        seen, _ = evidence(before, after, kernels, ratios)
        tables.append(NoiseTable(place, series, rows, kernels, seen.apart))
    return tables


def noises(tables: Sequence[NoiseTable]) -> list[tuple[str, str, int, int, Power]]:
    """The noise of stored nights, by the usual metric of each kernel: system:partition, kernel, its
    metrics, their nights, the power by its noise; those with most metrics first."""
    groups = []
    for table in tables:
        for number in np.unique(table.kernels):
            here = table.kernels == number
            kernel = table.histories[int(here.argmax())].test.check
            sigma, rho = (float(np.median(p[here])) for p in (table.noise.sigma, table.noise.rho))
            nights, power = (
                np.isfinite(table.values[here]).sum(axis=1),
                Power(sigma, rho, len(here)),
            )
            groups.append((table.place, kernel, len(nights), int(np.median(nights)), power))
    return sorted(groups, key=lambda group: -group[2])
