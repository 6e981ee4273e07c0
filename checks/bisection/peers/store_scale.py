"""`bisection bench store`: how long stored results take to compare, to look through, to report.

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
from pathlib import Path

import numpy as np

from bisection.core import paths
from bisection.core.verdicts import Exit
from bisection.report.tables import columns
from bisection.store.database import Store
from bisection.store.sample_file import Line

SIZES = ((5, 2000), (50, 2000), (500, 2000))  # nights, metrics
METRICS_OF_A_TEST = 8
LIMITS = {"compare": (2, 1024), "history": (60, 1024), "report": (10, 1024)}  # s, MiB
DAY = 86400.0


def bench(repeats: int) -> Exit:
    """Prints how long each command takes on stores of all SIZES.

    Args:
        repeats: runs of each command.

    Returns:
        FAILED if the largest store is beyond a limit.
    """
    rows = [["samples", "command", "median s", "least to most", "limit", "peak MiB", "limit"]]
    seconds, beyond = {}, False
    for nights, metrics in SIZES:
        with tempfile.TemporaryDirectory() as home:
            began = time.monotonic()
            fill(Path(home), nights, metrics)
            took = time.monotonic() - began
            size = paths.store_db(home).stat().st_size / 2**20
            print(
                f"{nights} nights x {metrics} metrics: stored in {took:.1f} s, {size:.1f} MiB",
                flush=True,
            )
            for command, arguments in commands_of(home).items():
                runs = [measured(home, [command, *arguments]) for _ in range(repeats)]
                times, memories = zip(*runs, strict=True)
                median, memory = statistics.median(times), max(memories)
                most_time, most_memory = LIMITS[command]
                seconds[command, nights] = median
                largest = nights == SIZES[-1][0]
                beyond |= largest and (median > most_time or memory > most_memory)
                spread = f"{min(times):.2f} to {max(times):.2f}"
                row = [f"{nights * metrics:,}", command, f"{median:.2f}", spread, str(most_time)]
                rows.append([*row, f"{memory:.0f}", str(most_memory)])
    print("\n".join(columns(rows)))
    for command in LIMITS:
        few, many = (seconds[command, SIZES[i][0]] for i in (1, 2))
        power = math.log(many / few) / math.log(SIZES[2][0] / SIZES[1][0])
        print(f"{command}: from 10^5 to 10^6 samples as their number to the power {power:.2f}")
    return Exit.FAILED if beyond else Exit.OK


def commands_of(home: Path | str) -> dict[str, list[str]]:
    """Each command with its arguments."""
    return {
        "compare": ["latest~1", "latest"],
        "history": [],
        "report": ["earlier:20", "latest", "-o", str(Path(home) / "report")],
    }


def measured(home: Path | str, arguments: Sequence[str]) -> tuple[float, float]:
    """(seconds, MiB at most) of one command; RuntimeError if it fails."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "bisection", *arguments],
        env={**os.environ, "BISECTION_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 3) or b"Traceback" in errors:
        raise RuntimeError(f"bisection {' '.join(arguments)}: {errors.decode()}")
    return time.monotonic() - began, usage.ru_maxrss / 1024


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
