"""The switches of a partition's nodes, for the kernel `pairs` and for who judges its matrix.

They stand in the file that `extras.topology` of the partition names, else Slurm knows them.
"""

from pathlib import Path
from typing import Any

from bisection.core import paths, topology
from bisection.core.commands import ask, option_value
from bisection.core.slurm import SLURM, node_rows
from bisection.core.topology import TopologyError

TOPOLOGY = "topology.txt"  # in the folder of a launch: all levels
LEAVES = "switches.txt"  # likewise, for the kernel: lines SWITCH HOST HOST ...


def options(partition: Any, folder: str) -> list[str]:
    """The kernel's option that names the file of the switches, which is written.

    Args:
        partition: of the launch.
        folder: the launch's.

    Returns:
        One option; none where Slurm does not know the switches of all nodes of the queue. What it
        does know is kept, so that the report names the nodes without a switch.
    """
    slurm = partition.scheduler.registered_name in SLURM
    file = partition.extras.get("topology")
    if not slurm and not file:
        return []
    text = file_of(file).read_text() if file else ask("scontrol", "show", "topology").text
    try:
        switches = topology.parse(text)
    except TopologyError:
        return []
    Path(folder, TOPOLOGY).write_text(text)
    leaves: dict[str, dict[str, None]] = {}
    queue = option_value(partition.access, "-p", "--partition")
    hosts = node_rows("%N|%n", queue) if slurm else zip(switches, switches, strict=True)
    for node, host in hosts:
        if node not in switches:
            return []
        leaves.setdefault(switches[node][0], {})[host] = None
    lines = [" ".join([leaf, *hosts]) + "\n" for leaf, hosts in leaves.items()]
    Path(folder, LEAVES).write_text("".join(lines))
    return [f"--switches {LEAVES}"] if leaves else []


def file_of(name: str) -> Path:
    """The file of a topology; a relative path is below the checkout."""
    return Path(paths.ROOT, name)
