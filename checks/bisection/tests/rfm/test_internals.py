"""What is changed in ReFrame: local jobs run below a blank, an umlaut and a quotation mark."""

import os

import reframe
from running import HERE, start

from bisection.rfm import internals

# What Build calls of CMake: the install prefix is kept, and the kernels are put there.
CMAKE = f"""#!/bin/sh -eu
for word; do
    case $word in -DCMAKE_INSTALL_PREFIX=*) printf '%s' "${{word#*=}}" >prefix ;; esac
done
[ "$1" = --install ] || exit 0
folder=$(cat prefix)/bin
mkdir -p "$folder"
for kernel in transpose alltoall-sweep npar md; do
    ln -s '{HERE}/fake_kernel.py' "$folder/bisection-$kernel"
done
"""


def test_kernels_are_built_and_launched(fake, tmp_path, monkeypatch):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "cmake").write_text(CMAKE)
    (tools / "cmake").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    home = tmp_path / "Meine Prüfung's" / "home"
    command = "run --tier quick -n ^transpose%method=p2p%launch.layout=mpi%launch.case=cnt40"
    code, text = start(["python", "-m", "bisection", *command.split()], home)
    assert code == 0, text
    assert "PASS: 1 of 1 checks passed" in text


def test_internals_were_written_for_this_reframe():
    assert internals.WRITTEN_FOR == reframe.VERSION
