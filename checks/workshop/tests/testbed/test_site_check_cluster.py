"""`site check` on a virtual cluster: what its trial job meets there is real."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from running import CHECKS, SITES

from workshop.testbed import Blueprint, Cluster, Node, Partition, unavailable

BED = Blueprint(
    (Node(2), Node(2)), (Partition("duo", 1, 2, minutes=60), Partition("brief", 1, 2, minutes=5))
)
HOME = "Meine Prüfung 5%j"  # sbatch splits at blanks and replaces %j
SITE = """
from pathlib import Path
from reframe.utility import import_module_from_file
common = import_module_from_file({common!r})

def partition(name, queue="duo", binding=("--cpu-bind=cores",), **extras):
    return {{
        "name": name, "scheduler": "squeue", "launcher": "srun", "environs": ["system"],
        "access": [f"--partition={{queue}}"], "max_jobs": 1,
        "env_vars": [["OMPI_MCA_mpi_yield_when_idle", "1"]],
        "processor": {{"num_cpus": 2, "num_cpus_per_core": 1, "num_cpus_per_socket": 2,
                      "num_sockets": 1}},
        "extras": {{"nodes": 2, "binding": list(binding), "references": [], **extras}},
    }}

site_configuration = common.configuration(systems=[{{
    "name": Path(__file__).stem, "hostnames": [".*"], "partitions": [{partitions}],
}}])
"""
UNBOUND = "INVALID placement (layout mpi): rank 0 on node1 is not bound to one core"
FAULTS = {
    # a partition, and the probe that finds it wrong
    'partition("brief", "brief")': ("limits", "the queue gives a job 5 min"),
    'partition("loose", binding=["--cpu-bind=none"])': ("cores", UNBOUND),
    'partition("strange", binding=["--mpi=none"])': ("world", "srun started no MPI world"),
    'partition("odd", nodes=3)': ("nodes", "2 of 2 up, 3 needed"),
    'partition("lost", "nowhere")': ("account", "queue nowhere does not exist"),
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    if why := unavailable():
        pytest.skip(why)
    if shutil.which("mpicc") is None:
        pytest.skip("needs mpicc")
    built = Cluster(tmp_path_factory.mktemp("bed"))
    built.up(BED)
    yield built
    built.down()


@pytest.fixture
def checked(cluster, tmp_path):
    """checked(partitions): {(partition, probe): (state, words)} as the login node finds it."""

    def run(*partitions):
        file = tmp_path / "bed.py"
        common = str(SITES / "common.py")
        file.write_text(SITE.format(common=common, partitions=", ".join(partitions)))
        environ = {**cluster.environment(), "BISECTION_HOME": str(tmp_path / HOME)}
        environ["PYTHONPATH"] = str(CHECKS)
        words = [sys.executable, str(Path(__file__).with_name("checked_site.py")), str(file)]
        command = cluster.command(words)
        done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        results = json.loads(done.stdout)
        return {(partition, probe): (state, text) for partition, probe, state, text in results}

    return run


@pytest.mark.testbed
def test_what_a_job_meets_is_named(checked):
    results = checked(*FAULTS)
    wrong = {key: text for key, (state, text) in results.items() if state == "WRONG"}
    expected = {(text.split('"')[1], probe): words for text, (probe, words) in FAULTS.items()}
    assert set(wrong) == set(expected), wrong
    for key, words in expected.items():
        assert words in wrong[key]
    assert results["brief", "network"] == ("ok", results["brief", "network"][1])
    assert "eth0" in results["brief", "network"][1]
    assert results["brief", "cores"] == ("ok", "mpi 2x2x1, node 2x1x2")
    assert results["brief", "facts"][0] == "not tried"


@pytest.mark.testbed
def test_a_node_that_does_not_see_the_folder_and_one_that_is_drained(checked, cluster, tmp_path):
    (tmp_path / HOME).mkdir()
    mount = ["mount", "-t", "tmpfs", "tmpfs", str(tmp_path / HOME)]
    subprocess.run(cluster.command(mount, "node2"), check=True, timeout=300)
    results = checked('partition("duo")')
    state, words = results["duo", "seen"]
    assert state == "WRONG"
    assert words.endswith(" is not seen by node2 (No such file or directory)")
    assert results["duo", "world"][0] == "not tried"

    drain = ["nodename=node2", "state=drain", "reason=bad DIMM"]
    cluster.output("scontrol", "update", *drain)
    state, words = checked('partition("duo")')["duo", "nodes"]
    assert (state, words) == ("WRONG", "1 of 2 up, 2 needed; node2 (bad DIMM)")
