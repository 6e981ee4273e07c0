"""Scaling: what the papers found over numbers of cores, as peaks, drops, orders and crossovers.

A launch is made on each number of cores that a finding needs. The system's name is that of a
machine of reference/literature/observables.csv; a partition with the feature `scaling` takes the
findings of the machine that its extras name `as_machine`, as far as it has the cores.
"""

from functools import cache, partial

import reframe as rfm
from reframe.core.builtins import fixture, parameter, run_after, sanity_function
from reframe.core.meta import make_test
from reframe.core.runtime import runtime

from bisection.core.identity import Geometry
from bisection.core.reasons.base import Reason
from bisection.kernels.layouts import Place
from bisection.rfm.check import KernelCheck
from bisection.rfm.launch import Launch
from papers import observables
from papers.launches import HOLLOW, ONCE, Wanted, placed, work
from papers.observables import Kind, Observable, Point, Unmeasured

TIMES = "times"  # in the place of a finding: the times of all launches
QUICK = ("cnt40", "test20", "al2o3-g", "bench1")  # of each machine the first of these that it has


@cache
def machine() -> str:
    """The machine whose findings this system shows; "" if none."""
    system = runtime().system
    names = [system.name, *(part.extras.get("as_machine", "") for part in system.partitions)]
    return next((name for name in names if name in observables.machines()), "")


class ScalingLaunch(Launch):
    """A case in one layout on one number of cores."""

    layout = parameter(loggable=True)  # with the cores: mpi-64
    usual_sampling = ONCE  # elsewhere -S TransposeScaling.sampling=... takes more

    @run_after("init")
    def take_methods(self) -> None:
        """Measures what the findings need on these cores."""
        wanted = launches_of(self.kernel, self.case)[split(self.layout)]
        self.work = {self.case: " ".join(work(self.kernel, self.case, wanted))}
        self.methods = {self.case: ",".join(sorted(wanted.methods))}

    @run_after("setup")
    def lay_out(self) -> None:
        """Nodes as full as they can be: the last one may have fewer ranks."""
        layout, cores = split(self.layout)
        node = self.current_partition.processor.num_cores
        ranks, per_node, threads = placed(layout, cores, node)
        self.place(Geometry(-(-cores // (per_node * threads)), per_node, threads), ranks)
        if self.kernel in HOLLOW and self._is_simulated:
            self.env_vars["BX_HOLLOW"] = HOLLOW[self.kernel]

    def _misplaced(self, places: list[Place]) -> list[Reason]:
        """The last node may have fewer ranks: all else as elsewhere."""
        whole = self.shape.ranks == self.num_tasks
        return super()._misplaced(places) if whole else []


class ScalingCheck(KernelCheck):
    """Base: a finding of a paper over the launches of a case, compared with its printed numbers."""

    metrics = []
    tiers = {"nightly": {}}

    @run_after("init")
    def join_tiers(self) -> None:
        """One case in all its layouts."""
        self.layout = "scaling"
        self.tags |= {"upgrade", "nightly"} | ({"quick"} if self.case == quick_case() else set())
        texts = {finding.id: finding.finding for finding in observables.findings()}
        self.descr = texts.get(self.method, "Times over numbers of cores")

    @property
    def geometry(self) -> str:
        """Returns "": the launches have many."""
        return ""

    @sanity_function
    def verified(self) -> bool:
        """True if all launches are verified; keeps times, or a finding's numbers, in `reported`."""
        lookup = observables.lookup_in([launch.result for launch in self.launches], machine())
        if self.method == TIMES:
            unit, wanted = "s", {}
            for place, launch in launches_of(self.kernel, self.case).items():
                for method in sorted(launch.methods):
                    point = Point(machine(), self.kernel, self.case, *place, method)
                    name = f"time_{method}_{place[0]}-{place[1]}"
                    wanted[name] = partial(lookup, point, "time")
        else:
            parts = parts_of(self.kernel, self.case, self.method)
            unit, wanted = "ratio", {n: partial(part.value, lookup) for n, part in parts.items()}
        self.reported, missing = {}, []
        for name, value in wanted.items():
            try:
                self.reported[name] = {"value": value(), "unit": unit, "better": "lower"}
            except Unmeasured as error:
                missing.append(f"{name} ({error})")
        self.require_metrics(missing)
        return True

    def _judged(self) -> list[str]:
        """All numbers of a finding, unless a simulation is known not to show it."""
        lacking = {finding.id for finding in observables.findings() if finding.lacking}
        parts = parts_of(self.kernel, self.case, self.method) if self.method != TIMES else {}
        decisive = [name for name, part in parts.items() if part.kind != Kind.NUMBER]
        return [] if self.method in lacking else decisive


def split(layout: str) -> tuple[str, int]:
    """mpi-64 as layout and cores."""
    name, _, cores = layout.rpartition("-")
    return name, int(cores)


def belongs_to(part: Observable, kernel: str, case: str) -> bool:
    """True if the launches of a case on this machine are enough for an observable."""
    place = (machine(), kernel, case)
    return all((point.machine, point.kernel, point.case) == place for point in part.points)


@cache
def parts_of(kernel: str, case: str, finding: str) -> dict[str, Observable]:
    """The observables of a finding that are of this case alone, by the names of their metrics."""
    item = next(item for item in observables.findings() if item.id == finding)
    listed = enumerate(item.observables, 1)
    return {f"part_{n}": part for n, part in listed if belongs_to(part, kernel, case)}


def launches_of(kernel: str, case: str) -> dict[tuple[str, int], Wanted]:
    """The launches of a case on this machine, by layout and cores."""
    launches = observables.points(machine()).items()
    return {key[2:]: wanted for key, wanted in launches if key[:2] == (kernel, case)}


def quick_case() -> str:
    """The case that the tier `quick` has."""
    cases = [case for _, case, _, _ in observables.points(machine())]
    return next((case for case in QUICK if case in cases), "")


def make(kernel: str, case: str) -> None:
    """The launches of a case, and the check of each finding that they are enough for."""
    names = [TIMES, *(f.id for f in observables.findings() if parts_of(kernel, case, f.id))]
    words = "".join(word.title() for word in (kernel, *case.split("-")))
    body = {"kernel": kernel, "case": parameter([case])}
    layouts = [f"{layout}-{cores}" for layout, cores in launches_of(kernel, case)]
    body["layout"] = parameter(layouts, loggable=True)
    launch = make_test(f"{words}Scaling", (ScalingLaunch,), body, module=__name__)
    body = {"launches": fixture(launch, scope="environment", action="join"), "case": case}
    body["method"] = parameter(names, loggable=True)
    parts = (part for name in names[1:] for part in parts_of(kernel, case, name))
    body["asserted"] = list(dict.fromkeys(parts))  # by which the doctor knows them
    name = f"scaling_{kernel}_{case.replace('-', '_')}"
    rfm.simple_test(make_test(name, (ScalingCheck,), body, module=__name__))


for kernel, case in dict.fromkeys((k, c) for k, c, _, _ in observables.points(machine())):
    make(kernel, case)
