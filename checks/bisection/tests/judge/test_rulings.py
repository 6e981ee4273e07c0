"""Verdicts on runs, from ReFrame's report and log."""

from dataclasses import replace

import pytest
from results_made import entry, launched, outlier, report, result_of

from bisection.analysis.model import Change, Comparison
from bisection.analysis.retest_plan import Plan
from bisection.core.reasons.base import clause
from bisection.core.reasons.launches import Timeout
from bisection.core.reasons.machines import AdapterErrors, TcpLosses
from bisection.core.reasons.performance import FactChanged
from bisection.judge import decision, rule
from bisection.judge.evidence import DisturbedRerun, Evidence, Retest
from bisection.judge.launch_rulings import faulty_hosts
from bisection.kernels.launch_record import LaunchRecord
from bisection.report.verdict_text import text
from bisection.runs.reframe_report import log_troubles, read
from bisection.runs.run_verdict import JudgedMetric, RunVerdict


def judge(*entries):
    return rule(read(report(*entries)))


def launch(result, record=None, **more):
    record = {"kernel": "transpose", **(record or {})}
    return entry("Launch", result, fixture=True, launch_record=record, **more)


DEPENDS = {"dependencies_actual": [["Launch", "here:all", "system"]]}


@pytest.mark.parametrize(
    ("entries", "code"),
    [
        ([entry()], 0),
        ([entry(result="xfail")], 0),
        ([entry(), entry(result="fail", fail_phase="performance")], 1),
        ([entry(), entry(result="fail", fail_phase="sanity")], 1),
        ([entry(), entry(result="fail", fail_phase="setup")], 3),
        ([entry(), entry(result="xpass")], 1),
        ([entry(), entry(result="abort")], 3),
        ([entry(), entry(result=None)], 3),
        ([entry(), entry(result="skip")], 3),
        ([entry(perfvalues={})], 3),
        ([entry(), launch("skip", not_applicable="x"), entry(result="skip", **DEPENDS)], 0),
        ([launch("skip", not_applicable="x"), entry(result="skip", **DEPENDS)], 3),
        ([launch("fail", fail_phase="run"), entry(result="fail_deps", **DEPENDS)], 3),
        ([launch("fail", fail_phase="sanity"), entry(result="fail_deps", **DEPENDS)], 1),
        ([launch("pass", {"wrong": ["shm"]}), entry(**DEPENDS)], 1),
        ([launch("pass")], 3),
        ([], 3),
    ],
)
def test_exit_code(entries, code):
    assert decision.of_run(judge(*entries)) == code


def test_the_price_of_a_night_has_its_reruns_its_retest_and_what_was_stopped():
    run = RunVerdict([*launched(geometry="2x3x2"), *launched(case="b", geometry="2x3x2")])
    disturbed = DisturbedRerun((), run), DisturbedRerun((), None)
    night = rule(run, Evidence(disturbed=disturbed, retest=Retest(Plan({}, 0.0), run)))
    hours = 3 * 2 * 40 / 3600  # of launches
    assert night.price == pytest.approx((12 * hours, 2 * hours))
    assert text(night)[-1] == "price: 0.80 core-hours (0.13 node-hours)"
    assert not any("core-hours" in line for line in text(rule(RunVerdict([*launched()]))))
    ended = {"reason": Timeout(limit=900.0).dumps(), "fail_phase": "run"}
    stopped = judge(launch("fail", {"geometry": "2x1"}, **ended))  # by its time limit
    assert stopped.price == pytest.approx((0.5, 0.25))


def test_changes_and_faster_metrics_since_the_earlier_sessions_are_noted():
    moved = replace(outlier("moved"), outlier=False, baseline_moved=True)
    rows = [outlier("fast", after=1e-4), outlier("slow"), moved]
    changes = (Change("MPI", "4.1.4", "4.1.6"),)
    beside = Evidence(comparison=Comparison([], [], rows), nights=9, changes=changes, since=60.0)
    night = rule(RunVerdict([*launched()]), beside)
    assert night.nights == 9
    change, fast, moved = night.remarks
    assert (type(change), change.what) == (FactChanged, "MPI")
    assert "1 metric faster than in all earlier sessions, such as transpose fast" in str(fast)
    assert "1 ratio changed because the baseline did, such as transpose moved" in str(moved)
    lines = [line for line in text(night) if line.startswith("changed since 1970-01-01")]
    assert "4.1.4 -> 4.1.6" in "".join(lines)


def test_a_retry_hides_no_failure():
    """ReFrame's own exit code is of the last."""
    retried = report(entry(result="fail", fail_phase="performance"))
    retried["runs"] += report(entry())["runs"]
    assert decision.of_run(rule(read(retried))) == 1


WRONG = {"result": "fail", "fail_phase": "sanity"}
SLOW = {"perfvalues": {"here:all:ratio_serial": [2.0, 1.0, -0.5, 0.5, "ratio", "fail"]}}
SLOW |= {"result": "fail", "fail_phase": "performance"}


@pytest.mark.parametrize(
    ("share", "test", "code"),
    [
        *((share, {}, code) for share, code in ((0.0, 0), (0.3, 0), (0.31, 3), (1.0, 3))),
        *((share, SLOW, code) for share, code in ((0.0, 1), (0.1, 1), (0.2, 3), (0.6, 3))),
        (0.9, WRONG, 1),
    ],
)
@pytest.mark.parametrize("of", ["disturbed", "waited"])
def test_no_time_counts_where_others_had_the_cores(share, test, code, of):
    """A wrong answer is wrong, whoever had the cores. What is outside its limits needs more quiet:
    few samples may have taken most of the time."""
    verdict = judge(launch("pass", {of: share}), entry(**test, **DEPENDS))
    if of == "waited" and not test:
        code = 0  # medians are of the samples that were not disturbed
    assert decision.of_run(verdict) == code
    lost = LaunchRecord(**{of: share}).lost
    causes = [getattr(case.reason, "cause", case.reason) for case in verdict.lost_to_others]
    assert causes == [lost] * (code == 3)


def test_troubles_in_the_log_are_found():
    log = (
        "WARNING: redefinition of system 'localhost': already defined in '<builtin>'\n"
        "WARNING: skipping test file 'checks/x.py': name error: y\n"
        "WARNING: failed to generate report in 'x': disk I/O error\n"
        "ERROR: run session stopped: keyboard interrupt\n"
        "[==========] Finished on Fri\n"
    )
    assert [clause(trouble) for trouble in log_troubles(log)] == [
        "test file does not load: 'checks/x.py': name error: y",
        "failed to generate report in 'x': disk I/O error",
        "run session stopped: keyboard interrupt",
    ]
    assert log_troubles("[==========] Finished on Fri\n") == []


@pytest.mark.parametrize(
    ("value", "better", "used"),
    [(0.0, "lower", -0.5), (1.5, "lower", 1), (2.0, "lower", 1.5), (1.5, "higher", 0)],
)
def test_used_is_0_on_the_better_bound_and_1_on_the_worse(value, better, used):
    assert JudgedMetric("m", value, "ratio", 0.5, 1.5, "pass", better).allowance_used == used
    assert JudgedMetric("m", value, "s", None, None, "pass", better).allowance_used == 0


@pytest.mark.parametrize(("layout", "geometry"), [("mpi", "2x1"), ("node", "1x2"), ("scaling", "")])
def test_a_test_of_two_launches_has_the_record_of_its_layout(layout, geometry):
    """The launch in the layout mpi was busy, so that no ratio to it counts."""
    both = [["Launch", "here:all", "system"], ["Other", "here:all", "system"]]
    other = {**launch("pass", {"geometry": "1x2"}, layout="node"), "unique_name": "Other"}
    busy = launch("pass", {"geometry": "2x1", "disturbed": 1.0}, layout="mpi")
    verdict = judge(busy, other, entry(layout=layout, dependencies_actual=both))
    assert verdict.judged[0].record.geometry == geometry
    assert (decision.of_run(verdict), len(verdict.lost_to_others)) == (3, 1)


def test_a_verdict_of_another_version_is_refused_in_a_line(tmp_path, command_line):
    (tmp_path / "verdict.json").write_text('{"session": "a", "cases": []}')
    code, _, errors = command_line("verdict", str(tmp_path))
    line = f"no verdict in {tmp_path}: of another version of Bisection; run again"
    assert (code, errors) == (2, f"bisection verdict: error: {line}\n")


LOSSES = TcpLosses(host="n1", fraction=0.02)
ERRORS = AdapterErrors(host="n1", adapter="hsn0", errors=(("crc", 3),))


@pytest.mark.parametrize(
    ("fault", "launches", "remarks"),
    [
        (LOSSES, 1, []),  # a queue that overflowed
        (LOSSES, 2, [(2, 4)]),
        (LOSSES, 4, [(4, 4)]),
        (ERRORS, 1, [(1, 11)]),
    ],
)
def test_losses_of_a_host_are_a_fault_if_half_of_the_launches_that_show_them_do(
    fault, launches, remarks
):
    def launch(*hosts, kernel="transpose", faults=()):
        place = ("lab", "all", "system", kernel, "sic", "mpi", "")
        record = {"kernel": kernel, "hosts": hosts, "controls": {"clock": 3.0}}
        return result_of(*place, fixture=True, host_faults=faults, **record)

    faulty = (fault,)
    wide = [launch("n1", "n2", "n3", faults=faulty * (n < launches)) for n in range(4)]
    others = [launch("n1", "n2") for _ in range(6)] + [launch("n1", "n2", "n3", kernel="noise")]
    named = [*faulty_hosts([*wide, *others])]
    assert [(remark.launches, remark.of) for remark in named] == remarks
