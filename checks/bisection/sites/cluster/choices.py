"""The choices that a site file holds, read in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reframe.utility import import_module_from_file

from bisection.core import paths
from bisection.core.verdicts import BisectionError
from bisection.sites.site import PATIENCE, python_path, timed_out


@dataclass(frozen=True)
class Choices:
    """A person's choices for a cluster."""

    scheduler: str  # ReFrame's name
    partitions: Sequence[dict[str, Any]]  # as common.partition makes them
    account: str = ""
    qos: str = ""


def read(file: Path) -> Choices:
    """The choices of a site file, whether or not its facts can be read.

    Raises:
        LoadTimeoutError: the file does not load within PATIENCE.
        BisectionError: it does not load, or is not made by common.slurm or common.cluster.
    """
    program = "from bisection.sites.cluster.choices import main; main()"
    try:
        done = subprocess.run(
            [sys.executable, "-c", program, str(file)],
            cwd=paths.ROOT,
            env={**os.environ, "PYTHONPATH": python_path()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
    except subprocess.TimeoutExpired:
        raise timed_out(file) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
        raise BisectionError(f"{paths.shown(file)} does not load: {last}")
    given = json.loads(done.stdout.splitlines()[-1])
    if given is None:
        raise BisectionError(
            f"{paths.shown(file)} has no facts: it is not made by common.slurm or common.cluster"
        )
    words = {word: given[word] for word in ("account", "qos") if word in given}
    return Choices(given["scheduler"], given["partitions"], **words)


def main() -> None:
    """Prints the choices of the site file that is the argument, as one line of JSON."""
    file, given = Path(sys.argv[1]), None

    def system(_: str, **choices: Any) -> dict[str, Any]:
        nonlocal given
        given = choices
        return {"name": file.stem, "partitions": []}

    common = import_module_from_file(str(file.with_name("common.py")))
    common.make_system = system
    import_module_from_file(str(file))
    sys.stdout.write("\n" + json.dumps(given, default=str) + "\n")
