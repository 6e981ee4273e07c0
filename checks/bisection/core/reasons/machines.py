"""Nodes and their adapters, and what `site new` and `site check` come to."""

from typing import Any

from bisection.core.format import amount, duration, plural, some, utc
from bisection.core.reasons.kinds import Topic, clause, with_reasons

STEPS = {
    "configure": "CMake does not configure the kernels",
    "compile": "a kernel does not compile",
    "kernel": "a kernel does not run",
}
OF_NODES = {
    "num_cpus_per_core": "CPUs per core",
    "num_sockets": "sockets",
    "smt": "SMT",
}


def _fact(fact: str, value: Any) -> str:
    if value == "missing":
        return "is missing"
    if fact == "rate":
        return f"has {value:g} Gb/s" if value else "has no known rate"
    return f"is {value or 'in no known state'}" if fact == "state" else f"has firmware {value}"


def _carried(devices: list) -> str:
    return ", ".join(f"{device} {part:.0%}" for device, part in devices) or "no device"


def _memory(size: float) -> str:
    return f"{float(size) / 2**30:.3g} GiB"


def _value(name: str, value: str) -> str:
    return (
        _memory(value) if name == "memory" else {"": "unknown", "None": "not up"}.get(value, value)
    )


def _launcher(launcher: str, layout: str) -> tuple[str, str]:
    return launcher or "the launcher", f" (layout {layout})" if layout else ""


def _speed(speed: list) -> str:
    return f"{amount(speed[0], 's')}, {amount(speed[1], 'B/s')}"


class Machines(Topic):
    """Facts and faults of nodes, adapters and schedulers."""

    # ---- a host in launches; values are of the worst ----

    # lost: share of the time of the cores
    BUSY_CORES = (
        "{host} is slow: other processes used {lost:.0%} of the time of its cores, {median:.1%} on "
        "the median node"
    )
    # ratio: to the mean of the other ranks
    SLOW_WRITER = "{host}: rank {rank} writes files {ratio:.1f} times as slowly as the other ranks"
    TCP_LOSSES = "{host}: TCP sent {fraction:.2%} of its segments again"

    # ghz: of the slowest rank; median: of the launch's ranks on its kind of core
    def SLOW_CLOCK(
        host: str, rank: int, cpus: str, ghz: float, median: float, kind: str = ""
    ) -> str:
        clock = f"the clock of rank {rank} (cpus {cpus}) was {ghz:.2f} GHz"
        usual = "that of such cores in the launch" if kind else "the launch's median"
        return f"{host} is slow: {clock}, {usual} {median:.2f} GHz"

    # the same work on the median node
    def SLOW_CORES(host: str, seconds: float, median: float) -> str:
        took = f"a core took {duration(seconds)} for work that takes {duration(median)}"
        return f"{host} is slow: {took} on the median node"

    # cores: that copy at once
    def SLOW_MEMORY(host: str, rate: float, median: float, cores: int) -> str:
        cores = "1 core copied" if cores == 1 else f"{cores} cores together copied"
        usual = f"{amount(median, 'B/s')} on the median node"
        return f"{host} is slow: {cores} {amount(rate, 'B/s')} of memory, {usual}"

    # errors: [[counter, count]]
    def ADAPTER_ERRORS(host: str, adapter: str, errors: list) -> str:
        grew = some([f"{name} by {count:g}" for name, count in errors], 3)
        return f"{host}: errors of adapter {adapter} grew: {grew}"

    # fact: state, rate (Gb/s) or firmware; usual: that of most
    def ADAPTER_DIFFERS(host: str, adapter: str, fact: str, value: Any, usual: Any) -> str:
        differs = f"{_fact(fact, value)}, that of most other nodes {_fact(fact, usual)}"
        return f"{host}: adapter {adapter} {differs}"

    # carried: [[device, bytes over the bytes of the messages]]; expected: devices
    def NETWORK_BYPASSED(carried: list, expected: list) -> str:
        where = f"{some(expected)}, which the site file claims"
        return f"the messages between nodes bypassed {where}: {_carried(carried)} of the bytes"

    # idle: [[device, hosts]]
    def RAILS_IDLE(idle: list) -> str:
        idle = (f"{device} carried nothing on {some(hosts, 3)}" for device, hosts in idle)
        return f"of the adapters that the site file claims, {'; '.join(idle)}"

    # ---- a trial job ----

    SRUN_UNBOUND = "Slurm binds no rank to a core: slurm.conf has TaskPlugin={plugin}"
    PROBE_NOT_BUILT = "no MPI program could be built"

    def OUTPUT_UNSEEN(job: str, path: str, nodes: str = "") -> str:
        return f"job {job} left no output in {path}" + (f", it ran on {nodes}" if nodes else "")

    def NO_WORLD(launcher: str = "", limit: float = 0, layout: str = "") -> str:
        launcher, layout = _launcher(launcher, layout)
        limit = f" within {duration(limit)}" if limit else ""
        return f"{launcher} started no MPI world{limit}{layout}"

    # size: ranks of each; asked: ranks
    def WORLDS(worlds: int, size: int, asked: int, launcher: str = "", layout: str = "") -> str:
        launcher, layout = _launcher(launcher, layout)
        worlds = f"{plural(worlds, 'MPI world')} of {plural(size, 'rank')}"
        return f"{launcher} started {worlds} instead of one of {asked}{layout}"

    # ---- a check of a site, by its probes ----

    RESTS_ON = "it rests on {probe}"
    SITE_LOADS = "partitions: {partitions}"
    NO_SCHEDULER = "none: launches run on this host"
    SCHEDULER_UNASKED = "{scheduler} cannot be asked"
    NO_ACCOUNTING = 'sacct does not answer, and scheduler="slurm" needs it'
    ACCOUNTING = "sacct answers"
    ACCOUNTING_UNUSED = "not needed by the back-end squeue"
    ACCOUNT_UNKNOWN = "account {account} is not one of this user: {accounts}"
    QUEUE_UNKNOWN = "queue {queue} does not exist; there are {known}"
    PLACED = "{layouts}"
    NOT_PLACED = "layout {layout}, {geometry}: {refused}"
    JOB_RAN = "job {job} on {hosts}"
    MODULES_LOADED = "{modules}"
    PROBE_BUILT = "{compiler}"
    KERNELS_BY_SPACK = "environment {environ}: Spack builds the kernels"
    PATH_UNSEEN = "{path} is not seen by {hosts}"
    ALL_SEEN = "{path}, on all nodes ({nodes})"
    CORES_CLAIMED = "the site file gives {claimed} cores, {host} has {cores}"
    NO_FACTS = "there is no {system}.json"
    FACTS_HOLD = "{system}.json, of {written}"
    CORES_OWN = "{layouts}"
    ONE_WORLD = "{launcher}, {library}: ranks: {ranks}, nodes: {hosts}"
    RANK_EXIT = "its launch ended in {seconds:.1f} s with exit {exit_code}"
    RANK_EXIT_LOST = "a rank exited with {left}, and {launcher} with 0"

    # first: reason; more: how many
    def SITE_DEFECTS(path: str, line: int, first: dict, more: int = 0) -> str:
        return f"{path}:{line}: {clause(first)}" + (f" (and {more} more)" if more else "")

    def SCHEDULER_ANSWERS(version: str, cluster: str = "") -> str:
        return version + (f", cluster {cluster}" if cluster else "")

    # needed: by Slurm's accounting; a site's own policy may want one, too
    def QUEUE_OPEN(queue: str, account: str = "", needed: bool = False) -> str:
        usual = "the default account" if needed else "no account is given"
        return f"{queue}, " + (f"account {account}" if account else usual)

    # down: [[node, reason]]
    def NODES_UP(up: int, nodes: int, asked: int, down: list = ()) -> str:
        down = f"; {with_reasons(down)}" if down else ""
        return f"{up} of {nodes} up" + (f", {asked} needed" if up < asked else "") + down

    # modules: [[name, why]]
    def MODULES_FAIL(modules: list) -> str:
        return with_reasons(modules)

    # partition: with the same nodes
    def KERNELS_BUILT(seconds: float = 0, partition: str = "") -> str:
        same = f"as on {partition}, which is on the same nodes"
        return same if partition else f"configured, one built and run; {duration(seconds)}"

    def KERNELS_FAIL(step: str, exit_code: int = 0) -> str:
        return STEPS[step]

    def KERNELS_LATE(step: str, limit: float) -> str:
        return f"{STEPS[step]} within {limit:.0f} s"

    # hosts: [[host, why]]
    def FOLDER_UNSEEN(path: str, hosts: list) -> str:
        return f"{path} is not seen by {with_reasons(hosts)}"

    # differences: [[name, [[value, hosts]]]]
    def NODES_DIFFER(differences: list) -> str:
        texts = []
        for name, values in differences:
            sides = (f"{_value(name, value)} on {some(hosts, 3)}" for value, hosts in values)
            texts.append(f"{OF_NODES.get(name, name)} {', '.join(sides)}")
        return "; ".join(texts)

    def NODES_ALIKE(nodes: int, cores: int, model: str, memory: float) -> str:
        cores = plural(cores, "core")
        return f"{plural(nodes, 'node')}, each {cores} of {model}, {_memory(memory)}"

    # changes: [[name, before, now, hosts]]
    def FACTS_CHANGED(changes: list) -> str:
        return "; ".join(
            f"{OF_NODES.get(name, name)} {_value(name, before)} -> {_value(name, now)} "
            f"on {some(hosts, 3)}"
            for name, before, now, hosts in changes
        )

    # what: boot or configuration
    def FACTS_OLD(system: str, what: str, since: float) -> str:
        return f"{system}.json is older than the last {what} ({utc(since)})"

    def RANK_EXIT_HANGS(seconds: float = 0) -> str:
        late = f", but in {seconds:.1f} s" if seconds else ""
        return f"its launch did not end in 10 s{late}"

    def CARRIED(carried: list) -> str:
        return f"{_carried(carried)} of the bytes"

    def BYTES_UNCOUNTED(carried: list) -> str:
        return f"no device counted them: {_carried(carried)}"

    # expected: [[device, kind, rate (Gb/s)]]
    def NETWORK_UNUSED_BY(carried: list, expected: list) -> str:
        wanted = (
            f"{device} ({kind}{f', {rate:g} Gb/s' if rate else ''})"
            if kind
            else f"{device} (not up)"
            for device, kind, rate in expected
        )
        return f"{_carried(carried)} of the bytes, not through {some(wanted)}"

    # now, before: [latency, bandwidth]
    def SPEED_UNKNOWN(now: list, system: str) -> str:
        return f"{_speed(now)}; there is no {system}.json"

    def LINK_SPEED(now: list, before: list) -> str:
        return f"{_speed(now)}; were {_speed(before)}"

    def LINK_SLOW(now: list, before: list, pair: list) -> str:
        return f"{_speed(now)} ({pair[0]} to {pair[1]}); were {_speed(before)}"

    # waited: share of the time
    def LINK_DISTURBED(now: list, before: list, pair: list, waited: float) -> str:
        slow = f"{_speed(now)} ({pair[0]} to {pair[1]}), were {_speed(before)}"
        return f"not judged, as other processes had the cores in {waited:.0%} of the time: {slow}"

    def TIME_SHORT(limit: float, asked: float) -> str:
        return f"the queue gives a job {duration(limit)}, a launch asks for {duration(asked)}"

    def MEMORY_SHORT(memory: float, needed: float, host: str) -> str:
        needed = f"the largest launch needs {_memory(needed)}"
        return f"a job has {_memory(memory)} on {host}, {needed}"

    def LIMITS_SUFFICE(memory: float, needed: float, host: str, limit: float = 0) -> str:
        time = f", {duration(limit)} per job" if limit else ""
        return f"{_memory(memory)} per node, {_memory(needed)} needed{time}"

    # ---- a new site ----

    SCHEDULER_SILENT = "{scheduler} is installed and does not answer. {error}"
    SCHEDULER_UNREAD = "{scheduler} is not read yet: fill in queue, nodes, launcher, processor"
    NO_COMPILER = (
        "neither mpicc nor cc is on PATH: load the module of an MPI library, then remove this file "
        "and make it again"
    )
    LIBRARIES_UNSEEN = (
        "pkg-config does not find {names}, which the kernels need: load the modules, then remove "
        "this file and make it again; or build with Spack (-p spack)"
    )
    NO_QUEUE = "there is no queue that this user can use"
    QUEUE_STATE = "queue {queue}: it has {state}"
    QUEUE_GROUPS = "queue {queue}: only members of {groups} can use it"
    QUEUE_ACCOUNTS = "queue {queue}: account {account} cannot use it; --account can be: {others}"
    QUEUE_EMPTY = "queue {queue}: it has no nodes"
    QUEUE_SHARED = "{partition}: the queue puts several jobs on one core: times there mean little"
    TRIAL_FAILED = "{partition}: no launcher is proven. {fault}"
    NO_LAUNCHER = "{partition}: no launcher is right. {faults}"
    LAUNCHER_WRONG = "{launcher}: {fault}"
    NETWORK_UNUSED = (
        "{partition}: messages went through {device}, though {fast} is up: choose the MPI library "
        "or its settings"
    )
    NOT_TRIED = "no job ran (--dry-run): launchers are not proven"

    def ACCOUNT_OPEN(user: str, accounts: list) -> str:
        accounts = some(accounts) if accounts else "no account is known"
        return f"jobs need an account and {user} has no default one: account= one of {accounts}"

    def NODES_UNLIKE(queue: str, nodes: int, cores: int, gres: str) -> str:
        gres = f" and {gres}" if gres else ""
        nodes = f"{plural(nodes, 'node')} of {plural(cores, 'core')}{gres}"
        return (
            f"queue {queue} has other nodes beside {nodes}, and no feature that only these have: "
            "they are left out (a feature in slurm.conf would make them a partition)"
        )

    # wanted: nodes; down: [[node, reason]]
    def NODES_DOWN(partition: str, up: int, wanted: int, down: list = ()) -> str:
        down = f"; down: {with_reasons(down)}" if down else ""
        text = "launchers were tried on no more" if up else "no job ran, and no launcher is proven"
        text = f"{up} of {wanted} nodes are up: {text}; --refresh makes the facts again"
        return f"{partition}: {text}{down}"
