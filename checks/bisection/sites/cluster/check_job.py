"""Probes of a site by its job: modules, builds, what nodes see and are, launches, messages."""

import re
import sys
from collections.abc import Mapping
from typing import Any

from bisection.core import paths
from bisection.core.reasons import Code, Reason
from bisection.core.slurm import SLURM
from bisection.core.thresholds import LIMITS
from bisection.rfm import causes
from bisection.sites.cluster.check_model import Finding, Subject, not_tried, ok, wrong
from bisection.sites.cluster.facts import FAST, UP, cores_of
from bisection.sites.cluster.jobs import STOPPED, Ended, Step
from bisection.sites.cluster.trial import Outcome, program, telling, try_queue

SOURCES = paths.ROOT / "src"
KERNEL = "bisection-patterns"  # the one that is built soonest
EXIT = 3  # what a rank leaves with


# ---- the job ----


def job_runs(subject: Subject) -> Finding:
    """One job runs to its end; all that it showed is kept."""
    queue, shapes = subject.queue, list(subject.shapes.values())
    environ = subject.site.environs[subject.environ]
    variables = {**subject.partition["variables"], **environ["variables"]}
    if subject.partition["scheduler"] in SLURM:  # as launches have it
        variables |= {"SLURM_KILL_BAD_EXIT": "1"}
    launch = subject.launcher.command(shapes[0])
    builds: list[Step] = []
    further = [
        Step("leave", [*launch, str(program(queue, subject.folder)), "leave", str(EXIT)]),
    ]
    if subject.kernel_key not in subject.built and not subject.by_spack:
        build = str(subject.folder / f"{subject.name}.kernels")
        builds = _builds(subject, build)
        run = [*launch, f"{build}/network/{KERNEL}", "--largest", "64", "--repeats", "1"]
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
        return wrong(trial.fault)
    hosts = trial.hosts or sorted(node["host"] for node in trial.nodes)
    return ok(Code.JOB_RAN(job=trial.job, hosts=hosts))


def _builds(subject: Subject, build: str) -> list[Step]:
    """Configures all kernels in a folder and builds one."""
    march = subject.extras.get("march")
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
        return wrong(Code.MODULES_FAIL(modules=list(unloaded.items())))
    return ok(Code.MODULES_LOADED(modules=subject.modules))


def program_builds(subject: Subject) -> Finding:
    """An MPI program builds on a node."""
    if subject.trial.build:
        return wrong(subject.trial.build)
    compiler = subject.trial.steps["build"].text.partition("\n")[0]
    return ok(Code.PROBE_BUILT(compiler=compiler))


def kernels_build(subject: Subject) -> Finding | None:
    """The kernels configure and build on a node, and one runs on all."""
    if subject.by_spack:
        return not_tried(Code.KERNELS_BY_SPACK(environ=subject.environ))
    if subject.kernel_key in subject.built:
        return ok(Code.KERNELS_BUILT(partition=subject.built[subject.kernel_key]))
    steps = subject.trial.steps
    for name in ("configure", "compile", "kernel"):
        ended = steps.get(name, Ended(1, 0.0, ""))
        if ended.code == STOPPED:  # its words name a signal and not the cause
            return wrong(Code.KERNELS_LATE(step=name, limit=ended.seconds))
        if ended.code:
            last = telling(ended.text) or None
            if full := causes.of_full_disk(subject.folder, ended.text.splitlines()):
                return wrong(full.with_values(build=last))
            return wrong(Code.KERNELS_FAIL(step=name, exit_code=ended.code, last=last))
    subject.built[subject.kernel_key] = subject.name
    return ok(Code.KERNELS_BUILT(seconds=steps["configure"].seconds + steps["compile"].seconds))


# ---- the nodes ----


def seen(subject: Subject) -> Finding:
    """Every node sees the job's folder, our Python and the sources."""
    trial = subject.trial
    if unseen := list(trial.unseen.items()):
        return wrong(Code.FOLDER_UNSEEN(path=str(subject.folder), hosts=unseen))
    for path in (sys.executable, str(SOURCES), str(subject.folder)):
        if hosts := [node["host"] for node in trial.nodes if not node["sees"].get(path, True)]:
            return wrong(Code.PATH_UNSEEN(path=path, hosts=hosts))
    return ok(Code.ALL_SEEN(path=str(paths.home()), nodes=len(trial.nodes)))


def _traits(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what is alike on alike nodes, by name: cores, memory, the network devices that are up
    with their rates, and more.

    Args:
        facts: of a node, or of a partition as NAME.json has them.
    """
    processor = facts.get("processor") or {}
    names = ("model", "num_cpus_per_core", "num_sockets")
    traits = {name: processor[name] for name in names if name in processor}
    if processor:
        traits["cores"] = cores_of(processor)
    names = ("governor", "smt", "microcode", "kernel", "memory")
    traits |= {name: facts[name] for name in names if name in facts}
    for device in facts.get("networks", []):
        if device["state"] in UP:
            rate = f"{device['rate']:g} Gb/s" if device["rate"] else device["state"]
            traits[device["name"]] = rate
    return traits


def _alike(name: str, value: Any, usual: Any) -> bool:
    """True if a trait is the usual one, or memory is nearly that."""
    if name == "memory" and usual and value:
        return abs(value / usual - 1) <= LIMITS.node_memory_change
    return value == usual


def alike(subject: Subject) -> Finding:
    """The nodes of a launch are alike, and have the cores that the site file gives them."""
    nodes, claimed = subject.trial.nodes, subject.partition["cores"]
    traits = {node["host"]: _traits(node) for node in nodes}
    for host, of_host in traits.items():
        if of_host["cores"] < claimed:
            counts = {"claimed": claimed, "cores": of_host["cores"]}
            return wrong(Code.CORES_CLAIMED(**counts, host=host))
    usual = {"memory": max(node["memory"] for node in nodes)}
    differences = []
    for name in dict.fromkeys(name for of_host in traits.values() for name in of_host):
        hosts: dict[str, list[str]] = {}
        for host, of_host in traits.items():
            value = of_host.get(name)
            value = usual[name] if name in usual and _alike(name, value, usual[name]) else value
            hosts.setdefault(str(value), []).append(host)
        if len(hosts) > 1:
            differences.append([name, list(hosts.items())])
    if differences:
        return wrong(Code.NODES_DIFFER(differences=differences))
    values = {"nodes": len(nodes), "cores": _traits(nodes[0])["cores"]}
    memory = min(node["memory"] for node in nodes)
    model = nodes[0]["processor"]["model"]
    return ok(Code.NODES_ALIKE(**values, model=model, memory=memory))


def as_known(subject: Subject) -> Finding | None:
    """The nodes are as NAME.json has them.

    Jobs may have fewer cores than a node shows, which are those that NAME.json has. Devices that it
    lacks and another Linux kernel are no change.
    """
    system = subject.site.name
    if subject.local and subject.facts is None:
        return None
    if subject.known is None:
        return not_tried(Code.NO_FACTS(system=system))
    changes: dict[tuple[str, str, str], list[str]] = {}
    for node in subject.trial.nodes:
        traits = _traits(node)
        for name, before in _traits(subject.known).items():
            now = traits.get(name)
            more = name == "cores" and now > before
            if name != "kernel" and not more and not _alike(name, now, before):
                now = "down" if now is None else now
                changes.setdefault((name, str(before), str(now)), []).append(node["host"])
    if changes:
        rows = [[*change, hosts] for change, hosts in changes.items()]
        return wrong(Code.FACTS_CHANGED(system=system, changes=rows))
    return ok(Code.FACTS_HOLD(system=system, written=subject.facts.get("written")))


# ---- launches ----


def one_world(subject: Subject) -> Finding:
    """The launcher starts one MPI world for every layout."""
    for layout, outcome in subject.outcomes.items():
        if outcome.fault and outcome.fault.code != Code.MISPLACED:
            return wrong(_of_layout(outcome, layout))
    first = next(iter(subject.outcomes.values()), None)
    if first is None:
        return wrong(Code.NO_WORLD(launcher=subject.launcher.name))
    values = {"ranks": len(first.ranks), "hosts": len({host for host, _ in first.ranks})}
    return ok(Code.ONE_WORLD(launcher=first.launcher.name, library=first.library, **values))


def _of_layout(outcome: Outcome, layout: str) -> Reason:
    """The fault of a layout; two ranks say enough of where all are."""
    fault = outcome.fault.with_values(layout=layout)
    return fault.with_values(seats=fault["seats"][:2]) if fault["seats"] else fault


def cores_of_their_own(subject: Subject) -> Finding:
    """Each rank has cores of its own, for every layout."""
    for layout, outcome in subject.outcomes.items():
        if outcome.fault:
            fault, survey = _of_layout(outcome, layout), subject.surveys.get(subject.account)
            return wrong(survey.explained(outcome.launcher.name, fault) if survey else fault)
    shapes = [[layout, str(outcome.shape)] for layout, outcome in subject.outcomes.items()]
    return ok(Code.CORES_OWN(layouts=shapes))


def rank_exit(subject: Subject) -> Finding:
    """A rank that exits with an error ends its launch soon, and the launcher says so."""
    ended = subject.trial.steps.get("leave")
    if ended is None:
        return wrong(Code.RANK_EXIT_HANGS())
    left = re.search(r"^LEFT (\S+)$", ended.text, re.M)  # its start-up may take long
    seconds = ended.end - float(left[1]) if left else ended.seconds
    if seconds > LIMITS.rank_exit:
        return wrong(Code.RANK_EXIT_HANGS(seconds=seconds))
    if ended.code == 0:
        return wrong(Code.RANK_EXIT_LOST(launcher=subject.launcher.name, left=EXIT))
    return ok(Code.RANK_EXIT(seconds=seconds, exit_code=ended.code, left=EXIT))


# ---- messages ----


def network_used(subject: Subject) -> Finding | None:
    """Messages between nodes go through the fast device, by the bytes that it sent."""
    if subject.nodes < 2 or not subject.trial.outcomes:
        return None
    carried = subject.trial.outcomes[0].carried
    devices = {device["name"]: device for device in subject.trial.nodes[0]["networks"]}
    fast = {n for n, d in devices.items() if d["kind"] in FAST and d["state"] in UP}
    before = (subject.known or {}).get("carried", {})
    usual = {*fast, *(name for name, part in before.items() if part > 0.5)}
    expected = {*subject.extras.get("network", [])} or usual or set(carried)
    parts = sorted(carried.items(), key=lambda item: -item[1])
    if sum(carried.get(name, 0.0) for name in expected) >= LIMITS.carried:
        return ok(Code.CARRIED(carried=parts))
    if sum(carried.values()) < LIMITS.carried:
        return not_tried(Code.BYTES_UNCOUNTED(carried=parts))
    absent = {"kind": "", "rate": 0.0}
    chosen = [(name, devices.get(name, absent)) for name in sorted(expected)]
    wanted = [[name, device["kind"], device["rate"]] for name, device in chosen]
    return wrong(Code.NETWORK_UNUSED_BY(carried=parts, expected=wanted))


def link_speed(subject: Subject) -> Finding | None:
    """Latency and bandwidth are as NAME.json has them, of the slowest node."""
    outcome = next(iter(subject.trial.outcomes), None)
    if subject.nodes < 2 or outcome is None or outcome.latency is None:
        return None
    now = {"latency": outcome.latency, "bandwidth": outcome.bandwidth}
    known = subject.known or {}
    if not known.get("bandwidth"):
        return not_tried(Code.SPEED_UNKNOWN(**now, system=subject.site.name))
    before = {"latency_before": known["latency"], "bandwidth_before": known["bandwidth"]}
    slow_start = outcome.latency > LIMITS.link_factor * known["latency"]
    narrow = outcome.bandwidth < known["bandwidth"] / LIMITS.link_factor
    if slow_start or narrow:
        key = (lambda link: link[3]) if narrow else (lambda link: -link[2])
        return wrong(Code.LINK_SLOW(**now, **before, pair=min(outcome.links, key=key)[:2]))
    return ok(Code.LINK_SPEED(**now, **before))
