"""Runs a kernel under MPI for the tests; standard library only."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

MPIEXEC = os.environ.get("BX_MPIEXEC", "mpiexec").split()
TIMEOUT = 240  # s; every run ends in seconds, a hang must not hold up the suite
ENVIRONMENT = {
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMP_WAIT_POLICY": "passive",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}


class Outcome:
    """Exit code, what the kernel printed, and its result (None if it wrote none)."""

    def __init__(self, process: subprocess.CompletedProcess, output: Path):
        self.code = process.returncode
        self.stdout = process.stdout
        self.stderr = process.stderr
        self.result = json.loads(output.read_text()) if output.exists() else None
        self.leftovers = sorted(p.name for p in output.parent.iterdir() if p != output)


def run(
    executable: str, ranks: int, *arguments: str, threads: int = 1, **environment: str
) -> Outcome:
    """Adds --output in a scratch folder, unless the arguments name one."""
    env = {**ENVIRONMENT, "OMP_NUM_THREADS": str(threads)}
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "result.json"
        options = arguments if "--output" in arguments else (*arguments, "--output", str(output))
        process = subprocess.run(
            [*MPIEXEC, "-n", str(ranks), executable, *options],
            env={**os.environ, **env, **environment},
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        return Outcome(process, output)


def members(session: int) -> list[int]:
    """The processes of a session that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if entry.name.isdigit():
                state, _, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                if int(of) == session and state not in "ZX":
                    found.append(int(entry.name))
    return found


def kill(process: subprocess.Popen) -> None:
    """Ends a launch that was started as a session of its own, and returns when no rank runs.

    Ranks are in process groups of their own, and outlive their mpiexec for a while.
    """
    limit = time.monotonic() + TIMEOUT
    while found := members(process.pid):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if time.monotonic() > limit:
            raise TimeoutError(f"processes {found} do not end")
        process.poll()
        time.sleep(0.01)
    process.wait()


def checks(outcome: Outcome, method: str) -> dict[str, dict]:
    """The verification outcomes of a method, by name."""
    for entry in outcome.result["results"]:
        if entry["method"] == method:
            return {check["name"]: check for check in entry["verification"]["checks"]}
    raise KeyError(method)
