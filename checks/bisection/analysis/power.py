"""Which change a comparison of nights finds, and how many nights a change takes."""

import math
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.evidence import evidence
from bisection.analysis.history import histories, nights_of
from bisection.analysis.shifts import MOST, worth
from bisection.core.thresholds import LIMITS
from bisection.core.units import is_absolute
from bisection.store.database import Session, Store

STEPS = (0.5, 0.2, 0.1, 0.05, 0.02)  # changes that are of interest
LARGEST = 500  # nights per side: more are no plan


@dataclass
class Power:
    """Of comparisons of some metrics, whose nights vary by `sigma` (standard deviation of the
    logarithm) and are correlated with the night before by `rho`."""

    sigma: float
    rho: float
    metrics: int

    def visible(self, before: int, after: int) -> float:
        """The smallest change that is found in LIMITS.seen of comparisons of so many nights, as a
        part of the value."""
        error = self.sigma * math.sqrt(sum(1 / worth(n, self.rho) for n in (before, after)))
        df = before + after - 2 + (MOST if self.metrics > 1 else 0)
        sure = -scipy.special.stdtrit(df, LIMITS.false_discoveries / 2 / self.metrics)
        # Half of the margin must be exceeded by the estimate, all of it by its interval.
        quantile = scipy.special.stdtrit(df, (1 - LIMITS.confidence) / 2)
        reach = math.log1p(LIMITS.margin) + quantile * error
        least = max(sure * error, math.log1p(LIMITS.shared_margin), reach)
        return math.expm1(least + scipy.special.ndtri(LIMITS.seen) * error)

    def needed(self, effect: float) -> int | None:
        """The nights per side with which a change of this size is found; None if none suffice."""
        nights = range(LIMITS.fewest, LARGEST + 1)
        return next((n for n in nights if self.visible(n, n) <= effect), None)


@dataclass
class Noise:
    """How the nights of a kernel's usual metric vary."""

    place: str  # system:partition
    kernel: str
    metrics: int
    nights: int
    power: Power


def noises(store: Store, sessions: Sequence[Session], name: re.Pattern[str] | None) -> list[Noise]:
    """The noise of stored nights, by the usual metric of each kernel; a change of level between
    their first and second half is none. An entry per partition and kernel with enough nights, those
    with most metrics first."""
    numbers, times = nights_of(sessions)
    at = [numbers[session.id] for session in sessions]
    half = len(times) // 2
    places = defaultdict(list)
    for test, metric, indices, values in histories(store, sessions, name):
        row = np.full(len(times), np.nan)
        row[[at[i] for i in indices]] = np.log(values)
        if min(np.isfinite(part).sum() for part in (row[:half], row[half:])) >= LIMITS.fewest:
            places[f"{test.system}:{test.partition}"].append(
                (test.check, not is_absolute(metric.unit), row)
            )
    groups = []
    for place, members in places.items():
        checks, ratios, rows = (np.array(part) for part in zip(*members, strict=True))
        names, kernels = np.unique(checks, return_inverse=True)
        seen, _ = evidence(rows[:, :half], rows[:, half:], kernels, ratios, np.split(times, [half]))
        for number, kernel in enumerate(names):
            here = kernels == number
            noise = (float(np.median(part[here])) for part in (seen.own.sigma, seen.own.rho))
            nights = int(np.median(np.isfinite(rows[here]).sum(axis=1)))
            power = Power(*noise, len(rows))
            groups.append(Noise(place, str(kernel), int(here.sum()), nights, power))
    return sorted(groups, key=lambda noise: -noise.metrics)
