"""Draws the README's picture: the first screen of a report on a made-up machine. Needs Chromium.

Thirty nights are made up from a fixed seed. In the last ten the MPI library is another one, and
the methods over shared memory take 18% longer.
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bisection.core import paths
from bisection.core.verdicts import BisectionError, Exit
from bisection.store.database import Store
from bisection.store.sample_file import SCHEMA, VERSION, Line

DAY = 86400.0
START = 1_790_812_800.0  # 1 October 2026
NIGHTS, CHANGE, SLOWER = 30, 20, 1.18
BETWEEN, WITHIN = 0.006, 0.01  # noise of a night, of a test
SIZE = (1120, 860)  # pixels
# How the report's commands name the program here: this home folder, then this checkout.
PROGRAM = re.compile(r"<[^>]+>env<.+?>BISECTION_HOME=.+?>[^<>]+/bisection<")
KIND = {"tier": "nightly", "system": "example", "environ": "system"}
LAYOUTS = {"mpi": "2x64x1", "node": "2x1x64"}
# check, case -> time of each method (s)
TIMES = {
    ("transpose", "cnt40"): {"alltoallv": 2.1e-3, "shm": 1.5e-3, "direct": 1.7e-3, "serial": 0.08},
    ("transpose", "cpmd-mini"): {"alltoallv": 9.4e-3, "shm": 7.7e-3, "direct": 8.1e-3},
    ("npar", "bench1"): {"npar-1": 0.84, "npar-8": 0.61, "npar-64": 0.72},
    ("md", "nacl-mini"): {"packed": 31e-3, "column-wise": 28e-3},
    ("eigen", "fock-256"): {"elpa1": 4.1e-3, "jacobi": 6.2e-3},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="the PNG file to write")


def act(options: argparse.Namespace) -> Exit:
    with tempfile.TemporaryDirectory() as home:
        with Store(paths.store_db(home)) as store:
            store.add(map(night, range(NIGHTS)))
        command = [sys.executable, "-m", "bisection", "report", "phase=before", "phase=after"]
        environment = {**os.environ, "BISECTION_HOME": home}
        # exit code 1: there are regressions
        subprocess.run([*command, "-o", home], env=environment, stdout=subprocess.DEVNULL)
        picture = Path(home, "picture.png")
        size = "--window-size={},{}".format(*SIZE)
        browser = ["chromium", "--headless", "--no-sandbox", "--hide-scrollbars", size]
        page = Path(home, "report.html")
        page.write_text(PROGRAM.sub("<span>.bisection/bin/bisection<", page.read_text()))
        try:
            command = [*browser, f"--screenshot={picture}", page.as_uri()]
            subprocess.run(command, capture_output=True, timeout=120)
        except OSError as error:
            raise BisectionError(f"chromium: {error.strerror}") from None
        options.file.write_bytes(picture.read_bytes())
    return Exit.OK


def night(number: int) -> tuple[Line, list[Line]]:
    """A session and its test cases, as lines of a sample file."""
    chance = random.Random(number)
    session = {
        "schema": SCHEMA,
        "version": VERSION,
        "session": f"{chance.getrandbits(32):08x}",
        "start": START + number * DAY,
        "tags": {**KIND, "phase": "after" if number >= CHANGE else "before"},
        "facts": {"MPI": "Open MPI 5.0.8" if number >= CHANGE else "Open MPI 5.0.6"},
    }
    return session, [*_cases(number, chance)]


def _cases(number: int, chance: random.Random) -> Iterator[Line]:
    level = chance.gauss(1, BETWEEN)
    for (check, case), times in TIMES.items():
        for layout, geometry in LAYOUTS.items():
            for method, seconds in times.items():
                slower = SLOWER if number >= CHANGE and method in ("shm", "direct") else 1.0
                time = seconds * level * slower * chance.gauss(1, WITHIN)
                yield {
                    "check": check,
                    "case": case,
                    "layout": layout,
                    "method": method,
                    "system": "example",
                    "partition": "cpu",
                    "environ": "system",
                    "geometry": geometry,
                    "hosts": ["n1", "n2"],
                    "verdict": "pass",
                    "control": method == "serial",
                    "metrics": {"time": [time, "s", "lower"]},
                }
