"""The hash of the kernels' sources, as CMake and as Python make it."""

import re
import shutil
import subprocess

import pytest

from bisection.core import paths
from bisection.kernels import digests


def by_cmake(folder, header):
    script = paths.ROOT / "src" / "sources.cmake"
    command = ["cmake", f"-DSOURCES={folder}", f"-DHEADER={header}", "-P", script]
    subprocess.run(command, check=True, timeout=300)
    return re.fullmatch(r'#define BX_SOURCES "([0-9a-f]{64})"\n', header.read_text())[1]


@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
def test_cmake_and_python_agree(tmp_path):
    folder, header = tmp_path / "our src", tmp_path / "sources.h"
    shutil.copytree(paths.ROOT / "src", folder)
    first = digests.digest_of(folder)
    assert first == digests.of_checkout() == by_cmake(folder, header)
    written = header.stat().st_mtime_ns
    for name in ("tests/new.c", "md/README.md", "md/.md.c.swp", "md/md.c~"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("of no kernel")
    assert digests.digest_of(folder) == first == by_cmake(folder, header)
    assert header.stat().st_mtime_ns == written  # nothing is compiled again
    (folder / "common" / "new.c").touch()
    second = digests.digest_of(folder)
    assert second == by_cmake(folder, header) != first


def test_hash_is_read_from_an_executable(tmp_path):
    kernel = tmp_path / "bisection-md"
    kernel.write_bytes(b"\x7fELF\0bisection-sources:" + b"5a" * 32 + b"\0more")
    assert digests.built_into(kernel) == "5a" * 32
    kernel.write_bytes(b"\x7fELF")
    assert digests.built_into(kernel) == ""
