"""Clauses of a trial job, and of what the probes of `site check` come to."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bisection.core.format import amount, lasting, plural, some
from bisection.core.reasons import Code
from bisection.report.node_clauses import carried

Values = Mapping[str, Any]

STEPS = {
    "configure": "CMake does not configure the kernels",
    "compile": "a kernel does not compile",
    "kernel": "a kernel does not run",
}
OF_NODES = {
    "num_cpus": "CPUs",
    "num_cpus_per_core": "CPUs per core",
    "num_sockets": "sockets",
    "smt": "SMT",
}


def _memory(size: float) -> str:
    return f"{size / 2**30:.3g} GiB"


def _worlds(v: Values) -> str:
    worlds = f"{plural(v['worlds'], 'MPI world')} of {plural(v['size'], 'rank')}"
    return f"{_launcher(v)} started {worlds} instead of one of {v['asked']}{_layout(v)}"


def _launcher(v: Values) -> str:
    return v["launcher"] or "the launcher"


def _layout(v: Values) -> str:
    return f" (layout {v['layout']})" if v["layout"] else ""


def _no_world(v: Values) -> str:
    limit = f" within {lasting(v['limit'])}" if v["limit"] else ""
    last = f": {v['last']}" if v["last"] else ""
    return f"{_launcher(v)} started no MPI world{limit}{_layout(v)}{last}"


def _nodes_up(v: Values) -> str:
    down = f"; {with_reasons(v['down'])}" if v["down"] else ""
    needs = f", {v['asked']} needed" if v["up"] < v["asked"] else ""
    return f"{v['up']} of {v['nodes']} up{needs}{down}"


def with_reasons(pairs: Sequence[Sequence[str]]) -> str:
    """Things with what is wrong with each: nodes, modules."""
    return some((f"{name}: {why}" if why else name for name, why in pairs), 4)


# What a scheduler's refusal has that an option of `site new` and a word of the site file mend.
OPTIONS = {
    "account": r"\baccounts?\b|\bprojects?\b|(?<!\S)-A\b",
    "qos": r"\bqos specification|--qos\b",
}


def option_hint(refused: str) -> str:
    """How to name what a scheduler asks for in its words of refusal; "" if it is nothing known."""
    words = [name for name, pattern in OPTIONS.items() if re.search(pattern, refused, re.I)]
    if not words:
        return ""
    options = " ".join(f"--{word} {word[0].upper()}" for word in words)
    keys = " and ".join(f"{word}=..." for word in words)
    return f" ({keys} in the site file, or `site new {options}`)"


def _queue_open(v: Values) -> str:
    if v["account"]:
        return f"{v['queue']}, account {v['account']}"
    return f"{v['queue']}, " + ("the default account" if v["needed"] else "no account is needed")


def _layouts(v: Values) -> str:
    return ", ".join(f"{layout} {geometry}" for layout, geometry in v["layouts"])


def _kernels_built(v: Values) -> str:
    same = f"as on {v['partition']}, which is on the same nodes"
    return same if v["partition"] else f"configured, one built and run; {lasting(v['seconds'])}"


def _kernels_fail(v: Values) -> str:
    return STEPS[v["step"]] + (f": {v['last']}" if v["last"] else "")


def _kernels_late(v: Values) -> str:
    return f"{STEPS[v['step']]} within {v['limit']:.0f} s"


def _differ(v: Values) -> str:
    texts = []
    for name, values in v["differences"]:
        sides = (f"{_value(name, value)} on {some(hosts, 3)}" for value, hosts in values)
        texts.append(f"{OF_NODES.get(name, name)} {', '.join(sides)}")
    return "; ".join(texts)


def _value(name: str, value: str) -> str:
    if name == "memory":
        return _memory(float(value))
    return {"": "unknown", "None": "not up"}.get(value, value)


def _changed(v: Values) -> str:
    return "; ".join(
        f"{OF_NODES.get(name, name)} {_value(name, before)} -> {_value(name, now)} "
        f"on {some(hosts, 3)}"
        for name, before, now, hosts in v["changes"]
    )


def _carried(v: Values) -> str:
    return carried(v["carried"])


def _unused(v: Values) -> str:
    wanted = (
        f"{device} ({kind}{f', {rate:g} Gb/s' if rate else ''})" if kind else f"{device} (not up)"
        for device, kind, rate in v["expected"]
    )
    return f"{_carried(v)} of the bytes, not through {some(wanted)}"


def _speed(v: Values) -> str:
    return f"{amount(v['latency'], 's')}, {amount(v['bandwidth'], 'B/s')}"


def _speeds(v: Values) -> str:
    before = {name: v[f"{name}_before"] for name in ("latency", "bandwidth")}
    pair = f" ({v['pair'][0]} to {v['pair'][1]})" if v["pair"] else ""
    return f"{_speed(v)}{pair}; were {_speed(before)}"


def _limits(v: Values) -> str:
    time = f", {lasting(v['limit'])} per job" if v["limit"] else ""
    return f"{_memory(v['memory'])} per node, {_memory(v['needed'])} needed{time}"


SITE: dict[Code, str | Callable[[Values], str]] = {
    # a trial job
    Code.OUTPUT_UNSEEN: "job {job} left no output in {path}{nodes:?, it ran on *}",
    Code.PROBE_NOT_BUILT: "no MPI program could be built{last:?: *}",
    Code.NO_WORLD: _no_world,
    Code.SRUN_UNBOUND: "Slurm binds no rank to a core: slurm.conf has TaskPlugin={plugin}",
    Code.WORLDS: _worlds,
    # a check of a site
    Code.RESTS_ON: "it rests on {probe}",
    Code.SITE_LOADS: lambda v: plural(v["partitions"], "partition"),
    Code.SITE_DEFECTS: "{path}:{line}: {first!n}{more:? (and * more)}",
    Code.NO_SCHEDULER: "none: launches run on this host",
    Code.SCHEDULER_UNASKED: "{scheduler} cannot be asked",
    Code.SCHEDULER_ANSWERS: "{version}{cluster:?, cluster *}",
    Code.ACCOUNTING: lambda v: (
        "sacct answers" if v["backend"] == "slurm" else "not needed by the back-end squeue"
    ),
    Code.NO_ACCOUNTING: 'sacct does not answer, and scheduler="slurm" needs it',
    Code.ACCOUNT_UNKNOWN: "account {account} is not one of this user: {accounts!j:?*|none}",
    Code.QUEUE_UNKNOWN: lambda v: (
        f"queue {v['queue']} does not exist; there are {some(v['known'])}"
    ),
    Code.QUEUE_OPEN: _queue_open,
    Code.NODES_UP: _nodes_up,
    Code.PLACED: _layouts,
    Code.NOT_PLACED: "layout {layout}, {geometry}: {refused}",
    Code.JOB_RAN: lambda v: f"job {v['job']} on {some(v['hosts'], 4)}",
    Code.MODULES_LOADED: lambda v: some(v["modules"]),
    Code.MODULES_FAIL: lambda v: with_reasons(v["modules"]),
    Code.PROBE_BUILT: "{compiler}",
    Code.KERNELS_BUILT: _kernels_built,
    Code.KERNELS_FAIL: _kernels_fail,
    Code.KERNELS_LATE: _kernels_late,
    Code.KERNELS_BY_SPACK: "environment {environ}: Spack builds the kernels",
    Code.FOLDER_UNSEEN: lambda v: f"{v['path']} is not seen by {with_reasons(v['hosts'])}",
    Code.PATH_UNSEEN: lambda v: f"{v['path']} is not seen by {some(v['hosts'], 4)}",
    Code.ALL_SEEN: lambda v: f"{v['path']} on {plural(v['nodes'], 'node')}",
    Code.CORES_CLAIMED: "the site file gives {claimed} cores, {host} has {cores}",
    Code.NODES_DIFFER: _differ,
    Code.NODES_ALIKE: lambda v: (
        f"{plural(v['nodes'], 'node')}, each {plural(v['cores'], 'core')} of {v['model']}, "
        f"{_memory(v['memory'])}"
    ),
    Code.NO_FACTS: "there is no {system}.json",
    Code.FACTS_CHANGED: _changed,
    Code.FACTS_HOLD: "{system}.json, of {written}",
    Code.FACTS_OLD: "{system}.json is older than the last {what} ({since!t})",
    Code.ONE_WORLD: lambda v: (
        f"{v['launcher']}: {plural(v['ranks'], 'rank')} on {plural(v['hosts'], 'node')}, "
        f"{v['library']}"
    ),
    Code.CORES_OWN: _layouts,
    Code.RANK_EXIT: "its launch ended in {seconds:.1f} s with exit {exit_code}",
    Code.RANK_EXIT_HANGS: lambda v: (
        "its launch did not end in 10 s"
        + (f", but in {v['seconds']:.1f} s" if v["seconds"] else "")
    ),
    Code.RANK_EXIT_LOST: "a rank exited with {left}, and {launcher} with 0",
    Code.CARRIED: lambda v: f"{_carried(v)} of the bytes" if v["carried"] else "",
    Code.BYTES_UNCOUNTED: lambda v: f"no device counted them: {_carried(v)}",
    Code.NETWORK_UNUSED_BY: _unused,
    Code.SPEED_UNKNOWN: lambda v: f"{_speed(v)}; there is no {v['system']}.json",
    Code.LINK_SPEED: _speeds,
    Code.LINK_SLOW: _speeds,
    Code.TIME_SHORT: lambda v: (
        f"the queue gives a job {lasting(v['limit'])}, a launch asks for {lasting(v['asked'])}"
    ),
    Code.MEMORY_SHORT: lambda v: (
        f"a job has {_memory(v['memory'])} on {v['host']}, the largest launch needs "
        f"{_memory(v['needed'])}"
    ),
    Code.LIMITS_SUFFICE: _limits,
}
