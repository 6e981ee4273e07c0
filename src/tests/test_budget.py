"""Memory and time of a launch that depend on the number of ranks alone, on simulated machines.

Usage: test_budget.py FOLDER [unittest arguments]
       test_budget.py FOLDER --table    prints the table of src/README.md
FOLDER is a build with BX_SIMULATED. Exit code 77: nothing can be simulated here.

Each kernel runs a small case by its methods on more and more ranks. Messages take no time there,
and no arithmetic is done: what is left is the ranks' own work and memory (checks/workshop/smpi,
at_once.c and heap.c). Own work is judged in basic blocks, which other processes do not change.
"""

import itertools
import math
import os
import subprocess
import sys
import tempfile
import unittest
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import simulated
from kernel_run import long, main
from simulated import launch

FOLDER = Path()
MACHINE = "hector-xt6"
FREE = {
    **dict.fromkeys(("latency", "gap", "overhead", "intra_latency", "intra_overhead"), "0"),
    **dict.fromkeys(("bandwidth", "intra_bandwidth", "memory"), "1e18"),
    **dict.fromkeys(("fft", "algebra", "pairs", "copy", "fork", "link"), "0"),
    "at_once": "1",
}
# Messages share no links, as that takes most of a simulation.  A look at the clock takes time, or
# loops until a time would not end.  SimGrid keeps sends that nobody waits for in one list, of which
# it looks at all entries for each.  Windows are made and freed with the fewest messages.
SETTINGS = ("network/model:Constant", "network/latency-factor:0", "smpi/wtime:1e-3",
            "smpi/send-is-detached-thresh:0", "smpi/barrier:ompi_basic_linear",
            "smpi/allgather:GB")  # fmt: skip
# Exposure epochs of SimGrid need sends of no data that nobody waits for: halo has them.
OF_KERNEL = {"halo": ("smpi/send-is-detached-thresh:1",)}
SAMPLE = ("--repeats", "1", "--block", "1", "--warmup", "0")
LARGEST = 64  # B of a rank per rank of the world, of any launch but those below


class Budget(NamedTuple):
    """A launch; the bytes are the most that a rank may take per rank of the world."""

    kernel: str
    ranks: "tuple[int, int, int]"  # where it is measured
    arguments: str  # {0} is the size, {1} a folder for files
    sizes: "dict[int, str]" = {}  # by ranks
    bytes: float = LARGEST
    per_node: int = 24  # ranks


# On fewer ranks a loop over all pairs of them hides in other work (see beyond): alltoallv's was
# not told at 32, 96 and 256.
MANY, FEW, CUBES = (64, 256, 512), (64, 128, 256), (8, 64, 512)
FOURFOLD = (256, 1024, 4096)
NODES, ROOTS = (32, 96, 256), (16, 64, 256)
OF_EIGHT = (66, 130, 258)  # have eight divisors each: npar has a state for every choice of NPAR
BEYOND = (400, 600, 900)  # more than the pairs of patches: each rank has one at most
METHODS = ("alltoallv", "p2p", "overlap", "overlap-poll", "direct", "shm", "shm-padded", "leaders",
           "gather-scatter", "alltoallw", "padded")  # fmt: skip
# What is exchanged are three buffers of a block for every rank.
PADDED = {"padded": 100}
# A grid of a halo grows with the ranks, so that a rank has as many cells.
GRIDS = {
    "pchan-24": ("12,12,12", "24,12,12", "24,24,12"),
    "polcoms-48": ("24,24,2", "48,24,2", "48,48,2"),
    "thor-24": ("12,12,12", "24,12,12", "24,24,12"),
}
# Of the grid's columns, which grow with the ranks here alone, each rank has sums.
COLUMNS = {"polcoms-48": 92}
FFT = "--grid 8,8,8 --bands 1 --planner estimate --baseline none --method"
NPAR = "--bands 9 --atoms 4 --box 8 --cutoff 15.2 --planner estimate --method npar-1"
RESTART = "--case atoms-27k --bytes-per-rank 720 --baseline none --method"
FILES = "--directory {1} --share 100"
BUDGETS = {
    **{
        f"transpose, {method}": Budget(
            "transpose", MANY, f"{FFT} {method}", bytes=PADDED.get(method, LARGEST)
        )
        for method in METHODS
    },
    "transpose, alltoallv, 4096 ranks": Budget("transpose", FOURFOLD, f"{FFT} alltoallv"),
    "pairs": Budget("pairs", MANY, "--case all --rounds 4 --samples 1 --bytes 1000"),
    "patterns": Budget("patterns", FEW, "--largest 8"),
    "tasks": Budget("tasks", FEW, "--blocks 5 --rows 7 --partners 3 --work 2000"),
    **{
        f"patches, {method}": Budget("patches", BEYOND, f"--method {method}")
        for method in ("static", "aggregated")
    },
    **{
        f"halo, {case}": Budget(
            "halo", FEW, f"--case {case} --baseline none --grid {{0}}",
            dict(zip(FEW, grids, strict=True)), COLUMNS.get(case, LARGEST),
        )
        for case, grids in GRIDS.items()
    },
    "md": Budget("md", CUBES, "--case cu3au --method packed --cells {0}",
                 dict(zip(CUBES, ("4", "8", "16"), strict=True))),
    "npar": Budget("npar", OF_EIGHT, NPAR),
    "noise": Budget("noise", NODES, "--quanta 1 --bytes 4096", per_node=16),
    **{
        f"restart, {method}": Budget("restart", NODES, f"{RESTART} {method} {FILES}", per_node=16)
        for method in ("file-per-rank", "file-per-node")
    },
    "metadata": Budget("metadata", NODES, f"--files-per-rank 1 {FILES}", per_node=16),
    # Its matrix has as many elements of a rank, so that rows grow with their square root.
    "eigen": Budget("eigen", ROOTS, "--method jacobi --baseline none --block-size 4 --size {0}",
                    dict(zip(ROOTS, ("128", "256", "512"), strict=True)), 260, 16),
    "congestion": Budget("congestion", (8, 16, 32), "--window 0.01", per_node=2),
}  # fmt: skip
# What `make test` runs: a launch of most kernels, which together take a minute of a core. A halo
# takes as long alone.
SHORT = (
    *("transpose, alltoallv", "transpose, p2p", "pairs", "tasks", "patches, static"),
    *("noise", "restart, file-per-rank", "metadata"),
)
NO_SCALAPACK = "eigen: left out, ScaLAPACK is not built for SimGrid's MPI"


class Cost(NamedTuple):
    """Of a launch: of the rank that has most, and the mean of the seconds of all ranks."""

    bytes: float
    blocks: float  # basic blocks that its own work runs through
    seconds: float


def run(
    kernel: str, ranks: int, per_node: int, *arguments: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Runs a sample of a kernel where messages take no time."""
    machine = {**launch.chosen(MACHINE), **FREE}
    machine |= {"nodes": str(-(-ranks // per_node)), "per_node": str(per_node)}
    platform = " ".join(f"{name}={value}" for name, value in machine.items())
    return launch.run(
        [simulated.executable(FOLDER, kernel), *SAMPLE, *arguments],
        [f"n{rank // per_node}" for rank in range(ranks)],
        (FOLDER / "smpi/machine.so").resolve(),
        (*launch.LIBRARY, *SETTINGS, *OF_KERNEL.get(kernel, ())),
        env={"BX_PLATFORM": platform, "OPENBLAS_NUM_THREADS": "1", **environment},
        capture_output=True, text=True,
    )  # fmt: skip


def measure(name: str, ranks: int) -> Cost:
    """Makes the launch of a budget on so many ranks; AssertionError if it fails."""
    budget = BUDGETS[name]
    with tempfile.TemporaryDirectory() as folder:
        heap, result = Path(folder, "heap"), Path(folder, "result.json")
        size = budget.sizes.get(ranks, "")
        own = [word.format(size, folder) for word in budget.arguments.split()]
        process = run(
            budget.kernel, ranks, budget.per_node, *own, "--output", str(result),
            BX_HOLLOW="1", BX_HEAP=str(heap),
        )  # fmt: skip
        assert process.returncode == 0, (name, ranks, process.stderr)
        assert heap.exists(), (name, ranks, process.stderr)
        most, blocks, seconds = map(float, heap.read_text().split())
        return Cost(most, blocks, seconds / ranks)


def costs(names: "Iterable[str]") -> "dict[str, list[Cost]]":
    """The costs of budgets by name; the largest launches are made first, one per core."""
    launches = [(name, ranks) for name in names for ranks in BUDGETS[name].ranks]
    order = sorted(launches, key=lambda pair: -pair[1])
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        measured = dict(zip(order, pool.map(lambda pair: measure(*pair), order), strict=True))
    return {n: [measured[n, ranks] for ranks in BUDGETS[n].ranks] for n in names}


def growth(name: str, launches: "list[Cost]", quantity: str) -> "tuple[float, float]":
    """What a quantity of the launches grows by per P log P, P ranks: between the two smallest
    launches, and between the two largest."""
    values = [getattr(launch, quantity) for launch in launches]
    steps = itertools.pairwise(zip(values, BUDGETS[name].ranks, strict=True))
    first, second = ((v - u) / (b * math.log2(b) - a * math.log2(a)) for (u, a), (v, b) in steps)
    return first, second


def per_rank(name: str, launches: "list[Cost]") -> int:
    """Whole bytes of a rank per rank of the world, between the two largest launches."""
    _, middle, high = BUDGETS[name].ranks
    return round((launches[2].bytes - launches[1].bytes) / (high - middle))


def beyond(name: str, launches: "list[Cost]") -> str:
    """What these launches take that is over the budget, with its limit; "": nothing."""
    budget, size = BUDGETS[name], per_rank(name, launches)
    over = [f"{size} B per rank of the world: {budget.bytes}"] * (size > budget.bytes)
    # Half way, on a logarithmic scale, from P log P to a loop over all pairs of ranks. Such a loop
    # has a block for each pair at least: what grows by less are the machine's own tables, as files
    # in use, which change from launch to launch.
    pairs = [Cost(0, ranks**2, 0) for ranks in budget.ranks]
    (low, high), (earlier, later) = (growth(name, x, "blocks") for x in (pairs, launches))
    limit = max(math.sqrt(high / low) * earlier, high)
    return "; ".join(over + [f"{later} blocks per P log P: {limit}"] * (later > limit))


class Collectives(unittest.TestCase):
    """at_once.c: what takes no time brings the data all the same."""

    def test_answers_are_right(self):
        """transpose exchanges, gathers and scatters; patches gathers in place."""
        for kernel, arguments in (
            ("transpose", "--case cnt40 --bands 1 --planner estimate --baseline none"),
            ("patches", "--case dhfr-mini --method static --steps 2 --baseline none"),
        ):
            with self.subTest(kernel=kernel):
                process = run(kernel, 8, 2, *arguments.split())
                self.assertEqual(process.returncode, 0, process.stdout + process.stderr)


class Budgets(unittest.TestCase):
    def judge(self, *names: str):
        for name, launches in costs(names).items():
            with self.subTest(name=name, launches=launches):
                self.assertEqual(beyond(name, launches), "")

    def test_memory_and_time_by_ranks(self):
        self.judge(*SHORT)

    @long
    def test_other_launches(self):
        self.judge(*(name for name in BUDGETS if name not in SHORT))


def table() -> None:
    """Prints what a rank takes on the most ranks measured, and what the fit says of more."""
    print("| launch | B per rank of the world |", *(f" 10^{n} |" for n in range(3, 7)))
    print("|---|---|" + "---|" * 4)
    for name, launches in costs(BUDGETS).items():
        most = BUDGETS[name].ranks[2]
        size, (_, per_step) = per_rank(name, launches), growth(name, launches, "seconds")
        cells = []
        for ranks in (10**n for n in range(3, 7)):
            more = ranks * math.log2(ranks) - most * math.log2(most)
            megabytes = (launches[2].bytes + max(size, 0) * (ranks - most)) / 1e6
            seconds = launches[2].seconds + max(per_step, 0) * more
            cells.append(f" {megabytes:.3g} MB, {seconds:.2g} s |")
        print(f"| {name} | {size} |", *cells)


if __name__ == "__main__":
    FOLDER = Path(sys.argv[1])
    if simulated.missing(FOLDER, "transpose") is None and simulated.missing(FOLDER, "eigen"):
        print(NO_SCALAPACK)
        del BUDGETS["eigen"]
    if reason := simulated.missing(FOLDER, *(budget.kernel for budget in BUDGETS.values())):
        print("skipped:", reason)
        sys.exit(77)
    if "--table" in sys.argv:
        table()
    else:
        main(*sys.argv[2:])
