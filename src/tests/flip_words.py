"""Kernels that compare each word with a closed form, with one flipped bit in what a call received.

Usage: flip_words.py FLIPPING-RESTART FLIPPING-CONGESTION

Each flip must be found.  A launch in which none reached data fails.  So does the script if a
method was never reached: of restart, in what the file system gives, which an aggregator of a
collective read passes on to others, and in what MPI's reading routines leave in a reader's memory;
of congestion, in the exchange of each victim.
"""

import itertools
import re
import sys

from flips import launch
from kernel_run import MOST_RANKS, run

BITS = (0, 51, 62)
QUICK = ("--repeats", "2", "--block", "2", "--warmup", "0")
AGGREGATORS = {"OMPI_MCA_io_ompio_num_aggregators": "2"}
ARRAYS = (
    (4, range(4), ("--case", "waves-mini", "--bytes-per-rank", "130000")),
    (3, (1,), ("--case", "fields-mini", "--bytes-per-rank", "30000", "--readers", "2")),
)
FROM_FILE, BY_MPI = "read()", "File_read"
# Of five nodes of one rank three have victims, in each cycle others.
CYCLES = ("--repeats", "6", "--block", "1", "--warmup", "0", "--window", "0.001")
VICTIMS = {"allreduce": "Allreduce", "alltoallv": "Alltoallv", "halo": "a request"}


def launches(restart, congestion):
    """Of each launch: kernel, ranks, the one with the flip, its calls, arguments."""
    for ranks, readers, arguments in ARRAYS:
        for reader, calls in itertools.product(readers, (FROM_FILE, BY_MPI)):
            yield restart, ranks, reader, calls, (*QUICK, *arguments)
    for victim, routine in VICTIMS.items():
        for rank in (0, 2, 4):
            arguments = (*CYCLES, "--ranks-per-node", "1", "--method", victim)
            yield congestion, 5, rank, f"{routine} of 3 ranks", arguments


def wanted(restart):
    """The methods that must be reached, with the calls; `others`: what a rank has read for them."""
    first = run(restart, 4, *QUICK, *ARRAYS[0][2]).result["results"]
    methods = [entry["method"] for entry in first if entry["applicable"] and not entry["baseline"]]
    for method in methods:
        yield method, FROM_FILE
        if method.startswith(("mpi-io", "hdf5", "checkpoint")):
            yield method, BY_MPI
        if method in ("mpi-io-collective", "hdf5-collective", "hdf5-chunked"):
            yield method, "others"
    for victim, routine in VICTIMS.items():
        yield victim, f"{routine} of 3 ranks"


def main():
    restart, congestion = sys.argv[1:3]
    reached, faults = set(), []
    plans = [plan for plan in launches(restart, congestion) if plan[1] <= MOST_RANKS]
    for seed, (kernel, ranks, rank, calls, arguments) in enumerate(plans):
        order = f"{rank} {BITS[seed % len(BITS)]} {seed} 0 {calls}"
        flips, wrong, out = launch(kernel, ranks, order, *arguments, **AGGREGATORS)
        print(f"{order}: found {len(wrong)} of {len(flips)} on {ranks} ranks, {arguments}")
        faults += [f"missed: {flip}" for flip in flips if flip["method"] not in wrong]
        if not flips:
            faults.append(f"nothing was reached: {order}")
        for method in wrong:
            reached.add((method, calls))
            reader = re.search(rf"{method}: word .*: rank (\d+) read", out.stderr)
            if calls == FROM_FILE and reader and int(reader[1]) != rank:
                reached.add((method, "others"))
    if len(plans) == len([*launches(restart, congestion)]):
        faults += [f"never reached: {m}, {c}" for m, c in wanted(restart) if (m, c) not in reached]
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    main()
