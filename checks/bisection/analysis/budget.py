"""Which launches a night should have within a budget of node-hours, by stored nights.

A launch finds a slow-down of one of its tests if a run raises an alarm at it within so many nights
(LIMITS.plan_nights), by the test's quietest metric. It finds that of another test as far as both
are alike: two cases of one method and layout by the shorter time over the longer one; any two tests
by the squared correlation of their distances from the usual level of each, if significant.

The value of a selection is the part of slow-downs that it finds, where each method of a check at a
layout is as likely to become slower as any other. Each check and layout first gets its cheapest
launch. Further ones are taken by what they add per node-hour, begun once with each: the best of
these selections is worth at least 0.6174 of any other (Feldman, Nutov and Shoham 2023).
SuperBench's selector balances time and faults likewise (Xiong and others 2024).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.noise import TINY
from bisection.analysis.outlying import FEW_SAMPLES
from bisection.analysis.power import NoiseTable, chance_of_alarm, noise_tables
from bisection.analysis.shared_factors import factors
from bisection.analysis.statistics import medians
from bisection.core.grouping import grouped
from bisection.core.identity import POINT, parsed
from bisection.core.thresholds import LIMITS
from bisection.core.units import is_absolute
from bisection.core.verdicts import RAN
from bisection.store.database import Outcome, Session, Store, StoredTest
from bisection.store.nights import Nights


@dataclass(eq=False)
class NightlyLaunch:
    """A launch of every night, on all partitions."""

    case: str
    layout: str
    checks: tuple[str, ...] = ()
    tests: list[int] = field(default_factory=list)  # their numbers in the store
    hours: float = 0.0  # node-hours
    # Those whose results its tests compare, where it is none itself; None: not known.
    needs: list["NightlyLaunch | None"] = field(default_factory=list)

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.checks[0], self.case, self.layout)))

    @property
    def kinds(self) -> set[tuple[str, str]]:
        return {(check, self.layout) for check in self.checks}


@dataclass
class Omitted:
    """A launch that a proposal leaves out."""

    launch: NightlyLaunch
    adds: float  # of all slow-downs, what it would find beside those that are taken
    kept: float  # of what it finds alone, what those find
    by: str  # the one of them that finds most of it; "" if none does


@dataclass
class NightPlan:
    """Launches for a night, on so many nodes."""

    nodes: int
    reach: float  # of the known nodes, those that launch within plan_nights
    launches: list[NightlyLaunch]  # all
    chosen: list[NightlyLaunch]
    finds: tuple[float, float]  # all, and those chosen: of all slow-downs
    left_out: list[Omitted]  # those that add most first
    given_up: list[tuple[str, str]]  # checks and layouts without a launch

    @property
    def hours(self) -> tuple[float, float]:
        return sum(each.hours for each in self.launches), sum(each.hours for each in self.chosen)


def by_nodes(store: Store, sessions: Sequence[Session]) -> dict[int, list[Session]]:
    """The sessions by the nodes of their largest launch."""
    nights = Nights(store, sessions)
    nodes: Counter[int] = Counter()
    for each in nights.launches:
        nodes[each.session] = max(nodes[each.session], _nodes(nights.tests[each.test], each))
    return grouped((session for session in sessions if session.id in nodes), lambda s: nodes[s.id])


def _nodes(test: StoredTest, outcome: Outcome) -> int:
    shape = parsed(test.geometry)
    return shape.nodes if shape else max(len(outcome.hosts), 1)


def launches_of(
    store: Store, sessions: Sequence[Session], name: re.Pattern[str] | None = None
) -> list[NightlyLaunch]:
    """The launches of the newest of these sessions; with `name`, of tests that match it. A launch
    is known by its seconds, which all of its tests have. It costs what it usually does a session.
    Tests of several launches come last, as launches that need those and cost nothing."""
    nights = Nights(store, sessions)
    tests = nights.tests
    spent: dict[int, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    newest: dict[int, Outcome] = {}
    for outcome in nights.launches:
        test = tests[outcome.test]
        named = not name or name.search(" ".join(test.identity[3:]))
        if outcome.seconds and outcome.verdict in RAN and named and not test.control:
            hours = sum(outcome.seconds) / 3600 * _nodes(test, outcome)
            spent[outcome.test][outcome.session] += hours
            newest[outcome.test] = outcome
    recent = {session.id for session in sessions[-int(LIMITS.gone) :]}
    members = [number for number, outcome in newest.items() if outcome.session in recent]

    def job(number: int) -> tuple[Any, ...]:
        place = (tests[number].identity[:3], tests[number].case)
        return (*place, newest[number].session, newest[number].run, newest[number].seconds)

    launches: dict[tuple[str, ...], NightlyLaunch] = {}
    by_job: dict[tuple[Any, ...], NightlyLaunch] = {}
    # launch -> place -> node-hours of nights
    prices: dict[NightlyLaunch, dict[Any, list[float]]] = defaultdict(lambda: defaultdict(list))
    for its, group in sorted(grouped(members, job).items(), key=lambda pair: len(pair[0][-1])):
        test, checks = tests[group[0]], {tests[number].check for number in group}
        place = (test.case, test.layout)
        launch = launches.setdefault((min(checks), *place), NightlyLaunch(*place))
        launch.checks = tuple(sorted({*launch.checks, *checks}))
        if len(its[-1]) == 1:
            by_job[its] = launch
            launch.tests += group
            prices[launch][its[0]] += (hours for n in group for hours in spent[n].values())
        else:
            launch.needs += [by_job.get((*its[:-1], (part,))) for part in its[-1]]
    for launch, places in prices.items():
        launch.hours = sum(map(median, places.values()))
    return list(launches.values())


def proposals(
    store: Store,
    sessions: Sequence[Session],
    name: re.Pattern[str] | None,
    budget: float,
    effect: float,
) -> tuple[list[NightPlan], NightlyLaunch | None]:
    """A proposal for each number of nodes that sessions had, within the budget (node-hours); the
    cheapest launch, None if no noise or no price is known. With `name`, of tests that match it."""
    tests = store.tests()
    proposed: list[NightPlan] = []
    known: list[NightlyLaunch] = []
    sets = {id(outcome.hosts): outcome.hosts for outcome in store.outcomes(sessions)}
    hosts = set().union(*sets.values())
    for nodes, group in sorted(by_nodes(store, sessions).items()):
        launches, tables = launches_of(store, group, name), noise_tables(store, group, name)
        if tables:
            known += [each for each in launches if not each.needs]
            plan = propose(launches, tests, tables, budget, effect, nodes, len(hosts))
            proposed += [plan] if plan else []
    return proposed, min(known, key=lambda each: each.hours, default=None)


def propose(
    launches: Sequence[NightlyLaunch],
    tests: dict[int, StoredTest],
    tables: Sequence[NoiseTable],
    budget: float,
    effect: float,
    nodes: int = 1,
    known_nodes: int = 1,
) -> NightPlan | None:
    """A proposal within the budget (node-hours) for slow-downs by `effect`, a part of the value;
    None if the budget is below every launch. `known_nodes`: of the machine."""
    paid = [launch for launch in launches if not launch.needs]
    if not paid:
        return None
    finds, weight = finding(paid, tests, tables, effect)
    taken = choose([each.hours for each in paid], finds, weight, [e.kinds for e in paid], budget)
    if not taken:
        return None
    missed = np.prod(1 - finds[taken], axis=0)
    left_out = []
    for number in np.setdiff1d(np.arange(len(paid)), taken):
        alone = weight * finds[number]
        whole, adds = max(alone.sum(), TINY), float(alone @ missed)
        share = finds[taken] @ alone / whole
        by = paid[taken[int(share.argmax())]].name if share.max() > LIMITS.plan_least else ""
        left_out.append(Omitted(paid[number], adds, max(0.0, 1 - adds / whole), by))
    chosen = [paid[number] for number in sorted(taken)]
    chosen += [each for each in launches if each.needs and {*each.needs} <= {*chosen}]
    return NightPlan(
        nodes=nodes,
        reach=min(1.0, LIMITS.plan_nights * nodes / known_nodes),
        launches=list(launches),
        chosen=chosen,
        finds=(float(weight @ (1 - np.prod(1 - finds, axis=0))), float(weight @ (1 - missed))),
        left_out=sorted(left_out, key=lambda each: -each.adds),
        given_up=sorted(_kinds(launches) - _kinds(chosen)),
    )


def _kinds(launches: Iterable[NightlyLaunch]) -> set[tuple[str, str]]:
    return set().union(*(launch.kinds for launch in launches))


def choose(
    hours: Sequence[float],
    finds: np.ndarray,
    weight: np.ndarray,
    kinds: Sequence[set[tuple[str, str]]],
    budget: float,
) -> list[int]:
    """Chooses launches, by their numbers; none if the budget is below all of them.

    Args:
        hours: of each launch, [launches]; `budget` has the same unit.
        finds: the chance that each finds a slow-down of each test, [launches, tests].
        weight: of each test, [tests]; the sum is 1.
        kinds: of which each launch shows something; each keeps one, as far as the budget allows.
    """
    costs = np.array(hours)
    needed: list[int] = []
    for number in np.argsort(costs, kind="stable").tolist():
        seen = set().union(*(kinds[other] for other in needed))
        if kinds[number] - seen and costs[[*needed, number]].sum() <= budget:
            needed.append(number)
    selections = [_greedy(needed, costs, finds, weight, budget)]
    for number in np.setdiff1d(np.arange(len(costs)), needed).tolist():
        if costs[[*needed, number]].sum() <= budget:
            selections.append(_greedy([*needed, number], costs, finds, weight, budget))
    return max(selections, key=lambda taken: weight @ (1 - np.prod(1 - finds[taken], axis=0)))


def _greedy(
    start: Sequence[int], hours: np.ndarray, finds: np.ndarray, weight: np.ndarray, budget: float
) -> list[int]:
    """The launches of `start`, and others by what they add per hour while the budget lasts."""
    taken = [*start]
    missed = weight * np.prod(1 - finds[taken], axis=0)
    while True:
        adds = finds @ missed
        adds[taken] = 0
        adds[(adds < LIMITS.plan_least) | (hours > budget - hours[taken].sum())] = 0
        if not adds.any():
            return taken
        taken.append(int((adds / hours).argmax()))
        missed *= 1 - finds[taken[-1]]


def finding(
    launches: Sequence[NightlyLaunch],
    tests: dict[int, StoredTest],
    tables: Sequence[NoiseTable],
    effect: float,
) -> tuple[np.ndarray, np.ndarray]:
    """The chance that each launch finds a slow-down of each test, [launches, tests], and the weight
    of each test, [tests]. A test with too few nights counts like the usual one."""

    numbers = [number for launch in launches for number in launch.tests]
    shapes = ((tests[number].identity, tests[number].geometry) for number in numbers)
    column = {shape: index for index, shape in enumerate(shapes)}
    chance, time = np.full(len(numbers), np.nan), np.full(len(numbers), np.nan)
    alike = np.eye(len(numbers))
    for table in tables:
        sigma, rho = np.maximum(table.noise.sigma, TINY), table.noise.rho
        alarms = np.asarray(
            chance_of_alarm(LIMITS.plan_nights, np.log1p(effect), sigma, rho, len(sigma))
        )
        absolute = [is_absolute(history.metric.unit) for history in table.histories]
        quietest: dict[int, int] = {}  # a test's column -> its row
        for row in np.lexsort((alarms, np.array(absolute))).tolist():
            test, metric, _, values, _ = table.histories[row]
            place = column.get((test.identity, test.geometry))
            few = POINT.sub("", metric.name) in FEW_SAMPLES  # histories of runs lack them
            # What never varies is a count, or a ratio to itself.
            if place is None or few or sigma[row] <= TINY:
                continue
            quietest[place] = row
            time[place] = np.median(values) if metric.name == "time" else time[place]
        if quietest:
            places, rows = (np.array(part) for part in zip(*quietest.items(), strict=True))
            chance[places] = alarms[rows]
            alike[np.ix_(places, places)] = _correlated(table, rows)
    chance = np.nan_to_num(chance, nan=np.nanmedian(chance) if np.isfinite(chance).any() else 0.0)
    weight = np.zeros(len(numbers))
    names = [tests[number].identity for number in numbers]
    kinds = grouped(range(len(numbers)), lambda place: (*names[place][:4], *names[place][5:]))
    for members in kinds.values():
        places = np.array(members)
        ratio = time[places] / time[places][:, None]
        beside = np.nan_to_num(np.minimum(ratio, 1 / ratio))
        alike[np.ix_(places, places)] = np.maximum(alike[np.ix_(places, places)], beside)
        weight[places] = 1 / len(places) / len(kinds)
    ends = np.cumsum([len(launch.tests) for launch in launches])[:-1]
    by_test = np.split(alike * chance[:, None], ends)
    return np.array([rows.max(axis=0) for rows in by_test]), weight


def _correlated(table: NoiseTable, rows: np.ndarray) -> np.ndarray:
    """The squared correlations of these metrics of a table, beside the factors that the nights'
    metrics share, [rows, rows]; 0 where they may be by chance."""
    half = table.values.shape[1] // 2
    sides = np.split(table.values[rows], [half], axis=1)
    off = np.hstack([side - medians(side, 1)[:, None] for side in sides])
    session, kernel = factors(off, table.kernels[rows])
    rest = off - session - kernel[table.kernels[rows]]
    known = np.isfinite(rest).astype(float)
    rest = np.nan_to_num(rest)
    sums = rest**2 @ known.T
    squares = np.clip((rest @ rest.T) ** 2 / np.maximum(sums * sums.T, TINY**4), 0, 1 - TINY)
    df = np.maximum(known @ known.T - 3, 1)  # each half has its level
    p = 2 * scipy.special.stdtr(df, -np.sqrt(squares * df / (1 - squares)))
    sure = np.where(p * max(len(rows) * (len(rows) - 1) / 2, 1) < LIMITS.plan_chance, squares, 0.0)
    np.fill_diagonal(sure, 1.0)
    return sure
