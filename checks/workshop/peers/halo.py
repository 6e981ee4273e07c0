"""`workshop bench halo`: the channel's exchange beside that of PETSc's DMDA, in turns.

Both move the same ghosts on one grid, whose ranks share out z, after a pass over the fields. PETSc
sends all fields of a neighbour in one message, and keeps a point's fields together.

PETSc's update also passes over all own points: halos of 1, 2 and 4 points take 5.5, 6.2 and 8.2 ms.
So about 4.5 ms are no exchange: a ratio well below 1 does not say that PETSc's messages are slow.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

from bisection.core import paths
from bisection.kernels.local import BenchError, environment, launch, placement
from workshop.peers import Judged, Limit, NotMeasured, entry, judged

CASE = "pchan-120"
SHAPE = ("120", "120", "120", "5", "2")  # of the case: points, fields, the halo's width
ROUNDS = "12"
RANKS = 2
TURNS = 7
METHODS = ("isend", "aggregated", "shm")
LIMIT = Limit(1.0)


def exchanges(kernel: Path, folder: Path) -> Iterator[Judged]:
    """The kernel's exchange over PETSc's.

    Raises:
        BenchError: PETSc's exchange failed.
        NotMeasured: there is no PETSc for the MPI library.
    """
    peer = built(folder)
    turns = [(ours(kernel, folder), theirs(peer)) for _ in range(TURNS)]
    for method in METHODS:
        yield judged(CASE, RANKS, method, [(our[method], their) for our, their in turns], LIMIT)


def built(folder: Path) -> Path:
    """PETSc's exchange, built.

    Raises:
        NotMeasured: there is no PETSc for the MPI library.
    """
    source = paths.ROOT / "checks" / "workshop" / "kernels" / "petsc_halo.c"
    target = folder / "petsc_halo"
    options = subprocess.run(["pkg-config", "--cflags", "--libs", "PETSc"], capture_output=True)
    line = ["mpicc", "-O3", "-march=native", "-o", str(target), str(source)]
    line += options.stdout.decode().split()
    if options.returncode or subprocess.run(line, capture_output=True).returncode:
        raise NotMeasured("there is no PETSc for this MPI library (Debian: libpetsc-real-dev)")
    return target


def ours(kernel: Path, folder: Path) -> dict[str, float]:
    """Seconds of an exchange, by method; of one launch."""
    which = ["--case", CASE, "--method", ",".join(METHODS), "--baseline", "none"]
    result = launch(kernel, RANKS, [*which, "--repeats", ROUNDS], folder / "halo.json")
    seconds = {}
    for method in METHODS:
        metrics = entry(result, method)["metrics"]
        seconds[method] = metrics["time"]["value"] * metrics["exchange_share"]["value"]
    return seconds


def theirs(peer: Path) -> float:
    """Seconds of PETSc's exchange.

    Raises:
        BenchError: it failed, or a ghost is not what its owner has.
    """
    line = ["mpirun", "-n", str(RANKS), *placement(RANKS), str(peer), *SHAPE, ROUNDS]
    done = subprocess.run(line, capture_output=True, text=True, env=environment(RANKS))
    if done.returncode:
        raise BenchError(f"PETSc's exchange: {done.stderr.strip()[-200:]}")
    return float(done.stdout)
