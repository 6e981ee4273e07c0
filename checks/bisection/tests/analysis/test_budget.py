"""Launches for a night within a budget of node-hours."""

import itertools
import re

import numpy as np
import pytest
from made_up import case, sessions, store
from running import RNG

from bisection.analysis import budget
from bisection.analysis.power import noise_tables
from bisection.core.verdicts import Verdict
from bisection.report import plan

NIGHTS = 20


@pytest.fixture
def proposed(tmp_path):
    """proposed(*launches, hours=...): the proposal by nights of these launches, each a dict of what
    case() takes, with `seconds`, `time` and `noise`, one or NIGHTS logarithms."""

    def propose(*launches, hours, effect=0.1, **more):
        rng = np.random.default_rng(RNG)
        nights = [[] for _ in range(NIGHTS)]
        for each in launches:
            fields = {"noise": 0.01, **each}
            time, noise = fields.pop("time"), fields.pop("noise")
            logs = noise * rng.normal(size=NIGHTS) if np.ndim(noise) == 0 else noise
            for night, log in zip(nights, logs, strict=True):
                night.append(case(metrics={"time": time * np.exp(log)}, **fields))
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.db"
        with store(path, sessions(0, nights)) as stored:
            chosen = stored.sessions()
            known, tables = budget.launches_of(stored, chosen), noise_tables(stored, chosen, None)
            return budget.propose(known, stored.tests(), tables, hours, effect, **more)

    return propose


def launch(name, hours=1.0, time=1e-3, **more):
    """A launch on one node of so many hours."""
    return {"case": name, "seconds": [3600.0 * hours], "time": time, **more}


def names(launches):
    return [f"{each.checks[0]} {each.case}" for each in launches]


def cases(launches):
    return {each.case for each in launches}


# ---- the choice ----


@pytest.mark.parametrize("seed", range(20))
def test_no_selection_is_much_better(seed):
    """Beside all subsets of nine launches; the bound is 1 - 1/e, the usual loss much less."""
    rng = np.random.default_rng(seed)
    finds = rng.random((9, 12)) * (rng.random((9, 12)) < 0.4)
    hours, weight = rng.uniform(0.2, 3, 9), rng.dirichlet(np.ones(12))
    limit = hours.sum() * rng.uniform(0.2, 0.8)

    def value(taken):
        return weight @ (1 - np.prod(1 - finds[list(taken)], axis=0))

    subsets = itertools.chain(*(itertools.combinations(range(9), n) for n in range(10)))
    best = max(value(taken) for taken in subsets if hours[list(taken)].sum() <= limit)
    taken = budget.choose(hours, finds, weight, [set()] * 9, limit)
    assert hours[taken].sum() <= limit
    assert len(set(taken)) == len(taken)
    assert value(taken) >= 0.95 * best >= (1 - np.exp(-1)) * best


def test_launches_are_chosen_by_what_they_add():
    """A large one that greed would leave no room for is taken, though it adds less per hour; of
    many, first the small ones that add more; and what was found already adds nothing, where three
    find each of the likeliest slow-downs and three others one each."""
    halves, nothing = np.array([0.5, 0.5]), [set()] * 9
    finds = np.array([[0.1, 0.0], [0.0, 1.0]])
    assert budget.choose([0.05, 1.0], finds, halves, nothing[:2], 1.0) == [1]
    weight = np.array([0.3, 0.3, *[0.2] * 6]) / 1.8
    taken = budget.choose([3, 3, *[1] * 6], np.eye(8), weight, nothing[:8], 6)
    assert sorted(taken) == [*range(2, 8)]
    finds, weight = np.eye(5)[[0, 0, 0, 1, 1, 1, 2, 3, 4]], np.array([0.4, 0.3, 0.1, 0.1, 0.1])
    taken = budget.choose([1] * 9, finds, weight, nothing, 5)
    assert finds[taken].sum(axis=0).tolist() == [1] * 5


@pytest.mark.parametrize("limit", [0.5, 1.0, 2.5, 3.0, 4.5, 100.0])
def test_every_check_and_layout_keeps_a_launch_while_the_budget_lasts(limit):
    """The cheapest of each; then the others, by what they find."""
    hours = [1.0, 2.0, 0.5, 1.5]
    kinds = [{("a", "mpi")}, {("a", "mpi")}, {("b", "mpi")}, {("c", "mpi")}]
    finds = np.diag([0.1, 1.0, 0.0, 0.1])
    taken = budget.choose(hours, finds, np.full(4, 0.25), kinds, limit)
    needed = [number for number, least in ((2, 0.5), (0, 1.5), (3, 3.0)) if limit >= least]
    assert set(needed) <= set(taken)
    assert (1 in taken) == (limit >= 5.0)
    assert sum(hours[number] for number in taken) <= limit


# ---- what launches find ----


def test_cases_alike_and_correlated_tests_stand_for_each_other(proposed):
    far = [launch("a"), launch("b", time=1.0), launch("c", time=1e3)]
    assert len(proposed(*far, hours=2.5).chosen) == 2  # each would add as much
    near = [launch("a"), launch("b", time=1.2e-3), launch("c", time=1.0)]
    result = proposed(*near, hours=2.5)
    assert "c" in cases(result.chosen)
    (out,) = result.left_out
    assert 0.7 < out.kept < 0.95
    assert out.by == f"transpose {min(cases(result.chosen))} mpi"
    together = 0.02 * np.random.default_rng(1).normal(size=NIGHTS)
    alike = [launch("a", noise=together), launch("b", time=1.0, noise=together)]
    result = proposed(*alike, launch("c", time=1e3), hours=2.5)
    assert "c" in cases(result.chosen)
    assert result.left_out[0].kept > 0.9


def test_what_seems_correlated_by_chance_counts_for_nothing(proposed):
    apart = [launch(f"c{number}", time=1e3**number) for number in range(8)]
    kept = [out.kept for out in proposed(*apart, hours=4.5).left_out]
    assert kept == pytest.approx([0] * 4, abs=1e-2)


def test_noise_hides_what_quiet_tests_show(proposed):
    both = [launch("loud", noise=0.3), launch("quiet", time=1.0)]
    assert cases(proposed(*both, hours=1.0).chosen) == {"loud"}  # of one check: the cheapest
    apart = [launch("loud", 0.5, noise=0.3), launch("quiet", time=1.0), launch("other", time=1e3)]
    assert cases(proposed(*apart, hours=1.6).chosen) >= {"loud"}
    small, large = (proposed(*apart, hours=9.0, effect=e).finds[0] for e in (0.02, 0.2))
    assert small < large


def test_the_price_is_that_of_all_jobs_and_the_budget_is_kept(proposed):
    launches = [
        launch("a", 1.0, geometry="4x2x1"),
        launch("b", 0.5, time=1.0, geometry="4x2x1", method="shm"),
        launch("b", 0.5, time=1.1, geometry="4x2x1"),  # of the same launch
        launch("c", 0.25, time=1e3, geometry="4x2x1", partition="gpu"),
        launch("c", 0.75, time=1e3, geometry="4x2x1"),  # on both partitions
    ]
    whole = proposed(*launches, hours=100.0, nodes=4, known_nodes=100)
    prices = {each.case: each.hours for each in whole.launches}
    assert prices == pytest.approx({"a": 4.0, "b": 2.0, "c": 4.0})
    assert whole.hours == pytest.approx((10.0, 10.0))
    assert whole.finds[0] == pytest.approx(whole.finds[1]) == pytest.approx(1, abs=0.01)
    assert whole.reach == pytest.approx(0.4)
    for hours in (2.0, 4.0, 6.0, 8.5):
        part = proposed(*launches, hours=hours)
        assert part.hours[1] == pytest.approx(sum(each.hours for each in part.chosen))
        assert part.hours[1] <= hours
        assert part.finds[1] < 0.9 * part.finds[0]
        outside = sum(out.adds for out in part.left_out)
        assert part.finds[1] + outside >= part.finds[0] - 1e-9
    assert proposed(*launches, hours=1.9) is None


def test_tests_of_several_launches_ride_on_them(proposed):
    """md_layout compares the results of two launches: it is taken where both are."""
    ones = [
        launch("fe", hours, layout=layout, check="md", time=1e-3 * 1e3**number)
        for number, (layout, hours) in enumerate((("mpi", 1.0), ("node", 2.0)))
    ]
    rider = launch("fe", layout="node", check="md_layout") | {"seconds": [7200.0, 3600.0]}
    skipped = launch("fe", layout="node2", check="md_layout", verdict=Verdict.NOT_APPLICABLE)
    both = proposed(*ones, rider, skipped, hours=3.0)
    assert both.hours == pytest.approx((3.0, 3.0))
    assert names(both.chosen) == ["md fe", "md fe", "md_layout fe"]
    less = proposed(*ones, rider, hours=2.0)
    assert names(less.chosen) == ["md fe"]
    assert less.given_up == [("md", "node"), ("md_layout", "node")]


def test_a_test_that_is_gone_is_not_proposed(proposed, tmp_path):
    nights = [[case(metrics={"time": 1.0}, seconds=[1.0], case=name) for name in night]
              for night in ("ab", "ab", "b", "b", "b")]  # fmt: skip
    with store(tmp_path / "store.db", sessions(0, nights)) as stored:
        assert cases(budget.launches_of(stored, stored.sessions())) == {"b"}
        assert not budget.launches_of(stored, stored.sessions(), re.compile("halo"))


def test_patterns_select_the_launches_and_no_others():
    chosen = [
        budget.NightlyLaunch("cnt40", "mpi", ("npar", "npar_best")),
        budget.NightlyLaunch("mini1", "mpi", ("npar", "npar_best")),
        budget.NightlyLaunch("mini1", "node", ("md_layout",)),
    ]
    checks = ("npar", "npar_best", "npar_published", "md_layout")
    words = itertools.product(checks, ("mpi", "node", "node2"), ("cnt40", "cnt4", "mini1"))
    second = {"md_layout": "%pure.layout=mpi%pure.case=cnt4"}  # it compares two launches
    selected = set()
    for check, layout, name in words:
        test = f"{check}%method=m%launch.layout={layout}%launch.case={name}{second.get(check, '')}"
        if any(re.search(pattern, test) for pattern in plan.patterns(chosen)):
            selected.add((check, layout, name))
    assert selected == {(c, each.layout, each.case) for each in chosen for c in each.checks}
