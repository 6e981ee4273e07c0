"""What the network carries, and what its nodes do alone."""

import reframe as rfm

from bisection.kernels import layouts, results, tables
from bisection.rfm import KernelCheck, Launch


class SweepLaunch(Launch):
    """The all-to-all sweep over message sizes."""

    kernel = "alltoall-sweep"
    case = parameter(["sweep"])
    sampling = {"sweep": "--repeats 60"}

    @run_after("setup")
    def fit(self) -> None:
        """Sends smaller blocks where ranks are so many that the largest would not fit."""
        self.options = [*self.options, f"--largest {layouts.largest_block(self.num_tasks)}"]


@rfm.simple_test
class network(KernelCheck):
    """Is each message size carried, and does neither collective fall behind the other?"""

    launch = fixture(SweepLaunch, scope="environment")
    method = parameter(tables.methods("alltoall-sweep"))
    metrics = ["time_min", "time_p99"]
    asserted = ["time", "ratio_alltoall", "ratio_alltoallv"]
    tiers = {"quick": {}, "nightly": {}, "interconnect": {}}

    @run_after("setup")
    def set_points(self) -> None:
        """The sizes of blocks that the launch sends."""
        largest = layouts.largest_block(self.launch.num_tasks)
        sizes = (1 << power for power in range(3, largest.bit_length()))
        self.points = [results.point_label({"bytes": size}) for size in sizes]


class NoiseLaunch(Launch):
    """Every core of every node, alone."""

    kernel = "noise"
    case = parameter(["nodes"])
    layout = parameter(["mpi"], loggable=True)
    sampling = {"nodes": "--repeats 10"}


@rfm.simple_test
class network_noise(KernelCheck):
    """Are cores interrupted, and does every node's memory give what it should?"""

    launch = fixture(NoiseLaunch, scope="environment")
    method = parameter(tables.methods("noise"))
    asserted = ["time"]
    tiers = {"nightly": {}, "interconnect": {}}
