"""A disk that is full before a run, or becomes full during it."""

import os
import re
import subprocess
import sys

import pytest
from running import CHECKS, ONE, start

from bisection.core import paths
from bisection.core.reasons import clause
from bisection.rfm import causes

# A small disk of its own, in a mount namespace that ends with the run.
SMALL = 'mount -t tmpfs -o size=8M none "$BISECTION_HOME" && cd {checks}/.. && {fill}; exec "$@"'


CMAKE = "#!/bin/sh\necho 'CMake Error: Could NOT find MPI' >&2; exit 1\n"
BUILD = r"no space left on \S+ \(\d+ MB free, a build takes 24 MB\): CMake Error: Could NOT"


@pytest.mark.parametrize("when", ["before", "during", "build"])
@pytest.mark.long
def test_ends_a_run_with_what_fits(fake, tmp_path, monkeypatch, when):
    """Where a build fails for it, it is named first: CMake reports a library that it does not find,
    and leaves some room again."""
    home = tmp_path / "home"
    home.mkdir()
    unshare = ["unshare", "--mount", "--map-root-user"]
    if subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", home]).returncode:
        pytest.skip("no mount namespaces")
    (tmp_path / "cmake").write_text(CMAKE)
    (tmp_path / "cmake").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    fill = f"cat /dev/zero >{home}/fill || true"
    shell = SMALL.format(checks=CHECKS, fill=fill if when == "before" else "true")
    command = [*unshare, "sh", "-c", shell, "sh", sys.executable, "-m", "bisection", "run"]
    command += ["--tier", "quick", *ONE]
    command += ["-S", f"Build.kernels={fake}"] if when != "build" else []
    command += ["-S", f"TransposeLaunch.prerun_cmds={fill}"] if when == "during" else []
    code, text = start(command, home)
    text = " ".join(text.split())
    assert code == 3, text
    assert "NOT MEASURED: 0 of 1 checks passed" in text
    assert re.search(BUILD if when == "build" else "No space left on device", text), text
    assert "Traceback" not in text


@pytest.mark.parametrize("words", ["No space left on device", "Disk quota exceeded"])
def test_is_found_in_the_words_of_a_build(tmp_path, monkeypatch, words):
    assert causes.of_full_disk(tmp_path, ["error: no such file"]) is None
    line = f"  collect2: error: /tmp/ccA.o: {words}"
    assert clause(causes.of_full_disk(tmp_path, ["error: x", line])) == line.strip()
    monkeypatch.setattr(paths, "free_space", lambda _: None)  # of a folder that is gone
    assert causes.of_full_disk(tmp_path / "gone", []) is None


def test_is_told_from_other_faults_of_a_launch(tmp_path):
    assert paths.unwritable(tmp_path) == ""
    assert list(tmp_path.iterdir()) == []
    missing = tmp_path / "missing"
    assert paths.unwritable(missing) == f"cannot write to {missing}: No such file or directory"
