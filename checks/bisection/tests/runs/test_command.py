"""ReFrame's process: its output as progress, its end."""

import os
import subprocess
import sys

from running import CHECKS

from bisection.runs.command import Progress


def test_progress(capsys):
    import sys

    progress = Progress(sys.stdout)
    progress.read(
        "[ RUN      ] TransposeLaunch %layout=mpi %case=cnt40 ~generic:default+system /0a"
    )
    assert progress.now == "transpose mpi cnt40"
    progress.read("[       OK ] ( 2/43) TransposeLaunch %layout=mpi")
    progress.read("[     FAIL ] ( 3/43) transpose")
    assert (progress.done, progress.total, progress.failed) == (3, "43", 1)


CHILD = 'trap "echo ended >pipe; exit" TERM; echo ready >pipe; sleep 20 & wait; echo late >pipe'
WATCH = """
import sys
from pathlib import Path
from bisection.core import paths
from bisection.runs.command import watch
paths.ROOT = Path.cwd()
watch(["sh", "-c", sys.argv[1]], "/dev/null")
"""


def test_it_ends_with_a_killed_run(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    watching = subprocess.Popen(
        [sys.executable, "-c", WATCH, CHILD],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(CHECKS)},
    )
    assert (tmp_path / "pipe").read_text() == "ready\n"
    watching.kill()
    watching.wait()
    assert (tmp_path / "pipe").read_text() == "ended\n"
