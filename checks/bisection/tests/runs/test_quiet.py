"""Whether the machine is busy, and waiting until it is not."""

import os
import subprocess
import sys

import pytest

from bisection.core.reasons import Code
from bisection.runs import quiet

BUSY = Code.BUSY(used=1.5, cores=2, top=[])


@pytest.fixture
def proc(tmp_path, monkeypatch):
    """proc(busy, **processes): /proc with so many ticks of the first CPU that we may use."""
    cpu = min(os.sched_getaffinity(0))
    monkeypatch.setattr(quiet, "PROC", tmp_path)

    def write(busy, **processes):
        line = f"cpu{cpu} {busy} 0 0 1000 50 0 0 0 0 0\n"
        (tmp_path / "stat").write_text(f"cpu  9 9 9 9 9 9 9 9 9 9\n{line}cpu9999 {busy} 0 0 0 0\n")
        for number, (name, ticks) in enumerate(processes.items()):
            (tmp_path / str(number)).mkdir(exist_ok=True)
            fields = " ".join(["S", *"0" * 10, str(ticks), "0", *"0" * 30])
            (tmp_path / str(number) / "stat").write_text(f"{number} ({name} (x) y) {fields}\n")

    return write


@pytest.mark.parametrize(("more", "used"), [(1.0, 1), (0.02, None)])
def test_what_others_use(proc, monkeypatch, more, used):
    ticks = round(more * os.sysconf("SC_CLK_TCK"))
    proc(1000, cc1=100, idle=500)
    monkeypatch.setattr(quiet.time, "monotonic", iter([0.0, 1.0]).__next__)
    later = {"cc1": 100 + ticks, "idle": 500}
    monkeypatch.setattr(quiet.time, "sleep", lambda _: proc(1000 + ticks, **later))
    reason = quiet.busy()
    assert (reason and reason["used"]) == (used and pytest.approx(used))
    assert (reason and reason["top"]) == (used and [["cc1 (x) y", pytest.approx(used)]])


def test_a_loop_of_this_machine_is_seen():
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        used = [reason["used"] for _ in range(20) if (reason := quiet.busy(0.5))]
    finally:
        loop.kill()
        loop.wait()
    assert used


@pytest.mark.parametrize(
    ("looks", "budget", "still"),
    [
        ([BUSY], 0, BUSY),
        ([None], 100, None),
        ([BUSY, BUSY, None, None, None], 100, None),
        ([BUSY] * 99, 100, BUSY),
        ([BUSY, None, None, *[BUSY] * 99], 100, BUSY),
    ],
)
def test_waiting(monkeypatch, looks, budget, still):
    now, told, look = [0.0], [], iter(looks)

    def sleep(seconds):
        now[0] += seconds

    monkeypatch.setattr(quiet.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(quiet.time, "sleep", sleep)
    monkeypatch.setattr(quiet, "busy", lambda: next(look))
    assert quiet.wait(budget, lambda *words: told.append(words)) == still
    assert len(told) == bool(budget and looks[0])
    assert now[0] <= budget
