"""Launches on simulated machines: what is asked for."""

import pytest

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


def test_only_the_sizes_that_are_needed_are_swept():
    words = simulation.work("patterns", Wanted({"alltoall"}, {"time_1KiB", "time_256B"}))
    assert words[-4:] == ["--smallest", "256", "--largest", "1024"]
    assert simulation.work("md", Wanted({"dlpoly3"}, {"time"})) == simulation.WORK["md"].split()


def test_needed_launches_have_the_metrics_of_their_parts():
    wanted = observables.needed(observables.findings())
    place = ("merlin", "md", "test20", "node", 64)
    assert wanted[place].methods == {"dlpoly3"}
    assert {"time", "bytes", "messages"} <= wanted[place].metrics
