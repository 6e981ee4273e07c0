"""What takes a verdict back: the control, the A/A run, the baseline."""

import re

import numpy as np
from made_up import case, nights, row, sessions, times

from bisection.core.reasons import clause
from bisection.core.verdicts import Verdict
from bisection.report.words import unsafe, why


def with_control(rng, ratio, control, first):
    clock = {"clock": [2.0 / control, "GHz", "higher"]}
    return sessions(
        first,
        (
            [
                case(metrics={"time": t}),
                case("serial", {"time": s}, control=True),
                case("clock", clock, control=True),
            ]
            for t, s in zip(times(rng, ratio), times(rng, control), strict=True)
        ),
    )


def test_a_drift_of_the_control_withholds_the_verdict(rng, compared):
    before, after = with_control(rng, 1, 1, 0), with_control(rng, 1.12, 1.12, 100)
    result = compared(before, after)
    assert row(result).verdict == Verdict.INCONCLUSIVE
    assert "but the CPU-only control shifted too" in why(row(result))
    assert "CPU speed of " in unsafe(result)
    assert row(result, "serial").verdict == Verdict.REGRESSED
    assert result.exit_code == 1


def test_what_the_control_does_not_explain_stays(rng, compared):
    result = compared(with_control(rng, 1, 1, 0), with_control(rng, 1.5, 1.12, 100))
    assert row(result).verdict == Verdict.REGRESSED
    assert result.unsafe


def test_what_stays_while_the_cores_get_faster_is_not_unchanged(rng, compared):
    result = compared(with_control(rng, 1, 1, 0), with_control(rng, 1, 0.8, 100))
    assert row(result).verdict == Verdict.INCONCLUSIVE
    assert "unchanged, but the CPU-only control shifted" in why(row(result))
    assert result.exit_code == 3


def test_a_quiet_control_says_nothing(rng, compared):
    result = compared(with_control(rng, 1, 1, 0), with_control(rng, 1.2, 1, 100))
    assert row(result).verdict == Verdict.REGRESSED
    assert result.unsafe == []


def test_without_control_or_a_a_they_are_asked_for(rng, compared):
    few = {"p2p": times(rng, count=5)}
    result = compared(nights(few), nights(few, first=50))
    assert any(line.startswith("no A/A comparison") for line in map(clause, result.advice))
    assert any(line.startswith("no control") for line in map(clause, result.advice))


def test_a_named_control_counts(rng, compared):
    before, after = {"dgemm": times(rng), "p2p": times(rng)}, {"dgemm": times(rng, 1.2)}
    after["p2p"] = times(rng, 1.2)
    result = compared(nights(before), nights(after, 100), control=re.compile("dgemm"))
    assert row(result, "dgemm").control
    assert row(result).verdict == Verdict.INCONCLUSIVE


def test_a_launchs_own_controls_say_whether_its_cores_moved(rng, compared):
    def sides(factor, control, first):
        values = zip(times(rng, factor), times(rng), times(rng, control), strict=True)
        return sessions(
            first,
            (
                [
                    case(metrics={"time": own}),
                    case("serial", {"time": mine}, control=True),
                    case("serial", {"time": others}, control=True, case="other"),
                ]
                for own, mine, others in values
            ),
        )

    result = compared(sides(1, 1, 0), sides(1.12, 1.4, 100))
    assert row(result).verdict == Verdict.REGRESSED
    assert "CPU speed of " in unsafe(result)


def test_one_of_many_controls_does_not_move_by_chance(compared):
    unsafe = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)

        def sides(first, rng=rng, seed=seed):
            nightly = (
                [
                    case("serial", {"time": t}, control=True, case=f"c{j}")
                    for j, t in enumerate(times(rng, count=40))
                ]
                for _ in range(10)
            )
            return sessions(1000 * seed + first, nightly)

        unsafe += bool(compared(sides(0), sides(100)).unsafe)
    assert unsafe <= 1


def test_more_than_an_a_a_run_showed_stays(rng, compared):
    before, again = nights({"p2p": times(rng)}), nights({"p2p": times(rng, 1.1)}, 40)
    after = nights({"p2p": times(rng, 5)}, 100)
    result = compared(before, after, aa=again)
    assert (row(result).verdict, result.exit_code) == (Verdict.REGRESSED, 1)


def test_a_a_takes_back_what_moves_by_itself(rng, compared):
    before = nights({"p2p": times(rng), "shm": times(rng)})
    again = nights({"p2p": times(rng, 1.3), "shm": times(rng)}, first=40)
    after = nights({"p2p": times(rng, 1.3), "shm": times(rng, 1.3)}, first=100)
    result = compared(before, after, aa=again)
    assert row(result).verdict == Verdict.INCONCLUSIVE
    assert "the A/A run" in why(row(result))
    assert row(result, "shm").verdict == Verdict.REGRESSED
    assert "though nothing was changed" in unsafe(result)


def test_a_ratio_is_not_better_because_the_other_is_worse(rng, compared):
    def sides(factor, first):
        nightly = (
            [
                case("alltoallv", {"time": factor * t}),
                case("shm", {"time": s, "ratio_alltoallv": [s / factor / t, "ratio", "lower"]}),
            ]
            for t, s in zip(times(rng), times(rng), strict=True)
        )
        return sessions(first, nightly)

    result = compared(sides(1, 0), sides(1.4, 100))
    assert row(result, "alltoallv").verdict == Verdict.REGRESSED
    assert row(result, "shm").verdict in (Verdict.UNCHANGED, Verdict.INCONCLUSIVE)
    ratio = row(result, "shm", "ratio_alltoallv")
    assert ratio.verdict == Verdict.INCONCLUSIVE
    assert "by what it is compared with" in why(ratio)
