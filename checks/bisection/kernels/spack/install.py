"""Installs the kernels with Spack unless nothing has changed since."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.kernels.spack.externals import (
    AUTO,
    KERNELS,
    SpackError,
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
from bisection.kernels.spack.program import Spack, commit_of, note

Facts = dict[str, str]  # of an installation, see `install`


def install(system: str = AUTO) -> Facts:
    """Installs the kernels from spack-env/<system>/ unless nothing has changed since.

    Args:
        system: the name of a Spack environment; `auto` is debian12 where its packages are
            installed, else generic.

    Returns:
        The system, the prefix of the kernels and mpi_prefix, whose bin/ has the mpirun that belongs
        to them; lock, the concretised environment, kept under its hash; lock_hash, the SHA-256 of
        that file, which names this checkout's path and this machine's processor; software_hash, of
        the packages, versions and options alone: equal in two checkouts; mpi as name@version;
        spack_commit and packages_commit, "" without a clone.

    Raises:
        SpackError: Spack, or a package of the system, is missing, or a step failed.
    """
    with provisioning(system) as environment:
        environment.concretise()
        return environment.build()


@contextlib.contextmanager
def provisioning(system: str) -> Iterator[Environment]:
    """A Spack environment that no other process changes meanwhile.

    Args:
        system: the name of the Spack environment, or `auto`.

    Raises:
        SpackError: nothing can be written, Spack or a package of the system is missing, or a step
            failed; with what was known by then.
    """
    file = environment_file(system)
    base = paths.home() / "spack"
    if odd := set(re.findall(r"[^\w.+/-]", str(base), re.ASCII)):
        raise SpackError(
            f"Spack cannot build in '{base}' because of {' '.join(map(repr, sorted(odd)))}: "
            "BISECTION_HOME names another folder"
        )
    try:
        base.mkdir(parents=True, exist_ok=True)
        with locked(base / "lock"):
            environment = Environment(file, base)
            try:
                yield environment
            except SpackError as error:
                error.facts = environment.facts
                raise
    except OSError as error:
        raise SpackError(f"cannot provision in {base}: {error}") from error


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """One provisioning at a time in one folder."""
    with path.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(f"waiting for another build, which holds {path}")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


class Environment:
    """A Spack environment's working copy; the caller holds the lock of its base folder.

    Args:
        file: its spack.yaml, in a folder that has its name.
        base: where environments, logs and states are kept.

    Attributes:
        facts: what is known of the installation so far.

    Raises:
        SpackError: Spack, or a package of the system, is missing.
    """

    def __init__(self, file: Path, base: Path) -> None:
        self.system, self.base = file.parent.name, base
        forget_if_moved(base)
        self.folder = base / "environments" / self.system
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lock, self.stamp = self.folder / "spack.lock", self.folder / "state.json"
        self.state = State.load(self.stamp)
        self.survey = survey_externals(file)
        self.survey.require()
        self.text = render(file, self.survey.installed)

        self.spack = Spack(base / f"{self.system}.log")
        same = self.state.spack == self.spack.identity
        self.spack.use_packages(self.state.packages if same else "")
        commits = {
            "spack_commit": self.spack.commit,
            "packages_commit": commit_of(self.spack.packages),
        }
        self.facts = {"system": self.system, **commits}
        recipes = json.dumps(file_digests(paths.ROOT / "spack-env" / "repo"))
        self.wanted = digest(
            *(self.text, recipes, self.spack.identity, commits["packages_commit"]),
            *(self.spack.configuration, host(self.text)),
        )

    def keep(self, **changes: Any) -> None:
        """Changes the state, and stores it."""
        self.state = dataclasses.replace(self.state, **changes)
        self.state.save(self.stamp)

    def concretise(self) -> None:
        """Makes the lock unless it is what this environment concretises to, and keeps it."""
        spack = self.spack
        if not self.state.concretised(self.wanted, self.lock):
            for line in self.survey.differing:
                note(f"{paths.shown(self.survey.file)}: {line}; building for what is installed")
            version = f"Spack {spack.version}"
            note(f"concretising {self.system} with {version} (up to two minutes, once)")
            self.keep(wanted="", installation={})  # if this call dies, the next one does it again
            self.lock.unlink(missing_ok=True)
            paths.write_whole(self.folder / "spack.yaml", self.text)
            spack(f"concretising {self.system}", self.folder, "concretize")
            self.keep(wanted=self.wanted, spack=spack.identity, packages=str(spack.packages))
        self.facts |= {"lock": str(keep_lock(self.lock)), **lock_facts(self.lock)}

    def build(self) -> Facts:
        """Builds the kernels unless these sources are installed; SpackError if that fails."""
        source, spack, folder = paths.ROOT / "src", self.spack, self.folder
        sources, commit = file_digests(source), commit_of(paths.ROOT)
        if self.state.complete(sources, commit):
            return self.facts | self.state.installation
        jobs = min(len(os.sched_getaffinity(0)), 16)  # a login node is shared
        note(f"building {KERNELS} with {jobs} jobs, output in {spack.log}")
        unknown = not self.state.sources or unseen_changes(source, self.state, sources)
        prepare_build_trees(self.base, clean=bool(unknown))
        # Spack goes by file times, and refuses to overwrite the first time.
        overwrite = ["--overwrite", "--yes-to-all", KERNELS]
        options = overwrite if KERNELS in spack.prefixes(folder) else []
        spack(f"building {KERNELS}", folder, "install", "-j", str(jobs), *options)
        places = spack.prefixes(folder)
        prefix = Path(places.get(KERNELS, ""))
        if not executables(prefix):
            raise SpackError(f"Spack installed no bisection-* program in {prefix / 'bin'}")
        mpi_prefix = places.get(self.facts["mpi"].split("@")[0], "")
        self.facts |= {"prefix": str(prefix), "mpi_prefix": mpi_prefix}
        new = {"sources": sources, "commit": commit, "installed_at": time.time()}
        self.keep(installation=self.facts, **new)
        return self.facts


def unseen_changes(folder: Path, state: State, sources: Mapping[str, str]) -> list[str]:
    """Changed files older than the last installation (unpacked, or copied with their times):
    make would not compile them again."""
    changed = [name for name, value in sources.items() if state.sources.get(name) != value]
    return [name for name in changed if (folder / name).stat().st_mtime <= state.installed_at]


def forget_if_moved(base: Path) -> None:
    """Removes what was installed if the folder was moved since: Spack writes its path into all."""
    record = base / "path"
    if record.exists() and record.read_text() != str(base):
        note(f"{base} was {record.read_text()}: rebuilding")
        for name in ("opt", "stage", "environments"):
            shutil.rmtree(base / name, ignore_errors=True)
        for link in base.glob("build-*"):
            link.unlink()
    paths.write_whole(record, str(base))


def prepare_build_trees(base: Path, clean: bool) -> None:
    """Makes Spack configure again, and with `clean` forget what was compiled."""
    for link in base.glob("build-*"):
        if clean:
            shutil.rmtree(link.resolve(), ignore_errors=True)
            link.unlink()
        # Spack does not run CMake where it finds a Makefile, but CMake looks up the commit.
        for makefile in link.glob("spack-build-*/Makefile"):
            makefile.unlink()
