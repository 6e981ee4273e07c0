"""Small to large all-to-all exchanges: Alltoall against Alltoallv (figure 2 of the paper)."""

import reframe as rfm

from bisection.kernels import tables
from bisection.rfm import KernelCheck, Launch


class SweepLaunch(Launch):
    """The all-to-all sweep over message sizes."""

    kernel = "alltoall-sweep"
    case = parameter(["sweep"])
    sampling = {"sweep": "--repeats 60"}


@rfm.simple_test
class network(KernelCheck):
    """Is each message size carried, and does neither collective fall behind the other?"""

    launch = fixture(SweepLaunch, scope="environment")
    method = parameter(tables.methods("alltoall-sweep"))
    metrics = ["time_min", "time_p99"]
    asserted = ["time", "ratio_alltoall", "ratio_alltoallv"]
    points = [
        *(f"{1 << power}B" for power in range(3, 10)),
        *(f"{1 << power}KiB" for power in range(10)),
        "1MiB",
    ]
    tiers = {"quick": {}, "nightly": {}, "interconnect": {}}
