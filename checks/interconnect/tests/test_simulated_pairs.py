"""What a matrix of the kernel `pairs` is judged to say, under SimGrid's MPI."""

import json

import pytest
from on_simgrid import launched, needs

from interconnect.blame import judge
from interconnect.pairs import read

pytestmark = needs("pairs")
BOTH = {"", "sends", "receives"}
ALL_UPLINKS = "; ".join(f"uplink 1 {spine} both 0.5 0" for spine in range(4))


@pytest.mark.parametrize(
    ("hosts", "spines", "cables", "named"),
    [
        (4, 4, "", []),
        (4, 1, "", []),  # four hosts per uplink, in thin mode
        (4, 4, "node 5 both 0.5 0", [("node", ("n5",), BOTH)]),
        (4, 4, "node 5 out 0.8 0", [("node", ("n5",), {"", "sends"})]),
        (4, 4, "node 5 in 0.5 0", [("node", ("n5",), {"", "receives"})]),
        (4, 4, "node 5 both 1 1e-6", [("node", ("n5",), BOTH)]),
        (4, 4, "uplink 1 2 out 0.5 0", [("cable", ("leaf1",), {"", "sends"})]),
        (4, 4, ALL_UPLINKS, [("switch", ("leaf1",), BOTH)]),
        (16, 16, "", []),
        (16, 4, "", []),
        (16, 16, "node 5 both 0.5 0", [("node", ("n5",), BOTH)]),
        (16, 16, "node 5 out 0.5 0", [("node", ("n5",), {"", "sends"})]),
        (16, 16, "node 5 both 1 1e-6", [("node", ("n5",), BOTH)]),
        (16, 16, "uplink 1 2 out 0.5 0", [("cable", ("leaf1",), {"", "sends"})]),
    ],
)
def test_a_fault_of_a_simulated_tree_is_named_exactly(tmp_path, hosts, spines, cables, named):
    """Of four leaf switches; all pairs of 16 hosts, and 16 rounds of 64."""
    case = "all" if hosts == 4 else "sampled"
    options = ["--switches", "{switches}", "--case", case, "--samples", "1", "--bytes", "250000"]
    outcome = launched("pairs", 4, hosts, spines, cables, *options)
    result = tmp_path / "result.json"
    result.write_text(json.dumps(outcome.result))
    (tmp_path / "result.pairs").write_bytes(outcome.files["result.pairs"])
    blame = judge(read(result))
    ways = [{symptom.way for symptom in part.symptoms} for part in blame.bad]
    parts = [(part.part, part.names, way) for part, way in zip(blame.bad, ways, strict=True)]
    assert parts == named
    assert blame.suspects == []
    if "uplink 1 2" in cables and cables != ALL_UPLINKS:
        served = {4: ("n10", "n14", "n2"), 16: ("n2", "n34", "n50")}  # 2 modulo the spines
        assert blame.bad[0].serves == served[hosts]
