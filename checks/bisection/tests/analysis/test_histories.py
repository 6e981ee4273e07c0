"""Histories of made-up nights: events, since when, and what changed with them."""

import shlex

import numpy as np
import pytest
from made_up import DAY, EPOCH, case, nights, noise, session, sessions, store, tables

from bisection.analysis.events import events_of
from bisection.analysis.histories import drawn, histories, regular
from bisection.analysis.model import Change
from bisection.analysis.night_tables import tables_of
from bisection.core.reasons.base import clause
from bisection.core.verdicts import Verdict
from bisection.judge import alarms
from bisection.judge.alarms import alarms_of
from bisection.report import words as happened
from bisection.report.comparison_text import history_text
from bisection.store.database import Session
from bisection.store.nights import Nights
from bisection.store.selection import select


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def steps(rng, *levels, each=20, sigma=0.03):
    """Times of nights on one level after another."""
    return np.concatenate([1e-3 * level * noise(rng, each, sigma) for level in levels])


def looked_at(stored):
    """The events, the series with changes, the notes."""
    past, sessions = histories(stored, stored.sessions()), stored.sessions()
    events, notes = events_of(tables_of(past, sessions))
    return events, [*drawn(past, sessions, events)], notes


def night_of(event):
    return int(event.session[:8], 16)


KERNELS = ("transpose", "network", "npar", "md")


def kernels(rng, of=("transpose",), by=(1.2,) * 24, since=40, after=20):
    """Nights of four checks with 24 metrics each, or as many as factors by which those of some
    checks are slower from a night on."""
    logs = rng.normal(0, 0.03, (4, len(by), since + after))
    for name in of:
        logs[KERNELS.index(name), :, since:] += np.log(by)[:, None]
    return tables(dict(zip(KERNELS, 1e-3 * np.exp(logs), strict=True)))


def test_a_bandwidth_that_falls_is_worse_since_the_night_and_one_folder_is_not_another(
    rng, tmp_path
):
    levels = {"/scratch": 1 / steps(rng, 1, 1.3), "/home": 1 / steps(rng, 1, 1)}
    rates = [
        [
            case("root", {"bandwidth_write": [1e6 * rate, "B/s", "higher"]}, check="restart",
                 case=f"waves-mini@{folder}")
            for folder, rate in zip(levels, night, strict=True)
        ]
        for night in zip(*levels.values(), strict=True)
    ]  # fmt: skip
    (event,), *_ = looked_at(store(tmp_path / "store.db", sessions(0, rates)))
    (point,) = event.points
    assert (night_of(event), point.verdict) == (20, Verdict.REGRESSED)
    assert (point.metric, point.case) == ("bandwidth_write", "waves-mini@/scratch")


def test_first_bad_session_and_what_differed(rng, tmp_path):
    """Nights of two systems take turns in one store."""
    facts = {"MPI": "4.1", "CPU": "a"}
    before = nights({"p2p": steps(rng, 1), "shm": steps(rng, 1)}, facts=facts)
    facts = {"MPI": "5.0", "CPU": "a"}
    after = nights({"p2p": steps(rng, 1.15), "shm": steps(rng, 0.8)}, 20, facts=facts)
    theirs = [
        (session(100 + i, start=line["start"] + 3600.0, facts={"CPU": "b"}),
         [case(metrics={"time": 1e-3}, system="other")])
        for i, (line, _) in enumerate([*before, *after])
    ]  # fmt: skip
    stored = store(tmp_path / "store.db", before, after, theirs)
    (event, other), every, _ = looked_at(stored)
    series = [each for each in every if each.system == "lab"]
    assert (event.system, other.system) == ("lab", "lab")
    assert night_of(event) == night_of(other) == 20
    (worse,), (better,) = event.points, other.points
    assert (worse.verdict, better.verdict) == (Verdict.REGRESSED, Verdict.IMPROVED)
    assert event.changes == other.changes == [Change("MPI", "4.1", "5.0")]
    assert (worse.ratio, worse.before, worse.after) == (pytest.approx(1.15, rel=0.03), 20, 20)
    assert [s.points for s in series] == [[20], [20]]
    text = "\n".join(history_text([event], histories(stored, stored.sessions()), 40))
    assert "worse since 2026-06-21, 20 nights, on lab:cpu, session" in text
    assert "changed then: MPI: 4.1 -> 5.0" in text


@pytest.mark.parametrize("of", [("transpose",), KERNELS])
def test_a_kernel_and_the_whole_machine_are_one_event(rng, tmp_path, of):
    (event,), _, _ = looked_at(store(tmp_path / "store.db", kernels(rng, of)))
    assert (night_of(event), event.metrics) == (40, dict.fromkeys(of, (24, 24)))
    (alarm,) = alarms_of([event])
    assert happened.banner([alarm]) == f"{24 * len(of)} metrics worse since 2026-07-11"
    counts = {name: (changed, of) for name, changed, of, *_ in alarm.checks}
    assert counts == dict.fromkeys(of, (24, 24))
    assert clause(alarm).endswith("; nothing recorded changed then")


def test_the_banner_names_the_event_of_most_metrics(rng, tmp_path):
    """One metric began days before."""
    content = kernels(rng)
    for _, cases in content[30:]:
        cases[-1]["metrics"]["time"][0] *= 1.3
    events, _, _ = looked_at(store(tmp_path / "store.db", content))
    assert [night_of(event) for event in events] == [40, 30]
    banner = happened.banner([*alarms_of(events)])
    assert banner == "24 metrics worse since 2026-07-11, and 1 more alarm"


def test_drift_is_no_step(rng, tmp_path):
    content = kernels(rng, of=())
    for night, (_, cases) in enumerate(content):
        for each in cases:
            each["metrics"]["time"][0] *= 1.0015**night
    (event,), _, _ = looked_at(store(tmp_path / "store.db", content))
    assert event.drift == pytest.approx(1.0015, rel=2e-4)
    assert not event.alarm
    text = "\n".join(history_text([event], [], 60, all_metrics=True))
    assert "0.15% a night slower" in text


def test_what_may_have_been_the_cause_has_odds(rng, tmp_path):
    """A metric of 3% noise that became 6% slower, and two changes in two nights."""
    content = kernels(rng, of=())
    for _, cases in content[40:]:
        cases[7]["metrics"]["time"][0] *= 1.06
    for night, (line, _) in enumerate(content):
        line["facts"] = {"MPI": str(night >= 40), "compiler": str(night >= 39)}
        line["facts"]["nodes"] = f"n{night % 7}, n{night % 5}"
    (event,), _, _ = looked_at(store(tmp_path / "store.db", content))
    assert event.changes == []
    assert {change.what for change, _ in event.candidates} <= {"MPI", "compiler"}
    assert 0 < sum(odds for _, odds in event.candidates) <= 1
    assert event.first <= event.at <= event.last


@pytest.mark.parametrize(
    ("levels", "bad", "began"), [((1, 1.3, 1), [], [20, 40]), ((1, 1), [7, 22, 30], [])]
)
def test_what_recovered_and_single_bad_nights_are_no_alarm(rng, tmp_path, levels, bad, began):
    values = steps(rng, *levels)
    values[bad] *= 1.8
    events, _, _ = looked_at(store(tmp_path / "store.db", nights({"p2p": values})))
    assert sorted(map(night_of, events)) == began
    assert not any(event.alarm for event in events)


def partly_slower(seed, after=10):
    """Nights of four checks of ten metrics; from night 20 on seven of transpose are slower, by 20%
    and by 12%, and three are as before."""
    by = [1.2] * 3 + [1.12] * 4 + [1] * 3
    return kernels(np.random.default_rng(seed), by=by, since=20, after=after)


def test_a_metric_as_before_is_not_counted_with_its_kernel(tmp_path):
    """What a metric has beside its kernel steps back when the kernel steps up. Before that was
    known, 9 of these 20 histories counted an unchanged metric."""
    worse, wrong = 0, []
    for seed in range(20):
        with store(tmp_path / f"{seed}.db", partly_slower(seed)) as stored:
            points = [point for event in looked_at(stored)[0] for point in event.points]
        slower = [p for p in points if p.check == "transpose" and int(p.method[1:]) < 7]
        worse += len(slower)
        wrong += [(seed, p.check, p.method, p.ratio) for p in points if p not in slower]
    assert not wrong
    assert worse >= 0.8 * 20 * 7


def test_an_event_has_the_range_of_its_changes(tmp_path):
    events, _, _ = looked_at(store(tmp_path / "store.db", partly_slower(1, after=20)))
    ((*counts, _, sizes),) = alarms.by_check(events[0])
    assert counts == ["transpose", 7, 10]
    low, middle, high = (round(100 * (size - 1)) for size in sizes)
    assert 9 <= low <= 13 <= middle <= 18 <= high <= 23
    (alarm,) = alarms_of(events)
    assert happened.metrics_of(events[0]) in clause(alarm)


def test_an_event_has_one_direction_and_a_size_per_kernel(tmp_path):
    """New libraries: network slower by 20%, transpose by 12% but for a fourth of it, md faster.
    npar is as before: one of it was counted once, as what all metrics share moved by 2%."""
    logs = np.random.default_rng(11).normal(0, 0.03, (4, 80, 60))
    changed = {"network": [1.2], "transpose": [1.12] * 60 + [1] * 20, "md": [0.9]}
    for name, by in changed.items():
        logs[KERNELS.index(name), :, 40:] += np.log(by)[:, None]
    content = tables(dict(zip(KERNELS, 1e-3 * np.exp(logs), strict=True)))
    worse, better = looked_at(store(tmp_path / "store.db", content))[0]
    assert night_of(worse) == night_of(better) == 40
    parts = alarms.by_check(worse)
    counts = {name: (changed, of) for name, changed, of, *_ in parts}
    middle = {name: sizes[1] for name, *_, sizes in parts}
    assert counts == {"network": (80, 80), "transpose": (60, 80)}
    assert middle["network"] == pytest.approx(1.2, abs=0.02)
    assert middle["transpose"] == pytest.approx(1.12, abs=0.02)
    assert [name for name, *_ in alarms.by_check(better)] == ["md"]
    assert (worse.alarm, better.alarm) == (True, False)
    assert {p.verdict for p in worse.points} == {Verdict.REGRESSED}
    assert {p.verdict for p in better.points} == {Verdict.IMPROVED}
    assert len([*alarms_of([worse, better])]) == 1


@pytest.mark.parametrize("a_day", [1, 3])
def test_an_alarm_has_its_next_steps(tmp_path, a_day):
    """Commands that name the sessions of both levels, the tests to measure again, and the event;
    also where several sessions a day are stored."""
    content = partly_slower(1)
    for line, _ in content:
        line["start"] = EPOCH + (line["start"] - EPOCH) / a_day
    stored = store(tmp_path / "store.db", content)
    events, _, _ = looked_at(stored)
    (alarm,) = alarms_of(events)
    before, after = (select(text, stored) for text in shlex.split(alarm.compare)[-2:])
    sessions = stored.sessions()
    assert before == sessions[20 - len(before) : 20]
    assert len(before) >= 10
    assert after == sessions[20:]
    again = shlex.split(alarm.rerun)
    assert select(again[again.index("--against") + 1], stored) == before
    assert "transpose" in again[again.index("-n") + 1]
    assert shlex.split(alarm.accept)[-4:-2] == ["--accept", events[0].session[:8]]
    commands = [command for _, command in happened.next_steps(alarm)]
    assert commands == [alarm.compare, alarm.rerun, alarm.accept]


def test_the_same_night_under_another_identifier_counts_once(rng, tmp_path):
    content = kernels(rng, of=())
    line, cases = content[0]
    again = [({**line, "session": "again"}, cases)]
    _, _, notes = looked_at(store(tmp_path / "store.db", content, again))
    assert notes == ["duplicate sessions, only the first is used: 00000000, again"]


def test_metrics_that_ended_are_named(rng, tmp_path):
    content = kernels(rng, of=())
    for _, cases in content[50:]:
        del cases[0]
        cases[0]["metrics"]["time"][1] = "ms"
        cases[1]["geometry"] = "4x1"
    _, _, notes = looked_at(store(tmp_path / "store.db", content))
    assert all(note.startswith("1 metric not measured since ") for note in notes)
    changes = sorted(note.partition(": ")[2] for note in notes)
    assert changes == ["", "geometry 2x1 -> 4x1", "unit s -> ms"]


def test_experiments_and_other_tiers_are_no_nights():
    tags = {"tier": "nightly", "system": "lab", "environ": "system"}
    others = {"tier": "quick"}, {"phase": "tcp"}, {"slower": "yes"}
    night, quick, tagged, slow = (Session("a", DAY, tags | more, {}) for more in ({}, *others))
    assert regular([night, quick, tagged, slow, night]) == [night, slow, night]


def test_history_begins_where_the_work_changed(rng, tmp_path):
    content = nights({"p2p": steps(rng, 1, 2)})
    for night, (line, _) in enumerate(content):
        line["work"] = {"transpose": {"cnt40": f"--bands {2 + night // 20}"}}
    stored = store(tmp_path / "store.db", content)
    assert looked_at(stored)[0] == []
    ((_, _, indices, *_),) = histories(stored, stored.sessions())
    assert indices.tolist() == list(range(20, 40))


def test_metrics_with_few_sessions_are_counted(rng, tmp_path):
    few = nights({"new": [1.0] * 3}, 50)
    stored = store(tmp_path / "store.db", nights({"p2p": steps(rng, 1)}), few)
    text = " ".join(history_text([], histories(stored, stored.sessions()), 23))
    assert "1 metric has fewer than 6 sessions: not looked at" in " ".join(text.split())


def test_a_night_is_the_median_of_its_jobs_without_disturbed_ones(tmp_path):
    jobs = [case(metrics={"time": value}, run=run) for run, value in enumerate((1.0, 9.0, 2.0))]
    others = [
        case(metrics={"time": 9.0}, disturbed=0.9, run=1024),
        case(metrics={"time": 8.0}, verdict="not measured", run=1),
        case("shm", {"time": 2.0}),  # its job is another one
    ]
    content = sessions(0, [jobs, others, [case(metrics={"time": 4.0})]])
    stored = store(tmp_path / "store.db", content)
    histories_of = {
        test.method: (indices.tolist(), values.tolist())
        for test, _, indices, values, _ in histories(stored, stored.sessions())
    }
    assert histories_of == {"p2p": ([0, 2], [2.0, 4.0]), "shm": ([1], [2.0])}


def test_repeats_count_in_the_history_and_nowhere_else(tmp_path):
    first = case(metrics={"time": 1.0})
    again = [case(metrics={"time": 2.0 + 2 * n}, repeat=True, run=n) for n in range(2)]
    unusable = case(metrics={"time": 9.0}, repeat=True, disturbed=0.9, run=2)
    stored = store(tmp_path / "store.db", sessions(0, [[first], [first, *again, unusable]]))
    (plain,) = histories(stored, stored.sessions())
    (repeated,) = histories(stored, stored.sessions(), repeats=True)
    assert (plain.values.tolist(), dict(plain.again)) == ([1.0, 1.0], {})
    assert (repeated.values.tolist(), dict(repeated.again)) == ([1.0, 1.0], {1: [2.0, 4.0]})
    assert [tally.jobs for tally in stored.tallies().values()] == [1, 1]
    assert len(Nights(stored, stored.sessions()).jobs) == 2
