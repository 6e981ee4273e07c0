"""Finds the cause that ended the ranks of a launch, from the words of MPI libraries and of
launchers.

An exit code alone does not tell an abort from a crash, nor the rank that died from those that the
launcher then ended.
"""

import json
import os
import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bisection.core.reasons import Code, Reason
from bisection.core.verdicts import KernelExit

# ---- where ranks ran ----


def seats(folder: str) -> list[dict[str, Any]]:
    """Returns where each rank of a launch ran, also of one that did not end.

    Args:
        folder: where the launch's result.json is, if it has written one.

    Returns:
        The "per_rank" of the result's layout; empty if it is not known.
    """
    try:
        per_rank = json.loads(Path(folder, "result.json").read_text())["layout"]["per_rank"]
        return [seat for seat in per_rank if seat["host"] and seat["rank"] >= 0]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def _host(folder: str, rank: int) -> str | None:
    return next((seat["host"] for seat in seats(folder) if seat["rank"] == rank), None)


def _rank(folder: str, host: str) -> int | None:
    """The rank on a host, if it has only one."""
    ranks = [seat["rank"] for seat in seats(folder) if seat["host"] == host]
    return ranks[0] if len(ranks) == 1 else None


# ---- what the program itself said last ----

# What launchers and MPI libraries print of themselves.
REMARKS = re.compile(
    r"^-{60,}\n(?s:.*?)^-{60,}$|^.*ORTE_ERROR_LOG.*$"  # Open MPI
    r"|^\[\S+:\d+\] (?:\*\*\* |Signal|Failing|\[ ?\d+\]|\d+ more|Set MCA).*$"  # it too
    r"|^\[\S+:\d+ *:\d+:\d+\] Caught signal.*$|^ *\d+ +\S+\(.*\) \[0x.*$|^==.*$"  # UCX's
    r"|^(?:srun|salloc|slurmstepd\S*): .*$|^cpu-bind=.*$"
    r"|^\[(?:proxy:\S+|mpiexec@\S+)\] .*$",  # MPICH
    re.M,
)


def last_line(errors: str, kernel: str = "", *, any_line: bool = False) -> str | None:
    """Returns what a program printed last on standard error.

    Args:
        errors: the error output.
        kernel: the kernel whose own last line goes before those of libraries.
        any_line: whether a launcher's line will do where the program printed none.

    Returns:
        The line; None if there is none.
    """
    own = [line.strip() for line in REMARKS.sub("", errors).splitlines() if line.strip(" -*")]
    named = [line for line in own if kernel and line.startswith(f"bisection-{kernel}:")]
    every = [line.strip() for line in errors.splitlines() if any_line and line.strip(" -*=")]
    return next((lines[-1] for lines in (named, own, every) if lines), None)


# ---- MPI_Abort ----

# Open MPI, and MPICH with those derived from it; both print it on standard error.
ABORTS = (
    r"^MPI_ABORT was invoked on rank (?P<rank>\d+) in communicator .*\n?"
    r"(?:\s*Proc: .*\n\s*Errorcode: |with errorcode )(?P<code>-?\d+)",
    r"^.*application called MPI_Abort\(.*?, (?P<code>-?\d+)\) - process (?P<rank>\d+)",
)


def of_abort(errors: str, folder: str, hosts: Sequence[str] | None = ()) -> Reason | None:
    """The reason if a rank called MPI_Abort, as MPI reported it on standard error, else None.

    Args:
        errors: the job's error output.
        folder: where the launch's result.json is, if it has written one.
        hosts: the hosts of the job, as far as they are known.
    """
    abort = next((match for text in ABORTS if (match := re.search(text, errors, re.M))), None)
    if abort is None:
        return None
    rank, code = int(abort["rank"]), int(abort["code"])
    host = _host(folder, rank) or _host_of_task(errors, rank)
    host = host or (hosts[0] if len(hosts or ()) == 1 else None)
    last = last_line(errors[: abort.start()])
    return Code.MPI_ABORT(rank=rank, host=host, exit_code=code, last=last)


def _host_of_task(errors: str, rank: int) -> str | None:
    return next((d.host for d in _deaths_of_srun(errors) if d.rank == rank), None)


# ---- the first rank that died ----

# Open MPI's mpirun; hydra, the mpirun of MPICH and of Intel MPI, on standard output.
MPIRUN = re.compile(
    r"^\S+ noticed that process rank (?P<rank>\d+) with PID \d+ on node (?P<host>\S+) exited on "
    r"signal (?P<signal>\d+)",
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
    """How a rank ended, other than with exit code 0."""

    exit_code: int  # as a shell has it: 128 and the number of a signal
    rank: int | None
    host: str


def first_death(said: str, folder: str, launcher: str) -> Death | None:
    """The first rank that died, of which a launcher then ended the others; None if none is named.

    Args:
        said: the job's standard output and error output.
        folder: where the launch's result.json is, if it has written one.
        launcher: ReFrame's name of the launcher. An mpirun may start its daemons by srun, whose
            lines are then about those.
    """
    if match := MPIRUN.search(said):
        return Death(128 + int(match["signal"]), int(match["rank"]), match["host"])
    if match := HYDRA.search(said):
        rank = int(match["rank"]) if match["rank"] else _rank(folder, match["host"])
        return Death(_exit_code_of_hydra(match, said), rank, match["host"])
    deaths = _deaths_of_srun(said) if launcher.startswith("srun") else []
    return next((death for death in deaths if death.exit_code != 128 + signal.SIGTERM), None)


def _exit_code_of_hydra(match: re.Match[str], said: str) -> int:
    """MPICH prints a wait status for an exit code where a signal ended the rank."""
    if match["signal"]:
        return 128 + int(match["signal"])
    status = int(match["code"])
    number = status & ~CORE_DUMPED
    named = re.search(rf"\(signal {number}\)|Caught signal {number}\b", said)
    killed = named or status > max(KernelExit)
    return 128 + number if killed and number in set(signal.Signals) else status


def _deaths_of_srun(said: str) -> list[Death]:
    """In the order in which srun heard of them."""
    deaths = []
    for match in SRUN.finditer(said):
        first, more = re.fullmatch(r"(\d+)(.*)", match["ranks"]).groups()
        code = int(match["code"]) if match["code"] else 128 + SIGNALS.get(match["signal"], 0)
        if code > 128 or match["code"]:
            deaths.append(Death(code, None if more else int(first), match["host"]))
    return deaths


# ---- ranks that did not start ----

# A host and what it lacks: srun, Open MPI's mpirun, hydra.
UNSEEN = (
    r"^slurmstepd-(?P<host>\S+): error: couldn't chdir to `(?P<path>.*?)': No such file",
    r"^slurmstepd-(?P<host>\S+): error: execve\(\): (?P<path>.*?): No such file",
    r"^Executable: (?P<path>.*)\nNode: (?P<host>\S+)$",
    r"^\[proxy:[\d:]+@(?P<host>\S+)\] .*execvp error on file (?P<path>\S+) \(No such file",
)


def of_unseen(errors: str) -> Reason | None:
    """The reason if a node lacks a file or folder that is here, else None.

    Args:
        errors: the job's error output.
    """
    for pattern in UNSEEN:
        match = re.search(pattern, errors, re.M)
        if match and os.path.exists(match["path"]):
            return Code.INFRASTRUCTURE(host=match["host"], unseen=match["path"])
    return None


# The kernels, where `--expect-ranks` is not what MPI_COMM_WORLD has: a line for each world.
WORLD = r"^bisection-\S+: --expect-ranks (\d+): this MPI world has (\d+)\b"
# Open MPI, started by a launcher that it was not built for.
NO_WORLD = r"^\*\*\* An error occurred in MPI_Init"


def of_worlds(errors: str) -> Reason | None:
    """The reason if the launcher and the MPI library did not make one world of all ranks, else
    None.

    Args:
        errors: the job's error output.
    """
    if worlds := re.findall(WORLD, errors, re.M):
        asked, ranks = map(int, worlds[0])
        if len(worlds) == 1:
            seat = Code.RANKS_RAN(ranks=ranks, asked=asked)
        else:
            seat = Code.WORLDS(worlds=len(worlds), size=ranks, asked=asked)
        return Code.MISPLACED(seats=[seat])
    if not re.search(NO_WORLD, errors, re.M):
        return None
    page = re.search(r"^-{60,}\n(.*?)(?:\n\n|\.\s|\n-{60,}$)", errors, re.M | re.S)
    return Code.NO_WORLD(last=" ".join(page[1].split()) if page else None)
