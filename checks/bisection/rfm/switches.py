"""The switches of a partition's nodes, for the kernel `pairs` and for who judges its matrix."""

from pathlib import Path
from typing import Any

from bisection.core import topology
from bisection.core.commands import ask, option_value
from bisection.core.topology import TopologyError
from bisection.rfm.scheduler_faults import SLURM

TOPOLOGY = "topology.txt"  # in the folder of a launch: as Slurm prints it
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
    if partition.scheduler.registered_name not in SLURM:
        return []
    answer = ask("scontrol", "show", "topology")
    try:
        switches = topology.parse(answer.text)
    except TopologyError:
        return []
    queue = option_value(partition.access, "-p", "--partition")
    of_queue = ["-p", queue] if queue else []
    nodes = ask("sinfo", "-h", "-N", *of_queue, "-o", "%N %n").text.splitlines()
    Path(folder, TOPOLOGY).write_text(answer.text)
    leaves: dict[str, dict[str, None]] = {}
    for node, host in map(str.split, nodes):  # a node of several queues has several lines
        if node not in switches:
            return []
        leaves.setdefault(switches[node][0], {})[host] = None
    lines = [" ".join([leaf, *hosts]) + "\n" for leaf, hosts in leaves.items()]
    Path(folder, LEAVES).write_text("".join(lines))
    return [f"--switches {LEAVES}"] if leaves else []
