"""A real ReFrame run of the real checks, on the fake kernel of fake_kernel.py."""

import dataclasses
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from validated import valid

from bisection.kernels import digests

RNG = 20261121

HERE = Path(__file__).resolve().parent
CHECKS = HERE.parents[1]
SITES = CHECKS.parent / "site-configs"


def load_site(name):
    """site-configs/<name>.py as a module."""
    spec = importlib.util.spec_from_file_location(f"site_{name}", SITES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def first_cores(count):
    """A CPU of each of the first `count` cores, as taskset takes them; all if there are fewer."""
    masks = load_site("common").this_machine()["topology"]["cores"][:count]
    return ",".join(str((int(mask, 16) & -int(mask, 16)).bit_length() - 1) for mask in masks)


# The same two cores everywhere, so that layouts are the same on every machine.
TWO_CORES = first_cores(2)

# One method at one layout: the smallest selection that builds, launches and judges. (-n matches the
# displayed name without its spaces.)
ONE = ("-n", "^transpose%method=p2p%launch.layout=mpi%launch.case=cnt40")


def fake_program():
    """fake_kernel.py as a program that carries the hash of the sources, as a kernel does."""
    path = str(HERE / "fake_kernel.py")
    names = {"__name__": "__main__", "__file__": path}
    run = f"exec(compile(open({path!r}).read(), {path!r}, 'exec'), {names})"
    return f"#!{sys.executable}\n# bisection-sources:{digests.of_checkout()}\n{run}\n"


def of_other_sources(home, fake):
    """A copy of the fake kernels with the hash of other sources."""
    folder = shutil.copytree(fake, home / "others")
    for kernel in (folder / "bin").iterdir():
        kernel.write_text(kernel.read_text().replace(digests.of_checkout(), "5" * 64))
    return folder


def joined(text):
    """The text with each command that was printed in several lines in one, behind its label."""
    return re.sub(r"(?<=:)\n +", " ", re.sub(r" \\\n +", " ", text))


def on_one_line(text):
    """A text whose lines are broken where they are too long, with one blank between words."""
    return " ".join(joined(text).split())


@dataclasses.dataclass
class Run:
    """What one `bisection run` left behind."""

    code: int
    text: str
    folder: Path

    @property
    def said(self):
        return on_one_line(self.text)

    @property
    def whole(self):
        """verdict.txt, which has every test, on one line."""
        return on_one_line((self.folder / "verdict.txt").read_text())

    @property
    def verdict(self):
        return valid((self.folder / "verdict.json").read_text())

    def case(self, method, layout="mpi", case="cnt40", **more):
        wanted = {"method": method, "layout": layout, "case": case, **more}
        (only,) = [c for c in self.verdict["cases"] if wanted.items() <= c.items()]
        return only


def command(folder, name, body):
    """Writes a command, whose body is a shell script."""
    (folder / name).write_text(f"#!/bin/bash\n{body}\n")
    (folder / name).chmod(0o755)


# A CMake that puts the fake kernels where the real one would, and counts the builds of a home.
CMAKE = """case $1 in
    --build) echo built >>"$BISECTION_HOME/builds" ;;
    --install) mkdir "$4/bin" && cp "$FAKE"/bin/bisection-* "$4/bin" ;;
    *) echo "fake:FILEPATH=$0" >build/CMakeCache.txt ;;
esac"""


def install_cmake(patch, folder, fake):
    """Puts a folder before all others on PATH, with a CMake that builds these fake kernels."""
    if not folder.exists():  # another file would be another CMake, and call for another build
        folder.mkdir()
        command(folder, "cmake", CMAKE)
    patch.setenv("PATH", str(folder), prepend=":")
    patch.setenv("FAKE", str(fake))


def git(folder, *words):
    """The output of a Git command in a folder; its commits are by nobody."""
    who = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"]
    line = ["git", "-C", folder, *who, *words]
    return subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip()


def enter_cluster(patch, home, wrong=None):
    """Sets the environment of a cluster of fake commands, with faults as fake_slurm.py has them."""
    for name in ("bin", "jobs"):
        (home / name).mkdir()
    for name in ("sbatch", "squeue", "sacct", "scancel", "scontrol", "sinfo"):
        (home / "bin" / name).symlink_to(HERE / "fake_slurm.py")
    patch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
    patch.setenv("FAKE_SLURM", str(home / "jobs"))
    patch.setenv("FAKE_SLURM_FAULTS", json.dumps(wrong or {}))


def start(command, home, faults=None, references=None, cpus=TWO_CORES):
    """Runs `command` where every generated file goes below `home`; (exit code, output)."""
    env = {
        **os.environ,
        "BISECTION_HOME": str(home),
        "FAKE_FAULTS": json.dumps(faults or {}),
        "PYTHONPATH": str(CHECKS),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPYCACHEPREFIX": sys.pycache_prefix or str(CHECKS.parent / ".bisection/cache/python"),
    }
    for name in ("RFM_REFERENCE_PREFIX", "PYTHONDONTWRITEBYTECODE"):
        env.pop(name, None)
    if references is not None:
        env["RFM_REFERENCE_PREFIX"] = str(references)
    done = subprocess.run(
        ["taskset", "--cpu-list", cpus, *command],
        env=env,
        cwd=CHECKS.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,  # only so that a hang ends: other work may have the cores
    )
    return done.returncode, done.stdout


def run_command(home, tier, *arguments, **how):
    """`bisection run` with these arguments alone: a Run."""
    command = [sys.executable, "-m", "bisection", "run", "--tier", tier]
    code, text = start([*command, *arguments], home, **how)
    return Run(code, text, (home / "results" / "latest").resolve())


def run_in(home, fake, *arguments, selected=ONE, tier="quick", **how):
    """`bisection run` on the fake kernels, or on what is built: a Run."""
    kernels = ["-S", f"Build.kernels={fake}"] if fake else []
    return run_command(home, tier, *kernels, *selected, *arguments, **how)
