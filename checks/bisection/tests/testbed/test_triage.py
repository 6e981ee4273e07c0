"""A network judged on a virtual cluster: the node whose link is slow is named, and nothing else."""

import json
import os
import re

import pytest
from test_quick import run

from bisection.core import paths
from bisection.core.reasons import Code
from bisection.core.verdicts import Exit
from bisection.testbed import Blueprint, Cluster, Node, Partition, unavailable
from bisection.testbed.site import Launching, installed, write_site

pytestmark = pytest.mark.testbed

NODES = 6
BED = Blueprint((Node(),) * NODES, (Partition("net", 1, NODES, whole=True),))
SITE = [Launching("srun", nodes=(NODES,), queue="net")]
SLOW = "node5"


@pytest.fixture(scope="module")
def bed(tmp_path_factory, request):
    """A cluster whose links are slower than its processors."""
    if not request.config.getoption("--full", default=False):
        pytest.skip("minutes: `make testbed ARGS=--full` runs it")
    if why := unavailable() or "; ".join(BED.faults(os.cpu_count())):
        pytest.skip(why)
    cluster = Cluster(tmp_path_factory.mktemp("triage"))
    if not installed(paths.home() / "build", cluster.folder / "kernels"):
        pytest.skip("no kernels in build/: `make test-kernels` builds them")
    try:
        cluster.up(BED)
        write_site(cluster, "vc", SITE)
        for name in BED.names():
            cluster.shape(name, "150mbit")
        yield cluster
    finally:
        cluster.down()


def triage(cluster):
    """(exit code, output, verdict, suspect nodes) of a run that measures pairs alone."""
    arguments = ["-n", "^pairs", "-S", f"Build.kernels={cluster.folder / 'kernels'}"]
    # Nodes share cores, so that times vary: more samples of each pair.
    arguments += ["-S", "PairsLaunch.sampling=sampled:--samples 15"]
    code, text = run(cluster, cluster.folder / "vc.py", arguments, "triage")
    latest = cluster.folder / "home/results/latest"
    verdict = json.loads((latest / "verdict.json").read_text())
    return code, text, verdict, (latest / "nodecheck.txt").read_text()


def test_the_node_with_a_slow_link_is_named_and_nothing_else(bed):
    bed.shape(SLOW, "50mbit")
    code, text, verdict, suspects = triage(bed)
    bad = [r for r in verdict["reasons"]["failures"] if r["code"] == Code.BAD_COMPONENT]
    assert [(part["part"], part["names"]) for part in bad] == [("node", [SLOW])], text
    assert code == Exit.FAILED
    assert f"Network: no-go (node {SLOW} slow)" in text
    assert re.search(rf"^{SLOW} bisection: bandwidth", suspects, re.M)
