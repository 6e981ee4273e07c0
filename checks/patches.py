"""Message-driven molecular dynamics: every way to take the messages of patches."""

import reframe as rfm
from reframe.core.builtins import fixture, parameter, run_before

from bisection.kernels import tables
from bisection.rfm.check import KernelCheck
from bisection.rfm.launch import Launch

SMALL = "dhfr-mini"
LARGE = "f1-atpase"


class PatchesLaunch(Launch):
    """The ways to take messages, all in turn, beside the forces alone."""

    kernel = "patches"
    case = parameter(tables.cases("patches"))
    sampling = {
        SMALL: "--repeats 10 --block 2 --steps 2",
        LARGE: "--repeats 3 --block 1 --warmup 0 --steps 2",
    }
    usual_sampling = "--repeats 5 --block 1 --steps 4"


@rfm.simple_test
class patches(KernelCheck):
    """What do messages in order of arrival cost beside a bulk-synchronous step?"""

    launch = fixture(PatchesLaunch, scope="environment")
    method = parameter(tables.methods("patches"))
    metrics = ["time", "message_rate", "messages_per_patch", "messages_share"]
    asserted = ["time", "ratio_static", "ratio_forces"]
    tiers = {
        "quick": {"case": [SMALL]},
        "nightly": {"case": [SMALL, "dhfr"]},
        "interconnect": {"case": ["dhfr", LARGE], "layout": ["mpi"]},
    }

    @run_before("sanity")
    def leave_out_rate(self) -> None:
        """One rank alone sends nothing."""
        if self.launch.num_tasks == 1:
            self.metrics = [name for name in self.metrics if name != "message_rate"]
