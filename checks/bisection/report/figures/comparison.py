"""Figures of two sides: speed-ups, and speed-ups against ranks."""

import math
from collections import Counter
from collections.abc import Sequence
from functools import partial

from bisection.analysis.model import Row
from bisection.core.format import NONE, amount, before_after, finite, interval, plural, short, times
from bisection.core.identity import parsed
from bisection.core.reasons import clause
from bisection.core.verdicts import COMPARED, Against, Verdict
from bisection.report.figures.common import Group, Panel, ends_of
from bisection.report.svg.plots import Bar, Curve, bars_svg, curves_svg
from bisection.report.svg.style import BLUE, GREY, RED, YELLOW, Styles, legend_of
from bisection.report.tables import Column, Table, cells_table, listing

Points = dict[int, Row]  # ranks -> a row
BARS = 30  # that a figure shows at most; the rest is counted


def speedups(rows: Sequence[Row], expected: float | None) -> list[Group]:
    """Performance after over before, a bar a test, like figure 17 of the HPCx report (2004)."""
    expected = expected if finite(expected) and expected > 0 else None
    candidates = primary(rows)
    rank = {verdict: index for index, verdict in enumerate(COMPARED)}
    candidates.sort(key=lambda row: (rank.get(row.verdict, 0), row.speedup[0]))
    shown = sorted(candidates[:BARS], key=lambda row: row.speedup[0])
    if not shown:
        return []
    bars = [_bar(row, expected) for row in shown]
    describe = "; ".join(f"{bar.label}: {times(bar.ratio)} {bar.words}" for bar in bars)
    panel = Panel("Speed-up of each test", describe, partial(bars_svg, bars, expected))
    table = _speedup_table(shown, expected)
    if len(candidates) > len(shown):
        left = len(candidates) - len(shown)
        table.note = f"{left} more tests are not drawn; all are listed below."
    notes = [_mixed(shown)]
    if any(bar.low is not None for bar in bars):
        notes.append("A black line is the confidence interval.")
    if expected:
        notes.append(
            "The dashed line is what the change alone should give, such as the ratio of clocks: a "
            "bar beyond it gained from something else as well, one short of it lost on the way."
        )
    return [Group("", [panel], table, note=" ".join(filter(None, notes)))]


def primary(rows: Sequence[Row]) -> list[Row]:
    """The rows whose ratio is a speed-up: of each test its time, or else its rates, or else the
    message size of a sweep whose time changed most."""
    tests = {}
    for row in rows:
        if finite(row.ratio) and row.ratio > 0 and nearness(row):
            tests.setdefault(row.identity, []).append(row)
    chosen = []
    for metrics in tests.values():
        best = min(map(nearness, metrics))
        near = [row for row in metrics if nearness(row) == best]
        chosen += near if best != SWEEP else [max(near, key=lambda r: abs(math.log(r.ratio)))]
    return chosen


TIME, RATE, SWEEP = 1, 2, 3


def nearness(row: Row) -> int:
    """How near a metric is to what one asks of a test; 0 if it is no speed."""
    if row.metric == "time":
        return TIME
    if row.unit.endswith("/s"):
        return RATE
    return SWEEP if row.base == "time" else 0


# Colour and hatch, told apart by hatch where they may look alike.
LOOKS = {
    Against.ABOVE: (BLUE, ""),
    Verdict.IMPROVED: (BLUE, ""),
    Against.AT: (GREY, ""),
    Verdict.UNCHANGED: (GREY, ""),
    Against.BELOW: (RED, "////"),
    Verdict.REGRESSED: (RED, "////"),
}
UNSURE = (YELLOW, "xxxx")


def _bar(row: Row, expected: float | None) -> Bar:
    ratio, low, high = row.speedup
    word = row.against if expected and row.against else row.verdict
    colour, hatch = LOOKS.get(word, UNSURE)
    return Bar(
        label=short(row.label + (" (control)" if row.control else ""), 90),
        place=short(" \N{MIDDLE DOT} ".join(_where(row)), 120),
        words=word,
        ratio=ratio,
        low=low if finite(low) and low > 0 else None,
        high=high if finite(high) and high > 0 else None,
        colour=colour,
        hatch=hatch,
    )


def _where(row: Row) -> list[str]:
    """Geometry and software of a row, each side's if they differ."""
    geometry = before_after(_brief(row.before.geometry), _brief(row.after.geometry))
    return list(filter(None, (geometry, before_after(row.before.software, row.after.software))))


def _brief(geometry: str) -> str:
    """Ranks x threads, and nodes."""
    shape = parsed(geometry)
    if shape is None:
        return geometry or "geometry not known"
    size = f"{shape.ranks} \N{MULTIPLICATION SIGN} {shape.threads}"
    return f"{size}, {plural(shape.nodes, 'node')}"


def _speedup_table(rows: Sequence[Row], expected: float | None) -> Table:
    def sides(row: Row, name: str, most: int) -> str:
        return short(before_after(getattr(row.before, name), getattr(row.after, name)), most)

    columns: list[Column] = [
        ("test", "text", lambda row: short(row.label, 120)),
        ("where", "small", lambda row: short(row.place, 80)),
        ("geometry", "text", lambda row: sides(row, "geometry", 60)),
        ("software", "small", lambda row: sides(row, "software", 200)),
        ("speed-up", "num", lambda row: times(row.speedup[0])),
        ("interval", "num", lambda row: interval(*row.speedup[1:])),
        ("verdict", "verdict", lambda row: row.verdict),
    ]
    if expected:
        columns += [
            ("against expected", "against", lambda row: row.against or NONE),
            ("communicating before", "num", lambda row: amount(row.communication, "share")),
            ("explained by a faster network", "small", lambda row: short(clause(row.explained))),
        ]
    return listing(rows, columns)


def _mixed(rows: Sequence[Row]) -> str:
    """A warning where bars do not compare the same geometry or the same software."""
    ranks = sorted({shape.ranks for row in rows if (shape := parsed(row.after.geometry))})
    states = {(row.before.software, row.after.software) for row in rows}
    differ = [row for row in rows if row.before.geometry != row.after.geometry]
    texts = []
    if len(ranks) > 1:
        listed = ", ".join(map(str, ranks[:8])) + (", ..." if len(ranks) > 8 else "")
        texts.append(f"The bars are at different numbers of ranks ({listed}).")
    if len(states) > 1:
        texts.append(f"They compare {len(states)} different pairs of software states.")
    if differ:
        texts.append(f"{plural(len(differ), 'bar')} compare unlike geometries.")
    texts += ["Each bar says its own; do not read them as one number."] if texts else []
    return " ".join(texts)


def scaling(rows: Sequence[Row], expected: float | None, styles: Styles) -> list[Group]:
    """Speed-up after over before against ranks, where a test was measured at several geometries."""
    sized = [
        (row, shape.ranks)
        for row in primary(rows)
        if (shape := parsed(row.after.geometry)) and row.before.geometry == row.after.geometry
    ]
    # Two partitions with as many ranks are two machines: no line goes through both.
    seen = Counter((*_line(row), row.method, ranks) for row, ranks in sized)
    twice = {key[:-2] for key, count in seen.items() if count > 1}
    groups = {}
    for row, ranks in sized:
        key = (*_line(row), row.partition if _line(row) in twice else "")
        line = groups.setdefault(row.check, {}).setdefault(key, {}).setdefault(row.method, {})
        line[ranks] = row
    long = {
        check: {key: curves for key, lines in panels.items() if (curves := _long(lines))}
        for check, panels in groups.items()
    }
    return [
        _scaling_group(check, panels, expected, styles) for check, panels in long.items() if panels
    ]


def _line(row: Row) -> tuple[str, ...]:
    return row.system, row.environ, row.check, row.case, row.layout, row.metric


def _long(lines: dict[str, Points]) -> dict[str, Points]:
    """The lines of more than one point."""
    return {method: points for method, points in lines.items() if len(points) > 1}


def _scaling_group(
    check: str,
    lines_of: dict[tuple[str, ...], dict[str, Points]],
    expected: float | None,
    styles: Styles,
) -> Group:
    panels, cells, methods = [], [], {}
    for (_, _, _, case, layout, metric, partition), lines in lines_of.items():
        names = (case, layout, "" if metric == "time" else metric, partition)
        title = " ".join(filter(None, names))
        curves = []
        for method, points in lines.items():
            methods[method] = styles.method(check, method)
            points = dict(sorted(points.items()))
            curve = {ranks: row.speedup for ranks, row in points.items()}
            curves.append(Curve(methods[method], curve))
            cells += [_scaling_cells(title, row) for row in points.values()]
        marks = [(1.0, "as before")]
        marks += [(expected, "expected")] if finite(expected) and expected > 0 else []
        drawn = partial(curves_svg, curves, "ranks", "speed-up", marks=marks, log="xy")
        describe = f"Speed-up after over before against ranks, {check} {title}; {ends_of(curves)}"
        panels.append(Panel(title or check, describe, drawn))
    head = ["case", "method", "ranks", "geometry", "speed-up", "interval", "against expected"]
    kinds = ["text", "text", "num", "text", "num", "num", "against"]
    return Group(check, panels, cells_table(head, kinds, cells), legend_of(methods))


def _scaling_cells(title: str, row: Row) -> list[str]:
    ratio, low, high = row.speedup
    cells = [title, row.method or NONE, str(parsed(row.after.geometry).ranks), row.after.geometry]
    return [*cells, times(ratio), interval(low, high), row.against or NONE]
