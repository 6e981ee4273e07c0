"""Checks a site file by probes: one table, with the probes on which each depends.

A probe looks at one partition, or at the site as a whole, and gives a Finding, or None where there
is nothing to look at. What rests on a probe that is wrong or was not tried is not tried. One job
per partition serves all probes that need one.
"""

import concurrent.futures
import contextlib
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from bisection.core import paths
from bisection.core.reasons import Code
from bisection.core.verdicts import BisectionError
from bisection.sites.before_run import choose_environ
from bisection.sites.cluster import check_job as job
from bisection.sites.cluster import check_queue as queue
from bisection.sites.cluster import facts
from bisection.sites.cluster.check_model import Facts, Finding, State, Subject, not_tried
from bisection.sites.cluster.jobs import AT_ONCE
from bisection.sites.site import Site

Look = Callable[[Subject], Finding | None]


@dataclass(frozen=True)
class Probe:
    """One line of the check."""

    name: str
    look: Look
    rests_on: Sequence[str] = ()
    of_site: bool = False  # looked at once, with the first partition as subject


# In this order; a person reads them from above, and mends the first that is wrong.
PROBES = (
    Probe("file", queue.loads, of_site=True),
    Probe("scheduler", queue.scheduler_answers, ["file"], of_site=True),
    Probe("accounting", queue.accounting, ["scheduler"], of_site=True),
    Probe("account", queue.account, ["scheduler"]),
    Probe("nodes", queue.nodes_up, ["account"]),
    Probe("placement", queue.placed, ["nodes"]),
    Probe("job", job.job_runs, ["placement"]),
    Probe("modules", job.modules_load, ["job"]),
    Probe("program", job.program_builds, ["modules"]),
    Probe("kernels", job.kernels_build, ["modules"]),
    Probe("seen", job.seen, ["job"]),
    Probe("alike", job.alike, ["seen"]),
    Probe("facts", job.as_known, ["seen"]),
    Probe("world", job.one_world, ["program", "seen"]),
    Probe("cores", job.cores_of_their_own, ["world"]),
    Probe("network", job.network_used, ["world"]),
    Probe("speed", job.link_speed, ["world"]),
    Probe("exit", job.rank_exit, ["world"]),
    Probe("limits", queue.limits, ["job"]),
)


@dataclass(frozen=True)
class Result:
    """The result of a probe of a partition, or of the site."""

    probe: str
    partition: str  # "" for the site
    finding: Finding


def run(probes: Sequence[Probe], subjects: Sequence[Subject]) -> Iterator[Result]:
    """Runs the probes: those of the site, then those of its partitions, AT_ONCE at a time.

    Partitions with the same nodes take turns; so do all where one could disturb another.

    Args:
        probes: in an order in which each comes after those that it rests on.
        subjects: the partitions.

    Yields:
        The results of one partition after the other, each as soon as it is there. Jobs are
        cancelled where the caller closes this.
    """
    before: dict[str, str] = {}  # probe -> the wrong one that it rests on
    # A scheduler first, if there is one.
    first = min(subjects, key=lambda subject: subject.partition.get("scheduler") == "local")
    yield from _run([probe for probe in probes if probe.of_site], first, "", before)
    if not first.partition:
        return
    own = [probe for probe in probes if not probe.of_site]
    results: dict[str, SimpleQueue[Result | None]] = {s.name: SimpleQueue() for s in subjects}

    def check(turns: Sequence[Subject]) -> None:
        try:
            for subject in turns:
                for result in _run(own, subject, subject.name, dict(before)):
                    results[subject.name].put(result)
                results[subject.name].put(None)
        finally:
            for subject in turns:
                results[subject.name].put(None)

    rows: dict[Any, list[Subject]] = {}
    for subject in subjects:
        rows.setdefault(subject.same_nodes, []).append(subject)
    apart = all(subject.apart for subject in subjects)
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE if apart else 1) as pool:
        running = [pool.submit(check, turns) for turns in rows.values()]
        try:
            for line in results.values():
                yield from iter(line.get, None)
            for future in running:
                future.result()
        except BaseException:  # also where the caller closes this
            first.stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _run(
    probes: Sequence[Probe], subject: Subject, partition: str, roots: dict[str, str]
) -> Iterator[Result]:
    for probe in probes:
        if root := next((roots[name] for name in probe.rests_on if name in roots), None):
            roots[probe.name] = root
            yield Result(probe.name, partition, not_tried(Code.RESTS_ON, probe=root))
        elif finding := probe.look(subject):
            if finding.state != State.OK:
                roots[probe.name] = probe.name
            yield Result(probe.name, partition, finding)


def subjects(
    site: Site, partitions: Sequence[Facts], folder: Path, patience: float
) -> list[Subject]:
    """The partitions of a site as subjects of the probes.

    Args:
        site: the site, loaded.
        partitions: those that are checked; none where the site does not load.
        folder: for their jobs.
        patience: s for each job.
    """
    known = facts.file_of(site.path)
    recorded = facts.read(known) if known.exists() else None
    shared: dict[str, Any] = {"surveys": {}, "built": {}, "stop": threading.Event()}
    shared["schedulers"] = frozenset(partition["scheduler"] for partition in partitions)
    return [
        Subject(site, partition, _environ(site, partition), recorded, folder, patience, **shared)
        for partition in partitions
    ] or [Subject(site, {}, "", recorded, folder, patience)]


def _environ(site: Site, partition: Facts) -> str:
    """The environment that a run takes for the kernels on a partition."""
    with contextlib.suppress(BisectionError):
        pattern = choose_environ(site, [partition], None)
        return next(name for name in partition["environs"] if re.fullmatch(pattern, name))
    return ""


@contextlib.contextmanager
def working_folder(site: str) -> Iterator[Path]:
    """A folder below the home for the jobs of a check, with what they printed; it is kept for a day
    unless the caller removes it.

    Raises:
        OSError: it cannot be made.
    """
    above = paths.home() / "site-check"
    above.mkdir(parents=True, exist_ok=True)
    for old in above.iterdir():
        if time.time() - old.stat().st_mtime > 86400:
            shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{site}-", dir=above))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        for build in folder.glob("*.kernels"):
            shutil.rmtree(build, ignore_errors=True)
