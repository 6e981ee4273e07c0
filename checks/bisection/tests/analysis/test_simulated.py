"""The kernels themselves under SimGrid's MPI: what a matrix of `pairs` is judged to say, and a
transpose and patterns before and after one primitive got worse.

Messages take time there and computing none: the machine that runs the test does not matter, and
every session of a side is the same. Skipped where `make test-kernels` found no SimGrid.
"""

import importlib
import json
import sys

import pytest
from made_up import case, sessions

from bisection.core import paths
from bisection.core.reasons.base import clause
from bisection.core.reasons.network import NetworkExplains
from bisection.kernels import results
from interconnect.blame import judge
from interconnect.pairs import read

SOURCES, FOLDER = paths.ROOT / "src/tests", paths.ROOT / ".bisection/build/simulated"
sys.path.append(str(SOURCES))
simulated = importlib.import_module("simulated")  # of no package
missing = simulated.missing(FOLDER, "pairs", "patterns", "transpose")
pytestmark = pytest.mark.skipif(bool(missing), reason=str(missing))
BOTH = {"", "sends", "receives"}
ALL_UPLINKS = "; ".join(f"uplink 1 {spine} both 0.5 0" for spine in range(4))


def launched(kernel, tree, cables, *options):
    """What a kernel gives on a tree with these cables."""
    outcome = simulated.simulate(FOLDER, kernel, tree, *options, cables=cables)
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    return outcome


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
    options = ["--switches", "{switches}", "--case", case, "--samples", "1", "--bytes", "1000000"]
    outcome = launched("pairs", simulated.Tree(4, hosts, spines), cables, *options)
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


LAUNCHES = {
    "patterns": ("sweep", "--method pingpong,alltoallv --largest 16384 --repeats 1 --block 1"),
    "transpose": ("cnt40", "--method alltoallv,p2p --planner estimate --repeats 1 --block 2"),
}


def measured(cables):
    """The test cases of a session on a tree of eight hosts with these cables."""
    cases = []
    for kernel, (name, options) in LAUNCHES.items():
        tree = simulated.Tree(2, 4, 4)
        outcome = launched(kernel, tree, cables, "--case", name, *options.split())
        entries = [e for e in outcome.result["results"] if e["applicable"]]
        for method in dict.fromkeys(entry["method"] for entry in entries):
            metrics = results.metrics(e for e in entries if e["method"] == method)
            values = {n: [m["value"], m["unit"], m["better"]] for n, m in metrics.items()}
            check = {"patterns": "network"}.get(kernel, kernel)
            cases.append(case(method, values, check=check, case=name, geometry="8x1"))
    return cases


def test_more_latency_explains_slower_transposes(compared):
    before = measured("")
    after = measured("; ".join(f"node {host} both 1 2e-7" for host in range(8)))
    result = compared(sessions(0, [before] * 5), sessions(100, [after] * 5))
    for method in ("alltoallv", "p2p"):
        (transpose,) = [r for r in result.rows if r.check == "transpose" and r.method == method
                        and r.metric == "time"]  # fmt: skip
        cause = transpose.cause
        assert (type(cause), cause.cause) == (NetworkExplains, "latency")
        assert cause.change == pytest.approx(0.4, abs=0.03)
        assert cause.points == pytest.approx(transpose.slowdown - 1, rel=0.15)
        print(f"{method}: {clause(cause)}")
