"""Installs the kernels with Spack unless nothing has changed since."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from bisection.core import paths
from bisection.kernels.spack.externals import (
    AUTO,
    KERNELS,
    SpackError,
    check_missing,
    choose_system,
    environment_file,
    survey_externals,
)
from bisection.kernels.spack.lock import (
    State,
    digest,
    executables,
    file_digests,
    host,
    lock_facts,
    render,
)
from bisection.kernels.spack.program import Say, Spack, git


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
    """Prints a line of progress on standard error."""
    print(f"spack: {message}", file=sys.stderr, flush=True)


def default_jobs() -> int:
    """How many files to compile at a time."""
    return min(len(os.sched_getaffinity(0)), 16)  # a login node is shared


def install(system: str = AUTO, *, jobs: int | None = None, say: Say = tell) -> Installation:
    """Installs the kernels from spack-env/<system>/ unless nothing has changed since.

    Args:
        system: the name of a Spack environment; `auto` is debian12 where its packages are
            installed, else generic.
        jobs: how many files to compile at a time; None for as many as there are cores, up to 16.
        say: takes lines of progress.

    Raises:
        SpackError: Spack, or a package of the system, is missing, or a step failed.
    """
    system = choose_system() if system == AUTO else system
    file = environment_file(system)
    base = paths.home() / "spack"
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
    """Installs the kernels; the caller holds the lock of the folder `base`.

    Args:
        system: the name of the Spack environment.
        file: its spack.yaml.
        base: where environments, logs and states are kept.
        jobs: how many files to compile at a time.
        say: takes lines of progress.

    Raises:
        SpackError: Spack, or a package of the system, is missing, or a step failed.
    """
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
    recipes = json.dumps(file_digests(paths.ROOT / "spack-env" / "repo"))
    wanted = digest(environment, recipes, spack.version, spack.configuration, host(environment))

    if not state.concretised(wanted, lock):
        for line in survey.differing:
            say(f"{paths.shown(file)}: {line}; building for what is installed")
        say(f"concretising {system} with Spack {spack.version} (up to two minutes, once)")
        state = dataclasses.replace(state, wanted="", installation={})
        state.save(stamp)  # if this call dies, the next one concretises again
        lock.unlink(missing_ok=True)
        paths.write_whole(folder / "spack.yaml", environment)
        spack(f"concretising {system}", folder, "concretize")
        state.wanted = wanted
        state.save(stamp)

    source = paths.ROOT / "src"
    sources, commit = file_digests(source), described_commit()
    if not state.complete(sources, commit):
        say(f"building {KERNELS} with {jobs} jobs, output in {log}")
        unknown = not state.sources or unseen_changes(source, state, sources)
        prepare_build_trees(base, clean=bool(unknown))
        options = ["-j", str(jobs), *overwrite(spack, folder)]
        spack(f"building {KERNELS}", folder, "install", *options)
        facts = dataclasses.asdict(describe(spack, system, folder))
        state = State(wanted, sources, commit, time.time(), facts)
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
    paths.write_whole(note, str(base))


def described_commit() -> str:
    """The commit that the kernels record in their results, "" where git cannot tell."""
    try:
        return git("-C", str(paths.ROOT), "describe", "--always", "--dirty").stdout.strip()
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
