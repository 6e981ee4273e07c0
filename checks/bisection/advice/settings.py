"""Recommended settings: NPAR, ranks and threads of molecular dynamics, parallel eigensolvers."""

import math
import re
import statistics
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import scipy  # its parts load when they are used

from bisection.advice.sources import Launched, Trial, best
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
# Parts of a step: those of figures 4 to 9 of Chorley and Walker (2010), then loops of 10 and 11.
SHARES = (
    *("communication", "barrier", "collective", "p2p"),
    *("two_body_forces", "metal_ld_compute", "tersoff_forces", "fork_join"),
)
# The direct solvers of libraries; jacobi pays by its memory, and by guesses.
SOLVERS = ("pdsyevd", "pdsyevr", "elpa1")


class Sweep(Launched):
    """One launch of the kernel npar: every NPAR, round by round; ValueError if fewer than two
    choices, or than three rounds, were measured."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        times = {}
        for entry in self.entries:
            match = re.fullmatch(r"npar-(\d+)", entry["method"])
            seconds = _by_round(**entry["samples"]) if match else []
            if seconds and all(math.isfinite(value) and value > 0 for value in seconds):
                times[int(match[1])] = seconds
        whole = min(map(len, times.values()), default=0)
        if len(times) < 2 or whole < 3:
            raise ValueError("too few choices or rounds")
        # NPAR -> seconds of a step, one per round
        self.times = {npar: seconds[:whole] for npar, seconds in sorted(times.items())}
        self.medians = {npar: statistics.median(seconds) for npar, seconds in self.times.items()}
        self.best = best(self.medians)

    @staticmethod
    def trials(ranks: int) -> Iterator[Trial]:
        """One launch of every NPAR that divides the ranks."""
        yield ranks, 1, ",".join(f"npar-{n}" for n in range(1, ranks + 1) if ranks % n == 0)

    def over_best(self, npar: int) -> Estimate:
        """Time over that of the best choice, with a 90% interval by resampling rounds."""
        pairs = zip(self.times[npar], self.times[self.best], strict=True)
        return bootstrap([mine / best for mine, best in pairs])

    def ties(self) -> list[int]:
        """Choices that are statistically tied with the best."""
        return [n for n in self.times if n != self.best and self.over_best(n).low <= 1]


def _by_round(seconds: Sequence[float], rounds: Sequence[int], **_: object) -> list[float]:
    """The median of the samples of each round."""
    pairs = [*zip(rounds, seconds, strict=True)]
    return [statistics.median(s for of, s in pairs if of == n) for n in sorted(set(rounds))]


class LayoutRun(Launched):
    """One launch of the kernel md: its packed method, in seconds, bytes and messages per step;
    ValueError if that was not measured."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        packed = [entry for entry in self.entries if entry["method"] == "packed"]
        if not packed:
            raise ValueError("the packed method was not measured")
        metrics = packed[0]["metrics"]
        self.values = {name: metric["value"] for name, metric in metrics.items()}
        self.time = Estimate(*(metrics["time"][part] for part in ("value", "low", "high")))
        # mean over ranks
        self.seconds = {name: self.values[f"{name}_share"] * self.time.value for name in SHARES}
        self.layout = f"{self.ranks}x{self.threads}"

    @staticmethod
    def trials(cores: int) -> Iterator[Trial]:
        """Every split of so many cores into ranks and threads."""
        for threads in range(1, cores + 1):
            if cores % threads == 0:
                yield cores // threads, threads, "packed"


class Solved(Launched):
    """One launch of the kernel eigen: parallel solvers beside LAPACK on one core; ValueError if it
    is of other work, or has no solver beside dsyevd."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        ratios, seconds = {}, {}
        for entry in self.entries:
            metric = entry["metrics"].get("ratio_dsyevd")
            if entry["method"] in SOLVERS and metric and metric["value"] is not None:
                ratio = Estimate(*(metric[part] for part in ("value", "low", "high")))
                ratios[entry["method"]] = ratio
                seconds[entry["method"]] = entry["metrics"]["time"]["value"]
        alone = self.case.startswith(("fock-", "pdsyevd-")) and result["details"]["kpoints"] == 1
        if not ratios or not alone:
            raise ValueError("no diagonalisation alone")
        self.rows = int(result["details"]["size"])  # of the matrix
        self.best = best({name: ratio.value for name, ratio in ratios.items()})
        self.ratio = ratios[self.best]  # its time over that of dsyevd, with quartiles
        self.seconds = seconds[self.best]  # of a solution
        self.pays = self.ratio.high < 1  # faster than one core, the upper quartile too

    @staticmethod
    def trials(ranks: int) -> Iterator[Trial]:
        """One launch of the direct solvers."""
        yield ranks, 1, ",".join(SOLVERS)


def bootstrap(values: Sequence[float]) -> Estimate:
    """The median of two values or more with its 90% interval; with a fixed seed: the same from the
    same data."""
    options = {"confidence_level": 0.9, "n_resamples": RESAMPLES, "method": "percentile"}
    interval = scipy.stats.bootstrap((values,), np.median, rng=1, **options).confidence_interval
    return Estimate(float(np.median(values)), float(interval.low), float(interval.high))


def recommended(times: dict[int, float]) -> tuple[int, float]:
    """The most cores with a parallel efficiency of at least EFFICIENCY, and their efficiency;
    `times`: cores -> seconds."""
    fewest = min(times)
    efficiencies = {n: times[fewest] * fewest / (seconds * n) for n, seconds in times.items()}
    cores = max(n for n, efficiency in efficiencies.items() if efficiency >= EFFICIENCY)
    return cores, efficiencies[cores]


def nearest(choices: Iterable[int], wanted: float) -> int:
    """The choice whose ratio to `wanted` is nearest to one."""
    return min(choices, key=lambda n: (abs(math.log(n / wanted)), n))
