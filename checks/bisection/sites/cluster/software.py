"""The software of the host that runs this: MPI, modules, libraries, as they are on PATH now."""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass

from bisection.core.commands import ask

# The build finds these by pkg-config alone (src/CMakeLists.txt).
LIBRARIES = {"FFTW": "fftw3", "cJSON": "libcjson"}
COMPILERS = ("mpicc", "cc")  # that find MPI by themselves; cc is Cray's
LAUNCHERS = ("mpirun", "mpiexec")

# What a launcher prints of itself -> the MPI library that it belongs to.
KINDS = {
    "openmpi": r"Open MPI|OpenRTE",
    "intel-mpi": r"Intel\(R\) MPI",
    "mpich": r"HYDRA|MPICH",
    "mvapich": r"MVAPICH",
}


@dataclass(frozen=True)
class Software:
    """Programs on PATH, and loaded modules."""

    compiler: str  # of MPI programs, its path; "" for none
    launcher: str  # mpirun or mpiexec, by name; "" for none
    kind: str  # of KINDS; "" if unknown
    version: str
    modules_system: str  # ReFrame's name; nomod for none
    modules: list[str]  # that are loaded
    libraries: dict[str, str]  # those that pkg-config finds -> version

    @property
    def missing(self) -> list[str]:
        """The libraries that the kernels need and pkg-config does not find."""
        return [name for name in LIBRARIES if name not in self.libraries]


def read(environ: Mapping[str, str] = os.environ) -> Software:
    """Returns the present state."""
    compiler = next(filter(None, map(shutil.which, COMPILERS)), "")
    launcher = next((name for name in LAUNCHERS if shutil.which(name)), "")
    about = ask(launcher, "--version") if launcher else None
    kind, version = mpi_of(about.text + about.stderr) if about else ("", "")
    # The versions that pkg-config finds.
    answers = {name: ask("pkg-config", "--modversion", word) for name, word in LIBRARIES.items()}
    return Software(
        compiler=compiler,
        launcher=launcher,
        kind=kind,
        version=version,
        modules_system=modules_system(environ),
        modules=[name for name in environ.get("LOADEDMODULES", "").split(":") if name],
        libraries={name: answer.text.strip() for name, answer in answers.items() if answer},
    )


def mpi_of(about: str) -> tuple[str, str]:
    """Kind and version of an MPI, of what its launcher prints of itself."""
    kind = next((name for name, words in KINDS.items() if re.search(words, about)), "")
    # Intel's is a year and an update: "Version 2021.13 Build 20240515".
    match = re.search(r"\d+(?:\.\d+)+", about)
    return kind, match[0] if match else ""


def modules_system(environ: Mapping[str, str]) -> str:
    """ReFrame's name of the modules system that a shell has set up."""
    names = {"LMOD_CMD": "lmod", "MODULES_CMD": "tmod4", "MODULESHOME": "tmod32"}
    return next((name for variable, name in names.items() if variable in environ), "nomod")
