"""The parts of a virtual cluster, and its configuration of Slurm."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bisection.core.topology import TopologyError, expanded

NETWORK = "10.213.77"  # of the namespaces alone; nothing of it is seen outside
HEAD = "head"
CLUSTER, ANNEX = "testbed", "annex"  # Slurm's names of the cluster, and of a second one
NODE_FORM = "NODES[:CORES[xTHREADS][:SPARE[:FEATURE,...[:GPUS]]]]"
FOR_GPUS = [f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom")]
# A site's policy scripts, which Slurm looks for beside slurm.conf -> the setting that uses them.
POLICIES = {"job_submit.lua": "JobSubmitPlugins", "cli_filter.lua": "CliFilterPlugins"}


@dataclass(frozen=True)
class Node:
    """A compute node."""

    cores: int = 1  # in one socket
    spare: int = 0  # of them, cores that Slurm keeps from jobs (CoreSpecCount)
    features: tuple[str, ...] = ()
    threads: int = 1  # hardware threads of a core
    gpus: int = 0  # that Slurm gives to jobs (Gres); there are none behind the number
    name: str = ""  # "" for node1, node2, ... by its place

    @property
    def cpus(self) -> int:
        """Its hardware threads, each a CPU of this machine."""
        return self.cores * self.threads

    @classmethod
    def parsed(cls, text: str) -> "list[Node]":
        """The nodes of NODES[:CORES[xTHREADS][:SPARE[:FEATURE,...[:GPUS]]]], where NODES is a
        number, or names as Slurm has them: c[01-03].

        Raises:
            ValueError: the text has another form, or all cores of a node are spare.
        """
        form = r"([^:]+)(?::([1-9]\d?)(?:x([1-9]))?(?::(\d+)(?::([\w,]+|(?=:))(?::([1-5]))?)?)?)?"
        match = re.fullmatch(form, text)
        if not match or int(match[4] or 0) >= int(match[2] or 1):
            raise ValueError(f"{text!r} is not {NODE_FORM}, SPARE < CORES")
        many = re.fullmatch(r"[1-9]\d?", match[1])
        names = [""] * int(match[1]) if many else _names(match[1])
        features = tuple(filter(None, (match[5] or "").split(",")))
        cores, spare, threads = int(match[2] or 1), int(match[4] or 0), int(match[3] or 1)
        kind = cls(cores, spare, features, threads, int(match[6] or 0))
        return [replace(kind, name=name) for name in names]


def _names(text: str) -> list[str]:
    """The names of a list of Slurm's; ValueError for what are no names of hosts."""
    try:
        names = expanded(text)
    except TopologyError as error:
        raise ValueError(str(error)) from None
    if not names or not all(re.fullmatch(r"[A-Za-z][\w-]*", name) for name in names):
        raise ValueError(f"{text!r} is neither a number nor names of nodes")
    return names


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
        form = r"([A-Za-z0-9][\w.-]*)=(?:(\d+)-)?([1-9]\d?)(:whole)?(?::([1-9]\d*))?"
        match = re.fullmatch(form, text)
        if not match or not 1 <= int(match[2] or 1) <= int(match[3]):
            raise ValueError(f"{text!r} is not NAME=NODES[:whole][:MINUTES], NODES as 4 or 2-4")
        first, last, minutes = int(match[2] or 1), int(match[3]), int(match[5] or 60)
        return cls(match[1], first, last, bool(match[4]), minutes)


@dataclass(frozen=True)
class Blueprint:
    """A cluster; its login node, with the daemons, is `head`."""

    nodes: tuple[Node, ...] = (Node(),) * 4
    partitions: tuple[Partition, ...] = (
        Partition("duo", 1, 2, minutes=30),
        Partition("quad", 1, 4, whole=True),
    )
    accounting: bool = False  # slurmdbd, with a MariaDB of its own
    # Whether nodes see one memory, as only one machine has it: messages then need no network.
    shared_memory: bool = False
    # Lines of slurm.conf, NAME=VALUE, in place of those that are there; further nodes and queues.
    options: tuple[str, ...] = ()
    accounts: tuple[str, ...] = (
        "test",
    )  # of the database, all of them root's, by default the first
    policies: tuple[str, ...] = ()  # files, each with a name of POLICIES
    annex: int = 0  # so many of the last nodes are of a second cluster, of the same database

    @property
    def clusters(self) -> dict[str, range]:
        """The names of the clusters, and the numbers of their nodes."""
        first = len(self.nodes) - self.annex + 1
        second = {ANNEX: range(first, len(self.nodes) + 1)} if self.annex else {}
        return {CLUSTER: range(1, first), **second}

    def cluster_of(self, number: int) -> str:
        """The name of the cluster of node `number`."""
        return next(name for name, nodes in self.clusters.items() if number in nodes)

    def names(self) -> list[str]:
        """The names of the nodes."""
        return [node.name or f"node{number}" for number, node in enumerate(self.nodes, 1)]

    def faults(self, cpus: int) -> list[str]:
        """Returns what of it cannot be built on a machine with so many CPUs; empty if nothing."""
        faults = [
            f"partition {partition.name}: node {partition.last} of {len(self.nodes)} nodes"
            for partition in self.partitions
            if partition.last > len(self.nodes)
        ]
        if not any(line.startswith("PartitionName=") for line in self.options):
            faults += [  # sinfo, which tells when they are ready, would not list them
                f"node {name}: in no partition"
                for number, name in enumerate(self.names(), 1)
                if not any(part.first <= number <= part.last for part in self.partitions)
            ]
        if self.annex and not (self.accounting and self.annex < len(self.nodes)):
            faults.append(f"annex of {self.annex} nodes: needs accounting, and nodes beside them")
        faults += [
            f"partition {part.name}: nodes of two clusters"
            for part in self.partitions
            if part.last <= len(self.nodes)
            and self.cluster_of(part.first) != self.cluster_of(part.last)
        ]
        for kind, names in (
            ("partition", [partition.name for partition in self.partitions]),
            ("node", [HEAD, *self.names()]),
        ):
            faults += [f"{kind} {name}: twice" for name in names if names.count(name) > 1][:1]
        most = max(node.cpus for node in self.nodes)
        if most > cpus:
            faults.append(f"a node of {most} hardware threads: this machine has {cpus} CPUs")
        for file in map(Path, self.policies):
            if file.name not in POLICIES or not file.is_file():
                faults.append(f"policy {file}: no file of the name {' or '.join(POLICIES)}")
        faults += [f"{line!r}: not NAME=VALUE" for line in self.options if "=" not in line]
        return faults

    def cpus_of(self, number: int, cpus: Sequence[int]) -> list[int]:
        """CPUs of this machine that node `number` (from 1) gets; nodes share where they must.

        Args:
            number: of the node.
            cpus: what this process may use, at least as many as the node has.
        """
        before = sum(node.cpus for node in self.nodes[: number - 1])
        count = self.nodes[number - 1].cpus
        return sorted(cpus[(before + index) % len(cpus)] for index in range(count))

    def hosts(self) -> str:
        """/etc/hosts of all hosts."""
        named = {HEAD: address(0)} | {n: address(i) for i, n in enumerate(self.names(), 1)}
        lines = ["127.0.0.1 localhost", *(f"{ip} {name}" for name, ip in named.items())]
        return "\n".join(lines) + "\n"

    def slurm_conf(self, folder: Path, memory: int, cluster: str = CLUSTER) -> str:
        """slurm.conf.

        Args:
            folder: of the cluster.
            memory: MiB of this machine, which the nodes share.
            cluster: its name.
        """
        mine, state = self.clusters[cluster], folder / "state" / cluster
        settings: dict[str, Any] = {
            "ClusterName": cluster,
            "SlurmctldHost": f"{HEAD}({address(0)})",
            "SlurmctldPort": 6817 + [*self.clusters].index(cluster),
            "SlurmUser": "root",
            "SlurmdUser": "root",
            "AuthType": "auth/munge",
            "AuthInfo": f"socket={folder}/munge/socket",
            "CredType": "cred/munge",
            "StateSaveLocation": state,
            "SlurmdSpoolDir": folder / "spool/%n",
            "TmpFS": folder / "tmp/%n",  # where the PMIx servers of the nodes would collide
            "SlurmctldPidFile": state / "slurmctld.pid",
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
        settings |= {"GresTypes": "gpu"} if self.gres_conf() else {}
        settings |= {POLICIES[Path(file).name]: "lua" for file in self.policies}
        records = []  # of which there may be several of one name
        for name, _, value in (line.partition("=") for line in self.options):
            if name in ("NodeName", "PartitionName"):
                records += [f"{name}={value}"] if cluster == CLUSTER else []
            else:
                settings[name] = value
        lines = [f"{name}={value}" for name, value in settings.items()]
        names = self.names()
        for number in mine:
            node = self.nodes[number - 1]
            line = (
                f"NodeName={names[number - 1]} NodeAddr={address(number)} Sockets=1 "
                f"CoresPerSocket={node.cores} ThreadsPerCore={node.threads} "
                f"RealMemory={memory // len(self.nodes)}"
            )
            line += f" CoreSpecCount={node.spare}" if node.spare else ""
            line += f" Feature={','.join(node.features)}" if node.features else ""
            line += f" Gres=gpu:{node.gpus}" if node.gpus else ""
            lines.append(line)
        queues = [partition for partition in self.partitions if partition.first in mine]
        for partition in queues:
            default = "YES" if partition == queues[0] else "NO"
            whole = " OverSubscribe=EXCLUSIVE" if partition.whole else ""
            members = ",".join(names[partition.first - 1 : partition.last])
            lines.append(
                f"PartitionName={partition.name} Nodes={members} Default={default} "
                f"MaxTime={partition.minutes} DefaultTime=5 State=UP{whole}"
            )
        return "\n".join([*lines, *records]) + "\n"

    def gres_conf(self) -> str:
        """gres.conf, where devices that each machine has stand for GPUs: Slurm wants to see files
        of them. "" where no node has GPUs."""
        lines = [
            f"NodeName={name} Name=gpu File={','.join(FOR_GPUS[: node.gpus])}\n"
            for name, node in zip(self.names(), self.nodes, strict=True)
            if node.gpus
        ]
        return "".join(lines)

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
