"""Hybrid MPI/OpenMP layouts: where ranks and threads go, and whether they went there.

A layout is a name that means the same on every machine. With the partition's processor information
it becomes a geometry: nodes x ranks per node x threads per rank, one thread per core.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bisection.core.grouping import grouped
from bisection.core.identity import Geometry
from bisection.core.reasons import Code, Reason

Seat = Mapping[str, Any]  # of a rank: its host, its CPUs

# One rank per core; one per node, with a thread per core; two per node, which share its cores out.
LAYOUTS = ("mpi", "node", "node2")
# The last one is for kernels whose threads share much memory: one rank per NUMA domain, or per L3
# cache where a node is one domain.
ALL_LAYOUTS = (*LAYOUTS, "domain")


class DoesNotFit(ValueError):
    """The partition's nodes cannot hold this layout, or it repeats another one."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


def domains(topology: Mapping[str, Any]) -> int:
    """The NUMA domains of a node, or its L3 caches if it is one domain, from ReFrame's topology; 1
    if that is not known."""
    memories = len(topology.get("numa_nodes") or [])
    caches = [c for c in topology.get("caches") or [] if c.get("type") == "L3"]
    return memories if memories > 1 else max([len(c.get("cpusets") or []) for c in caches] + [1])


def ranks_of_layouts(cores: int, topology: Mapping[str, Any] | None = None) -> dict[str, int]:
    """The ranks per node of ALL_LAYOUTS, by `cores` and ReFrame's topology of a node."""
    return {"mpi": cores, "node": 1, "node2": 2, "domain": domains(topology or {})}


def geometry(
    layout: str, cores: int, nodes: int = 1, topology: Mapping[str, Any] | None = None
) -> Geometry:
    """The geometry of a layout. Of layouts with one geometry the first keeps it.

    It is launched and judged once, under that name: judged under each name, one change of the
    machine would be several in a table of verdicts. References go by the geometry, so they hold
    whichever name keeps it. The layout `mpi` is always the first: a tier that names it selects a
    launch on every partition.

    Args:
        layout: a name of ALL_LAYOUTS.
        cores: the cores of a node.
        nodes: how many nodes there are.
        topology: ReFrame's topology of a node.

    Raises:
        DoesNotFit: there are fewer cores than ranks, or the layout repeats an earlier one.
        KeyError: there is no such layout.
    """
    shares = ranks_of_layouts(cores, topology)
    ranks_per_node = shares[layout]
    if ranks_per_node > cores:
        counts = {"ranks_per_node": ranks_per_node, "cores": cores}
        raise DoesNotFit(Code.LAYOUT_TOO_LARGE(layout=layout, **counts))
    shape = Geometry(nodes, ranks_per_node, cores // ranks_per_node)
    other = next(name for name, ranks in shares.items() if ranks == ranks_per_node)
    if other != layout:
        raise DoesNotFit(Code.LAYOUT_IS_TWIN(layout=layout, other=other, geometry=str(shape)))
    return shape


def bindings(templates: Iterable[str], shape: Geometry) -> list[str]:
    """Launcher options for a geometry.

    Args:
        templates: the site's, such as "--map-by ppr:{ranks_per_node}:node"; {nodes}, {ranks},
            {ranks_per_node} and {threads} are filled in.
        shape: the geometry.

    Raises:
        KeyError, IndexError, ValueError: a template has another field, or is none.
    """
    return [template.format(**asdict(shape), ranks=shape.ranks) for template in templates]


def cpulist(text: str) -> set[int]:
    """The CPU numbers in the kernel's list format, "0-3,8"; ValueError for any other text."""
    cpus = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def core_of(masks: Iterable[str] | None) -> dict[int, int]:
    """CPU -> core index, from ReFrame's topology["cores"], a list of hexadecimal CPU masks."""
    return {
        cpu: index
        for index, bits in enumerate(int(mask, 16) for mask in masks or [])
        for cpu in range(bits.bit_length())
        if bits >> cpu & 1
    }


def seats(layout: Mapping[str, Any]) -> list[Seat]:
    """The seat of each rank, in order: rank, node, host, cpus, threads (cpus of each), ghz (before
    and after, as far as it was measured).

    Args:
        layout: the "layout" of a result file, where nodes that are alike are in one group.
    """
    ranks = {}
    for group in layout["seats"]:
        for node in group["nodes"]:
            places = zip(
                sorted(cpulist(node["ranks"])), group["cpus"], group["threads"], strict=True
            )
            for rank, cpus, threads in places:
                clocks = [ghz[rank] for ghz in layout["ghz"] if ghz[rank]]
                of_rank = {"rank": rank, "cpus": cpus, "threads": threads, "ghz": clocks}
                ranks[rank] = {"node": node["node"], "host": node["host"], **of_rank}
    return [ranks[rank] for rank in sorted(ranks)]


def misplaced(
    taken: Sequence[Seat],
    asked: Geometry,
    masks: Iterable[str] | Mapping[str, Iterable[str]] | None = (),
) -> list[Reason]:
    """Returns what is wrong with the placement that the ranks saw; empty if nothing.

    Ranks and threads must each have cores of their own, exactly as many as asked for: otherwise the
    machine is judged by a time that is not its own.

    Args:
        taken: the seats of the ranks.
        asked: the geometry that was asked for.
        masks: the CPUs of each core as hexadecimal masks, of all hosts or by host; CPUs of one core
            are the same place.
    """
    if len(taken) != asked.ranks:
        return [Code.RANKS_RAN(ranks=len(taken), asked=asked.ranks)]
    hosts = grouped(taken, lambda seat: seat["host"])
    wrong = []
    if len(hosts) != asked.nodes:
        wrong.append(Code.HOSTS_RAN(hosts=sorted(hosts), asked=asked.nodes))
    for host, ranks in sorted(hosts.items()):
        if len(hosts) == asked.nodes and len(ranks) != asked.ranks_per_node:
            counts = {"ranks": len(ranks), "asked": asked.ranks_per_node}
            wrong.append(Code.RANKS_ON_HOST(host=host, **counts))
        cores = core_of(masks.get(host) if isinstance(masks, Mapping) else masks)
        wrong += _misplaced_on(host, ranks, asked.threads, cores)
    return wrong


def _misplaced_on(
    host: str, ranks: list[Seat], threads: int, cores: dict[int, int]
) -> list[Reason]:
    wrong, owners = [], {}
    for rank in ranks:
        number = rank["rank"]
        if len(rank["threads"]) != threads:
            counts = {"threads": len(rank["threads"]), "asked": threads}
            wrong.append(Code.THREADS_RAN(rank=number, host=host, **counts))
            continue
        places = [(None, rank["cpus"])] if threads == 1 else list(enumerate(rank["threads"]))
        for thread, cpus in places:
            seat = {"rank": number, "host": host, "thread": thread, "cpus": cpus}
            mine = {cores.get(cpu, ("cpu", cpu)) for cpu in cpulist(cpus)}
            if shared := mine & owners.keys():
                other = owners[next(iter(shared))]
                wrong.append(Code.CORE_SHARED(**seat, other=other))
            elif cores and len(mine) > 1:
                # Without the site's topology, CPUs of one core are not known to be one place.
                wrong.append(Code.CORE_UNBOUND(**seat))
            owners |= dict.fromkeys(mine - owners.keys(), (number, thread, cpus))
    return wrong
