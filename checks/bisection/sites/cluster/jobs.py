"""One job of a few steps: its script, its submission to a scheduler, and what each step printed.

A Scheduler knows how a script asks for nodes, how a command runs once per node, and the commands to
submit, look and cancel (schedulers.py has them by ReFrame's name).
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
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bisection.core.commands import all_errors, ask
from bisection.core.identity import Geometry
from bisection.core.reasons import Code, Reason
from bisection.core.slurm import QUEUE_FULL, STATES
from bisection.core.topology import expanded
from bisection.sites.cluster.survey import Survey

AT_ONCE = 4  # jobs: more would be in the way of other users
POLL = 0.5  # seconds between looks at a job, at first
RARELY = 5.0  # likewise, later: a controller has other work
LATE = 20  # seconds that a shared file system may need to show a file of another host


@dataclass(frozen=True)
class Queue:
    """The request of a job to a scheduler."""

    name: str
    access: Sequence[str]  # the scheduler's options: --partition=duo, --account=a, --exclusive
    nodes: int
    ranks_per_node: int
    longest: int = 600  # s that a job may ask for

    @property
    def shape(self) -> Geometry:
        """A rank per core, which the job is submitted with."""
        return Geometry(self.nodes, self.ranks_per_node, 1)


@dataclass(frozen=True)
class Step:
    """A command of a job."""

    name: str
    command: Sequence[str]  # its words, or one text for the job's own shell
    limit: float = 45  # seconds


STOPPED = 124  # exit code of `timeout` where the limit ended the command


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
    """The scheduler did not take a job; the text has all that it printed, `last` its last line."""

    def __init__(self, words: str, last: str = "") -> None:
        super().__init__(words)
        self.last = last or words


class Stopped(Exception):
    """A job was cancelled, as the caller was interrupted."""


@dataclass
class State:
    """Where a job is."""

    word: str  # the scheduler's own
    alive: bool
    reason: str = ""  # of waiting
    hosts: str = ""
    memory: float = 0.0  # B that it has on all hosts together; 0: the scheduler does not say
    error: str = ""  # the scheduler did not answer


class Scheduler(ABC):
    """How jobs are submitted; a command or an option that a scheduler lacks does nothing."""

    commands: Sequence[str] = ()  # that it is known by
    queue_options: Sequence[str] = ()  # by which a job names its queue
    account_options: Sequence[str] = ()

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.stop = stop or threading.Event()  # once set, its jobs are cancelled

    @classmethod
    def is_here(cls) -> bool:
        """True if this host has its commands."""
        return all(map(shutil.which, cls.commands))

    @staticmethod
    def survey(account: str) -> Survey:
        """Returns its own report.

        Args:
            account: the one that jobs will use, "" for the user's own.

        Raises:
            SchedulerError: it does not answer.
        """
        del account
        return Survey(kind="", reframe="local")

    def unavailable(self, access: Sequence[str]) -> list[tuple[str, str]]:
        """The nodes that take no jobs of these options, each with the scheduler's reason."""
        del access
        return []

    @abstractmethod
    def header(self, queue: Queue, shape: Geometry, output: Path, minutes: int) -> list[str]:
        """The lines of a script by which it asks for nodes, as ReFrame writes them for a launch."""

    def shaped(self, shape: Geometry) -> list[str]:
        """Returns what precedes a launcher so that it takes the job for one of another geometry."""
        del shape
        return []

    def per_node(self, nodes: int) -> list[str]:
        """Returns what precedes a command so that it runs once per node, without MPI, on all
        cores."""
        del nodes
        return []

    @abstractmethod
    def submit(self, script: Path) -> str:
        """Submits a script; returns the job's number, or raises Refused."""

    def refusal(self, script: Path) -> str:
        """Its words why it could never place a script, which is not submitted; "" if it could."""
        del script
        return ""

    @abstractmethod
    def state(self, job: str) -> State:
        """Returns where a job is; it is over if the scheduler has forgotten it."""

    @abstractmethod
    def cancel(self, job: str) -> None:
        """Cancels a job."""


class Local(Scheduler):
    """No scheduler: the script runs on this host."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        super().__init__(stop)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.output = Path(os.devnull)

    def header(self, queue: Queue, shape: Geometry, output: Path, minutes: int) -> list[str]:
        """Nothing is asked for; the file is kept for the output."""
        del queue, shape, minutes
        self.output = output
        return []

    def submit(self, script: Path) -> str:
        """Starts a script in a session of its own; returns its process number."""
        with open(self.output, "wb") as output:
            process = subprocess.Popen(
                ["bash", str(script)],
                cwd=script.parent,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.processes[str(process.pid)] = process
        return str(process.pid)

    def state(self, job: str) -> State:
        """Returns whether the script runs."""
        alive = self.processes[job].poll() is None
        return State("RUNNING" if alive else "COMPLETED", alive)

    def cancel(self, job: str) -> None:
        """Ends the script and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(job), signal.SIGTERM)


def submitted(*command: str) -> str:
    """Returns what a command printed that submits a job; Refused if it fails.

    As ReFrame does, it leaves out the user's SBATCH_ variables.
    """
    environ = {name: text for name, text in os.environ.items() if name[:7] != "SBATCH_"}
    if answer := ask(*command, environ=environ):
        return answer.text
    raise Refused(all_errors(command[0], answer.stderr) or answer.error, answer.error)


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


def script(
    header: Sequence[str], steps: Sequence[Step], variables: Mapping[str, str] | None = None
) -> str:
    """The text of a job's script."""
    lines = ["#!/bin/bash", *header, PRELUDE]
    lines += [f"export {name}={shlex.quote(text)}" for name, text in (variables or {}).items()]
    for step in steps:
        if isinstance(step.command, str):  # it changes the shell, as `module load` does
            lines.append(f"begin {step.name}\n{step.command} 2>&1 </dev/null\nend $?")
        else:
            words = ["step", step.name, f"{step.limit:g}", *step.command]
            lines.append(shlex.join(words))
    return "\n".join([*lines, "echo @done", ""])


STEP = re.compile(r"^@begin (\S+)\n(.*?)\n?\n@end (\d+) (\S+) (\S+)$", re.M | re.S)


def read_steps(text: str) -> dict[str, Ended]:
    """The steps that ended, from the output of a job."""
    return {
        name: Ended(int(code), float(last) - float(first), words, float(last))
        for name, words, code, first, last in STEP.findall(text)
    }


# ---- the job ----


def run(
    scheduler: Scheduler,
    queue: Queue,
    steps: Sequence[Step],
    folder: Path,
    patience: float,
    variables: Mapping[str, str] | None = None,
) -> Finished:
    """Submits one job, waits for its end and reads what its steps printed.

    A job that is not over in time, or that the caller interrupts, is cancelled.

    Args:
        scheduler: where it is submitted.
        queue: what it asks for.
        steps: its steps, of which each runs whatever the one before it ended with.
        folder: for the script and its output; all nodes must see it.
        patience: seconds from the submission to the end.
        variables: of the environment of all steps.

    Raises:
        OSError: the folder cannot be written.
    """
    output = folder / f"{queue.name}.out"
    output.unlink(missing_ok=True)
    asked = 60 + sum(step.limit for step in steps)
    minutes = max(1, math.ceil(min(asked, queue.longest) / 60))
    path = folder / f"{queue.name}.sh"
    header = scheduler.header(queue, queue.shape, output, minutes)
    path.write_text(script(header, steps, variables))
    finished = Finished()
    try:
        finished.job = _submit(scheduler, path, patience)
    except Refused as error:
        finished.fault = Code.BLOCKED(refused=str(error))
        return finished
    state = State("", alive=False)
    try:
        state = _wait(scheduler, finished, patience, minutes)
    finally:  # KeyboardInterrupt, too
        if finished.fault or not state.word:
            scheduler.cancel(finished.job)
    finished.hosts = expanded(state.hosts)
    if state.memory and finished.hosts:
        finished.memory = state.memory / len(finished.hosts)
    text = _read(output, 0 if finished.fault else LATE)
    finished.steps = read_steps(text or "")
    if not finished.fault and "@done" not in (text or ""):
        finished.fault = _fault(finished, state, output, text, minutes)
    return finished


def _submit(scheduler: Scheduler, path: Path, patience: float) -> str:
    """Submits a script; where the user may not queue more jobs, once another one is gone."""
    until = time.monotonic() + patience
    while True:
        try:
            return scheduler.submit(path)
        except Refused as error:
            if not QUEUE_FULL.search(str(error)) or time.monotonic() > until:
                raise
        if scheduler.stop.wait(RARELY):
            raise Stopped


def _wait(scheduler: Scheduler, finished: Finished, patience: float, minutes: int) -> State:
    """Waits for the end of a job, or sets its fault."""
    begin, pause = time.monotonic(), POLL
    while True:
        state = scheduler.state(finished.job)
        if not state.alive:
            return state
        if (waited := time.monotonic() - begin) > patience:
            break
        if scheduler.stop.wait(min(pause, patience)):
            raise Stopped
        pause = min(1.1 * pause, RARELY)
    job = {"job": finished.job}
    if state.error:
        finished.fault = Code.INFRASTRUCTURE(said=state.error)
    elif state.word == "RUNNING":
        limit = min(60 * minutes, patience)
        finished.fault = Code.TIMEOUT(**job, limit=limit, nodes=state.hosts or None)
    else:
        finished.fault = Code.BLOCKED(**job, waited=waited, reason=state.reason)
    return state


def _read(output: Path, patience: float) -> str | None:
    """The output of a job that is over, as soon as this host sees its end; None without any."""
    until = time.monotonic() + patience
    while True:
        text = output.read_text(errors="replace") if output.exists() else None
        if "@done" in (text or "") or time.monotonic() >= until:
            return text
        time.sleep(POLL)


def _fault(
    finished: Finished, state: State, output: Path, text: str | None, minutes: int
) -> Reason:
    """Returns why a job that is over has not run to its end."""
    nodes = state.hosts or None
    code = STATES.get(state.word)
    if code:  # also of a job that never ran, and so has no output
        more = {Code.TIMEOUT: {"limit": 60.0 * minutes}, Code.CANCELLED: {"state": state.word}}
        return code(job=finished.job, nodes=nodes, **more.get(code, {}))
    if text is None:
        return Code.OUTPUT_UNSEEN(job=finished.job, path=str(output), nodes=nodes)
    lines = [line.strip() for line in text.splitlines() if line.strip() and line[0] != "@"]
    return Code.NOT_ENDED(last=(lines or [""])[-1] or None)
