"""Builds of real runs, by a CMake that puts the fake kernels where the real one would."""

import json
import os
import re
import sys

import pytest
import reframe
from running import HERE, ONE, Run, start

from bisection.rfm import internals

COMMANDS = ("sbatch", "squeue", "sacct", "scancel", "scontrol", "sinfo")
CMAKE = f"""#!/bin/sh
case $1 in
    --build) echo built >>"$BISECTION_HOME/builds" ;;
    --install)
        mkdir "$4/bin"
        for kernel in transpose alltoall-sweep npar md; do
            ln -s '{HERE}/fake_kernel.py' "$4/bin/bisection-$kernel"
        done ;;
    *) echo "fake:FILEPATH=$0" >build/CMakeCache.txt ;;
esac
"""


@pytest.fixture
def tools(tmp_path, monkeypatch):
    """A folder on PATH, with cmake."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "cmake").write_text(CMAKE)
    (tools / "cmake").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    return tools


@pytest.fixture
def run(fake, tools, tmp_path):
    """run(*arguments): a Run of one check, which may build, where ReFrame alone would not start."""
    home = tmp_path / "Meine Prüfung's"
    home.mkdir()
    command = [sys.executable, "-m", "bisection", "run", "--tier", "quick", "--verbose", *ONE]

    def run(*arguments):
        code, text = start([*command, *arguments], home)
        result = Run(code, text, (home / "results" / "latest").resolve())
        assert code == 0, text
        builds = (home / "builds").read_text().splitlines()
        notes = [line for line in text.splitlines() if line.startswith("kernels: ")]
        first, *later = [c["remark"] for c in result.verdict["cases"] if c["check"] == "Build"]
        assert notes == ([f"kernels: {first}"] if first else [])
        assert all(later)
        return len(builds), first

    return run


def test_kernels_are_built_once_and_the_run_reports_it(run, monkeypatch):
    assert run("--reruns=1") == (1, "")
    builds, note = run()
    assert builds == 1
    assert re.fullmatch(r"as built 20\d\d-\d\d-\d\d \d\d:\d\d UTC", note)
    monkeypatch.setenv("CFLAGS", "-O1")
    assert run() == (2, "")


@pytest.mark.parametrize("march", [None, "znver4"])
def test_kernels_are_for_the_processor_of_the_partition(fake, tools, tmp_path, monkeypatch, march):
    """By a build on one of its nodes, unless the site file names it; within the queue's limit."""
    for name in COMMANDS:
        (tools / name).symlink_to(HERE / "fake_slurm.py")
    (tmp_path / "jobs").mkdir()
    monkeypatch.setenv("FAKE_SLURM", str(tmp_path / "jobs"))
    site = tmp_path / "slurm_site.py"
    common = 'import_module_from_file(str(ROOT / "site-configs" / "common.py"))'
    text = (HERE / "slurm_site.py").read_text().replace(common, '__import__("common")')
    assert '"extras": {' in text
    named = '"max_time": 600, ' + (f'"march": "{march}", ' if march else "")
    site.write_text(text.replace('"extras": {', f'"extras": {{{named}'))
    command = [sys.executable, "-m", "bisection", "run", "--tier", "quick", *ONE]
    code, text = start([*command, "--system", f"{site}:slurm"], tmp_path)
    assert code == 0, text
    (script,) = (tmp_path / "results" / "latest" / "kernels").glob("*.build.sh")
    jobs = [json.loads(file.read_text()) for file in (tmp_path / "jobs").glob("*.json")]
    assert {job["limit"] for job in jobs} == {"0:10:0"}
    built_there = [job for job in jobs if job["stderr"].endswith("rfm_build.err")]
    assert len(jobs) - len(built_there) == 1
    if march:
        assert not built_there
        assert f"-DBX_MARCH={march}" in script.read_text()
    else:
        assert [job["state"] for job in built_there] == ["COMPLETED"]
        assert "#SBATCH --cpus-per-task=" in script.read_text()
        assert "BX_MARCH" not in script.read_text()


def test_internals_were_written_for_this_reframe():
    assert internals.WRITTEN_FOR == reframe.VERSION
