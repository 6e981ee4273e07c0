"""bisection-md with one flipped bit in a message, or one lost: found, or without consequence.

Usage: flip_md.py FLIPPING-KERNEL [LAUNCHES]

Half of the flips are in timed steps, half in verification, in messages of any kind: ghosts, their
positions, densities, slopes and forces; grids; atoms whose molecule is on several ranks.  In
verification every one must be found.  In timed steps one is without consequence if no bit of any
atom's place or velocity is other at the end of the block: the number was of a ghost that no atom
has within the cutoff, or next to nothing.  All others must be found, but for changes below 1e-6 of
a number.
"""

import random
import re
import sys
from collections import Counter

from kernel_run import MOST_RANKS, checks, run

SMALL = ("--baseline", "none", "--repeats", "2", "--block", "1", "--warmup", "0", "--steps", "10",
         "--until", "5", "--temperature", "1500")  # fmt: skip
CASES = (("fe", "9"), ("cu3au", "6"), ("sic", "5"))
METHODS = ("packed", "dlpoly3")
IONS = (("nacl", "6"), ("gramicidin", "3"))
FFTS = ("packed", "column-wise")
LOST = 64
BITS = (55, 51, 30, LOST)
RANKS = min(3, MOST_RANKS)
FEW = 16
SKIPPED = 77


def main():
    kernel = sys.argv[1]
    launches = int(sys.argv[2]) if len(sys.argv) > 2 else FEW
    draw = random.Random(1)
    counts, caught, harmless, missed = Counter(), Counter(), Counter(), []
    totals = {}
    for n in range(launches):
        ions = n // len(BITS) % 2
        case, cells = IONS[n // 8 % 2] if ions else CASES[n % len(CASES)]
        method = FFTS[n // 2 % 2] if ions else METHODS[n // len(CASES) % len(METHODS)]
        phase, bit = "TV"[n % 2], BITS[(n // 2 + n // 8) % len(BITS)]
        arguments = ("--case", case, "--cells", cells, "--method", method, *SMALL)
        if (case, method) not in totals:
            out = run(kernel, RANKS, *arguments)
            match = re.search(r"messages: (\d+) (\d+)", out.stderr)
            if out.code != 0 or not match:
                sys.exit(f"without a flip: {out.code} {out.stdout}{out.stderr}")
            totals[case, method] = dict(zip("VT", map(int, match.groups()), strict=True))
            if "0" in match.groups():
                print("this MPI library does not receive by PMPI_Irecv")
                sys.exit(SKIPPED)
        nth = draw.randrange(totals[case, method][phase])
        flip = f"{phase} {draw.randrange(RANKS)} {nth} {draw.randrange(10**6)} {bit}"
        out = run(kernel, RANKS, *arguments, BX_FLIP=flip)
        change = re.search(r"flip: (\S+) -> (\S+)", out.stderr)
        key = phase, bit
        counts[key] += 1
        caught[key] += out.code == 1
        error = checks(out, method).get("repeat", {}).get("error") if out.result else None
        harmless[key] += phase == "T" and error == 0
        if out.code != 1 and (phase == "V" or error != 0):
            missed.append((case, method, flip, change and change.groups(), error))
    for phase, where in (("V", "verification"), ("T", "timed steps")):
        for bit in BITS:
            key = phase, bit
            print(f"{where}, bit {bit}: {caught[key]} of {counts[key]} found, "
                  f"{harmless[key]} without consequence")  # fmt: skip
    for miss in missed:
        print("not found:", *miss)
    serious = [
        flip for _, _, flip, *_ in missed if flip.startswith("V") or not flip.endswith(" 30")
    ]
    if serious or not sum(caught["T", bit] for bit in BITS):
        sys.exit(1)


if __name__ == "__main__":
    main()
