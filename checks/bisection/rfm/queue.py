"""The queue of a batch system: whether a job has a place in it, and how long it may wait there."""

import math
import os
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ReframeError, SpawnedProcessError

from bisection.core.commands import all_errors, last_error, option_value
from bisection.core.reasons import Code, Reason
from bisection.core.slurm import DEADLINE, NO_PLACE, QUEUE_FULL, node_rows, unavailable
from bisection.rfm import rotation

# ---- a place ----

# Of a job's options those that do not say where it runs.
NAMES = re.compile(r"--(job-name|output|error)\b")
QUEUE_FULL_PAUSE = 5  # s
_allowed = [math.inf]  # jobs that the user may have in the queue, as far as it is known
refusals: dict[tuple[str, ...], str] = {}  # a job's options -> Slurm's words, "" if it has a place


def require_place(job: Any) -> None:
    """Asks Slurm whether it can place a job, by `sbatch --test-only` of the job's own script; once
    for all jobs with the same options. Nodes that were chosen before the run, and are not there
    any more, are taken out of the script: Slurm then chooses.

    Args:
        job: ReFrame's job; its script is in the current folder.

    Raises:
        ReframeError: Slurm cannot; the text is the Reason as JSON.
    """
    place, refused = _asked(job)
    if refused and rotation.remove_nodelist(Path(job.script_filename)):
        place, refused = _asked(job)
    if refused:
        down = missing(place) or None
        raise ReframeError(Code.BLOCKED(refused=refused, down=down).dumps())


def _asked(job: Any) -> tuple[tuple[str, ...], str]:
    """A job's options that say where it runs, and Slurm's words if it cannot place it, else ""."""
    lines = Path(job.script_filename).read_text().splitlines()
    options = [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]
    access = job.sched_access if job.scheduler.get_option("sched_access_in_submit") else []
    place = (*access, *(option for option in options if not NAMES.match(option)))
    if place not in refusals:
        refusals[place] = _refusal(job, access)
    return place, refusals[place]


def _refusal(job: Any, access: Sequence[str]) -> str:
    """Slurm's words if it cannot place a job, else ""; also where it does not answer."""
    try:
        job.scheduler.sbatch(["--test-only", *access, job.script_filename])
    except SpawnedProcessError as error:
        if NO_PLACE in last_error("sbatch", error.stderr or ""):
            return all_errors("sbatch", error.stderr)
    return ""


def missing(options: Sequence[str]) -> list[tuple[str, str]]:
    """The nodes that are down or drained, each with Slurm's reason, if they are why a job has no
    place: enough nodes would take it with them, and do not without them.

    Args:
        options: the job's, for sbatch.
    """
    partition = option_value(options, "-p", "--partition")
    rows = node_rows("%N|%P", partition, option_value(options, "-w", "--nodelist"))
    # Slurm's usual partition has a star
    nodes = {name for name, queue in rows if partition or queue.endswith("*")}
    down = [(name, why) for name, why in unavailable(options) if name in nodes]
    ranks, per_node = (
        int(option_value(options, *option) or 1)
        for option in (("-n", "--ntasks"), ("--ntasks-per-node",))
    )
    needed = math.ceil(ranks / per_node)
    return down if len(nodes) - len(down) < needed <= len(nodes) else []


def allowed() -> float:
    """Returns how many jobs of the run may be in the queue."""
    return _allowed[0]


def submit(original: Callable[[Any], None], job: Any) -> None:
    """Submits a job that Slurm can place, and puts it in line; where the user may not queue more
    jobs, once another one is gone. ReFrame watches no launch until then, and submits no more than
    this number of jobs from then on.

    Args:
        original: ReFrame's own way to submit a job, to be called in the job's folder.
        job: ReFrame's job.

    Raises:
        ReframeError: Slurm does not take it.
    """
    require_place(job)
    patience = job.max_pending_time or math.inf
    until = min(time.time() + patience, deadline())
    while job.jobid is None:
        try:
            original(job)
        except SpawnedProcessError as error:
            if not QUEUE_FULL.search(error.stderr or "") or time.time() > until:
                raise
            _allowed[:] = [max(sum(not other.completion_time for other, _ in line), 1)]
            time.sleep(QUEUE_FULL_PAUSE)
    line.append((job, patience))
    _bound(len(line) - 1, job.submit_time)


# ---- a turn ----

line: list[tuple[Any, float]] = []  # jobs in the queue, and how long each may wait for its turn, s


def deadline() -> float:
    """The Unix time before which launches must start; infinite if the run has no deadline."""
    return float((os.environ.get(DEADLINE) or "inf").split()[0])


def late() -> Reason | None:
    """Returns why nothing is started any more, once the deadline of the run has passed."""
    if time.time() < deadline():
        return None
    return Code.BLOCKED(deadline=float(os.environ[DEADLINE].split()[1]))


def until_deadline(patience: float | None) -> float | None:
    """Returns how long a job may wait in the queue, s; `patience` where no deadline comes
    before."""
    left = max(deadline() - time.time(), 0)
    return patience if left == math.inf else min(patience or math.inf, left)


def deadline_options(time_limit: float | None) -> list[str]:
    """Slurm's options that remove a job from the queue if it has not started by the deadline.

    Args:
        time_limit: of the job, s; Slurm's own deadline is for its end.
    """
    if deadline() == math.inf:
        return []
    minutes = math.ceil((time_limit or 0) / 60)  # as Slurm counts them
    # in whole seconds, and never before the run's own deadline, which is the reason given
    end = time.localtime(math.ceil(deadline()) + 60 * minutes)
    return [time.strftime("--deadline=%Y-%m-%dT%H:%M:%S", end)]


def advance() -> None:
    """Lets all jobs in line wait anew, as one of the run's launches has run."""
    line[:] = [(job, patience) for job, patience in line if not job.completion_time]
    for place in range(len(line)):
        _bound(place, time.time())


def _bound(place: int, since: float) -> None:
    """Sets the longest time in the queue of a job in line: its patience, from the Unix time `since`
    on, and the time limits of the jobs before it."""
    job, patience = line[place]
    before = sum(other.time_limit or 0 for other, _ in line[:place])
    end = min(since + before + patience, deadline())
    # at least 1: ReFrame takes 0 for no limit
    job.max_pending_time = None if end == math.inf else max(end - job.submit_time, 1)
