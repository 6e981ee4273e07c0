"""What advice is made from: results kept, and numbers published (reference/literature/)."""

import csv
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
from scipy import stats

from bisection.core import paths
from bisection.core.format import plural, some
from bisection.core.thresholds import LIMITS
from bisection.kernels import results
from bisection.kernels.local import BenchError
from bisection.kernels.results import Result, ResultError
from bisection.store.marks import excluded_folders

RESAMPLES = 400  # of a bootstrap


class Launched(Protocol):
    """What a launch is read as."""

    case: str

    @property
    def key(self) -> tuple[Any, ...]:
        """What launches of one kind have in common."""


Parsed = TypeVar("Parsed", bound=Launched)


@dataclass
class Estimate:
    """A number with its 90% bootstrap interval."""

    value: float
    low: float
    high: float

    def loss(self) -> str:
        """As a loss against 1: +4% [2, 6]."""
        return f"{self.value - 1:+.0%} [{self.low - 1:+.0%}, {self.high - 1:+.0%}]"


def bootstrap(values: Sequence[float]) -> Estimate:
    """The median with its interval; with a fixed seed: the same from the same data.

    Args:
        values: at least two.
    """
    result = stats.bootstrap(
        (values,),
        np.median,
        confidence_level=0.9,
        n_resamples=RESAMPLES,
        method="percentile",
        rng=1,
    )
    interval = result.confidence_interval
    return Estimate(float(np.median(values)), float(interval.low), float(interval.high))


def stored(
    kernel: str,
    parse: Callable[[Result], Parsed | None],
    folders: Iterable[str] | None,
    cases: Collection[str] | None,
    partition: str | None,
) -> list[Parsed]:
    """The newest launch of each kind among the results kept.

    Args:
        kernel: the kernel.
        parse: reads a result; None for one that is of no use.
        folders: where results are, with all below; None for all that runs kept.
        cases: the cases to read; None for all.
        partition: the partition that they must be of; None for any.

    Raises:
        BenchError: a folder does not exist.
    """
    newest: dict[tuple[Any, ...], tuple[str, Parsed]] = {}
    left_out = 0
    excluded = [] if folders else excluded_folders(paths.home())
    for folder in [Path(name) for name in folders or [paths.home() / "results"]]:
        if not folder.is_dir():
            raise BenchError(f"--from {folder}: no such folder")
        for path in sorted(folder.rglob("*.json")):
            if any(path.is_relative_to(other) for other in excluded):
                continue
            try:
                result = results.load(path, kernel)
                launch = parse(result)
            except (ResultError, KeyError, TypeError, ValueError, OverflowError):
                continue  # of another kernel, or not whole
            labels = result.get("labels", {})
            if not launch or (partition and labels.get("partition") != partition):
                continue
            if cases and launch.case not in cases:
                continue
            if results.preempted(result) > LIMITS.preempted_launch:
                left_out += 1
                continue
            if launch.key not in newest or newest[launch.key][0] <= result["started"]:
                newest[launch.key] = result["started"], launch
    if excluded:
        names = some([folder.name for folder in excluded], 3)
        text = f"{plural(len(excluded), 'excluded session')} left out: {names}"
        print(f"bisection advise: {text}", file=sys.stderr)
    if left_out:
        print(
            f"bisection advise: {plural(left_out, 'launch', 'launches')} left out: other processes "
            f"were on their cores in more than {LIMITS.preempted_launch:.0%} of the samples",
            file=sys.stderr,
        )
    return [newest[key][1] for key in sorted(newest)]


FOLDER = paths.ROOT / "reference" / "literature"


def npar_times(benchmark: int) -> dict[int, dict[int, float]]:
    """Appendix B of Catlow et al. (2010): cores -> NPAR -> seconds, of benchmark 1, 2 or 5."""
    times: dict[int, dict[int, float]] = {}
    with open(FOLDER / "vasp_npar.csv", newline="") as file:
        for row in csv.DictReader(file):
            if int(row["benchmark"]) == benchmark:
                by_npar = times.setdefault(int(row["cores"]), {})
                by_npar[int(row["npar"])] = float(row["time_s"])
    return times


Choice = TypeVar("Choice")


def best(times: dict[Choice, float]) -> Choice:
    """The choice of the shortest time."""
    return min(times, key=times.get)


def spread(times: dict[Choice, float]) -> float:
    """The longest time over the shortest."""
    return max(times.values()) / min(times.values())


def stage_time(benchmark: int, stage: str, cores: int) -> float | None:
    """Seconds of a stage on so many cores: the better of two runs, as the source counts; None if it
    failed."""
    with open(FOLDER / "vasp_timings.csv", newline="") as file:
        for row in csv.DictReader(file):
            key = int(row["benchmark"]), row["stage"], int(row["cores"])
            if key == (benchmark, stage, cores) and row["status"] == "ok":
                return min(float(row["run1_s"]), float(row["run2_s"]))
    return None


HYBRIDS = {"node": "hybrid_1mpi_per_node", "node2": "hybrid_2mpi_per_node"}


def md_times(cluster: str, test: int) -> dict[int, dict[str, float]]:
    """Table 1 of Chorley and Walker (2010): cores -> layout -> seconds; more cores than one, where
    layouts differ."""
    names = {"pure_mpi": "mpi", **{model: layout for layout, model in HYBRIDS.items()}}
    times: dict[int, dict[str, float]] = {}
    with open(FOLDER / "dlpoly_times.csv", newline="") as file:
        for row in csv.DictReader(file):
            if (row["cluster"], int(row["test"])) == (cluster, test) and int(row["cores"]) > 1:
                by_layout = times.setdefault(int(row["cores"]), {})
                by_layout[names[row["model"]]] = float(row["time_s"])
    return times


def crossover(times: dict[int, dict[str, float]]) -> int | None:
    """The fewest cores from which on a hybrid layout is the fastest; None if it never is."""
    from_here = None
    for cores in sorted(times):
        hybrid = best(times[cores]) != "mpi"
        from_here = (from_here or cores) if hybrid else None
    return from_here
