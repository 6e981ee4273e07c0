"""NPAR: every split of the ranks into band groups and every knob of the 2010 report, in turn."""

import reframe as rfm
from reframe.core.exceptions import SanityError
from reframe.core.runtime import runtime

from bisection.kernels import layouts
from bisection.rfm import references
from bisection.rfm.check import KernelCheck
from bisection.rfm.launch import Launch, read

# Ranks and bands are few, and so are the cases: a launch is done in seconds on a few cores.
HYBRID = ["mini2"]  # NPAR is the number of ranks
KNOBS = ["emulated", "paw-alltoall", "zeroing", "scalapack", "elpa", "node-aware"]


def ranks_of(partition, name):
    """Ranks of a launch in this layout on a partition; None where unknown, or where none fit."""
    cores = partition.processor.num_cores
    try:
        return layouts.geometry(name, cores, int(partition.extras.get("nodes", 1))).ranks
    except (layouts.DoesNotFit, TypeError):
        return None


def groups():
    """Every number of band groups that some launch on this system can have."""
    ranks = {ranks_of(p, name) for p in runtime().system.partitions for name in layouts.LAYOUTS}
    divisors = {n for count in ranks - {None} for n in range(1, count + 1) if count % n == 0}
    return [f"npar-{n}" for n in sorted(divisors or {1})]


class NparLaunch(Launch):
    kernel = "npar"
    case = parameter(["mini1", "mini2", "mini3", "mini4", "mini5"])
    effort = {
        "mini1": "--repeats 8 --block 2 --warmup 0",
        "mini2": "--repeats 20 --block 2 --warmup 0",
        "mini3": "--repeats 5 --block 1 --warmup 0",
        "mini4": "--repeats 4 --block 1 --warmup 0",
        "mini5": "--repeats 5 --block 1 --warmup 0",
    }


class NparCheck(KernelCheck):
    launch = fixture(NparLaunch, scope="environment")
    quick = ["mini1", "mini2"]


@rfm.simple_test
class npar(NparCheck):
    """Is each choice right, and as fast beside the best, or the base, as it should be?"""

    method = parameter([*groups(), *KNOBS])
    metrics = ["time", "idle_share"]
    asserted = ["time", "ratio_best", "ratio_base"]
    inapplicable = {"elpa": list(layouts.LAYOUTS)}  # where it was not built with ELPA

    @run_after("init")
    def choose_partitions(self):
        """A number of groups that cannot be is no test."""
        if not self.method.startswith("npar-"):
            return
        number = int(self.method.removeprefix("npar-"))
        fitting = []
        for partition in runtime().system.partitions:
            ranks = ranks_of(partition, self.layout) or 1
            exact = self.case in HYBRID
            if number == ranks if exact else ranks % number == 0:
                fitting.append(partition.fullname)
        self.valid_systems = fitting

    def _judged(self):
        """Choices of NPAR are set against the best of them, knobs against what they change."""
        other = "ratio_base" if self.method.startswith("npar-") else "ratio_best"
        return [name for name in self.asserted if name != other]


@rfm.simple_test
class npar_best(NparCheck):
    """Which choice is the fastest, and is it the one that it was?"""

    method = parameter(["best"])
    metrics = []
    asserted = ["groups"]

    @sanity_function
    def verified(self):
        result = read(self.launch, self.launch.stagedir)
        best = result.get("best", {}).get("npar")
        if best is None:
            raise SanityError("no choice of NPAR was measured")
        value = int(best.removeprefix("npar-"))
        self.measured = {"groups": {"value": value, "unit": "groups", "better": "higher"}}
        self.losses = {
            entry["method"]: entry["metrics"]["ratio_best"]["value"]
            for entry in result["results"]
            if "ratio_best" in entry["metrics"]
        }
        return True

    @run_after("performance")
    def remark_on_change(self):
        """The expected choice is the reference's value; its bounds say which others will do."""
        expected = references.of(self).get("groups")
        best = int(self.measured["groups"]["value"])
        if not expected or round(expected[0]) == best:
            return
        loss = self.losses.get(f"npar-{round(expected[0])}")
        cost = f"; that is {loss - 1:.0%} slower" if loss else ""
        self.remark = f"the best NPAR is {best}, it was {round(expected[0])}{cost}"
