"""Makes real faults of this host after quiet nights, and shows what a run reports.

The faults are made after nights in one state of the host, and in two. It takes kernels of
.bisection/build (`make kernels`), two cores or more, and a host that nobody else uses. What the
host cannot have is skipped.
"""

import argparse
import tempfile
from functools import partial
from pathlib import Path

from bisection.core.format import plural
from bisection.core.verdicts import Exit
from bisection.report.lines import wrapped
from bisection.report.text_tables import indented
from bisection.report.verdict_text import NAMES
from workshop.testbed.faults import named
from workshop.testbed.ladder import LADDER, STATES, Host, Outcome, tried

CODES = {Exit.FAILED: "a fault was judged otherwise", Exit.NOT_MEASURED: "all were skipped"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="faults; default: all")
    parser.add_argument("--list", action="store_true", help="print the faults, and make none")
    parser.add_argument("--quick", action="store_true", help="those of the project's own tests")
    text = "histories: one, two; default: both"
    parser.add_argument("--states", choices=STATES, action="append", help=text)
    parser.add_argument("--keep", metavar="DIR", type=Path, help="keep all files in this folder")


def act(options: argparse.Namespace) -> Exit:
    chosen = named(LADDER, options.names)
    if options.list:
        cells = [[f.name, "/".join(f"{code:d}" for code in f.codes), f.text] for f in chosen]
        print("\n".join(indented([["fault", "exit", "what it is"], *cells])))
        return Exit.OK
    with tempfile.TemporaryDirectory(prefix="bisection-") as temporary:
        host = Host(options.keep or Path(temporary))
        outcomes = []
        for fault in chosen:
            for state in fault.quick if options.quick else options.states or STATES:
                outcomes.append(tried(fault, host, state, partial(print, flush=True)))
                print("\n".join(as_lines(outcomes[-1])), flush=True)
    wrong = sum(bool(outcome.wrong) for outcome in outcomes)
    skipped = sum(bool(outcome.withheld) for outcome in outcomes)
    counts = f"{plural(len(outcomes), 'fault')}: {wrong} not as wanted, {skipped} skipped"
    code = Exit.FAILED if wrong else Exit.NOT_MEASURED if skipped == len(outcomes) else Exit.OK
    print(f"{NAMES[code]}: {counts}")
    return code


def as_lines(outcome: Outcome) -> list[str]:
    """A fault, the exit code and the first line of the run; what is not as wanted."""
    result = "WRONG" if outcome.wrong else "skip" if outcome.withheld else "ok"
    code = f"{outcome.night.exit_code:d}" if outcome.night else "-"
    said = outcome.withheld or (outcome.night.first if outcome.night else "")
    head = f"{result:5}  {outcome.fault.name:15} {outcome.state:3}  exit {code}: {said}"
    return wrapped(head) + wrapped(*outcome.wrong, indent="       ")
