"""A network: its components by pairs of nodes; go, look or no-go, and what speaks against it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bisection.core.format import amount
from bisection.core.reasons import ADAPTER_FAULTS, SLOW_HOSTS
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.performance import Outlier, Slower, SlowNode
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Grade, Verdict
from bisection.judge.evidence import Evidence
from bisection.runs.run_verdict import RunVerdict
from interconnect import impact
from interconnect.blame import Blame
from interconnect.impact import Impact
from interconnect.network_verdict import Interconnect, NetworkFinding
from interconnect.reasons import (
    ComponentSuspected,
    LaunchBad,
    PartUnmeasured,
    SlowComponent,
)

# The checks that measure the network, and those of them that send messages.
SENDING = ("pairs", "network", "congestion", "transpose")
CHECKS = ("network_noise", *SENDING)
# What a run has in its other tuples already, which decide its exit code.
RULED = (LaunchBad, SlowNode, Slower, Outlier, SlowComponent, ComponentSuspected, *SLOW_HOSTS)


def rule_pairs(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """A run that measured a bad component has failed; one that measured a suspect or a worse
    component does not pass; an unreadable matrix is a trouble."""
    verdict = verdict.adding(troubles=evidence.unreadable)
    for blame in evidence.blames:
        verdict = verdict.adding(
            failures=blame.bad,
            worse_components=blame.worse,
            network=[ComponentSuspected(component=part) for part in blame.suspects],
        )
    return verdict


def rule(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Adds the verdict on the network: no run passes whose network is no-go, or to be looked at."""
    findings = [*_of_run(verdict), *_of_pairs(evidence.blames), *_of_levels(verdict, evidence)]
    findings += [
        NetworkFinding(i.grade, i.reason) for i in evidence.impacts if i.reason and i.grade
    ]
    findings = sorted(dict.fromkeys(findings), key=lambda finding: finding.grade != Grade.NO_GO)
    unmeasured = tuple(_unmeasured(verdict, evidence.impacts))
    if not findings and {*SENDING} <= {part.check for part in unmeasured}:
        return verdict  # no message was measured: there is no verdict on a network
    verdict = replace(verdict, interconnect=Interconnect(tuple(findings), unmeasured))
    known = [*verdict.failures, *verdict.network]  # a stored run has noted some already
    new = [f for f in findings if not isinstance(f.reason, RULED) and f.reason not in known]
    return verdict.adding(
        failures=[finding.reason for finding in new if finding.grade == Grade.NO_GO],
        network=[finding.reason for finding in new if finding.grade == Grade.LOOK],
    )


def _of_run(run: RunVerdict) -> Iterator[NetworkFinding]:
    """Yields failures, suspects, missing launches, and faulty hosts."""
    yield from (NetworkFinding(Grade.NO_GO, failure) for failure in run.failures)
    doubts = (*run.worse_components, *run.network)
    yield from (NetworkFinding(Grade.LOOK, reason) for reason in doubts)
    launches: dict[tuple[Verdict, Reason | None], str] = {}
    for case in run.bad:
        if not case.follows:
            launches.setdefault((case.verdict, case.reason), case.group)
    for (outcome, why), group in launches.items():
        grade = Grade.NO_GO if outcome == Verdict.FAIL else Grade.LOOK
        yield NetworkFinding(grade, LaunchBad(launch=group, reason=why))
    hosts = [remark for remark in run.remarks if isinstance(remark, ADAPTER_FAULTS)]
    for remark in [*run.slow_nodes, *run.suspect_nodes, *hosts]:
        yield NetworkFinding(Grade.LOOK, remark)


def _of_pairs(blames: Sequence[Blame]) -> Iterator[NetworkFinding]:
    """Pairs by which nothing could be judged, and bandwidths far below the rate of the adapters
    that carried them; bad components are among the run's failures."""
    for blame in blames:
        if all(kind.withheld for kind in blame.kinds if kind.kind.unit == "B/s"):
            text = f"{blame.place}: no bandwidth of pairs could be judged"
            yield NetworkFinding(Grade.LOOK, Text(text))
        rate = blame.matrix.rate
        levels = [kind.levels[0].value for kind in blame.kinds if kind.kind.name == "bandwidth"]
        if rate and levels and levels[0] < LIMITS.adapter_share * rate:
            gets, most = amount(levels[0], "B/s"), amount(rate, "B/s")
            part = f"{levels[0] / rate:.0%} of its adapters' rate of {most}"
            yield NetworkFinding(Grade.LOOK, Text(f"a pair of nodes gets {gets}, {part}"))


def _of_levels(run: RunVerdict, evidence: Evidence) -> Iterator[NetworkFinding]:
    """Yields what is worse than in the sessions before: the run's own ruling, then the
    comparison's."""
    seen = set()
    for reason in (*run.slower, *run.outliers):
        if reason.check in CHECKS:
            seen.add(reason.key)
            yield NetworkFinding(Grade.NO_GO if isinstance(reason, Slower) else Grade.LOOK, reason)
    for row in evidence.comparison.rows if evidence.comparison else ():
        regressed = row.check in CHECKS and row.verdict == Verdict.REGRESSED
        if regressed and row.key not in seen:
            yield NetworkFinding(Grade.NO_GO, Text(f"{row.test}, {row.metric}: {row.change}"))


def _unmeasured(run: RunVerdict, impacts: Sequence[Impact]) -> Iterator[PartUnmeasured]:
    """Yields what of the network was not measured, and why; of what other traffic costs one reason
    of all that is withheld, or each with its own."""
    for check in CHECKS:
        cases = [case for case in run.judged if case.check == check]
        if any(run.outcome(case) in (Verdict.PASS, Verdict.FAIL) for case in cases):
            continue
        if any(case.lost_to_others for case in cases):
            continue  # a finding already
        why = next((case.reason for case in cases if case.reason), Text("not in this run"))
        yield PartUnmeasured(check=check, why=why)
    if not any(case.record.kernel == impact.KERNEL for case in run.lost_to_others):
        whys = list({part.withheld for part in impacts})
        reasons = whys if len(whys) == 1 else [part.reason for part in impacts if part.withheld]
        yield from (PartUnmeasured(check=impact.KERNEL, why=why) for why in reasons if why)
