"""Switches from Slurm's words."""

import pytest

from bisection.core.topology import TopologyError, levels, parse

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


def test_the_file_and_scontrol_give_the_same_switches():
    switches = parse(CONF)
    assert switches == parse(SCONTROL)
    assert switches["cn02"] == ("leaf1", "spine")
    assert switches["gpu1"] == ("leaf2", "spine")
    assert set(switches) == {"cn01", "cn02", "cn03", "cn04", "cn06", "gpu1"}


def test_lines_may_be_continued_and_blocks_are_switches():
    assert parse("SwitchName=a \\\n Nodes=n1\n") == {"n1": ("a",)}
    assert parse(BLOCKS)["n3"] == ("b2",)


def test_levels_of_hosts_with_their_domain():
    names = [["leaf1", "leaf2"], ["spine", "spine"]]
    assert levels(parse(CONF), ["cn01.example.org", "cn06"]) == (names, [])
    assert levels(parse(CONF), ["cn01", "login"]) == ([], ["login"])
    # trees of unequal depth repeat their root
    text = "SwitchName=a Nodes=n1\nSwitchName=b Nodes=n2\nSwitchName=c Switches=b"
    assert levels(parse(text), ["n1", "n2"])[0] == [["a", "b"], ["a", "c"]]


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
