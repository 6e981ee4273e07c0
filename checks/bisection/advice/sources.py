"""Sources of advice: launches, stored or made now, and what was published."""

import csv
import os
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from bisection.core import paths
from bisection.core.thresholds import LIMITS
from bisection.kernels import results
from bisection.kernels.local import BenchError, build, launch
from bisection.kernels.results import Result, ResultError

ROUNDS = 15  # how often each method is timed
Trial = tuple[int, int, str]  # a launch to be made: ranks, threads per rank, methods


@dataclass
class Launched:
    """A launch that gives advice."""

    case: str
    ranks: int
    threads: int  # per rank
    hosts: int
    where: str  # partition and environment; "here" where it was no check's
    cores_here: int | None  # cores of this host, if all ranks ran on it
    preempted: float  # fraction of samples

    @property
    def cores(self) -> int:
        """Ranks times threads."""
        return self.ranks * self.threads

    @property
    def oversubscribed(self) -> bool:
        """True if threads are known to have shared cores."""
        return self.cores_here is not None and self.cores > self.cores_here

    @property
    def key(self) -> tuple[Any, ...]:
        """Returns what launches of one kind have in common: case, cores, hosts, threads, place."""
        return self.case, self.cores, self.hosts, self.threads, self.where


def circumstances(result: Result) -> dict[str, Any]:
    """The fields of Launched, of a result."""
    per_rank, labels = result["layout"]["per_rank"], result["labels"]
    hosts = {rank["host"] for rank in per_rank}
    names = [labels[name] for name in ("partition", "environ") if labels.get(name)]
    return {
        "case": result["case"],
        "ranks": len(per_rank),
        "threads": result["layout"]["threads"],
        "hosts": len(hosts),
        "where": ", ".join(names) or "here",
        "cores_here": len(os.sched_getaffinity(0)) if hosts == {socket.gethostname()} else None,
        "preempted": results.preempted(result),
    }


Parsed = TypeVar("Parsed", bound=Launched)


def launched_now(
    kernel: str,
    parse: Callable[[Result], Parsed | None],
    trials: Iterable[Trial],
    cases: Sequence[str],
    baselines: str = "none",
) -> list[Parsed]:
    """Launches a kernel on this host; ranks share cores where there are too few.

    Args:
        kernel: the kernel.
        parse: reads a result; None for one that is of no use.
        trials: the launches of each case.
        cases: cases to run.
        baselines: those measured beside the methods.

    Raises:
        BenchError: the kernel cannot be built, or a launch fails.
    """
    folder = paths.home() / "cache" / "advise"
    folder.mkdir(parents=True, exist_ok=True)
    executable = build(kernel)
    trials, launches = list(trials), []
    for case in cases:
        for ranks, threads, methods in trials:
            arguments = ["--case", case, "--method", methods, "--baseline", baselines]
            arguments += ["--repeats", str(ROUNDS), "--block", "1", "--warmup", "0"]
            output = folder / f"{kernel}-{case}-{ranks}x{threads}.json"
            launches.append(parse(launch(executable, ranks, arguments, output, threads)))
    return [launched for launched in launches if launched]


def stored(
    kernel: str,
    parse: Callable[[Result], Parsed | None],
    folders: Iterable[str] | None,
    cases: Collection[str] | None,
    partition: str | None,
    without: Collection[Path] = (),
) -> tuple[list[Parsed], int]:
    """The newest launch of each kind among the results kept.

    Args:
        kernel: the kernel.
        parse: reads a result; None for one that is of no use.
        folders: where results are, with all below; None for all that runs kept.
        cases: the cases to read; None for all.
        partition: the partition that they must be of; None for any.
        without: folders to leave out.

    Returns:
        The launches, and how many others were left out because they were preempted.

    Raises:
        BenchError: a folder does not exist.
    """
    newest: dict[tuple[Any, ...], tuple[str, Parsed]] = {}
    left_out = 0
    for folder in [Path(name) for name in folders or [paths.home() / "results"]]:
        if not folder.is_dir():
            raise BenchError(f"--from {folder}: no such folder")
        for path in sorted(folder.rglob("*.json")):
            if any(path.is_relative_to(other) for other in without):
                continue
            try:
                result = results.load(path, kernel)
                launched = parse(result)
            except (ResultError, KeyError, TypeError, ValueError, OverflowError):
                continue  # of another kernel, or not whole
            elsewhere = partition and result["labels"].get("partition") != partition
            elsewhere = elsewhere or "simulated" in result  # which is no advice for a machine
            if not launched or elsewhere or (cases and launched.case not in cases):
                continue
            if launched.preempted > LIMITS.preempted_launch:
                left_out += 1
                continue
            key = launched.key
            if key not in newest or newest[key][0] <= result["started"]:
                newest[key] = result["started"], launched
    return [newest[key][1] for key in sorted(newest)], left_out


# ---- what was published ----

LITERATURE = paths.ROOT / "reference" / "literature"
# Layouts of checks, by their names in the table of Chorley and Walker (2010).
MODELS = {
    "pure_mpi": "mpi",
    "hybrid_1mpi_per_node": "node",
    "hybrid_2mpi_per_node": "node2",
}


def npar_times(benchmark: int) -> dict[int, dict[int, float]]:
    """Appendix B of Catlow et al. (2010): cores -> NPAR -> seconds, of benchmark 1, 2 or 5."""
    times: dict[int, dict[int, float]] = {}
    with open(LITERATURE / "vasp_npar.csv", newline="") as file:
        for row in csv.DictReader(file):
            if int(row["benchmark"]) == benchmark:
                by_npar = times.setdefault(int(row["cores"]), {})
                by_npar[int(row["npar"])] = float(row["time_s"])
    return times


def md_times(cluster: str, test: int) -> dict[int, dict[str, float]]:
    """Table 1 of Chorley and Walker (2010): cores -> layout -> seconds; more cores than one, where
    layouts differ."""
    times: dict[int, dict[str, float]] = {}
    with open(LITERATURE / "dlpoly_times.csv", newline="") as file:
        for row in csv.DictReader(file):
            if (row["cluster"], int(row["test"])) == (cluster, test) and int(row["cores"]) > 1:
                by_layout = times.setdefault(int(row["cores"]), {})
                by_layout[MODELS[row["model"]]] = float(row["time_s"])
    return times


Choice = TypeVar("Choice")


def best(times: dict[Choice, float]) -> Choice:
    """The choice of the shortest time."""
    return min(times, key=times.get)


def spread(times: dict[Choice, float]) -> float:
    """The longest time over the shortest."""
    return max(times.values()) / min(times.values())


def crossover(times: dict[int, dict[str, float]]) -> int | None:
    """The fewest cores from which on a hybrid layout is the fastest; None if it never is.

    Args:
        times: cores -> layout -> seconds.
    """
    from_here = None
    for cores in sorted(times):
        hybrid = best(times[cores]) != "mpi"
        from_here = (from_here or cores) if hybrid else None
    return from_here
