"""How often verdicts are wrong, and what they find: simulated, with a fixed seed, and printed.

Without --full few sets are made: bounds then allow for what so few may show.
"""

import numpy as np
import pytest
from nights import NOISES, REAL, changed, in_state, kernels_of
from scipy.stats import binom

from bisection.analysis.judging import adjusted, decide
from bisection.analysis.power import Power
from bisection.analysis.shared_factors import ALL, evidence
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict

SETS = {200: (3, 100), 2100: (1, 100)}  # metrics of a table -> sets, and with --full
KERNELS = {200: 4, 2100: 7}
FACTORS = ((5, 1.10), (5, 1.20), (10, 1.05), (10, 1.10), (20, 1.05), (20, 1.10))


def judged(logs, kernels=None, nights=None):
    """The verdicts of a table [metrics, nights], so many before, or half; shared changes."""
    before, after = np.split(logs, [nights or logs.shape[1] // 2], axis=1)
    kernels = kernels_of(len(logs), kernels or KERNELS[len(logs)])
    seen, shared = evidence(before, after, kernels, np.zeros(len(logs), bool))
    verdicts = decide(seen, *adjusted([seen]))
    for each in shared:
        verdicts[each.metrics] = Verdict.REGRESSED if each.estimate > 0 else Verdict.IMPROVED
    return verdicts, shared, seen


def simulated(seed, sets, noise, metrics, count, slow=(), factor=1.0):
    """So many tables, judged, of so many nights a side; some metrics are slower by a factor."""
    rng = np.random.default_rng(seed)
    for _ in range(sets):
        logs = NOISES[noise](rng, (metrics, 2 * count), KERNELS[metrics])
        yield judged(changed(logs, factor, slow, count))


def is_changed(verdicts):
    return np.isin(verdicts, (Verdict.REGRESSED, Verdict.IMPROVED))


def at_most(share, sets):
    """How many of so many sets may be wrong, if this share is."""
    return binom.ppf(0.999, sets, share)


@pytest.mark.parametrize("metrics", SETS)
@pytest.mark.parametrize("count", [10, 20])
@pytest.mark.parametrize("noise", NOISES)
def test_nothing_changed(noise, count, metrics, told, full):
    sets = SETS[metrics][full]
    reports = events = rows = 0
    for verdicts, shared, _ in simulated(metrics + count, sets, noise, metrics, count):
        wrong = is_changed(verdicts)
        reports, events, rows = reports + wrong.any(), events + bool(shared), rows + wrong.sum()
    told.append(
        f"| {noise} | {metrics:,} | {count} | {reports / sets:.1%} | {events / sets:.1%} | "
        f"{rows / sets / metrics:.3%} | {sets} |"
    )
    assert reports <= at_most(0.05, sets)
    assert events <= at_most(0.01, sets)


@pytest.mark.parametrize("nights", [10, 20, 40])
@pytest.mark.parametrize("noise", REAL)
def test_nights_like_real_ones(noise, nights, told, full):
    """So many before, ten after. Nothing changed; and one metric, with noise of 2 to 5% there."""
    sets, rng = (400 if full else 5), np.random.default_rng([20261126, nights])
    reports = detected = unchanged = 0
    for _ in range(sets):
        logs = REAL[noise](rng, (300, nights + 10), 7)
        known = [np.isfinite(side).sum(axis=1) for side in np.split(logs, [nights], axis=1)]
        logs = logs[np.min(known, axis=0) >= LIMITS.fewest]
        reports += is_changed(judged(logs, 7, nights)[0]).any()
        sides = np.split(logs, [nights], axis=1)
        spread = np.mean([np.nanstd(side, axis=1, ddof=1) for side in sides], axis=0)
        number = rng.choice(np.flatnonzero((spread > 0.02) & (spread < 0.05)))
        verdict = judged(changed(logs, 1.10, number, nights), 7, nights)[0][number]
        detected += verdict == Verdict.REGRESSED
        unchanged += verdict == Verdict.UNCHANGED
    shares = " | ".join(f"{count / sets:.1%}" for count in (reports, detected, unchanged))
    told.append(f"| {noise} | {nights} | {shares} |")
    assert reports <= at_most(0.02, sets)
    assert unchanged <= at_most(0.005, sets)
    if noise == "unequal noise and tails":
        assert detected >= sets - at_most(0.3 if nights == 10 else 0.15, sets)


@pytest.mark.parametrize(
    ("kept", "factor", "verdict"),
    [
        (0.7, 1.15, Verdict.INCONCLUSIVE),  # as large as states that last
        (0.7, 1.6, Verdict.REGRESSED),
        (0.0, 1.15, Verdict.REGRESSED),  # states of independent nights
    ],
)
def test_a_shift_as_large_as_states_that_last_is_no_change(rng, kept, factor, verdict):
    logs = rng.normal(0, 0.015, (300, 30))
    logs[100:130] += np.log(1.15) * in_state(rng, (30, 30), 0.3, kept)
    verdicts, *_ = judged(changed(logs, factor, 7, 20), 7, 20)
    assert verdicts[7] == verdict
    assert not is_changed(np.delete(verdicts, 7)).any()


@pytest.mark.parametrize(("count", "factor"), FACTORS)
@pytest.mark.parametrize("noise", ["independent 3%", "independent, metrics of 1 to 8%"])
def test_what_changed_is_found(noise, count, factor, told, full):
    """One of 200 metrics; and all of one of four kernels."""
    sets = 200 if full else 5
    detected = others = whole = elsewhere = 0
    for verdicts, _, _ in simulated(11, sets, noise, 200, count, 17, factor):
        detected += verdicts[17] == Verdict.REGRESSED
        others += is_changed(np.delete(verdicts, 17)).any()
    for _, shared, _ in simulated(11, sets, noise, 200, count, kernels_of(200) == 1, factor):
        whole += any(each.kernel == 1 and each.estimate > 0 for each in shared)
        elsewhere += any(each.kernel != 1 for each in shared)
    told.append(
        f"| {noise} | {count} | x{factor:.2f} | {detected / sets:.1%} | {others / sets:.1%} | "
        f"{whole / sets:.1%} | {elsewhere / sets:.1%} |"
    )
    assert others <= at_most(0.05, sets)
    assert elsewhere <= at_most(0.01, sets)
    if noise == "independent 3%" and count >= 10:
        assert whole >= sets - at_most(0.01, sets)
        if factor == 1.10:
            assert detected >= sets - at_most(0.05, sets)


def test_what_all_metrics_share_is_one_finding(told, full):
    sets, right = (100 if full else 5), 0
    for _, shared, _ in simulated(13, sets, "independent 3%", 200, 10, slice(None), 1.05):
        right += [each.kernel for each in shared] == [ALL] and len(shared[0].metrics) > 180
    told.append(f"all of 200 metrics x1.05, noise 3%, 10 a side: one finding in {right / sets:.1%}")
    assert right >= sets - at_most(0.01, sets)


STATES = "20% of nights 1.3 times slower, per metric"


@pytest.mark.parametrize(
    ("seed", "noise", "metrics", "count", "sets", "missed"),
    [(12, "independent 3%", 2100, 10, 3, 0.15), (14, STATES, 200, 20, 10, 0.10)],
)
def test_one_metric_is_found(seed, noise, metrics, count, sets, missed, told, full):
    """Of many; and where each night is in one of two states, and the level x1.10 in both."""
    sets, detected, named = (100 if full else sets), 0, 0
    for verdicts, _, seen in simulated(seed, sets, noise, metrics, count, 17, 1.10):
        detected += verdicts[17] == Verdict.REGRESSED
        named += seen.states.two.mean()
    told.append(
        f"one of {metrics:,} metrics x1.10, {noise}, {count} a side: found {detected / sets:.1%}; "
        f"two states seen in {named / sets:.0%}"
    )
    assert detected >= sets - at_most(missed, sets)
    assert noise != STATES or named >= 0.9 * sets


@pytest.mark.parametrize(("sigma", "count"), [(0.03, 10), (0.03, 20), (0.08, 20)])
def test_power_is_as_promised(sigma, count, told, full):
    """What `compare` says that it sees is found as often as it says."""
    effect = Power(sigma, 0.0, 200).visible(count, count)
    sets, slow = (100 if full else 10), [3, 60, 110, 190]
    tables = simulated(15, sets, f"independent {sigma:.0%}", 200, count, slow, 1 + effect)
    share = np.mean([verdicts[slow] == Verdict.REGRESSED for verdicts, _, _ in tables])
    told.append(f"noise {sigma:.0%}, {count} a side: {effect:.1%} promised, found in {share:.1%}")
    assert share >= LIMITS.seen - (0.03 if full else 0.15)


def test_nights_for_an_effect_are_those_that_see_it():
    power = Power(0.03, 0.0, 200)
    nights_needed = power.needed(0.05)
    assert power.visible(nights_needed, nights_needed) <= 0.05
    assert power.visible(nights_needed - 1, nights_needed - 1) > 0.05
    assert Power(0.03, 0.7, 200).needed(0.05) > 2 * nights_needed  # nights that resemble others
    assert Power(0.5, 0.9, 200).needed(0.01) is None
