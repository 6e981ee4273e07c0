"""The kernel `pairs` itself under SimGrid's MPI, and what its matrix is judged to say.

Skipped where `make test-kernels` found no SimGrid.
"""

import importlib.util
import json
import sys

import pytest

from bisection.analysis.blame import judge
from bisection.analysis.pairs import read
from bisection.core import paths

SOURCES, FOLDER = paths.ROOT / "src/tests", paths.ROOT / ".bisection/build/tests/simgrid"


def loaded():
    """src/tests/simulated.py, which is of no package."""
    sys.path.insert(0, str(SOURCES))
    try:
        spec = importlib.util.spec_from_file_location("simulated", SOURCES / "simulated.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(SOURCES))
    return module


simulated = loaded()
missing = simulated.missing(FOLDER)
if not missing and not (FOLDER / "pairs-simulated").exists():
    missing = "the simulated kernel is not built"
pytestmark = pytest.mark.skipif(bool(missing), reason=str(missing))
ALL_UPLINKS = "; ".join(f"uplink 1 {spine} both 0.5 0" for spine in range(4))


@pytest.mark.parametrize(
    ("spines", "cables", "named"),
    [
        (4, "", []),
        (1, "", []),  # four hosts per uplink, in thin mode
        (4, "node 5 both 0.5 0", [("node", ["n5"], {"", "sends", "receives"})]),
        (4, "node 5 out 0.8 0", [("node", ["n5"], {"", "sends"})]),
        (4, "node 5 in 0.5 0", [("node", ["n5"], {"", "receives"})]),
        (4, "node 5 both 1 1e-6", [("node", ["n5"], {"", "sends", "receives"})]),
        (4, "uplink 1 2 out 0.5 0", [("cable", ["leaf1"], {"", "sends"})]),
        (4, ALL_UPLINKS, [("switch", ["leaf1"], {"", "sends", "receives"})]),
    ],
)
def test_a_fault_of_a_simulated_tree_is_named_exactly(tmp_path, spines, cables, named):
    options = ["--switches", "{switches}", "--case", "all", "--samples", "1", "--bytes", "1000000"]
    tree = simulated.Tree(4, 4, spines)
    outcome = simulated.simulate(FOLDER, "pairs", tree, *options, cables=cables)
    assert outcome.code == 0, outcome.stdout + outcome.stderr
    result = tmp_path / "result.json"
    result.write_text(json.dumps(outcome.result))
    (tmp_path / "result.pairs").write_bytes(outcome.files["result.pairs"])
    blame = judge(read(result))
    ways = [{symptom.way for symptom in part.symptoms} for part in blame.bad]
    parts = [(part.part, part.names, way) for part, way in zip(blame.bad, ways, strict=True)]
    assert parts == named
    assert blame.suspects == []
    if "uplink 1 2" in cables and cables != ALL_UPLINKS:
        assert blame.bad[0].serves == ["n10", "n14", "n2"]
