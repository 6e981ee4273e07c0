"""One measurement at a time: of two runs, of a run whose process died, where there are no locks."""

import errno
import os
import signal
import subprocess
import sys

import pytest
from running import CHECKS, start

from bisection.core import lock
from bisection.core.verdicts import NotMeasured

HOLD = "from bisection.core.lock import measure_alone as m; m(); print(1, flush=True); input()"


@pytest.fixture
def home(home, monkeypatch):
    """A home of which this process holds no lock."""
    monkeypatch.setattr(lock, "_held", {})
    return home


@pytest.fixture
def other(home):
    """Another process, which measures below the home."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, "run", "--tier", "quick"],
        env={**os.environ, "PYTHONPATH": str(CHECKS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    process.stdout.readline()
    yield process
    process.kill()
    process.wait()


def test_a_second_run_is_refused(other, home):
    code, text = start([sys.executable, "-m", "bisection", "run"], home)
    assert code == 3
    line = text.removeprefix(f"bisection run: error: {home} is in use, and two would disturb ")
    assert line.startswith(f"each other: pid {other.pid} on "), text
    assert line.endswith(": bisection run --tier quick\n")
    assert not (home / "results").exists()
    code, text = start([sys.executable, "-m", "bisection", "import"], home)
    assert "is in use" not in text


def test_a_dead_process_holds_nothing(other, home):
    with pytest.raises(NotMeasured):
        lock.measure_alone()
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    lock.measure_alone()
    lock.measure_alone()  # again by the same process
    assert (home / "run.lock").read_text().startswith(f"pid {os.getpid()} on ")


def test_without_locks_a_run_goes_on(home, monkeypatch, capsys):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(lock.fcntl, "flock", refuse)
    lock.measure_alone()
    assert "a second run would not be noticed" in capsys.readouterr().out


def test_a_home_that_cannot_be_written(home, monkeypatch):
    (home / "file").write_text("")
    monkeypatch.setenv("BISECTION_HOME", str(home / "file"))
    with pytest.raises(lock.BisectionError, match=r"cannot write .*BISECTION_HOME names another"):
        lock.measure_alone()
