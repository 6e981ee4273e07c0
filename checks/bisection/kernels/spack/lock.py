"""Inputs of an installation by Spack: environment, lock, host, sources; locks are kept."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import platform
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bisection.core import paths
from bisection.kernels.spack.externals import EXTERNAL, ask


def render(file: Path, installed: Mapping[str, str]) -> str:
    """The environment for Spack.

    Args:
        file: a spack.yaml below spack-env/.
        installed: versions of the system's packages, by name.

    Returns:
        Its text with absolute paths, and with these versions.
    """

    def absolute(match: re.Match[str]) -> str:
        return match[1] + json.dumps(os.path.normpath(file.parent / match[2]))

    def version(match: re.Match[str]) -> str:
        there = installed.get(match["name"]) if match["prefix"] == "/usr" else None
        return match["head"] + (there or match["version"])

    text = EXTERNAL.sub(version, file.read_text())
    return re.sub(r"(?m)^(\s*(?:- )?[\w-]+: +)(\.\.?/[^\s#]*)", absolute, text)


def digest(*parts: str | bytes) -> str:
    """The SHA-256 of texts, each with its length, in hexadecimal digits."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(b"%d:" % len(data) + data)  # so that two splits of one text differ
    return total.hexdigest()


def file_digests(folder: Path) -> dict[str, str]:
    """sha256 of every file below a folder, by relative path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def processor() -> list[str]:
    """The model and the instruction sets of this host's processor; empty where Linux hides them."""
    words = r"(?m)^(?:model name|flags|CPU implementer|CPU part|Features|cpu)\s*:.*$"
    with contextlib.suppress(OSError):
        return sorted(set(re.findall(words, Path("/proc/cpuinfo").read_text())))
    return []


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


def keep_lock(lock: Path) -> Path:
    """A copy of a spack.lock below the home, named by its hash, which is in every result.

    The next concretisation overwrites spack.lock; `spack env create NAME HASH.json` takes the copy.
    """
    data = lock.read_bytes()
    kept = paths.home() / "locks" / f"{hashlib.sha256(data).hexdigest()}.json"
    if not kept.exists():
        kept.parent.mkdir(exist_ok=True)
        paths.write_whole(kept, data.decode())
    return kept


def lock_facts(lock: Path) -> dict[str, str]:
    """The hashes and the MPI that `install` returns, from a spack.lock."""
    data = lock.read_bytes()
    content = json.loads(data)
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
        "lock_hash": hashlib.sha256(data).hexdigest(),
        "software_hash": digest(json.dumps(software, sort_keys=True)),
        "mpi": next(("{name}@{version}".format_map(specs[key]) for key in of_mpi), "unknown"),
    }


@dataclass
class State:
    """The state that the last call left in the environment's folder."""

    wanted: str = ""  # digest of all that the lock follows from
    spack: str = ""  # Spack.identity
    packages: str = ""  # the folder of that Spack's recipes
    sources: dict[str, str] = dataclasses.field(default_factory=dict)
    commit: str = ""
    installed_at: float = 0
    installation: dict[str, str] = dataclasses.field(default_factory=dict)

    @classmethod
    def load(cls, path: Path) -> State:
        """The state that a file holds; an empty one if it holds none."""
        try:
            return cls(**json.loads(path.read_text()))
        except (OSError, ValueError, TypeError):
            return cls()

    def save(self, path: Path) -> None:
        """Writes the state to a file."""
        paths.write_whole(path, json.dumps(dataclasses.asdict(self), indent=1))

    def concretised(self, wanted: str, lock: Path) -> bool:
        """True if `lock` is what this environment was concretised to."""
        known = self.installation.get("lock_hash")
        return (
            self.wanted == wanted
            and lock.is_file()
            and known in (None, hashlib.sha256(lock.read_bytes()).hexdigest())
        )

    def complete(self, sources: Mapping[str, str], commit: str) -> bool:
        """True if these sources are installed."""
        prefix = self.installation.get("prefix", "")
        same = self.sources == sources and self.commit == commit
        return same and prefix != "" and executables(Path(prefix)) != []


def executables(prefix: Path) -> list[str]:
    """The names of the kernels in an installation."""
    return sorted(path.name for path in prefix.glob("bin/bisection-*") if os.access(path, os.X_OK))
