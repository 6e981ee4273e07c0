"""What is in the way of numbers, and is no verdict on them."""

import math
import re

import pytest
from made_up import case, jobs, nights, noise, row, series, session, sessions, times

from bisection.core.reasons import Code
from bisection.core.verdicts import COMPARED, Against, Verdict
from bisection.report.text import comparison_text
from bisection.report.words import sentence, why


def test_vanished_cases_are_all_counted(compared):
    before = [(session(0), [case(f"m{i}", {"time": 1e-3}) for i in range(10000)])]
    after = [(session(9), [case("kept", {"time": 1e-3})])]
    result = compared(before, after)
    assert result.count(Verdict.MISSING) == 10000
    assert result.exit_code == 3
    lines = comparison_text(result)
    assert len(lines) < 60
    assert "10000 missing" in sentence(result)


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -1.0, 0.0])
def test_what_is_no_number_above_zero_is_not_measured(rng, compared, value):
    result = compared(series(times(rng, count=5)), series([value] * 5, 50))
    assert row(result).verdict == Verdict.NOT_MEASURED
    assert result.exit_code == 3


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"unit": "ms"}, "unit: ms, s"),
        ({"geometry": "4x1"}, "geometry: 2x1, 4x1"),
    ],
)
def test_other_units_and_geometries_are_not_compared(rng, compared, other, says):
    time = row(compared(series(times(rng)), series([1.0] * 20, 50, **other)))
    assert (time.verdict, why(time)) == (Verdict.NOT_MEASURED, f"not to be compared, by its {says}")


BANDS = [{"work": {"transpose": {"cnt40": f"--bands {number}"}}} for number in (2, 4)]


def test_launch_that_is_not_made_any_more_is_not_missing(compared):
    def night(number, layouts, **how):
        own = [case(metrics={"time": 1e-3}, layout="mpi")]
        own += [
            case("clock", {"clock": [2.0, "GHz", "higher"]}, layout=n, control=True)
            for n in layouts
        ]
        return [(session(number), [*own, case(layout="node2", **how)])]

    before = night(0, ["mpi", "node2"], metrics={"time": 1e-3})
    after = night(9, ["mpi"], verdict="not applicable")
    rows = compared(before, after).rows
    assert sorted((row.method, row.layout) for row in rows) == [("clock", "mpi"), ("p2p", "mpi")]
    # Where the test is there and its control is not, the control is missing.
    after = night(19, ["mpi"], metrics={"time": 1e-3})
    assert (
        compared(night(18, ["mpi", "node2"], metrics={"time": 1e-3}), after).count("missing") == 1
    )


def test_other_work_is_not_compared(rng, compared):
    before = nights({"p2p": times(rng)}, **BANDS[0])
    after = nights({"p2p": times(rng, 2.0)}, 50, **BANDS[1])
    words = "not to be compared, by its work: --bands 2, --bands 4"
    assert why(row(compared(before, after))) == words
    named = nights({"p2p": times(rng)}, 80, **BANDS[0])
    assert row(compared(before, named)).ratio == pytest.approx(1, rel=0.05)
    # Other programs need not store it.
    assert row(compared(nights({"p2p": times(rng)}, 110), after)).verdict == Verdict.REGRESSED


def test_sessions_with_other_work_are_left_out(rng, compared):
    before = [
        *nights({"p2p": times(rng)}, **BANDS[0]),
        *nights({"p2p": times(rng, 2.0)}, 25, **BANDS[1]),
    ]
    time = row(compared(before, nights({"p2p": times(rng, 2.0)}, 50, **BANDS[1])))
    assert time.before.sessions == 20
    assert time.ratio == pytest.approx(1, rel=0.05)


def test_a_failed_test_is_not_measured_with_its_cause(rng, compared):
    before = nights({"p2p": times(rng)})
    failed = case(metrics={}, verdict="FAIL", cause="wrong answer of p2p: transform")
    result = compared(before, [(session(50), [failed])])
    assert row(result).verdict == Verdict.NOT_MEASURED
    assert why(row(result)) == "wrong answer of p2p: transform"


def test_a_metric_that_vanished_from_its_test(rng, compared):
    ratio = {"ratio": [1.0, "ratio", "lower"]}
    before = sessions(0, ([case(metrics={"time": t, **ratio})] for t in times(rng)))
    after = nights({"p2p": times(rng)}, first=50)
    assert row(compared(before, after), metric="ratio").verdict == Verdict.NOT_MEASURED


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
    assert result.exit_code == 3


def test_nights_before_and_jobs_of_one_session_after_are_not_mixed(rng, compared):
    after = jobs(rng, 1, 10, 0, 0.01, ratio=1.06, first=90)
    time = row(compared(nights({"p2p": times(rng)}), after))
    assert (time.verdict, time.scope) == (Verdict.INCONCLUSIVE, None)


def test_disturbed_jobs_are_left_out(rng, compared):
    result = compared(series(times(rng)), series([5e-3] * 20, 50, disturbed=0.8))
    assert row(result).verdict == Verdict.NOT_MEASURED
    assert "other processes used the cores in 80% of the samples" in why(row(result))
    assert "1 not measured, as other processes used the cores" in sentence(result)


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.0, Verdict.REGRESSED), (0.05, Verdict.INCONCLUSIVE)]
)
def test_the_slowest_percent_may_be_the_neighbours_doing(rng, compared, share, verdict):
    sides = (
        series(times(rng, ratio), first, "time_p99", disturbed=share)
        for ratio, first in ((1, 0), (3, 50))
    )
    assert row(compared(*sides), metric="time_p99").verdict == verdict


def test_the_slowest_percent_is_judged_between_sessions_only(rng, compared):
    def tail(ratio, first):
        values = enumerate(times(rng, ratio, 10))
        return sessions(first, [[case(metrics={"time_p99": t}, run=i) for i, t in values]])

    p99 = row(compared(tail(1, 0), tail(3, 50)), metric="time_p99")
    assert p99.verdict == Verdict.INCONCLUSIVE
    assert p99.reason.code == Code.TAIL_OF_ONE_SESSION


@pytest.mark.parametrize(
    ("name", "unit", "values"),
    [("exchange_share", "share", (0.1, 0.9)), ("ratio_p2p", "ratio", (1.0, 1.0))],
)
def test_shares_and_ratios_to_oneself_are_context(compared, name, unit, values):
    """Even if they change; p2p is the method itself."""
    before, after = (
        sessions(first, [[case(metrics={"time": 1e-3, name: [value, unit, "lower"]})]] * 5)
        for first, value in zip((0, 50), values, strict=True)
    )
    assert [r.metric for r in compared(before, after).rows] == ["time"]


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
        assert time.reason.code == Code.CONSTANT


def test_one_night_beside_constant_ones_is_an_outlier(compared):
    result = compared(nights({"p2p": [1.0] * 20}), nights({"p2p": [3.0]}, first=50))
    assert row(result).outlier
    assert "1 outlier" in sentence(result)


def test_tests_that_fail_now_and_then_are_not_unchanged(rng, compared):
    before, after = nights({"p2p": times(rng)}), nights({"p2p": times(rng)}, 50)
    failed = case(metrics={}, verdict="FAIL", cause="wrong answer of p2p")
    result = compared(before, [*after[:19], (after[19][0], [failed])])
    assert (row(result).verdict, result.exit_code) == (Verdict.NOT_MEASURED, 3)
    assert why(row(result)) == "1 of 20 jobs after failed: wrong answer of p2p"


def test_a_few_nights_left_of_many_are_not_unchanged(rng, compared):
    before, after = nights({"p2p": times(rng)}), nights({"p2p": times(rng)}, 50)
    for _, cases in after[5:]:
        cases[0]["disturbed"] = 0.9
    time = row(compared(before, after))
    assert time.verdict == Verdict.NOT_MEASURED
    assert why(time).startswith("15 of 20 jobs after could not be used: other processes")


def test_pairs_of_nodes_are_tests_of_their_own(rng, compared):
    def sides(first, slow):
        rates = 1e9 * noise(rng, (20, 2), 0.02)
        rates[:, 1] *= slow
        pairs = (["n1", "n2"], ["n1", "n3"])
        return sessions(
            first,
            (
                [
                    case("pingpong", {"rate": [float(r), "B/s", "higher"]}, pair=pair)
                    for r, pair in zip(night, pairs, strict=True)
                ]
                for night in rates
            ),
        )

    result = compared(sides(0, 1), sides(100, 0.6))
    assert {r.case: r.verdict for r in result.rows} == {
        "cnt40 n1 n2": Verdict.UNCHANGED,
        "cnt40 n1 n3": Verdict.REGRESSED,
    }


def test_tests_without_a_metric_to_compare_do_not_vanish(rng, compared):
    more = {"metrics": {"f": [0.5, "share", "lower"]}}

    def sides(first, count):
        return [
            (line, [*cases, case("other", **more)] if i < count else cases)
            for i, (line, cases) in enumerate(nights({"p2p": times(rng, count=5)}, first))
        ]

    assert [r.method for r in compared(sides(0, 5), sides(50, 5)).rows] == ["p2p"]
    result = compared(sides(100, 5), sides(150, 0))
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
    assert compared(*sides, name=re.compile("no such test")).exit_code == 3


@pytest.mark.parametrize("verdict", [*COMPARED, Against.BELOW])
def test_every_verdict_can_fail(rng, compared, verdict):
    before = nights({name: times(rng) for name in ("same", "worse", "gone")})
    after = nights({"same": times(rng), "worse": times(rng, 1.5), "new": times(rng)}, 50)
    result = compared(before, after, fail_on=(verdict,))
    assert (result.exit_code != 0) == (result.count(verdict) > 0)


def test_a_middle_is_of_sessions(compared):
    many = [case(metrics={"time": 9.0}, run=run) for run in range(20)]
    before = [*nights({"p2p": [1.0, 2.0, 3.0, 4.0]}), *sessions(5, [many])]
    assert row(compared(before, nights({"p2p": [1.0]}, 50))).before.median == 3.0


def test_few_jobs_are_not_called_one(rng, compared):
    few = row(compared(jobs(rng, 1, 3, 0, 0.1), jobs(rng, 1, 3, 0, 0.1, first=9)))
    assert why(few) == "3 and 3 jobs; 5 are needed"


def test_the_same_facts_in_another_order_are_no_change(compared):
    a, b, c, d = (nights({"p2p": [1.0]}, n, facts={"MPI": mpi}) for n, mpi in enumerate("ABBA"))
    assert compared([*a, *b], [*c, *d]).changes == []
