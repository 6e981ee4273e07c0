"""NPAR: every split of the ranks into band groups and every knob of the 2010 report, in turn."""

from typing import Any

import reframe as rfm
from reframe.core.builtins import fixture, parameter, run_after, sanity_function
from reframe.core.runtime import runtime, valid_sysenv_comb

from bisection.core.reasons.base import Text
from bisection.kernels import layouts, tables
from bisection.rfm.check import KernelCheck, references_of
from bisection.rfm.launch import Launch

# Ranks and bands are few, and so are the cases: a launch is done in seconds on a few cores.
HYBRID = ["mini2"]  # NPAR is the number of ranks
SMALL = [case for case in tables.cases("npar") if case.startswith("mini")]
REPORTED = ["mini1", "mini2", "mini5"]  # the report has each change's times of these, at full size


def ranks_of(partition: Any, name: str) -> int | None:
    """Ranks of a launch in this layout on a partition; None where unknown, or where none fit."""
    cores = partition.processor.num_cores
    try:
        return layouts.geometry(name, cores, int(partition.extras.get("nodes", 1))).ranks
    except (layouts.DoesNotFit, TypeError):
        return None


def groups() -> list[str]:
    """Every number of band groups that some launch on this system can have."""
    ranks = {ranks_of(p, name) for p in runtime().system.partitions for name in layouts.LAYOUTS}
    divisors = {n for count in filter(None, ranks) for n in range(1, count + 1) if count % n == 0}
    return [f"npar-{n}" for n in sorted(divisors or {1})]


class NparLaunch(Launch):
    """The NPAR kernel, all choices and knobs in turn."""

    kernel = "npar"
    simulated_options = ["--planner estimate"]
    case = parameter(SMALL)
    usual_sampling = "--repeats 5 --block 1 --warmup 0"
    sampling = {
        "mini1": "--repeats 6 --block 2 --warmup 0",
        "mini2": "--repeats 12 --block 2 --warmup 0",
        "mini4": "--repeats 4 --block 1 --warmup 0",
    }


class NparPublished(NparLaunch):
    """Codes as published: VASP after each change of the 2010 report, in turn."""

    case = parameter(REPORTED)
    layout = parameter(["mpi"])
    methods = dict.fromkeys(REPORTED, "published")


class NparCheck(KernelCheck):
    """Base of the checks of NPAR."""

    launch = fixture(NparLaunch, scope="environment")
    tiers = {
        "quick": {"case": ["mini1", "mini2"]},
        "nightly": {"case": ["mini1", "mini2", "mini3"]},
        "interconnect": {"case": ["mini1", "mini2"], "layout": ["mpi"]},
    }


@rfm.simple_test
class npar(NparCheck):
    """Is each choice right, and as fast beside the best, or the base, as it should be?"""

    method = parameter([*groups(), *tables.methods("npar")])
    metrics = ["time", "idle_share"]
    asserted = ["time", "ratio_best", "ratio_base"]
    inapplicable = {"elpa": list(layouts.LAYOUTS)}  # where ELPA has no such grid

    @run_after("init")
    def choose_partitions(self) -> None:
        """Skips numbers of groups that do not divide the ranks."""
        if not self.method.startswith("npar-"):
            return
        number = int(self.method.removeprefix("npar-"))
        fitting = []
        for partition in valid_sysenv_comb(self.valid_systems, [], check_environs=False):
            ranks = ranks_of(partition, self.layout) or 1
            exact = self.case in HYBRID
            if number == ranks if exact else ranks % number == 0:
                fitting.append(partition.fullname)
        self.valid_systems = fitting

    def _judged(self) -> list[str]:
        """Choices of NPAR are set against the best of them, knobs against what they change."""
        other = "ratio_base" if self.method.startswith("npar-") else "ratio_best"
        return [name for name in self.asserted if name != other]


@rfm.simple_test
class npar_published(KernelCheck):
    """Does each change of the 2010 report pay here, against the original code?"""

    launch = fixture(NparPublished, scope="environment")
    method = parameter(tables.methods("npar", "published"))
    asserted = ["time", "ratio_original"]
    tiers = {"nightly": {"case": ["mini1"]}}


@rfm.simple_test
class npar_best(NparCheck):
    """Which choice is the fastest, and is it the one that it was?"""

    method = parameter(["best"])
    metrics = []
    asserted = ["groups"]

    @sanity_function
    def verified(self) -> bool:
        """True if there is a fastest choice; keeps its number of groups in `reported`."""
        result = self.launch.result
        best = result.get("best", {}).get("npar")
        if best is None:
            self.fail_for(Text("no choice of NPAR was measured"))
        value = int(best.removeprefix("npar-"))
        self.reported = {"groups": {"value": value, "unit": "groups", "better": "higher"}}
        self.losses = {
            entry["method"]: entry["metrics"]["ratio_best"]["value"]
            for entry in result["results"]
            if "ratio_best" in entry["metrics"]
        }
        return True

    @run_after("performance")
    def remark_on_change(self) -> None:
        """The reference's value is the expected choice; its bounds accept others."""
        expected = references_of(self).get("groups")
        best = int(self.reported["groups"]["value"])
        if expected and round(expected[0]) != best:
            was = round(expected[0])
            loss = self.losses.get(f"npar-{was}")
            cost = f"; that is {loss - 1:.0%} slower" if loss else ""
            self.remark = Text(f"the best NPAR is {best}, it was {was}{cost}").dumps()
