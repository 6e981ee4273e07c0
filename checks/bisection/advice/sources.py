"""Sources of advice: launches, stored or new, and published tables."""

import contextlib
import csv
import os
import socket
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bisection.core import paths
from bisection.core.thresholds import LIMITS
from bisection.kernels import results
from bisection.kernels.local import BenchError, build, launch
from bisection.kernels.results import Result, ResultError

ROUNDS = 15  # how often each method is timed
Trial = tuple[int, int, str]  # a launch: ranks, threads per rank, methods
# Of a result that gives no advice: of another kernel, not whole, or without the methods needed.
USELESS = (ResultError, KeyError, TypeError, ValueError, OverflowError)


class Launched:
    """A launch that gives advice, by its result."""

    def __init__(self, result: Result) -> None:
        per_rank, labels = result["layout"]["per_rank"], result["labels"]
        hosts = {rank["host"] for rank in per_rank}
        self.case, self.hosts = result["case"], len(hosts)
        self.ranks, self.threads = len(per_rank), result["layout"]["threads"]  # per rank
        self.cores = self.ranks * self.threads
        names = [labels[name] for name in ("partition", "environ") if labels.get(name)]
        self.where = ", ".join(names) or "here"
        # True if threads are known to have shared cores.
        self.oversubscribed = hosts == {socket.gethostname()} and self.cores > cores_here()
        self.preempted = results.preempted(result)  # fraction of samples
        self.entries = [  # that are right
            entry
            for entry in result["results"]
            if entry["applicable"] and not results.failed_checks(entry)
        ]

    @property
    def key(self) -> tuple[Any, ...]:
        """The key that launches of one kind share."""
        return self.case, self.cores, self.hosts, self.threads, self.where


def cores_here() -> int:
    """The cores of this host."""
    return len(os.sched_getaffinity(0))


Parsed = TypeVar("Parsed", bound=Launched)
Parse = Callable[[Result], Parsed]  # raises one of USELESS


def launched_now(
    kernel: str, parse: Parse, trials: Iterable[Trial], cases: Sequence[str], baselines: str
) -> list[Parsed]:
    """Launches cases of a kernel on this host, each with all trials; ranks share cores where there
    are too few. `baselines`: those measured beside the methods. BenchError if the kernel cannot
    be built, or a launch fails."""
    folder = paths.home() / "cache" / "advise"
    folder.mkdir(parents=True, exist_ok=True)
    executable = build(kernel)
    trials, launches = list(trials), []
    for case in cases:
        for ranks, threads, methods in trials:
            arguments = ["--case", case, "--method", methods, "--baseline", baselines]
            arguments += ["--repeats", str(ROUNDS), "--block", "1", "--warmup", "0"]
            output = folder / f"{kernel}-{case}-{ranks}x{threads}.json"
            result = launch(executable, ranks, arguments, output, threads)
            with contextlib.suppress(ValueError):
                launches.append(parse(result))
    return launches


def stored(
    kernel: str, parse: Parse, folders: Iterable[str] | None, without: Collection[Path] = ()
) -> tuple[list[Parsed], int]:
    """The newest launch of each kind among the results kept, and how many others were left out
    because they were preempted.

    Args:
        kernel: the kernel.
        parse: reads a result.
        folders: where results are, with all below; None for all that runs kept.
        without: folders to leave out.

    Raises:
        BenchError: a folder does not exist.
    """
    newest: dict[tuple[Any, ...], tuple[str, Parsed]] = {}
    left_out = 0
    for folder in map(Path, folders or [paths.home() / "results"]):
        if not folder.is_dir():
            raise BenchError(f"--from {folder}: no such folder")
        for path in sorted(folder.rglob("*.json")):
            if any(path.is_relative_to(other) for other in without):
                continue
            try:
                result = results.load(path, kernel)
                launched = parse(result)
            except USELESS:
                continue
            if "simulated" in result:  # which is no advice for a machine
                continue
            if launched.preempted > LIMITS.preempted_launch:
                left_out += 1
            elif newest.get(launched.key, ("",))[0] <= result["started"]:
                newest[launched.key] = result["started"], launched
    return [newest[key][1] for key in sorted(newest)], left_out


# ---- published tables ----

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


def holds_from(numbers: Iterable[tuple[int, bool]]) -> int | None:
    """The smallest number from which on a condition holds; None if it does not hold at the end."""
    start = None
    for number, holds in sorted(numbers):
        start = (start or number) if holds else None
    return start


def crossover(times: dict[int, dict[str, float]]) -> int | None:
    """The fewest cores from which on a hybrid layout is the fastest; None if it never is. `times`:
    cores -> layout -> seconds."""
    return holds_from((cores, best(by_layout) != "mpi") for cores, by_layout in times.items())
