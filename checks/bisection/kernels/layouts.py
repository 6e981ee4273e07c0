"""Hybrid MPI/OpenMP layouts: where ranks and threads go, and whether they went there.

A layout is a name that means the same on every machine. With the partition's processor information
it becomes a geometry: nodes x ranks per node x threads per rank, one thread per core.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from bisection.core.format import some
from bisection.core.grouping import grouped
from bisection.core.identity import Geometry
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.launches import CoreShared, CoreUnbound, SeatFault


class Place(NamedTuple):
    """A node, or a part of one, and its ranks."""

    host: str
    ranks: Sequence[int]
    cpus: Sequence[str]  # of each of its ranks
    threads: Sequence[Sequence[str]]  # of each: the CPUs of each thread
    text: str = ""  # its ranks as a list: 0-3,8
    kinds: Sequence[str] = ()  # of core, of each of its ranks; empty where all cores are alike


ANY_KIND = "any"  # of core: of a rank whose threads may be on several
HOSTS, OF_HOST = 8, 2  # with misplaced ranks that are listed; of each
# One rank per core; one per node, with a thread per core; two per node, which share its cores out.
LAYOUTS = ("mpi", "node", "node2")
# The last one is for kernels whose threads share much memory: one rank per NUMA domain, or per L3
# cache where a node is one domain.
ALL_LAYOUTS = (*LAYOUTS, "domain")
# Memories that buffers of messages lie in. Each has a layout: one rank per device of a node, which
# share its cores out, of tests on devices alone (bisection.rfm.buffers).
BUFFERS = ("host", "staged", "device")
ON_DEVICES = tuple(f"gpu-{buffers}" for buffers in BUFFERS)


class DoesNotFit(ValueError):
    """The partition's nodes cannot hold this layout, or it repeats another one."""


def domains(topology: Mapping[str, Any]) -> int:
    """The NUMA domains of a node, or its L3 caches if it is one domain, from ReFrame's topology; 1
    if that is not known."""
    memories = len(topology.get("numa_nodes") or [])
    caches = [c for c in topology.get("caches") or [] if c.get("type") == "L3"]
    return memories if memories > 1 else max([len(c.get("cpusets") or []) for c in caches] + [1])


def devices_of(partition: Any) -> int:
    """The devices of a node of ReFrame's partition, by its site file."""
    return sum(each.num_devices for each in partition.devices if each.device_type == "gpu")


def ranks_of_layouts(cores: int, topology: Mapping[str, Any] | None = None) -> dict[str, int]:
    """The ranks per node of ALL_LAYOUTS, by `cores` and ReFrame's topology of a node."""
    return {"mpi": cores, "node": 1, "node2": 2, "domain": domains(topology or {})}


def geometry(
    layout: str,
    cores: int,
    nodes: int = 1,
    topology: Mapping[str, Any] | None = None,
    devices: int = 0,
) -> Geometry:
    """The geometry of a layout on nodes with so many cores and devices and ReFrame's topology.

    Of layouts with one geometry the first keeps it, and is launched and judged: under each name,
    one change of the machine would be several in a table of verdicts. References go by the
    geometry, so they hold whichever name keeps it. The layout `mpi` is always the first: a tier
    that names it selects a launch on every partition.

    Raises:
        DoesNotFit: there are fewer cores than ranks, or the layout repeats an earlier one.
        KeyError: there is no such layout.
    """
    shares = ranks_of_layouts(cores, topology)
    if layout in ON_DEVICES and devices:
        # A lone rank would exchange nothing: two share the only device of a single node.
        ranks = min(devices if devices * nodes > 1 else 2, cores)
        return Geometry(nodes, ranks, cores // ranks)
    ranks = shares[layout]
    if ranks > cores:
        raise DoesNotFit(f"layout {layout} needs {ranks} cores per node, there are {cores}")
    shape = Geometry(nodes, ranks, cores // ranks)
    other = next(name for name, number in shares.items() if number == ranks)
    if other != layout:
        raise DoesNotFit(f"layout {layout} is the same as {other} here ({shape})")
    return shape


def bindings(templates: Iterable[str], shape: Geometry) -> list[str]:
    """Launcher options for a geometry: {nodes}, {ranks}, {ranks_per_node} and {threads} of the
    site's templates, such as "--map-by ppr:{ranks_per_node}:node", are filled in.

    Raises:
        KeyError, IndexError, ValueError: a template has another field, or is none.
    """
    return [template.format(**asdict(shape), ranks=shape.ranks) for template in templates]


def ranges(text: str) -> list[range]:
    """The numbers in the kernel's list format, "0-3,8"; ValueError for any other text."""
    ends = (part.partition("-") for part in text.split(","))
    return [range(int(first), int(last or first) + 1) for first, _, last in ends]


def cpulist(text: str) -> set[int]:
    return set(itertools.chain(*ranges(text)))


def core_of(masks: Iterable[str] | None) -> dict[int, int]:
    """CPU -> core index, from ReFrame's topology["cores"], a list of hexadecimal CPU masks."""
    return {
        cpu: index
        for index, bits in enumerate(int(mask, 16) for mask in masks or [])
        for cpu in range(bits.bit_length())
        if bits >> cpu & 1
    }


def places(layout: Mapping[str, Any]) -> list[Place]:
    """The nodes in the "layout" of a result file, where those that are alike are in one group, and
    here share what they have in common: of many ranks no list is made."""
    nodes = ((node, group) for group in layout["seats"] for node in group["nodes"])
    listed = []
    for node, group in sorted(nodes, key=lambda pair: pair[0]["node"]):
        first, *more = ranges(node["ranks"])
        ranks = sorted({*first}.union(*more)) if more else first
        of_group = group["cpus"], group["threads"], node["ranks"], group.get("kinds", ())
        listed.append(Place(node["host"], ranks, *of_group))
    return listed


def host_of(taken: Iterable[Place], rank: int) -> str | None:
    return next((place.host for place in taken if rank in place.ranks), None)


def misplaced(
    taken: Sequence[Place],
    asked: Geometry,
    masks: Iterable[str] | Mapping[str, Iterable[str]] | None = (),
) -> list[Reason]:
    """Returns what is wrong with the placement that the ranks saw; empty if nothing. Of many hosts
    and ranks some are named and the others counted.

    Ranks and threads must each have cores of their own, exactly as many as asked for: otherwise the
    machine is judged by a time that is not its own. CPUs of one core are the same place: `masks`
    has those of each core as hexadecimal masks, of all hosts or by host.
    """
    ranks = sum(len(place.ranks) for place in taken)
    if ranks != asked.ranks:
        return [ranks_ran(ranks, asked.ranks)]
    hosts = grouped(taken, lambda place: place.host)
    count, bad = 0, 0
    faults: dict[tuple[int, ...], int] = {}  # how many a host has of each kind
    as_asked = len(hosts) == asked.nodes
    listed: list[Reason] = []
    if not as_asked:
        ran = f"ranks ran on the hosts {some(sorted(hosts))}"
        listed.append(Text(f"{ran}, not on {asked.nodes} hosts"))
    for host, parts in sorted(hosts.items()):
        of_host = masks.get(host) if isinstance(masks, Mapping) else masks
        sides = (side for place in parts for side in (place.cpus, place.threads))
        kind = (id(of_host), *map(id, sides))  # those of one group share their sides
        if kind not in faults or (faults[kind] and bad < HOSTS):
            wrong = [*_misplaced_on(host, parts, asked, core_of(of_host), as_asked)]
            faults[kind] = len(wrong)
            listed += wrong[:OF_HOST] if bad < HOSTS else []
        count += faults[kind]
        bad += faults[kind] > 0
    left = count - len(listed) + (not as_asked)
    return [*listed, Text(f"{left} more, on {bad} hosts in all")] if left else listed


def ranks_ran(ranks: int, asked: int) -> Text:
    """The fault if other than the asked ranks ran."""
    return Text(f"{ranks} of {asked} ranks ran")


def _misplaced_on(
    host: str, parts: Sequence[Place], asked: Geometry, cores: Mapping[int, int], counted: bool
) -> Iterator[Reason]:
    """What is wrong on one host; `counted`: whether it must have as many ranks as a node."""
    ranks = sum(len(place.ranks) for place in parts)
    if counted and ranks != asked.ranks_per_node:
        text = f"{ranks} ranks ran on host {host}, not {asked.ranks_per_node}"
        yield SeatFault(host=host, text=text)
    owners: dict[Any, tuple[int, int | None, str]] = {}
    seats = (zip(part.ranks, part.cpus, part.threads, strict=True) for part in parts)
    for number, of_rank, threads in itertools.chain(*seats):
        if len(threads) != asked.threads:
            text = f"rank {number} on {host} ran {len(threads)} threads, not {asked.threads}"
            yield SeatFault(host=host, text=text)
            continue
        alone = asked.threads == 1
        for thread, cpus in [(None, of_rank)] if alone else list(enumerate(threads)):
            seat = _seat(number, host, thread)
            mine = {cores.get(cpu, ("cpu", cpu)) for cpu in cpulist(cpus)}
            if shared := mine & owners.keys():
                rank, mate, held = owners[next(iter(shared))]
                other = f"{_seat(rank, host, mate)} (cpus {held})"
                yield CoreShared(host=host, text=f"{seat} (cpus {cpus}) shares a core with {other}")
            elif cores and len(mine) > 1:
                # Without the site's topology, CPUs of one core are not known to be one place.
                text = f"{seat} is not bound to one core: it may use cpus {cpus}"
                yield CoreUnbound(host=host, text=text)
            owners |= dict.fromkeys(mine - owners.keys(), (number, thread, cpus))


def _seat(rank: int, host: str, thread: int | None) -> str:
    return f"rank {rank} on {host}" + ("" if thread is None else f" thread {thread}")
