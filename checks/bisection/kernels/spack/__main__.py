"""Builds the kernels with Spack, from an environment under spack-env/.

    python -m bisection.kernels.spack install --system debian12      prints what is known, as JSON
    python -m bisection.kernels.spack externals --system debian12

A Spack at hand (SPACK_ROOT, or `spack` on PATH) is used, else a pinned release is cloned. All that
is generated lies below .bisection/spack/, and nothing is read from or written to ~/.spack. A call
that finds nothing changed costs about a second; an edited source file costs its compilation.
"""

import argparse
import json
import sys

from bisection.core import paths
from bisection.core.verdicts import Exit
from bisection.kernels.spack.externals import (
    AUTO,
    SpackError,
    environment_file,
    survey_externals,
    systems,
)
from bisection.kernels.spack.install import install


def report_externals(system: str) -> int:
    """Prints how packages of the system differ from the file; 1 if any does."""
    packages = survey_externals(environment_file(system))
    file = paths.shown(packages.file)
    for line in packages.differing:
        print(f"{file}: {line}")
    packages.require()
    if not packages.differing:
        print(f"{file}: {len(packages.installed)} system packages, all as the file says")
    return 1 if packages.differing else 0


def main(arguments: list[str] | None = None) -> int:
    """Runs a command; returns its exit code. A failed one prints what it knows by then, too."""
    parser = argparse.ArgumentParser("bisection.kernels.spack", description="Build by Spack.")
    text = "install the kernels if anything has changed, or compare versions of system packages"
    parser.add_argument("command", choices=("install", "externals"), help=text)
    names = f"{', '.join(systems())}, or {AUTO}"
    parser.add_argument("--system", required=True, metavar="NAME", help=names)
    options = parser.parse_args(arguments)
    try:
        if options.command == "externals":
            return report_externals(options.system)
        facts, code = install(options.system), Exit.OK
    except (SpackError, OSError) as error:
        facts, code = getattr(error, "facts", {}), Exit.FAILED
        print(f"bisection.kernels.spack: {error}", file=sys.stderr)
    if facts:
        print(json.dumps(facts, indent=1))
    return code


if __name__ == "__main__":
    sys.exit(main())
