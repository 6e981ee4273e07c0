"""Packs what a set-up needs on a machine without a network: one archive, which sets itself up.

setup            clones, then bootstrap.sh with BUNDLE; spack-env/setup-bundle.sh
platform         the version of Python and the kind of processor that the wheels are for
wheels/          the Python packages of spack-env/python.lock, and Spack's solver
bisection.git    this repository, as committed
spack/*.git      the pinned releases of Spack and of its packages
spack/mirror/    the sources that an environment of Spack builds
"""

from __future__ import annotations

import platform
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from bisection.core import paths
from bisection.kernels.spack.externals import KERNELS, SpackError
from bisection.kernels.spack.install import provisioning
from bisection.kernels.spack.program import (
    CLINGO,
    MIRROR,
    PACKAGES,
    SPACK,
    Say,
    clone,
    commit_of,
    git,
    last_line,
    run,
)

NAME = "bisection-bundle"
Sizes = dict[str, int]  # bytes


def pack(target: Path | None, spack: bool, sources: str | None, say: Say) -> tuple[Path, Sizes]:
    """Packs a bundle.

    Args:
        target: the archive; None for one below the home, named by commit, Python and processor.
        spack: whether Spack and its packages are part of it.
        sources: the Spack environment whose sources are part of it, "generic"; None for none.
        say: takes lines of progress.

    Returns:
        The archive, and the size of each of its parts.

    Raises:
        SpackError: something cannot be had; there is no archive then.
        OSError: nothing can be written.
    """
    commit = commit_of(paths.ROOT)
    if not commit:
        raise SpackError(f"packs commits, and {paths.ROOT} is no clone of git")
    if commit.endswith("-dirty"):
        say("what is not committed is not packed")
    version, machine = f"{sys.version_info[0]}.{sys.version_info[1]}", platform.machine()
    name = f"{NAME}-{commit[:8]}-python{version}-{machine}"
    target = target or paths.home() / f"{name}.tar"
    log = paths.home() / "bundle.log"
    log.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(dir=paths.home(), prefix=".bundle-") as temporary:
        folder = Path(temporary, name)
        folder.mkdir()
        shutil.copy(paths.ROOT / "spack-env" / "setup-bundle.sh", folder / "setup")
        (folder / "platform").write_text(f"{version} {machine}\n")
        _wheels(folder / "wheels", spack, log, say)
        _bare(paths.ROOT, folder / "bisection.git")
        if spack:
            (folder / "spack").mkdir()
            (paths.home() / "spack").mkdir(exist_ok=True)
            for pin in (SPACK, PACKAGES):
                there = clone(pin, say)
                _bare(there, folder / "spack" / f"{there.name}.git", "--depth", "1")
        if sources:
            _sources(folder / "spack" / MIRROR, sources, say)
        parts = [folder / "wheels", folder / "bisection.git", *sorted(folder.glob("spack/*"))]
        sizes = {str(part.relative_to(folder)): _size(part) for part in parts}
        aside = target.with_name(f".{target.name}")
        try:
            with tarfile.open(aside, "w") as archive:
                archive.add(folder, name)
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)
    return target, sizes


def _wheels(folder: Path, spack: bool, log: Path, say: Say) -> None:
    say("packing the Python packages")
    command = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--wheel-dir"]
    lock = paths.ROOT / "spack-env" / "python.lock"
    whole = [str(folder), "--no-deps", "--requirement", str(lock)]
    for wanted in [whole] + ([[str(folder), CLINGO]] if spack else []):
        run([*command, *wanted], log, "packing the Python packages")


def _bare(source: Path, target: Path, *options: str) -> None:
    """A bare clone of what a clone has checked out."""
    where = (*options, source.as_uri(), str(target))
    answer = git("clone", "--quiet", "--bare", "--single-branch", *where)
    if answer.returncode:
        raise SpackError(f"cannot clone {source}: {last_line(answer.stderr)}")


def _sources(folder: Path, system: str, say: Say) -> None:
    """A mirror of the sources of all packages that an environment builds."""
    with provisioning(system, say) as environment:
        environment.concretise()
        say(f"downloading the sources of {system}, output in {environment.spack.log}")
        # Not the kernels, whose sources are this repository's; with what is not for public mirrors.
        options = ("--directory", str(folder), "--all", "--private", "--exclude-specs", KERNELS)
        task = f"downloading the sources of {system}"
        environment.spack(task, environment.folder, "mirror", "create", *options)


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
