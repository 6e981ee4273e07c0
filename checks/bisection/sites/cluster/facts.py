"""NAME.json: what the machine said of itself. It is written by machine only.

SiteFacts lists its fields. What was not seen is left out. site-configs/common_cluster.py reads it
for ReFrame.
"""

import contextlib
import hashlib
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypedDict

from bisection.core import paths
from bisection.core.format import utc
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import BisectionError
from bisection.schedulers.scheduler import Scheduler

VERSION = 1  # also FACTS_VERSION of site-configs/common_cluster.py

Facts = dict[str, Any]  # SiteFacts as JSON has it


class Network(TypedDict):
    """A network device of a node."""

    name: str
    kind: str
    rate: float  # Gb/s; 0: not known
    state: str


class PartitionFacts(TypedDict, total=False):
    """The facts of a partition; those of its nodes are of the first one that was seen."""

    queue: str
    constraint: str
    nodes: int
    max_time: int  # s, of a job
    whole_nodes: bool  # each job has its nodes for itself
    gres: str
    processor: dict[str, Any]  # as ReFrame wants it, of the cores that jobs may use
    memory: int  # B, of the smallest node
    networks: list[Network]
    governor: str
    smt: str
    microcode: str
    kernel: str
    system: str
    boot: dict[str, int | None]  # host -> Unix time
    mpi: str  # the library, by its own name
    launcher: str  # by which the messages were sent
    carried: dict[str, float]  # device -> fraction of the messages' bytes
    latency: float  # s, of the slowest pair of nodes
    bandwidth: float  # B/s, of the slowest pair of nodes


class SchedulerFacts(TypedDict):
    """The scheduler."""

    kind: str
    version: str
    cluster: str
    accounting: bool


class SoftwareFacts(TypedDict):
    """Programs on PATH, modules and libraries, as `site new` found them."""

    mpi: dict[str, str]  # kind, version, compiler, launcher
    modules_system: str  # ReFrame's name
    modules: list[str]  # that were loaded
    libraries: dict[str, str]  # name -> version


class Unfinished(TypedDict, total=False):
    """Where `site new` left a decision."""

    draft: str


class SiteFacts(Unfinished):
    """The facts of a site. While it has `draft`, the SHA-256 of NAME.py, NAME.py has a decision
    left, and `site new` replaces it by another try."""

    version: Literal[1]  # of this format
    system: str
    written: str  # time, UTC
    scheduler: SchedulerFacts
    software: SoftwareFacts
    partitions: dict[str, PartitionFacts]  # by name, as NAME.py has it


# Kinds of device that are there for messages. An Ethernet card that could do RoCE need not be.
FAST = ("infiniband", "omni-path", "slingshot", "efa")
UP = ("active", "up", "unknown")  # states of a device
MEASURED = ("latency", "bandwidth", "carried")  # differ a little each time
PASSING = ("written", "draft", "boot")  # differ each time, or after each boot


def devices(gres: str) -> list[dict[str, Any]]:
    """The GPUs of a node as ReFrame has devices, by what its scheduler calls them: gpu:4,
    gpu:a100:2,gpu:v100:2, ngpus:4. None: []."""
    counts = re.findall(r"(?:^|,)(?:gpu|ngpus)(?::[^:,]+)?:(\d+)(?=,|$|\()", gres)
    count = sum(map(int, counts))
    return [{"type": "gpu", "num_devices": count}] if count else []


def file_of(site_file: Path) -> Path:
    return site_file.with_suffix(".json")


def read(file: Path) -> Facts:
    """The facts of a file; BisectionError if it cannot be read, or is of another version."""
    try:
        facts = json.loads(file.read_text())
    except (OSError, ValueError) as error:
        raise BisectionError(f"{paths.shown(file)} cannot be read: {error}") from None
    if not isinstance(facts, dict) or facts.get("version") != VERSION:
        raise BisectionError(f"{paths.shown(file)} is no file of facts of version {VERSION}")
    return facts


def old(file: Path) -> Facts:
    """The facts of a file; none if it cannot be read."""
    try:
        return read(file)
    except BisectionError:
        return {}


def is_draft(site_file: Path) -> bool:
    """True if a site file is as `site new` wrote it, with a decision left: a person has nothing in
    it."""
    with contextlib.suppress(OSError):
        written = hashlib.sha256(site_file.read_bytes()).hexdigest()
        return old(file_of(site_file)).get("draft") == written
    return False


def write(file: Path, facts: Facts) -> None:
    paths.write_whole(file, json.dumps(facts, indent=1) + "\n")


def cores_of(processor: Mapping[str, Any]) -> int:
    return processor["num_cpus"] // processor["num_cpus_per_core"]


def compare(before: Facts, after: Facts) -> list[tuple[str, Any, Any]]:
    """The facts that differ: (name, before, after), None for what is not there. Those that are
    measured differ if they do by more than their noise."""
    flat_before, flat_after = dict(_flat(before)), dict(_flat(after))
    moved = []
    for name in flat_before | flat_after:
        was, now, words = flat_before.get(name), flat_after.get(name), set(name.split("."))
        alike = was == now
        if words & set(MEASURED) and was and now:
            alike = math.isclose(was, now, rel_tol=LIMITS.fact_noise)
        if not alike and not words & set(PASSING):
            moved.append((name, was, now))
    return moved


def _flat(facts: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """The facts with their names, such as partitions.duo.memory; lists stay whole."""
    if isinstance(facts, Mapping) and facts:
        for key, value in facts.items():
            yield from _flat(value, f"{name}.{key}" if name else str(key))
    else:
        yield name, facts


def outdated(site: Path, schedulers: Iterable[Scheduler]) -> str | None:
    """Returns why the facts of a site file may no longer hold, by the schedulers of its partitions:
    one of the nodes that they are of booted, or the scheduler's configuration changed. Of a large
    machine some other node boots every day. None if they are newer, or not there."""
    known = old(file_of(site))
    try:
        written = datetime.fromisoformat(known["written"].replace("Z", "+00:00")).timestamp()
    except (KeyError, ValueError):  # which the site file itself reports
        return None
    hosts = {host for part in known["partitions"].values() for host in part.get("boot", {})}
    for scheduler in schedulers:
        for event, since in scheduler.events(hosts).items():
            if since > written:
                return f"{site.stem}.json is older than the last {event} ({utc(since)})"
    return None
