"""`bisection bench transpose`: the kernel beside its peers and its limits, as ratios with spread.

One launch a grid and rank count measures every method, serial FFTW and FFTW's own distributed
transform in turn, with the same planner effort, so that a ratio compares what ran side by side; a
second launch sets the exchanges alone against memcpy of the bytes they must move.
"""

from collections.abc import Iterator
from pathlib import Path

from bisection.kernels.local import launch, ratios, times
from bisection.kernels.results import Result, preempted

Run = tuple[Result, Result]  # transforms, exchanges alone
Runs = dict[tuple[str, int], Run]  # grid and ranks -> a run

GRIDS = {"cnt40": "30x30x30", "cnt80": "81x81x81", "silicon": "90x90x90"}
RANKS = (1, 2)
ROUNDS = {"cnt40": 200, "cnt80": 20, "silicon": 20}
PEERS = "serial,fftw-mpi,spfft"
# Within the project's own limits: (grid, ranks, ratio, methods) -> at most.
ALL = ()
MESSAGES = ("alltoallv", "p2p", "padded", "alltoallw", "overlap")
LIMITS = [
    ("cnt40", 2, "ratio_serial", ALL, 0.60),
    ("cnt80", 2, "ratio_serial", ALL, 0.60),
    ("cnt40", 1, "ratio_serial", ALL, 1.2),
    ("cnt80", 1, "ratio_serial", ALL, 1.2),
    ("cnt40", 2, "ratio_copy", ("direct",), 2.0),
    ("cnt80", 2, "ratio_copy", ("direct",), 2.0),
    ("silicon", 2, "ratio_copy", ("direct",), 2.5),
    ("cnt40", 2, "ratio_copy", MESSAGES, 8.0),
    ("cnt80", 2, "ratio_copy", MESSAGES, 8.0),
]


def measure(executable: Path, folder: Path, grid: str, ranks: int, planner: str) -> Run:
    """The results of the two launches: transforms, and exchanges alone."""
    rounds = str(ROUNDS[grid])
    wisdom = str(folder / f"wisdom-{grid}-{ranks}-{planner}")
    common = ["--case", grid, "--bands", "1", "--planner", planner, "--wisdom", wisdom]
    return tuple(
        launch(
            executable,
            ranks,
            [*common, "--repeats", rounds, *more],
            folder / f"{grid}-{ranks}-{name}.json",
        )
        for name, more in (
            ("transforms", ["--baseline", PEERS]),
            ("exchanges", ["--baseline", "copy", "--transpose-only"]),
        )
    )


def table(grid: str, ranks: int, transforms: Result, exchanges: Result) -> Iterator[str]:
    """Lines on one grid and number of ranks: the ratio of each method to each peer."""
    columns = {
        "/ serial FFTW": ratios(transforms, "ratio_serial"),
        "/ FFTW-MPI": ratios(transforms, "ratio_fftw-mpi"),
        "/ SpFFT": ratios(transforms, "ratio_spfft"),
        "exchange / memcpy": ratios(exchanges, "ratio_copy"),
    }
    columns = {head: found for head, found in columns.items() if found}
    seconds = times(transforms)
    peers = ", ".join(
        f"{name} {seconds[name] * 1e6:.0f} us" for name in PEERS.split(",") if name in seconds
    )
    yield f"{GRIDS[grid]} on {ranks} rank{'s' * (ranks > 1)}: {peers}; " + (
        f"{1 - preempted(transforms):.0%} of the samples not preempted"
    )
    yield f"  {'method':15} {'us':>7}   " + " ".join(f"{head:18}" for head in columns)
    for method in columns["/ serial FFTW"]:
        cells = " ".join(f"{found.get(method, '-')!s:18}" for found in columns.values())
        yield f"  {method:15} {seconds[method] * 1e6:7.0f}   {cells}"


def against_limits(runs: Runs) -> Iterator[str]:
    """Lines: the best method's ratio beside each limit of the project."""
    yield "limits of the project (best of the methods named)"
    for grid, ranks, name, methods, limit in LIMITS:
        if (grid, ranks) not in runs:
            continue
        result = runs[grid, ranks][name == "ratio_copy"]
        found = ratios(result, name)
        candidates = {m: r for m, r in found.items() if not methods or m in methods}
        best = min(candidates, key=lambda m: candidates[m].value)
        verdict = "met" if candidates[best].value <= limit else "MISSED"
        what = "serial FFTW" if name == "ratio_serial" else "memcpy, exchange alone"
        yield (
            f"  {GRIDS[grid]:9} {ranks} rank{' s'[ranks > 1]}  {what:23} {best:15} "
            f"{candidates[best]!s:20} at most {limit:4.2f}  {verdict}"
        )


def overhead(runs: Runs) -> Iterator[str]:
    """The harness's own time, outside step and the kernel's input, of the time it measured."""
    for (grid, ranks), (transforms, _) in runs.items():
        spent = transforms["harness"]
        yield (
            f"  {GRIDS[grid]:9} {ranks} rank{' s'[ranks > 1]}  harness                 "
            f"{spent['overhead_s'] / spent['measure_s']:.1%} of {spent['measure_s']:.1f} s"
        )
