"""The patterns of communication that codes are made of, from small to large messages."""

import reframe as rfm

from bisection.kernels import results, tables
from bisection.kernels.layouts import LAYOUTS
from bisection.rfm import KernelCheck, Launch

# Figure 2 of the paper: what blocks cost that may differ, and so what padding them can win.
ALL_TO_ALL = ["alltoall", "alltoallv"]


class PatternsLaunch(Launch):
    """All patterns over message sizes, in turn."""

    kernel = "patterns"
    case = parameter(["sweep"])
    sampling = {"sweep": "--repeats 30"}


@rfm.simple_test
class network(KernelCheck):
    """Is each message size carried, and does neither all-to-all fall behind the other?"""

    launch = fixture(PatternsLaunch, scope="environment")
    method = parameter(tables.methods("patterns"))
    metrics = ["time_min", "time_p99"]
    tiers = {
        "quick": {"method": [*ALL_TO_ALL, "pingpong", "halo"]},
        "nightly": {},
        "interconnect": {},
    }
    inapplicable = {"node-to-node": list(LAYOUTS)}  # on one node

    @run_after("init")
    def choose_asserted(self) -> None:
        """Ratios are of the two forms of all-to-all."""
        ratios = [f"ratio_{method}" for method in ALL_TO_ALL]
        self.asserted = ["time", *(ratios if self.method in ALL_TO_ALL else [])]

    @run_before("sanity")
    def choose_points(self) -> None:
        """The sizes that the kernel planned for this method, as memory bounds them."""
        sizes = self.launch.result["details"]["points"].get(self.method, [])
        self.points = [results.point_label({"bytes": size}) for size in sizes if size]
