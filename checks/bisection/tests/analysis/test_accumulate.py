"""How often histories of clean nights raise an alarm, and what is found after how many nights.

The tables are those of METHODS.md. `--full` simulates 100 sets of each noise.
"""

import numpy as np
import pytest
from made_up import DAY, EPOCH
from nights import NOISES, changed, kernels_of, nights
from scipy.stats import binom

from bisection.analysis import accumulate
from bisection.analysis.events import events_of
from bisection.store.database import Metric, Session, StoredTest

METRICS, NIGHTS = 2100, 60
METRIC = Metric("time", "s", "lower")


def events_in(logs, facts=lambda night: {}):
    """The events in logarithms of costs, [metrics, nights]."""
    kernels = kernels_of(len(logs))
    tests = [
        StoredTest("lab", "cpu", "system", f"kernel{k}", f"c{row}", "mpi", "p2p", "2x1", False, "")
        for row, k in enumerate(kernels)
    ]
    when = np.arange(logs.shape[1])
    histories = [(t, METRIC, when, np.exp(row)) for t, row in zip(tests, logs, strict=True)]
    sessions = [Session(f"{n:08x}", EPOCH + n * DAY, {}, facts(n), n) for n in when]
    return events_of(histories, sessions)[0]


def named(logs, rows):
    """Which of the metrics `rows` are worse, by the events in all."""
    worse = {p.case for event in events_in(logs) if event.alarm for p in event.worse}
    return np.array([f"c{row}" in worse for row in rows])


@pytest.mark.slow
@pytest.mark.parametrize("noise", NOISES)
def test_clean_nights(noise, told, full):
    rng = np.random.default_rng(20261122)
    sets = 100 if full else 2
    alarms = drifts = 0
    for _ in range(sets):
        events = events_in(nights(rng, noise, METRICS, NIGHTS))
        alarms += any(event.alarm for event in events)
        drifts += any(event.drift is not None for event in events)
    told.append(f"| {noise} | {alarms} | {drifts} | (of {sets})")
    assert alarms <= max(2, binom.isf(1e-3, sets, 0.02)) if full else alarms <= 1
    assert drifts == sets if noise.startswith("drift") else drifts <= 0.05 * sets


@pytest.mark.slow
@pytest.mark.parametrize(
    ("factor", "since", "within", "least"),
    [(1.05, 40, 20, 0.80), (1.10, 53, 7, 0.95), (1.20, 54, 5, 0.95)],
)
def test_a_change_in_one_metric_of_2100_is_found(factor, since, within, least, told, full):
    rng = np.random.default_rng(5)
    rows = np.arange(5, METRICS, 53)  # each a trial of its own, in another test
    seen = []
    for _ in range(10 if full else 2):
        logs = changed(nights(rng, "independent 3%", METRICS, since + within), factor, rows, since)
        looks = range(4, within + 1) if full else {within // 2, within - within // 7, within}
        seen.append(np.any([named(logs[:, : since + n], rows) for n in looks], axis=0))
    mean, trials = np.mean(seen), np.size(seen)
    told.append(f"| x{factor:.2f} | {since} | {within} | {mean:.1%} of {trials} |")
    assert mean * trials >= binom.ppf(1e-3, trials, least)


@pytest.mark.slow
@pytest.mark.parametrize("factor", [1.05, 1.07, 1.10])
def test_the_right_night(factor, told, full):
    """The operating system's kernel changed in that night, the compiler the night before, and the
    nodes are others every night."""
    rng = np.random.default_rng(6)

    def facts(night):
        old = {"operating system's kernel": str(night >= 40), "compiler": str(night >= 39)}
        return {**old, "nodes": str(rng.integers(1000))}

    def at_best(values):
        """Whether the three nights most probable together have the right one in their middle, for
        an observer who knows the noise, and both levels."""
        gain = np.log(factor) * (values - np.log(factor) / 2) / 0.03**2
        likelihood = np.exp((logs := np.cumsum(gain[::-1])[::-1]) - logs.max())
        return abs(np.convolve(likelihood, np.ones(3), "same").argmax() - 40) <= 1

    right, best, counts, sets = [], [], [0, 0, 0], 300 if full else 30
    for _ in range(sets):
        logs = changed(nights(rng, "independent 3%", 200, NIGHTS), factor, [17], 40)
        for event in events_in(logs, facts):
            if [p.case for p in event.points] == ["c17"]:
                right.append(abs(round((event.at - EPOCH) / DAY) - 40) <= 1)
                best.append(at_best(logs[17]))
                causes = {change.what for change in event.changes}
                counts[0] += "operating system's kernel" in causes
                counts[1] += bool(causes - {"operating system's kernel"})
                counts[2] += "nodes" in causes | {change.what for change, _ in event.candidates}
    told.append(
        f"| x{factor:.2f} | {len(right)} of {sets} | {np.mean(right):.1%} | {np.mean(best):.1%} "
        f"| {counts[0]} | {counts[1]} |"
    )
    assert np.mean(right) >= {1.05: 0.6, 1.07: 0.8, 1.10: 0.9}[factor]
    assert counts[1] <= max(1, 0.03 * sets)
    assert counts[2] == 0


def test_a_year_has_as_many_false_alarms_as_were_asked_for(told, full):
    """At 20 times the rate, so that there are some: as many nights as one look covers."""
    rng = np.random.default_rng(7)
    logs = rng.normal(0, 0.03, (600, 460 if full else 90))
    rate, began, last = 20.0, 0, {}
    chance = rate / 365 * 4.4
    for night in range(60, logs.shape[1]):
        window = logs[:, night - 60 : night]
        for row, finding in enumerate(accumulate.look(window, chance, table=True)):
            levels = [np.median(window[row, s.start : s.right]) for s in finding.shifts]
            if levels and levels[-1] > np.median(window[row, : finding.shifts[-1].start]):
                began += night - last.get(row, -99) > 30
                last[row] = night
    looks = logs.shape[1] - 60
    told.append(f"{looks} nights at {rate:g} false alarms a year: {began}")
    assert began <= binom.isf(1e-3, looks, rate / 365)


def test_a_level_that_was_taken_back_is_two_changes():
    rng = np.random.default_rng(1)
    logs = rng.normal(0, 0.03, (300, 60))
    logs[7, 20:40] += np.log(1.2)
    (finding,) = accumulate.look(logs, 0.01, table=True)[7:8]
    assert [abs(shift.start - at) <= 1 for shift, at in zip(finding.shifts, (20, 40), strict=True)]


def test_missing_nights_change_nothing():
    rng = np.random.default_rng(2)
    logs = changed(rng.normal(0, 0.03, (300, 60)), 1.2, [5], 30)
    logs[rng.random(logs.shape) < 0.2] = np.nan
    shifts = {row: f.shifts for row, f in enumerate(accumulate.look(logs, 0.01, True)) if f.shifts}
    assert list(shifts) == [5]
    known = np.flatnonzero(~np.isnan(logs[5]))
    assert abs(known[shifts[5][0].start] - 30) <= 2


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("shape", [(0, 60), (3, 0), (40, 7), (40, 8)])
def test_little_is_no_history(shape, table):
    findings = accumulate.look(np.zeros(shape), 0.01, table)
    assert [f.shifts for f in findings] == [[]] * shape[0]


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("nights", range(1, 16))
def test_a_short_history_of_noise_has_no_change(nights, table):
    logs = np.random.default_rng(nights).normal(0, 0.03, (40, nights))
    assert [f.shifts for f in accumulate.look(logs, 1e-6, table)] == [[]] * 40


def test_all_alike_and_all_missing_have_no_change():
    logs = np.zeros((50, 30))
    logs[1] = np.nan
    logs[2, 15:] = 1.0
    shifts = [f.shifts for f in accumulate.look(logs, 0.01, table=True)]
    assert shifts[:2] == [[], []]
