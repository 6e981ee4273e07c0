"""Sources of advice: launches, stored or new, with what they recommend, and published tables."""

import contextlib
import csv
import math
import os
import re
import socket
import statistics
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from bisection.analysis.resampling import estimate
from bisection.core import paths
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import BisectionError
from bisection.kernels import results, tables
from bisection.kernels.local import Estimate, build, launch
from bisection.kernels.results import Result, ResultError
from bisection.store.marks import excluded_folders

ROUNDS = 15  # how often each method is timed
Trial = tuple[int, int, str]  # a launch: ranks, threads per rank, methods
# Of a result that gives no advice: of another kernel, not whole, or without the methods needed.
USELESS = (ResultError, KeyError, TypeError, ValueError, OverflowError)
# Rules of thumb: name -> the NPAR for so many ranks.
RULES = {
    "cores/8": lambda ranks: ranks / 8,
    "cores/16": lambda ranks: ranks / 16,
    "cores/32": lambda ranks: ranks / 32,
    "square root": math.sqrt,
}
# Parts of a step: those of figures 4 to 9 of Chorley and Walker (2010), then loops of 10 and 11.
LOOPS = ("two_body_forces", "metal_ld_compute", "tersoff_forces", "fork_join")
SHARES = ("communication", "barrier", "collective", "p2p", *LOOPS)
# The direct solvers of libraries; jacobi pays by its memory, and by guesses.
SOLVERS = ("pdsyevd", "pdsyevr", "elpa1")


class Launched:
    """A launch that gives advice, by its result."""

    def __init__(self, result: Result) -> None:
        layout, labels = result["layout"], result["labels"]
        hosts = results.hosts(result)
        self.case, self.hosts = result["case"], len(hosts)
        self.ranks, self.threads = layout["ranks"], layout["threads"]  # per rank
        self.cores = self.ranks * self.threads
        self.where = ", ".join(filter(None, map(labels.get, ("partition", "environ")))) or "here"
        # True if threads are known to have shared cores.
        self.oversubscribed = hosts == [socket.gethostname()] and self.cores > cores_here()
        self.disturbed = results.disturbed(result)  # fraction of samples
        self.entries = [  # that are right
            entry
            for entry in result["results"]
            if entry["applicable"] and not results.failed_checks(entry)
        ]
        # that launches of one kind share
        self.key = (self.case, self.cores, self.hosts, self.threads, self.where)


def cores_here() -> int:
    return len(os.sched_getaffinity(0))


# ---- what launches recommend ----


class Sweep(Launched):
    """One launch of the kernel npar: every NPAR, round by round; ValueError if fewer than two
    choices, or than three rounds, were measured."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        times: dict[int, list[float]] = {}
        for entry in self.entries:
            if match := re.fullmatch(r"npar-(\d+)", entry["method"]):
                seconds = _by_round(**entry["samples"])
                if seconds and all(math.isfinite(value) and value > 0 for value in seconds):
                    times[int(match[1])] = seconds
        whole = min(map(len, times.values()), default=0)
        if len(times) < 2 or whole < 3:
            raise ValueError("too few choices or rounds")
        # NPAR -> seconds of a step, one per round
        self.times = {npar: seconds[:whole] for npar, seconds in sorted(times.items())}
        self.medians = {npar: statistics.median(seconds) for npar, seconds in self.times.items()}
        self.best = best(self.medians)

    def over_best(self, npar: int) -> Estimate:
        """Time over that of the best choice, with a 90% interval over rounds."""
        pairs = zip(self.times[npar], self.times[self.best], strict=True)
        return estimate([seconds / least for seconds, least in pairs], 0.9)

    def ties(self) -> list[int]:
        """Choices that are statistically tied with the best."""
        return [n for n in self.times if n != self.best and self.over_best(n).low <= 1]


def _by_round(seconds: Sequence[float], rounds: Sequence[int], **_: object) -> list[float]:
    pairs = [*zip(rounds, seconds, strict=True)]
    return [statistics.median(s for of, s in pairs if of == n) for n in sorted(set(rounds))]


class LayoutRun(Launched):
    """One launch of the kernel md: its packed method, in seconds, bytes and messages per step;
    ValueError if that was not measured."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        metrics = next((e["metrics"] for e in self.entries if e["method"] == "packed"), None)
        if metrics is None:
            raise ValueError("the packed method was not measured")
        self.values = {name: metric["value"] for name, metric in metrics.items()}
        self.time = Estimate(*(metrics["time"][part] for part in ("value", "low", "high")))
        # mean over ranks
        self.seconds = {name: self.values[f"{name}_share"] * self.time.value for name in SHARES}
        self.layout = f"{self.ranks}x{self.threads}"


class Solved(Launched):
    """One launch of the kernel eigen: parallel solvers beside LAPACK on one core; ValueError if it
    is of other work, or has no solver beside dsyevd."""

    def __init__(self, result: Result) -> None:
        super().__init__(result)
        ratios, seconds = {}, {}
        for entry in self.entries:
            method, metric = entry["method"], entry["metrics"].get("ratio_dsyevd")
            if method in SOLVERS and metric and metric["value"] is not None:
                ratios[method] = Estimate(*(metric[part] for part in ("value", "low", "high")))
                seconds[method] = entry["metrics"]["time"]["value"]
        alone = self.case.startswith(("fock-", "pdsyevd-")) and result["details"]["kpoints"] == 1
        if not ratios or not alone:
            raise ValueError("no diagonalisation alone")
        self.rows = int(result["details"]["size"])  # of the matrix
        self.best = best({name: ratio.value for name, ratio in ratios.items()})
        self.ratio = ratios[self.best]  # its time over that of dsyevd, with quartiles
        self.seconds = seconds[self.best]  # of a solution
        self.pays = self.ratio.high < 1  # faster than one core, the upper quartile too


def recommended(times: dict[int, float]) -> tuple[int, float]:
    """The most cores that are efficient enough (LIMITS.efficiency), and their parallel efficiency;
    `times`: cores -> seconds."""
    fewest = min(times)
    efficiencies = {n: times[fewest] * fewest / (seconds * n) for n, seconds in times.items()}
    cores = max(n for n, efficiency in efficiencies.items() if efficiency >= LIMITS.efficiency)
    return cores, efficiencies[cores]


def nearest(choices: Iterable[int], wanted: float) -> int:
    return min(choices, key=lambda n: (abs(math.log(n / wanted)), n))


# ---- stored and new launches ----

Parsed = TypeVar("Parsed", bound=Launched)
Parse = Callable[[Result], Parsed]  # raises one of USELESS
# Of each kernel: its launches; what is measured now: the cases, and the baselines beside methods.
KERNELS = {
    "npar": (Sweep, ["mini1"], "none"),
    "md": (LayoutRun, ["cu3au"], "none"),
    "eigen": (Solved, tables.cases("eigen")[:3], "dsyevd"),
}


def trials(kernel: str, count: int) -> list[Trial]:
    """The launches of a case with so many ranks; of md with every split of so many cores into ranks
    and threads."""
    divisors = [n for n in range(1, count + 1) if count % n == 0]
    if kernel == "md":
        return [(count // threads, threads, "packed") for threads in divisors]
    methods = SOLVERS if kernel == "eigen" else [f"npar-{n}" for n in divisors]
    return [(count, 1, ",".join(methods))]


def launched_now(
    kernel: str, parse: Parse[Parsed], counts: Sequence[int], cases: Sequence[str], baselines: str
) -> Iterator[Parsed]:
    """Launches cases of a kernel on this host, with all trials of so many ranks each, which share
    cores if there are too few. `baselines`: those measured beside the methods. BenchError if the
    kernel cannot be built, or a launch fails."""
    folder = paths.home() / "cache" / "advise"
    folder.mkdir(parents=True, exist_ok=True)
    executable = build(kernel)
    for case in cases:
        for ranks, threads, methods in (t for count in counts for t in trials(kernel, count)):
            arguments = ["--case", case, "--method", methods, "--baseline", baselines]
            arguments += ["--repeats", str(ROUNDS), "--block", "1", "--warmup", "0"]
            output = folder / f"{kernel}-{case}-{ranks}x{threads}.json"
            result = launch(executable, ranks, arguments, output, threads)
            with contextlib.suppress(ValueError):
                yield parse(result)


def launches_of(
    kernel: str, ranks: Sequence[int] | None, folders: Sequence[str] | None
) -> tuple[list[Any], list[str], int]:
    """The launches of a kernel that advice is made of: measured now with so many ranks, or found in
    these folders, or in all that runs kept. Also which sessions are excluded, and how many launches
    were disturbed."""
    parse, cases, baselines = KERNELS[kernel]
    if ranks:
        return [*launched_now(kernel, parse, ranks, cases, baselines)], [], 0
    excluded = [] if folders else excluded_folders(paths.home())
    launches, left_out = stored(kernel, parse, folders, excluded)
    return launches, [folder.name for folder in excluded], left_out


def stored(
    kernel: str, parse: Parse[Parsed], folders: Iterable[str] | None, without: Collection[Path] = ()
) -> tuple[list[Parsed], int]:
    """The newest launch of each kind among the results kept, and how many others were left out
    because they were disturbed. `folders`: where results are, with all below; None for all that
    runs kept; `without`: folders to leave out. BisectionError: a folder does not exist."""
    newest: dict[tuple[Any, ...], tuple[str, Parsed]] = {}
    left_out = 0
    for folder in map(Path, folders or [str(paths.home() / "results")]):
        if folders and not folder.is_dir():
            raise BisectionError(f"--from {folder}: no such folder")
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
            if launched.disturbed > LIMITS.disturbed_launch:
                left_out += 1
            elif newest.get(launched.key, ("",))[0] <= result["started"]:
                newest[launched.key] = result["started"], launched
    return [newest[key][1] for key in sorted(newest)], left_out


# ---- published tables ----

Choice = TypeVar("Choice")
LITERATURE = paths.ROOT / "reference" / "literature"


def published(
    file: str, column: str, choice: Callable[[str], Choice], **wanted: Any
) -> dict[int, dict[Choice, float]]:
    """Cores -> choice, by a column -> seconds, of the rows of a table with the values wanted."""
    times: dict[int, dict[Choice, float]] = {}
    with open(LITERATURE / file, newline="") as lines:
        for row in csv.DictReader(lines):
            if all(row[name] == str(value) for name, value in wanted.items()):
                times.setdefault(int(row["cores"]), {})[choice(row[column])] = float(row["time_s"])
    return times


def npar_times(benchmark: int) -> dict[int, dict[int, float]]:
    """Appendix B of Catlow et al. (2010): cores -> NPAR -> seconds, of benchmark 1, 2 or 5."""
    return published("vasp_npar.csv", "npar", int, benchmark=benchmark)


def best(times: dict[Choice, float]) -> Choice:
    return min(times, key=times.__getitem__)


def spread(times: dict[Choice, float]) -> float:
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
