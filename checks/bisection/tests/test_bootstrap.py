"""spack-env/bootstrap.sh on machines made up of stubs: what it asks for, and what it may do."""

import fcntl
import importlib.metadata
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bisection.sites.site_files import site_names

SPACK_ENV = Path(__file__).resolve().parents[3] / "spack-env"
BOOTSTRAP = SPACK_ENV / "bootstrap.sh"
PACKAGES = {name: SPACK_ENV / name / "packages.txt" for name in ("debian12", "rhel9")}

UNIX = (
    "awk basename cat chmod cksum date dirname env flock grep ln mkdir mv readlink rm sed sh sleep"
    " tail tar uname"
).split()
TOOLS = "bzip2 g++ gcc gfortran git make mpicc mpifort mpirun patch pkg-config unzip xz".split()
# Of apt-get, where nothing but what is missing is needed.
APT = """
case $* in
    *--print-uris*)
        echo "1 upgraded, 17 newly installed, 0 to remove and 130 not upgraded."
        echo "Need to get 12.0/61.2 MB of archives."
        echo "After this operation, 310 MB of additional disk space will be used." ;;
    *--simulate*)
        echo "Inst libfftw3-dev (3.3.10-1 Debian:12.15/oldstable [amd64])"
        echo "Inst libc6 [2.36-8] (2.36-9 Debian:12.15/oldstable [amd64])" ;;
esac
"""
# A Python whose environments are folders with this same Python; pip is logged, and fails as asked.
PYTHON = """
log={log}
case "$1 $2" in
    "-m venv")
        mkdir -p "$3/bin" "$3/lib/python3.11/site-packages"
        ln -s {path}/python3 "$3/bin/python" ;;
    "-m pip")
        shift 2
        echo "pip $*" >>$log
        case $* in
            *list*) echo numpy==2.4.6 ;;
            *) {pip}
                ;;
        esac ;;
    "-c "*bisection.start*) shift 2; echo "$BISECTION_HOME: $*" ;;
esac
"""
# pip prints the reason when it tries again, and not with --quiet.
OFFLINE = """
case $* in *--quiet* | *"--retries 0"*) ;; *) echo "Temporary failure in name resolution" ;; esac
exit 1
"""


class Machine:
    """A PATH of our own; `log` holds what apt-get and pip were asked."""

    def __init__(self, folder, user):
        self.home, self.path, self.log = folder / "home", folder / "bin", folder / "asked.log"
        self.path.mkdir()
        for name in UNIX:
            (self.path / name).symlink_to(shutil.which(name))
        self.stub("id", f"echo {user}")
        self.stub("sudo", "exit 1")

    def stub(self, name, script="exit 0"):
        (self.path / name).unlink(missing_ok=True)
        (self.path / name).write_text(f"#!{self.path}/sh\n{script}\n")
        (self.path / name).chmod(0o755)
        return self

    def with_tools(self, cmake="3.25.1", without=()):
        self.stub("cmake", f"echo cmake version {cmake}")
        for name in sorted({*TOOLS} - {*without}):
            self.stub(name)
        return self.stub("python3", '[ "$1" != -m ]')  # there and new, but makes no environments

    def with_apt(self, script=""):
        return self.stub("apt-get", f'echo "$@" >>{self.log}\n{script}')

    def with_python(self, pip="true"):
        return self.stub("python3", PYTHON.format(log=self.log, path=self.path, pip=pip))

    def bootstrap(self, *arguments, script=BOOTSTRAP, **variables):
        """Runs the script; variable=None removes a variable."""
        env = {"PATH": str(self.path), "BISECTION_HOME": str(self.home), **variables}
        env = {name: value for name, value in env.items() if value is not None}
        return subprocess.run([script, *arguments], env=env, capture_output=True, text=True)


@pytest.fixture
def user(tmp_path):
    return Machine(tmp_path, user=1000)


@pytest.fixture
def root(tmp_path):
    return Machine(tmp_path, user=0)


OLD_PYTHON = '[ "$1" = --version ] && echo Python 3.9.2 || exit 1'
NO_FFTW = '[ "$2" != fftw3 ]'


@pytest.mark.parametrize(
    ("change", "arguments", "lines"),
    [
        (lambda user: None, [],
         ["missing: make; Python 3.10 or newer, with venv; git", "a Fortran compiler (gfortran)",
          "CMake 3."]),
        (lambda user: user.stub("python3", OLD_PYTHON), ["--build", "site"],
         ["Python 3.10 or newer with venv is needed, found Python 3.9.2"]),
        (lambda user: user.with_tools("3.16.3").with_apt(), [],
         ["missing packages: cmake\n", "set-up: or let Spack build the libraries: "]),
        (lambda user: user.with_tools(without=("mpirun",)).stub("dnf").stub("pkg-config", NO_FFTW),
         [],
         ["missing packages, by repository: appstream/openmpi appstream/fftw-devel\n",
          "sudo dnf install openmpi fftw-devel\n", "module load mpi/",
          "set-up: or let Spack build the libraries: "]),
        (lambda user: user.with_tools(without=("mpirun", "g++")).with_apt().stub("cmake", "exit 1"),
         ["--build", "spack"], ["missing packages: g++\n"]),
        (lambda user: user.with_tools().with_apt().stub("pkg-config", NO_FFTW), [],
         ["set-up: missing packages: libfftw3-dev\n",
          "set-up: install them: sudo apt-get install --no-install-recommends libfftw3-dev\n",
          "set-up: or let Spack build the libraries: make nightly ARGS='-p spack'\n"]),
    ],
)  # fmt: skip
def test_names_what_is_missing_or_too_old(user, change, arguments, lines):
    change(user)
    run = user.bootstrap(*arguments)
    assert run.returncode == 3
    assert [line for line in lines if line not in run.stderr] == []
    # it needs compilers too
    assert ("let Spack build" in run.stderr) == ("let Spack build" in lines[-1])
    assert not user.log.exists()
    assert not (user.home / "venv").exists()


MISSING = (
    "libfftw3-dev libopenblas-openmp-dev libscalapack-openmpi-dev libelpa-dev libhdf5-openmpi-dev"
)


def test_installs_as_root_only_what_is_missing(root):
    root.with_tools().stub("pkg-config", f"[ -e {root.path}/installed ]")
    root.with_apt(f"case $* in *install*) : >{root.path}/installed ;; esac {APT}").with_python()
    run = root.bootstrap()
    assert run.returncode == 0, run.stderr
    price = "12.0 MB to download, 310 MB on disk"
    announced = f"set-up: installs 18 Debian packages, {price}, for {MISSING}\n"
    assert announced in run.stdout
    assert run.stdout.index(announced) < run.stdout.index("set-up: system packages ... ")
    asked = [line for line in root.log.read_text().splitlines() if "pip" not in line]
    assert asked[0].endswith("update")
    assert asked[-1].endswith(f"install --no-install-recommends --yes {MISSING}")
    kept = (root.home / "installed.txt").read_text().splitlines()
    kept = [line.partition(" ")[2] for line in kept]
    assert kept == ["debian libfftw3-dev 3.3.10-1", "debian libc6 2.36-9", "python numpy==2.4.6"]


def test_installs_nothing_where_it_may_not(root):
    root.with_tools().with_apt().stub("pkg-config", NO_FFTW)
    run = root.bootstrap(INSTALL="no")
    assert (run.returncode, run.stdout) == (3, "")
    assert run.stderr == (
        "set-up: INSTALL=no, and missing: Debian packages libfftw3-dev; "
        f"Python packages in {root.home}/venv\n"
        "set-up: install them: sudo apt-get install --no-install-recommends libfftw3-dev\n"
        "set-up: or let Spack build the libraries: make nightly ARGS='-p spack'\n"
        "set-up: `make setup` without INSTALL=no installs what is missing\n"
    )
    assert not root.log.exists()
    assert not (root.home / "venv").exists()
    root.with_python().stub("pkg-config")
    assert root.bootstrap(INSTALL="no").stderr == (
        f"set-up: INSTALL=no, and missing: Python packages in {root.home}/venv\n"
        "set-up: `make setup` without INSTALL=no installs what is missing\n"
    )
    assert root.bootstrap().returncode == 0
    assert root.bootstrap(INSTALL="no").returncode == 0


# Of Debian 11.
OLD = """
case $2 in
    python3-venv) echo "  Candidate: 3.9.2-3" ;;
    cmake) echo "  Candidate: 3.18.4-2+deb11u1" ;;
    *) echo "  Candidate: 1.0" ;;
esac
"""


@pytest.mark.parametrize("variables", [{}, {"INSTALL": "no"}])
@pytest.mark.parametrize("lists", ["there", "made by apt-get update"])
def test_versions_are_looked_at_before_anything_is_installed(root, variables, lists):
    root.with_tools(cmake="3.18.4").stub("python3", "exit 1")
    root.with_apt(f"case $* in *update*) : >{root.path}/lists ;; esac")
    root.stub("apt-cache", f"[ -e {root.path}/lists ] || exit 0\n{OLD}")
    if lists == "there":
        (root.path / "lists").touch()
    run = root.bootstrap(**variables)
    assert run.returncode == 3
    if lists == "there" or not variables:
        assert run.stderr == (
            "set-up: too old in this system's packages: python3-venv 3.9.2, where 3.10 is needed; "
            "cmake 3.18.4, where 3.20 is needed. Nothing was installed. PYTHON=/path/to/python3 "
            "names another Python; another CMake is taken from PATH\n"
        )
    assert "install" not in (root.log.read_text() if root.log.exists() else "")


NO_INDEX = (
    "set-up: no network: pip reaches no package index. Set PIP_INDEX_URL to a mirror, or run "
    "`make bundle` on a machine with network and its `setup` here\n"
)
NEEDED = "missing packages: make python3-venv git gcc"


@pytest.mark.parametrize(
    ("program", "script", "lines"),
    [
        ("apt", "echo 'E: no such mirror'", ["    E: no such mirror\n", NEEDED]),
        ("apt", "echo 'Temporary failure resolving deb.debian.org'",
         ["set-up: no network: apt-get does not reach its servers\n", NEEDED]),
        ("python", OFFLINE, [NO_INDEX]),
        ("python", "echo 'no matching distribution: numpy'",
         ["    no matching distribution: numpy\n", "set-up: all of it is in {home}/setup.log\n"]),
    ],
)  # fmt: skip
def test_what_did_not_come_is_named(root, program, script, lines):
    if program == "python":
        root.with_tools().with_python(f"{script}\nexit 1")
    else:
        root.with_apt(f"{script}\nexit 100")
    run = root.bootstrap()
    assert run.returncode == 3
    assert [line for line in lines if line.format(home=root.home) not in run.stderr] == []
    assert not (root.home / "venv").exists()


def test_an_extra_is_not_insisted_on(user):
    user.with_tools().with_apt().stub("pkg-config", '[ "$2" != elpa ]')
    run = user.bootstrap()
    assert "missing" not in run.stderr
    assert "set-up: Python environment ... failed" in run.stdout  # it went on


SITES = f"site-configs/ has {', '.join(site_names())}"
WRITES = "cannot write to /proc/home; BISECTION_HOME names another folder"
ODD = 'cannot work in a folder with one of : ; $ \\ " ` % * ? [ # in its path'
OPTIONS = "there are --dev, --build and --site"


@pytest.mark.parametrize(
    ("arguments", "variables", "line"),
    [
        (["--devel"], {}, f"unknown option '--devel', {OPTIONS}"),
        (["--build", "conda"], {}, "--build 'conda' is none of system, spack, site"),
        (["--build"], {}, "--build needs a value"),
        (["--site", "typo"], {}, f"SYSTEM=typo: unknown; {SITES}"),
        (["--site", "typo:default"], {}, f"SYSTEM=typo:default: unknown; {SITES}"),
        (["--site", "common"], {}, f"SYSTEM=common: unknown; {SITES}"),
        ([], {"INSTALL": "maybe"}, "INSTALL=maybe is none of yes, no"),
        ([], {"BUNDLE": "/no.tar"}, "BUNDLE=/no.tar: no unpacked bundle, a folder with wheels/"),
        ([], {"BISECTION_HOME": "/a:b"}, f"{ODD}: {SPACK_ENV.parent}, /a:b"),
        ([], {"BISECTION_HOME": "/proc/home"}, WRITES),
    ],
)
def test_refuses_what_it_does_not_know(user, arguments, variables, line):
    run = user.with_tools().with_python().bootstrap(*arguments, **variables)
    assert (run.returncode, run.stdout, run.stderr) == (2, "", f"set-up: {line}\n")
    assert not user.home.exists()


@pytest.mark.parametrize("site", ["localhost", "localhost:default", "site-configs/localhost.py"])
def test_takes_a_site_that_is_there(user, site):
    name = site if "/" not in site else str(SPACK_ENV.parent / site)
    run = user.with_tools().with_python().bootstrap("--build", "site", "--site", name)
    assert run.returncode == 0, run.stderr


def test_a_bundle_takes_the_place_of_a_network(user, tmp_path):
    bundle = tmp_path / "Bündel 1"
    (bundle / "wheels").mkdir(parents=True)
    user.with_tools().with_python(pip=f"case $* in *install*) [ -d '{bundle}/wheels' ] ;; esac")
    run = user.bootstrap("--build", "site", BUNDLE=str(bundle))
    assert run.returncode == 0, run.stderr
    install = next(line for line in user.log.read_text().splitlines() if " install " in line)
    assert f"--no-index --find-links {bundle}/wheels " in install
    assert "download" not in user.log.read_text()
    assert not (user.home / "spack").exists()

    # Spack is added to an environment that is there, once.
    (bundle / "spack" / "mirror").mkdir(parents=True)
    (bundle / "spack" / "spack-v1.1.0.git").mkdir()
    (bundle / "spack" / "mirror" / "source.tar").touch()
    user.stub("git", f'echo "git $*" >>{user.log}; for last; do :; done; mkdir "$last"')
    for name in ("cp", "touch"):
        user.stub(name, f'exec {shutil.which(name)} "$@"')
    for clones in (1, 0):
        user.log.write_text("")
        run = user.bootstrap("--build", "site", BUNDLE=str(bundle))
        assert run.returncode == 0, run.stderr
        assert (user.home / "spack" / "spack-v1.1.0").is_dir()
        assert (user.home / "spack" / "mirror" / "source.tar").exists()
        assert user.log.read_text().count("git clone") == clones


def test_installs_nothing_while_a_run_measures(user):
    user.home.mkdir()
    user.with_tools().with_python()
    with open(user.home / "run.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        print("pid 4242 on node1: bisection run", file=lock, flush=True)
        run = user.bootstrap("--build", "site")
        assert run.returncode == 3
        assert run.stderr == (
            f"set-up: installs nothing, as {user.home} is in use: "
            "pid 4242 on node1: bisection run\n"
        )
    assert user.bootstrap("--build", "site").returncode == 0
    with open(user.home / "run.lock") as lock:  # nothing to install: no obstacle
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert user.bootstrap("--build", "site").returncode == 0


@pytest.fixture
def clone(tmp_path):
    """A clone with a blank and an umlaut in its path."""
    folder = tmp_path / "Meine Prüfung" / "clone"
    shutil.copytree(SPACK_ENV, folder / "spack-env", ignore=shutil.ignore_patterns("repo"))
    (folder / "checks").mkdir()
    return folder


def test_a_clone_may_move(user, clone):
    user.with_tools().with_python()
    script = clone / "spack-env" / "bootstrap.sh"
    run = user.bootstrap("--build", "site", script=script, BISECTION_HOME=None)
    assert run.returncode == 0, run.stderr
    moved = clone.with_name("wohin auch")
    clone.rename(moved)
    packages = moved / ".bisection" / "venv" / "lib" / "python3.11" / "site-packages"
    link = (packages / "bisection.pth").read_text()
    assert link.isascii()
    assert (packages / link.strip()).resolve() == moved / "checks"
    (user.path / "called").symlink_to(moved / ".bisection" / "bin" / "bisection")
    for program in (user.path / "called", moved / ".bisection" / "bin" / "bisection"):
        run = user.bootstrap("run", "-n", "a b", script=program, BISECTION_HOME=None)
        assert run.stdout == f"{moved}/.bisection: run -n a b\n"
    asked = user.log.read_text()
    script = moved / "spack-env" / "bootstrap.sh"
    assert user.bootstrap("--build", "site", script=script, BISECTION_HOME=None).returncode == 0
    assert user.log.read_text() == asked  # nothing is installed again


def test_a_program_knows_its_home(user, clone):
    user.with_tools().with_python()
    user.bootstrap("--build", "site", script=clone / "spack-env" / "bootstrap.sh")
    program = user.home / "bin" / "bisection"
    assert user.bootstrap(script=program, BISECTION_HOME=None).stdout == f"{user.home}: \n"
    shutil.rmtree(user.home / "venv")
    run = user.bootstrap(script=program, BISECTION_HOME=None)
    assert run.returncode == 2
    assert "has no Python; run make setup in the clone" in run.stderr


def test_the_lists_of_python_packages_are_whole():
    """Everything that a listed package needs is listed, as pip is asked not to look."""
    unused = {"polars", "comby", "python-levenshtein"}  # of ReFrame, and of universalmutator
    unused |= {"regress", "ruamel-yaml"}  # of check-jsonschema, whose schemas are read
    pins = {}
    for name in ("python.lock", "python-dev.lock"):
        for line in (SPACK_ENV / name).read_text().splitlines():
            if line and not line.startswith("#"):
                pin = Requirement(line)
                pins.setdefault(canonicalize_name(pin.name), []).append(pin)
    for name, lines in pins.items():
        chosen = [pin for pin in lines if not pin.marker or pin.marker.evaluate()]
        if not chosen:
            continue
        assert [str(pin.specifier) for pin in chosen] == [f"=={importlib.metadata.version(name)}"]
        for line in importlib.metadata.requires(name) or []:
            needed = Requirement(line)
            if not needed.marker or needed.marker.evaluate({"extra": ""}):
                assert canonicalize_name(needed.name) in {*pins, *unused}, f"{name}: {needed.name}"


def test_every_package_says_who_needs_it_and_how_to_tell():
    pattern = (
        r"\S+ +(all|system|spack|extra|dev) +(command|header|pkg-config|python|cmake):\S+ +# .+"
    )
    probes = {}
    for name, file in PACKAGES.items():
        lines = [line for line in file.read_text().splitlines() if not line.startswith("#")]
        assert [line for line in lines if not re.fullmatch(pattern, line)] == []
        probes[name] = {tuple(line.split()[1:3]) for line in lines if " dev " not in line}
    # Systems differ in the names of their libraries alone.
    debian, other = probes["debian12"], probes["rhel9"]
    assert {probe.split(":")[0] for _, probe in debian ^ other} == {"pkg-config"}
