"""What takes a verdict back: the control, the A/A run, the baseline."""

import re

import numpy as np
import pytest
from made_up import case, nights, row, tables, times

from bisection.core.verdicts import Verdict
from bisection.judge import decision
from bisection.report.words import unsafe


def with_control(rng, ratio, control, first):
    """Nights of a time, and of the controls of its launch."""
    clock = case("clock", {"clock": [2.0 / control, "GHz", "higher"]}, control=True)
    content = nights({"p2p": times(rng, ratio), "serial": times(rng, control)}, first)
    for _, cases in content:
        cases[1]["control"] = True
        cases.append(clock)
    return content


@pytest.mark.parametrize(
    ("ratio", "control", "verdict", "reason", "code"),
    [
        (1.12, 1.12, Verdict.INCONCLUSIVE, "control shifted too", 1),
        (1.5, 1.12, Verdict.REGRESSED, None, 1),  # more than the control explains
        (1, 0.8, Verdict.INCONCLUSIVE, "unchanged, but the CPU-only", 3),  # the cores got faster
        (1.2, 1, Verdict.REGRESSED, None, 1),  # a quiet control
    ],
)
def test_a_drift_of_the_control_withholds_what_it_explains(
    rng, compared, ratio, control, verdict, reason, code
):
    result = compared(with_control(rng, 1, 1, 0), with_control(rng, ratio, control, 100))
    time = row(result)
    assert time.verdict == verdict
    assert (reason in str(time.reason)) if reason else time.reason is None
    assert ("CPU speed of " in unsafe(result)) == (control != 1)
    assert decision.of_comparison(result) == code
    if control > 1:
        assert row(result, "serial").verdict == Verdict.REGRESSED


def both(rng, ratio, other, first):
    """Nights of two times, by what they take longer."""
    return nights({"p2p": times(rng, ratio), "shm": times(rng, other)}, first)


@pytest.mark.parametrize("own", [False, True])
def test_a_named_control_counts(rng, compared, own):
    """For all launches, also beside their own ones, which are quiet."""
    sides = both(rng, 1, 1, 0), both(rng, 1.2, 1.2, 100)
    for _, cases in (*sides[0], *sides[1]):
        cases[1]["case"] = "other"
        cases += [case("serial", {"time": rng.normal(1, 0.001)}, control=True)] * own
    result = compared(*sides, control=re.compile("shm"))
    assert row(result, "shm").control
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
        content = tables({"transpose": times(rng, count=(40, 20))}, 1000 * seed, control=True)
        unsafe += bool(compared(content[:10], content[10:]).unsafe)
    assert unsafe <= 1


@pytest.mark.parametrize("ratio", [1.3, 5])
def test_a_a_takes_back_what_moves_by_itself_and_no_more(rng, compared, ratio):
    sides = both(rng, 1, 1, 0), both(rng, ratio, 1.3, 100)
    result = compared(*sides, aa=both(rng, 1.3, 1, 40))
    verdict = Verdict.INCONCLUSIVE if ratio == 1.3 else Verdict.REGRESSED
    assert (row(result).verdict, row(result, "shm").verdict) == (verdict, Verdict.REGRESSED)
    if ratio == 1.3:
        assert str(row(result).reason) == "but it moves by itself: the A/A run"
    assert "though nothing was changed" in unsafe(result)
    assert decision.of_comparison(result) == 1


def test_a_ratio_is_not_better_because_the_other_is_worse(rng, compared):
    def side(factor, first):
        content = both(rng, factor, 1, first)
        for _, cases in content:
            other, own = (test["metrics"]["time"][0] for test in cases)
            cases[1]["metrics"]["ratio_p2p"] = [own / other, "ratio", "lower"]
        return content

    result = compared(side(1, 0), side(1.4, 100))
    assert row(result).verdict == Verdict.REGRESSED
    assert row(result, "shm").verdict in (Verdict.UNCHANGED, Verdict.INCONCLUSIVE)
    ratio = row(result, "shm", "ratio_p2p")
    assert ratio.verdict == Verdict.INCONCLUSIVE
    assert "by what it is compared with" in str(ratio.reason)
