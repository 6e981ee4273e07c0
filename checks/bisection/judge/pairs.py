"""Components of the network, by pairs of nodes."""

from bisection.core.reasons import Code
from bisection.judge.evidence import Evidence
from bisection.runs.model import RunVerdict


def rule(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """A run that measured a bad component has failed; one that measured a suspect or a worse
    component does not pass; an unreadable matrix is a trouble."""
    verdict = verdict.noting(troubles=evidence.unreadable)
    for blame in evidence.blames:
        doubts = [part.reason(drift=True) for part in blame.worse]
        doubts += [Code.COMPONENT_SUSPECTED(component=part.reason()) for part in blame.suspects]
        failures = [part.reason() for part in blame.bad]
        verdict = verdict.noting(failures=failures, network=doubts)
    return verdict
