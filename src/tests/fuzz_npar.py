"""bisection-npar under random command lines: whatever it accepts must verify.

Usage: fuzz_npar.py KERNEL [LINES [SEED]]

Draws command lines until LINES were accepted.  No line may end in a wrong answer, a crash or a
hang.  A refused line must print one reason.
"""

import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from kernel_run import MOST_RANKS, choices, listed, run

KERNEL = sys.argv[1]
FEW, SEED = 12, 1
TRANSPOSES = choices(KERNEL, "--transpose")
KNOBS = [name for name in listed(KERNEL, "methods") if name != "npar-1"]


class Line:
    """A random command line: ranks, threads and options; a split calculation has two launches."""

    def __init__(self, draw: random.Random):
        self.ranks = min(MOST_RANKS, draw.choice((1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8)))
        self.threads = draw.choice((1, 1, 1, 1, 2, 3))
        self.options: list[str] = []
        self._draw = draw
        self.hybrid = draw.random() < 0.25
        self.loud = draw.random() < 0.15  # a hundred steps a method: few bands, one method
        self._sizes()
        self._layout()
        self._solver()
        self.split = self.hybrid and draw.random() < 0.3
        if self.split or self.loud:
            self._add("method", f"npar-{self.ranks}")
        elif draw.random() < 0.3:
            names = [f"npar-{n}" for n in range(1, self.ranks + 1) if self.ranks % n == 0]
            self._add("method", ",".join(draw.sample((*names, *KNOBS), draw.randint(1, 3))))

    def _add(self, name, *values):
        self.options += [f"--{name}", *(str(value) for value in values)]

    def _maybe(self, share, name, *values):
        if self._draw.random() < share:
            self._add(name, self._draw.choice(values))

    def _sizes(self):
        draw = self._draw
        if self.hybrid:
            self._add("functional", "hybrid")
            self.options.append("--gamma")
        elif draw.random() < 0.5:
            self._add("kpoints", draw.randint(1, 2 if self.loud else 6))
        elif draw.random() < 0.5:
            self.options.append("--gamma")
        shape = draw.random()
        if shape < 0.4:
            edges = [draw.uniform(4.5, 11)]
        elif shape < 0.8:
            edges = [draw.uniform(5, 11) for _ in range(3)]
        else:
            edges = [draw.uniform(3, 5), *(draw.uniform(8, 14) for _ in range(2))]
            draw.shuffle(edges)
        self._add("box", ",".join(f"{edge:.3g}" for edge in edges))
        size = draw.random()
        if size < 0.8:
            self._add("cutoff", f"{draw.uniform(9, 22):.3g}")
        if size > 0.7:
            self._add("grid", ",".join(str(draw.choice((20, 24, 27, 30, 35, 36))) for _ in "xyz"))
        self._add("atoms", draw.choice((1, 1, 1, 2, 3)))
        bands = (2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 16, 20, 24)
        self._add("bands", draw.choice(bands[:8] if self.loud else bands))

    def _layout(self):
        divisors = [n for n in range(1, self.ranks + 1) if self.ranks % n == 0]
        self._maybe(0.2, "npar", *([self.ranks] if self.hybrid else divisors))
        self._maybe(0.4, "transpose", *TRANSPOSES)
        self._maybe(0.4, "ranks-per-node", *range(1, self.ranks + 1))
        self._maybe(0.15, "collectives", "emulated")
        self._maybe(0.15, "paw-reduce", "alltoall")
        self._maybe(0.1, "zeroing", "on")
        self._maybe(0.2, "projectors", "by-atom")
        self._maybe(0.2, "linear-algebra", "scalapack", "elpa")
        if self._draw.random() < 0.1:
            self.options.append("--separate-waiting")

    def _solver(self):
        draw = self._draw
        self._maybe(0.3, "minimisations", 1, 2, 3, 5, 9)
        if self.loud:
            self._add("noise", draw.choice((0.001, 0.02, 0.1)))
            self._add("iterations", 100)
        else:
            self._maybe(0.3, "noise", 0, 1e-12, 1e-9, 1e-7)
            self._maybe(0.3, "iterations", 1, 2, 3, 10)
        self._maybe(0.3, "seed", 0, 2, 77, 9000000000000000)
        self._add("repeats", draw.choice((1, 1, 2)))
        self._add("block", draw.choice((1, 2, 4)))
        self._add("warmup", draw.choice((0, 1)))
        self._add("planner", "estimate")

    def __str__(self):
        split = "  # --split-calculation 1, then 2" if self.split else ""
        return f"-n {self.ranks} OMP_NUM_THREADS={self.threads} {' '.join(self.options)}{split}"

    def launches(self, folder):
        """Yields the outcome of each launch."""
        file = ("--checkpoint", str(Path(folder, "bands")), "--split-calculation")
        for part in ((*file, "1"), (*file, "2")) if self.split else ((),):
            yield run(KERNEL, self.ranks, *self.options, *part, threads=self.threads)


def fault(out, kernel):
    """Returns what is wrong with a launch, empty if nothing is."""
    lines = [line for line in out.stderr.splitlines() if line.startswith(f"{kernel}: ")]
    if out.code in (2, 3) and len(lines) != 1:
        return f"exit {out.code} with {len(lines)} reasons"
    if out.code not in (0, 2, 3):
        return f"exit {out.code}"
    return ""


def main():
    lines = int(sys.argv[2]) if len(sys.argv) > 2 else FEW
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else SEED
    draw = random.Random(seed)
    name = Path(KERNEL).name
    codes, failures, start = Counter(), 0, time.monotonic()
    while codes[0] + failures < lines:
        line, out = Line(draw), None
        with TemporaryDirectory() as folder:
            try:
                for out in line.launches(folder):
                    reason = fault(out, name)
                    if reason or out.code != 0:
                        break
            except subprocess.TimeoutExpired:
                reason = "it hangs"
        if reason:
            failures += 1
            print(f"{reason}: {line}\n{out.stdout + out.stderr if out else ''}", flush=True)
        else:
            codes[out.code] += 1
    refused = codes[2] + codes[3]
    seconds = time.monotonic() - start
    print(
        f"seed {seed}: {codes[0]} verified, {refused} refused, {failures} failed; {seconds:.0f} s"
    )
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
