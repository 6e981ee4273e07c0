"""A run of a clone as set-up leaves it, where everything that may be odd is."""

import json
import os
import shutil
import subprocess
import sys

import pytest
from running import CHECKS, ONE, TWO_CORES

ROOT = CHECKS.parent
INSTALLED = "2026-11-22T03:40:00Z debian libfftw3-dev 3.3.10-1"


@pytest.fixture
def clone(tmp_path):
    """A clone below a blank and an umlaut, with the environment of this Python."""
    folder = tmp_path / "Meine Prüfung" / "clone"
    without = shutil.ignore_patterns("tests", "__pycache__")
    for name in ("checks", "site-configs", "reference", "src"):
        shutil.copytree(ROOT / name, folder / name, ignore=without)
    (folder / ".bisection" / "bin").mkdir(parents=True)
    for name in ("bisection", "workshop", "reframe"):
        shutil.copy(ROOT / "spack-env" / "launch.sh", folder / ".bisection" / "bin" / name)
    (folder / ".bisection" / "venv").symlink_to(sys.prefix)
    (folder / ".bisection" / "installed.txt").write_text(f"{INSTALLED}\n")
    (tmp_path / "user").mkdir()
    return folder


def files(folder):
    """All files, but those below a home."""
    return {path for path in folder.rglob("*") if ".bisection" not in path.parts}


def run(program, root, tmp_path, *arguments):
    """Runs a check in the locale C, with a umask and a HOME of its own, from another folder."""
    ours = ("PYTHON", "BISECTION_HOME", "MPLCONFIGDIR", "XDG_CACHE_HOME")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    env["PYTHONDONTWRITEBYTECODE"] = "1"  # as many containers have it
    own = {"HOME": tmp_path / "user", "LC_ALL": "C", "PYTHONPATH": root / "checks"}
    command = [program, "run", "--tier", "quick", *arguments, *ONE]
    return subprocess.run(
        ["sh", "-c", 'umask 077; exec taskset --cpu-list "$@"', "sh", TWO_CORES, *command],
        env={**env, **own},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=300,
    )


@pytest.mark.long  # a process of ReFrame of its own: the clone is another
def test_everything_is_written_below_the_home(clone, fake, tmp_path):
    before = files(tmp_path)
    program = clone / ".bisection" / "bin" / "bisection"
    done = run(program, clone, tmp_path, "-S", f"Build.kernels={fake}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert files(tmp_path) == before
    assert next((clone / ".bisection" / "cache" / "python").rglob("reframe/__init__*.pyc"))
    results = clone / ".bisection" / "results" / "latest"
    assert json.loads((results / "verdict.json").read_text())["installed"] == [INSTALLED]
    for path in results.resolve().rglob("*"):
        assert not path.stat().st_mode & 0o077, path


def test_modules_of_the_folder_where_it_is_called_are_not_imported(clone, tmp_path):
    """Root may call it in a folder of any user."""
    (tmp_path / "yaml.py").write_text("raise SystemExit(99)\n")
    program = clone / ".bisection" / "bin" / "workshop"
    command = [program, "findings", "G17"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "G17" in done.stdout


@pytest.mark.long  # as above
def test_a_package_has_kernels_and_is_not_written_to(clone, fake, tmp_path):
    """Laid out as spack-env/repo's recipe does it."""
    share = tmp_path / "package" / "share" / "bisection"
    share.parent.mkdir(parents=True)
    clone.rename(share)
    for name in ("bin", "venv", "installed.txt"):
        (share / ".bisection" / name).rename(tmp_path / "package" / name)
    (share / ".bisection").rmdir()
    known = {"prefix": str(fake), "mpi_prefix": "/usr", "lock_hash": "abc"}
    (share / "installation.json").write_text(json.dumps(known))
    program = tmp_path / "package" / "bin" / "bisection"
    before = files(tmp_path)
    done = run(program, share, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert files(tmp_path) == before
    results = tmp_path / "user" / ".bisection" / "results" / "latest"
    verdict = json.loads((results / "verdict.json").read_text())
    assert verdict["installed"] == [INSTALLED]
    assert {launch["facts"]["lock"] for launch in verdict["launches"]} == {"abc"}
