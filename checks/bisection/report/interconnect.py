"""The network in words: its verdict, what speaks against it, what was not measured."""

from collections.abc import Sequence

from bisection.analysis.blame import BadComponent, Blame
from bisection.analysis.interconnect import (
    OF_HOSTS,
    Blames,
    Finding,
    Grade,
    Interconnect,
    component,
)
from bisection.core.format import amount, plural, short, some
from bisection.core.reasons import Code, Reason
from bisection.report.clauses import clause
from bisection.report.model import BAD, GOOD, UNCERTAIN, Report
from bisection.report.network_clauses import LOOK, again, part_name, surest, symptoms
from bisection.report.tables import Table, listing, rows_table

STATES = {Grade.GO: GOOD, Grade.LOOK: UNCERTAIN, Grade.NO_GO: BAD}
MOST = 40  # findings and components that are listed
MEANING = {
    Grade.GO: "nothing that was measured speaks against this network",
    Grade.LOOK: "look at what is listed before users get it",
    Grade.NO_GO: "repair what is listed, and measure again",
}
PARTITION = ("partition", "text", lambda item: f"{item[0].system}:{item[0].partition}")


def headline(network: Interconnect) -> str:
    """The verdict in a few words, with the bad components by name."""
    bad = [part for _, judged in network.blames for part in judged.bad]
    names = [part_name(component(part).values) for part in bad]
    if names:
        return f"Network: {network.grade}: {some(names, 3)}"
    count = plural(len(network.findings), "finding")
    return f"Network: {network.grade}" + (f": {count}" if network.findings else "")


def text(network: Interconnect) -> list[str]:
    """Lines of a terminal: the verdict, and what speaks against the network."""
    shown = [f"  {finding.grade}: {clause(finding.reason)}" for finding in network.findings[:8]]
    left = len(network.findings) - len(shown)
    shown += [f"  {plural(left, 'more finding')} in the report"] if left else []
    missing = [reason["check"] for reason in network.unmeasured if reason["check"]]
    shown += [f"  not measured: {', '.join(missing)}"] if missing else []
    return [headline(network), *shown]


def tables(network: Interconnect, remarks: Sequence[Reason]) -> list[Table]:
    """Components, then other findings, levels, what was not measured."""
    parts = [(case, part) for case, judged in network.blames for part in of(judged)]
    others = [f for f in network.findings if f.reason.code != Code.BAD_COMPONENT]
    tables = [
        _components(parts, remarks),
        _findings(others),
        _levels(network.blames),
        rows_table(network.levels, MOST) if network.levels else listing([], ()),
        listing(
            network.unmeasured,
            (("not measured, or not judged", "text", clause),),
            MOST,
        ),
    ]
    titles = (
        "Bad components",
        "Other findings",
        "Levels",
        "Against the sessions before",
        "What was not measured",
    )
    for table, title in zip(tables, titles, strict=True):
        table.title = title
    return [table for table in tables if table.rows]


def of(judged: Blame) -> list[BadComponent]:
    """Its components, the confirmed ones first."""
    return [*judged.bad, *judged.suspects]


def _components(parts: Sequence[tuple[object, BadComponent]], remarks: Sequence[Reason]) -> Table:
    def values(item: tuple[object, BadComponent]) -> dict:
        return component(item[1]).values

    def counters(item: tuple[object, BadComponent]) -> str:
        hosts = {*item[1].names, *item[1].serves}
        return "; ".join(clause(r) for r in remarks if r.code in OF_HOSTS and r["host"] in hosts)

    columns = (
        ("component", "text", lambda item: part_name(values(item))),
        ("", "text", lambda item: "" if item[1].confirmed else "suspected"),
        ("beside the others", "text", lambda item: symptoms(values(item)["symptoms"])),
        ("retest", "text", lambda item: again(values(item)["symptoms"])),
        ("z", "num", lambda item: f"{surest(values(item)['symptoms']):.0f}"),
        ("counters", "small", lambda item: short(counters(item), 240)),
        ("where to look", "small", lambda item: LOOK[values(item)["part"]]),
        PARTITION,
    )
    return listing(parts, columns, MOST, "components")


def _findings(findings: Sequence[Finding]) -> Table:
    columns = (
        ("", "text", lambda finding: str(finding.grade)),
        ("finding", "text", lambda finding: short(clause(finding.reason), 400)),
    )
    return listing(findings, columns, MOST, "findings")


def _levels(blames: Blames) -> Table:
    items = [
        (case, judged, kind, level)
        for case, judged in blames
        for kind in judged.kinds
        for level in kind.levels
    ]
    columns = (
        ("of a pair", "text", lambda item: item[2].kind.name),
        (
            "switches apart",
            "num",
            lambda item: "" if item[1].matrix.switches is None else str(item[3].hops),
        ),
        ("median", "num", lambda item: amount(item[3].value, item[2].kind.unit)),
        ("pairs", "num", lambda item: f"{item[3].pairs:,}"),
        ("noise of a pair", "num", lambda item: f"{item[2].noise:.1%}"),
        ("launch", "small", lambda item: item[0].group),
        PARTITION,
    )
    return listing(items, columns, MOST, "levels")


def notes(network: Interconnect) -> list[str]:
    """What a reader should know of the matrices."""
    texts = [clause(note) for _, judged in network.blames for note in judged.notes]
    texts += [
        f"{place}: messages went through {names}" for place, names in network.networks.items()
    ]
    return list(dict.fromkeys(texts))


def lead(report: Report) -> str:
    """The verdict as a sentence."""
    return f"{headline(report.interconnect)}. {MEANING[report.interconnect.grade].capitalize()}."
