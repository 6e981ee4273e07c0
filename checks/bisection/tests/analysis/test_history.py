"""Histories of made-up nights: where their level changed."""

import numpy as np
import pytest
from made_up import case, nights, noise, session, store

from bisection.analysis import history
from bisection.analysis.model import Change
from bisection.core.verdicts import Verdict
from bisection.report.text import history_text, recent_text


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def steps(rng, *levels, each=20, sigma=0.03):
    """Times of nights on one level after another."""
    return np.concatenate([1e-3 * level * noise(rng, each, sigma) for level in levels])


def looked_at(stored):
    sessions = stored.sessions()
    return history.changes_of(history.histories(stored, sessions), sessions)


def test_first_bad_session_and_what_differed(rng, tmp_path):
    before = nights({"p2p": steps(rng, 1), "shm": steps(rng, 1)}, facts={"MPI": "4.1"})
    after = nights({"p2p": steps(rng, 1.15), "shm": steps(rng, 0.8)}, 20, facts={"MPI": "5.0"})
    stored = store(tmp_path / "store.db", before, after)
    points, series = looked_at(stored)
    assert {p.method: (p.verdict, int(p.session[:8], 16)) for p in points} == {
        "p2p": (Verdict.REGRESSED, 20),
        "shm": (Verdict.IMPROVED, 20),
    }
    assert all(p.changes == [Change("MPI", "4.1", "5.0")] for p in points)
    worse = next(p for p in points if p.method == "p2p")
    assert worse.ratio == pytest.approx(1.15, rel=0.02)
    assert (worse.before, worse.after) == (20, 20)
    assert [s.points for s in series] == [[20], [20]]
    said = "\n".join(history_text(points, history.histories(stored, stored.sessions()), 40))
    assert "since 2026-06-21 00:00 UTC, session 00000014" in said
    assert "differs: MPI: 4.1 -> 5.0" in said


def test_history_begins_where_the_work_changed(rng, tmp_path):
    works = [{"transpose": {"cnt40": f"--bands {number}"}} for number in (2, 4)]
    stored = store(
        tmp_path / "store.db",
        nights({"p2p": steps(rng, 1)}, work=works[0]),
        nights({"p2p": steps(rng, 2)}, 20, work=works[1]),
    )
    assert looked_at(stored) == ([], [])
    ((_, _, indices, _),) = history.histories(stored, stored.sessions())
    assert indices.tolist() == list(range(20, 40))


def test_there_and_back_are_two_changes(rng, tmp_path):
    stored = store(tmp_path / "store.db", nights({"p2p": steps(rng, 1, 1.2, 1)}))
    points, _ = looked_at(stored)
    assert [(p.verdict, int(p.session[:8], 16)) for p in points] == [
        (Verdict.REGRESSED, 20),
        (Verdict.IMPROVED, 40),
    ]


def test_metrics_that_change_together_agree_on_the_night(rng, tmp_path):
    values = {f"m{i}": steps(rng, 1, 1.1) for i in range(30)}
    points, _ = looked_at(store(tmp_path / "store.db", nights(values)))
    assert len(points) >= 29
    assert [int(p.session[:8], 16) for p in points].count(20) >= len(points) - 2


def test_single_bad_nights_are_no_change(rng, tmp_path):
    values = steps(rng, 1, 1)
    values[[7, 22, 30]] *= 1.8
    points, _ = looked_at(store(tmp_path / "store.db", nights({"p2p": values})))
    assert points == []


def test_what_differed_is_of_the_same_partitions_session_before(rng, tmp_path):
    """Nights of two systems take turns in one store."""
    values = steps(rng, 1, 1.2)
    mine = [content for v, start, mpi in ((values[:20], 0, "4.1"), (values[20:], 20, "5.0"))
            for content in nights({"p2p": v}, start, facts={"MPI": mpi, "CPU": "a"})]  # fmt: skip
    theirs = [
        (
            session(100 + i, start=mine[i][0]["start"] + 3600.0, facts={"CPU": "b"}),
            [case(metrics={"time": 1e-3}, system="other")],
        )
        for i in range(40)
    ]
    points, _ = looked_at(store(tmp_path / "store.db", mine, theirs))
    assert [(p.system, p.changes) for p in points] == [("lab", [Change("MPI", "4.1", "5.0")])]


def test_a_session_stored_meanwhile_is_left_out(rng, tmp_path, monkeypatch):
    stored = store(tmp_path / "store.db", nights({"p2p": steps(rng, 1)}))
    sessions = stored.sessions()
    stored.add(nights({"p2p": [1.0]}, first=50))
    monkeypatch.setattr(stored, "count", lambda: 20)
    ((_, _, _, values),) = history.histories(stored, sessions)
    assert len(values) == 20


def test_a_disturbed_job_is_told_from_the_others_of_its_session(tmp_path):
    cases = [
        case("p2p", {"time": 1.0}, run=1024, disturbed=0.9),
        case("shm", {"time": 2.0}),
    ]
    stored = store(tmp_path / "store.db", [(session(0), cases)])
    assert [t.method for t, *_ in history.histories(stored, stored.sessions())] == ["shm"]


def test_metrics_with_few_sessions_are_counted(rng, tmp_path):
    stored = store(
        tmp_path / "store.db", nights({"p2p": steps(rng, 1)}), nights({"new": [1.0] * 3}, 50)
    )
    series = history.histories(stored, stored.sessions())
    told = history_text([], series, 23)[-1]
    assert "1 metric has fewer than 8 sessions: not looked at" in told


@pytest.mark.parametrize("count", [1, 2, 5, 7])
def test_few_nights_are_no_history(rng, count):
    assert history.change_points(steps(rng, 1, 9, each=count)[:7]) == []


@pytest.mark.parametrize("values", [[1.0] * 30, [1.0] * 15 + [2.0] * 15, [1e-9, 1e9] * 15])
def test_odd_histories_have_answers(values):
    assert history.change_points(np.array(values)) in ([], [15])


def test_jobs_of_a_night_are_one_sample(tmp_path):
    cases = [case(metrics={"time": value}, run=run) for run, value in enumerate((1.0, 9.0, 2.0))]
    stored = store(tmp_path / "store.db", [(session(0), cases)], nights({"p2p": [4.0]}, 1))
    ((_, _, indices, values),) = history.histories(stored, stored.sessions())
    assert (indices.tolist(), values.tolist()) == ([0, 1], [2.0, 4.0])


def test_disturbed_jobs_are_no_history(tmp_path):
    stored = store(
        tmp_path / "store.db",
        nights({"p2p": [1.0, 1.0]}),
        [(session(5), [case(metrics={"time": 9.0}, disturbed=0.9)])],
        [(session(6), [case(metrics={"time": 8.0}, verdict="not measured")])],
    )
    ((_, _, _, values),) = history.histories(stored, stored.sessions())
    assert values.tolist() == [1.0, 1.0]


def test_what_is_worse_since_lately(rng, tmp_path):
    lately = store(tmp_path / "a.db", nights({"p2p": np.concatenate([
        steps(rng, 1, each=30), steps(rng, 1.2, each=6)])}))  # fmt: skip
    (line,) = recent_text(looked_at(lately)[0])
    told = "worse since 2026-07-01 00:00 UTC, session 0000001e: transpose cnt40 mpi p2p time x1."
    assert line.startswith(told)
    long_ago = store(tmp_path / "b.db", nights({"p2p": steps(rng, 1, 1.2, each=30)}))
    assert recent_text(looked_at(long_ago)[0]) == []
