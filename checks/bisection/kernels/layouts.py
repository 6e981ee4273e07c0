"""Hybrid MPI/OpenMP layouts: where ranks and threads go, and whether they went there.

A layout is a name that means the same on every machine; with the partition's processor information
it becomes a geometry: nodes x ranks a node x threads a rank, one thread a core.
"""

from bisection.core.identity import Geometry

LAYOUTS = {
    "mpi": "one rank a core",
    "node": "one rank a node, a thread a core",
    "node2": "two ranks a node, the cores shared out as threads",
}
# For kernels whose threads share much memory.
TOPOLOGY_LAYOUTS = {
    "domain": "one rank a NUMA domain, or an L3 cache where a node is one domain",
}


class DoesNotFit(ValueError):
    """The partition's nodes cannot hold this layout; the text says why."""


def domains(topology):
    """NUMA domains of a node, or its L3 caches if it is one domain, from ReFrame's topology; 1 if
    it does not say."""
    memories = len(topology.get("numa_nodes") or [])
    caches = [c for c in topology.get("caches") or [] if c.get("type") == "L3"]
    return memories if memories > 1 else max([len(c.get("cpusets") or []) for c in caches] + [1])


def geometry(layout, cores, nodes=1, topology=None):
    """The Geometry of `layout` on `nodes` nodes of `cores` cores each; raises DoesNotFit."""
    ranks_per_node = {"mpi": cores, "node": 1, "node2": 2}.get(layout)
    if ranks_per_node is None:
        ranks_per_node = domains(topology or {})
        for other, ranks in (("node", 1), ("node2", 2), ("mpi", cores)):
            if ranks_per_node == ranks:
                raise DoesNotFit(f"layout {layout} is {other} here: {ranks} a node")
    if ranks_per_node > cores:
        raise DoesNotFit(f"layout {layout} needs {ranks_per_node} cores a node, there are {cores}")
    return Geometry(nodes, ranks_per_node, cores // ranks_per_node)


def bindings(templates, shape):
    """Launcher options of the site's templates, such as "--map-by ppr:{ranks_per_node}:node"."""
    fields = {
        "nodes": shape.nodes,
        "ranks": shape.ranks,
        "ranks_per_node": shape.ranks_per_node,
        "threads": shape.threads,
    }
    return [template.format(**fields) for template in templates]


def cpulist(text):
    """The set of CPU numbers in the kernel's list format, "0-3,8"; ValueError if it is not one."""
    cpus = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus.update(range(int(first), int(last or first) + 1))
    return cpus


def core_of(masks):
    """CPU -> core index, from ReFrame's topology["cores"], a list of hexadecimal CPU masks."""
    cores = {}
    for index, mask in enumerate(masks or []):
        bits = int(mask, 16)
        for cpu in range(bits.bit_length()):
            if bits >> cpu & 1:
                cores[cpu] = index
    return cores


def complaints(reported, asked, masks=()):
    """What is wrong with the placement that the ranks saw, one sentence each; empty if nothing.

    `reported` is the "layout" of a result file, `asked` a Geometry, `masks` the CPUs of each core
    (cpus of one core are the same place). Ranks and threads must each have cores of their own,
    exactly as many as asked for: otherwise the machine is judged by a time that is not its own.
    """
    per_rank = reported["per_rank"]
    wrong = []
    if len(per_rank) != asked.ranks:
        return [f"{len(per_rank)} ranks ran, not {asked.ranks}"]

    hosts = {}
    for rank in per_rank:
        hosts.setdefault(rank["host"], []).append(rank)
    if len(hosts) != asked.nodes:
        wrong.append(
            f"ranks ran on {len(hosts)} hosts ({', '.join(sorted(hosts))}), not on {asked.nodes}"
        )
    for host, ranks in sorted(hosts.items()):
        if len(hosts) == asked.nodes and len(ranks) != asked.ranks_per_node:
            wrong.append(f"{len(ranks)} ranks ran on host {host}, not {asked.ranks_per_node}")
        wrong += _shared_cores(host, ranks, asked.threads, core_of(masks))
    return wrong


def _shared_cores(host, ranks, threads, cores):
    def cores_in(cpus):
        return {cores.get(cpu, ("cpu", cpu)) for cpu in cpulist(cpus)}

    wrong, owners = [], {}
    for rank in ranks:
        name = f"rank {rank['rank']} on {host}"
        if len(rank["threads"]) != threads:
            wrong.append(f"{name} ran {len(rank['threads'])} threads, not {threads}")
            continue
        seats = [(f"{name} thread {i}", cpus) for i, cpus in enumerate(rank["threads"])]
        for seat, cpus in [(name, rank["cpus"])] if threads == 1 else seats:
            mine = cores_in(cpus)
            for core in mine & owners.keys():
                wrong.append(f"{seat} (cpus {cpus}) shares a core with {owners[core]}")
                break
            else:
                # Without the site's topology, cpus of one core are not known to be one place.
                if cores and len(mine) > 1:
                    wrong.append(f"{seat} is not bound to one core: it may use cpus {cpus}")
            owners.update(dict.fromkeys(mine - owners.keys(), f"{seat} (cpus {cpus})"))
    return wrong
