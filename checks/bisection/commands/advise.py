"""`bisection advise npar|md`: what to recommend to users of a partition, from what was measured.

npar: which NPAR, and what a rule of thumb loses; all choices are measured in turn in one launch.
md: ranks and threads for molecular dynamics, and what each split sends.
"""

import sys

from bisection.advice import md, npar
from bisection.advice.sources import rank_counts, stored
from bisection.kernels.local import BenchError

USAGE, NOTHING = 2, 3


def add_commands(commands):
    advise = commands.add_parser(
        "advise",
        help="recommend what users should set",
        description="npar: for each launch of the npar checks, the best NPAR and what rules of "
        "thumb lose. md: ranks and threads of molecular dynamics, and what each split sends. "
        "Exit code: 0 a table was printed, 2 usage, 3 there is nothing to advise from.",
    )
    advise.add_argument("what", choices=("npar", "md"))
    advise.add_argument(
        "--from",
        dest="folders",
        metavar="DIR",
        action="append",
        help="folders with result files, searched with all below; default: all results kept",
    )
    advise.add_argument(
        "--measure",
        metavar="RANKS",
        action="append",
        help="measure now, with so many ranks (md: ranks times threads) on this host; may be "
        "repeated, or be a list: 2,4",
    )
    advise.add_argument(
        "--case",
        choices=npar.CASES + md.CASES,
        metavar="CASE",
        action="append",
        help="default: all that were measured; with --measure mini1, cu3au of md",
    )
    advise.add_argument(
        "--partition", metavar="NAME", help="of results kept: only those of this partition"
    )
    advise.add_argument("--rounds", type=int, default=15, help="of --measure; default: 15")
    advise.set_defaults(act=act_advise)


def act_advise(options):
    try:
        if options.rounds < 3:
            raise ValueError(f"--rounds {options.rounds}: at least 3 are needed for a spread")
        if options.measure and (options.folders or options.partition):
            raise ValueError("--measure: measures here; it does not go with --from or --partition")
        ranks = rank_counts(options.measure or [])
        known = (npar if options.what == "npar" else md).CASES
        for case in options.case or []:
            if case not in known:
                raise ValueError(f"--case {case}: of {options.what} there are {', '.join(known)}")
    except ValueError as error:
        print(f"bisection advise: error: {error}", file=sys.stderr)
        return USAGE
    of_npar = options.what == "npar"
    try:
        if ranks and of_npar:
            found = npar.measured(ranks, options.case or ["mini1"], options.rounds)
        elif ranks:
            found = md.measured(ranks, options.case or ["cu3au"], options.rounds)
        else:
            parse = npar.sweep if of_npar else md.layout_run
            found = stored(options.what, parse, options.folders, options.case, options.partition)
    except (BenchError, OSError) as error:
        print(f"bisection advise: error: {error}", file=sys.stderr)
        return NOTHING
    if not found:
        print(
            f"bisection advise: error: no results of the {options.what} checks"
            f"{' with two ranks or more' if of_npar else ''}; "
            f"measure some with `bisection run -n ^{options.what}`, or here with --measure 2,4",
            file=sys.stderr,
        )
        return NOTHING
    print("\n".join((npar if of_npar else md).table(found)))
    return 0
