"""Faults of real launches: Open MPI's mpirun, and hydra of MPICH, say what went wrong."""

import os
import shutil
import socket
import subprocess
import types
from pathlib import Path

import pytest
from running import TWO_CORES

from bisection.core.launchers import AS_ROOT, library
from bisection.core.reasons.base import clause
from bisection.core.reasons.launches import KernelDied, MpiAbort, MpiError, NodeFault, NotStarted
from bisection.kernels import launch_faults
from bisection.kernels.launch_faults import Ended

# Suffixes of Debian's commands -> the library that must be behind them.
LIBRARIES = {"": "openmpi", ".mpich": "mpich"}
HERE = socket.gethostname()
PROGRAM = Path(__file__).with_name("faulty_ranks.c")
# In a /dev/shm of a few kilobytes, and without a network; root alone may have them.
TINY = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=16k tmpfs /dev/shm && exec "$@"', "-"]
ALONE = ["unshare", "--net"]


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """programs(suffix) is the folder with the programs of a library, `plain` and `linked`, which
    misses a library."""
    built = {}

    def build(suffix):
        if "," not in TWO_CORES:
            pytest.skip("needs two cores")
        if library(f"mpirun{suffix}")[0] != LIBRARIES[suffix] or not shutil.which(f"mpicc{suffix}"):
            pytest.skip(f"no {LIBRARIES[suffix]}")
        if suffix not in built:
            folder = tmp_path_factory.mktemp("programs")
            (folder / "gone.c").write_text("int elsewhere(void) { return 0; }\n")
            lines = ["gcc -shared -fPIC -o libgone.so gone.c"]
            lines.append(f"mpicc{suffix} -o plain {PROGRAM}")
            lines.append(f"mpicc{suffix} -DLINKED -o linked {PROGRAM} -L. -lgone")
            for line in lines:
                subprocess.run(line.split(), cwd=folder, check=True, capture_output=True)
            (folder / "libgone.so").unlink()
            built[suffix] = folder
        return built[suffix]

    return build


def is_lost(ended):
    """True if the launcher lost what the rank said: Open MPI 4.1.4 does in one launch of five,
    hydra 4.0.2 where the machine is busy."""
    return "show_help.c" in ended.errors or not (ended.errors + ended.output).strip()


@pytest.fixture
def launched(programs):
    """launched(suffix, *words, code=..., before=...) is (exit code, reason, Ended) of a launch that
    should have a reason of this code; what a launcher loses is tried again."""

    def run(suffix, *words, code=None, before=()):
        folder = programs(suffix)
        if before and subprocess.run([*before, "true"], capture_output=True).returncode:
            pytest.skip("nothing can be mounted or taken away here")
        env = {name: v for name, v in os.environ.items() if "oversubscribe" not in name.lower()}
        # Where /dev/shm is full: files go to a folder that is elsewhere, messages through loopback.
        env |= {"TMPDIR": str(folder), "OMPI_MCA_btl_tcp_if_include": "lo"}
        how = {"hosts": [HERE], "cpus": len(os.sched_getaffinity(0))}
        names = (types.SimpleNamespace(registered_name=name) for name in ("local", "mpirun"))
        named = dict(zip(("scheduler", "launcher"), names, strict=True))
        for _ in range(20):
            done = subprocess.run(
                [*before, f"mpirun{suffix}", *words],
                cwd=folder,
                env={**env, **AS_ROOT},
                capture_output=True,
                text=True,
                timeout=600,  # only so that a hang ends
            )
            ended = Ended("md", str(folder), done.returncode, done.stderr, done.stdout, **how)
            exit_code, reason = launch_faults.of_launch(
                types.SimpleNamespace(**named, state=None), ended
            )
            if (reason and type(reason)) == code or not is_lost(ended):
                break
        return exit_code, reason, ended

    return run


FULL, NO_NETWORK = "no space for shared memory in /dev/shm", "unable to find network interfaces"
BEFORE = {FULL: TINY, NO_NETWORK: ALONE}


@pytest.mark.parametrize(
    ("suffix", "words", "code", "says", "at"),
    [
        ("", "-np 99 ./plain", NotStarted, "too few slots: 99 ranks are asked for", {}),
        ("", "-np 2 ./nowhere", NotStarted, "./nowhere cannot be started", {"host": HERE}),
        ("", "-np 2 ./linked", NotStarted, "libgone.so does not load", {"host": HERE}),
        ("", "--odd -np 2 ./plain", NotStarted, "does not know the option --odd", {}),
        ("", "-np 2 ./plain kill", KernelDied, "SIGKILL", {"rank": 1, "host": HERE}),
        ("", "-np 2 ./plain crash", KernelDied, "SIGSEGV", {"rank": 1, "host": HERE}),
        ("", "-np 2 ./plain exit", NotStarted, "before the kernel began", {"rank": 1}),
        ("", "-np 2 ./plain abort", MpiAbort, "code 7", {"rank": 1, "host": HERE}),
        ("", "-np 2 ./plain truncate", MpiError, "MPI_ERR_TRUNCATE in MPI_Recv",
         {"rank": 1, "host": HERE}),
        (".mpich", "-np 2 ./nowhere", NotStarted, "./nowhere: No such", {"host": HERE}),
        (".mpich", "-np 2 ./linked", NotStarted, "libgone.so does not load", {}),
        (".mpich", "-odd -np 2 ./plain", NotStarted, "does not know the option odd", {}),
        (".mpich", "-np 2 ./plain kill", KernelDied, "SIGKILL", {"host": HERE}),
        (".mpich", "-np 2 ./plain crash", KernelDied, "SIGSEGV", {"host": HERE}),
        (".mpich", "-np 2 ./plain exit", NotStarted, "before the kernel began", {}),
        (".mpich", "-np 2 ./plain abort", MpiAbort, "code 7", {"rank": 1, "host": HERE}),
        (".mpich", "-np 2 ./plain truncate", MpiError, "Message truncated in MPI_Recv",
         {"rank": 1, "host": HERE}),
        *((name, "-np 2 ./plain memory", NodeFault, FULL, {"host": HERE}) for name in LIBRARIES),
        ("", "-np 2 ./plain", NotStarted, NO_NETWORK, {"host": HERE}),
    ],
)  # fmt: skip
def test_a_fault_has_its_cause_rank_and_host(launched, suffix, words, code, says, at):
    how = {"code": code, "before": BEFORE.get(says, ())}
    exit_code, reason, ended = launched(suffix, *words.split(), **how)
    assert exit_code != 0
    assert (type(reason), says in clause(reason)) == (code, True), (clause(reason), ended)
    assert at.items() <= vars(reason).items()
    assert "wrote no result file" not in clause(reason)


def test_a_launch_that_does_without_shared_memory_is_noted(launched):
    for _ in range(20):
        exit_code, _, ended = launched("", "-np", "2", "./plain", before=TINY)
        assert exit_code == 0, ended.errors
        if not is_lost(ended):
            break
    (note,) = launch_faults.notes_of(ended, [HERE])
    assert FULL in clause(note)
