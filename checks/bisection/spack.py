"""Builds the kernels with Spack, from an environment under spack-env/.

    python -m bisection.spack install --system debian12

A Spack at hand (SPACK_ROOT, or `spack` on PATH) is used, else a pinned release is cloned. All that
is generated lies below .bisection/spack/, and nothing is read from or written to ~/.spack. A call
that finds nothing changed costs about a second; an edited source file costs its compilation.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[2]
KERNELS = "bisection-kernels"
AUTO = "auto"

# Spack's solver. Without it in the Python that runs Spack, Spack downloads one for itself.
CLINGO = "clingo==5.8.0"

OLDEST_SPACK = (1, 0)  # the first that reads package repositories of API v2

Say = Callable[[str], None]


class SpackError(Exception):
    """What went wrong, in one line; after a failed command, the end of its output too."""


@dataclass(frozen=True)
class Pin:
    """A release that is cloned, and the environment variable that names another place for it."""

    name: str
    release: str
    upstream: str
    variable: str

    @property
    def url(self) -> str:
        url = os.environ.get(self.variable) or self.upstream
        # Git ignores --depth for a plain path.
        return Path(url).resolve().as_uri() if Path(url).is_dir() else url


SPACK = Pin("spack", "v1.1.0", "https://github.com/spack/spack.git", "BISECTION_SPACK_URL")
PACKAGES = Pin(
    "spack-packages",
    "v2025.11.0",
    "https://github.com/spack/spack-packages.git",
    "BISECTION_SPACK_PACKAGES_URL",
)


@dataclass(frozen=True)
class Installation:
    """The installed kernels, and what they were built from and with."""

    system: str
    prefix: str
    lock: str  # the concretised environment, spack.lock
    lock_hash: str  # sha256 of that file, which names this checkout's path and this machine's CPU
    software_hash: str  # sha256 of the packages, versions and options alone: equal in two checkouts
    compiler: str  # name@version, as are mpi and fftw
    mpi: str
    fftw: str
    spack: str
    target: str  # the processor that Spack compiled for
    mpi_prefix: str  # its bin/ has the mpirun that belongs to the kernels


# ---- folders and systems -------------------------------------------------------------------------


def home() -> Path:
    """The folder for all that is generated."""
    return Path(os.environ.get("BISECTION_HOME") or REPOSITORY / ".bisection").absolute()


def systems() -> dict[str, Path]:
    """The environments there are: name and spack.yaml."""
    found = sorted((REPOSITORY / "spack-env").glob("*/spack.yaml"))
    if not found:
        raise SpackError(f"no */spack.yaml in {REPOSITORY / 'spack-env'}: this needs a checkout")
    return {path.parent.name: path for path in found}


def environment_file(system: str) -> Path:
    known = systems()
    if system not in known:
        raise SpackError(f"no Spack environment '{system}': choose from {', '.join(known)}, {AUTO}")
    return known[system]


def choose_system() -> str:
    """debian12 where all system packages that it takes are installed, else generic."""
    survey = survey_externals(environment_file("debian12"))
    return "generic" if survey.missing else "debian12"


# ---- externals: versions in the file against versions on the machine -----------------------------


@dataclass(frozen=True)
class Probe:
    """How to ask a system package for its version."""

    command: str  # its program is looked for in the external's bin/
    debian: str  # the packages that bring it
    pattern: str = r"(\d+(?:\.\d+)+)"
    provides: tuple[str, ...] = ()  # the names under which our recipe may ask for it
    files: tuple[str, ...] = ()  # what must be there too, relative to the prefix


PROBES = {
    # gfortran, not gcc: it is the one that may be missing, and it brings gcc.
    "gcc": Probe("gfortran -dumpfullversion", "gfortran", provides=("c", "cxx", "fortran")),
    # mpicc may be another MPI's, by Debian's alternatives; mpirun does not say which it is.
    "openmpi": Probe(
        "mpicc --showme:version",
        "libopenmpi-dev openmpi-bin",
        r"Open MPI (\d+(?:\.\d+)+)",
        ("mpi",),
    ),
    "fftw": Probe(
        "pkg-config --modversion fftw3",
        "libfftw3-dev libfftw3-mpi-dev",
        files=("include/fftw3-mpi.h",),
    ),
    "cjson": Probe("pkg-config --modversion libcjson", "libcjson-dev"),
    "openblas": Probe(
        "pkg-config --modversion openblas", "libopenblas-dev", provides=("blas", "lapack")
    ),
    "netlib-scalapack": Probe(
        "pkg-config --modversion scalapack-openmpi",
        "libscalapack-openmpi-dev",
        provides=("scalapack",),
    ),
    "hdf5": Probe("pkg-config --modversion hdf5-openmpi", "libhdf5-openmpi-dev"),
    "cmake": Probe("cmake --version", "cmake"),
    "gmake": Probe("make --version", "make"),
    "pkgconf": Probe("pkgconf --version", "pkgconf", provides=("pkgconfig",)),
}

EXTERNAL = re.compile(
    r"(?P<head>^\s*- spec: *[\"']?(?P<name>[\w-]+)@=?)(?P<version>[\w.]+)"
    r"(?=[^\n]*\n\s+prefix: *[\"']?(?P<prefix>[^\s\"']+))",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Survey:
    """The system packages of an environment: installed ones by name, and what is amiss."""

    installed: dict[str, str]
    differing: list[str]  # one line each
    missing: list[str]  # of those that the kernels need: "name (Debian packages)"


def ask(command: list[str]) -> str | None:
    """What a program says, None if it is not there or fails."""
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            # What modules or users set must not change what is asked.
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout + answer.stderr


def installed_version(probe: Probe, prefix: str) -> str | None:
    """The version of what is under `prefix`, None if it is not there."""
    if not all(Path(prefix, name).exists() for name in probe.files):
        return None
    program, *arguments = probe.command.split()
    match = re.search(probe.pattern, ask([f"{prefix}/bin/{program}", *arguments]) or "")
    return match[1] if match else None


def needed_packages() -> set[str]:
    """The probed packages that our recipe depends on."""
    asked = set(re.findall(r"depends_on\(\s*[\"']([\w-]+)", recipe().read_text()))
    return {name for name, probe in PROBES.items() if asked & {name, *probe.provides}}


def survey_externals(file: Path) -> Survey:
    """Compares the externals of `file` with this machine's packages.

    Only those in /usr: they change under our feet, where a site's own prefixes name a version."""
    needed = needed_packages()
    installed: dict[str, str] = {}
    differing: list[str] = []
    missing: list[str] = []
    for found in EXTERNAL.finditer(file.read_text()):
        name, version, prefix = found["name"], found["version"], found["prefix"]
        if prefix != "/usr" or name not in PROBES:
            continue
        there = installed_version(PROBES[name], prefix)
        if there is None:
            if name in needed:
                missing.append(f"{name} ({PROBES[name].debian})")
            continue
        installed[name] = there
        if there != version:
            differing.append(f"{name}: the file says {version}, {prefix} has {there}")
    return Survey(installed, differing, missing)


def check_missing(file: Path, survey: Survey) -> None:
    if survey.missing:
        raise SpackError(
            f"{relative(file)} takes these from the system, which lacks them: "
            f"{', '.join(survey.missing)}; install them or choose --system generic"
        )


def relative(path: Path) -> str:
    return os.path.relpath(path, REPOSITORY)


# ---- Spack itself --------------------------------------------------------------------------------


def find_spack() -> Path | None:
    """The Spack at hand: SPACK_ROOT's, or the one on PATH."""
    if root := os.environ.get("SPACK_ROOT"):
        program = Path(root, "bin", "spack")
        if not os.access(program, os.X_OK):
            raise SpackError(f"SPACK_ROOT is '{root}', which has no bin/spack: correct or unset it")
        return program
    on_path = shutil.which("spack")
    return Path(on_path) if on_path else None


def check_version(answer: str, program: Path) -> str:
    """The version in the first line of `spack --version`, refused if too old."""
    match = re.match(r"(\d+)\.(\d+)\S*", answer)
    if not match:
        raise SpackError(f"{program} --version says '{answer.strip()[:80]}', not a version")
    if (int(match[1]), int(match[2])) < OLDEST_SPACK:
        raise SpackError(
            f"{program} is Spack {match[0]}, older than {'.'.join(map(str, OLDEST_SPACK))}: name "
            f"another with SPACK_ROOT, or take it off PATH to have {SPACK.release} cloned"
        )
    return match[0]


def git(*arguments: str, timeout: float | None = None) -> subprocess.CompletedProcess[str]:
    # Neither a question for a password nor a connection that has died may hang an unattended run.
    patient = ["-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60"]
    return subprocess.run(
        ["git", *patient, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"},
    )


def unreachable(pin: Pin, timeout: float = 20) -> str | None:
    """Why the release cannot be cloned, None if it can."""
    reference = f"refs/tags/{pin.release}"
    try:
        answer = git("ls-remote", "--exit-code", pin.url, reference, timeout=timeout)
    except FileNotFoundError:
        return "git is not installed"
    except subprocess.TimeoutExpired:
        return f"no answer in {timeout:g} s"
    if answer.returncode == 0:
        return None
    if answer.returncode == 2:  # by --exit-code
        return f"it has no tag {pin.release}"
    return last_line(answer.stderr) or f"git exited with {answer.returncode}"


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip() if lines else ""


def clone(pin: Pin, say: Say) -> Path:
    """The clone of the pinned release, made unless it is there."""
    target = home() / "spack" / f"{pin.name}-{pin.release}"
    if target.exists():
        return target

    def refuse(why: str) -> SpackError:
        return SpackError(
            f"cannot clone {pin.name} {pin.release} from {pin.url}: {why}; {pin.variable} names "
            "another repository"
            + ("" if pin is PACKAGES else ", SPACK_ROOT an installed Spack to use instead")
        )

    if why := unreachable(pin):
        raise refuse(why)
    say(f"cloning {pin.name} {pin.release} from {pin.url}")
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        answer = git(
            *("-c", "advice.detachedHead=false", "clone", "--quiet", "--depth", "1"),
            *("--branch", pin.release, pin.url, str(partial)),
        )
        if answer.returncode != 0:
            raise refuse(last_line(answer.stderr))
        partial.rename(target)  # an interrupted clone leaves no target
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target


def imports_clingo(python: str) -> bool:
    try:
        answer = subprocess.run([python, "-E", "-c", "import clingo"], capture_output=True)
    except OSError:
        return False
    return answer.returncode == 0


def find_python(log: Path, say: Say) -> str:
    """A Python with Spack's solver: SPACK_PYTHON, ours, or a small environment made for it."""
    own = home() / "spack" / "python"
    for python in (os.environ.get("SPACK_PYTHON"), sys.executable, str(own / "bin" / "python")):
        if python and imports_clingo(python):
            return python

    target = sys.executable
    if sys.prefix == sys.base_prefix:  # the system's Python is not ours to change
        run([sys.executable, "-m", "venv", "--clear", str(own)], log, "making a Python environment")
        target = str(own / "bin" / "python")
    say(f"installing {CLINGO}, Spack's solver")
    install_clingo(target, log)
    return target


def install_clingo(python: str, log: Path) -> None:
    try:
        run([python, "-m", "pip", "install", "--disable-pip-version-check", CLINGO], log, "pip")
    except SpackError as error:
        raise SpackError(
            f"cannot install {CLINGO}, Spack's solver, into {python}: PIP_INDEX_URL names another "
            f"package index, SPACK_PYTHON a Python that has clingo; {error}"
        ) from None


def run(command: list[str], log: Path, what: str, env: Mapping[str, str] | None = None) -> None:
    """Runs a command with all its output in the log; a failure shows the end of it."""
    with log.open("a") as stream:
        print(
            time.strftime("%FT%TZ", time.gmtime()),
            "$",
            shlex.join(command),
            file=stream,
            flush=True,
        )
        begin = stream.tell()
        answer = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT, env=env
        )
    if answer.returncode != 0:
        with log.open(errors="replace") as stream:
            stream.seek(begin)
            shown = "".join(f"\n    {line}" for line in telling_lines(stream.read()))
        raise SpackError(f"{what} failed with {answer.returncode}, all of it in {log}{shown}")


def telling_lines(output: str, most: int = 20) -> list[str]:
    """The lines that say what failed and a few after each; the last lines if none does."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    errors = [n for n, line in enumerate(lines) if re.search(r"(?i)\berror:|^\s*>> ", line)]
    shown = sorted({m for n in errors for m in range(n, min(n + 3, len(lines)))})
    return [lines[n] for n in shown[:most]] or lines[-most:]


class Spack:
    """A Spack, run with a configuration of our own and none of the user's."""

    def __init__(self, log: Path, say: Say) -> None:
        found = find_spack()
        self.log = log
        self.program = found or clone(SPACK, say) / "bin" / "spack"
        self.scope = home() / "spack" / "config"
        self.env = spack_environment(find_python(log, say))
        self.version = check_version(self.answer("--version"), self.program)
        self.packages = (self.configured_packages() if found else None) or clone(
            PACKAGES, say
        ) / "repos" / "spack_repo" / "builtin"
        self.configuration = write_configuration(self.scope, self.packages)

    def answer(self, *arguments: str) -> str:
        """What a short command prints."""
        answer = subprocess.run(
            [str(self.program), *arguments],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            env=self.env,
        )
        if answer.returncode != 0:
            raise SpackError(
                f"{self.program} {shlex.join(arguments)} failed with {answer.returncode}: "
                f"{last_line(answer.stderr) or last_line(answer.stdout)}"
            )
        return answer.stdout

    def configured_packages(self) -> Path | None:
        """The recipes that a site has set up for its Spack, if any."""
        if os.environ.get(PACKAGES.variable):
            return None
        found = re.search(r"^\[\+\]\s+builtin\s+v2\S*\s+(/.*)$", self.answer("repo", "list"), re.M)
        return Path(found[1].strip()) if found else None

    def __call__(self, what: str, folder: Path, *arguments: str) -> None:
        """Runs a command on the environment in `folder`."""
        command = [str(self.program), "-C", str(self.scope), "-e", str(folder), *arguments]
        run(command, self.log, what, self.env)


def spack_environment(python: str) -> dict[str, str]:
    # An active Spack environment, or modules for another Python, must not reach our Spack.
    ours = {"SPACK_ENV", "SPACK_ENV_VIEW", "PYTHONPATH", "PYTHONHOME"}
    env = {name: value for name, value in os.environ.items() if name not in ours}
    return env | {
        "SPACK_PYTHON": python,
        "SPACK_DISABLE_LOCAL_CONFIG": "1",
        "SPACK_USER_CACHE_PATH": str(home() / "spack" / "user"),
    }


def write_configuration(scope: Path, packages: Path) -> str:
    """Keeps Spack inside our folder. Returns what was written."""
    base = home() / "spack"
    files: dict[str, dict[str, Any]] = {
        "config": {
            "install_tree": {"root": str(base / "opt")},
            "build_stage": [str(base / "stage")],
            "test_stage": str(base / "test"),
            "source_cache": str(base / "sources"),
            "misc_cache": str(base / "cache"),
            # Spack's default is a link inside src/.
            "develop_stage_link": str(base / "build-{hash}"),
        },
        "repos": {"builtin": str(packages)},
        "bootstrap": {"enable": False},
    }
    scope.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write(scope / f"{name}.yaml", json.dumps({name: content}, indent=1))  # JSON is YAML
    return json.dumps(files)


def write(path: Path, text: str) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    partial.write_text(text)
    partial.replace(path)


# ---- what an installation depends on -------------------------------------------------------------


def recipe() -> Path:
    return REPOSITORY.joinpath(
        *("spack-env", "repo", "spack_repo", "bisection", "packages", "bisection_kernels"),
        "package.py",
    )


def render(file: Path, installed: Mapping[str, str]) -> str:
    """The environment for Spack: relative paths made absolute, installed versions filled in."""

    def absolute(match: re.Match[str]) -> str:
        return match[1] + json.dumps(os.path.normpath(file.parent / match[2]))

    def version(match: re.Match[str]) -> str:
        system = match["prefix"] == "/usr"
        there = installed.get(match["name"]) if system else None
        return match["head"] + (there or match["version"])

    text = EXTERNAL.sub(version, file.read_text())
    return re.sub(r"(?m)^(\s*(?:- )?[\w-]+: +)(\.\.?/[^\s#]*)", absolute, text)


def digest(*parts: str | bytes) -> str:
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(b"%d:" % len(data) + data)  # so that two splits of one text differ
    return total.hexdigest()


def file_digests(folder: Path) -> dict[str, str]:
    """sha256 of every file below a folder, by relative path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def host(environment: str) -> str:
    """What Spack finds out by itself: CPU, C library, system release, and compilers on PATH unless
    the environment names them."""
    facts = [platform.machine(), *platform.libc_ver()]
    with contextlib.suppress(OSError):
        facts.append(Path("/etc/os-release").read_text())
        cpu = Path("/proc/cpuinfo").read_text()
        facts += re.findall(r"(?m)^(?:flags|Features|cpu)\s*:.*$", cpu)[:1]
    if "compilers:" not in environment:
        for name in ("gcc", "g++", "gfortran"):
            path = shutil.which(name)
            facts.append(f"{path} {path and ask([path, '-dumpfullversion'])}")
    return digest(*facts)


def lock_facts(lock: Path) -> dict[str, str]:
    """The hashes and versions that Installation reports, from a spack.lock."""
    data = lock.read_bytes()
    content = json.loads(data)
    specs = content["concrete_specs"]
    root = specs[content["roots"][0]["hash"]]
    target = root["arch"]["target"]
    provider = {}
    for edge in root["dependencies"]:
        spec = specs[edge["hash"]]
        for name in (edge["name"], *edge["parameters"].get("virtuals", ())):
            provider[name] = f"{spec['name']}@{spec['version']}"
    return {
        "lock_hash": hashlib.sha256(data).hexdigest(),
        "software_hash": software_hash(specs.values()),
        "compiler": provider.get("c", "unknown"),
        "mpi": provider.get("mpi", "unknown"),
        "fftw": provider.get("fftw", "unknown"),
        "target": target if isinstance(target, str) else target["name"],
    }


def software_hash(specs: Any) -> str:
    described = []
    for spec in specs:
        options = {k: v for k, v in spec.get("parameters", {}).items() if k != "dev_path"}
        described.append([spec["name"], spec["version"], options, spec.get("package_hash")])
    return digest(json.dumps(sorted(described, key=json.dumps), sort_keys=True))


# ---- installing ----------------------------------------------------------------------------------


@dataclass
class State:
    """What the last call left in the environment's folder."""

    wanted: str = ""  # digest of all that the lock follows from
    sources: dict[str, str] = dataclasses.field(default_factory=dict)
    commit: str = ""
    installed_at: float = 0
    installation: dict[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> State:
        try:
            return cls(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return cls()

    def save(self, path: Path) -> None:
        write(path, json.dumps(dataclasses.asdict(self), indent=1))

    def concretised(self, wanted: str, lock: Path) -> bool:
        known = self.installation.get("lock_hash")
        return (
            self.wanted == wanted
            and lock.is_file()
            and known in (None, hashlib.sha256(lock.read_bytes()).hexdigest())
        )

    def complete(self, sources: Mapping[str, str], commit: str) -> bool:
        prefix = self.installation.get("prefix", "")
        same = self.sources == sources and self.commit == commit
        return same and prefix != "" and executables(Path(prefix)) != []


def executables(prefix: Path) -> list[str]:
    return sorted(path.name for path in prefix.glob("bin/bisection-*") if os.access(path, os.X_OK))


def unseen_changes(folder: Path, state: State, sources: Mapping[str, str]) -> list[str]:
    """Changed files older than the last installation (unpacked, or copied with their times):
    make would not compile them again."""
    changed = [name for name, value in sources.items() if state.sources.get(name) != value]
    return [name for name in changed if (folder / name).stat().st_mtime <= state.installed_at]


@contextlib.contextmanager
def locked(path: Path, say: Say) -> Iterator[None]:
    """One provisioning at a time in one folder."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another build, which holds {path}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def tell(message: str) -> None:
    print(f"spack: {message}", file=sys.stderr, flush=True)


def default_jobs() -> int:
    return min(len(os.sched_getaffinity(0)), 16)  # a login node is shared


def install(system: str = AUTO, *, jobs: int | None = None, say: Say = tell) -> Installation:
    """Installs the kernels from spack-env/<system>/ unless nothing has changed since.

    `auto` is debian12 where its packages are installed, else generic. Raises SpackError."""
    system = choose_system() if system == AUTO else system
    file = environment_file(system)
    base = home() / "spack"
    if odd := set(re.findall(r"[^\w.+/-]", str(base), re.ASCII)):
        raise SpackError(
            f"Spack cannot build in '{base}' because of {' '.join(map(repr, sorted(odd)))}: "
            "BISECTION_HOME names another folder"
        )
    try:
        base.mkdir(parents=True, exist_ok=True)
        with locked(base / "lock", say):
            return install_locked(system, file, base, jobs or default_jobs(), say)
    except OSError as error:
        raise SpackError(f"cannot provision in {base}: {error}") from error


def install_locked(system: str, file: Path, base: Path, jobs: int, say: Say) -> Installation:
    forget_if_moved(base, say)
    log = base / f"{system}.log"
    folder = base / "environments" / system
    folder.mkdir(parents=True, exist_ok=True)
    lock, stamp = folder / "spack.lock", folder / "state.json"
    state = State.load(stamp)

    survey = survey_externals(file)
    check_missing(file, survey)
    spack = Spack(log, say)
    environment = render(file, survey.installed)
    recipes = json.dumps(file_digests(REPOSITORY / "spack-env" / "repo"))
    wanted = digest(environment, recipes, spack.version, spack.configuration, host(environment))

    if not state.concretised(wanted, lock):
        for line in survey.differing:
            say(f"{relative(file)}: {line}; building for what is installed")
        say(f"concretising {system} with Spack {spack.version} (up to two minutes, once)")
        state = dataclasses.replace(state, wanted="", installation={})
        state.save(stamp)  # if this call dies, the next one concretises again
        lock.unlink(missing_ok=True)
        write(folder / "spack.yaml", environment)
        spack(f"concretising {system}", folder, "concretize")
        state.wanted = wanted
        state.save(stamp)

    source = REPOSITORY / "src"
    sources, commit = file_digests(source), described_commit()
    if not state.complete(sources, commit):
        say(f"building {KERNELS} with {jobs} jobs, output in {log}")
        unknown = not state.sources or unseen_changes(source, state, sources)
        prepare_build_trees(base, clean=bool(unknown))
        options = ["-j", str(jobs), *overwrite(spack, folder)]
        spack(f"building {KERNELS}", folder, "install", *options)
        made = describe(spack, system, folder)
        state = State(wanted, sources, commit, time.time(), dataclasses.asdict(made))
        state.save(stamp)
    return Installation(**state.installation)


def forget_if_moved(base: Path, say: Say) -> None:
    """Removes what was installed if the folder was moved since: Spack writes its path into all."""
    note = base / "path"
    if note.exists() and note.read_text() != str(base):
        say(f"{base} was {note.read_text()}: building again")
        for name in ("opt", "stage", "environments"):
            shutil.rmtree(base / name, ignore_errors=True)
        for link in base.glob("build-*"):
            link.unlink()
    write(note, str(base))


def described_commit() -> str:
    """The commit that the kernels record in their results, "" where git cannot tell."""
    try:
        return git("-C", str(REPOSITORY), "describe", "--always", "--dirty").stdout.strip()
    except OSError:
        return ""


def prepare_build_trees(base: Path, clean: bool) -> None:
    """Makes Spack configure again, and with `clean` forget what was compiled."""
    for link in base.glob("build-*"):
        if clean:
            shutil.rmtree(link.resolve(), ignore_errors=True)
            link.unlink()
        # Spack does not run CMake where it finds a Makefile, but CMake looks up the commit.
        for makefile in link.glob("spack-build-*/Makefile"):
            makefile.unlink()


def overwrite(spack: Spack, folder: Path) -> list[str]:
    """What makes Spack build again; it goes by file times, and refuses this the first time."""
    return ["--overwrite", "--yes-to-all", KERNELS] if KERNELS in prefixes(spack, folder) else []


def prefixes(spack: Spack, folder: Path) -> dict[str, str]:
    """The installed packages of an environment and where they are."""
    query = ("find", "--format", "{name} {prefix}")
    answer = spack.answer("-C", str(spack.scope), "-e", str(folder), *query)
    words = (line.split(maxsplit=1) for line in answer.splitlines())
    return {pair[0]: pair[1].strip() for pair in words if len(pair) == 2}


def describe(spack: Spack, system: str, folder: Path) -> Installation:
    """What was installed."""
    places = prefixes(spack, folder)
    prefix = Path(places.get(KERNELS, ""))
    if not executables(prefix):
        raise SpackError(f"Spack installed no bisection-* program in {prefix / 'bin'}")
    lock = folder / "spack.lock"
    facts = lock_facts(lock)
    mpi = places.get(facts["mpi"].split("@")[0], "")
    return Installation(
        system=system,
        prefix=str(prefix),
        lock=str(lock),
        spack=spack.version,
        mpi_prefix=mpi,
        **facts,
    )


# ---- command line --------------------------------------------------------------------------------


def positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number above 0")
    return value


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="bisection.spack", description="Build the kernels by Spack.")
    commands = top.add_subparsers(dest="command", required=True)

    build = commands.add_parser("install", help="install the kernels, if anything has changed")
    build.add_argument("--jobs", "-j", type=positive, metavar="N", help="compile N files at a time")
    form = build.add_mutually_exclusive_group()
    form.add_argument("--print-prefix", action="store_true", help="print the prefix alone")
    form.add_argument("--json", action="store_true", help="print all as JSON")

    externals = commands.add_parser("externals", help="compare the versions of system packages")
    for command in (build, externals):
        names = ", ".join(systems())
        command.add_argument("--system", required=True, metavar="NAME", help=f"{names}, or {AUTO}")
    return top


def show(installation: Installation, arguments: argparse.Namespace) -> None:
    facts = dataclasses.asdict(installation)
    if arguments.json:
        print(json.dumps(facts, indent=1))
    elif arguments.print_prefix:
        print(installation.prefix)
    else:
        for name, value in facts.items():
            print(f"{name.replace('_', ' '):14} {value}")


def report_externals(system: str) -> int:
    file = environment_file(choose_system() if system == AUTO else system)
    survey = survey_externals(file)
    for line in survey.differing:
        print(f"{relative(file)}: {line}")
    check_missing(file, survey)
    if not survey.differing:
        print(f"{relative(file)}: {len(survey.installed)} system packages, all as the file says")
    return 1 if survey.differing else 0


def main(arguments: list[str] | None = None) -> int:
    try:
        given = parser().parse_args(arguments)
        if given.command == "externals":
            return report_externals(given.system)
        show(install(given.system, jobs=given.jobs), given)
    except SpackError as error:
        print(f"bisection.spack: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
