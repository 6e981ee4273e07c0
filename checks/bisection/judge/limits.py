"""Rules on metrics outside their limits, after the retest."""

import math
from dataclasses import replace
from typing import Any

from bisection.core.reasons import Code
from bisection.core.units import KIND_OF_UNIT
from bisection.core.verdicts import Verdict
from bisection.judge.evidence import Evidence
from bisection.judge.rerun import Reruns
from bisection.runs.model import RunVerdict, TestResult


def rule(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Has a test pass, with a remark, if its retest is within its limits; a wrong answer of the
    retest is a failure of the run."""
    retest = evidence.retest
    if retest is None or retest.rerun is None:
        return verdict
    reruns = Reruns(verdict, retest)
    lost = {case.identity for case in retest.rerun.judged if case.lost_to_others}
    cases = [
        _ruled(case, reruns, case.identity in lost)
        if case in retest.plan.failed and case.launch[:-1] in retest.plan.chosen
        else case
        for case in verdict.cases
    ]
    wrong = [
        Code.RETEST_FAILED(test=case.group, cause=case.reason)
        for case in retest.rerun.cases
        if case.verdict == Verdict.FAIL and not case.by_bounds
    ]
    return replace(verdict, cases=cases).noting(failures=wrong)


def _ruled(case: TestResult, reruns: Reruns, preempted: bool) -> TestResult:
    """A test that failed by its limits as passed if all is within them now; else with the values of
    the retest. `preempted`: other processes used the cores of the retest."""
    values, nodes = {}, []
    outside = [metric for metric in case.metrics if metric.failed]
    for metric in outside:
        is_time = KIND_OF_UNIT.get(metric.unit) == "time"
        rerun = reruns.metric((*case.identity, metric.name), metric.better, is_time)
        if rerun:
            low = 0.0 if metric.low is None else metric.low
            high = math.inf if metric.high is None else metric.high
            values[metric.name] = rerun.value
            nodes.append(rerun.outside(low, high))
    more: dict[str, Any] = {"rerun": values}
    if len(values) == len(outside) and all(bound is None for bound in nodes):
        remark = case.reason.with_values(**more, retest=Verdict.PASS)
        metrics = [replace(m, verdict="pass") if m.failed else m for m in case.metrics]
        return replace(case, verdict=Verdict.PASS, reason=None, remark=remark, metrics=metrics)
    if values:
        more["retest"] = Verdict.FAIL
        more["nodes"] = sorted({node for bound in nodes for node in bound or ()})
    elif preempted:
        more["retest"] = "preempted"
    return replace(case, reason=case.reason.with_values(**more))
