"""The verdict on a network in words, for the page and for the terminal."""

from collections.abc import Mapping
from dataclasses import astuple, replace

from bisection.core.format import plural, short, some, times
from bisection.core.reasons import Code, Reason, clause
from bisection.core.reasons.network import component, factor
from bisection.core.verdicts import Grade
from bisection.report.model import Report
from bisection.report.tables import Table, listing, rows_table
from bisection.runs.model import Interconnect

MOST, LINES = 40, 8  # findings of a table, of a terminal
# What the checks of a network measure of it.
PARTS = {
    "network_noise": "interruptions and memory bandwidth of the cores",
    "pairs": "nodes, cables and switches",
    "network": "communication patterns",
    "congestion": "the impact of other jobs",
    "transpose": "the transposes of a plane-wave code",
}
UNMEASURED = (
    ("what", "text", lambda reason: PARTS[reason["check"]]),
    ("check, and why not", "text", clause),
)
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
    """Tables of what other traffic costs, of the levels beside the sessions before, and of what was
    not measured."""
    rows = report.comparison.rows if report.comparison else []
    rows = [row for row in rows if row.check == "pairs" and row.unit != "ratio"]
    impacts = listing(report.impacts, IMPACTS, MOST, "pairs of victim and aggressor")
    return _titled(
        {
            "Under other traffic": impacts,
            "Beside the sessions before": rows_table(rows, MOST) if rows else None,
            "Not measured": listing(report.interconnect.unmeasured, UNMEASURED, MOST),
        }
    )


def _titled(tables: Mapping[str, Table | None]) -> list[Table]:
    return [replace(part, title=title) for title, part in tables.items() if part and part.rows]


def notes(report: Report) -> list[str]:
    """The devices that carried the messages."""
    cases = [case for case in report.cases if case.record.facts.get("network")]
    carriers = {case.place: case.record.facts["network"] for case in cases}
    return [f"{place}: messages went through {names}." for place, names in carriers.items()]
