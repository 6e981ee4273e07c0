"""Verdicts on rows by their numbers alone."""

import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import median

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.histories import nights_of
from bisection.analysis.model import Row
from bisection.analysis.observations import Jobs, by_night, spread_of
from bisection.analysis.power import Power
from bisection.analysis.shared_factors import ALL, LEAST, MetricShifts, Shared, evidence
from bisection.analysis.statistics import exp
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.performance import (
    NOISE,
    OTHERS_MOVE,
    SMALL,
    TOO_FEW,
    Inconclusive,
    SharedChange,
    TwoStates,
)
from bisection.core.thresholds import LIMITS
from bisection.core.units import COUNTED
from bisection.core.verdicts import Scope, Verdict
from bisection.store.database import Session

CHANGED = (Verdict.REGRESSED, Verdict.IMPROVED)


def judge_rows(
    rows: Sequence[Row],
    samples: Sequence[tuple[Jobs, Jobs]],
    sides: tuple[Sequence[Session], Sequence[Session]],
) -> tuple[list[SharedChange], Power | None]:
    """Rules on the rows that have no ruling yet, all of one table; `samples`: of each row the jobs
    before and after, `sides`: the sessions. Returns the changes that metrics share, and the power
    by the usual metric that was judged by nights (None: there is none)."""
    night = [*map(nights_of, sides)]
    places, by_jobs = defaultdict(list), []
    for row, jobs in zip(rows, samples, strict=True):
        if row.verdict != Verdict.INCONCLUSIVE:
            continue
        if row.unit in COUNTED:
            _count(row, *jobs)
            continue
        nights = [by_night(side, numbers) for side, numbers in zip(jobs, night, strict=True)]
        values = [[v for of_session in side.values() for v in of_session] for side in jobs]
        row.before.spread, row.after.spread = (spread_of(list(side.values())) for side in nights)
        if min(map(len, nights)) >= LIMITS.fewest:
            row.scope = Scope.MACHINE
            places[row.system, row.partition].append((row, nights))
        elif max(map(len, nights)) < LIMITS.fewest <= min(map(len, values)):
            row.scope = Scope.SESSIONS
            by_jobs.append((row, [dict(enumerate(side)) for side in values]))
        else:
            old, new = (math.log(median(side.values())) for side in nights)
            row.set_costs((new - old) * row.sign)
            row.rule(Verdict.INCONCLUSIVE, _too_few(row))
    tables = [_Table(members) for members in places.values()]
    starts = [session.start for side in sides for session in side]
    same_day = max(starts) - min(starts) < 3600 * LIMITS.day
    # What nights may differ by themselves, where too few are known to see it.
    differ = math.log1p(LIMITS.margin if same_day else LIMITS.unknown_nights)
    few = [_Table(by_jobs, shared=False, least=differ)] if by_jobs else []
    for alike in filter(None, (tables, few)):
        for table, p in zip(alike, adjusted([each.seen for each in alike]), strict=True):
            table.rule(p)
    if not tables:
        return [], None
    noise = np.hstack([table.noise for table in tables])
    sigma, rho, *nights = np.median(noise, axis=1).tolist()
    findings = [finding for table in tables for finding in table.findings]
    return findings, Power(sigma, rho, noise.shape[1], tuple(map(int, nights)))


Values = list[dict[int, float]]  # before and after: the number of a night, or of a job -> a value


class _Table:
    """Rows that are judged together. `least`: logarithm of the change that must be exceeded."""

    def __init__(
        self, members: Sequence[tuple[Row, Values]], shared: bool = True, least: float = 0.0
    ) -> None:
        self.rows, self.least = [row for row, _ in members], least
        signs = np.array([[row.sign] for row in self.rows])
        self.costs = []
        for side in (0, 1):
            at = sorted({number for _, pair in members for number in pair[side]})
            values = [[pair[side].get(n, np.nan) for n in at] for _, pair in members]
            self.costs.append(signs * np.log(values))
        # Without shared factors, each row is a kernel of its own.
        names = [("" if r.control else r.check) if shared else r.key for r in self.rows]
        self.kernels = list(dict.fromkeys(names))
        numbers = np.array([self.kernels.index(name) for name in names])
        ratios = np.array([not row.absolute for row in self.rows])
        self.seen, self.shared = evidence(self.costs[0], self.costs[1], numbers, ratios)
        self.findings = [self._finding(each, numbers, ratios) for each in self.shared]
        nights = (np.isfinite(costs).sum(axis=1) for costs in self.costs)
        self.noise = np.array([self.seen.apart.sigma, self.seen.apart.rho, *nights])

    def _finding(self, shift: Shared, kernels: np.ndarray, ratios: np.ndarray) -> SharedChange:
        """A shared shift for people: of which kernel, by how much, of how many metrics."""
        every = shift.kernel == ALL
        return SharedChange(
            place=":".join((self.rows[0].system, self.rows[0].partition)),
            kernel="" if every else str(self.kernels[shift.kernel]),
            ratio=exp(shift.estimate),
            low=exp(shift.estimate - shift.half_width),
            high=exp(shift.estimate + shift.half_width),
            metrics=len(shift.metrics),
            of=int((~ratios & (every | (kernels == shift.kernel))).sum()),
        )

    def rule(self, p: np.ndarray) -> None:
        """Rules on the rows, by adjusted p-values, [rows]."""
        seen = self.seen
        margin, states = margins(seen), seen.states
        ranges = [np.nanmax(costs, axis=1) - np.nanmin(costs, axis=1) for costs in self.costs]
        constant = np.min(ranges, axis=0) < 1e-12
        for i, (row, verdict) in enumerate(zip(self.rows, decide(seen, p), strict=True)):
            low, high = float(seen.low[i]), float(seen.high[i])
            row.set_costs(float(seen.estimate[i]), low, high)
            row.p = float(p[i])
            if states.two[i]:
                before, after = states.share[:, i].tolist()
                gap = math.exp(states.gap[i])
                row.states = TwoStates(gap=gap, before=before, after=after)
            reason: Reason | None = row.states if verdict != Verdict.UNCHANGED else None
            if verdict in CHANGED and max(low, -high) < self.least:
                verdict, within = Verdict.INCONCLUSIVE, f"within the {math.expm1(self.least):.0%}"
                reason = Inconclusive(f"{within} that so few nights can differ", group=TOO_FEW)
            elif verdict == Verdict.INCONCLUSIVE and not reason:
                group, text = SMALL, f"a change below the {math.expm1(margin[i]):.0%} that counts"
                if low <= 0 <= high:
                    group, text = NOISE, "the interval includes 0 and the margin"
                elif row.p > LIMITS.false_discoveries:
                    group, text = NOISE, "not significant among so many metrics"
                elif abs(seen.apart.estimate[i]) < seen.news:
                    group, text = OTHERS_MOVE, "no larger than the states of other metrics"
                reason = Inconclusive(text, group=group, sigma=float(seen.apart.sigma[i]))
            elif verdict == Verdict.UNCHANGED and constant[i]:
                verdict = Verdict.INCONCLUSIVE
                reason = Text("all samples are the same number: nothing to judge by")
            row.rule(verdict, reason)
        for each, finding in zip(self.shared, self.findings, strict=True):
            for i in each.metrics:
                self.rows[i].rule(CHANGED[each.estimate <= 0], finding)


def adjusted(tables: Sequence[MetricShifts]) -> list[np.ndarray]:
    """The p-values of tables that are judged together, adjusted for how many metrics they have.

    Metrics whose factor has shifted for sure are adjusted by themselves: they would make it easier
    for the others, of which none may have shifted.
    """
    p = np.concatenate([table.p for table in tables])
    followed = np.concatenate([table.followed for table in tables])
    for here in (followed, ~followed):
        p[here] = scipy.stats.false_discovery_control(p[here])
    return np.split(p, np.cumsum([len(table.p) for table in tables])[:-1])


def margins(seen: MetricShifts) -> np.ndarray:
    """The logarithm of the smallest change of interest, by the noise between nights, [metrics]."""
    return np.maximum(math.log1p(LIMITS.margin), LIMITS.noise_margin * seen.apart.sigma)


def decide(seen: MetricShifts, p: np.ndarray) -> np.ndarray:
    """Verdicts on slow-downs, [metrics], by adjusted p-values, [metrics].

    A metric has got worse if its shift is surer than chance, and may be as large as the margin:
    then it is not unchanged because nights vary by more. It has improved if its shift is as large.
    """
    margin = margins(seen)
    side = np.sign(seen.estimate)
    # A shift beside a factor that is not sure: as large itself.
    apart = seen.followed | (side * seen.apart.estimate >= max(LEAST, seen.news))
    sure = (p <= LIMITS.false_discoveries) & (np.maximum(seen.low, -seen.high) > 0)
    changed = sure & apart & (np.abs(seen.estimate) >= LEAST)
    verdicts = np.full(len(margin), Verdict.INCONCLUSIVE, dtype=object)
    verdicts[(seen.low > -margin) & (seen.high < margin)] = Verdict.UNCHANGED
    changed &= np.where(side > 0, seen.high, -seen.low) >= margin
    verdicts[changed & (side > 0)] = Verdict.REGRESSED
    verdicts[changed & (-seen.estimate >= margin)] = Verdict.IMPROVED
    return verdicts


def _count(row: Row, was: Jobs, now: Jobs) -> None:
    """Counts are the same in every run: compared without statistics."""
    left, right = ({v for values in jobs.values() for v in values} for jobs in (was, now))
    if len(left) > 1 or len(right) > 1:
        row.rule(Verdict.INCONCLUSIVE, Text("a count that differs from run to run"))
        return
    (old,), (new,) = left, right
    row.scope, row.ratio = Scope.MACHINE, new / old if old and new else None
    row.low = row.high = row.ratio
    if new == old:
        row.rule(Verdict.UNCHANGED)
    else:
        worse = (new > old) == (row.better == "lower")
        row.rule(CHANGED[not worse], Text(f"{old:.15g} is now {new:.15g}"))


def _too_few(row: Row) -> Inconclusive:
    name = "sessions" if max(row.before.sessions, row.after.sessions) > 1 else "jobs"
    before, after = (getattr(side, name) for side in (row.before, row.after))
    text = f"{before} and {after} {name}; {LIMITS.fewest} are needed"
    return Inconclusive(text, group=TOO_FEW)
