"""What was published, as numbers: reference/literature/."""

import csv
import random
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from bisection.core import paths
from bisection.core.verdicts import DISTURBED
from bisection.kernels import results
from bisection.kernels.local import BenchError
from bisection.kernels.results import ResultError

RESAMPLES = 400  # of a bootstrap


@dataclass
class Estimate:
    """A number with the interval in which 90% of its resamples lie."""

    value: float
    low: float
    high: float

    def loss(self):
        """As a loss against 1: +4% [2, 6]."""
        return f"{self.value - 1:+.0%} [{self.low - 1:+.0%}, {self.high - 1:+.0%}]"


def bootstrap(values):
    """The median with its 5% and 95% points; with a fixed seed: the same from the same data."""
    pick = random.Random(1)
    medians = sorted(
        statistics.median(pick.choices(values, k=len(values))) for _ in range(RESAMPLES)
    )
    low, high = medians[RESAMPLES // 20], medians[-1 - RESAMPLES // 20]
    return Estimate(statistics.median(values), low, high)


def rank_counts(lists):
    counts = []
    for word in (word for words in lists for word in words.split(",")):
        if not word.isdecimal() or not 2 <= int(word) <= 4096:
            raise ValueError(f"--measure {word}: not a whole number of ranks from 2 to 4096")
        counts.append(int(word))
    return counts


def stored(kernel, parse, folders, cases, partition):
    """The newest launch of each kind (its `key`) among the results kept, as `parse` reads it."""
    newest, left_out = {}, 0
    for folder in [Path(name) for name in folders or [paths.home() / "results"]]:
        if not folder.is_dir():
            raise BenchError(f"--from {folder}: no such folder")
        for path in sorted(folder.rglob("*.json")):
            try:
                result = results.load(path, kernel)
                found = parse(result)
            except (ResultError, KeyError, TypeError, ValueError, OverflowError):
                continue  # of another kernel, or not whole
            labels = result.get("labels", {})
            if not found or (partition and labels.get("partition") != partition):
                continue
            if cases and found.case not in cases:
                continue
            if results.disturbed(result) > DISTURBED:
                left_out += 1
                continue
            if found.key not in newest or newest[found.key][0] <= result["started"]:
                newest[found.key] = result["started"], found
    if left_out:
        print(
            f"bisection advise: {left_out} launches left out: other processes were on their cores "
            f"in more than {DISTURBED:.0%} of the samples",
            file=sys.stderr,
        )
    return [newest[key][1] for key in sorted(newest)]


FOLDER = paths.ROOT / "reference" / "literature"


def npar_times(benchmark):
    """Appendix B of Catlow et al. (2010): cores -> NPAR -> seconds, of benchmark 1, 2 or 5."""
    times = {}
    with open(FOLDER / "vasp_npar.csv", newline="") as file:
        for row in csv.DictReader(file):
            if int(row["benchmark"]) == benchmark:
                by_npar = times.setdefault(int(row["cores"]), {})
                by_npar[int(row["npar"])] = float(row["time_s"])
    return times


def best(by_npar):
    """The NPAR of the shortest time."""
    return min(by_npar, key=by_npar.get)


def spread(by_npar):
    """The longest time over the shortest."""
    return max(by_npar.values()) / min(by_npar.values())


def stage_time(benchmark, stage, cores):
    """The better of two runs, as the source counts; None if it failed."""
    with open(FOLDER / "vasp_timings.csv", newline="") as file:
        for row in csv.DictReader(file):
            key = int(row["benchmark"]), row["stage"], int(row["cores"])
            if key == (benchmark, stage, cores) and row["status"] == "ok":
                return min(float(row["run1_s"]), float(row["run2_s"]))
    return None


HYBRIDS = {"node": "hybrid_1mpi_per_node", "node2": "hybrid_2mpi_per_node"}


def md_times(cluster, test):
    """Table 1 of Chorley and Walker (2010): cores -> layout -> seconds; more cores than one, where
    layouts differ."""
    names = {"pure_mpi": "mpi", **{model: layout for layout, model in HYBRIDS.items()}}
    times = {}
    with open(FOLDER / "dlpoly_times.csv", newline="") as file:
        for row in csv.DictReader(file):
            if (row["cluster"], int(row["test"])) == (cluster, test) and int(row["cores"]) > 1:
                by_layout = times.setdefault(int(row["cores"]), {})
                by_layout[names[row["model"]]] = float(row["time_s"])
    return times


def crossover(times):
    """The fewest cores from which on a hybrid layout is the fastest; None if it never is."""
    from_here = None
    for cores in sorted(times):
        hybrid = best(times[cores]) != "mpi"
        from_here = (from_here or cores) if hybrid else None
    return from_here
