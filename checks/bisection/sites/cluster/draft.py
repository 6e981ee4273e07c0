"""Draft of a site: what its scheduler says, what is on PATH, what a trial job per queue shows."""

import os
import re
import runpy
import shutil
import threading
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from reframe.utility import import_module_from_file

from bisection import schedulers
from bisection.core import launchers, paths
from bisection.core.commands import ask
from bisection.core.format import plural
from bisection.core.identity import Geometry
from bisection.core.reasons.base import Reason, Text, with_reasons
from bisection.core.reasons.launches import NoWorld, Worlds
from bisection.core.verdicts import BisectionError
from bisection.schedulers.survey import Group, QueueInfo, SchedulerSurvey, groups_of
from bisection.sites.cluster import facts
from bisection.sites.cluster.facts import FAST, UP
from bisection.sites.cluster.jobs import JobRequest, at_once
from bisection.sites.cluster.trial import COMPILERS, Launcher, LauncherResult, Trial, try_queue

PATIENCE = 600  # seconds for the trial job of a queue, its wait included
USUAL_NODES = 4  # of the largest launch, unless --nodes says another number


@dataclass(frozen=True)
class Software:
    """Programs on PATH, modules and libraries."""

    mpi: Mapping[str, str]  # kind (a library), version, compiler (its path), launcher; "" for none
    modules_system: str  # ReFrame's name; nomod for none
    modules: list[str]  # that are loaded
    libraries: dict[str, str]  # those that pkg-config finds -> version


AGAIN = "then remove this file and make it again"
NO_COMPILER = f"neither mpicc nor cc is on PATH: load the module of an MPI library, {AGAIN}"
NO_FFTW = (
    f"pkg-config does not find FFTW, which the kernels need: load the modules, {AGAIN}; or build "
    "with Spack (-p spack)"
)


@dataclass
class DraftPartition:
    """A partition of the draft: alike nodes of a queue."""

    name: str
    queue: QueueInfo
    group: Group
    nodes: int | list[int]  # per launch
    launcher: Launcher  # as the site file has it, without the options for cores
    words: Mapping[str, Any] | None = None  # of a site file that is there
    taken: str = ""  # the name that it would have, if another one had not
    trial: Trial = field(default_factory=Trial)  # empty where no job ran
    outcome: LauncherResult | None = None  # of `launcher`, if it was right
    others: list[tuple[Launcher, Reason | None]] = field(default_factory=list)  # None: right, too
    decisions: list[str] = field(default_factory=list)

    @property
    def names(self) -> set[str]:
        counts = self.nodes if isinstance(self.nodes, list) else []
        return {self.name, *(f"{self.name}-{count}" for count in counts)}

    @property
    def largest(self) -> int:
        return max(self.nodes) if isinstance(self.nodes, list) else self.nodes

    @property
    def choices(self) -> dict[str, Any]:
        """The words of common.partition, behind its name."""
        if self.words:
            return {w: value for w, value in self.words.items() if w not in ("name", "line")}
        words = {
            "queue": self.queue.name if self.queue.name != self.name else "",
            "constraint": self.group.constraint,
            "nodes": self.nodes,
            "launcher": self.launcher.name,
            "options": [*self.launcher.options],
            "exclusive": not self.queue.whole_nodes,
            "devices": facts.devices(self.group.known.gres),
        }
        return {word: value for word, value in words.items() if value}

    @property
    def facts(self) -> dict[str, Any]:
        """Of NAME.json (facts.py); what was not seen is left out."""
        nodes, outcome = self.trial.nodes, self.outcome
        known: dict[str, Any] = {
            "queue": self.queue.name,
            "constraint": self.group.constraint,
            "nodes": len(self.group.nodes),
            "max_time": self.queue.max_time,
            "whole_nodes": self.queue.whole_nodes,
            "gres": self.group.known.gres,
            "processor": self.processor,
        }
        if nodes:
            known["memory"] = min(node["memory"] for node in nodes)
            names = ("networks", "governor", "smt", "microcode", "kernel", "system")
            known |= {name: nodes[0][name] for name in names}
            known["boot"] = {node["host"]: node["boot"] for node in nodes}
        if outcome:
            known |= {"mpi": outcome.library, "launcher": outcome.launcher.name}
            known |= {name: getattr(outcome, name) for name in facts.MEASURED}
        return {name: value for name, value in known.items() if value not in ("", None, {}, [])}

    @property
    def processor(self) -> dict[str, Any]:
        """ReFrame's processor information, of the cores that jobs may use.

        A node may see more: those that the scheduler keeps for the system. Its topology stays
        whole, as a rank may be on any of them.
        """
        known = self.group.known
        scheduled = {"num_cpus_per_core": known.per_core, "num_sockets": known.sockets}
        scheduled["num_cpus"] = known.cores * known.per_core
        seen = (node["processor"] for node in self.trial.nodes)
        least = min(seen, key=facts.cores_of, default=scheduled)
        cores, per_core = min(facts.cores_of(least), known.cores), least["num_cpus_per_core"]
        per_socket = -(-cores // least["num_sockets"]) * per_core
        return {**least, "num_cpus": cores * per_core, "num_cpus_per_socket": per_socket}

    @property
    def devices(self) -> list[Mapping[str, Any]]:
        there = [d for node in self.trial.nodes[:1] for d in node["networks"] if d["state"] in UP]
        return sorted(there, key=lambda device: device["kind"] not in FAST)

    @property
    def network(self) -> Mapping[str, Any] | None:
        """The device that carried most, else the fastest that is up; None if none is known."""
        carried = self.outcome.carried if self.outcome else {}
        devices = sorted(self.devices, key=lambda device: -carried.get(device["name"], 0.0))
        return next(iter(devices), None)


# What all jobs of a site ask its scheduler for, by the words of site files.
OF_SITE = ("cluster", "account", "qos", "reservation")


@dataclass
class Draft:
    """A site, as far as it could be found out."""

    name: str
    survey: SchedulerSurvey
    software: Software
    cluster: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    parts: list[DraftPartition] = field(default_factory=list)
    closed: list[Text] = field(default_factory=list)  # queues that this user cannot use
    decisions: list[str] = field(default_factory=list)  # of the site as a whole
    unread: dict[str, Any] = field(default_factory=dict)  # facts of partitions: none are known

    @property
    def facts(self) -> dict[str, Any]:
        """Of NAME.json."""
        scheduler = ("kind", "version", "cluster", "accounting")
        return {
            "version": facts.VERSION,
            "system": self.name,
            "written": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "scheduler": {key: getattr(self.survey, key) for key in scheduler},
            "software": asdict(self.software),
            "partitions": {**self.unread, **{part.name: part.facts for part in self.parts}},
        }

    @property
    def all_decisions(self) -> list[tuple[str, str]]:
        """The decisions left to a person, each with its partition; "" for the site."""
        of_parts = [(part.name, text) for part in self.parts for text in part.decisions]
        return [*(("", text) for text in self.decisions), *of_parts]


def software_here() -> Software:
    """The software of this host, as it is on PATH now."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), "")
    launcher = next((name for name in launchers.MPIRUNS if shutil.which(name)), "")
    kind, version = launchers.library(launcher)
    fftw = ask("pkg-config", "--modversion", "fftw3")  # as src/linear_algebra.cmake
    return Software(
        mpi={"kind": kind, "version": version, "compiler": compiler, "launcher": launcher},
        modules_system=modules_system(os.environ),
        modules=[name for name in os.environ.get("LOADEDMODULES", "").split(":") if name],
        libraries={"FFTW": fftw.text.strip()} if fftw else {},
    )


def modules_system(environ: Mapping[str, str]) -> str:
    """ReFrame's name of the modules system that a shell has set up."""
    names = {"LMOD_CMD": "lmod", "MODULES_CMD": "tmod4", "MODULESHOME": "tmod32"}
    return next((name for variable, name in names.items() if variable in environ), "nomod")


def first_draft(options: Namespace, known: SchedulerSurvey) -> Draft:
    """The draft of a site before any job ran, by the options of `site new`; BisectionError where
    they want a queue that there is not, a reservation that no job can use, or a QOS without
    Slurm."""
    there = software_here()
    site = Draft(options.name, known, there, *(getattr(options, word) for word in OF_SITE))
    site.decisions += map(str, known.decisions)
    for word in ("cluster", "qos", "reservation"):
        if (value := getattr(options, word)) and not schedulers.of(known.reframe).takes_qos:
            raise BisectionError(f"--{word} {value}: only Slurm has it, and it is not on this host")
    if known.unusable:
        raise BisectionError(str(known.unusable))
    names = [queue.name for queue in known.queues]
    if unknown := [queue for queue in options.queue if queue not in names]:
        raise BisectionError(f"--queue {unknown[0]}: unknown; there are {', '.join(names)}")
    if not known.kind:
        return site
    if not known.queues:
        site.unread["default"] = {}
    if not there.mpi["compiler"]:
        site.decisions.append(NO_COMPILER)
    if "FFTW" not in there.libraries:
        site.decisions.append(NO_FFTW)
    for queue in known.queues:
        if queue.name not in (options.queue or names):
            continue
        if queue.closed:
            site.closed.append(queue.closed)
        else:
            site.parts += _parts(site, queue, options.nodes)
    _name_apart(site.parts)
    for part in site.parts:
        part.decisions += _questions(part)
    if not site.parts and not site.unread:
        site.decisions.append("there is no queue that this user can use")
    return site


def _parts(site: Draft, queue: QueueInfo, most: int | None) -> Iterator[DraftPartition]:
    """The partitions of a queue; a group without a feature of its own is left out."""
    for group in queue.groups:
        if not group.alone and not group.constraint:
            there = f"{plural(len(group.nodes), 'node')} of {plural(group.known.cores, 'core')}"
            there += f" and {group.known.gres}" if group.known.gres else ""
            site.decisions.append(
                f"queue {queue.name} has other nodes beside {there}, and no feature that only "
                "these have: they are left out (a feature in slurm.conf would make them a "
                "partition)"
            )
            continue
        name = queue.name if group.alone else f"{queue.name}-{group.constraint}"
        # ReFrame's names of partitions have no dots, and no digit in front.
        name = re.sub("[^A-Za-z0-9_-]|^(?=[0-9-])", "_", name)
        nodes = min(most or USUAL_NODES, len(group.nodes), queue.max_nodes or len(group.nodes))
        yield DraftPartition(
            name, queue, group, nodes if most else sizes(nodes), candidates(site)[0]
        )


def _name_apart(parts: Sequence[DraftPartition]) -> None:
    """Gives partitions names of their own, also by number of nodes: gpu.a and gpu_a are both gpu_a
    to ReFrame, and quad with one node is quad-1. Queues whose own name will do keep it."""
    taken: set[str] = set()
    for part in sorted(parts, key=lambda part: part.name != part.queue.name):
        plain, number = part.name, 1
        while part.names & taken:
            number += 1
            part.name, part.taken = f"{plain}_{number}", plain
        taken |= part.names


def _questions(part: DraftPartition) -> Iterator[str]:
    """Yields what a person must decide on a partition before any job ran."""
    if part.group.up < part.largest:
        tried = "no job ran, and no launcher is proven"
        tried = "launchers were tried on no more" if part.group.up else tried
        why = f"; down: {with_reasons(part.group.down)}" if part.group.down else ""
        up = f"{part.group.up} of {part.largest} nodes are up"
        yield f"{up}: {tried}; --refresh makes the facts again{why}"
    if part.queue.shared:
        yield "jobs of this queue share cores: timings are unreliable"


def sizes(most: int) -> int | list[int]:
    """The numbers of nodes per launch: powers of two up to `most`; one number if that says all."""
    return most if most <= 2 else [*(1 << power for power in range((most - 1).bit_length())), most]


def candidates(site: Draft) -> list[Launcher]:
    """The launchers to try, the one to be preferred first: srun, its other types, mpirun."""
    tried = [Launcher("srun", (f"--mpi={kind}",)) for kind in site.survey.mpi_types]
    if tried:
        tried[0] = Launcher("srun")  # its usual type
    if (mpirun := site.software.mpi["launcher"]) or not tried:
        tried.append(Launcher(mpirun or "mpirun"))
    return tried


def as_reframe(site: Draft, part: DraftPartition, launcher: Launcher, nodes: int) -> dict[str, Any]:
    """A partition of the draft as site-configs/common_cluster.py makes it for ReFrame."""
    shared = import_module_from_file(str(paths.ROOT / "site-configs" / "common_cluster.py"))
    words = {name: getattr(site, name) for name in OF_SITE}
    words |= {"name": part.name, **part.choices}
    words |= {"launcher": launcher.name, "options": list(launcher.options), "nodes": nodes}
    return shared.as_reframe(words, part.facts, site.survey.reframe, site.software.mpi)


def try_out(site: Draft) -> Iterator[DraftPartition]:
    """Runs a trial job in each partition of a draft, AT_ONCE at a time, and settles its launcher.
    Yields each partition once its job is over; interrupted, it cancels the jobs."""
    folder = paths.home() / "site" / site.name
    folder.mkdir(parents=True, exist_ok=True)
    jobs, stop = [], threading.Event()
    scheduler = schedulers.of(site.survey.reframe)
    for part in site.parts:
        if nodes := min(part.largest, part.group.up):
            tried = [part.launcher] if part.words else candidates(site)  # that of a site file alone
            forms = [as_reframe(site, part, launcher, nodes) for launcher in tried]
            bindings = [form["extras"]["binding"] for form in forms]
            bound = [replace(t, binding=b) for t, b in zip(tried, bindings, strict=True)]
            shape = Geometry(nodes, part.group.known.cores, 1)
            asked = (part.name, forms[0]["access"], shape, folder, PATIENCE, scheduler)
            variables = dict(forms[0]["env_vars"])
            jobs.append((part, JobRequest(*asked, part.queue.max_time, variables, stop), bound))

    def run(job: tuple[DraftPartition, JobRequest, Sequence[Launcher]]) -> DraftPartition:
        part, request, launchers = job
        part.trial = try_queue(request, launchers, site.software.modules)
        settle(site, part)
        return part

    return at_once(run, jobs, stop)


def unlike(part: DraftPartition, before: facts.Facts) -> bool:
    """True if the trial of a partition measured other than the site's facts of before, or failed
    where an earlier one did not: once may be a bad moment."""
    old = before.get("partitions", {}).get(part.name, {})
    known = {name: old[name] for name in facts.MEASURED if name in old}
    now = {name: part.facts.get(name) for name in known}
    return bool(facts.compare(known, now))  # nothing was measured where no launcher is right


def take_better(site: Draft, second: Draft) -> None:
    """Takes the second trials of partitions in place of their first, unless a second one failed;
    of two that were right, the better latency and the better bandwidth."""
    later = {part.name: part for part in second.parts if part.outcome}
    for part in site.parts:
        other = later[part.name].outcome if part.name in later else None
        if other and (outcome := part.outcome) and outcome.latency:
            other.latency = min(outcome.latency, other.latency or outcome.latency)
            other.bandwidth = max(outcome.bandwidth or 0.0, other.bandwidth or 0.0)
    site.parts = [later.get(part.name, part) for part in site.parts]


def settle(site: Draft, part: DraftPartition) -> None:
    """Takes the first launcher that was right; what was wrong is for a person to decide."""
    for outcome in part.trial.outcomes:
        if outcome.fault is None and part.outcome is None:
            part.launcher, part.outcome = outcome.launcher, outcome
        else:
            part.others.append((outcome.launcher, _named(outcome, site.survey)))
    if fault := part.trial.fault or part.trial.build:
        part.decisions.append(f"no launcher is proven. {fault}")
    elif not part.outcome:
        faults = "; ".join(str(fault) for _, fault in part.others)
        part.decisions.append(f"no launcher is right. {faults}")
    fast = [device["name"] for device in part.devices if device["kind"] in FAST]
    carried = part.outcome.carried if part.outcome else {}
    main = max(carried, key=carried.__getitem__, default=None)
    if fast and main and main not in fast:
        part.decisions.append(
            f"messages went through {main}, though {fast[0]} is up: choose the MPI library or its "
            "settings"
        )


def _named(outcome: LauncherResult, known: SchedulerSurvey) -> Reason | None:
    """The fault of an outcome, which names the launcher with its options."""
    if outcome.fault is None:
        return None
    name, fault = str(outcome.launcher), known.explained(outcome.launcher.name, outcome.fault)
    if isinstance(fault, NoWorld | Worlds):
        return replace(fault, launcher=name)
    return Text(f"{name}: {fault}")


# ---- a site that has a file ----


def choices(file: Path) -> dict[str, Any]:
    """The choices of a site file, whether or not its facts can be read; BisectionError where it
    does not load, or is not made by common.slurm or common.cluster."""
    common = import_module_from_file(str(file.with_name("common.py")))
    systems: list[dict[str, Any]] = []

    def make_system(_: str, **choices: Any) -> dict[str, Any]:
        systems.append(choices)
        return {"name": file.stem, "partitions": []}

    usual, common.make_system = common.make_system, make_system
    try:
        runpy.run_path(str(file))
    except (Exception, SystemExit) as error:
        why = f"{type(error).__name__}: {error}"
        raise BisectionError(f"{paths.shown(file)} does not load: {why}") from None
    finally:
        common.make_system = usual
    if not systems:
        why = "it is not made by common.slurm or common.cluster"
        raise BisectionError(f"{paths.shown(file)} has no facts: {why}")
    return systems[0]


def refreshed(site_file: Path, read: Callable[[str, str], SchedulerSurvey]) -> Draft:
    """The draft of a site that has a file: its partitions and launchers are those of the file.
    `read`: surveys the scheduler for an account and a reservation. BisectionError: the file does
    not load, names a queue that there is not, or a reservation that no job can use now."""
    chosen = choices(site_file)
    of_site = {name: chosen.get(name, "") for name in OF_SITE}
    schedulers.of(chosen["scheduler"]).enter(of_site["cluster"])
    known = read(of_site["account"], of_site["reservation"])
    site = Draft(site_file.stem, known, software_here(), **of_site)
    old = facts.old(facts.file_of(site_file)).get("partitions", {})
    for words in chosen["partitions"]:
        name, asked = words["name"], of_site | words
        where = f"{paths.shown(site_file)}:{words['line']}: partition {name}"
        known = read(asked["account"], asked["reservation"])
        if known.unusable:
            raise BisectionError(f"{where}: {known.unusable}")
        queues = {queue.name: queue for queue in known.queues}
        queue = words.get("queue") or old.get(name, {}).get("queue") or name
        if not queues:  # of a scheduler that is not read
            site.unread[name] = {}
        elif queue not in queues:
            raise BisectionError(f"{where}: unknown queue {queue}; there are {', '.join(queues)}")
        else:
            constraint = words.get("constraint", "")
            nodes = [node for group in queues[queue].groups for node in group.nodes]
            # Those with the feature; the largest group where they are not alike.
            own = [node for node in nodes if constraint in node.features] or nodes
            group = replace(groups_of(own)[0], constraint=constraint)
            launcher = Launcher(words["launcher"], tuple(words.get("options", ())))
            site.parts.append(
                DraftPartition(name, queues[queue], group, words["nodes"], launcher, words)
            )
    return site
