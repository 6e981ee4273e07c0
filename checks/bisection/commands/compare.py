"""Compares stored sessions, a group before and a group after a change."""

import argparse
from collections.abc import Sequence

from bisection.analysis import budget
from bisection.analysis.comparison import compare
from bisection.analysis.model import Comparison
from bisection.analysis.power import noise_tables, noises
from bisection.core import paths
from bisection.core.format import node_hours, number, number_from, part, printable, regex
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import BisectionError, Exit
from bisection.judge.decision import FAIL_ON, OF_COMPARISON
from bisection.report import plan
from bisection.report.comparison_text import comparison_text
from bisection.report.documents import ComparisonDocument, add_json, shown
from bisection.store.database import Session, Store
from bisection.store.selection import HELP, alike, sides_of
from bisection.store.sync import opened

TOO_FEW = f"too few: at least {2 * LIMITS.fewest} nights with the same tests are needed"
USUAL = 0.1  # change that a budget is for, as a part of the value
NEWEST = 40  # sessions of the newest one's kind, by whose noise --plan plans


CODES = {
    Exit.OK: "no verdict of --fail-on; with --plan or --budget: computed",
    Exit.FAILED: "something regressed, or is below the expected ratio",
    Exit.NOT_MEASURED: "a test is missing, was not measured, or has another verdict of --fail-on; "
    "a session is slower than all before and was not retested; nothing could be judged; the cores "
    "themselves changed; too few nights for --plan or --budget",
    Exit.SLOWER: "a node, or a session by its retest",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser)
    add = parser.add_argument
    planning = "print only how many nights show a change of this size, such as 5%%, at the noise "
    planning += f"of BEFORE; default: the newest {NEWEST} sessions of one kind"
    add("--plan", type=part, metavar="PART", help=planning)
    spending = "print only the launches that detect most such changes (default: 10%%) within this "
    spending += "many node-hours per night, such as 20 or 8m, and the launches that are dropped"
    add("--budget", type=node_hours, metavar="NODE-HOURS", help=spending)
    add_json(parser)


def add_shared(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments that `compare` and `report` have in common."""
    add = parser.add_argument
    groups = f"sessions before the change: {HELP}; commas join several"
    add("before", metavar="BEFORE", nargs="?", help=groups)
    add("after", metavar="AFTER", nargs="?", help="sessions after the change, named likewise")
    speedup = "expected speed-up, such as the ratio of clock rates; tests are above, at or below it"
    add("--expected-ratio", type=number_from(0.01, 100), metavar="R", help=speedup)
    add("--aa", metavar="SESSIONS", help="an A/A test: sessions like BEFORE, with nothing changed")
    cores = "names of further tests that measure only the cores"
    add("--control", metavar="REGEX", type=regex, help=cores)
    add("-n", "--name", metavar="REGEX", type=regex, help="only tests whose names match REGEX")
    which = f"{', '.join((*OF_COMPARISON, 'nothing'))}; default: {','.join(FAIL_ON)}"
    failing = f"verdicts that fail: {which}"
    add("--fail-on", metavar="VERDICTS", type=_verdicts, default=FAIL_ON, help=failing)


def _verdicts(text: str) -> tuple[str, ...]:
    names = [word.strip().replace("-", " ") for word in text.split(",") if word.strip()]
    if names == ["nothing"]:
        return ()
    if not names or set(names) - set(OF_COMPARISON):
        allowed = ", ".join((*OF_COMPARISON, "nothing"))
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are {allowed}")
    return tuple(names)


def act(options: argparse.Namespace) -> Exit:
    if options.plan or options.budget:
        if options.after or options.json:
            options.parser.error("--plan and --budget take neither AFTER nor --json")
        return planned(options)
    if not options.after:
        options.parser.error("the following arguments are required: BEFORE, AFTER")
    with opened(paths.home()) as store:
        result, _ = compared(store, options)
    document = ComparisonDocument.of(result, options.fail_on)
    print(shown(options, document, comparison_text(result)))
    return document.exit_code


def planned(options: argparse.Namespace) -> Exit:
    """Prints how many nights it takes to see a change, or which launches to take within a budget;
    returns the exit code."""
    effect, hours, lacking = options.plan or USUAL, options.budget, TOO_FEW
    with opened(paths.home()) as store:
        sessions = alike(options.before, NEWEST, store)
        print(plan.noise_of(sessions))
        if hours:
            proposals, cheapest = budget.proposals(store, sessions, options.name, hours, effect)
            if cheapest and not proposals:
                least = f"{cheapest.name}, takes {number(cheapest.hours)} node-hours"
                raise BisectionError(f"--budget {hours:g}: the cheapest launch, {least}")
            lacking += ", and one whose launches recorded their seconds"
            lines = plan.proposed(proposals, sessions, effect) if cheapest else []
        else:
            entries = noises(noise_tables(store, sessions, options.name))
            lines = plan.nights_needed(entries, effect) if entries else []
    print(printable(lines) if lines else lacking)
    return Exit.OK if lines else Exit.NOT_MEASURED


def compared(store: Store, options: argparse.Namespace) -> tuple[Comparison, Sequence[Session]]:
    """The comparison that the command line asks for, and the sessions after the change."""
    before, after, aa = sides_of(options.before, options.after, options.aa, store)
    expected, control, name = options.expected_ratio, options.control, options.name
    return compare(store, before, after, expected, aa, control, name), after
