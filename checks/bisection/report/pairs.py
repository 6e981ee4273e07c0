"""Pairs of nodes in a report: bad components, levels and notes, for the page and Markdown alike."""

from collections.abc import Sequence
from dataclasses import asdict

from bisection.analysis.blame import BadComponent, Blame, Judged, Level
from bisection.core.format import amount, number, plural, short, size_of, some
from bisection.core.reasons import clause
from bisection.core.reasons.network import component, look, retests, symptom
from bisection.report.tables import Table, listing

COMPONENTS = 40  # of a table
HOPS = {0: "of one switch", 1: "of different switches"}


def tables(blame: Blame) -> list[Table]:
    """Bad components, suspects, and the levels of the network."""
    parts = [
        _components("Bad components", blame.bad),
        _components("Worse than in earlier sessions", blame.worse),
        _components("Suspects without a rerun", blame.suspects),
        _levels(blame),
    ]
    return [part for part in parts if part.rows]


def _components(title: str, parts: Sequence[BadComponent]) -> Table:
    columns = (
        ("component", "text", lambda part: short(component(part), 200)),
        ("slow", "lines", lambda part: "\n".join(map(symptom, part["symptoms"]))),
        ("z", "lines", lambda part: "\n".join(f"{s['z']:.0f}" for s in part["symptoms"])),
        ("rerun", "text", retests),
        ("where to look", "text", look),
    )
    table = listing(map(asdict, parts), columns, COMPONENTS, "components")
    table.title = title
    return table


def _levels(blame: Blame) -> Table:
    several = any(len(judged.levels) > 1 for judged in blame.kinds)
    rows = [(judged, level) for judged in blame.kinds for level in judged.levels]

    def between(row: tuple[Judged, Level]) -> str:
        return HOPS.get(row[1].hops, f"{row[1].hops} levels up") if several else "all pairs"

    columns = (
        ("value", "text", lambda row: row[0].kind.name),
        ("between nodes", "text", between),
        ("median", "num", lambda row: amount(row[1].value, row[0].kind.unit)),
        ("pairs", "num", lambda row: f"{row[1].pairs:,}"),
        ("noise", "num", lambda row: amount(row[0].noise, "share")),
    )
    table, matrix = listing(rows, columns), blame.matrix
    table.title = "Levels"
    rounds = plural(matrix.rounds, "round") if matrix.rounds else "all rounds"
    size = f", messages of {size_of(matrix.bytes)} per rank" if matrix.bytes > 0 else ""
    table.note = (
        f"{plural(len(matrix.nodes), 'node')}, {matrix.mode}, {rounds}"
        f"{size}. Noise is what a pair differs by without a cause."
    )
    return table


def notes(blame: Blame) -> list[str]:
    """The verdict in a sentence, what was withheld and why."""
    withheld = [f"{j.kind.name}: {clause(j.withheld)}" for j in blame.kinds if j.withheld]
    judged = [j.kind.name for j in blame.kinds if not j.withheld]
    verdict = [f"No bad component: {', '.join(judged)} judged"] if judged else []
    if blame.bad:
        parts = some([worst(part) for part in blame.bad], 6)
        verdict = [f"{plural(len(blame.bad), 'bad component')}: {parts}"]
    return [*verdict, *withheld, *map(clause, blame.notes)]


def worst(part: BadComponent) -> str:
    """A component and its worst factor, in a caption."""
    return f"{component(asdict(part))} x{number(part.factor)}"
