"""Data of `site check`: a partition, and the result of a probe."""

import contextlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bisection.core.commands import option_value
from bisection.core.identity import Geometry
from bisection.core.reasons import Kind, Reason
from bisection.core.verdicts import Word
from bisection.kernels import layouts
from bisection.kernels.layouts import ALL_LAYOUTS, DoesNotFit
from bisection.sites.cluster.jobs import Local, Queue, Scheduler
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


def ok(code: Kind, **values: Any) -> Finding:
    """All is as it should be."""
    return Finding(State.OK, code(**values))


def wrong(code: Kind, **values: Any) -> Finding:
    """Something is not as it should be."""
    return Finding(State.WRONG, code(**values))


def not_tried(code: Kind, **values: Any) -> Finding:
    """There is nothing to judge by."""
    return Finding(State.NOT_TRIED, code(**values))


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

    @property
    def name(self) -> str:
        """The partition's."""
        return self.partition["name"]

    @property
    def nodes(self) -> int:
        """Nodes per launch."""
        return int(self.partition["extras"].get("nodes", 1))

    @property
    def account(self) -> str:
        """That jobs use; "" for the user's own."""
        return self.option(*self.scheduler.account_options)

    @property
    def queue_name(self) -> str:
        """The queue that jobs ask for, the first of several; "" for the usual one."""
        return self.option(*self.scheduler.queue_options).partition(",")[0]

    @property
    def survey(self) -> Survey | None:
        """Of its scheduler; None where there is none, or it was not asked."""
        return self.surveys.get(self.account) if self.partition["scheduler"] != "local" else None

    @property
    def scheduler(self) -> Scheduler:
        """To submit to; Local for one that is not read."""
        return SCHEDULERS.get(self.partition["scheduler"], Local)(self.stop)

    @property
    def same_nodes(self) -> tuple[str, ...]:
        """Returns what asks the scheduler for nodes: equal for partitions that differ in their
        number."""
        return self.partition["scheduler"], *self.partition["access"]

    @property
    def by_spack(self) -> bool:
        """True if Spack builds its kernels."""
        return "spack" in self.site.environs.get(self.environ, {}).get("features", ())

    @property
    def builds_here(self) -> bool:
        """True if its programs are built on this host, as launches have it (rfm.launch.Build)."""
        return self.by_spack or "march" in self.partition["extras"]

    @property
    def apart(self) -> bool:
        """True if its job has whole nodes, and this host does not build for it."""
        given = self.info.whole_nodes if self.info else False
        return (given or "--exclusive" in self.partition["access"]) and not self.builds_here

    @property
    def launcher(self) -> Launcher:
        """As the site file has it."""
        return Launcher(self.partition["launcher"], self.partition["extras"].get("binding", []))

    @property
    def modules(self) -> list[str]:
        """Those of a launch, in the order in which they are loaded."""
        return [*self.partition["modules"], *self.site.environs[self.environ]["modules"]]

    @property
    def shapes(self) -> dict[str, Geometry]:
        """The geometry of each layout that fits."""
        shapes = {}
        for layout in ALL_LAYOUTS:
            with contextlib.suppress(DoesNotFit):
                shapes[layout] = layouts.geometry(
                    layout, self.partition["cores"], self.nodes, self.partition["topology"]
                )
        return shapes

    @property
    def queue(self) -> Queue:
        """Returns the request of its job."""
        info = self.info
        longest = (info and info.max_time) or self.partition["extras"].get("max_time")
        access, cores = self.partition["access"], self.partition["cores"]
        return Queue(self.name, access, self.nodes, cores, longest=min(600, longest or 600))

    @property
    def info(self) -> QueueInfo | None:
        """The queue as the scheduler knows it; None where it is not known which one is used."""
        queues = self.survey.queues if self.survey else ()
        only = len(queues) == 1 and not self.queue_name
        return next((info for info in queues if only or info.name == self.queue_name), None)

    def option(self, *names: str) -> str:
        """The last value of an option among those of the scheduler; "" without it."""
        return option_value(self.partition["access"], *names)

    @property
    def known(self) -> Facts | None:
        """The facts of NAME.json of this partition; quad-2 has those of quad."""
        partitions = (self.facts or {}).get("partitions", {})
        return partitions.get(self.name) or partitions.get(self.name.rpartition("-")[0])

    def outcomes(self) -> dict[str, Outcome]:
        """Returns the result of the launcher for each layout."""
        outcomes = self.trial.outcomes if self.trial else []
        return dict(zip(self.shapes, outcomes, strict=False))
