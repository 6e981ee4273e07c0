"""The hash of the sources of kernels, of the checkout and in executables."""

import hashlib
import re
from pathlib import Path

from bisection.core import paths

# As src/sources.cmake, which builds the hash into each kernel: what is no part of the kernels.
EXCLUDED = re.compile(r"^tests/|[.]md$|(^|/)[.]|~$")
MARKER = re.compile(rb"bisection-sources:([0-9a-f]{64})")


def digest_of(folder: Path) -> str:
    """The SHA-256 of a line "SHA-256  path" per source file, in hexadecimal digits.

    Args:
        folder: src/ of a checkout.

    Raises:
        OSError: a file cannot be read.
    """
    files = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    names = sorted(n for n, path in files.items() if not EXCLUDED.search(n) and path.is_file())
    sums = {name: hashlib.sha256(files[name].read_bytes()).hexdigest() for name in names}
    return hashlib.sha256("".join(f"{sums[n]}  {n}\n" for n in names).encode()).hexdigest()


def of_checkout() -> str:
    """The hash of this checkout's sources."""
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
