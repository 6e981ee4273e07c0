"""Systems that SimGrid simulates: the machines of the workshop's smpi, and their launcher."""

import csv
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from reframe.core.backends import register_launcher
from reframe.core.launchers import JobLauncher
from reframe.utility import import_module_from_file

SITES = Path(__file__).resolve().parents[1]
SMPI = SITES.parent / "checks" / "workshop" / "smpi"
common = import_module_from_file(str(SITES / "common.py"))
# CMake takes SimGrid's smpicc.
ENVIRONMENT = {
    "name": "smpi",
    "features": ["kernels", "simulated"],
    "extras": {"cmake": [f"-DBX_SIMULATED={SMPI}"]},
    **common.NO_COMPILERS,
}


@register_launcher("smpirun")
class SimulatedLauncher(JobLauncher):
    """launch.py, which starts smpirun; the partition's `binding` names the machine.

    It is no variable of the environment: one build serves all machines.
    """

    def command(self, job: Any) -> list[str]:
        """The command in front of the kernel's."""
        per_node = job.num_tasks_per_node or job.num_tasks
        program = [shlex.quote(sys.executable), shlex.quote(str(SMPI / "launch.py"))]
        return [*program, f"-n {job.num_tasks}", f"--per-node {per_node}"]


def cores_of(machine: str) -> int:
    """Cores of a node.

    Raises:
        KeyError: there is no such machine.
    """
    with open(SMPI / "machines.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["quantity"] == "cores" and machine in row["machines"].split():
                return int(row["value"])
    raise KeyError(machine)


def simulated(file: str, nodes: int) -> dict[str, Any]:
    """The dictionary that ReFrame reads of a machine of checks/workshop/smpi/machines.csv.

    Args:
        file: the site file, whose name is the machine's.
        nodes: how many of its nodes a launch uses.

    Raises:
        KeyError: there is no such machine.
    """
    machine = Path(file).stem
    cores = cores_of(machine)
    system = {
        "name": machine,
        "descr": f"{machine}, simulated by SimGrid",
        "hostnames": [".*"],
        "partitions": [
            {
                "name": "simulated",
                "descr": f"{nodes} nodes, simulated on one core of this machine",
                "scheduler": "local",
                "launcher": "smpirun",
                "environs": ["smpi"],
                "features": ["simulated"],
                "max_jobs": os.cpu_count(),  # simulated times do not depend on neighbours
                "processor": {
                    "num_cpus": cores,
                    "num_cpus_per_core": 1,
                    "num_cpus_per_socket": cores,
                    "num_sockets": 1,
                    "topology": {"cores": [hex(1 << core) for core in range(cores)]},
                },
                "extras": {"nodes": nodes, "binding": [f"--machine {machine}"], "references": []},
            }
        ],
    }
    return common.configuration([system], [ENVIRONMENT])
