"""Finding and cloning Spack, and its solver; no network."""

import shutil
import sys

import pytest
from running import command, git

from bisection.core import paths
from bisection.kernels.spack import externals
from bisection.kernels.spack import program as spack


@pytest.fixture
def upstream(tmp_path, monkeypatch):
    """A repository with the pinned tag."""
    folder = tmp_path / "upstream+mirror"
    folder.mkdir()
    for words in ("init --quiet", "commit --quiet --allow-empty -m first", "tag v1.1.0"):
        git(folder, *words.split())
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(spack.SPACK.variable, str(folder))
    (tmp_path / "home" / "spack").mkdir(parents=True)
    return folder


def test_clone_is_made_once_and_shallow(upstream, capsys):
    clone = spack.clone(spack.SPACK)
    assert clone == paths.home() / "spack" / "spack-v1.1.0"
    assert (clone / ".git" / "shallow").exists()
    shutil.rmtree(upstream)
    assert spack.clone(spack.SPACK) == clone
    assert capsys.readouterr().err.count("\n") == 1


def test_clone_says_what_is_wrong_and_leaves_nothing(upstream, monkeypatch):
    git(upstream, "tag", "--delete", "v1.1.0")
    with pytest.raises(externals.SpackError, match=r"v1\.1\.0 not found .*; BISECTION_SPACK_URL"):
        spack.clone(spack.SPACK)
    monkeypatch.setenv(spack.SPACK.variable, "file:///no/such/repository")
    with pytest.raises(externals.SpackError) as caught:
        spack.clone(spack.SPACK)
    message = str(caught.value)
    assert "from file:///no/such/repository" in message
    assert "BISECTION_SPACK_URL names another repository, SPACK_ROOT" in message
    assert "\n" not in message
    assert list((paths.home() / "spack").iterdir()) == []


def test_commit_of_a_clone(upstream, tmp_path):
    clone = spack.clone(spack.SPACK)
    (clone / "recipe.py").touch()
    assert spack.commit_of(clone) == ""  # tracks no file
    git(clone, "add", ".")
    assert spack.commit_of(clone) == f"{git(clone, 'rev-parse', 'HEAD')}-dirty"
    (clone / "unpacked").mkdir()
    for elsewhere in (clone / "unpacked", tmp_path, tmp_path / "none"):
        assert spack.commit_of(elsewhere) == ""


def test_an_unanswered_connection_is_given_up(upstream, commands, monkeypatch):
    commands("git", "exec sleep 60")
    monkeypatch.setattr(spack, "PATIENCE", 0.2)
    with pytest.raises(externals.SpackError, match=r"timed out after 0\.2 seconds"):
        spack.clone(spack.SPACK)


def test_without_clingo_the_error_says_what_to_set(tmp_path, monkeypatch):
    log, python = tmp_path / "log", tmp_path / "python"
    command(tmp_path, "python", "echo 'ERROR: No matching distribution'; exit 1")
    assert not spack.imports_clingo(str(python))
    assert not spack.imports_clingo(str(tmp_path / "none"))
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.delenv("SPACK_PYTHON", raising=False)
    with pytest.raises(externals.SpackError, match=r"cannot install clingo==.*PIP_INDEX_URL"):
        spack.find_python(log)
    assert "No matching distribution" in log.read_text()
