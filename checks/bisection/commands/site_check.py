"""Checks a site file against the machine: one line per probe, by one job per partition.

Each line is `ok`, `WRONG` with what to do, or `not tried` with the reason. A probe that depends on
a wrong one is not tried.
"""

import argparse
import contextlib
import functools
import itertools
import shutil
import time

from bisection.core import paths
from bisection.core.format import seconds_of
from bisection.core.verdicts import Exit
from bisection.report.documents import add_json, shown
from bisection.report.lines import fitting
from bisection.report.probe_lines import SiteCheckDocument, result_lines, untried
from bisection.sites.before_run import choose_partitions, enter_cluster, require_reserved
from bisection.sites.cluster import probe_runner
from bisection.sites.cluster.probe_runner import ProbeState
from bisection.sites.cluster.probes import PROBES
from bisection.sites.site_files import load_site, require_site

CODES = {Exit.FAILED: "a probe is WRONG", Exit.NOT_MEASURED: "a probe was not tried"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    where = "the site: site-configs/NAME.py, or the path of a site file elsewhere"
    add("name", metavar="NAME[:PARTITION]", help=where)
    most = "longest time of a job from its submission, such as 90s or 10m; default: 5m"
    text = "the Slurm reservation that jobs use, in place of the site file's"
    add("--reservation", default="", metavar="R", help=text)
    add("--patience", type=seconds_of, default=300.0, metavar="TIME", help=most)
    add_json(parser)


def act(options: argparse.Namespace) -> Exit:
    begin = time.monotonic()
    require_site(options.name)
    site = load_site(options.name, reservation=options.reservation)
    partitions = choose_partitions(site, options.name) if site.partitions else []
    if options.reservation:
        require_reserved(partitions, options.reservation)
    enter_cluster(partitions)
    checked = options.name.partition(":")[2]
    folder = paths.home() / "site-check" / (f"{site.name}-{checked}" if checked else site.name)
    results = []
    show = (lambda _: None) if options.json else functools.partial(print, flush=True)
    try:
        shutil.rmtree(folder, ignore_errors=True)  # of an earlier check
        folder.mkdir(parents=True)
        subjects = probe_runner.subjects(site, partitions, folder, options.patience)
        with contextlib.closing(probe_runner.run(PROBES, subjects)) as findings:
            for place, group in itertools.groupby(findings, lambda finding: finding.partition):
                show(f"{site.name}:{place}" if place else site.name)
                of_place = []
                for finding in group:
                    for line in result_lines(finding):
                        show(line)
                    of_place.append(finding)
                for line in untried(of_place):
                    show(line)
                results += of_place
        states = [result.state for result in results]
        if ProbeState.WRONG not in states:
            shutil.rmtree(folder)
    finally:
        for build in folder.glob("*.kernels"):
            shutil.rmtree(build, ignore_errors=True)
    counts = ", ".join(f"{states.count(state)} {state}" for state in ProbeState if state in states)
    untested = Exit.NOT_MEASURED if ProbeState.NOT_TRIED in states else Exit.OK
    document = SiteCheckDocument(
        exit_code=Exit.FAILED if ProbeState.WRONG in states else untested,
        site=site.name,
        seconds=time.monotonic() - begin,
        results=results,
        output=paths.shown(folder) if any(folder.glob("*")) else "",
    )
    kept = f"; output of the jobs: {document.output}" if document.output else ""
    text = f"site check {site.name}: {counts} in {document.seconds:.0f} s{kept}"
    print(shown(options, document, fitting(text)))
    return document.exit_code
