"""The nodes that launches ask Slurm for, chosen before the run (bisection.analysis.rotation)."""

import functools
import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bisection.core.commands import ask

# A file's path; its JSON: a partition's full name -> lists of nodes, used in turn. They may be too
# many for the environment.
NODES = "BISECTION_NODES"
_turns: Counter[tuple[str, str]] = Counter()


def nodelist(partition: str, launch: str) -> list[str]:
    """Slurm's option that asks for the nodes of a launch; a repeated launch has the next ones.

    Args:
        partition: its full name.
        launch: the test's unique name.

    Returns:
        One option; none where Slurm is to choose.
    """
    file = os.environ.get(NODES)
    sets = _chosen(file).get(partition) if file else None
    if not sets:
        return []
    turn = _turns[partition, launch]
    _turns[partition, launch] += 1
    return [f"--nodelist={','.join(sets[turn % len(sets)])}"]


@functools.cache
def _chosen(file: str) -> dict[str, list[list[str]]]:
    return json.loads(Path(file).read_text())


def free(job: str) -> bool:
    """Has a job in the queue, by its number, ask for no nodes by name; whether Slurm took it."""
    return bool(ask("scontrol", "update", f"JobId={job}", "ReqNodeList="))


def free_blocked(jobs: Sequence[Any], reasons: Mapping[str, Sequence[str]] | None) -> list[Any]:
    """Has jobs no longer ask for the nodes that were chosen before the run, if these are not there
    any more.

    Args:
        jobs: ReFrame's.
        reasons: Slurm's reasons by job number; None if they are not known.

    Returns:
        Those jobs, which are to run on other nodes.
    """
    freed = []
    asking = [job for job in jobs if _nodelists(job)] if os.environ.get(NODES) else []
    if asking and reasons is None:
        numbers = ",".join(job.jobid for job in asking)
        lines = ask("squeue", "-h", "-j", numbers, "-o", "%i|%r").text.splitlines()
        reasons = {number: [why] for number, _, why in (line.partition("|") for line in lines)}
    for job in asking:
        if any(why.startswith("ReqNodeNotAvail") for why in reasons.get(job.jobid, ())):
            free(job.jobid)
            job.options = [option for option in job.options if option not in _nodelists(job)]
            freed.append(job)
    return freed


def _nodelists(job: Any) -> list[str]:
    return [option for option in job.options if option.startswith("--nodelist=")]


def remove_nodelist(script: Path) -> bool:
    """Removes the nodes that were chosen before the run from a job script; whether it had any."""
    lines = script.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith("#SBATCH --nodelist=")]
    if not os.environ.get(NODES) or kept == lines:
        return False
    script.write_text("".join(kept))
    return True
