"""Buffers in three memories side by side, and the line about a path that is not what runs."""

from dataclasses import replace

from bisection.core.verdicts import Verdict
from bisection.report import devices
from bisection.runs.run_verdict import JudgedMetric, RunVerdict, TestResult

SECONDS = {"host": (1e-6, 1e-4), "staged": (4e-6, 8e-4), "device": (2e-6, 10e-4)}


def case(buffers, **more):
    small, large = SECONDS[buffers]
    named = {"time_8B": small, "time_1MiB": large, "time_min_8B": 1e-9}
    metrics = tuple(
        JudgedMetric(name, value, "s", "lower", None, None, Verdict.PASS)
        for name, value in named.items()
    )
    words = ("made", "gpus", "system", f"network_{buffers}", "sweep", f"gpu-{buffers}", "alltoall")
    return replace(TestResult(*words), verdict=Verdict.PASS, metrics=metrics, **more)


def run_of(*cases):
    return RunVerdict(cases=tuple(cases))


def test_times_stand_side_by_side_with_their_ratio():
    table = devices.table(devices.trios(run_of(*map(case, SECONDS))))
    assert table.head == ["test", "size", "host", "staged", "device", "device over staged"]
    test = "network sweep alltoall"
    small = [test, "8B", "1 us", "4 us", "2 us", "2.00"]
    assert table.rows == [small, [test, "1MiB", "100 us", "800 us", "1 ms", "0.80"]]


def test_a_path_that_does_not_run_is_a_line():
    (line,) = devices.slower(devices.trios(run_of(*map(case, SECONDS))))
    assert line.startswith(
        "network sweep alltoall, 1MiB: messages from device memory have 0.80 times"
    )
    assert devices.slower(devices.trios(run_of(case("staged"), case("host")))) == []


def test_nothing_is_said_of_tests_that_were_not_measured_or_have_other_layouts():
    lost = replace(case("device"), verdict=Verdict.NOT_MEASURED)
    copies = replace(case("device"), check="device_copies")
    assert devices.trios(run_of(copies)) == []
    assert {*devices.trios(run_of(lost, case("host")))[0].seconds} == {"host"}
    other = replace(case("device"), check="network", layout="mpi")
    assert devices.trios(run_of(other)) == devices.trios(None) == []


def test_congestion_is_compared_by_its_quiet_windows():
    """The time of a step is that of its windows, whatever memory the messages lie in."""
    metrics = [("time", 0.5), ("quiet", 3e-6), ("impact_incast", 1.2)]
    judged = [JudgedMetric(n, v, "s", "lower", None, None, Verdict.PASS) for n, v in metrics]
    victim = replace(case("device"), check="congestion_device", metrics=tuple(judged))
    (trio,) = devices.trios(run_of(victim))
    assert (trio.point, trio.seconds) == ("", {"device": 3e-6})
