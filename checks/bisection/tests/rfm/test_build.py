"""Builds of real runs, by a CMake that puts the fake kernels where the real one would."""

import json
import shutil
from types import SimpleNamespace

import fake_spack
import pytest
import reframe
from reframe.core.schedulers.pbs import PbsJobScheduler
from running import ONE, SITES, fake_program, git, install_cmake, of_other_sources, run_command

from bisection.kernels import digests
from bisection.rfm import internals


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
MODULES = "toolchain/2025, openmpi/5.0"


def make_spack(patch, home):
    """A clone of the fake Spack, which "compiles" the fake kernel."""
    root = home / "spack-clone"
    fake_spack.make(root, json.dumps(LOCK), home / "kernel.py")
    (root / "recipes" / "recipe.py").touch()
    (home / "kernel.py").write_text(fake_program())
    for words in ("init --quiet", "add .", "commit --quiet -m first"):
        git(root, *words.split())
    patch.setenv("SPACK_ROOT", str(root))
    patch.setenv("SPACK_PYTHON", shutil.which("true"))  # has any module
    patch.delenv("BISECTION_SPACK_PACKAGES_URL", raising=False)


SITE = """
import copy
from reframe.utility import import_module_from_file
site_configuration = import_module_from_file("{localhost}").site_configuration
(spack,) = [e for e in site_configuration["environments"] if e["name"] == "spack"]
broken = {{**copy.deepcopy(spack), "name": "broken", "env_vars": [["BROKEN_INSTALL", "1"]]}}
site_configuration["environments"].append(broken)
site_configuration["systems"][0]["partitions"][0]["environs"] = ["system", "broken", "spack"]
"""


@pytest.fixture(scope="session")
def builds(fake, gallery):
    """Real for builds that fail, are refused, and pass: by Spack in the environments `broken` and
    `spack`, and by a CMake that installs kernels of other sources."""

    def run(home):
        site = home / "localhost.py"
        site.write_text(SITE.format(localhost=SITES / "localhost.py"))
        with pytest.MonkeyPatch.context() as patch:
            install_cmake(patch, home / "tools", of_other_sources(home, fake))
            make_spack(patch, home)
            patch.setenv("LOADEDMODULES", "toolchain/2025:openmpi/5.0")
            patch.setenv("CUDA_VISIBLE_DEVICES", "3,5,6")  # others in another job
            patch.setenv("NVIDIA_VISIBLE_DEVICES", "all")
            patch.setenv("ROCR_VISIBLE_DEVICES", "-1")
            patch.setenv("CUDA_MPS_PIPE_DIRECTORY", "/tmp/mps.4711")  # of a job
            patch.setenv("CUDA_HOME", "/opt/cuda")
            patch.setenv("HSA_XNACK", "1")
            patch.setenv("UCX_TLS", "rc,cuda")
            environs = ("-p", "system|broken|spack")
            return run_command(home, "quick", "--system", str(site), *environs, *ONE)

    return gallery("builds", run)


def test_results_of_spack_have_lock_commits_and_modules(builds):
    """Those of a pass, and those of a build that failed."""
    home = builds.folder.parents[1]
    assert builds.code == 3, builds.text
    assert builds.case("p2p", environ="spack")["verdict"] == "pass"
    assert builds.case("p2p", environ="broken")["verdict"] == "not measured"
    assert "main.c:1: error: broken" in builds.text
    facts = {
        (case["environ"], case["check"]): builds.verdict["launches"][case["launch"]]["facts"]
        for case in builds.verdict["cases"]
        if not case["method"]
    }
    (kept,) = (home / "locks").iterdir()
    assert json.loads(kept.read_text()) == LOCK
    built = facts["spack", "Build"]
    commit = git(home / "spack-clone", "rev-parse", "HEAD")
    wanted = {"lock": kept.stem, "Spack": commit, "Spack packages": commit}
    assert built == {**wanted, "software": built["software"], "modules": MODULES}
    assert built.items() <= facts["spack", "TransposeLaunch"].items()
    tuning = facts["spack", "TransposeLaunch"]["MPI environment"].split(", ")
    devices = {"CUDA_VISIBLE_DEVICES=3 of them", "NVIDIA_VISIBLE_DEVICES=all"}
    assert devices | {"ROCR_VISIBLE_DEVICES=0 of them", "HSA_XNACK=1"} < set(tuning)
    assert not any("MPS" in line or "HOME" in line for line in tuning)
    assert "UCX_TLS=rc,cuda" in ", ".join(tuning)
    assert (facts["broken", "Build"], facts["broken", "TransposeLaunch"]) == (built, {})
    (result,) = (builds.folder / "kernels").glob("transpose-*.json")
    assert json.loads(result.read_text())["labels"]["spack"] == commit


def test_kernels_of_other_sources_are_refused(builds):
    assert builds.case("p2p", environ="system")["verdict"] == "not measured"
    stale = {"code": "KERNELS_STALE", "built": "5" * 12, "checkout": digests.of_checkout()[:12]}
    cause = builds.case("", "", "", environ="system", check="Build")["reasons"]["cause"]
    assert cause.items() >= stale.items()
    assert "--stale accepts it" in builds.said
