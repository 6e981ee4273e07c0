"""`workshop bench transpose`: the kernel beside its peers and its limits, as ratios with spread.

One launch a grid and rank count measures every method, serial FFTW and FFTW's own distributed
transform in turn, with the same planner effort, so that a ratio compares what ran side by side; a
second launch sets the exchanges alone against memcpy of the bytes they must move.
"""

from collections.abc import Iterator
from pathlib import Path

from bisection.kernels.local import launch
from bisection.kernels.results import Result
from workshop.peers import Judged, Limit, estimates

Run = tuple[Result, Result]  # transforms, exchanges alone
Runs = dict[tuple[str, int], Run]  # grid and ranks -> a run

GRIDS = {"cnt40": "30x30x30", "cnt80": "81x81x81", "silicon": "90x90x90"}
RANKS = (1, 2)
ROUNDS = {"cnt40": 200, "cnt80": 20, "silicon": 20}
PEERS = ("serial", "fftw-mpi", "spfft")
# The project's own limits on the best of some methods: (grid, ranks, ratio, methods) -> limit.
# None: printed beside them.
ALL: tuple[str, ...] = ()
MESSAGES = ("alltoallv", "p2p", "padded", "alltoallw", "overlap")
DIRECT = ("direct",)
LIMITS: dict[tuple[str, int, str, tuple[str, ...]], Limit | None] = {
    ("cnt40", 1, "ratio_serial", ALL): Limit(1.2),
    ("cnt80", 1, "ratio_serial", ALL): Limit(1.2),
    ("silicon", 1, "ratio_fftw-mpi", ALL): Limit(1.10),
    ("cnt40", 2, "ratio_serial", ALL): Limit(0.52),
    ("cnt80", 2, "ratio_serial", ALL): Limit(0.52),
    ("silicon", 2, "ratio_serial", ALL): Limit(0.56),
    ("silicon", 2, "ratio_fftw-mpi", ("alltoallv",)): Limit(1.0),
    ("silicon", 2, "ratio_fftw-mpi", ("p2p",)): Limit(1.0),
    ("silicon", 2, "ratio_fftw-mpi", DIRECT): None,
    ("cnt40", 2, "ratio_copy", DIRECT): Limit(1.7),
    ("cnt80", 2, "ratio_copy", DIRECT): Limit(1.7),
    ("silicon", 2, "ratio_copy", DIRECT): Limit(1.7),
    # The same copies, of a rank's own columns and without a wait: what `direct` can reach.
    **{(grid, 1, "ratio_copy", DIRECT): None for grid in GRIDS},
    ("cnt40", 2, "ratio_copy", MESSAGES): Limit(8.0),
    ("cnt80", 2, "ratio_copy", MESSAGES): Limit(8.0),
}


def measure(executable: Path, folder: Path, grid: str, ranks: int, planner: str) -> Run:
    """The results of the two launches: transforms, and exchanges alone."""
    rounds = str(ROUNDS[grid])
    wisdom = str(folder / f"wisdom-{grid}-{ranks}-{planner}")
    common = ["--case", grid, "--bands", "1", "--planner", planner, "--wisdom", wisdom]
    transforms, exchanges = (
        launch(
            executable,
            ranks,
            [*common, "--repeats", rounds, *more],
            folder / f"{grid}-{ranks}-{name}.json",
        )
        for name, more in (
            ("transforms", ["--baseline", ",".join(PEERS)]),
            ("exchanges", ["--baseline", "copy", "--transpose-only"]),
        )
    )
    return transforms, exchanges


def against_limits(runs: Runs) -> Iterator[tuple[str, Judged]]:
    """Beside each limit, the best of the methods that it is on: (ratio, Judged)."""
    for (grid, ranks, ratio, methods), limit in LIMITS.items():
        if (grid, ranks) in runs:
            values = estimates(runs[grid, ranks][ratio == "ratio_copy"], ratio)
            best = min(
                (m for m in values if not methods or m in methods), key=lambda m: values[m].value
            )
            yield ratio, Judged(grid, ranks, best, values[best], limit)
