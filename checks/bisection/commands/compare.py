"""`bisection compare BEFORE AFTER`: what is slower, faster, the same, gone or new, and how sure."""

import argparse
import json
import sys
from pathlib import Path

from bisection.analysis.compare import EXIT, FAIL_ON, compare
from bisection.core import paths
from bisection.core.arguments import ratio, regex
from bisection.report.text import text
from bisection.store.sample_file import StoreError
from bisection.store.selection import HELP, SelectionError, select
from bisection.store.sync import opened

USAGE = 2


def add_commands(commands):
    command = commands.add_parser(
        "compare",
        help="compare two groups of stored sessions",
        description="Compares stored sessions, a group before and a group after a change. A group "
        f"is: {HELP}; several with commas between. Exit code: 0 nothing that --fail-on names, 1 "
        "something regressed (or is below the expected ratio), 2 usage, 3 something is missing, "
        "was not measured, or whatever else --fail-on names, or no metric could be judged, or the "
        "cores themselves changed.",
    )
    command.add_argument("before", metavar="BEFORE")
    command.add_argument("after", metavar="AFTER")
    add_options(command)
    command.add_argument("--json", metavar="FILE", help="write all of it there")
    command.set_defaults(act=act)


def add_options(command):
    """What `compare` and `report` have in common."""
    command.add_argument(
        "--expected-ratio",
        type=ratio,
        metavar="R",
        help="an upgrade that should speed up everything R times, by its clock say: each is told "
        "to be above, at or below",
    )
    command.add_argument("--aa", metavar="SESSIONS", help="the same as BEFORE, nothing changed")
    command.add_argument(
        "--control", metavar="REGEX", type=regex, help="further tests that measure the cores alone"
    )
    command.add_argument("-n", "--name", metavar="REGEX", type=regex, help="these tests only")
    command.add_argument(
        "--fail-on",
        metavar="VERDICTS",
        type=_verdicts,
        default=FAIL_ON,
        help=f"of {', '.join((*EXIT, 'nothing'))}; default: {','.join(FAIL_ON)}",
    )


def _verdicts(text):
    names = [word.strip().replace("-", " ") for word in text.split(",") if word.strip()]
    if names == ["nothing"]:
        return ()
    if not names or set(names) - set(EXIT):
        allowed = ", ".join((*EXIT, "nothing"))
        raise argparse.ArgumentTypeError(f"{text!r}: allowed are {allowed}")
    return tuple(names)


def act(options):
    try:
        with opened(paths.home()) as store:
            result, _ = compared(store, options)
    except (SelectionError, StoreError) as error:
        print(f"bisection compare: error: {error}", file=sys.stderr)
        return USAGE
    print("\n".join(text(result)))
    try:
        if options.json:
            Path(options.json).write_text(json.dumps(result.as_dict(), indent=1) + "\n")
    except OSError as error:
        print(f"bisection compare: error: {options.json}: {error.strerror}", file=sys.stderr)
        return USAGE
    return result.exit_code


def compared(store, options):
    """The Comparison that the command line asks for, and the two lists of sessions."""
    before, after = options.before, options.after
    later = [] if after.startswith("earlier") else select(after, store)
    sooner = select(before, store, later)
    later = later or select(after, store, sooner)
    same = select(options.aa, store, sooner) if options.aa else ()
    _apart((before, sooner), (after, later))
    _apart((before, sooner), (options.aa, same))
    _apart((after, later), (options.aa, same))
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


def _apart(one, other):
    """No session may be on two sides: it would be compared with itself."""
    both = {session.uuid for session in one[1]} & {session.uuid for session in other[1]}
    if both:
        raise SelectionError(f"{one[0]!r} and {other[0]!r} both have session {min(both)}")
