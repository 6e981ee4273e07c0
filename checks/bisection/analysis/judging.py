"""Verdicts on rows by their numbers alone."""

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np

from bisection.analysis.evidence import ALL, LEAST, Evidence, Shared, evidence
from bisection.analysis.model import Row
from bisection.analysis.nights import nights_of
from bisection.analysis.observations import Jobs
from bisection.analysis.shifts import Times
from bisection.analysis.statistics import adjust_fdr, scale
from bisection.core.identity import parsed
from bisection.core.reasons import Code, Reason
from bisection.core.thresholds import LIMITS
from bisection.core.units import COUNTED
from bisection.core.verdicts import Against, Scope, Verdict
from bisection.store.database import Session

HUGE = 700  # a logarithm whose exponential is still a number
CHANGED = (Verdict.REGRESSED, Verdict.IMPROVED)


@dataclass
class Judged:
    """Results of a table in addition to its rows."""

    findings: list[Reason] = field(default_factory=list)
    noise: float | None = None  # standard deviation between nights of the usual metric, logarithm
    rho: float = 0.0  # its correlation in neighbouring nights
    nights: tuple[int, int] = (0, 0)  # of both sides, of the usual metric
    rows: int = 0  # judged by nights


def judge_rows(
    rows: Sequence[Row],
    samples: Sequence[tuple[Jobs, Jobs]],
    sides: tuple[Sequence[Session], Sequence[Session]],
) -> Judged:
    """Rules on the rows that have no ruling yet, all of one table.

    Args:
        rows: the table.
        samples: of each row, the jobs before and after.
        sides: the sessions before and after.
    """
    night, times = zip(*map(nights_of, sides), strict=True)
    by_nights, by_jobs = [], []
    for index, row in enumerate(rows):
        if row.rulings:
            continue
        if row.unit in COUNTED:
            _count(row, *samples[index])
            continue
        nights = [_by_night(side, night[n]) for n, side in enumerate(samples[index])]
        jobs = [[v for values in side.values() for v in values] for side in samples[index]]
        row.before.spread, row.after.spread = (_spread(list(side.values())) for side in nights)
        if min(map(len, nights)) >= LIMITS.fewest:
            row.scope = Scope.MACHINE
            by_nights.append((row, nights))
        elif max(map(len, nights)) < LIMITS.fewest <= min(map(len, jobs)):
            row.scope = Scope.SESSIONS
            by_jobs.append((row, [dict(enumerate(side)) for side in jobs]))
        else:
            old, new = (math.log(median(side.values())) for side in nights)
            _set_ratio(row, (new - old) * (1 if row.better == "lower" else -1))
            row.rule(Verdict.INCONCLUSIVE, _too_few(row))
    tables = [_Table(members, times) for members in _by_place(by_nights)]
    for table, p in zip(tables, adjusted([table.seen for table in tables]), strict=True):
        table.rule(p)
    if by_jobs:
        order = np.arange(max(len(side) for _, jobs in by_jobs for side in jobs), dtype=float)
        table = _Table(by_jobs, (order, order), shared=False)
        table.rule(*adjusted([table.seen]), least=_nights_differ(*sides))
    return _judged([table for table in tables if len(table.rows)])


Values = list[dict[int, float]]  # before and after: the number of a night, or of a job -> a value


class _Table:
    """Rows that are judged together."""

    def __init__(
        self, members: Sequence[tuple[Row, Values]], times: Times, shared: bool = True
    ) -> None:
        self.rows = [row for row, _ in members]
        signs = np.array([1 if row.better == "lower" else -1 for row in self.rows])
        self.costs = [np.full((len(members), len(at)), np.nan) for at in times]
        for costs, side in zip(self.costs, (0, 1), strict=True):
            for line, (_, values) in zip(costs, members, strict=True):
                line[list(values[side])] = list(values[side].values())
            np.log(costs, out=costs)
            costs *= signs[:, None]
        names = ["" if row.control else row.check for row in self.rows]
        self.kernels = list(dict.fromkeys(names if shared else range(len(names))))
        numbers = [self.kernels.index(name) for name in names] if shared else self.kernels
        ratios = np.array([not row.absolute for row in self.rows])
        numbers = np.array(numbers, int)
        self.seen, self.shared = evidence(*self.costs, numbers, ratios, times)
        self.findings = [self._finding(each, numbers, ratios) for each in self.shared]

    def _finding(self, shared: Shared, kernels: np.ndarray, ratios: np.ndarray) -> Reason:
        """A shared shift for people: of which kernel, by how much, of how many metrics."""
        every = shared.kernel == ALL
        bounds = (0, -shared.half_width, shared.half_width)
        values = [_exp(shared.estimate + part) for part in bounds]
        change = dict(zip(("ratio", "low", "high"), values, strict=True))
        return Code.SHARED(
            place=":".join((self.rows[0].system, self.rows[0].partition)),
            kernel=None if every else self.kernels[shared.kernel],
            change={"metric": "time", "unit": "s", "better": "lower", **change},
            metrics=len(shared.metrics),
            of=int((~ratios & (every | (kernels == shared.kernel))).sum()),
        )

    def rule(self, p: np.ndarray, least: float = 0.0) -> None:
        """Rules on the rows.

        Args:
            p: adjusted p-values, [rows].
            least: the logarithm of the change that must be exceeded for sure.
        """
        seen = self.seen
        verdicts, margin = decide(seen, p), margins(seen)
        ranges = [np.nanmax(costs, axis=1) - np.nanmin(costs, axis=1) for costs in self.costs]
        constant = np.min(ranges, axis=0) < 1e-12
        for i, row in enumerate(self.rows):
            cost = (float(seen.estimate[i]), float(seen.low[i]), float(seen.high[i]))
            _set_ratio(row, *cost)
            row.p = float(p[i])
            reason = None
            if seen.states.two[i]:
                shares = seen.states.share[:, i].tolist()
                gap = math.exp(seen.states.gap[i])
                row.states = Code.TWO_STATES(gap=gap, before=shares[0], after=shares[1])
            if verdicts[i] in CHANGED and max(cost[1], -cost[2]) < least:
                verdicts[i] = Verdict.INCONCLUSIVE
                reason = Code.NIGHTS_UNKNOWN(margin=math.expm1(least))
            elif verdicts[i] == Verdict.INCONCLUSIVE:
                reason = row.states or _undecided(cost, row.p, float(margin[i]))
            elif verdicts[i] == Verdict.UNCHANGED and constant[i]:
                verdicts[i], reason = Verdict.INCONCLUSIVE, Code.CONSTANT()
            elif verdicts[i] in CHANGED:
                reason = row.states
            row.rule(verdicts[i], reason)
        for number, each in enumerate(self.shared):
            verdict = Verdict.REGRESSED if each.estimate > 0 else Verdict.IMPROVED
            for i in each.metrics:
                self.rows[i].rule(verdict, self.findings[number])


def _by_place(members: Sequence[tuple[Row, Values]]) -> list[list[tuple[Row, Values]]]:
    places = defaultdict(list)
    for row, values in members:
        places[row.system, row.partition].append((row, values))
    return list(places.values())


def adjusted(tables: Sequence[Evidence]) -> list[np.ndarray]:
    """The p-values of tables that are judged together, adjusted for how many metrics they have.

    Metrics whose factor has shifted for sure are adjusted by themselves: they would make it easier
    for the others, of which none may have shifted.
    """
    if not tables:
        return []
    p = np.concatenate([table.p for table in tables])
    followed = np.concatenate([table.followed for table in tables])
    for here in (followed, ~followed):
        p[here] = adjust_fdr(p[here])
    return np.split(p, np.cumsum([len(table.p) for table in tables])[:-1])


def margins(seen: Evidence) -> np.ndarray:
    """The logarithm of the smallest change of interest, by the noise between nights, [metrics]."""
    return np.maximum(math.log1p(LIMITS.margin), LIMITS.noise_margin * seen.sigma)


def decide(seen: Evidence, p: np.ndarray) -> np.ndarray:
    """Verdicts on slow-downs.

    A metric has changed if its shift is surer than chance, and may be as large as the margin: then
    it is not unchanged because nights vary by more.

    Args:
        seen: of each metric.
        p: adjusted p-values, [metrics].

    Returns:
        Verdicts, [metrics].
    """
    margin = margins(seen)
    side = np.sign(seen.estimate)
    # A shift beside a factor that is not sure: by as much itself, and the same way.
    apart = seen.followed | (side * seen.apart >= LEAST)
    sure = (p <= LIMITS.false_discoveries) & (np.maximum(seen.low, -seen.high) > 0)
    changed = sure & apart & (np.abs(seen.estimate) >= LEAST)
    verdicts = np.full(len(margin), Verdict.INCONCLUSIVE, dtype=object)
    verdicts[(seen.low > -margin) & (seen.high < margin)] = Verdict.UNCHANGED
    changed &= np.where(side > 0, seen.high, -seen.low) >= margin
    verdicts[changed & (side > 0)] = Verdict.REGRESSED
    verdicts[changed & (side < 0)] = Verdict.IMPROVED
    return verdicts


def _judged(tables: Sequence[_Table]) -> Judged:
    """Returns what tables by nights show as a whole."""
    if not tables:
        return Judged()
    sigma, rho, counts = (
        np.concatenate([get(table) for table in tables], axis=-1)
        for get in (
            lambda table: table.seen.sigma,
            lambda table: table.seen.rho,
            lambda table: np.array([np.isfinite(costs).sum(axis=1) for costs in table.costs]),
        )
    )
    return Judged(
        [finding for table in tables for finding in table.findings],
        float(np.median(sigma)),
        float(np.median(rho)),
        tuple(int(count) for count in np.median(counts, axis=1)),
        len(sigma),
    )


# ---- observations ----


def _by_night(jobs: Jobs, night: Mapping[int, int]) -> dict[int, float]:
    """The number of a night -> the median of its sessions, each by the median of its jobs."""
    nights = defaultdict(list)
    for session, values in jobs.items():
        nights[night[session]].append(median(values))
    return {number: median(values) for number, values in sorted(nights.items())}


def _nights_differ(before: Sequence[Session], after: Sequence[Session]) -> float:
    """The logarithm of what nights may differ by themselves, where too few are known to see it."""
    starts = [session.start for session in (*before, *after)]
    same_day = max(starts) - min(starts) < 3600 * LIMITS.day
    return math.log1p(LIMITS.margin if same_day else LIMITS.unknown_nights)


def _spread(values: Sequence[float]) -> float:
    """The robust standard deviation of the logarithms, for few values made larger."""
    logs = np.log(values)
    return float(scale(logs - np.median(logs))) * (1 + 1 / max(len(logs) - 1, 1))


def _exp(value: float) -> float:
    return math.exp(min(max(value, -HUGE), HUGE))


def _set_ratio(row: Row, *cost: float) -> None:
    """Sets a row's ratio, with its interval if there is one, by logarithms of its slow-down."""
    sign = 1 if row.better == "lower" else -1
    row.ratio, *bounds = (_exp(sign * part) for part in cost)
    if bounds:
        row.low, row.high = sorted(bounds)


def _count(row: Row, was: Jobs, now: Jobs) -> None:
    """Counts are the same in every run: compared without statistics."""
    left, right = ({v for values in jobs.values() for v in values} for jobs in (was, now))
    if len(left) > 1 or len(right) > 1:
        row.rule(Verdict.INCONCLUSIVE, Code.COUNT_VARIES())
        return
    (old,), (new,) = left, right
    row.scope, row.ratio = Scope.MACHINE, new / old if old and new else None
    row.low = row.high = row.ratio
    if new == old:
        row.rule(Verdict.UNCHANGED)
        return
    worse = new > old if row.better == "lower" else new < old
    changed = Code.COUNT_CHANGED(before=old, after=new)
    row.rule(Verdict.REGRESSED if worse else Verdict.IMPROVED, changed)


def _too_few(row: Row) -> Reason:
    sessions = (row.before.sessions, row.after.sessions)
    jobs = (row.before.jobs, row.after.jobs)
    for code, (before, after) in ((Code.FEW_SESSIONS, sessions), (Code.FEW_JOBS, jobs)):
        if max(before, after) > 1:
            return code(before=before, after=after, needed=LIMITS.fewest)
    return Code.ONE_JOB()


def _undecided(cost: tuple[float, float, float], p: float, margin: float) -> Reason:
    _, low, high = cost
    if low <= 0 <= high:
        return Code.INTERVAL_WIDE()
    if p > LIMITS.false_discoveries:
        return Code.NOT_SIGNIFICANT()
    return Code.UNDER_MARGIN(margin=math.expm1(margin))


# ---- an upgrade against what was expected of it (HPCx report, 2004, section 8) ----


def set_against(rows: Sequence[Row], expected: float) -> None:
    """Says of each speed-up where it is beside the expected ratio, and whether a network explains
    it."""
    for row in rows:
        if row.low is None or row.control or not row.absolute:
            continue
        speed, low, high = row.speedup
        noise = max(row.before.spread or 0, row.after.spread or 0)
        margin = 1 + max(LIMITS.margin, LIMITS.noise_margin * noise)
        row.against = Against.UNCLEAR
        if low > expected and speed >= expected * margin:
            row.against = Against.ABOVE
        elif high < expected and speed <= expected / margin:
            row.against = Against.BELOW
        elif low > expected / margin and high < expected * margin:
            row.against = Against.AT
        row.explained = explain(row, speed, expected)
    for group in _by_ranks(rows).values():
        _note_growth(group)


def explain(row: Row, speed: float, expected: float) -> Reason | None:
    """Returns the reason for a speed-up, by a fit of communication alone: 1 / speed = (1 - f) /
    expected + f / network, with the fraction f of communication before the upgrade.

    Args:
        row: the row, with `against` and `communication`.
        speed: its speed-up.
        expected: the speed-up of everything but communication.
    """
    f = row.communication
    if row.against not in (Against.ABOVE, Against.BELOW):
        return None
    if f is None:
        return Code.FRACTION_UNKNOWN()
    left = 1 / speed - (1 - f) / expected
    if f < LIMITS.no_network:
        return Code.NOT_THE_NETWORK(fraction=f)
    if left <= 0:
        most = expected / (1 - f) if f < 1 else math.inf
        return Code.NOT_THE_NETWORK_ALONE(fraction=f, most=most)
    network = f / left
    if row.against == Against.ABOVE or network >= 1:
        return Code.NETWORK_FASTER(fraction=f, factor=network)
    return Code.NETWORK_SLOWER(fraction=f, factor=1 / network)


def _by_ranks(rows: Sequence[Row]) -> dict[tuple[object, ...], list[tuple[int, Row]]]:
    """Rows that differ in their layout and number of ranks alone, with their ranks."""
    groups = defaultdict(list)
    for row in rows:
        if row.against and (shape := parsed(row.after.geometry)):
            key = (*row.identity[:5], row.method, row.metric, shape.threads)
            groups[key].append((shape.ranks, row))
    return groups


def _note_growth(group: list[tuple[int, Row]]) -> None:
    """Notes whether a speed-up above the expected one rises with the ranks."""
    group.sort(key=lambda pair: pair[0])
    speeds = [row.speedup[0] for _, row in group]
    if len({ranks for ranks, _ in group}) < 2:
        return
    rises = speeds[-1] > speeds[0] * (1 + LIMITS.margin) and all(
        later >= sooner / (1 + LIMITS.margin) for sooner, later in itertools.pairwise(speeds)
    )
    for _, row in group:
        if row.against == Against.ABOVE:
            row.rises = rises
