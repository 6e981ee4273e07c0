"""`bisection bench store`: how long stored results take to compare, to look through, to report.

Made-up nights, as many as a site has in a year and a half, are stored; each command then runs as a
process of its own, so that its start and its memory count.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from bisection.core import paths
from bisection.store.database import Store

SIZES = ((5, 2000), (50, 2000), (500, 2000))  # nights, metrics
METRICS_OF_A_TEST = 8
LIMITS = {"compare": (2, 1024), "history": (60, 1024), "report": (10, 1024)}  # s, MiB
DAY = 86400.0


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
    with Store(paths.store_db(home)) as store:
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
