"""`workshop gpu`: what it launches and prints, by launches that are made up."""

import argparse
import itertools
from types import SimpleNamespace

import pytest

from bisection.core.verdicts import Exit
from bisection.kernels import local
from workshop.commands import gpu

DEVICE = {"name": "Made-up GPU", "library": "libcudart.so.12", "runtime": 12040, "driver": 12060}
DEVICE["aware"] = "MPIX_Query_cuda_support() is 1"
OTHERS = ["0000:41:00.0/ab", "0000:61:00.0/cd"]
RATES = [{"method": "to-host", "rate": 2e10, "numa": 1}]
RATES += [{"method": "peer", "rate": 3e11, "peer": OTHERS[0], "direct": False}]
REFUSED = [{"peer": OTHERS[1], "reason": "error 46, exclusive"}]
COPIES = [{"rank": 0, "id": "0000:01:00.0/cd", "rates": RATES, "refused": REFUSED}]
SECONDS = {"host": 1e-6, "staged": 4e-6, "device": 2e-6}
TOLD = ("VISIBLE", "--devices", "--ranks-per-device", "--bytes 1000000000000")
LINE = "mpirun exited with 2: \nsomething\nbisection-patterns: --buffers device: made up\nPrimary"


@pytest.fixture
def run(monkeypatch, tmp_path):
    """run(wrong, lets, line): exit code, and the command lines of launches.

    `wrong` is in those that fail, `line` is their error; `lets` is in those that run though they
    must be refused.
    """

    def act(wrong="", lets="", line="exited with 1"):
        commands = []

        def launch(executable, ranks, arguments, output):
            command = " ".join([str(executable), *arguments])
            commands.append((ranks, command))
            if wrong and wrong in command:
                raise local.BenchError(line)
            if not (lets and lets in command) and any(words in command for words in TOLD):
                raise local.BenchError(LINE)
            buffers = next((name for name in SECONDS if f"--buffers {name}" in command), "host")
            here = {"method": "p2p", "applicable": True}
            here |= {"metrics": {"time": {"value": SECONDS[buffers]}}}
            if "transpose" not in command:
                here |= {"method": "pingpong", "point": {"bytes": 8}}
            away = {"method": "put", "applicable": False, "why": f"{buffers}: made up"}
            details = {"copies": COPIES}
            return {"layout": {"devices": [DEVICE]}, "details": details, "results": [here, away]}

        monkeypatch.setattr(local, "make", lambda *_: None)
        monkeypatch.setattr(local, "launch", launch)
        monkeypatch.setenv("PATH", str(tmp_path))
        options = argparse.Namespace(folder=tmp_path / "out", ranks=2, largest=64)
        return gpu.act(options), commands

    return act


@pytest.fixture
def sanitizer(tmp_path):
    tool = tmp_path / "compute-sanitizer"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    return str(tool)


def cells(text, begins):
    """The cells of the lines that begin so."""
    lines = [line.strip() for line in text.splitlines()]
    return [line.removeprefix(begins).split() for line in lines if line.startswith(begins)]


def test_what_is_measured_stands_side_by_side(run, capsys):
    code, commands = run()
    text = capsys.readouterr().out
    assert code == Exit.OK, text
    (to_host,) = cells(text, "0  0000:01:00.0  to-host")
    assert to_host == ["1", "20", "GB/s"]
    through, exclusive = cells(text, "0  0000:01:00.0  peer")
    assert through == ["0000:41:00.0", "300", "GB/s", "through", "the", "host"]
    assert exclusive == ["0000:61:00.0", "refused:", "error", "46,", "exclusive"]
    assert "pingpong  8B    1 us    4 us    2 us                2.00" in text
    assert "p2p       FFT   1 us    4 us    2 us                2.00" in text
    assert "patterns-staged: put is not applicable: staged: made up" in text
    assert "compute-sanitizer is not on PATH: not run" in text
    assert len(commands) == 7 + 5
    assert all("--limit 60 --progress-timeout 60" in command for _, command in commands)


def test_each_refusal_has_its_line(run, capsys):
    _, commands = run()
    text = capsys.readouterr().out
    assert text.count("--buffers device: made up") == 5
    assert "MPI does not take addresses of a device        not met: MPIX_Query_cuda_support" in text
    asked = [(ranks, command.partition("--buffers device ")[2]) for ranks, command in commands]
    limits = " --limit 60 --progress-timeout 60"
    assert (1, f"--devices 3{limits}") in asked  # numbers are 0 to 2
    assert (4, f"--ranks-per-device 1{limits}") in asked
    assert (2, f"--devices 0{limits}") in asked


@pytest.mark.parametrize("lets", TOLD)
def test_a_launch_that_is_not_refused_is_a_failure(run, capsys, lets):
    code, _ = run(lets=lets)
    assert code == Exit.FAILED
    assert "NOT REFUSED: it ran" in capsys.readouterr().out


def test_mpi_that_is_not_aware(run, capsys):
    code, _ = run("--buffers device", line=LINE)
    text = capsys.readouterr().out
    assert code == Exit.NOT_MEASURED
    assert "patterns-device: --buffers device: made up" in text
    assert "launches that did not run: 2" in text


@pytest.mark.parametrize("wrong", ["bisection-device", "--buffers staged", "--error-exitcode 9"])
def test_a_launch_that_fails_is_a_failure(run, sanitizer, capsys, wrong):
    code, commands = run(wrong)
    assert code == Exit.FAILED
    assert "exited with 1" in capsys.readouterr().out
    sanitized = [command for _, command in commands if command.startswith(sanitizer)]
    assert len(sanitized) == 3


def test_it_ends_within_five_minutes(run, monkeypatch, capsys):
    """Each look at the clock takes 70 s: a launch takes longer than it may."""
    now = itertools.count(0, 70)
    monkeypatch.setattr(gpu, "time", SimpleNamespace(time=lambda: next(now)))
    code, commands = run()
    assert code == Exit.NOT_MEASURED
    limits = [command.rpartition(" ")[2] for _, command in commands]
    assert limits == ["60", "60", "60", "20"]
    text = capsys.readouterr().out
    assert text.count("not run, as 300 s are over") == 8
    assert "launches that did not run: 8" in text
