"""The jobs of a run in Slurm's queue. All have one name, by which they are found and cancelled."""

import secrets
import time
from pathlib import Path

from bisection.core.commands import ask

PAUSES = (0.5, 1, 2, 4, 8)  # s, before each further look


def job_name(folder: Path) -> str:
    """A name for the jobs of a run, which no other run has.

    Args:
        folder: the results folder.
    """
    return f"bisection-{folder.name}-{secrets.token_hex(2)}"


def options(name: str) -> list[str]:
    """ReFrame's options that queue all launches at once, of which Slurm runs one at a time.

    Args:
        name: of the jobs.
    """
    return ["--exec-policy", "async", "-J", "dependency=singleton", "-J", f"job-name={name}"]


def cancel(name: str, once: bool = False) -> list[str] | None:
    """Cancels the jobs of a run, until none is left or some do not go.

    Args:
        name: of the jobs.
        once: whether not to wait until they are gone.

    Returns:
        The identifiers of jobs that are left; None if Slurm did not answer.
    """
    left: list[str] | None = None
    for pause in (0, *PAUSES):
        time.sleep(pause)
        answer = ask("squeue", "-h", "--all", "-n", name, "-o", "%i %T")
        rows = [line.split() for line in answer.text.splitlines()]
        left = [job for job, state in rows if state != "COMPLETING"] if answer else None
        if left:
            ask("scancel", *left)
        if once or (answer and not rows):
            break
    return left
