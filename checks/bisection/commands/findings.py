"""Prints the findings of the four papers beside what our kernels show on the papers' machines.

The machines are simulated: checks/scaling.py launches what is needed. Exit code: 0 every finding is
as its paper has it, or known not to be; 1 one is not, 2 usage, 3 launches are missing.
"""

import argparse
from pathlib import Path

from bisection.analysis.findings import exit_code, judged
from bisection.core import paths
from bisection.core.verdicts import BisectionError, Exit
from bisection.kernels import observables
from bisection.report.findings import text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    parser.add_argument("ids", metavar="ID", nargs="*", help="findings, such as G01; default: all")
    add_folders(parser)
    parser.add_argument(
        "--verbose", action="store_true", help="a row for each number, sign and order, too"
    )


def add_folders(parser: argparse.ArgumentParser) -> None:
    """Declares where results are read from."""
    parser.add_argument(
        "--from",
        dest="folders",
        metavar="DIR",
        action="append",
        help="folders with result files, searched with all below; default: all results kept",
    )


def launches(options: argparse.Namespace) -> observables.Lookup:
    """The simulated launches below the folders that the options name."""
    folders = [Path(name) for name in options.folders or [paths.home() / "results"]]
    for folder in folders:
        if options.folders and not folder.is_dir():
            raise BisectionError(f"--from {folder}: no such folder")
    return observables.lookup_in(observables.read(folders))


def act(options: argparse.Namespace) -> Exit:
    """Runs the subcommand; returns its exit code."""
    listed = observables.findings()
    known = [finding.id for finding in listed]
    for name in options.ids:
        if name not in known:
            raise BisectionError(f"{name}: no finding; known: {known[0]} to {known[-1]}")
    lookup = launches(options)
    rows = [judged(finding, lookup) for finding in listed if finding.id in (options.ids or known)]
    print("\n".join(text(rows, options.verbose)))
    return exit_code(rows)
