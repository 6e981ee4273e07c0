"""Rules that withdraw a verdict: preempted tails, the A/A test, controls, baselines, lost jobs.

A doubt returns the reason to call a row inconclusive, or None. The first in DOUBTS counts.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bisection.analysis.judging import CHANGED, judge_rows
from bisection.analysis.model import Row
from bisection.analysis.observations import Key, Observations, rows_of
from bisection.core.identity import POINT
from bisection.core.reasons import Code, Reason
from bisection.core.thresholds import LIMITS
from bisection.core.units import COUNTED
from bisection.core.verdicts import Scope, Verdict
from bisection.store.database import Session, Store

Place = tuple[str, ...]  # system and partition, and for one launch the rest of its identity


@dataclass
class Context:
    """Evidence for doubts about a table."""

    noise: dict[Key, float]  # key -> by how much a metric moved by itself at most, in an A/A test
    times: dict[Key, Row]  # times and rates with an interval
    # Controls that moved, by partition and by launch, and where controls were watched.
    moved: dict[Place, Row] = field(default_factory=dict)
    watched: set[Place] = field(default_factory=set)

    @property
    def drifted(self) -> dict[str, Row]:
        """Partitions whose cores are not as they were -> the control that moved most."""
        return {":".join(place): row for place, row in self.moved.items() if len(place) == 2}

    def watch(self, row: Row, named: re.Pattern[str] | None) -> None:
        """Adds a control of a judged table. Those that are named hold for all launches of their
        partition."""
        if row.low is None or row.p is None:
            return
        place, launch = _partition(row), row.identity[:-1]
        if named and named.search(f"{row.test} {row.metric}"):
            launch = (*place, "named")
        self.watched.add(launch)
        sure = row.p <= LIMITS.false_discoveries and (row.low > 1 or row.high < 1)
        if sure and size(row) > LIMITS.drift:
            for where in (place, launch):
                self.moved[where] = max(self.moved.get(where, row), row, key=size)


def aa_noise(
    store: Store,
    before: Sequence[Session],
    aa: Sequence[Session],
    name: re.Pattern[str] | None = None,
) -> dict[Key, float]:
    """Returns by how much each metric moved at most that an A/A test calls changed; `before` and
    `aa` are sessions of one state of the machine."""
    if not aa:
        return {}
    rows, samples = rows_of(*(Observations(store, side) for side in (before, aa)), name)
    judge_rows(rows, samples, (before, aa))
    moved = [r for r in rows if r.verdict in CHANGED and not noisy_tail(r) and r.slowdown_interval]
    return {r.key: max(r.slowdown_interval[1], 1 / r.slowdown_interval[0]) for r in moved}


def _partition(row: Row) -> Place:
    return row.system, row.partition


def size(row: Row) -> float:
    """How far a ratio is from 1, as a logarithm."""
    return abs(math.log(row.ratio))


# ---- doubts ----


def noisy_tail(row: Row, _: Context | None = None) -> Reason | None:
    """The slowest percent of samples may be the neighbours' doing: more samples than these were
    preempted, or there is one session per side, and neighbours come and go."""
    if not row.metric.startswith("time_p99") or row.verdict not in CHANGED:
        return None
    preempted = max(row.before.preempted, row.after.preempted)
    if preempted > LIMITS.preempted_tail:
        return Code.TAIL_PREEMPTED(fraction=preempted)
    return Code.TAIL_OF_ONE_SESSION() if row.scope == Scope.SESSIONS else None


def _beyond(row: Row, low: float, high: float) -> bool:
    """True if a change is larger than one of this interval, for sure."""
    least, most = row.slowdown_interval or (1, 1)
    return least > high if row.verdict == Verdict.REGRESSED else most < low


def moves_by_itself(row: Row, context: Context) -> Reason | None:
    """The change may be no more than what an A/A test saw without a change."""
    most = context.noise.get(row.key)
    if most is None or row.verdict not in CHANGED or _beyond(row, 1 / most, most):
        return None
    return Code.MOVES_BY_ITSELF()


def core_drift(row: Row, context: Context) -> Reason | None:
    """A drift of the cores alone may explain a time: as the controls of the same launch saw it, or
    of the partition where the launch has none, or those that were named."""
    sure = row.verdict in (*CHANGED, Verdict.UNCHANGED)
    if not sure or row.control or not row.absolute:
        return None
    place, launch = _partition(row), row.identity[:-1]
    where = launch if launch in context.watched else place
    controls = [context.moved.get(where), context.moved.get((*place, "named"))]
    control = max(filter(None, controls), key=size, default=None)
    if control is None:
        return None
    if row.verdict == Verdict.UNCHANGED:
        much = size(control) >= math.log1p(LIMITS.margin)
        return Code.CORES_MOVED_ONLY(control=control.change) if much else None
    beyond = _beyond(row, *control.slowdown_interval)
    return None if beyond else Code.CORES_MOVED_TOO(control=control.change)


def baseline_moved(row: Row, context: Context) -> Reason | None:
    """A ratio to another method may have changed by that method. Where cores drifted, times do not
    say which."""
    if row.unit != "ratio" or row.verdict not in CHANGED or context.drifted:
        return None
    point = POINT.search(row.metric)
    own = context.times.get((*row.identity, f"time{point[0] if point else ''}"))
    # Where nights vary more than the ratio changed, the time itself does not say.
    if not own or not _beyond(row, *own.slowdown_interval):
        return None
    moved = math.log(own.slowdown) / math.log(row.slowdown) < LIMITS.baseline_part
    return Code.BASELINE_MOVED(own=own.change) if moved else None


Doubt = Callable[[Row, Context], Reason | None]
DOUBTS: tuple[Doubt, ...] = (noisy_tail, moves_by_itself, core_drift, baseline_moved)


def apply_doubts(row: Row, context: Context) -> None:
    """Rules a row inconclusive for the first doubt that there is."""
    for reason in (doubt(row, context) for doubt in DOUBTS):
        if reason:
            row.rule(Verdict.INCONCLUSIVE, reason)
            return


# ---- jobs that were lost ----


def lost_jobs(row: Row, after: Observations) -> None:
    """Rules a row not measured where jobs failed, or where most could not be used: then nothing is
    unchanged, or better."""
    open_to = (Verdict.UNCHANGED, Verdict.IMPROVED, Verdict.INCONCLUSIVE, Verdict.NEW)
    if row.unit in COUNTED or row.verdict not in open_to:
        return
    outcomes = after.outcomes.get(row.identity, ())
    used = {(s, run) for s, run, value in after.values.get(row.key, ()) if value == value}
    failed = [o for o in outcomes if o.verdict == Verdict.FAIL and (o.session, o.run) not in used]
    lost = [o for o in outcomes if o.unusable]
    if failed or len(lost) > len(outcomes) / 2:
        bad, code = (failed, Code.JOBS_FAILED) if failed else (lost, Code.JOBS_UNUSABLE)
        cause = bad[-1].reason or bad[-1].unusable
        row.rule(Verdict.NOT_MEASURED, code(count=len(bad), of=len(outcomes), cause=cause))
