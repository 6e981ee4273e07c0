"""Writes the Spack environment of a site: its MPI, compilers and libraries; Spack builds the rest.

    environment_for("vc", "/opt/openmpi")    the text of spack-env/vc/spack.yaml

A library over MPI is taken only if it loads the very MPI that was given, OpenBLAS only if its
threads are OpenMP's. What is not taken, and why, stands in the head of the file.
"""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import yaml

from bisection.kernels.spack.externals import (
    PROBES,
    Probe,
    SpackError,
    ask,
    environment_file,
    installed_version,
)
from bisection.kernels.spack.program import SPACK, Spack, find_spack

External = dict[str, Any]  # an entry under "externals" of packages.yaml

# Those that their own compilers' wrappers name; Spack knows more.
MPICH = Probe("mpicc -v", "libmpich-dev mpich", r"mpicc for MPICH version (\S+)")
MPIS = {"openmpi": PROBES["openmpi"], "mpich": MPICH}
OTHER_MPIS = "mvapich mvapich2 mvapich-plus intel-oneapi-mpi cray-mpich".split()
OTHER_COMPILERS = "llvm nvhpc intel-oneapi-compilers cce aocc".split()
TOOLS = ("cmake", "gmake", "pkgconf")
WRAPPERS = {"c": "mpicc", "cxx": "mpicxx", "fortran": "mpifort"}
LIBRARIES = {  # modules of pkg-config, where {mpi} is the package of the MPI; variants
    "fftw": (("fftw3",), "+openmp precision=double"),
    "openblas": (("openblas",), "threads=openmp"),
    "netlib-scalapack": (("scalapack-{mpi}", "scalapack"), ""),
}


class NotTaken(Exception):
    """Why Spack is to build a library, in words."""


def environment_for(system: str, mpi_prefix: str) -> str:
    """A Spack environment that builds the kernels over an MPI of the machine.

    Environment variables count, those of modules too: load what the jobs are to load.

    Args:
        system: the name of the site, for the file's first line.
        mpi_prefix: the folder of the MPI; its bin/ has mpicc and mpifort.

    Returns:
        The text of spack-env/<system>/spack.yaml. It names no path of this checkout.

    Raises:
        SpackError: there is no MPI, or neither this module nor a Spack at hand knows it or its
            compilers.
    """
    wrappers = {lang: f"{mpi_prefix}/bin/{name}" for lang, name in WRAPPERS.items()}
    if not shutil.which(wrappers["c"]):
        raise SpackError(f"there is no mpicc in {mpi_prefix}/bin: name the folder of an MPI")
    shown = {language: _words(wrapper, "-show") for language, wrapper in wrappers.items()}
    programs = {lang: shutil.which(words[0]) for lang, words in shown.items() if words}
    compilers = {lang: str(Path(path).absolute()) for lang, path in programs.items() if path}
    for language in ("c", "fortran"):
        if language not in compilers:
            raise SpackError(f"{wrappers[language]} -show names no compiler")

    mpi = _probed(MPIS, mpi_prefix) or _by_spack(OTHER_MPIS, [f"{mpi_prefix}/bin"])
    folders = sorted(set(map(os.path.dirname, compilers.values())))
    compiler = _gcc(compilers) or _by_spack(OTHER_COMPILERS, folders)
    (mpi_package,), (compiler_package,) = mpi, compiler
    taken = {**compiler, **mpi}
    mpi_file = _file(shown["c"], "mpi") or _file(shown["c"], "mpich")
    built = {}
    for name in LIBRARIES:
        try:
            taken[name] = _library(name, mpi_package, mpi_file)
        except NotTaken as why:
            built[name] = str(why)
    for name in TOOLS:
        if path := shutil.which(PROBES[name].command.split()[0]):
            taken |= _probed({name: PROBES[name]}, str(Path(path).parents[1]))

    content = yaml.safe_load(environment_file("generic").read_text())
    packages = content["spack"]["packages"]
    languages = {language: [compiler_package] for language in compilers}
    packages["all"]["providers"] |= {**languages, "mpi": [mpi_package]}
    for name, external in taken.items():
        packages.setdefault(name, {}).update({"buildable": False, "externals": [external]})
    today = datetime.now(timezone.utc).strftime("%Y-%m-%d")
    head = f"# The machine's own MPI, compilers and libraries for {system}, as found on {today}.\n"
    head += "".join(f"# Spack builds {name}: {why}.\n" for name, why in built.items())
    return head + yaml.safe_dump(content, sort_keys=False, width=1000)


def _probed(probes: Mapping[str, Probe], prefix: str) -> dict[str, External]:
    versions = {name: installed_version(probe, prefix) for name, probe in probes.items()}
    return {n: {"spec": f"{n}@{v}", "prefix": prefix} for n, v in versions.items() if v}


def _gcc(compilers: dict[str, str]) -> dict[str, External]:
    """The GNU compilers behind the wrappers; none if one of them is another, or they differ."""
    about = [ask(path, "--version", environ=os.environ) for path in compilers.values()]
    versions = {" ".join(_words(path, "-dumpfullversion")) for path in compilers.values()}
    gnu = all("Free Software Foundation" in text for text in about)
    if not gnu or len(versions) != 1 or "" in versions:
        return {}
    languages = ",".join(compilers).replace("cxx", "c++")  # as Spack's gcc names them
    return {
        "gcc": {
            "spec": f"gcc@{versions.pop()} languages:='{languages}'",
            "prefix": str(Path(compilers["c"]).parents[1]),
            "extra_attributes": {"compilers": compilers},
        }
    }


def _by_spack(names: Sequence[str], folders: Sequence[str]) -> dict[str, External]:
    """The first of these packages that Spack detects in folders of programs."""
    where = ", ".join(folders)
    if not find_spack() and not SPACK.folder.exists():
        raise SpackError(
            f"what is in {where} can only be named by Spack: SPACK_ROOT names an installed one"
        )
    SPACK.folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "spack.yaml")
        file.write_text("spack:\n  specs: []\n")
        spack = Spack(SPACK.folder.with_name("external.log"))
        options = [word for path in folders for word in ("--path", path)]
        spack(f"looking in {where}", Path(folder), "external", "find", *options, *names)
        content = yaml.safe_load(file.read_text())
    for name, package in (content["spack"].get("packages") or {}).items():
        if package.get("externals"):
            return {name: package["externals"][0]}
    raise SpackError(f"Spack found no package in {where}; searched for {names}")


def _library(name: str, mpi: str, mpi_file: Path | None) -> External:
    modules, variants = LIBRARIES[name]
    for module in [text.format(mpi=mpi) for text in modules]:
        if version := " ".join(_words("pkg-config", "--modversion", module)):
            break
    else:
        raise NotTaken("pkg-config does not know it")
    linked = _words("pkg-config", "--libs", module)
    linked += [f"-L{folder}" for folder in _words("pkg-config", "--variable=libdir", module)]
    stem = next((word[2:] for word in linked if word.startswith("-l")), "")
    file = _file(linked, stem)
    if file is None:
        raise NotTaken(f"there is no lib{stem}.so")
    if name == "netlib-scalapack":
        linked_with = " ".join(_words("ldd", str(file)))
        loaded = re.findall(r"libmpi(?:ch)?\.so\S* => (/\S+)", linked_with)
        if mpi_file not in [Path(path).resolve() for path in loaded]:
            other = loaded[0] if loaded else "none"
            raise NotTaken(f"{file} is linked with another MPI, {other}")
    if name == "openblas" and _threads(file) != "2":
        raise NotTaken(f"{file} is not threaded by OpenMP")
    prefix = str(file).partition("/lib")[0] or "/usr"  # Debian's /lib is /usr/lib
    return {"spec": f"{name}@{version} {variants}".strip(), "prefix": prefix}


def _threads(file: Path) -> str:
    """Returns what an OpenBLAS says of its threads: 0 none, 1 its own, 2 OpenMP's."""
    ask_it = "import ctypes, sys; print(ctypes.CDLL(sys.argv[1]).openblas_get_parallel())"
    return " ".join(_words(sys.executable, "-c", ask_it, str(file)))


def _file(words: Sequence[str], name: str) -> Path | None:
    """The shared library that a compiler links for -lNAME with the -L of these words."""
    folders = [word[2:] for word in words if word.startswith("-L")]
    file = f"lib{name}.so"
    libraries = [Path(folder, file) for folder in folders if Path(folder, file).exists()]
    libraries += [Path(word) for word in _words("cc", f"-print-file-name={file}") if "/" in word]
    return libraries[0].resolve() if libraries else None


def _words(*command: str) -> list[str]:
    return ask(*command, environ=os.environ).split()
