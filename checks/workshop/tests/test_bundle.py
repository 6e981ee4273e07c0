"""Bundles: packed, and set up where there is no network at all."""

import functools
import json
import os
import platform
import shutil
import subprocess
import tarfile

import pytest
from running import ONE

from bisection.core import paths
from bisection.kernels.spack.externals import SpackError
from bisection.kernels.spack.program import SPACK
from workshop.cli import WORKSHOP
from workshop.commands import bundle

# A namespace with a loopback and nothing else; for a user in one of users.
LONELY = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]


def without_network(*command):
    """Runs a command where no network is; without variables of pip and of the suite."""
    settings = ("PIP_", "BISECTION_")
    script = 'ip link set lo up && exec "$@"'
    return subprocess.run(
        [*LONELY, "sh", "-c", script, "sh", *map(str, command)],
        env={name: text for name, text in os.environ.items() if not name.startswith(settings)},
        capture_output=True,
        text=True,
        timeout=1800,
    )


@pytest.fixture
def lonely():
    if shutil.which("unshare") is None or without_network("true").returncode:
        pytest.skip("needs network namespaces")


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone of little, whose lock names one Python package."""
    root = tmp_path / "clone"
    without = shutil.ignore_patterns("repo", "python.lock")
    shutil.copytree(paths.ROOT / "spack-env", root / "spack-env", ignore=without)
    lock = (paths.ROOT / "spack-env" / "python.lock").read_text()
    (pyyaml,) = [line for line in lock.splitlines() if line.startswith("pyyaml==")]
    (root / "spack-env" / "python.lock").write_text(f"# size: 1 MB\n{pyyaml}\n")
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
    for words in ("init --quiet", "add .", "commit --quiet -m first"):
        subprocess.run(["git", "-C", root, *who, *words.split()], check=True)
    monkeypatch.setattr(paths, "ROOT", root)
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    return root


def set_up(archive, folder, target):
    """Unpacks a bundle and sets it up at the target: (the bundle, what it printed)."""
    with tarfile.open(archive) as file:
        file.extractall(folder)
    done = without_network(folder / archive.stem / "setup", target)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / archive.stem, done.stdout


def pack(**parts):
    """A bundle, and its sizes; skips the test where no package index is."""
    try:
        return bundle.pack(None, **parts)
    except SpackError as error:
        if "packing the Python packages failed" in str(error):
            pytest.skip("needs a package index")
        raise


@pytest.mark.long
def test_a_bundle_sets_itself_up_without_a_network(clone, lonely, tmp_path):
    (clone / "spack-env" / "README.md").write_text("not committed")
    archive, sizes = pack(spack=False, sources=None)
    assert list(sizes) == ["wheels", "bisection.git"]
    assert archive.parent == tmp_path / "home"
    assert list((tmp_path / "home").glob(".*")) == []
    target = tmp_path / "a site"
    folder, printed = set_up(archive, tmp_path / "moved here", target)
    assert f"set-up: ready in {target}; " in printed
    assert (target / "spack-env" / "README.md").read_text() != "not committed"
    python = target / ".bisection" / "venv" / "bin" / "python"
    assert subprocess.run([python, "-c", "import yaml"]).returncode == 0
    assert os.access(target / ".bisection" / "bin" / "bisection", os.X_OK)

    again = without_network(folder / "setup", target)
    assert again.stderr == f"setup: {target} is there; name another folder\n"
    assert again.returncode == 2


HERE = platform.machine()


@pytest.mark.parametrize(
    ("of", "python", "line"),
    [
        ("3.11 riscv", "python3", f"this bundle is for riscv, not for {HERE}"),
        (f"2.7 {HERE}", "/no/python", "this bundle is for Python 2.7, and /no/python is missing"),
    ],
)
def test_another_platform_is_refused(tmp_path, of, python, line):
    shutil.copy(paths.ROOT / "spack-env" / "setup-bundle.sh", tmp_path / "setup")
    (tmp_path / "platform").write_text(f"{of}\n")
    command = [tmp_path / "setup", tmp_path / "site"]
    env = {**os.environ, "PYTHON": python}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.stderr.startswith(f"setup: {line}")
    assert done.returncode == 3
    assert not (tmp_path / "site").exists()


def test_a_part_that_cannot_be_had_leaves_no_archive(clone, tmp_path, monkeypatch, command_line):
    packed = functools.partial(command_line, "bundle", program=WORKSHOP)
    monkeypatch.setattr(bundle, "pack_wheels", lambda folder, spack: folder.mkdir())
    monkeypatch.setenv(SPACK.variable, "file:///no/such/repository")
    code, _, errors = packed()
    assert code == 3
    assert "workshop bundle: error: cannot clone spack v" in errors
    assert list((tmp_path / "home").glob("**/*.tar")) == []
    assert list((tmp_path / "home").glob(".*")) == []

    code, printed, _ = packed("--no-spack", "-o", str(tmp_path / "b.tar"))
    assert code == 0
    size = (tmp_path / "b.tar").stat().st_size
    assert printed.splitlines()[-1] == f"bundle: packed {tmp_path}/b.tar, {size / 1e6:.1f} MB"

    code, _, errors = packed("--no-spack", "-o", "/no/folder/b.tar")
    assert (code, "No such file or directory: '/no/folder/" in errors) == (3, True)

    shutil.rmtree(clone / ".git")
    code, _, errors = packed()
    assert (code, errors.endswith(f"packs commits, and {clone} is no clone of git\n")) == (3, True)


@pytest.mark.spack
def test_spack_builds_from_a_bundle_without_a_network(spack_at_hand, debian, lonely, tmp_path):
    archive, sizes = pack(spack=True, sources="debian12")
    assert len(sizes) == 5
    target = tmp_path / "site"
    folder, _ = set_up(archive, tmp_path, target)
    archive.unlink()
    shutil.rmtree(folder)  # the site needs it no longer
    assert (target / ".bisection" / "spack" / "mirror").is_dir()
    program = target / ".bisection" / "bin" / "bisection"
    ran = without_network(program, "run", "--tier", "quick", "-p", "spack", *ONE)
    verdict = json.loads((target / ".bisection/results/latest/verdict.json").read_text())
    fixtures = [case for case in verdict["cases"] if case["fixture"]]
    assert [case["verdict"] for case in fixtures] == ["pass", "pass"], ran.stdout + ran.stderr
    facts = [verdict["launches"][case["launch"]]["facts"] for case in fixtures]
    assert all(facts_of["Spack packages"] for facts_of in facts)
