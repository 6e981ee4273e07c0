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


@pytest.mark.parametrize("when", ["before", "during"])
def test_ends_a_run_with_what_fits(fake, tmp_path, when):
    unshare = ["unshare", "--mount", "--map-root-user"]
    if subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", tmp_path]).returncode:
        pytest.skip("no mount namespaces")
    fill = f"cat /dev/zero >{tmp_path}/fill || true"
    shell = SMALL.format(checks=CHECKS, fill=f"{fill}" if when == "before" else "true")
    command = [*unshare, "sh", "-c", shell, "sh", sys.executable, "-m", "bisection", "run"]
    command += ["--tier", "quick", "-S", f"Build.kernels={fake}", *ONE]
    command += ["-S", f"TransposeLaunch.prerun_cmds={fill}"] if when == "during" else []
    code, text = start(command, tmp_path)
    assert code == 3, text
    assert "NOT MEASURED: 0 of 1 checks passed" in text
    assert "No space left on device" in " ".join(text.split())
    assert "Traceback" not in text


def test_is_named_first_where_a_build_fails_for_it(tmp_path, monkeypatch):
    """CMake reports a library that it does not find, and leaves some room again."""
    unshare = ["unshare", "--mount", "--map-root-user"]
    home = tmp_path / "home"
    home.mkdir()
    if subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", home]).returncode:
        pytest.skip("no mount namespaces")
    cmake = tmp_path / "cmake"
    cmake.write_text("#!/bin/sh\necho 'CMake Error: Could NOT find MPI' >&2; exit 1\n")
    cmake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    shell = SMALL.format(checks=CHECKS, fill="true")
    command = [*unshare, "sh", "-c", shell, "sh", sys.executable, "-m", "bisection", "run"]
    code, text = start([*command, "--tier", "quick", *ONE], home)
    assert code == 3, text
    words = rf"no space left on {home} \(\d+ MB free, a build takes 24 MB\): CMake Error: Could NOT"
    assert re.search(words, " ".join(text.split())), text


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
