"""spack-env/bootstrap.sh on machines made up of stubs: what it asks for, and what it may do."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SPACK_ENV = Path(__file__).resolve().parents[3] / "spack-env"
BOOTSTRAP = SPACK_ENV / "bootstrap.sh"
PACKAGES = SPACK_ENV / "debian12" / "packages.txt"

UNIX = "awk cat cksum date dirname env flock grep mkdir rm sed sh tail".split()
TOOLS = "bzip2 g++ gcc gfortran git make mpicc mpifort mpirun patch pkg-config unzip xz".split()


class Machine:
    """A PATH of our own; `log` holds what apt-get was asked."""

    def __init__(self, folder, user):
        self.home, self.path, self.log = folder / "home", folder / "bin", folder / "apt.log"
        self.path.mkdir()
        for name in UNIX:
            (self.path / name).symlink_to(shutil.which(name))
        self.stub("id", f"echo {user}")
        self.stub("sudo", "exit 1")

    def stub(self, name, script="exit 0"):
        (self.path / name).unlink(missing_ok=True)
        (self.path / name).write_text(f"#!{self.path}/sh\n{script}\n")
        (self.path / name).chmod(0o755)

    def with_tools(self, cmake="3.25.1"):
        for name in TOOLS:
            self.stub(name)
        self.stub("cmake", f"echo cmake version {cmake}")
        self.stub("python3", '[ "$1" != -m ]')  # there and new, but makes no environments
        return self

    def with_apt(self, script=""):
        self.stub("apt-get", f'echo "$@" >>{self.log}\n{script}')
        return self

    def bootstrap(self, *arguments):
        return subprocess.run(
            [BOOTSTRAP, *arguments],
            env={"PATH": str(self.path), "BISECTION_HOME": str(self.home)},
            capture_output=True,
            text=True,
        )


@pytest.fixture
def user(tmp_path):
    return Machine(tmp_path, user=1000)


@pytest.fixture
def root(tmp_path):
    return Machine(tmp_path, user=0)


def test_names_the_tools_where_there_is_no_apt(user):
    run = user.bootstrap()
    assert run.returncode == 1
    assert "missing: make; Python 3.10 or newer, with venv; git" in run.stderr
    assert "a Fortran compiler (gfortran)" in run.stderr
    assert "Spack" not in run.stderr  # it needs the compilers too
    assert not (user.home / "venv").exists()


def test_names_packages_and_both_ways_out_where_it_may_not_install(user):
    user.with_tools().with_apt().stub("pkg-config", '[ "$2" != fftw3 ]')
    run = user.bootstrap()
    assert run.returncode == 1
    assert run.stderr.splitlines() == [
        "set-up: missing packages: libfftw3-dev",
        "set-up: install them: sudo apt-get install --no-install-recommends libfftw3-dev",
        "set-up: or let Spack build the libraries: make nightly ARGS='-p spack'",
    ]
    assert not user.log.exists()


def test_an_old_cmake_is_no_cmake(user):
    run = user.with_tools(cmake="3.16.3").with_apt().bootstrap()
    assert "missing packages: cmake\n" in run.stderr


def test_spack_is_not_asked_for_what_it_builds(user):
    user.with_tools().with_apt()
    for name in ("mpirun", "cmake", "g++"):
        (user.path / name).unlink()
    assert "missing packages: g++\n" in user.bootstrap("--build", "spack").stderr


def test_installs_as_root_only_what_is_missing(root):
    root.with_tools().stub("pkg-config", f"[ -e {root.path}/installed ]")
    root.with_apt(f"case $* in *install*) : >{root.path}/installed ;; esac")
    run = root.bootstrap()
    missing = (
        "libfftw3-dev libcjson-dev libopenblas-openmp-dev libscalapack-openmpi-dev "
        "libhdf5-openmpi-dev libelpa-dev"
    )
    assert f"set-up: system packages: {missing} ... " in run.stdout
    update, install = root.log.read_text().splitlines()
    assert update.endswith("update")
    assert install.endswith(f"install --yes --no-install-recommends {missing}")


def test_what_apt_did_not_bring_is_named(root):
    run = root.with_apt("echo 'E: no such mirror'; exit 100").bootstrap()
    assert run.returncode == 1
    assert "E: no such mirror" in run.stderr
    assert "missing packages: make python3-venv git gcc" in run.stderr


def test_an_extra_is_not_insisted_on(user):
    user.with_tools().with_apt().stub("mpicc", '! grep -q fftw3-mpi.h "$2"')
    run = user.bootstrap()
    assert "missing" not in run.stderr
    assert "set-up: Python environment ... failed" in run.stdout  # it went on


@pytest.mark.parametrize("version", ["3.6.8", "3.9.2"])
def test_names_a_python_that_is_too_old(user, version):
    user.stub("python3", f'[ "$1" = --version ] && echo Python {version} || exit 1')
    run = user.bootstrap("--build", "site")
    assert run.returncode == 1
    assert f"Python 3.10 or newer with venv is needed, found Python {version}" in run.stderr


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--devel"], "set-up: unknown option '--devel', there are --dev and --build\n"),
        (["--build", "conda"], "set-up: --build 'conda' is none of system, spack, site\n"),
        (["--build"], "set-up: --build '' is none of system, spack, site\n"),
    ],
)
def test_refuses_what_it_does_not_know(user, arguments, line):
    run = user.bootstrap(*arguments)
    assert (run.returncode, run.stderr) == (1, line)
    assert not user.home.exists()


def test_every_package_says_who_needs_it_and_how_to_tell():
    lines = [line for line in PACKAGES.read_text().splitlines() if not line.startswith("#")]
    pattern = (
        r"\S+ +(all|system|spack|extra|dev) +(command|header|pkg-config|python|cmake):\S+ +# .+"
    )
    assert lines
    assert [line for line in lines if not re.fullmatch(pattern, line)] == []
