"""Writes a report on the sessions AFTER, compared with the sessions BEFORE.

AFTER is the latest session by default, BEFORE the 20 sessions of its kind before it.
The report is report.html (one file, no script), report.md, junit.xml, bisection.prom and
nodecheck.txt.
"""

import argparse

from bisection.commands.compare import add_shared, compared
from bisection.core import paths
from bisection.core.format import printable
from bisection.core.verdicts import Exit
from bisection.judge import evidence, network
from bisection.report import verdict_text
from bisection.report.comparison_text import undecided
from bisection.report.gather import gather, write
from bisection.report.lines import wrapped
from bisection.report.words import sentence
from bisection.runs.folder import kept_verdicts
from bisection.store.marks import results_of
from bisection.store.selection import EARLIER, SelectionError, select
from bisection.store.sync import opened

CODES = {
    Exit.FAILED: "the run failed, something regressed, or is below the expected ratio",
    Exit.NOT_MEASURED: "as of `bisection compare` and of the run; there is neither",
    Exit.SLOWER: "a node, a session by its retest, or metrics since a recent session",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_shared(parser)
    parser.set_defaults(before=EARLIER, after="latest")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="default: .bisection/report/")


def act(options: argparse.Namespace) -> Exit:
    if options.before == options.after and not options.aa:  # `report latest`
        options.before = EARLIER
    with opened(paths.home()) as store:
        try:
            comparison, sessions = compared(store, options)
        except SelectionError:
            if options.before != EARLIER or options.aa:
                raise
            comparison, sessions = None, select(options.after, store)  # the first of its kind
        last, beside = sessions[-1].uuid, evidence.Evidence(comparison=comparison)
        if run := kept_verdicts(results_of(paths.home(), [last])).get(last):
            beside = network.measured(beside, store, run)
            run = network.rule(run, beside)  # by these sessions
        report = gather(store, sessions, run, evidence.of_history(beside, store, sessions))
        report.fail_on = options.fail_on
    files = write(report, options.output or paths.home() / "report")
    lines = [*verdict_text.alarms(report.alarms)]
    if comparison:
        lines += [*wrapped(sentence(comparison)), *undecided(comparison)]
    else:
        lines.append("no earlier sessions of its kind to compare with")
    lines += report.interconnect.lines() if report.interconnect else []
    print(printable([*lines, *(f"{name}: {paths.shown(path)}" for name, path in files.items())]))
    return report.exit_code
