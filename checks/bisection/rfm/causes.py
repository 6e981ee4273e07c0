"""Finds the cause of a launch without an answer, from the words of schedulers, launchers, MPI
libraries and the kernels' watchdog.

An exit code alone does not distinguish an abort from a crash, nor the rank that died from those
that the launcher then ended. A job that Slurm ended leaves no other trace.
"""

import contextlib
import json
import os
import re
import signal
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from bisection.core import paths, slurm
from bisection.core.reasons import Code, Reason
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import KernelExit
from bisection.kernels import layouts, results

REFUSALS = (KernelExit.USAGE, KernelExit.RESOURCES)
NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.I)


@dataclass(frozen=True)
class Ended:
    """Output and exit of a launch."""

    kernel: str = ""
    folder: str = ""  # of its result.json, if it has written one
    exit_code: int | None = None  # of the launcher; None if the job did not come so far
    errors: str = ""  # the job's error output
    output: str = ""  # its standard output
    hosts: Sequence[str] = ()  # as far as they are known


def places_of(folder: str) -> list[layouts.Place]:
    """The nodes by the result in a launch's folder, also of one that did not end; empty if they
    are not known."""
    try:
        return layouts.places(json.loads(Path(folder, "result.json").read_text())["layout"])
    except (OSError, ValueError, LookupError, TypeError):
        return []


def of_launch(job: Any, ended: Ended) -> tuple[int | None, Reason | None]:
    """The kernel's exit code and the cause.

    Args:
        job: ReFrame's job, which it takes for finished.
        ended: output and exit of the launch.

    Returns:
        The exit code of the first rank that ended badly, as that of the launcher may be of a rank
        which it then ended; None if the job did not come so far. And the cause, None if the kernel
        ended with an answer.
    """
    death = first_death(ended, job.launcher.registered_name)
    if death and ended.exit_code:
        ended = replace(ended, exit_code=death.exit_code)
    errors, exit_code = ended.errors, ended.exit_code
    fault = of_hang(ended) or of_job(job, ended)
    if exit_code == KernelExit.VERIFIED or (fault and fault.code != Code.TIMEOUT):
        return exit_code, fault
    cause = of_worlds(errors) or of_unseen(errors)
    if not cause and exit_code not in REFUSALS:
        cause = of_abort(ended)
    crashed = death is not None and death.exit_code in CRASHES
    if cause or (fault and not crashed):
        return exit_code, cause or fault
    if exit_code == KernelExit.WRONG_ANSWER:
        return exit_code, None
    last = last_line(errors, ended.kernel, any_line=not death)
    if exit_code is None and not crashed:
        return None, Code.NOT_ENDED(last=last)
    ended_with = {"exit_code": death.exit_code if death else exit_code, "last": last}
    if death and exit_code not in REFUSALS:  # these are of all ranks
        ended_with |= {"rank": death.rank, "host": death.host}
    if crashed:
        with contextlib.suppress(results.ResultError):  # only MPI had not ended
            results.load(Path(ended.folder, "result.json"), ended.kernel)
            ended_with["complete"] = True
    return exit_code, Code.KERNEL_EXIT(kernel=ended.kernel, **ended_with)


def of_full_disk(folder: Path | str, output: Iterable[str]) -> Reason | None:
    """The reason if a build failed for want of space, else None. CMake then reports libraries that
    it does not find, and leaves room again.

    Args:
        folder: where it was built.
        output: lines that it printed.
    """
    free, needed = paths.free_space(folder), LIMITS.build_space * 1e6
    if free is not None and free < needed:
        above = Path(folder).resolve()
        place = next(str(path) for path in (above, *above.parents) if path.is_mount())
        return Code.NO_SPACE(place=place, free=free, needed=needed)
    error = paths.unwritable(folder) if free is not None else ""
    error = error or next(filter(NO_SPACE.search, output), "").strip()
    return Code.NO_SPACE(error=error) if error else None


# ---- Slurm ----

# Of a job whose folder or output files the node could not open: it ends without a word.
NOT_LAUNCHED = "0:53"
# States of a job by its error output, where the scheduler has forgotten it.
SLURM_WORDS = (
    (r"CANCELLED AT \S+ DUE TO TIME LIMIT", "TIMEOUT"),
    (r"CANCELLED AT \S+ DUE TO NODE FAILURE", "NODE_FAIL"),
    (r"CANCELLED AT \S+ DUE TO PREEMPTION", "PREEMPTED"),
    (r"slurmstepd\S*: error: Detected \d+ oom.kill event", "OUT_OF_MEMORY"),
    (r"slurmstepd\S*: error: \*\*\* JOB \S+ ON \S+ CANCELLED AT", "CANCELLED"),
)


def of_job(job: Any, ended: Ended) -> Reason | None:
    """The reason if the scheduler stopped a job that ReFrame takes for finished, else None."""
    came_to_its_end = ended.exit_code is not None and job.state not in slurm.STATES
    scheduler = job.scheduler.registered_name
    if scheduler not in slurm.SLURM or came_to_its_end:
        return None
    record, error = slurm.job_record(job.jobid)
    state = record.get("JobState") or job.state
    if state not in slurm.STATES:
        state = next((s for text, s in SLURM_WORDS if re.search(text, ended.errors)), state)
    if state in slurm.STATES:
        return _stopped(state, job, record)
    if record.get("ExitCode") == NOT_LAUNCHED:
        where = {"host": record.get("BatchHost"), "path": record.get("WorkDir")}
        return Code.INFRASTRUCTURE(why=Code.NOT_SHARED(**where))
    left = {"scheduler": scheduler, "jobs": [str(job.jobid)]}
    if slurm.UNREACHABLE.search(error):
        return Code.INFRASTRUCTURE(why=Code.TEXT(text=error), **left)
    if state in slurm.ALIVE:
        return Code.INFRASTRUCTURE(why=Code.JOB_UNLISTED(job=str(job.jobid), state=state), **left)
    return None


def _stopped(state: str, job: Any, record: dict[str, str]) -> Reason:
    """The reason of a job that Slurm stopped, in its end state."""
    code, nodes, why = slurm.STATES[state], record.get("NodeList", ""), record.get("Reason")
    unstarted = state == "DEADLINE" and not nodes
    if unstarted or (code == Code.CANCELLED and job.is_cancelling):  # at max_pending_time
        if unstarted:
            why = why or "DeadLine"
        waited = job.completion_time - job.submit_time if job.completion_time else None
        return Code.BLOCKED(job=str(job.jobid), waited=waited, reason=why)
    more = {"job": str(job.jobid), "nodes": nodes or None}
    if code == Code.TIMEOUT:
        more["limit"] = job.time_limit or None
    elif code == Code.NODE_FAIL and nodes:
        bad, rows = ("down", "fail", "error"), slurm.node_rows("%N|%T|%E", names=nodes)
        more["down"] = list({name: why for name, s, why in rows if s.startswith(bad)}.items())
    elif code == Code.CANCELLED:
        more["state"] = state
    return code(**more)


# ---- the kernels' watchdog ----

# src/common/watchdog.c: a line per host, below it a line for its ranks that are in one place, and
# below that a line for each routine in which the first of them is. A launcher mixes lines of hosts.
HANG = r"bisection-\S+: nothing finished for (\S+) s on host (\S+); its ranks:"
PLACE = r"  ranks? ([\d,-]+) on (\S+): (.+)"
ROUTINE = r"    (\w+) \(bisection-\S+\)"  # of the kernel, not of the libraries that it waits in
SILENT = "no answer"
ROUTINES = 8  # of a stack


def of_hang(ended: Ended) -> Reason | None:
    """The reason if the kernel's watchdog ended a launch that did not advance, else None.

    Not every launcher hands on the kernel's own code where it had to kill a rank. The result has
    the ranks of hosts that gave no report.
    """
    limit, ranks = None, ""
    places: dict[str, list[tuple[str, str]]] = {}  # where -> [(ranks, host)]
    stacks: dict[str, list[str]] = {}  # ranks -> routines
    for line in ended.errors.splitlines():
        if match := re.fullmatch(HANG, line):
            limit = limit or float(match[1])
        elif match := re.fullmatch(PLACE, line):
            ranks, host, where = match.groups()
            places.setdefault(where, []).append((ranks, host))
        elif (match := re.fullmatch(ROUTINE, line)) and ranks:
            stacks.setdefault(ranks, []).append(match[1])
    ended_well = ended.exit_code in (KernelExit.VERIFIED, KernelExit.WRONG_ANSWER)
    if ended_well or (limit is None and ended.exit_code != KernelExit.HANG):
        return None
    if limit is None:
        return Code.HANG()
    reported = {host for listed in places.values() for _, host in listed}
    unheard: dict[str, list[str]] = {}
    for place in places_of(ended.folder):
        if place.host not in reported:
            unheard.setdefault(place.host, []).append(place.text)
    silent = [pair for where in places if where.startswith(SILENT) for pair in places[where]]
    silent += [(",".join(numbers), name) for name, numbers in unheard.items()]
    waiting = [
        (",".join(ranks for ranks, _ in listed), [host for _, host in listed], where)
        for where, listed in places.items()
        if not where.startswith(SILENT)
    ]
    stack = next(((ranks, names[:ROUTINES]) for ranks, names in stacks.items()), None)
    return Code.HANG(limit=limit, silent=silent, waiting=waiting, stack=stack)


# ---- the program's own last line ----

# Remarks of launchers and MPI libraries.
REMARKS = re.compile(
    r"^-{60,}\n(?s:.*?)^-{60,}$|^.*ORTE_ERROR_LOG.*$"  # Open MPI
    r"|^\[\S+:\d+\] (?:\*\*\* |Signal|Failing|\[ ?\d+\]|\d+ more|Set MCA).*$"  # it too
    r"|^\[\S+:\d+ *:\d+:\d+\] Caught signal.*$|^ *\d+ +\S+\(.*\) \[0x.*$|^==.*$"  # UCX's
    r"|^(?:srun|salloc|slurmstepd\S*): .*$|^cpu-bind=.*$"
    r"|^\[(?:proxy:\S+|mpiexec@\S+)\] .*$",  # MPICH
    re.M,
)


def last_line(errors: str, kernel: str = "", *, any_line: bool = False) -> str | None:
    """The last line that a program printed on standard error; None if there is none.

    Args:
        errors: the error output.
        kernel: the kernel whose own last line goes before those of libraries.
        any_line: whether a launcher's line will do where the program printed none.
    """
    lines = [line.strip() for line in REMARKS.sub("", errors).splitlines() if line.strip(" -*")]
    named = [line for line in lines if kernel and line.startswith(f"bisection-{kernel}:")]
    every = [line.strip() for line in errors.splitlines() if any_line and line.strip(" -*=")]
    return next((group[-1] for group in (named, lines, every) if group), None)


# ---- MPI_Abort, and the first rank that died ----

# Open MPI, and MPICH with those derived from it; both print it on standard error.
ABORTS = (
    r"^MPI_ABORT was invoked on rank (?P<rank>\d+) in communicator .*\n?"
    r"(?:\s*Proc: .*\n\s*Errorcode: |with errorcode )(?P<code>-?\d+)",
    r"^.*application called MPI_Abort\(.*?, (?P<code>-?\d+)\) - process (?P<rank>\d+)",
)
# Open MPI's mpirun; hydra, the mpirun of MPICH and of Intel MPI, on standard output.
MPIRUN = re.compile(
    r"^\S+ noticed that process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on\s"
    r"signal (?P<signal>\d+)",  # from version 5 in two lines
    re.M,
)
HYDRA = re.compile(
    r"BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n"
    r"=\s+(?:RANK (?P<rank>\d+) )?PID \d+ RUNNING AT (?P<host>\S+)\n"
    r"=\s+(?:KILLED BY SIGNAL: (?P<signal>\d+)|EXIT (?:CODE|STATUS): (?P<code>\d+))"
)
SRUN = re.compile(
    r"^srun: error: (?P<host>\S+): tasks? (?P<ranks>[\d,-]+): "
    r"(?:Exited with exit code (?P<code>\d+)|(?P<signal>.*?)(?: \(core dumped\))?)$",
    re.M,
)
SIGNALS = {signal.strsignal(number): int(number) for number in signal.Signals}
CORE_DUMPED = 0x80  # in a wait status
# Exit codes of a program that crashed; others are of one that somebody ended.
CRASHES = frozenset(128 + getattr(signal, f"SIG{n}") for n in ("ABRT", "BUS", "FPE", "ILL", "SEGV"))


@dataclass(frozen=True)
class Death:
    """The end of a rank, other than with exit code 0."""

    exit_code: int  # as a shell has it: 128 and the number of a signal
    rank: int | None
    host: str


def of_abort(ended: Ended) -> Reason | None:
    """The reason if a rank called MPI_Abort, as MPI reported it on standard error, else None."""
    errors = ended.errors
    abort = next((match for text in ABORTS if (match := re.search(text, errors, re.M))), None)
    if abort is None:
        return None
    rank, code = int(abort["rank"]), int(abort["code"])
    hosts = [*filter(None, [layouts.host_of(places_of(ended.folder), rank)])]
    hosts += [death.host for death in _deaths_of_srun(errors) if death.rank == rank]
    hosts += ended.hosts if len(ended.hosts) == 1 else []
    last = last_line(errors[: abort.start()])
    return Code.MPI_ABORT(rank=rank, host=next(iter(hosts), None), exit_code=code, last=last)


def first_death(ended: Ended, launcher: str) -> Death | None:
    """The first rank that died, of which a launcher then ended the others; None if none is named.
    `launcher` is ReFrame's name of it.

    An mpirun may start its daemons by srun, whose lines are then about those.
    """
    text = ended.errors + ended.output
    if match := MPIRUN.search(text):
        return Death(128 + int(match["signal"]), int(match["rank"]), match["host"])
    if match := HYDRA.search(text):
        here = (place for place in places_of(ended.folder) if place.host == match["host"])
        ranks = [rank for place in here for rank in place.ranks]
        rank = ranks[0] if len(ranks) == 1 else None
        rank = int(match["rank"]) if match["rank"] else rank
        return Death(_exit_code_of_hydra(match, text), rank, match["host"])
    deaths = _deaths_of_srun(text) if launcher.startswith("srun") else []
    return next((death for death in deaths if death.exit_code != 128 + signal.SIGTERM), None)


def _exit_code_of_hydra(match: re.Match[str], text: str) -> int:
    """MPICH prints a wait status for an exit code where a signal ended the rank."""
    if match["signal"]:
        return 128 + int(match["signal"])
    status = int(match["code"])
    number = status & ~CORE_DUMPED
    named = re.search(rf"\(signal {number}\)|Caught signal {number}\b", text)
    killed = named or status > max(KernelExit)
    return 128 + number if killed and number in set(signal.Signals) else status


def _deaths_of_srun(text: str) -> Iterator[Death]:
    """In the order in which srun heard of them."""
    for match in SRUN.finditer(text):
        code = int(match["code"]) if match["code"] else 128 + SIGNALS.get(match["signal"], 0)
        if code > 128 or match["code"]:
            rank = int(match["ranks"]) if match["ranks"].isdigit() else None
            yield Death(code, rank, match["host"])


# ---- ranks that did not start ----

# A host and the path that it lacks: srun, Open MPI's mpirun, hydra.
UNSEEN = (
    r"^slurmstepd-(?P<host>\S+): error: couldn't chdir to `(?P<path>.*?)': No such file",
    r"^slurmstepd-(?P<host>\S+): error: execve\(\): (?P<path>.*?): No such file",
    r"^Executable: (?P<path>.*)\nNode: (?P<host>\S+)$",
    r"^\[proxy:[\d:]+@(?P<host>\S+)\] .*execvp error on file (?P<path>\S+) \(No such file",
)
# The kernels, where `--expect-ranks` is not the size of MPI_COMM_WORLD: a line for each world.
WORLD = r"^bisection-\S+: --expect-ranks (\d+): this MPI world has (\d+)\b"
# Open MPI, started by a launcher that it was not built for.
NO_WORLD = r"^\*\*\* An error occurred in MPI_Init"


def of_unseen(errors: str) -> Reason | None:
    """The reason if a node lacks a file or folder that is here, else None."""
    matches = (re.search(pattern, errors, re.M) for pattern in UNSEEN)
    for match in filter(None, matches):
        if os.path.exists(match["path"]):
            return Code.INFRASTRUCTURE(why=Code.NOT_SHARED(host=match["host"], path=match["path"]))
    return None


def of_worlds(errors: str) -> Reason | None:
    """The reason if the launcher and the MPI library did not make one world of all ranks, else
    None."""
    if worlds := re.findall(WORLD, errors, re.M):
        asked, ranks = map(int, worlds[0])
        seat = Code.WORLDS(worlds=len(worlds), size=ranks, asked=asked)
        if len(worlds) == 1:
            seat = Code.RANKS_RAN(ranks=ranks, asked=asked)
        return Code.MISPLACED(seats=[seat])
    if not re.search(NO_WORLD, errors, re.M):
        return None
    page = re.search(r"^-{60,}\n(.*?)(?:\n\n|\.\s|\n-{60,}$)", errors, re.M | re.S)
    return Code.NO_WORLD(last=" ".join(page[1].split()) if page else None)
