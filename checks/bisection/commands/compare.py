"""Compares stored sessions, a group before and a group after a change.

Exit code: 0 nothing that --fail-on names; 1 something regressed, or is below the expected ratio;
2 usage; 3 something is missing, was not measured, is slower than in all earlier sessions (suspect)
or whatever else --fail-on names, or no metric could be judged, or the cores themselves changed;
4 nothing of that, but a node is slow, or a retest confirmed a session to be slower.
"""

import argparse
import json
from collections.abc import Sequence

from bisection.analysis.compare import EXITS, FAIL_ON, compare
from bisection.analysis.model import Comparison
from bisection.core import paths
from bisection.core.format import printable, ratio, regex
from bisection.core.verdicts import BisectionError, Exit
from bisection.report.data import comparison_as_json
from bisection.report.text import comparison_text
from bisection.store.database import Session, Store
from bisection.store.selection import HELP, SelectionError, select
from bisection.store.sync import opened


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    groups = f"sessions: {HELP}; several with commas between"
    parser.add_argument("before", metavar="BEFORE", help=groups)
    parser.add_argument("after", metavar="AFTER", help="likewise")
    add_options(parser)
    parser.add_argument("--json", metavar="FILE", help="write the whole comparison to a JSON file")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Options that `compare` and `report` have in common."""
    parser.add_argument(
        "--expected-ratio",
        type=ratio,
        metavar="R",
        help="expected speed-up, for example the ratio of clock rates; each test is reported as "
        "above, at or below it",
    )
    parser.add_argument(
        "--aa", metavar="SESSIONS", help="an A/A test: sessions like BEFORE, with nothing changed"
    )
    parser.add_argument(
        "--control",
        metavar="REGEX",
        type=regex,
        help="further tests that measure the cores alone",
    )
    parser.add_argument(
        "-n", "--name", metavar="REGEX", type=regex, help="only tests whose names match it"
    )
    parser.add_argument(
        "--fail-on",
        metavar="VERDICTS",
        type=_verdicts,
        default=FAIL_ON,
        help=f"verdicts that fail: {', '.join((*EXITS, 'nothing'))}; default: {','.join(FAIL_ON)}",
    )


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
    with opened(paths.home()) as store:
        result, _ = compared(store, options)
    print(printable(comparison_text(result)))
    if options.json:
        text = json.dumps(comparison_as_json(result), indent=1) + "\n"
        try:
            paths.write_whole(options.json, text)
        except OSError as error:
            raise BisectionError(f"{options.json}: {error.strerror}") from None
    return result.exit_code


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
    for number, side in enumerate(sides):
        for other in sides[number + 1 :]:
            _apart(side, other)
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


def _apart(side: tuple[str, Sequence[Session]], other: tuple[str, Sequence[Session]]) -> None:
    """No session may be on two sides: it would be compared with itself."""
    both = {session.uuid for session in side[1]} & {session.uuid for session in other[1]}
    if both:
        raise SelectionError(f"{side[0]!r} and {other[0]!r} both have session {min(both)}")
