"""What takes a verdict back: the control, the A/A run, the baseline."""

import re

import numpy as np
import pytest
from made_up import case, nights, row, sessions, times

from bisection.core.reasons import Code
from bisection.core.verdicts import Verdict
from bisection.report.words import unsafe


def with_control(rng, ratio, control, first):
    """Nights of a time, and of the controls of its launch."""
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


@pytest.mark.parametrize(
    ("ratio", "control", "verdict", "reason", "code"),
    [
        (1.12, 1.12, Verdict.INCONCLUSIVE, Code.CORES_MOVED_TOO, 1),
        (1.5, 1.12, Verdict.REGRESSED, None, 1),  # more than the control explains
        (1, 0.8, Verdict.INCONCLUSIVE, Code.CORES_MOVED_ONLY, 3),  # the cores got faster
        (1.2, 1, Verdict.REGRESSED, None, 1),  # a quiet control
    ],
)
def test_a_drift_of_the_control_withholds_what_it_explains(
    rng, compared, ratio, control, verdict, reason, code
):
    result = compared(with_control(rng, 1, 1, 0), with_control(rng, ratio, control, 100))
    time = row(result)
    assert (time.verdict, time.reason and time.reason.code) == (verdict, reason)
    assert ("CPU speed of " in unsafe(result)) == (control != 1)
    assert result.exit_code == code
    if control > 1:
        assert row(result, "serial").verdict == Verdict.REGRESSED


def test_without_control_or_a_a_they_are_asked_for(rng, compared):
    few = {"p2p": times(rng, count=5)}
    result = compared(nights(few), nights(few, first=50))
    assert {note.code for note in result.advice} >= {Code.NO_AA, Code.NO_CONTROL}


def test_a_named_control_counts(rng, compared):
    before, after = {"dgemm": times(rng), "p2p": times(rng)}, {"dgemm": times(rng, 1.2)}
    after["p2p"] = times(rng, 1.2)
    result = compared(nights(before), nights(after, 100), control=re.compile("dgemm"))
    assert row(result, "dgemm").control
    assert row(result).verdict == Verdict.INCONCLUSIVE


def test_a_launchs_own_controls_say_whether_its_cores_moved(rng, compared):
    def sides(factor, others, first):
        own, other = with_control(rng, factor, 1, first), with_control(rng, 1, others, first)
        return [
            (line, [*cases, *({**test, "case": "other"} for test in more[1:])])
            for (line, cases), (_, more) in zip(own, other, strict=True)
        ]

    result = compared(sides(1, 1, 0), sides(1.12, 1.4, 100))
    assert row(result).verdict == Verdict.REGRESSED
    assert "CPU speed of " in unsafe(result)


def test_one_of_many_controls_does_not_move_by_chance(compared):
    unsafe = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        controls = (
            nights({f"c{j}": times(rng, count=10) for j in range(40)}, 1000 * seed + first)
            for first in (0, 100)
        )
        sides = (
            [(line, [{**test, "control": True} for test in cases]) for line, cases in side]
            for side in controls
        )
        unsafe += bool(compared(*sides).unsafe)
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
    assert row(result).reason.code == Code.MOVES_BY_ITSELF
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
    assert ratio.reason.code == Code.BASELINE_MOVED
