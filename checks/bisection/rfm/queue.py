"""The queue of a batch system: a job's nodes, its place, and how long it may wait there."""

import json
import math
import os
import re
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ReframeError, SpawnedProcessError

from bisection.core.commands import all_errors, ask, last_error, option_value
from bisection.core.reasons.base import Reason
from bisection.core.reasons.launches import Blocked
from bisection.core.slurm import DEADLINE, NO_PLACE, NODES, QUEUE_FULL, UNAVAILABLE, free, node_rows

# ---- the nodes that launches request, chosen before the run (bisection.analysis.rotation) ----

NODELIST = "--nodelist="
_turns: Counter[tuple[str, str]] = Counter()


def nodelist(partition: str, launch: str) -> list[str]:
    """Slurm's option that requests the nodes of a launch; none where Slurm is to choose.

    Args:
        partition: its full name.
        launch: the test's unique name; a repeated launch has the next nodes.
    """
    file = os.environ.get(NODES)
    sets = json.loads(Path(file).read_text()).get(partition) if file else None
    if not sets:
        return []
    number = _turns[partition, launch]
    _turns[partition, launch] += 1
    return [f"{NODELIST}{','.join(sets[number % len(sets)])}"]


def free_blocked(jobs: Sequence[Any], reasons: Mapping[str, Sequence[str]] | None) -> list[Any]:
    """Drops the request for the nodes that were chosen before the run, if these are not there any
    more.

    Args:
        jobs: ReFrame's.
        reasons: Slurm's reasons by job number; None if they are not known.

    Returns:
        Those jobs, which are to run on other nodes.
    """
    freed = []
    asking = [job for job in jobs if any(option.startswith(NODELIST) for option in job.options)]
    asking = asking if os.environ.get(NODES) else []
    known = reasons or {}
    if asking and reasons is None:
        numbers = ",".join(job.jobid for job in asking)
        lines = ask("squeue", "-h", "-j", numbers, "-o", "%i|%r").text.splitlines()
        known = {number: [why] for number, _, why in (line.partition("|") for line in lines)}
    for job in asking:
        if any(why.startswith("ReqNodeNotAvail") for why in known.get(job.jobid, ())):
            free(job.jobid)
            job.options = [option for option in job.options if not option.startswith(NODELIST)]
            freed.append(job)
    return freed


# ---- a place ----

# Of a job's options those that do not decide where it runs.
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
    script = Path(job.script_filename)
    place, refused = _asked(job)
    lines = script.read_text().splitlines(keepends=True)
    free_lines = [line for line in lines if not line.startswith(f"#SBATCH {NODELIST}")]
    if refused and os.environ.get(NODES) and free_lines != lines:
        script.write_text("".join(free_lines))
        place, refused = _asked(job)
    if refused:
        raise ReframeError(Blocked(refused=refused, down=tuple(missing(place))).dumps())


def _asked(job: Any) -> tuple[tuple[str, ...], str]:
    """A job's options that decide where it runs, and Slurm's words if it cannot place it; "" if it
    can, or does not answer."""
    lines = Path(job.script_filename).read_text().splitlines()
    options = [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]
    access = job.sched_access if job.scheduler.get_option("sched_access_in_submit") else []
    place = (*access, *(option for option in options if not NAMES.match(option)))
    if place not in refusals:
        refusals[place] = ""
        try:
            job.scheduler.sbatch(["--test-only", *access, job.script_filename])
        except SpawnedProcessError as error:
            if NO_PLACE in last_error("sbatch", error.stderr or ""):
                refusals[place] = all_errors("sbatch", error.stderr)
    return place, refusals[place]


def missing(options: Sequence[str]) -> list[tuple[str, str]]:
    """The nodes that are down or drained, each with Slurm's reason, if they are why a job has no
    place: enough nodes would take it with them, and do not without them.

    Args:
        options: the job's, for sbatch.
    """
    partition = option_value(options, "-p", "--partition")
    rows = node_rows("%N|%P|%T|%E", partition, option_value(options, "-w", "--nodelist"))
    # Slurm's usual partition has a star
    nodes = {row[0]: row[2:] for row in rows if partition or row[1].endswith("*")}
    down = [(name, why) for name, (state, why) in nodes.items() if state.startswith(UNAVAILABLE)]
    ranks, per_node = (
        int(option_value(options, *option) or 1)
        for option in (("-n", "--ntasks"), ("--ntasks-per-node",))
    )
    needed = math.ceil(ranks / per_node)
    return down if len(nodes) - len(down) < needed <= len(nodes) else []


def allowed() -> float:
    """The number of jobs of the run that may be in the queue."""
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
    """The reason why nothing starts any more; None before the deadline of the run."""
    if time.time() < deadline():
        return None
    return Blocked(deadline=float(os.environ[DEADLINE].split()[1]))


def until_deadline(patience: float | None) -> float | None:
    """The time that a job may wait in the queue, s; `patience` where no deadline comes before."""
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
