"""Checks a site file by probes: one table, with the probes on which each depends.

A probe looks at one partition, or at the site as a whole, and gives a Finding, or None where there
is nothing to look at. What rests on a probe that is wrong or was not tried is not tried. One job
per partition serves all probes that need one.
"""

import contextlib
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bisection.core.grouping import grouped
from bisection.core.reasons import Code
from bisection.core.verdicts import BisectionError
from bisection.sites.before_run import choose_environ
from bisection.sites.cluster import check_probes as probes
from bisection.sites.cluster import facts
from bisection.sites.cluster.check_model import Facts, Finding, State, Subject, not_tried, wrong
from bisection.sites.cluster.jobs import AT_ONCE, at_once
from bisection.sites.cluster.survey import SchedulerError
from bisection.sites.site import Site


@dataclass(frozen=True)
class Probe:
    """One line of the check."""

    name: str
    look: Callable[[Subject], Finding | None]
    rests_on: Sequence[str] = ()
    of_site: bool = False  # looked at once, with the first partition as subject


# In this order; a person reads them from above, and mends the first that is wrong.
PROBES = (
    Probe("file", probes.loads, of_site=True),
    Probe("scheduler", probes.scheduler_answers, ["file"], of_site=True),
    Probe("accounting", probes.accounting, ["scheduler"], of_site=True),
    Probe("account", probes.account, ["scheduler"]),
    Probe("nodes", probes.nodes_up, ["account"]),
    Probe("placement", probes.placed, ["nodes"]),
    Probe("job", probes.job_runs, ["placement"]),
    Probe("modules", probes.modules_load, ["job"]),
    Probe("program", probes.program_builds, ["modules"]),
    Probe("kernels", probes.kernels_build, ["modules"]),
    Probe("seen", probes.seen, ["job"]),
    Probe("alike", probes.alike, ["seen"]),
    Probe("facts", probes.as_known, ["seen"]),
    Probe("world", probes.one_world, ["program", "seen"]),
    Probe("cores", probes.cores_of_their_own, ["world"]),
    Probe("network", probes.network_used, ["world"]),
    Probe("speed", probes.link_speed, ["world"]),
    Probe("exit", probes.rank_exit, ["world"]),
    Probe("limits", probes.limits, ["job"]),
)


def run(probes: Sequence[Probe], subjects: Sequence[Subject]) -> Iterator[Finding]:
    """Runs the probes, each after those that it rests on: those of the site, then those of its
    partitions, AT_ONCE at a time.

    Partitions with the same nodes take turns; so do all where one could disturb another. The
    results of a partition come once its job is over. Jobs are cancelled where the caller closes
    this.
    """
    roots: dict[str, str] = {}  # probe -> the wrong one that it rests on
    # A scheduler first, if there is one.
    first = min(subjects, key=lambda subject: subject.local)
    yield from _run([probe for probe in probes if probe.of_site], first, "", roots)
    if not first.partition:
        return
    of_partitions = [probe for probe in probes if not probe.of_site]
    rows = grouped(subjects, lambda subject: subject.same_nodes)

    def check(row: Sequence[Subject]) -> list[Finding]:
        return [finding for s in row for finding in _run(of_partitions, s, s.name, dict(roots))]

    most = AT_ONCE if all(subject.apart for subject in subjects) else 1
    for findings in at_once(check, list(rows.values()), first.stop, most):
        yield from findings


def _run(
    probes: Sequence[Probe], subject: Subject, partition: str, roots: dict[str, str]
) -> Iterator[Finding]:
    for probe in probes:
        if root := next((roots[name] for name in probe.rests_on if name in roots), None):
            finding = not_tried(Code.RESTS_ON(probe=root))
        else:
            root = probe.name
            try:
                finding = probe.look(subject)
            except SchedulerError as error:
                finding = wrong(error.reason)
        if finding:
            if finding.state != State.OK:
                roots[probe.name] = root
            yield replace(finding, probe=probe.name, partition=partition)


def subjects(
    site: Site, partitions: Sequence[Facts], folder: Path, patience: float
) -> list[Subject]:
    """The partitions of a site as subjects of the probes; one without a name where it does not
    load. Each job may take `patience` seconds, and leaves its files in the folder."""
    file = facts.file_of(site.path)
    shared = {
        "facts": facts.read(file) if file.exists() else None,
        "schedulers": frozenset(partition["scheduler"] for partition in partitions),
        "folder": folder,
        "patience": patience,
        "surveys": {},
        "built": {},
        "stop": threading.Event(),
    }
    return [
        Subject(site, partition, _environ(site, partition), **shared)
        for partition in partitions or [{}]
    ]


def _environ(site: Site, partition: Facts) -> str:
    """The environment that a run takes for the kernels on a partition."""
    with contextlib.suppress(BisectionError, KeyError):
        pattern = choose_environ(site, [partition], None)
        return next(name for name in partition["environs"] if re.fullmatch(pattern, name))
    return ""
