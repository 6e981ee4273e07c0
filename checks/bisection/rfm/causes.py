"""Finds the cause of a launch without an answer: the first that its job's output shows."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.core.reasons import Code, Reason
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import KernelExit
from bisection.kernels import results
from bisection.rfm import rank_faults, scheduler_faults

REFUSALS = (KernelExit.USAGE, KernelExit.RESOURCES)
NO_SPACE = re.compile(r"no space left on device|disk quota exceeded", re.I)


@dataclass(frozen=True)
class Ended:
    """Output and exit of a launch."""

    kernel: str
    folder: str  # where its result.json is, if it has written one
    scheduler: str  # ReFrame's names
    launcher: str
    exit_code: int | None  # of the launcher; None if the job did not come so far
    errors: str  # the job's error output
    output: str  # its standard output
    hosts: Sequence[str] = ()  # as far as they are known


def of_launch(job: Any, ended: Ended) -> tuple[int | None, Reason | None]:
    """The kernel's own exit code and the cause.

    Args:
        job: ReFrame's job, which it takes for finished.
        ended: what the launch left behind.

    Returns:
        The exit code of the first rank that ended badly, as that of the launcher may be of a rank
        which it then ended; None if the job did not come so far. And the cause, None if the kernel
        ended with an answer.
    """
    errors, exit_code = ended.errors, ended.exit_code
    death = rank_faults.first_death(errors + ended.output, ended.folder, ended.launcher)
    if death and exit_code:
        exit_code = death.exit_code
    came_to_its_end = exit_code is not None
    fault = scheduler_faults.of_hang(errors, exit_code, ended.folder)
    fault = fault or scheduler_faults.of_job(job, ended.scheduler, errors, came_to_its_end)
    if exit_code == KernelExit.VERIFIED or (fault and fault.code != Code.TIMEOUT):
        return exit_code, fault
    cause = rank_faults.of_worlds(errors) or rank_faults.of_unseen(errors)
    if not cause and exit_code not in REFUSALS:
        cause = rank_faults.of_abort(errors, ended.folder, ended.hosts)
    crashed = death is not None and death.exit_code in rank_faults.CRASHES
    if cause or (fault and not crashed):
        return exit_code, cause or fault
    if exit_code == KernelExit.WRONG_ANSWER:
        return exit_code, None
    last = rank_faults.last_line(errors, ended.kernel, any_line=not death)
    if not came_to_its_end and not crashed:
        return None, Code.NOT_ENDED(last=last)
    ended_with = {"exit_code": death.exit_code if death else exit_code, "last": last}
    if death and exit_code not in REFUSALS:  # these are of all ranks
        ended_with |= {"rank": death.rank, "host": death.host}
    if crashed and _has_complete_result(ended):
        ended_with["complete"] = True
    return exit_code, Code.KERNEL_EXIT(kernel=ended.kernel, **ended_with)


def _has_complete_result(ended: Ended) -> bool:
    """True if the kernel had written its result, and had nothing left to do but end MPI."""
    try:
        results.load(Path(ended.folder, "result.json"), ended.kernel)
    except results.ResultError:
        return False
    return True


def of_full_disk(folder: Path | str, output: Iterable[str]) -> Reason | None:
    """The reason if a build failed for want of space, else None. CMake then reports libraries that
    it does not find, and leaves room again.

    Args:
        folder: where it was built.
        output: lines that it printed.
    """
    free, needed = paths.free_space(folder), LIMITS.build_space * 1e6
    if free is not None and free < needed:
        place = str(paths.file_system(folder))
        return Code.NO_SPACE(place=place, free=free, needed=needed)
    error = paths.unwritable(folder) if free is not None else ""
    error = error or next(filter(NO_SPACE.search, output), "").strip()
    return Code.NO_SPACE(error=error) if error else None
