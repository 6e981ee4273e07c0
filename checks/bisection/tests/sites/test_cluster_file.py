"""Site files of clusters: NAME.py with the choices, NAME.json with the facts."""

import json
import os
import runpy
import subprocess
import sys

import pytest
from houses import told
from running import load_site

from bisection.core import paths
from bisection.sites import rules, site_files

SITE = '''"""vc: Slurm."""

from pathlib import Path

from reframe.utility import import_module_from_file

common = import_module_from_file(str(Path(__file__).with_name("common.py")))

site_configuration = common.slurm(
    __file__,
    partitions=[
        common.partition("duo", nodes=2, launcher="srun", exclusive=True),
        common.partition("quad", nodes=[1, 2, 4], launcher="mpirun"),
    ],
)
'''
CORES = {"num_cpus": 2, "num_cpus_per_core": 1, "num_cpus_per_socket": 2, "num_sockets": 1}
ALIKE = {"processor": CORES, "networks": [{"name": "eth0"}, {"name": "mlx5_0"}]}
FACTS = {
    "version": 1,
    "software": {"mpi": {"kind": "openmpi"}, "modules_system": "lmod"},
    "partitions": {
        "duo": {"queue": "duo", "nodes": 2, "max_time": 1800, **ALIKE},
        "quad": {"queue": "all", "nodes": 4, "whole_nodes": True, **ALIKE},
    },
}


@pytest.fixture
def cluster(house, monkeypatch):
    """cluster(old, new, **facts): the site vc in a small house, its file changed, and its facts."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    def write(old="", new="", **facts):
        assert old in SITE
        (house / "site-configs" / "vc.py").write_text(SITE.replace(old, new))
        (house / "site-configs" / "vc.json").write_text(json.dumps({**FACTS, **facts}))
        return house / "site-configs"

    return write


@pytest.fixture
def partitions(cluster):
    """partitions(old, new, **facts): those that ReFrame gets, by name."""

    def read(old="", new="", **facts):
        file = cluster(old, new, **facts) / "vc.py"
        (system,) = runpy.run_path(str(file))["site_configuration"]["systems"]
        return {part["name"]: part for part in system["partitions"]}

    return read


def test_choices_and_facts_make_partitions(partitions):
    parts = partitions()
    assert list(parts) == ["duo", "quad-1", "quad-2", "quad-4"]
    assert parts["duo"]["access"] == ["--partition=duo", "--exclusive", "--mem=0"]
    assert parts["quad-2"]["access"] == ["--partition=all", "--exclusive", "--mem=0"]
    assert [part["extras"]["nodes"] for part in parts.values()] == [2, 1, 2, 4]
    assert parts["duo"]["extras"]["max_time"] == 1800
    assert parts["quad-1"]["extras"].keys().isdisjoint({"max_time", "network"})
    for part in parts.values():
        assert part["processor"] == CORES
        assert part["sched_options"]["use_nodes_option"] is True
        assert "ReqNodeNotAvail" in part["sched_options"]["slurm_job_cancel_reasons"]
        assert part["env_vars"] == []
        assert part.keys().isdisjoint({"queue", "nodes", "options", "binding", "line"})


def test_words_of_a_partition(partitions):
    words = (
        'queue="gpu", account="a2", qos="high", reservation="r", constraint="bigmem", '
        'options=["--mpi=pmi2"], modules=["gcc"], environs=["system"], references=["ratio"], '
        'access=["--licenses=x"], time_limit="5m", extras={"march": "znver4"}, network=["mlx5_0"]'
    )
    duo = partitions("exclusive=True", words)["duo"]
    options = "partition=gpu account=a2 qos=high reservation=r constraint=bigmem licenses=x"
    assert duo["access"] == [f"--{option}" for option in options.split()]
    assert duo["extras"] == {
        "nodes": 2,
        "binding": ["--mpi=pmi2", "--cpu-bind=cores", "--cpus-per-task={threads}"],
        "references": ["ratio"],
        "max_time": 1800,
        "march": "znver4",
        "network": ["mlx5_0"],
    }
    assert (duo["modules"], duo["environs"], duo["time_limit"]) == (["gcc"], ["system"], "5m")


BINDINGS = {  # kind of MPI, launcher -> its first option
    ("openmpi", "mpirun"): "--map-by ppr:{ranks_per_node}:node:PE={threads}",
    ("mpich", "mpirun"): "-ppn {ranks_per_node}",
    ("intel-mpi", "mpiexec"): "-ppn {ranks_per_node}",
    ("mpich", "srun"): "--cpu-bind=cores",
}


def test_binding_is_of_launcher_and_mpi(partitions):
    for (kind, launcher), first in BINDINGS.items():
        parts = partitions('"srun"', f'"{launcher}"', software={"mpi": {"kind": kind}})
        assert parts["duo"]["extras"]["binding"][0] == first


OF_SITE = 'file__, account="a",'


@pytest.mark.parametrize(
    ("old", "new", "name", "access"),
    [
        ("exclusive=True", 'account="own"', "duo", "--partition=duo --account=own"),
        ("nodes=[1, 2, 4]", "nodes=4, exclusive=False", "quad", "--partition=all"),
        ("file__,", OF_SITE, "duo", "--partition=duo --exclusive --mem=0 --account=a"),
        ("file__,", OF_SITE + 'scheduler="pbs",', "duo", "-q duo -l place=scatter:excl -A a"),
        ("file__,", OF_SITE + 'scheduler="flux",', "duo", "--queue=duo --exclusive --bank=a"),
    ],
)
def test_what_a_scheduler_is_asked_for(partitions, old, new, name, access):
    assert " ".join(partitions(old, new)[name]["access"]) == access


@pytest.mark.parametrize(
    ("scheduler", "asked"),
    [("slurm", "--gres=gpu:6"), ("pbs", "ngpus=6"), ("flux", "--gpus-per-slot=6")],
)
def test_devices_are_asked_for(partitions, scheduler, asked):
    gpus = 'devices=[{"type": "gpu", "num_devices": 4}, {"type": "gpu", "num_devices": 2}])'
    duo = SITE[SITE.index("    __file__") : SITE.index("exclusive=True)")]
    ours = duo.replace("file__,", f'file__, scheduler="{scheduler}",') + gpus
    assert partitions(f"{duo}exclusive=True)", ours)["duo"]["access"][-1] == asked


def test_the_reservation_of_a_run_goes_before_that_of_the_file(partitions, monkeypatch):
    words = 'file__, reservation="of_file",', "--partition=duo --exclusive --mem=0 --reservation="
    monkeypatch.setenv(paths.RESERVATION, "")
    assert " ".join(partitions("file__,", words[0])["duo"]["access"]) == words[1] + "of_file"
    monkeypatch.setenv(paths.RESERVATION, "of_run")
    assert " ".join(partitions("file__,", words[0])["duo"]["access"]) == words[1] + "of_run"


@pytest.mark.parametrize(
    ("old", "new", "access"),
    [
        ("file__,", 'file__, cluster="annex",', "--partition=duo --exclusive --mem=0 --clusters="),
        ("exclusive=True", 'access=["--clusters=annex"]', "--partition=duo --clusters="),
    ],
)
def test_jobs_of_another_cluster_are_followed_there(partitions, old, new, access):
    """sacct is told, and nodes do not ask the database where their cluster is."""
    parts = partitions(old, new)
    assert " ".join(parts["duo"]["access"]) == access + "annex"
    assert parts["duo"]["sched_options"]["slurm_multi_cluster_mode"] == ["annex"]
    assert parts["duo"]["prepare_cmds"] == ["unset SLURM_CLUSTERS"]
    other = partitions()["duo"]
    assert "slurm_multi_cluster_mode" not in other["sched_options"]
    assert other["prepare_cmds"] == []


def test_own_binding_and_root(partitions, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    duo = partitions("exclusive=True", "binding=[]")["duo"]
    assert duo["extras"]["binding"] == []
    assert ["OMPI_ALLOW_RUN_AS_ROOT", "1"] in duo["env_vars"]


def test_modules_bring_their_system(cluster):
    cluster("__file__,", '__file__, modules=["gcc", "openmpi"],')
    assert site_files.load_site("vc").defects == []
    common = load_site("common")
    file = str(site_files.site_file("vc"))
    duo = common.partition("duo", 1, "srun")
    (system,) = common.slurm(file, partitions=[duo], modules=["gcc"])["systems"]
    assert (system["modules"], system["modules_system"]) == (["gcc"], "lmod")
    (system,) = common.slurm(file, partitions=[duo])["systems"]
    assert "modules_system" not in system


@pytest.mark.parametrize(
    ("old", "new", "where", "words"),
    [
        ('"quad"', '"quat"', "13", "'quat' has no facts in vc.json, only duo, quad: "),
        ("exclusive=True", "exclusife=True", "12", "exclusife is unknown; is it exclusive?"),
        ('launcher="srun"', 'luncher="srun"', "12", "luncher is unknown; is it launcher?"),
        ("exclusive=True", 'qeue="x"', "12", "partition 'duo': qeue is unknown; is it queue?"),
        ("exclusive=True", "max_job=2", "12", "max_job is unknown; is it max_jobs?"),
        ("exclusive=True", "xyzzy=2", "12", "partition 'duo': xyzzy is unknown\n"),
        (', launcher="srun"', "", "12", "partition 'duo' has no launcher"),
        ('"duo", nodes=2', '"duo"', "12", "partition 'duo' has no nodes"),
        ("nodes=[1, 2, 4]", "nodes=[]", "13", "partition 'quad' has no nodes"),
        ("__file__,", '__file__, acount="a",', "1", "the system: acount is unknown; is it account"),
        ("[1, 2, 4]", "[1, 0]", "13", "vc:quad-0: extras.nodes is 0: "),
        ("exclusive=True", 'options=["-n {cores}"]', "12", "extras.binding has {cores} in"),
        ("exclusive=True", 'qos="high"', "12", "partition 'duo': pbs has no qos"),
        ("exclusive=True", 'network=["ib0"]', "12", "network 'ib0' is none of eth0, mlx5_0"),
        ("__file__,", '__file__, scheduler="slum",', "1", "scheduler 'slum': there are slurm"),
        ('"srun"', '"sruhn"', "12", "sruhn"),
        ("common.partition", "common.partitions", "12", "no attribute 'partitions'"),
    ],
)
def test_defects_of_the_file_have_a_line(cluster, old, new, where, words):
    file = cluster(old, new) / "vc.py"
    if "pbs" in words:
        file.write_text(file.read_text().replace("__file__,", '__file__, scheduler="pbs",'))
    lines = told(rules.site_defects(site_files.load_site("vc")))
    assert f"site-configs/vc.py:{where}: " in lines
    assert words in f"{lines}\n"


QUAD_TWICE = (
    "'quad-2': 'quad-2' with nodes=1 in line 12, queue duo, "
    "and 'quad' with nodes=[1, 2, 4] in line 13"
)
DUO_TWICE = "'duo': 'duo' with nodes=2 in line 12, and 'duo' with nodes=4 in line 13, queue du.o"


def refused_by_reframe(folder):
    """What ReFrame prints where it does not take vc.py."""
    program = "import sys; from reframe.frontend.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "-C", str(folder / "vc.py"), "--show-config"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    return done.stderr


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('"duo", nodes=2', '"quad-2", queue="duo", nodes=1', QUAD_TWICE),
        ('"quad", nodes=[1, 2, 4]', '"duo", queue="du.o", nodes=4', DUO_TWICE),
    ],
)
def test_partitions_of_one_name_are_refused(cluster, command_line, old, new, says):
    """Results of one would be stored under the other."""
    partitions = FACTS["partitions"] | {"quad-2": FACTS["partitions"]["duo"]}
    folder, says = cluster(old, new, partitions=partitions), f"{says}; rename one"
    line = f"site-configs/vc.py:13: does not load: two partitions are called {says}"
    code, printed, _ = command_line("doctor", "--system", "vc")
    assert (code, printed.splitlines()[0]) == (2, line)
    code, _, errors = command_line("run", "--system", "vc")
    assert (code, errors) == (2, f"bisection run: error: {line}\n")
    assert f"two partitions are called {says}" in refused_by_reframe(folder)


def test_partitions_of_one_name_that_are_written_by_hand(house, command_line):
    file = house / "site-configs" / "localhost.py"
    text = file.read_text()
    begin = text.index('                {\n                    "name":')
    end = text.index("            ],")
    part = text[begin:end].rstrip()
    both = [part.replace('"max_jobs"', f'"access": ["-p {q}"], "max_jobs"') for q in ("a.b", "a_b")]
    file.write_text(text[:begin] + ",\n".join(both) + "\n" + text[end:])
    code, printed, _ = command_line("doctor", "--system", "localhost")
    assert (code, printed.count("\n")) == (2, 2)
    assert "two partitions are called 'default': -p a.b, and -p a_b; rename one" in printed


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (None, 1, "No such file or directory"),
        ('{"version": 1,\n "partitions": }', 2, "is not JSON (Expecting value: "),
        ("[]", 1, "has no facts of partitions"),
        ('{"version": 9, "partitions": {}}', 1, "version 9, where 1 is read"),
    ],
)
def test_broken_facts_are_one_clear_line(cluster, text, line, words):
    file = cluster() / "vc.json"
    file.unlink() if text is None else file.write_text(text)
    (defect,) = site_files.load_site("vc").defects
    assert told([defect]).startswith(f"site-configs/vc.json:{line}: does not load: {words}")
    assert told([defect]).endswith(": `bisection site new vc --refresh` writes it")
    if text is None:
        (error,) = refused_by_reframe(file.parent).splitlines()
        assert error.startswith(f"{file}:{line}: {words}")
