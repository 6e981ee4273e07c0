"""The parts of a virtual cluster, and its configuration of Slurm."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NETWORK = "10.213.77"  # of the namespaces alone; nothing of it is seen outside
HEAD = "head"


@dataclass(frozen=True)
class Node:
    """A compute node."""

    cores: int = 1  # of one hardware thread each, in one socket
    spare: int = 0  # of them, cores that Slurm keeps from jobs (CoreSpecCount)
    features: tuple[str, ...] = ()

    @classmethod
    def parsed(cls, text: str) -> "list[Node]":
        """The nodes of COUNT[:CORES[:SPARE[:FEATURE,...]]].

        Raises:
            ValueError: the text has another form, or all cores of a node are spare.
        """
        match = re.fullmatch(r"([1-9]\d?)(?::([1-9]\d?)(?::(\d+)(?::([\w,]+))?)?)?", text)
        if not match or int(match[3] or 0) >= int(match[2] or 1):
            raise ValueError(f"{text!r} is not COUNT[:CORES[:SPARE[:FEATURE,...]]], SPARE < CORES")
        features = tuple(filter(None, (match[4] or "").split(",")))
        return [cls(int(match[2] or 1), int(match[3] or 0), features)] * int(match[1])


@dataclass(frozen=True)
class Partition:
    """A queue."""

    name: str
    first: int  # number of its first node, from 1
    last: int
    whole: bool = False  # jobs get whole nodes only
    minutes: int = 60  # the longest job

    @classmethod
    def parsed(cls, text: str) -> "Partition":
        """The partition of NAME=NODES[:whole][:MINUTES]; NODES is 4 (the first four) or 2-4.

        Raises:
            ValueError: the text has another form.
        """
        form = r"([A-Za-z]\w*)=(?:(\d+)-)?([1-9]\d?)(:whole)?(?::([1-9]\d*))?"
        match = re.fullmatch(form, text)
        if not match or not 1 <= int(match[2] or 1) <= int(match[3]):
            raise ValueError(f"{text!r} is not NAME=NODES[:whole][:MINUTES], NODES as 4 or 2-4")
        first, last, minutes = int(match[2] or 1), int(match[3]), int(match[5] or 60)
        return cls(match[1], first, last, bool(match[4]), minutes)


@dataclass(frozen=True)
class Blueprint:
    """A cluster: its nodes are node1, node2, ...; the login node, with the daemons, is `head`."""

    nodes: tuple[Node, ...] = (Node(),) * 4
    partitions: tuple[Partition, ...] = (
        Partition("duo", 1, 2, minutes=30),
        Partition("quad", 1, 4, whole=True),
    )
    accounting: bool = False  # slurmdbd, with a MariaDB of its own
    # Whether nodes see one memory, as only one machine has it: messages then need no network.
    shared_memory: bool = False
    options: tuple[str, ...] = ()  # further lines of slurm.conf

    def names(self) -> list[str]:
        """The names of the nodes."""
        return [f"node{number}" for number in range(1, len(self.nodes) + 1)]

    def faults(self, cpus: int) -> list[str]:
        """Returns what of it cannot be built on a machine with so many CPUs; empty if nothing."""
        names = [partition.name for partition in self.partitions]
        faults = [
            f"partition {partition.name}: node{partition.last} of {len(self.nodes)} nodes"
            for partition in self.partitions
            if partition.last > len(self.nodes)
        ]
        faults += [f"partition {name}: twice" for name in names if names.count(name) > 1][:1]
        most = max(node.cores for node in self.nodes)
        if most > cpus:
            faults.append(f"a node of {most} cores: this machine has {cpus} CPUs")
        return faults

    def cpus_of(self, number: int, cpus: Sequence[int]) -> list[int]:
        """CPUs of this machine that node `number` (from 1) gets; nodes share where they must.

        Args:
            number: of the node.
            cpus: what this process may use, at least as many as the node has cores.
        """
        before = sum(node.cores for node in self.nodes[: number - 1])
        cores = self.nodes[number - 1].cores
        return sorted(cpus[(before + core) % len(cpus)] for core in range(cores))

    def hosts(self) -> str:
        """/etc/hosts of all hosts."""
        named = {HEAD: address(0)} | {n: address(i) for i, n in enumerate(self.names(), 1)}
        lines = ["127.0.0.1 localhost", *(f"{ip} {name}" for name, ip in named.items())]
        return "\n".join(lines) + "\n"

    def slurm_conf(self, folder: Path, memory: int) -> str:
        """slurm.conf.

        Args:
            folder: of the cluster.
            memory: MiB of this machine, which the nodes share.
        """
        settings: dict[str, Any] = {
            "ClusterName": "testbed",
            "SlurmctldHost": f"{HEAD}({address(0)})",
            "SlurmUser": "root",
            "SlurmdUser": "root",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={folder}/munge/socket",
            "CredType": "cred/munge",
            "StateSaveLocation": folder / "state",
            "SlurmdSpoolDir": folder / "spool/%n",
            "TmpFS": folder / "tmp/%n",  # where the PMIx servers of the nodes would collide
            "SlurmctldPidFile": folder / "state/slurmctld.pid",
            "SlurmdPidFile": folder / "spool/%n.pid",
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/affinity",  # for srun --cpu-bind=cores
            "MpiDefault": "pmix",
            "SelectType": "select/cons_tres",
            "SelectTypeParameters": "CR_Core",
            "SlurmdParameters": "config_overrides",  # nodes have fewer cores than this machine
            "ReturnToService": 1,  # as most sites: an administrator's DOWN lasts
            "SlurmdTimeout": 20,
            "KillWait": 3,
            "UnkillableStepTimeout": 10,
            "MinJobAge": 300,
            "SchedulerType": "sched/backfill",
            "SchedulerParameters": "sched_interval=1,bf_interval=1,batch_sched_delay=0",
            "MailProg": "/bin/true",
        }
        if self.accounting:
            settings |= {
                "AccountingStorageType": "accounting_storage/slurmdbd",
                "AccountingStorageHost": "127.0.0.1",
                "AccountingStoragePass": folder / "munge/socket",
                "JobAcctGatherType": "jobacct_gather/linux",
                "JobAcctGatherFrequency": 5,
            }
        lines = [f"{name}={value}" for name, value in settings.items()]
        for number, node in enumerate(self.nodes, 1):
            line = (
                f"NodeName=node{number} NodeAddr={address(number)} Sockets=1 ThreadsPerCore=1 "
                f"CoresPerSocket={node.cores} RealMemory={memory // len(self.nodes)}"
            )
            line += f" CoreSpecCount={node.spare}" if node.spare else ""
            line += f" Feature={','.join(node.features)}" if node.features else ""
            lines.append(line)
        for partition in self.partitions:
            default = "YES" if partition == self.partitions[0] else "NO"
            whole = " OverSubscribe=EXCLUSIVE" if partition.whole else ""
            lines.append(
                f"PartitionName={partition.name} Nodes=node[{partition.first}-{partition.last}] "
                f"Default={default} MaxTime={partition.minutes} DefaultTime=5 State=UP{whole}"
            )
        return "\n".join([*lines, *self.options]) + "\n"

    def slurmdbd_conf(self, folder: Path) -> str:
        """slurmdbd.conf."""
        settings = {
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={folder}/munge/socket",
            "DbdHost": HEAD,
            "DbdAddr": "127.0.0.1",
            "SlurmUser": "root",
            "PidFile": folder / "state/slurmdbd.pid",
            "StorageType": "accounting_storage/mysql",
            "StorageUser": "root",
            "StorageLoc": "accounting",
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())


def address(number: int) -> str:
    """The address of node `number`, from 1; 0 is the login node."""
    return f"{NETWORK}.{10 + number}"
