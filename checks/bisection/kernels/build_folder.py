"""Folders of the kernels that CMake built, each used again while nothing changes.

    python -m bisection.kernels.build_folder find rfm_build.sh    prints it; exits with 1 if none
    python -m bisection.kernels.build_folder keep rfm_build.sh    installs build/ in a new one

Both print {"prefix": folder, "built": Unix time, "kept": true if it was there before}. A folder's
name has a digest of all that is known before CMake runs (sources, build script, variables, tools
on PATH, processor). Its record has the size and time of all that the build read. `cmake --build`
would compare times alone: a package's files are often older than the kernels that it replaces a
part of. `find` runs where the build would run: with its modules, on its node.
"""

import contextlib
import json
import os
import platform
import re
import secrets
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.kernels.digests import digest, of_checkout, processor

UNUSED = 7 * 86400  # s without a run, after which a folder is removed

# Variables that compilers, linkers, pkg-config and CMake read; not those that tune MPI at run time.
# PATH differs between cron and a terminal: the tools that it leads to count.
VARIABLES = re.compile(
    r"LOADEDMODULES|_LMFILES_|LD_PRELOAD|LD_RUN_PATH|CPATH|\w*(INCLUDE|LIBRARY|PREFIX)_PATH|"
    r"(PKG_CONFIG|CMAKE|CRAY|CRAYPE|PE)_\w*|(\w+_)?(CC|CXX|FC|F77|F90|LIBS)|"
    r"(\w+_)?(C|CPP|CXX|F|FC|LD)FLAGS|"
    r"\w*(MPI|FFTW|FFTW3|BLAS|LAPACK|MKL|ELPA|SPFFT)_?(ROOT|DIR|HOME)",
    re.I,
)
TOOLS = (
    "cmake make ninja ld pkg-config mpicc mpifort mpif90 mpiexec mpirun cc gcc clang "
    "icx icc nvc craycc f95 gfortran ftn ifx ifort nvfortran flang flang-new "
    "smpicc smpirun"
).split()
# Where administrators install without a package manager.
LOCAL = [f"/usr/local/{name}" for name in ("bin", "include", "lib", "lib64")]


def name_of(script: Path) -> str:
    """The first part of the names of the folders for what a script builds here and now.

    The number of parallel jobs in the script does not count, nor what it asks of a scheduler.
    """
    variables = {n: v for n, v in os.environ.items() if VARIABLES.fullmatch(n)}
    tools = [shutil.which(name) for name in TOOLS]
    facts = [of_checkout(), variables, tools, platform.machine(), processor()]
    commands = re.sub(r"(?m)^#.*\n|(-j|--parallel) \d+", "", script.read_text())
    return digest(commands, json.dumps(facts, sort_keys=True))[:16]


def files_read(build: Path) -> set[str]:
    """The files outside of the project that a build in this folder read: headers, by the
    compilers' lists of dependencies; libraries and tools, by CMake's cache."""
    words = set()
    for path in build.rglob("*.d"):
        words |= set(re.split(r"(?<!\\)\s+", path.read_text(errors="replace")))
    for line in (build / "CMakeCache.txt").read_text(errors="replace").splitlines():
        words |= set(line.partition("=")[2].split(";"))
    ours = (f"{paths.ROOT / 'src'}/", f"{build.resolve()}/")
    files = {word.replace("\\ ", " ") for word in words if word.startswith("/")}
    return {file for file in files if os.path.isfile(file) and not file.startswith(ours)}


def state(path: Path) -> list[int] | None:
    """Size (bytes) and time of change (ns) of a file or folder; None if it is missing."""
    status = path.stat() if path.exists() else None
    return status and [status.st_size, status.st_mtime_ns]


def find(script: Path) -> dict[str, Any] | None:
    """Returns the build that the script would make again; None if there is none.

    Other builds stay: launches of another partition may run their kernels.

    Raises:
        OSError: the script or a source file cannot be read.
    """
    changed = None
    for file in paths.home().glob(f"kernels/{name_of(script)}-*/build.json"):
        try:
            record = json.loads(file.read_text())
        except (OSError, ValueError):  # cut, or another run removes it
            continue
        before = record["states"].items()
        changed = next((n for n, known in before if state(file.parent / n) != known), None)
        if changed is None:
            os.utime(file.parent)
            return {"prefix": str(file.parent), "built": record["built"], "kept": True}
    if changed:
        print(f"kernels: rebuilt, as {changed} changed", file=sys.stderr)
    return None


def keep(script: Path, build: Path = Path("build")) -> dict[str, Any]:
    """Installs what CMake built in a folder. The new folder appears complete or not at all.

    Raises:
        OSError, subprocess.CalledProcessError: it cannot be installed, and nothing is kept.
    """
    now = time.time()
    prefix = paths.home() / "kernels" / f"{name_of(script)}-{secrets.token_hex(4)}"
    aside = prefix.with_name(f".{prefix.name}")
    aside.mkdir(parents=True)
    try:
        install = ["cmake", "--install", str(build), "--prefix", str(aside)]
        subprocess.run(install, check=True, stdout=sys.stderr)
        files = files_read(build)
        names = {*files, *map(os.path.dirname, files), *LOCAL}
        names |= {str(file.relative_to(aside)) for file in aside.glob("bin/*")}
        record = {"built": now, "states": {name: state(aside / name) for name in sorted(names)}}
        paths.write_whole(aside / "build.json", json.dumps(record, indent=1))
        aside.rename(prefix)
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    for path in prefix.parent.iterdir():
        with contextlib.suppress(OSError):  # another build removes it
            if now - path.stat().st_mtime > UNUSED:
                shutil.rmtree(path, ignore_errors=True)
    return {"prefix": str(prefix), "built": now, "kept": False}


def left_out(prefix: Path) -> dict[str, str]:
    """The kernels that a build lacks a library for, and why, as src/CMakeLists.txt writes them:
    "eigen: no ScaLAPACK"."""
    lines = paths.text_of(prefix / "left-out").splitlines()
    return {line.partition(":")[0]: line for line in lines}


if __name__ == "__main__":
    _, command, name = sys.argv
    installation = find(Path(name)) if command == "find" else keep(Path(name))
    if installation:
        print(json.dumps(installation))
    sys.exit(0 if installation else 1)
