"""Slow nodes and faulty adapters, by all that shows them."""

from collections.abc import Callable, Sequence
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
    retest = evidence.retest and evidence.retest.again
    named = [Reason.of(Code.SLOW_NODE, **asdict(suspect)) for suspect in evidence.nodes]
    faults = faulty_hosts([*verdict.cases, *(retest.cases if retest else ())])
    several = len({host for case in verdict.cases for host in case.hosts}) > 1
    slow = [reason for reason in faults if several and reason.code in SLOW_HOSTS]
    least = LIMITS.slow_launches
    sure = [r for r in slow if r["launches"] >= max(least, _share(r) * r["of"])]
    suspect = [r for r in slow if r["launches"] < least > r["of"]]
    return verdict.noting(
        remarks=[*faults, *named], slow_nodes=[*named, *sure], suspect_nodes=suspect
    )


def _share(reason: Reason) -> float:
    """In which part of its launches a host must be slow."""
    return 1 / 3 if reason.code == Code.SLOW_CLOCK else 1


# How bad a fault of a host is, to name the worst of several launches; else the last is named.
SEVERITY: dict[Code, Callable[[Reason], float]] = {
    Code.SLOW_CLOCK: lambda reason: reason["median"] / reason["ghz"],
    Code.SLOW_CORES: lambda reason: reason["seconds"] / reason["median"],
    Code.SLOW_MEMORY: lambda reason: reason["median"] / reason["rate"],
    Code.BUSY_CORES: lambda reason: reason["lost"],
    Code.ADAPTER_ERRORS: lambda reason: sum(count for _, count in reason["errors"]),
    Code.TCP_LOSSES: lambda reason: reason["fraction"],
}


def faulty_hosts(cases: Sequence[TestResult]) -> list[Reason]:
    """The hosts that were slow in a launch, or whose adapters were faulty: of each fault the worst,
    and in how many launches."""
    launches = [case for case in cases if case.fixture and case.controls.get("clock")]
    known: dict[tuple[Any, ...], list[Reason]] = {}
    for reason in (reason for case in launches for reason in case.host_faults):
        name = (
            reason["host"],
            reason.code,
            reason["adapter"] or "",
            reason["fact"] or "",
            reason["cores"] or 0,
        )
        known.setdefault(name, []).append(reason)
    remarks = []
    for (host, code, *_), reasons in sorted(known.items()):
        worst = max(reversed(reasons), key=SEVERITY.get(Code(code), lambda _: 0.0))
        kernels = {"noise"} if code in SLOW_HOSTS - {Code.SLOW_CLOCK} else None  # all show others
        shown = [case for case in launches if not kernels or case.kernel in kernels]
        if code == Code.TCP_LOSSES:  # of two hosts neither is named; of noise there is no traffic
            shown = [case for case in shown if len(case.hosts) > 2 and case.kernel != "noise"]
        of = sum(host in case.hosts for case in shown)
        # A lossy link loses in every launch that uses it; a queue that overflowed once is no fault.
        if code == Code.TCP_LOSSES and 2 * len(reasons) < of:
            continue
        remarks.append(Reason(worst.code, {**worst.values, "launches": len(reasons), "of": of}))
    return remarks
