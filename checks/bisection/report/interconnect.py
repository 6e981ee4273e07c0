"""A network in words and tables: the verdict on it, bad components, levels, other traffic."""

from collections.abc import Sequence

from bisection.analysis.blame import BadComponent, Blame
from bisection.analysis.impact import Impact
from bisection.core.format import amount, number, plural, short, size_of, some, times
from bisection.core.grouping import grouped
from bisection.core.reasons.network import SlowComponent
from bisection.core.verdicts import Grade
from bisection.report.text_tables import TextTable, listing
from bisection.runs.model import Finding, Interconnect

MOST, LINES = 40, 8  # findings of a table, of a terminal
HOPS = {0: "of one switch", 1: "of different switches"}
FINDINGS = (
    ("", "text", lambda finding: str(finding.grade)),
    ("finding", "text", lambda finding: short(str(finding.reason), 400)),
)
UNMEASURED = (("check, and why not", "text", str),)
IMPACTS = (
    ("", "text", lambda i: str(i.grade or "not judged")),
    ("victim", "text", lambda i: i.victim),
    ("under", "text", lambda i: f"{i.aggressor} ({i.place})"),
    ("mean, times quiet", "num", lambda i: i.mean.factor),
    ("p99, times quiet", "num", lambda i: i.p99.factor),
    ("aggressor's load, of it alone", "num", lambda i: times(i.load)),
)
COMPONENTS = (
    ("component", "text", lambda part: short(part.name, 200)),
    ("slow", "lines", lambda part: "\n".join(map(str, part.symptoms))),
    ("z", "lines", lambda part: "\n".join(f"{s.z:.0f}" for s in part.symptoms)),
    ("rerun", "text", lambda part: part.retests),
    ("where to look", "text", lambda part: part.look),
)
MEANING = {
    Grade.GO: "Nothing that was measured speaks against this network.",
    Grade.LOOK: "Look at each finding before users get this network.",
    Grade.NO_GO: "Repair the components listed and rerun before users get this network.",
}


# ---- the verdict ----


def headline(network: Interconnect) -> str:
    """The verdict in a few words, with the bad components by name."""
    slow = [f.reason for f in network.findings if _is_bad_component(f)]
    bad = [reason.name for reason in slow if isinstance(reason, SlowComponent)]
    others = len(network.findings) - len(bad)
    parts = [f"{some(bad, 3)} slow"] if bad else []
    parts += [plural(others, "other finding" if bad else "finding")] if others else []
    missing = len({reason.check for reason in network.unmeasured})
    parts += [f"{plural(missing, 'part')} not measured"] if missing else []
    return f"Network: {network.grade}" + (f" ({', '.join(parts)})" if parts else "")


def _is_bad_component(finding: Finding) -> bool:
    return isinstance(finding.reason, SlowComponent) and finding.grade == Grade.NO_GO


def text(network: Interconnect) -> list[str]:
    """Lines of a terminal: the verdict, the findings, what was not measured."""
    lines = [f"  {f.grade}: {f.reason}" for f in network.findings[:LINES]]
    left = len(network.findings) - len(lines)
    lines += [f"  {plural(left, 'more finding')} in the report"] if left else []
    missing = grouped(network.unmeasured, lambda reason: str(reason.why))
    parts = [f"{', '.join(r.check for r in part)} ({why})" for why, part in missing.items()]
    lines += [f"  not measured: {short('; '.join(parts), 400)}"] if parts else []
    return [headline(network), *lines]


def findings(network: Interconnect) -> TextTable:
    others = [f for f in network.findings if not _is_bad_component(f)]
    return listing(others, FINDINGS, MOST, "findings", "Findings")


def beside(network: Interconnect, impacts: Sequence[Impact]) -> list[TextTable]:
    """Tables of what other traffic costs, and of what was not measured."""
    return [
        listing(impacts, IMPACTS, MOST, "pairs of victim and aggressor", "Under other traffic"),
        listing(network.unmeasured, UNMEASURED, MOST, title="Not measured"),
    ]


# ---- pairs of nodes ----


def tables(blame: Blame) -> list[TextTable]:
    """Bad components, suspects, and the levels of the network."""
    components = {
        "Bad components": blame.bad,
        "Worse than in earlier sessions": blame.worse,
        "Suspects without a rerun": blame.suspects,
    }
    tables = [
        listing([part.reason() for part in parts], COMPONENTS, MOST, "components", title)
        for title, parts in components.items()
    ]
    return [*tables, _levels(blame)]


def _levels(blame: Blame) -> TextTable:
    several = any(len(judged.levels) > 1 for judged in blame.kinds)
    columns = (
        ("value", "text", lambda row: row[0].kind.name),
        ("between nodes", "text", lambda row: HOPS.get(row[1].hops, f"{row[1].hops} levels up")
         if several else "all pairs"),
        ("median", "num", lambda row: amount(row[1].value, row[0].kind.unit)),
        ("pairs", "num", lambda row: f"{row[1].pairs:,}"),
        ("noise", "num", lambda row: amount(row[0].noise, "share")),
    )  # fmt: skip
    rows = [(judged, level) for judged in blame.kinds for level in judged.levels]
    table, matrix = listing(rows, columns, title="Levels"), blame.matrix
    rounds = plural(matrix.rounds, "round") if matrix.rounds else "all rounds"
    size = f", messages of {size_of(matrix.bytes)} per rank" if matrix.bytes > 0 else ""
    about = f"{plural(len(matrix.nodes), 'node')}, {matrix.mode}, {rounds}{size}"
    table.note = f"{about}. Noise is what a pair differs by without a cause."
    return table


def notes(blame: Blame) -> list[str]:
    """The verdict in a sentence, what was withheld and why."""
    withheld = [f"{j.kind.name}: {j.withheld}" for j in blame.kinds if j.withheld]
    judged = [j.kind.name for j in blame.kinds if not j.withheld]
    verdict = [f"No bad component: {', '.join(judged)} judged"] if judged else []
    if blame.bad:
        parts = some([worst(part) for part in blame.bad], 6)
        verdict = [f"{plural(len(blame.bad), 'bad component')}: {parts}"]
    return [*verdict, *withheld, *blame.notes]


def worst(part: BadComponent) -> str:
    return f"{part.reason().name} x{number(part.factor)}"
