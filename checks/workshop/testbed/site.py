"""A site file of a virtual cluster, and folders of kernels as a run takes them."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.core.paths import write_whole
from workshop.testbed.blueprint import Node
from workshop.testbed.cluster import Cluster

SITE = '''"""{name}: a virtual cluster."""

from reframe.utility import import_module_from_file

common = import_module_from_file({common!r})

site_configuration = common.slurm(
    __file__,
    scheduler={scheduler!r},
    partitions=[
{partitions}
    ],
)
'''


@dataclass(frozen=True)
class Launching:
    """A partition of the site: a launcher on nodes of a queue."""

    name: str
    launcher: str = "srun"
    nodes: Sequence[int] = (2,)  # per launch; each makes a partition
    queue: str = "quad"
    choices: Mapping[str, Any] = field(default_factory=dict)  # other words of common.partition

    def names(self) -> list[str]:
        """The partitions, as the site file names them."""
        return [f"{self.name}-{count}" for count in self.nodes]


def write_site(cluster: Cluster, name: str, launchings: Sequence[Launching]) -> Path:
    """Writes NAME.py and NAME.json into the cluster's folder.

    Args:
        cluster: which has the queues.
        name: of the system.
        launchings: its partitions.

    Returns:
        The site file.
    """
    lines, facts = [], {}
    for part in launchings:
        words = {"nodes": list(part.nodes), "launcher": part.launcher, **part.choices}
        arguments = ", ".join(f"{word}={value!r}" for word, value in words.items())
        lines.append(f"        common.partition({part.name!r}, {arguments}),")
        (queue,) = [p for p in cluster.blueprint.partitions if p.name == part.queue]
        nodes = cluster.blueprint.nodes[queue.first - 1 : queue.last]
        facts[part.name] = {
            "queue": part.queue,
            "nodes": len(nodes),
            "max_time": queue.minutes * 60,
            "processor": _processor(nodes[0]),
        }
    text = SITE.format(
        name=name,
        common=str(paths.ROOT / "site-configs" / "common.py"),
        scheduler="slurm" if cluster.blueprint.accounting else "squeue",
        partitions="\n".join(lines),
    )
    kept = {"version": 1, "software": {"mpi": {"kind": "openmpi"}}, "partitions": facts}
    write_whole(cluster.folder / f"{name}.json", json.dumps(kept, indent=1))
    return write_whole(cluster.folder / f"{name}.py", text)


def _processor(node: Node) -> dict[str, Any]:
    cores = node.cores - node.spare
    return {
        # Nodes have different CPUs of this machine, each a core.
        "topology": {"cores": [hex(1 << cpu) for cpu in sorted(os.sched_getaffinity(0))]},
        "num_cpus": cores,
        "num_cpus_per_core": 1,
        "num_cpus_per_socket": cores,
        "num_sockets": 1,
    }


def installed(build: Path, folder: Path) -> Path | None:
    """The kernels of a CMake build as `-S Build.kernels=DIR` takes them; None if none are built.

    Args:
        build: the build's folder.
        folder: is made, with bin/ in it; an earlier bin/ is replaced.
    """
    kernels = [path for path in build.glob("*/bisection-*") if path.is_file()]
    shutil.rmtree(folder / "bin", ignore_errors=True)  # of an earlier cluster of the folder
    (folder / "bin").mkdir(parents=True)
    for kernel in kernels:
        (folder / "bin" / kernel.name).symlink_to(kernel.resolve())
    return folder if kernels else None
