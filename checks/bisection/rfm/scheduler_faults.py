"""What stopped a job, by name: from the words of the scheduler, of the job itself and of ReFrame.

A cause that begins with one of NAMES says whose fault it is: that of the launch, which has failed,
or that of what is around it, which leaves the launch unmeasured.
"""

import json
import os
import re
import subprocess
from pathlib import Path

# True: today's machine could not run it, which is a failure. False: it was not given to run.
NAMES = {
    "TIMEOUT": True,  # it ran to its time limit
    "NODE_FAIL": True,  # the scheduler lost a node under it
    "OUT_OF_MEMORY": True,
    "MPI_ABORT": True,  # a rank called MPI_Abort
    "BLOCKED": False,  # the scheduler refused it, or did not start it in time
    "CANCELLED": False,  # by a person, or in favour of another job
    "INFRASTRUCTURE": False,  # the scheduler's own commands fail
}
# How to cancel a job, by ReFrame's name for the scheduler.
CANCEL = {
    "flux": "flux cancel",
    "lsf": "bkill",
    "oar": "oardel",
    "pbs": "qdel",
    "sge": "qdel",
    "slurm": "scancel",
    "squeue": "scancel",
    "torque": "qdel",
}
SLURM = ("slurm", "squeue")  # both of ReFrame's back-ends; the second needs no accounting database
SLURM_STATES = {
    "TIMEOUT": "TIMEOUT",
    "DEADLINE": "TIMEOUT",
    "NODE_FAIL": "NODE_FAIL",
    "BOOT_FAIL": "NODE_FAIL",
    "OUT_OF_MEMORY": "OUT_OF_MEMORY",
    "CANCELLED": "CANCELLED",
    "PREEMPTED": "CANCELLED",
}
ALIVE = ("CONFIGURING", "PENDING", "REQUEUED", "RUNNING", "SUSPENDED")
# What a job's error output says of its state, where the scheduler has forgotten it.
SLURM_WORDS = (
    (r"CANCELLED AT \S+ DUE TO TIME LIMIT", "TIMEOUT"),
    (r"CANCELLED AT \S+ DUE TO NODE FAILURE", "NODE_FAIL"),
    (r"CANCELLED AT \S+ DUE TO PREEMPTION", "PREEMPTED"),
    (r"slurmstepd\S*: error: Detected \d+ oom.kill event", "OUT_OF_MEMORY"),
    (r"slurmstepd\S*: error: \*\*\* JOB \S+ ON \S+ CANCELLED AT", "CANCELLED"),
)


def name_of(cause):
    """The name that a cause begins with, "" if it begins with none of NAMES."""
    name = cause.partition(":")[0]
    return name if name in NAMES else ""


def of_job(job, scheduler, words, ended):
    """The named cause that stopped ReFrame's `job`, "" if the scheduler stopped nothing.

    `words` is the job's error output; `ended` says whether its script came to its last line.
    """
    if scheduler not in SLURM or (ended and job.state not in SLURM_STATES):
        return ""
    record, error = slurm_record(job.jobid)
    state = record.get("JobState") or job.state
    if state not in SLURM_STATES:
        state = next((s for pattern, s in SLURM_WORDS if re.search(pattern, words)), state)
    if state in SLURM_STATES:
        return _stopped(SLURM_STATES[state], state, job, record)
    if UNREACHABLE.search(error):
        return f"INFRASTRUCTURE: {error}; {left_in_queue(scheduler, [job.jobid])}"
    if state in ALIVE:
        lost = f"the scheduler did not list job {job.jobid}, which is {state}"
        return f"INFRASTRUCTURE: {lost}; {left_in_queue(scheduler, [job.jobid])}"
    return ""


def _stopped(name, state, job, record):
    """The cause of a job that Slurm stopped, in the end state `state`."""
    nodes = record.get("NodeList", "").replace("(null)", "")
    on = f" on {nodes}" if nodes else ""
    subject = f"job {job.jobid}"
    if name == "TIMEOUT":
        limit = f" of {lasting(job.time_limit)}" if job.time_limit else ""
        return f"TIMEOUT: {subject} ran to its time limit{limit}{on}"
    if name == "NODE_FAIL":
        return f"NODE_FAIL: {subject} lost {_down(nodes) or 'a node'}{nodes and f', it ran{on}'}"
    if name == "OUT_OF_MEMORY":
        return f"OUT_OF_MEMORY: {subject} used more memory than it may{on}"
    if job.is_cancelling:  # by ReFrame, at max_pending_time
        return "BLOCKED: " + unplaced(job.jobid, _waited(job, record), record.get("Reason"))
    return f"CANCELLED: {subject} was {state.lower()}{on}, not by this run"


def unplaced(jobid, seconds, reason):
    """The words for a job that was never started."""
    waited = f" in {lasting(seconds)}" if seconds is not None else ""
    reason = (reason or "None").replace("_", " ")
    why = "no reason is known" if reason == "None" else f"the scheduler's reason: {reason}"
    return f"job {jobid} was not started{waited}; {why}"


def _waited(job, record):
    try:
        return int(record["EndTime"]) - int(record["SubmitTime"])
    except (KeyError, ValueError):
        return job.completion_time - job.submit_time if job.completion_time else None


def _down(nodes):
    """Those of a job's nodes that are down, with the reason that Slurm gives; "" if none is."""
    text, _ = _ask("sinfo", "-h", "-N", "-n", nodes, "-o", "%N|%T|%E") if nodes else ("", "")
    rows = [line.split("|", 2) for line in text.splitlines() if line.count("|") >= 2]
    down = {name: why for name, state, why in rows if state.startswith(("down", "fail", "error"))}
    return ", ".join(f"{name} ({why})" for name, why in down.items())


def slurm_record(jobid):
    """What Slurm's controller knows of a job: ({key: value}, why it says nothing)."""
    text, error = _ask("scontrol", "show", "job", "-o", str(jobid))
    return dict(re.findall(r"(?:^|\s)([\w:/]+)=(\S*)", text)), error


def _ask(*command):
    """(output, error) of a scheduler's command; one of the two is empty."""
    environ = {**os.environ, "SLURM_TIME_FORMAT": "%s"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environ)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"{command[0]}: {error}"
    return (done.stdout, "") if done.returncode == 0 else ("", said(command[0], done.stderr))


def left_in_queue(scheduler, jobids):
    """What to do about jobs that may be queued or running still."""
    ids = [str(jobid) for jobid in jobids]
    cancel = f"; cancel with {CANCEL[scheduler]} {' '.join(ids)}" if scheduler in CANCEL else ""
    return f"left in the queue: {', '.join(ids)}{cancel}"


# Open MPI, and MPICH with those derived from it; both print it on standard error.
ABORTS = (
    r"^MPI_ABORT was invoked on rank (?P<rank>\d+) in communicator .*\n?"
    r"(?:\s*Proc: .*\n\s*Errorcode: |with errorcode )(?P<code>-?\d+)",
    r"application called MPI_Abort\(.*?, (?P<code>-?\d+)\) - process (?P<rank>\d+)",
)


def of_abort(words, folder, hosts=()):
    """The named cause if a rank called MPI_Abort, as MPI told it in `words`, else "".

    `hosts` are those of the job, as far as they are known.
    """
    found = next((match for text in ABORTS if (match := re.search(text, words, re.M))), None)
    if found is None:
        return ""
    before = words[: words.rfind("\n", 0, found.start()) + 1].splitlines()
    own = [line for line in before if line.strip(" -*") and "ORTE_ERROR_LOG" not in line]
    host = _host(folder, int(found["rank"])) or _host_of_task(words, found["rank"])
    host = host or (hosts[0] if len(hosts or ()) == 1 else "")
    where = f" on {host}" if host else ""
    last = f": {own[-1].strip()}" if own else ""
    return f"MPI_ABORT: rank {found['rank']}{where} aborted with code {found['code']}{last}"


def _host(folder, rank):
    """The host of a rank, as the result file of the launch has it from its last round."""
    try:
        seats = json.loads(Path(folder, "result.json").read_text())["layout"]["per_rank"]
        return next((seat["host"] for seat in seats if seat["rank"] == rank), "")
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _host_of_task(words, rank):
    """The host of a rank that srun tells of: `srun: error: node1: task 3: Exited with ...`."""
    found = re.search(rf"^srun: error: (\S+): tasks? {rank}: ", words, re.M)
    return found[1] if found else ""


COMMANDS = re.compile(
    r"(?:\S*/)?(sacct|sbatch|scancel|scontrol|sinfo|squeue|qdel|qselect|qstat|qsub|bjobs|bkill|"
    r"bsub|oardel|oarstat|oarsub|flux)(?:\s|$)"
)
SUBMIT = ("sbatch", "qsub", "bsub", "oarsub")
UNREACHABLE = re.compile(
    r"unable to contact|connect|timed? ?out|temporarily unable|communication|no such file", re.I
)
SPAWNED = re.compile(
    r"spawned process (?:error|timeout): command '(?P<command>.*?)' (?P<how>failed|timed out) .*?:"
    r"\s+--- stdout ---\s.*?--- stdout ---\s+--- stderr ---\s(?P<stderr>.*?)--- stderr ---",
    re.S,
)


def of_reframe(text, seconds=None):
    """The named cause in ReFrame's reason for a failure, or in its output; "" if there is none.

    `seconds` is how long ReFrame had the job.
    """
    for found in SPAWNED.finditer(text):
        if command := COMMANDS.match(found["command"]):
            return _of_command(command[1], found)
    if found := re.search(r"job blocked error: \[jobid=(\S+)\] .*? due to reason: (.*)", text):
        return "BLOCKED: " + unplaced(found[1], seconds, found[2].strip())
    if found := re.search(r"job error: \[jobid=(\S+)\] maximum pending time exceeded", text):
        return "BLOCKED: " + unplaced(found[1], seconds, None)
    if found := re.search(r"job error: \[jobid=\S+\] job timed out \(.*s > (\S+)s\)", text):
        return f"TIMEOUT: it ran to its time limit of {lasting(float(found[1]))}"
    if found := re.search(r"job scheduler error: (.*)", text):
        return f"INFRASTRUCTURE: {found[1]}"
    return ""


def _of_command(command, found):
    words = said(command, found["stderr"])
    if found["how"] == "timed out":
        return f"INFRASTRUCTURE: {command} did not answer in time"
    if command in SUBMIT and not UNREACHABLE.search(words):
        return f"BLOCKED: the scheduler refused the job: {words}"
    return f"INFRASTRUCTURE: {words}"


def said(command, stderr):
    """The last line of a command's error output, which is what it means, after its name."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    last = (
        re.sub(rf"^{command}: (error: )?", "", lines[-1]) if lines else "it failed without a word"
    )
    return f"{command}: {last}"


def lasting(seconds):
    """A time limit as a person writes it: 15 min, 1 d, 90 s."""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
