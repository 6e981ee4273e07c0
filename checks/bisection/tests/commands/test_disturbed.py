"""Launches whose cores other processes had: measured again at the end of a run, or not measured."""

from dataclasses import replace
from pathlib import Path

import pytest
from made_up import with_case
from results_made import result_of

from bisection.analysis.retest import disturbed, request_for
from bisection.commands import run as command
from bisection.core.reasons import Code, Reason, clause
from bisection.core.verdicts import Exit, Verdict
from bisection.judge import rule
from bisection.report import run as run_report
from bisection.runs.model import JudgedMetric, Request, RunVerdict

PLACE = ("lab", "cpu", "system")
BUSY = Code.BUSY(used=1.5, cores=2, top=[["grep", 1.4]])


def run_of(preempted, verdict=Verdict.PASS, seconds=10.0, remarks=None, **more):
    """A run: a launch and its test for each case, of which others had a fraction of the samples."""
    cases = []
    for case, fraction in preempted.items():
        shared = {"kernel": "transpose", "preempted": fraction}
        of_launch = {"fixture": True, "seconds": seconds, "name": f"launch {case}", **shared}
        of_launch |= {"verdict": Verdict.PASS, "remark": (remarks or {}).get(case)}
        metrics = [JudgedMetric("time", 1 + fraction, "s", None, None, "pass")]
        of_test = {"name": f"test {case}", "verdict": verdict, "metrics": metrics, **shared}
        cases += [
            result_of(*PLACE, "TransposeLaunch", case, "mpi", "", **of_launch),
            result_of(*PLACE, "transpose", case, "mpi", "p2p", **of_test),
        ]
    return RunVerdict(cases, request=Request(is_local=True), **more)


@pytest.fixture
def again(monkeypatch):
    """again(run, *turns, budget=..., busy=...): what is measured again gives these runs in turn;
    the verdict, and the launches of each turn."""

    def measure(run, *turns, budget=300.0, busy=None):
        asked, left = [], list(turns)

        def measured(_, request, name, limit):
            assert 0 < limit <= budget
            asked.append([word for word in request.arguments if word.startswith("--name=")])
            return rule(left.pop(0))

        def wait(*_):
            if busy is KeyboardInterrupt:
                raise busy
            return busy

        monkeypatch.setattr(command, "measure_again", measured)
        monkeypatch.setattr(command.quiet, "wait", wait)
        now = 1000.0
        monkeypatch.setattr(command.time, "monotonic", lambda: now)
        night = command.Night(run, Path("site.py"), Path("results"))
        command.measure_disturbed(night, now + budget)
        assert not left
        return night.verdict, asked

    return measure


def test_a_night_whose_times_were_all_disturbed_is_not_measured():
    night = rule(run_of({"a": 0.7, "b": 0.6}))
    assert night.exit_code == Exit.NOT_MEASURED
    first = run_report.counted(night)
    assert first.startswith("NOT MEASURED: 0 of 2 checks passed, 2 preempted, in")
    (group,) = run_report.failure_groups(night)
    assert len(group.cases) == 2
    assert group.rerun.endswith("--wait 30m")
    assert run_report.next_step(night) == [
        f"next: rerun at a quieter time: {group.rerun}",
    ]


def test_what_had_the_cores_for_itself_the_second_time_counts(again):
    night, turns = again(run_of({"a": 0.7, "b": 0.0, "c": 0.4}), run_of({"a": 0.1, "c": 0.0}))
    assert turns == [
        [
            "--name=^transpose%.*layout=mpi%launch.case=a$",
            "--name=^transpose%.*layout=mpi%launch.case=c$",
        ]
    ]
    assert night.exit_code == Exit.OK
    assert [case.metrics[0].value for case in night.judged] == [1.1, 1.0, 1.0]
    assert night.remarks == (Code.RERUN(launches=2, quiet=2),)
    assert run_report.next_step(night) == []


def test_what_is_still_disturbed_is_tried_until_nothing_gets_better(again):
    night = run_of({"a": 0.7, "b": 0.6})
    night, turns = again(night, run_of({"a": 0.0, "b": 0.5}), run_of({"b": 0.9}))
    assert [len(names) for names in turns] == [2, 1]
    assert night.exit_code == Exit.NOT_MEASURED
    kept = {case.case: case.record.preempted for case in night.judged}
    assert kept == {"a": 0.0, "b": 0.5}  # the better one
    assert night.remarks == (Code.RERUN(launches=2, quiet=1),)


def test_what_other_partitions_measured_stays(again):
    """ReFrame names their tests alike."""
    gpu = with_case(run_of({"a": 0.0}), 1, metrics=[JudgedMetric("time", 9.0, *"s--", "pass")])
    gpu = [replace(case, partition="gpu") for case in gpu.cases]
    night, second = (RunVerdict([*run_of({"a": n}).cases, *gpu]) for n in (0.7, 0.1))
    night, turns = again(night, second)
    assert len(turns) == 1
    values = {case.partition: case.metrics[0].value for case in night.judged}
    assert values == {"cpu": 1.1, "gpu": 9.0}
    assert request_for(night, [night.cases[0]]).partitions == ["lab:cpu"]


def test_an_interrupt_while_it_waits_keeps_the_verdict(again):
    night, turns = again(run_of({"a": 0.7, "b": 0.0}), busy=KeyboardInterrupt)
    assert turns == []
    assert night.exit_code == Exit.NOT_MEASURED
    assert "interrupted" in clause(night.troubles[0])
    assert [case.verdict for case in night.judged] == [Verdict.NOT_MEASURED, Verdict.PASS]


def test_an_interrupt_while_it_measures_again_ends_the_run(again):
    night = run_of({"a": 0.7, "b": 0.6})
    ended = Code.REFRAME_TEXT(text="run session stopped", ended=True)
    night, turns = again(night, run_of({"a": 0.0}, troubles=[ended]))
    assert (len(turns), night.troubles) == (1, (ended,))


def test_a_machine_that_stays_busy_is_named(again):
    night, turns = again(run_of({"a": 0.7}), busy=BUSY)
    assert (turns, night.remarks) == ([], (BUSY,))
    assert any("grep" in line for line in run_report.notes(night))


def test_the_worst_are_measured_again_within_the_budget(again):
    night = run_of({"a": 0.4, "b": 0.9, "c": 0.6})
    night, turns = again(night, run_of({"b": 0.0}), run_of({"c": 0.9}), budget=21.0)
    assert [len(names) for names in turns] == [1, 1]
    assert "case=b$" in turns[0][0]
    assert "case=c$" in turns[1][0]
    assert [case.case for case in disturbed(night, 15.0)] == []


def test_a_wrong_answer_of_the_second_time_fails(again):
    reason = Code.WRONG_ANSWER(method="p2p", checks=[Code.NOT_VERIFIED()])
    wrong = with_case(run_of({"a": 0.7}, Verdict.FAIL), 1, reason=reason)
    night, _ = again(run_of({"a": 0.7}), wrong)
    assert night.exit_code == Exit.FAILED


@pytest.mark.parametrize("failed", [Code.WRONG_ANSWER, Code.HANG])
def test_a_failure_beside_is_no_reason_to_leave_the_others(again, failed):
    wrong = {"verdict": Verdict.FAIL, "reason": Reason(failed)}
    night, _ = again(with_case(run_of({"a": 0.7, "b": 0.0}), 3, **wrong), run_of({"a": 0.0}))
    assert (night.exit_code, len(night.lost_to_others)) == (Exit.FAILED, 0)


def test_a_sweep_over_nodes_is_not_repeated():
    night = run_of({"a": 0.7})
    asked = replace(night.request, nodes={"lab:cpu": [("n1",), ("n2",)]})
    assert disturbed(rule(replace(night, request=asked)), 300.0) == []


def test_a_late_launch_is_named():
    late = Code.LAUNCH_LATE(seconds=576.0, claimed=3.9)
    (note,) = run_report.notes(run_of({"a": 0.0}, remarks={"a": late}))
    assert "transpose a mpi" in note
    assert "148 times" in note


def test_a_launch_whose_processes_were_stopped_is_not_measured(again):
    stopped = Code.STOPPED(factor=50.0, ran=0.12)
    run = run_of({"a": 1.0, "b": 0.4}, remarks={"a": stopped})
    night = rule(run)
    assert night.exit_code == Exit.NOT_MEASURED
    assert night.judged[0].reason == stopped
    (group,) = run_report.failure_groups(night)
    assert len(group.causes) == 2
    assert "when nothing stops its processes" in run_report.next_step(night)[0]
    night, _ = again(run, run_of({"a": 0.0, "b": 0.0}))
    assert night.exit_code == Exit.OK
