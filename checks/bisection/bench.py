"""`bisection bench`: the transpose beside its peers and its limits, as ratios with their spread.

One launch a grid and rank count measures every method, serial FFTW and FFTW's own distributed
transform in turn, with the same planner effort, so that a ratio compares what ran side by side; a
second launch sets the exchanges alone against memcpy of the bytes they must move.
"""

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bisection.run import ROOT, home, shown

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


class BenchError(Exception):
    """The benchmark cannot run; the text says why."""


@dataclass
class Ratio:
    """A median over rounds with its quartiles."""

    value: float
    low: float
    high: float

    def __str__(self):
        return f"{self.value:5.2f} [{self.low:.2f} {self.high:.2f}]"


def spread(values):
    """A Ratio of the median, with quartiles."""
    if len(values) == 1:
        return Ratio(values[0], values[0], values[0])
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return Ratio(statistics.median(values), low, high)


def add_commands(commands):
    bench = commands.add_parser(
        "bench",
        help="compare the transpose with its peers",
        description="Prints ratios to serial FFTW, to FFTW-MPI and to memcpy, with quartiles, and "
        "whether each is within the project's limits. Exit code: 0 whatever the ratios are.",
    )
    bench.add_argument(
        "--planner",
        choices=("estimate", "measure", "patient"),
        default="measure",
        help="FFTW's effort, for us and for the peers alike; default: measure",
    )
    bench.add_argument("--grid", choices=GRIDS, action="append", help="default: all")
    bench.add_argument("--keep", metavar="DIR", help="keep the launches' result files there")
    bench.set_defaults(act=act_bench)


def act_bench(options):
    folder = Path(options.keep) if options.keep else home() / "cache" / "bench"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        executable = build("transpose")
        runs = {}
        for grid in options.grid or GRIDS:
            for ranks in RANKS:
                runs[grid, ranks] = measure(executable, folder, grid, ranks, options.planner)
                print("\n".join(table(grid, ranks, *runs[grid, ranks])), end="\n\n", flush=True)
        print("\n".join(against_limits(runs)))
        print("\n".join(overhead(runs)))
    except (BenchError, OSError) as error:
        print(f"bisection bench: error: {error}", file=sys.stderr)
        return 3
    return 0


def build(kernel):
    """A kernel's executable, built by CMake in the folder that `make test` uses."""
    target = home() / "build"
    # a build without its tests, which need more time than the kernel
    for command in (
        ["cmake", "-S", shown(ROOT / "src"), "-B", str(target), "-DCMAKE_BUILD_TYPE=Release"],
        ["cmake", "--build", str(target), "-j", str(os.cpu_count()), "-t", f"bisection-{kernel}"],
    ):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}")
    return target / kernel / f"bisection-{kernel}"


def measure(executable, folder, grid, ranks, planner):
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


def environment(threads=1):
    """So many threads a rank, each on a core of its own; Open MPI runs for root."""
    pinned = {"OMP_PLACES": "cores", "OMP_PROC_BIND": "close"} if threads > 1 else {}
    return {
        **os.environ,
        **pinned,
        "OMP_NUM_THREADS": str(threads),
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }


def placement(ranks, threads=1):
    """Open MPI's options: a core a thread, or, where there are not as many, all shared."""
    if ranks * threads <= len(os.sched_getaffinity(0)):
        several = ["--map-by", f"slot:PE={threads}"] if threads > 1 else []
        return [*several, "--bind-to", "core"]
    return ["--oversubscribe", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]


def launch(executable, ranks, arguments, output, threads=1):
    return launch_watched(executable, ranks, arguments, output, threads)[0]


def launch_watched(executable, ranks, arguments, output, threads=1):
    """The result, and the bytes that the largest of the launch's processes had at most."""
    with contextlib.suppress(FileNotFoundError):
        output.unlink()
    if not shutil.which("mpirun"):
        raise BenchError("there is no mpirun on PATH")
    command = ["mpirun", "-n", str(ranks), *placement(ranks, threads), str(executable), *arguments]
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        process = subprocess.Popen(
            [*command, "--output", str(output)],
            env=environment(threads), stdout=said, stderr=said,
        )  # fmt: skip
        # subprocess's own wait would lose what the processes used
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().strip()
    if process.returncode:
        # its last words are mpirun's
        raise BenchError(f"{' '.join(command)} exited with {process.returncode}: {text[-1200:]}")
    return json.loads(output.read_text()), usage.ru_maxrss * 1024


def ratios(result, name):
    """Method -> Ratio, of the methods that have the metric."""
    found = {}
    for entry in result["results"]:
        metric = entry["metrics"].get(name)
        if metric and metric["value"] is not None:
            found[entry["method"]] = Ratio(metric["value"], metric["low"], metric["high"])
    return found


def entry(result, method):
    return next(found for found in result["results"] if found["method"] == method)


def times(result):
    return {e["method"]: e["metrics"]["time"]["value"] for e in result["results"] if e["metrics"]}


def clean_share(*results):
    """Of all samples, those in which no rank was interrupted."""
    switches = [n for r in results for e in r["results"] for n in e["samples"]["switches"]]
    return sum(n == 0 for n in switches) / len(switches)


def table(grid, ranks, transforms, exchanges):
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
        f"{clean_share(transforms):.0%} of the samples undisturbed"
    )
    yield f"  {'method':15} {'us':>7}   " + " ".join(f"{head:18}" for head in columns)
    for method in columns["/ serial FFTW"]:
        cells = " ".join(f"{found.get(method, '-')!s:18}" for found in columns.values())
        yield f"  {method:15} {seconds[method] * 1e6:7.0f}   {cells}"


def against_limits(runs):
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


def overhead(runs):
    """The harness's own time, outside step and the kernel's input, of the time it measured."""
    for (grid, ranks), (transforms, _) in runs.items():
        spent = transforms["harness"]
        yield (
            f"  {GRIDS[grid]:9} {ranks} rank{' s'[ranks > 1]}  harness                 "
            f"{spent['overhead_s'] / spent['measure_s']:.1%} of {spent['measure_s']:.1f} s"
        )
