"""Launches whose cores other processes used, their reruns, and wrong answers without a test; slow
nodes and faulty adapters, by all that shows them."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from bisection.core.reasons import SLOW_HOSTS
from bisection.core.reasons.base import Text
from bisection.core.reasons.machines import HostFault, TcpLosses
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict
from bisection.judge.evidence import DisturbedRerun, Evidence
from bisection.kernels.launch_record import LaunchRecord
from bisection.runs.run_verdict import Price, RunVerdict, TestResult


def rule_price(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Adds up what all launches of the night held."""
    reruns = [part.rerun for part in evidence.disturbed]
    reruns += [evidence.retest.rerun] if evidence.retest else []
    prices = [run.price_of_launches for run in (verdict, *reruns) if run]
    return replace(verdict, price=Price(*map(sum, zip(*prices, strict=True))))


def rule(verdict: RunVerdict, _: Evidence) -> RunVerdict:
    """Turns pass and slow into not measured where other processes used the cores of the launch; a
    wrong answer is a failure of the run where no failed test is about it."""
    verdict = verdict.without_disturbed()
    cases = verdict.cases
    answered = {(*case.launch, case.method) for case in cases if case.verdict == Verdict.FAIL}
    wrong = [
        Text(f"wrong answer of {method} in {case.group}, and no selected check judges it")
        for case in cases
        if case.is_launch and case.verdict == Verdict.PASS
        for method in case.record.wrong
        if (*case.launch, method) not in answered
    ]
    return verdict.adding(failures=wrong)


def rule_reruns(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Replaces disturbed launches by their reruns, and notes how often."""
    if not evidence.disturbed:
        return verdict
    quiet = 0
    for part in evidence.disturbed:
        verdict, better = replaced(verdict, part)
        quiet += better
    count = len({launch.launch for part in evidence.disturbed for launch in part.launches})
    text = f"launches whose cores other processes used: {count}; quiet in the rerun: {quiet}"
    return verdict.adding(remarks=[Text(text)])


def replaced(verdict: RunVerdict, part: DisturbedRerun) -> tuple[RunVerdict, int]:
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
                quieter = new.record.lost_part < case.record.lost_part
                if quieter or new.verdict == Verdict.FAIL:
                    cases[index] = replace(new, run=launch.run)
    after = [case for case in cases if not case.fixture and case.lost_to_others]
    for launch in part.launches:
        was, now = (sum(case.takes(launch) for case in lost) for lost in (before, after))
        better += now < was
    wrong = [reason for reason in part.rerun.failures if reason not in verdict.failures]
    return replace(verdict, cases=tuple(cases)).adding(failures=wrong), better


def rule_hosts(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Names nodes that are slow, and those that may be: by the times of many launches, by their
    clock in a third of their launches, by what they did alone in all of them.

    A node is suspect if it was slow in the only launch that can show it. Of a run on one host
    nothing is compared; that its rate fell within a launch is shown by the host alone.
    """
    rerun = evidence.retest and evidence.retest.rerun
    faults = [*faulty_hosts([*verdict.cases, *(rerun.cases if rerun else ())])]
    several = len(set().union(*(case.record.hosts for case in verdict.cases))) > 1
    slow = [f for f in faults if (several or f.alone) and isinstance(f, SLOW_HOSTS)]
    least = LIMITS.slow_launches
    confirmed = [fault for fault in slow if fault.launches >= max(least, fault.share * fault.of)]
    suspect = [fault for fault in slow if fault.launches < least > fault.of]
    named = evidence.nodes
    return verdict.adding(
        remarks=[*faults, *named], slow_nodes=[*named, *confirmed], suspect_nodes=suspect
    )


def faulty_hosts(cases: Sequence[TestResult]) -> Iterator[HostFault]:
    """Yields the hosts that were slow in a launch, or whose adapters were faulty: of each fault the
    last, and in how many launches."""
    launches = [case for case in cases if case.fixture and case.record.controls.get("clock")]
    known: dict[tuple[str, str, tuple[str | int, ...]], list[HostFault]] = defaultdict(list)
    for fault in (fault for case in launches for fault in case.record.host_faults):
        known[fault.host, fault.code, fault.part].append(fault)
    faulty = {host for host, *_ in known}
    ran: dict[str, list[LaunchRecord]] = defaultdict(list)
    for case in launches:
        for host in faulty.intersection(case.record.hosts):
            ran[host].append(case.record)
    for (host, _, _), faults in sorted(known.items(), key=lambda item: item[0]):
        last, shown = faults[-1], ran[host]
        if last.kernel:
            shown = [record for record in shown if record.kernel == last.kernel]
        if isinstance(last, TcpLosses):
            # Of two hosts neither is named; of noise there is no traffic. A lossy link loses in
            # every launch that uses it; a queue that overflowed once is no fault.
            shown = [r for r in shown if len(r.hosts) > 2 and r.kernel != "noise"]
            if 2 * len(faults) < len(shown):
                continue
        yield replace(last, launches=len(faults), of=len(shown))
