"""`bisection compare`: verdicts on made-up sessions whose truth is known."""

import re

import numpy as np
import pytest
from made_up import DAY, EPOCH, case, jobs, nights, row, series, session, sessions, tables, times
from nights import walk

from bisection.analysis import model
from bisection.core.reasons.base import clause
from bisection.core.verdicts import Scope, Verdict
from bisection.judge import decision
from bisection.report.comparison_text import comparison_text
from bisection.report.words import sentence, why


def advice(result):
    """The notes on a comparison."""
    return "\n".join(map(str, result.advice))


def test_each_verdict_where_it_belongs(rng, compared):
    before = {name: times(rng) for name in ("same", "slower", "faster", "gone")}
    after = {"same": times(rng), "slower": times(rng, 1.14), "faster": times(rng, 0.85)}
    after["fresh"] = times(rng)
    result = compared(nights(before), nights(after, first=100))
    by_method = {r.method: r.verdict for r in result.rows}
    assert by_method == {
        "same": Verdict.UNCHANGED,
        "slower": Verdict.REGRESSED,
        "faster": Verdict.IMPROVED,
        "gone": Verdict.MISSING,
        "fresh": Verdict.NEW,
    }
    slower = result.rows[0]
    assert (slower.method, slower.scope) == ("slower", Scope.MACHINE)
    assert slower.low < 1.14 < slower.high
    assert sentence(result).startswith("1 regressed, 1 missing, 1 improved, 1 new, 1 unchanged (of")
    assert decision.of_comparison(result) == 1


def test_years_of_nights_are_compared(rng, compared):
    old, new = ({"same": times(rng, 1, 1100), "other": times(rng, by, 1100)} for by in (1, 1.1))
    result = compared(nights(old), nights(new, first=1100))
    assert [row.verdict for row in result.rows] == [Verdict.REGRESSED, Verdict.UNCHANGED]


@pytest.mark.parametrize(
    ("name", "unit", "place"),
    [
        ("atom_steps", "atom-steps/s", {}),
        ("bandwidth_write", "B/s", {"check": "restart", "case": "waves-mini@/scratch"}),
        ("operations_create", "operations/s", {"check": "restart_metadata", "case": "files-50"}),
    ],
)
def test_direction_is_the_metrics_own(rng, compared, name, unit, place):
    kind = (name, unit, "higher")
    before = series(1 / times(rng), 0, *kind, **place)
    after = series(1 / times(rng, 1.2), 100, *kind, **place)
    rate = row(compared(before, after), metric=name)
    assert rate.verdict == Verdict.REGRESSED
    assert rate.ratio == pytest.approx(1 / 1.2, rel=0.05)
    assert rate.slowdown == pytest.approx(1.2, rel=0.05)


def test_small_effects_are_not_counted(rng, compared):
    time = row(compared(*(series(times(rng, r, sigma=0.002), n) for r, n in ((1, 0), (1.03, 99)))))
    assert time.verdict == Verdict.UNCHANGED
    assert time.ratio == pytest.approx(1.03, abs=0.005)


def test_rows_are_joined_by_identity(compared):
    places = [{"partition": "gpu"}, {"environ": "spack"}, {"case": "cnt80"}, {"layout": "node"}]
    before, after = (
        sessions(first, [[case(metrics={"time": ratio}, **place) for place in places]] * 5)
        for first, ratio in ((0, 1.0), (200, 1.5))
    )
    assert [r.ratio for r in compared(before, after).rows] == [pytest.approx(1.5)] * 4


@pytest.mark.parametrize(
    ("count", "says"), [(1, "1 and 1 jobs; 5 are needed"), (3, "3 and 3 jobs; 5 are needed")]
)
def test_few_jobs_a_side_give_no_verdict(rng, compared, count, says):
    result = compared(*(jobs(rng, 1, count, 0, 0.01, ratio=r, first=9 * r) for r in (1, 3)))
    time = row(result)
    assert (time.verdict, says in str(time.reason)) == (Verdict.INCONCLUSIVE, True)
    assert (time.ratio, time.low) == (pytest.approx(3, rel=0.05), None)
    for words in ("no verdict on the machine", "no A/A comparison", "no control"):
        assert words in advice(result)


@pytest.mark.parametrize(
    ("count", "days", "ratio", "verdict"),
    [
        (1, 0, 1.2, Verdict.REGRESSED),
        (1, 1, 1.2, Verdict.INCONCLUSIVE),
        (1, 9, 1 / 1.2, Verdict.INCONCLUSIVE),
        (1, 9, 3, Verdict.REGRESSED),
        (5, 9, 1.2, Verdict.INCONCLUSIVE),
    ],
)
def test_jobs_of_one_night_are_judged_by_what_lies_between(
    rng, compared, count, days, ratio, verdict
):
    """Jobs of one night, of whatever sessions, do not show how nights differ: days apart only what
    is large is told."""
    sides = [jobs(rng, count, 10 // count, 0, 0.01, r, n) for r, n in ((1, 0), (ratio, 9))]
    for side, day in zip(sides, (0, days + 1 / 24), strict=True):
        for number, (line, _) in enumerate(side):
            line["start"] = EPOCH + day * DAY + 1800 * number
    result = compared(*sides)
    assert (row(result).verdict, row(result).scope) == (verdict, Scope.SESSIONS)
    assert "ignore night-to-night variation" in advice(result)


def test_the_session_is_the_sampling_unit(rng, compared):
    """1% within jobs and 3% between sessions: twenty jobs in five nights are five samples."""
    wrong = 0
    for trial in range(60):
        nights = jobs(rng, 10, 4, 0.03, 0.01, first=10 * trial)
        time = row(compared(nights[:5], nights[5:]))
        assert (time.scope, time.before.sessions, time.before.jobs) == (Scope.MACHINE, 5, 20)
        wrong += time.verdict in (Verdict.REGRESSED, Verdict.IMPROVED)
    assert wrong <= 2


def test_a_night_unlike_all_earlier_ones_is_an_outlier(rng, compared):
    """By less, where the software is another."""
    before, limits = nights({"p2p": times(rng, count=8, sigma=0.08)}), []
    for first, mpi in ((100, "4.1.4"), (200, "5.0.1")):
        facts = {"MPI": f"Open MPI {mpi}"}
        result = compared(before, nights({"p2p": [1.5e-3]}, first, facts=facts))
        assert row(result).verdict == Verdict.INCONCLUSIVE
        assert row(result).outlier
        assert "outside of what 8 earlier ones showed" in why(row(result))
        assert "1 outlier" in sentence(result)
        limits.append(row(result).limit)
    assert limits[1] < limits[0]


FACTS = {"libraries": "fftw 3.3.10, hdf5 1.10.8, openblas 0.3", "MPI": "4.1", "CPU": "a"}
NEW = {**FACTS, "MPI": "5.0"}


@pytest.mark.parametrize(
    ("facts", "changes"),
    [
        ((FACTS, FACTS, NEW, NEW), [model.Change("MPI", "4.1", "5.0")]),
        ((FACTS, NEW, NEW, FACTS), []),  # the same in another order
        ((FACTS, {"libraries": "fftw 3.3.10", "MPI": "4.1"}), []),  # not recorded, or not run
    ],
)
def test_what_is_recorded_of_both_sides_may_have_changed(compared, facts, changes):
    content = [(session(n, facts=each), [case()]) for n, each in enumerate(facts)]
    middle = len(facts) // 2
    assert compared(content[:middle], content[middle:]).changes == changes


def test_a_slow_node_is_named(rng, compared):
    def sweep(first, slow=None):
        factors = np.where(np.arange(24) % 6 == slow, 1.3, 1.0)
        values = {m: times(rng, factors, 24, sigma=0.02) for m in ("p2p", "shm", "direct")}
        return [
            (line, [{**test, "hosts": [f"n{night % 6}"]} for test in cases])
            for night, (line, cases) in enumerate(nights(values, first))
        ]

    # five jobs a node are the least: two sweeps of the nodes are added
    result = compared(sweep(0), sweep(100, 3) + sweep(200, 3))
    assert [s.nodes for s in result.suspects] == [("n3",)]
    assert result.suspects[0].ratio == pytest.approx(1.3, rel=0.08)
    assert "node n3 (lab:cpu): " in sentence(result)


def test_network_bound_checks_are_told_from_compute(rng, compared):
    def side(first, factor):
        content = nights({"p2p": times(rng, factor), "serial": times(rng, sigma=0.01)}, first)
        for _, (test, control) in content:
            test["metrics"]["mpi_share"] = [0.7, "share", "lower"]
            control["control"] = True
        return content

    result = compared(side(0, 1), side(100, 1.14))
    assert "on lab:cpu communication-bound checks are 1" in sentence(result)
    assert "slower, compute is unchanged" in sentence(result)


def of_kernels(rng, first, slow=(), ratio=1.0):
    """Ten nights of three kernels with ten metrics each."""
    factors = {check: ratio if check in slow else 1 for check in ("transpose", "npar", "md")}
    return tables({c: times(rng, f, (10, 10)) for c, f in factors.items()}, first)


@pytest.mark.parametrize(
    ("slow", "about", "metrics"),
    [
        (("md",), "metrics of md on lab:cpu", 10),
        (("transpose", "npar", "md"), "metrics on lab:cpu", 30),
    ],
)
def test_what_metrics_share_is_told_once(rng, compared, slow, about, metrics):
    result = compared(of_kernels(rng, 0), of_kernels(rng, 50, slow, 1.08))
    (shared,) = result.findings
    assert about in clause(shared)
    assert (shared.of, decision.of_comparison(result)) == (metrics, 1)
    assert shared.ratio == pytest.approx(1.08, rel=0.02)
    assert result.count(Verdict.REGRESSED) == shared.metrics >= 0.9 * metrics
    text = "\n".join(comparison_text(result))
    assert f"regressed: {clause(shared)}" in text
    assert "regressed on lab:cpu system:" not in text


def test_what_could_have_been_seen_is_noted(rng, compared):
    sides = (series(times(rng, count=5, sigma=0.08), first) for first in (0, 50))
    power = re.search(r"with (\d+) and (\d+) nights, .*; (\d+) nights", advice(compared(*sides)))
    assert (power[1], power[2]) == ("5", "5")
    assert int(power[3]) > 5


def test_nights_that_resemble_each_other_are_noted(compared):
    rng = np.random.default_rng(8)
    content = tables({"transpose": np.exp(walk(rng, (40, 40), 0.03))})
    result = compared(content[:20], content[20:])
    assert "nights are not independent" in advice(result)
    assert result.count(Verdict.REGRESSED) + result.count(Verdict.IMPROVED) == 0


def test_two_states_are_noted(rng, compared):
    values = np.exp(rng.normal(0, 0.01, 40)) * np.where(rng.random(40) < 0.3, 1.3, 1)
    content = series(values)
    result = compared(content[:20], content[20:])
    assert row(result).states.gap == pytest.approx(1.3, abs=0.02)
    assert "have two states, for example" in advice(result)
