"""`bisection compare`: verdicts on made-up sessions whose truth is known."""

import argparse
import json
import math

import numpy as np
import pytest
from samples import case, nights, noise, session, store
from scipy.stats import norm

from bisection import comparison as c
from bisection import phrases, stats
from bisection.cli import main
from bisection.compare import compare
from bisection.compare import compared as compare_options
from bisection.selection import SelectionError, select

RNG = 20261121


@pytest.fixture
def rng():
    return np.random.default_rng(RNG)


@pytest.fixture
def compared(tmp_path):
    """compared(before, after, **options): the Comparison of two lists of (session, cases)."""

    def run(before, after, **options):
        made = store(tmp_path / "store.db", before, after)
        sides = [
            select(",".join(line["session"] for line, _ in side), made) for side in (before, after)
        ]
        for name in ("aa",):
            if options.get(name):
                made.add(options[name])
                options[name] = select(",".join(line["session"] for line, _ in options[name]), made)
        result = compare(made, *sides, **options)
        made.close()
        assert "\n".join(phrases.text(result))
        json.dumps(result.as_dict(), allow_nan=False)
        return result

    return run


def row(result, method="p2p", metric="time"):
    found = [r for r in result.rows if (r.method, r.metric) == (method, metric)]
    assert len(found) == 1, [r.key for r in result.rows]
    return found[0]


def times(rng, ratio=1.0, count=20, sigma=0.03):
    return 1e-3 * ratio * noise(rng, count, sigma)


# ---- verdicts ----


def test_each_verdict_where_it_belongs(rng, compared):
    before = {name: times(rng) for name in ("same", "slower", "faster", "gone")}
    after = {"same": times(rng), "slower": times(rng, 1.14), "faster": times(rng, 0.85)}
    after["fresh"] = times(rng)
    result = compared(nights(before), nights(after, first=100))
    verdicts = {r.method: r.verdict for r in result.rows}
    assert verdicts == {
        "same": c.UNCHANGED,
        "slower": c.REGRESSED,
        "faster": c.IMPROVED,
        "gone": c.MISSING,
        "fresh": c.NEW,
    }
    slower = row(result, "slower")
    assert slower.low < 1.14 < slower.high
    assert slower.scope == c.MACHINE
    assert (
        "1 regressed, 1 missing, 1 improved, 1 new, 1 unchanged (of 5 metrics)" in result.sentence
    )
    assert result.exit_code == 1
    assert result.rows[0].method == "slower"


def test_direction_is_the_metrics_own(rng, compared):
    def rate(values, first):
        return [
            (session(first + i), [case(metrics={"atom_steps": [1 / v, "atom-steps/s", "higher"]})])
            for i, v in enumerate(values)
        ]

    result = compared(rate(times(rng), 0), rate(times(rng, 1.2), 100))
    found = row(result, metric="atom_steps")
    assert found.verdict == c.REGRESSED
    assert found.ratio == pytest.approx(1 / 1.2, rel=0.05)
    assert found.worse == pytest.approx(1.2, rel=0.05)


def test_noise_is_not_called_a_change(rng, compared):
    before = {f"m{i}": times(rng, sigma=0.08) for i in range(200)}
    after = {f"m{i}": times(rng, sigma=0.08) for i in range(200)}
    result = compared(nights(before), nights(after, first=100))
    assert result.count(c.REGRESSED) + result.count(c.IMPROVED) == 0
    assert result.exit_code == 0


def test_small_effects_are_told_and_not_counted(rng, compared):
    result = compared(
        nights({"p2p": times(rng, sigma=0.002)}),
        nights({"p2p": times(rng, 1.03, sigma=0.002)}, first=100),
    )
    assert row(result).verdict == c.UNCHANGED
    assert row(result).ratio == pytest.approx(1.03, abs=0.005)


def test_rows_are_joined_by_identity(rng, compared):
    places = [{"partition": "gpu"}, {"environ": "spack"}, {"case": "cnt80"}, {"layout": "node"}]

    def of(ratio, first):
        values = [times(rng, ratio, 5, sigma=0.001) for _ in places]
        return [
            (
                session(first + i),
                [
                    case(metrics={"time": float(t[i])}, **place)
                    for place, t in zip(places, values, strict=True)
                ],
            )
            for i in range(5)
        ]

    result = compared(of(1, 0), of(1.5, 200))
    assert len(result.rows) == 4
    assert {r.verdict for r in result.rows} <= {c.REGRESSED, c.INCONCLUSIVE}
    assert all(r.ratio == pytest.approx(1.5, rel=0.2) for r in result.rows)


# ---- the sampling unit ----


def jobs(rng, count, per_session, between, within, ratio=1.0, first=0):
    """Sessions of several jobs each, with noise between sessions and within."""
    made = []
    for i in range(count):
        level = 1e-3 * ratio * math.exp(rng.normal(0, between))
        values = level * np.exp(rng.normal(0, within, per_session))
        cases = [case(metrics={"time": float(v)}, run=j) for j, v in enumerate(values)]
        made.append((session(first + i), cases))
    return made


def test_one_job_a_side_gives_no_verdict(rng, compared):
    result = compared(jobs(rng, 1, 1, 0, 0), jobs(rng, 1, 1, 0, 0, ratio=3, first=9))
    found = row(result)
    assert found.verdict == c.INCONCLUSIVE
    assert found.why == "one job a side says nothing of the machine"
    assert found.ratio == pytest.approx(3)
    assert found.low is None
    assert any("give no verdict on the machine" in line for line in result.advice)


def test_jobs_of_two_sessions_are_judged_as_these_sessions(rng, compared):
    before, after = jobs(rng, 1, 10, 0, 0.01), jobs(rng, 1, 10, 0, 0.01, ratio=1.2, first=9)
    result = compared(before, after)
    assert row(result).verdict == c.REGRESSED
    assert row(result).scope == c.SESSIONS
    assert any("verdicts are about these sessions" in line for line in result.advice)


def test_the_session_is_the_sampling_unit(rng, tmp_path):
    """1% within jobs and 3% between sessions: twenty jobs in five nights are five samples."""
    wrong = 0
    for trial in range(60):
        before = jobs(rng, 5, 4, 0.03, 0.01)
        after = jobs(rng, 5, 4, 0.03, 0.01, first=50)
        made = store(tmp_path / f"{trial}.db", before, after)
        found = compare(made, made.sessions()[:5], made.sessions()[5:]).rows[0]
        made.close()
        assert (found.scope, found.before.sessions, found.before.jobs) == (c.MACHINE, 5, 20)
        wrong += found.verdict in (c.REGRESSED, c.IMPROVED)
    assert wrong <= 2


def test_a_night_unlike_all_earlier_ones_is_a_suspect(rng, compared):
    result = compared(nights({"p2p": times(rng)}), nights({"p2p": [1.5e-3]}, first=100))
    assert row(result).verdict == c.INCONCLUSIVE
    assert row(result).suspect
    assert "outside of what 20 earlier ones showed" in row(result).why
    assert any("unlike all earlier sessions" in line for line in result.advice)


# ---- the control and the A/A run ----


def with_control(rng, ratio, control, first):
    return [
        (
            session(first + i),
            [
                case(metrics={"time": float(t)}),
                case("serial", {"time": float(s)}, control=True),
                case("clock", {"clock": [2.0 / control, "GHz", "higher"]}, control=True),
            ],
        )
        for i, (t, s) in enumerate(zip(times(rng, ratio), times(rng, control), strict=True))
    ]


def test_a_drift_of_the_control_withholds_the_verdict(rng, compared):
    before, after = with_control(rng, 1, 1, 0), with_control(rng, 1.12, 1.12, 100)
    result = compared(before, after)
    assert row(result).verdict == c.INCONCLUSIVE
    assert "but so are the cores alone" in row(result).why
    assert "are not as they were" in result.unsafe
    assert row(result, "serial").verdict == c.REGRESSED
    assert result.exit_code == 1


def test_what_the_control_does_not_explain_stays(rng, compared):
    result = compared(with_control(rng, 1, 1, 0), with_control(rng, 1.5, 1.12, 100))
    assert row(result).verdict == c.REGRESSED
    assert result.unsafe


def test_what_stays_while_the_cores_get_faster_is_not_unchanged(rng, compared):
    result = compared(with_control(rng, 1, 1, 0), with_control(rng, 1, 0.8, 100))
    assert row(result).verdict == c.INCONCLUSIVE
    assert "as before, but the cores alone are not" in row(result).why
    assert result.exit_code == 3


def test_a_quiet_control_says_nothing(rng, compared):
    result = compared(with_control(rng, 1, 1, 0), with_control(rng, 1.2, 1, 100))
    assert row(result).verdict == c.REGRESSED
    assert result.unsafe == ""


def test_without_control_or_a_a_they_are_asked_for(rng, compared):
    few = {"p2p": times(rng, count=5)}
    result = compared(nights(few), nights(few, first=50))
    assert any(line.startswith("no A/A comparison") for line in result.advice)
    assert any(line.startswith("no control") for line in result.advice)


def test_a_named_control_counts(rng, compared):
    import re

    before, after = {"dgemm": times(rng), "p2p": times(rng)}, {"dgemm": times(rng, 1.2)}
    after["p2p"] = times(rng, 1.2)
    result = compared(nights(before), nights(after, 100), control=re.compile("dgemm"))
    assert row(result, "dgemm").control
    assert row(result).verdict == c.INCONCLUSIVE


def test_a_launchs_own_controls_say_whether_its_cores_moved(rng, compared):
    def sides(factor, control, first):
        return [
            (
                session(first + i),
                [
                    case(metrics={"time": float(times(rng, factor, 1)[0])}),
                    case("serial", {"time": float(times(rng, 1, 1)[0])}, control=True),
                    case("serial", {"time": float(times(rng, control, 1)[0])}, control=True,
                         case="other"),
                ],
            )
            for i in range(20)
        ]  # fmt: skip

    result = compared(sides(1, 1, 0), sides(1.12, 1.4, 100))
    assert row(result).verdict == c.REGRESSED
    assert "are not as they were" in result.unsafe


def test_one_of_many_controls_does_not_move_by_chance(compared):
    unsafe = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)

        def sides(first, rng=rng, seed=seed):
            return [
                (
                    session(1000 * seed + first + i),
                    [
                        case("serial", {"time": float(t)}, control=True, case=f"c{j}")
                        for j, t in enumerate(times(rng, count=40))
                    ],
                )
                for i in range(10)
            ]

        unsafe += bool(compared(sides(0), sides(100)).unsafe)
    assert unsafe <= 1


def test_more_than_an_a_a_run_showed_stays(rng, compared):
    before, again = nights({"p2p": times(rng)}), nights({"p2p": times(rng, 1.1)}, 40)
    after = nights({"p2p": times(rng, 5)}, 100)
    result = compared(before, after, aa=again)
    assert (row(result).verdict, result.exit_code) == (c.REGRESSED, 1)


def test_a_a_takes_back_what_moves_by_itself(rng, compared):
    before = nights({"p2p": times(rng), "shm": times(rng)})
    again = nights({"p2p": times(rng, 1.3), "shm": times(rng)}, first=40)
    after = nights({"p2p": times(rng, 1.3), "shm": times(rng, 1.3)}, first=100)
    result = compared(before, after, aa=again)
    assert row(result).verdict == c.INCONCLUSIVE
    assert "the A/A run" in row(result).why
    assert row(result, "shm").verdict == c.REGRESSED
    assert "though nothing was changed" in result.unsafe


def test_a_ratio_is_not_better_because_the_other_is_worse(rng, compared):
    def sides(factor, first):
        return [
            (
                session(first + i),
                [
                    case("alltoallv", {"time": factor * t}),
                    case("shm", {"time": s, "ratio_alltoallv": [s / factor / t, "ratio", "lower"]}),
                ],
            )
            for i, (t, s) in enumerate(zip(times(rng), times(rng), strict=True))
        ]

    result = compared(sides(1, 0), sides(1.4, 100))
    assert row(result, "alltoallv").verdict == c.REGRESSED
    assert row(result, "shm").verdict in (c.UNCHANGED, c.INCONCLUSIVE)
    found = row(result, "shm", "ratio_alltoallv")
    assert found.verdict == c.INCONCLUSIVE
    assert "by what it is compared with" in found.why


@pytest.mark.parametrize(
    ("ratio", "low", "high", "better", "unit", "says"),
    [
        (1.14, 1.11, 1.17, "lower", "s", "14% [11%, 17%] slower"),
        (0.5, 0.4, 0.8, "lower", "s", "2 [1.25, 2.5] times as fast"),
        (1 / 1.25, 1 / 1.5, 1 / 1.1, "lower", "s", "25% [10%, 50%] faster"),
        (9.38, 8.88, 9.76, "lower", "s", "9.38 [8.88, 9.76] times slower"),
        (0.8, 0.75, 0.9, "higher", "atom-steps/s", "25% [11%, 33%] slower"),
        (1.02, 0.99, 1.05, "higher", "GHz", "2.0% [-1.0%, 5.0%] faster"),
        (0.84, 0.82, 0.85, "lower", "ratio", "16% [15%, 18%] less"),
        (1.1, None, None, "lower", "s", "10% slower"),
        (None, None, None, "lower", "s", ""),
    ],
)
def test_change_in_words(ratio, low, high, better, unit, says):
    made = c.Row(*["x"] * 7, "time", unit, better, False, c.Side(), c.Side())
    made.ratio, made.low, made.high = ratio, low, high
    assert phrases.change(made) == says


# ---- an upgrade ----

# Phase1 time over Phase2 time, from the HPCx report (2004): sections 3.4, 4.2, 5.2, 6.1, 6.2, 7.
HPCX = {
    "pdsyevd-3888": (2.9, {c.ABOVE}),
    "pdsyevd-7194": (3.9, {c.ABOVE}),
    "thor": (2.52, {c.ABOVE}),
    "crystal": (1.32, {c.AT}),
    "polcoms": (1.37, {c.AT, c.UNCLEAR}),
    "pchan": (1.41, {c.ABOVE}),
    "namd-512": (1.18, {c.BELOW}),
    "namd-1024": (1.13, {c.BELOW}),
}


def test_published_upgrade(compared):
    """The report gives ratios alone: here each is of ten nights a side with 3% noise, as normal
    scores, so that the estimate is the published one."""
    scores = np.exp(0.03 * norm.ppf((np.arange(10) + 0.5) / 10))
    before = dict.fromkeys(HPCX, scores)
    after = {name: scores / ratio for name, (ratio, _) in HPCX.items()}
    result = compared(nights(before), nights(after, first=50), expected=1.31)
    for name, (ratio, allowed) in HPCX.items():
        found = row(result, name)
        assert found.against in allowed, (name, found.speedup)
        assert found.speedup[0] == pytest.approx(ratio, rel=1e-9)
    assert result.unsafe == ""
    assert "speed-up, against the expected 1.31" in "\n".join(phrases.text(result))


def test_below_the_expected_ratio_can_fail(rng, compared):
    sides = nights({"p2p": times(rng)}), nights({"p2p": times(rng, 1 / 1.13)}, 100)
    assert compared(*sides, expected=1.31, fail_on=(c.BELOW,)).exit_code == 1


@pytest.mark.parametrize(
    ("f", "speed", "against", "says"),
    [
        (0.5, 1.31 / 0.75, c.ABOVE, "fits a network 2.62 times as fast"),
        (0.02, 2.5, c.ABOVE, "not by the network alone: with 2% communication"),
        (0.001, 2.5, c.ABOVE, "not by the network: only 0.1%"),
        (0.5, 1.0, c.BELOW, "fits a network 1.24 times slower"),
        (None, 2.5, c.ABOVE, "no communication fraction is known"),
    ],
)
def test_communication_fraction_explains_or_does_not(f, speed, against, says):
    from bisection.upgrade import explain

    made = c.Row(*["x"] * 7, "time", "s", "lower", False, c.Side(), c.Side())
    made.communication, made.against = f, against
    assert says in explain(made, speed, 1.31)


def test_speed_up_that_rises_with_ranks_is_told(rng, compared):
    def sized(ratio, first):
        return [
            (
                session(first + i),
                [
                    case(
                        metrics={"time": float(t), "mpi_share": [0.6, "share", "lower"]},
                        layout=layout,
                        geometry=geometry,
                    )
                    for layout, geometry, t in (
                        ("mpi", "64x1", times(rng, 1 / ratio[0], 1)[0]),
                        ("node", "4x64x1", times(rng, 1 / ratio[1], 1)[0]),
                    )
                ],
            )
            for i in range(20)
        ]

    result = compared(sized((1, 1), 0), sized((1.6, 2.2), 100), expected=1.31)
    assert all("it rises with the ranks" in r.explained for r in result.rows)


def test_speed_ups_of_other_partitions_or_threads_are_no_growth(rng, compared):
    def sides(ratios, first):
        return [
            (
                session(first + i),
                [
                    case(metrics={"time": float(times(rng, 1 / ratio, 1)[0])}, **place)
                    for place, ratio in zip(
                        (
                            {"geometry": "64x1"},
                            {"geometry": "8x8", "layout": "node"},
                            {"geometry": "128x1", "partition": "gpu"},
                        ),
                        ratios,
                        strict=True,
                    )
                ],
            )
            for i in range(20)
        ]

    result = compared(sides((1, 1, 1), 0), sides((1.6, 2.0, 2.4), 100), expected=1.31)
    assert not any("with the ranks" in r.explained for r in result.rows)


# ---- what is in the way of numbers ----


def test_vanished_cases_are_all_counted(compared):
    before = [(session(0), [case(f"m{i}", {"time": 1e-3}) for i in range(10000)])]
    after = [(session(9), [case("kept", {"time": 1e-3})])]
    result = compared(before, after)
    assert result.count(c.MISSING) == 10000
    assert result.exit_code == 3
    text = phrases.text(result)
    assert len(text) < 60
    assert "10000 missing" in result.sentence


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -1.0, 0.0])
def test_what_is_no_number_above_zero_is_not_measured(rng, compared, value):
    before = nights({"p2p": times(rng, count=5)})
    after = [(session(50 + i), [case(metrics={"time": value})]) for i in range(5)]
    result = compared(before, after)
    assert row(result).verdict == c.NOT_MEASURED
    assert result.exit_code == 3


def test_other_units_are_not_compared(rng, compared):
    before = nights({"p2p": times(rng)})
    after = [(session(50 + i), [case(metrics={"time": [1.0, "ms", "lower"]})]) for i in range(20)]
    assert row(compared(before, after)).why == "not to be compared: its unit is ms and s"


def test_other_geometries_are_not_compared(rng, compared):
    before = nights({"p2p": times(rng)})
    after = [(session(50 + i), [case(metrics={"time": 1e-3}, geometry="4x1")]) for i in range(20)]
    found = row(compared(before, after))
    assert (found.verdict, found.why) == (
        c.NOT_MEASURED,
        "not to be compared: its geometry is 2x1 and 4x1",
    )


def test_equal_samples_are_not_unchanged(compared):
    result = compared(nights({"p2p": [1e-3] * 20}), nights({"p2p": [1e-3] * 20}, first=50))
    assert row(result).verdict == c.INCONCLUSIVE
    assert "all samples are the same number" in row(result).why


def test_counts_are_compared_exactly(compared):
    def counted(messages, bytes_, first):
        metrics = {"messages": [messages, "messages", "lower"], "bytes": [bytes_, "B", "lower"]}
        return [(session(first + i), [case(metrics=metrics)]) for i in range(5)]

    result = compared(counted(132, 4096, 0), counted(133, 4096, 50))
    found = row(result, metric="messages")
    assert (found.verdict, found.why) == (c.REGRESSED, "132 is now 133")
    assert row(result, metric="bytes").verdict == c.UNCHANGED


def test_a_failed_test_is_not_measured_with_its_cause(rng, compared):
    before = nights({"p2p": times(rng)})
    failed = case(metrics={}, verdict="FAIL", cause="wrong answer of p2p: transform")
    result = compared(before, [(session(50), [failed])])
    assert row(result).verdict == c.NOT_MEASURED
    assert row(result).why == "wrong answer of p2p: transform"


def test_a_metric_that_vanished_from_its_test(rng, compared):
    before = [
        (session(i), [case(metrics={"time": float(t), "ratio": [1.0, "ratio", "lower"]})])
        for i, t in enumerate(times(rng))
    ]
    after = nights({"p2p": times(rng)}, first=50)
    assert row(compared(before, after), metric="ratio").verdict == c.NOT_MEASURED


def test_a_test_that_is_gone_from_the_newest_sessions(rng, compared):
    before = nights({"p2p": times(rng), "shm": times(rng)})
    after = nights({"p2p": times(rng, count=8), "shm": times(rng, count=8)}, first=50)
    after += nights({"shm": times(rng, count=3)}, first=60)
    result = compared(before, after)
    assert (row(result).verdict, row(result).why) == (c.MISSING, "not in the last 3 sessions after")
    assert result.exit_code == 3


def test_nights_before_and_jobs_of_one_session_after_are_not_mixed(rng, compared):
    after = jobs(rng, 1, 10, 0, 0.01, ratio=1.06, first=90)
    found = row(compared(nights({"p2p": times(rng)}), after))
    assert found.verdict == c.INCONCLUSIVE
    assert found.scope == ""


def test_disturbed_jobs_are_left_out(rng, compared):
    before = nights({"p2p": times(rng)})
    after = [(session(50 + i), [case(metrics={"time": 5e-3}, disturbed=0.8)]) for i in range(20)]
    result = compared(before, after)
    found = row(result)
    assert found.verdict == c.NOT_MEASURED
    assert "other processes had the cores in 80% of the samples" in found.why
    assert "1 not measured, as other processes had the cores" in result.sentence


@pytest.mark.parametrize(("share", "verdict"), [(0.0, c.REGRESSED), (0.05, c.INCONCLUSIVE)])
def test_the_slowest_percent_may_be_the_neighbours_doing(rng, compared, share, verdict):
    def tail(ratio, first):
        return [
            (session(first + i), [case(metrics={"time_p99": float(t)}, disturbed=share)])
            for i, t in enumerate(times(rng, ratio))
        ]

    assert row(compared(tail(1, 0), tail(3, 50)), metric="time_p99").verdict == verdict


def test_the_slowest_percent_is_judged_between_sessions_only(rng, compared):
    def tail(ratio, first):
        values = times(rng, ratio, 10)
        return [
            (
                session(first),
                [case(metrics={"time_p99": float(t)}, run=i) for i, t in enumerate(values)],
            )
        ]

    found = row(compared(tail(1, 0), tail(3, 50)), metric="time_p99")
    assert found.verdict == c.INCONCLUSIVE
    assert "judged between sessions only" in found.why


def test_shares_are_context(rng, compared):
    def shared(share, first):
        metrics = {"time": 1e-3, "exchange_share": [share, "share", "lower"]}
        return [(session(first + i), [case(metrics=metrics)]) for i in range(5)]

    result = compared(shared(0.1, 0), shared(0.9, 50))
    assert [r.metric for r in result.rows] == ["time"]


def test_constant_samples_that_differ_are_a_change(compared):
    result = compared(nights({"p2p": [1.0] * 10}), nights({"p2p": [2.0] * 10}, first=50))
    assert (row(result).verdict, result.exit_code) == (c.REGRESSED, 1)


def test_one_side_that_never_varies_is_not_unchanged(rng, compared):
    values = times(rng, count=10, sigma=0.001)
    after = [float(np.median(values))] * 10
    assert row(compared(nights({"p2p": values}), nights({"p2p": after}, 50))).verdict != c.UNCHANGED


def test_samples_that_are_often_the_same_are_no_constant(compared):
    before, after = [1.0] * 10 + [1.1] * 2, [1.0] * 10 + [1.2]
    found = row(compared(nights({"p2p": before}), nights({"p2p": after}, first=50)))
    assert found.verdict == c.UNCHANGED


def test_one_night_beside_constant_ones_is_a_suspect(compared):
    result = compared(nights({"p2p": [1.0] * 20}), nights({"p2p": [3.0]}, first=50))
    assert row(result).suspect
    assert "1 unlike all earlier sessions" in result.sentence


def test_ratios_beyond_all_numbers_have_verdicts(compared):
    before = [1e-300 * (1 + i / 1000) for i in range(10)]
    after = [1e300 * (1 + i / 1000) for i in range(10)]
    assert row(compared(nights({"p2p": before}), nights({"p2p": after}, 50))).verdict == c.REGRESSED
    sides = nights({"p2p": after}, 100), nights({"p2p": before}, 150)
    assert row(compared(*sides)).verdict == c.IMPROVED


def test_tests_that_fail_now_and_then_are_not_unchanged(rng, compared):
    before, after = nights({"p2p": times(rng)}), nights({"p2p": times(rng)}, 50)
    failed = case(metrics={}, verdict="FAIL", cause="wrong answer of p2p")
    result = compared(before, [*after[:19], (after[19][0], [failed])])
    assert (row(result).verdict, result.exit_code) == (c.NOT_MEASURED, 3)
    assert row(result).why == "1 of 20 jobs after failed: wrong answer of p2p"


def test_a_few_nights_left_of_many_are_not_unchanged(rng, compared):
    before, after = nights({"p2p": times(rng)}), nights({"p2p": times(rng)}, 50)
    for _, cases in after[5:]:
        cases[0]["disturbed"] = 0.9
    found = row(compared(before, after))
    assert found.verdict == c.NOT_MEASURED
    assert found.why.startswith("15 of 20 jobs after could not be used: other processes")


def test_pairs_of_nodes_are_tests_of_their_own(rng, compared):
    def sides(first, slow):
        rates = 1e9 * noise(rng, (20, 2), 0.02)
        rates[:, 1] *= slow
        pairs = (["n1", "n2"], ["n1", "n3"])
        return [
            (
                session(first + i),
                [
                    case("pingpong", {"rate": [float(r), "B/s", "higher"]}, pair=pair)
                    for r, pair in zip(night, pairs, strict=True)
                ],
            )
            for i, night in enumerate(rates)
        ]

    result = compared(sides(0, 1), sides(100, 0.6))
    assert {r.case: r.verdict for r in result.rows} == {
        "cnt40 n1 n2": c.UNCHANGED,
        "cnt40 n1 n3": c.REGRESSED,
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
    assert {r.method: r.verdict for r in result.rows}["other"] == c.MISSING


def test_a_ratio_to_itself_is_no_metric(rng, compared):
    def sides(first):
        metrics = {"time": 1e-3, "ratio_p2p": [1.0, "ratio", "lower"]}
        return [(session(first + i), [case(metrics=metrics)]) for i in range(5)]

    assert [r.metric for r in compared(sides(0), sides(50)).rows] == ["time"]


@pytest.mark.parametrize(
    ("old", "new", "better", "verdict"),
    [
        (1000001, 1000002, "lower", c.REGRESSED),
        (0, 5, "lower", c.REGRESSED),
        (5, 0, "lower", c.IMPROVED),
        (5, 0, "higher", c.REGRESSED),
        (0, 0, "lower", c.UNCHANGED),
    ],
)
def test_counts_to_the_last_digit(compared, old, new, better, verdict):
    def counted(value, first):
        metrics = {"bytes": [value, "B", better]}
        return [(session(first + i), [case(metrics=metrics)]) for i in range(5)]

    found = row(compared(counted(old, 0), counted(new, 50)), metric="bytes")
    assert found.verdict == verdict
    assert found.why in ("", f"{old} is now {new}")
    assert (found.worse, found.costs, found.speedup) != ()  # none divides by zero


def test_nothing_to_compare_is_no_success(rng, compared):
    import re

    sides = nights({"p2p": times(rng)}), nights({"p2p": times(rng)}, 50)
    assert compared(*sides, name=re.compile("no such test")).exit_code == 3


@pytest.mark.parametrize("verdict", [*c.VERDICTS, c.BELOW])
def test_every_verdict_can_fail(rng, compared, verdict):
    before = nights({name: times(rng) for name in ("same", "worse", "gone")})
    after = nights({"same": times(rng), "worse": times(rng, 1.5), "new": times(rng)}, 50)
    result = compared(before, after, fail_on=(verdict,))
    assert (result.exit_code != 0) == (result.count(verdict) > 0)


def test_a_middle_is_of_sessions(compared):
    many = [case(metrics={"time": 9.0}, run=run) for run in range(20)]
    before = [*nights({"p2p": [1.0, 2.0, 3.0, 4.0]}), (session(5), many)]
    assert row(compared(before, nights({"p2p": [1.0]}, 50))).before.median == 3.0


def test_few_jobs_are_not_called_one(compared):
    def jobs_of(first):
        return [(session(first), [case(metrics={"time": 1.0 + i}, run=i) for i in range(3)])]

    assert row(compared(jobs_of(0), jobs_of(9))).why == "3 and 3 jobs; 5 are needed"


def test_the_same_facts_in_another_order_are_no_change(compared):
    def mixed(names, first):
        return [
            content
            for i, name in enumerate(names)
            for content in nights({"p2p": [1.0 + i]}, first + i, facts={"MPI": name})
        ]

    assert compared(mixed("ab", 0), mixed("ba", 50)).changes == []


# ---- what changed, and where ----


def test_what_is_recorded_of_the_sides(rng, compared):
    before = nights({"p2p": times(rng)}, facts={"MPI": "Open MPI 4.1.4", "lock": "aa"})
    after = nights({"p2p": times(rng)}, first=50, facts={"MPI": "Open MPI 5.0.0", "lock": "aa"})
    assert compared(before, after).changes == [c.Change("MPI", "Open MPI 4.1.4", "Open MPI 5.0.0")]


def test_a_slow_node_is_named(rng, compared):
    def spread_over(slow, first):
        made = []
        for i in range(24):
            host = f"n{i % 6}"
            factor = 1.3 if slow and host == "n3" else 1.0
            made.append(
                (
                    session(first + i),
                    [
                        case(name, {"time": factor * float(times(rng, count=1, sigma=0.02)[0])},
                             hosts=[host])
                        for name in ("p2p", "shm", "direct")
                    ],
                )
            )  # fmt: skip
        return made

    # five jobs a node are the least: two sweeps of the nodes are added
    result = compared(spread_over(False, 0), spread_over(True, 100) + spread_over(True, 200))
    assert [s.node for s in result.suspects] == ["n3"]
    assert result.suspects[0].ratio == pytest.approx(1.3, rel=0.08)
    assert "node n3 stands out" in result.sentence


def test_network_bound_checks_are_told_from_compute(rng, compared):
    def sides(factor, first):
        return [
            (
                session(first + i),
                [
                    case("p2p", {"time": float(times(rng, factor, 1)[0]),
                                 "mpi_share": [0.7, "share", "lower"]}),
                    case("serial", {"time": float(times(rng, 1, 1)[0])}, control=True),
                ],
            )
            for i in range(20)
        ]  # fmt: skip

    result = compared(sides(1, 0), sides(1.14, 100))
    assert "on lab:cpu communication-bound checks are 1" in result.sentence
    assert "slower, compute is unchanged" in result.sentence


# ---- naming sessions ----


@pytest.fixture
def named(tmp_path):
    made = store(
        tmp_path / "store.db",
        [(session(i, tags={"tier": "nightly", "phase": "before" if i < 3 else "after"}), [])
         for i in range(6)],
        [(session(9, tags={"tier": "quick"}), [])],
    )  # fmt: skip
    yield made
    made.close()


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("latest", [9]),
        ("latest~1", [5]),
        ("2026-06-02", [1]),
        ("2026-06-02..2026-06-04", [1, 2, 3]),
        ("2026-06-05..", [4, 5, 9]),
        ("..2026-06-01", [0]),
        ("..", [0, 1, 2, 3, 4, 5, 9]),
        ("phase=before", [0, 1, 2]),
        ("00000004", [4]),
        ("latest~1,phase=before", [0, 1, 2, 5]),
        ("00000004-made-up", [4]),
    ],
)
def test_sessions_are_named(named, text, found):
    assert [int(s.uuid[:8], 16) for s in select(text, named)] == found


def test_earlier_is_of_the_same_kind(named):
    other = select("latest~1", named)
    assert [int(s.uuid[:8], 16) for s in select("earlier:2", named, other)] == [3, 4]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("nonsense", "'nonsense' names no session: there are 7, of 2026-06-01 to 2026-06-10"),
        ("2026-13-01", "'2026-13-01': no such day"),
        ("latest~7", "'latest~7': there are 7"),
        ("0000000", "begins 7 identifiers"),
        ("earlier", "'earlier' is before the other side"),
        ("phase=never", "names no session"),
        ("phase=None", "names no session"),
        ("a" * 5000, "names no session"),
        ("..9999-12-31", "no such day"),
    ],
)
def test_sessions_that_are_none(named, text, says):
    with pytest.raises(SelectionError, match=says.replace("(", r"\(")):
        select(text, named)


def test_identifiers_and_tags_are_taken_as_they_are(tmp_path):
    made = store(
        tmp_path / "store.db",
        [(session(0, session="1", tags={"branch": "mine/new"}), [])],
        [(session(1, session="10"), [])],
    )
    assert [s.uuid for s in select("1", made)] == ["1"]
    assert [s.uuid for s in select("branch=mine/new", made)] == ["1"]
    with pytest.raises(SelectionError):
        select("earlier:0", made, select("10", made))


def test_a_session_on_two_sides_is_refused(rng, tmp_path):
    made = store(tmp_path / "store.db", nights({"p2p": times(rng, count=4)}))
    options = {"expected_ratio": None, "control": None, "name": None, "fail_on": ()}
    for before, after, aa in (
        ("latest", "latest", None),
        ("latest~1", "latest", "latest"),
        ("latest~1", "latest", "latest~1"),
    ):
        asked = argparse.Namespace(before=before, after=after, aa=aa, **options)
        with pytest.raises(SelectionError, match="both have session"):
            compare_options(made, asked)


def test_empty_store(tmp_path):
    with pytest.raises(SelectionError, match="the store is empty"):
        select("latest", store(tmp_path / "store.db"))


def test_an_empty_session_is_told(rng, compared):
    result = compared(nights({"p2p": times(rng)}), [(session(50), [])])
    assert row(result).verdict == c.MISSING
    assert result.exit_code == 3


def test_settings_are_with_the_verdicts(rng, compared):
    result = compared(nights({"p2p": times(rng)}), nights({"p2p": times(rng)}, 50))
    assert result.settings["confidence"] == stats.CONFIDENCE


# ---- the command line ----


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """command(*arguments): (exit code, output, errors) on a store of 40 nights."""
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path))
    rng = np.random.default_rng(RNG)
    values = np.concatenate([times(rng), times(rng, 1.2)])
    store(tmp_path / "store.db", nights({"p2p": values, "shm": times(rng, count=40)})).close()

    def run(*arguments):
        try:
            code = main(list(arguments))
        except SystemExit as error:
            code = error.code
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


BEFORE, AFTER = "2026-06-01..2026-06-20", "2026-06-21..2026-07-10"


def test_exit_code_follows_fail_on(command):
    code, text, _ = command("compare", BEFORE, AFTER)
    assert code == 1
    assert "1 regressed, 1 unchanged (of 2 metrics)" in text
    assert "again: bisection run --tier nightly --system lab -n '^transpose%" in text
    assert command("compare", BEFORE, AFTER, "--fail-on", "missing")[0] == 0
    assert command("compare", BEFORE, AFTER, "--fail-on", "nothing")[0] == 0
    assert command("compare", BEFORE, AFTER, "-n", "shm")[0] == 0


def test_all_of_it_as_json(command, tmp_path):
    command("compare", BEFORE, AFTER, "--json", str(tmp_path / "all.json"))
    result = json.loads((tmp_path / "all.json").read_text())
    assert [row["verdict"] for row in result["rows"]] == [c.REGRESSED, c.UNCHANGED]
    assert len(result["before"]) == 20


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nonsense", "latest"], "error: 'nonsense' names no session: there are 40"),
        (["latest", "latest"], "error: 'latest' and 'latest' both have session 00000027"),
        (["2026-06-31", "latest"], "error: '2026-06-31': no such day"),
        (["no/such.jsonl", "latest"], "cannot read no/such.jsonl"),
        (["latest~1", "latest", "--aa", "never"], "error: 'never' names no session"),
        (["latest~1", "latest", "--expected-ratio", "0"], "ratio above zero value: '0'"),
        (["latest~1", "latest", "--expected-ratio", "nan"], "ratio above zero value: 'nan'"),
        (["latest~1", "latest", "--name", "("], "invalid regular expression value: '('"),
        (["latest~1", "latest", "--fail-on", "worse"], "'worse': allowed are regressed, "),
        (["latest~1", "latest", "--json", "/no/such/folder/x"], "/no/such/folder/x"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(command, arguments, says):
    code, _, errors = command("compare", *arguments)
    assert code == 2
    assert says in errors
    assert len([line for line in errors.splitlines() if "error:" in line]) == 1


def test_one_sample_is_no_verdict(command):
    code, text, _ = command("compare", "latest~1", "latest")
    assert code == 3
    assert command("compare", "latest~1", "latest", "--fail-on", "nothing")[0] == 0
    assert "2 inconclusive (of 2 metrics)" in text
    assert "1 against 1 sessions give no verdict on the machine" in text


def test_history_names_the_night(command):
    code, text, _ = command("history")
    assert code == 1
    assert "since 2026-06-2" in text  # an outlier the night before makes it that one
    assert "x1.2" in text
    assert "2 metrics in 40 sessions: 1 got worse, 0 better" in text


def test_history_of_few_nights(command):
    code, text, _ = command("history", "2026-06-01..2026-06-05")
    assert code == 3
    assert "a change of level needs 8 sessions" in text


@pytest.mark.parametrize("arguments", [["-n", "("], ["never"]])
def test_history_of_what_is_not_there(command, arguments):
    code, _, errors = command("history", *arguments)
    assert code == 2
    assert errors.startswith("bisection history: error: ")


def test_report_from_the_store(command, tmp_path):
    code, text, errors = command("report", BEFORE, AFTER, "-o", str(tmp_path / "out"))
    assert code == 1, errors
    assert "report.html: " in text
    page = (tmp_path / "out" / "report.html").read_text()
    assert "1 regressed" in page
    assert len(page) < 1_000_000


def test_report_that_cannot_be_written(command, tmp_path):
    (tmp_path / "file").touch()
    code, _, errors = command("report", BEFORE, AFTER, "-o", str(tmp_path / "file" / "x"))
    assert code == 2
    assert "Not a directory" in errors
