"""Describes a machine in a site file, and checks the file.

bisection site new NAME     surveys the machine and writes site-configs/NAME.py and NAME.json
bisection site check NAME   checks the file against the machine, by one job per partition
"""

import argparse
import importlib
import signal

from bisection.core.verdicts import BisectionError, Exit

# Each module has `add_arguments(parser)` and `act(options)`, as those of other commands.
SUBCOMMANDS = {
    "new": ("site_new", "write the site file of this machine"),
    "check": ("site_check", "check whether a site file is true"),
}


class Interrupted(BisectionError):
    """Somebody ended the command."""

    exit_code = Exit.NOT_MEASURED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    commands = parser.add_subparsers(dest="subcommand", required=True, metavar="SUBCOMMAND")
    for name, (module, text) in SUBCOMMANDS.items():
        loaded = importlib.import_module(f"bisection.commands.{module}")
        command = commands.add_parser(
            name,
            help=text,
            description=loaded.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        loaded.add_arguments(command)
        command.set_defaults(act_on_site=loaded.act)


def act(options: argparse.Namespace) -> Exit:
    """Runs the subcommand; returns its exit code.

    Raises:
        Interrupted: by a person, by SIGTERM or by the end of the terminal.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
            signal.signal(number, signal.default_int_handler)
    try:
        return options.act_on_site(options)
    except KeyboardInterrupt:
        raise Interrupted("interrupted: its jobs are cancelled, nothing is written") from None
