"""Compares stored sessions, a group before and a group after a change.

Exit code: 0 no verdict of --fail-on; 1 something regressed, or is below the expected ratio;
2 usage; 3 something is missing, was not measured, is slower than in all earlier sessions (outlier)
or has another verdict of --fail-on, or no metric could be judged, or the cores themselves changed;
4 none of these, but a node is slow, or a retest confirmed that a session is slower.
With --plan or --budget: 0 computed, 3 too few nights.
"""

import argparse
import itertools
import json
import shlex
from collections.abc import Sequence

from bisection.analysis import budget
from bisection.analysis.compare import EXITS, FAIL_ON, compare
from bisection.analysis.judging import noise_tables, noises
from bisection.analysis.model import Comparison
from bisection.core import paths
from bisection.core.format import (
    node_hours,
    number,
    number_from,
    part,
    plural,
    printable,
    regex,
    utc,
)
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import BisectionError, Exit
from bisection.report import plan
from bisection.report.text import comparison_as_json, comparison_text
from bisection.runs.command import NAMES, once, rerun
from bisection.runs.model import Request
from bisection.store.database import Session, Store
from bisection.store.selection import HELP, SelectionError, select
from bisection.store.sync import opened

TOO_FEW = f"too few: at least {2 * LIMITS.fewest} nights with the same tests are needed"
USUAL = 0.1  # change that a budget is for, as a part of the value
NEWEST = 40  # sessions of the newest one's kind, by whose noise --plan plans


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    add_shared(parser)
    add = parser.add_argument
    planning = "only print how many nights it takes to see a change of this size, such as "
    planning += f"5%%, by the noise of BEFORE; default: the newest {NEWEST} sessions of one kind"
    add("--plan", type=part, metavar="PART", help=planning)
    spending = "only print which launches find most such changes (default: 10%%) within so many "
    spending += "node-hours a night, such as 20 or 8m, and what is given up"
    add("--budget", type=node_hours, metavar="NODE-HOURS", help=spending)
    add("--json", metavar="FILE", help="write the whole comparison to a JSON file")


def add_shared(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments that `compare` and `report` have in common."""
    add = parser.add_argument
    groups = f"sessions: {HELP}; several with commas between"
    add("before", metavar="BEFORE", nargs="?", help=groups)
    add("after", metavar="AFTER", nargs="?", help="likewise")
    speedup = "expected speed-up, such as the ratio of clock rates, to report each test against"
    add("--expected-ratio", type=number_from(0.01, 100), metavar="R", help=speedup)
    add("--aa", metavar="SESSIONS", help="an A/A test: sessions like BEFORE, with nothing changed")
    cores = "further tests that measure the cores alone"
    add("--control", metavar="REGEX", type=regex, help=cores)
    add("-n", "--name", metavar="REGEX", type=regex, help="only tests whose names match it")
    which = f"{', '.join((*EXITS, 'nothing'))}; default: {','.join(FAIL_ON)}"
    failing = f"verdicts that fail: {which}"
    add("--fail-on", metavar="VERDICTS", type=_verdicts, default=FAIL_ON, help=failing)


def _verdicts(text: str) -> tuple[str, ...]:
    names = [word.strip().replace("-", " ") for word in text.split(",") if word.strip()]
    if names == ["nothing"]:
        return ()
    if not names or set(names) - set(EXITS):
        allowed = ", ".join((*EXITS, "nothing"))
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are {allowed}")
    return tuple(names)


def act(options: argparse.Namespace) -> Exit:
    """Runs the subcommand; returns its exit code."""
    if options.plan or options.budget:
        if options.after or options.json:
            options.parser.error("--plan and --budget take neither AFTER nor --json")
        return planned(options)
    if not options.after:
        options.parser.error("the following arguments are required: BEFORE, AFTER")
    with opened(paths.home()) as store:
        result, _ = compared(store, options)
    print(printable(comparison_text(result)))
    if options.json:
        paths.write_whole(options.json, json.dumps(comparison_as_json(result), indent=1) + "\n")
    return result.exit_code


def planned(options: argparse.Namespace) -> Exit:
    """Prints how many nights it takes to see a change, or which launches to take within a budget;
    returns the exit code."""
    effect = options.plan or USUAL
    with opened(paths.home()) as store:
        sessions: Sequence[Session]
        if options.before:
            sessions = select(options.before, store)
        else:
            (newest,) = select("latest", store)
            alike = [each for each in store.sessions() if each.kind == newest.kind]
            sessions = [each for each in alike if not each.excluded][-NEWEST:]
        if options.budget:
            return budgeted(store, sessions, options, effect)
        entries = noises(noise_tables(store, sessions, options.name))
    print(noise_of(sessions))
    if not entries:
        print(TOO_FEW)
        return Exit.NOT_MEASURED
    print(printable(plan.nights_needed(entries, effect)))
    return Exit.OK


def noise_of(sessions: Sequence[Session]) -> str:
    """A line on the sessions whose noise is used."""
    span = f"{utc(sessions[0].start)} to {utc(sessions[-1].start)}"
    return f"noise of {plural(len(sessions), 'session')}, {span}"


def budgeted(
    store: Store, sessions: Sequence[Session], options: argparse.Namespace, effect: float
) -> Exit:
    """Prints which launches a night should have within a budget; returns the exit code."""
    tests = store.tests()
    proposals: list[budget.Proposal] = []
    cheapest: budget.Launch | None = None
    sets = {id(outcome.hosts): outcome.hosts for outcome in store.outcomes(sessions)}
    known = set().union(*sets.values())
    for nodes, group in sorted(budget.by_nodes(store, sessions).items()):
        launches = budget.launches_of(store, group, options.name)
        tables = noise_tables(store, group, options.name)
        paid = [each for each in launches if not each.needs]
        if paid and tables:
            cheapest = min([*paid, *filter(None, [cheapest])], key=lambda each: each.hours)
            places = tests, tables, options.budget, effect, nodes, len(known)
            proposals += filter(None, [budget.propose(launches, *places)])
    print(noise_of(sessions))
    if not cheapest:
        print(f"{TOO_FEW}, and one whose launches recorded their seconds")
        return Exit.NOT_MEASURED
    if not proposals:
        least = f"{cheapest.name}, takes {number(cheapest.hours)} node-hours"
        raise BisectionError(f"--budget {options.budget:g}: the cheapest launch, {least}")
    best = max(proposals, key=lambda each: each.finds[1] * each.reach)
    print(printable(plan.proposed(proposals, best, effect)))
    tags = sessions[-1].tags
    usual = Request()
    request = Request(
        tags.get("tier", usual.tier),
        tags.get("system", usual.system),
        tags.get("environ", usual.environ),
    )
    request.arguments = shlex.split(tags.get("arguments", "").replace(";", ","))
    names = [word for name in plan.patterns(best.chosen) for word in ("-n", name)]
    request.arguments = [*once(request.arguments, NAMES), *names]
    days = f"{utc(sessions[0].start)[:10]}..{utc(sessions[-1].start)[:10]}"
    print(f"run it: {rerun((), request)} --against {days}")
    return Exit.OK


def compared(
    store: Store, options: argparse.Namespace
) -> tuple[Comparison, tuple[list[Session], list[Session]]]:
    """The comparison that the command line asks for, and its two sides."""
    before, after = options.before, options.after
    later = [] if after.startswith("earlier") else select(after, store)
    sooner = select(before, store, later)
    later = later or select(after, store, sooner)
    same = select(options.aa, store, sooner) if options.aa else []
    sides = ((before, sooner), (after, later), (options.aa, same))
    for (name, side), (other_name, other) in itertools.combinations(sides, 2):
        if both := {s.uuid for s in side} & {s.uuid for s in other}:  # compared with itself
            raise SelectionError(f"{name!r} and {other_name!r} both have session {min(both)}")
    result = compare(
        store,
        sooner,
        later,
        expected=options.expected_ratio,
        aa=same,
        control=options.control,
        name=options.name,
        fail_on=options.fail_on,
    )
    return result, (sooner, later)
