"""Builds a Slurm cluster of virtual nodes on this machine. It needs root, and Slurm's programs."""

import argparse
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bisection.core.verdicts import Exit
from workshop.testbed.blueprint import HEAD, NODE_FORM, POLICIES, Blueprint, Node, Partition
from workshop.testbed.cluster import LIFETIME, Cluster

NODE_COMMANDS = {
    "kill": ("kill_node", "cut a node's power"),
    "start": ("start_node", "switch a dead node on"),
    "cut": ("cut", "pull a node's cable"),
    "mend": ("mend", "plug a node's cable in"),
}


CODES = {
    Exit.OK: "exec: that of its command instead",
    Exit.NOT_MEASURED: "no cluster can be built here, or it is not as it should be",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    commands = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    def add(name: str, text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("folder", type=Path, metavar="DIR", help="everything is below it")
        return command

    up = add("up", "build a cluster, in place of an earlier one of the folder")
    up.add_argument(
        "--node",
        action="append",
        type=_typed(Node.parsed),
        metavar="NODES[:...]",
        help=f"{NODE_FORM}: nodes that are alike; again for others; NODES: a number, or names such "
        "as c[01-03]; default: 4:1",
    )
    up.add_argument(
        "--partition",
        action="append",
        type=_typed(Partition.parsed),
        metavar="NAME=NODES[:whole][:MINUTES]",
        help="NODES: 2 (the first two) or 2-4; whole: no two jobs share a node; default: "
        "duo=2:30 and quad=4:whole:60",
    )
    up.add_argument(
        "--accounting", action="store_true", help="with slurmdbd and a MariaDB, for sacct"
    )
    up.add_argument(
        "--annex",
        type=int,
        default=0,
        metavar="NODES",
        help="so many of the last nodes are of a second cluster, annex; with a database",
    )
    up.add_argument(
        "--account",
        action="append",
        metavar="NAME",
        help="of the user root, again for others; the first is the default one; with a database",
    )
    up.add_argument(
        "--policy",
        action="append",
        default=[],
        metavar="FILE",
        help=f"a script of the site for Slurm, of the name {' or '.join(POLICIES)}",
    )
    up.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a line of slurm.conf, such as MpiDefault=none or a whole PartitionName=...",
    )
    up.add_argument(
        "--shared-memory",
        action="store_true",
        help="nodes share memory: for Debian 12's MPICH, whose UCX hangs over TCP in MPI_Finalize",
    )
    up.add_argument(
        "--lifetime",
        type=float,
        default=LIFETIME,
        metavar="SECONDS",
        help=f"after that it ends itself; default: {LIFETIME:.0f}",
    )
    add("down", "end everything of the cluster; logs stay")
    add("status", "print nodes and jobs")
    execute = add("exec", "run a command on the login node, or on a node")
    execute.add_argument("--host", default=HEAD, metavar="NAME", help="default: head")
    execute.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND...")
    for name, (_, text) in NODE_COMMANDS.items():
        add(name, text).add_argument("node", metavar="NODE")
    shape = add("shape", "limit a node's link")
    shape.add_argument("node", metavar="NODE")
    shape.add_argument(
        "rate", metavar="RATE", help="as tc takes it, such as 100mbit; none: no limit"
    )
    lose = add("lose", "have a node's link lose packets at random")
    lose.add_argument("node", metavar="NODE")
    lose.add_argument("percent", type=_typed(_percent), metavar="PERCENT", help="0: none")
    delay = add("delay", "have a node's link hold each packet for a time")
    delay.add_argument("node", metavar="NODE")
    delay.add_argument(
        "seconds", type=_typed(_seconds), metavar="TIME", help="such as 2ms or 500us; 0: none"
    )
    for name, text in (
        ("pause", "stop a daemon of the login node: it answers nobody"),
        ("resume", "let a paused daemon go on"),
    ):
        add(name, text).add_argument("daemon", metavar="DAEMON", help="slurmctld, slurmdbd, ...")


def _typed(parsed: Callable[[str], Any]) -> Callable[[str], Any]:
    """argparse prints the text of this error, and not that of ValueError."""

    def read(text: str) -> Any:
        try:
            return parsed(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    return read


def _percent(text: str) -> float:
    percent = float(text.removesuffix("%"))
    if not 0 <= percent <= 100:
        raise ValueError(f"{text!r} is not a percentage from 0 to 100")
    return percent


def _seconds(text: str) -> float:
    words = re.fullmatch(r"(\d+\.?\d*)(us|ms|s|)", text)
    seconds = float(words[1]) * {"us": 1e-6, "ms": 1e-3}.get(words[2], 1) if words else -1.0
    if not 0 <= seconds <= 1:
        raise ValueError(f"{text!r} is not a time from 0 to 1s, such as 2ms")
    return seconds


def act(options: argparse.Namespace) -> Exit:
    cluster = Cluster(options.folder)
    if options.action == "up":
        nodes = [node for group in options.node or [[Node()] * 4] for node in group]
        partitions = options.partition or [
            Partition("duo", 1, min(2, len(nodes)), minutes=30),
            Partition("quad", 1, len(nodes), whole=True),
        ]
        blueprint = Blueprint(
            nodes=tuple(nodes),
            partitions=tuple(partitions),
            accounting=options.accounting or bool(options.account or options.annex),
            annex=options.annex,
            shared_memory=options.shared_memory,
            options=tuple(options.conf),
            accounts=tuple(options.account or Blueprint.accounts),
            policies=tuple(options.policy),
        )
        cluster.up(blueprint, options.lifetime)
        print(cluster.output("sinfo", "-N", "-l"), end="")
    elif options.action == "down":
        cluster.down()
    elif options.action == "status":
        line = cluster.command(["sh", "-c", "sinfo -N -l; squeue"])
        os.execvpe(line[0], line, cluster.environment())
    elif options.action == "exec":
        line = cluster.command(options.words or ["bash"], options.host)
        cluster.take_cpus(options.host)
        os.execvpe(line[0], line, cluster.environment())
    elif options.action == "shape":
        cluster.shape(options.node, None if options.rate == "none" else options.rate)
    elif options.action == "lose":
        cluster.lose(options.node, options.percent / 100)
    elif options.action == "delay":
        cluster.delay(options.node, options.seconds)
    elif options.action in NODE_COMMANDS:
        getattr(cluster, NODE_COMMANDS[options.action][0])(options.node)
    else:
        getattr(cluster, options.action)(options.daemon)
    return Exit.OK
