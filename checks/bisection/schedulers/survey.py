"""Data that any scheduler gives: queues, and groups of alike nodes in them."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bisection.core.grouping import grouped
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.launches import CoreShared, CoreUnbound, Misplaced

OTHER_QUEUE = "Write another queue in the site file, or ask for access to this one."


def no_nodes(queue: str) -> Text:
    """Why a queue without nodes cannot be used."""
    return Text(f"queue {queue}: it has no nodes", next=OTHER_QUEUE)


@dataclass(frozen=True)
class Node:
    """A node as its scheduler knows it."""

    name: str
    cores: int  # that jobs may use
    per_core: int  # CPUs that the scheduler counts per core
    sockets: int
    gres: str = ""  # accelerators and the like
    features: frozenset[str] = frozenset()
    memory: float = 0.0  # B that jobs may have; 0 where its scheduler does not count memory
    down: str = ""  # why it takes no jobs, in its scheduler's words; "" if it does

    @property
    def kind(self) -> tuple[int, int, int, str]:
        return self.cores, self.per_core, self.sockets, self.gres


@dataclass(frozen=True)
class Group:
    """Alike nodes of a queue, and the constraint that asks for them and no others."""

    nodes: Sequence[Node]
    constraint: str = ""  # "" also where none does
    alone: bool = True  # the queue has no others

    @property
    def known(self) -> Node:
        return self.nodes[0]

    @property
    def down(self) -> tuple[tuple[str, str], ...]:
        return tuple((node.name, node.down) for node in self.nodes if node.down)

    @property
    def up(self) -> int:
        return len(self.nodes) - len(self.down)


@dataclass(frozen=True)
class QueueInfo:
    """A queue as its scheduler knows it."""

    name: str
    groups: Sequence[Group]
    max_time: int | None = None  # s
    max_nodes: int | None = None
    whole_nodes: bool = False  # each job has its nodes for itself
    shared: bool = False  # jobs share cores whatever they ask for
    closed: Text | None = None  # why this user cannot use it


@dataclass(frozen=True)
class SchedulerSurvey:
    """A scheduler, and what of it matters to a site file."""

    kind: str  # Slurm, PBS, ...
    reframe: str  # ReFrame's name of its back-end
    version: str = ""
    cluster: str = ""
    queues: Sequence[QueueInfo] = ()
    accounting: bool = True
    account_needed: bool = False
    accounts: Sequence[str] = ()
    mpi_types: Sequence[str] = ()  # of srun --mpi, the usual one first
    task_plugin: str = ""  # of Slurm: by which it binds ranks to cores
    decisions: Sequence[Text] = ()  # what a person must decide
    unusable: Text | None = None  # why no job of the reservation that was asked for can start

    def explained(self, launcher: str, fault: Reason) -> Reason:
        """A launcher's fault; its cause, where the scheduler's configuration is that."""
        binds = "task/affinity" in self.task_plugin or not self.task_plugin
        seats = fault.seats if isinstance(fault, Misplaced) else ()
        shared = any(isinstance(seat, CoreShared | CoreUnbound) for seat in seats)
        if launcher == "srun" and shared and not binds:
            has = f"slurm.conf has TaskPlugin={self.task_plugin}"
            mend = 'Write TaskPlugin=task/affinity in slurm.conf, or use launcher="mpirun".'
            return Text(f"Slurm binds no rank to a core: {has}", next=mend)
        return fault


class SchedulerError(Exception):
    """A scheduler is installed and does not answer."""

    def __init__(self, scheduler: str, error: str) -> None:
        super().__init__(f"{scheduler} is installed and does not answer. {error}")


def groups_of(nodes: Iterable[Node]) -> list[Group]:
    """Nodes of a queue in groups of alike ones, the largest first. A feature that all of a group
    and no other node has becomes its constraint."""
    kinds = grouped(nodes, lambda node: node.kind)
    groups = sorted(kinds.values(), key=lambda group: (-len(group), group[0].name))
    return [Group(group, _constraint(group, groups), len(groups) == 1) for group in groups]


def _constraint(group: Sequence[Node], groups: Sequence[Sequence[Node]]) -> str:
    others = [node.features for other in groups if other is not group for node in other]
    common = frozenset.intersection(*(node.features for node in group))
    return min(common.difference(*others), default="") if len(groups) > 1 else ""


def closed_by(queue: str, fields: Mapping[str, str], usual: Mapping[str, str]) -> Text | None:
    """Returns the first field of a queue that is not the usual one, which closes it to users."""
    for name, value in usual.items():
        if fields.get(name, value) != value:
            return Text(f"queue {queue}: it has {name}={fields[name]}", next=OTHER_QUEUE)
    return None


def seconds_of(text: str) -> int | None:
    """A time limit of a scheduler, [DAYS-]HOURS:MINUTES:SECONDS, in seconds; None for no limit."""
    match = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text.strip())
    if not match:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
