"""Launches whose cores other processes used, and wrong answers that no selected test is about."""

from bisection.core.reasons import Code
from bisection.core.verdicts import Verdict
from bisection.judge.evidence import Evidence
from bisection.runs.model import RunVerdict


def rule(verdict: RunVerdict, _: Evidence) -> RunVerdict:
    """Turns pass and slow into not measured where other processes used the cores of the launch; a
    wrong answer is a failure of the run where no failed test is about it."""
    verdict = verdict.without_preempted()
    cases = verdict.cases
    answered = {(*case.launch, case.method) for case in cases if case.verdict == Verdict.FAIL}
    wrong = [
        Code.UNJUDGED_WRONG_ANSWER(method=method, place=case.group)
        for case in cases
        if case.is_launch and case.verdict == Verdict.PASS
        for method in case.record.wrong
        if (*case.launch, method) not in answered
    ]
    return verdict.noting(failures=wrong)
