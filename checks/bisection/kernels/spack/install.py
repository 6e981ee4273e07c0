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
    keep_lock,
    lock_facts,
    render,
)
from bisection.kernels.spack.program import Say, Spack, commit_of


@dataclass(frozen=True)
class Installation:
    """The installed kernels, and what they were built from and with."""

    system: str
    prefix: str
    lock: str  # the concretised environment, kept under its hash
    lock_hash: str  # sha256 of that file, which names this checkout's path and this machine's CPU
    software_hash: str  # sha256 of the packages, versions and options alone: equal in two checkouts
    compiler: str  # name@version, as are mpi and fftw
    mpi: str
    fftw: str
    spack: str  # version
    spack_commit: str  # "" without a clone, as is packages_commit
    packages_commit: str  # of Spack's recipes
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


def install(system: str = AUTO, say: Say = tell) -> Installation:
    """Installs the kernels from spack-env/<system>/ unless nothing has changed since.

    Args:
        system: the name of a Spack environment; `auto` is debian12 where its packages are
            installed, else generic.
        say: takes lines of progress.

    Raises:
        SpackError: Spack, or a package of the system, is missing, or a step failed.
    """
    with provisioning(system, say) as environment:
        environment.concretise()
        return environment.build()


@contextlib.contextmanager
def provisioning(system: str, say: Say) -> Iterator[Environment]:
    """A Spack environment that no other process changes meanwhile.

    Args:
        system: the name of the Spack environment, or `auto`.
        say: takes lines of progress.

    Raises:
        SpackError: nothing can be written, Spack or a package of the system is missing, or a step
            failed; with what was known by then.
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
            environment = Environment(system, file, base, say)
            try:
                yield environment
            except SpackError as error:
                error.facts = environment.facts
                raise
    except OSError as error:
        raise SpackError(f"cannot provision in {base}: {error}") from error


class Environment:
    """A Spack environment's working copy; the caller holds the lock of its base folder.

    Args:
        system: the name of the Spack environment.
        file: its spack.yaml.
        base: where environments, logs and states are kept.
        say: takes lines of progress.

    Attributes:
        facts: what is known of the installation so far, under the names of Installation.

    Raises:
        SpackError: Spack, or a package of the system, is missing.
    """

    def __init__(self, system: str, file: Path, base: Path, say: Say) -> None:
        self.system, self.base, self.say = system, base, say
        forget_if_moved(base, say)
        self.folder = base / "environments" / system
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lock, self.stamp = self.folder / "spack.lock", self.folder / "state.json"
        self.state = State.load(self.stamp)
        survey = survey_externals(file)
        check_missing(file, survey)
        self.differing = [f"{paths.shown(file)}: {line}" for line in survey.differing]
        self.text = render(file, survey.installed)

        self.spack = Spack(base / f"{system}.log", say)
        same = self.state.spack == self.spack.identity
        self.spack.use_packages(self.state.packages if same else "")
        commits = {
            "spack_commit": self.spack.commit,
            "packages_commit": commit_of(self.spack.packages),
        }
        self.facts = {"system": system, **commits}
        recipes = json.dumps(file_digests(paths.ROOT / "spack-env" / "repo"))
        self.wanted = digest(
            *(self.text, recipes, self.spack.identity, commits["packages_commit"]),
            *(self.spack.configuration, host(self.text)),
        )

    def concretise(self) -> None:
        """Makes the lock unless it is what this environment concretises to, and keeps it."""
        spack = self.spack
        if not self.state.concretised(self.wanted, self.lock):
            for line in self.differing:
                self.say(f"{line}; building for what is installed")
            version = f"Spack {spack.version}"
            self.say(f"concretising {self.system} with {version} (up to two minutes, once)")
            self.state = dataclasses.replace(self.state, wanted="", installation={})
            self.state.save(self.stamp)  # if this call dies, the next one concretises again
            self.lock.unlink(missing_ok=True)
            paths.write_whole(self.folder / "spack.yaml", self.text)
            spack(f"concretising {self.system}", self.folder, "concretize")
            known = {"spack": spack.identity, "packages": str(spack.packages)}
            self.state = dataclasses.replace(self.state, wanted=self.wanted, **known)
            self.state.save(self.stamp)
        self.facts |= {"lock": str(keep_lock(self.lock)), **lock_facts(self.lock)}

    def build(self) -> Installation:
        """Builds the kernels unless these sources are installed; SpackError if that fails."""
        jobs = min(len(os.sched_getaffinity(0)), 16)  # a login node is shared
        source = paths.ROOT / "src"
        sources, commit = file_digests(source), commit_of(paths.ROOT)
        if self.state.complete(sources, commit):
            self.facts |= self.state.installation
        else:
            self.say(f"building {KERNELS} with {jobs} jobs, output in {self.spack.log}")
            unknown = not self.state.sources or unseen_changes(source, self.state, sources)
            prepare_build_trees(self.base, clean=bool(unknown))
            options = ["-j", str(jobs), *overwrite(self.spack, self.folder)]
            self.spack(f"building {KERNELS}", self.folder, "install", *options)
            self.facts |= installed(self.spack, self.folder, self.facts["mpi"])
            new = {"sources": sources, "commit": commit, "installed_at": time.time()}
            self.state = dataclasses.replace(self.state, installation=self.facts, **new)
            self.state.save(self.stamp)
        return Installation(**self.facts)


def forget_if_moved(base: Path, say: Say) -> None:
    """Removes what was installed if the folder was moved since: Spack writes its path into all."""
    note = base / "path"
    if note.exists() and note.read_text() != str(base):
        say(f"{base} was {note.read_text()}: rebuilding")
        for name in ("opt", "stage", "environments"):
            shutil.rmtree(base / name, ignore_errors=True)
        for link in base.glob("build-*"):
            link.unlink()
    paths.write_whole(note, str(base))


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
    """Returns what makes Spack build again; it goes by file times, and refuses this the first
    time."""
    return ["--overwrite", "--yes-to-all", KERNELS] if KERNELS in prefixes(spack, folder) else []


def prefixes(spack: Spack, folder: Path) -> dict[str, str]:
    """The installed packages of an environment and where they are."""
    query = ("find", "--format", "{name} {prefix}")
    answer = spack.answer("-C", str(spack.scope), "-e", str(folder), *query)
    words = (line.split(maxsplit=1) for line in answer.splitlines())
    return {pair[0]: pair[1].strip() for pair in words if len(pair) == 2}


def installed(spack: Spack, folder: Path, mpi: str) -> dict[str, str]:
    """The prefixes of the kernels and of the MPI, which is named as in the lock."""
    places = prefixes(spack, folder)
    prefix = Path(places.get(KERNELS, ""))
    if not executables(prefix):
        raise SpackError(f"Spack installed no bisection-* program in {prefix / 'bin'}")
    return {"prefix": str(prefix), "mpi_prefix": places.get(mpi.split("@")[0], "")}
