"""The images of spack-env/container: their steps ask for every package that a night needs."""

import re
import subprocess

import pytest

from bisection.core import paths

SPACK_ENV = paths.ROOT / "spack-env"
PACKAGES = SPACK_ENV / "debian12" / "packages.txt"


def dockerfile():
    """(where its COPY puts packages.txt, the shell commands of its RUN)"""
    text = (SPACK_ENV / "container" / "Dockerfile").read_text().replace("\\\n", " ")
    source, target = re.search(r"^COPY (\S+) (\S+)$", text, re.M).groups()
    assert paths.ROOT / source == PACKAGES
    return target, re.search(r"^RUN (.*)$", text, re.M)[1]


def definition():
    """(where its %files puts packages.txt, the shell commands of its %post)"""
    text = (SPACK_ENV / "container" / "bisection.def").read_text()
    source, target = re.search(r"^%files\n +(\S+) (\S+)$", text, re.M).groups()
    assert paths.ROOT / source == PACKAGES
    return target, text.split("%post\n")[1]


@pytest.mark.parametrize("steps", [dockerfile, definition])
@pytest.mark.parametrize("copied", [True, False], ids=["copied", "hidden"])
def test_an_image_has_the_packages_of_a_night_or_is_not_made(steps, copied, tmp_path):
    target, commands = steps()
    assert not target.startswith("/tmp/")  # Apptainer binds the host's /tmp while it builds
    for name in ("apt-get", "rm"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{tmp_path}/called\n')
        (tmp_path / name).chmod(0o755)
    place = PACKAGES if copied else tmp_path / "hidden.txt"
    words = ["sh", "-e", "-c", f"PATH={tmp_path}:$PATH\n{commands.replace(target, str(place))}"]
    ended = subprocess.run(words, capture_output=True, text=True)
    if not copied:
        assert ended.returncode
        assert not (tmp_path / "called").exists()
        return
    assert ended.returncode == 0, ended.stderr
    install = next(
        line for line in (tmp_path / "called").read_text().splitlines() if " install " in line
    )
    rows = [line.split() for line in PACKAGES.read_text().splitlines() if line[:1] not in ("", "#")]
    needed = {row[0] for row in rows if row[1] in ("all", "system", "extra")}
    assert len(needed) > 10
    assert needed <= set(install.split())
