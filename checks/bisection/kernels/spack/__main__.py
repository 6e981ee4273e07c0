"""Builds the kernels with Spack, from an environment under spack-env/.

    python -m bisection.kernels.spack install --system debian12

A Spack at hand (SPACK_ROOT, or `spack` on PATH) is used, else a pinned release is cloned. All that
is generated lies below .bisection/spack/, and nothing is read from or written to ~/.spack. A call
that finds nothing changed costs about a second; an edited source file costs its compilation.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys

from bisection.core import paths
from bisection.core.format import positive
from bisection.kernels.spack.externals import (
    AUTO,
    SpackError,
    check_missing,
    choose_system,
    environment_file,
    survey_externals,
    systems,
)
from bisection.kernels.spack.install import Installation, install


def parser() -> argparse.ArgumentParser:
    """The command line of `python -m bisection.kernels.spack`."""
    top = argparse.ArgumentParser(
        prog="bisection.kernels.spack", description="Build the kernels by Spack."
    )
    commands = top.add_subparsers(dest="command", required=True)

    build = commands.add_parser("install", help="install the kernels, if anything has changed")
    build.add_argument("--jobs", "-j", type=positive, metavar="N", help="compile N files at a time")
    form = build.add_mutually_exclusive_group()
    form.add_argument("--print-prefix", action="store_true", help="print the prefix alone")
    form.add_argument("--json", action="store_true", help="print all as JSON")

    externals = commands.add_parser("externals", help="compare the versions of system packages")
    for command in (build, externals):
        names = ", ".join(systems())
        command.add_argument("--system", required=True, metavar="NAME", help=f"{names}, or {AUTO}")
    return top


def show(installation: Installation, arguments: argparse.Namespace) -> None:
    """Prints an installation in the form that the command line asks for."""
    facts = dataclasses.asdict(installation)
    if arguments.json:
        print(json.dumps(facts, indent=1))
    elif arguments.print_prefix:
        print(installation.prefix)
    else:
        for name, value in facts.items():
            print(f"{name.replace('_', ' '):14} {value}")


def report_externals(system: str) -> int:
    """Prints how packages of the system differ from the file; 1 if any does."""
    file = environment_file(choose_system() if system == AUTO else system)
    survey = survey_externals(file)
    for line in survey.differing:
        print(f"{paths.shown(file)}: {line}")
    check_missing(file, survey)
    if not survey.differing:
        print(f"{paths.shown(file)}: {len(survey.installed)} system packages, all as the file says")
    return 1 if survey.differing else 0


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; returns its exit code. A failed one prints as JSON what it knows by then."""
    given = parser().parse_args(arguments)
    try:
        if given.command == "externals":
            return report_externals(given.system)
        show(install(given.system, jobs=given.jobs), given)
    except SpackError as error:
        if error.facts and given.json:
            print(json.dumps(error.facts, indent=1))
        print(f"bisection.kernels.spack: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
