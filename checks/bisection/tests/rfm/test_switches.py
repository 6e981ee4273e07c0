"""The switches that a launch gives the kernel `pairs`."""

from types import SimpleNamespace

import pytest

from bisection.rfm import switches

SLURM = SimpleNamespace(scheduler=SimpleNamespace(registered_name="squeue"))
LOCAL = SimpleNamespace(scheduler=SimpleNamespace(registered_name="local"))
TOPOLOGY = """SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=cn[1-2]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=cn3
SwitchName=spine Level=1 LinkSpeed=1 Nodes=cn[1-3] Switches=leaf[1-2]
"""


@pytest.fixture
def scontrol(tmp_path, monkeypatch):
    """A scontrol that prints a text."""

    def install(text):
        (tmp_path / "answer").write_text(text)
        program = tmp_path / "scontrol"
        program.write_text(f"#!/bin/sh\ncat {tmp_path}/answer\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    return install


def test_the_leaves_are_a_file_for_the_kernel(scontrol, tmp_path):
    scontrol(TOPOLOGY)
    assert switches.options(SLURM, str(tmp_path)) == ["--switches switches.txt"]
    assert (tmp_path / "switches.txt").read_text() == "leaf1 cn1 cn2\nleaf2 cn3\n"
    assert (tmp_path / "topology.txt").read_text() == TOPOLOGY


def test_without_a_topology_there_is_no_file(scontrol, tmp_path):
    scontrol("")
    assert switches.options(SLURM, str(tmp_path)) == []
    assert not (tmp_path / "switches.txt").exists()


def test_other_schedulers_know_no_switches(tmp_path):
    assert switches.options(LOCAL, str(tmp_path)) == []
