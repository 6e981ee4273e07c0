"""The queue of a batch system: whether a job has a place in it, and how long it may wait there."""

import math
import os
import re
import time
from argparse import ArgumentParser
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reframe.core.exceptions import ReframeError, SpawnedProcessError

from bisection.core.reasons import Code, Reason
from bisection.rfm.scheduler_faults import SLURM, ask, last_error

# ---- a place ----

# Slurm's words for what it cannot place, now or ever; sbatch takes it, and it waits.
NO_PLACE = "not available"
# Of a job's options those that do not say where it runs.
NAMES = re.compile(r"--(job-name|output|error)\b")
refusals: dict[tuple[str, ...], str] = {}  # a job's options -> Slurm's words, "" if it has a place


def require_place(job: Any) -> None:
    """Asks Slurm whether it can place a job, by `sbatch --test-only` of the job's own script; once
    for all jobs with the same options.

    Args:
        job: ReFrame's job; its script is in the current folder.

    Raises:
        ReframeError: Slurm cannot; the text is the Reason as JSON.
    """
    lines = Path(job.script_filename).read_text().splitlines()
    options = [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]
    access = job.sched_access if job.scheduler.get_option("sched_access_in_submit") else []
    place = (*access, *(option for option in options if not NAMES.match(option)))
    if place not in refusals:
        refusals[place] = _refusal(job, access)
    if refusals[place]:
        down = unavailable(place) or None
        raise ReframeError(Reason.of(Code.BLOCKED, refused=refusals[place], down=down).dumps())


def _refusal(job: Any, access: Sequence[str]) -> str:
    """Slurm's words if it cannot place a job, else ""; also where it does not answer."""
    try:
        job.scheduler.sbatch(["--test-only", *access, job.script_filename])
    except SpawnedProcessError as error:
        words = last_error("sbatch", error.stderr or "")
        return words if NO_PLACE in words else ""
    return ""


def unavailable(options: Sequence[str]) -> list[list[str]]:
    """The nodes of a job's partition that are down or drained, each with Slurm's reason.

    Args:
        options: the job's, for sbatch.
    """
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("-p", "--partition")
    words = [word for option in options for word in option.split()]
    partition = parser.parse_known_args(words)[0].partition
    where = ["-p", partition] if partition else []
    text, _ = ask("sinfo", "-h", "-N", *where, "-o", "%N|%T|%E")
    rows = [line.split("|", 2) for line in text.splitlines() if line.count("|") >= 2]
    bad = ("down", "drain", "fail", "error", "maint", "unknown")
    return [[name, why] for name, state, why in rows if state.startswith(bad)]
