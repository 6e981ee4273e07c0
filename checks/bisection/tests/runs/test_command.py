"""ReFrame's output as progress."""

import io
import json

import pytest

from bisection.runs import command
from bisection.runs.command import Progress


@pytest.fixture
def clock(monkeypatch):
    """The monotonic clock, a list with its time."""
    now = [0.0]
    monkeypatch.setattr(command.time, "monotonic", lambda: now[0])
    return now


def test_progress():
    progress = Progress(io.StringIO())
    progress.read(
        "[ RUN      ] TransposeLaunch %layout=mpi %case=cnt40 ~generic:default+system /0a"
    )
    assert progress.now == "transpose mpi cnt40"
    progress.read("[       OK ] ( 2/43) TransposeLaunch %layout=mpi")
    progress.read("[     FAIL ] ( 3/43) transpose")
    assert (progress.done, progress.total, progress.failed) == (3, "43", 1)


def test_a_file_gets_a_line_a_minute_and_only_news(clock):
    progress = Progress(io.StringIO())
    for second in range(600):
        clock[0] = float(second)
        if second == 90:
            progress.read("[ RUN      ] NparLaunch %layout=mpi %case=mini1 ~x:y+z /0a")
        progress.show()
    assert progress.stream.getvalue().splitlines() == ["  90 s  npar mpi mini1"]


@pytest.mark.parametrize(
    ("disturbed", "lines"), [([1, 1, 1, 1], 1), ([1, 1], 0), ([0, 1, 1, 1], 0)]
)
def test_preempted_launches_are_told_once(tmp_path, disturbed, lines):
    told = []
    progress = Progress(io.StringIO(), tmp_path, told.append)
    for number, flag in enumerate(disturbed):
        folder = tmp_path / "system" / "partition" / "environ" / f"Launch_{number}"
        folder.mkdir(parents=True)
        result = {"results": [{"samples": {"preempted": [flag] * 4}}]}
        (folder / "result.json").write_text(json.dumps(result))
        progress.read(f"[       OK ] ( {number + 1}/9) NparLaunch %layout=mpi")
    assert [reason["launches"] for reason in told] == [3] * lines
