"""Molecular dynamics: ranks per node and threads per rank, and what communication costs."""

import reframe as rfm
from reframe.core.builtins import fixture, parameter, run_after, run_before, sanity_function

from bisection.core.reasons.base import Text
from bisection.core.thresholds import LIMITS
from bisection.kernels import layouts, results, tables
from bisection.kernels.results import Metric
from bisection.rfm.check import KernelCheck
from bisection.rfm.launch import Launch

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
    def suit_case(self) -> None:
        """Skips impossible combinations; cases with bonds of fixed length have iterations."""
        kept = self.method == "recompute" and self.case in NOT_KEPT
        if kept or (self.method == "column-wise" and self.case not in IONS):
            self.valid_systems = []
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
        """True if both launches measured times; keeps their ratios in `reported`."""
        hybrid, pure = (
            results.metrics(results.of_method(launch.result, self.method))
            for launch in (self.launch, self.pure)
        )
        self.require_metrics(n for n in ("time", *LOOPS) if n not in hybrid or n not in pure)
        ratio = hybrid["time"]["value"] / pure["time"]["value"]
        ratios = {"ratio_mpi": ratio, "ratio_loops": ratio * loops(hybrid) / loops(pure)}
        self.reported = {
            name: {"value": value, "unit": "ratio", "better": "lower"}
            for name, value in ratios.items()
        }
        if ratio < 1 - LIMITS.layout_gain:
            faster = f"{1 / ratio - 1:.0%} faster than one rank per core"
            cores = self.launch.shape.cores
            self.remark = Text(f"{self.layout} is {faster} on {cores} cores").dumps()
        return True


def loops(metrics: dict[str, Metric]) -> float:
    """The fraction of a time step that its loops over pairs take."""
    return sum(metrics[name]["value"] for name in LOOPS)
