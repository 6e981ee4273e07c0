"""Runs a kernel under MPI for the tests; standard library only."""

import contextlib
import functools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "checks"))
from bisection.core import launchers
from bisection.kernels import layouts

MPIEXEC = os.environ.get("BX_MPIEXEC", "mpiexec").split()
EMULATOR = os.environ.get("BX_EMULATOR", "").split()  # that runs programs of a cross build
TIMEOUT = 240  # s; every run ends in seconds, a hang must not hold up the suite
LONG = "BX_LONG" in os.environ  # `ctest -L long`
MOST_RANKS = int(os.environ.get("BX_TEST_RANKS", "64"))  # where more would spin for minutes
# Ranks of one host need no network, and start in half the time where Open MPI looks for none.
ENVIRONMENT = {
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "self,vader",
    "I_MPI_FABRICS": "shm",
    "OMPI_MCA_btl_sm_segment_size": "4194304",  # B per rank, as Open MPI 4 has: /dev/shm is small
    # Open MPI looks for PCI devices and graphics cards, which is half of its time to start.
    "HWLOC_COMPONENTS": "-pci,-linuxio",
    "HWLOC_PLUGINS_PATH": "/nonexistent",
    "PMIX_MCA_gds": "hash",  # not in files of shared memory, whose pages take a fifth of a launch
    "OMPI_MCA_odls_base_sigkill_timeout": "0",  # s, which mpiexec waits after an exit code of 1
    "OMP_WAIT_POLICY": "passive",
    **launchers.AS_ROOT,
    **launchers.SHARING,
}


class Outcome:
    """Exit code, what was printed, the result (None if there is none), bytes of other files."""

    def __init__(self, process: subprocess.CompletedProcess, output: Path):
        self.code = process.returncode
        self.stdout = process.stdout
        self.stderr = process.stderr
        self.result = json.loads(output.read_text()) if output.exists() else None
        others = [path for path in output.parent.iterdir() if path != output]
        self.files = {path.name: path.read_bytes() for path in others if path.is_file()}
        self.leftovers = sorted(path.name for path in others)


def run(
    executable: str,
    ranks: int,
    *arguments: str,
    threads: int = 1,
    before: "tuple[str, ...]" = (),
    **environment: str,
) -> Outcome:
    """Adds --output in a scratch folder, unless the arguments name one.

    `before` is a command that starts the launcher.

    Raises unittest.SkipTest where this MPI library cannot run so many ranks in time.
    """
    if ranks > MOST_RANKS:
        raise unittest.SkipTest(f"{ranks} ranks, more than BX_TEST_RANKS={MOST_RANKS}")
    env = {**ENVIRONMENT, "OMP_NUM_THREADS": str(threads)}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"
        options = arguments if "--output" in arguments else (*arguments, "--output", str(output))
        process = subprocess.run(
            [*before, *MPIEXEC, "-n", str(ranks), *EMULATOR, executable, *options],
            env={**os.environ, **env, **environment},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        return Outcome(process, output)


def unlike(first: "tuple[str, ...]", second: "tuple[str, ...]") -> "list[str]":
    """The launch of two ranks by a command each; Open MPI 5.0.7 crashes at ":" between two."""
    commands = f"exec {shlex.join(second)} ;; *) exec {shlex.join(first)}"
    by_rank = f"case ${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}} in 1) {commands} ;; esac"
    return [*MPIEXEC, "-n", "2", "sh", "-c", by_rank]


@functools.cache
def listed(executable: str, heading: str, ranks: int = 1) -> "list[str]":
    """The names that --list prints under a heading: cases, methods, baselines."""
    text = run(executable, ranks, "--list").stdout
    part = text.partition(f"{heading}\n")[2]
    return re.findall(r"^  (\S+)", re.split(r"^\S", part, maxsplit=1, flags=re.M)[0], re.M)


@functools.cache
def choices(executable: str, option: str) -> "list[str]":
    """The values of an option that has a fixed set of them."""
    refusal = run(executable, 1, option, "no-such-value").stderr
    return refusal.partition("choose from ")[2].split("\n")[0].split(", ")


def members(launch: int) -> set[int]:
    """The processes that still run of a launch that was started as a session of its own.

    Those of the session, and their descendants: MPICH gives its ranks sessions of their own.
    """
    parents, running = {}, set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                state, parent, session = fields[0], int(fields[1]), int(fields[3])
                if state not in "ZX":
                    parents[int(entry.name)] = parent
                if state not in "ZX" and session == launch:
                    running.add(int(entry.name))
    while more := {pid for pid, parent in parents.items() if parent in running} - running:
        running |= more
    return running


def kill(process: subprocess.Popen) -> None:
    """Ends a launch that was started as a session of its own, and returns when no rank runs.

    Ranks are in process groups of their own, and outlive their mpiexec for a while.
    """
    limit = time.monotonic() + TIMEOUT
    known = members(process.pid)
    while running := {pid for pid in known if state_of(pid) not in "ZX"}:
        for pid in running:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > limit:
            raise TimeoutError(f"processes {running} do not end")
        process.poll()
        time.sleep(0.01)
        known |= members(process.pid)
    process.wait()


def long(test: "Callable") -> "Callable":
    """Marks a test that `ctest -L long` runs, and nothing else: see `main`."""
    test.long = True
    return test


class Chosen(unittest.TestLoader):
    """The long tests where BX_LONG is set, all others elsewhere."""

    def getTestCaseNames(self, case: type) -> "list[str]":
        names = super().getTestCaseNames(case)
        return [name for name in names if getattr(getattr(case, name), "long", False) == LONG]


def main(*arguments: str) -> None:
    """Runs the tests of a script.  Arguments are unittest's."""
    unittest.main(argv=[sys.argv[0], *arguments], testLoader=Chosen())


def state_of(pid: int) -> str:
    """The state of a process, X for one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "X"


def assert_refused(test: unittest.TestCase, outcome: Outcome, code: int, *parts: str) -> None:
    """The kernel prints one line, which has these parts, and nothing else; it leaves no result."""
    own = [line for line in outcome.stderr.splitlines() if line.startswith("bisection-")]
    test.assertEqual(outcome.code, code, outcome.stdout + outcome.stderr)
    test.assertEqual(len(own), 1, outcome.stderr)
    for part in parts:
        test.assertIn(part, own[0])
    test.assertEqual(outcome.stdout, "")
    test.assertIsNone(outcome.result)


def drawn(seed: int, index: int) -> int:
    """Splitmix64, as bx_random_hash has it."""
    z = (seed + (index + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def seats(result: dict) -> "list[dict]":
    """Where the ranks of a launch were, in order: rank, host, cpus, threads (cpus of each), ghz."""
    layout, of_ranks = result["layout"], {}
    for place in layouts.places(layout):
        for rank, cpus, threads in zip(place.ranks, place.cpus, place.threads, strict=True):
            seat = {"rank": rank, "host": place.host, "cpus": cpus, "threads": threads}
            of_ranks[rank] = seat | {"ghz": [ghz[rank] for ghz in layout["ghz"] if ghz[rank]]}
    return [of_ranks[rank] for rank in sorted(of_ranks)]


def inapplicable(outcome: Outcome) -> "dict[str, str]":
    """Why methods did not run, by name; without those whose library the build has not."""
    return {
        entry["method"]: entry["why"]
        for entry in outcome.result["results"]
        if not entry["applicable"] and not entry["lacks_library"]
    }


@functools.cache
def built(executable: str, *arguments: str) -> "list[str]":
    """The methods of a kernel whose library the build has; the arguments are of a short launch."""
    results = run(executable, 1, *arguments, "--baseline", "none").result["results"]
    return list(dict.fromkeys(e["method"] for e in results if not e["lacks_library"]))


@functools.cache
def validator():
    """Of results, by their schema; None without jsonschema."""
    try:
        import jsonschema
    except ImportError:
        return None
    schema = Path(__file__).parents[2] / "checks/bisection/kernels/result.schema.json"
    return jsonschema.validators.validator_for({})(json.loads(schema.read_text()))


def misfit(outcome: Outcome) -> str:
    """What of a result its schema rejects; "" if it fits, or cannot be compared here."""
    error = validator() and next(validator().iter_errors(outcome.result), None)
    return f"{error.json_path}: {error.message}" if error else ""


def entry(outcome: Outcome, method: str) -> dict:
    """What the result has of a method."""
    return next(e for e in outcome.result["results"] if e["method"] == method)


def checks(outcome: Outcome, method: str) -> dict[str, dict]:
    """The verification outcomes of a method, by name."""
    return {check["name"]: check for check in entry(outcome, method)["verification"]["checks"]}


if __name__ == "__main__":  # for CMake
    print(";".join(f"{name}={value}" for name, value in ENVIRONMENT.items()))
