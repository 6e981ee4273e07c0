"""The Spack environment of a site, as written for this machine and for MPIs made up of stubs."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from running import command

from bisection.core import paths
from bisection.kernels.spack import externals, site_environment
from bisection.kernels.spack import install as installing
from bisection.kernels.spack.site_environment import environment_for


def packages(text):
    """The packages of an environment and their external specs; None for those that are built."""
    content = yaml.safe_load(text)["spack"]["packages"]
    names = [name for name in content if name != "all"]
    return {n: (content[n].get("externals") or [{"spec": None}])[0]["spec"] for n in names}


@pytest.fixture
def mpi(tmp_path):
    """mpi(said): the prefix of an MPI whose mpicc says so, over the compilers of this machine."""

    def make(said, compiler="gcc"):
        prefix = tmp_path / "mpi"
        (prefix / "bin").mkdir(parents=True)
        (prefix / "lib").mkdir()
        (prefix / "lib" / "libmpi.so").touch()
        for name, program in (("mpicc", compiler), ("mpifort", "gfortran")):
            show = f"echo {program} -L{prefix}/lib -lmpi"
            command(prefix / "bin", name, f"case $1 in -show) {show} ;; *) echo '{said}' ;; esac")
        return prefix

    return make


def test_all_of_debian_is_taken(debian):
    text = environment_for("vc", "/usr")
    specs = packages(text)
    assert {name: spec.split("@")[1].split()[0] for name, spec in specs.items()} == debian
    # What provisioning reads of it.
    versions = {match["name"]: match["version"] for match in externals.EXTERNAL.finditer(text)}
    assert versions == debian
    assert str(paths.ROOT) not in text


def test_libraries_over_another_mpi_are_built(debian, mpi):
    prefix = mpi("mpicc: Open MPI 5.0.1 (Language: C)")
    text = environment_for("vc", str(prefix))
    specs = packages(text)
    assert specs["openmpi"] == "openmpi@5.0.1"
    assert "netlib-scalapack" not in specs
    assert {"fftw", "openblas", "gcc", "cmake"} <= specs.keys()
    head = [line for line in text.splitlines() if line.startswith("#")]
    assert len(head) == 2
    assert "is linked with another MPI, /" in head[1]
    languages = yaml.safe_load(text)["spack"]["packages"]["gcc"]["externals"][0]["spec"]
    assert languages == f"gcc@{debian['gcc']} languages:='c,fortran'"  # there is no mpicxx


def test_mpich_is_known(mpi):
    text = environment_for("vc", str(mpi("mpicc for MPICH version 4.2.1")))
    assert packages(text)["mpich"] == "mpich@4.2.1"
    assert yaml.safe_load(text)["spack"]["packages"]["all"]["providers"]["mpi"] == ["mpich"]


def test_openblas_with_its_own_threads_is_built(debian, monkeypatch):
    monkeypatch.setattr(site_environment, "_threads", lambda file: "1")
    text = environment_for("vc", "/usr")
    assert packages(text)["openblas"] is None
    assert "Spack builds openblas: /" in text


def test_what_cannot_be_named_is_refused(mpi, tmp_path, monkeypatch):
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(site_environment, "find_spack", lambda: None)
    with pytest.raises(externals.SpackError, match="there is no mpicc in /no/mpi/bin"):
        environment_for("vc", "/no/mpi")
    prefix = mpi("an unknown MPI", compiler="no-such-compiler")
    with pytest.raises(externals.SpackError, match="mpicc -show names no compiler"):
        environment_for("vc", str(prefix))
    shutil.rmtree(prefix)
    prefix = str(mpi("an unknown MPI"))
    with pytest.raises(externals.SpackError, match="can only be named by Spack: SPACK_ROOT names"):
        environment_for("vc", prefix)
    monkeypatch.setattr(site_environment, "find_spack", lambda: tmp_path)
    monkeypatch.setattr(site_environment, "Spack", lambda *_: lambda *_: None)
    with pytest.raises(externals.SpackError, match="Spack found no package in /"):
        environment_for("vc", prefix)


@pytest.mark.spack
def test_spack_concretises_it(spack_at_hand, debian, tmp_path, monkeypatch):
    home = paths.home()
    for name in ("spack-env", "src"):
        shutil.copytree(paths.ROOT / name, tmp_path / name)
    (tmp_path / "spack-env" / "vc").mkdir()
    text = environment_for("vc", "/usr")
    (tmp_path / "spack-env" / "vc" / "spack.yaml").write_text(text)
    monkeypatch.setattr(paths, "ROOT", tmp_path)
    monkeypatch.setenv("BISECTION_HOME", str(home))
    with installing.provisioning("vc") as environment:
        environment.concretise()
        shutil.rmtree(environment.folder)
    assert environment.facts["mpi"] == f"openmpi@{debian['openmpi']}"
    kept = Path(environment.facts["lock"])
    specs = json.loads(kept.read_text())["concrete_specs"].values()
    kept.unlink()
    assert {s["name"] for s in specs if s.get("external")} == {*debian, "glibc"}


@pytest.mark.spack
@pytest.mark.skipif(not shutil.which("clang"), reason="needs clang, a second compiler")
def test_other_compilers_are_named_by_spack(spack_at_hand):
    folder = str(Path(shutil.which("clang")).parent)
    external = site_environment._by_spack(["llvm"], [folder])["llvm"]
    assert external["extra_attributes"]["compilers"]["c"].startswith("/usr/")
