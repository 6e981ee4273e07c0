"""Molecular dynamics: ranks per node and threads per rank, and what communication costs."""

from typing import Any

import reframe as rfm

from bisection.core.reasons import Code
from bisection.core.thresholds import LIMITS
from bisection.kernels import layouts, results, tables
from bisection.kernels.results import Metric, Result
from bisection.rfm.check import KernelCheck
from bisection.rfm.launch import Launch, fail

SMALL = ["sic", "cu3au", "fe", "nacl-mini", "gramicidin-mini"]
CASES = [*SMALL, "test10", "test20", "test30", "nacl", "gramicidin"]
LOOPS = ["two_body_forces_share", "metal_ld_compute_share", "tersoff_forces_share"]
IONS = ["nacl-mini", "gramicidin-mini", "nacl", "gramicidin"]  # they alone have an FFT
NOT_KEPT = ["sic", "test10", *IONS]  # no pair terms to keep or to compute again


class MdLaunch(Launch):
    """The MD kernel, in hybrid layouts too."""

    kernel = "md"
    case = parameter(CASES)
    layout = parameter(list(layouts.ALL_LAYOUTS), loggable=True)
    # Ten time steps a sample: long enough to have lists made anew, in seconds a launch for all.
    work = {
        **dict.fromkeys(SMALL, "--steps 10 --until 5"),
        **dict.fromkeys(CASES[len(SMALL) :], "--steps 5 --until 3"),
        # Forty iterations per step.
        "gramicidin-mini": "--steps 3 --until 3",
        "gramicidin": "--steps 1 --until 1",
    }
    sampling = dict.fromkeys(SMALL, "--repeats 6 --block 1 --warmup 0")
    usual_sampling = "--repeats 3 --block 1 --warmup 0"


@rfm.simple_test
class md(KernelCheck):
    """Is each way to communicate and to compute right, and as fast as it should be?"""

    launch = fixture(MdLaunch, scope="environment")
    method = parameter(tables.methods("md"))
    metrics = [
        "time", "atom_steps", "communication_share", "fft_share",
        "bytes", "bytes_per_rank", "messages",
    ]  # fmt: skip
    asserted = ["time", "atom_steps", "ratio_packed", "ratio_cached"]
    tiers = {
        "quick": {"case": SMALL},
        "nightly": {"case": [*SMALL, "test20", "nacl"]},
        "interconnect": {
            "case": SMALL, "layout": ["mpi"], "method": ["packed", "dlpoly3", "replicated"],
        },
    }  # fmt: skip

    @run_after("init")
    def leave_out(self) -> None:
        """Skips impossible combinations."""
        if self.method == "recompute" and self.case in NOT_KEPT:
            self.valid_systems = []
        if self.method == "column-wise" and self.case not in IONS:
            self.valid_systems = []

    @run_after("init")
    def count_iterations(self) -> None:
        """Cases with bonds of fixed length have iterations."""
        if self.case.startswith("gramicidin"):
            self.metrics = [*self.metrics, "iterations"]

    @run_before("sanity")
    def leave_out_copies(self) -> None:
        """One rank alone has all atoms in any style."""
        if self.launch.num_tasks == 1:
            self.inapplicable = {"replicated": [self.layout]}


@rfm.simple_test
class md_layout(KernelCheck):
    """What does a hybrid layout gain or lose against one rank per core, on the same cores?"""

    pure = fixture(MdLaunch, scope="environment", variants={"layout": lambda name: name == "mpi"})
    launch = fixture(MdLaunch, scope="environment", variants={"layout": lambda name: name != "mpi"})
    method = parameter(["packed"])
    metrics = []
    asserted = ["ratio_mpi", "ratio_loops"]
    tiers = {"quick": {"case": SMALL}, "nightly": {"case": [*SMALL, "test20"]}}

    @run_after("init")
    def pair_up(self) -> None:
        """Both launches are of one case."""
        fixtures = type(self).get_variant_info(self.variant_num, recurse=True)["fixtures"]
        if fixtures["pure"]["params"]["case"] != self.case:
            self.valid_systems = []

    @sanity_function
    def compared(self) -> bool:
        """True if both launches did the same work; keeps the ratios of times in `measured`."""
        hybrid, pure = self.launch.result, self.pure.result
        mine, theirs = (
            results.metrics(results.of_method(result, self.method)) for result in (hybrid, pure)
        )
        needed = ["time", "bytes", "bytes_per_rank", "messages", *LOOPS]
        missing = [name for name in needed if name not in mine or name not in theirs]
        if missing:
            fail(self, Code.METRICS_MISSING(method=self.method, metrics=missing))
        ratio = mine["time"]["value"] / theirs["time"]["value"]
        ratios = {"ratio_mpi": ratio, "ratio_loops": ratio * loops(mine) / loops(theirs)}
        self.measured = {
            name: {"value": value, "unit": "ratio", "better": "lower"}
            for name, value in ratios.items()
        }
        if counts := contradictions(hybrid, pure, mine, theirs):
            fail(self, Code.COUNTS_CONTRADICT(counts=counts))
        if ratio < 1 - LIMITS.layout_gain:
            gain = {"layout": self.layout, "gain": 1 / ratio - 1, "cores": self.launch.shape.cores}
            self.remark = Code.LAYOUT_FASTER(**gain).dumps()
        return True


def loops(metrics: dict[str, Metric]) -> float:
    """The fraction of a time step that its loops over pairs take."""
    return sum(metrics[name]["value"] for name in LOOPS)


def contradictions(
    hybrid: Result, pure: Result, mine: dict[str, Metric], theirs: dict[str, Metric]
) -> list[list[Any]]:
    """Returns what contradicts finding D05 of the 2010 study; empty if nothing.

    Fewer ranks send less together, in fewer messages. Each rank sends more, where ranks have
    neighbours in all three directions: a rank that is its own neighbour sends nothing that way.

    Args:
        hybrid: the result of the launch with fewer ranks.
        pure: the result of the launch with one rank per core.
        mine: the metrics of the method in `hybrid`, by name.
        theirs: the metrics of the method in `pure`, by name.

    Returns:
        [[hybrid ranks, what they send per step, pure ranks, what they send, unit, per rank?]]
    """
    few, many = (result["layout"]["ranks"] for result in (hybrid, pure))
    wrong = [
        [few, mine[name]["value"], many, theirs[name]["value"], name, False]
        for name in ("bytes", "messages")
        if not mine[name]["value"] < theirs[name]["value"]
    ]
    divided = all(
        result["details"][f"domains_{vector}"] > 1 for result in (hybrid, pure) for vector in "abc"
    )
    each, other = (metrics["bytes_per_rank"]["value"] for metrics in (mine, theirs))
    if divided and not each > other:
        wrong.append([few, each, many, other, "bytes", True])
    return wrong
