#!/usr/bin/env python3
"""Runs a kernel on a simulated machine by SimGrid's smpirun; standard library only.

    BX_MACHINE=hector-xt4 launch.py -n 16 build/transpose/bisection-transpose --case cnt40

BX_MACHINE names a machine of machines.csv; "hector-xt4 gap=0 slow_link=3:0.5" changes values of
it, or gives it faults (machine.cpp); "alltoallv=pair" takes an algorithm of SimGrid's for a
collective. OMP_NUM_THREADS is the number of threads per rank, which are simulated too. Ranks fill
the nodes in blocks. The exit code is the kernel's.
"""

import argparse
import csv
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FAULTS = ("slow_link", "far_link", "slow_host")  # "NODE:FACTOR,..."
# Of every simulation: messages take time, computing takes what kernels charge, clocks are free.
SETTINGS = (
    "smpi/simulate-computation:no",
    "smpi/wtime:0",
    "smpi/test:1e-7",  # MPI_Test would sleep ever longer
    "network/crosstraffic:no",  # acknowledgements take no bandwidth
    "network/TCP-gamma:0",  # long routes are no slower than their links
)
# MPI libraries of those years: MPICH's choices of algorithms, but for all-to-all of short messages
# (exchange.c). Its choice for broadcasts (SMP_binomial) sends to ranks that have ended already.
LIBRARY = (
    "smpi/coll-selector:mpich",
    "smpi/alltoall:mvapich2",  # MPICH's fails on some numbers of ranks
    "smpi/bcast:binomial_tree",
    "smpi/send-is-detached-thresh:100000000",
)
# Each rank is a copy of the kernel in one process.
MAPPINGS = 8  # of memory that a copy takes
MAPPINGS_BESIDE = 512  # those of SimGrid and of libraries, with some to spare
# Collectives whose algorithm BX_MACHINE may name: allreduce=rdb.
COLLECTIVES = ("allgather", "allreduce", "alltoall", "alltoallv", "barrier", "bcast", "reduce")
# What SimGrid prints of each rank: exit codes, routines that are not implemented (MPI_Win_sync).
SILENCE = (
    "root.thres:warning",
    "smpi_config.thres:error",
    "smpi_kernel.thres:error",
    "smpi_mpi.thres:error",
    "smpi_pmpi.thres:error",
)


class Refused(Exception):
    """An option that cannot be simulated; the message names the value and what is allowed."""


def machines() -> dict[str, dict[str, str]]:
    """Values of every machine by quantity, as machines.csv has them."""
    table: dict[str, dict[str, str]] = {}
    with open(HERE / "machines.csv", newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            for name in row["machines"].split():
                table.setdefault(name, {})[row["quantity"]] = row["value"]
    return table


def chosen(text: str) -> dict[str, str]:
    """The values that BX_MACHINE asks for.

    Raises:
        Refused: an unknown machine or quantity, or a value that is no number.
    """
    name, *changes = text.split() or [""]
    known = machines()
    if name not in known:
        raise Refused(f"BX_MACHINE '{name}': not one of {', '.join(known)}")
    values = {"name": name, **known[name]}
    for change in changes:
        quantity, equals, value = change.partition("=")
        if not equals or quantity not in (*known[name], *FAULTS, *COLLECTIVES):
            allowed = ", ".join((*known[name], *FAULTS, *COLLECTIVES))
            raise Refused(f"BX_MACHINE '{change}': not QUANTITY=VALUE with one of {allowed}")
        if quantity in COLLECTIVES and not re.fullmatch(r"\w+", value):
            raise Refused(f"BX_MACHINE '{change}': '{value}' is not the name of an algorithm")
        if quantity in COLLECTIVES:
            values[quantity] = value
            continue
        pattern = r"\d+:[\d.e+-]+(,\d+:[\d.e+-]+)*" if quantity in FAULTS else r"[\d.e+-]+"
        if not re.fullmatch(pattern, value):
            raise Refused(f"BX_MACHINE '{change}': '{value}' is not a number, or NODE:FACTOR,...")
        values[quantity] = value
    if changes:
        values["changed"] = ";".join(changes)
    return values


def check_mappings(ranks: int) -> None:
    """Looks whether Linux allows the mappings of so many ranks in one process.

    Raises:
        Refused: it does not; the message says what to set.
    """
    allowed = int(Path("/proc/sys/vm/max_map_count").read_text())
    needed = MAPPINGS * ranks + MAPPINGS_BESIDE
    if needed > allowed:
        raise Refused(
            f"{ranks} ranks: {needed} mappings of memory in one process, where Linux allows "
            f"{allowed}; root can allow more: sysctl -w vm.max_map_count={needed}"
        )


def folder_in_memory(kernel: str, ranks: int) -> str | None:
    """Where copies of the kernel, one per rank, are made fastest; None: memory has no room."""
    folder, needed = "/dev/shm", 2 * ranks * Path(kernel).stat().st_size
    has_room = os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > needed
    return folder if has_room else None


def run(command: list[str], hosts: list[str], platform: Path, settings: tuple[str, ...] = (),
        **options: Any) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Runs a kernel under smpirun.

    Args:
        command: the kernel and its arguments.
        hosts: of each rank, by its name in the platform.
        platform: what load_platform is in.
        settings: of SimGrid, beside SETTINGS.
        options: of subprocess.run.

    Raises:
        Refused: more ranks than Linux allows in one process.
    """
    check_mappings(len(hosts))
    memory = folder_in_memory(command[0], len(hosts))
    with tempfile.TemporaryDirectory(prefix="bisection-smpi-", dir=memory) as folder:
        file = Path(folder, "hosts")
        file.write_text("".join(f"{host}\n" for host in hosts))
        # adapters of this machine carry nothing
        folders = {"BX_SYS_ROOT": folder, "TMPDIR": folder}
        environment = {**os.environ, **folders, **(options.pop("env", None) or {})}
        return subprocess.run(
            ["smpirun", "-np", str(len(hosts)), "-hostfile", str(file), "-platform", str(platform)]
            + [f"--cfg={setting}" for setting in (*SETTINGS, *settings)]
            + [f"--log={category}" for category in SILENCE]
            + command,
            env=environment,
            **options,
        )  # fmt: skip


def main() -> int:
    """Command line, see the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-n", type=int, required=True, metavar="RANKS", dest="ranks")
    parser.add_argument(
        "--per-node", type=int, default=0, metavar="RANKS", help="default: cores / threads"
    )
    parser.add_argument("--machine", default=os.environ.get("BX_MACHINE", ""), help="BX_MACHINE")
    parser.add_argument("kernel", type=Path)
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    try:
        machine = chosen(options.machine)
        cores, threads = int(machine["cores"]), int(os.environ.get("OMP_NUM_THREADS") or 1)
        per_node = options.per_node or cores // threads
        if options.ranks < 1 or not 1 <= per_node <= cores // threads:
            raise Refused(
                f"{options.ranks} ranks, {per_node} per node, {threads} threads each: "
                f"a node of {machine['name']} has {cores} cores"
            )
        nodes = -(-options.ranks // per_node)
        if nodes > int(machine["nodes"]):
            raise Refused(f"{nodes} nodes: {machine['name']} has {machine['nodes']}")
        machine |= {"nodes": str(nodes), "per_node": str(per_node)}
        if not options.kernel.exists():
            raise Refused(f"{options.kernel}: no such kernel")
        # beside the kernels where they are installed, in a folder of its own where they are built
        folders = (options.kernel.parent, options.kernel.parent.parent / "smpi")
        platforms = [folder / "machine.so" for folder in folders]
        platform = next((path for path in platforms if path.exists()), None)
        if platform is None:
            raise Refused(f"{options.kernel}: no machine.so beside it: built without BX_SIMULATED")
        check_mappings(options.ranks)
    except (Refused, ValueError) as error:
        print(f"launch: {error}", file=sys.stderr)
        return 2
    hosts = [f"n{rank // per_node}" for rank in range(options.ranks)]
    values = " ".join(f"{name}={value}" for name, value in machine.items())
    environment = {"BX_PLATFORM": values, "OPENBLAS_NUM_THREADS": "1"}
    command = [str(options.kernel.resolve()), *options.arguments]
    algorithms = (f"smpi/{name}:{machine[name]}" for name in COLLECTIVES if name in machine)
    settings = (*LIBRARY, *algorithms)
    return run(command, hosts, platform.resolve(), settings, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
