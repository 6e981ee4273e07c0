"""`site new` on a cluster unlike the usual one: what it asks, tries and refuses there is real."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from running import CHECKS

from bisection.core import paths
from workshop.testbed import Blueprint, Cluster, Node, Partition, unavailable
from workshop.testbed.hosts import until

MEMORY = 300  # MB per CPU, where a job asks for none
BED = Blueprint(
    nodes=(Node(threads=2, name="c01"), Node(threads=2, name="c02"), Node(name="d01")),
    partitions=(Partition("batch", 1, 2, minutes=30), Partition("far", 3, 3)),
    annex=1,
    accounting=True,
    accounts=("physics", "biology"),
    options=(
        "MpiDefault=none",
        "SelectTypeParameters=CR_Core_Memory",
        f"DefMemPerCPU={MEMORY}",
        "AccountingStorageEnforce=associations",
        "PartitionName=admin Nodes=c01 RootOnly=YES AllowGroups=nobody",
        "PartitionName=bio Nodes=c01 AllowAccounts=biology",
    ),
)
WORDS = "name your project with -A"
POLICY = f"""
function slurm_job_submit(job, partitions, user)
  if job.account == nil then
    slurm.log_user("{WORDS}")
    return slurm.ERROR
  end
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, user) return slurm.SUCCESS end
"""
PROGRAM = """
import sys
from pathlib import Path
from bisection.core import paths
paths.ROOT = Path.cwd()
from bisection.cli import main
sys.exit(main(sys.argv[1:]))
"""
CORES = {"num_cpus": 2, "num_cpus_per_core": 2, "num_sockets": 1}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    why = unavailable(accounting=True) or "; ".join(BED.faults(len(os.sched_getaffinity(0))))
    if why:
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("bed")
    policy = folder / "policy" / "job_submit.lua"
    policy.parent.mkdir()
    policy.write_text(POLICY)
    built = Cluster(folder)
    built.up(dataclasses.replace(BED, policies=(str(policy),)))
    yield built
    built.down()


@pytest.fixture
def on_cluster(cluster, house):
    """on_cluster(*words): a Python on the login node, in a small house; its output and code."""
    (house / "spack-env" / "unlike").mkdir()
    (house / "spack-env" / "unlike" / "spack.yaml").touch()  # which is then not made

    def run(*words):
        environ = {**cluster.environment(), "PYTHONPATH": str(CHECKS)}
        line = cluster.command([sys.executable, *words])
        done = subprocess.run(line, env=environ, capture_output=True, text=True, timeout=300)
        return done.stdout + done.stderr, done.returncode

    return run


@pytest.mark.testbed
def test_a_policy_speaks_and_an_account_is_all_it_takes(on_cluster, tmp_path):
    site = tmp_path / "site-configs" / "unlike.py"
    printed, code = on_cluster("-c", PROGRAM, "site", "new", "unlike", "--queue", "batch")
    assert code == 1, printed
    assert WORDS in " ".join(printed.split())

    printed, code = on_cluster("-c", PROGRAM, "site", "new", "unlike", "--account", "physics")
    assert code == 0, printed
    assert "biology" in printed  # of the queue that is closed to the account
    known = json.loads(site.with_suffix(".json").read_text())["partitions"]
    assert set(known) == {"batch", "admin"}  # root may use a queue that is closed to others
    for facts in known.values():
        assert {name: facts["processor"][name] for name in CORES} == CORES
        assert facts["smt"] == "on"
    assert set(known["batch"]["boot"]) == {"c01", "c02"}
    # srun starts no world by itself, as MpiDefault is none
    assert 'launcher="srun", options=["--mpi=' in site.read_text()

    assert not_ok(on_cluster, site) == set()
    # A job that asks for no memory gets little.
    site.write_text(site.read_text().replace("exclusive=True", "exclusive=False"))
    assert not_ok(on_cluster, site) == {("batch", "limits"), ("admin", "limits")}


@pytest.mark.testbed
def test_a_maintenance_reservation_is_up_for_those_who_name_it(cluster, on_cluster, tmp_path):
    def scontrol(*words):
        line, environ = cluster.command(["scontrol", *words]), cluster.environment()
        return subprocess.run(line, env=environ, check=True, capture_output=True, text=True).stdout

    name = "reservationname=upgrade"
    of = ["users=root", "starttime=now", "duration=60", "nodes=ALL", "flags=maint,ignore_jobs"]
    scontrol("create", "reservation", name, *of)
    try:
        for _ in until(30):
            if scontrol("show", "node", "-o").count("+MAINT") == 2:
                break
        words = ("site", "new", "held", "--queue", "batch", "--account", "physics")
        printed, code = on_cluster("-c", PROGRAM, *words, "--dry-run")
        assert "0 of 2 nodes are up" in printed
        assert "reservation upgrade" in " ".join(printed.replace("#", " ").split())
        printed, code = on_cluster("-c", PROGRAM, *words, "--reservation", "upgrade")
        assert code == 0, printed
        site = tmp_path / "site-configs" / "held.py"
        assert 'reservation="upgrade",' in site.read_text()
        known = json.loads(site.with_suffix(".json").read_text())["partitions"]["batch"]
        assert set(known["boot"]) == {"c01", "c02"}
    finally:
        scontrol("delete", name)


@pytest.mark.testbed
def test_jobs_of_another_cluster_go_there(cluster, on_cluster, tmp_path):
    words = ("site", "new", "away", "--account", "physics", "--cluster")
    printed, code = on_cluster("-c", PROGRAM, *words, "nowhere")
    assert code == 3
    assert "'nowhere' can't be" in printed
    printed, code = on_cluster("-c", PROGRAM, *words, "annex")
    assert code == 0, printed
    site = tmp_path / "site-configs" / "away.py"
    known = json.loads(site.with_suffix(".json").read_text())
    assert known["scheduler"]["cluster"] == "annex"
    assert {name: set(part["boot"]) for name, part in known["partitions"].items()} == {
        "far": {"d01"}
    }
    assert not_ok(on_cluster, site) == set()


@pytest.mark.testbed
def test_a_bad_node_is_drained_and_returned_once_a_run_passes(cluster):
    def ran(*words, **variables):
        environ = {**cluster.environment(), **variables}
        line = cluster.command(words)
        return subprocess.run(line, env=environ, capture_output=True, text=True)

    def reasons():
        """A star is at a node that has not answered since its state changed."""
        rows = ran("sinfo", "-h", "-N", "-p", "batch", "-o", "%N %t %E").stdout
        return rows.replace("* ", " ").splitlines()

    actions = Path(paths.ROOT / "site-configs" / "actions")
    drain, recheck = str(actions / "drain"), str(actions / "recheck")
    why = "bisection: 8 jobs on it took 43% longer"
    bad = {"BISECTION_NODE": "c02", "BISECTION_WHY": why}
    assert ran(drain, **bad).returncode == 0
    assert reasons() == ["c01 idle none", f"c02 drain {why}"]
    again = {"BISECTION_NODE": "c02.lab.org", "BISECTION_WHY": "another"}
    assert ran(drain, **again).stdout == "c02 is drained\n"
    assert ran(drain, **{**bad, "BISECTION_NODE": "c9"}).returncode == 1
    assert ran(recheck, "c02", "lab:batch", BISECTION="/bin/false").returncode == 1
    assert reasons()[1] == f"c02 drain {why}"
    assert ran(recheck, "c02", "lab:batch", BISECTION="/bin/true").returncode == 0
    assert reasons()[1].startswith("c02 idle")
    ran("scontrol", "update", "nodename=c01", "state=drain", "reason=DIMM")
    refused = ran(recheck, "c01", "lab:batch", BISECTION="/bin/true")
    assert (refused.returncode, reasons()[0]) == (2, "c01 drain DIMM")
    assert "not drained by bisection: DIMM" in refused.stderr
    ran("scontrol", "update", "nodename=c01", "state=resume")
    assert "bisection" not in ran("scontrol", "show", "reservation").stdout


def not_ok(on_cluster, site):
    """Partition and probe of what `site check` finds wrong; a busy host is slow at times."""
    program = Path(__file__).with_name("checked_site.py")
    results, code = on_cluster(str(program), str(site))
    assert code == 0, results
    rows = [row for row in json.loads(results) if row[2] != "ok" and row[1] != "speed"]
    return {(partition, probe) for partition, probe, *_ in rows}
