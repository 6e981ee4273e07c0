"""bisection-npar with one flipped bit in what one MPI call of a timed step has received.

Usage: flip_npar.py FLIPPING-KERNEL [LAUNCHES]

Each launch flips one bit in each of its methods.  The flip matters if it changes the number by more
than 1e-4: orbitals, projections and eigenvalues are of the order of 1.  Three kinds of messages do
not matter, because the answer is right whatever they hold:
- those of the residual minimisation: the next step chooses direction and length anew,
- those inside ScaLAPACK and ELPA about a matrix that is diagonal but for 1e-9,
- the sum of exact exchange over the groups on ranks that do not have the band.
Every other flip that matters must make the launch fail.  The script prints how many did, by the
size of the change, and each that did not.  Without LAUNCHES it makes a few, always the same ones.
"""

import itertools
import re
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from kernel_run import MOST_RANKS, listed, run

FLIP = re.compile(
    r"flip (?P<method>\S+), step \d+ of \d+, call \d+ of \d+, (?P<routine>.+), "
    r"number \d+ of \d+, (?P<before>\S+) -> (?P<after>\S+), phase (?P<phase>\d+), "
    r"laps (?P<laps>[\d ]+), ends (?P<ends>[\d ]+)"
)
REDISTRIBUTE, REDUCE, DIAGONALISE, UPDATE, EXCHANGE = 7, 9, 10, 12, 17  # phases
MATTERS = 1e-4
CLASSES = ((MATTERS, "above 1e-4"), (1e-6, "above 1e-6"), (-1, "below"))
QUICK = ("--repeats", "2", "--block", "2", "--warmup", "0", "--planner", "estimate")
BANDS = 9
SMALL = ("--bands", str(BANDS), "--atoms", "2", "--box", "8", "--cutoff", "15.2")
HYBRID = ("--case", "mini2", "--iterations", "3")
PLACES = (
    (4, SMALL), (3, (*SMALL, "--kpoints", "2")), (2, HYBRID), (8, SMALL), (2, SMALL),
    (4, (*SMALL, "--npar", "2", "--ranks-per-node", "2", "--method", "published")),
    (6, (*SMALL, "--ranks-per-node", "4", "--transpose", "leaders")),
)  # fmt: skip
BITS = (51, 55, 30, 62)
FRAGILE = ("scalapack", "elpa", "with-scalapack", "with-shm")  # crash where one rank has a NaN
FEW = 10


def change(flip):
    """The size of a change, infinite where a number is not finite."""
    size = abs(float(flip["after"]) - float(flip["before"]))
    return size if size < float("inf") else float("inf")


def class_of(flip):
    """The column of the table that a change belongs to."""
    return next(text for limit, text in CLASSES if change(flip) > limit)


def matters(flip, rank):
    """Whether the launch must fail.  In exact exchange each group of one rank sends its bands to
    all before they are summed."""
    phase, laps = int(flip["phase"]), [int(lap) for lap in flip["laps"].split()]
    group = int(flip["ends"].split()[REDISTRIBUTE]) - 1
    unused = phase == REDUCE and laps[EXCHANGE] == max(laps) and group != rank
    updating = laps[UPDATE] > laps[REDISTRIBUTE] and phase != REDISTRIBUTE
    solving = phase == DIAGONALISE and flip["method"] in FRAGILE
    return change(flip) > MATTERS and not updating and not solving and not unused


def launch(kernel, ranks, bit, seed, arguments):
    """Returns the flips of one launch, and the methods that failed verification."""
    family = "published" if "published" in arguments else "methods"
    if bit == 62 and ("--method" not in arguments or family == "published"):
        robust = [m for m in listed(kernel, family, ranks) if m not in FRAGILE]
        arguments = (*arguments, "--method", ",".join(robust))
    out = run(kernel, ranks, *QUICK, *arguments, BX_FLIP=f"{seed % ranks} {bit} {seed}")
    if out.result is None or out.result["status"] != "complete":
        raise RuntimeError(f"no result: {out.stdout}{out.stderr}")
    flips = [match.groupdict() for match in map(FLIP.match, out.stderr.splitlines()) if match]
    wrong = {
        entry["method"]
        for entry in out.result["results"]
        if entry["applicable"] and not entry["verification"]["passed"]
    }
    false = wrong - {flip["method"] for flip in flips}
    if false:
        raise RuntimeError(f"wrong without a flip: {false}")
    return flips, wrong


def split_run(kernel, seed, bit, file):
    """Launches the exchange step from a checkpoint; returns what `launch` does."""
    arguments = ("--method", "npar-2", "--checkpoint", str(file), "--split-calculation")
    if not file.exists():
        out = run(kernel, 2, *QUICK, *HYBRID, *arguments, "1")
        if out.code != 0:
            raise RuntimeError(f"no checkpoint: {out.stdout}{out.stderr}")
    return launch(kernel, 2, bit, seed, (*HYBRID, *arguments, "2"))


def main():
    kernel = sys.argv[1]
    launches = int(sys.argv[2]) if len(sys.argv) > 2 else FEW
    seen, caught, missed, must = Counter(), Counter(), [], 0
    plans = itertools.cycle(p for p in (*PLACES, (2, "split")) if p[0] <= MOST_RANKS)
    with TemporaryDirectory() as folder:
        for seed, (ranks, arguments) in enumerate(itertools.islice(plans, launches)):
            bit = BITS[(seed // 2) % len(BITS)]
            if arguments == "split":
                flips, wrong = split_run(kernel, seed, bit, Path(folder, "bands"))
            else:
                flips, wrong = launch(kernel, ranks, bit, seed, arguments)
            for flip in flips:
                seen[bit, class_of(flip)] += 1
                caught[bit, class_of(flip)] += flip["method"] in wrong
                must += (fatal := matters(flip, seed % ranks))
                if fatal and flip["method"] not in wrong:
                    missed.append((seed, ranks, bit, arguments, flip))
    for bit in BITS:
        columns = [f"{text}: {caught[bit, text]} of {seen[bit, text]}" for _, text in CLASSES]
        print(f"bit {bit:2}  " + ",  ".join(columns))
    print(f"found {must - len(missed)} of {must} that matter")
    for miss in missed:
        print("MISSED", *miss)
    if not must:
        sys.exit("nothing that matters was flipped")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
