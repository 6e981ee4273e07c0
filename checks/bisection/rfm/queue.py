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
from reframe.core.schedulers.slurm import slurm_state_pending

from bisection import schedulers
from bisection.core.commands import option_value
from bisection.core.identity import Geometry
from bisection.core.reasons.base import Reason
from bisection.core.reasons.launches import Blocked
from bisection.schedulers.scheduler import DEADLINE, NODES, SPOTS
from bisection.schedulers.slurm import NODELIST, missing, node_rows, waiting_reasons
from bisection.schedulers.slurm_records import UNAVAILABLE


def scheduler_of(job: Any) -> schedulers.Scheduler:
    """What the suite knows of the scheduler of a job of ReFrame's."""
    return schedulers.of(job.scheduler.registered_name)


# ---- the nodes that launches request, chosen before the run (bisection.analysis.rotation) ----

_turns: Counter[tuple[str, str]] = Counter()


def nodelist(partition: str, launch: str) -> list[str]:
    """Slurm's option that requests the nodes of a launch, by the full name of its partition and its
    unique name; none where Slurm is to choose. A repeated launch has the next nodes."""
    file = os.environ.get(NODES)
    sets = json.loads(Path(file).read_text()).get(partition) if file else None
    if not sets:
        return []
    number = _turns[partition, launch]
    _turns[partition, launch] += 1
    return [f"{NODELIST}{','.join(sets[number % len(sets)])}"]


# ---- a campaign over every node: each launch is a test of its own, on nodes that it names ----

TIER = "nodes"  # its tests


def _read_spots() -> tuple[dict[int, tuple[str, list[str]]], int]:
    """Of each launch its number, the full name of its partition and its nodes; and how many jobs
    may be in the queue at once, 0 for any number. None but in a campaign."""
    file = os.environ.get(SPOTS)
    if not file:
        return {}, 0
    kept = json.loads(Path(file).read_text())
    spots = {number: (name, nodes) for number, (name, nodes) in enumerate(kept["spots"])}
    return {n: spot for n, spot in spots.items() if n >= kept["first"]}, kept["at_once"]


spots, at_once = _read_spots()


def fits(spot: int, least_nodes: int) -> bool:
    """True if a launch of at least so many nodes is of the size that isolates what it measures: one
    node, or several where it measures what is between nodes."""
    return (least_nodes > 1) == (len(spots[spot][1]) > 1)


def free_blocked(jobs: Sequence[Any], reasons: Mapping[str, Sequence[str]] | None) -> list[Any]:
    """Drops the request for the nodes that were chosen before the run, if these are not there any
    more. Returns the jobs of ReFrame that had it, and are to run on other nodes. `reasons` are
    Slurm's by job number; None if they are not known. In a campaign over every node, jobs wait for
    their nodes, unless these are down or drained."""
    if not os.environ.get(NODES) and not spots:
        return []
    asking = [job for job in jobs if any(option.startswith(NODELIST) for option in job.options)]
    if asking and reasons is None:
        reasons = waiting_reasons(job.jobid for job in asking)
    blocked = [
        job
        for job in asking
        if any(why.startswith("ReqNodeNotAvail") for why in (reasons or {}).get(job.jobid, ()))
    ]
    if spots:
        return _patient(blocked)
    for job in blocked:
        scheduler_of(job).free(job.jobid)
        job.options = [option for option in job.options if not option.startswith(NODELIST)]
    return blocked


def _patient(jobs: Sequence[Any]) -> list[Any]:
    """Those of ReFrame's jobs whose nodes are neither down nor drained."""
    nodes = {job: option_value(job.options, NODELIST.rstrip("=")).split(",") for job in jobs}
    names = ",".join(sorted({name for each in nodes.values() for name in each}))
    rows = node_rows("%N|%T", names=names) if names else []
    gone = {name for name, state in rows if state.startswith(UNAVAILABLE)}
    return [job for job in jobs if gone.isdisjoint(nodes[job])]


# ---- a place ----

# Of a job's options those that do not decide where it runs.
NAMES = re.compile(r"--(job-name|output|error)\b")
QUEUE_FULL_PAUSE = 5  # s
# Jobs of all partitions that may be in the queue: what a campaign asks for, or what the scheduler
# allows, as far as it is known.
_allowed = [at_once or math.inf]
refusals: dict[tuple[str, ...], str] = {}  # a job's options -> Slurm's words, "" if it has a place


def require_place(job: Any) -> None:
    """Asks Slurm whether it can place a job of ReFrame's, by `sbatch --test-only` of its script in
    the current folder; once for all jobs with the same options. Nodes that were chosen before the
    run, and are not there any more, are taken out of the script: Slurm then chooses.

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
        refusals[place] = scheduler_of(job).place(job) or ""
    return place, refusals[place]


def allowed() -> float:
    return _allowed[0]


def submit(original: Callable[[Any], None], job: Any) -> None:
    """Submits a job that Slurm can place, by ReFrame's own way to do so; where the user may not
    queue more jobs, once another one is gone. ReFrame watches no launch until then, and queues no
    more jobs than that from then on. ReframeError: Slurm does not take it."""
    require_place(job)
    until = min(time.time() + (job.max_pending_time or math.inf), deadline())
    while job.jobid is None:
        try:
            original(job)
        except SpawnedProcessError as error:
            if not scheduler_of(job).is_full(error.stderr or "") or time.time() > until:
                raise
            _allowed[:] = [max(sum(not other.completion_time for other in queued), 1)]
            time.sleep(QUEUE_FULL_PAUSE)
    queued.append(job)


# ---- how long a job may wait ----

queued: list[Any] = []  # ReFrame's jobs that Slurm took, in the order in which it starts them
_waits_since = [0.0]  # from when the first of them that waits is counted to wait, Unix time


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


def ask(job: Any, shape: Geometry, limit: float) -> None:
    """Has a job of some seconds ask for what ReFrame does not ask for by itself, and not to start
    after the deadline of the run."""
    scheduler_of(job).ask(job, shape, limit, None if deadline() == math.inf else deadline())


def overdue(jobs: Sequence[Any]) -> list[Any]:
    """Those of ReFrame's jobs, in their state of now, that wait in the queue for too long: all that
    wait at the deadline of the run; before it the next one, if it waits for longer than it may
    since a launch of the run ran. The job behind a cancelled
    one may wait for the time limit of the cancelled one."""
    now = time.time()
    alive = [job for job in jobs if job.state and not job.is_cancelling]
    waiting = [job for job in alive if slurm_state_pending(job.state)]
    if len(waiting) < len(alive):
        _waits_since[0] = now
    if now >= deadline():
        return waiting
    there = (job for job in queued if job.state and not (job.completion_time or job.is_cancelling))
    first = next(there, None)
    if first is None or first not in waiting:
        return []
    patience = first.max_pending_time or math.inf
    if now < max(first.submit_time, _waits_since[0]) + patience:
        return []
    _waits_since[0] = now + (first.time_limit or 0.0) - patience
    return [first]
