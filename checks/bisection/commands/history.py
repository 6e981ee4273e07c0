"""Finds changes of level in the history of every metric.

Names the first session of each new level, and what else differed from the session before.
Exit code: 0 nothing is worse than it was, 1 something is, 2 usage, 3 too few sessions.
"""

import argparse

from bisection.analysis.explain import explain_points
from bisection.analysis.history import changes_of, histories
from bisection.core import paths
from bisection.core.format import regex
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Exit, Verdict
from bisection.report.clauses import clause
from bisection.report.text import history_text
from bisection.store.selection import HELP, left_out, select
from bisection.store.sync import opened


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    parser.add_argument("sessions", nargs="?", default="..", help=f"{HELP}; default: all")
    parser.add_argument(
        "-n", "--name", metavar="REGEX", type=regex, help="only tests in which it is found"
    )


def act(options: argparse.Namespace) -> Exit:
    """Runs the subcommand; returns its exit code."""
    with opened(paths.home()) as store:
        sessions = select(options.sessions, store)
        series = histories(store, sessions, options.name)
        points, _ = changes_of(series, sessions)
        explain_points(points, sessions, store)
    print("\n".join(history_text(points, series, len(sessions))))
    if excluded := left_out(sessions):
        print(f"note: {clause(excluded)}")
    if max((len(values) for *_, values in series), default=0) < 2 * LIMITS.level:
        return Exit.NOT_MEASURED
    last = {point.key: point.verdict for point in sorted(points, key=lambda p: p.at)}
    return Exit.FAILED if Verdict.REGRESSED in last.values() else Exit.OK
