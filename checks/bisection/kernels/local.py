"""Kernels on this host: built by CMake, started by mpirun, their ratios read."""

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import tempfile
from dataclasses import dataclass

from bisection.core import paths


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


def quartiles(values):
    """A Ratio of the median, with quartiles."""
    if len(values) == 1:
        return Ratio(values[0], values[0], values[0])
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return Ratio(statistics.median(values), low, high)


def build(kernel):
    """A kernel's executable, built by CMake in the folder that `make test` uses."""
    target = paths.home() / "build"
    # a build without its tests, which need more time than the kernel
    for command in (
        [
            "cmake",
            "-S",
            paths.shown(paths.ROOT / "src"),
            "-B",
            str(target),
            "-DCMAKE_BUILD_TYPE=Release",
        ],
        ["cmake", "--build", str(target), "-j", str(os.cpu_count()), "-t", f"bisection-{kernel}"],
    ):
        done = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}")
    return target / kernel / f"bisection-{kernel}"


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
