"""The quick checks on virtual clusters, by each launcher on 1, 2 and 4 nodes: `make testbed`.

One launch of each partition stands for the tier; `make testbed ARGS=--full` runs all of it.
"""

import json
import os
import subprocess
import sys

import pytest
from running import CHECKS

from bisection.core import paths
from bisection.core.reasons.launches import Disturbed, Stopped
from bisection.kernels import results
from workshop.testbed import Blueprint, Cluster, Node, Partition, unavailable
from workshop.testbed.site import Launching, installed, write_site

pytestmark = pytest.mark.testbed

NODES = (1, 2, 4)
SRUN = Launching("srun", nodes=NODES)
MPIRUN = Launching("mpirun", "mpirun", NODES)
# Hydra starts MPICH's ranks too, but they hang in MPI_Finalize at times on clusters of this kind.
MPICH = Launching("srun", nodes=NODES, choices={"options": ["--mpi=pmi2"]})
QUAD = (Partition("quad", 1, 4, whole=True),)
# name -> (cluster, its site, the build of the kernels)
BEDS = {
    "squeue": (Blueprint(partitions=QUAD), [SRUN, MPIRUN], "build"),
    "slurmdbd": (Blueprint((Node(2),) * 4, QUAD, accounting=True), [SRUN, MPIRUN], "build"),
    "spare": (Blueprint((Node(2, 1),) * 4, QUAD), [SRUN], "build"),
    "mpich": (Blueprint(partitions=QUAD, shared_memory=True), [MPICH], "build-portable"),
}
# One launch of a partition.
SOME = [
    *("-n", "^transpose%method=p2p%launch.layout=mpi%launch.case=cnt40"),
    *("-S", "TransposeLaunch.sampling=cnt40:--repeats 3 --block 1 --warmup 0"),
]


@pytest.mark.parametrize("name", BEDS)
def test_quick_checks_pass_and_leave_nothing(name, tmp_path_factory, full):
    blueprint, launchings, build = BEDS[name]
    if why := unavailable(blueprint.accounting) or "; ".join(blueprint.faults(os.cpu_count())):
        pytest.skip(why)
    cluster = Cluster(tmp_path_factory.mktemp(name))
    kernels = installed(paths.home() / build, cluster.folder / "kernels")
    if not kernels:
        pytest.skip(f"no kernels in {build}/: `make test-kernels test-portable` builds them")
    try:
        cluster.up(blueprint)
        site = write_site(cluster, "vc", launchings)
        words = [sys.executable, "-m", "bisection", "run", "--tier", "quick", "--system", str(site)]
        words += [*([] if full else SOME), "-S", f"Build.kernels={kernels}"]
        home = {"BISECTION_HOME": str(cluster.folder / "home"), "PYTHONPATH": str(CHECKS)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        env = {**cluster.environment(), **home}
        done = subprocess.run(cluster.command(words), env=env, timeout=3600, **pipes)
        judge(cluster, launchings, done.returncode, done.stdout)
    finally:
        cluster.down()


def judge(cluster, launchings, code, text):
    """PASS everywhere, on the nodes that were asked for, and nothing is left."""
    assert code in (0, 3), text  # 3: a neighbour had the cores
    folder = cluster.folder / "home" / "results" / "latest"
    verdict = json.loads((folder / "verdict.json").read_text())
    failed = [
        case
        for case in verdict["cases"]
        if case["verdict"] not in ("pass", "not applicable")
        and case["reasons"].get("cause", {}).get("code") not in (Disturbed.code, Stopped.code)
    ]
    assert not failed, text
    wanted = {name for part in launchings for name in part.names()}
    hosts = {}
    for path in (folder / "kernels").glob("transpose-*.json"):
        of_launch = results.hosts(json.loads(path.read_text()))
        partition = next(name for name in wanted if f"-{name}-" in path.name)
        hosts.setdefault(partition, set()).update(of_launch)
    assert {name: len(names) for name, names in hosts.items()} == {
        name: int(name.rpartition("-")[2]) for name in wanted
    }
    assert set.union(*hosts.values()) <= set(cluster.blueprint.names())
    assert not cluster.jobs()
    left = [p.command() for n in cluster.blueprint.names() for p in cluster.processes(n)]
    assert not [line for line in left if "bisection-" in " ".join(line[:1])]
