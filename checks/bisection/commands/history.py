"""`bisection history`: since when a metric is worse."""

import re
import sys

from bisection.analysis.history import LEAST, changes_of, histories
from bisection.core import paths
from bisection.core.verdicts import REGRESSED
from bisection.report.text import history_text
from bisection.store.sample_file import StoreError
from bisection.store.selection import HELP, SelectionError, select
from bisection.store.sync import opened

USAGE = 2


def add_commands(commands):
    command = commands.add_parser(
        "history",
        help="find the session since when a metric is worse",
        description="Looks for changes of level in the history of every metric and names the first "
        "session of each, with what else differed from the one before. Exit code: 0 nothing is "
        "worse than it was, 1 something is, 2 usage, 3 too few sessions.",
    )
    command.add_argument("sessions", nargs="?", default="..", help=f"{HELP}; default: all")
    command.add_argument("-n", "--name", metavar="REGEX", help="these tests only")
    command.set_defaults(act=act)


def act(options):
    try:
        pattern = re.compile(options.name) if options.name else None
        with opened(paths.home()) as store:
            sessions = select(options.sessions, store)
            found = histories(store, sessions, pattern)
    except (SelectionError, StoreError, re.error) as error:
        print(f"bisection history: error: {error}", file=sys.stderr)
        return USAGE
    points, _ = changes_of(found, sessions)
    longest = max((len(values) for *_, values in found), default=0)
    print("\n".join(history_text(points, found, len(sessions))))
    if longest < 2 * LEAST:
        return 3
    last = {point.key: point.verdict for point in sorted(points, key=lambda p: p.at)}
    return 1 if REGRESSED in last.values() else 0
