"""Examines sites, checks, references, locks and stored results, offline; runs no check. A sample
file that cannot be read is a defect.

Prints one line per defect, `path:line: defect`. ReFrame reports most of them late, as a warning
with exit code 0, or not at all: it skips a check file that does not load, ignores a reference key
that matches nothing, and takes the last of two equal keys.
Lines with `note: ` after the line number are not defects: a method without references, a Spack
environment that is not built yet.
"""

import argparse
import os
from concurrent.futures import ThreadPoolExecutor

from bisection.analysis.propose import stale
from bisection.core import paths, reference_files
from bisection.core.format import plural
from bisection.core.reasons.base import Text
from bisection.core.verdicts import Exit
from bisection.report.documents import DoctorDocument, add_json, shown
from bisection.report.words import defect_line
from bisection.sites.lock_rules import lock_findings
from bisection.sites.reference_rules import read, reference_defects
from bisection.sites.rules import check_defects, site_defects
from bisection.sites.site_files import Defect, load_site, require_site, site_file, site_names
from bisection.store.sample_file import StoreError
from bisection.store.sync import opened

CODES = {
    Exit.FAILED: "defects",
    Exit.USAGE: "or two partitions have one name",
    Exit.NOT_MEASURED: "a site file does not load within ten minutes",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = "examine only site-configs/NAME.py, or another file DIR/NAME.py, with its checks and "
    parser.add_argument("--system", metavar="NAME", help=f"{which}references")
    add_json(parser)


def act(options: argparse.Namespace) -> Exit:
    """Examines sites and all that belongs to them; prints the defects, returns the exit code."""
    system = options.system
    if system is not None:
        require_site(system)
    home = paths.home()
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        loaded = pool.map(load_site, site_names() if system is None else [system])
        sites = {site.name: site for site in loaded}
    findings = [*check_defects(sites.values(), everywhere=system is None)]
    for site in sites.values():
        findings += [*site_defects(site), *lock_findings(site)]
    name = "*" if system is None else site_file(system).stem
    files = sorted(reference_files.path(name).parent.glob(f"{name}.yaml"))
    recorded: dict[str, str] = {}
    faults: list[Text] = []
    try:
        with opened(home, on_fault=faults.append) as store:
            recorded = {metric.name: metric.unit for metric in store.metrics().values()}
            for file in files:
                known = sites.get(file.stem)
                if known and (tree := read(file)[0]):
                    findings += stale(store, known, file, tree)
    except StoreError as error:
        faults.append(Text(str(error)))
    findings += [Defect.of(paths.store_db(home), 1, str(fault)) for fault in faults]
    for file in files:
        findings += reference_defects(file, sites.get(file.stem), recorded)
    findings = sorted(set(findings), key=lambda f: (f.is_note, f.path, f.line, f.text))
    defects = [finding for finding in findings if not finding.is_note]
    counts = {
        "site file": len(sites),
        "check file": len(list((paths.ROOT / "checks").glob("*.py"))),
        "reference file": len(files),
        "test case": sum(test["places"] > 0 for site in sites.values() for test in site.tests),
    }
    examined = ", ".join(plural(count, name) for name, count in counts.items())
    number = plural(len(defects), "defect")
    end = f"{number} in {examined}" if defects else f"no defects ({examined})"
    code = Exit.USAGE if any(defect.twice for defect in defects) else Exit.FAILED
    document = DoctorDocument(
        exit_code=code if defects else Exit.OK, defects=findings, examined=counts
    )
    print(shown(options, document, [*map(defect_line, findings), f"doctor: {end}"]))
    return document.exit_code
