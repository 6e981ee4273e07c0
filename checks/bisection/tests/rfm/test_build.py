"""Builds of real runs, by a CMake that puts the fake kernels where the real one would."""

import json
import os
import re
import shutil
from types import SimpleNamespace

import fake_spack
import pytest
import reframe
from reframe.core.schedulers.pbs import PbsJobScheduler
from running import HERE, ONE, command, enter_cluster, fake_program, git, load_site, run_command

from bisection.kernels import sources
from bisection.rfm import internals

CMAKE = """case $1 in
    --build) echo built >>"$BISECTION_HOME/builds" ;;
    --install)
        mkdir "$4/bin"
        for kernel in transpose pairs patterns noise congestion npar md halo tasks patches; do
            cp "$FAKE/bin/bisection-$kernel" "$4/bin"
        done ;;
    *) echo "fake:FILEPATH=$0" >build/CMakeCache.txt ;;
esac"""


@pytest.fixture
def tools(fake, tmp_path, monkeypatch):
    """A folder on PATH, with cmake."""
    tools = tmp_path / "tools"
    tools.mkdir()
    command(tools, "cmake", CMAKE)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE", str(fake))
    return tools


def test_kernels_are_built_once_and_the_run_reports_it(fake, tools, tmp_path, monkeypatch):
    """In a folder where ReFrame alone would not start."""
    home = tmp_path / "Meine Prüfung's"
    home.mkdir()

    def run(*arguments):
        result = run_command(home, "quick", "--verbose", *ONE, *arguments)
        assert result.code == 0, result.text
        builds = (home / "builds").read_text().splitlines()
        notes = [line for line in result.text.splitlines() if line.startswith("kernels: ")]
        first, *later = [c["remark"] for c in result.verdict["cases"] if c["check"] == "Build"]
        assert notes == ([f"kernels: {first}"] if first else [])
        assert all(later)
        return len(builds), first

    assert run("--reruns=1") == (1, "")
    builds, note = run()
    assert builds == 1
    assert re.fullmatch(r"as built 20\d\d-\d\d-\d\d \d\d:\d\d UTC", note)
    monkeypatch.setenv("CFLAGS", "-O1")
    assert run() == (2, "")


SITE = """
from reframe.utility import import_module_from_file
site_configuration = import_module_from_file("{slurm_site}").site_configuration
for partition in site_configuration["systems"][0]["partitions"]:
    partition["extras"] |= {extras}
    # Two threads per core, as /sys has it; Slurm may count one CPU of each.
    cpus = [name for name in partition["processor"] if name.startswith("num_cpus")]
    partition["processor"] |= {{name: 2 * partition["processor"][name] for name in cpus}}
"""


@pytest.mark.parametrize("march", [None, "znver4"])
def test_kernels_are_for_the_processor_of_the_partition(fake, tools, tmp_path, monkeypatch, march):
    """By a build on one of its nodes, unless the site file names it; within the queue's limit."""
    enter_cluster(monkeypatch, tmp_path)
    site = tmp_path / "slurm_site.py"
    extras = {"max_time": 600, **({"march": march} if march else {})}
    site.write_text(SITE.format(slurm_site=HERE / "slurm_site.py", extras=extras))
    run = run_command(tmp_path, "quick", *ONE, "--system", f"{site}:slurm")
    assert run.code == 0, run.text
    (script,) = (run.folder / "kernels").glob("*.build.sh")
    jobs = [json.loads(file.read_text()) for file in (tmp_path / "jobs").glob("*.json")]
    assert {job["time"] for job in jobs} == {"0:10:0"}
    built_there = [job for job in jobs if job["error"].endswith("rfm_build.err")]
    assert len(jobs) - len(built_there) == 1
    if march:
        assert not built_there
        assert f"-DBX_MARCH={march}" in script.read_text()
    else:
        assert [job["state"] for job in built_there] == ["COMPLETED"]
        machine = load_site("common").this_machine()
        cores = machine["num_cpus"] // machine["num_cpus_per_core"]
        assert f"#SBATCH --cpus-per-task={cores}\n" in script.read_text()
        assert "BX_MARCH" not in script.read_text()


def test_kernels_of_other_sources_are_refused_unless_stale_says_so(bisection, fake, tmp_path):
    others, now = shutil.copytree(fake, tmp_path / "others"), sources.of_checkout()
    for kernel in (others / "bin").iterdir():
        kernel.write_text(kernel.read_text().replace(now, "5" * 64))
    says = f"other sources (555555555555) than this checkout's ({now[:12]})"

    refused = bisection("-S", f"Build.kernels={others}")
    assert refused.code == 3
    assert refused.case("p2p")["verdict"] == "not measured"
    assert "not measured: Build (system)" in refused.said
    assert f"{says}; --stale accepts it" in refused.said
    accepted = bisection("-S", f"Build.kernels={others}", "--stale")
    assert accepted.code == 0, accepted.text
    assert f"{says}; accepted by --stale" in accepted.said


def test_internals_were_written_for_this_reframe():
    assert internals.WRITTEN_FOR == reframe.VERSION


def test_scripts_of_pbs_change_to_a_folder_with_a_blank():
    internals.start_scripts_below_blanks()
    scheduler = object.__new__(PbsJobScheduler)
    scheduler._prefix, scheduler._sched_access_in_submit = "#PBS", False
    names = {"name": "x", "stdout": "rfm.out", "stderr": "rfm.err", "workdir": "/home/Mein Ordner"}
    none = dict.fromkeys(("time_limit", "num_tasks"))
    options = {"sched_access": [], "options": [], "cli_options": []}
    lines = scheduler.emit_preamble(SimpleNamespace(**names, **none, **options))
    assert lines[-1] == "cd '/home/Mein Ordner'"


SPEC = {"name": "bisection-kernels", "version": "develop", "dependencies": []}
LOCK = {"roots": [{"hash": "r"}], "concrete_specs": {"r": SPEC}}


@pytest.fixture
def spack(tmp_path, monkeypatch):
    """A clone of the fake Spack, which "compiles" the fake kernel."""
    root = tmp_path / "spack"
    fake_spack.make(root, json.dumps(LOCK), tmp_path / "kernel.py")
    (root / "recipes" / "recipe.py").touch()
    (tmp_path / "kernel.py").write_text(fake_program())
    for words in ("init --quiet", "add .", "commit --quiet -m first"):
        git(root, *words.split())
    monkeypatch.setenv("SPACK_ROOT", str(root))
    monkeypatch.setenv("SPACK_PYTHON", shutil.which("true"))  # has any module
    monkeypatch.delenv("BISECTION_SPACK_PACKAGES_URL", raising=False)
    return root


def test_results_of_spack_have_lock_commits_and_modules(fake, spack, tmp_path, monkeypatch):
    """Those of a pass, and those of a build that failed."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("LOADEDMODULES", "toolchain/2025:openmpi/5.0")
    run = run_command(home, "quick", "-p", "spack", *ONE)
    assert run.code == 0, run.text
    facts = [launch["facts"] for launch in run.verdict["launches"]]
    (kept,) = (home / "locks").iterdir()
    assert json.loads(kept.read_text()) == LOCK
    wanted = {
        "lock": kept.stem,
        "software": facts[0]["software"],
        "Spack": git(spack, "rev-parse", "HEAD"),
        "modules": "toolchain/2025, openmpi/5.0",
    }
    assert facts[0] == {**wanted, "Spack packages": wanted["Spack"]}
    assert len(facts) == 2
    assert facts[0].items() <= facts[1].items()  # the launch's
    (result,) = (run.folder / "kernels").glob("transpose-*.json")
    assert json.loads(result.read_text())["labels"]["spack"] == wanted["Spack"]

    (tmp_path / "kernel.py").write_text("broken")
    shutil.rmtree(spack / "opt")
    run = run_command(home, "quick", "-p", "spack", *ONE)
    assert run.code == 3, run.text
    assert "main.c:1: error: broken" in run.text
    assert [launch["facts"] for launch in run.verdict["launches"]] == [facts[0], {}]
