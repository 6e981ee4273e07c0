"""The nodes that launches ask Slurm for, chosen before the run (bisection.analysis.rotation)."""

import functools
import json
import os
from collections import Counter
from pathlib import Path

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


def remove_nodelist(script: Path) -> bool:
    """Removes the nodes that were chosen before the run from a job script; whether it had any."""
    lines = script.read_text().splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith("#SBATCH --nodelist=")]
    if not os.environ.get(NODES) or kept == lines:
        return False
    script.write_text("".join(kept))
    return True
