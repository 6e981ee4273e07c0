"""Kernels that CMake built, kept below the home for the runs that follow.

    python -m bisection.kernels.kept find rfm_build.sh    prints a kept build; exits with 1 if none
    python -m bisection.kernels.kept keep rfm_build.sh    installs build/, keeps and prints it

Both print {"prefix": folder, "built": Unix time, "kept": was it there before?}. A kept build is
used again while nothing differs of

  what was asked for  the sources, the build script with its modules and CMake options, variables
                      that compilers and CMake read, the tools on PATH, the processor
  what was found      each header, library and tool that the build read and each library that its
                      programs load, by size and time of change; the names of the files beside them

so that a package that replaced another under the same path is noticed, as is a library that CMake
did not find and would find now. `find` runs where the build would: with its modules, on its node.
"""

import argparse
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.kernels import sources
from bisection.kernels.spack.lock import digest

Record = dict[str, Any]  # build.json of a kept build

FEWEST = 8  # builds that are kept, the last used ones; all that were used within a day are

# What compilers, linkers, pkg-config and CMake read; not what tunes MPI at run time. PATH differs
# between cron and a terminal: the tools that it leads to count.
VARIABLES = re.compile(
    r"LOADEDMODULES|_LMFILES_|LD_PRELOAD|LD_RUN_PATH|CPATH|\w*(INCLUDE|LIBRARY|PREFIX)_PATH|"
    r"(PKG_CONFIG|CMAKE|CRAY|CRAYPE|PE)_\w*|(\w+_)?(CC|CXX|FC|F77|F90|LIBS)|"
    r"(\w+_)?(C|CPP|CXX|F|FC|LD)FLAGS|"
    r"\w*(MPI|HDF5|FFTW|FFTW3|BLAS|LAPACK|MKL|ELPA|SPFFT)_?(ROOT|DIR|HOME)",
    re.I,
)
TOOLS = (
    "cmake make ninja ld pkg-config mpicc mpifort mpif90 mpiexec mpirun h5cc h5pcc cc gcc clang "
    "icx icc nvc craycc f95 gfortran ftn ifx ifort nvfortran flang flang-new "
    "smpicc smpirun"
).split()
# Where administrators put what no package manager knows.
LOCAL = [f"/usr/local/{name}" for name in ("bin", "include", "lib", "lib64")]
PROCESSOR = r"(?m)^(?:model name|flags|CPU implementer|CPU part|Features|cpu)\s*:.*$"


def folder() -> Path:
    """Where builds are kept."""
    return paths.home() / "kernels"


def asked_for(script: Path) -> str:
    """A digest of all that is known before CMake looks around.

    Args:
        script: the build script; how many files it compiles at a time does not count, nor what it
            asks of a scheduler.

    Raises:
        OSError: the script or a source file cannot be read.
    """
    variables = {n: v for n, v in os.environ.items() if VARIABLES.fullmatch(n)}
    tools = [shutil.which(name) for name in TOOLS]
    try:
        processor = sorted(set(re.findall(PROCESSOR, Path("/proc/cpuinfo").read_text())))
    except OSError:
        processor = []
    facts = [sources.of_checkout(), variables, tools, platform.machine(), processor]
    commands = re.sub(r"(?m)^#.*\n|(-j|--parallel) \d+", "", script.read_text())
    return digest(commands, json.dumps(facts, sort_keys=True))


def files_read(build: Path) -> set[str]:
    """The files outside of the project that a build in this folder read: headers, by the
    compilers' lists of dependencies; libraries and tools, by CMake's cache."""
    words = set()
    for path in build.rglob("*.d"):
        words |= set(re.split(r"(?<!\\)\s+", path.read_text(errors="replace")))
    for line in (build / "CMakeCache.txt").read_text(errors="replace").splitlines():
        words |= set(line.partition("=")[2].split(";"))
    own = (f"{paths.ROOT / 'src'}/", f"{build.resolve()}/")
    files = {word.replace("\\ ", " ") for word in words if word.startswith("/")}
    return {file for file in files if os.path.isfile(file) and not file.startswith(own)}


def files_loaded(prefix: Path) -> set[str]:
    """The libraries that the programs of an installation load here and now."""
    command = ["ldd", *sorted(map(str, prefix.glob("bin/*")))]
    loaded = subprocess.run(command, capture_output=True, text=True).stdout
    return set(re.findall(r"(?m)^\s+(?:\S+ => )?(/.+) \(0x[0-9a-f]+\)$", loaded))


def states(prefix: Path, names: Iterable[str]) -> dict[str, Any]:
    """What tells whether files and folders are what they were.

    Args:
        prefix: the folder of names that are not absolute.
        names: files and folders.

    Returns:
        name -> [size in bytes, time of change in ns] of a file, a digest of the names in a folder,
        None of what is not there.
    """
    states = {}
    for name in names:
        path = prefix / name
        try:
            status = path.stat()
            listed = digest(*sorted(os.listdir(path))) if path.is_dir() else None
            states[name] = listed or [status.st_size, status.st_mtime_ns]
        except OSError:
            states[name] = None
    return states


def differences(prefix: Path, record: Record) -> list[str]:
    """The names of what is not as it was when a build was kept; empty if it can be used."""
    now = states(prefix, record["states"])
    different = [name for name, state in record["states"].items() if now[name] != state]
    return different or sorted(files_loaded(prefix) - record["states"].keys())


def find(script: Path) -> Record | None:
    """The kept build that the script would build again; None if there is none.

    Args:
        script: the build script.

    Raises:
        OSError: the script or a source file cannot be read.
    """
    wanted = asked_for(script)
    for file in newest(folder()):
        try:
            record = json.loads(file.read_text())
        except (OSError, ValueError):
            continue
        if record["asked_for"] != wanted:
            continue
        if different := differences(file.parent, record):
            print(f"kernels: built again, as {different[0]} changed", file=sys.stderr)
            continue
        os.utime(file)
        return {"prefix": str(file.parent), "built": record["built"], "kept": True}
    return None


def keep(script: Path, build: Path = Path("build")) -> Record:
    """Installs what CMake built and keeps it; a build is there as a whole or not at all.

    Args:
        script: the build script.
        build: the folder in which CMake built.

    Raises:
        OSError, subprocess.CalledProcessError: it cannot be installed, and nothing is kept.
    """
    now = time.time()
    name = time.strftime("%Y-%m-%dT%H%M%SZ", time.gmtime(now))
    name += f"-{platform.node()}-{os.getpid()}"
    aside, prefix = folder() / f".{name}", folder() / name
    aside.mkdir(parents=True)
    try:
        install = ["cmake", "--install", build, "--prefix", aside]
        subprocess.run(install, check=True, stdout=sys.stderr)
        files = files_read(build) | files_loaded(aside)
        names = {*files, *map(os.path.dirname, files), *LOCAL}
        names |= {str(file.relative_to(aside)) for file in aside.glob("bin/*")}
        record = {"asked_for": asked_for(script), "built": now, "states": states(aside, names)}
        paths.write_whole(aside / "build.json", json.dumps(record, indent=1))
        aside.rename(prefix)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    prune(folder(), now)
    return {"prefix": str(prefix), "built": now, "kept": False}


def newest(kernels: Path) -> list[Path]:
    """build.json of each build in a folder, the last used one first."""
    files = [(file.stat().st_mtime, file) for file in kernels.glob("[!.]*/build.json")]
    return [file for _, file in sorted(files, reverse=True)]


def prune(kernels: Path, now: float) -> None:
    """Removes builds that were not used for a day, but the FEWEST newest, and what was left of
    builds that were stopped."""
    stopped = list(kernels.glob(".*"))
    for path in [*(file.parent for file in newest(kernels)[FEWEST:]), *stopped]:
        file = path / "build.json"
        if now - (file if file.exists() else path).stat().st_mtime > 86400:
            shutil.rmtree(path, ignore_errors=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="bisection.kernels.kept", description="Keep kernels.")
    parser.add_argument("command", choices=["find", "keep"])
    parser.add_argument("script", type=Path, help="the build script")
    given = parser.parse_args(arguments)
    installation = find(given.script) if given.command == "find" else keep(given.script)
    if installation:
        print(json.dumps(installation))
    return 0 if installation else 1


if __name__ == "__main__":
    sys.exit(main())
