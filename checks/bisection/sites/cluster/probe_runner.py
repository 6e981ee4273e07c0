"""Checks a site file by probes (probes.py): a partition as their subject, and how they run.

What rests on a probe that is wrong or was not tried is not tried. One job per partition serves all
probes that need one.
"""

import contextlib
import re
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from bisection import schedulers
from bisection.core.commands import option_value
from bisection.core.grouping import grouped
from bisection.core.identity import Geometry
from bisection.core.reasons import launches
from bisection.core.reasons.base import Reason, Text
from bisection.core.verdicts import BisectionError, Word
from bisection.kernels import layouts
from bisection.kernels.layouts import ALL_LAYOUTS, DoesNotFit
from bisection.schedulers.scheduler import Scheduler
from bisection.schedulers.survey import QueueInfo, SchedulerError, SchedulerSurvey
from bisection.sites.before_run import choose_environ
from bisection.sites.cluster import facts
from bisection.sites.cluster.jobs import AT_ONCE, JobRequest, at_once
from bisection.sites.cluster.trial import Launcher, LauncherResult, Trial
from bisection.sites.site_files import Site

Facts = Mapping[str, Any]


class ProbeState(Word):
    """The outcome of a probe."""

    OK = "ok"
    WRONG = "WRONG"
    NOT_TRIED = "not tried"


@dataclass(frozen=True)
class ProbeResult:
    """The result of a probe."""

    state: ProbeState
    text: str  # its numbers, or what is wrong
    remedy: str = ""  # what to do
    rests_on: str = ""  # the probe that is wrong or was not tried, so that this one was not
    probe: str = ""  # which `run` fills in
    partition: str = ""  # "" for the site


ok, wrong, not_tried = (partial(ProbeResult, state) for state in ProbeState)

LOOK = "Look at the job's output."
# What to do about what stopped a job or a launch.
REMEDIES: dict[type[Reason], str] = {
    launches.Blocked: "Look at the queue with `squeue`; --patience lets the job wait longer.",
    launches.Timeout: "Look at the last step in the job's output.",
    **dict.fromkeys((launches.NodeFail, launches.NodeFault), "Repair the node, or drain it."),
    launches.OutOfMemory: "Ask for more memory in the site file, such as --mem=0.",
    launches.Cancelled: "Somebody or preemption cancelled it: check again.",
    launches.Infrastructure: "`scontrol ping` shows whether the controller runs.",
    launches.NotEnded: LOOK,
    launches.NoSpace: "Make room there, or set BISECTION_HOME to a folder on another file system.",
    launches.NoWorld: 'Try another launcher, or options=["--mpi=..."] of `srun --mpi=list`.',
    launches.Worlds: (
        'Launcher and MPI library differ: try options=["--mpi=pmi2"] or another launcher.'
    ),
    launches.Misplaced: "Correct the launcher's options for cores: `binding` in the site file.",
}


def fault(reason: Reason, partition: str) -> ProbeResult:
    """The result of a probe by what went wrong in a partition."""
    remedy = reason.next if isinstance(reason, Text) else ""
    remedy = remedy or REMEDIES.get(type(reason), LOOK)
    if isinstance(reason, launches.Blocked) and reason.refused:
        remedy = f"Correct queue, account, qos and nodes of {partition} in the site file."
    return wrong(str(reason), remedy)


@dataclass
class Subject:
    """One partition of a site, and what is known of it so far."""

    site: Site
    partition: dict[str, Any]  # as sites/load_process.py reports it
    facts: Facts | None  # of NAME.json; None without it
    folder: Path  # for its job; all nodes must see it
    patience: float  # s for its job
    # Of all partitions of the check: their schedulers, surveys of these by account and reservation,
    # and where kernels are built for a kind of node.
    schedulers: Sequence[Scheduler]
    surveys: dict[tuple[str, str], SchedulerSurvey]
    built: dict[Any, str]
    stop: threading.Event  # once set, jobs are cancelled
    trial: Trial = field(default_factory=Trial)  # of its job, once that ran

    def __post_init__(self) -> None:
        # Empty where the site does not load.
        part = {"name": "", "scheduler": "local", "access": [], "extras": {}, **self.partition}
        self.name, self.access, self.extras = part["name"], part["access"], part["extras"]
        self.nodes = int(self.extras.get("nodes", 1))  # per launch
        self.scheduler = schedulers.of(part["scheduler"])
        self.local = self.scheduler.is_local
        # The account and the reservation that jobs use, "" for none.
        self.whose = self.scheduler.in_whose_name(self.access)
        # The first of several; "" for the usual one.
        queues = option_value(self.access, *self.scheduler.queue_options)
        self.queue_name = queues.partition(",")[0]
        # Equal for partitions that differ in their number of nodes.
        self.same_nodes = part["scheduler"], *self.access
        self.environ = ""  # that a run takes for the kernels
        with contextlib.suppress(BisectionError, KeyError):
            pattern = choose_environ(self.site, [self.partition], None)
            self.environ = next(n for n in part["environs"] if re.fullmatch(pattern, n))
        environ = self.site.environs.get(self.environ, {})
        # In the order in which they are loaded.
        self.modules = [*part.get("modules", []), *environ.get("modules", [])]
        self.by_spack = "spack" in environ.get("features", ())
        # As launches have it (rfm.launch.Build)
        self.builds_here = self.by_spack or "march" in self.extras
        # Of a build of the kernels
        self.kernel_key = self.same_nodes, tuple(self.modules), self.extras.get("march")
        extras = self.extras | environ.get("extras", {})
        self.launcher = Launcher(part.get("launcher", ""), binding=extras.get("binding", []))
        # The facts of NAME.json; quad-2 has those of quad, unless a queue quad-2 has facts, too.
        recorded = (self.facts or {}).get("partitions", {})
        names = [name for name in (self.name, self.name.rpartition("-")[0]) if name in recorded]
        same = [name for name in names if recorded[name].get("queue") == self.queue_name]
        self.known = recorded[(same or names)[0]] if names else None

    @property
    def info(self) -> QueueInfo | None:
        """The queue as the scheduler knows it; None where it is not known which one is used."""
        survey = None if self.local else self.surveys.get(self.whose)
        queues = survey.queues if survey else ()
        only = len(queues) == 1 and not self.queue_name
        return next((info for info in queues if only or info.name == self.queue_name), None)

    @property
    def apart(self) -> bool:
        whole = "--exclusive" in self.access or (self.info and self.info.whole_nodes)
        return bool(whole) and not self.builds_here

    @property
    def shapes(self) -> dict[str, Geometry]:
        """The geometry of each layout that fits."""
        shapes, machine = {}, (self.partition["cores"], self.nodes, self.partition["topology"])
        for layout in ALL_LAYOUTS:
            with contextlib.suppress(DoesNotFit):
                shapes[layout] = layouts.geometry(layout, *machine)
        return shapes

    @property
    def request(self) -> JobRequest:
        longest = (self.info and self.info.max_time) or self.extras.get("max_time")
        shape = Geometry(self.nodes, self.partition["cores"], 1)
        where = (self.folder, self.patience, self.scheduler)
        environ = self.site.environs.get(self.environ, {"variables": {}})
        variables = {**self.partition["variables"], **environ["variables"]}
        variables["SLURM_KILL_BAD_EXIT"] = "1"  # as launches have it
        return JobRequest(self.name, self.access, shape, *where, longest, variables, self.stop)

    @property
    def outcomes(self) -> dict[str, LauncherResult]:
        return dict(zip(self.shapes, self.trial.outcomes, strict=False))


@dataclass(frozen=True)
class SiteProbe:
    """One line of the check."""

    name: str
    title: str
    look: Callable[[Subject], ProbeResult | None]  # None: there is nothing to look at
    rests_on: Sequence[str] = ()
    of_site: bool = False  # looked at once, with the first partition as subject


def run(
    probes: Sequence[SiteProbe], subjects: Sequence[Subject]
) -> Generator[ProbeResult, None, None]:
    """Runs the probes, each after those that it rests on: those of the site, then those of its
    partitions, AT_ONCE at a time. Partitions with the same nodes take turns; so do all where one
    could disturb another. Jobs are cancelled where the caller closes this."""
    roots: dict[str, str] = {}  # probe -> the wrong one that it rests on
    # A scheduler first, if there is one.
    first = min(subjects, key=lambda subject: subject.local)
    yield from _run([probe for probe in probes if probe.of_site], first, "", roots)
    if not first.partition:
        return
    of_partitions = [probe for probe in probes if not probe.of_site]
    rows = grouped(subjects, lambda subject: subject.same_nodes)

    def check(row: Sequence[Subject]) -> list[ProbeResult]:
        return [result for s in row for result in _run(of_partitions, s, s.name, dict(roots))]

    most = AT_ONCE if all(subject.apart for subject in subjects) else 1
    for results in at_once(check, list(rows.values()), first.stop, most):
        yield from results


def _run(
    probes: Sequence[SiteProbe], subject: Subject, partition: str, roots: dict[str, str]
) -> Iterator[ProbeResult]:
    for probe in probes:
        if root := next((roots[name] for name in probe.rests_on if name in roots), None):
            result: ProbeResult | None = not_tried("", rests_on=root)
        else:
            root = probe.name
            try:
                result = probe.look(subject)
            except SchedulerError as error:
                ping = "`scontrol ping` shows whether it runs; SLURM_CONF names its file."
                result = wrong(str(error), ping)
        if result:
            if result.state != ProbeState.OK:
                roots[probe.name] = root
            yield replace(result, probe=probe.name, partition=partition)


def subjects(
    site: Site, partitions: Sequence[dict[str, Any]], folder: Path, patience: float
) -> list[Subject]:
    """The partitions of a site as subjects of the probes; one without a name where it does not
    load. Each job may take `patience` seconds, and leaves its files in the folder."""
    file = facts.file_of(site.path)
    known = facts.read(file) if file.exists() else None
    names = sorted({partition["scheduler"] for partition in partitions})
    shared: tuple[Any, ...] = ([*map(schedulers.of, names)], {}, {}, threading.Event())
    return [
        Subject(site, partition, known, folder, patience, *shared)
        for partition in partitions or [{}]
    ]
