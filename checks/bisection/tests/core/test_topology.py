"""Switches from Slurm's words, and those that a launch gives the kernel `pairs`."""

from types import SimpleNamespace

import pytest

from bisection.core.topology import TopologyError, parse
from bisection.rfm.switches import options

CONF = """
# two racks
SwitchName=leaf1 Nodes=cn[01-03] LinkSpeed=100
switchname=leaf2 nodes=cn[04,06],gpu1
SwitchName=spine Switches=leaf[1-2]   # both
"""
SCONTROL = """
SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=cn[01-03]
SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=cn[04,06],gpu1
SwitchName=spine Level=1 LinkSpeed=1 Nodes=cn[01-04,06],gpu1 Switches=leaf[1-2]
"""
BLOCKS = "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\nBlockSizes=2\n"


def test_the_file_scontrol_continued_lines_and_blocks_give_switches():
    switches = parse(CONF)
    assert switches == parse(SCONTROL)
    assert switches["cn02"] == ("leaf1", "spine")
    assert switches["gpu1"] == ("leaf2", "spine")
    assert set(switches) == {"cn01", "cn02", "cn03", "cn04", "cn06", "gpu1"}
    assert parse("SwitchName=a \\\n Nodes=n1\n") == {"n1": ("a",)}
    assert parse(BLOCKS)["n3"] == ("b2",)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "no line has SwitchName="),
        ("slurm_load_topo: Connection refused", "no line has SwitchName="),
        ("SwitchName=a Nodes=n[1-", "is no list of names"),
        ("SwitchName=a Nodes=n1\nSwitchName=b Nodes=n1", "node n1 is below two switches: a and b"),
        ("SwitchName=a Nodes=n1\nSwitchName=a Switches=a", "switch a is below itself"),
    ],
)
def test_what_is_no_topology_is_refused(text, error):
    with pytest.raises(TopologyError, match=error):
        parse(text)


@pytest.fixture
def written(tmp_path, commands):
    """written(printed, nodes): the text of the kernel's file where scontrol and sinfo print so."""

    def write(printed="", nodes="", scheduler="squeue", **extras):
        for program, text in (("scontrol", printed), ("sinfo", nodes)):
            commands(program, f"echo -n '{text}'")
        named = SimpleNamespace(registered_name=scheduler)
        partition = SimpleNamespace(scheduler=named, access=["--partition=all"], extras=extras)
        chosen = options(partition, str(tmp_path))
        assert chosen in ([], ["--switches switches.txt"])
        assert (tmp_path / "switches.txt").exists() == bool(chosen)
        return (tmp_path / "switches.txt").read_text() if chosen else ""

    return write


def test_the_leaves_are_a_file_of_hosts_for_the_kernel(written, tmp_path):
    nodes = "cn01|cn01.lab\ncn02|cn02.lab\ncn04|cn04.lab\ncn04|cn04.lab\n"
    assert written(SCONTROL, nodes) == "leaf1 cn01.lab cn02.lab\nleaf2 cn04.lab\n"
    assert (tmp_path / "topology.txt").read_text() == SCONTROL


@pytest.mark.parametrize(("printed", "nodes"), [("", "cn01|cn01\n"), (SCONTROL, "cn9|cn9\n")])
def test_without_the_switches_of_all_nodes_there_is_no_file(written, tmp_path, printed, nodes):
    assert written(printed, nodes) == ""
    assert (tmp_path / "topology.txt").exists() == bool(printed)  # the report names the node


def test_a_file_of_the_site_comes_first_and_serves_any_scheduler(written, tmp_path):
    file = tmp_path / "site.conf"
    file.write_text(BLOCKS)
    nodes = "n1|n1.lab\nn3|n3.lab\n"
    assert written(SCONTROL, nodes, topology=str(file)) == "b1 n1.lab\nb2 n3.lab\n"
    assert written(scheduler="pbs", topology=str(file)) == "b1 n1 n2\nb2 n3 n4\n"
    assert (tmp_path / "topology.txt").read_text() == BLOCKS
    (tmp_path / "switches.txt").unlink()
    assert written(scheduler="pbs") == ""
