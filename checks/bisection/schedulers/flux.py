"""Flux, by what its own commands print and by its Python bindings.

It has never met a real Flux: it was written after the manual pages flux-queue(1), flux-resource(1)
and flux-jobs(1) and after ReFrame's back-end (4.10.4), and is tested against a fake.
"""

import math
import re
from collections.abc import Callable
from typing import Any

from bisection.core.commands import Answer, ask, option_value
from bisection.core.identity import Geometry
from bisection.core.reasons.base import Reason
from bisection.core.reasons.launches import Blocked, Cancelled, Timeout
from bisection.core.topology import expanded
from bisection.schedulers import survey
from bisection.schedulers.scheduler import JobState, Scheduler

QUEUES = "{queue}|{submission}|{scheduling}|{limits.timelimit}|{limits.max.nnodes}"
NODES = "{queue}|{state}|{nnodes}|{ncores}|{ngpus}|{nodelist}"
JOB = "{state}|{result}|{nodelist}|{exception.note}"
USUAL = {"submission": "enabled", "scheduling": "started"}  # of a queue


class Flux(Scheduler):
    """Flux, whose back-end in ReFrame needs its Python bindings."""

    queue_options = ("--queue",)
    account_options = ("--bank",)
    is_read = True

    def __init__(self, name: str) -> None:
        super().__init__(name, "Flux", ["flux"], cancels="flux cancel")

    def read(self, account: str, reservation: str) -> survey.SchedulerSurvey:
        """The survey of its named queues, for any bank."""
        nodes: dict[str, list[survey.Node]] = {}
        listed = _rows(NODES, "resource", "list", "-s", "free,allocated,down")
        for where, state, count, cores, gpus, names in listed:
            gres = f"gpu:{int(gpus) // int(count)}" if int(gpus) else ""
            down = state if state == "down" else ""
            for name in expanded(names) if names else ():
                node = survey.Node(name, int(cores) // int(count), 1, 1, gres, down=down)
                for queue in where.split(","):
                    nodes.setdefault(queue, []).append(node)
        queues = []
        for name, submission, scheduling, limit, most in _rows(QUEUES, "queue", "list"):
            if name:
                fields = {"submission": submission, "scheduling": scheduling}
                empty = None if name in nodes else survey.no_nodes(name)
                closed = survey.closed_by(name, fields, USUAL) or empty
                groups = survey.groups_of(nodes.get(name, []))
                longest, largest = _number(limit), _number(most)
                queues.append(survey.QueueInfo(name, groups, longest, largest, closed=closed))
        if not queues:
            return super().read(account, reservation)
        version = re.search(r"commands:\s*(\S+)", ask("flux", "version").text)
        return survey.SchedulerSurvey(
            self.title, self.name, version[1] if version else "", queues=queues
        )

    def ping(self) -> Answer:
        return ask("flux", "uptime")

    def ask(self, job: Any, shape: Geometry, limit: float, deadline: float | None) -> None:
        """ReFrame's back-end asks for one core, whatever a job needs, and for no queue: here for an
        instance of Flux with a slot per node, which runs the script once."""
        # As ReFrame does; a host without Flux has none.
        from flux.job import JobspecV1  # type: ignore[import-not-found]

        access = job.sched_access
        wanted = JobspecV1.from_nest_command(
            ["/bin/bash", job.script_filename],
            num_slots=shape.nodes,
            cores_per_slot=shape.ranks_per_node * shape.threads,
            gpus_per_slot=int(option_value(access, "--gpus-per-slot") or 0) or None,
            num_nodes=shape.nodes,
            exclusive="--exclusive" in access,
        )
        for name in ("cwd", "environment", "stdout", "stderr"):
            setattr(wanted, name, getattr(job.fluxjob, name))
        wanted.duration = limit
        feature = option_value(access, "--requires")
        queue = option_value(access, *self.queue_options)
        bank = option_value(access, *self.account_options)
        constraint = {"properties": [feature]} if feature else None
        for name, value in (("queue", queue), ("bank", bank), ("constraint", constraint)):
            if value:
                wanted.setattr(f"system.{name}", value)
        job.fluxjob = wanted

    def per_node(self, nodes: int) -> list[str]:
        return ["flux", "run", f"--nodes={nodes}", "--tasks-per-node=1", "--exclusive"]

    def look(self, job: Any) -> JobState:
        """By its record, which has the note of an exception, too."""
        answer = ask("flux", "jobs", "-n", "-o", JOB, str(job.jobid))
        if not answer:
            unknown = "unknown" in answer.error.lower()
            return JobState("", alive=not unknown, error="" if unknown else answer.error)
        state, result, hosts, note = answer.text.rstrip("\n").split("|", 3)
        word = result if state == "INACTIVE" else {"RUN": "RUNNING"}.get(state, state)
        return JobState(word, state != "INACTIVE", note, hosts)

    def cause(self, job: Any, ended: bool = False, said: Callable[[], str] = str) -> Reason | None:
        """By its result; one that was cancelled without a host had not started."""
        if ended:
            return None
        state, number = self.look(job), str(job.jobid)
        if state.word == "TIMEOUT":
            return Timeout(job=number, limit=job.time_limit or 0.0, nodes=state.hosts)
        if state.word != "CANCELED":
            return None
        if state.hosts:
            return Cancelled(job=number, state=state.word, nodes=state.hosts)
        return Blocked(job=number, reason=state.reason)


def _rows(layout: str, *command: str) -> list[list[str]]:
    """What a command of Flux lists in a format; SchedulerError if it fails."""
    answer = ask("flux", *command, "-n", "-o", layout)
    if not answer:
        raise survey.SchedulerError("Flux", answer.error)
    bars = layout.count("|")
    return [line.split("|", bars) for line in answer.text.splitlines() if line.count("|") >= bars]


def _number(text: str) -> int | None:
    """A limit; None for none."""
    try:
        value = float(text)
    except ValueError:
        return None
    return int(value) if 0 < value < math.inf else None
