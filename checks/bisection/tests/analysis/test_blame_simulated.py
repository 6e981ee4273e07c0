"""The real kernel on simulated fat trees, judged by the real blame: faults named exactly."""

import json
import sys

import pytest

from bisection.analysis import blame, pairs
from bisection.core import paths

sys.path.insert(0, str(paths.ROOT / "src" / "tests"))
import simulated
from simulated import Tree

FOLDER = paths.home() / "build" / "tests" / "simgrid"
pytestmark = pytest.mark.skipif(
    simulated.missing(FOLDER) is not None, reason=str(simulated.missing(FOLDER))
)
SMALL, LARGE = Tree(4, 4, 4), Tree(4, 16, 16)


def judged(folder, tree, cables):
    """(part, names, [(kind, way, factor)]) of each bad component, and the whole Blame."""
    case = "all" if tree.hosts == 4 else "sampled"
    outcome = simulated.simulate(
        FOLDER, "pairs", tree, "--case", case, "--switches", "{switches}", "--bytes", "1000000",
        "--samples", "1", cables=cables,
    )  # fmt: skip
    assert outcome.code == 0, outcome.stderr
    (folder / "result.json").write_text(json.dumps(outcome.result))
    (folder / "result.pairs").write_bytes(outcome.files["result.pairs"])
    verdict = blame.judge(pairs.read(folder / "result.json"))
    assert all(kind.withheld is None for kind in verdict.kinds)
    bad = [
        (str(part.part), part.names, [(s.kind, s.way, s.factor) for s in part.symptoms])
        for part in verdict.bad
    ]
    return bad, verdict


@pytest.mark.parametrize(
    "tree", [SMALL, Tree(4, 4, 1), LARGE, Tree(4, 16, 4)], ids=lambda tree: " ".join(map(str, tree))
)
def test_sound_trees_have_no_bad_component(tree, tmp_path):
    bad, verdict = judged(tmp_path, tree, "")
    assert (bad, verdict.suspects) == ([], [])


@pytest.mark.parametrize("tree", [SMALL, LARGE], ids=["16", "64"])
@pytest.mark.parametrize(
    ("cables", "kind", "ways", "factor"),
    [
        ("node 5 both 0.5 0", "bandwidth", {"sends", "receives"}, 0.5),
        ("node 5 out 0.5 0", "bandwidth", {"sends"}, 0.5),
        ("node 5 both 1 1e-6", "latency", {""}, 1.5),
    ],
    ids=["slow node", "one way", "latency"],
)
def test_a_node_is_named(tree, cables, kind, ways, factor, tmp_path):
    bad, verdict = judged(tmp_path, tree, cables)
    assert [(part, names) for part, names, _ in bad] == [("node", ["n5"])], bad
    symptoms = [symptom for symptom in bad[0][2] if symptom[0] == kind]
    assert {way for _, way, _ in symptoms} == ways
    assert all(seen == pytest.approx(factor, rel=0.1) for _, _, seen in symptoms), symptoms
    assert verdict.suspects == []


@pytest.mark.parametrize(
    ("tree", "served"),
    [(SMALL, ["n10", "n14", "n2"]), (LARGE, ["n2", "n34", "n50"])],
    ids=["16", "64"],
)
def test_an_uplink_is_named_with_the_nodes_that_it_serves(tree, served, tmp_path):
    bad, verdict = judged(tmp_path, tree, "uplink 1 2 out 0.5 0")
    assert [(part, names) for part, names, _ in bad] == [("cable", ["leaf1"])], bad
    assert verdict.bad[0].serves == served
    assert verdict.suspects == []
