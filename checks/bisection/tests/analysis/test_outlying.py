"""One session beside the earlier ones: how often it is wrongly called slower, and what is found."""

import numpy as np
import pytest
from made_up import case, nights, noise, session

from bisection.analysis.outlying import outside
from bisection.core.verdicts import Verdict

SETS = 60  # nights that are simulated, each with its earlier ones


def simulated(rng, metrics, earlier, sigma=0.03, common=0.0, wander=0.0, outliers=0.0):
    """Logarithms of one night more than `earlier`, and of a retest on the last day.

    Args:
        rng: random numbers.
        metrics, earlier: how many.
        sigma: of the own noise of each metric, or "mixed": from 1% to 8%.
        common: of a factor of all metrics of a night, which the retest has in common with it.
        wander: the correlation of this factor from night to night.
        outliers: fraction of values that are slower by 1.1 to 2 times by themselves.

    Returns:
        [metrics, nights], [metrics].
    """
    own = rng.uniform(0.01, 0.08, (metrics, 1)) if sigma == "mixed" else sigma
    nights = earlier + 1
    factor = np.empty(nights)
    factor[0] = rng.normal(0, common)
    for night in range(1, nights):
        fresh = rng.normal(0, common * np.sqrt(1 - wander**2))
        factor[night] = wander * factor[night - 1] + fresh
    values = np.log(noise(rng, (metrics, nights + 1), own, outliers))
    return values[:, :-1] + factor, values[:, -1] + factor[-1]


def judged(rng, metrics, earlier, ratio=1.0, slow=0, **how):
    """Whether each metric of a night is outside, and whether its retest is too; the first `slow`
    metrics are slower by a ratio."""
    nights, again = simulated(rng, metrics, earlier, **how)
    nights[:slow, -1] += np.log(ratio)
    again[:slow] += np.log(ratio)
    hit, bound = outside(nights[:, :-1], nights[:, -1])
    return hit, hit & (again > bound)


@pytest.mark.parametrize(
    ("name", "how", "most"),
    [
        ("noise 3%", {}, 0),
        ("noise 1-8%", {"sigma": "mixed"}, 0),
        ("noise 3%, nights 5%", {"common": 0.05}, 1),
        ("noise 3%, nights 5% that wander", {"common": 0.05, "wander": 0.9}, 1),
        ("noise 3%, 5% outliers", {"outliers": 0.05}, 2),
    ],
)
@pytest.mark.parametrize(("metrics", "earlier"), [(200, 8), (2000, 8), (2000, 20)])
def test_false_alarms(name, how, most, metrics, earlier, told):
    rng = np.random.default_rng(20261122)
    nights = [judged(rng, metrics, earlier, **how) for _ in range(SETS)]
    first, both = (sum(night[step].any() for night in nights) for step in (0, 1))
    told.append(
        f"{metrics} metrics, {earlier} earlier, {name}: of {SETS} nights {first} retested, "
        f"{both} called slower"
    )
    assert both <= most


@pytest.mark.parametrize(
    ("earlier", "ratio", "slow", "sigma", "least"),
    [
        (5, 2.0, 100, 0.03, 0.9),
        (8, 1.5, 20, 0.03, 0.9),
        (8, 2.0, 1, 0.03, 0.9),
        (20, 1.3, 1, 0.03, 0.9),
        (20, 2.0, 1, "mixed", 0.9),
    ],
)
def test_what_is_found(earlier, ratio, slow, sigma, least, told):
    rng = np.random.default_rng(20261122)
    sets = [judged(rng, 2000, earlier, ratio, slow, sigma=sigma) for _ in range(SETS)]
    share = np.mean([both[:slow].mean() for _, both in sets])
    false = np.mean([both[slow:].sum() for _, both in sets])
    told.append(
        f"{slow} of 2000 metrics x{ratio}, noise {sigma}, {earlier} earlier: {share:.0%} found "
        f"twice, {false:.2f} others"
    )
    assert share >= least
    assert false <= 0.5


def test_retest_of_a_bad_day_agrees_with_it():
    """A factor of the whole day is in the retest too; noise of a metric's own is not."""
    rng = np.random.default_rng(5)
    days = [simulated(rng, 1, 8, common=0.05) for _ in range(400)]
    first, again = [night[0, -1] for night, _ in days], [value[0] for _, value in days]
    assert np.corrcoef(first, again)[0, 1] == pytest.approx(25 / (25 + 9), abs=0.1)
    days = [simulated(rng, 1, 8) for _ in range(400)]
    first, again = [night[0, -1] for night, _ in days], [value[0] for _, value in days]
    assert abs(np.corrcoef(first, again)[0, 1]) < 0.15


def test_catastrophe_beside_constant_and_missing_values():
    earlier = np.zeros((3, 6))
    earlier[1, 2] = np.nan
    new = np.log([1.05, 14.0, 1 / 14])
    hit, bound = outside(earlier, new)
    assert hit.tolist() == [False, True, False]
    assert np.exp(bound[0]) == pytest.approx(1.1)


def test_a_night_within_the_worst_earlier_one_is_inside():
    earlier = np.tile(np.log([1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 3.0]), (20, 1))
    hit, _ = outside(earlier, np.full(20, np.log(2.9)))
    assert not hit.any()


def test_what_others_slowed_down_is_suspect_too(compared):
    """A launch whose cores others had is not measured; what it showed is no reason to pass."""
    before = nights({"p2p": [1e-3] * 6})
    for number, value, suspect in ((9, 8e-3, True), (10, 1.05e-3, False)):
        after = [(session(number), [case(metrics={"time": value}, disturbed=0.5)])]
        (row,) = compared(before, after).rows
        assert row.verdict == Verdict.NOT_MEASURED
        assert (row.suspect, row.seen) == (suspect, value)
