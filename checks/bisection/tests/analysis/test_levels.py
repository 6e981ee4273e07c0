"""How often histories of clean nights raise an alarm, and what is found after how many nights.

The tables are those of METHODS.md. `--full` simulates 25 sets of each noise.
"""

import math
from functools import partial
from itertools import product

import numpy as np
import pytest
from made_up import DAY, EPOCH
from nights import NOISES, REAL, changed, kernels_of, like_real_ones, lognormal
from scipy.stats import binom

from bisection.analysis.events import events_of
from bisection.analysis.histories import History
from bisection.analysis.night_tables import tables_of
from bisection.analysis.noise import levels
from bisection.analysis.power import nights_until
from bisection.report import words
from bisection.store.database import Metric, Session, StoredTest

METRICS, NIGHTS = 2100, 60
SEED = 20261126  # of the nights like real ones: no limit was chosen by these
METRIC, PLACE = Metric("time", "s", "lower"), ("lab", "cpu", "system")


def launch_of(row):
    """The number of the launch that measures a metric: ten in each."""
    return row // 10


def histories_of(logs, again=None):
    """Of logarithms of costs, [metrics, nights]; and of repeats: row -> night -> logarithms."""
    like, histories = ("2x1", False), []
    for row, kernel in enumerate(kernels_of(len(logs))):
        launch = f"kernel{kernel}", f"c{launch_of(row)}", "mpi"
        test = StoredTest(*PLACE, *launch, f"m{row}", *like)
        at = np.flatnonzero(~np.isnan(logs[row]))
        repeats = {night: np.exp(more) for night, more in (again or {}).get(row, {}).items()}
        histories.append(History(test, METRIC, at, np.exp(logs[row, at]), repeats))
    return histories


def sessions_of(nights, facts=lambda night: {}):
    return [Session(f"{n:08x}", EPOCH + n * DAY, {}, facts(n), n) for n in range(nights)]


def made_up(logs, again=None, **facts):
    return tables_of(histories_of(logs, again), sessions_of(logs.shape[1], **facts))


def events_in(logs, again=None, **facts):
    return events_of(made_up(logs, again, **facts))[0]


def suspects_in(logs, again=None):
    """The metrics that may have got worse lately, by their rows, the surest first."""
    points = [p for event in events_in(logs, again) for p in event.points if p.suspect]
    return [int(p.method[1:]) for p in sorted(points, key=lambda p: -p.errors)]


def named(logs, rows, again=None):
    """Which of the metrics `rows` are worse, by the events in all."""
    events = events_in(logs, again)
    worse = {p.method for event in events if event.alarm for p in event.worse}
    return np.array([f"m{row}" in worse for row in rows])


@pytest.mark.long
@pytest.mark.parametrize("noise", NOISES)
def test_clean_nights(noise, told, full):
    rng = np.random.default_rng(20261122)
    sets = 25 if full else 2
    alarms = drifts = 0
    for _ in range(sets):
        events = events_in(NOISES[noise](rng, (METRICS, NIGHTS)))
        alarms += any(event.alarm for event in events)
        drifts += any(event.drift is not None for event in events)
    told.append(f"| {noise} | {alarms} | {drifts} | (of {sets})")
    assert alarms <= max(2, binom.isf(1e-3, sets, 0.02)) if full else alarms <= 1
    assert drifts == sets if noise.startswith("drift") else drifts <= 0.05 * sets


# (least and most noise of a metric, step, nights by which it is found at least in half)
STEPS = [(0.0, 0.02, 1.10, 6), (0.02, 0.05, 1.10, 10), (0.05, 0.2, 1.20, 20)]
SLOW = {"states that last", "states beside AR(1)", "a sixth each"}  # steps as large as states


def otava_names(logs, rows, _=None, most=0.001):
    """Which of the metrics `rows` are worse, by Apache Otava with this limit; its default."""
    otava = pytest.importorskip("otava.analysis")
    series = [values[~np.isnan(values)].tolist() for values in np.exp(logs[rows])]
    points = [otava.compute_change_points(v, max_pvalue=most)[0] for v in series]
    return np.array([any(p.stats.mean_2 > p.stats.mean_1 for p in of_row) for of_row in points])


REPEATED, LAUNCHES = 10, 5  # metrics a night; launches of each, the first one among them
LAUNCHED = like_real_ones(launches=LAUNCHES, share=0.3)


def launched_again(again, launches, chosen, night):
    """Adds the repeats of some launches (their numbers) in a night."""
    for row in range(launches.shape[1]):
        if launch_of(row) in chosen and np.isfinite(launches[0, row, night]):
            again.setdefault(row, {})[night] = launches[1:, row, night]


def retested(launches, again, nights):
    """Adds the repeats of what is suspected after each of these nights, with a control."""
    for night in nights if len(launches) > 1 else ():
        worse = [*map(launch_of, suspects_in(launches[0, :, :night], again))]
        control = set(map(launch_of, range(launches.shape[1]))) - {*worse}
        chosen = {*worse[:REPEATED], *sorted(control)[:1]} if worse else ()
        launched_again(again, launches, chosen, night - 1)


@pytest.mark.long
@pytest.mark.parametrize(
    ("how", "noise"),
    [*product(["passive", "otava 1e-3", "otava 1e-7"], REAL), *product(["active"], LAUNCHED)],
)
def test_nights_like_real_ones(noise, how, told, full):
    """Metrics of each noise are slower in the last nights of 60, one look a night: four, or two if
    what is unusual is launched again."""
    sets, since, later = (40, 40, 20) if full else (2, 40, 10)
    names, active = named, how == "active"
    if how.startswith("otava"):
        names = partial(otava_names, most=float(how.split()[1]))
    alarms, delays = 0, {step: [] for step in STEPS}
    for seed in range(sets):
        rng = np.random.default_rng([SEED, seed])
        logs = (LAUNCHED if active else REAL)[noise](rng, (300, since + later))
        launches = logs if active else logs[None]
        repeats = {}
        retested(launches, repeats, range(20, since + 1))
        clean = {row: {**nights} for row, nights in repeats.items()}
        retested(launches, clean, range(since + 1, since + later + 1))
        alarms += names(launches[0], np.arange(300), clean).any()
        spread, slower = np.nanstd(launches[0], axis=1), {}
        for step in STEPS:
            of_step = np.flatnonzero((spread > step[0]) & (spread <= step[1]))
            for row in rng.permutation(of_step)[: 2 if active else 4]:
                slower[int(row)] = step
                launches[:, row, since:] += np.log(step[2])
        first, rows = dict.fromkeys(slower, np.inf), np.array(list(slower))
        for night in range(3 if how == "passive" else 1, later + 1):
            seen = slice(since + night)
            retested(launches, repeats, [seen.stop])
            hit = names(launches[0, :, seen], rows, repeats)
            first |= {row: min(first[row], night) for row in rows[hit].tolist()}
            if np.isfinite(list(first.values())).all():
                break
        for row, step in slower.items():
            delays[step].append(first[row])
    columns = [how, f"{alarms} of {sets}"]
    for few in delays.values():
        late = np.quantile(few, [0.5, 0.9], method="lower") if few else []
        text = ", ".join(f"{delay:.0f}" if np.isfinite(delay) else "later" for delay in late)
        columns.append(f"{np.isfinite(few).mean():.0%} of {len(few)}: {text}" if few else "")
    told.append(f"| {noise} | {' | '.join(columns)} |")
    if names is named:
        assert alarms <= max(1, binom.isf(1e-3, sets, 0.02))
        for (*_, enough), few in delays.items():
            if noise not in SLOW and few and full:
                assert np.median(few) <= enough


@pytest.mark.long
@pytest.mark.parametrize(
    ("factor", "since", "within", "least"),
    [(1.05, 40, 20, 0.50), (1.10, 53, 7, 0.90), (1.20, 54, 5, 0.95)],
)
def test_a_change_in_one_metric_of_2100_is_found(factor, since, within, least, told, full):
    rng = np.random.default_rng(5)
    rows = np.arange(5, METRICS, 53)  # each a trial of its own, in another test
    seen = []
    for _ in range(10 if full else 2):
        logs = changed(rng.normal(0, 0.03, (METRICS, since + within)), factor, rows, since)
        looks = range(4, within + 1) if full else {within // 2, within - within // 7, within}
        seen.append(np.any([named(logs[:, : since + n], rows) for n in looks], axis=0))
    mean, trials = np.mean(seen), np.size(seen)
    told.append(f"| x{factor:.2f} | {since} | {within} | {mean:.1%} of {trials} |")
    assert mean * trials >= binom.ppf(1e-3, trials, least)


@pytest.mark.long
@pytest.mark.parametrize("factor", [1.05, 1.07, 1.10])
def test_the_right_night(factor, told, full):
    """The operating system's kernel changed in that night, the compiler the night before, and the
    nodes are others every night."""
    rng = np.random.default_rng(6)

    def facts(night):
        old = {"operating system's kernel": str(night >= 40), "compiler": str(night >= 39)}
        return {**old, "nodes": str(rng.integers(1000))}

    seen, sets = [], 300 if full else 30  # of each event found: whether so
    for _ in range(sets):
        logs = changed(rng.normal(0, 0.03, (200, NIGHTS)), factor, [17], 40)
        for event in events_in(logs, facts=facts):
            if [p.method for p in event.points] == ["m17"]:
                right = abs(round((event.at - EPOCH) / DAY) - 40) <= 1
                causes = {change.what for change in event.changes}
                others = causes - {"operating system's kernel"}
                seen.append((right, causes > others, bool(others)))
                assert "nodes" not in causes | {change.what for change, _ in event.candidates}
    right, named, wrong = np.mean(seen, axis=0)
    told.append(
        f"| x{factor:.2f} | {len(seen)} of {sets} | {right:.1%} "
        f"| {named * len(seen):.0f} | {wrong * len(seen):.0f} |"
    )
    assert right >= {1.05: 0.6, 1.07: 0.8, 1.10: 0.9}[factor]
    assert wrong * len(seen) <= max(1, 0.03 * sets)


def test_a_year_has_as_many_false_alarms_as_were_asked_for(told, full):
    """At 20 times the rate, so that there are some: as many nights as one look covers."""
    rng = np.random.default_rng(7)
    logs = rng.normal(0, 0.03, (600, 460 if full else 90))
    rate, began, last = 20.0, 0, {}
    for night in range(60, logs.shape[1]):
        for row, of_row in enumerate(levels(logs[:, night - 60 : night], rate)):
            if of_row.new and of_row.new[-1].alarm:
                began += night - last.get(row, -99) > 30
                last[row] = night
    looks = logs.shape[1] - 60
    told.append(f"{looks} nights at {rate:g} false alarms a year: {began}")
    assert began <= binom.isf(1e-3, looks, rate / 365)


@pytest.mark.parametrize(
    ("noise", "seed"),
    [
        ("states that last", [7, 0]),
        ("AR(1) 0.7, 3%, per metric", [7, 0]),
        ("clock ticks", [77, 194]),
        ("variance that changes", [7, 0]),
    ],
)
def test_levels_that_come_and_go_few_ticks_and_loud_nights_are_no_alarm(noise, seed):
    logs = (NOISES | REAL)[noise](np.random.default_rng(seed), (300, 60))
    assert not any(event.alarm for event in events_in(logs))


@pytest.mark.parametrize(("lasting", "found"), [(3, True), (60, False)])
def test_states_of_few_metrics_hide_no_step_of_others(lasting, found):
    """States as far apart count where 1% of the metrics of a table have them."""
    logs = np.random.default_rng(11).normal(0, 0.01, (400, 60))
    states = np.arange(60) // 6 % 2 * np.log(1.3)
    logs[:lasting] += [np.roll(states, 2 * row) for row in range(lasting)]
    assert named(changed(logs, 1.3, [200], 45), [200]).all() == found


def test_a_step_in_years_of_nights_is_found():
    logs = np.random.default_rng(2).normal(0, 0.02, (40, 1100))
    (event,) = events_in(changed(logs, 1.3, [7], 600))
    assert int(event.session, 16) == 600


@pytest.mark.parametrize(
    ("better_for", "later", "factor", "state"),
    [(6, 20, 1.0, "back"), (6, 20, 1.2, "worse"), (35, 10, 1.0, "worse")],
)
def test_better_then_back_is_no_alarm(better_for, later, factor, state):
    """Unless it is worse than it was, or both levels lasted for weeks."""
    logs = np.random.default_rng(3).normal(0, 0.02, (60, 30 + better_for + later))
    logs[7, 30 : 30 + better_for] -= np.log(1.5)
    events = events_in(changed(logs, factor, [7], 30 + better_for))
    events = [event for event in events if any(p.method == "m7" for p in event.points)]
    states = {int(event.session, 16): words.state(event) for event in events}
    assert states == {30: "better", 30 + better_for: state}
    assert any(event.alarm for event in events) == (state == "worse")


@pytest.mark.parametrize(
    ("earlier", "later", "alarm"), [(1, 5, True), (5, 9, False), (5, 30, True)]
)
def test_a_spike_as_high_hides_no_step_and_some_nights_hide_it_for_four_weeks(
    earlier, later, alarm
):
    logs = np.random.default_rng(3).normal(0, 0.02, (60, 60 + later))
    logs[7, 20 : 20 + earlier] += np.log(1.16)
    assert named(changed(logs, 1.16, [7], 60), [7]).all() == alarm


def test_a_step_is_found_beside_weekends_as_large():
    logs = REAL["weekends"](np.random.default_rng([7, 1]), (300, 48))
    row = np.argmin(np.abs(np.nanstd(logs, axis=1) - 0.05))
    assert named(changed(logs, 1.10, [row], 40), [row]).all()


def test_half_of_the_steps_are_found_when_it_is_said(rng):
    night, rows = nights_until(math.log(1.10), 0.035, 0.0, 300), range(0, 300, 20)
    shares = [
        np.mean([
            named(changed(lognormal(0.035)(rng, (300, 40 + night + later)), 1.10, rows, 40), rows)
            for _ in range(3)
        ])
        for later in (-2, 0, 3)
    ]  # fmt: skip
    assert shares[0] < 0.5 < shares[2]
    assert 0.25 < shares[1] < 0.85


def test_a_step_is_found_beside_a_spike_and_in_a_loud_table():
    logs = np.random.default_rng(5).normal(0, 0.01, (300, 50))
    logs[7, 47] += np.log(3)
    assert named(changed(logs, 1.08, [7], 42), [7]).all()
    logs = np.random.default_rng(3).normal(0, 0.05, (300, 44))
    logs[7] /= 10
    assert named(changed(logs, 1.05, [7], 40), [7]).all()


def five_launches(sigma):
    """Those of 100 metrics in 42 nights."""
    return np.random.default_rng(4).normal(0, sigma, (5, 100, 42))


def repeated(launches, chosen=lambda night: {0, 1 + night % 9}):
    """The repeats of some launches in each of the last 22 nights."""
    again = {}
    for night in range(20, 42):
        launched_again(again, launches, chosen(night), night)
    return again


def test_two_nights_of_several_launches_show_a_step():
    launches = five_launches(0.03)
    launches[:, 7, 40:] += np.log(1.2)
    assert not named(launches[0], [7]).any()
    hit = named(launches[0], np.arange(100), repeated(launches))
    assert hit.nonzero()[0].tolist() == [7]


def test_a_night_that_its_repeats_do_not_show_is_no_level():
    launches = five_launches(0.02)
    launches[0, 7, 39:] += 0.3
    assert named(launches[0], [7]).all()
    assert not named(launches[0], [7], repeated(launches)).any()


@pytest.mark.parametrize("slower", [-0.03, 0.03])
def test_a_machine_that_changed_before_the_retest_is_no_step(slower):
    launches = five_launches(0.01)
    launches[1:] += slower
    assert not events_in(launches[0], repeated(launches, lambda _: {0, 1, 2}))


def test_a_launch_all_of_which_is_slower_is_no_slower_machine():
    launches = five_launches(0.02)
    launches[:, :10, 38:] += 0.08
    slower = named(launches[0], np.arange(100), repeated(launches))
    assert slower[:10].sum() > 5
    assert not slower[10:].any()


def test_ratios_do_not_change_with_the_machine_and_rates_do():
    launches = five_launches(0.01)
    launches[1:] += 0.1
    launches[1:, 8] -= 0.1
    again = {}
    launched_again(again, launches, {0, 1, 2}, 41)
    table = histories_of(launches[0], again)
    table[8] = table[8]._replace(metric=Metric("ratio", "ratio", "lower"))
    rate = {"values": 1 / table[9].values, "again": {41: 1 / table[9].again[41]}}
    table[9] = table[9]._replace(metric=Metric("bandwidth", "B/s", "higher"), **rate)
    (every,) = tables_of(table, sessions_of(42))
    assert np.abs(every.apart[:30, -1]).max() < 0.04
    assert np.isfinite(every.mildest[:, -1]).tolist() == [True] * 30 + [False] * 70
    few = [each if row in (8, 9) else each._replace(again={}) for row, each in enumerate(table)]
    (alone,) = tables_of(few, sessions_of(42))
    assert np.flatnonzero(np.isfinite(alone.mildest[:, -1])).tolist() == [8]


def test_suspect_is_what_got_worse_lately_and_is_not_sure():
    rng = np.random.default_rng(5)
    logs = rng.normal(0, 0.03, (100, 40))
    logs[5, -2:] = 0.2
    logs[6, :-2] += 0.4 * (np.arange(38) % 4 == 0)  # two states
    logs[6, -1] = 0.4
    chosen = suspects_in(changed(logs, 1.3, [4], 30))
    assert 5 in chosen
    assert not {4, 6} & set(chosen)


def test_what_never_varied_did_not_get_worse_where_all_else_got_better(rng):
    """As a method's ratio to itself, and the others' once that method is slower."""
    logs = rng.normal(0, 0.01, (120, 40)) + rng.normal(0, 0.01, 40)
    logs[:, -2:] -= 0.04
    logs[:4] = 0
    assert not {0, 1, 2, 3} & set(suspects_in(logs))


def test_what_recovered_or_was_accepted_and_got_worse_again_is_an_alarm():
    logs = np.random.default_rng(9).normal(0, 0.03, (100, 80))
    logs[3, 20:56] += 0.3  # recovered
    logs[[4, 5], 30:] += 0.3
    assert {p.method for event in events_in(logs) for p in event.worse} == {"m4", "m5"}
    logs[[3, 4], -6:] += 0.6
    newest = {p.method for event in events_in(logs) for p in event.worse if p.after == 6}
    assert newest == {"m3", "m4"}


@pytest.mark.parametrize("missing", [0, 0.2])
@pytest.mark.parametrize(("factor", "until"), [(1.2, 40), (1.4, 32)])
def test_a_level_that_was_taken_back_is_two_changes_with_nights_missing_too(factor, until, missing):
    rng = np.random.default_rng(2)
    logs = changed(rng.normal(0, 0.03, (300, 60)), factor, [7], 20)
    logs[7, until:] -= np.log(factor)
    logs[rng.random(logs.shape) < missing] = np.nan
    every = {row: each.new for row, each in enumerate(levels(logs))}
    seen = {row: new for row, new in every.items() if any(level.sure for level in new)}
    assert list(seen) == [7]
    known = np.flatnonzero(~np.isnan(logs[7]))
    starts = [known[level.start] for level in seen[7]]
    assert starts == pytest.approx([20, until], abs=2)


@pytest.mark.parametrize("shape", [(0, 60), (3, 0), *((40, nights) for nights in range(1, 16))])
def test_little_and_a_short_history_of_noise_have_no_change(shape):
    noise = np.random.default_rng(shape[1]).normal(0, 0.03, shape)
    missing = np.zeros(shape)
    missing[::2] = np.nan
    for logs in (noise, np.zeros(shape), missing):
        assert [each.new for each in levels(logs, 1e-3)] == [[]] * shape[0]
