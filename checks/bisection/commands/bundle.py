"""Packs all that a set-up without a network needs into one archive: Python packages, this
repository as committed, Spack with its packages, and on request the sources that Spack builds.

On the other machine, with the same version of Python and the same kind of processor:

    tar -xf bisection-bundle-....tar && bisection-bundle-.../setup

Exit code: 0 packed, 2 usage, 3 something cannot be had.
"""

import argparse
from pathlib import Path

from bisection.core import paths
from bisection.core.verdicts import BisectionError, Exit
from bisection.kernels.spack import bundle
from bisection.kernels.spack.externals import SpackError


class NotPacked(BisectionError):
    """There is no archive; the text says why."""

    exit_code = Exit.NOT_MEASURED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="the archive; default: below .bisection/"
    )
    parts = parser.add_mutually_exclusive_group()
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


def act(options: argparse.Namespace) -> Exit:
    """Packs the archive; prints its parts and its size."""

    def say(line: str) -> None:
        print(f"bundle: {line}", flush=True)

    try:
        archive, sizes = bundle.pack(options.output, not options.no_spack, options.sources, say)
    except (SpackError, OSError) as error:
        raise NotPacked(str(error)) from None
    for name, size in sizes.items():
        say(f"{name:36} {size / 1e6:6.1f} MB")
    say(f"packed {paths.shown(archive)}, {archive.stat().st_size / 1e6:.1f} MB")
    return Exit.OK
