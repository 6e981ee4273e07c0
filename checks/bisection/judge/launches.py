"""Launches whose cores other processes used, and wrong answers that no selected test is about."""

from dataclasses import replace

from bisection.core.reasons import Code
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict
from bisection.judge.evidence import Evidence
from bisection.runs.model import RunVerdict, TestResult


def rule(verdict: RunVerdict, _: Evidence) -> RunVerdict:
    """Turns pass and slow into not measured where other processes used the cores of the launch; a
    wrong answer is a failure of the run where no failed test is about it."""
    launches = {case.launch: case for case in verdict.cases if case.is_launch}
    cases = [_without_preempted(case, launches.get(case.launch)) for case in verdict.cases]
    answered = {(*case.launch, case.method) for case in cases if case.verdict == Verdict.FAIL}
    wrong = [
        Code.UNJUDGED_WRONG_ANSWER(method=method, place=case.group)
        for case in cases
        if case.verdict == Verdict.PASS
        for method in case.record.wrong
        if (*case.launch, method) not in answered
    ]
    return replace(verdict, cases=cases).noting(failures=wrong)


def _without_preempted(case: TestResult, launch: TestResult | None) -> TestResult:
    if case.fixture or not launch or case.record.preempted <= LIMITS.preempted_launch:
        return case
    slow = case.verdict == Verdict.FAIL and any(metric.failed for metric in case.metrics)
    if not slow and case.verdict != Verdict.PASS:
        return case
    reason = Code.PREEMPTED(fraction=round(case.record.preempted, 4))
    if launch.remark and launch.remark.code == Code.STOPPED:
        reason = launch.remark
    return replace(case, verdict=Verdict.NOT_MEASURED, reason=reason, remark=None)
