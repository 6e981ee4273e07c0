"""Makes real faults of this host after quiet nights, and shows what a run reports.

The faults are made after nights in one state of the host, and in two. It takes kernels of
.bisection/build (`make kernels`), two cores or more, and a host that nobody else uses. What the
host cannot have is skipped.
Exit code: 0 all as wanted, 1 a fault was reported otherwise, 2 usage, 3 this host is not quiet.
"""

import argparse
import tempfile
from pathlib import Path

from bisection.core.format import plural
from bisection.core.verdicts import Exit
from bisection.report.lines import wrapped
from bisection.report.tables import indented
from workshop.testbed.hosts import TestbedError
from workshop.testbed.ladder import FAULTS, STATES, Host, Outcome, tried


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="faults; default: all")
    parser.add_argument("--list", action="store_true", help="print the faults, and make none")
    text = "histories: one, two; default: both"
    parser.add_argument("--states", choices=STATES, action="append", help=text)
    parser.add_argument("--keep", metavar="DIR", type=Path, help="keep all files in this folder")


def act(options: argparse.Namespace) -> Exit:
    """Runs the subcommand; returns its exit code."""
    known = {fault.name: fault for fault in FAULTS}
    if unknown := [name for name in options.names if name not in known]:
        raise UnknownFault(f"{unknown[0]}: no fault; there are {', '.join(known)}")
    chosen = [known[name] for name in options.names] or FAULTS
    if options.list:
        cells = [[f.name, "/".join(f"{code:d}" for code in f.codes), f.text] for f in chosen]
        print("\n".join(indented([["fault", "exit", "what it is"], *cells])))
        return Exit.OK
    with tempfile.TemporaryDirectory(prefix="bisection-") as temporary:
        host = Host(options.keep or Path(temporary))
        host.rest(lambda line: print(line, flush=True))
        outcomes = []
        for fault in chosen:
            for state in options.states or STATES:
                outcomes.append(tried(fault, host, state))
                print("\n".join(as_lines(outcomes[-1])), flush=True)
    wrong = sum(bool(outcome.wrong) for outcome in outcomes)
    skipped = sum(bool(outcome.withheld) for outcome in outcomes)
    counts = f"{plural(len(outcomes), 'fault')}: {wrong} not as wanted, {skipped} skipped"
    print(f"{'FAIL' if wrong else 'PASS'}: {counts}")
    return Exit.FAILED if wrong else Exit.OK


class UnknownFault(TestbedError):
    """There is no such fault."""

    exit_code = Exit.USAGE


def as_lines(outcome: Outcome) -> list[str]:
    """A fault, the exit code and the first line of the run; what is not as wanted."""
    state = "WRONG" if outcome.wrong else "skip" if outcome.withheld else "ok"
    code = f"{outcome.night.exit_code:d}" if outcome.night else "-"
    said = outcome.withheld or (outcome.night.first if outcome.night else "")
    head = f"{state:5}  {outcome.fault.name:15} states: {outcome.state}  exit {code}: {said}"
    return wrapped(head) + wrapped(*outcome.wrong, indent="       ")
