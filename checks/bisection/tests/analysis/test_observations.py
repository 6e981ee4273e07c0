"""What is in the way of numbers, and is no verdict on them."""

import math
import re
from dataclasses import replace

import pytest
from made_up import case, jobs, nights, row, series, sessions, times
from reports import slow_node

from bisection.core.reasons.base import Text
from bisection.core.reasons.launches import LeftOut
from bisection.core.verdicts import COMPARED, Against, Verdict
from bisection.judge import decision
from bisection.report.comparison_text import comparison_text
from bisection.report.words import sentence, why


@pytest.mark.parametrize("kept", [["kept"], []])
def test_vanished_cases_are_all_counted(compared, kept):
    before = nights({f"m{i}": [1e-3] for i in range(1000)})
    after = sessions(9, [[case(name, {"time": 1e-3}) for name in kept]])
    result = compared(before, after)
    assert (result.count(Verdict.MISSING), decision.of_comparison(result)) == (1000, 3)
    assert len(comparison_text(result)) < 60
    assert "1000 missing" in sentence(result)


FALSE = Text("wrong answer of p2p: transform").as_dict()
BANDS = [{"work": {"transpose": {"cnt40": f"--bands {number}"}}} for number in (2, 4)]


@pytest.mark.parametrize(
    ("after", "says"),
    [
        *((series([v] * 20, 50), "") for v in (None, math.nan, math.inf, -1.0, 0.0)),
        (series([1.0] * 20, 50, unit="ms"), "not to be compared, by its unit: ms, s"),
        (series([1.0] * 20, 50, geometry="4x1"), "not to be compared, by its geometry: 2x1, 4x1"),
        (
            nights({"p2p": [1.0] * 20}, 50, **BANDS[1]),
            "not to be compared, by its work: --bands 2, --bands 4",
        ),
        (series([5e-3] * 20, 50, disturbed=0.8), "used the cores in 80% of the samples"),
        (sessions(50, [[case(verdict="FAIL", reason=FALSE)]]), "wrong answer of p2p: transform"),
        (sessions(50, [[case(metrics={"rate": [1.0, "B/s", "higher"]})]]), "no number"),
    ],
)
def test_what_is_not_measured_and_why(rng, compared, after, says):
    result = compared(nights({"p2p": times(rng)}, **BANDS[0]), after)
    assert (row(result).verdict, decision.of_comparison(result)) == (Verdict.NOT_MEASURED, 3)
    assert says in why(row(result))
    if "cores" in says:
        assert "1 not measured, as other processes used the cores" in sentence(result)


@pytest.mark.parametrize(
    ("odd", "now", "slower"),
    [
        (1, "2x1", 1.0),  # a quota, for a night
        (1, "2x1", 1.5),
        (6, "2x1", 1.0),
        (7, "2x1", None),
        (0, "1x1", None),
        (1, "1x1", None),  # it is still there
        (5, "1x1", None),
        (6, "1x1", 1.0),  # that is usual now
    ],
)
def test_a_night_is_set_beside_those_that_ran_on_its_ranks_if_they_are_half_of_all(
    compared, odd, now, slower
):
    """Of twelve; else a night on fewer ranks would leave all that follow without a comparison."""
    shapes = ["2x1"] * (12 - odd) + ["1x1"] * odd
    cost = {"2x1": 1e-3, "1x1": 2e-3}
    before = sessions(0, [[case(metrics={"time": cost[s]}, geometry=s)] for s in shapes])
    time = cost[now] * (slower or 1.0)
    result = row(compared(before, series([time], 50, geometry=now)))
    assert result.is_of_other_ranks == (slower is None)
    assert result.outlier == (slower == 1.5)
    if slower:
        assert (result.before.geometry, result.before.sessions) == (now, shapes.count(now))


def test_launch_that_is_not_made_any_more_is_not_missing(compared):
    def tests(layout):
        clock = {"clock": [2.0, "GHz", "higher"]}
        control = case("clock", clock, layout=layout, control=True)
        return [case(metrics={"time": 1e-3}, layout=layout), control]

    before = sessions(0, [[*tests("mpi"), *tests("node2")]])
    after = sessions(9, [[*tests("mpi"), case(layout="node2", verdict="not applicable")]])
    rows = compared(before, after).rows
    assert sorted((row.method, row.layout) for row in rows) == [("clock", "mpi"), ("p2p", "mpi")]
    # Where the test is there and its control is not, the control is missing.
    after = sessions(19, [[*tests("mpi"), tests("node2")[0]]])
    assert compared(before, after).count(Verdict.MISSING) == 1


def test_a_kernel_that_the_build_lacks_now_is_not_measured(compared):
    left_out = {"verdict": "not applicable"}
    left_out["reason"] = LeftOut(kernels=["transpose: no FFTW"]).as_dict()
    after = sessions(9, [[case(**left_out), case("new", **left_out)]])
    (lost,) = compared(nights({"p2p": [1e-3] * 3}), after).rows
    assert (lost.method, lost.verdict) == ("p2p", Verdict.NOT_MEASURED)
    assert isinstance(lost.reason, LeftOut)


@pytest.mark.parametrize("work", [{}, BANDS[1]])
def test_the_same_work_is_compared_and_what_is_not_stored(rng, compared, work):
    after = nights({"p2p": times(rng, 2.0)}, 50, **BANDS[1])
    assert row(compared(nights({"p2p": times(rng)}, **work), after)).verdict == Verdict.REGRESSED


def test_sessions_with_other_work_are_left_out(rng, compared):
    other = nights({"p2p": times(rng)}, **BANDS[0])
    same, after = (nights({"p2p": times(rng, 2.0)}, first, **BANDS[1]) for first in (25, 50))
    time = row(compared([*other, *same], after))
    assert time.before.sessions == 20
    assert time.ratio == pytest.approx(1, rel=0.05)


def test_what_is_gone_from_the_newest_sessions(rng, compared):
    """A metric of a test, and another test."""
    every, fewer = {"p2p": ("time", "time_8B"), "shm": ("time",)}, {"p2p": ("time",)}

    def side(first, nights):
        values = zip(times(rng, count=len(nights)), nights, strict=True)
        return sessions(
            first,
            ([case(name, dict.fromkeys(m, t)) for name, m in tests.items()] for t, tests in values),
        )

    result = compared(side(0, [every] * 20), side(50, [every] * 8 + [fewer] * 3))
    for gone in (row(result, metric="time_8B"), row(result, "shm")):
        assert (gone.verdict, why(gone)) == (Verdict.MISSING, "not in the last 3 sessions after")
    assert row(result).verdict != Verdict.MISSING
    assert decision.of_comparison(result) == 3


def test_nights_before_and_jobs_of_one_session_after_are_not_mixed(rng, compared):
    after = jobs(rng, 1, 10, 0, 0.01, ratio=1.06, first=90)
    time = row(compared(nights({"p2p": times(rng)}), after))
    assert (time.verdict, time.scope) == (Verdict.INCONCLUSIVE, None)


@pytest.mark.parametrize(
    ("share", "one_session", "code"),
    [(0.0, False, None), (0.05, False, "took the cores"), (0.0, True, "only across sessions")],
)
def test_the_slowest_percent_may_be_the_neighbours_doing(rng, compared, share, one_session, code):
    def tail(ratio, first):
        jobs = (
            case(metrics={"time_p99": t}, run=i * one_session, disturbed=share)
            for i, t in enumerate(times(rng, ratio, 10))
        )
        return sessions(first, [[*jobs]] if one_session else ([job] for job in jobs))

    p99 = row(compared(tail(1, 0), tail(3, 50)), metric="time_p99")
    assert p99.verdict == (Verdict.INCONCLUSIVE if code else Verdict.REGRESSED)
    assert (code in str(p99.reason)) if code else p99.reason is None


@pytest.mark.parametrize(
    ("method", "context"),
    [
        ("p2p", {"exchange_share": "share"}),
        *(
            (method, {f"ratio_{name}": "ratio", f"ratio_{name}_4KiB": "ratio"})
            for method, name in (("alltoallv",) * 2, ("file-per-node", "file_per_node"))
        ),
    ],
)
def test_shares_and_ratios_of_a_method_to_itself_are_not_compared(compared, method, context):
    """Even if they change; names of metrics have no hyphens."""

    def side(first, value):
        metrics = {name: [value, unit, "lower"] for name, unit in context.items()}
        return sessions(first, [[case(method, {"time": 1e-3, **metrics})]] * 5)

    for values in ((0.1, 0.9), (1.0, 1.0)):
        rows = compared(side(0, values[0]), side(50, values[1])).rows
        assert [row.metric for row in rows] == ["time"]


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ([1.0] * 10, [2.0] * 10, Verdict.REGRESSED),
        ([1.0] * 10, [1.0] * 10, Verdict.INCONCLUSIVE),
        ([0.999, 1.0, 1.001] * 4, [1.0] * 10, Verdict.INCONCLUSIVE),  # one side never varies
        ([1.0] * 10 + [1.1] * 2, [1.0] * 10 + [1.2], Verdict.UNCHANGED),  # often the same
        ([1e-299 * (1 + i / 1000) for i in range(10)], [1e299] * 10, Verdict.REGRESSED),
        ([1e299 * (1 + i / 1000) for i in range(10)], [1e-299] * 10, Verdict.IMPROVED),
    ],
)
def test_samples_that_are_the_same_or_beyond_all_numbers(compared, before, after, verdict):
    time = row(compared(series(before), series(after, 50)))
    assert time.verdict == verdict
    if verdict == Verdict.INCONCLUSIVE:
        assert "all samples are the same number" in str(time.reason)


WRONG = {"metrics": {}, "verdict": "FAIL", "reason": Text("wrong").as_dict()}


@pytest.mark.parametrize(
    ("count", "fault", "says"),
    [
        (1, WRONG, "1 of 20 jobs after failed: wrong"),
        (15, {"disturbed": 0.9}, "15 of 20 jobs after could not be used: other processes"),
    ],
)
def test_what_fails_now_and_then_or_is_mostly_disturbed_is_not_unchanged(
    rng, compared, count, fault, says
):
    before, after = nights({"p2p": times(rng)}), nights({"p2p": times(rng)}, 50)
    for _, cases in after[-count:]:
        cases[0] |= fault
    result = compared(before, after)
    assert (row(result).verdict, decision.of_comparison(result)) == (Verdict.NOT_MEASURED, 3)
    assert why(row(result)).startswith(says)


def test_tests_without_a_metric_to_compare_do_not_vanish(rng, compared):
    other = case("other", {"f": [0.5, "share", "lower"]})
    both = [[case(metrics={"time": 1e-3}), other]] * 5
    rows = compared(sessions(0, both), sessions(50, both)).rows
    assert [row.method for row in rows] == ["p2p"]
    result = compared(sessions(100, both), nights({"p2p": times(rng, count=5)}, 150))
    assert {r.method: r.verdict for r in result.rows}["other"] == Verdict.MISSING


@pytest.mark.parametrize(
    ("old", "new", "unit", "better", "verdict"),
    [
        (132, 133, "messages", "lower", Verdict.REGRESSED),
        (1000001, 1000002, "B", "lower", Verdict.REGRESSED),
        (0, 5, "B", "lower", Verdict.REGRESSED),
        (5, 0, "B", "lower", Verdict.IMPROVED),
        (5, 0, "B", "higher", Verdict.REGRESSED),
        (0, 0, "B", "lower", Verdict.UNCHANGED),
        (4096, 4096, "B", "lower", Verdict.UNCHANGED),
    ],
)
def test_counts_are_compared_to_the_last_digit(compared, old, new, unit, better, verdict):
    sides = (series([value] * 5, at, "sent", unit, better) for value, at in ((old, 0), (new, 50)))
    sent = row(compared(*sides), metric="sent")
    assert sent.verdict == verdict
    assert why(sent) == ("" if old == new else f"{old} is now {new}")
    assert (sent.slowdown, sent.slowdown_interval, sent.speedup) != ()  # none divides by zero


def test_nothing_to_compare_is_no_success(rng, compared):
    sides = nights({"p2p": times(rng)}), nights({"p2p": times(rng)}, 50)
    result = compared(*sides, name=re.compile("no such test"))
    assert decision.of_comparison(result) == 3


@pytest.mark.parametrize(("factor", "code"), [(1, 4), (1.5, 1)])
def test_a_slow_node_is_slower_unless_something_is_wrong(rng, compared, factor, code):
    usual = times(rng)
    sides = nights({"p2p": usual}), nights({"p2p": factor * usual}, 50)
    suspects = [slow_node("n1", 1.4, 12, "lab:cpu")]
    assert decision.of_comparison(replace(compared(*sides), suspects=suspects)) == code


@pytest.mark.parametrize("verdict", [*COMPARED, Against.BELOW])
def test_every_verdict_can_fail(rng, compared, verdict):
    before = nights({name: times(rng) for name in ("same", "worse", "gone")})
    after = nights({"same": times(rng), "worse": times(rng, 1.5), "new": times(rng)}, 50)
    result = compared(before, after, expected=1.31)
    fails = any(verdict in (each.verdict, each.against) for each in result.rows)
    assert (decision.of_comparison(result, (verdict,)) != 0) == fails
    assert fails or verdict != Against.BELOW


def test_a_middle_is_of_sessions(compared):
    many = [case(metrics={"time": 9.0}, run=run) for run in range(20)]
    before = [*nights({"p2p": [1.0, 2.0, 3.0, 4.0]}), *sessions(5, [many])]
    assert row(compared(before, nights({"p2p": [1.0]}, 50))).before.median == 3.0
