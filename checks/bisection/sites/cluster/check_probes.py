"""The probes of a site: the file, the scheduler, the queue, its nodes; then what its job shows."""

import itertools
import math
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bisection import schedulers
from bisection.core import paths
from bisection.core.commands import option_value
from bisection.core.grouping import grouped
from bisection.core.reasons import Code, Reason
from bisection.core.thresholds import LIMITS
from bisection.kernels import launch_faults
from bisection.schedulers.survey import Survey
from bisection.sites.cluster.check import Finding, Probe, Subject, not_tried, ok, wrong
from bisection.sites.cluster.facts import FAST, UP, cores_of
from bisection.sites.cluster.jobs import STOPPED, Ended, Step, refusal
from bisection.sites.cluster.trial import Outcome, program, telling, try_queue
from bisection.sites.rules import site_defects

SOURCES = paths.ROOT / "src"
KERNEL = "bisection-patterns"  # the one that is built soonest
EXIT = 3  # what a rank leaves with
LONGEST_LAUNCH = 15 * 60  # s, Launch.time_limit (bisection/rfm/launch.py)


# ---- before the job ----


def loads(subject: Subject) -> Finding:
    """The site file loads, with all checks, as `bisection doctor` has it."""
    site = subject.site
    defects = [d for d in [*site.defects, *site_defects(site)] if not d.is_note]
    if defects:
        first, more = defects[0], len(defects) - 1 or None
        where = {"path": first.path, "line": first.line}
        return wrong(Code.SITE_DEFECTS(**where, first=first.reason, more=more))
    return ok(Code.SITE_LOADS(partitions=[part["name"] for part in site.partitions]))


def scheduler_answers(subject: Subject) -> Finding:
    """The scheduler answers."""
    known = [*map(schedulers.of, sorted(subject.schedulers))]
    if unread := [scheduler.name for scheduler in known if not scheduler.is_read]:
        return not_tried(Code.SCHEDULER_UNASKED(scheduler=unread[0]))
    if all(scheduler.is_local for scheduler in known):
        return ok(Code.NO_SCHEDULER())
    survey = _survey(subject)
    version = f"{survey.kind} {survey.version}"
    return ok(Code.SCHEDULER_ANSWERS(version=version, cluster=survey.cluster or None))


def _survey(subject: Subject) -> Survey:
    """The survey of a partition's scheduler, read once per account; SchedulerError if it does not
    answer."""
    account = subject.account
    if account not in subject.surveys:
        subject.surveys[account] = subject.scheduler.read(account)
    return subject.surveys[account]


def accounting(subject: Subject) -> Finding | None:
    """ReFrame's back-end `slurm` needs sacct."""
    needs = {schedulers.of(name).needs_accounting for name in subject.schedulers}
    if not needs - {None}:
        return None
    if True not in needs:
        return ok(Code.ACCOUNTING_UNUSED())
    answers = next(iter(subject.surveys.values())).accounting
    return ok(Code.ACCOUNTING()) if answers else wrong(Code.NO_ACCOUNTING())


def account(subject: Subject) -> Finding | None:
    """The queue is open to this user and account."""
    if subject.local:
        return None
    survey = _survey(subject)
    used, name = subject.account or None, subject.queue_name
    if survey.account_needed:
        if not used and survey.decisions:
            return wrong(survey.decisions[0])
        if used and used not in survey.accounts:
            return wrong(Code.ACCOUNT_UNKNOWN(account=used, accounts=survey.accounts))
    if (info := subject.info) is None:
        known = [queue.name for queue in survey.queues]
        return wrong(Code.QUEUE_UNKNOWN(queue=name, known=known)) if name else None
    if info.closed and info.closed.code != Code.QUEUE_EMPTY:
        return wrong(info.closed)
    needed = survey.account_needed or None
    return ok(Code.QUEUE_OPEN(queue=info.name, account=used, needed=needed))


def nodes_up(subject: Subject) -> Finding | None:
    """Enough nodes of the queue take jobs."""
    if (info := subject.info) is None:
        return None
    feature = option_value(subject.access, "-C", "--constraint")
    nodes = [node for group in info.groups for node in group.nodes]
    # A constraint may be an expression, which is Slurm's to evaluate.
    nodes = [node for node in nodes if feature in node.features] or nodes
    down = [(node.name, node.down) for node in nodes if node.down]
    up = len(nodes) - len(down)
    values = {"up": up, "nodes": len(nodes), "asked": subject.nodes, "down": down or None}
    return (ok if up >= subject.nodes else wrong)(Code.NODES_UP(**values))


def placed(subject: Subject) -> Finding | None:
    """The scheduler could place a launch of each layout; it is asked, and nothing is submitted."""
    request, limit = replace(subject.request, name=f"{subject.name}.place"), _launch_limit(subject)
    for layout, shape in subject.shapes.items():
        words = refusal(replace(request, shape=shape), limit)
        if words is None:
            return None
        if words:
            return wrong(Code.NOT_PLACED(layout=layout, geometry=str(shape), refused=words))
    return ok(Code.PLACED(layouts=[f"{name} {shape}" for name, shape in subject.shapes.items()]))


def _launch_limit(subject: Subject) -> int:
    """The time limit of a launch, s."""
    return min(LONGEST_LAUNCH, subject.extras.get("max_time", LONGEST_LAUNCH))


# ---- the job ----


def job_runs(subject: Subject) -> Finding:
    """One job runs to its end; all that it showed is kept."""
    request, shapes = subject.request, list(subject.shapes.values())
    launch = subject.launcher.command(shapes[0])
    builds: list[Step] = []
    leave = [*launch, str(program(request)), "leave", str(EXIT)]
    further = [Step("leave", leave)]
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
            if full := launch_faults.of_full_disk(subject.folder, ended.text.splitlines()):
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
    if name == "memory" and usual and value:
        return abs(value / usual - 1) <= LIMITS.node_memory_change
    return value == usual


def alike(subject: Subject) -> Finding:
    """The nodes of a launch are alike, and have the cores that the site file gives them."""
    nodes, claimed = subject.trial.nodes, subject.partition["cores"]
    traits = {node["host"]: _traits(node) for node in nodes}
    usual = max(node["memory"] for node in nodes)
    for host, of_host in traits.items():
        if of_host["cores"] < claimed:
            counts = {"claimed": claimed, "cores": of_host["cores"]}
            return wrong(Code.CORES_CLAIMED(**counts, host=host))
        if _alike("memory", of_host["memory"], usual):
            of_host["memory"] = usual
    differences = []
    for name in dict.fromkeys(itertools.chain(*traits.values())):
        hosts = grouped(traits, lambda host, name=name: str(traits[host].get(name)))
        if len(hosts) > 1:
            differences.append([name, list(hosts.items())])
    if differences:
        return wrong(Code.NODES_DIFFER(differences=differences))
    processor, memory = nodes[0]["processor"], min(node["memory"] for node in nodes)
    values = {"nodes": len(nodes), "cores": cores_of(processor), "model": processor["model"]}
    return ok(Code.NODES_ALIKE(**values, memory=memory))


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
        return wrong(Code.FACTS_CHANGED(changes=rows))
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
    shapes = [f"{layout} {outcome.shape}" for layout, outcome in subject.outcomes.items()]
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
    return ok(Code.RANK_EXIT(seconds=seconds, exit_code=ended.code))


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
    """Latency and bandwidth are as NAME.json has them, of the slowest node. Where other processes
    had the cores of a slow link's ranks, that says nothing of the link, unless it is far slower."""
    outcome = next(iter(subject.trial.outcomes), None)
    if subject.nodes < 2 or outcome is None or outcome.latency is None:
        return None
    now = [outcome.latency, outcome.bandwidth]
    known = subject.known or {}
    if not known.get("bandwidth"):
        return not_tried(Code.SPEED_UNKNOWN(now=now, system=subject.site.name))
    before = [known["latency"], known["bandwidth"]]
    slow_start = outcome.latency > LIMITS.link_factor * known["latency"]
    narrow = outcome.bandwidth < known["bandwidth"] / LIMITS.link_factor
    if slow_start or narrow:
        key = (lambda link: link[3]) if narrow else (lambda link: -link[2])
        link = min(outcome.links, key=key)
        slow = {"now": now, "before": before, "pair": link[:2]}
        gross = outcome.bandwidth < known["bandwidth"] / LIMITS.link_gross
        if link[4] > LIMITS.preempted_sample and not gross:
            return not_tried(Code.LINK_DISTURBED(**slow, waited=link[4]))
        return wrong(Code.LINK_SLOW(**slow))
    return ok(Code.LINK_SPEED(now=now, before=before))


# ---- memory and time ----


def limits(subject: Subject) -> Finding | None:
    """A launch may have the memory and the time that it needs.

    The largest launch of the nightly tier is that of the patterns; what other kernels need hardly
    depends on the machine.
    """
    trial, asked = subject.trial, _launch_limit(subject)
    longest = subject.info.max_time if subject.info else None
    if longest is not None and longest < asked:
        return wrong(Code.TIME_SHORT(limit=longest, asked=asked))
    if not trial.nodes:
        return None
    # A node may have more than its scheduler gives away, also where that is not enforced.
    groups = subject.info.groups if subject.info else ()
    given = {node.name: node.memory for group in groups for node in group.nodes if node.memory}
    of_nodes = {
        node["host"]: min(node["granted"], given.get(node["node"] or node["host"], math.inf))
        for node in trial.nodes
    }
    host = min(of_nodes, key=of_nodes.__getitem__)
    memory = min(of_nodes[host], trial.memory or math.inf)
    buffers = LIMITS.patterns_memory * 2**20 * subject.partition["cores"]
    needed = LIMITS.node_memory * 2**30 + buffers
    values = {"memory": memory, "needed": needed, "host": host}
    if memory < needed:
        return wrong(Code.MEMORY_SHORT(**values))
    return ok(Code.LIMITS_SUFFICE(**values, limit=longest))


# In this order; a person reads them from above, and mends the first that is wrong.
PROBES = (
    Probe("file", "site file loads", loads, of_site=True),
    Probe("scheduler", "scheduler answers", scheduler_answers, ["file"], of_site=True),
    Probe("accounting", "accounting database", accounting, ["scheduler"], of_site=True),
    Probe("account", "queue and account", account, ["scheduler"]),
    Probe("nodes", "nodes are up", nodes_up, ["account"]),
    Probe("placement", "launches can be placed", placed, ["nodes"]),
    Probe("job", "a job runs", job_runs, ["placement"]),
    Probe("modules", "modules load in a job", modules_load, ["job"]),
    Probe("program", "an MPI program builds", program_builds, ["modules"]),
    Probe("kernels", "kernels build and run", kernels_build, ["modules"]),
    Probe("seen", "nodes see our files", seen, ["job"]),
    Probe("alike", "nodes are alike", alike, ["seen"]),
    Probe("facts", "nodes are as recorded", as_known, ["seen"]),
    Probe("world", "one MPI world", one_world, ["program", "seen"]),
    Probe("cores", "a core per rank", cores_of_their_own, ["world"]),
    Probe("network", "messages use the network", network_used, ["world"]),
    Probe("speed", "latency and bandwidth", link_speed, ["world"]),
    Probe("exit", "a failing rank ends its launch", rank_exit, ["world"]),
    Probe("limits", "memory and time suffice", limits, ["job"]),
)
