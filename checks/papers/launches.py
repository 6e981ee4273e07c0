"""The launches that findings need: methods and metrics, options, ranks and threads."""

import re
from dataclasses import dataclass

from bisection.kernels.layouts import ranks_of_layouts

# One step: a simulated clock is exact.
ONCE = "--repeats 1 --block 1 --warmup 0"
WORK = {
    "transpose": "--published --bands 1 --planner estimate --baseline none",
    "md": "--thread-lists --steps 1 --until 1 --baseline none",
    "npar": "--planner estimate --iterations 1",
    "eigen": "--baseline none",
    "halo": "--baseline none",
    "patches": "--steps 2 --baseline none",
    "patterns": "--memory 1",
}
WORK_OF_CASE = {
    # As the report's profiles of this benchmark: projectors in reciprocal space, by dgemv.
    "bench5": "--projectors by-atom",
    # As SL_INIT of ScaLAPACK's Users' Guide fills the grid; the report does not print its grid.
    "pdsyevd-3888": "--row-major",
    "pdsyevd-7194": "--row-major",
}
# Kernels whose arithmetic takes longer than their simulation: it is charged, and not computed.
# The value of BX_HOLLOW: of so many panels of ScaLAPACK's reduction one is simulated; above 1 of
# npar's equal transforms one.
HOLLOW = {"eigen": 32, "halo": 1, "md": 1, "npar": 32, "patches": 1, "transpose": 1}
UNITS = {"B": 1, "KiB": 1024}
LaunchKey = tuple[str, str, str, str, int]  # machine, kernel, case, layout, cores


@dataclass
class Wanted:
    """The wanted results of a launch."""

    methods: set[str]
    metrics: set[str]


def placed(layout: str, cores: int, node: int) -> tuple[int, int, int]:
    """Ranks, ranks per node and threads per rank of a layout on nodes of so many cores; nodes are
    as full as they can be, and the last one may have fewer ranks."""
    threads = node // ranks_of_layouts(node)[layout]
    return cores // threads, min(node, cores) // threads, threads


def work(kernel: str, case: str, wanted: Wanted) -> list[str]:
    """Options by which a kernel does what is wanted of a case, and no more: of sizes of messages
    those that metrics name, time_256B."""
    named = [re.fullmatch(r"time_(\d+)(B|KiB)", name) for name in wanted.metrics]
    sizes = sorted(int(size[1]) * UNITS[size[2]] for size in named if size)
    ends = ["--smallest", str(sizes[0]), "--largest", str(sizes[-1])] if sizes else []
    return [*WORK[kernel].split(), *WORK_OF_CASE.get(case, "").split(), *ends]
