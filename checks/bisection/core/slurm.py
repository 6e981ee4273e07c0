"""Slurm's states and words, its nodes, and the records that its commands print."""

import re
from collections.abc import Iterable, Iterator

from bisection.core.commands import ask
from bisection.core.reasons.launches import Cancelled, NodeFail, OutOfMemory, Timeout

SLURM = ("slurm", "squeue")  # both of ReFrame's back-ends; the second needs no accounting database
STATES = {  # in which it stopped a job
    "TIMEOUT": Timeout,
    "DEADLINE": Timeout,
    "NODE_FAIL": NodeFail,
    "BOOT_FAIL": NodeFail,
    "OUT_OF_MEMORY": OutOfMemory,
    "CANCELLED": Cancelled,
    "PREEMPTED": Cancelled,
}
ALIVE = ("CONFIGURING", "PENDING", "REQUEUED", "RUNNING", "SUSPENDED")
# Slurm's words for what it cannot place, now or ever; sbatch takes it, and it waits.
NO_PLACE = "not available"
# Slurm's words where the user has as many jobs in the queue as are allowed.
QUEUE_FULL = re.compile(r"SubmitJobs?(Per\w+)?Limit")
# A scheduler's command that did not reach the scheduler.
UNREACHABLE = re.compile(
    r"unable to contact|connect|timed? ?out|temporarily unable|communication|no such file", re.I
)
# In the environment: when the deadline of a run is (Unix time), and how long after its start (s).
DEADLINE = "BISECTION_DEADLINE"
# A file's path; its JSON: a partition's full name -> lists of nodes, used in turn. They may be too
# many for the environment.
NODES = "BISECTION_NODES"

# By which a job names its queue, and its cluster where that is not this host's.
QUEUE, CLUSTER = ("-p", "--partition"), ("-M", "--clusters", "--cluster")


def queues() -> list[str]:
    """The names of the queues, hidden ones too; none if Slurm does not answer."""
    lines = ask("scontrol", "show", "partition", "--all", "-o").text.splitlines()
    records = map(record_of, lines)
    return [record["PartitionName"] for record in records if "PartitionName" in record]


# ---- nodes ----

# Of a node's state: the words in which it takes jobs, and how those begin in which it does not, of
# sinfo alone and in all.
TAKES_JOBS = {"idle", "allocated", "mixed", "completing", "planned", "reserved"}
UNAVAILABLE = ("down", "drain", "fail", "error", "inval", "maint", "reboot", "unknown")
TAKES_NONE = (*UNAVAILABLE, "blocked", "future", "no_respond", "not_resp", "perfctrs", "undrain")


def takes_jobs(state: str) -> bool:
    """True if a node in this state takes jobs now, or once its jobs have ended."""
    words = re.findall("[a-z_]+", state.lower())
    stopped = "*" in state or any(word.startswith(TAKES_NONE) for word in words)
    return not stopped and not TAKES_JOBS.isdisjoint(words)


def node_rows(fields: str, partition: str = "", names: str = "") -> list[list[str]]:
    """Fields of nodes: a row per node and partition.

    Args:
        fields: sinfo's, with bars between them; the last one may contain bars.
        partition: Slurm's; "" for all, hidden ones too.
        names: of the nodes, in Slurm's compressed form; "" for all.
    """
    where = ["-p", partition] if partition else ["--all"]  # sinfo does not take both
    where += ["-n", names] if names else []
    lines = ask("sinfo", "-h", "-N", *where, "-o", fields).text.splitlines()
    bars = fields.count("|")
    return [line.split("|", bars) for line in lines if line.count("|") >= bars]


# ---- jobs ----


def nodes_of(listed: Iterable[str] | None) -> list[str]:
    """The nodes of a job as ReFrame lists them, which is "None" if the job left the queue before
    ReFrame looked."""
    return [name for name in listed or () if name != "None"]


def free(job: str) -> bool:
    """Drops the request of a job in the queue, by its number, for nodes by name; True if Slurm
    accepted that."""
    return bool(ask("scontrol", "update", f"JobId={job}", "ReqNodeList="))


def job_record(jobid: str) -> tuple[dict[str, str], str]:
    """The record of a job in Slurm's controller, by key; and its error if it does not answer."""
    answer = ask("scontrol", "show", "job", "-o", str(jobid))
    return record_of(answer.text), answer.error


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


def configuration(text: str) -> dict[str, str]:
    """`scontrol show config` as a dictionary."""
    return dict(re.findall(r"^(\w+)[ \t]*=[ \t]*(.*?)[ \t]*$", text, re.MULTILINE))
