"""Describes a machine in a site file, and checks the file.

bisection site new NAME     surveys the machine and writes site-configs/NAME.py and NAME.json
bisection site check NAME   checks the file against the machine, by one job per partition
"""

import argparse
import signal

from bisection.commands import site_check, site_new
from bisection.core.parser import describe
from bisection.core.verdicts import Exit, NotMeasured

CODES = {Exit.FAILED: "", Exit.NOT_MEASURED: ""}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(required=True, metavar="SUBCOMMAND")
    for name, module in (("new", site_new), ("check", site_check)):
        summary = (module.__doc__ or "").partition(":")[0].partition(",")[0]
        command = commands.add_parser(name, help=summary)
        module.add_arguments(command)
        describe(command, module)
        command.set_defaults(act_on_site=module.act)


def act(options: argparse.Namespace) -> Exit:
    """Runs the subcommand; NotMeasured by a person, SIGTERM or the end of the terminal."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup has it
            signal.signal(number, signal.default_int_handler)
    try:
        return options.act_on_site(options)
    except KeyboardInterrupt:
        raise NotMeasured("interrupted: its jobs are cancelled, nothing is written") from None
