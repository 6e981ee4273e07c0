"""Which NPAR, and what a rule of thumb loses."""

import math
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy  # its parts load when they are used

from bisection.advice.sources import Launched, Trial, best, circumstances, spread
from bisection.kernels import results
from bisection.kernels.local import Estimate
from bisection.kernels.results import Result

RESAMPLES = 400  # of a bootstrap
# Least parallel efficiency of recommended cores. Catlow et al. (2010), Appendix B, recommends
# cores without a criterion; this one gives its three recommendations.
EFFICIENCY = 0.5
# Rules of thumb: name -> the NPAR for so many ranks.
RULES = {
    "cores/8": lambda ranks: ranks / 8,
    "cores/16": lambda ranks: ranks / 16,
    "cores/32": lambda ranks: ranks / 32,
    "square root": math.sqrt,
}


@dataclass
class Sweep(Launched):
    """One launch: every NPAR, round by round."""

    times: dict[int, list[float]]  # NPAR -> seconds of a step, one per round

    @property
    def medians(self) -> dict[int, float]:
        """NPAR -> median seconds of a step."""
        return {npar: statistics.median(seconds) for npar, seconds in self.times.items()}

    @property
    def best(self) -> int:
        """The NPAR with the shortest median time."""
        return best(self.medians)

    @property
    def spread(self) -> float:
        """The slowest choice over the fastest."""
        return spread(self.medians)

    def over_best(self, npar: int) -> Estimate:
        """Time over that of the best choice, with a 90% interval by resampling rounds."""
        pairs = zip(self.times[npar], self.times[self.best], strict=True)
        return bootstrap([mine / best for mine, best in pairs])

    def ties(self) -> list[int]:
        """Choices that are statistically tied with the best."""
        return [n for n in self.times if n != self.best and self.over_best(n).low <= 1]

    def by_rule(self, rule: str) -> int:
        """The choice that is nearest to a rule of thumb."""
        return nearest(self.times, max(1, RULES[rule](self.ranks)))


def bootstrap(values: Sequence[float]) -> Estimate:
    """The median with its 90% interval; with a fixed seed: the same from the same data.

    Args:
        values: at least two.
    """
    result = scipy.stats.bootstrap(
        (values,),
        np.median,
        confidence_level=0.9,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=1,
    )
    interval = result.confidence_interval
    return Estimate(float(np.median(values)), float(interval.low), float(interval.high))


def trials(ranks: int) -> Iterator[Trial]:
    """One launch of every NPAR that divides the ranks."""
    yield ranks, 1, ",".join(f"npar-{n}" for n in range(1, ranks + 1) if ranks % n == 0)


def sweep(result: Result) -> Sweep | None:
    """The Sweep of a result; None with fewer than two choices measured."""
    times = {}
    for entry in result["results"]:
        match = re.fullmatch(r"npar-(\d+)", entry["method"])
        samples = entry["samples"]
        if not match or not entry["applicable"] or results.failed_checks(entry):
            continue
        rounds = {}
        for number, seconds in zip(samples["rounds"], samples["seconds"], strict=True):
            rounds.setdefault(number, []).append(float(seconds))
        medians = [statistics.median(rounds[number]) for number in sorted(rounds)]
        if medians and all(math.isfinite(value) and value > 0 for value in medians):
            times[int(match[1])] = medians
    whole = min((len(seconds) for seconds in times.values()), default=0)
    if len(times) < 2 or whole < 3:
        return None
    times = {npar: seconds[:whole] for npar, seconds in sorted(times.items())}
    return Sweep(**circumstances(result), times=times)


def efficiencies(times: dict[int, float]) -> dict[int, float]:
    """Cores -> parallel efficiency against the fewest cores.

    Args:
        times: cores -> seconds.
    """
    fewest = min(times)
    return {cores: times[fewest] * fewest / (seconds * cores) for cores, seconds in times.items()}


def recommended(times: dict[int, float]) -> int:
    """The most cores with a parallel efficiency of at least EFFICIENCY; arguments as above."""
    return max(n for n, efficiency in efficiencies(times).items() if efficiency >= EFFICIENCY)


def by_cores(sweeps: Iterable[Sweep]) -> dict[tuple[str, str, int], dict[int, Sweep]]:
    """(case, place, threads per rank) -> cores -> the fastest sweep, of several core counts."""
    groups: dict[tuple[str, str, int], dict[int, Sweep]] = {}
    for sweep in sweeps:
        group = groups.setdefault((sweep.case, sweep.where, sweep.threads), {})
        other = group.setdefault(sweep.cores, sweep)
        if min(sweep.medians.values()) < min(other.medians.values()):
            group[sweep.cores] = sweep
    return {key: group for key, group in groups.items() if len(group) > 1}


def nearest(choices: Iterable[int], wanted: float) -> int:
    """The choice whose ratio to `wanted` is nearest to one."""
    return min(choices, key=lambda n: (abs(math.log(n / wanted)), n))
