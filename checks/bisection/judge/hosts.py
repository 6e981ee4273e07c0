"""Slow nodes and faulty adapters, by all that shows them."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from bisection.core.reasons import SLOW_HOSTS, Code, Reason
from bisection.core.thresholds import LIMITS
from bisection.judge.evidence import Evidence
from bisection.runs.model import RunVerdict, TestResult


def rule(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Names nodes that are slow, and those that may be: by the times of many launches, by their
    clock in a third of their launches, by what they did alone in all of them.

    A node is suspect if it was slow in the only launch that can show it. Of a run on one host
    nothing is compared.
    """
    rerun = evidence.retest and evidence.retest.rerun
    named = [Code.SLOW_NODE(**asdict(suspect)) for suspect in evidence.nodes]
    faults = faulty_hosts([*verdict.cases, *(rerun.cases if rerun else ())])
    several = len({host for case in verdict.cases for host in case.record.hosts}) > 1
    slow = [reason for reason in faults if several and reason.code in SLOW_HOSTS]
    least, shares = LIMITS.slow_launches, {Code.SLOW_CLOCK: 1 / 3}
    sure = [r for r in slow if r["launches"] >= max(least, shares.get(r.code, 1) * r["of"])]
    suspect = [r for r in slow if r["launches"] < least > r["of"]]
    return verdict.noting(
        remarks=[*faults, *named], slow_nodes=[*named, *sure], suspect_nodes=suspect
    )


def faulty_hosts(cases: Sequence[TestResult]) -> list[Reason]:
    """The hosts that were slow in a launch, or whose adapters were faulty: of each fault the last,
    and in how many launches."""
    launches = [case for case in cases if case.fixture and case.record.controls.get("clock")]
    known: dict[tuple[Any, ...], list[Reason]] = defaultdict(list)
    for reason in (reason for case in launches for reason in case.record.host_faults):
        part = (reason["adapter"] or "", reason["fact"] or "", reason["cores"] or 0)
        known[reason["host"], reason.code, part].append(reason)
    remarks = []
    for (host, code, _), reasons in sorted(known.items()):
        shown = [case.record for case in launches if host in case.record.hosts]
        if code in SLOW_HOSTS - {Code.SLOW_CLOCK}:
            shown = [record for record in shown if record.kernel == "noise"]
        if code == Code.TCP_LOSSES:
            # Of two hosts neither is named; of noise there is no traffic. A lossy link loses in
            # every launch that uses it; a queue that overflowed once is no fault.
            shown = [r for r in shown if len(r.hosts) > 2 and r.kernel != "noise"]
            if 2 * len(reasons) < len(shown):
                continue
        remarks.append(reasons[-1].with_values(launches=len(reasons), of=len(shown)))
    return remarks
