"""A network: its components by pairs of nodes; go, look or no-go, and what speaks against it."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from bisection.analysis import impact
from bisection.analysis.blame import Blame
from bisection.analysis.impact import Impact
from bisection.core.identity import IDENTITY
from bisection.core.reasons import FAULTS_OF_HOSTS, SLOW_HOSTS, Code, Reason
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Grade, Verdict
from bisection.judge.evidence import Evidence
from bisection.runs.model import Finding, Interconnect, RunVerdict

TIERS = ("triage", "interconnect")  # whose question is the network
# The checks that measure the network, and those of them that send messages.
SENDING = ("pairs", "network", "congestion", "transpose")
CHECKS = ("network_noise", *SENDING)
# What a run has in its other tuples already, which decide its exit code.
RULED = SLOW_HOSTS | {
    *(Code.LAUNCH_BAD, Code.SLOW_NODE, Code.SLOWER, Code.OUTLIER, Code.BAD_COMPONENT),
    Code.COMPONENT_SUSPECTED,
}


def rule_pairs(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """A run that measured a bad component has failed; one that measured a suspect or a worse
    component does not pass; an unreadable matrix is a trouble."""
    verdict = verdict.noting(troubles=evidence.unreadable)
    for blame in evidence.blames:
        verdict = verdict.noting(
            failures=[part.reason() for part in blame.bad],
            worse_components=[part.reason(drift=True) for part in blame.worse],
            network=[Code.COMPONENT_SUSPECTED(component=s.reason()) for s in blame.suspects],
        )
    return verdict


def rule(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Adds the verdict on the network, if that is what the tier asks: no run passes whose network
    is no-go, or to be looked at."""
    if verdict.request.tier not in TIERS:
        return verdict
    findings = [*_of_run(verdict), *_of_pairs(evidence.blames), *_of_levels(verdict, evidence)]
    findings += [Finding(i.grade, i.reason) for i in evidence.impacts if i.reason and i.grade]
    findings = sorted(dict.fromkeys(findings), key=lambda finding: finding.grade != Grade.NO_GO)
    unmeasured = tuple(_unmeasured(verdict, evidence.impacts))
    if not findings and {*SENDING} <= {part["check"] for part in unmeasured}:
        return verdict  # no message was measured: there is no verdict on a network
    verdict = replace(verdict, interconnect=Interconnect(tuple(findings), unmeasured))
    known = [*verdict.failures, *verdict.network]  # a stored run has noted some already
    new = [f for f in findings if f.reason.code not in RULED and f.reason not in known]
    return verdict.noting(
        failures=[finding.reason for finding in new if finding.grade == Grade.NO_GO],
        network=[finding.reason for finding in new if finding.grade == Grade.LOOK],
    )


def _of_run(run: RunVerdict) -> Iterator[Finding]:
    """Yields failures, suspects, missing launches, and faulty hosts."""
    yield from (Finding(Grade.NO_GO, failure) for failure in run.failures)
    doubts = (*run.worse_components, *run.network)
    yield from (Finding(Grade.LOOK, reason) for reason in doubts)
    launches: dict[tuple[Verdict, Reason | None], str] = {}
    for case in run.bad:
        if not case.follows:
            launches.setdefault((case.verdict, case.reason), case.group)
    for (outcome, why), group in launches.items():
        grade = Grade.NO_GO if outcome == Verdict.FAIL else Grade.LOOK
        yield Finding(grade, Code.LAUNCH_BAD(launch=group, reason=why))
    hosts = [remark for remark in run.remarks if remark.code in FAULTS_OF_HOSTS - SLOW_HOSTS]
    for remark in [*run.slow_nodes, *run.suspect_nodes, *hosts]:
        yield Finding(Grade.LOOK, remark)


def _of_pairs(blames: Sequence[Blame]) -> Iterator[Finding]:
    """Pairs by which nothing could be judged, and bandwidths far below the rate of the adapters
    that carried them; bad components are among the run's failures."""
    for blame in blames:
        if all(kind.withheld for kind in blame.kinds if kind.kind.unit == "B/s"):
            yield Finding(Grade.LOOK, Code.NOTHING_BLAMED(place=blame.place))
        rate = blame.matrix.rate
        levels = [kind.levels[0].value for kind in blame.kinds if kind.kind.name == "bandwidth"]
        if rate and levels and levels[0] < LIMITS.adapter_share * rate:
            values = {"bandwidth": levels[0], "rate": rate, "share": levels[0] / rate}
            yield Finding(Grade.LOOK, Code.BELOW_ADAPTER(**values))


def _of_levels(run: RunVerdict, evidence: Evidence) -> Iterator[Finding]:
    """Yields what is worse than in the sessions before: the run's own ruling, then the
    comparison's."""
    names = (*IDENTITY, "metric")
    seen = set()
    for grade, reasons in ((Grade.NO_GO, run.slower), (Grade.LOOK, run.outliers)):
        for reason in reasons:
            if reason["check"] in CHECKS:
                seen.add(tuple(reason[name] for name in names))
                yield Finding(grade, reason)
    for row in evidence.comparison.rows if evidence.comparison else ():
        regressed = row.check in CHECKS and row.verdict == Verdict.REGRESSED
        if regressed and row.key not in seen:
            yield Finding(Grade.NO_GO, Code.LEVEL_WORSE(**row.change))


def _unmeasured(run: RunVerdict, impacts: Sequence[Impact]) -> Iterator[Reason]:
    """Yields what of the network was not measured, and why; of what other traffic costs one reason
    of all that is withheld, or each with its own."""
    for check in CHECKS:
        cases = [case for case in run.judged if case.check == check]
        if any(run.outcome(case) in (Verdict.PASS, Verdict.FAIL) for case in cases):
            continue
        if any(case.lost_to_others for case in cases):
            continue  # a finding already
        why = next((case.reason for case in cases if case.reason), Code.PART_NOT_RUN())
        yield Code.PART_UNMEASURED(check=check, why=why)
    if not any(case.record.kernel == impact.KERNEL for case in run.lost_to_others):
        whys = {part.withheld for part in impacts}
        reasons = whys if len(whys) == 1 else [part.reason for part in impacts if part.withheld]
        yield from (Code.PART_UNMEASURED(check=impact.KERNEL, why=why) for why in reasons if why)
