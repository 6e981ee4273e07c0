"""The switches of a partition's nodes, for the kernel `pairs` and for who judges its matrix."""

from pathlib import Path
from typing import Any

from bisection.core import topology
from bisection.core.commands import ask
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
        One option; none where Slurm knows no switches.
    """
    if partition.scheduler.registered_name not in SLURM:
        return []
    answer = ask("scontrol", "show", "topology")
    try:
        switches = topology.parse(answer.text)
    except TopologyError:
        return []
    hosts: dict[str, list[str]] = {}
    for host, (leaf, *_) in switches.items():
        hosts.setdefault(leaf, []).append(host)
    Path(folder, TOPOLOGY).write_text(answer.text)
    lines = [" ".join([leaf, *names]) + "\n" for leaf, names in hosts.items()]
    Path(folder, LEAVES).write_text("".join(lines))
    return [f"--switches {LEAVES}"]
