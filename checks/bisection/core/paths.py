"""Where things are, how a path is shown, and how a file is written whole."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
# The kernels that the suite was installed with, as bisection.kernels.spack prints them; a clone has
# no such file.
INSTALLATION = ROOT / "installation.json"
# In the environment of ReFrame and of site files: the reservation of all jobs.
RESERVATION = "BISECTION_RESERVATION"
TEMPORARY = "BISECTION_TMPDIR"  # in ReFrame's environment: what TMPDIR was, "" without any

# In the environment of a run alone, no job has it: lines HOST SCHEME CREDENTIALS, the header
# Authorization for endpoints on HOST; a file with such lines.
AUTHORIZATION, AUTHORIZATION_FILE = "BISECTION_NOTIFY_AUTH", "BISECTION_NOTIFY_AUTH_FILE"


def home() -> Path:
    """The folder for everything that is generated: $BISECTION_HOME, else .bisection/."""
    return Path(os.environ.get("BISECTION_HOME") or ROOT / ".bisection").absolute()


def store_db(home: Path | str) -> Path:
    return Path(home) / "store.db"


def program(name: str) -> Path | None:
    """`bisection` or `reframe` as set-up put it beside this Python's environment; None without."""
    path = Path(sys.prefix).parent / "bin" / name
    return path if path.exists() else None


def from_root(path: Path | str) -> str:
    """A path as ReFrame gets it, which is started in the repository's root: relative to the root
    if it is below, else absolute. Stored like this it stays true when the repository is moved."""
    path = Path(path).absolute()
    return os.path.relpath(path, ROOT) if path.is_relative_to(ROOT) else str(path)


def shown(path: Path | str) -> str:
    """A path as it can be pasted: short in the repository's root, elsewhere absolute."""
    return from_root(path) if in_root() else str(Path(path).absolute())


def in_root() -> bool:
    """True if the current directory is the repository's root."""
    try:
        return Path.cwd() == ROOT
    except OSError:  # the directory was removed
        return False


def unwritable(folder: Path | str) -> str:
    """Returns why a megabyte cannot be written to a folder, as on a full disk; "" if it can."""
    path = Path(folder) / f".space-{os.getpid()}"
    try:
        path.write_bytes(os.urandom(1 << 20))
    except OSError as error:
        return f"cannot write to {folder}: {error.strerror}"
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
    return ""


def free_space(folder: Path | str) -> float | None:
    """Bytes that may be written to a folder, by its file system; 0 where it has no room for another
    file; None if that is not known."""
    try:
        known = os.statvfs(folder)
    except OSError:
        return None
    full = known.f_files and not known.f_favail
    return 0.0 if full else float(known.f_bavail) * known.f_frsize


def regular(path: Path | str) -> Path:
    """A path that names no pipe, device or socket, which may have no end and cannot be replaced;
    OSError if it does. There need be nothing at it."""
    path = Path(path)
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path


def text_of(path: Path | str) -> str:
    """The text of a file; "" if it cannot be read."""
    try:
        return Path(path).read_text(errors="replace")
    except OSError:
        return ""


def write_whole(path: Path | str, parts: str | Iterable[str]) -> Path:
    """Writes a text file, of these parts, in a folder that exists; returns its path. A reader sees
    the old or the new file, never a part of one. Who may read it is for the umask to say.

    Raises:
        OSError: the file cannot be written, or is no file; the old one is untouched.
    """
    with replacing(path) as temporary, open(temporary, "w", encoding="utf-8", newline="\n") as file:
        file.writelines([parts] if isinstance(parts, str) else parts)
    return Path(path)


@contextlib.contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """A path beside `path`, for a file that takes its place once it is written; OSError as of
    write_whole."""
    path = regular(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        with open(temporary, "rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        if isinstance(error, OSError):
            error.filename = str(path)
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
