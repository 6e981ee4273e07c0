"""The switches of a cluster, from Slurm's topology.conf or what `scontrol show topology` prints."""

import re
from collections.abc import Mapping
from pathlib import Path

from ClusterShell.NodeSet import NodeSet, NodeSetParseError

from bisection.core import paths

TOPOLOGY = "topology.txt"  # in the folder of a launch: all levels

Switches = Mapping[str, tuple[str, ...]]  # node -> its switches, from the leaf up


class TopologyError(ValueError):
    """The text is no topology, or contradicts itself."""


def expanded(names: str) -> list[str]:
    """The names of a list of Slurm's: n[1-2,07] is n1, n2, n07; TopologyError if it is no such
    list."""
    try:
        return list(NodeSet(names))
    except NodeSetParseError as error:
        raise TopologyError(f"{names!r} is no list of names: {error}") from None


def parse(text: str) -> Switches:
    """Reads topology.conf (topology/tree or topology/block) or `scontrol show topology`: node ->
    names of its switches or its block, from the leaf up.

    Raises:
        TopologyError: no line names a switch, or a node or switch has two parents.
    """
    parents: dict[str, str] = {}  # of a node its leaf, of a switch the next switch
    nodes: list[str] = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        words = re.findall(r"(\w+)=(\S+)", line.partition("#")[0])
        values = {name.lower(): value for name, value in words}
        name = values.get("switchname") or values.get("blockname")
        if not name:
            continue
        # scontrol lists the nodes of upper switches, too
        kind = "switch" if values.get("switches") else "node"
        members = expanded(values.get("switches") or values.get("nodes", ""))
        nodes += members if kind == "node" else []
        for child in (f"{kind} {member}" for member in members):
            if parents.setdefault(child, name) != name:
                both = f"{parents[child]} and {name}"
                raise TopologyError(f"{child} is below two switches: {both}")
    if not parents:
        raise TopologyError("no line has SwitchName= or BlockName= with Nodes= or Switches=")
    return {node: _upwards(parents, parents[f"node {node}"]) for node in nodes}


def _upwards(parents: Mapping[str, str], switch: str) -> tuple[str, ...]:
    line = [switch]
    while (above := parents.get(f"switch {line[-1]}")) is not None:
        if above in line:
            raise TopologyError(f"switch {above} is below itself")
        line.append(above)
    return tuple(line)


def file_of(name: str) -> Path:
    """The file of a topology; a relative path is below the checkout."""
    return Path(paths.ROOT, name)
