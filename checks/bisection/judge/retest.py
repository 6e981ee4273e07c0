"""Rules on metrics that were measured again: outside their limits, or slower than in all earlier
sessions. The retest confirms these, or they are outliers."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import geometric_mean, median

from bisection.analysis.model import Row
from bisection.analysis.outlying import FEW_SAMPLES
from bisection.analysis.retest_plan import Launch, Plan
from bisection.core.format import duration, finite, number, plural, some
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.launches import OutOfBounds
from bisection.core.reasons.performance import Outlier, Slower
from bisection.core.thresholds import LIMITS
from bisection.core.units import KIND_OF_UNIT
from bisection.core.verdicts import Verdict
from bisection.judge.evidence import Evidence, Retest
from bisection.kernels.launch_record import LaunchRecord
from bisection.runs.run_verdict import JudgedMetric, RunVerdict, TestResult
from bisection.store.selection import SLOWER

Key = tuple[str, ...]  # a test's identity, and the name of a metric behind it


@dataclass
class Rerun:
    """A metric in the retest: its values, the first on the run's nodes."""

    values: list[float] = field(default_factory=list)
    hosts: list[Sequence[str]] = field(default_factory=list)

    @property
    def value(self) -> float:
        return geometric_mean(self.values)

    def outside(self, low: float, high: float, mostly: bool = False) -> list[str] | None:
        """Returns None if the retest is within these limits, [] if it is outside on all nodes, and
        the run's nodes if it is outside only on them. `mostly`: most of its launches are, two on
        the run's nodes, and not only their mean."""
        first = set(self.hosts[0])
        sides: dict[bool, list[bool]] = {True: [], False: []}  # on the same nodes, on others
        for value, hosts in zip(self.values, self.hosts, strict=True):
            sides[not first or bool(first & {*hosts})].append(not low <= value <= high)
        enough = len(sides[True]) >= (LIMITS.retest_turns if mostly else 1)
        if enough and sides[False] and all(sides[True]) and not any(sides[False]):
            return [*self.hosts[0]]
        beyond = sum(map(sum, sides.values())) >= LIMITS.again * len(self.values)
        return [] if (beyond if mostly else not low <= self.value <= high) else None


class Reruns:
    """The metrics of a retest. `drift`: how many times as long the control takes as in the run; 1
    where it takes less, or is none."""

    def __init__(self, verdict: RunVerdict, retest: Retest) -> None:
        before, self.values = metric_values(verdict), metric_values(retest.rerun)
        control = retest.plan.control
        tests = {case.identity for case in verdict.judged if case.launch[:-1] == control}
        ratios = [
            self.values[key].value / before[key].value
            for key in before.keys() & self.values.keys()
            if key[:-1] in tests and key[-1].startswith("time") and key[-1] not in FEW_SAMPLES
        ]
        self.drift = max(median(ratios), 1.0) if ratios else 1.0
        self.slower = self.drift > 1 + LIMITS.margin  # the machine: no repeats for the history

    def metric(self, key: Key, better: str, is_time: bool) -> Rerun | None:
        """A metric, a time without the drift of the machine; None if it was not measured."""
        rerun = self.values.get(key)
        if rerun is None or not is_time:
            return rerun
        factor = 1 / self.drift if better == "lower" else self.drift
        return replace(rerun, values=[value * factor for value in rerun.values])


def metric_values(verdict: RunVerdict | None) -> dict[Key, Rerun]:
    """Returns the results of usable launches of a run, in their order."""
    values: dict[Key, Rerun] = defaultdict(Rerun)
    for case in sorted(verdict.cases if verdict else (), key=lambda case: case.run):
        unmeasured = case.verdict == Verdict.NOT_MEASURED
        if unmeasured or case.record.lost_part > LIMITS.disturbed_confirm:
            continue  # it confirms nothing
        for key, value in _values(case):
            if finite(value) and value > 0:
                values[key].values.append(value)
                values[key].hosts.append(case.record.hosts)
    return values


def _values(case: TestResult) -> Iterator[tuple[Key, float]]:
    """The metrics of a test; the controls of a launch that was placed as requested."""
    if not case.fixture:
        yield from (((*case.identity, metric.name), metric.value) for metric in case.metrics)
    elif case.verdict == Verdict.PASS:
        for name, value in case.record.controls.items():
            test = replace(case, check=case.record.kernel, method=name)
            yield (*test.identity, "clock" if name == "clock" else "time"), value


def rule_limits(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Has a test pass, with a remark, if its retest is within its limits. What else is wrong or
    outside its limits in the retest is a failure of the run."""
    retest = evidence.retest
    if retest is None or retest.rerun is None:
        return verdict
    reruns, most = Reruns(verdict, retest), LIMITS.disturbed_confirm
    lost = {c.identity: c.record for c in retest.rerun.judged if c.record.lost_part > most}
    cases = tuple(
        _ruled(case, reruns, lost.get(case.identity))
        if case in retest.plan.failed and case.launch[:-1] in retest.plan.chosen
        else case
        for case in verdict.cases
    )
    wrong = [
        Text(f"in the retest, {case.group}: {case.reason}")
        for case in retest.rerun.cases
        if case.verdict == Verdict.FAIL and not case.by_bounds
    ]
    return replace(verdict, cases=cases).adding(failures=[*wrong, *_outside(retest, reruns)])


def _outside(retest: Retest, reruns: Reruns) -> Iterator[Text]:
    """Metrics within their limits in the run, outside in the retest: one launch does not do."""
    tests = retest.plan.failed
    ruled = {(*test.identity, m.name) for test in tests for m in test.metrics if m.failed}
    failed = {
        (*test.identity, metric.name): metric
        for test in (retest.rerun.judged if retest.rerun else ())
        if test.by_bounds
        for metric in test.metrics
        if metric.failed
    }
    for key in sorted(failed.keys() - ruled):
        metric = failed[key]
        rerun, (low, high) = _rerun_of(metric, key, reruns), _limits(metric)
        if rerun is None or sum(not low <= value <= high for value in rerun.values) < 2:
            continue
        if (nodes := rerun.outside(low, high)) is not None:
            again = replace(metric, value=rerun.value)
            cause = OutOfBounds(metrics=(again.bounds,), nodes=tuple(nodes))
            yield Text(f"in the retest, {' '.join(filter(None, key[3:-1]))}: {cause}")


def _rerun_of(metric: JudgedMetric, key: Key, reruns: Reruns) -> Rerun | None:
    return reruns.metric(key, metric.better, KIND_OF_UNIT.get(metric.unit) == "time")


def _limits(metric: JudgedMetric) -> tuple[float, float]:
    low, high = metric.low, metric.high
    return 0.0 if low is None else low, math.inf if high is None else high


def _ruled(case: TestResult, reruns: Reruns, lost: LaunchRecord | None) -> TestResult:
    """A test that failed by its limits as passed if all is within them now; else with the values of
    the retest. `lost`: a launch of the retest that other processes disturbed; it confirms nothing.
    """
    values, nodes = {}, []
    outside = [metric for metric in case.metrics if metric.failed]
    for metric in outside:
        if rerun := _rerun_of(metric, (*case.identity, metric.name), reruns):
            values[metric.name] = rerun.value
            nodes.append(rerun.outside(*_limits(metric)))
    reason = case.record.beyond(case.method, [metric.bounds for metric in outside])
    reason = replace(reason, rerun=tuple(values.items()))
    if len(values) == len(outside) and all(bound is None for bound in nodes):
        remark = replace(reason, retest=Verdict.PASS)
        metrics = tuple(replace(m, verdict="pass") if m.failed else m for m in case.metrics)
        return replace(case, verdict=Verdict.PASS, reason=None, remark=remark, metrics=metrics)
    if lost and all(bound is None for bound in nodes):
        return case.unconfirmed(lost)
    if values:
        bound_to = sorted({node for bound in nodes for node in bound or ()})
        reason = replace(reason, retest=Verdict.FAIL, nodes=tuple(bound_to))
    return replace(case, reason=reason)


def rule(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Names what is slower, what was not rerun, and what did not repeat. Until a retest has ended,
    nothing passes."""
    if evidence.retest is None:
        return verdict
    plan, reruns = evidence.retest.plan, Reruns(verdict, evidence.retest)
    slower: list[Slower] = []
    outliers: list[Outlier] = []
    remarks: list[Reason] = []
    refuted: dict[Launch, list[Row]] = {}
    for launch, rows in plan.slower.items():
        known = [  # one launch confirms nothing
            (row, now)
            for row in rows
            if (now := reruns.metric(row.key, row.better, row.absolute))
            and len(now.values) >= LIMITS.retest_turns
        ]
        confirmed: list[Slower] = []
        alike: list[Slower] = []
        still = 0
        for row, now in known:
            for limit in filter(None, (row.limit, row.shared_limit)):
                low, high = (0.0, limit) if row.better == "lower" else (limit, math.inf)
                if (nodes := now.outside(low, high, mostly=True)) is not None:
                    rerun = median(now.values)
                    reason = Slower(**row.moved, rerun=rerun, nodes=tuple(nodes))
                    (alike if limit == row.shared_limit else confirmed).append(reason)
                    still += bool(row.shared)
                    break
        # What times share is in half of them again.
        if alike and 2 * still >= max(row.shared for row, _ in known):
            confirmed += alike
        slower += confirmed
        if known and not confirmed:
            refuted[launch] = [row for row, _ in known]
        measured = {row.key for row, _ in known}
        why = plan.why or ("unmeasured" if launch in plan.chosen else "budget")
        outliers += [
            Outlier(**row.moved, why=why, seconds=plan.cost[launch], budget=plan.budget)
            for row in rows
            if row.outlier and row.key not in measured and not confirmed
        ]
    if refuted:
        worst = max(row.excess or 0.0 for rows in refuted.values() for row in rows)
        count = plural(sum(map(len, refuted.values())), "metric")
        named = [(rows[0].check, *launch[1:3]) for launch, rows in refuted.items()]
        launches = [" ".join(map(str, words)) for words in named]
        than = f"up to {number(worst)} times slower than in all earlier sessions"
        text = f"retested {some(launches, 3)}: {count}, {than}, did not repeat"
        remarks.append(Text(text))
    if repeated := _repeated(plan, evidence, reruns):
        remarks.append(repeated)
    if reruns.slower:
        control = " ".join(str(word) for word in (plan.control or ())[:3] if word)
        slow = f"the control {control} was {reruns.drift:.2f}x slower during the retest"
        remarks.append(Text(f"{slow}; retest times are divided by {reruns.drift:.2f}"))
    if plan.chosen and evidence.retest.rerun is None:  # it runs, or it was killed
        verdict = verdict.adding(troubles=[Text("the retest did not end")])
    if slower or outliers:
        tags = {**verdict.tags, SLOWER: "confirmed" if slower else "outlier"}
        verdict = replace(verdict, tags=tags)
    return verdict.adding(slower=slower, outliers=outliers, remarks=remarks)


def _repeated(plan: Plan, evidence: Evidence, reruns: Reruns) -> Text | None:
    """The cost and result of repeats of launches whose metrics may have got worse; None if none
    was to be repeated."""
    launches = plan.unusual.keys() & plan.chosen
    rerun = evidence.retest.rerun if evidence.retest else None
    if not launches or rerun is None:
        return None
    before = {p.key: p.errors for launch in launches for p in plan.unusual[launch]}
    now = {p.key: p.errors for p in evidence.unusual if p.key in before}
    worse = {point.key for event in evidence.events if event.alarm for point in event.worse}
    alarms, still = len(worse & before.keys()), sorted(now, key=now.__getitem__, reverse=True)
    repeats = sum(
        max(len(reruns.values.get(p.key, Rerun()).values) for p in plan.unusual[launch])
        for launch in launches
    )
    counts = f"{plural(repeats, 'repeat')} of {plural(len(launches), 'launch', 'launches')}"
    text = f"{plural(len(before), 'metric')} may have got worse lately; {counts}, in "
    text += f"{duration(rerun.seconds)}: "
    if not repeats:
        return Text(f"{text}nothing was measured")
    if reruns.slower:
        return Text(f"{text}the machine was slower meanwhile; the history does not use them")
    usual = len(before) - alarms - len(still)
    text += f"{plural(alarms, 'alarm')}, {usual} as usual, {len(still)} open"
    errors = [f"{' '.join(key[3:])} {before[key]:.1f} -> {now[key]:.1f}" for key in still]
    return Text(f"{text} (standard errors: {some(errors, 3)})" if still else text)
