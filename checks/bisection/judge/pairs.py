"""Components of the network, by pairs of nodes."""

from bisection.analysis.network import reason, suspected
from bisection.judge.evidence import Evidence
from bisection.runs.model import RunVerdict


def rule(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """A run that measured a bad component has failed; one that measured a suspect or a worse
    component does not pass; an unreadable matrix is a trouble."""
    verdict = verdict.noting(troubles=evidence.unreadable)
    for blame in evidence.blames:
        doubts = [*(reason(part, drift=True) for part in blame.worse)]
        doubts += map(suspected, blame.suspects)
        verdict = verdict.noting(failures=map(reason, blame.bad), network=doubts)
    return verdict
