"""`workshop bench restart`: restart files beside fio's, in turns in one folder.

Both write a file per process in calls of 4 MiB, sync it and drop it from memory, then read it. The
kernel's ranks also open, close and wait for each other, and read another's file. The first run of
each side is not used: it finds the disk as others have left it.
"""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from bisection.kernels.local import BenchError, launch
from workshop.peers import WITHIN, Judged, Limit, NotMeasured, entry, judged

RANKS = (1, 2)
MIB = 64  # per rank
TURNS = 9
DIRECTIONS = ("write", "read")
LIMIT = Limit(0.1, WITHIN)


def bandwidths(kernel: Path, folder: Path) -> Iterator[Judged]:
    """The kernel's bandwidth over fio's, with as many processes.

    Raises:
        NotMeasured: there is no fio.
    """
    if not shutil.which("fio"):
        raise NotMeasured("there is no fio on PATH (Debian: fio)")
    for ranks in RANKS:
        turns = [(ours(kernel, folder, ranks), theirs(folder, ranks)) for _ in range(TURNS)][1:]
        for direction in DIRECTIONS:
            pairs = [(our[direction], their[direction]) for our, their in turns]
            yield judged(f"{MIB} MiB per rank", ranks, direction, pairs, LIMIT, "B/s")


def ours(kernel: Path, folder: Path, ranks: int) -> dict[str, float]:
    """The bandwidths of one sample of the kernel (B/s)."""
    size = ["--case", "waves", "--bytes-per-rank", str(MIB << 20), "--share", "10"]
    once = ["--method", "file-per-rank", "--repeats", "1", "--block", "1", "--warmup", "0"]
    where = ["--directory", str(folder)]
    result = launch(kernel, ranks, [*size, *once, *where], folder / "restart.json")
    metrics = entry(result, "file-per-rank")["metrics"]
    return {name: metrics[f"bandwidth_{name}"]["value"] for name in DIRECTIONS}


def theirs(folder: Path, processes: int) -> dict[str, float]:
    """The bandwidths of a run of fio (B/s).

    Raises:
        BenchError: it fails.
    """
    rates = {}
    for direction in DIRECTIONS:
        line = ["fio", "--name=peer", f"--directory={folder}", f"--rw={direction}", "--bs=4m"]
        line += [f"--size={MIB}m", f"--numjobs={processes}", "--group_reporting", "--thread=0"]
        line += ["--ioengine=psync", "--fallocate=none", "--create_on_open=1", "--end_fsync=1"]
        line += ["--output-format=json", f"--unlink={direction == 'read':d}"]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode:
            raise BenchError(f"fio: {done.stderr.strip()[-200:]}")
        (job,) = json.loads(done.stdout)["jobs"]
        rates[direction] = job[direction]["bw_bytes"]
    return rates
