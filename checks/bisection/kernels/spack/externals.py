"""Spack environments, and the system packages that they name against those installed."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bisection.core import paths

KERNELS = "bisection-kernels"
AUTO = "auto"


class SpackError(Exception):
    """An error in one line; after a failed command, the end of its output too.

    `facts` is what was known of the installation by then, under the names of Installation.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.facts: dict[str, str] = {}


def systems() -> dict[str, Path]:
    """The environments there are: name and spack.yaml."""
    files = sorted((paths.ROOT / "spack-env").glob("*/spack.yaml"))
    if not files:
        raise SpackError(f"no */spack.yaml in {paths.ROOT / 'spack-env'}: this needs a checkout")
    return {path.parent.name: path for path in files}


def environment_file(system: str) -> Path:
    """The spack.yaml of a system; SpackError if there is none of this name."""
    known = systems()
    if system not in known:
        raise SpackError(f"no Spack environment '{system}': choose from {', '.join(known)}, {AUTO}")
    return known[system]


def choose_system() -> str:
    """debian12 where all system packages that it takes are installed, else generic."""
    survey = survey_externals(environment_file("debian12"))
    return "generic" if survey.missing else "debian12"


@dataclass(frozen=True)
class Probe:
    """How to ask a system package for its version."""

    command: str  # its program is looked for in the external's bin/
    debian: str  # the packages that bring it
    pattern: str = r"(\d+(?:\.\d+)+)"
    provides: tuple[str, ...] = ()  # the names under which our recipe may ask for it


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
    "fftw": Probe("pkg-config --modversion fftw3", "libfftw3-dev"),
    "cjson": Probe("pkg-config --modversion libcjson", "libcjson-dev"),
    "openblas": Probe(
        "pkg-config --modversion openblas", "libopenblas-dev", provides=("blas", "lapack")
    ),
    "netlib-scalapack": Probe(
        "pkg-config --modversion scalapack-openmpi",
        "libscalapack-openmpi-dev",
        provides=("scalapack",),
    ),
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


# What modules or users set must not change what a system package is asked.
CLEAN = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}


def ask(command: list[str], env: Mapping[str, str] = CLEAN) -> str | None:
    """Returns what a program prints, None if it is not there or fails.

    Args:
        command: the program and its arguments.
        env: its environment variables.
    """
    try:
        answer = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            env=env,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout + answer.stderr


def installed_version(probe: Probe, prefix: str) -> str | None:
    """The version of what is under `prefix`, None if it is not there."""
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
    for match in EXTERNAL.finditer(file.read_text()):
        name, version, prefix = match["name"], match["version"], match["prefix"]
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
    """Raises SpackError, naming them, if packages of the system are missing."""
    if survey.missing:
        raise SpackError(
            f"{paths.shown(file)} takes these from the system, which lacks them: "
            f"{', '.join(survey.missing)}; install them or choose --system generic"
        )


def recipe() -> Path:
    """The recipe of the Spack package of the kernels."""
    return paths.ROOT.joinpath(
        *("spack-env", "repo", "spack_repo", "bisection", "packages", "bisection_kernels"),
        "package.py",
    )
