"""`workshop bench store`: how long stored results take to compare, to look through, to report.

Made-up nights, as many as a site has in a year and a half, are stored; each command then runs as a
process of its own, so that its start and its memory count.
"""

import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bisection.core import paths
from bisection.store.database import Store
from bisection.store.sample_file import Line

SIZES = ((5, 2000), (50, 2000), (500, 2000))  # nights, metrics
METRICS_OF_A_TEST = 8
LIMITS = {"compare": (2, 1024), "history": (60, 1024), "report": (10, 1024)}  # s, MiB
DAY = 86400.0


@dataclass
class Timed:
    """A store of some size, and what commands took on it."""

    nights: int
    metrics: int
    stored_s: float
    size_mib: float
    seconds: dict[str, list[float]]  # command -> of each run
    peak_mib: dict[str, float]  # command -> the most memory

    @property
    def beyond(self) -> bool:
        """True if a command took more time or memory than LIMITS allow."""
        return any(
            statistics.median(self.seconds[command]) > most_s or self.peak_mib[command] > most_mib
            for command, (most_s, most_mib) in LIMITS.items()
        )


def timed(nights: int, metrics: int, repeats: int) -> Timed:
    """Fills a store and times each command on it.

    Args:
        nights: sessions to store.
        metrics: of each session.
        repeats: runs of each command.
    """
    with tempfile.TemporaryDirectory() as home:
        began = time.monotonic()
        fill(Path(home), nights, metrics)
        took = time.monotonic() - began
        size = paths.store_db(home).stat().st_size / 2**20
        result = Timed(nights, metrics, took, size, {}, {})
        for command, arguments in commands_of(home).items():
            program = [sys.executable, "-m", "bisection", command, *arguments]
            runs = [cost_of(home, program) for _ in range(repeats)]
            result.seconds[command] = [seconds for seconds, *_ in runs]
            result.peak_mib[command] = max(memory for *_, memory in runs)
    return result


def power(smaller: Timed, larger: Timed, command: str) -> float:
    """The power of the number of values with which a command's time grows."""
    few, many = (statistics.median(size.seconds[command]) for size in (smaller, larger))
    return math.log(many / few) / math.log(
        larger.nights * larger.metrics / (smaller.nights * smaller.metrics)
    )


def commands_of(home: Path | str) -> dict[str, list[str]]:
    """Each command with its arguments."""
    return {
        "compare": ["latest~1", "latest"],
        "history": [],
        "report": ["earlier:20", "latest", "-o", str(Path(home) / "report")],
    }


def cost_of(home: Path | str, program: Sequence[str]) -> tuple[float, float, float]:
    """Seconds, seconds of processors, MiB at most of a program; RuntimeError if it fails."""
    began = time.monotonic()
    # Many containers set it: each process would compile all sources again.
    env = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        program,
        env={**env, "BISECTION_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    errors = process.stderr.read() if process.stderr else b""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 3, 4) or b"Traceback" in errors:
        raise RuntimeError(f"{' '.join(program)}: {errors.decode()}")
    took = time.monotonic() - began
    return took, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def fill(home: Path | str, nights: int, metrics: int) -> None:
    """Stores so many nights of so many metrics: a year's noise of 3%, a step in a tenth of them."""
    rng = np.random.default_rng(1)
    tests = metrics // METRICS_OF_A_TEST
    level = np.exp(rng.normal(-7, 1, (tests, METRICS_OF_A_TEST)))
    with Store(paths.store_db(home)) as store:
        for night in range(nights):
            values = level * np.exp(rng.normal(0, 0.03, level.shape))
            if night > 0.7 * nights:
                values[: tests // 10] *= 1.15
            store.add([(_session(night), [_case(i, row) for i, row in enumerate(values)])])


def _session(night: int) -> Line:
    return {
        "session": f"{night:08x}",
        "start": 1.7e9 + night * DAY,
        "tags": {"tier": "nightly", "system": "lab", "environ": "system"},
        "facts": {"MPI": "Open MPI 4.1.4" if night < 350 else "Open MPI 5.0.0"},
    }


def _case(index: int, values: Sequence[float]) -> Line:
    names = ("time", *(f"time_{1 << i}KiB" for i in range(METRICS_OF_A_TEST - 1)))
    return {
        "system": "lab",
        "partition": "cpu",
        "environ": "system",
        "geometry": "8x1",
        "check": "transpose",
        "case": f"case{index // 10}",
        "layout": "mpi",
        "method": f"method{index % 10}",
        "hosts": [f"n{index % 16}"],
        "metrics": {
            name: [float(value), "s", "lower"] for name, value in zip(names, values, strict=True)
        },
    }
