"""Kernels on this host: built by CMake, started by mpirun, their ratios read."""

import json
import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bisection.core import launchers, paths
from bisection.core.format import times
from bisection.core.identity import Geometry
from bisection.core.lock import measure_alone
from bisection.core.verdicts import NotMeasured
from bisection.kernels import layouts
from bisection.kernels.results import Result


class BenchError(NotMeasured):
    """A measurement on this host cannot be taken; the text says why."""


@dataclass(frozen=True)
class Estimate:
    """A median with the ends of an interval around it."""

    value: float
    low: float
    high: float

    @property
    def factor(self) -> str:
        """A ratio with its interval, for people: 1.48 [1.42, 1.55]."""
        return f"{times(self.value)} [{times(self.low)}, {times(self.high)}]"


def build(kernel: str, peers: Path | None = None) -> Path:
    """A kernel's executable, built by CMake in the folder that `make test` uses; with `peers`
    (CMake's BX_PEERS: other codes in the kernel) in a folder of its own.

    Raises:
        BenchError: CMake fails.
        NotMeasured: another process measures.
    """
    measure_alone()
    target = paths.home() / ("build-peers" if peers else "build")
    make(target, [f"-DBX_PEERS={peers}"] if peers else [], [f"bisection-{kernel}"])
    return target / kernel / f"bisection-{kernel}"


def make(
    target: Path, options: Sequence[str], names: Sequence[str] = ("all",), root: Path = paths.ROOT
) -> None:
    """Builds by CMake what has these names in the folder `target`; `root` is the repository's, or
    that of a copy. BenchError: CMake fails."""
    where = ["-S", paths.shown(root / "src"), "-B", str(target)]
    for command in (
        ["cmake", *where, "-DCMAKE_BUILD_TYPE=Release", *options],
        ["cmake", "--build", str(target), "-j", str(os.cpu_count()), "-t", *names],
    ):
        done = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"{' '.join(command)} failed: {done.stderr.strip()[-500:]}")


def fits(ranks: int, threads: int) -> bool:
    """True if each thread can have a core of its own."""
    return ranks * threads <= len(os.sched_getaffinity(0))


def environment(ranks: int = 1, threads: int = 1) -> dict[str, str]:
    """Environment variables of a launch: each thread has a core of its own, or ranks share them."""
    pinned = {"OMP_PLACES": "cores", "OMP_PROC_BIND": "close"} if threads > 1 else {}
    shared = {} if fits(ranks, threads) else launchers.SHARING
    own = {"OMP_NUM_THREADS": str(threads), **launchers.AS_ROOT}
    return {**os.environ, **pinned, **own, **shared}


def placement(ranks: int, threads: int = 1, mpirun: str = "mpirun") -> list[str]:
    """Options of an mpirun: one core per thread; none where ranks share cores (`environment`)."""
    binding = launchers.binding("mpirun", launchers.library(mpirun)[0])
    options = layouts.bindings(binding, Geometry(1, ranks, threads)) if fits(ranks, threads) else []
    return " ".join(options).split()


def watched(command: Sequence[str], env: Mapping[str, str], name: str) -> resource.struct_rusage:
    """Runs a command; returns what its largest process used. BenchError, with the command's name:
    it exits with another code than 0."""
    with tempfile.TemporaryFile("w+", errors="replace") as stream:
        process = subprocess.Popen(command, env=env, stdout=stream, stderr=stream)
        # subprocess's own wait would lose what the processes used
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        stream.seek(0)
        text = stream.read().strip()
    if process.returncode:
        # the last lines are mpirun's
        raise BenchError(f"{name} exited with {process.returncode}: {text[-1200:]}")
    return usage


def launch(
    executable: Path, ranks: int, arguments: Sequence[str], output: Path, threads: int = 1
) -> Result:
    """Runs a kernel under mpirun; more ranks than there are cores share them.

    Args:
        executable: the kernel.
        ranks: MPI ranks.
        arguments: the kernel's options, without --output.
        output: the result file.
        threads: OpenMP threads per rank.

    Returns:
        The result, with the peak memory of the largest of its processes in bytes as `peak`.

    Raises:
        BenchError: there is no mpirun, or it exits with another code than 0.
    """
    output.unlink(missing_ok=True)
    if not shutil.which("mpirun"):
        raise BenchError("mpirun is not on PATH")
    command = ["mpirun", "-n", str(ranks), *placement(ranks, threads), str(executable), *arguments]
    name = " ".join(command)
    usage = watched([*command, "--output", str(output)], environment(ranks, threads), name)
    return {**json.loads(output.read_text()), "peak": usage.ru_maxrss * 1024}
