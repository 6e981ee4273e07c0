"""Launches whose cores other processes had: measured again at the end of a run, or not measured."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from made_up import with_case
from results_made import changed, launched
from running import joined

from bisection.analysis.retest_plan import disturbed
from bisection.core.reasons.base import Text
from bisection.core.reasons.launches import (
    Disturbed,
    Hang,
    OutOfBounds,
    ReframeText,
    Starved,
    Stopped,
    WrongAnswer,
)
from bisection.core.verdicts import Exit, Verdict
from bisection.judge import decision, rule
from bisection.kernels import results
from bisection.night import night as steps
from bisection.night.measure import request_of_reruns
from bisection.report import verdict_text
from bisection.runs.run_verdict import JudgedMetric, Request, RunVerdict

BUSY = "other processes use 1.5 of 2 cores (grep 1.4)"


def run_of(disturbed, verdict=Verdict.PASS, remarks=None, stopped=None, **more):
    """A run: a launch and its test for each case, of which others had a fraction of the samples."""
    cases = []
    for case, fraction in disturbed.items():
        why = (stopped or {}).get(case)
        launch, test = launched(case=case, time=1 + fraction, disturbed=fraction, stopped=why)
        remark = (remarks or {}).get(case)
        cases += [changed(launch, seconds=[10.0], remark=remark), replace(test, verdict=verdict)]
    return RunVerdict(cases, request=Request(is_local=True), **more)


@pytest.fixture
def rerun(monkeypatch):
    """rerun(run, *turns, budget=..., busy=...): what is rerun gives these runs in turn. Returns the
    verdict, and the cases of each turn."""

    def measure(run, *turns, budget=300.0, busy=None):
        asked, left = [], list(turns)

        def measured(_, request, name, limit):
            assert 0 < limit <= budget
            cases = re.findall(r"launch\.case=(\w)\b", " ".join(request.arguments))
            asked.append("".join(sorted(cases)))
            return rule(left.pop(0))

        def wait(*_):
            if busy is KeyboardInterrupt:
                raise busy
            return busy

        monkeypatch.setattr(steps, "measure_again", measured)
        monkeypatch.setattr(steps.waiting, "until_quiet", wait)
        monkeypatch.setattr(steps.time, "monotonic", lambda: 1000.0)
        night = steps.Night(run, Path("site.py"), Path("results"))
        steps.measure_disturbed(night, 1000.0 + budget)
        assert not left
        return night.verdict, asked

    return measure


@pytest.mark.parametrize(
    ("first", "turns", "budget", "asked", "disturbed", "quiet"),
    [
        # What has the cores for itself the second time counts.
        ({"a": 0.7, "b": 0.0, "c": 0.4}, [{"a": 0.1, "c": 0.0}], 300.0, "ac", [0.1, 0.0, 0.0], 2),
        # What is still disturbed is tried until nothing gets better; the better one counts.
        ({"a": 0.7, "b": 0.6}, [{"a": 0.0, "b": 0.5}, {"b": 0.9}], 300.0, "ab b", [0.0, 0.5], 1),
        # The worst come first, within the budget.
        ({"a": 0.4, "b": 0.9, "c": 0.6}, [{"b": 0.0}, {"c": 0.9}], 21.0, "b c", [0.4, 0.0, 0.6], 1),
    ],
)
def test_what_is_rerun(rerun, first, turns, budget, asked, disturbed, quiet):
    night, names = rerun(run_of(first), *map(run_of, turns), budget=budget)
    assert names == asked.split()
    assert [case.record.disturbed for case in night.judged] == disturbed
    assert [case.metrics[0].value for case in night.judged] == [1 + part for part in disturbed]
    assert decision.of_run(night) == (Exit.NOT_MEASURED if max(disturbed) > 0.3 else Exit.OK)
    launches = len({*asked} - {" "})
    (remark,) = night.remarks
    assert str(remark).endswith(f"used: {launches}; quiet in the rerun: {quiet}")


def with_ratio(mpi, node, ratio):
    """A run of two launches, of which others had these fractions of the samples, and a test of the
    ratio of their times, which may be 1.5 at most."""
    tests = []
    for layout, fraction in (("mpi", mpi), ("node", node)):
        of_layout = {"layout": layout, "disturbed": fraction}
        launch, test = (changed(part, **of_layout) for part in launched(time=1 + fraction))
        tests += [changed(launch, name=f"Launch {layout}"), test]
    metric = JudgedMetric("ratio_mpi", ratio, "ratio", 0.5, 1.5, "pass" if ratio < 1.5 else "fail")
    names = {"check": "both", "name": "both", "launches": ["Launch mpi", "Launch node"]}
    both = changed(tests[-1], **names, metrics=[metric], disturbed=max(mpi, node))
    if ratio > 1.5:
        why = OutOfBounds(metrics=[["ratio_mpi", ratio, "ratio", 0.5, 1.5]])
        both = changed(both, verdict=Verdict.FAIL, reason=why)
    return RunVerdict([*tests, both], request=Request(is_local=True))


@pytest.mark.parametrize(
    ("first", "turns", "ratio", "code"),
    [
        # Of the launch that was quiet, too: its ratio is not to a time that no longer counts.
        ((0.7, 0.0, 0.3), [(0.0, 0.0, 1.0)], 1.0, Exit.OK),
        ((0.7, 0.0, 3.0), [(0.0, 0.0, 1.0)], 1.0, Exit.OK),
        ((0.0, 0.7, 3.0), [(0.0, 0.0, 1.0)], 1.0, Exit.OK),
        ((0.0, 0.2, 3.0), [(0.0, 0.0, 1.0)], 1.0, Exit.OK),
        # Of either launch it is lost.
        ((0.7, 0.0, 1.0), [(0.0, 0.6, 1.1), (0.0, 0.5, 1.2)], 1.2, Exit.NOT_MEASURED),
        ((0.7, 0.0, 1.0), [(0.9, 0.0, 3.0)], 1.0, Exit.NOT_MEASURED),
        ((0.7, 0.0, 1.0), [(0.0, 0.2, 3.0), (0.0, 0.2, 3.0)], 3.0, Exit.NOT_MEASURED),
        ((0.7, 0.0, 1.0), [(0.0, 0.0, 3.0)], 3.0, Exit.FAILED),
    ],
)  # fmt: skip
def test_a_ratio_is_of_two_launches_that_count(rerun, first, turns, ratio, code):
    night, asked = rerun(with_ratio(*first), *(with_ratio(*turn) for turn in turns))
    assert len(asked) == len(turns)
    test = next(case for case in night.judged if case.check == "both")
    assert (test.metrics[0].value, decision.of_run(night)) == (ratio, code)
    assert test.lost_to_others == (code == Exit.NOT_MEASURED)
    again = request_of_reruns(night, [night.cases[0]]).arguments  # of the launch in the layout mpi
    assert any(argument.startswith("--name=^both") for argument in again)


def test_what_other_partitions_measured_stays(rerun):
    """ReFrame names their tests alike."""
    gpu = with_case(run_of({"a": 0.0}), 1, metrics=[JudgedMetric("time", 9.0, *"s--", "pass")])
    gpu = [replace(case, partition="gpu") for case in gpu.cases]
    night, second = (RunVerdict([*run_of({"a": n}).cases, *gpu]) for n in (0.7, 0.1))
    night, turns = rerun(night, second)
    assert len(turns) == 1
    values = {case.partition: case.metrics[0].value for case in night.judged}
    assert values == {"cpu": 1.1, "gpu": 9.0}
    assert request_of_reruns(night, [night.cases[0]]).partitions == ["lab:cpu"]


ENDED = ReframeText(text="run session stopped", ended=True)


@pytest.mark.parametrize(
    ("busy", "turns", "troubles", "remarks"),
    [
        (KeyboardInterrupt, [], [ReframeText], []),  # while it waits
        (None, [run_of({"a": 0.0}, troubles=[ENDED])], [ReframeText], ["quiet in the rerun: 1"]),
        (BUSY, [], [], [BUSY]),
    ],
)
def test_an_interrupt_or_a_machine_that_stays_busy_ends_the_reruns(
    rerun, busy, turns, troubles, remarks
):
    night, asked = rerun(run_of({"a": 0.7, "b": 0.6}), *turns, busy=busy)
    assert len(asked) == len(turns)
    assert decision.of_run(night) == Exit.NOT_MEASURED
    assert [type(reason) for reason in night.troubles] == troubles
    assert all(map(str.endswith, map(str, night.remarks), remarks))
    assert len(night.remarks) == len(remarks)


@pytest.mark.parametrize("failed", [WrongAnswer(method="shm", checks=()), Hang()])
def test_a_failure_beside_is_no_reason_to_leave_the_others(rerun, failed):
    wrong = {"verdict": Verdict.FAIL, "reason": failed}
    night, _ = rerun(with_case(run_of({"a": 0.7, "b": 0.0}), 3, **wrong), run_of({"a": 0.0}))
    assert (decision.of_run(night), len(night.lost_to_others)) == (Exit.FAILED, 0)


def test_a_sweep_over_nodes_is_not_repeated():
    night = run_of({"a": 0.7})
    asked = replace(night.request, nodes={"lab:cpu": [("n1",), ("n2",)]})
    assert disturbed(rule(replace(night, request=asked)), 300.0) == []


@pytest.mark.parametrize(
    ("remark", "says"),
    [
        (results.late({"harness": {"launch_s": 576.0, "claimed_s": 3.9}}), "148 times"),
        (Text(text="odd"), "odd"),
    ],
)
def test_a_remark_on_a_launch_is_a_note(remark, says):
    (note,) = verdict_text.notes(run_of({"a": 0.0}, remarks={"a": remark}))
    assert "transpose a mpi" in note
    assert says in note


@pytest.mark.parametrize(
    ("stopped", "when"),
    [
        ({}, "at a quieter time"),
        ({"a": Starved(ran=0.12, waited=0.8)}, "at a quieter time"),
        ({"a": Stopped(factor=50.0, ran=0.12, waited=0)}, "when nothing stops its processes"),
    ],
)
def test_a_launch_that_was_disturbed_or_stopped_is_not_measured(rerun, stopped, when):
    run = run_of({"a": 1.0, "b": 0.4}, stopped=stopped)
    night = rule(run)
    assert decision.of_run(night) == Exit.NOT_MEASURED
    right = "NOT MEASURED: all 2 answers are right; the times of 2 were disturbed"
    assert verdict_text.counted(night) == right
    beside = with_case(run, 3, verdict=Verdict.FAIL, reason=Text("verification did not pass"))
    assert verdict_text.counted(rule(beside)).endswith("of 2 checks passed, 1 failed, 1 disturbed")
    (group,) = verdict_text.failure_groups(night)
    assert (len(group.cases), len(group.causes)) == (2, 1 + len(stopped))
    assert group.rerun.endswith("--wait 30m")
    step = joined("\n".join(verdict_text.next_step(night)))
    assert step == f"next: rerun {when}: {group.rerun}"
    assert night.judged[0].reason == stopped.get("a", Disturbed(fraction=1.0))
    night, _ = rerun(run, run_of({"a": 0.0, "b": 0.0}))
    assert decision.of_run(night) == Exit.OK
