"""Computes how many nights per side `bisection compare` needs to find a change.

The noise is that of the stored nights: of each kernel's usual metric, and of what all metrics of a
kernel share.
Exit code: 0 computed, 2 usage, 3 too few nights.
"""

import argparse

from bisection.analysis.power import LARGEST, Noise, Power, noises
from bisection.core import paths
from bisection.core.format import part, plural, printable, regex, utc
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Exit
from bisection.report.tables import columns
from bisection.store.selection import HELP, select
from bisection.store.sync import opened

NEWEST = 40  # sessions of the newest one's kind, unless others are named


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    parser.add_argument(
        "sessions",
        nargs="?",
        help=f"{HELP}; default: the newest {NEWEST} like the newest one",
    )
    parser.add_argument(
        "--effect",
        type=part,
        default=LIMITS.margin,
        metavar="PART",
        help=f"the change to be found, for example 5%%; default: {100 * LIMITS.margin:.0f}%%",
    )
    parser.add_argument(
        "-n", "--name", metavar="REGEX", type=regex, help="only tests whose names match it"
    )


def act(options: argparse.Namespace) -> Exit:
    """Runs the subcommand; returns its exit code."""
    with opened(paths.home()) as store:
        if options.sessions:
            sessions = select(options.sessions, store)
        else:
            (newest,) = select("latest", store)
            alike = [each for each in store.sessions() if each.kind == newest.kind]
            sessions = [each for each in alike if not each.excluded][-NEWEST:]
        entries = noises(store, sessions, options.name)
    span = f"{utc(sessions[0].start)} to {utc(sessions[-1].start)}"
    print(f"noise of {plural(len(sessions), 'session')}, {span}")
    if not entries:
        print(f"too few: {2 * LIMITS.fewest} nights or more are needed that measured the same")
        return Exit.NOT_MEASURED
    head = ["kernel", "where", "metrics", "nights", "noise", "like the night before"]
    head += [f"nights per side for {options.effect:.1%} of one metric", "of all of the kernel"]
    print(printable(columns([head, *(_line(entry, options.effect) for entry in entries)])))
    print(f"{LIMITS.seen:.0%} of such comparisons find a change of that size.")
    return Exit.OK


def _line(entry: Noise, effect: float) -> list[str]:
    noise = [f"{entry.own.sigma:.1%}", f"{entry.own.rho:.1f}"]
    nights = [_nights(power, effect) for power in (entry.own, entry.shared)]
    return [entry.kernel, entry.place, str(entry.metrics), str(entry.nights), *noise, *nights]


def _nights(power: Power, effect: float) -> str:
    nights = power.needed(effect)
    return f"above {LARGEST}" if nights is None else str(nights)
