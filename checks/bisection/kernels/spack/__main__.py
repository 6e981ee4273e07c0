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
from pathlib import Path

from bisection.core import paths
from bisection.core.verdicts import Exit
from bisection.kernels.spack import bundle
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

BUNDLE = """Packs into one archive: Python packages, this repository as committed, Spack with its
packages, and on request the sources that Spack builds.

On the other machine, with the same version of Python and the same kind of processor:

    tar -xf bisection-bundle-....tar && bisection-bundle-.../setup
"""


def parser() -> argparse.ArgumentParser:
    """The command line of `python -m bisection.kernels.spack`."""
    top = argparse.ArgumentParser(
        prog="bisection.kernels.spack", description="Build the kernels by Spack."
    )
    commands = top.add_subparsers(dest="command", required=True)

    build = commands.add_parser("install", help="install the kernels, if anything has changed")
    build.add_argument("--json", action="store_true", help="print all as JSON")

    packed = commands.add_parser("bundle", help="pack all that a set-up without a network needs")
    packed.description = BUNDLE
    packed.formatter_class = argparse.RawDescriptionHelpFormatter
    packed.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="the archive; default: below .bisection/"
    )
    parts = packed.add_mutually_exclusive_group()
    parts.add_argument(
        "--no-spack", action="store_true", help="pack neither Spack nor its packages"
    )
    parts.add_argument(
        "--sources",
        metavar="NAME",
        nargs="?",
        const="generic",
        help="pack the sources of spack-env/NAME, too; default: generic",
    )

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


def pack(output: Path | None, spack: bool, sources: str | None) -> None:
    """Packs the archive; prints its parts and its size."""

    def say(line: str) -> None:
        print(f"bundle: {line}", flush=True)

    archive, sizes = bundle.pack(output, spack, sources, say)
    for name, size in sizes.items():
        say(f"{name:36} {size / 1e6:6.1f} MB")
    say(f"packed {paths.shown(archive)}, {archive.stat().st_size / 1e6:.1f} MB")


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; returns its exit code. A failed one prints as JSON what it knows by then."""
    options = parser().parse_args(arguments)
    try:
        if options.command == "externals":
            return report_externals(options.system)
        if options.command == "bundle":
            pack(options.output, not options.no_spack, options.sources)
        else:
            show(install(options.system), options)
    except (SpackError, OSError) as error:
        if options.command == "install" and options.json and getattr(error, "facts", None):
            print(json.dumps(error.facts, indent=1))
        print(f"bisection.kernels.spack: {error}", file=sys.stderr)
        return Exit.NOT_MEASURED if options.command == "bundle" else Exit.FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
