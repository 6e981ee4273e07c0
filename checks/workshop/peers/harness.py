"""`workshop bench harness`: what the harness itself costs, beside its targets.

A counted call of MPI over the bare one: src/tests/unit_profile.c measures both in turns. Seconds of
a core that a transpose on many simulated ranks takes: src/tests/test_budget.py.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from bisection.core import paths
from bisection.core.format import duration
from bisection.kernels.local import BenchError, Estimate, environment, make
from workshop.peers import Judged, Limit, NotMeasured, judged

TURNS = 5
CALL = Limit(20e-9, unit="s")
RANKS = 8192
METHODS = ("alltoallv", "p2p", "shm", "shm-padded", "gather-scatter")
LAUNCH = Limit(40, unit="s")
BUDGET = paths.ROOT / "src" / "tests" / "test_budget.py"


def run(command: list[str]) -> str:
    """What a command prints; BenchError if it fails."""
    done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    if done.returncode:
        text = (done.stdout + done.stderr).strip()
        raise BenchError(f"{' '.join(command)} exited with {done.returncode}: {text[-400:]}")
    return done.stdout


def calls(build: Path) -> Iterator[Judged]:
    """The calls of one rank: what a counted one takes more."""
    make(build, [], ["unit_profile"])
    pairs: dict[str, list[tuple[float, float]]] = {}
    for _ in range(TURNS):
        text = run(["mpirun", "-n", "1", str(build / "tests" / "unit_profile"), "cost"])
        for name, bare, counted in re.findall(r"^(\S.*?) +([\d.]+) +([\d.]+) +\S+$", text, re.M):
            pairs.setdefault(name, []).append((float(bare) * 1e-9, float(counted) * 1e-9))
    for name, both in pairs.items():
        more = [(counted - bare, 1.0) for bare, counted in both]
        line = judged("", 1, name, more, CALL)
        line.sides = tuple(median(side) for side in zip(*both, strict=True))[::-1]
        yield line


def simulated(build: Path) -> Iterator[Judged]:
    """A launch of each method, once."""
    if not shutil.which("smpirun"):
        raise NotMeasured("smpirun of SimGrid is not installed")
    make(build, [], ["simulated"])
    for method in METHODS:
        command = [sys.executable, str(BUDGET), str(build / "simulated"), "--seconds", str(RANKS)]
        try:
            user, system = map(float, run([*command, method]).split())
        except BenchError as error:
            raise NotMeasured(str(error)) from error
        seconds = Estimate(user + system, user + system, user + system)
        yield Judged("", RANKS, f"{method}, Linux {duration(system)} of it", seconds, LAUNCH)
