"""Finds the cause that stopped a job, from the words of Slurm and of the kernels' watchdog.

Those words are all there is: a job that Slurm ended leaves no other trace.
"""

import re
from typing import Any

from bisection.core import slurm
from bisection.core.reasons import Code, Kind, Reason
from bisection.core.verdicts import KernelExit
from bisection.rfm.rank_faults import seats

# Of a job whose folder or output files the node could not open: it ends without a word.
NOT_LAUNCHED = "0:53"
# What a job's error output says of its state, where the scheduler has forgotten it.
SLURM_WORDS = (
    (r"CANCELLED AT \S+ DUE TO TIME LIMIT", "TIMEOUT"),
    (r"CANCELLED AT \S+ DUE TO NODE FAILURE", "NODE_FAIL"),
    (r"CANCELLED AT \S+ DUE TO PREEMPTION", "PREEMPTED"),
    (r"slurmstepd\S*: error: Detected \d+ oom.kill event", "OUT_OF_MEMORY"),
    (r"slurmstepd\S*: error: \*\*\* JOB \S+ ON \S+ CANCELLED AT", "CANCELLED"),
)


def of_job(job: Any, scheduler: str, errors: str, ended: bool) -> Reason | None:
    """Returns what stopped a job once ReFrame takes it for finished; None if the scheduler did not.

    Args:
        job: ReFrame's job.
        scheduler: ReFrame's name of the scheduler.
        errors: the job's error output.
        ended: whether the job's script came to its last line.
    """
    if scheduler not in slurm.SLURM or (ended and job.state not in slurm.STATES):
        return None
    record, error = slurm.job_record(job.jobid)
    state = record.get("JobState") or job.state
    if state not in slurm.STATES:
        state = next((s for pattern, s in SLURM_WORDS if re.search(pattern, errors)), state)
    if state in slurm.STATES:
        return _stopped(slurm.STATES[state], state, job, record)
    if record.get("ExitCode") == NOT_LAUNCHED:
        return Code.INFRASTRUCTURE(host=record.get("BatchHost"), unseen=record.get("WorkDir"))
    left = {"scheduler": scheduler, "jobs": [str(job.jobid)]}
    if slurm.UNREACHABLE.search(error):
        return Code.INFRASTRUCTURE(said=error, **left)
    if state in slurm.ALIVE:
        return Code.INFRASTRUCTURE(job=str(job.jobid), state=state, **left)
    return None


def _stopped(code: Kind, state: str, job: Any, record: dict[str, str]) -> Reason:
    """The reason of a job that Slurm stopped, in the end state `state`."""
    nodes = record.get("NodeList", "")
    job_on = {"job": str(job.jobid), "nodes": nodes or None}
    if state == "DEADLINE" and not nodes:
        why = record.get("Reason", "DeadLine")
        return Code.BLOCKED(job=str(job.jobid), waited=_waited(job, record), reason=why)
    if code == Code.TIMEOUT:
        return code(**job_on, limit=job.time_limit or None)
    if code == Code.NODE_FAIL:
        return code(**job_on, down=_down(nodes))
    if code == Code.CANCELLED and job.is_cancelling:  # by ReFrame, at max_pending_time
        why = record.get("Reason")
        return Code.BLOCKED(job=str(job.jobid), waited=_waited(job, record), reason=why)
    if code == Code.CANCELLED:
        return code(**job_on, state=state)
    return code(**job_on)


def _waited(job: Any, record: dict[str, str]) -> float | None:
    """Seconds that a job was in the queue."""
    try:
        return int(record["EndTime"]) - int(record["SubmitTime"])
    except (KeyError, ValueError):
        return job.completion_time - job.submit_time if job.completion_time else None


def _down(nodes: str) -> list[tuple[str, str]]:
    """Those of a job's nodes that are down, each with the reason that Slurm gives."""
    return slurm.reasons_of_nodes(("down", "fail", "error"), names=nodes) if nodes else []


# ---- the kernels' watchdog ----

# src/common/watchdog.c: a line per host, below it a line for its ranks that are in one place, and
# below that a line for each routine in which the first of them is. A launcher mixes lines of hosts.
HANG = r"bisection-\S+: nothing finished for (\S+) s on host (\S+); its ranks:"
PLACE = r"  ranks? ([\d,-]+) on (\S+): (.+)"
ROUTINE = r"    (\w+) \(bisection-\S+\)"  # of the kernel, not of the libraries that it waits in
SILENT = "no answer"
ROUTINES = 8  # of a stack


def of_hang(errors: str, exit_code: int | None, folder: str) -> Reason | None:
    """The reason if the kernel's watchdog ended a launch that did not advance, else None.

    Args:
        errors: the job's error output.
        exit_code: what the launcher ended with; None if it did not end. Not every launcher hands on
            the kernel's own code where it had to kill a rank.
        folder: where the launch's result.json is, if it has written one: it has the ranks of hosts
            that gave no report.
    """
    limit, ranks = None, ""
    hosts: dict[str, list[str]] = {}  # where -> hosts
    at: dict[str, list[str]] = {}  # where -> ranks
    silent: list[tuple[str, str]] = []
    stacks: dict[str, list[str]] = {}  # ranks -> routines
    for line in errors.splitlines():
        if match := re.fullmatch(HANG, line):
            limit = limit or float(match[1])
        elif match := re.fullmatch(PLACE, line):
            ranks, host, where = match.groups()
            if where.startswith(SILENT):
                silent.append((ranks, host))
            else:
                hosts.setdefault(where, []).append(host)
                at.setdefault(where, []).append(ranks)
        elif (match := re.fullmatch(ROUTINE, line)) and ranks:
            stacks.setdefault(ranks, []).append(match[1])
    ended_well = exit_code in (KernelExit.VERIFIED, KernelExit.WRONG_ANSWER)
    if ended_well or (limit is None and exit_code != KernelExit.HANG):
        return None
    if limit is None:
        return Code.HANG()
    reported = {h for listed in hosts.values() for h in listed} | {h for _, h in silent}
    unheard: dict[str, list[str]] = {}
    for seat in seats(folder):
        if seat["host"] not in reported:
            unheard.setdefault(seat["host"], []).append(str(seat["rank"]))
    silent += [(",".join(numbers), name) for name, numbers in unheard.items()]
    waiting = [(",".join(at[where]), hosts[where], where) for where in at]
    stack = next(((ranks, names[:ROUTINES]) for ranks, names in stacks.items()), None)
    return Code.HANG(limit=limit, silent=silent, waiting=waiting, stack=stack)
