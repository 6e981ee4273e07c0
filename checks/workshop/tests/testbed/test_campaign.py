"""A campaign over six nodes: two are busy, one is drained, one is slow. Killed, and continued."""

import json
import subprocess
import sys

import node_kernel
import pytest
from running import CHECKS

from bisection.core import paths
from workshop.testbed import Blueprint, Cluster, Node, Partition, unavailable
from workshop.testbed.hosts import until
from workshop.testbed.site import Launching, write_site

pytestmark = pytest.mark.testbed

ACTIONS = paths.ROOT / "site-configs" / "actions"
FAN = "broken fan"


@pytest.fixture
def six(tmp_path_factory):
    """six(*words) runs a command on the login node of six nodes, of which node2 is slow."""
    if why := unavailable():
        pytest.skip(why)
    cluster = Cluster(tmp_path_factory.mktemp("six"))
    (cluster.folder / "speeds.json").write_text(json.dumps({"node2": 0.7}))
    kernels = cluster.folder / "kernels" / "bin"
    kernels.mkdir(parents=True)
    for name in ("noise", "pairs"):
        program = kernels / f"bisection-{name}"
        program.write_text(node_kernel.program(str(cluster.folder / "speeds.json")))
        program.chmod(0o755)
    started = cluster.folder / "bisection"
    started.write_text(f'#!/bin/sh\nexec {sys.executable} -m bisection "$@"\n')
    started.chmod(0o755)
    home = {"BISECTION_HOME": str(cluster.folder / "home"), "PYTHONPATH": str(CHECKS)}
    home["BISECTION"] = str(started)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}

    def start(*words):
        env = {**cluster.environment(), **home}
        return subprocess.Popen(cluster.command(words), env=env, cwd=paths.ROOT, **pipes)

    cluster.start = start
    try:
        cluster.up(Blueprint((Node(),) * 6, (Partition("six", 1, 6, whole=True),)))
        cluster.site = write_site(cluster, "vc", [Launching("srun", nodes=(1,), queue="six")])
        yield cluster
    finally:
        cluster.down()


def test_a_campaign_is_continued_and_its_slow_node_drained_and_returned(six):
    def ended(*words, code):
        process = six.start(*words)
        text = process.communicate(timeout=600)[0]
        assert process.returncode == code, text
        return text

    def drained():
        rows = six.output("sinfo", "-h", "-R", "-o", "%n|%E").splitlines()
        return dict(row.split("|", 1) for row in rows)

    def verdict():
        return json.loads((six.folder / "home/results/latest/verdict.json").read_text())

    kernels = f"Build.kernels={six.folder / 'kernels'}"
    site, campaign = f"{six.site}:srun-1", ("--every-node", "maint", "-S", kernels)
    run = (sys.executable, "-m", "bisection", "run", "--system", site, *campaign)
    six.output("scontrol", "update", "nodename=node6", "state=drain", f"reason={FAN}")
    for node in ("node3", "node4"):
        six.output("sbatch", "-p", "six", "-w", node, "-o", "/dev/null", "--wrap", "sleep 3000")
    # Three nodes are idle; once they are done, the launches on the busy ones wait: then it dies.
    first = six.start(*run)
    for _ in until(400, 0.5):
        recorded = (six.folder / "home/results/latest/verdict.json").exists()
        busy = sum("PENDING" in line for line in six.jobs())
        if (recorded and busy >= 2) or first.poll() is not None:
            break
    first.kill()
    said = first.communicate()[0]
    assert "campaign maint: 6 nodes: 2 alloc, 1 drain, 3 idle" in said
    for _ in until(60, 0.5):
        if not any("bisection-" in line or "PENDING" in line for line in six.jobs()):
            break
    assert verdict()["reasons"]["every_node"]
    six.output("scancel", "-u", "root")
    six.wait_for_nodes(states=("idle", "drain"))
    hook = ("--on-suspect", str(ACTIONS / "drain"), "--act")
    said = ended(*run, *hook, code=3)
    assert "3 have launches of 1 earlier session" in said
    rows = {row["node"]: row for row in verdict()["reasons"]["every_node"]}
    verdicts = {name: row["verdict"] for name, row in rows.items()}
    assert verdicts.pop("node2") == "slow"
    assert verdicts.pop("node6") == "not judged"
    assert rows["node6"]["why"] == f"drain: {FAN}"
    assert verdicts == dict.fromkeys(("node1", "node3", "node4", "node5"), "as its peers")
    why = drained()
    assert why.keys() == {"node2", "node6"}
    assert why["node2"].startswith("bisection: node2 is slow: ")
    assert "node2" in (six.folder / "home/results/latest/report.html").read_text()
    (six.folder / "speeds.json").write_text("{}")  # it is repaired
    ended(str(ACTIONS / "recheck"), "node2", site, *campaign, "-n", "^network_noise", code=0)
    assert drained().keys() == {"node6"}
