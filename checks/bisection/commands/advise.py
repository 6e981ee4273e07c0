"""Recommends settings for users of a partition, from measurements.

npar: the best NPAR of each launch of the npar checks, and the loss by rules of thumb; one launch
measures all choices in turns. md: ranks and threads for molecular dynamics, and the messages of
each split. eigen: the rows and ranks from which a parallel eigensolver is faster.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from bisection.advice import sources
from bisection.core.format import at_least, printable
from bisection.core.verdicts import BisectionError, Exit
from bisection.kernels.local import BenchError
from bisection.report.advice import eigen_advice, left_out, md_advice, npar_advice
from bisection.runs.command import bisection_command

RANKS_PER_CORE = 32  # more would not end in hours
TEXTS: dict[str, Callable[[Any], Iterable[str]]] = {
    "npar": npar_advice,
    "md": md_advice,
    "eigen": eigen_advice,
}
CODES = {Exit.NOT_MEASURED: "there are no measurements"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("kernel", metavar="|".join(TEXTS), choices=TEXTS, help="kernel to recommend for")
    where = "folder with result files, with its subfolders; default: all results kept"
    add("--from", dest="folders", metavar="DIR", action="append", help=where)
    now = "measure now, on this host, with these numbers of ranks (md: ranks times threads), "
    now += f"at most {RANKS_PER_CORE} per core"
    most = RANKS_PER_CORE * len(os.sched_getaffinity(0))
    add("--measure", metavar="RANKS", type=at_least(2, most), nargs="+", help=now)


def act(options: argparse.Namespace) -> Exit:
    if options.measure and options.folders:
        raise BisectionError("--measure: measures here; it does not go with --from")
    kernel, ranks, folders = options.kernel, options.measure, options.folders
    launches, excluded, disturbed = sources.launches_of(kernel, ranks, folders)
    for note in left_out(excluded, disturbed):
        print(f"bisection advise: {note}", file=sys.stderr)
    if not launches:
        several = " with two ranks or more" if kernel == "npar" else ""
        command = bisection_command("run", "-n", f"^{kernel}")
        raise BenchError(
            f"no results of the {kernel} checks{several}; measure some with `{command}`, "
            "or here with --measure 2 4"
        )
    print(printable(TEXTS[kernel](launches)))
    return Exit.OK
