"""The probes of a site: the file, the scheduler, the queue, its nodes; then what its job shows."""

import itertools
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bisection.core import paths
from bisection.core.commands import option_value, telling
from bisection.core.format import amount, duration, plural, some
from bisection.core.reasons.base import Reason, with_reasons
from bisection.core.reasons.launches import Misplaced, NoWorld, Worlds
from bisection.core.reasons.machines import carried_by
from bisection.core.thresholds import LIMITS
from bisection.kernels import launch_faults
from bisection.schedulers import SCHEDULERS
from bisection.schedulers.survey import Group, SchedulerSurvey, no_nodes
from bisection.sites.before_run import unknown_queue
from bisection.sites.cluster.facts import FAST, UP, cores_of
from bisection.sites.cluster.jobs import STOPPED, Step, StepEnd, refusal
from bisection.sites.cluster.probe_runner import (
    ProbeResult,
    SiteProbe,
    Subject,
    fault,
    not_tried,
    ok,
    wrong,
)
from bisection.sites.cluster.trial import program, try_queue
from bisection.sites.rules import site_defects

SOURCES = paths.ROOT / "src"
KERNEL = "bisection-patterns"  # the one that is built soonest
EXIT = 3  # what a rank leaves with
LONGEST_LAUNCH = 15 * 60  # s, Launch.time_limit (bisection/rfm/launch.py)
STEPS = {  # of a build, by what is wrong where they fail
    "configure": "CMake does not configure the kernels",
    "compile": "a kernel does not compile",
    "kernel": "a kernel does not run",
}
TRAITS = "model num_cpus_per_core num_sockets cores governor smt microcode kernel memory".split()
OF_NODES = {"num_cpus_per_core": "CPUs per core", "num_sockets": "sockets", "smt": "SMT"}
HANGS = "its launch did not end in 10 s"
OTHER_LAUNCHER = "Use another launcher, or its option that ends all ranks with one."


def _refresh(subject: Subject) -> str:
    return f"`bisection site new {subject.site.name} --refresh`"


def _memory(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"


def _value(name: str, value: Any) -> str:
    if name == "memory":
        return _memory(value)
    return {"": "unknown", None: "not up"}.get(value, str(value))


def _speed(latency: float, bandwidth: float) -> str:
    return f"{amount(latency, 's')}, {amount(bandwidth, 'B/s')}"


# ---- before the job ----


def loads(subject: Subject) -> ProbeResult:
    """The site file loads, with all checks, as `bisection doctor` has it."""
    site = subject.site
    defects = [defect for defect in site_defects(site) if not defect.is_note]
    if defects:
        first, more = defects[0], f" (and {len(defects) - 1} more)" if defects[1:] else ""
        lists = f"`bisection doctor --system {site.name}` lists all defects."
        text = f"{first.path}:{first.line}: {first.text}{more}"
        return wrong(text, f"Mend what it names; {lists}")
    return ok(f"partitions: {some(part['name'] for part in site.partitions)}")


def scheduler_answers(subject: Subject) -> ProbeResult:
    if unread := [scheduler.name for scheduler in subject.schedulers if not scheduler.is_read]:
        known = dict.fromkeys(s.title for s in SCHEDULERS if s.is_read and not s.is_local)
        remedy = f"{some(known)} are checked; `bisection run` works with others."
        return not_tried(f"{unread[0]} cannot be asked", remedy)
    if all(scheduler.is_local for scheduler in subject.schedulers):
        return ok("none: launches run on this host")
    survey = _survey(subject)
    cluster = f", cluster {survey.cluster}" if survey.cluster else ""
    return ok(f"{survey.kind} {survey.version}{cluster}")


def _survey(subject: Subject) -> SchedulerSurvey:
    """The survey of a partition's scheduler, read once per account and reservation; SchedulerError
    if it does not answer."""
    if subject.whose not in subject.surveys:
        subject.surveys[subject.whose] = subject.scheduler.read(*subject.whose)
    return subject.surveys[subject.whose]


def accounting(subject: Subject) -> ProbeResult | None:
    """ReFrame's back-end `slurm` needs sacct."""
    needs = {scheduler.needs_accounting for scheduler in subject.schedulers}
    if not needs - {None}:
        return None
    if True not in needs:
        return ok("not needed by the back-end squeue")
    if next(iter(subject.surveys.values())).accounting:
        return ok("sacct answers")
    text = 'sacct does not answer, and scheduler="slurm" needs it'
    return wrong(text, 'Write scheduler="squeue" in the site file, or start slurmdbd.')


def account(subject: Subject) -> ProbeResult | None:
    if subject.local:
        return None
    survey = _survey(subject)
    (used, reservation), name = subject.whose, subject.queue_name
    if survey.unusable:
        return fault(survey.unusable, subject.name)
    if survey.account_needed:
        if not used and survey.decisions:
            return fault(survey.decisions[0], subject.name)
        if used and used not in survey.accounts:
            remedy = "Write one of these in the site file (sacctmgr show assoc)."
            known = some(survey.accounts)
            return wrong(f"account {used} is not one of this user: {known}", remedy)
    if (info := subject.info) is None:
        text = unknown_queue(name, [queue.name for queue in survey.queues])
        remedy = "Write one of these in the site file; `sinfo` lists them."
        return wrong(text, remedy) if name else None
    if info.closed and info.closed != no_nodes(info.name):  # nodes_up says that
        return fault(info.closed, subject.name)
    # Slurm's accounting needs one; a site's own policy may want one, too.
    usual = "the default account" if survey.account_needed else "no account is given"
    held = f", reservation {reservation}" if reservation else ""
    return ok(f"{info.name}, " + (f"account {used}" if used else usual) + held)


def nodes_up(subject: Subject) -> ProbeResult | None:
    if (info := subject.info) is None:
        return None
    feature = option_value(subject.access, "-C", "--constraint")
    nodes = [node for group in info.groups for node in group.nodes]
    # A constraint may be an expression, which is Slurm's to evaluate.
    nodes = [node for node in nodes if feature in node.features] or nodes
    asked = Group(nodes)
    why = f"; {with_reasons(asked.down)}" if asked.down else ""
    if asked.up >= subject.nodes:
        return ok(f"{asked.up} of {len(nodes)} up{why}")
    remedy = "Resume sound nodes, `scontrol update nodename=... state=resume`, or use fewer."
    return wrong(f"{asked.up} of {len(nodes)} up, {subject.nodes} needed{why}", remedy)


def placed(subject: Subject) -> ProbeResult | None:
    """The scheduler could place a launch of each layout; it is asked, and nothing is submitted."""
    request, shapes = replace(subject.request, name=f"{subject.name}.place"), subject.shapes
    for layout, shape in shapes.items():
        words = refusal(replace(request, shape=shape), _launch_limit(subject))
        if words is None:
            return None
        if words:
            remedy = f"Correct nodes, cores and options of {subject.name} in the site file."
            return wrong(f"layout {layout}, {shape}: {words}", remedy)
    return ok(some(f"{name} {shape}" for name, shape in shapes.items()))


def _launch_limit(subject: Subject) -> int:
    return min(LONGEST_LAUNCH, subject.extras.get("max_time", LONGEST_LAUNCH))


# ---- the job ----


def job_runs(subject: Subject) -> ProbeResult:
    """One job runs to its end; all that it showed is kept."""
    request, shapes = subject.request, list(subject.shapes.values())
    launch = subject.launcher.command(shapes[0])
    builds: list[Step] = []
    further = [Step("leave", [*launch, str(program(request)), "leave", str(EXIT)])]
    if subject.kernel_key not in subject.built and not subject.by_spack:
        build = str(subject.folder / f"{subject.name}.kernels")
        builds = _builds(subject, build)
        run = [*launch, f"{build}/network/{KERNEL}", "--largest", "64", "--repeats", "1"]
        further.insert(0, Step("kernel", run, limit=60))
    subject.trial = trial = try_queue(
        request,
        [subject.launcher],
        subject.modules,
        shapes=shapes,
        sees=[subject.folder, SOURCES],
        builds=builds,
        build_here=subject.builds_here,
        further=further,
    )
    if trial.fault:
        return fault(trial.fault, subject.name)
    hosts = trial.hosts or sorted(node["host"] for node in trial.nodes)
    return ok(f"job {trial.job} on {some(hosts)}")


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


def modules_load(subject: Subject) -> ProbeResult | None:
    if not subject.modules:
        return None
    if unloaded := subject.trial.modules:
        remedy = "Write modules in the site file that `module avail` lists on a node."
        return wrong(with_reasons(tuple(unloaded.items())), remedy)
    return ok(some(subject.modules))


def program_builds(subject: Subject) -> ProbeResult:
    if subject.trial.build:
        return fault(subject.trial.build, subject.name)
    return ok(subject.trial.steps["build"].text.partition("\n")[0])


def kernels_build(subject: Subject) -> ProbeResult | None:
    """The kernels configure and build on a node, and one runs on all."""
    if subject.by_spack:
        builds = f"`bisection run -p {subject.environ}` builds them."
        return not_tried(f"environment {subject.environ}: Spack builds the kernels", builds)
    if subject.kernel_key in subject.built:
        same = subject.built[subject.kernel_key]
        return ok(f"as on {same}, which is on the same nodes")
    steps = subject.trial.steps
    for name, failed in STEPS.items():
        ended = steps.get(name, StepEnd(1, 0.0, ""))
        if ended.code == STOPPED:  # its words name a signal and not the cause
            remedy = "Other processes use the nodes, or the file system is slow: check again."
            return wrong(f"{failed} within {ended.seconds:.0f} s", remedy)
        if ended.code:
            line = telling(ended.text)
            if full := launch_faults.of_full_disk(subject.folder, ended.text.splitlines()):
                return fault(replace(full, build=line), subject.name)
            remedy = "Load what is missing, or build with Spack: `bisection run -p spack`."
            return wrong(f"{failed}: {line}" if line else failed, remedy)
    subject.built[subject.kernel_key] = subject.name
    seconds = steps["configure"].seconds + steps["compile"].seconds
    return ok(f"configured, one built and run; {duration(seconds)}")


# ---- the nodes ----


def seen(subject: Subject) -> ProbeResult:
    """Every node sees the job's folder, our Python and the sources."""
    trial = subject.trial
    if trial.unseen:
        text = f"{subject.folder} is not seen by {with_reasons(tuple(trial.unseen.items()))}"
        remedy = "Put BISECTION_HOME on a file system that these nodes mount and may write."
        return wrong(text, remedy)
    for path in (sys.executable, str(SOURCES), str(subject.folder)):
        if hosts := [node["host"] for node in trial.nodes if not node["sees"].get(path, True)]:
            text = f"{path} is not seen by {some(hosts)}"
            return wrong(text, "Put it on a file system that these nodes mount.")
    return ok(f"{paths.home()}, on all nodes ({len(trial.nodes)})")


def _traits(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What is alike on alike nodes, by name: cores, memory, the network devices that are up with
    their rates, and more; of the facts of a node, or of a partition as NAME.json has them."""
    processor = facts.get("processor") or {}
    known = {**facts, **processor}
    if processor:
        known["cores"] = cores_of(processor)
    traits = {name: known[name] for name in TRAITS if name in known}
    for device in facts.get("networks", []):
        if device["state"] in UP:
            rate = f"{device['rate']:g} Gb/s" if device["rate"] else device["state"]
            traits[device["name"]] = rate
    return traits


def _alike(name: str, value: Any, usual: Any) -> bool:
    if name == "memory" and usual and value:
        return abs(value / usual - 1) <= LIMITS.node_memory_change
    return value == usual


def alike(subject: Subject) -> ProbeResult:
    """The nodes of a launch are alike, and have the cores that the site file gives them."""
    nodes, claimed = subject.trial.nodes, subject.partition["cores"]
    traits = {node["host"]: _traits(node) for node in nodes}
    usual = max(node["memory"] for node in nodes)
    for host, of_host in traits.items():
        if (cores := of_host["cores"]) < claimed:
            text = f"the site file gives {claimed} cores, {host} has {cores}"
            return wrong(text, f"Correct `processor`, or {_refresh(subject)}.")
        if _alike("memory", of_host["memory"], usual):
            of_host["memory"] = usual
    differences = []
    for name in dict.fromkeys(itertools.chain(*traits.values())):
        hosts: dict[Any, list[str]] = {}
        for host, of_host in traits.items():
            hosts.setdefault(of_host.get(name), []).append(host)
        if len(hosts) > 1:
            sides = (f"{_value(name, value)} on {some(own, 3)}" for value, own in hosts.items())
            differences.append(f"{OF_NODES.get(name, name)} {', '.join(sides)}")
    if differences:
        remedy = "Repair the odd nodes, or give each kind a partition with a constraint."
        return wrong("; ".join(differences), remedy)
    processor, memory = nodes[0]["processor"], min(node["memory"] for node in nodes)
    each = f"{plural(cores_of(processor), 'core')} of {processor['model']}, {_memory(memory)}"
    return ok(f"{plural(len(nodes), 'node')}, each {each}")


def as_known(subject: Subject) -> ProbeResult | None:
    """The nodes are as NAME.json has them.

    Jobs may have fewer cores than a node shows, which are those that NAME.json has. Devices that it
    lacks and another Linux kernel are no change.
    """
    system = subject.site.name
    if subject.local and subject.facts is None:
        return None
    if subject.known is None:
        return not_tried(f"there is no {system}.json", f"{_refresh(subject)} writes it.")
    changes: dict[tuple[str, Any, Any], list[str]] = {}
    for node in subject.trial.nodes:
        traits = _traits(node)
        for name, before in _traits(subject.known).items():
            now = traits.get(name)
            more = name == "cores" and now > before
            if name != "kernel" and not more and not _alike(name, now, before):
                now = "down" if now is None else now
                changes.setdefault((name, before, now), []).append(node["host"])
    if changes:
        texts = [
            f"{OF_NODES.get(name, name)} {_value(name, before)} -> {_value(name, now)} "
            f"on {some(hosts, 3)}"
            for (name, before, now), hosts in changes.items()
        ]
        remedy = f"Repair the nodes, or record it: {_refresh(subject)}."
        return wrong("; ".join(texts), remedy)
    return ok(f"{system}.json, of {(subject.facts or {}).get('written', 'unknown')}")


# ---- launches ----


def one_world(subject: Subject) -> ProbeResult:
    for layout, outcome in subject.outcomes.items():
        if outcome.fault and not isinstance(outcome.fault, Misplaced):
            return fault(_of_layout(outcome.fault, layout), subject.name)
    first = next(iter(subject.outcomes.values()), None)
    if first is None:
        return fault(NoWorld(launcher=subject.launcher.name), subject.name)
    counts = f"ranks: {len(first.ranks)}, nodes: {len({host for host, _ in first.ranks})}"
    return ok(f"{first.launcher.name}, {first.library}: {counts}")


def _of_layout(reason: Reason, layout: str) -> Reason:
    """The fault with its layout; two ranks say enough of where all are."""
    if isinstance(reason, Misplaced):
        return replace(reason, layout=layout, seats=reason.seats[:2])
    return replace(reason, layout=layout) if isinstance(reason, NoWorld | Worlds) else reason


def cores_of_their_own(subject: Subject) -> ProbeResult:
    for layout, outcome in subject.outcomes.items():
        if outcome.fault:
            reason = _of_layout(outcome.fault, layout)
            if survey := subject.surveys.get(subject.whose):
                reason = survey.explained(outcome.launcher.name, reason)
            return fault(reason, subject.name)
    outcomes = subject.outcomes.items()
    return ok(some(f"{layout} {outcome.shape}" for layout, outcome in outcomes))


def rank_exit(subject: Subject) -> ProbeResult:
    """A rank that exits with an error ends its launch soon, and the launcher says so."""
    ended = subject.trial.steps.get("leave")
    if ended is None:
        return wrong(HANGS, OTHER_LAUNCHER)
    left = re.search(r"^LEFT (\S+)$", ended.text, re.M)  # its start-up may take long
    seconds = ended.end - float(left[1]) if left else ended.seconds
    if seconds > LIMITS.rank_exit:
        return wrong(f"{HANGS}, but in {seconds:.1f} s", OTHER_LAUNCHER)
    if ended.code == 0:
        remedy = "Use another launcher: with this one a crash passes for success."
        return wrong(f"a rank exited with {EXIT}, and {subject.launcher.name} with 0", remedy)
    return ok(f"its launch ended in {seconds:.1f} s with exit {ended.code}")


# ---- messages ----


def network_used(subject: Subject) -> ProbeResult | None:
    """Messages between nodes go through the fast device, by the bytes that it sent."""
    if subject.nodes < 2 or not subject.trial.outcomes:
        return None
    carried = subject.trial.outcomes[0].carried
    devices = {device["name"]: device for device in subject.trial.nodes[0]["networks"]}
    fast = {n for n, d in devices.items() if d["kind"] in FAST and d["state"] in UP}
    before = (subject.known or {}).get("carried", {})
    usual = {*fast, *(name for name, part in before.items() if part > 0.5)}
    expected = {*subject.extras.get("network", [])} or usual or set(carried)
    parts = carried_by(sorted(carried.items(), key=lambda item: -item[1]))
    if sum(carried.get(name, 0.0) for name in expected) >= LIMITS.carried:
        return ok(f"{parts} of the bytes")
    if sum(carried.values()) < LIMITS.carried:
        remedy = "Look at the MPI library's own report of its transport."
        return not_tried(f"no device counted them: {parts}", remedy)
    abouts = dict.fromkeys(expected, "not up")
    for name in expected & devices.keys():
        rate = f", {devices[name]['rate']:g} Gb/s" if devices[name]["rate"] else ""
        abouts[name] = devices[name]["kind"] + rate
    wanted = some(f"{name} ({abouts[name]})" for name in sorted(expected))
    remedy = "Look at UCX_TLS, OMPI_MCA_pml, FI_PROVIDER and the MPI build."
    return wrong(f"{parts} of the bytes, not through {wanted}", remedy)


def link_speed(subject: Subject) -> ProbeResult | None:
    """Latency and bandwidth are as NAME.json has them, of the slowest node. Where other processes
    had the cores of a slow link's ranks, that says nothing of the link, unless it is far slower."""
    outcome = next(iter(subject.trial.outcomes), None)
    if subject.nodes < 2 or not outcome or outcome.latency is None or outcome.bandwidth is None:
        return None
    now = _speed(outcome.latency, outcome.bandwidth)
    known = subject.known or {}
    if not known.get("bandwidth"):
        there = f"there is no {subject.site.name}.json"
        return not_tried(f"{now}; {there}", f"{_refresh(subject)} records them.")
    before = _speed(known["latency"], known["bandwidth"])
    narrow = outcome.bandwidth < known["bandwidth"] / LIMITS.link_factor
    if narrow or outcome.latency > LIMITS.link_factor * known["latency"]:
        link = min(outcome.links, key=lambda link: link[3] if narrow else -link[2])
        slow = f"{now} ({link[0]} to {link[1]})"
        gross = outcome.bandwidth < known["bandwidth"] / LIMITS.link_gross
        if link[4] > LIMITS.disturbed_sample and not gross:
            busy = f"not judged, as other processes had the cores in {link[4]:.0%} of the time"
            remedy = "Check again while nothing else runs on these nodes."
            return not_tried(f"{busy}: {slow}, were {before}", remedy)
        remedy = f"Look at its cable, or record it: {_refresh(subject)}."
        return wrong(f"{slow}; were {before}", remedy)
    return ok(f"{now}; were {before}")


# ---- memory and time ----


def limits(subject: Subject) -> ProbeResult | None:
    """A launch may have the memory and the time that it needs.

    The largest launch of the nightly tier is that of the patterns; what other kernels need hardly
    depends on the machine.
    """
    trial, info, asked = subject.trial, subject.info, _launch_limit(subject)
    longest = info.max_time if info else None
    if longest is not None and longest < asked:
        text = f"the queue gives a job {duration(longest)}, a launch asks for {duration(asked)}"
        remedy = "Choose a queue with a longer limit, or write max_time in extras."
        return wrong(text, remedy)
    if not trial.nodes:
        return None
    # A node may have more than its scheduler gives away, also where that is not enforced.
    groups = info.groups if info else ()
    given = {node.name: node.memory for group in groups for node in group.nodes if node.memory}
    memory, host = min(
        (min(node["granted"], given.get(node["node"] or node["host"], math.inf)), node["host"])
        for node in trial.nodes
    )
    memory = min(memory, trial.memory or math.inf)
    buffers = LIMITS.patterns_memory * 2**20 * subject.partition["cores"]
    needed = LIMITS.node_memory * 2**30 + buffers
    if memory < needed:
        text = f"a job has {_memory(memory)} on {host}, the largest launch needs {_memory(needed)}"
        return wrong(text, "Ask for all memory of a node (--mem=0), or use fewer nodes.")
    time = f", {duration(longest)} per job" if longest else ""
    return ok(f"{_memory(memory)} per node, {_memory(needed)} needed{time}")


# In this order; a person reads them from above, and mends the first that is wrong.
PROBES = (
    SiteProbe("file", "site file loads", loads, of_site=True),
    SiteProbe("scheduler", "scheduler answers", scheduler_answers, ["file"], of_site=True),
    SiteProbe("accounting", "accounting database", accounting, ["scheduler"], of_site=True),
    SiteProbe("account", "queue and account", account, ["scheduler"]),
    SiteProbe("nodes", "nodes are up", nodes_up, ["account"]),
    SiteProbe("placement", "launches can be placed", placed, ["nodes"]),
    SiteProbe("job", "a job runs", job_runs, ["placement"]),
    SiteProbe("modules", "modules load in a job", modules_load, ["job"]),
    SiteProbe("program", "an MPI program builds", program_builds, ["modules"]),
    SiteProbe("kernels", "kernels build and run", kernels_build, ["modules"]),
    SiteProbe("seen", "nodes see our files", seen, ["job"]),
    SiteProbe("alike", "nodes are alike", alike, ["seen"]),
    SiteProbe("facts", "nodes are as recorded", as_known, ["seen"]),
    SiteProbe("world", "one MPI world", one_world, ["program", "seen"]),
    SiteProbe("cores", "a core per rank", cores_of_their_own, ["world"]),
    SiteProbe("network", "messages use the network", network_used, ["world"]),
    SiteProbe("speed", "latency and bandwidth", link_speed, ["world"]),
    SiteProbe("exit", "a failing rank ends its launch", rank_exit, ["world"]),
    SiteProbe("limits", "memory and time suffice", limits, ["job"]),
)
