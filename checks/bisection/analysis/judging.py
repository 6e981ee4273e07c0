"""Verdicts on rows by their numbers alone."""

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from statistics import median

import numpy as np

from bisection.analysis.model import Row
from bisection.analysis.observations import Jobs
from bisection.analysis.statistics import (
    adjust_fdr,
    classify,
    hodges_lehmann,
    mad_sigma,
    margins,
    yuen_pvalue,
)
from bisection.core.identity import COUNTED, parsed
from bisection.core.reasons import Code, Reason
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Against, Scope, Verdict

HUGE = 700  # a logarithm whose exponential is still a number


def judge_rows(rows: Sequence[Row], samples: Sequence[tuple[Jobs, Jobs]]) -> None:
    """Rules on the rows that have no ruling yet, all of one table.

    Args:
        rows: the table.
        samples: of each row, the jobs before and after.
    """
    groups = defaultdict(list)  # by the number of observations per side
    for index, row in enumerate(rows):
        if row.rulings:
            continue
        if row.unit in COUNTED:
            _count(row, *samples[index])
            continue
        sides, row.scope = _observed(*samples[index])
        groups[len(sides[0]), len(sides[1])].append((index, sides))
    open_rows, chances, shifts, constant = [], [], [], []
    for members in groups.values():
        sign = np.array([1 if rows[i].better == "lower" else -1 for i, _ in members])
        before, after = (np.log([sides[side] for _, sides in members]) for side in (0, 1))
        costs = [sign[:, None] * side for side in (before, after)]
        estimate, low, high = hodges_lehmann(*costs)
        chances.append(yuen_pvalue(*costs))
        shifts.append((estimate, low, high, margins(mad_sigma(*costs))))
        open_rows += [rows[i] for i, _ in members]
        constant += np.any([np.ptp(side, axis=1) < 1e-12 for side in costs], axis=0).tolist()
        for (i, _), side_before, side_after in zip(
            members, mad_sigma(before), mad_sigma(after), strict=True
        ):
            rows[i].before.spread, rows[i].after.spread = float(side_before), float(side_after)
    if not open_rows:
        return
    p = adjust_fdr(np.concatenate(chances))
    estimate, low, high, margin = (np.concatenate(part) for part in zip(*shifts, strict=True))
    verdicts = classify(estimate, low, high, p, margin)
    for i, row in enumerate(open_rows):
        cost = (float(estimate[i]), float(low[i]), float(high[i]))
        _conclude(row, verdicts[i], cost, float(p[i]), float(margin[i]))
        if row.verdict == Verdict.UNCHANGED and constant[i]:
            row.rule(Verdict.INCONCLUSIVE, Reason.of(Code.CONSTANT))


def _count(row: Row, was: Jobs, now: Jobs) -> None:
    """Counts are the same in every run: compared without statistics."""
    left, right = ({v for values in jobs.values() for v in values} for jobs in (was, now))
    if len(left) > 1 or len(right) > 1:
        row.rule(Verdict.INCONCLUSIVE, Reason.of(Code.COUNT_VARIES))
        return
    (old,), (new,) = left, right
    row.scope, row.ratio = Scope.MACHINE, new / old if old and new else None
    row.low = row.high = row.ratio
    if new == old:
        row.rule(Verdict.UNCHANGED)
        return
    worse = new > old if row.better == "lower" else new < old
    changed = Reason.of(Code.COUNT_CHANGED, before=old, after=new)
    row.rule(Verdict.REGRESSED if worse else Verdict.IMPROVED, changed)


def _observed(was: Jobs, now: Jobs) -> tuple[list[np.ndarray], Scope]:
    """The observations of both sides, and what a verdict on them holds for: sessions, each by the
    median of its jobs; jobs, which vary less than nights do, where both sides have few sessions."""
    sides = [np.array([median(values) for values in jobs.values()]) for jobs in (was, now)]
    if max(map(len, sides)) < LIMITS.fewest:
        jobs = [np.array([v for values in side.values() for v in values]) for side in (was, now)]
        if min(map(len, jobs)) >= LIMITS.fewest:
            return jobs, Scope.SESSIONS
    return sides, Scope.MACHINE


def _conclude(
    row: Row, verdict: Verdict, cost: tuple[float, float, float], p: float, margin: float
) -> None:
    """Rules on a row by the logarithm of its slow-down with its interval."""
    sign = 1 if row.better == "lower" else -1
    values = [math.exp(min(max(sign * part, -HUGE), HUGE)) for part in cost]
    row.ratio, row.low, row.high = values[0], *sorted(values[1:])
    row.p = p
    few = min(row.before.sessions, row.after.sessions)
    if row.scope == Scope.MACHINE and few < LIMITS.fewest:
        row.scope = row.low = row.high = None
        row.rule(Verdict.INCONCLUSIVE, _too_few(row))
    elif verdict == Verdict.INCONCLUSIVE:
        row.rule(verdict, _undecided(cost, p, margin))
    else:
        row.rule(verdict)


def _too_few(row: Row) -> Reason:
    sessions = (row.before.sessions, row.after.sessions)
    jobs = (row.before.jobs, row.after.jobs)
    for code, (before, after) in ((Code.FEW_SESSIONS, sessions), (Code.FEW_JOBS, jobs)):
        if max(before, after) > 1:
            return Reason.of(code, before=before, after=after, needed=LIMITS.fewest)
    return Reason.of(Code.ONE_JOB)


def _undecided(cost: tuple[float, float, float], p: float, margin: float) -> Reason:
    _, low, high = cost
    if low <= 0 <= high:
        return Reason.of(Code.INTERVAL_WIDE)
    if p > LIMITS.false_discoveries:
        return Reason.of(Code.NOT_SIGNIFICANT)
    return Reason.of(Code.UNDER_MARGIN, margin=math.expm1(margin))


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
    """Whether communication alone fits a speed-up: 1 / speed = (1 - f) / expected + f / network,
    with the fraction f of communication before the upgrade.

    Args:
        row: the row, with `against` and `communication`.
        speed: its speed-up.
        expected: the speed-up of everything but communication.
    """
    f = row.communication
    if row.against not in (Against.ABOVE, Against.BELOW):
        return None
    if f is None:
        return Reason.of(Code.FRACTION_UNKNOWN)
    left = 1 / speed - (1 - f) / expected
    if f < LIMITS.no_network:
        return Reason.of(Code.NOT_THE_NETWORK, fraction=f)
    if left <= 0:
        most = expected / (1 - f) if f < 1 else math.inf
        return Reason.of(Code.NOT_THE_NETWORK_ALONE, fraction=f, most=most)
    network = f / left
    if row.against == Against.ABOVE or network >= 1:
        return Reason.of(Code.NETWORK_FASTER, fraction=f, factor=network)
    return Reason.of(Code.NETWORK_SLOWER, fraction=f, factor=1 / network)


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
