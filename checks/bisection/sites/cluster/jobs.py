"""One job of a few steps: its script, its submission to a scheduler, and what each step printed.

A Scheduler knows how a script asks for nodes, how a command runs once per node, and the commands to
submit, look and cancel (trial.py has them by ReFrame's name).
"""

import contextlib
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from bisection.core.commands import all_errors, ask
from bisection.core.identity import Geometry
from bisection.core.paths import text_of
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.launches import Blocked, Cancelled, Infrastructure, NotEnded, Timeout
from bisection.core.slurm import QUEUE_FULL, STATES
from bisection.core.topology import expanded
from bisection.sites.cluster.survey import Survey

AT_ONCE = 4  # jobs: more would be in the way of other users
POLL = 0.5  # seconds between looks at a job, at first
RARELY = 5.0  # likewise, later: a controller has other work
LATE = 20  # seconds that a shared file system may need to show a file of another host
LONGEST = 600  # seconds that a job asks for, where its queue gives as much
STOPPED = 124  # exit code of `timeout` where the limit ended the command


@dataclass(frozen=True)
class Step:
    """A command of a job."""

    name: str
    command: Sequence[str]  # its words, or one text for the job's own shell
    limit: float = 45  # seconds


@dataclass(frozen=True)
class Ended:
    """How a step ended."""

    code: int  # STOPPED: it ran to its limit
    seconds: float
    text: str  # standard output and standard error
    end: float = 0.0  # Unix time of the job's first host


@dataclass
class Finished:
    """The remains of a job that ended."""

    job: str = ""
    steps: dict[str, Ended] = field(default_factory=dict)  # those that ended, by name
    hosts: list[str] = field(default_factory=list)  # as far as the scheduler names them
    memory: float | None = None  # B per host, by the scheduler
    fault: Reason | None = None  # it did not run to its end


class Refused(Exception):
    """The scheduler did not take a job; the text has all that it printed."""


@dataclass
class State:
    """Where a job is."""

    word: str  # Slurm's
    alive: bool
    reason: str = ""  # of waiting
    hosts: str = ""
    memory: float = 0.0  # B that it has on all hosts together; 0: the scheduler does not say
    error: str = ""  # the scheduler did not answer


class Scheduler:
    """No scheduler: scripts run on this host. Schedulers of clusters override these methods."""

    commands: Sequence[str] = ()  # that it is known by
    queue_options: Sequence[str] = ()  # by which a job names its queue
    account_options: Sequence[str] = ()

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.stop = stop or threading.Event()  # once set, its jobs are cancelled
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    @classmethod
    def is_here(cls) -> bool:
        """True if this host has its commands."""
        return bool(cls.commands) and all(map(shutil.which, cls.commands))

    @staticmethod
    def read(account: str = "") -> Survey:
        """The queues and nodes as jobs with this account may use them; SchedulerError if it does
        not answer."""
        return Survey(kind="", reframe="local")

    def header(self, request: "Request", minutes: int) -> list[str]:
        """The lines of a script by which it asks for nodes, as ReFrame writes them for a launch."""
        return [f"exec >{shlex.quote(str(request.output))} 2>&1"]

    def shaped(self, shape: Geometry) -> list[str]:
        """Returns what precedes a launcher so that it takes the job for one of another geometry."""
        return []

    def per_node(self, nodes: int) -> list[str]:
        """Returns what precedes a command so that it runs once per node, without MPI, on all
        cores."""
        return []

    def submit(self, script: Path) -> str:
        """Submits a script; returns the job's number, or raises Refused."""
        words, none = ["bash", str(script)], subprocess.DEVNULL
        process = subprocess.Popen(words, cwd=script.parent, stdin=none, start_new_session=True)
        self.processes[str(process.pid)] = process
        return str(process.pid)

    def refusal(self, script: Path) -> str:
        """Its words why it could never place a script, which is not submitted; "" if it could."""
        return ""

    def state(self, job: str) -> State:
        """Returns where a job is; it is over if the scheduler has forgotten it."""
        alive = self.processes[job].poll() is None
        return State("RUNNING" if alive else "COMPLETED", alive)

    def cancel(self, job: str) -> None:
        """Cancels a job."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(job), signal.SIGTERM)


@dataclass(frozen=True)
class Request:
    """A job that is wanted of a scheduler, which cancels it where it is not over in time."""

    name: str
    access: Sequence[str]  # the scheduler's options: --partition=duo, --account=a, --exclusive
    shape: Geometry  # that it is submitted with
    folder: Path  # for its script and output; all nodes must see it
    patience: float  # s from the submission to the end
    scheduler: Scheduler
    max_time: int | None = None  # s that the queue gives
    variables: Mapping[str, str] = field(default_factory=dict)  # of the environment of all steps

    @property
    def output(self) -> Path:
        """The file that it writes."""
        return self.folder / f"{self.name}.out"


def submitted(*command: str) -> str:
    """Returns what a command printed that submits a job; Refused if it fails.

    As ReFrame does, it leaves out the user's SBATCH_ variables.
    """
    environ = {name: text for name, text in os.environ.items() if name[:7] != "SBATCH_"}
    if answer := ask(*command, environ=environ):
        return answer.text
    raise Refused(all_errors(command[0], answer.stderr) or answer.error)


# ---- the script ----

# A step prints its beginning and its end, so that a job that is stopped has left the steps before.
# `head` bounds what a launcher in a loop prints: some 30 B per rank of 100,000 ranks are more.
PRELUDE = """\
begin() { echo "@begin $1"; started=$(date +%s.%N); }
end() { echo; echo "@end $1 $started $(date +%s.%N)"; }
step() {
    begin "$1"
    timeout --kill-after=5 "$2" "${@:3}" 2>&1 </dev/null | head -c 8000000
    end "${PIPESTATUS[0]}"
}
"""


def script(request: Request, minutes: int, steps: Sequence[Step]) -> str:
    """The text of a job's script, which asks for some minutes."""
    lines = ["#!/bin/bash", *request.scheduler.header(request, minutes), PRELUDE]
    lines += [f"export {name}={shlex.quote(text)}" for name, text in request.variables.items()]
    for step in steps:
        if isinstance(step.command, str):  # it changes the shell, as `module load` does
            lines.append(f"begin {step.name}\n{step.command} 2>&1 </dev/null\nend $?")
        else:
            lines.append(shlex.join(["step", step.name, f"{step.limit:g}", *step.command]))
    return "\n".join([*lines, "echo @done", ""])


STEP = re.compile(r"^@begin (\S+)\n(.*?)\n?\n@end (\d+) (\S+) (\S+)$", re.M | re.S)


def read_steps(text: str) -> dict[str, Ended]:
    """The steps that ended, from the output of a job."""
    return {
        name: Ended(int(code), float(last) - float(first), words, float(last))
        for name, words, code, first, last in STEP.findall(text)
    }


# ---- the job ----


def run(request: Request, steps: Sequence[Step]) -> Finished:
    """Submits one job, waits for its end and reads what its steps printed.

    A job that is not over in time, or that the caller interrupts, is cancelled. Each step runs
    whatever the one before it ended with. OSError if the job's folder cannot be written.
    """
    scheduler, output, patience = request.scheduler, request.output, request.patience
    path = output.with_suffix(".sh")
    output.unlink(missing_ok=True)
    wanted = min(LONGEST, 60 + sum(step.limit for step in steps))
    minutes = max(1, math.ceil(min(wanted, request.max_time or wanted) / 60))
    path.write_text(script(request, minutes, steps))

    def submit() -> str | Refused:
        try:
            return scheduler.submit(path)
        except Refused as error:
            return error

    # Where the user may not queue more jobs, it is submitted once another one is gone.
    polled = partial(_polled, stop=scheduler.stop)
    job = polled(submit, lambda answer: not QUEUE_FULL.search(str(answer)), patience, pause=RARELY)
    if isinstance(job, Refused):
        return Finished(fault=Blocked(refused=str(job)))
    state = State("", alive=True)
    try:
        state = polled(partial(scheduler.state, job), lambda state: not state.alive, patience)
    finally:  # KeyboardInterrupt, too
        if state.alive:
            scheduler.cancel(job)
    late = 0 if state.alive else LATE
    text = polled(partial(text_of, output), lambda text: "@done" in text, late)
    finished = Finished(job, read_steps(text), expanded(state.hosts))
    if state.memory and finished.hosts:
        finished.memory = state.memory / len(finished.hosts)
    if state.alive or "@done" not in text:
        finished.fault = _fault(request, job, state, text, minutes)
    return finished


def _polled(
    look: Callable[[], Any],
    is_over: Callable[[Any], bool],
    patience: float,
    stop: threading.Event,
    pause: float = POLL,
) -> Any:
    """Returns what `look` returns, once that is over or after `patience` seconds; KeyboardInterrupt
    where jobs are to be cancelled. The pauses between looks grow from `pause` on."""
    until = time.monotonic() + patience
    while not is_over(result := look()) and time.monotonic() < until:
        if stop.wait(min(pause, patience)):
            raise KeyboardInterrupt
        pause = min(1.1 * pause, RARELY)
    return result


def _fault(request: Request, job: str, state: State, text: str, minutes: int) -> Reason:
    """Returns why a job did not run to its end in time."""
    limit, at = 60.0 * minutes, {"job": job, "nodes": state.hosts}
    if state.error:
        return Infrastructure(why=state.error)
    if state.alive and state.word == "RUNNING":
        return Timeout(**at, limit=min(limit, request.patience))
    if state.alive:
        return Blocked(job=job, waited=request.patience, reason=state.reason)
    kind = STATES.get(state.word)  # also of a job that never ran, and so has no output
    if kind is Timeout:
        return Timeout(**at, limit=limit)
    if kind is Cancelled:
        return Cancelled(**at, state=state.word)
    if kind is not None:
        return kind(**at)
    if not request.output.exists():
        ran = f", it ran on {state.hosts}" if state.hosts else ""
        mend = "Put BISECTION_HOME on a file system that the nodes mount."
        return Text(f"job {job} left no output in {request.output}{ran}", next=mend)
    lines = [line.strip() for line in text.splitlines() if line.strip() and line[0] != "@"]
    return NotEnded(line=(lines or [""])[-1])


def at_once(
    act: Callable[[Any], Any], items: Sequence[Any], stop: threading.Event, most: int = AT_ONCE
) -> Iterator[Any]:
    """Yields what `act` returns for each item, in their order; at most `most` run at a time.

    Where one fails, or the caller is interrupted or closes this, `stop` is set, which cancels the
    jobs of schedulers that have it.
    """
    with ThreadPoolExecutor(most) as pool:
        try:
            yield from pool.map(act, items)
        except BaseException:
            stop.set()
            raise
