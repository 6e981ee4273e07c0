"""`bisection history` and `bisection references` on made-up nights."""

import argparse

import numpy as np
import pytest
import yaml
from samples import case, nights, noise, session, store
from scipy.stats import norm

from bisection import cli, history, proposals
from bisection.comparison import IMPROVED, REGRESSED, Change
from bisection.nodes import named, pairs, polished


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def steps(rng, *levels, each=20, sigma=0.03):
    """Times of nights on one level after another."""
    return np.concatenate([1e-3 * level * noise(rng, each, sigma) for level in levels])


def looked_at(made):
    sessions = made.sessions()
    return history.changes_of(history.histories(made, sessions), sessions)


def test_first_bad_session_and_what_differed(rng, tmp_path):
    before = nights({"p2p": steps(rng, 1), "shm": steps(rng, 1)}, facts={"MPI": "4.1"})
    after = nights({"p2p": steps(rng, 1.15), "shm": steps(rng, 0.8)}, 20, facts={"MPI": "5.0"})
    made = store(tmp_path / "store.db", before, after)
    points, series = looked_at(made)
    assert {p.method: (p.verdict, int(p.session[:8], 16)) for p in points} == {
        "p2p": (REGRESSED, 20),
        "shm": (IMPROVED, 20),
    }
    assert all(p.changes == [Change("MPI", "4.1", "5.0")] for p in points)
    worse = next(p for p in points if p.method == "p2p")
    assert worse.ratio == pytest.approx(1.15, rel=0.02)
    assert (worse.before, worse.after) == (20, 20)
    assert [s.points for s in series] == [[20], [20]]
    text = "\n".join(history.text(points, history.histories(made, made.sessions()), 40))
    assert "since 2026-06-21 00:00 UTC, session 00000014" in text
    assert "differs: MPI: 4.1 -> 5.0" in text


def test_there_and_back_are_two_changes(rng, tmp_path):
    made = store(tmp_path / "store.db", nights({"p2p": steps(rng, 1, 1.2, 1)}))
    points, _ = looked_at(made)
    assert [(p.verdict, int(p.session[:8], 16)) for p in points] == [
        (REGRESSED, 20),
        (IMPROVED, 40),
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
    made = store(tmp_path / "store.db", nights({"p2p": steps(rng, 1)}))
    sessions = made.sessions()
    made.add(nights({"p2p": [1.0]}, first=50))
    monkeypatch.setattr(made, "count", lambda: 20)
    ((_, _, _, values),) = history.histories(made, sessions)
    assert len(values) == 20


def test_a_disturbed_job_is_told_from_the_others_of_its_session(tmp_path):
    cases = [
        case("p2p", {"time": 1.0}, run=1024, disturbed=0.9),
        case("shm", {"time": 2.0}),
    ]
    made = store(tmp_path / "store.db", [(session(0), cases)])
    assert [t.method for t, *_ in history.histories(made, made.sessions())] == ["shm"]


def test_metrics_with_few_sessions_are_counted(rng, tmp_path):
    made = store(
        tmp_path / "store.db", nights({"p2p": steps(rng, 1)}), nights({"new": [1.0] * 3}, 50)
    )
    found = history.histories(made, made.sessions())
    told = history.text([], found, 23)[-1]
    assert "1 metrics have fewer than 8 sessions and are not looked at" in told


@pytest.mark.parametrize("count", [1, 2, 5, 7])
def test_few_nights_are_no_history(rng, count):
    assert history.change_points(steps(rng, 1, 9, each=count)[:7]) == []


@pytest.mark.parametrize("values", [[1.0] * 30, [1.0] * 15 + [2.0] * 15, [1e-9, 1e9] * 15])
def test_odd_histories_have_answers(values):
    assert history.change_points(np.array(values)) in ([], [15])


def test_jobs_of_a_night_are_one_sample(tmp_path):
    cases = [case(metrics={"time": value}, run=run) for run, value in enumerate((1.0, 9.0, 2.0))]
    made = store(tmp_path / "store.db", [(session(0), cases)], nights({"p2p": [4.0]}, 1))
    ((_, _, indices, values),) = history.histories(made, made.sessions())
    assert (indices.tolist(), values.tolist()) == ([0, 1], [2.0, 4.0])


def test_disturbed_jobs_are_no_history(tmp_path):
    made = store(
        tmp_path / "store.db",
        nights({"p2p": [1.0, 1.0]}),
        [(session(5), [case(metrics={"time": 9.0}, disturbed=0.9)])],
        [(session(6), [case(metrics={"time": 8.0}, verdict="not measured")])],
    )
    ((_, _, _, values),) = history.histories(made, made.sessions())
    assert values.tolist() == [1.0, 1.0]


# ---- pairs of nodes ----


def bandwidths(rng, nodes=8, slow_node=None, slow_path=None, sigma=0.02):
    values = 1e9 * np.exp(rng.normal(0, sigma, (nodes, nodes)))
    if slow_node is not None:
        values[slow_node, :] *= 0.75
        values[:, slow_node] *= 0.75
    if slow_path:
        values[slow_path] *= 0.6
        values[slow_path[::-1]] *= 0.6
    np.fill_diagonal(values, np.nan)
    return values


def test_a_slow_adapter_is_a_node_and_a_slow_cable_a_path(rng):
    nodes = [f"n{i}" for i in range(8)]
    assert named(nodes, bandwidths(rng), "higher") == []
    (told,) = named(nodes, bandwidths(rng, slow_node=3), "higher")
    assert told.startswith("node n3: its pairs are at 7")
    (told,) = named(nodes, bandwidths(rng, slow_path=(2, 6)), "higher")
    assert told.startswith("path n2 - n6: 6")
    effects, residuals = polished(bandwidths(rng, slow_node=3, sigma=0))
    assert np.exp(effects[3]) == pytest.approx(0.75)
    assert np.nanmax(np.abs(residuals)) < 1e-6


def test_pairs_of_the_store(rng, tmp_path):
    values = bandwidths(rng, nodes=5, slow_node=1)
    cases = [
        case("pingpong", {"bandwidth": [values[i, j], "B/s", "higher"]}, pair=[f"n{i}", f"n{j}"])
        for i in range(5)
        for j in range(5)
        if i != j
    ]
    made = store(tmp_path / "store.db", [(session(0), cases)])
    (matrix,) = pairs(made, made.sessions())
    assert matrix.nodes == ["n0", "n1", "n2", "n3", "n4"]
    assert matrix.values[0][0] is None
    assert matrix.values[0][2] == pytest.approx(values[0, 2])
    assert [text[:7] for text in matrix.suspects] == ["node n1"]
    assert history.histories(made, made.sessions()) == []


# ---- references ----


@pytest.fixture
def site(monkeypatch):
    """A site of one check with two methods, as doctor.load gives it."""
    cases = [
        {
            "check": "transpose", "$partition": "lab:cpu", "$environ": "system", "geometry": "2x1",
            "case": "cnt40", "layout": "mpi", "method": name, "required": ["time", "ratio_serial"],
        }
        for name in ("p2p", "shm")
    ]  # fmt: skip
    partition = {"fullname": "lab:cpu", "extras": {"references": ["ratio"]}}
    checks = {"transpose": {"settled": ["case", "method", "layout"]}}
    made = argparse.Namespace(name="lab", cases=cases, partitions=[partition], checks=checks)
    monkeypatch.setattr(proposals, "_site", lambda _: made)
    return made


def measured(rng, first=0, count=10, sigma=0.02, **factors):
    def metrics(name):
        value = factors.get(name, 1) * float(noise(rng, 1, sigma, outliers=0)[0])
        return {"time": 1e-3, "ratio_serial": [value, "ratio", "lower"]}

    return [
        (session(first + i), [case(name, metrics(name)) for name in ("p2p", "shm")])
        for i in range(count)
    ]


@pytest.fixture
def propose(tmp_path, site, monkeypatch, capsys):
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path))

    def run(*contents, **options):
        with proposals.opened(tmp_path) as made:
            for content in contents:
                made.add(content)
        given = {"system": "lab", "sessions": "..", "least": 5, "kinds": None, "widen": False}
        given |= {"write": True, "output": str(tmp_path / "lab.yaml"), **options}
        code = proposals.act_propose(argparse.Namespace(**given))
        file = tmp_path / "lab.yaml"
        tree = yaml.safe_load(file.read_text()) if file.exists() else None
        return code, capsys.readouterr(), tree

    return run


def entry(tree, method="p2p"):
    return tree["transpose"]["lab:cpu"]["system"]["2x1"]["cnt40"][method]["ratio_serial"]


def test_references_hold_the_sessions_they_are_made_of(rng, propose):
    code, told, tree = propose(measured(rng))
    assert code == 0, told.err
    assert tree["transpose"]["$index"] == ["$partition", "$environ", "geometry", "case", "method"]
    value, lower, upper = entry(tree)
    assert value == pytest.approx(1, abs=0.02)
    assert -0.25 < lower < -0.06
    assert 0.06 < upper < 0.25
    assert list(tree["transpose"]["lab:cpu"]["system"]["2x1"]["cnt40"]["p2p"]) == ["ratio_serial"]
    about = tree["provenance"]
    assert (about["count"], str(about["date"]), about["lock"]) == (10, "2026-06-10", "none")
    assert len(about["sessions"]) == 10


def test_proposing_again_changes_nothing(rng, propose, tmp_path):
    propose(measured(rng))
    text = (tmp_path / "lab.yaml").read_text()
    code, told, _ = propose()
    assert (code, (tmp_path / "lab.yaml").read_text()) == (0, text)
    assert "as proposed already" in told.out


def test_a_change_is_shown_and_not_written_without_write(rng, propose, tmp_path):
    code, told, tree = propose(measured(rng), write=False)
    assert (code, tree) == (1, None)
    assert "+          p2p:" in told.out
    assert "not written: --write changes" in told.out


def test_bounds_are_not_widened_in_silence(rng, propose):
    _, _, tree = propose(measured(rng, sigma=0.005))
    noisy = measured(rng, first=50, count=30, sigma=0.05)
    code, told, kept = propose(noisy)
    assert entry(kept) == entry(tree)
    assert code == 1
    assert "not widened: transpose 2x1 cnt40 p2p ratio_serial" in told.out
    code, _, wider = propose(widen=True)
    assert code == 0
    assert entry(wider)[2] > entry(tree)[2]


def test_one_night_in_thousands_is_outside(rng):
    outside = 0.0
    for _ in range(400):
        (value, lower, upper), _ = proposals.reference(noise(rng, 20, 0.03))
        low, high = np.log(value * (1 + lower)) / 0.03, np.log(value * (1 + upper)) / 0.03
        outside += norm.cdf(low) + norm.sf(high)
    assert outside / 400 < 1 / 3000


def test_entries_keep_the_word_on_where_they_come_from(rng, propose, tmp_path):
    propose(measured(rng, sigma=0.005))
    propose(measured(rng, first=50, count=30, sigma=0.05))
    (line,) = [
        line for line in (tmp_path / "lab.yaml").read_text().splitlines() if "ratio_serial" in line
    ][:1]
    assert "# 10 sessions to 2026-06-10, spread 0." in line


def test_what_varies_too_much_is_no_reference(rng, propose):
    code, told, tree = propose(measured(rng, sigma=0.4))
    assert (code, tree) == (3, None)
    assert "too wide for a reference: 2 of transpose, such as transpose 2x1 cnt40 p2p" in told.out


def test_few_sessions_are_no_reference(rng, propose):
    code, told, tree = propose(measured(rng, count=4))
    assert (code, tree) == (3, None)
    assert "fewer than 5 sessions: 2 of transpose" in told.out


def test_nothing_to_propose_leaves_the_file_as_it_is(rng, propose, tmp_path):
    propose(measured(rng))
    text = (tmp_path / "lab.yaml").read_text()
    code, told, _ = propose(least=50)
    assert (code, (tmp_path / "lab.yaml").read_text()) == (3, text)
    assert "no reference to propose" in told.out


def test_files_by_hand_are_left_alone(rng, propose, tmp_path):
    (tmp_path / "lab.yaml").write_text("provenance: {date: 2026-01-01}\ntranspose: {}\n")
    code, told, tree = propose(measured(rng))
    assert code == 2
    assert "was written by hand" in told.err
    assert tree["transpose"] == {}


def test_kinds_that_are_none(rng, propose):
    code, told, _ = propose(measured(rng), kinds="speed")
    assert code == 2
    assert "--kinds speed: ratio, time are allowed" in told.err


def test_times_have_references_where_they_are_asked_for(rng, propose):
    noisy = measured(rng)
    for _, cases in noisy:
        for one in cases:
            one["metrics"]["time"][0] = float(noise(rng, 1, 0.02, outliers=0)[0])
    _, _, tree = propose(noisy, kinds="ratio,time")
    assert set(tree["transpose"]["lab:cpu"]["system"]["2x1"]["cnt40"]["p2p"]) == {
        "ratio_serial",
        "time",
    }


def test_shares_and_twin_layouts_have_references_too(rng, propose, site):
    site.cases = [
        {**one, "layout": layout, "required": ["ratio_serial", "exchange_share"]}
        for one in site.cases
        for layout in ("mpi", "node2")
    ]
    nightly = measured(rng, count=10)
    for i, (_, cases) in enumerate(nightly):  # two layouts of one geometry, in turns
        for one in cases:
            one["layout"] = ("mpi", "node2")[i % 2]
            one["metrics"]["exchange_share"] = [0.02, "share", "lower"]
    code, told, tree = propose(nightly)
    assert code == 0, told.out
    found = tree["transpose"]["lab:cpu"]["system"]["2x1"]["cnt40"]["p2p"]
    value, lower, upper = found["exchange_share"]
    assert value == 0.02
    assert lower <= -0.49
    assert upper >= 1
    assert value * (1 + upper) < 1


def test_provenance_is_of_the_sessions_that_gave_a_value(rng, propose):
    other = measured(rng, first=100, count=3)
    for _, cases in other:
        for one in cases:
            one["system"] = "another"
    _, _, tree = propose(measured(rng), other)
    assert tree["provenance"]["count"] == 10


def test_references_that_the_machine_left_behind_are_stale(rng, propose, site, tmp_path):
    _, _, tree = propose(measured(rng))
    with proposals.opened(tmp_path) as made:
        made.add(measured(rng, first=50, count=5, p2p=1.6))
        file = tmp_path / "lab.yaml"
        told = "\n".join(proposals.stale(made, site, file, tree))
    assert "p2p ratio_serial: the last 5 sessions have 1." in told
    assert "shm" not in told


def test_open_bounds_are_kept(rng, propose, tmp_path):
    propose(measured(rng))
    file = tmp_path / "lab.yaml"
    tree = yaml.safe_load(file.read_text())
    tree["transpose"]["lab:cpu"]["system"]["2x1"]["cnt40"]["p2p"]["ratio_serial"] = [1, None, None]
    file.write_text(yaml.safe_dump(tree))
    _, told, tree = propose()
    assert entry(tree)[1] is not None, told.out  # a bound is narrower than none


def test_files_that_cannot_be_changed_are_told(rng, propose, tmp_path):
    (tmp_path / "file").touch()
    for output in (tmp_path, tmp_path / "file" / "lab.yaml"):
        code, told, _ = propose(measured(rng), output=str(output))
        assert code == 2
        assert told.err.count("\n") == 1


def test_sessions_of_one_partition_count_for_its_system(rng, propose, site, tmp_path):
    _, _, tree = propose(measured(rng))
    with proposals.opened(tmp_path) as made:
        one = session(60, facts={"MPI": "Open MPI 5.0.9"}, tags={"system": "lab:cpu"})
        made.add([(one, [])])
        told = "\n".join(proposals.stale(made, site, tmp_path / "lab.yaml", tree))
    assert "the last session has Open MPI 5.0.9" in told


@pytest.mark.parametrize(
    "arguments",
    [
        ["references", "propose", "--least", "1"],
        ["bench-compare", "--repeats", "0"],
        ["compare", "a", "b", "--expected-ratio", "0"],
        ["compare", "a", "b", "--fail-on", "slow"],
        ["compare", "a", "b", "--control", "("],
        ["report", "--aa"],
    ],
)
def test_options_that_are_none(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "error: argument" in capsys.readouterr().err


def test_references_of_other_software_are_stale(rng, propose, site, tmp_path, monkeypatch):
    monkeypatch.setattr(proposals, "STALE", 30)  # days; made-up nights are of June 2026
    _, _, tree = propose(measured(rng))
    with proposals.opened(tmp_path) as made:
        made.add([(session(60, facts={"MPI": "Open MPI 5.0.9"}), [])])
        told = "\n".join(proposals.stale(made, site, tmp_path / "lab.yaml", tree))
    assert "made with MPI Open MPI 4.1.4; the last session has Open MPI 5.0.9" in told
    assert "days old; 30 are allowed" in told


def test_what_is_worse_since_lately(rng, tmp_path):
    lately = store(tmp_path / "a.db", nights({"p2p": np.concatenate([
        steps(rng, 1, each=30), steps(rng, 1.2, each=6)])}))  # fmt: skip
    (line,) = history.recent(looked_at(lately)[0])
    assert line.startswith("worse since 2026-07-01 00:00 UTC, session 0000001e: 1 metric, by x1.")
    long_ago = store(tmp_path / "b.db", nights({"p2p": steps(rng, 1, 1.2, each=30)}))
    assert history.recent(looked_at(long_ago)[0]) == []
