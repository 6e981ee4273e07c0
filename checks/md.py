"""Molecular dynamics: how many ranks a node and threads a rank, and what communication costs."""

import reframe as rfm
from reframe.core.exceptions import SanityError

from bisection.kernels import layouts, results
from bisection.rfm.check import KernelCheck
from bisection.rfm.launch import Launch, read

CASES = ["sic", "cu3au", "fe", "test10", "test20", "test30"]
SMALL = CASES[:3]
LOOPS = ["two_body_forces_share", "metal_ld_compute_share", "tersoff_forces_share"]
NOT_KEPT = ["sic", "test10"]  # Tersoff's potential has no pair terms to keep or to compute again


class MdLaunch(Launch):
    kernel = "md"
    case = parameter(CASES)
    layout = parameter([*layouts.LAYOUTS, *layouts.TOPOLOGY_LAYOUTS], loggable=True)
    # Ten time steps a sample: long enough to have lists made anew, in seconds a launch for all.
    effort = {
        **dict.fromkeys(SMALL, "--steps 10 --repeats 6 --block 1 --warmup 0 --until 5"),
        **dict.fromkeys(CASES[3:], "--steps 5 --repeats 3 --block 1 --warmup 0 --until 3"),
    }


@rfm.simple_test
class md(KernelCheck):
    """Is each way to communicate and to compute right, and as fast as it should be?"""

    launch = fixture(MdLaunch, scope="environment")
    method = parameter(["packed", "dlpoly3", "recompute"])
    metrics = ["time", "atom_steps", "communication_share", "bytes", "bytes_per_rank", "messages"]
    asserted = ["time", "atom_steps", "ratio_packed", "ratio_cached"]
    quick = SMALL

    @run_after("init")
    def leave_out(self):
        """What cannot be is no test."""
        if self.method == "recompute" and self.case in NOT_KEPT:
            self.valid_systems = []


@rfm.simple_test
class md_layout(KernelCheck):
    """What does a hybrid layout gain or lose against one rank a core, on the same cores?"""

    pure = fixture(MdLaunch, scope="environment", variants={"layout": lambda name: name == "mpi"})
    launch = fixture(MdLaunch, scope="environment", variants={"layout": lambda name: name != "mpi"})
    method = parameter(["packed"])
    metrics = []
    asserted = ["ratio_mpi", "ratio_loops"]
    quick = SMALL

    @run_after("init")
    def pair_up(self):
        """Both launches are of one case."""
        fixtures = type(self).get_variant_info(self.variant_num, recurse=True)["fixtures"]
        if fixtures["pure"]["params"]["case"] != self.case:
            self.valid_systems = []

    @sanity_function
    def compared(self):
        if self.launch.shape == self.pure.shape:
            self.not_applicable = f"layout {self.layout} is mpi here: {self.geometry}"
            self.skip(self.not_applicable)
        hybrid, pure = (read(launch, launch.stagedir) for launch in (self.launch, self.pure))
        mine, theirs = (
            results.metrics(results.of_method(result, self.method)) for result in (hybrid, pure)
        )
        needed = ["time", "bytes", "bytes_per_rank", "messages", *LOOPS]
        missing = [name for name in needed if name not in mine or name not in theirs]
        if missing:
            raise SanityError(f"metric missing from {self.method}: {', '.join(missing)}")
        ratio = mine["time"]["value"] / theirs["time"]["value"]
        ratios = {"ratio_mpi": ratio, "ratio_loops": ratio * loops(mine) / loops(theirs)}
        self.measured = {
            name: {"value": value, "unit": "ratio", "better": "lower"}
            for name, value in ratios.items()
        }
        wrong = signs(hybrid, pure, mine, theirs)
        if wrong:
            raise SanityError("; ".join(wrong))
        if ratio < 0.98:
            cores = self.launch.shape.ranks * self.launch.shape.threads
            self.remark = (
                f"{self.layout} is {1 / ratio - 1:.0%} faster than one rank a core on {cores} cores"
            )
        return True


def loops(metrics):
    """The share of a time step that its loops over pairs take."""
    return sum(metrics[name]["value"] for name in LOOPS)


def signs(hybrid, pure, mine, theirs):
    """What contradicts finding D05 of the 2010 study, by counts; empty if nothing.

    Fewer ranks send less together, in fewer messages. Each sends more, where ranks have neighbours
    in all three directions: a rank that is its own neighbour sends nothing that way.
    """
    wrong = []
    for name, what in (("bytes", "bytes"), ("messages", "messages")):
        if not mine[name]["value"] < theirs[name]["value"]:
            wrong.append(
                f"{hybrid['layout']['ranks']} ranks send {mine[name]['value']:.6g} {what} a step, "
                f"{pure['layout']['ranks']} send {theirs[name]['value']:.6g}"
            )
    divided = all(
        result["details"][f"domains_{vector}"] > 1 for result in (hybrid, pure) for vector in "abc"
    )
    each, other = (found["bytes_per_rank"]["value"] for found in (mine, theirs))
    if divided and not each > other:
        wrong.append(
            f"each of {hybrid['layout']['ranks']} ranks sends {each:.6g} bytes a step, "
            f"each of {pure['layout']['ranks']} {other:.6g}"
        )
    return wrong
