"""Slurm: what jobs ask of it, whether they can run, where they are, and why it stopped one."""

import contextlib
import math
import os
import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bisection.core.commands import Answer, all_errors, ask, option_value
from bisection.core.identity import Geometry
from bisection.core.reasons import launches
from bisection.core.reasons.base import Reason
from bisection.schedulers import slurm_records as records
from bisection.schedulers.scheduler import UNREACHABLE, JobState, QueuedJob, QueueNode, Scheduler
from bisection.schedulers.survey import SchedulerSurvey

STATES: dict[str, type[launches.JobFault]] = {  # in which it stopped a job
    "TIMEOUT": launches.Timeout,
    "DEADLINE": launches.Timeout,
    "NODE_FAIL": launches.NodeFail,
    "BOOT_FAIL": launches.NodeFail,
    "OUT_OF_MEMORY": launches.OutOfMemory,
    "CANCELLED": launches.Cancelled,
    "PREEMPTED": launches.Cancelled,
}
# In which a job may still run, of squeue's JOB STATE CODES; one that is COMPLETING has run.
ALIVE = (
    *("CONFIGURING", "PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "RESIZING"),
    *("RESV_DEL_HOLD", "RUNNING", "SIGNALING", "SPECIAL_EXIT", "STAGE_OUT", "STOPPED", "SUSPENDED"),
)
# Its words for what it cannot place, now or ever; sbatch takes it, and it waits.
NO_PLACE = "not available"
# Of a job whose folder or output files the node could not open: it ends without a word.
NOT_LAUNCHED = "0:53"
# Has all commands of Slurm but sacct ask this cluster. In a job, srun would ask the database where
# it is, and nodes may not reach that.
CLUSTER = "SLURM_CLUSTERS"
NODELIST = "--nodelist="  # the option that requests nodes by name


class Slurm(Scheduler):
    """Slurm, with or without an accounting database."""

    queue_options = ("-p", "--partition")
    account_options = ("-A", "--account")
    reservation_options = ("--reservation",)
    cluster_options = ("-M", "--clusters", "--cluster")
    withheld = (CLUSTER,)
    is_read = takes_qos = takes_nodes = True

    def __init__(self, name: str, needs_accounting: bool = True) -> None:
        asks = "sacct scontrol sinfo squeue".split()
        super().__init__(name, "Slurm", ["scontrol", "sbatch"], "sbatch", "scancel", asks)
        self.needs_accounting = needs_accounting

    @property
    def cancels(self) -> str:
        cluster = os.environ.get(CLUSTER)
        return f"{self._cancels} -M {cluster}" if cluster else self._cancels

    def enter(self, cluster: str) -> None:
        if cluster:
            os.environ[CLUSTER] = cluster

    def is_here(self) -> bool:
        """True if this host belongs to a Slurm; its commands may be there without any."""
        no_slurm = "Could not establish a configuration source"
        return super().is_here() and no_slurm not in ask("scontrol", "ping").stderr

    def read(self, account: str, reservation: str) -> SchedulerSurvey:
        return records.read(account, reservation)

    def ping(self) -> Answer:
        return ask("sinfo", "-h", "-o", "%P")

    def queues(self) -> list[str]:
        """With hidden ones."""
        lines = ask("scontrol", "show", "partition", "--all", "-o").text.splitlines()
        named = map(records.record_of, lines)
        return [record["PartitionName"] for record in named if "PartitionName" in record]

    def nodes_of(self, access: Sequence[str]) -> list[QueueNode]:
        """None where only Slurm knows which: by names, or by an expression of features."""
        wanted = set(filter(None, option_value(access, "-C", "--constraint").split("&")))
        plain = all(re.fullmatch(r"[\w.:-]+", feature) for feature in wanted)
        others = (("-w", "--nodelist"), ("-x", "--exclude"))
        if any(option_value(access, *names) for names in others) or not plain:
            return []
        queue = option_value(access, *self.queue_options)
        rows = node_rows("%N|%n|%t|%P|%f|%E", queue)  # "idle~" is one that sleeps
        if not queue:  # the default one has a star
            rows = [row for row in rows if row[3].endswith("*")]
        rows = [row for row in rows if wanted <= set(row[4].split(","))]
        if held := option_value(access, *self.reservation_options):
            rows = [*_reserved(rows, held)]
        nodes = [(*row[:3], "" if row[5] == "none" else row[5]) for row in rows]
        return [QueueNode(*row) for row in dict.fromkeys(nodes)]  # a row per node and partition

    def hosts(self, access: Sequence[str]) -> Mapping[str, str]:
        """By sinfo; of all queues where jobs name none."""
        return dict(node_rows("%N|%n", option_value(access, *self.queue_options)))

    def topology(self) -> str:
        return ask("scontrol", "show", "topology").text

    def events(self, hosts: Iterable[str]) -> Mapping[str, float]:
        """The last boot of the hosts, and the last change of the configuration."""
        names = ",".join(sorted({host.partition(".")[0] for host in hosts}))
        nodes = ask("scontrol", "show", "node", "--all", "-o", names).text if names else ""
        boots = (record.get("BootTime", "") for record in records.node_records(nodes))
        events = {"boot": max((float(boot) for boot in boots if boot.isdigit()), default=0.0)}
        file = records.configuration(ask("scontrol", "show", "config").text).get("SLURM_CONF")
        here = file and not os.environ.get(CLUSTER)  # another cluster's is elsewhere
        with contextlib.suppress(OSError):  # of a file that this host does not see
            events["configuration"] = Path(file).stat().st_mtime if file and here else 0.0
        return events

    def ask(self, job: Any, shape: Geometry, limit: float, deadline: float | None) -> None:
        """After a node's death Slurm would queue the job again, and ReFrame wait for it. Its own
        deadline is for the end of a job, in minutes of its time limit."""
        job.options += ["--no-requeue"]
        if "%" in job.workdir:  # in which Slurm would replace %j and the like
            for name, file in (("output", job.stdout), ("error", job.stderr)):
                path = os.path.join(job.workdir, file).replace("%", "%%")
                job.options += [f"--{name}={shlex.quote(path)}"]
        if deadline is not None:
            # in whole seconds, and never before the run's own deadline, which is the reason given
            end = time.localtime(math.ceil(deadline) + 60 * math.ceil(limit / 60))
            job.options += [time.strftime("--deadline=%Y-%m-%dT%H:%M:%S", end)]

    def turns(self, name: str) -> list[str]:
        return ["-J", "dependency=singleton", *self.named(name)]

    def named(self, name: str) -> list[str]:
        return ["-J", f"job-name={name}"]

    def shaped(self, shape: Geometry) -> list[str]:
        variables = {
            "SLURM_NTASKS": shape.ranks,
            "SLURM_NPROCS": shape.ranks,
            "SLURM_NTASKS_PER_NODE": shape.ranks_per_node,
            "SLURM_TASKS_PER_NODE": f"{shape.ranks_per_node}(x{shape.nodes})",
            "SLURM_CPUS_PER_TASK": shape.threads,
        }
        return ["env", *(f"{name}={value}" for name, value in variables.items())]

    def per_node(self, nodes: int) -> list[str]:
        shape = [f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
        unset = "env -u SLURM_HINT -u SLURM_CPUS_PER_TASK -u SLURM_KILL_BAD_EXIT".split()
        return [*unset, "srun", "--mpi=none", "--cpu-bind=none", *shape]

    def place(self, job: Any) -> str:
        """By `sbatch --test-only` of the job's script; "" also where that fails for another reason,
        which a job will show."""
        option = job.scheduler.get_option
        kept = option("slurm_envvar_whitelist")
        names = (name for name in os.environ if name[:7] != "SBATCH_" or name in kept)
        access = job.sched_access if option("sched_access_in_submit") else []
        words = [*shlex.split(" ".join(access)), job.script_filename]
        environ = {name: os.environ[name] for name in names}
        answer = ask("sbatch", "--test-only", *words, environ=environ)
        return all_errors("sbatch", answer.stderr) if NO_PLACE in answer.error else ""

    def is_full(self, refused: str) -> bool:
        return bool(re.search(r"SubmitJobs?(Per\w+)?Limit", refused))

    def free(self, job: str) -> bool:
        return bool(ask("scontrol", "update", f"JobId={job}", "ReqNodeList="))

    def look(self, job: Any) -> JobState:
        """By the controller's record, as for the cause; a job is over if Slurm has forgotten it."""
        record, error = job_record(job.jobid)
        if re.search(r"invalid job id\b", error, re.I):
            return JobState("", alive=False)
        if not record:
            return JobState("", alive=True, error=error)
        word = record.get("JobState", "")
        alive = word in ALIVE or word == "COMPLETING"
        reason, hosts = record.get("Reason", ""), record.get("NodeList", "")
        return JobState(word, alive, reason, hosts, records.allocated_memory(record))

    def queued(self, name: str) -> list[QueuedJob] | None:
        answer = ask("squeue", "-h", "--all", "-n", name, "-o", "%i|%T|%P|%n|%S|%r")
        rows = [line.split("|", 5) for line in answer.text.splitlines() if line.count("|") >= 5]
        return [QueuedJob(*row) for row in rows] if answer else None

    def cancel(self, jobs: Iterable[str]) -> None:
        """Cancels all of them at once: none starts in between."""
        ask(*self.cancels.split(), *jobs)

    def cause(self, job: Any, ended: bool = False, said: Callable[[], str] = str) -> Reason | None:
        """By the state in which the controller has the job, or, once it has forgotten it, by what
        slurmstepd wrote into the job's output."""
        if ended and job.state not in STATES:
            return None
        record, error = job_record(job.jobid)
        state = record.get("JobState") or job.state
        if state not in STATES:
            state = said() or state
        if state in STATES:
            return _stopped(state, job, record)
        if record.get("ExitCode") == NOT_LAUNCHED:
            why = launches.not_shared(record.get("BatchHost", ""), record.get("WorkDir", ""))
            return launches.Infrastructure(why=why)
        lost = UNREACHABLE.search(error)
        if not lost and state not in ALIVE:
            return None
        unlisted = f"the scheduler did not list job {job.jobid}, which is {state}"
        why = error if lost else unlisted
        return launches.Infrastructure(why=why, cancel=self.cancels, jobs=(str(job.jobid),))


def job_record(jobid: str) -> tuple[dict[str, str], str]:
    """The record of a job in the controller, by key; and its error if it does not answer."""
    answer = ask("scontrol", "show", "job", "-o", str(jobid))
    return records.record_of(answer.text), answer.error


def node_rows(fields: str, partition: str = "", names: str = "") -> list[list[str]]:
    """Fields of nodes, sinfo's, with bars between them, of which the last may contain bars: a row
    per node and partition. `partition`: only this one; "" for all, hidden ones too. `names`: only
    these nodes, in Slurm's compressed form; "" for all."""
    where = ["-p", partition] if partition else ["--all"]  # sinfo does not take both
    where += ["-n", names] if names else []
    lines = ask("sinfo", "-h", "-N", *where, "-o", fields).text.splitlines()
    bars = fields.count("|")
    return [line.split("|", bars) for line in lines if line.count("|") >= bars]


def _reserved(rows: Iterable[Sequence[str]], name: str) -> Iterator[list[str]]:
    """Of rows of nodes, with the state in the third column, those of a reservation: to its jobs
    they are idle where it is all that keeps them."""
    reservation = records.reservations().get(name)
    for row in rows:
        if reservation and row[0] in reservation.nodes:
            idle = row[2] in ("maint", "resv", "reserved")
            yield [*row[:2], "idle" if idle else row[2], *row[3:]]


def missing(options: Sequence[str]) -> list[tuple[str, str]]:
    """The nodes that are down or drained, each with Slurm's reason, if they are why a job with
    these options for sbatch has no place: enough nodes would take it with them, and do not without
    them."""
    partition = option_value(options, *Slurm.queue_options)
    rows = node_rows("%N|%P|%T|%E", partition, option_value(options, "-w", "--nodelist"))
    if held := option_value(options, *Slurm.reservation_options):
        rows = [*_reserved(rows, held)]
    # Slurm's usual partition has a star
    nodes = {row[0]: row[2:] for row in rows if partition or row[1].endswith("*")}
    down = [(n, why) for n, (state, why) in nodes.items() if state.startswith(records.UNAVAILABLE)]
    ranks = int(option_value(options, "-n", "--ntasks") or 1)
    needed = math.ceil(ranks / int(option_value(options, "--ntasks-per-node") or 1))
    return down if len(nodes) - len(down) < needed <= len(nodes) else []


def waiting_reasons(jobs: Iterable[str]) -> dict[str, list[str]]:
    """Why jobs wait: Slurm's reasons by job number."""
    lines = ask("squeue", "-h", "-j", ",".join(jobs), "-o", "%i|%r").text.splitlines()
    return {number: [why] for number, _, why in (line.partition("|") for line in lines)}


def _stopped(state: str, job: Any, record: dict[str, str]) -> Reason:
    """The reason of a job that Slurm stopped, in its end state."""
    kind, nodes, why = STATES[state], record.get("NodeList", ""), record.get("Reason", "")
    unstarted = state == "DEADLINE" and not nodes
    if unstarted or (kind is launches.Cancelled and job.is_cancelling):  # at max_pending_time
        waited = job.completion_time - job.submit_time if job.completion_time else 0.0
        why = why or ("DeadLine" if unstarted else "")
        return launches.Blocked(job=str(job.jobid), waited=waited, reason=why)
    at = {"job": str(job.jobid), "nodes": nodes}
    if kind is launches.Timeout:
        return launches.Timeout(**at, limit=job.time_limit or 0.0)
    if kind is launches.OutOfMemory:
        return launches.OutOfMemory(**at)
    rows = node_rows("%N|%T|%E", names=nodes) if nodes else []
    if kind is launches.NodeFail:
        bad = {name: why for name, now, why in rows if now.startswith(("down", "fail", "error"))}
        return launches.NodeFail(**at, down=tuple(bad.items()))
    # Slurm cancels a job whose prolog fails, and drains the node.
    for name, now, why in rows:
        if now.startswith("drain") and "prolog" in why.lower():
            return launches.NodeFault(cause="the prolog failed", host=name, line=why)
    return launches.Cancelled(**at, state=state)
