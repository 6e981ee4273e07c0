"""The output of `bisection site check`: a line per probe, and advice below a wrong one; as JSON."""

from collections.abc import Iterable
from dataclasses import dataclass

from bisection.core.grouping import grouped
from bisection.report.documents import Document
from bisection.report.lines import fitting
from bisection.sites.cluster.probe_runner import ProbeResult, ProbeState
from bisection.sites.cluster.probes import PROBES

TITLES = {probe.name: probe.title for probe in PROBES}
WIDTH = max(map(len, TITLES.values()))

BELOW = " " * 15  # further lines of a result begin below its title


@dataclass(kw_only=True)
class SiteCheckDocument(Document):
    """A site file checked against the machine: `bisection site check --json`."""

    name = "site-check"

    site: str
    seconds: float
    results: list[ProbeResult]
    output: str  # folder with the output of the jobs; "" if it is removed


def result_lines(finding: ProbeResult) -> list[str]:
    """The lines of a result: its words, and for what is wrong or not tried what
    to do. None for what rests on another result: `untried` has them together."""
    if finding.rests_on:
        return []
    title = f"{TITLES[finding.probe]:<{WIDTH}}"
    lines = fitting(f"  {finding.state:<9}  {title}  {finding.text}", BELOW)
    if finding.state != ProbeState.OK:
        lines += fitting(f"{BELOW}-> {finding.remedy}", f"{BELOW}   ")
    return lines


def untried(findings: Iterable[ProbeResult]) -> list[str]:
    """The lines on results of one partition that rest on others, by these."""
    resting = (finding for finding in findings if finding.rests_on)
    lines: list[str] = []
    for root, rest in grouped(resting, lambda finding: finding.rests_on).items():
        titles = ", ".join(TITLES[finding.probe] for finding in rest)
        why = f'as "{TITLES[root]}" is not ok'
        lines += fitting(f"  {ProbeState.NOT_TRIED:<9}  {why}: {titles}", f"{BELOW[:-2]}")
    return lines
