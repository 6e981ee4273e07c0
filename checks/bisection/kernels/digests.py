"""Hashes: of the kernels' sources, of the checkout and in executables, and of other files."""

import contextlib
import hashlib
import re
from pathlib import Path

from bisection.core import paths

# As src/sources.cmake, which builds the hash into each kernel: what is no part of the kernels.
EXCLUDED = re.compile(r"^tests/|[.]md$|(^|/)[.]|~$")
MARKER = re.compile(rb"bisection-sources:([0-9a-f]{64})")


def digest(*parts: str) -> str:
    """The SHA-256 of texts, each with its length, in hexadecimal digits."""
    total = hashlib.sha256()
    for data in map(str.encode, parts):
        total.update(b"%d:" % len(data) + data)  # so that two splits of one text differ
    return total.hexdigest()


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def file_digests(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file below a folder, by relative path."""
    return {
        path.relative_to(folder).as_posix(): sha256(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def processor() -> list[str]:
    """The model and the instruction sets of this host's processor; empty where Linux hides them."""
    words = r"(?m)^(?:model name|flags|CPU implementer|CPU part|Features|cpu)\s*:.*$"
    with contextlib.suppress(OSError):
        return sorted(set(re.findall(words, Path("/proc/cpuinfo").read_text())))
    return []


def digest_of(folder: Path) -> str:
    """The SHA-256 of a line "SHA-256  path" per source file, in hexadecimal digits.

    Args:
        folder: src/ of a checkout.

    Raises:
        OSError: a file cannot be read.
    """
    files = sorted(file_digests(folder).items())
    lines = [f"{value}  {name}\n" for name, value in files if not EXCLUDED.search(name)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def of_checkout() -> str:
    return digest_of(paths.ROOT / "src")


def built_into(kernel: Path) -> str:
    """The hash of the sources that an executable was built from; "" if it carries none.

    Args:
        kernel: the executable, which is not run.

    Raises:
        OSError: it cannot be read.
    """
    marker = MARKER.search(kernel.read_bytes())
    return marker[1].decode() if marker else ""
