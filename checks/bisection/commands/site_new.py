"""Writes the site file of this machine, site-configs/NAME.py, and its facts, NAME.json.

It queries the scheduler for its queues, looks for MPI, modules and libraries, and runs one short
job in each queue. The job finds the kind of nodes, the launcher that starts one MPI world with a
core per rank, and the device that carries the messages. First load the modules with which your site
builds and runs: NAME.py will load them. Each decision left to you is a line `# DECIDE:` in NAME.py.
While NAME.py has such a line and nobody has changed it, the command may be run again, and replaces
it. --refresh rewrites NAME.json for the partitions of NAME.py.
Without a scheduler, NAME.py describes this host.
For `-p spack` it writes spack-env/NAME/spack.yaml, with the machine's MPI, compilers and libraries.
"""

import argparse
import functools
import hashlib
import re
import time
from collections.abc import Callable
from pathlib import Path

from bisection import schedulers
from bisection.core import paths
from bisection.core.format import at_least, duration
from bisection.core.verdicts import BisectionError, Exit
from bisection.kernels.spack.externals import SpackError
from bisection.kernels.spack.site_environment import environment_for
from bisection.report import site_draft
from bisection.report.lines import fitting
from bisection.schedulers.survey import SchedulerError, SchedulerSurvey
from bisection.sites.cluster import draft, facts
from bisection.sites.cluster.draft import Draft

CODES = {
    Exit.FAILED: "a decision is left to you",
    Exit.NOT_MEASURED: "the scheduler does not answer, or an interrupt",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("name", metavar="NAME", help="name of the system: letters, digits, - and _")
    only = "use only this queue; may be repeated"
    add("--queue", action="append", default=[], metavar="Q", help=only)
    text = "the Slurm cluster that jobs go to, where it is not this host's"
    add("--cluster", default="", metavar="C", help=text)
    add("--account", default="", metavar="A", help="the account that jobs use")
    add("--qos", default="", metavar="Q", help="the Slurm QOS that jobs ask for")
    text = "the Slurm reservation that jobs use; its nodes are up also under maintenance"
    add("--reservation", default="", metavar="R", help=text)
    text = "nodes per launch; default: 1, 2 and 4 (3 nodes: 1, 2 and 3; 2 nodes: 1 and 2)"
    add("--nodes", type=at_least(1), metavar="N", help=text)
    add = parser.add_mutually_exclusive_group().add_argument
    add("--dry-run", action="store_true", help="print the file; submit and write nothing")
    add("--refresh", action="store_true", help="only rewrite NAME.json, and print what changed")


def act(options: argparse.Namespace) -> Exit:
    file = checked(options)
    try:
        scheduler = schedulers.here()
        scheduler.enter(options.cluster)
        read = functools.cache(scheduler.read)
        if options.refresh:
            site = refresh(file, read)
        else:
            site = create(options, file, read(options.account, options.reservation))
    except SchedulerError as error:
        show(f"site new: {error}")
        return Exit.NOT_MEASURED
    return Exit.FAILED if site.all_decisions else Exit.OK


def checked(options: argparse.Namespace) -> Path:
    """The site file that is to be written; BisectionError where the command line forbids it."""
    if not re.fullmatch(r"[A-Za-z0-9][\w-]*", options.name) or options.name.startswith("common"):
        raise BisectionError(
            f"{options.name!r} is no name: letters, digits, - and _ are allowed, and no 'common...'"
        )
    file = paths.ROOT / "site-configs" / f"{options.name}.py"
    choices = [name for name in ("queue", *draft.OF_SITE, "nodes") if getattr(options, name)]
    if options.refresh and choices:
        raise BisectionError(f"--refresh takes no --{choices[0]}: NAME.py holds the choices")
    if options.refresh and not file.exists():
        raise BisectionError(f"--refresh: there is no {paths.shown(file)}")
    kept = file.exists() and not facts.is_draft(file)
    if kept and not (options.refresh or options.dry_run):
        raise BisectionError(
            f"{paths.shown(file)} exists and is not overwritten. Remove it to begin anew; to add a "
            "queue, copy its partition from what --dry-run --queue Q prints, then --refresh"
        )
    if not options.dry_run and (fault := paths.unwritable(file.parent)):
        raise BisectionError(
            f"{fault}; run it as the owner of that folder, or in a clone, whose file --system "
            "DIR/NAME.py names"
        )
    return file


def create(options: argparse.Namespace, file: Path, known: SchedulerSurvey) -> Draft:
    """Writes NAME.py and NAME.json, or prints NAME.py; returns the draft."""
    begin = time.monotonic()
    site = draft.first_draft(options, known)
    if options.dry_run:
        if site.parts:
            site.decisions.append("no job ran (--dry-run): launchers are not proven")
        print(site_draft.site_file(site), end="")
        return site
    show(*site_draft.about(site))
    try_out(site)
    text = site_draft.site_file(site)
    unfinished = {"draft": hashlib.sha256(text.encode()).hexdigest()} if site.all_decisions else {}
    if known.kind:
        facts.write(facts.file_of(file), {**site.facts, **unfinished})
    paths.write_whole(file, text)
    show(*write_environment(site), *(site_draft.decisions(site) or ["nothing is left to decide"]))
    names = f"{paths.shown(file)}" + (f" and {file.stem}.json" if known.kind else "")
    show(f"wrote {names} in {duration(time.monotonic() - begin)}")
    return site


def show(*lines: str) -> None:
    print("\n".join(part for line in lines for part in fitting(line)), flush=True)


def write_environment(site: Draft) -> list[str]:
    """Writes spack-env/NAME/spack.yaml, unless it is there; returns what to print of it."""
    file = paths.ROOT / "spack-env" / site.name / "spack.yaml"
    compiler = site.software.mpi["compiler"]
    if file.exists() or not site.survey.kind or not compiler:
        return []
    try:
        text = environment_for(site.name, str(Path(compiler).parents[1]))
    except SpackError as error:
        return [f"no {paths.shown(file)} for -p spack: {error}"]
    file.parent.mkdir(exist_ok=True)
    paths.write_whole(file, text)
    return [f"wrote {paths.shown(file)} for -p spack"]


def refresh(file: Path, read: Callable[[str, str], SchedulerSurvey]) -> Draft:
    """Writes NAME.json anew for the partitions of NAME.py; returns the draft."""
    site, target = draft.refreshed(file, read), facts.file_of(file)
    before = facts.old(target)
    show(*site_draft.about(site))
    try_out(site)
    if odd := [part.name for part in site.parts if draft.unlike(part, before)]:
        show(f"not as recorded, tried a second time: {', '.join(odd)}")
        second = draft.refreshed(file, read)
        second.parts = [part for part in second.parts if part.name in odd]
        try_out(second)
        draft.take_better(site, second)
    facts.write(target, site.facts)
    changes = facts.compare(before, site.facts) if before else []
    if lines := [*site_draft.decisions(site), *site_draft.moved(changes)]:
        show(*lines)
    count = f"{len(changes)} facts changed" if before else "made"
    show(f"wrote {paths.shown(target)}: {count}")
    return site


def try_out(site: Draft) -> None:
    for part in draft.try_out(site):
        show(site_draft.tried(part))
