"""Rules on metrics outside their limits, after the retest."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bisection.core.reasons import Code
from bisection.core.units import KIND_OF_UNIT
from bisection.core.verdicts import Verdict
from bisection.judge.again import Again, Key, drift, metric_values
from bisection.judge.evidence import Evidence
from bisection.runs.model import RunVerdict, TestResult


def rule(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Has a test pass, with a remark, if its retest is within its bounds; what the retest shows to
    be wrong is a failure of the run."""
    retest = evidence.retest
    if retest is None or retest.again is None:
        return verdict
    values, slower = metric_values(retest.again), drift(verdict, retest)
    lost = {case.identity for case in retest.again.judged if case.lost_to_others}
    cases = [
        _ruled(case, values, slower, case.identity in lost)
        if case in retest.plan.failed and case.launch[:-1] in retest.plan.chosen
        else case
        for case in verdict.cases
    ]
    wrong = [
        Code.RETEST_FAILED(test=case.group, cause=case.reason)
        for case in retest.again.cases
        if case.verdict == Verdict.FAIL and not case.by_bounds
    ]
    return replace(verdict, cases=cases).noting(failures=wrong)


def _ruled(
    case: TestResult, values: Mapping[Key, Again], slower: float, preempted: bool
) -> TestResult:
    """The test as passed if what was outside its limits is within them now; else as failed, with
    what the retest gave.

    Args:
        case: the test, failed by its bounds.
        values: of the retest.
        slower: how many times as long the control takes.
        preempted: whether other processes used the cores of the retest.
    """
    outside = {metric.name: metric for metric in case.metrics if metric.failed}
    again = {
        name: values[(*case.identity, name)].by(
            slower if KIND_OF_UNIT.get(metric.unit) == "time" else 1.0, metric.better
        )
        for name, metric in outside.items()
        if (*case.identity, name) in values
    }
    more: dict[str, Any] = {"again": {name: now.value for name, now in again.items()}}
    ends = {name: (_end(m.low, 0.0), _end(m.high, math.inf)) for name, m in outside.items()}
    nodes = [again[name].outside(*ends[name]) for name in again]
    if again.keys() == outside.keys() and not any(bound is not None for bound in nodes):
        remark = case.reason.with_values(**more, retest=Verdict.PASS)
        metrics = [replace(m, verdict="pass") if m.failed else m for m in case.metrics]
        return replace(case, verdict=Verdict.PASS, reason=None, remark=remark, metrics=metrics)
    if again:
        more["retest"] = Verdict.FAIL
        more["nodes"] = sorted({node for bound in nodes for node in bound or ()})
    elif preempted:
        more["retest"] = "preempted"
    return replace(case, reason=case.reason.with_values(**more))


def _end(bound: float | None, default: float) -> float:
    return default if bound is None else bound
