"""Slurm, from 20.11 on: the records that its commands print, and the survey for a site file.

scontrol's one-line form is read, not --json: Slurm 22.05 has none for nodes and partitions, and
later versions change the names in it. Source of the fields: scontrol(1), slurm.conf(5).
"""

import contextlib
import os
import pwd
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bisection.core.commands import Answer, ask
from bisection.core.format import some, utc
from bisection.core.reasons.base import Text
from bisection.core.topology import TopologyError, expanded
from bisection.schedulers import survey

MPI_TYPES = ("pmix", "cray_shasta", "pmi2")  # the order in which they are tried
# Words of the states of a node that takes jobs; the beginnings of those of a node that takes none:
# in sinfo, and everywhere. A node is blocked while a job has its part of the topology to itself.
TAKES_JOBS = {"idle", "allocated", "mixed", "completing", "planned", "reserved"}
NO_MATTER = {"reboot_canceled"}
UNAVAILABLE = ("down", "drain", "fail", "error", "inval", "maint", "reboot", "unknown")
TAKES_NONE = (*UNAVAILABLE, "future", "no_respond", "not_resp", "perfctrs", "undrain")


def takes_jobs(state: str) -> bool:
    """True if a node in this state takes jobs now, or once its jobs have ended."""
    words = set(re.findall("[a-z_]+", state.lower())) - NO_MATTER
    stopped = "*" in state or any(word.startswith(TAKES_NONE) for word in words)
    return not stopped and not TAKES_JOBS.isdisjoint(words)


def record_of(line: str) -> dict[str, str]:
    """A line of `scontrol show ... -o`; values may contain blanks, as WorkDir and OS do. Of several
    fields of one name the first counts: Slurm prints paths and other free text last."""
    record: dict[str, str] = {}
    for name, value in re.findall(r"(?:^|\s)([A-Z][\w/:]*)=(.*?)(?=\s+[A-Z][\w/:]*=|\s*$)", line):
        record.setdefault(name, "" if value in ("(null)", "N/A") else value)
    return record


def node_records(text: str) -> Iterator[dict[str, str]]:
    """Yields the records of `scontrol show node -o`, each with the first line of its Reason.

    Reason, Comment and Extra hold what anybody wrote, also words such as State=IDLE. Slurm prints
    all other fields that are read here before them (slurm_sprint_node_table in its
    src/api/node_info.c, from 20.11 to 25.11), so that a record ends where the first of them begins.
    """
    for line in text.split("\n"):
        fields, *free = re.split(r"\s(?=(?:Reason|Comment|Extra)=)", line, maxsplit=1)
        record = record_of(fields)
        if "NodeName" in record:
            # Behind it: by whom and when it was written.
            ends = r" \[\S+@\S+\](?=\s|$)|\s(?:Comment|Extra)=|$"
            reason = re.search(rf"(?:^|\s)Reason=(.*?)(?:{ends})", "".join(free))
            yield record | ({"Reason": reason[1].strip()} if reason else {})


Lineages = Mapping[str, set[str]]  # account -> it, its parent account, that one's parent, ...
OTHER_RESERVATION = "Name another one: `scontrol show reservation` has their users and times."
HELD = r"(?:MAINT(?:ENANCE)?|RESERVED)\b"  # in the state of a node of a reservation


@dataclass(frozen=True)
class Reservation:
    """A reservation, whose jobs alone its nodes take while it is active."""

    name: str
    nodes: frozenset[str]
    fields: Mapping[str, str]  # of its record

    @property
    def is_active(self) -> bool:
        return self.fields.get("State") != "INACTIVE"

    def holds(self, user: str, accounts: Lineages) -> bool:
        """Whether jobs of a user that do not name it are kept off its nodes: not where it has some
        cores of them alone, or draws the jobs of those who may use it."""
        if not self.is_active or "CoreIDs" in self.fields:
            return False
        draws = "MAGNETIC" in self.fields.get("Flags", "").split(",")
        return not draws or bool(self.closed(user, accounts))

    def down(self, node: str, state: str) -> str:
        """Why a node takes none of its jobs; "" if it does."""
        if node not in self.nodes:
            return f"not in reservation {self.name}"
        state = re.sub(rf"\+{HELD}", "", re.sub(rf"^{HELD}", "IDLE", state))
        return "" if takes_jobs(state) else state

    def closed(self, user: str, accounts: Lineages) -> Text | None:
        """Why a job of a user cannot use it now; None if it can. `accounts`: that the job may have;
        none if they are not known. Whom an account is open or closed to, so are its children."""
        if not self.is_active:
            begin, end = (utc(float(self.fields[name])) for name in ("StartTime", "EndTime"))
            text = f"reservation {self.name} is not active: it is from {begin} to {end}"
            return Text(text, next=OTHER_RESERVATION)
        for title, own in (("Users", {user: {user}}), ("Accounts", accounts)):
            listed = {*filter(None, self.fields.get(title, "").split(","))}
            denied = {name[1:] for name in listed if name.startswith("-")}
            allowed = listed - {f"-{name}" for name in denied}
            if own and not any(
                not line & denied and (not allowed or line & allowed) for line in own.values()
            ):
                text = f"reservation {self.name} has {title}={self.fields[title]}"
                return Text(f"{text}, not {some(sorted(own))}", next=OTHER_RESERVATION)
        return None


def reservations() -> dict[str, Reservation]:
    """The reservations of this cluster, by name; none where Slurm does not answer."""
    known = {}
    for line in ask("scontrol", "show", "reservation", "-o").text.splitlines():
        record = record_of(line)
        with contextlib.suppress(KeyError, TopologyError):
            name, nodes = record["ReservationName"], expanded(record.get("Nodes", ""))
            known[name] = Reservation(name, frozenset(nodes), record)
    return known


def configuration(text: str) -> dict[str, str]:
    return dict(re.findall(r"^(\w+)[ \t]*=[ \t]*(.*?)[ \t]*$", text, re.MULTILINE))


# ---- the survey ----


def read(account: str, reservation: str) -> survey.SchedulerSurvey:
    """The survey of this host's Slurm for jobs of an account, "" for the user's own, and of a
    reservation, "" for none; SchedulerError if its controller does not answer."""
    texts = []
    for words in ("config", "partition --all -o", "node --all -o"):
        if not (answer := ask("scontrol", "show", *words.split())):
            raise survey.SchedulerError("Slurm", answer.error)
        texts.append(answer.text)
    known = configuration(texts[0])
    user = str(os.geteuid())
    with contextlib.suppress(KeyError):  # a container may have no name of it
        user = pwd.getpwuid(os.geteuid()).pw_name
    accounts, default = _accounts(user, known.get("ClusterName", ""))
    needed, decisions = "associations" in known.get("AccountingStorageEnforce", ""), []
    if needed and not account and not default:
        such = some(accounts) if accounts else "no account is known"
        text = f"jobs need an account and {user} has no default one: account= one of {such}"
        decisions.append(Text(text, next="Write account=... in the site file."))
    held, unusable = reservations(), None
    jobs = [account or default] if account or default else accounts
    lineages: Lineages = {name: {name} for name in jobs}
    if held and needed:  # else Slurm compares names
        lineages = _lineages(jobs, known.get("ClusterName", ""))
    own = held.get(reservation)
    holding = [each for each in held.values() if each.holds(user, lineages)]
    if reservation and not own:
        text = f"reservation {reservation} does not exist; there are {some(held)}"
        unusable = Text(text, next=OTHER_RESERVATION)
    elif own:
        unusable = own.closed(user, lineages)
    accounting = bool(ask("sacct", "--noheader", "--allocations", "--starttime=now-1minutes"))
    groups = set(ask("id", "-Gnz").text.split("\0"))
    return survey.SchedulerSurvey(
        kind="Slurm",
        # ReFrame's slurm asks sacct; its squeue sees jobs leave the queue.
        reframe="slurm" if accounting else "squeue",
        version=known.get("SLURM_VERSION", ""),
        cluster=known.get("ClusterName", ""),
        queues=[*queues(texts[1], texts[2], account or default, groups, accounts, holding, own)],
        accounting=accounting,
        account_needed=needed,
        accounts=accounts,
        mpi_types=mpi_types(ask("srun", "--mpi=list"), known.get("MpiDefault", "none")),
        task_plugin=known.get("TaskPlugin", "").replace("(null)", "task/none"),
        unusable=unusable,
        decisions=decisions,
    )


def node(
    fields: Mapping[str, str], held: Iterable[Reservation] = (), own: Reservation | None = None
) -> survey.Node:
    """A node, of its record, for jobs of a reservation, None for others. `held`: the reservations
    that keep other jobs off their nodes, which name them."""
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
    name, state = fields["NodeName"], fields.get("State", "UNKNOWN")
    by = [each.name for each in held if name in each.nodes and not own]
    down = own.down(name, state) if own else "" if takes_jobs(state) and not by else state
    memory = _number(fields.get("RealMemory"), 1)  # MiB; 1 where slurm.conf names none
    return survey.Node(
        name=name,
        cores=max(1, usable),
        per_core=per_core,
        sockets=sockets,
        gres=re.sub(r"\(S:[^)]*\)", "", fields.get("Gres", "")),
        features=frozenset(filter(None, features.split(","))),
        memory=0.0 if memory <= 1 else 2.0**20 * (memory - _number(fields.get("MemSpecLimit"), 0)),
        down=", reservation ".join([fields.get("Reason") or down, *by]) if down else "",
    )


def queues(
    partitions: str,
    nodes: str,
    account: str,
    groups: set[str],
    accounts: Sequence[str] = (),
    held: Iterable[Reservation] = (),
    own: Reservation | None = None,
) -> Iterator[survey.QueueInfo]:
    """Yields the queues, of one-line records that `scontrol show` prints of partitions and nodes.
    `account`: that jobs will use, "" if it is not known. `groups`, `accounts`: of the user; no
    accounts if they are not known. `held`, `own`: as of node()."""
    members: dict[str, list[survey.Node]] = {}
    for fields in node_records(nodes):
        for queue in filter(None, fields.get("Partitions", "").split(",")):
            members.setdefault(queue, []).append(node(fields, held, own))
    for fields in map(record_of, partitions.splitlines()):
        if name := fields.get("PartitionName"):
            sharing = fields.get("OverSubscribe") or fields.get("Shared") or ""
            yield survey.QueueInfo(
                name=name,
                groups=survey.groups_of(members.get(name, [])),
                max_time=survey.seconds_of(fields.get("MaxTime", "")),
                max_nodes=_number(fields.get("MaxNodes"), 0) or None,
                whole_nodes=sharing == "EXCLUSIVE",
                shared=sharing.startswith("FORCE"),
                closed=_closed(fields, name in members, account, groups, accounts, bool(own)),
            )


def mpi_types(listed: Answer, default: str) -> list[str]:
    """The types of srun --mpi that are worth a trial, MpiDefault first, of the answer to `srun
    --mpi=list`, which some versions print as an error."""
    # Before 22.05 on standard error: "srun: MPI types are...", "srun: pmi2".
    text = listed.text + listed.stderr
    words = set(re.findall(r"^(?:srun:)?[ \t]+(\w+)[ \t]*$", text, re.MULTILINE))
    return [default, *(kind for kind in MPI_TYPES if kind in words and kind != default)]


def _closed(
    fields: Mapping[str, str],
    nodes: bool,
    account: str,
    groups: set[str],
    accounts: Sequence[str],
    reserved: bool,
) -> Text | None:
    """Returns why this user cannot use a queue; None if nothing is known that forbids it.
    `reserved`: the jobs name a reservation."""
    name, root = fields["PartitionName"], os.geteuid() == 0  # of any group, to Slurm
    usual = {"State": "UP"} | ({} if reserved else {"ReqResv": "NO"})
    usual |= {} if root else {"RootOnly": "NO"}
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
    answers = ask(*words, "format=account"), ask(*words, "onlydefaults", "format=account")
    names, defaults = (sorted({*answer.text.split()}) if answer else [] for answer in answers)
    return names, (defaults or [""])[0]


def _lineages(accounts: Iterable[str], cluster: str) -> Lineages:
    """The lineages of accounts of a cluster, as far as its database tells parents."""
    parents: dict[str, str] = {}
    asked = {*accounts}
    while asked:
        words = ["sacctmgr", "-nP", "show", "assoc", f"cluster={cluster}"]
        answer = ask(*words, f"account={','.join(sorted(asked))}", "format=account,parentname")
        rows = (line.split("|") for line in answer.text.splitlines() if line.count("|") == 1)
        listed = {name: parent for name, parent in rows if name in asked and parent}
        parents |= listed
        asked = {*listed.values()} - parents.keys()
    lineages = {}
    for account in accounts:
        line = [account]
        while (parent := parents.get(line[-1])) and parent not in line:
            line.append(parent)
        lineages[account] = {*line}
    return lineages


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isdecimal() else default


def allocated_memory(record: Mapping[str, str]) -> float:
    """The memory of a job's record in B, "mem=4000M" or "mem=187.50G"; 0 where Slurm does not
    allocate memory."""
    match = re.search(r"\bmem=([\d.]+)([KMGT]?)", record.get("AllocTRES") or record.get("TRES", ""))
    return float(match[1]) * 1024.0 ** (1 + "KMGT".index(match[2] or "M")) if match else 0.0
