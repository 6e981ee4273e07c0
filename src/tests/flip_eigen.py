"""bisection-eigen with one flipped bit in what one call of a timed step has received.

Usage: flip_eigen.py FLIPPING-KERNEL [LAUNCHES]

The kernel must find the flip, or the answer must be right: the same in every bit, as much of what
solvers send is not used where it arrives, or wrong by at most a fifth of what is allowed.  A solver
may also end or wait for ever, which the launch's exit code says.  A launch without a flip
fails, and so does the script if no flip of a method was found.
"""

import itertools
import re
import sys
from collections import Counter

from flips import flips_of
from kernel_run import MOST_RANKS, checks, run

SMALL = ("--case", "crystal-mini", "--size", "60", "--repeats", "2", "--block", "2")
PLACES = ((3, ()), (4, ()), (2, ("--complex",)), (6, ("--block-size", "8")))
BITS = (51, 63, 55)
LEAST = 1e-6  # of a number, so that its change is far above rounding
RIGHT = {"probe": 2, "completeness": 10, "eigenvalues": 2}  # in the units of these checks
FEW = 4  # of each method


def methods(kernel):
    """The methods that can run everywhere."""
    result = run(kernel, 2, *SMALL).result
    return [e["method"] for e in result["results"] if e["applicable"] and not e["baseline"]]


def judge(out, method):
    """What came of a flip: `found`, `same`, `right` or `missed`; None where nothing was flipped."""
    if not flips_of(out):
        return None
    if out.code != 0:
        return "found"
    if len(set(re.findall(rf"^answer {method} (\w+)$", out.stderr, re.M))) == 1:
        return "same"
    right = all(checks(out, method)[name]["error"] <= limit for name, limit in RIGHT.items())
    return "right" if right else "missed"


def main():
    kernel = sys.argv[1]
    launches = int(sys.argv[2]) if len(sys.argv) > 2 else FEW
    places = [place for place in PLACES if place[0] <= MOST_RANKS]
    counts, faults = Counter(), []
    plans = itertools.product(methods(kernel), range(launches))
    for seed, (method, number) in enumerate(plans):
        ranks, arguments = places[number % len(places)]
        order = f"{seed % ranks} {BITS[seed % len(BITS)]} {seed} {LEAST}"
        chosen = (*SMALL, *arguments, "--method", method, "--baseline", "none")
        out = run(kernel, ranks, *chosen, BX_FLIP=order)
        outcome = judge(out, method)
        counts[method, outcome] += 1
        if outcome in (None, "missed"):
            faults.append(f"{outcome}: {order}, {ranks} ranks, {chosen}: {out.stderr}")
    for method in {method for method, _ in counts}:
        share = {o: counts[method, o] for o in ("found", "same", "right", "missed")}
        print(method, share)
        if not share["found"]:
            faults.append(f"{method}: no flip was found")
    sys.exit("\n".join(faults) or 0)


if __name__ == "__main__":
    main()
