"""Recommends settings for users of a partition, from measurements.

npar: the best NPAR of each launch of the npar checks, and the loss by rules of thumb; one launch
measures all choices in turns. md: ranks and threads for molecular dynamics, and the messages of
each split. eigen: the rows and ranks from which a parallel eigensolver is faster.
Exit code: 0 a table was printed, 2 usage, 3 there are no measurements.
"""

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bisection.advice import sources
from bisection.core import paths
from bisection.core.format import at_least, plural, printable
from bisection.core.reasons.performance import Excluded
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import BisectionError, Exit
from bisection.kernels import tables
from bisection.kernels.local import BenchError
from bisection.report.advice import eigen_advice, md_advice, npar_advice
from bisection.runs.command import invocation
from bisection.store.marks import excluded_folders

RANKS_PER_CORE = 32  # more would not end in hours
# Of each kernel: its launches, the cases of --measure, what is measured beside the methods, the
# text.
# Of a kernel: how a result is read, its cases, baselines, and the words of the advice.
ADVICE: dict[str, tuple[Any, Sequence[str], str, Callable[[Any], Iterable[str]]]] = {
    "npar": (sources.Sweep, ["mini1"], "none", npar_advice),
    "md": (sources.LayoutRun, ["cu3au"], "none", md_advice),
    "eigen": (sources.Solved, tables.cases("eigen")[:3], "dsyevd", eigen_advice),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    add = parser.add_argument
    add("kernel", metavar="|".join(ADVICE), choices=ADVICE, help="for which codes")
    where = "folders with result files, searched with all below; default: all results kept"
    add("--from", dest="folders", metavar="DIR", action="append", help=where)
    now = "measure now, on this host, with these numbers of ranks (md: ranks times threads), "
    now += f"at most {RANKS_PER_CORE} per core"
    most = RANKS_PER_CORE * len(os.sched_getaffinity(0))
    add("--measure", metavar="RANKS", type=at_least(2, most), nargs="+", help=now)


def act(options: argparse.Namespace) -> Exit:
    """Runs the subcommand; returns its exit code."""
    if options.measure and options.folders:
        raise BisectionError("--measure: measures here; it does not go with --from")
    kernel = options.kernel
    kind, cases, baselines, text = ADVICE[kernel]
    launches: list[sources.Launched] = []
    left_out = 0
    excluded = [] if options.folders or options.measure else excluded_folders(paths.home())
    if options.measure:
        launches = [*sources.launched_now(kernel, kind, options.measure, cases, baselines)]
    else:
        launches, left_out = sources.stored(kernel, kind, options.folders, excluded)
    if excluded:
        reason = Excluded(tuple(folder.name for folder in excluded))
        print(f"bisection advise: {reason}", file=sys.stderr)
    if left_out:
        print(
            f"bisection advise: {plural(left_out, 'launch', 'launches')} left out: other processes "
            f"were on their cores in more than {LIMITS.preempted_launch:.0%} of the samples",
            file=sys.stderr,
        )
    if not launches:
        several = " with two ranks or more" if kernel == "npar" else ""
        command = shlex.join([*invocation(), "run", "-n", f"^{kernel}"])
        raise BenchError(
            f"no results of the {kernel} checks{several}; measure some with `{command}`, or here "
            "with --measure 2 4"
        )
    print(printable(text(launches)))
    return Exit.OK
