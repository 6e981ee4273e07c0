"""Launches whose cores other processes used, their reruns, and wrong answers without a test; slow
nodes and faulty adapters, by all that shows them."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from bisection.core.reasons import SLOW_HOSTS, Code, Reason
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict
from bisection.judge.evidence import Disturbed, Evidence
from bisection.runs.model import Price, RunVerdict, TestResult


def rule_price(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Adds up what all launches of the night held."""
    reruns = [part.rerun for part in evidence.disturbed]
    reruns += [evidence.retest.rerun] if evidence.retest else []
    prices = [run.price_of_launches for run in (verdict, *reruns) if run]
    return replace(verdict, price=Price(*map(sum, zip(*prices, strict=True))))


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
    if not evidence.disturbed:
        return verdict
    launches, quiet = set(), 0
    for part in evidence.disturbed:
        verdict, better = replaced(verdict, part)
        launches.update(launch.launch for launch in part.launches)
        quiet += better
    return verdict.noting(remarks=[Code.RERUN(launches=len(launches), quiet=quiet)])


def replaced(verdict: RunVerdict, part: Disturbed) -> tuple[RunVerdict, int]:
    """Replaces disturbed launches, and their tests, by the reruns; also returns how many launches
    have fewer lost tests now. A wrong answer of a rerun is a failure of the run."""
    if part.rerun is None:
        return verdict, 0
    reruns = {case.launch[:-1]: case for case in part.rerun.cases if case.is_launch}
    before = verdict.lost_to_others
    tests = {(case.name, case.launch[:-1]): case for case in part.rerun.cases}
    cases, better = [*verdict.cases], 0
    for launch in part.launches:
        second = reruns.get(launch.launch[:-1])
        if second is None or second.verdict == Verdict.NOT_MEASURED:
            continue
        for index, case in enumerate(cases):
            new = tests.get((case.name, case.launch[:-1]))
            if new and case.takes(launch) and (case.is_launch or case.lost_to_others):
                quieter = new.record.disturbed < case.record.disturbed
                if quieter or new.verdict == Verdict.FAIL:
                    cases[index] = replace(new, run=launch.run)
    after = [case for case in cases if not case.fixture and case.lost_to_others]
    for launch in part.launches:
        was, now = (sum(case.takes(launch) for case in lost) for lost in (before, after))
        better += now < was
    new = [reason for reason in part.rerun.failures if reason not in verdict.failures]
    return replace(verdict, cases=cases).noting(failures=new), better


def rule_hosts(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Names nodes that are slow, and those that may be: by the times of many launches, by their
    clock in a third of their launches, by what they did alone in all of them.

    A node is suspect if it was slow in the only launch that can show it. Of a run on one host
    nothing is compared.
    """
    rerun = evidence.retest and evidence.retest.rerun
    named = [suspect.reason for suspect in evidence.nodes]
    faults = [*faulty_hosts([*verdict.cases, *(rerun.cases if rerun else ())])]
    several = len(set().union(*(case.record.hosts for case in verdict.cases))) > 1
    slow = [reason for reason in faults if several and reason.code in SLOW_HOSTS]
    least, shares = LIMITS.slow_launches, {Code.SLOW_CLOCK: 1 / 3}
    sure = [r for r in slow if r["launches"] >= max(least, shares.get(r.code, 1) * r["of"])]
    suspect = [r for r in slow if r["launches"] < least > r["of"]]
    return verdict.noting(
        remarks=[*faults, *named], slow_nodes=[*named, *sure], suspect_nodes=suspect
    )


def faulty_hosts(cases: Sequence[TestResult]) -> Iterator[Reason]:
    """Yields the hosts that were slow in a launch, or whose adapters were faulty: of each fault the
    last, and in how many launches."""
    launches = [case for case in cases if case.fixture and case.record.controls.get("clock")]
    known: dict[tuple[Any, ...], list[Reason]] = defaultdict(list)
    for reason in (reason for case in launches for reason in case.record.host_faults):
        part = (reason["adapter"] or "", reason["fact"] or "", reason["cores"] or 0)
        known[reason["host"] or "", reason.code, part].append(reason)
    faulty, ran = {host for host, *_ in known}, defaultdict(list)
    for case in launches:
        for host in faulty.intersection(case.record.hosts):
            ran[host].append(case.record)
    for (host, code, _), reasons in sorted(known.items()):
        shown = ran[host]
        if code in SLOW_HOSTS - {Code.SLOW_CLOCK}:  # each of them is shown by one kernel
            kernel = "restart" if code == Code.SLOW_WRITER else "noise"
            shown = [record for record in shown if record.kernel == kernel]
        if code == Code.TCP_LOSSES:
            # Of two hosts neither is named; of noise there is no traffic. A lossy link loses in
            # every launch that uses it; a queue that overflowed once is no fault.
            shown = [r for r in shown if len(r.hosts) > 2 and r.kernel != "noise"]
            if 2 * len(reasons) < len(shown):
                continue
        yield reasons[-1].with_values(launches=len(reasons), of=len(shown))
