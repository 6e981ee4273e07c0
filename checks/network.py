"""The network: pairs of nodes, then all-to-all exchanges (figure 2 of the paper).

Tests run in the order in which they stand here.
"""

import reframe as rfm

from bisection.kernels import layouts, results, tables
from bisection.rfm import KernelCheck, Launch, switches


class PairsLaunch(Launch):
    """Nodes in pairs: latency and bandwidth, and the suspects again, each pair alone."""

    kernel = "pairs"
    least_nodes = 2
    case = parameter(["sampled", "all"])
    layout = parameter(["mpi"])  # all ranks of a node share its adapters
    usual_sampling = ""
    sampling = {"all": "--repeats 3"}
    keep_files = ["result.json", "result.pairs"]

    @run_after("setup")
    def find_switches(self) -> None:
        """Gives the kernel the switches of the nodes, where Slurm knows them."""
        self.options = [*self.options, *switches.options(self.current_partition, self.stagedir)]


@rfm.simple_test
class pairs(KernelCheck):
    """Does each pair of nodes get its messages, and is no node, cable or switch slow?"""

    launch = fixture(PairsLaunch, scope="environment")
    method = parameter(tables.methods("pairs"))
    metrics = ["latency", "bandwidth", "bandwidth_both"]
    asserted = []  # the components are judged after the run (bisection.analysis.interconnect)
    tiers = {
        "triage": {"case": ["sampled"]},
        "interconnect": {"case": ["all"]},
    }


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
    tiers = {"quick": {}, "nightly": {}, "triage": {"layout": ["mpi"]}, "interconnect": {}}

    @run_after("setup")
    def set_points(self) -> None:
        """The sizes of blocks that the launch sends."""
        largest = layouts.largest_block(self.launch.num_tasks)
        sizes = (1 << power for power in range(3, largest.bit_length()))
        self.points = [results.point_label({"bytes": size}) for size in sizes]
