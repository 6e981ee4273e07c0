"""Data of `site check`: a partition, and the result of a probe."""

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bisection.core.commands import option_value
from bisection.core.identity import Geometry
from bisection.core.reasons import Reason
from bisection.core.verdicts import Word
from bisection.kernels import layouts
from bisection.kernels.layouts import ALL_LAYOUTS, DoesNotFit
from bisection.sites.cluster.jobs import Queue, Scheduler
from bisection.sites.cluster.schedulers import SCHEDULERS
from bisection.sites.cluster.survey import QueueInfo, Survey
from bisection.sites.cluster.trial import Launcher, Outcome, Trial
from bisection.sites.site import Site

Facts = Mapping[str, Any]


class State(Word):
    """The outcome of a probe."""

    OK = "ok"
    WRONG = "WRONG"
    NOT_TRIED = "not tried"


@dataclass(frozen=True)
class Finding:
    """The result of a probe, with reason or numbers."""

    state: State
    reason: Reason
    probe: str = ""  # which check.py fills in
    partition: str = ""  # "" for the site


ok, wrong, not_tried = (partial(Finding, state) for state in State)


@dataclass
class Subject:
    """One partition of a site, and what is known of it so far."""

    site: Site
    partition: Facts  # as sites/probe.py reports it
    environ: str  # in which the kernels are built
    facts: Facts | None  # of NAME.json; None without it
    folder: Path  # for its job; all nodes must see it
    patience: float  # s for its job
    # Of all partitions of the check: their schedulers' surveys by account, and where kernels are
    # built for a kind of node.
    surveys: dict[str, Survey] = field(default_factory=dict)
    built: dict[Any, str] = field(default_factory=dict)
    schedulers: frozenset[str] = frozenset()  # ReFrame's names
    stop: threading.Event = field(default_factory=threading.Event)  # once set, jobs are cancelled
    trial: Trial | None = None  # of its job

    def __post_init__(self) -> None:
        # Empty where the site does not load.
        part = {"name": "", "scheduler": "local", "access": [], "extras": {}, **self.partition}
        self.name, self.access, self.extras = part["name"], part["access"], part["extras"]
        self.nodes = int(self.extras.get("nodes", 1))  # per launch
        self.local = part["scheduler"] == "local"
        # To submit to; this host for one that is not read.
        self.scheduler = SCHEDULERS.get(part["scheduler"], Scheduler)(self.stop)
        # That jobs use; "" for the user's own.
        self.account = option_value(self.access, *self.scheduler.account_options)
        # The first of several; "" for the usual one.
        queues = option_value(self.access, *self.scheduler.queue_options)
        self.queue_name = queues.partition(",")[0]
        # Equal for partitions that differ in their number of nodes.
        self.same_nodes = part["scheduler"], *self.access
        environ = self.site.environs.get(self.environ, {})
        # In the order in which they are loaded.
        self.modules = [*part.get("modules", []), *environ.get("modules", [])]
        self.by_spack = "spack" in environ.get("features", ())
        # As launches have it (rfm.launch.Build)
        self.builds_here = self.by_spack or "march" in self.extras
        # Of a build of the kernels
        self.kernel_key = self.same_nodes, tuple(self.modules), self.extras.get("march")
        self.launcher = Launcher(part.get("launcher", ""), self.extras.get("binding", []))
        # The facts of NAME.json; quad-2 has those of quad.
        recorded = (self.facts or {}).get("partitions", {})
        self.known = recorded.get(self.name) or recorded.get(self.name.rpartition("-")[0])

    @property
    def info(self) -> QueueInfo | None:
        """The queue as the scheduler knows it; None where it is not known which one is used."""
        survey = None if self.local else self.surveys.get(self.account)
        queues = survey.queues if survey else ()
        only = len(queues) == 1 and not self.queue_name
        return next((info for info in queues if only or info.name == self.queue_name), None)

    @property
    def apart(self) -> bool:
        """True if its job has whole nodes, and this host does not build for it."""
        whole = self.info.whole_nodes if self.info else False
        return (whole or "--exclusive" in self.access) and not self.builds_here

    @property
    def shapes(self) -> dict[str, Geometry]:
        """The geometry of each layout that fits."""
        shapes, part = {}, self.partition
        for layout in ALL_LAYOUTS:
            with contextlib.suppress(DoesNotFit):
                shapes[layout] = layouts.geometry(
                    layout, part["cores"], self.nodes, part["topology"]
                )
        return shapes

    @property
    def queue(self) -> Queue:
        """Returns the request of its job."""
        longest = (self.info and self.info.max_time) or self.extras.get("max_time")
        shape = Geometry(self.nodes, self.partition["cores"], 1)
        return Queue(self.name, self.access, shape, longest)

    @property
    def outcomes(self) -> dict[str, Outcome]:
        """Returns the result of the launcher for each layout."""
        return dict(zip(self.shapes, self.trial.outcomes, strict=False))
