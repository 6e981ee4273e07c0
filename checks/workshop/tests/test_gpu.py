"""`workshop gpu`: what it launches and prints, by launches that are made up."""

import argparse

import pytest

from bisection.core.verdicts import Exit
from bisection.kernels import local
from workshop.commands import gpu

DEVICE = {"name": "Made-up GPU", "library": "libcudart.so.12", "runtime": 12040, "driver": 12060}
RATES = [{"method": "to-host", "rate": 2e10, "numa": 1}]
RATES += [{"method": "peer", "rate": 3e11, "peer": "0000:41:00.0/ab"}]
COPIES = [{"rank": 0, "id": "0000:01:00.0/cd", "rates": RATES}]
SECONDS = {"host": 1e-6, "staged": 4e-6, "device": 2e-6}


def run(monkeypatch, tmp_path, wrong=""):
    """Exit code, and the command lines of launches; `wrong` is in those that fail."""
    commands = []

    def launch(executable, ranks, arguments, output):
        line = " ".join([str(executable), *arguments])
        commands.append(line)
        if wrong and wrong in line:
            raise local.BenchError("exited with 1")
        buffers = next((name for name in SECONDS if f"--buffers {name}" in line), "host")
        metrics = {"time": {"value": SECONDS[buffers]}}
        entry = {"method": "p2p", "applicable": True, "metrics": metrics}
        if "transpose" not in line:
            entry |= {"method": "pingpong", "point": {"bytes": 8}}
        return {"layout": {"devices": [DEVICE]}, "details": {"copies": COPIES}, "results": [entry]}

    monkeypatch.setattr(local, "make", lambda *_: None)
    monkeypatch.setattr(local, "launch", launch)
    options = argparse.Namespace(folder=tmp_path / "out", ranks=2, largest=64)
    return gpu.act(options), commands


def test_memories_stand_side_by_side(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    code, commands = run(monkeypatch, tmp_path)
    text = capsys.readouterr().out
    assert code == Exit.OK, text
    assert [line.split()[-3] for line in text.splitlines() if "GB/s" in line] == [
        "1",
        "0000:41:00.0",
    ]
    assert "pingpong  8B    1 us    4 us    2 us                2.00" in text
    assert "p2p       FFT   1 us    4 us    2 us                2.00" in text
    assert len(commands) == 7
    assert "compute-sanitizer is not on PATH: not run" in text


@pytest.mark.parametrize("wrong", ["bisection-device", "--buffers staged", "--error-exitcode 9"])
def test_a_launch_that_fails_is_a_failure(monkeypatch, tmp_path, capsys, wrong):
    tool = tmp_path / "compute-sanitizer"
    tool.write_text("#!/bin/sh\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, commands = run(monkeypatch, tmp_path, wrong)
    assert code == Exit.FAILED
    assert "exited with 1" in capsys.readouterr().out
    assert [line.startswith(str(tool)) for line in commands] == [False] * 7 + [True] * 3
