"""`workshop bench` on made-up results of kernels."""

import pytest

from workshop.cli import main
from workshop.commands import bench as command


@pytest.fixture
def bench(home, monkeypatch, capsys):
    """bench(*words): what the command prints, on one line. No kernel is built."""
    monkeypatch.setattr(command, "build", lambda kernel, *_: f"bisection-{kernel}")

    def run(*words, code=0):
        assert main(["bench", *words]) == code
        return " ".join(capsys.readouterr().out.split())

    return run
