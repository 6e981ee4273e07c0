"""Packs what a set-up needs on a machine without a network: one archive, which sets itself up.

On the other machine, with the same version of Python and the same kind of processor:

    tar -xf bisection-bundle-....tar && bisection-bundle-.../setup

setup            clones, then bootstrap.sh with BUNDLE; spack-env/setup-bundle.sh
platform         the version of Python and the kind of processor that the wheels are for
wheels/          the Python packages of spack-env/python.lock, and Spack's solver
bisection.git    this repository, as committed
spack/*.git      the pinned releases of Spack and of its packages
spack/mirror/    the sources that an environment of Spack builds
"""

import argparse
import platform
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path

from bisection.core import paths
from bisection.core.verdicts import Exit
from bisection.kernels.spack.externals import KERNELS, SpackError
from bisection.kernels.spack.install import provisioning
from bisection.kernels.spack.program import (
    CLINGO,
    MIRROR,
    PACKAGES,
    SPACK,
    clone,
    commit_of,
    git,
    run,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="the archive; default: below .bisection/"
    )
    parts = parser.add_mutually_exclusive_group()
    parts.add_argument(
        "--no-spack", action="store_true", help="pack neither Spack nor its packages"
    )
    parts.add_argument(
        "--sources",
        metavar="NAME",
        nargs="?",
        const="generic",
        help="pack the sources of spack-env/NAME, too; default: generic",
    )


def act(options: argparse.Namespace) -> Exit:
    """Packs the archive; prints its parts and its size."""
    try:
        archive, sizes = pack(options.output, not options.no_spack, options.sources)
    except OSError as error:
        raise SpackError(str(error)) from error
    for name, size in sizes.items():
        note(f"{name:36} {size / 1e6:6.1f} MB")
    note(f"packed {paths.shown(archive)}, {archive.stat().st_size / 1e6:.1f} MB")
    return Exit.OK


def note(line: str) -> None:
    """Prints a line of progress."""
    print(f"bundle: {line}", flush=True)


def pack(target: Path | None, spack: bool, sources: str | None) -> tuple[Path, dict[str, int]]:
    """Packs a bundle.

    Args:
        target: the archive; None for one below the home, named by commit, Python and processor.
        spack: whether Spack and its packages are part of it.
        sources: the Spack environment whose sources are part of it, "generic"; None for none.

    Returns:
        The archive, and the size of each of its parts in bytes.

    Raises:
        SpackError: something cannot be had; there is no archive then.
        OSError: nothing can be written.
    """
    commit = commit_of(paths.ROOT)
    if not commit:
        raise SpackError(f"packs commits, and {paths.ROOT} is no clone of git")
    if commit.endswith("-dirty"):
        note("what is not committed is not packed")
    version, machine = f"{sys.version_info[0]}.{sys.version_info[1]}", platform.machine()
    name = f"bisection-bundle-{commit[:8]}-python{version}-{machine}"
    target = target or paths.home() / f"{name}.tar"
    with tempfile.TemporaryDirectory(dir=paths.home(), prefix=".bundle-") as temporary:
        folder = Path(temporary, name)
        folder.mkdir()
        shutil.copy(paths.ROOT / "spack-env" / "setup-bundle.sh", folder / "setup")
        (folder / "platform").write_text(f"{version} {machine}\n")
        pack_wheels(folder / "wheels", spack)
        _bare(paths.ROOT, folder / "bisection.git")
        if spack:
            (folder / "spack").mkdir()
            SPACK.folder.parent.mkdir(exist_ok=True)
            for pin in (SPACK, PACKAGES):
                _bare(clone(pin), folder / "spack" / f"{pin.folder.name}.git", "--depth", "1")
        if sources:
            _sources(folder / "spack" / MIRROR, sources)
        sizes = {}
        for part in (folder / "wheels", folder / "bisection.git", *sorted(folder.glob("spack/*"))):
            files = (path for path in part.rglob("*") if path.is_file())
            sizes[str(part.relative_to(folder))] = sum(path.stat().st_size for path in files)
        aside = target.with_name(f".{target.name}")
        try:
            with tarfile.open(aside, "w") as archive:
                archive.add(folder, name)
            aside.replace(target)
        finally:
            aside.unlink(missing_ok=True)
    return target, sizes


def pack_wheels(folder: Path, spack: bool) -> None:
    """Packs the Python packages, with Spack's solver where Spack is packed, into a new folder."""
    note("packing the Python packages")
    log = paths.home() / "bundle.log"
    log.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pip", "wheel", "--disable-pip-version-check", "--wheel-dir"]
    lock = paths.ROOT / "spack-env" / "python.lock"
    for wanted in [["--no-deps", "--requirement", str(lock)], *([[CLINGO]] if spack else [])]:
        run([*command, str(folder), *wanted], log, "packing the Python packages")


def _bare(source: Path, target: Path, *options: str) -> None:
    """A bare clone of what a clone has checked out."""
    where = (*options, source.as_uri(), str(target))
    answer = git("clone", "--quiet", "--bare", "--single-branch", *where)
    if not answer:
        raise SpackError(f"cannot clone {source}: {answer.error}")


def _sources(folder: Path, system: str) -> None:
    """A mirror of the sources of all packages that an environment builds."""
    with provisioning(system) as environment:
        environment.concretise()
        note(f"downloading the sources of {system}, output in {environment.spack.log}")
        # Not the kernels, whose sources are this repository's; with what is not for public mirrors.
        options = ("--directory", str(folder), "--all", "--private", "--exclude-specs", KERNELS)
        task = f"downloading the sources of {system}"
        environment.spack(task, environment.folder, "mirror", "create", *options)
