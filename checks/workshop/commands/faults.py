"""Makes faults on a virtual Slurm cluster on this machine, and shows what a run reports.

Each fault disturbs a real launch. As wanted: the cause, what it names, exit code and time; nothing
is left in the queue or on a node. It needs root, Slurm, and kernels in .bisection/build and
.bisection/build-portable (`make test-kernels test-portable`).
"""

import argparse
import signal
import sys
import tempfile
import time
from pathlib import Path

from bisection.core.format import duration
from bisection.core.verdicts import Exit, NotMeasured
from workshop.testbed import unavailable
from workshop.testbed.faults import Outcome, faults_of, tried
from workshop.testbed.scene import Scene
from workshop.testbed.text import as_line, ending, heading, listing

BACKENDS = {"squeue": False, "slurm": True}  # ReFrame's name -> whether there is accounting


CODES = {Exit.FAILED: "a fault was judged otherwise", Exit.NOT_MEASURED: "no cluster can be built"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="faults; default: all")
    parser.add_argument(
        "--backend",
        choices=BACKENDS,
        action="append",
        help="slurm: with an accounting database, squeue: without; default: both",
    )
    parser.add_argument("--quick", action="store_true", help="those of the project's own tests")
    parser.add_argument("--list", action="store_true", help="print the faults, and make none")
    parser.add_argument(
        "--keep", metavar="DIR", type=Path, help="keep all files of the clusters in this folder"
    )


def act(options: argparse.Namespace) -> Exit:
    chosen = faults_of(options.names, options.quick)
    if options.list:
        print("\n".join(listing(chosen)))
        return Exit.OK
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # clusters end too
    began = time.monotonic()
    outcomes: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="bisection-") as temporary:
        for backend in options.backend or BACKENDS:
            accounting = BACKENDS[backend]
            if why := unavailable(accounting):
                raise NotMeasured(f"{backend}: {why}")
            scene = Scene(options.keep or Path(temporary), accounting)
            try:
                scene.build()
                if not outcomes:
                    print(heading(chosen), flush=True)
                for fault in chosen:
                    if fault.accounting <= accounting:
                        outcomes.append(tried(fault, scene, backend))
                        print("\n".join(as_line(outcomes[-1], chosen)), flush=True)
            finally:
                scene.cluster.down()
    print(ending(outcomes, duration(time.monotonic() - began)))
    return Exit.FAILED if any(outcome.wrong for outcome in outcomes) else Exit.OK
