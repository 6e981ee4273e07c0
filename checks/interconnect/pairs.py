"""Measurements of the kernel `pairs` between nodes: its matrix, from result.json and its
sidecar."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bisection.core.topology import Switches
from bisection.kernels import adapters, results
from bisection.kernels.results import ResultError

KERNEL = "pairs"
# A record of the sidecar, little-endian without padding: a, b node numbers; latency (s, half of a
# round trip of 8 B); bandwidths (B/s of all local ranks): a to b, b to a, both at once (sum); NaN
# where not measured.
VALUES = ("latency", "out", "back", "both")
RECORD = np.dtype(
    [("stage", "<i2"), ("round", "<i2"), ("a", "<i4"), ("b", "<i4")]
    + [(name, "<f4") for name in VALUES]
)
TOURNAMENT, RETEST = 0, 1  # stages
MOST = 1 << 16  # nodes: a pair has a number of 32 bits (effects.observations)
PIECE = 1 << 16  # values that are looked at together: they stay in a core's cache


class Kind(NamedTuple):
    """A value of a pair that is judged by itself."""

    name: str
    unit: str
    sign: int  # 1 if higher is better, else -1
    fields: tuple[str, ...]  # of a record; two: each way


KINDS = (
    Kind("latency", "s", -1, ("latency",)),
    Kind("bandwidth", "B/s", 1, ("out", "back")),
    Kind("both ways", "B/s", 1, ("both",)),
)


@dataclass(frozen=True)
class Matrix:
    """Measurements between the nodes of one launch."""

    nodes: list[str]
    records: np.ndarray  # [records] of RECORD
    mode: str = "thin"  # serial | thin | concurrent
    rounds: int = 0
    # [levels, nodes] number of each node's switch, from the leaf up; None: not known.
    switches: np.ndarray | None = None
    names: list[list[str]] | None = None  # [levels][switches]; None: they have numbers alone
    bytes: float = math.nan  # B per rank and message
    rate: float = 0.0  # B/s of a node's adapters that carried messages; 0: not known
    unplaced: tuple[str, ...] = ()  # nodes that the topology lacks, which is therefore not used

    def switch_name(self, level: int, number: int) -> str:
        return self.names[level][number] if self.names else f"switch {number}"

    def switch_names(self, level: int) -> dict[str, str]:
        """The switch of each node, by its name; empty where they are not known."""
        numbers = [] if self.switches is None else self.switches[level]
        names = [self.switch_name(level, number) for number in numbers]
        return dict(zip(self.nodes, names, strict=False))

    def nodes_of_switches(self) -> dict[str, frozenset[str]]:
        """The nodes below each switch, from the leaves up; empty where no switches are known."""
        nodes = np.array(self.nodes)
        return {
            self.switch_name(level, number): frozenset(nodes[numbers == number].tolist())
            for level, numbers in enumerate([] if self.switches is None else self.switches)
            for number in np.unique(numbers)
        }

    def placed(self, switches: Switches) -> "Matrix":
        """The same with the switches of a topology (bisection.core.topology), unless it lacks a
        node."""
        names, missing = levels(switches, self.nodes)
        if not names:
            return replace(self, unplaced=tuple(missing))
        unique, numbers = zip(*(np.unique(n, return_inverse=True) for n in names), strict=True)
        return replace(self, switches=np.array(numbers), names=[n.tolist() for n in unique])


def levels(switches: Switches, hosts: Iterable[str]) -> tuple[list[list[str]], list[str]]:
    """The switches of hosts, which may have their domain, level by level.

    Returns:
        [levels][hosts] names, from the leaf up; where a host has fewer levels, its uppermost switch
        again. And the hosts that the topology lacks: if there are any, the levels are empty.
    """
    hosts = list(hosts)
    lines = [switches.get(host) or switches.get(host.partition(".")[0], ()) for host in hosts]
    if missing := [host for host, line in zip(hosts, lines, strict=True) if not line]:
        return [], missing
    depth = max(map(len, lines), default=0)
    padded = [[*line, *[line[-1]] * (depth - len(line))] for line in lines]
    return [list(level) for level in zip(*padded, strict=True)], []


def pieces(count: int, size: int = PIECE) -> Iterator[slice]:
    """Yields slices of `size` that cover so many values: of long arrays, each temporary one costs
    more time than its arithmetic."""
    return (slice(start, min(start + size, count)) for start in range(0, count, size))


def read(path: Path, most: int = -1) -> Matrix:
    """Reads the matrix of a launch of the kernel `pairs` from its result.json and the sidecar of
    the same name, or so many of its records; ResultError if either is missing, truncated, or of
    something else, or if it has more than MOST nodes."""
    result = results.load(path, KERNEL)
    try:
        head = result["details"]["pairs"]
        switches, names = (head.get(k) and [head[k]] for k in ("switches", "switch_names"))
        switches = np.array(switches) if switches else None
        known = (head["mode"], head["rounds"], switches, names, head["bytes"] or math.nan)
        size = len(head["nodes"]), head["records"]
        if size[0] > MOST:
            raise ResultError(f"{path} has {size[0]} nodes; at most {MOST} can be judged")
        records = _records(path.with_suffix(".pairs"), *size, most)
    except (KeyError, TypeError):
        text = f"{path} is no result of pairs: details.pairs is missing or wrong"
        raise ResultError(text) from None
    return Matrix(head["nodes"], records, *known, _rate(result))


def _rate(result: results.Result) -> float:
    """The rate of a node's adapters that carried messages, B/s; 0 where it is unknown."""
    carried = {name for name, _ in adapters.carriers(result)}
    adapter_lists = [host["list"] for host in result.get("adapters") or []]
    rates = [a["rate"] for a in (adapter_lists or [[]])[0] if adapters.device(a) in carried]
    return sum(rates) * 1e9 / 8 if rates and all(rates) else 0.0


def _records(file: Path, nodes: int, wanted: int, most: int) -> np.ndarray:
    """The records of a sidecar between so many nodes; `wanted`: how many there are; `most`: how
    many are read, -1 for all."""
    try:
        size, records = file.stat().st_size, np.fromfile(file, RECORD, most)
    except OSError as error:
        raise ResultError(f"cannot read {file}: {error.strerror}") from None
    whole, rest = divmod(size, RECORD.itemsize)
    if rest or not whole or wanted != whole:
        whole_records = f"{wanted or 'a whole number of'} records of {RECORD.itemsize} B"
        raise ResultError(f"{file} is truncated: {size} B are not {whole_records}")
    for piece in pieces(len(records)):
        part = records[piece]
        ends = np.stack((part["a"], part["b"]))
        values = np.stack([part[name] for name in VALUES])
        wrong = ((ends < 0) | (ends >= nodes)).any(axis=0) | (ends[0] == ends[1])
        wrong |= (values <= 0).any(axis=0) | np.isinf(values).any(axis=0)
        wrong |= ~np.isin(part["stage"], (TOURNAMENT, RETEST))
        if wrong.any():
            first = int(np.flatnonzero(wrong)[0])
            where = f"record {piece.start + first} of {whole}, {nodes} nodes"
            raise ResultError(f"{file} is damaged: {where}: {part[first]}")
    return records
