"""Examines sites, checks, references, locks and stored results, offline; runs no check.

Prints one line per defect, `path:line: what is wrong`. ReFrame reports most of them late, in a
warning beside exit code 0, or not at all: a check file that does not load vanishes, a key of a
reference file that matches nothing is passed over, of two equal keys the last counts.
Exit code: 0 none, 1 defects, 2 usage.
"""

import argparse
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from bisection.core import paths
from bisection.core.format import plural
from bisection.core.verdicts import BisectionError, Exit
from bisection.report.words import defect_line
from bisection.sites.reference_rules import reference_defects
from bisection.sites.rules import check_defects, site_defects
from bisection.sites.site import Defect, Site, load, reference_files, site_names
from bisection.sites.stored import lock_findings, read_database
from bisection.store.sync import store_defects


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    parser.add_argument(
        "--system", metavar="NAME", help="only site-configs/NAME.py and what belongs to it"
    )


def act(options: argparse.Namespace) -> Exit:
    """Runs the subcommand; returns its exit code."""
    known, system = site_names(), options.system
    if system is not None and system not in known:
        sites = ", ".join(known) or "no site file"
        raise BisectionError(f"--system {system}: unknown; site-configs/ has {sites}")
    try:
        return examine(known if system is None else [system], system)
    except OSError as error:  # no room for a temporary file, a folder that may not be read
        raise BisectionError(str(error)) from None


def examine(names: Sequence[str], system: str | None) -> Exit:
    """Examines sites and all that belongs to them, and prints the defects.

    Args:
        names: the sites.
        system: the one site that they are, None if they are all there are.
    """
    home = paths.home()
    stored, recorded = read_database(paths.results_db(home))
    sites = load(names)
    defects, notes = [*stored, *store_defects(home)], []
    for site in sites.values():
        of_locks, lock_notes = lock_findings(site)
        defects += [*site.defects, *site_defects(site), *of_locks]
        notes += lock_notes
    defects += check_defects(sites.values(), everywhere=system is None)
    files = reference_files(system)
    for file in files:
        defects += reference_defects(file, sites.get(file.stem), recorded)
    return print_findings(sorted(set(defects)), list(dict.fromkeys(notes)), sites, files)


def print_findings(
    defects: Sequence[Defect],
    notes: Sequence[str],
    sites: Mapping[str, Site],
    files: Collection[Path],
) -> Exit:
    """Prints defects, notes and what was examined; returns the exit code."""
    for line in [*map(defect_line, defects), *(f"note: {note}" for note in notes)]:
        print(line)
    checks = len(list((paths.ROOT / "checks").glob("*.py")))
    tests = sum(test["places"] > 0 for site in sites.values() for test in site.tests)
    examined = ", ".join(
        plural(number, name)
        for number, name in (
            (len(sites), "site file"),
            (checks, "check file"),
            (len(files), "reference file"),
            (tests, "test case"),
        )
    )
    if not defects:
        print(f"doctor: no defects ({examined})")
        return Exit.OK
    print(f"doctor: {plural(len(defects), 'defect')} in {examined}")
    return Exit.FAILED
