"""Runs a kernel under SimGrid's MPI, on a made-up fat tree or a machine of a paper; no packages.

The kernel is the same source, built with BX_SIMULATED into the folder FOLDER below. Times are the
simulation's: the machine that runs the test does not change them.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from kernel_run import Outcome

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "checks" / "workshop" / "smpi"))
import launch

TIMEOUT = 240  # s
# Folders that have several kernels, or another name than the kernel.
FOLDERS = {
    **dict.fromkeys(("patterns", "pairs", "congestion", "noise"), "network"),
    "metadata": "restart",
}


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


def missing(folder: Path, *kernels: str) -> "str | None":
    """Why these kernels cannot be simulated here; None if they can."""
    if shutil.which("smpirun") is None:
        return "smpirun of SimGrid is not installed"
    needed = [folder / "smpi/fat_tree.so", *(executable(folder, kernel) for kernel in kernels)]
    absent = [str(path) for path in needed if not os.path.exists(path)]
    return f"not built: {', '.join(absent)}" if absent else None


def executable(folder: Path, kernel: str) -> str:
    """Where a kernel was built: its name without bisection-, for example pairs."""
    return str(folder / FOLDERS.get(kernel, kernel) / f"bisection-{kernel}")


def simulate(
    folder: Path, kernel: str, tree: Tree, *arguments: str, cables: str = "", per_host: int = 1
) -> Outcome:
    """Runs a kernel on all hosts of a tree.

    Args:
        folder: where the kernels were built.
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
        output = Path(name) / "results" / "result.json"
        output.parent.mkdir()
        (Path(name) / "switches").write_text(tree.switches())
        options = [text.replace("{switches}", f"{name}/switches") for text in arguments]
        process = launch.run(
            [executable(folder, kernel), *options, "--output", str(output)],
            [host for host in tree.names() for _ in range(per_host)],
            folder / "smpi/fat_tree.so",
            env={"BX_TREE": " ".join(map(str, tree)), "BX_CABLES": cables},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        return Outcome(process, output)


def simulate_machine(
    folder: Path, kernel: str, machine: str, ranks: int, *arguments: str, **environment: str
) -> Outcome:
    """Runs a kernel by launch.py on a machine of machines.csv.

    Args:
        folder: where the kernels were built.
        kernel: its name without bisection-, or the path of another program.
        machine: BX_MACHINE: a name, and values that are to be others.
        ranks: of the launch; they fill the nodes.
        arguments: of the kernel, without --output.
        environment: further variables.
    """
    program = kernel if "/" in kernel else executable(folder, kernel)
    with tempfile.TemporaryDirectory() as name:
        output = Path(name) / "result.json"
        command = [sys.executable, launch.__file__, "-n", str(ranks), program, *arguments]
        process = subprocess.run(
            [*command, "--output", str(output)],
            env={**os.environ, "BX_MACHINE": machine, **environment},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        return Outcome(process, output)
