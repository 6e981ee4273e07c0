"""Recommends what users of a partition should set, from what was measured.

npar: the best NPAR of each launch of the npar checks, and what rules of thumb lose; all choices are
measured in turn in one launch. md: ranks and threads for molecular dynamics, and what each split
sends. Exit code: 0 a table was printed, 2 usage, 3 there is nothing to advise from.
"""

import argparse
import shlex
from collections.abc import Iterable

from bisection.advice import md, npar
from bisection.advice.sources import stored
from bisection.core.arguments import at_least
from bisection.core.verdicts import BisectionError, Exit
from bisection.kernels import tables
from bisection.kernels.local import BenchError
from bisection.runs.command import invocation


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    parser.add_argument("what", metavar="npar|md", choices=("npar", "md"), help="for which codes")
    parser.add_argument(
        "--from",
        dest="folders",
        metavar="DIR",
        action="append",
        help="folders with result files, searched with all below; default: all results kept",
    )
    parser.add_argument(
        "--measure",
        metavar="RANKS",
        action="append",
        help="measure now, on this host, with this number of ranks (md: ranks times threads); may "
        "be repeated, or be a list: 2,4",
    )
    parser.add_argument(
        "--case",
        choices=tables.cases("npar") + tables.cases("md"),
        metavar="CASE",
        action="append",
        help="default: all that were measured; with --measure mini1 (npar) and cu3au (md)",
    )
    parser.add_argument("--partition", metavar="NAME", help="only results of this partition")
    parser.add_argument(
        "--rounds",
        type=at_least(3),  # fewer have no spread
        default=15,
        metavar="N",
        help="rounds of --measure; default: 15",
    )


def act(options: argparse.Namespace) -> Exit:
    """Runs the subcommand; returns its exit code."""
    if options.measure and (options.folders or options.partition):
        raise BisectionError("--measure: measures here; it does not go with --from or --partition")
    counts = rank_counts(options.measure or [])
    module = npar if options.what == "npar" else md
    for case in options.case or []:
        if case not in (known := tables.cases(options.what)):
            raise BisectionError(f"--case {case}: {options.what} has {', '.join(known)}")
    try:
        if counts:
            default = "mini1" if module is npar else "cu3au"
            launches = module.measured(counts, options.case or [default], options.rounds)
        else:
            parse = npar.sweep if module is npar else md.layout_run
            where = (options.folders, options.case, options.partition)
            launches = stored(options.what, parse, *where)
    except OSError as error:
        raise BenchError(str(error)) from None
    if not launches:
        several = " with two ranks or more" if module is npar else ""
        raise BenchError(
            f"no results of the {options.what} checks{several}; measure some with "
            f"`{shlex.join([*invocation(), 'run', '-n', f'^{options.what}'])}`, or here with "
            "--measure 2,4"
        )
    print("\n".join(module.table(launches)))
    return Exit.OK


def rank_counts(lists: Iterable[str]) -> list[int]:
    """The numbers of ranks in comma-separated lists; BisectionError for anything else."""
    counts = []
    for word in (word for words in lists for word in words.split(",")):
        if not word.isdecimal() or not 2 <= int(word) <= 4096:
            raise BisectionError(f"--measure {word}: not a whole number of ranks from 2 to 4096")
        counts.append(int(word))
    return counts
