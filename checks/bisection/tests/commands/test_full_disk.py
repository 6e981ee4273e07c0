"""A disk that is full before a run, or becomes full during it."""

import subprocess
import sys

import pytest
from running import CHECKS, ONE, start

from bisection.core import paths

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


def test_is_told_from_other_faults_of_a_launch(tmp_path):
    assert paths.unwritable(tmp_path) == ""
    assert list(tmp_path.iterdir()) == []
    missing = tmp_path / "missing"
    assert paths.unwritable(missing) == f"cannot write to {missing}: No such file or directory"
