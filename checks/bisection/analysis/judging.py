"""Verdicts on rows by their samples."""

import math
from collections import defaultdict
from statistics import median

import numpy as np

from bisection.analysis.statistics import (
    FALSE_DISCOVERIES,
    FEWEST,
    chance,
    controlled,
    judge,
    margins,
    shift,
    spread,
)
from bisection.analysis.wording import change
from bisection.core.verdicts import (
    COUNTED,
    IMPROVED,
    INCONCLUSIVE,
    MACHINE,
    REGRESSED,
    SESSIONS,
    UNCHANGED,
)

SUSPECT = 4  # standard deviations from what earlier sessions showed
HUGE = 700  # a logarithm whose exponential is still a number


def judge_rows(rows, samples):
    """Gives verdicts to the rows that have none yet, all of one table."""
    groups = defaultdict(list)
    for index, row in enumerate(rows):
        if row.verdict:
            continue
        if row.unit in COUNTED:
            _count(row, *samples[index])
            continue
        units, row.scope = _units(*samples[index])
        groups[len(units[0]), len(units[1])].append((index, units))
    open_rows, chances, found, constant = [], [], [], []
    for members in groups.values():
        sign = np.array([1 if rows[i].better == "lower" else -1 for i, _ in members])
        before, after = (np.log([units[side] for _, units in members]) for side in (0, 1))
        costs = [sign[:, None] * side for side in (before, after)]
        estimate, low, high = shift(*costs)
        sigma = spread(*costs)
        chances.append(chance(*costs))
        found.append((estimate, low, high, margins(sigma)))
        open_rows += [rows[i] for i, _ in members]
        constant += np.any([np.ptp(side, axis=1) < 1e-12 for side in costs], axis=0).tolist()
        for (i, _), side_before, side_after in zip(
            members, spread(before), spread(after), strict=True
        ):
            rows[i].before.spread, rows[i].after.spread = float(side_before), float(side_after)
    if not open_rows:
        return
    p = controlled(np.concatenate(chances))
    estimate, low, high, margin = (np.concatenate(part) for part in zip(*found, strict=True))
    names = judge(estimate, low, high, p, margin)
    for i, row in enumerate(open_rows):
        _conclude(row, names[i], (estimate[i], low[i], high[i]), float(p[i]), float(margin[i]))
        if row.verdict == UNCHANGED and constant[i]:
            row.verdict = INCONCLUSIVE
            row.why = "all samples are the same number: nothing to judge by"
        leave_tail(row)


def _count(row, was, now):
    """Counts are the same in every run: told apart without statistics."""
    left, right = ({v for values in jobs.values() for v in values} for jobs in (was, now))
    if len(left) > 1 or len(right) > 1:
        row.verdict, row.why = INCONCLUSIVE, "a count that differs from run to run"
        return
    (old,), (new,) = left, right
    row.scope, row.ratio = MACHINE, new / old if old and new else None
    row.low = row.high = row.ratio
    worse = new > old if row.better == "lower" else new < old
    row.verdict = UNCHANGED if new == old else REGRESSED if worse else IMPROVED
    row.why = "" if new == old else f"{old:.15g} is now {new:.15g}"


def _units(was, now):
    """The samples of both sides, and what a verdict on them is about: sessions, each by the median
    of its jobs; jobs, which vary less than nights do, where both sides have few sessions."""
    sides = [np.array([median(values) for values in jobs.values()]) for jobs in (was, now)]
    if max(map(len, sides)) < FEWEST:
        jobs = [np.array([v for values in side.values() for v in values]) for side in (was, now)]
        if min(map(len, jobs)) >= FEWEST:
            return jobs, SESSIONS
    return sides, MACHINE


def _conclude(row, name, cost, p, margin):
    sign = 1 if row.better == "lower" else -1
    values = [math.exp(min(max(sign * part, -HUGE), HUGE)) for part in cost]
    row.ratio, row.low, row.high = values[0], *sorted(values[1:])
    row.p, row.verdict = p, name
    few = min(row.before.sessions, row.after.sessions)
    if row.scope == MACHINE and few < FEWEST:
        row.scope, row.verdict = "", INCONCLUSIVE
        row.low = row.high = None
        row.why = "one job a side says nothing of the machine"
        if max(row.before.sessions, row.after.sessions) > 1:
            row.why = (
                f"{row.before.sessions} and {row.after.sessions} sessions; {FEWEST} are needed"
            )
        elif max(row.before.jobs, row.after.jobs) > 1:
            row.why = f"{row.before.jobs} and {row.after.jobs} jobs; {FEWEST} are needed"
        _compare_with_past(row, cost[0], margin)
    elif row.verdict == INCONCLUSIVE:
        _, low, high = cost
        if p > FALSE_DISCOVERIES or low <= 0 <= high:
            row.why = "the interval holds both no effect and one that counts"
            if low > 0 or high < 0:
                row.why = "not sure enough among so many metrics"
        else:
            row.why = f"an effect, but under the {math.expm1(margin):.0%} that counts"


def _compare_with_past(row, cost, margin):
    """One night cannot be judged by itself; that it is unlike all before is told."""
    enough = row.before.sessions >= 8 and row.after.sessions >= 1
    if enough and abs(cost) > max(margin, SUSPECT * row.before.spread):
        row.suspect = True
        row.why += f"; but outside of what {row.before.sessions} earlier ones showed"


def leave_tail(row):
    """Takes back a verdict on the slowest percent of samples where it may be others' doing: more
    samples than these were disturbed, or there is one session a side and neighbours come and go."""
    share = max(row.before.disturbed, row.after.disturbed)
    if not row.metric.startswith("time_p99") or row.verdict not in (REGRESSED, IMPROVED):
        return
    if share > 0.01:
        row.why = f"{change(row)}, but other processes took the cores in {share:.0%} of the samples"
    elif row.scope == SESSIONS:
        row.why = f"{change(row)}, but the slowest percent is judged between sessions only"
    else:
        return
    row.verdict = INCONCLUSIVE
