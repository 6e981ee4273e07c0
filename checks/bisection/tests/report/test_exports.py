"""Reports for other programs."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from reports import (
    METRIC,
    PLACE,
    case,
    change_point,
    cluster,
    comparison,
    event,
    failure,
    families,
    hpcx,
    only,
    page,
    pairs,
    ran,
    row,
    slow_node,
)

from bisection.core.reasons.launches import (
    Blocked,
    Disturbed,
    KernelDied,
    NodeFail,
    OutOfMemory,
    TestFailed,
)
from bisection.core.reasons.performance import Outlier, Slower
from bisection.core.verdicts import COMPARED, Verdict
from bisection.report import exports, report_data, verdict_text
from interconnect.reasons import Part, SlowComponent, Symptom


def gauges(report):
    """Gauge, without bisection_ -> [(labels, value)]."""
    samples = families(exports.prometheus(report))
    return {name.removeprefix("bisection_"): values for name, values in samples.items()}


def suites(text):
    """Suite -> test -> tags of JUnit; what must hold of every file holds."""
    root = ET.fromstring(text)
    for name in ("tests", "failures", "errors", "skipped"):
        assert int(root.get(name)) == sum(int(suite.get(name)) for suite in root), name
    for suite in root:
        assert suite.get("tests") == str(len(suite))
        seconds = sum(float(test.get("time")) for test in suite)
        assert float(suite.get("time")) == pytest.approx(seconds, abs=0.001 * len(suite))
    return {
        suite.get("name"): {test.get("name"): [child.tag for child in test] for test in suite}
        for suite in root
    }


def test_junit_has_a_suite_per_partition_and_check_then_the_comparison():
    report = replace(cluster(), of_run=False)
    report.rows.append(row(case="few", verdict=Verdict.INCONCLUSIVE, low=None, high=None))
    text = exports.junit(report)
    tests = suites(text)
    assert tests["transpose on localhost:default system"] == {
        "transpose cnt40 mpi 2x1 shm": ["failure"],
        "transpose cnt40 mpi 2x1 padded": ["error"],
        "transpose cnt40 mpi 2x1 p2p": ["error"],
    }
    assert tests["md on cluster:n4 system"]["md sic node 4x1x16 packed"] == []
    compared = tests["comparison of transpose on localhost:default system"]
    assert compared["transpose cnt40 mpi shm"] == ["failure"]
    assert compared["transpose silicon mpi p2p"] == ["error"]
    assert "transpose few mpi shm" not in compared  # too few sessions to be judged
    assert tests["comparison of md on localhost:default system"]["md sic mpi packed"] == ["skipped"]
    assert "inconclusive: 10 ms before, 10 ms after, ratio 1.00 [0.96, 1.04]; 3 jobs only" in text


def test_junit_shares_the_time_of_a_launch_out_among_its_tests():
    launch = case(method="", name="cnt40", kernel="transpose", fixture=True, took=6.0)
    tests = [case(method=m, kernel="transpose") for m in ("a", "b", "c")]
    root = ET.fromstring(exports.junit(only(run=ran(launch, *tests), of_run=True)))
    assert [test.get("time") for test in root.iter("testcase")] == ["2.000"] * 3
    assert root.get("time") == "6.000"


def test_a_crash_counts_the_same_in_every_form():
    """The one launch of a run was killed; its ten tests follow it."""
    killed = KernelDied(kernel="transpose", exit_code=139)
    launch = failure(reason=killed, name="TransposeLaunch", method="", fixture=True)
    launch = replace(launch, name="TransposeLaunch %case=cnt40", metrics=[])
    follows = TestFailed(test=launch.name)
    tests = [failure(Verdict.NOT_MEASURED, follows, method=f"m{n}") for n in range(10)]
    run = ran(launch, *(replace(test, metrics=[]) for test in tests), seconds=3.0)
    report = only(run=run, of_run=True)
    assert verdict_text.sentence(run) == "FAIL: 0 of 10 checks passed, 10 failed, in 3 s"
    assert report_data.headline(report) == ("bad", "FAIL: 0 of 10 checks passed, 10 failed")
    root = ET.fromstring(exports.junit(report))
    assert (root.get("tests"), root.get("failures"), root.get("errors")) == ("10", "10", "0")
    counts = {labels["verdict"]: count for labels, count in gauges(report)["tests"]}
    assert (counts[Verdict.FAIL], counts[Verdict.NOT_MEASURED]) == (10, 0)
    assert exports.markdown(report).count("was killed by SIGSEGV") == 2  # its top has it, too
    (line,) = verdict_text.table(run)[2:]  # the launch is one row
    assert "(10 methods)" in line
    assert line.endswith("FAIL")


def test_every_gauge_has_its_system_and_partition():
    for report in (cluster(), only(run=ran(case()), of_run=True), hpcx()):
        samples = gauges(report)
        assert samples
        for name, values in samples.items():
            assert all(labels["system"] for labels, _ in values), name
            known = name != "bad_node" or report.run is None  # of a node it may be unknown
            assert not known or all(labels["partition"] for labels, _ in values), name
    nothing_ran = gauges(only(run=ran(), of_run=True))
    assert nothing_ran["exit_code"] == [({"system": "localhost", "partition": ""}, 3.0)]


def test_prometheus_has_times_and_what_has_limits_in_base_units():
    metrics = {"rate": (2.5, "atom-steps/s"), "volume": (8.0, "B"), "clock": (3.5, "GHz")}
    metrics |= {"exchange_share": (0.2, "share")}
    judged = case(seconds=0.25, metrics=metrics, run=1)
    time, rate, volume, clock, share = judged.metrics
    rate, clock = replace(rate, low=1.5, high=5.5), replace(clock, low=3.0, high=None)
    judged = replace(judged, metrics=[time, replace(rate, better="higher"), volume, clock, share])
    report = only(run=ran(case(seconds=0.35), judged), of_run=True)
    samples, text = gauges(report), exports.prometheus(report)
    values = {name: value for name, ((_, value), *_) in samples.items()}
    here = {name: value for name, value in values.items() if name.startswith(("meas", "allow"))}
    assert here == pytest.approx({
        "measured_seconds": 0.30,  # the median of two runs
        "measured_hertz": 3.5e9,
        "measured_atom_steps_per_second": 2.5,
        "allowance_used_ratio": 0.75,
    })  # fmt: skip
    ((labels, _),) = samples["measured_seconds"]
    assert labels == {n: v for n, v in METRIC.items() if n not in ("unit", "better")}
    for name in samples:
        assert f"# TYPE bisection_{name} gauge" in text
        assert f"# HELP bisection_{name} " in text


def test_prometheus_has_no_value_that_was_not_measured():
    disturbed = replace(
        case(seconds=0.35), verdict=Verdict.NOT_MEASURED, reason=Disturbed(fraction=0.5)
    )
    assert "measured_seconds" not in gauges(only(run=ran(disturbed), of_run=True))


def test_prometheus_of_a_comparison():
    samples = gauges(cluster())
    here = [(x["verdict"], n) for x, n in samples["metrics"] if x["system"] == "localhost"]
    assert dict(here) == {**dict.fromkeys(COMPARED, 1.0), Verdict.REGRESSED: 2.0}
    ratios = {labels["method"]: value for labels, value in samples["change_ratio"]}
    assert ratios["shm"] == pytest.approx(1.42)
    assert len(ratios) == 3  # of what did not change there is none


def test_alarms_and_what_is_slower_have_gauges():
    """An event is an alarm by what got worse and stands, until it is accepted."""
    points = [change_point(1.3), change_point(1.2, method="p2p"), change_point(1.5, check="md")]
    better = event(change_point(0.8, method="padded", verdict=Verdict.IMPROVED))
    moved = {key: value for key, value in METRIC.items() if key != "better"}
    moved |= {"metric": "time", "unit": "s", "before": 1.0, "after": 2.0}
    moved |= {"factor": 2.0, "sessions": 9}
    outlier = Outlier(**moved | {"check": "md"}, why="off", seconds=1.0, budget=0.0)
    run = ran(case(), slower=(Slower(**moved),) * 2, outliers=(outlier,))
    samples = gauges(only(run=run, events=[event(*points), better], of_run=True))
    about = {**PLACE, "session": "feedbeef"}
    of_checks = [({**about, "check": check}, n) for check, n in (("transpose", 2.0), ("md", 1.0))]
    assert samples["alarm_metrics"] == of_checks
    assert [value for _, value in samples["alarms"]] == [1.0]
    assert samples["alarm_start_timestamp_seconds"] == [(about, points[0].at)]
    counts = {labels["state"]: value for labels, value in samples["slower_metrics"]}
    assert counts == {"confirmed": 2.0, "outlier": 1.0}
    alarm = only(events=[event(*points), better])
    assert [(labels["partition"], n) for labels, n in gauges(alarm)["alarms"]] == [("default", 1.0)]
    for text in (exports.junit(alarm), exports.markdown(alarm), page(alarm).text):
        assert text.count("history --accept feedbeef") == 1  # and all other steps
    accepted = event(*points, accepted="new disks")
    samples = gauges(only(run=ran(case()), events=[accepted], of_run=True))
    assert "alarm_metrics" not in samples
    assert [value for _, value in samples["alarms"]] == [0.0]
    assert {value for _, value in samples["slower_metrics"]} == {0.0}


def test_nodes_for_a_health_check():
    (line,) = exports.nodecheck(cluster()).splitlines()
    # cn016 ran the failed case as well, but nothing names it
    start = "cn017 bisection: 12 jobs on it took 44% longer than the others, in cluster:cpu"
    assert line.startswith(start)
    assert "bandwidth sends x0." in line
    assert "MPI_ABORT: rank 3 on cn017 aborted" in line
    assert exports.nodecheck(only()) == ""


DOWN = "down or drained, so that a job was not started: "
TWO = "cn[1-2]"


@pytest.mark.parametrize(
    ("reason", "named"),
    [
        (NodeFail(job="7", nodes=TWO), {"cn1.lab.org": "", "cn2": ""}),  # wrote no result
        (NodeFail(job="7", nodes=TWO, down=[["cn2", "dead"]]), {"cn2": ""}),
        (OutOfMemory(job="7", nodes="cn1"), {"cn1.lab.org": ""}),
        (OutOfMemory(job="7", nodes=TWO), {}),  # either
        (
            Blocked(refused="not available", down=[["cn7", "bad DIMM"], ["cn8", "none"]]),
            {"cn7": f"{DOWN}bad DIMM", "cn8": f"{DOWN}no reason is given"},
        ),
    ],
)
def test_nodes_that_slurm_names(reason, named):
    lost = failure(Verdict.NOT_MEASURED, reason, hosts=["cn1.lab.org"])
    lines = exports.nodecheck(only(run=ran(lost))).splitlines()
    words = dict(line.split(" bisection: ") for line in lines)
    assert [*words] == [*named]
    assert all(words[node].endswith(why) for node, why in named.items())


@pytest.mark.parametrize("part", Part)
def test_of_bad_components_only_a_node_is_accused(part):
    names = ("cn1", "cn2") if part == Part.PATH else ("cn1",)
    symptoms = (Symptom("bandwidth", "sends", 0.6, 20.0, 8, 0.61),)
    judged = pairs(8)
    bad = SlowComponent(part=part, names=names, symptoms=symptoms)
    judged.bad, judged.suspects = [bad], [replace(bad, names=("cn7",), confirmed=False)]
    line = "cn1 bisection: bandwidth sends x0.60, rerun: x0.61 in 8 pairs\n"
    assert exports.nodecheck(only(blames=[judged])) == line * (part == Part.NODE)


def test_what_is_no_node_name_and_what_a_shell_would_take_is_left_out():
    suspects = [slow_node("cn1; reboot"), slow_node("cn2", where='a "b" `c` $(d)\ne')]
    report = only(comparison=comparison([], suspects=suspects))
    assert exports.nodecheck(report) == (
        "cn2 bisection: 1 job on it took 100% longer than the others, in a b c (d) e\n"
    )
