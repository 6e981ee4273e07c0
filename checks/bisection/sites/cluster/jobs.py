"""One job of a few steps, submitted by ReFrame as a launch is: what each step printed, and why the
job did not run to its end."""

import contextlib
import functools
import math
import re
import shlex
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from reframe.core import config, runtime
from reframe.core.backends import getlauncher, getscheduler
from reframe.core.exceptions import ReframeError, SpawnedProcessError
from reframe.core.schedulers import Job
from reframe.utility import osext

from bisection.core.commands import all_errors
from bisection.core.identity import Geometry
from bisection.core.paths import text_of
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.launches import Blocked, Infrastructure, NotEnded, Timeout
from bisection.core.topology import expanded
from bisection.rfm import internals
from bisection.schedulers.scheduler import JobState, Scheduler

AT_ONCE = 4  # jobs: more would be in the way of other users
POLL = 0.5  # seconds between looks at a job, at first
RARELY = 5.0  # likewise, later: a controller has other work
LATE = 20  # seconds that a shared file system may need to show a file of another host
GRACE = 5  # seconds that a job may take to end once it is cancelled
LONGEST = 600  # seconds that a job asks for, where its queue gives as much
STOPPED = 124  # exit code of `timeout` where the limit ended the command


@dataclass(frozen=True)
class Step:
    """A command of a job."""

    name: str
    command: Sequence[str]  # its words, or one text for the job's own shell
    limit: float = 45  # seconds


@dataclass(frozen=True)
class StepEnd:
    """How a step ended."""

    code: int  # STOPPED: it ran to its limit
    seconds: float
    text: str  # standard output and standard error
    end: float = 0.0  # Unix time of the job's first host


@dataclass
class Finished:
    """The remains of a job that ended."""

    job: str = ""
    steps: dict[str, StepEnd] = field(default_factory=dict)  # those that ended, by name
    hosts: list[str] = field(default_factory=list)  # as far as the scheduler names them
    memory: float | None = None  # B per host, by the scheduler
    fault: Reason | None = None  # it did not run to its end


@dataclass(frozen=True)
class JobRequest:
    """A job that is wanted of a scheduler, and cancelled where it is not over in time."""

    name: str
    access: Sequence[str]  # the scheduler's options: --partition=duo, --account=a, --exclusive
    shape: Geometry  # that it is submitted with
    folder: Path  # for its script and output; all nodes must see it
    patience: float  # s from the submission to the end
    scheduler: Scheduler
    max_time: int | None = None  # s that the queue gives
    variables: Mapping[str, str] = field(default_factory=dict)  # of the environment of all steps
    stop: threading.Event = field(default_factory=threading.Event)  # once set, it is cancelled

    def file(self, suffix: str) -> Path:
        """Its script (sh), its output (out), or what its shell and the scheduler say (err)."""
        return self.folder / f"{self.name}.{suffix}"


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


def script(request: JobRequest, steps: Sequence[Step]) -> list[str]:
    """The lines of a job's script."""
    lines = [PRELUDE, *(f"unset {name}" for name in request.scheduler.withheld)]
    lines += [f"export {name}={shlex.quote(text)}" for name, text in request.variables.items()]
    for step in steps:
        if isinstance(step.command, str):  # it changes the shell, as `module load` does
            lines.append(f"begin {step.name}\n{step.command} 2>&1 </dev/null\nend $?")
        else:
            lines.append(shlex.join(["step", step.name, f"{step.limit:g}", *step.command]))
    return [*lines, "echo @done"]


STEP = re.compile(r"^@begin (\S+)\n(.*?)\n?\n@end (\d+) (\S+) (\S+)$", re.M | re.S)


def read_steps(text: str) -> dict[str, StepEnd]:
    """The steps that ended, from the output of a job."""
    return {
        name: StepEnd(int(code), float(last) - float(first), words, float(last))
        for name, words, code, first, last in STEP.findall(text)
    }


# ---- ReFrame's job ----

_client = threading.Lock()


@contextlib.contextmanager
def _in_folder(request: JobRequest) -> Iterator[None]:
    """ReFrame writes and submits in the current folder of this process: one thread at a time."""
    with _client, osext.change_dir(request.folder):
        yield


@functools.cache
def _start_reframe() -> None:
    """Reads ReFrame's own configuration, as there may be no site file yet."""
    internals.start_scripts_below_blanks()
    internals.submit_from_threads()
    own = config.load_config("<builtin>")
    own.add_sticky_option("systems/modules_system", "nomod")
    # As site files have it: as many nodes as are asked for, not as many tasks somewhere.
    own.add_sticky_option("systems*/sched_options/use_nodes_option", True)
    own.select_subconfig("generic")
    runtime.init_runtime(own)


def _job(request: JobRequest, seconds: float) -> Any:
    """ReFrame's job, which asks for some seconds."""
    _start_reframe()
    scheduler, name = getscheduler(request.scheduler.name)(), request.name
    files = {"script_filename": f"{name}.sh", "stdout": f"{name}.out", "stderr": f"{name}.err"}
    about = {**files, "workdir": str(request.folder), "sched_access": request.access}
    job = Job.create(scheduler, getlauncher("local")(), "bisection-site", **about)
    job.num_tasks, job.num_tasks_per_node = request.shape.ranks, request.shape.ranks_per_node
    job.num_cpus_per_task, job.use_smt = request.shape.threads, False
    job.time_limit = seconds
    request.scheduler.ask(job, request.shape, seconds, None)
    return job


def refusal(request: JobRequest, seconds: float) -> str | None:
    """The scheduler's words why it could never place a job of some seconds, which is not submitted;
    "" if it could, None if it cannot be asked."""
    with _in_folder(request):
        job = _job(request, seconds)
        job.prepare([])
        return request.scheduler.place(job)


def _refused(request: JobRequest, job: Any) -> str:
    """Submits a job; returns all that was printed if the scheduler refused it, else ""."""
    try:
        with _in_folder(request):
            job.submit()
        return ""
    except SpawnedProcessError as error:
        words = all_errors(error.command.split()[0], error.stderr or "")
        return words or str(error).partition(":\n")[0]
    except (ReframeError, OSError) as error:
        return str(error)


def _state(request: JobRequest, job: Any) -> JobState:
    try:
        return request.scheduler.look(job)
    except (ReframeError, OSError) as error:
        return JobState("", alive=True, error=str(error))


def _cancel(request: JobRequest, job: Any) -> None:
    """Cancels a job, and waits a moment for its end: of one on this host, ReFrame kills what does
    not end by itself."""
    with contextlib.suppress(ReframeError, OSError):
        job.cancel()
    _polled(partial(_state, request, job), _is_over, GRACE, threading.Event())


def _is_over(state: JobState) -> bool:
    return not state.alive


def run(request: JobRequest, steps: Sequence[Step]) -> Finished:
    """Submits one job, waits for its end and reads what its steps printed.

    A job that is not over in time, or that the caller interrupts, is cancelled. Each step runs
    whatever the one before it ended with. OSError if the job's folder cannot be written.
    """
    scheduler, patience = request.scheduler, request.patience
    for suffix in ("out", "err"):
        request.file(suffix).unlink(missing_ok=True)
    wanted = min(LONGEST, 60 + sum(step.limit for step in steps))
    minutes = max(1, math.ceil(min(wanted, request.max_time or wanted) / 60))
    try:
        with _in_folder(request):
            job = _job(request, 60.0 * minutes)
            job.prepare(script(request, steps))
    except ReframeError as error:  # it has no back-end here, as without Flux's Python bindings
        return Finished(fault=Blocked(refused=str(error)))
    # Where the user may not queue more jobs, it is submitted once another one is gone.
    polled = partial(_polled, stop=request.stop)
    submit, tried = partial(_refused, request, job), lambda words: not scheduler.is_full(words)
    if refused := polled(submit, tried, patience, pause=RARELY):
        return Finished(fault=Blocked(refused=refused))
    state = JobState("", alive=True)
    try:
        state = polled(partial(_state, request, job), _is_over, patience)
    finally:  # KeyboardInterrupt, too
        if state.alive:
            _cancel(request, job)
    late = 0 if state.alive else LATE
    text = polled(partial(text_of, request.file("out")), lambda text: "@done" in text, late)
    finished = Finished(job.jobid, read_steps(text), expanded(state.hosts))
    if state.memory and finished.hosts:
        finished.memory = state.memory / len(finished.hosts)
    if state.alive or "@done" not in text:
        finished.fault = _fault(request, job, state, text)
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


def _fault(request: JobRequest, job: Any, state: JobState, text: str) -> Reason:
    """Returns why a job did not run to its end in time."""
    number, nodes, patience = job.jobid, state.hosts, request.patience
    if state.error:
        return Infrastructure(why=state.error)
    if state.word == "TIMEOUT" or (state.alive and state.word == "RUNNING"):
        return Timeout(job=number, limit=min(job.time_limit, patience), nodes=nodes)
    if state.alive:
        return Blocked(job=number, waited=patience, reason=state.reason)
    cause: Reason | None = request.scheduler.cause(job)
    # A job that was stopped may have no output as it never ran; a node that could not open it has
    # no other trace.
    output, errors = request.file("out"), text_of(request.file("err"))
    if not output.exists() and (cause is None or isinstance(cause, Infrastructure)):
        ran = f", it ran on {nodes}" if nodes else ""
        mend = "Put BISECTION_HOME on a file system that the nodes mount."
        return Text(f"job {number} left no output in {output}{ran}", next=mend)
    if cause:
        return cause
    lines = [line.strip() for line in f"{text}\n{errors}".splitlines()]
    said = [line for line in lines if line and line[0] != "@"]
    return NotEnded(line=(said or [""])[-1])


def at_once(
    act: Callable[[Any], Any], items: Sequence[Any], stop: threading.Event, most: int = AT_ONCE
) -> Iterator[Any]:
    """Yields what `act` returns for each item, in their order; at most `most` run at a time.

    Where one fails, or the caller is interrupted or closes this, `stop` is set, which cancels the
    jobs of requests that have it.
    """
    with ThreadPoolExecutor(most) as pool:
        try:
            yield from pool.map(act, items)
        except BaseException:
            stop.set()
            raise
