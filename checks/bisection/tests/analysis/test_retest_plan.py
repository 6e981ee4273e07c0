"""What is measured again, and what follows from it."""

import itertools
import json
from dataclasses import replace
from itertools import chain

import pytest
from made_up import with_case
from results_made import SLOW_MEMORY, changed, launched, noise_run, outlier, outside

from bisection.analysis.model import ChangePoint, Event
from bisection.analysis.retest_plan import plan
from bisection.core.format import plural
from bisection.core.identity import IDENTITY
from bisection.core.reasons.base import Text, clause
from bisection.core.reasons.launches import ReframeText, Timeout
from bisection.core.reasons.machines import Throttled
from bisection.core.verdicts import BisectionError, Exit, Verdict
from bisection.judge import decision, rule
from bisection.judge.evidence import Evidence, Retest
from bisection.judge.retest import Rerun
from bisection.night import night as steps
from bisection.night.measure import request_of_retest
from bisection.report.exports import nodecheck
from bisection.report.report_data import Report
from bisection.report.verdict_text import counted
from bisection.runs.run_verdict import Request, RunVerdict
from bisection.store.selection import SLOWER


def run(times, disturbed=0.0, **more):
    """A run: a launch of the kernel `transpose` for each case, with p2p's time."""
    launches = [launched(case=case, time=t, disturbed=disturbed) for case, t in times.items()]
    return RunVerdict([*chain(*launches)], **more)


def after(verdict, agenda, again=None, each=2):
    """The verdict after a retest with `each` of these launches."""
    again = again and rule(RunVerdict([*again.cases] * each))
    return rule(verdict, Evidence(retest=Retest(agenda, again)))


TIMES = {"a": 9e-3, "b": 3e-3, "c": 2e-3}
ROWS = [outlier(case, time) for case, time in TIMES.items()]


@pytest.mark.parametrize(
    ("budget", "chosen"),
    [(0, []), (89, []), (90, ["a"]), (180, ["a", "b"]), (900, ["a", "b", "c"])],
)
def test_the_worst_launches_come_first(budget, chosen):
    agenda = plan(ROWS, run(TIMES), budget)
    assert [case for _, case, *_ in agenda.chosen] == chosen
    assert agenda.seconds == 10 + 2 * 40 * len(chosen)


ENDED = ReframeText(text="run session stopped", ended=True)


def unusual(**errors):
    """Metrics of these cases that may have got worse: case=standard errors."""
    like = {"session": "", "at": 0.0, "ratio": 1.1, "before": 20, "after": 2}
    names = (*IDENTITY, "metric", "unit", "better")
    rows = {errors[case]: outlier(case) for case in errors}
    return [
        ChangePoint(*(getattr(row, name) for name in names), **like, errors=e)
        for e, row in rows.items()
    ]


def with_unusual(**errors):
    """Evidence by a history that has these metrics."""
    event = Event("lab", "cpu", "system", "", 0.0, 0.0, 0.0, {}, (), (), points=unusual(**errors))
    return {"events": (event,)}


def test_what_may_have_got_worse_is_repeated_as_often_as_the_budget_allows():
    suspects = unusual(b=3.5, a=2.5)
    for budget, chosen, turns in ((89, "", 2), (90, "b", 2), (140, "b", 3), (900, "ba", 4)):
        agenda = plan([], run(TIMES), budget, suspects)
        assert ("".join(case for _, case, *_ in agenda.chosen), agenda.repeats) == (chosen, turns)
        assert agenda.seconds <= budget or not chosen
    assert [case for _, case, *_ in plan(ROWS[:1], run(TIMES), 900, suspects).chosen] == ["a", "b"]
    assert request_of_retest(agenda, run(TIMES)).reruns == 3


ERRORS = "standard errors: transpose a mpi p2p time 2.5 -> 4.2"


@pytest.mark.parametrize(
    ("again", "now", "repeats", "says"),
    [
        ({}, {}, 2, "0 alarms, 2 as usual, 0 open"),
        ({}, {"a": 4.25}, 2, f"0 alarms, 1 as usual, 1 open ({ERRORS})"),
        # c is the control.
        ({"c": 2.4e-3}, {"a": 2.5}, 2, "the history does not use them"),
        ({"b": None}, {}, 1, "0 alarms, 2 as usual, 0 open"),
        ({"a": None, "b": None}, {"a": 2.5}, 0, "nothing was measured"),
    ],
)
def test_what_repeats_showed_is_noted(again, now, repeats, says):
    verdict, agenda = run(TIMES), plan([], run(TIMES), 900, unusual(b=3.5, a=2.5))
    times = {case: time for case, time in (TIMES | again).items() if time}
    retest = Retest(agenda, rule(run(times, seconds=61.0)))
    verdict = rule(verdict, Evidence(retest=retest, **with_unusual(**now)))
    remark = clause(verdict.remarks[0])
    assert f"2 metrics may have got worse lately; {plural(repeats, 'repeat')} of 2" in remark
    assert remark.endswith(says)
    assert decision.of_run(verdict) == Exit.OK


def test_until_the_retest_has_ended_nothing_passes(home, monkeypatch):
    on_disk = []

    def measure(*_):
        on_disk.append(json.loads((home / "verdict.json").read_text())["exit_code"])
        raise BisectionError("ReFrame cannot start")

    monkeypatch.setattr(steps, "measure", measure)
    night = steps.Night(run(TIMES), home, home, Evidence(**with_unusual(a=2.5)))
    assert decision.of_run(night.verdict) == Exit.OK
    steps.retest(night, 900.0, [], None)
    assert [*on_disk, decision.of_run(night.verdict)] == [Exit.NOT_MEASURED] * 2


@pytest.mark.parametrize(
    ("takes", "code"), [(5.0, Exit.NOT_MEASURED), (901.0, Exit.OK)], ids=["person", "limit"]
)
def test_a_retest_that_a_person_ended_is_a_trouble(tmp_path, monkeypatch, takes, code):
    monkeypatch.setattr(steps, "measure_again", lambda *_: run(TIMES, troubles=[ENDED]))
    monkeypatch.setattr(steps.time, "monotonic", itertools.count(step=takes).__next__)
    night = steps.Night(run(TIMES), tmp_path, tmp_path, Evidence(**with_unusual(a=2.5)))
    steps.retest(night, 900.0, [], None)
    assert decision.of_run(night.verdict) == code


def test_what_is_outside_its_bounds_is_measured_again_first():
    verdict = outside()
    agenda = plan(ROWS[1:2], verdict, 900)
    assert [case for _, case, *_ in agenda.chosen] == ["a", "b"]
    names = ["--name=/abc", "--name=^transpose%.*layout=mpi%launch.case=b(%|$)"]
    assert request_of_retest(agenda, verdict).arguments == names
    assert [case for _, case, *_ in plan(ROWS[1:2], verdict, 90).chosen] == ["a"]


@pytest.mark.parametrize(
    ("rows", "verdict"),
    [
        (ROWS, run(TIMES, failures=[Text(text="wrong")])),
        (ROWS, run(TIMES, troubles=[ENDED])),  # stopped
        *(
            ([], with_case(outside(), 3, verdict=Verdict.FAIL, reason=reason))
            for reason in (Text("verification did not pass"), Timeout())
        ),
    ],
)
def test_a_failed_or_stopped_run_is_not_retested(rows, verdict):
    assert plan(rows, verdict, 900).chosen == []


def turns(*values, hosts=(), **more):
    """A retest of outside(): p2p's ratio in each turn."""
    cases = [
        changed(case, run=turn, hosts=hosts[turn] if hosts else ["n1"])
        for turn, value in enumerate(values)
        for case in outside(value, **more).cases
    ]
    return RunVerdict(cases)


OTHERS, BOUND = [["n1", "n2"], ["n3", "n4"]], ", in the retest 1.12"


@pytest.mark.parametrize(
    ("again", "fails", "says"),
    [
        (turns(1.4, 1.5), True, ", in the retest 1.45"),
        (turns(1.4, 1.1), True, ", in the retest 1.24"),
        (turns(1.4), True, ", in the retest 1.40"),
        (RunVerdict(), True, ""),
        (None, True, ""),
        (turns(1.0, 1.1), False, ", in the retest 1.05; it did not repeat"),
        (turns(1.25, 1.1), False, ", in the retest 1.17; it did not repeat"),
        (turns(1.1, 1.25), False, ", in the retest 1.17; it did not repeat"),
        # It is bound to the nodes of the run.
        (turns(1.4, 0.9, hosts=OTHERS), True, f"{BOUND}; on n1, n2, and not on others"),
        (turns(*2 * [1.4, 0.9], hosts=2 * OTHERS), True, f"{BOUND}; on n1, n2, and not on others"),
        (turns(0.9, 1.4, hosts=OTHERS), False, f"{BOUND}; it did not repeat"),
    ],
)
def test_what_is_outside_its_bounds_passes_only_if_the_retest_is_within(again, fails, says):
    verdict = outside()
    verdict = after(verdict, plan([], verdict, 900), again)
    assert decision.of_run(verdict) == (Exit.FAILED if fails else Exit.OK)
    test = verdict.cases[1]
    assert (test.reason is not None) == fails
    said = clause(test.reason if fails else test.remark)
    assert said == f"ratio is 1.30, allowed is 0.50..1.20{says}"


@pytest.mark.parametrize("lost", [{"disturbed": 0.5}, {"disturbed": 0.2}, {"waited": 0.2}])
@pytest.mark.parametrize("value", [1.3, 1.1])
def test_a_disturbed_retest_confirms_nothing(lost, value):
    verdict, retest = outside(), outside(value, **lost)
    if value < 1.2:
        passed = {"verdict": Verdict.PASS, "reason": None, "metrics": []}
        retest = with_case(retest, 1, **passed)
    verdict = after(verdict, plan([], verdict, 900), retest)
    assert (decision.of_run(verdict), len(verdict.lost_to_others)) == (Exit.NOT_MEASURED, 1)
    outside_bounds = "ratio is 1.30, allowed is 0.50..1.20"
    said = clause(verdict.cases[1].reason)
    assert said.startswith(f"{outside_bounds}: not confirmed, as other processes")


@pytest.mark.parametrize(("quiet", "code"), [(1.4, Exit.FAILED), (1.0, Exit.OK)])
def test_of_a_retest_the_undisturbed_launches_count(quiet, code):
    verdict, busy = outside(), turns(1.4, disturbed=0.2)
    retest = RunVerdict([*busy.cases, *(replace(c, run=1) for c in turns(quiet).cases)])
    assert decision.of_run(after(verdict, plan([], verdict, 900), retest)) == code


@pytest.mark.parametrize(
    ("again", "fails"),
    [((1.4, 1.5), True), ((1.1, 1.5), False), ((1.3,), False), ((0.6, 1.21, 1.21), False)],
)
@pytest.mark.parametrize("of", ["outliers", "unusual", "control"])
def test_what_was_within_its_bounds_fails_if_launches_of_the_retest_are_outside(of, again, fails):
    verdict = RunVerdict([*launched(), *launched(case="b")])
    rows = [outlier("b" if of == "control" else "a", 1e-3)] if of != "unusual" else []
    agenda = plan(rows, verdict, 900, unusual(a=3.5) if of == "unusual" else ())
    verdict = after(verdict, agenda, turns(*again), each=1)
    assert (decision.of_run(verdict) == Exit.FAILED) is fails
    said = ["in the retest, transpose a mpi p2p: ratio is 1.45, allowed is 0.50..1.20"]
    assert list(map(clause, verdict.failures)) == said * fails


def test_a_control_is_measured_between_and_times_are_taken_by_it():
    first = run({"a": 1.5e-3, "c": 1e-3})
    agenda = plan([outlier("a", 1.5e-3)], first, 900)
    assert agenda.control[1] == "c"
    assert agenda.seconds == 10 + 2 * 80
    assert plan([outlier("a", 1.5e-3)], first, 169).control is None
    name = "--name=^transpose%.*layout=mpi%launch.case=c(%|$)"
    assert name in request_of_retest(agenda, first).arguments
    # Everything is slower now: not a as before.
    alike = after(first, agenda, run({"a": 1.5e-3, "c": 1.5e-3}))
    assert (alike.slower, decision.of_run(alike)) == ((), Exit.OK)
    remark, of_control = map(str, alike.remarks)
    assert remark.endswith("did not repeat")
    slower = "the control transpose c mpi was 1.50x slower during the retest"
    assert of_control == f"{slower}; retest times are divided by 1.50"
    assert len(after(first, agenda, run({"a": 2.5e-3, "c": 1.5e-3})).slower) == 1


def test_the_second_turn_is_on_other_nodes_where_there_are():
    asked = Request(nodes={"lab:cpu": [("n1", "n2"), ("n5", "n6")], "lab:gpu": [("g1",)]})
    verdict = run(TIMES, request=asked)
    again = request_of_retest(plan(ROWS, verdict, 900), verdict, {"lab:cpu": ("n3", "n4")})
    assert again.nodes == {"lab:cpu": [("n1", "n2"), ("n3", "n4")], "lab:gpu": [("g1",)]}
    assert again.reruns == 1


def test_what_reframe_is_asked_for():
    """For a launch whose control is slow, the tests of the launch."""
    asked = Request("quick", arguments=["-n", "x", "--reruns=3", "--reruns", "2", "-S", "a=b"])
    name = "--name=^transpose%.*layout=mpi%launch.case=a(%|$)"
    verdict = run(TIMES, request=asked)
    again = request_of_retest(plan(ROWS, verdict, 90), verdict)
    assert (again.tier, again.arguments) == ("quick", ["-S", "a=b", name])
    verdict = RunVerdict([changed(case, kernel="patterns") for case in run(TIMES).cases])
    agenda = plan([outlier("a", 9e-3, "serial", "patterns")], verdict, 900)
    assert request_of_retest(agenda, verdict).arguments[0] == name


@pytest.mark.parametrize(
    ("again", "name", "code"),
    [
        (run({"a": 1.3e-3}), "slower", Exit.SLOWER),
        (run({"a": 1.1e-3}), "remarks", Exit.OK),
        (RunVerdict([*run({"a": 1.7e-3}).cases, *run({"a": 1e-3}).cases]), "remarks", Exit.OK),
        (run({"a": 8e-3}, disturbed=0.5), "outliers", Exit.NOT_MEASURED),
        (run({"a": 8e-3}, disturbed=0.2), "outliers", Exit.NOT_MEASURED),
        (RunVerdict(), "outliers", Exit.NOT_MEASURED),
        (None, "outliers", Exit.NOT_MEASURED),
    ],
)
def test_what_the_retest_says(again, name, code):
    verdict = run(TIMES)
    verdict = after(verdict, plan(ROWS[:1], verdict, 900), again)
    counts = {each: len(getattr(verdict, each)) for each in ("slower", "outliers", "remarks")}
    assert counts == {**dict.fromkeys(counts, 0), name: 1}
    assert decision.of_run(verdict) == code
    tag = {"slower": "confirmed", "outliers": "outlier"}.get(name)
    assert verdict.tags.get(SLOWER) == tag


@pytest.mark.parametrize(("sure", "code"), [(True, Exit.NOT_MEASURED), (False, Exit.OK)])
@pytest.mark.parametrize(("budget", "again"), [(0, None), (900, run({"a": 1.3e-3}))])
def test_one_launch_confirms_nothing_and_is_no_doubt_by_itself(budget, again, sure, code):
    verdict, row = run(TIMES), outlier("a", 9e-3)
    agenda = plan([replace(row, outlier=sure, again=True)], verdict, budget)
    assert decision.of_run(after(verdict, agenda, again, each=1)) == code


@pytest.mark.parametrize(("values", "nodes"), [((1.3, 1.0), None), ((1.3, 1.0) * 2, ["n1"])])
def test_a_node_is_slow_alone_by_two_launches_on_it(values, nodes):
    rerun = Rerun([*values], [("n1",), ("n3",)] * (len(values) // 2))
    assert rerun.outside(0, 1.2, mostly=True) == nodes


@pytest.mark.parametrize(("again", "slower"), [(4, 4), (2, 2), (1, 0)])
def test_what_a_launch_shares_counts_where_half_of_it_repeats(again, slower):
    """Four times are beyond their own limit, and all beyond what the launch shares."""
    methods = [f"m{number}" for number in range(4)]
    shared = {"shared": 4, "shared_limit": 1.1e-3}
    rows = [replace(outlier("a", 1.3e-3, method), **shared) for method in methods]
    verdict, (launch, slow), (_, well) = run(TIMES), *(run({"a": t}).cases for t in (1.15e-3, 1e-3))
    tests = zip([*[slow] * again, *[well] * (4 - again)], methods, strict=True)
    second = RunVerdict([launch, *(replace(test, method=method) for test, method in tests)])
    assert len(after(verdict, plan(rows, verdict, 900), second).slower) == slower


def test_a_rate_is_slower_where_it_is_lower():
    rate = outlier("a", 1e-4, better="higher", limit=9e-4)
    verdict = run({"a": 1e-4})
    agenda = plan([rate], verdict, 900)
    (slower,) = after(verdict, agenda, run({"a": 2e-4})).slower
    assert slower.factor == pytest.approx(10)
    assert not after(verdict, agenda, run({"a": 1e-3})).slower


def test_what_does_not_fit_the_budget_stays_suspect_beside_what_is_sure():
    agenda = plan(ROWS, run(TIMES), 100)
    verdict = after(run(TIMES), agenda, run({"a": 9e-3}))
    assert [reason.case for reason in verdict.slower] == ["a"]
    assert [reason.case for reason in verdict.outliers] == ["b", "c"]
    assert decision.of_run(verdict) == Exit.SLOWER
    assert decision.of_run(after(run(TIMES), agenda, run({"a": 1e-3}))) == Exit.NOT_MEASURED


SLOW = noise_run(SLOW_MEMORY)


@pytest.mark.parametrize(
    ("again", "code", "says"),
    [
        ([SLOW], Exit.SLOWER, "; 1 slow node: n2"),
        ([SLOW, SLOW], Exit.SLOWER, "; 1 slow node: n2"),
        ([SLOW, noise_run(hosts=["n1", "n3"])], Exit.SLOWER, "; 1 slow node: n2"),  # other nodes
        ([noise_run()], Exit.OK, ""),
        ([SLOW, noise_run()], Exit.OK, ""),
        ([], Exit.NOT_MEASURED, "; 1 node suspected to be slow: n2"),
    ],
)
def test_a_node_is_slow_if_it_is_so_again(again, code, says):
    first = rule(SLOW)
    agenda = plan([], first, 900.0 if again else 0.0)
    assert [launch[0] for launch in agenda.chosen] == ["noise"] * bool(again)
    asked = request_of_retest(agenda, first).arguments
    assert sum("noise" in argument for argument in asked) == bool(again)
    second = RunVerdict(cases=[case for repeat in again for case in repeat.cases])
    verdict = after(SLOW, agenda, second if again else None)
    assert decision.of_run(verdict) == code
    assert says in counted(verdict)
    assert ("slow" in counted(verdict)) == bool(says)
    named = nodecheck(Report("lab", 0.0, run=verdict, of_run=True))
    assert bool(named) == (code == Exit.SLOWER)
    assert not named or named.startswith("n2 bisection: n2 is slow: 1 core copied 9 GB/s of memory")


def test_a_machine_of_one_node_has_no_slow_one():
    verdict = rule(noise_run(SLOW_MEMORY, SLOW_MEMORY, hosts=["n2"]))
    assert (verdict.slow_nodes, verdict.suspect_nodes) == ((), ())
    assert decision.of_run(verdict) == Exit.OK


def test_a_machine_of_one_node_may_lose_its_rate():
    fault = Throttled(host="n2", kept=(("dgemm", 0.7),), clock=(2.6, 1.8))
    first = RunVerdict([*launched("burn", "burn", "node", faults=(fault,), hosts=["n2"])])
    assert [reason.host for reason in rule(first).suspect_nodes] == ["n2"]
    agenda = plan([], rule(first), 900.0)
    assert [launch[0] for launch in agenda.chosen] == ["burn"]
    assert decision.of_run(after(first, agenda, first)) == Exit.SLOWER
