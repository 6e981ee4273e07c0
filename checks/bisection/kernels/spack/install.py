"""Installs the kernels with Spack unless nothing has changed since."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import platform
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.kernels.digests import digest, file_digests, processor, sha256
from bisection.kernels.spack.externals import (
    AUTO,
    KERNELS,
    SpackError,
    ask,
    environment_file,
    render,
    survey_externals,
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
    """A Spack environment of this name, or `auto`, that no other process changes meanwhile.

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
        with (base / "lock").open("w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                note(f"waiting for another build, which holds {handle.name}")
                fcntl.flock(handle, fcntl.LOCK_EX)
            environment = Environment(file, base)
            try:
                yield environment
            except SpackError as error:
                error.facts = environment.facts
                raise
    except OSError as error:
        raise SpackError(f"cannot provision in {base}: {error}") from error


@dataclasses.dataclass
class State:
    """The state that the last call left in the environment's folder."""

    wanted: str = ""  # digest of all that the lock follows from
    spack: str = ""  # Spack.identity
    packages: str = ""  # the folder of that Spack's recipes
    sources: dict[str, str] = dataclasses.field(default_factory=dict)
    commit: str = ""
    installation: Facts = dataclasses.field(default_factory=dict)  # of the lock alone until built

    @classmethod
    def load(cls, path: Path) -> State:
        """The state that a file holds; an empty one if it holds none."""
        try:
            return cls(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return cls()


class Environment:
    """A Spack environment's working copy; the caller holds the lock of its base folder.

    Args:
        file: its spack.yaml, in a folder that has its name.
        base: where environments, logs and states are kept.

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
        self.system_packages = survey_externals(file)
        self.system_packages.require()
        self.text = render(file, self.system_packages.installed)

        log = base / f"{self.system}.log"
        self.spack = spack = Spack(log, self.state.spack, self.state.packages)
        commit = commit_of(spack.packages)
        commits = {"spack_commit": spack.commit, "packages_commit": commit}
        self.facts = {"system": self.system, **commits}  # what is known of the installation so far
        recipes = json.dumps(file_digests(paths.ROOT / "spack-env" / "repo"))
        known = (self.text, recipes, spack.identity, commit, str(spack.packages), host(self.text))
        self.wanted = digest(*known)

    def keep(self, **changes: Any) -> None:
        self.state = dataclasses.replace(self.state, **changes)
        paths.write_whole(self.stamp, json.dumps(dataclasses.asdict(self.state), indent=1))

    def concretise(self) -> None:
        """Makes the lock unless it is what this environment concretises to, and keeps it."""
        spack, state = self.spack, self.state
        there = sha256(self.lock) if self.lock.is_file() else ""
        if (state.wanted, state.installation.get("lock_hash")) != (self.wanted, there):
            for line in self.system_packages.differing:
                file = paths.shown(self.system_packages.file)
                note(f"{file}: {line}; building for what is installed")
            step = f"concretising {self.system}"
            note(f"{step} with Spack {spack.version} (up to two minutes, once)")
            self.lock.unlink(missing_ok=True)  # if this call dies, the next one does it again
            paths.write_whole(self.folder / "spack.yaml", self.text)
            spack(step, self.folder, "concretize")
            known = {"spack": spack.identity, "packages": str(spack.packages)}
            self.keep(wanted=self.wanted, installation=lock_facts(self.lock), **known)
        facts = lock_facts(self.lock)
        # The next concretisation overwrites the lock; `spack env create NAME HASH.json` takes this.
        kept = paths.home() / "locks" / f"{facts['lock_hash']}.json"
        if not kept.exists():
            kept.parent.mkdir(exist_ok=True)
            paths.write_whole(kept, self.lock.read_text())
        self.facts |= {"lock": str(kept), **facts}

    def build(self) -> Facts:
        """Builds the kernels unless these sources are installed; SpackError if that fails."""
        source, spack, folder, state = paths.ROOT / "src", self.spack, self.folder, self.state
        sources, commit = file_digests(source), commit_of(paths.ROOT)
        same = (state.sources, state.commit) == (sources, commit)
        if same and "prefix" in state.installation and executables(state.installation["prefix"]):
            return self.facts | state.installation
        jobs = min(len(os.sched_getaffinity(0)), 16)  # a login node is shared
        note(f"building {KERNELS} with {jobs} jobs, output in {spack.log}")
        # Make would not compile changed files again that are older than the last
        # concretisation or installation.
        changed = [name for name, value in sources.items() if state.sources.get(name) != value]
        last = self.stamp.stat().st_mtime
        older = any((source / name).stat().st_mtime <= last for name in changed)
        for link in self.base.glob("build-*"):
            if older or not state.sources:
                shutil.rmtree(link.resolve(), ignore_errors=True)
                link.unlink()
            # Spack does not run CMake where it finds a Makefile, but CMake looks up the commit.
            for makefile in link.glob("spack-build-*/Makefile"):
                makefile.unlink()
        # Spack goes by file times, and refuses to overwrite the first time.
        overwrite = ["--overwrite", "--yes-to-all", KERNELS]
        options = overwrite if KERNELS in spack.prefixes(folder) else []
        spack(f"building {KERNELS}", folder, "install", "-j", str(jobs), *options)
        places = spack.prefixes(folder)
        prefix = places.get(KERNELS, "")
        if not executables(prefix):
            raise SpackError(f"Spack installed no bisection-* program in {prefix}/bin")
        mpi_prefix = places.get(self.facts["mpi"].split("@")[0], "")
        self.facts |= {"prefix": prefix, "mpi_prefix": mpi_prefix}
        self.keep(installation=self.facts, sources=sources, commit=commit)
        return self.facts


def executables(prefix: str) -> list[Path]:
    return [path for path in Path(prefix, "bin").glob("bisection-*") if os.access(path, os.X_OK)]


def host(environment: str) -> str:
    """Returns what Spack finds out by itself: CPU, C library, system release, and compilers on PATH
    unless the environment names them."""
    facts = [platform.machine(), *platform.libc_ver(), *processor()]
    with contextlib.suppress(OSError):
        facts.append(Path("/etc/os-release").read_text())
    if "compilers:" not in environment:
        for name in ("gcc", "g++", "gfortran"):
            path = shutil.which(name)
            facts.append(f"{path} {path and ask(path, '-dumpfullversion')}")
    return digest(*facts)


def lock_facts(lock: Path) -> Facts:
    """The hashes and the MPI that `install` returns, from a spack.lock."""
    content = json.loads(lock.read_bytes())
    specs = content["concrete_specs"]
    edges = specs[content["roots"][0]["hash"]]["dependencies"]
    of_mpi = (e["hash"] for e in edges if "mpi" in e["parameters"].get("virtuals", ()))
    # Names, versions and options, without paths.
    software = []
    for spec in specs.values():
        options = {k: v for k, v in spec.get("parameters", {}).items() if k != "dev_path"}
        software.append([spec["name"], spec["version"], options, spec.get("package_hash")])
    software.sort(key=json.dumps)
    return {
        "lock_hash": sha256(lock),
        "software_hash": digest(json.dumps(software, sort_keys=True)),
        "mpi": next(("{name}@{version}".format_map(specs[key]) for key in of_mpi), "unknown"),
    }


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
