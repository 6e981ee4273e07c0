"""Slurm, from 20.11 on, by what its own commands print.

scontrol's one-line form is read, not --json: Slurm 22.05 has none for nodes and partitions, and
later versions change the names in it. Source of the fields: scontrol(1), slurm.conf(5).
"""

import contextlib
import os
import pwd
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from bisection.core import slurm
from bisection.core.commands import Answer, ask
from bisection.core.format import some
from bisection.core.identity import Geometry
from bisection.core.reasons.base import Text
from bisection.sites.cluster import survey
from bisection.sites.cluster.jobs import Refused, Request, Scheduler, State, submitted

MPI_TYPES = ("pmix", "cray_shasta", "pmi2")  # the order in which they are tried


def read(account: str = "") -> survey.Survey:
    """Returns the survey of this host's Slurm; SchedulerError if its controller does not answer.

    Args:
        account: the one that jobs will use, "" for the user's own.
    """
    texts = []
    for words in ("config", "partition --all -o", "node --all -o"):
        if not (answer := ask("scontrol", "show", *words.split())):
            raise survey.SchedulerError("Slurm", answer.error)
        texts.append(answer.text)
    known = slurm.configuration(texts[0])
    user = str(os.geteuid())
    with contextlib.suppress(KeyError):  # a container may have no name of it
        user = pwd.getpwuid(os.geteuid()).pw_name
    accounts, default = _accounts(user, known.get("ClusterName", ""))
    needed = "associations" in known.get("AccountingStorageEnforce", "")
    undecided = needed and not account and not default
    accounting = bool(ask("sacct", "--noheader", "--allocations", "--starttime=now-1minutes"))
    groups = set(ask("id", "-Gnz").text.split("\0"))
    return survey.Survey(
        kind="Slurm",
        # ReFrame's slurm asks sacct; its squeue sees jobs leave the queue.
        reframe="slurm" if accounting else "squeue",
        version=known.get("SLURM_VERSION", ""),
        cluster=known.get("ClusterName", ""),
        queues=[*queues(texts[1], texts[2], account or default, groups, accounts)],
        accounting=accounting,
        account_needed=needed,
        accounts=accounts,
        mpi_types=mpi_types(ask("srun", "--mpi=list"), known.get("MpiDefault", "none")),
        task_plugin=known.get("TaskPlugin", "").replace("(null)", "task/none"),
        decisions=[_account_open(user, accounts)] if undecided else [],
    )


def _account_open(user: str, accounts: Sequence[str]) -> Text:
    known = some(accounts) if accounts else "no account is known"
    text = f"jobs need an account and {user} has no default one: account= one of {known}"
    return Text(text, next="Write account=... in the site file.")


def node(fields: Mapping[str, str]) -> survey.Node:
    """A node, of its record."""
    sockets = _number(fields.get("Sockets"), 1)
    cores = sockets * _number(fields.get("CoresPerSocket"), 1)
    total = _number(fields.get("CPUTot"), cores)
    # A site may have Slurm count cores where the hardware has two threads of each. Where only some
    # cores have two, cores are what it counts: of 14 cores with 20 CPUs, 14.
    per_core = max(1, total // cores)
    spared = _number(fields.get("CoreSpecCount"), 0)
    # CPUEfctv since 22.05; before, what Slurm keeps for the system was to be taken off.
    usable = _number(fields.get("CPUEfctv"), total - spared * per_core) // per_core
    usable = min(usable, cores - spared) if total > cores * per_core else usable
    features = fields.get("AvailableFeatures") or fields.get("Features") or ""
    state = fields.get("State", "UNKNOWN")
    memory = _number(fields.get("RealMemory"), 1)  # MiB; 1 where slurm.conf names none
    return survey.Node(
        name=fields["NodeName"],
        cores=max(1, usable),
        per_core=per_core,
        sockets=sockets,
        gres=re.sub(r"\(S:[^)]*\)", "", fields.get("Gres", "")),
        features=frozenset(filter(None, features.split(","))),
        memory=0.0 if memory <= 1 else 2.0**20 * (memory - _number(fields.get("MemSpecLimit"), 0)),
        down="" if slurm.takes_jobs(state) else fields.get("Reason") or state,
    )


def queues(
    partitions: str, nodes: str, account: str, groups: set[str], accounts: Sequence[str] = ()
) -> Iterator[survey.QueueInfo]:
    """Yields the queues, of one-line records that `scontrol show` prints of partitions and nodes.

    Args:
        partitions, nodes: the records.
        account: that jobs will use, "" if it is not known.
        groups, accounts: of the user; no accounts if they are not known.
    """
    members: dict[str, list[survey.Node]] = {}
    for fields in slurm.node_records(nodes):
        for queue in filter(None, fields.get("Partitions", "").split(",")):
            members.setdefault(queue, []).append(node(fields))
    for fields in map(slurm.record_of, partitions.splitlines()):
        if name := fields.get("PartitionName"):
            sharing = fields.get("OverSubscribe") or fields.get("Shared") or ""
            yield survey.QueueInfo(
                name=name,
                groups=survey.groups_of(members.get(name, [])),
                max_time=survey.seconds_of(fields.get("MaxTime", "")),
                max_nodes=_number(fields.get("MaxNodes"), 0) or None,
                whole_nodes=sharing == "EXCLUSIVE",
                shared=sharing.startswith("FORCE"),
                closed=_closed(fields, name in members, account, groups, accounts),
            )


def mpi_types(listed: Answer, default: str) -> list[str]:
    """The types of srun --mpi that are worth a trial, MpiDefault first, of the answer to `srun
    --mpi=list`, which some versions print as an error."""
    # Before 22.05 on standard error: "srun: MPI types are...", "srun: pmi2".
    text = listed.text + listed.stderr
    words = set(re.findall(r"^(?:srun:)?[ \t]+(\w+)[ \t]*$", text, re.MULTILINE))
    return [default, *(kind for kind in MPI_TYPES if kind in words and kind != default)]


def _closed(
    fields: Mapping[str, str], nodes: bool, account: str, groups: set[str], accounts: Sequence[str]
) -> Text | None:
    """Returns why this user cannot use a queue; None if nothing is known that forbids it."""
    name, root = fields["PartitionName"], os.geteuid() == 0  # of any group, to Slurm
    usual = {"State": "UP", "ReqResv": "NO"} | ({} if root else {"RootOnly": "NO"})
    if closed := survey.closed_by(name, fields, usual):
        return closed
    allowed = fields.get("AllowGroups", "ALL").split(",")
    if not root and "ALL" not in allowed and not groups & set(allowed):
        text = f"queue {name}: only members of {some(allowed)} can use it"
        return Text(text, next=survey.OTHER_QUEUE)
    allowed = fields.get("AllowAccounts", "ALL").split(",")
    denied = fields.get("DenyAccounts", "").split(",")
    known = accounts or [other for other in allowed if other != "ALL"]
    takes = [a for a in [account, *known] if (a in allowed or "ALL" in allowed) and a not in denied]
    if account and account not in takes:
        text = f"queue {name}: account {account} cannot use it; --account can be: {some(takes)}"
        return Text(text, next="Write an account that can in the site file, or another queue.")
    return None if nodes else survey.no_nodes(name)


def _accounts(user: str, cluster: str) -> tuple[list[str], str]:
    """The accounts of a user on a cluster, and the default one; nothing without a database, which
    may be that of several clusters."""
    words = ["sacctmgr", "-nP", "show", "assoc", f"user={user}", f"cluster={cluster}"]
    names, defaults = (
        sorted({*answer.text.split()}) if answer else []
        for answer in (ask(*words, *only, "format=account") for only in ([], ["onlydefaults"]))
    )
    return names, (defaults or [""])[0]


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isdecimal() else default


def allocated_memory(record: Mapping[str, str]) -> float:
    """The memory of a job's record in B, "mem=4000M" or "mem=187.50G"; 0 where Slurm does not
    allocate memory."""
    match = re.search(r"\bmem=([\d.]+)([KMGT]?)", record.get("AllocTRES") or record.get("TRES", ""))
    return float(match[1]) * 1024.0 ** (1 + "KMGT".index(match[2] or "M")) if match else 0.0


class Slurm(Scheduler):
    """How a trial job is submitted to Slurm, with or without an accounting database."""

    commands = ("scontrol", "sbatch")
    queue_options = slurm.QUEUE
    account_options = ("-A", "--account")
    read = staticmethod(read)

    @classmethod
    def is_here(cls) -> bool:
        """True if this host belongs to a Slurm; its commands may be there without any."""
        no_slurm = "Could not establish a configuration source"
        return super().is_here() and no_slurm not in ask("scontrol", "ping").stderr

    def header(self, request: Request, minutes: int) -> list[str]:
        """The lines of a script by which it asks for nodes, as ReFrame writes them for a launch."""
        # sbatch splits options at blanks, takes quotes away and replaces %j and the like.
        file, shape = shlex.quote(str(request.output).replace("%", "%%")), request.shape
        options = [
            "--job-name=bisection-site",
            f"--nodes={shape.nodes}",
            f"--ntasks={shape.ranks}",
            f"--ntasks-per-node={shape.ranks_per_node}",
            f"--cpus-per-task={shape.threads}",
            "--hint=nomultithread",
            f"--time={minutes}",
            f"--output={file}",
            f"--error={file}",
            f"--chdir={shlex.quote(str(request.folder))}",
            "--no-requeue",
            *request.access,
        ]
        return [f"#SBATCH {option}" for option in options]

    def shaped(self, shape: Geometry) -> list[str]:
        """Returns what precedes a launcher so that it takes the job for one of another geometry."""
        variables = {
            "SLURM_NTASKS": shape.ranks,
            "SLURM_NPROCS": shape.ranks,
            "SLURM_NTASKS_PER_NODE": shape.ranks_per_node,
            "SLURM_TASKS_PER_NODE": f"{shape.ranks_per_node}(x{shape.nodes})",
            "SLURM_CPUS_PER_TASK": shape.threads,
        }
        return ["env", *(f"{name}={value}" for name, value in variables.items())]

    def per_node(self, nodes: int) -> list[str]:
        """Returns what precedes a command so that it runs once per node, without MPI, on all
        cores."""
        shape = [f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
        unset = "env -u SLURM_HINT -u SLURM_CPUS_PER_TASK -u SLURM_KILL_BAD_EXIT".split()
        return [*unset, "srun", "--mpi=none", "--cpu-bind=none", *shape]

    def submit(self, script: Path) -> str:
        """Submits a script; returns the job's number, or raises Refused."""
        answer = submitted("sbatch", str(script))
        if match := re.search(r"(?:job |^)(\d+)", answer):
            return match[1]
        raise Refused(answer or "sbatch printed no job number")

    def refusal(self, script: Path) -> str:
        """Its words why it could never place a script, which is not submitted; "" if it could, and
        where sbatch fails for another reason, which a job will show."""
        try:
            submitted("sbatch", "--test-only", str(script))
        except Refused as error:
            words = str(error)
            return words if slurm.NO_PLACE in words.rpartition("; ")[2] else ""
        return ""

    def state(self, job: str) -> State:
        """Where a job is; it is over if Slurm has forgotten it."""
        record, error = slurm.job_record(job)
        if re.search(r"invalid job id\b", error, re.I):
            return State("", alive=False)
        if not record:
            return State("", alive=True, error=error)
        word = record.get("JobState", "")
        alive = word in slurm.ALIVE or word == "COMPLETING"
        reason, hosts = record.get("Reason", ""), record.get("NodeList", "")
        return State(word, alive, reason, hosts, allocated_memory(record))

    def cancel(self, job: str) -> None:
        """Cancels a job."""
        ask("scancel", job)
