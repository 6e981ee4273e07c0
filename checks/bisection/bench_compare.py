"""`bisection bench-compare`: how long stored results take to compare, to look through, to report.

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
from pathlib import Path

from bisection import store as stores
from bisection.summary import columns

SIZES = ((5, 2000), (50, 2000), (500, 2000))  # nights, metrics
METRICS_OF_A_TEST = 8
LIMITS = {"compare": (2, 1024), "history": (60, 1024), "report": (10, 1024)}  # s, MiB
DAY = 86400.0


def add_commands(commands):
    bench = commands.add_parser(
        "bench-compare",
        help="time the comparison of stored results",
        description="Times compare, history and report on stores of 10^4 to 10^6 made-up samples, "
        "with their memory. Exit code: 0 within the limits, 1 beyond one.",
    )
    bench.add_argument("--repeats", type=_count, default=3, metavar="N", help="default: 3")
    bench.set_defaults(act=act)


def _count(text):
    value = int(text)
    if value < 1:
        raise ValueError
    return value


_count.__name__ = "number above zero"  # argparse names the type in its message


def act(options):
    rows = [["samples", "command", "median s", "least to most", "limit", "peak MiB", "limit"]]
    seconds, beyond = {}, False
    for nights, metrics in SIZES:
        with tempfile.TemporaryDirectory() as home:
            began = time.monotonic()
            fill(Path(home), nights, metrics)
            took = time.monotonic() - began
            size = stores.database(home).stat().st_size / 2**20
            told = f"{nights} nights x {metrics} metrics: stored in {took:.1f} s, {size:.1f} MiB"
            print(told, flush=True)
            for command, arguments in commands_of(home).items():
                runs = [measured(home, [command, *arguments]) for _ in range(options.repeats)]
                times = [run[0] for run in runs]
                memory = max(run[1] for run in runs)
                most_time, most_memory = LIMITS[command]
                seconds[command, nights] = statistics.median(times)
                beyond |= nights == SIZES[-1][0] and (
                    statistics.median(times) > most_time or memory > most_memory
                )
                spread = f"{min(times):.2f} to {max(times):.2f}"
                rows.append(
                    [
                        *(f"{nights * metrics:,}", command, f"{statistics.median(times):.2f}"),
                        *(spread, str(most_time), f"{memory:.0f}", str(most_memory)),
                    ]
                )
    print("\n".join(columns(rows)))
    for command in LIMITS:
        few, many = (seconds[command, SIZES[i][0]] for i in (1, 2))
        power = math.log(many / few) / math.log(SIZES[2][0] / SIZES[1][0])
        print(f"{command}: from 10^5 to 10^6 samples as their number to the power {power:.2f}")
    return int(beyond)


def commands_of(home):
    return {
        "compare": ["latest~1", "latest"],
        "history": [],
        "report": ["earlier:20", "latest", "-o", str(Path(home) / "report")],
    }


def measured(home, arguments):
    """(seconds, MiB at most) of one command; RuntimeError if it fails."""
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "bisection", *arguments],
        env={**os.environ, "BISECTION_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    words = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 1, 3) or b"Traceback" in words:
        raise RuntimeError(f"bisection {' '.join(arguments)}: {words.decode()}")
    return time.monotonic() - began, usage.ru_maxrss / 1024


def fill(home, nights, metrics):
    """Stores so many nights of so many metrics: a year's noise of 3%, a step in a tenth of them."""
    import numpy as np

    rng = np.random.default_rng(1)
    tests = metrics // METRICS_OF_A_TEST
    level = np.exp(rng.normal(-7, 1, (tests, METRICS_OF_A_TEST)))
    with stores.Store(stores.database(home)) as store:
        for night in range(nights):
            values = level * np.exp(rng.normal(0, 0.03, level.shape))
            if night > 0.7 * nights:
                values[: tests // 10] *= 1.15
            store.add([(_session(night), [_case(i, row) for i, row in enumerate(values)])])


def _session(night):
    return {
        "session": f"{night:08x}",
        "start": 1.7e9 + night * DAY,
        "tags": {"tier": "nightly", "system": "lab", "environ": "system"},
        "facts": {"MPI": "Open MPI 4.1.4" if night < 350 else "Open MPI 5.0.0"},
    }


def _case(index, values):
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
