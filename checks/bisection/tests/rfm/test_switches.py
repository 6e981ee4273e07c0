"""The switches that a launch gives the kernel `pairs`."""

from types import SimpleNamespace

import pytest
from running import command

from bisection.core import topology


def partition(scheduler, **extras):
    return SimpleNamespace(
        scheduler=SimpleNamespace(registered_name=scheduler),
        access=["--partition=all"],
        extras=extras,
    )


TOPOLOGY = """SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=cn[1-2]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=cn3
SwitchName=spine Level=1 LinkSpeed=1 Nodes=cn[1-3] Switches=leaf[1-2]
"""


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    """A scontrol and a sinfo that print these texts."""

    def install(printed, nodes, **extras):
        for program, text in (("scontrol", printed), ("sinfo", nodes)):
            command(tmp_path, program, f"echo -n '{text}'")
        monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
        return topology.options(partition("squeue", **extras), str(tmp_path))

    return install


def test_the_leaves_are_a_file_of_hosts_for_the_kernel(slurm, tmp_path):
    nodes = "cn1|cn1.lab\ncn2|cn2.lab\ncn3|cn3.lab\ncn3|cn3.lab\n"
    assert slurm(TOPOLOGY, nodes) == ["--switches switches.txt"]
    assert (tmp_path / "switches.txt").read_text() == "leaf1 cn1.lab cn2.lab\nleaf2 cn3.lab\n"
    assert (tmp_path / "topology.txt").read_text() == TOPOLOGY


@pytest.mark.parametrize(("topology", "nodes"), [("", "cn1|cn1\n"), (TOPOLOGY, "cn9|cn9\n")])
def test_without_the_switches_of_all_nodes_there_is_no_file(slurm, tmp_path, topology, nodes):
    assert slurm(topology, nodes) == []
    assert not (tmp_path / "switches.txt").exists()
    assert (tmp_path / "topology.txt").exists() == bool(topology)  # the report names the node


def test_a_file_of_the_site_comes_before_slurm(slurm, tmp_path):
    file = tmp_path / "own.conf"
    file.write_text(TOPOLOGY.replace("leaf", "own"))
    slurm(TOPOLOGY, "cn1|cn1.lab\ncn3|cn3.lab\n", topology=str(file))
    assert (tmp_path / "switches.txt").read_text() == "own1 cn1.lab\nown2 cn3.lab\n"


def test_a_file_serves_schedulers_that_know_no_switches(tmp_path):
    assert topology.options(partition("pbs"), str(tmp_path)) == []
    file = tmp_path / "own.conf"
    file.write_text(TOPOLOGY)
    options = topology.options(partition("pbs", topology=str(file)), str(tmp_path))
    assert options == ["--switches switches.txt"]
    assert (tmp_path / "switches.txt").read_text() == "leaf1 cn1 cn2\nleaf2 cn3\n"
    assert (tmp_path / "topology.txt").read_text() == TOPOLOGY
