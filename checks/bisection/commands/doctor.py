"""`bisection doctor`: examines sites, checks, references, locks and stored results; runs none.

Each defect is one line, `path:line: what is wrong`. ReFrame tells most of them late, in a warning
beside exit code 0, or not at all: a check file that does not load vanishes, a key of a reference
file that matches nothing is passed over, of two equal keys the last counts.

Every site is loaded together with every check by ReFrame itself, in a process of its own (probe),
which hands back what it found as JSON: the rest compares data.
"""

import sys

from bisection.core import paths
from bisection.core.format import plural
from bisection.sites.reference_file import reference_defects
from bisection.sites.rules import check_defects, site_defects
from bisection.sites.site import load, reference_files, site_names
from bisection.sites.stored import lock_findings, read_database
from bisection.store.sync import store_defects

USAGE = 2


def add_commands(commands):
    doctor = commands.add_parser(
        "doctor",
        help="examine sites, checks, references, locks and stored results, offline",
        description="Runs no check and needs no network. Prints one line a defect. Exit code: 0 "
        "none, 1 defects, 2 usage.",
    )
    doctor.add_argument(
        "--system", metavar="NAME", help="only site-configs/NAME.py and what belongs to it"
    )
    doctor.set_defaults(act=act_doctor)


def act_doctor(options):
    known = site_names()
    if options.system is not None and options.system not in known:
        print(
            f"bisection doctor: error: --system {options.system}: unknown; site-configs/ has "
            f"{', '.join(known) or 'no site file'}",
            file=sys.stderr,
        )
        return USAGE
    try:
        return examine_house(known if options.system is None else [options.system], options.system)
    except OSError as error:  # no room for a temporary file, a folder that may not be read
        print(f"bisection doctor: error: {error}", file=sys.stderr)
        return USAGE


def examine_house(names, system):
    """Examines these sites and all that belongs to them, `system` None if they are all there are;
    prints what was found and returns the exit code."""
    stored, recorded = read_database(paths.home() / "reframe" / "results.db")
    sites = load(names)
    defects, notes = [*stored, *store_defects(paths.home())], []
    for site in sites.values():
        defects += site.defects + site_defects(site)
        found, told = lock_findings(site)
        defects += found
        notes += told
    defects += check_defects(sites.values(), everywhere=system is None)
    files = reference_files(system)
    for file in files:
        defects += reference_defects(file, sites.get(file.stem), recorded)
    return tell(sorted(set(defects)), list(dict.fromkeys(notes)), sites, files)


def tell(defects, notes, sites, files):
    """Prints what was found; the exit code."""
    for line in [*defects, *(f"note: {note}" for note in notes)]:
        print(line)
    checks = len(list((paths.ROOT / "checks").glob("*.py")))
    tests = sum(test["places"] > 0 for site in sites.values() for test in site.tests)
    seen = ", ".join(
        plural(number, what)
        for number, what in (
            (len(sites), "site file"),
            (checks, "check file"),
            (len(files), "reference file"),
            (tests, "test case"),
        )
    )
    if not defects:
        print(f"doctor: no defects ({seen})")
        return 0
    print(f"doctor: {plural(len(defects), 'defect')} in {seen}")
    return 1
