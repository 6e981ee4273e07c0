"""Spack environments, and the system packages that they name beside those installed."""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from bisection.core import commands, paths
from bisection.core.verdicts import NotMeasured

KERNELS = "bisection-kernels"
AUTO = "auto"


class SpackError(NotMeasured):
    """An error in one line; after a failed command, the end of its output too."""

    facts: Mapping[str, str] = {}  # of the installation, known by then, as `install` returns them


def systems() -> dict[str, Path]:
    files = sorted((paths.ROOT / "spack-env").glob("*/spack.yaml"))
    return {path.parent.name: path for path in files}


def environment_file(system: str) -> Path:
    """The spack.yaml of a system; `auto` is debian12 where all system packages that it takes are
    installed, else generic.

    Raises:
        SpackError: there is none of this name.
    """
    known = systems()
    if system == AUTO:
        system = "generic" if survey_externals(known["debian12"]).missing else "debian12"
    if system not in known:
        raise SpackError(f"no Spack environment '{system}': choose from {', '.join(known)}, {AUTO}")
    return known[system]


@dataclass(frozen=True)
class Probe:
    """How to ask a system package for its version."""

    command: str  # its program is looked for in the external's bin/
    debian: str  # the packages that bring it
    pattern: str = r"(\d+(?:\.\d+)+)"


PROBES = {  # all that the recipe depends on
    # gfortran, not gcc: it is the one that may be missing, and it brings gcc.
    "gcc": Probe("gfortran -dumpfullversion", "gfortran"),
    # mpicc may be another MPI's, by Debian's alternatives; mpirun does not say which it is.
    "openmpi": Probe(
        "mpicc --showme:version", "libopenmpi-dev openmpi-bin", r"Open MPI (\d+(?:\.\d+)+)"
    ),
    "fftw": Probe("pkg-config --modversion fftw3", "libfftw3-dev"),
    "openblas": Probe("pkg-config --modversion openblas", "libopenblas-dev"),
    "netlib-scalapack": Probe(
        "pkg-config --modversion scalapack-openmpi", "libscalapack-openmpi-dev"
    ),
    "cmake": Probe("cmake --version", "cmake"),
    "gmake": Probe("make --version", "make"),
    "pkgconf": Probe("pkgconf --version", "pkgconf"),
}
EXTERNAL = re.compile(
    r"(?P<head>^\s*- spec: *[\"']?(?P<name>[\w-]+)@=?)(?P<version>[\w.]+)"
    r"(?=[^\n]*\n\s+prefix: *[\"']?(?P<prefix>[^\s\"']+))",
    re.MULTILINE,
)
# What modules or users set must not change what a system package is asked.
CLEAN = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}


@dataclass(frozen=True)
class SystemPackages:
    """The system packages that an environment takes, and what is amiss."""

    file: Path
    installed: dict[str, str] = field(default_factory=dict)  # versions by name
    differing: list[str] = field(default_factory=list)  # one line each
    missing: list[str] = field(default_factory=list)  # "name (Debian packages)"

    def require(self) -> None:
        """Raises SpackError, naming them, if packages of the system are missing."""
        if self.missing:
            raise SpackError(
                f"{paths.shown(self.file)} takes these from the system, which lacks them: "
                f"{', '.join(self.missing)}; install them or choose --system generic"
            )


def ask(*command: str, environ: Mapping[str, str] = CLEAN) -> str:
    """Returns what a program prints, "" if it is not there or fails."""
    answer = commands.ask(*command, environ=environ)
    return answer.text + answer.stderr if answer else ""


def installed_version(probe: Probe, prefix: str) -> str | None:
    """The version of what is under `prefix`, None if it is not there."""
    program, *arguments = probe.command.split()
    match = re.search(probe.pattern, ask(f"{prefix}/bin/{program}", *arguments))
    return match[1] if match else None


def survey_externals(file: Path) -> SystemPackages:
    """Compares the externals of `file` with this machine's packages.

    Only those in /usr: they change under our feet, where a site's own prefixes name a version."""
    packages = SystemPackages(file)
    for match in EXTERNAL.finditer(file.read_text()):
        name, version, prefix = match["name"], match["version"], match["prefix"]
        if prefix != "/usr" or name not in PROBES:
            continue
        there = installed_version(PROBES[name], prefix)
        if there is None:
            packages.missing.append(f"{name} ({PROBES[name].debian})")
            continue
        packages.installed[name] = there
        if there != version:
            packages.differing.append(f"{name}: the file says {version}, {prefix} has {there}")
    return packages


def render(file: Path, installed: Mapping[str, str]) -> str:
    """The text of a spack.yaml below spack-env/, with absolute paths, and with these versions of
    the system's packages, by name."""

    def absolute(match: re.Match[str]) -> str:
        return match[1] + json.dumps(os.path.normpath(file.parent / match[2]))

    def version(match: re.Match[str]) -> str:
        there = installed.get(match["name"]) if match["prefix"] == "/usr" else None
        return match["head"] + (there or match["version"])

    text = EXTERNAL.sub(version, file.read_text())
    return re.sub(r"(?m)^(\s*(?:- )?[\w-]+: +)(\.\.?/[^\s#]*)", absolute, text)
