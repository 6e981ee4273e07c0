"""The network of a run, by the interconnect triage (checks/interconnect). That loads where a run
measured pairs of nodes or other traffic, or its tier asks for a verdict on the network."""

from dataclasses import replace

from bisection.judge.evidence import Evidence
from bisection.runs.folder import kept_launches
from bisection.runs.run_verdict import RunVerdict
from bisection.store.database import Store

KERNELS = ("pairs", "congestion")  # whose launches are judged by the triage itself
TIERS = ("triage", "interconnect")  # whose question is the network


def measured(evidence: Evidence, store: Store | None, run: RunVerdict) -> Evidence:
    """Adds what a run measured of its network, and what earlier runs measured by its pairs.
    `store`: None if none is stored. Each matrix of a campaign is of two nodes, which it judges."""
    if run.request.spots or not any(kept_launches(run, *KERNELS)):
        return evidence
    from interconnect.measured import of_run

    blames, unreadable, impacts = of_run(run, store)
    return replace(evidence, blames=blames, unreadable=unreadable, impacts=impacts)


def rule_pairs(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Adds slow, suspect and worse components; an unreadable matrix is a trouble."""
    if not evidence.blames and not evidence.unreadable:
        return verdict
    from interconnect import rulings

    return rulings.rule_pairs(verdict, evidence)


def rule(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Adds the verdict on the network, if that is what the tier asks."""
    if verdict.request.tier not in TIERS:
        return verdict
    from interconnect import rulings

    return rulings.rule(verdict, evidence)
