"""The switches of the nodes of a queue, for the kernel `pairs`."""

from pathlib import Path
from typing import Any

from bisection import schedulers
from bisection.core.grouping import grouped
from bisection.core.topology import TOPOLOGY, TopologyError, file_of, parse

LEAVES = "switches.txt"  # in the folder of a launch: lines SWITCH HOST HOST ...


def options(partition: Any, folder: str) -> list[str]:
    """The kernel's option that names the file of the switches, which is written into the folder of
    the launch; none where the switches of all nodes of the queue are not known. What the scheduler
    does know is kept, so that the report names the nodes without a switch."""
    scheduler = schedulers.of(partition.scheduler.registered_name)
    file = partition.extras.get("topology")
    text = file_of(file).read_text() if file else scheduler.topology()
    try:
        switches = parse(text)
    except TopologyError:
        return []
    Path(folder, TOPOLOGY).write_text(text)
    hosts = scheduler.hosts(partition.access)
    hosts = {node: node for node in switches} if hosts is None else hosts
    if not hosts.keys() <= switches.keys():
        return []
    leaves = grouped(hosts, lambda node: switches[node][0])
    lines = [
        " ".join([leaf, *dict.fromkeys(hosts[node] for node in nodes)]) + "\n"
        for leaf, nodes in leaves.items()
    ]
    Path(folder, LEAVES).write_text("".join(lines))
    return [f"--switches {LEAVES}"] if leaves else []
