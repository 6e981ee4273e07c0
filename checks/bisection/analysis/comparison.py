"""Two groups of sessions compared, and what withdraws verdicts: disturbed tails, the A/A test,
controls, baselines, lost jobs."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from bisection.analysis import nodes
from bisection.analysis.environment import changes
from bisection.analysis.explain import explain_rows
from bisection.analysis.judging import CHANGED, judge_rows
from bisection.analysis.model import Comparison, Row, Undecided
from bisection.analysis.noise import mean_variance
from bisection.analysis.observations import Key, Observations, rows_of
from bisection.analysis.outlying import mark_outliers, retested
from bisection.analysis.power import STEPS, Power
from bisection.analysis.upgrade import set_against
from bisection.core.format import some
from bisection.core.grouping import grouped
from bisection.core.identity import POINT
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.performance import (
    NOISE,
    TOO_FEW,
    AfterChange,
    Inconclusive,
    JobsLost,
    OtherReleases,
    SharedChange,
    SlowNode,
)
from bisection.core.releases import changes_between, release_of
from bisection.core.thresholds import LIMITS
from bisection.core.units import COUNTED
from bisection.core.verdicts import COMPARED, Scope, Verdict
from bisection.store.database import Session, Store
from bisection.store.selection import SLOWER, left_out

# Facts that differ from night to night.
VARYING = {"nodes", "clock"}

Place = tuple[str, ...]  # system and partition, and for one launch the rest of its identity


@dataclass
class Context:
    """Evidence for doubts about a table."""

    noise: dict[Key, float]  # key -> by how much a metric moved by itself at most, in an A/A test
    times: dict[Key, Row]  # times and rates with an interval
    # By partition, and by launch, the control that moved most; None of a launch where none did.
    moved: dict[Place, Row | None] = field(default_factory=dict)

    @property
    def drifted(self) -> dict[str, Row]:
        """Partitions whose CPU speed changed -> the control that moved most."""
        moved = {place: row for place, row in self.moved.items() if len(place) == 2}
        return {":".join(place): row for place, row in moved.items() if row}

    def watch(self, row: Row, named: re.Pattern[str] | None) -> None:
        """Adds a control of a judged table. Those that are named hold for all launches of their
        partition."""
        if row.low is None or row.p is None:
            return
        place, launch = (row.system, row.partition), row.identity[:-1]
        if named and named.search(f"{row.test} {row.metric}"):
            launch = (*place, "named")
        self.moved.setdefault(launch)
        sure = row.p <= LIMITS.false_discoveries and (row.low > 1 or (row.high or 1) < 1)
        if sure and size(row) > LIMITS.drift:
            for where in (place, launch):
                self.moved[where] = max(self.moved.get(where) or row, row, key=size)


def compare(
    store: Store,
    before: Sequence[Session],
    after: Sequence[Session],
    expected: float | None = None,
    aa: Sequence[Session] = (),
    control: re.Pattern[str] | None = None,
    name: re.Pattern[str] | None = None,
    suspects: Sequence[SlowNode] | None = None,
) -> Comparison:
    """Compares two groups of stored sessions.

    Args:
        before, after: oldest first.
        expected: the ratio of performance that an upgrade should give; times are then set against
            it, and no drift of the cores takes a verdict back.
        aa: sessions of the same state of the machine as `before`.
        control: a pattern of further metrics that measure the cores alone.
        suspects: slow nodes; None: by the times of `after`.
    """
    sides = [Observations(store, side) for side in (before, after)]
    rows, samples = rows_of(sides[0], sides[1], name)
    for row in rows:
        row.control = row.control or bool(control and control.search(f"{row.test} {row.metric}"))
    findings, power = judge_rows(rows, samples, (before, after))
    since_last = {change.what for change in changes(before[-1:], after)}
    mark_outliers(rows, samples, sides[1].lost, bool(since_last - VARYING))
    if all(session.tags.get(SLOWER) == "confirmed" for session in after):
        for row in retested(rows):
            row.outlier = True
    times = {row.key: row for row in rows if row.absolute and row.low is not None}
    context = Context(aa_noise(store, before, aa, name), times)
    for row in rows:
        if row.control and expected is None:
            context.watch(row, control)
    for row in rows:
        # A doubt returns the reason to call a row inconclusive, or None; the first one counts.
        if reason := next(filter(None, (doubt(row, context) for doubt in DOUBTS)), None):
            row.rule(Verdict.INCONCLUSIVE, reason)
        lost_jobs(row, sides[1])
    if expected is not None:
        set_against(rows, expected)
    explain_rows(rows, sides[0])
    rows.sort(key=_order)
    named = [
        [{"uuid": s.uuid, "start": s.start, "tags": s.tags} for s in side]
        for side in (before, after, aa)
    ]
    result = Comparison(
        before=named[0],
        after=named[1],
        rows=rows,
        aa=named[2],
        unsafe=[*_unsafe(rows, context)],
        changes=[*changes(before, after)],
        findings=[_with_controls(finding, rows, context) for finding in findings],
        suspects=[*(nodes.suspects(store, after, rows) if suspects is None else suspects)],
        expected=expected,
        undecided=[*_undecided(rows, power)],
    )
    others = filter(None, [left_out(before, after, aa), _of_releases([*before, *after, *aa])])
    result.advice = [*_advice(result, context), *_of_nights(rows, power), *others]
    return result


def _order(row: Row) -> tuple[Any, ...]:
    smaller = -size(row) if row.ratio else 0
    return (COMPARED.index(row.verdict), not row.outlier, smaller, row.test, row.metric)


def _unsafe(rows: Sequence[Row], context: Context) -> Iterator[Reason]:
    """Yields why the verdicts cannot be trusted."""
    for place, control in context.drifted.items():
        hosts = control.after.hosts if control.metric == "clock" else []
        slowest = f"; the slowest is {some(hosts, 3)}" if hosts else ""
        by = f"{_name(control)} ({control.test}), which does not communicate"
        yield Text(f"CPU speed of {place} changed: {by}, is {control.change}{slowest}")
    if (moving := len(context.noise)) > LIMITS.false_discoveries * len(rows):
        yield Text(f"the A/A run: {moving} metrics differ, though nothing was changed")


def _advice(result: Comparison, context: Context) -> Iterator[Reason]:
    """Yields the limitations of the verdicts."""
    sides = {"before": len(result.before), "after": len(result.after)}
    if any(row.scope == Scope.SESSIONS for row in result.rows):
        ignored = "too few sessions: these verdicts ignore night-to-night variation"
        yield Text(f"{ignored}. For the machine, compare {LIMITS.fewest} sessions per side or more")
    elif min(sides.values()) < LIMITS.fewest:
        lacks = f"no verdict on the machine, which needs {LIMITS.fewest} per side"
        option = f"bisection run --reruns={LIMITS.fewest - 1} gives one on two sessions"
        yield Text(f"{sides['before']} against {sides['after']} sessions give {lacks}; {option}")
    if min(s["start"] for s in result.before) > max(s["start"] for s in result.after):
        yield Text("AFTER is older than BEFORE")
    if not result.aa and sides["before"] < 2 * LIMITS.fewest:
        again = "run the same again with nothing changed, and name it by --aa"
        yield Text(f"no A/A comparison: {again}, to see what the machine does by itself")
    if not any(row.control and row.ratio for row in result.rows):
        nothing = "nothing on both sides measures the cores alone"
        told = "so a slower clock cannot be told from a slower network (--control names one)"
        yield Text(f"no control: {nothing}, {told}")
    if count := len(context.noise):
        yield Text(f"{count} metrics moved by themselves, and are not judged: the A/A run")


def _of_releases(sessions: Sequence[Session]) -> OtherReleases | None:
    """Whether a change of a release among these may change verdicts; None if not."""
    names = {release_of(session.facts) for session in sessions} - {""}
    changes = changes_between(names)
    return OtherReleases(releases=tuple(sorted(names)), changes=len(changes)) if changes else None


def _undecided(rows: Sequence[Row], power: Power | None) -> Iterator[Undecided]:
    """The inconclusive rows by reason, those of most metrics first, with the nights that decide."""
    reasons = (row.reason for row in rows if row.verdict == Verdict.INCONCLUSIVE)
    groups = grouped(reasons, lambda reason: getattr(reason, "group", Inconclusive.group))
    for why, alike in sorted(groups.items(), key=lambda item: -len(item[1])):
        nights = f"{LIMITS.fewest} or more" if why == TOO_FEW else ""
        if power and why == NOISE:
            sigma = median(reason.sigma for reason in alike if isinstance(reason, Inconclusive))
            needed = replace(power, sigma=sigma).needed(LIMITS.margin)
            nights = f"{needed}" if needed else f"more than {LIMITS.plan_most}"
        yield Undecided(why, len(alike), nights)


def _with_controls(finding: SharedChange, rows: Sequence[Row], context: Context) -> SharedChange:
    """A change that metrics share, with whether the cores alone have it too."""
    place = finding.place
    known = (row for row in rows if row.control and row.low is not None)
    still = "still" if any(row.place.startswith(place) for row in known) else ""
    return replace(finding, controls="moved" if place in context.drifted else still)


def _of_nights(rows: Sequence[Row], power: Power | None) -> Iterator[Reason]:
    """How the nights vary, and which change the verdicts could have seen."""
    if split := [(row.states, row.label) for row in rows if row.states]:
        states, label = max(split, key=lambda each: each[0].gap)
        yield Text(f"{len(split)} metrics have two states, for example {label}: {states}")
    if not power:
        return
    fewest, nights = min(power.nights), list(power.nights)
    if power.rho > LIMITS.persistence:
        independent = 1 / mean_variance(fewest, power.rho)
        alike = f"each resembles the one before (correlation {power.rho:.1f})"
        counts = f"{fewest} nights count as {independent:.0f}"
        yield Text(f"nights are not independent: {alike}, {counts}")
    effect = power.visible(*nights)
    finer = next((step for step in STEPS if step < 0.7 * effect), STEPS[-1])
    seen = f"changes of {effect:.0%} or more in one metric are detectable"
    needed = power.needed(finer)
    more = f"; {needed} nights per side detect {finer:.0%}" if needed else ""
    yield Text(f"with {nights[0]} and {nights[1]} nights, {seen}{more}")


# ---- what withdraws a verdict ----


def aa_noise(
    store: Store, before: Sequence[Session], aa: Sequence[Session], name: re.Pattern[str] | None
) -> dict[Key, float]:
    """Returns by how much each metric moved at most that an A/A test calls changed; `before` and
    `aa` are sessions of one state of the machine."""
    if not aa:
        return {}
    rows, samples = rows_of(Observations(store, before), Observations(store, aa), name)
    judge_rows(rows, samples, (before, aa))
    moved = [row for row in rows if row.verdict in CHANGED and not noisy_tail(row)]
    intervals = {row.key: row.slowdown_interval for row in moved}
    return {key: max(ends[1], 1 / ends[0]) for key, ends in intervals.items() if ends}


def size(row: Row) -> float:
    """How far a ratio is from 1, as a logarithm."""
    return abs(math.log(row.ratio or 1.0))


def noisy_tail(row: Row, _: Context | None = None) -> AfterChange | Text | None:
    """The slowest percent of samples may be the neighbours' doing: more samples than these were
    disturbed, or there is one session per side, and neighbours come and go."""
    if not row.metric.startswith("time_p99") or row.verdict not in CHANGED:
        return None
    disturbed = max(row.before.disturbed, row.after.disturbed)
    if disturbed > LIMITS.disturbed_tail:
        return AfterChange(f"but other processes took the cores in {disturbed:.0%} of the samples")
    only = "but p99 is judged only across sessions"
    return AfterChange(only) if row.scope == Scope.SESSIONS else None


def _beyond(row: Row, low: float, high: float) -> bool:
    """True if a change is larger than one of this interval, for sure."""
    least, most = row.slowdown_interval or (1, 1)
    return least > high if row.verdict == Verdict.REGRESSED else most < low


def moves_by_itself(row: Row, context: Context) -> Reason | None:
    """The change may be no more than what an A/A test saw without a change."""
    most = context.noise.get(row.key)
    if most is None or row.verdict not in CHANGED or _beyond(row, 1 / most, most):
        return None
    return AfterChange("but it moves by itself: the A/A run")


def core_drift(row: Row, context: Context) -> Reason | None:
    """A drift of the cores alone may explain a time: as the controls of the same launch saw it, or
    of the partition where the launch has none, or those that were named."""
    sure = row.verdict in (*CHANGED, Verdict.UNCHANGED)
    if not sure or row.control or not row.absolute:
        return None
    place, launch = (row.system, row.partition), row.identity[:-1]
    where = launch if launch in context.moved else place
    controls = [context.moved.get(where), context.moved.get((*place, "named"))]
    control = max(filter(None, controls), key=size, default=None)
    if control is None:
        return None
    if row.verdict == Verdict.UNCHANGED:
        much = size(control) >= math.log1p(LIMITS.margin)
        moved = f"{_name(control)} {control.change}"
        return Text(f"unchanged, but the CPU-only control shifted: {moved}") if much else None
    if _beyond(row, *(control.slowdown_interval or (1.0, 1.0))):
        return None
    return AfterChange(f"but the CPU-only control shifted too: {_name(control)} {control.change}")


def _name(control: Row) -> str:
    return "the clock" if control.metric == "clock" else "the control"


def baseline_moved(row: Row, context: Context) -> Reason | None:
    """A ratio to another method may have changed by that method. Where cores drifted, times do not
    say which."""
    if row.unit != "ratio" or row.verdict not in CHANGED or context.drifted:
        return None
    point = POINT.search(row.metric)
    time = context.times.get((*row.identity, f"time{point[0] if point else ''}"))
    # Where nights vary more than the ratio changed, the time itself does not say.
    if not time or not time.slowdown_interval or not _beyond(row, *time.slowdown_interval):
        return None
    own, ratio = (math.log(each.slowdown or 1.0) for each in (time, row))
    text = f"by what it is compared with: the time itself is {time.change}"
    return AfterChange(text) if own / ratio < LIMITS.baseline_part else None


DOUBTS = (noisy_tail, moves_by_itself, core_drift, baseline_moved)  # in their order


def lost_jobs(row: Row, after: Observations) -> None:
    """Rules a row not measured where jobs failed, or where most could not be used: then nothing is
    unchanged, or better."""
    open_to = (Verdict.UNCHANGED, Verdict.IMPROVED, Verdict.INCONCLUSIVE, Verdict.NEW)
    if row.unit in COUNTED or row.verdict not in open_to:
        return
    outcomes = after.outcomes.get(row.identity, ())
    used = {(s, run) for s, run, value in after.values.get(row.key, ()) if value == value}
    failed = [o for o in outcomes if o.verdict == Verdict.FAIL and (o.session, o.run) not in used]
    bad = failed or [o for o in outcomes if o.unusable]
    if failed or len(bad) > len(outcomes) / 2:
        cause, of = bad[-1].reason or bad[-1].unusable, len(outcomes)
        reason = JobsLost(failed=bool(failed), count=len(bad), of=of, cause=cause)
        row.rule(Verdict.NOT_MEASURED, reason)
