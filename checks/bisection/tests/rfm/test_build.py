"""Builds of real runs, by a CMake that puts the fake kernels where the real one would."""

import os
import re
import sys

import pytest
from running import HERE, ONE, Run, start

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
def run(fake, tmp_path, monkeypatch):
    """run(*arguments): a Run of one check, which may build."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "cmake").write_text(CMAKE)
    (tools / "cmake").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    home = tmp_path / "home"
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
