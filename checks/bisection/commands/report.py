"""`bisection report`: gathers what a report tells and writes it, as HTML and for other programs."""

import json
import sys
import time
from pathlib import Path

from bisection.commands.compare import add_options, compared
from bisection.core import paths
from bisection.report.gather import gather, write
from bisection.store import sync
from bisection.store.sample_file import StoreError
from bisection.store.selection import EARLIER, HELP, SelectionError, select

USAGE = 2


def add_commands(commands):
    command = commands.add_parser(
        "report",
        help="write a report on stored sessions: HTML, Markdown, JUnit, Prometheus",
        description="Writes report.html (one file, no script), report.md, report-junit.xml, "
        "bisection.prom and nodecheck.txt on the sessions AFTER, set beside those BEFORE. A group "
        f"of sessions is: {HELP}. Exit code: as `bisection compare`.",
    )
    command.add_argument("before", metavar="BEFORE", nargs="?", help="default: the 20 earlier ones")
    command.add_argument("after", metavar="AFTER", nargs="?", default="latest")
    add_options(command)
    command.add_argument(
        "-o", "--output", metavar="FOLDER", help="default: report/ beside the store, in .bisection/"
    )
    command.set_defaults(act=act)


def act(options):

    try:
        with sync.opened(paths.home()) as store:
            result, sessions = _compared(store, options)
            verdict = _verdict_of(sessions[-1])
            made = gather(store, sessions, result, verdict, time.time())
        folder = Path(options.output or paths.home() / "report")
        folder.mkdir(parents=True, exist_ok=True)
        files = write(made, folder)
    except (SelectionError, StoreError) as error:
        print(f"bisection report: error: {error}", file=sys.stderr)
        return USAGE
    except OSError as error:
        print(f"bisection report: error: {folder}: {error.strerror}", file=sys.stderr)
        return USAGE
    print(result.sentence if result else "no earlier sessions of its kind to compare with")
    print("\n".join(f"{name}: {path}" for name, path in files.items()))
    return result.exit_code if result else verdict.get("exit_code", 0)


def _compared(store, options):
    """The Comparison, None if there are no earlier sessions and none were named; the sessions."""
    if options.before is None:
        sessions = select(options.after, store)
        try:
            select(EARLIER, store, sessions)
        except SelectionError:
            return None, sessions
        options.before = EARLIER
    result, sides = compared(store, options)
    return result, sides[1]


def _verdict_of(session):
    """verdict.json of a session, {} if it is not kept here."""
    for path in sorted((paths.home() / "results").glob("*/verdict.json"), reverse=True):
        try:
            verdict = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if verdict.get("session") == session.uuid:
            return verdict
    return {}
