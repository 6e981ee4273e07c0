"""The section of a report on a network: bad components, levels, other traffic."""

from bisection.core.format import amount, plural, short, size_of, some, times
from bisection.core.verdicts import Grade
from bisection.report.report_data import Report
from bisection.report.text_tables import POINTS, TextTable, listing
from interconnect.blame import Blame

MOST = 40  # findings of a table
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
LEAD = (
    "Measurements between pairs of nodes. A component is reported if it explains its slow pairs, "
    "beyond chance, and if a rerun of these pairs alone confirms it."
)
MEANING = {
    Grade.GO: "Nothing that was measured speaks against this network.",
    Grade.LOOK: "Look at each finding before users get this network.",
    Grade.NO_GO: "Repair the components listed and rerun before users get this network.",
}


def content(report: Report) -> tuple[str, list[TextTable], list[str]]:
    """The section's lead, tables and notes."""
    blames, network = report.evidence.blames, report.interconnect
    notes = []
    for blame in blames:
        place = f"{short(blame.place, 80)}: " if len(blames) > 1 else ""
        notes += [place + note for note in _notes(blame)]
    contents = [table for blame in blames for table in _tables(blame)]
    lead = LEAD if any(table.rows for table in contents) else ""
    if network:
        lead = f"{MEANING[network.grade]} {lead}"
        bad = network.bad
        others = [finding for finding in network.findings if finding.reason not in bad]
        impacts, missing = report.evidence.impacts, network.unmeasured
        contents = [
            listing(others, FINDINGS, MOST, "findings", "Findings"),
            *contents,
            listing(impacts, IMPACTS, MOST, "pairs of victim and aggressor", "Under other traffic"),
            listing(missing, UNMEASURED, MOST, title="Not measured"),
        ]
    return lead, contents, notes[:POINTS]


def _tables(blame: Blame) -> list[TextTable]:
    """Bad components, suspects, and the levels of the network."""
    components = {
        "Bad components": blame.bad,
        "Worse than in earlier sessions": blame.worse,
        "Suspects without a rerun": blame.suspects,
    }
    tables = [
        listing(parts, COMPONENTS, MOST, "components", title) for title, parts in components.items()
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


def _notes(blame: Blame) -> list[str]:
    """The verdict in a sentence, what was withheld and why."""
    withheld = [f"{j.kind.name}: {j.withheld}" for j in blame.kinds if j.withheld]
    judged = [j.kind.name for j in blame.kinds if not j.withheld]
    verdict = [f"No bad component: {', '.join(judged)} judged"] if judged else []
    if blame.bad:
        parts = some([part.brief for part in blame.bad], 6)
        verdict = [f"{plural(len(blame.bad), 'bad component')}: {parts}"]
    return [*verdict, *withheld, *blame.notes]
