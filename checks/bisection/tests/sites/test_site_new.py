"""`site new` with Slurm's commands faked and its trial jobs made up."""

import os
import re
import shutil
import sys
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from made_cluster import node
from running import SITES, command, load_site
from validated import valid

from bisection.commands import site_new
from bisection.core import launchers, paths
from bisection.core.identity import Geometry
from bisection.core.reasons.launches import Blocked, CoreShared, Misplaced, NoWorld, Worlds
from bisection.sites import rules, site_files
from bisection.sites.cluster import draft, facts
from bisection.sites.cluster.trial import LauncherResult, Trial

OUTPUTS = Path(__file__).parents[1] / "schedulers" / "slurm"
# Recorded with Slurm 22.05.8, and shortened to what is read.
CONFIG = """\
Configuration data as of 2026-11-22T08:00:00
AccountingStorageEnforce = {enforce}
ClusterName             = vcluster
MpiDefault              = pmix
TaskPlugin              = {plugin}
SLURM_VERSION           = 22.05.8

Slurmctld(primary) at head is UP
"""
CLUSTER = (OUTPUTS / "22.05-vcluster.txt").read_text()
ETHERNET = {"name": "eth0", "kind": "ethernet", "rate": 0.0, "state": "up"}
INFINIBAND = {"name": "mlx5_0", "kind": "infiniband", "rate": 200.0, "state": "active"}
CORES = {"num_cpus": 2, "num_cpus_per_core": 1, "num_cpus_per_socket": 2, "num_sockets": 1}
PROCESSOR = {**CORES, "topology": {"cores": ["0x1", "0x2"], "numa_nodes": ["0x3"]}}
PAGE = SITES.parent / "checks" / "docs" / "new-site.md"
BLOCKED = Blocked(job="1", waited=600.0, reason="Priority")


class Machine:
    """A Slurm whose commands print what they are given, and trial jobs that find what is right."""

    def __init__(self, folder, patch):
        self.folder, self.jobs, self.command = folder, [], partial(command, folder)
        self.wrong = {}  # launcher and options -> Reason
        self.faults = []  # of the first jobs
        self.networks = [ETHERNET]
        self.carried = {"eth0": 1.0}
        self.slow = 0  # further trials in a bad moment
        for name in ("sbatch", "srun", "sacct", "sacctmgr", "mpicc"):
            self.command(name, "exit 1")
        self.command("srun", "printf 'MPI plugin types are...\\n\\tpmix\\n\\tpmi2\\n'")
        self.command("mpirun", "echo 'mpirun (Open MPI) 4.1.4'")
        self.command("pkg-config", "echo 1.0")
        # Neither the compilers of this host nor a Spack are asked.
        patch.setattr(site_new, "environment_for", lambda name, prefix: f"# {name} over {prefix}\n")
        self.cluster(CLUSTER)
        patch.setenv("PATH", f"{folder}:{Path(sys.executable).parent}:/usr/bin:/bin")
        patch.delenv("LOADEDMODULES", raising=False)
        patch.delenv("LMOD_CMD", raising=False)
        patch.setattr(draft, "try_queue", self.try_queue)

    def cluster(self, text, enforce="none", plugin="task/affinity"):
        (self.folder / "config").write_text(CONFIG.format(enforce=enforce, plugin=plugin))
        (self.folder / "cluster").write_text(text)
        cases = "case $2 in config) cat config ;; *) cat cluster ;; esac"
        self.command("scontrol", f"cd {self.folder}; {cases}")

    def try_queue(self, request, launchers, modules):
        self.jobs.append((request, list(launchers), list(modules)))
        trial, names = Trial(str(len(self.jobs))), ["n1", "n2", "n3", "n4"][: request.shape.nodes]
        self.slow -= 1
        if self.faults:
            trial.fault = self.faults.pop()
            return trial
        facts = {"boot": 1795294411, "networks": self.networks, "processor": PROCESSOR}
        trial.nodes = [{**node(name), **facts, "system": "x"} for name in names]
        latency, bandwidth = (1e-3, 1e8) if self.slow >= 0 else (2e-5, 1e9)
        sent = {"latency": latency, "bandwidth": bandwidth, "carried": self.carried}
        where = (request.shape, [(name, "0") for name in names], "Open MPI")
        trial.outcomes = [
            LauncherResult(launcher, *where, fault=self.wrong.get(str(launcher)), **sent)
            for launcher in launchers
        ]
        return trial


@pytest.fixture
def machine(house, tmp_path_factory, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return Machine(tmp_path_factory.mktemp("bin"), monkeypatch)


@pytest.fixture
def new_site(machine, house, command_line):
    """new_site(*arguments): (what was printed, text of NAME.py); it ends with the exit code."""

    def run(*arguments, name="vc", code=0):
        ended, out, err = command_line("site", "new", name, *arguments)
        assert ended == code
        file = house / "site-configs" / f"{name}.py"
        return out + err, file.read_text() if file.exists() else ""

    return run


def words_of(text):
    """The words of a site file, with its comments on one line."""
    return " ".join(text.replace("#", "").split())


def loads(name="vc"):
    """The partitions of a site, which has no defects."""
    loaded = site_files.load_site(name)
    assert not any(rules.site_defects(loaded))
    return {part["name"]: part for part in loaded.partitions}


def known(house, name="vc"):
    return valid(facts.read(house / "site-configs" / f"{name}.json"), "site")["partitions"]


def test_the_whole_file(new_site, machine, house):
    printed, text = new_site()
    example = re.search("```python\n(site_configuration.*?)```", PAGE.read_text(), re.DOTALL)
    assert text[text.index("site_configuration") :] == example[1]
    assert text.startswith('"""vc: Slurm 22.05.8, cluster vcluster. Written by `bisection site new')
    assert "srun starts one world of 2 ranks; 20 us, 1 GB/s through eth0 100%" in printed
    request, launchers, _ = machine.jobs[0]
    assert (request.name, request.shape) == ("duo", Geometry(2, 1, 1))
    assert request.access == ["--partition=duo", "--exclusive", "--mem=0"]
    assert [launcher.name for launcher in launchers] == ["srun", "srun", "mpirun"]
    assert launchers[1].binding[:2] == ["--mpi=pmi2", "--cpu-bind=cores"]
    assert request.variables == {}
    assert facts.VERSION == load_site("common_cluster").FACTS_VERSION
    partitions = known(house)
    assert partitions["duo"]["processor"]["num_cpus"] == 1  # Slurm's, not the node's
    assert partitions["quad"]["boot"] == dict.fromkeys(("n1", "n2", "n3", "n4"), 1795294411)
    asked = {job[0].name: list(job[0].access) for job in machine.jobs}
    access = {name: part["access"] for name, part in loads().items()}
    assert list(access) == ["duo", "quad-1", "quad-2", "quad-4"]
    assert asked == {"duo": access["duo"], "quad": access["quad-4"]}  # as launches will


def test_dry_run_submits_and_writes_nothing(new_site, machine, house):
    before = sorted(house.rglob("*"))
    printed, text = new_site("--dry-run", "--nodes", "3", "--queue", "quad", code=1)
    assert (text, machine.jobs) == ("", [])
    assert sorted(house.rglob("*")) == before
    assert "# DECIDE: no job ran (--dry-run): launchers are not proven\n" in printed
    assert 'common.partition("quad", nodes=3, launcher="srun"),' in printed
    assert '"duo"' not in printed


@pytest.mark.parametrize(
    ("arguments", "name", "words"),
    [
        (["--queue", "gpu"], "vc", "--queue gpu: unknown; there are duo, quad"),
        (["--nodes", "0"], "vc", "'0' is not a whole number above 0"),
        ([], "../x", "'../x' is no name"),
        ([], "common", "'common' is no name"),
        (["--refresh"], "vc", "--refresh: there is no site-configs/vc.py"),
        (["--refresh", "--account", "a"], "vc", "--refresh takes no --account"),
        (["--refresh", "--dry-run"], "vc", "not allowed with argument"),
        ([], "bad", "bad.py exists and is not overwritten. Remove it to begin anew"),
        (["--refresh"], "bad", "site-configs/bad.py does not load: ModuleNotFoundError"),
        (["--refresh"], "localhost", "localhost.py has no facts: it is not made by common.slurm"),
    ],
)
def test_wrong_arguments(new_site, house, arguments, name, words):
    bad = house / "site-configs" / "bad.py"
    bad.write_text("import nothing_of_this_name\n")
    printed, _ = new_site(*arguments, name=name, code=2)
    assert bad.read_text() == "import nothing_of_this_name\n"
    assert words in printed


def test_a_folder_of_others_is_refused_before_any_job(new_site, machine, monkeypatch):
    monkeypatch.setattr(paths, "unwritable", lambda folder: f"cannot write to {folder}: no")
    printed, _ = new_site(code=2)
    assert "site-configs: no; run it as the owner of that folder, or in a clone" in printed
    assert machine.jobs == []


def test_the_first_launcher_that_is_right(new_site, machine):
    worlds = Worlds(launcher="srun", worlds=2, size=1, asked=2)
    machine.wrong = {"srun": worlds}
    _, text = new_site("--queue", "duo")
    assert 'nodes=2, launcher="srun", options=["--mpi=pmi2"], exclusive=True)' in text
    said = "30 min at most; mpirun starts one world too; srun started 2 MPI worlds of 1"
    assert said in words_of(text)
    machine.wrong["srun --mpi=pmi2"] = worlds
    _, text = new_site("--queue", "duo", name="vd")
    assert 'common.partition("duo", nodes=2, launcher="mpirun", exclusive=True),' in text
    machine.wrong["mpirun"] = NoWorld(launcher="mpirun", line="not built")
    printed, text = new_site("--queue", "duo", name="ve", code=1)
    assert "# DECIDE: duo: no launcher is right. srun started 2 MPI worlds of" in text
    assert "of 2; srun --mpi=pmi2 started 2" in words_of(text)
    assert "decide: duo: no launcher is right." in printed


def test_a_slurm_that_binds_nothing(new_site, machine):
    shared = CoreShared(host="n", text="rank 1 on n (cpus 0) shares a core with rank 0 on n")
    fault = Misplaced(seats=(shared,))
    machine.wrong = {"srun": fault, "srun --mpi=pmi2": fault}
    machine.cluster(CLUSTER, plugin="(null)")
    _, text = new_site("--queue", "duo")
    assert 'launcher="mpirun"' in text
    says = "srun: Slurm binds no rank to a core: slurm.conf has TaskPlugin=task/none"
    assert says in words_of(text)


def test_a_job_that_did_not_run(new_site, machine, house):
    machine.faults = [BLOCKED] * 2
    printed, text = new_site(code=1)
    assert "DECIDE: duo: no launcher is proven. BLOCKED: job 1 was not started" in words_of(text)
    assert text.count("# DECIDE: ") == 2
    assert "duo: job 1: no launcher is proven\n" in printed
    # Once, where it is so in several queues.
    assert "decide: duo, quad: no launcher is proven. BLOCKED: job 1 was not started" in printed
    wanted = {"num_cpus": 1, "num_cpus_per_core": 1, "num_cpus_per_socket": 1, "num_sockets": 1}
    assert known(house)["duo"]["processor"] == wanted


def test_a_fast_network_that_carries_nothing(new_site, machine):
    machine.networks = [ETHERNET, INFINIBAND]
    _, text = new_site("--queue", "duo", code=1)
    assert "# DECIDE: duo: messages went through eth0, though mlx5_0 is up" in text
    machine.networks = [ETHERNET, {**INFINIBAND, "kind": "roce"}]  # a card that may do RoCE
    new_site("--queue", "duo", name="vb")
    machine.networks, machine.carried = [ETHERNET, INFINIBAND], {"mlx5_0": 0.98}
    _, text = new_site("--queue", "duo", name="vd")
    assert "# 2 nodes of 1 core, infiniband 200 Gb/s, 30 min at most; mpirun starts" in text


def test_unlike_nodes_spare_cores_and_nodes_that_are_down(new_site, machine, house):
    machine.cluster((OUTPUTS / "22.05-unlike.txt").read_text())
    printed, text = new_site(code=1)
    assert "left out: queue down: it has State=INACTIVE" in printed
    assert 'constraint="thin"' in text
    assert 'constraint="fat"' in text
    assert "down: node4 (bad DIMM, ticket=4711)" in words_of(text)
    assert "# DECIDE: shared: jobs of this queue share cores" in text
    cores = {name: part["processor"]["num_cpus"] for name, part in known(house).items()}
    assert cores == {"mixed-thin": 1, "mixed-fat": 2, "shared": 2}
    assert {job[0].name: job[0].shape.nodes for job in machine.jobs}["mixed-fat"] == 1
    machine.cluster((OUTPUTS / "25.05-grace.txt").read_text())
    _, text = new_site("--queue", "mix", name="vd", code=1)
    assert "# DECIDE: queue mix has other nodes beside 4 nodes of 284 cores and gpu:4" in text


def test_gpus_of_a_queue_are_in_the_site_file_and_jobs_ask_for_them(new_site, machine):
    machine.cluster((OUTPUTS / "25.05-grace.txt").read_text())
    _, text = new_site("--queue", "normal", name="vg")
    assert 'devices=[{"type": "gpu", "num_devices": 4}]' in text
    assert "--gres=gpu:4" in machine.jobs[0][0].access


@pytest.mark.parametrize(
    ("gres", "count"),
    [
        ("", 0), ("gpu:4", 4), ("gpu:mi250:8", 8), ("gpu:a100:2,gpu:v100:3", 5), ("ngpus:2", 2),
        ("craynetwork:4", 0), ("nic:1,gpu:2", 2), ("gpu:a100_3g.20gb:7(S:0-1)", 7), ("mygpu:3", 0),
    ],
)  # fmt: skip
def test_gpus_by_the_words_of_schedulers(gres, count):
    wanted = [{"type": "gpu", "num_devices": count}] if count else []
    assert facts.devices(gres) == wanted


def test_queues_whose_names_are_one_to_reframe(new_site, machine, house):
    """Each keeps a partition of its own; with one of several sizes, `duo` has the name `duo-2`."""
    duo, quad, *nodes = CLUSTER.splitlines()
    lines = [duo.replace("=duo ", f"={name} ") for name in ("big.mem", "big_mem", "4.a")]
    lines += [quad.replace("=quad ", "=duo "), duo.replace("=duo ", "=duo-2 "), *nodes]
    there = "Partitions=big.mem,big_mem,4.a,duo,duo-2"
    machine.cluster(re.sub(r"Partitions=\S+", there, "\n".join(lines)))
    printed, text = new_site("--nodes", "2")
    queues = dict(re.findall(r'common.partition\("([^"]+)"(?:, queue="([^"]+)")?', text))
    assert queues == {"big_mem_2": "big.mem", "big_mem": "", "_4_a": "4.a", "duo": "", "duo-2": ""}
    assert "queue big.mem: called big_mem_2, as big_mem is the name of another" in printed
    assert 'common.partition("big_mem_2", queue="big.mem", nodes=2' in text
    access = {name: part["access"][0] for name, part in loads().items()}
    assert access == {name: f"--partition={queue or name}" for name, queue in queues.items()}
    stored = {name: facts["queue"] for name, facts in known(house).items()}
    assert stored == {name: queue or name for name, queue in queues.items()}
    _, text = new_site(name="vd")
    assert 'common.partition("duo", nodes=[1, 2, 4], ' in text
    assert "called duo-2_2, as duo-2 is the name of another partition" in words_of(text)
    assert len(loads("vd")) == 15


def test_a_first_try_that_failed_is_replaced_while_nobody_changed_it(new_site, machine, house):
    machine.faults = [BLOCKED]
    _, failed = new_site("--queue", "duo", code=1)
    assert "DECIDE: duo: no launcher is proven" in words_of(failed)
    _, text = new_site("--queue", "duo", "--account", "physics")
    assert ('account="physics"' in text, "DECIDE" in text) == (True, False)
    assert known(house).keys() == {"duo"}
    printed, kept = new_site("--account", "chemistry", code=2)  # nothing is left to decide
    assert "vc.py exists and is not overwritten" in printed
    assert kept == text
    machine.faults = [BLOCKED]
    new_site("--queue", "duo", name="vd", code=1)
    file = house / "site-configs" / "vd.py"
    file.write_text(file.read_text() + "# mine\n")
    printed, kept = new_site("--account", "physics", name="vd", code=2)
    assert "vd.py exists and is not overwritten" in printed
    assert kept.endswith("# mine\n")
    printed, _ = new_site("--refresh", name="vd")
    assert "draft" not in printed


def test_accounts(new_site, machine):
    machine.cluster(CLUSTER, enforce="associations,limits")
    elsewhere = '*onlydefaults*) ;; *cluster=vcluster*) printf "a1\\na2\\n" ;; *) echo a9 ;;'
    machine.command("sacctmgr", f'case "$*" in {elsewhere} esac')
    _, text = new_site("--queue", "duo", code=1)
    assert "no default one: account= one of a1, a2" in text
    _, text = new_site("--queue", "duo", "--account", "a2", "--qos", "debug", name="vd")
    assert '    account="a2",\n    qos="debug",\n' in text
    asked = machine.jobs[-1][0].access
    assert {"--account=a2", "--qos=debug"} < set(asked)
    assert loads("vd")["duo"]["access"] == asked
    new_site("--refresh", name="vd")
    assert machine.jobs[-1][0].access == asked


def test_modules_that_are_loaded(new_site, machine, monkeypatch):
    monkeypatch.setenv("LMOD_CMD", "/opt/lmod/libexec/lmod")
    monkeypatch.setenv("LOADEDMODULES", "gcc/13.2:openmpi/5.0")
    _, text = new_site("--queue", "duo")
    assert '    modules=["gcc/13.2", "openmpi/5.0"],  # that were loaded\n' in text
    assert machine.jobs[0][2] == ["gcc/13.2", "openmpi/5.0"]


def test_what_is_missing_on_path(new_site, machine):
    machine.command("pkg-config", "exit 1")
    (machine.folder / "mpicc").unlink()
    os.environ["PATH"] = str(machine.folder)
    for name in ("cat", "sh"):
        (machine.folder / name).symlink_to(shutil.which(name, path="/usr/bin:/bin"))
    _, text = new_site("--queue", "duo", code=1)
    assert "# DECIDE: neither mpicc nor cc is on PATH" in text
    assert "# DECIDE: pkg-config does not find FFTW" in text


def test_a_controller_that_does_not_answer(new_site, machine):
    machine.command("scontrol", "echo 'slurm_load_ctl_conf error: Connection refused' >&2; exit 1")
    printed, text = new_site(code=3)
    assert text == ""
    assert "Slurm is installed and does not answer. scontrol: slurm_load" in printed


def test_refresh_keeps_choices_and_prints_what_changed(new_site, machine, house):
    new_site()
    file = house / "site-configs" / "vc.py"
    mine = file.read_text().replace('"quad", nodes=[1, 2, 4]', '"big", queue="quad", nodes=4')
    mine = mine.replace("exclusive=True", 'qos="high"')
    file.write_text(mine)
    machine.jobs.clear()
    machine.networks, machine.carried = [INFINIBAND], {"mlx5_0": 1.0}
    printed, text = new_site("--refresh")
    assert text == mine
    duo = next(job for job in machine.jobs if job[0].name == "duo")
    assert duo[0].access == ["--partition=duo", "--qos=high"]
    assert [launcher.name for launcher in duo[1]] == ["srun"]
    assert "partitions.duo.carried.mlx5_0: not there -> 1" in printed
    assert "partitions.quad.queue: quad -> not there" in printed
    assert "written" not in printed
    assert "duo.latency" not in printed
    assert list(loads()) == ["duo", "big"]


@pytest.mark.parametrize(
    ("slow", "faults", "latency"), [(1, [], 2e-5), (2, [], 1e-3), (0, [BLOCKED], 2e-5)]
)
def test_refresh_does_not_record_a_bad_moment(new_site, machine, house, slow, faults, latency):
    new_site("--queue", "duo")
    machine.slow, machine.faults = slow, [*faults]
    printed, _ = new_site("--refresh")
    assert "not as recorded, tried a second time: duo\nduo: job 3: srun starts one world" in printed
    assert known(house)["duo"]["latency"] == latency
    assert ("0 facts changed" in printed) == (latency == 2e-5)


def test_refresh_mends_broken_facts(new_site, house):
    new_site()
    (house / "site-configs" / "vc.json").write_text("{")
    printed, _ = new_site("--refresh")
    assert printed.splitlines()[-1] == "wrote site-configs/vc.json: made"
    assert known(house).keys() == {"duo", "quad"}


def test_the_spack_environment_of_the_site(new_site, machine, house, monkeypatch):
    printed, _ = new_site()
    assert "wrote spack-env/vc/spack.yaml for -p spack" in printed
    text = (house / "spack-env" / "vc" / "spack.yaml").read_text()
    assert text == f"# vc over {machine.folder.parent}\n"
    assert site_files.load_site("vc").environs["spack"]["extras"] == {"spack_env": "vc"}

    refuse = Mock(side_effect=site_new.SpackError("mpicc -show names no compiler"))
    monkeypatch.setattr(site_new, "environment_for", refuse)
    printed, _ = new_site(name="ve")
    assert "no spack-env/ve/spack.yaml for -p spack: mpicc -show names no compiler" in printed


def without_slurm(machine):
    (machine.folder / "sbatch").unlink()
    os.environ["PATH"] = f"{machine.folder}:{Path(sys.executable).parent}"


def test_one_host_without_a_scheduler(new_site, machine, house):
    without_slurm(machine)
    printed, text = new_site(name="box")
    assert text.startswith('"""box: one host')
    assert not (house / "site-configs" / "box.json").exists()
    assert "wrote site-configs/box.py in" in printed
    assert loads("box")["default"]["extras"]["references"] == []


@pytest.mark.parametrize(
    ("program", "scheduler", "words"),
    [("bsub", "lsf", "DECIDE: LSF is not read"), ("flux", "flux", "DECIDE: Flux is not read")],
)
def test_a_scheduler_that_is_not_read(new_site, machine, program, scheduler, words):
    without_slurm(machine)
    machine.command(program, "exit 0")
    _, text = new_site(name="summit", code=1)
    assert f'scheduler="{scheduler}"' in text
    assert words in words_of(text)
    if scheduler != "flux":  # ReFrame loads it only where Flux's Python package is
        loads("summit")
        new_site("--refresh", name="summit")


# First lines as the launchers of Open MPI 4.1.4 and MPICH 4.0.2 print them here; those of Intel MPI
# and MVAPICH are composed after public documentation.
MPIS = {
    "mpirun (Open MPI) 4.1.4\n\nReport bugs to http": ("openmpi", "4.1.4"),
    "HYDRA build details:\n    Version:    4.0.2\n": ("mpich", "4.0.2"),
    "Intel(R) MPI Library for Linux* OS, Version 2021.13 Build": ("intel-mpi", "2021.13"),
    "something else": ("", ""),
}


def test_kinds_of_mpi_and_of_modules():
    assert {about: launchers.library_of(about) for about in MPIS} == MPIS
    environs = ["LMOD_CMD", "MODULESHOME"], ["MODULES_CMD", "MODULESHOME"], ["MODULESHOME"], []
    names = [draft.modules_system(dict.fromkeys(environ, "/x")) for environ in environs]
    assert names == ["lmod", "tmod4", "tmod32", "nomod"]


def test_measured_facts_may_differ_a_little():
    def site(latency, cores=2, boot=1, written="a"):
        duo = {"latency": latency, "cores": cores, "boot": {"n1": boot}}
        return {"written": written, "partitions": {"duo": duo}}

    assert facts.compare(site(2e-5), site(2.4e-5, boot=2, written="b")) == []
    assert facts.compare(site(2e-5), site(4e-5)) == [("partitions.duo.latency", 2e-5, 4e-5)]
    assert facts.compare(site(2e-5), site(2e-5, cores=1)) == [("partitions.duo.cores", 2, 1)]
