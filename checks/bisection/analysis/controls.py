"""What takes a verdict back: the control, the A/A run, the baseline, jobs that failed."""

import math

from bisection.analysis.judging import judge_rows
from bisection.analysis.observations import Measured, rows_of
from bisection.analysis.statistics import FALSE_DISCOVERIES, FEWEST, MARGIN
from bisection.analysis.wording import change
from bisection.core.identity import POINT
from bisection.core.verdicts import (
    COUNTED,
    FAIL,
    IMPROVED,
    INCONCLUSIVE,
    NEW,
    NOT_MEASURED,
    REGRESSED,
    UNCHANGED,
)
from bisection.store.database import unusable


def withhold(rows, named=None):
    """Takes back verdicts on times that a drift of the cores alone would explain: as the controls
    of the same launch saw it, or of the partition where the launch has none, or those that the
    pattern `named` names. Returns what the controls did, "" if nothing."""
    moved, watched = {}, set()
    for row in rows:
        if not row.control or row.low is None or row.p is None:
            continue
        place, launch = _place(row), row.identity[:-1]
        if named and named.search(f"{row.test} {row.metric}"):
            launch = (*place, "named")
        watched.add(launch)
        sure = row.p <= FALSE_DISCOVERIES and (row.low > 1 or row.high < 1)
        if sure and size_of_change(row) > MARGIN / 2:
            for where in (place, launch):
                moved[where] = max(moved.get(where, row), row, key=size_of_change)
    for row in rows:
        place, launch = _place(row), row.identity[:-1]
        controls = [moved.get(launch if launch in watched else place)]
        controls = list(filter(None, [*controls, moved.get((*place, "named"))]))
        sure = row.verdict in (REGRESSED, IMPROVED, UNCHANGED)
        if controls and row.absolute and sure and not row.control:
            _withhold(row, max(controls, key=size_of_change))
    return "; ".join(
        f"the cores of {':'.join(place)} are not as they were: {_named(row)} "
        f"({row.test}), which does not communicate, is {change(row)}"
        for place, row in moved.items()
        if len(place) == 2
    )


def _place(row):
    return row.system, row.partition


def size_of_change(row):
    return abs(math.log(row.ratio))


def _named(row):
    return "the clock" if row.metric == "clock" else "the control"


def _withhold(row, control):
    (low, high), (least, most) = row.costs, control.costs
    if row.verdict == UNCHANGED:
        if size_of_change(control) >= math.log1p(MARGIN):
            row.verdict = INCONCLUSIVE
            row.why = f"as before, but the cores alone are not: {_named(control)} {change(control)}"
        return
    beyond = low > most if row.verdict == REGRESSED else high < least
    if not beyond:
        row.verdict = INCONCLUSIVE
        row.why = f"{change(row)}, but so are the cores alone: {_named(control)} {change(control)}"


def look_below(rows):
    """Takes back verdicts on ratios to another method where it is that one that changed."""
    times = {row.key: row for row in rows if row.absolute and row.low is not None}
    for row in rows:
        if row.unit != "ratio" or row.verdict not in (REGRESSED, IMPROVED):
            continue
        point = POINT.search(row.metric)
        own = times.get((*row.identity, f"time{point[0] if point else ''}"))
        if not own:
            continue
        # Where nights vary more than the ratio changed, the time itself does not tell.
        (low, high), (least, most) = own.costs, row.costs
        apart = high < least if row.verdict == REGRESSED else low > most
        if apart and math.log(own.worse) / math.log(row.worse) < 0.5:
            row.verdict = INCONCLUSIVE
            row.why = (
                f"{change(row)}, by what it is compared with: the time itself is {change(own)}"
            )


def own_noise(store, before, aa, name=None):
    """What an A/A comparison calls changed, and what it was made of: (key -> by how much at most,
    words); words are "" if none could be made."""
    if aa:
        sides, words = (before, aa), "the A/A run"
    elif len(before) >= 2 * FEWEST:
        sides, words = (before[::2], before[1::2]), "the sessions before, odd against even"
    else:
        return {}, ""
    rows, samples = rows_of(*(Measured(store, side) for side in sides), name)
    judge_rows(rows, samples)
    moved = [r for r in rows if r.verdict in (REGRESSED, IMPROVED) and r.costs]
    return {r.key: max(r.costs[1], 1 / r.costs[0]) for r in moved}, words


def moves_by_itself(row, most):
    """Whether what was changed does no more than what an A/A comparison saw without a change."""
    low, high = row.costs or (1, 1)
    return low <= most if row.verdict == REGRESSED else high >= 1 / most


def count_failures(rows, after):
    """Nothing is unchanged, or better, where jobs failed, or where most could not be used."""
    for row in rows:
        if row.unit in COUNTED or row.verdict not in (UNCHANGED, IMPROVED, INCONCLUSIVE, NEW):
            continue
        outcomes = after.outcomes.get(row.identity, ())
        used = {(s, run) for s, run, value in after.found.get(row.key, ()) if value == value}
        failed = [o for o in outcomes if o.verdict == FAIL]
        failed = [o for o in failed if (o.session, o.run) not in used]
        lost = [o for o in outcomes if unusable(o)]
        bad, word = (failed, "failed") if failed else (lost, "could not be used")
        if failed or len(lost) > len(outcomes) / 2:
            row.verdict = NOT_MEASURED
            cause = bad[-1].cause or unusable(bad[-1])
            row.why = f"{len(bad)} of {len(outcomes)} jobs after {word}: {cause}"
