"""Probes of a site by its job: modules, builds, what nodes see and are, launches, messages."""

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.core.reasons import Code, Reason
from bisection.core.slurm import SLURM
from bisection.core.thresholds import LIMITS
from bisection.rfm import causes
from bisection.sites.cluster.check_model import Finding, State, Subject, not_tried, ok, wrong
from bisection.sites.cluster.facts import FAST, UP
from bisection.sites.cluster.jobs import STOPPED, Ended, Step
from bisection.sites.cluster.trial import Outcome, program, telling, try_queue

SOURCES = paths.ROOT / "src"
KERNEL = "bisection-patterns"  # the one that is built soonest
EXIT = 3  # what a rank leaves with
# What alike nodes have alike, of their facts.
ALIKE = ("governor", "smt", "microcode", "kernel")
SHAPE = ("model", "num_cpus", "num_cpus_per_core", "num_sockets")


# ---- the job ----


def job_runs(subject: Subject) -> Finding:
    """One job runs to its end; all that it showed is kept."""
    queue, shapes = subject.queue, list(subject.shapes.values())
    environ = subject.site.environs[subject.environ]
    variables = {**subject.partition["variables"], **environ["variables"]}
    if subject.partition["scheduler"] in SLURM:  # as launches have it
        variables |= {"SLURM_KILL_BAD_EXIT": "1"}
    leave = [*subject.launcher.command(shapes[0]), str(program(queue, subject.folder))]
    further = [Step("leave", [*leave, "leave", str(EXIT)])]
    builds = []
    if _kernel_key(subject) not in subject.built and not subject.by_spack:
        builds = _builds(subject)
        kernel = str(_build_folder(subject) / "network" / KERNEL)
        run = [*subject.launcher.command(shapes[0]), kernel, "--largest", "64", "--repeats", "1"]
        further.insert(0, Step("kernel", run, limit=60))
    subject.trial = trial = try_queue(
        queue,
        [subject.launcher],
        subject.folder,
        subject.patience,
        subject.modules,
        scheduler=subject.scheduler,
        shapes=shapes,
        variables=variables,
        sees=[subject.folder, SOURCES],
        builds=builds,
        build_here=subject.builds_here,
        further=further,
    )
    if trial.fault:
        return Finding(State.WRONG, trial.fault)
    hosts = trial.hosts or sorted(node["host"] for node in trial.nodes)
    return ok(Code.JOB_RAN, job=trial.job, hosts=hosts)


def _kernel_key(subject: Subject) -> Any:
    """Returns what a build of the kernels depends on: nodes, modules, processor."""
    return subject.same_nodes, tuple(subject.modules), subject.partition["extras"].get("march")


def _build_folder(subject: Subject) -> Path:
    return subject.folder / f"{subject.name}.kernels"


def _builds(subject: Subject) -> list[Step]:
    """Configures all kernels and builds one."""
    build = str(_build_folder(subject))
    march = subject.partition["extras"].get("march")
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DBX_TESTS=OFF"]
    options += [f"-DBX_MARCH={march}"] if march else []
    parallel = ["--parallel", str(subject.partition["cores"])]
    return [
        Step("configure", ["cmake", "-S", str(SOURCES), "-B", build, *options], limit=120),
        Step("compile", ["cmake", "--build", build, "--target", KERNEL, *parallel], limit=120),
    ]


def modules_load(subject: Subject) -> Finding | None:
    """The modules of the site file load inside a job."""
    if not subject.modules:
        return None
    if unloaded := subject.trial.modules:
        return wrong(Code.MODULES_FAIL, modules=list(unloaded.items()))
    return ok(Code.MODULES_LOADED, modules=subject.modules)


def program_builds(subject: Subject) -> Finding:
    """An MPI program builds on a node."""
    if subject.trial.build:
        return Finding(State.WRONG, subject.trial.build)
    compiler = subject.trial.steps["build"].text.strip().splitlines()
    return ok(Code.PROBE_BUILT, compiler=(compiler or [""])[0])


def kernels_build(subject: Subject) -> Finding | None:
    """The kernels configure and build on a node, and one runs on all."""
    if subject.by_spack:
        return not_tried(Code.KERNELS_BY_SPACK, environ=subject.environ)
    steps = subject.trial.steps
    if _kernel_key(subject) in subject.built:
        return ok(Code.KERNELS_BUILT, partition=subject.built[_kernel_key(subject)])
    for name in ("configure", "compile", "kernel"):
        ended = steps.get(name)
        if ended and ended.code == STOPPED:  # its words name a signal and not the cause
            return wrong(Code.KERNELS_LATE, step=name, limit=ended.seconds)
        if ended is None or ended.code:
            words, lines = _words(ended), ended.text.splitlines() if ended else []
            if full := causes.of_full_disk(subject.folder, lines):
                return wrong(full.code, **full.values, build=words.get("last"))
            return wrong(Code.KERNELS_FAIL, step=name, **words)
    subject.built[_kernel_key(subject)] = subject.name
    return ok(Code.KERNELS_BUILT, seconds=steps["configure"].seconds + steps["compile"].seconds)


def _words(ended: Ended | None) -> dict[str, Any]:
    if ended is None:
        return {}
    return {"exit_code": ended.code, "last": telling(ended.text) or None}


# ---- the nodes ----


def seen(subject: Subject) -> Finding:
    """Every node sees the job's folder, our Python and the sources."""
    trial = subject.trial
    if trial.unseen:
        return wrong(Code.FOLDER_UNSEEN, path=str(subject.folder), hosts=list(trial.unseen.items()))
    for path in (sys.executable, str(SOURCES), str(subject.folder)):
        if hosts := [node["host"] for node in trial.nodes if not node["sees"].get(path, True)]:
            return wrong(Code.PATH_UNSEEN, path=path, hosts=hosts)
    return ok(Code.ALL_SEEN, path=str(paths.home()), nodes=len(trial.nodes))


def alike(subject: Subject) -> Finding:
    """The nodes of a launch are alike, and have the cores that the site file gives them."""
    nodes, claimed = subject.trial.nodes, subject.partition["cores"]
    for node in nodes:
        if (cores := _cores(node)) < claimed:
            return wrong(Code.CORES_CLAIMED, claimed=claimed, cores=cores, host=node["host"])
    differences = []
    for name, values in _by_value(nodes).items():
        if len(values) > 1:
            differences.append([name, [[value, hosts] for value, hosts in values.items()]])
    if differences:
        return wrong(Code.NODES_DIFFER, differences=differences)
    first = nodes[0]
    values = {"nodes": len(nodes), "cores": _cores(first), "model": first["processor"]["model"]}
    return ok(Code.NODES_ALIKE, **values, memory=min(node["memory"] for node in nodes))


def _cores(node: Mapping[str, Any]) -> int:
    return node["processor"]["num_cpus"] // node["processor"]["num_cpus_per_core"]


def _by_value(nodes: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, list[str]]]:
    """name of a fact -> its values -> the hosts that have each; memory that is nearly equal is."""
    most = max(node["memory"] for node in nodes)
    names = sorted({name for node in nodes for name in _devices(node)})
    facts: dict[str, dict[str, list[str]]] = {}
    for node in nodes:
        values = {name: node["processor"][name] for name in SHAPE}
        values |= {name: node[name] for name in ALIKE}
        near = node["memory"] >= (1 - LIMITS.node_memory_change) * most
        values["memory"] = most if near else node["memory"]
        values |= {name: _devices(node).get(name) for name in names}
        for name, value in values.items():
            facts.setdefault(name, {}).setdefault(str(value), []).append(node["host"])
    return facts


def _devices(node: Mapping[str, Any]) -> dict[str, str]:
    """Network devices that are up, each with its rate."""
    return {
        device["name"]: f"{device['rate']:g} Gb/s" if device["rate"] else device["state"]
        for device in node.get("networks", [])
        if device["state"] in UP
    }


def as_known(subject: Subject) -> Finding | None:
    """The nodes are as NAME.json says."""
    if subject.partition["scheduler"] == "local" and subject.facts is None:
        return None
    if (known := subject.known) is None:
        return not_tried(Code.NO_FACTS, system=subject.site.name)
    changes: dict[tuple[str, str, str], list[str]] = {}
    for node in subject.trial.nodes:
        for change in _changes(known, node):
            changes.setdefault(change, []).append(node["host"])
    if changes:
        return wrong(
            Code.FACTS_CHANGED,
            system=subject.site.name,
            changes=[[*change, hosts] for change, hosts in changes.items()],
        )
    return ok(Code.FACTS_HOLD, system=subject.site.name, written=subject.facts.get("written"))


def _changes(known: Mapping[str, Any], node: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Returns what of a node is not as it was known: (name, before, now)."""
    changes = []
    was, now = known.get("processor", {}), node["processor"]
    for name in ("model", "num_cpus_per_core", "num_sockets"):
        if was.get(name, now[name]) != now[name]:
            changes.append((name, str(was[name]), str(now[name])))
    # Jobs may have fewer cores than the node shows, which are those that NAME.json has.
    if was and (cores := was["num_cpus"] // was["num_cpus_per_core"]) > _cores(node):
        changes.append(("cores", str(cores), str(_cores(node))))
    memory = known.get("memory")
    if memory and abs(node["memory"] / memory - 1) > LIMITS.node_memory_change:
        changes.append(("memory", str(memory), str(node["memory"])))
    for name in ("smt", "governor", "microcode"):
        if known.get(name, node[name]) != node[name]:
            changes.append((name, known[name], node[name] or "unknown"))
    devices = _devices(node)
    for name, before in _devices(known).items():
        if devices.get(name) != before:
            changes.append((name, before, devices.get(name, "down")))
    return changes


# ---- launches ----


def one_world(subject: Subject) -> Finding:
    """The launcher starts one MPI world for every layout."""
    for layout, outcome in subject.outcomes().items():
        if outcome.fault and outcome.fault.code != Code.MISPLACED:
            return Finding(State.WRONG, _of_layout(outcome, layout))
    first = next(iter(subject.outcomes().values()), None)
    if first is None:
        return wrong(Code.NO_WORLD, launcher=subject.launcher.name)
    values = {"ranks": len(first.ranks), "hosts": len({host for host, _ in first.ranks})}
    return ok(Code.ONE_WORLD, launcher=first.launcher.name, library=first.library, **values)


def _of_layout(outcome: Outcome, layout: str) -> Reason:
    """The fault of a layout; two ranks say enough of where all are."""
    fault = outcome.fault.with_values(layout=layout)
    return fault.with_values(seats=fault["seats"][:2]) if fault["seats"] else fault


def cores_of_their_own(subject: Subject) -> Finding:
    """Each rank has cores of its own, for every layout."""
    for layout, outcome in subject.outcomes().items():
        if outcome.fault:
            fault = _of_layout(outcome, layout)
            known = subject.survey
            return Finding(
                State.WRONG, known.explained(outcome.launcher.name, fault) if known else fault
            )
    shapes = [[name, str(outcome.shape)] for name, outcome in subject.outcomes().items()]
    return ok(Code.CORES_OWN, layouts=shapes)


def rank_exit(subject: Subject) -> Finding:
    """A rank that exits with an error ends its launch soon, and the launcher says so."""
    ended = subject.trial.steps.get("leave")
    if ended is None:
        return wrong(Code.RANK_EXIT_HANGS)
    left = re.search(r"^LEFT (\S+)$", ended.text, re.M)  # its start-up may take long
    seconds = ended.end - float(left[1]) if left else ended.seconds
    if seconds > LIMITS.rank_exit:
        return wrong(Code.RANK_EXIT_HANGS, seconds=seconds)
    if ended.code == 0:
        return wrong(Code.RANK_EXIT_LOST, launcher=subject.launcher.name, left=EXIT)
    return ok(Code.RANK_EXIT, seconds=seconds, exit_code=ended.code, left=EXIT)


# ---- messages ----


def network_used(subject: Subject) -> Finding | None:
    """Messages between nodes go through the fast device, by the bytes that it sent."""
    if subject.nodes < 2 or not (outcomes := subject.outcomes()):
        return None
    carried = next(iter(outcomes.values())).carried
    known = (subject.known or {}).get("carried", {})
    first = subject.trial.nodes[0]
    fast = {d["name"]: d for d in first["networks"] if d["kind"] in FAST and d["state"] in UP}
    expected = {*fast, *(name for name, part in known.items() if part > 0.5)}
    expected = {*subject.partition["extras"].get("network", [])} or expected
    part = sum(carried.get(name, 0.0) for name in expected) if expected else sum(carried.values())
    parts = sorted(carried.items(), key=lambda item: -item[1])
    if part >= LIMITS.carried:
        return ok(Code.CARRIED, carried=parts)
    if sum(carried.values()) < LIMITS.carried:
        return not_tried(Code.BYTES_UNCOUNTED, carried=parts)
    kinds = {d["name"]: (d["kind"], d["rate"]) for d in first["networks"]}
    wanted = [[name, *kinds.get(name, ("", 0.0))] for name in sorted(expected)]
    return wrong(Code.NETWORK_UNUSED_BY, carried=parts, expected=wanted)


def link_speed(subject: Subject) -> Finding | None:
    """Latency and bandwidth are as NAME.json has them, of the slowest node."""
    outcome = next(iter(subject.outcomes().values()), None)
    if subject.nodes < 2 or outcome is None or outcome.latency is None:
        return None
    now = {"latency": outcome.latency, "bandwidth": outcome.bandwidth}
    known = subject.known or {}
    if not known.get("bandwidth"):
        return not_tried(Code.SPEED_UNKNOWN, **now, system=subject.site.name)
    before = {"latency_before": known["latency"], "bandwidth_before": known["bandwidth"]}
    slow_start = outcome.latency > LIMITS.link_factor * known["latency"]
    narrow = outcome.bandwidth < known["bandwidth"] / LIMITS.link_factor
    if slow_start or narrow:
        key = (lambda link: link[3]) if narrow else (lambda link: -link[2])
        slowest = min(outcome.links, key=key)
        return wrong(Code.LINK_SLOW, **now, **before, pair=slowest[:2])
    return ok(Code.LINK_SPEED, **now, **before)
