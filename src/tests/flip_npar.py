"""bisection-npar with one flipped bit in what one MPI call of a timed step has received.

Usage: flip_npar.py FLIPPING-KERNEL [LAUNCHES]

Each launch flips one bit in each of its methods.  The flip matters if it changes the number by more
than 1e-4: orbitals, projections and eigenvalues are of the order of 1.  On the way back from real
space numbers are larger by the number of points, as transforms are not normalised.  Three kinds of
messages do not matter, because the answer is right whatever they hold:
- those of the residual minimisation: the next step chooses direction and length anew,
- those inside ScaLAPACK and ELPA about a matrix that is diagonal but for 1e-9,
- the sum of exact exchange over the groups on ranks that do not have the band.
Every other flip that matters must make the launch fail.  The script prints how many did, by the
size of the change, and each that did not.  It fails too if a launch has no flip that matters.
Without LAUNCHES it makes one in each place, always the same ones.
"""

import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from flips import launch
from kernel_run import MOST_RANKS, listed, run

FFT_1D, TRANSPOSE, FFT_2D = 0, 2, 4  # phases
REDISTRIBUTE, REDUCE, DIAGONALISE, UPDATE, EXCHANGE = 7, 9, 10, 12, 17
MATTERS = 1e-4
CLASSES = ((MATTERS, "above 1e-4"), (1e-6, "above 1e-6"), (-1, "below"))
QUICK = ("--repeats", "2", "--block", "2", "--warmup", "0", "--planner", "estimate")
BANDS = 9
SMALL = ("--bands", str(BANDS), "--atoms", "2", "--box", "8", "--cutoff", "15.2")
HYBRID = ("--case", "mini2", "--iterations", "3")
PLACES = (
    (4, SMALL), (2, "split"), (3, (*SMALL, "--kpoints", "2")), (2, HYBRID), (8, SMALL), (2, SMALL),
    (4, (*SMALL, "--npar", "2", "--ranks-per-node", "2", "--method", "published")),
    (6, (*SMALL, "--ranks-per-node", "4", "--transpose", "leaders")),
    (3, ("--case", "cnt40-scf", "--method", "nozero,shm,padded", "--ranks-per-node", "2")),
    (4, ("--case", "cnt40-nscf2", "--method", "npar-1,emulated,zeroing")),
)  # fmt: skip
BITS = (51, 55, 62)
LEAST = 1e-3  # numbers below it are changed by bit 62 alone
FRAGILE = ("scalapack", "elpa", "with-scalapack", "with-shm")  # crash where one rank has a NaN


def change(flip):
    """The size of a change, infinite where a number is not finite."""
    size = abs(float(flip["after"]) - float(flip["before"]))
    if "phase" in flip:
        laps = [int(lap) for lap in flip["laps"].split()]
        if int(flip["phase"]) == TRANSPOSE and laps[FFT_2D] > laps[FFT_1D]:
            size /= flip["points"]
    return size if size < float("inf") else float("inf")


def class_of(flip):
    """The column of the table that a change belongs to."""
    return next(text for limit, text in CLASSES if change(flip) > limit)


def matters(flip, rank):
    """Whether the launch must fail, or has crashed.  In exact exchange each group of one rank sends
    its bands to all before they are summed."""
    if "phase" not in flip:
        return True
    phase, laps = int(flip["phase"]), [int(lap) for lap in flip["laps"].split()]
    group = int(flip["ends"].split()[REDISTRIBUTE]) - 1
    unused = phase == REDUCE and laps[EXCHANGE] == max(laps) and group != rank
    updating = laps[UPDATE] > laps[REDISTRIBUTE] and phase != REDISTRIBUTE
    solving = phase == DIAGONALISE and flip["method"] in FRAGILE
    return change(flip) > MATTERS and not updating and not solving and not unused


def flip_each(kernel, ranks, bit, seed, arguments):
    """Returns the flips of one launch, and the methods that failed verification."""
    family = "published" if "published" in arguments else "methods"
    if bit == 62 and ("--method" not in arguments or family == "published"):
        robust = [m for m in listed(kernel, family, ranks) if m not in FRAGILE]
        arguments = (*arguments, "--method", ",".join(robust))
    order = f"{seed % ranks} {bit} {seed} {0 if bit == 62 else LEAST}"
    flips, wrong, out = launch(kernel, ranks, order, *QUICK, *arguments)
    for flip in flips:
        if "phase" in flip:
            flip["points"] = out.result["details"]["grid_points"]
    return flips, wrong


def split_run(kernel, seed, bit, file):
    """Launches the exchange step from a checkpoint; returns what `flip_each` does."""
    arguments = ("--method", "npar-2", "--checkpoint", str(file), "--split-calculation")
    if not file.exists():
        out = run(kernel, 2, *QUICK, *HYBRID, *arguments, "1")
        if out.code != 0:
            raise RuntimeError(f"no checkpoint: {out.stdout}{out.stderr}")
    return flip_each(kernel, 2, bit, seed, (*HYBRID, *arguments, "2"))


def main():
    kernel = sys.argv[1]
    places = [place for place in PLACES if place[0] <= MOST_RANKS]
    launches = int(sys.argv[2]) if len(sys.argv) > 2 else len(places)
    seen, caught, must, faults = Counter(), Counter(), 0, []
    with TemporaryDirectory() as folder:
        for seed in range(launches):
            ranks, arguments = places[seed % len(places)]
            bit = BITS[seed % len(BITS)]
            if arguments == "split":
                flips, wrong = split_run(kernel, seed, bit, Path(folder, "bands"))
            else:
                flips, wrong = flip_each(kernel, ranks, bit, seed, arguments)
            for flip in flips:
                seen[bit, class_of(flip)] += 1
                caught[bit, class_of(flip)] += flip["method"] in wrong
            fatal = [flip for flip in flips if matters(flip, seed % ranks)]
            must += len(fatal)
            where = (seed, ranks, bit, arguments)
            faults += [("MISSED", *where, f) for f in fatal if f["method"] not in wrong]
            if not fatal:
                faults.append(("NOTHING THAT MATTERS WAS FLIPPED", *where))
    for bit in BITS:
        columns = [f"{text}: {caught[bit, text]} of {seen[bit, text]}" for _, text in CLASSES]
        print(f"bit {bit:2}  " + ",  ".join(columns))
    print(f"{must} flips matter")
    for fault in faults:
        print(*fault)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
