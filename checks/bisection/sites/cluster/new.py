"""Draft of a site: what its scheduler says, what is on PATH, what a trial job per queue shows."""

import concurrent.futures
import re
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from reframe.utility import import_module_from_file

from bisection.core import paths
from bisection.core.reasons import Code, Reason
from bisection.core.verdicts import BisectionError
from bisection.sites.cluster import choices, facts, software
from bisection.sites.cluster.facts import FAST, UP
from bisection.sites.cluster.jobs import AT_ONCE, Local, Queue
from bisection.sites.cluster.schedulers import SCHEDULERS
from bisection.sites.cluster.software import Software
from bisection.sites.cluster.survey import Group, QueueInfo, Survey, grouped
from bisection.sites.cluster.trial import Launcher, Outcome, Trial, try_queue

PATIENCE = 600  # seconds for the trial job of a queue, its wait included
LONGEST = 600  # seconds that a trial job asks for, where its queue gives as much
USUAL_NODES = 4  # of the largest launch, unless --nodes says another number

# Schedulers whose queues are not read yet: ReFrame's name, name, command.
UNREAD = (
    ("flux", "Flux", "flux"),
    ("lsf", "LSF", "bsub"),
    ("oar", "OAR", "oarsub"),
    ("sge", "Grid Engine", "qconf"),
)


@dataclass(frozen=True)
class Way:
    """A launcher as a site file has it, before the options for cores."""

    launcher: str
    options: tuple[str, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.launcher, *self.options])


@dataclass
class Part:
    """A partition of the draft: alike nodes of a queue."""

    name: str
    queue: QueueInfo
    group: Group
    nodes: int | list[int]  # per launch
    way: Way
    given: dict[str, Any] | None = None  # of a site file that is there: its words
    trial: Trial | None = None  # None: no job ran
    outcome: Outcome | None = None  # of `way`, if it was right
    others: list[tuple[Way, Reason | None]] = field(default_factory=list)  # None: right, too
    decisions: list[Reason] = field(default_factory=list)

    @property
    def largest(self) -> int:
        """The nodes of the largest launch."""
        return max(self.nodes) if isinstance(self.nodes, list) else self.nodes

    @property
    def choices(self) -> dict[str, Any]:
        """The words of common.partition, behind its name."""
        if self.given:
            return {w: value for w, value in self.given.items() if w not in ("name", "line")}
        words = {
            "queue": self.queue.name if self.queue.name != self.name else "",
            "constraint": self.group.constraint,
            "nodes": self.nodes,
            "launcher": self.way.launcher,
            "options": list(self.way.options),
            "exclusive": not self.queue.whole_nodes,
        }
        return {word: value for word, value in words.items() if value}

    @property
    def facts(self) -> facts.Facts:
        """Of NAME.json."""
        seen = self.trial.nodes if self.trial else []
        return facts.of_partition(self.queue, self.group, seen, self.outcome)

    @property
    def network(self) -> Mapping[str, Any] | None:
        """The device that carried messages, else the fastest that is up; None if none is known."""
        devices = {device["name"]: device for device in self.devices}
        carried = self.outcome.carried if self.outcome else {}
        main = max(carried, key=carried.__getitem__, default="")
        return devices.get(main) or next(iter(devices.values()), None)

    @property
    def devices(self) -> list[Mapping[str, Any]]:
        """The networks of a node that are up, the fast ones first."""
        nodes = self.trial.nodes if self.trial else []
        there = [device for node in nodes[:1] for device in node["networks"]]
        there = [device for device in there if device["state"] in UP]
        return sorted(there, key=lambda device: device["kind"] not in FAST)


@dataclass
class Draft:
    """A site, as far as it could be found out."""

    name: str
    survey: Survey
    software: Software
    account: str = ""
    qos: str = ""
    parts: list[Part] = field(default_factory=list)
    closed: list[Reason] = field(default_factory=list)  # queues that this user cannot use
    decisions: list[Reason] = field(default_factory=list)  # of the site as a whole
    unread: list[str] = field(default_factory=list)  # partitions that nothing is known of

    @property
    def facts(self) -> facts.Facts:
        """Of NAME.json."""
        parts: dict[str, facts.Facts] = {name: {} for name in self.unread}
        parts |= {part.name: part.facts for part in self.parts}
        return facts.of_site(self.name, self.survey, self.software, parts)

    @property
    def all_decisions(self) -> list[Reason]:
        """Returns the decisions left to a person, of the site and of its partitions."""
        return [*self.decisions, *(reason for part in self.parts for reason in part.decisions)]


def survey(account: str = "") -> Survey:
    """Returns what the scheduler of this host says; its `kind` is "" where there is none.

    Raises:
        SchedulerError: a scheduler is installed and does not answer.
    """
    for scheduler in dict.fromkeys(SCHEDULERS.values()):
        if scheduler.commands and scheduler.is_here():
            return scheduler.survey(account)
    for reframe, kind, command in UNREAD:
        if shutil.which(command):
            decisions = [Code.SCHEDULER_UNREAD(scheduler=kind)]
            if reframe == "flux":
                decisions.append(Code.FLUX_OF_REFRAME())
            return Survey(kind=kind, reframe=reframe, decisions=decisions)
    return Local.survey(account)


def draft(
    name: str,
    known: Survey,
    queues: Sequence[str] = (),
    account: str = "",
    most: int | None = None,
    qos: str = "",
) -> Draft:
    """The draft of a site before any job ran.

    Args:
        name: of the site.
        known: what its scheduler says.
        queues: those that are wanted; all that this user can use if empty.
        account: that jobs shall use, "" for the user's own.
        most: the nodes of the largest launch.
        qos: the quality of service that jobs shall ask for, "" for the user's own.

    Raises:
        BisectionError: a queue is wanted that there is not, or a `qos` without Slurm.
    """
    there = software.read()
    site = Draft(name, known, there, account, qos, decisions=list(known.decisions))
    if qos and known.kind != "Slurm":
        raise BisectionError(f"--qos {qos}: only Slurm has it, and it is not on this host")
    names = [queue.name for queue in known.queues]
    if unknown := [queue for queue in queues if queue not in names]:
        raise BisectionError(f"--queue {unknown[0]}: unknown; there are {', '.join(names)}")
    if known.kind and not known.queues:
        site.unread.append("default")
    if known.kind and not there.compiler:
        site.decisions.append(Code.NO_COMPILER())
    if known.kind and there.missing:
        site.decisions.append(Code.LIBRARIES_UNSEEN(names=there.missing))
    for queue in known.queues:
        if queues and queue.name not in queues:
            continue
        if queue.closed:
            site.closed.append(queue.closed)
            continue
        site.parts += _parts(site, queue, most or USUAL_NODES, most is not None)
    if known.kind and not site.parts and not site.unread:
        site.decisions.append(Code.NO_QUEUE())
    return site


def _parts(site: Draft, queue: QueueInfo, most: int, asked: bool) -> Iterator[Part]:
    """The partitions of a queue; a group without a feature of its own is left out."""
    for group in queue.groups:
        cores = {"queue": queue.name, "nodes": len(group.nodes), "cores": group.known.cores}
        if not group.alone and not group.constraint:
            site.decisions.append(Code.NODES_UNLIKE(**cores, gres=group.known.gres))
            continue
        name = reframe_name(queue.name if group.alone else f"{queue.name}-{group.constraint}")
        limits = [most, len(group.nodes), queue.max_nodes or most]
        part = Part(name, queue, group, sizes(min(limits), asked), ways(site)[0])
        if group.up < part.largest:
            wanted = {"up": group.up, "wanted": part.largest, "down": _down(site, part)}
            part.decisions.append(Code.NODES_DOWN(partition=name, **wanted))
        if queue.shared:
            part.decisions.append(Code.QUEUE_SHARED(partition=name))
        yield part


def reframe_name(text: str) -> str:
    """A name as ReFrame takes it for a partition: no dots, no digit in front."""
    name = re.sub("[^A-Za-z0-9_-]", "_", text)
    return name if re.match("[A-Za-z_]", name) else f"_{name}"


def _down(site: Draft, part: Part) -> list[tuple[str, str]]:
    """The nodes of a partition that take no jobs, each with the scheduler's reason."""
    access = as_reframe(site, part, part.way, part.largest)["access"]
    names = {node.name for node in part.group.nodes}
    reasons = SCHEDULERS[site.survey.reframe]().unavailable(access)
    return [(name, why) for name, why in reasons if name in names]


def sizes(most: int, asked: bool = False) -> int | list[int]:
    """The numbers of nodes per launch: powers of two up to `most`; one number if that says all.

    Args:
        most: nodes of the largest.
        asked: whether a person named that number, and wants no others.
    """
    if most <= 2 or asked:
        return most
    return [*(1 << power for power in range((most - 1).bit_length())), most]


def ways(site: Draft) -> list[Way]:
    """The launchers to try, the one to be preferred first: srun, its other types, mpirun."""
    tried = []
    if site.survey.kind == "Slurm":
        types = site.survey.mpi_types
        tried = [Way("srun"), *(Way("srun", (f"--mpi={kind}",)) for kind in types[1:])]
    if site.software.launcher or not tried:
        tried.append(Way(site.software.launcher or "mpirun"))
    return tried


def as_reframe(site: Draft, part: Part, way: Way, nodes: int) -> dict[str, Any]:
    """A partition of the draft as site-configs/common_cluster.py makes it for ReFrame."""
    shared = import_module_from_file(str(paths.ROOT / "site-configs" / "common_cluster.py"))
    own = {"account": site.account, "qos": site.qos}
    choices = {**part.choices, "launcher": way.launcher, "options": list(way.options)}
    mpi = {"kind": site.software.kind}
    given = {"name": part.name, **own, **choices, "nodes": nodes}
    return shared.as_reframe(given, part.facts, site.survey.reframe, mpi)


def try_out(
    site: Draft, folder: Path, done: Callable[[Part], None], patience: float = PATIENCE
) -> None:
    """Runs a trial job in each partition of a draft, AT_ONCE at a time, and settles its launcher.

    Args:
        site: the draft, which is filled in.
        folder: for the jobs; all nodes must see it.
        done: called with each partition whose job is over.
        patience: seconds for each.

    Raises:
        OSError: the folder cannot be written.
        KeyboardInterrupt: the caller was interrupted; the jobs are cancelled.
    """
    folder.mkdir(parents=True, exist_ok=True)
    stop = threading.Event()

    def run(part: Part, nodes: int, partitions: Sequence[Mapping[str, Any]]) -> Part:
        longest = min(LONGEST, part.queue.max_time or LONGEST)
        part.trial = try_queue(
            Queue(part.name, partitions[0]["access"], nodes, part.group.known.cores, longest),
            [Launcher(each["launcher"], each["extras"]["binding"]) for each in partitions],
            folder,
            patience,
            site.software.modules,
            scheduler=SCHEDULERS[site.survey.reframe](stop),
            variables=dict(partitions[0]["env_vars"]),
        )
        settle(site, part)
        return part

    jobs = []
    for part in site.parts:
        if nodes := min(part.largest, part.group.up):
            partitions = [as_reframe(site, part, way, nodes) for way in tried(site, part)]
            jobs.append((part, nodes, partitions))
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        running = [pool.submit(run, *job) for job in jobs]
        try:
            for future in concurrent.futures.as_completed(running):
                done(future.result())
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def tried(site: Draft, part: Part) -> list[Way]:
    """The launchers of a partition's trial, in its order; that of a site file alone."""
    return [part.way] if part.given else ways(site)


def unlike(part: Part, before: facts.Facts) -> bool:
    """True if the trial of a partition measured other than the site's facts of before, or failed
    where an earlier one did not: once may be a bad moment."""
    old = before.get("partitions", {}).get(part.name, {})
    known = {name: old[name] for name in facts.MEASURED if name in old}
    measured = {name: part.facts.get(name) for name in known}
    return bool(known) and (part.outcome is None or bool(facts.compare(known, measured)))


def take_better(site: Draft, second: Draft) -> None:
    """Takes the second trials of partitions in place of their first, unless a second one failed;
    of two that were right, the better latency and the better bandwidth."""
    later = {part.name: part for part in second.parts if part.outcome}
    for part in site.parts:
        if (outcome := part.outcome) and outcome.latency and part.name in later:
            other = later[part.name].outcome
            other.latency = min(outcome.latency, other.latency or outcome.latency)
            other.bandwidth = max(outcome.bandwidth, other.bandwidth or outcome.bandwidth)
    site.parts = [later.get(part.name, part) for part in site.parts]


def settle(site: Draft, part: Part) -> None:
    """Takes the first launcher that was right; what was wrong is for a person to decide.

    Args:
        site: the draft.
        part: its partition, with its trial.
    """
    trial = part.trial
    outcomes = list(zip(tried(site, part), trial.outcomes, strict=False))
    right = [(way, outcome) for way, outcome in outcomes if outcome.fault is None]
    if right:
        part.way, part.outcome = right[0]
    others = [(way, outcome) for way, outcome in outcomes if not right or way != part.way]
    part.others = [(way, _named(way, outcome.fault, site.survey)) for way, outcome in others]
    at = {"partition": part.name}
    if fault := trial.fault or trial.build:
        part.decisions.append(Code.TRIAL_FAILED(**at, fault=fault))
    elif not right:
        faults = [fault for _, fault in part.others]
        part.decisions.append(Code.NO_LAUNCHER(**at, faults=faults))
    kinds = {device["name"]: device["kind"] for device in part.devices}
    fast = next((name for name, kind in kinds.items() if kind in FAST), None)
    carried = part.outcome.carried if part.outcome else {}
    main = max(carried, key=carried.__getitem__, default="")
    if fast and main and kinds.get(main) not in FAST:
        part.decisions.append(Code.NETWORK_UNUSED(**at, device=main, fast=fast))


def refreshed(site_file: Path, known: Survey) -> Draft:
    """The draft of a site that has a file: its partitions and launchers are those of the file.

    Args:
        site_file: NAME.py.
        known: what the scheduler says.

    Raises:
        BisectionError: the file does not load, or names a queue that there is not.
    """
    chosen = choices.read(site_file)
    site = Draft(site_file.stem, known, software.read(), chosen.account, chosen.qos)
    there = {queue.name: queue for queue in known.queues}
    old = facts.old(facts.file_of(site_file)).get("partitions", {})
    for given in chosen.partitions:
        name = given["name"]
        queue = given.get("queue") or old.get(name, {}).get("queue") or name
        if not there:  # of a scheduler that is not read
            site.unread.append(name)
        elif queue not in there:
            where = f"{paths.shown(site_file)}:{given['line']}: partition {name}"
            raise BisectionError(f"{where}: unknown queue {queue}; there are {', '.join(there)}")
        else:
            group = _members(there[queue], given.get("constraint", ""))
            way = Way(given["launcher"], tuple(given.get("options", ())))
            site.parts.append(Part(name, there[queue], group, given["nodes"], way, given))
    return site


def _members(queue: QueueInfo, constraint: str) -> Group:
    """The nodes of a queue with a feature; the largest group where they are not alike."""
    nodes = [node for group in queue.groups for node in group.nodes]
    chosen = [node for node in nodes if constraint in node.features] or nodes
    return replace(grouped(chosen)[0], constraint=constraint)


def _named(way: Way, fault: Reason | None, known: Survey) -> Reason | None:
    """A fault that names the launcher with its options."""
    if fault is None:
        return None
    fault = known.explained(way.launcher, fault)
    if fault["launcher"]:
        return fault.with_values(launcher=str(way))
    return Code.LAUNCHER_WRONG(launcher=str(way), fault=fault)
