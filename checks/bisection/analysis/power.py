"""Which change a comparison of nights finds, and how many nights a change takes."""

import math
from dataclasses import dataclass

from scipy import stats

from bisection.analysis.shifts import MOST, worth
from bisection.core.thresholds import LIMITS

STEPS = (0.5, 0.2, 0.1, 0.05, 0.02)  # changes that are of interest
LARGEST = 500  # nights per side: more are no plan


@dataclass
class Power:
    """Of comparisons of some metrics, whose nights vary by `sigma` (standard deviation of the
    logarithm) and are correlated with the night before by `rho`."""

    sigma: float
    rho: float
    metrics: int
    chance: float = LIMITS.false_discoveries  # of a false verdict in the table
    least: float = LIMITS.margin  # a smaller change is of no interest

    def visible(self, before: int, after: int) -> float:
        """The smallest change that is found in LIMITS.seen of comparisons of so many nights, as a
        part of the value."""
        error = self.sigma * math.sqrt(sum(1 / worth(n, self.rho) for n in (before, after)))
        df = before + after - 2 + (MOST if self.metrics > 1 else 0)
        sure = stats.t.isf(self.chance / 2 / self.metrics, df)
        # Half of the margin must be exceeded by the estimate, all of it by its interval.
        reach = math.log1p(self.least) - stats.t.isf((1 - LIMITS.confidence) / 2, df) * error
        least = max(sure * error, math.log1p(LIMITS.shared_margin), reach)
        return math.expm1(least + stats.norm.isf(1 - LIMITS.seen) * error)

    def needed(self, effect: float) -> int | None:
        """The nights per side with which a change of this size is found; None if none suffice."""
        nights = range(LIMITS.fewest, LARGEST + 1)
        return next((n for n in nights if self.visible(n, n) <= effect), None)
