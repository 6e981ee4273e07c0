"""The command line: bisection COMMAND, a module each."""

import argparse
import sys

from bisection.commands import (
    advise,
    bench,
    compare,
    doctor,
    history,
    import_,
    references,
    report,
    run,
)

COMMANDS = (run, compare, history, report, import_, references, doctor, advise, bench)


def parser():
    """Each subcommand adds its own parser here and sets `act`, called with the parsed options."""
    main = argparse.ArgumentParser(
        prog="bisection", description="HPC acceptance and regression tests"
    )
    commands = main.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in COMMANDS:
        module.add_commands(commands)
    return main


def main(arguments=None):
    """Runs one subcommand and returns its exit code; 2 is a usage error."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    options, rest = parser().parse_known_args(arguments)
    if rest and not getattr(options, "passes_on", False):
        parser().error(f"unrecognized arguments: {' '.join(rest)}")
    options.rest = rest
    return options.act(options)
