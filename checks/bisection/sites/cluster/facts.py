"""NAME.json: what the machine said of itself. It is written by machine only.

    version     of this format
    system      NAME
    written     time, UTC
    scheduler   kind, version, cluster, accounting
    software    mpi (kind, version, compiler, launcher), modules_system, modules, libraries
    partitions  by name, as NAME.py has it:
        queue, constraint, nodes, max_time (s), whole_nodes, gres
        processor   as ReFrame wants it, of the cores that jobs may use
        memory (B), networks (name, kind, rate in Gb/s, state), governor, smt, microcode, kernel,
        system, boot (host -> Unix time)
        mpi         the library, by its own name
        launcher    by which the messages were sent
        carried     device -> fraction of the messages' bytes
        latency (s), bandwidth (B/s), of the slowest pair of nodes

What was not seen is left out. site-configs/common_cluster.py reads it for ReFrame.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import BisectionError
from bisection.sites.cluster.software import Software
from bisection.sites.cluster.survey import Group, QueueInfo, Survey
from bisection.sites.cluster.trial import Outcome

VERSION = 1  # also FACTS_VERSION of site-configs/common_cluster.py

Facts = dict[str, Any]
# Of a node, as node_facts.py names them.
OF_NODES = ("networks", "governor", "smt", "microcode", "kernel", "system")
# Kinds of device that are there for messages. An Ethernet card that could do RoCE need not be.
FAST = ("infiniband", "omni-path", "slingshot", "efa")
UP = ("active", "up", "unknown")  # states of a device
MEASURED = ("latency", "bandwidth", "carried")  # differ a little each time
PASSING = ("written", "boot")  # differ each time, or after each boot


def file_of(site_file: Path) -> Path:
    """The file of the facts of a site file."""
    return site_file.with_suffix(".json")


def read(file: Path) -> Facts:
    """The facts of a file.

    Raises:
        BisectionError: it cannot be read, or is of another version.
    """
    try:
        facts = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise BisectionError(f"{paths.shown(file)} cannot be read: {error}") from None
    if not isinstance(facts, dict) or facts.get("version") != VERSION:
        raise BisectionError(f"{paths.shown(file)} is no file of facts of version {VERSION}")
    return facts


def old(file: Path) -> Facts:
    """The facts of a file that are about to be replaced; none if it cannot be read."""
    try:
        return read(file)
    except BisectionError:
        return {}


def write(file: Path, facts: Mapping[str, Any]) -> None:
    """Writes the facts; OSError if that is not possible."""
    paths.write_whole(file, json.dumps(facts, indent=1) + "\n")


def of_site(
    name: str, survey: Survey, software: Software, partitions: Mapping[str, Facts]
) -> Facts:
    """The facts of a site, of which those of partitions are made by `of_partition`."""
    known = {key: getattr(survey, key) for key in ("kind", "version", "cluster", "accounting")}
    return {
        "version": VERSION,
        "system": name,
        "written": datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "scheduler": known,
        "software": software.as_facts(),
        "partitions": dict(partitions),
    }


def of_partition(
    queue: QueueInfo, group: Group, nodes: list[Facts], outcome: Outcome | None
) -> Facts:
    """The facts of a partition.

    Args:
        queue: its queue.
        group: its nodes, as the scheduler knows them.
        nodes: facts of those that a trial job saw (node_facts.py); empty if none did.
        outcome: what the chosen launcher did; None if none was right.
    """
    facts = {
        "queue": queue.name if queue.named else "",
        "constraint": group.constraint,
        "nodes": len(group.nodes),
        "max_time": queue.max_time,
        "whole_nodes": queue.whole_nodes,
        "gres": group.known.gres,
        "processor": processor(group, nodes),
    }
    if nodes:
        facts["memory"] = min(node["memory"] for node in nodes)
        facts |= {name: nodes[0][name] for name in OF_NODES}
        facts["boot"] = {node["host"]: node["boot"] for node in nodes}
    if outcome:
        facts |= {"mpi": outcome.library, "launcher": outcome.launcher.name}
        facts |= {"carried": outcome.carried, "latency": outcome.latency}
        facts["bandwidth"] = outcome.bandwidth
    return {name: value for name, value in facts.items() if value not in ("", None, {}, [])}


def processor(group: Group, nodes: list[Facts]) -> Facts:
    """ReFrame's processor information, of the cores that jobs may use.

    A node may see more cores than jobs may use: those that the scheduler keeps for the system. Its
    topology stays whole, as a rank may be on any of them.
    """
    known = group.known
    seen = min((node["processor"] for node in nodes), key=_cores, default=None)
    if seen is None:
        per_core, sockets, cores = known.per_core, known.sockets, known.cores
        return {
            "num_cpus": cores * per_core,
            "num_cpus_per_core": per_core,
            "num_cpus_per_socket": -(-cores // sockets) * per_core,
            "num_sockets": sockets,
        }
    per_core = seen["num_cpus_per_core"]
    count = min(_cores(seen), known.cores) * per_core
    per_socket = -(-count // seen["num_sockets"])
    return {**seen, "num_cpus": count, "num_cpus_per_socket": per_socket}


def _cores(seen: Mapping[str, Any]) -> int:
    return seen["num_cpus"] // seen["num_cpus_per_core"]


@dataclass(frozen=True)
class Moved:
    """A fact that is another one now."""

    name: str  # partitions.duo.memory
    before: Any  # None: it was not there
    after: Any


def compare(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Moved]:
    """The facts that differ, by name; measured ones if they differ by more than their noise."""
    old, new = dict(_flat(before)), dict(_flat(after))
    moved = []
    for name in dict.fromkeys([*old, *new]):
        was, now = old.get(name), new.get(name)
        if was != now and not set(name.split(".")) & set(PASSING) and not _alike(name, was, now):
            moved.append(Moved(name, was, now))
    return moved


def _alike(name: str, was: Any, now: Any) -> bool:
    if not set(name.split(".")) & set(MEASURED) or not was or not now:
        return False
    return abs(now - was) <= LIMITS.fact_noise * max(abs(now), abs(was))


def _flat(facts: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The facts with their names, such as partitions.duo.memory; lists stay whole."""
    if isinstance(facts, Mapping) and facts:
        for key, value in facts.items():
            yield from _flat(value, f"{name}.{key}" if name else str(key))
    else:
        yield name, facts
