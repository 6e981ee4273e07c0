"""Runs a kernel under SimGrid's MPI on a made-up fat tree; standard library only.

The kernel is the same source, built by src/tests/simgrid into the folder FOLDER below. Times are
the simulation's: the machine that runs the test does not change them.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from kernel_run import Outcome

TIMEOUT = 240  # s
SETTINGS = (
    "smpi/simulate-computation:no",  # messages take time, computing takes none
    "smpi/test:1e-7",  # MPI_Test would sleep ever longer
    "network/crosstraffic:no",  # acknowledgements take no bandwidth
    "network/TCP-gamma:0",  # long routes are no slower than their links
)


class Tree(NamedTuple):
    """A two-level fat tree: each leaf switch has an uplink to each spine. Links have 12.5 GB/s."""

    leaves: int
    hosts: int  # per leaf
    spines: int

    def names(self) -> "list[str]":
        """Hosts in the order of their leaf switches."""
        return [f"n{i}" for i in range(self.leaves * self.hosts)]

    def switches(self) -> str:
        """The text of a file for --switches."""
        names = self.names()
        lines = [" ".join(names[k : k + self.hosts]) for k in range(0, len(names), self.hosts)]
        return "".join(f"leaf{number} {hosts}\n" for number, hosts in enumerate(lines))


def missing(folder: Path) -> "str | None":
    """Why nothing can be simulated here; None if it can."""
    if shutil.which("smpirun") is None:
        return "smpirun of SimGrid is not installed"
    if not (folder / "fat_tree.so").exists():
        return f"{folder} has no fat_tree.so: it was configured without SimGrid"
    return None


def simulate(
    folder: Path, kernel: str, tree: Tree, *arguments: str, cables: str = "", per_host: int = 1
) -> Outcome:
    """Runs a kernel on all hosts of a tree.

    Args:
        folder: where src/tests/simgrid was built.
        kernel: its name without bisection-, for example pairs.
        tree: the machine.
        arguments: of the kernel, without --output.
        cables: the slow ones, as fat_tree.cpp reads them:
            "node 3 both 0.5 0; uplink 0 2 out 1 2e-6".
        per_host: ranks of each host.

    Returns:
        Exit code, what was printed, the result, and the other files beside it, by name.
    """
    with tempfile.TemporaryDirectory() as name:
        hosts, output = Path(name) / "hosts", Path(name) / "results" / "result.json"
        output.parent.mkdir()
        hosts.write_text("".join(f"{host}\n" * per_host for host in tree.names()))
        (Path(name) / "switches").write_text(tree.switches())
        options = [text.replace("{switches}", f"{name}/switches") for text in arguments]
        ranks = str(per_host * len(tree.names()))
        process = subprocess.run(
            ["timeout", str(TIMEOUT), "smpirun", "-np", ranks, "-hostfile", str(hosts)]
            + ["-platform", str(folder / "fat_tree.so"), "--log=root.thres:warning"]
            + [f"--cfg={setting}" for setting in SETTINGS]
            + [str(folder / f"{kernel}-simulated"), *options]
            + ["--output", str(output), "--progress-timeout", "0"],
            env={**os.environ, "BX_TREE": " ".join(map(str, tree)), "BX_CABLES": cables},
            capture_output=True,
            text=True,
        )
        return Outcome(process, output)
