"""Launches whose cores other processes used, their reruns, and wrong answers without a test."""

from dataclasses import replace

from bisection.core.reasons import Code
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict
from bisection.judge.evidence import Evidence, Turn
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


def rule_reruns(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Replaces disturbed launches by their reruns, and notes how often."""
    if not evidence.turns:
        return verdict
    launches, quiet = set(), 0
    for turn in evidence.turns:
        verdict, better = replaced(verdict, turn)
        launches.update(launch.launch for launch in turn.launches)
        quiet += better
    return verdict.noting(remarks=[Code.RERUN(launches=len(launches), quiet=quiet)])


def replaced(verdict: RunVerdict, turn: Turn) -> tuple[RunVerdict, int]:
    """Replaces disturbed launches, and their tests, by the reruns; also returns how many are not
    disturbed any more. A wrong answer of a rerun is a failure of the run."""
    if turn.rerun is None:
        return verdict, 0
    reruns = {case.launch[:-1]: case for case in turn.rerun.cases if case.is_launch}
    tests = {(case.name, case.launch[:-1]): case for case in turn.rerun.cases}
    cases, better = [*verdict.cases], 0
    for launch in turn.launches:
        second = reruns.get(launch.launch[:-1])
        if second is None or second.verdict == Verdict.NOT_MEASURED:
            continue
        quieter = second.record.preempted < launch.record.preempted
        for index, case in enumerate(cases):
            new = tests.get((case.name, case.launch[:-1]))
            replaces = case.launch == launch.launch and (case.fixture or case.lost_to_others)
            if new and replaces and (quieter or new.verdict == Verdict.FAIL):
                cases[index] = replace(new, run=launch.run)
        passed = second.verdict != Verdict.FAIL
        better += passed and second.record.preempted <= LIMITS.preempted_launch
    new = [reason for reason in turn.rerun.failures if reason not in verdict.failures]
    return replace(verdict, cases=cases).noting(failures=new), better
