"""The network: what its nodes do alone, pairs of nodes, the patterns of codes, then other traffic.

Tests run in the order in which they stand here.
"""

import reframe as rfm
from reframe.core.builtins import fixture, parameter, run_after, run_before, variable

from bisection.core.thresholds import LIMITS
from bisection.kernels import results, tables
from bisection.kernels.layouts import LAYOUTS
from bisection.rfm import switches
from bisection.rfm.buffers import on_devices, where_devices
from bisection.rfm.check import KernelCheck
from bisection.rfm.launch import Launch


class NoiseLaunch(Launch):
    """Every core of every node, alone."""

    kernel = "noise"
    simulates = False  # there is nothing that interrupts
    case = parameter(["nodes"])
    layout = parameter(["mpi"])
    sampling = {"nodes": "--repeats 10"}


@rfm.simple_test
class network_noise(KernelCheck):
    """Are cores interrupted, and does every node's memory give what it should?"""

    launch = fixture(NoiseLaunch, scope="environment")
    method = parameter(tables.methods("noise"))
    asserted = ["time"]
    tiers = {"nightly": {}, "triage": {}, "interconnect": {}, "nodes": {}}


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
        if self.spot < 0 or self.shape.nodes > 2:  # between two nodes there is nothing to tell
            more = switches.options(self.current_partition, self.stagedir)
            self.options = [*self.options, *more]


@rfm.simple_test
class pairs(KernelCheck):
    """Does each pair of nodes get its messages, and is no node, cable or switch slow?"""

    launch = fixture(PairsLaunch, scope="environment")
    method = parameter(tables.methods("pairs"))
    metrics = ["latency", "bandwidth", "bandwidth_both"]
    asserted = []  # the components are judged after the run (bisection.judge)
    tiers = {
        "nightly": {"case": ["sampled"]},
        "triage": {"case": ["sampled"]},
        "interconnect": {"case": ["all"]},
        "nodes": {"case": ["sampled"]},
    }


on_devices(pairs, PairsLaunch)


class CopiesLaunch(Launch):
    """Copies between each device and its host, and between devices."""

    kernel = "device"
    simulates = False
    case = parameter(["devices"])
    layout = parameter(["gpu-device"])
    sampling = {"devices": "--repeats 10 --block 2"}


@where_devices
class device_copies(KernelCheck):
    """Is each copy right, and is no bus or link between devices slow?"""

    launch = fixture(CopiesLaunch, scope="environment")
    method = parameter(tables.methods("device"))
    metrics = []
    asserted = ["time", "rate"]  # the rate is that of the slowest place
    tiers = {"quick": {}, "nightly": {}, "triage": {}, "interconnect": {}}
    inapplicable = {"peer": ["gpu-device"]}  # where a rank sees one device alone


# Figure 2 of the paper: what blocks cost that may differ, and so what padding them can win.
ALL_TO_ALL = ["alltoall", "alltoallv"]
COLD = [*ALL_TO_ALL, "pingpong", "halo"]
SMALLEST_COLD = 65536  # B


class PatternsLaunch(Launch):
    """All patterns over message sizes, in turn."""

    kernel = "patterns"
    case = parameter(["sweep"])
    sampling = {"sweep": "--repeats 30"}
    options = [f"--memory {LIMITS.patterns_memory:.0f}"]


@rfm.simple_test
class network(KernelCheck):
    """Is each message size carried, and does neither all-to-all fall behind the other?"""

    launch = fixture(PatternsLaunch, scope="environment")
    method = parameter(tables.methods("patterns"))
    metrics = ["time_min", "time_p99"]
    smallest = variable(int, value=0)  # B
    tiers = {
        "quick": {"method": [*ALL_TO_ALL, "pingpong", "halo"]},
        "nightly": {},
        "triage": {"layout": ["mpi"]},
        "interconnect": {},
    }
    # On one node; where the MPI library has no windows on the network.
    inapplicable = {name: list(LAYOUTS) for name in ("node-to-node", "put", "get")}

    @run_after("init")
    def choose_asserted(self) -> None:
        """Each size of the method; ratios are of the two forms of all-to-all."""
        ratios = [f"ratio_{method}" for method in ALL_TO_ALL]
        self.asserted = ["time", *(ratios if self.method in ALL_TO_ALL else [])]
        self.points = labels([s for s in tables.sizes(self.method) if s >= self.smallest])

    @run_before("sanity")
    def leave_out(self) -> None:
        """Only the sizes that the kernel planned: memory bounds them where ranks are many. One rank
        alone has none to exchange messages with."""
        self.points = labels(self.launch.result["details"]["points"].get(self.method, []))
        if self.launch.num_tasks == 1:
            self.inapplicable = {self.method: [self.layout]}


on_devices(network, PatternsLaunch, refused={"staged": ["put", "get"]})


class ColdLaunch(PatternsLaunch):
    """Messages that no cache holds, as those of a code that computes between two exchanges."""

    layout = parameter(["mpi"])
    work = {"sweep": f"--cold --smallest {SMALLEST_COLD}"}
    sampling = {"sweep": "--repeats 5 --block 2 --warmup 0"}
    methods = {"sweep": ",".join(COLD)}


@rfm.simple_test
class network_cold(network):
    """Are large messages carried as fast as they should be from memory to memory?"""

    launch = fixture(ColdLaunch, scope="environment")
    method = parameter(COLD)
    smallest = SMALLEST_COLD
    tiers = {"nightly": {}}
    inapplicable = {name: ["mpi"] for name in ALL_TO_ALL}  # to many ranks: memory


class OsuLaunch(Launch):
    """The loops of OSU's micro-benchmarks, by their rules."""

    kernel = "osu"
    simulates = False  # iterations over one buffer show caches, which it has not
    case = parameter(["sweep"])
    layout = parameter(["mpi"])
    sampling = {"sweep": "--repeats 3 --block 1 --warmup 0"}
    options = [f"--memory {LIMITS.patterns_memory:.0f}"]


@rfm.simple_test
class network_osu(KernelCheck):
    """What do OSU's micro-benchmarks measure, which vendors quote?"""

    launch = fixture(OsuLaunch, scope="environment")
    method = parameter(tables.methods("osu"))
    asserted = []  # the patterns are judged
    tiers = {"interconnect": {}}

    @run_after("init")
    def choose_metrics(self) -> None:
        """Seconds or rates, by the method, at each of its sizes."""
        seconds = self.method in ("latency", "alltoall", "allreduce")
        rates = ["bandwidth", *["message_rate"] * (self.method == "mbw-mr")]
        self.metrics = ["latency"] if seconds else rates
        self.points = labels(tables.sizes(self.method, "osu"))

    @run_before("sanity")
    def leave_out(self) -> None:
        """Only the sizes for which there was memory. One rank has none to exchange with."""
        self.points = labels(self.launch.result["details"]["points"].get(self.method, []))
        if self.launch.num_tasks == 1:
            self.inapplicable = {self.method: [self.layout]}


class CongestionLaunch(Launch):
    """Victims, quiet and under aggressors, on nodes that each cycle deals anew."""

    kernel = "congestion"
    case = parameter(["apart", "beside"])
    layout = parameter(["mpi"])
    usual_sampling = "--repeats 10 --block 1 --warmup 0"

    @run_after("init")
    def need_nodes(self) -> None:
        """Two nodes for the victims and two for the aggressors, or two that they share."""
        self.least_nodes, self.least_ranks = (4, 1) if self.case == "apart" else (2, 2)


@rfm.simple_test
class congestion(KernelCheck):
    """What do other traffic's messages cost small messages, transposes and halos?"""

    launch = fixture(CongestionLaunch, scope="environment")
    method = parameter(tables.methods("congestion"))
    metrics = ["quiet", "impact_incast", "impact_alltoall", "impact_broadcast"]
    asserted = []  # impacts are judged after the run (interconnect.impact)
    tiers = {"triage": {"case": ["apart"]}, "interconnect": {}}


on_devices(congestion, CongestionLaunch, tiers={"interconnect": {}})


def labels(sizes: list[int]) -> list[str]:
    """Sizes (B) as metrics name them; without 0, of a method that has none."""
    return [results.point_label({"bytes": size}) for size in sizes if size]
