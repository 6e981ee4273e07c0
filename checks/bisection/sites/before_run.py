"""Checks the request for a run against its site before anything is built: seconds, offline but for
the names of queues."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bisection import schedulers
from bisection.core import reference_files
from bisection.core.format import some
from bisection.core.parser import Parser
from bisection.core.reasons.base import Text
from bisection.core.verdicts import TIERS, BisectionError, NotMeasured
from bisection.schedulers.survey import SchedulerError
from bisection.sites.reference_rules import read, reference_defects
from bisection.sites.rules import in_site_file, partition_faults, usable
from bisection.sites.site_files import Defect, Site, line_of, load_site

Partitions = Sequence[dict[str, Any]]


def name_patterns(arguments: Sequence[str]) -> list[str]:
    """The patterns of -n among ReFrame's arguments, each of which must select a test of the site;
    none where -c adds files with tests of their own. BisectionError: one is no regular expression.
    """
    parser = Parser(prog="bisection run", add_help=False)
    parser.add_argument("-n", "--name", action="append", default=[])
    parser.add_argument("-c", "--checkpath", action="append")
    options = parser.parse_known_args(arguments)[0]
    for name in options.name:
        _require_pattern("-n", name)
    return [] if options.checkpath else options.name


def not_excluded(tests: Sequence[dict[str, Any]], arguments: Sequence[str]) -> list[dict[str, Any]]:
    """The tests that no pattern of -x among the arguments leaves out. BisectionError: one is no
    regular expression."""
    parser = Parser(prog="bisection run", add_help=False)
    parser.add_argument("-x", "--exclude", action="append", default=[])
    patterns = parser.parse_known_args(arguments)[0].exclude
    for pattern in patterns:
        _require_pattern("-x", pattern)
    return [test for test in tests if not any(re.search(x, test["name"]) for x in patterns)]


def _require_pattern(option: str, text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise BisectionError(f"{option} {text}: no regular expression: {error}") from None


def choose_partitions(site: Site, system: str) -> Partitions:
    """The partitions of a run by the option --system, NAME or NAME:PARTITION; without PARTITION
    those where checks can run, if there are any. BisectionError: there is no such partition."""
    name = system.partition(":")[2]
    if partitions := [part for part in site.partitions if name in ("", part["name"])]:
        return partitions if name else usable(site) or partitions
    known = some(part["name"] for part in site.partitions)
    raise BisectionError(f"--system {system}: unknown partition; {site.name} has {known}")


def enter_cluster(partitions: Partitions) -> None:
    """Has all that asks a scheduler from now on ask the cluster that the jobs of these partitions
    name. BisectionError: they name several."""
    named: dict[str, str] = {}  # cluster -> its first partition
    for part in partitions:
        scheduler = schedulers.of(part["scheduler"])
        cluster = scheduler.cluster_named(part["access"])
        named.setdefault(cluster, part["name"])
        if "," in cluster or len(named) > 1:
            texts = (f"{name} uses {cluster or 'the usual one'}" for cluster, name in named.items())
            raise BisectionError(
                f"partitions of several clusters: {'; '.join(texts)}; one can be measured at a "
                "time, by NAME:PARTITION"
            )
        scheduler.enter(cluster)


def require_reserved(partitions: Partitions, reservation: str) -> None:
    """Requires that jobs of all partitions use a reservation; BisectionError names the one whose
    jobs do not."""
    for part in partitions:
        if schedulers.of(part["scheduler"]).in_whose_name(part["access"])[1] != reservation:
            raise BisectionError(
                f"--reservation {reservation}: jobs of partition {part['name']} would not use it; "
                "it needs common.slurm in the site file, and no other one in access=[...]"
            )


def unusable(site: Site, partitions: Partitions) -> list[Defect]:
    """The defects by which no launch could be placed, or none be judged by its references: of the
    partitions of the run, and of a reference file that is no mapping in YAML."""
    defects = [
        defect
        for partition in partitions
        for defect in in_site_file(site, partition, partition_faults(partition, site.environs))
    ]
    file = reference_files.path(site.name)
    if file.exists() and read(file)[0] is None:
        defects += reference_defects(file, site)
    return defects


def unknown_queues(file: Path, partitions: Partitions) -> list[Defect]:
    """The defects of partitions of a site file whose queue the scheduler, which is asked, does not
    know."""
    defects = []
    queues_of: dict[str, list[str]] = {}
    for partition in partitions:
        scheduler = schedulers.of(partition["scheduler"])
        named = scheduler.queues_named(partition["access"])
        if named and scheduler.name not in queues_of:
            queues_of[scheduler.name] = scheduler.queues()
        known = queues_of.get(scheduler.name)
        for queue in (queue for queue in named if known and queue not in known):
            line = line_of(file, partition["name"], "queue")
            defects.append(Defect.of(file, line, unknown_queue(queue, known or [])))
    return defects


def unusable_reservations(file: Path, partitions: Partitions) -> list[Defect]:
    """The defects of partitions of a site file whose reservation this user's jobs cannot use now,
    by their scheduler, which is asked. NotMeasured: it does not answer."""
    defects = []
    known: dict[tuple[str, str], Text | None] = {}
    for part in partitions:
        scheduler = schedulers.of(part["scheduler"])
        whose = scheduler.in_whose_name(part["access"])
        if whose[1] and whose not in known:
            try:
                known[whose] = scheduler.read(*whose).unusable
            except SchedulerError as error:
                raise NotMeasured(f"nothing was run: {error}") from None
        if why := known.get(whose):
            defects.append(Defect.of(file, line_of(file, part["name"], "reservation"), str(why)))
    return defects


def unknown_queue(name: str, known: Sequence[str]) -> str:
    """The defect of a queue that its scheduler does not know."""
    return f"queue {name} does not exist; there are {some(known)}"


def choose_environ(site: Site, partitions: Partitions, asked: str | None) -> str:
    """ReFrame's pattern of the environments that a run builds the kernels in. BisectionError: there
    is no such environment, or none that builds kernels.

    Args:
        site: the site.
        partitions: those of the run.
        asked: the option -p; None for `system`, and where the site has none of that name, for its
            environments that build kernels, without those that install them by Spack.
    """
    names = dict.fromkeys(name for part in partitions for name in part["environs"])
    features = {name: site.environs[name]["features"] for name in names}
    known = [name for name in names if "kernels" in features[name]]
    if not known:
        lack = f"{site.name} has no environment with the feature kernels"
        raise BisectionError(f"{lack}; common.lend gives it one (site-configs/README.md)")
    if asked is None:
        unaided = [name for name in known if "spack" not in features[name]]
        return "system" if "system" in known else "|".join(map(re.escape, unaided or known))
    _require_pattern("-p", asked)
    if any(re.match(asked, name) for name in known):
        return asked
    raise BisectionError(f"-p {asked}: no such environment; {site.name} has {some(known)}")


def require_tests(site: Site, tier: str, names: Sequence[str]) -> None:
    """Requires that each pattern of -n, for which the site was loaded, selects a test of the tier;
    BisectionError if one does not."""
    for name in names:
        tests = [test for test in site.tests if name in test["named"] and test["places"]]
        tiers = [t for t in TIERS if any(t in test["tags"] for test in tests)]
        if tests and tier not in tiers:
            raise BisectionError(f"-n {name}: nothing in tier {tier}; in {some(tiers)}")
        if not tests:
            whole = load_site(str(site.path))
            texts = [f"checks {some(whole.checks)}"]
            for key in ("method", "layout", "case"):
                values = dict.fromkeys(str(test[key]) for test in whole.tests if test[key])
                parameter = "launch.case" if key == "case" else key
                texts.append(f"{parameter}={some(values, 4)}")
            raise BisectionError(f"-n {name}: no such test; there are {'; '.join(texts)}")
