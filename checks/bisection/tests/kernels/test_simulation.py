"""Launches on simulated machines: what is asked for, and on which."""

import pytest

from bisection.core.verdicts import BisectionError
from bisection.kernels import observables, simulation
from bisection.kernels.simulation import Wanted


@pytest.mark.parametrize(
    ("layout", "cores", "node", "wanted"),
    [
        ("mpi", 12, 24, (12, 12, 1)),
        ("mpi", 45, 4, (45, 4, 1)),
        ("node", 64, 8, (8, 1, 8)),
        ("node2", 64, 8, (16, 2, 4)),
    ],
)
def test_ranks_fill_the_nodes(layout, cores, node, wanted):
    assert simulation.placed(layout, cores, node) == wanted


def test_changes_are_of_the_machines_before_them():
    assert simulation.changes(["merlin stella gap=0 fork=1e-6", "merlin latency=1"]) == {
        "merlin": "gap=0 fork=1e-6 latency=1",
        "stella": "gap=0 fork=1e-6",
    }
    assert simulation.changes(["gap=0"]).keys() == simulation.names()


@pytest.mark.parametrize("text", ["", "merlin", "cray gap=0"])
def test_changes_of_nothing_are_rejected(text):
    with pytest.raises(BisectionError, match="machines: hector-xt4"):
        simulation.changes([text])


def test_only_the_sizes_that_are_needed_are_swept():
    words = simulation.work("patterns", Wanted({"alltoall"}, {"time_1KiB", "time_256B"}))
    assert words[-4:] == ["--smallest", "256", "--largest", "1024"]
    assert simulation.work("md", Wanted({"dlpoly3"}, {"time"})) == simulation.WORK["md"].split()


def test_needed_launches_have_the_metrics_of_their_parts():
    wanted = observables.needed(observables.findings())
    place = ("merlin", "md", "test20", "node", 64)
    assert wanted[place].methods == {"dlpoly3"}
    assert {"time", "bytes", "messages"} <= wanted[place].metrics


def test_each_change_of_a_finding_is_of_known_machines():
    for finding in observables.findings():
        if finding.change:
            machines = {launch[0] for launch in observables.needed([finding])}
            assert simulation.changes([finding.change]).keys() & machines, finding
            assert finding.lacking, finding
