"""The verdict on a network in words, for the page and for the terminal."""

from collections.abc import Mapping
from dataclasses import astuple, replace

from bisection.core.format import plural, short, some, times
from bisection.core.reasons import Code, Reason, clause
from bisection.core.reasons.network import component, factor
from bisection.core.verdicts import Grade
from bisection.report.model import Report
from bisection.report.tables import Table, listing
from bisection.runs.model import Interconnect

MOST, LINES = 40, 8  # findings of a table, of a terminal
UNMEASURED = (("check, and why not", "text", clause),)
IMPACTS = (
    ("", "text", lambda i: str(i.grade or "not judged")),
    ("victim", "text", lambda i: i.victim),
    ("under", "text", lambda i: f"{i.aggressor} ({i.place})"),
    ("mean, times quiet", "num", lambda i: factor(astuple(i.mean))),
    ("p99, times quiet", "num", lambda i: factor(astuple(i.p99))),
    ("aggressor's load, of it alone", "num", lambda i: times(i.load)),
)
MEANING = {
    Grade.GO: "Nothing that was measured speaks against this network.",
    Grade.LOOK: "Look at each finding before users get this network.",
    Grade.NO_GO: "Repair the components listed and rerun before users get this network.",
}


def headline(network: Interconnect) -> str:
    """The verdict in a few words, with the bad components by name."""
    bad = [f.reason for f in network.findings if _is_component(f.reason)]
    others = len(network.findings) - len(bad)
    parts = [f"{some([component(reason.values) for reason in bad], 3)} slow"] if bad else []
    parts += [plural(others, "other finding" if bad else "finding")] if others else []
    missing = len({reason["check"] for reason in network.unmeasured})
    parts += [f"{plural(missing, 'part')} not measured"] if missing else []
    return f"Network: {network.grade}" + (f" ({', '.join(parts)})" if parts else "")


def _is_component(reason: Reason) -> bool:
    return reason.code == Code.BAD_COMPONENT and not reason["drift"]


def text(network: Interconnect) -> list[str]:
    """Lines of a terminal: the verdict, the findings, what was not measured."""
    lines = [f"  {f.grade}: {clause(f.reason)}" for f in network.findings[:LINES]]
    left = len(network.findings) - len(lines)
    lines += [f"  {plural(left, 'more finding')} in the report"] if left else []
    missing: dict[str, list[str]] = {}
    for reason in network.unmeasured:
        missing.setdefault(clause(reason["why"]), []).append(reason["check"])
    whole = "; ".join(f"{', '.join(checks)} ({why})" for why, checks in missing.items())
    lines += [f"  not measured: {short(whole, 400)}"] if whole else []
    return [headline(network), *lines]


def findings(network: Interconnect) -> list[Table]:
    """A table of the findings that are no components, which have a table of their own."""
    columns = (
        ("", "text", lambda finding: str(finding.grade)),
        ("finding", "text", lambda finding: short(clause(finding.reason), 400)),
    )
    others = [f for f in network.findings if not _is_component(f.reason)]
    return _titled({"Findings": listing(others, columns, MOST, "findings")})


def beside(report: Report) -> list[Table]:
    """Tables of what other traffic costs, and of what was not measured."""
    impacts = listing(report.impacts, IMPACTS, MOST, "pairs of victim and aggressor")
    unmeasured = listing(report.interconnect.unmeasured, UNMEASURED, MOST)
    return _titled({"Under other traffic": impacts, "Not measured": unmeasured})


def _titled(tables: Mapping[str, Table]) -> list[Table]:
    return [replace(part, title=title) for title, part in tables.items() if part.rows]
