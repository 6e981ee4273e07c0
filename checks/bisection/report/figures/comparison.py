"""The figure of two sides: speed-ups."""

import math
from collections.abc import Sequence
from functools import partial

from bisection.analysis.model import Row
from bisection.core.format import before_after, finite, plural, short, times
from bisection.core.identity import parsed
from bisection.core.verdicts import COMPARED, Against, Verdict
from bisection.report.figures.common import Group, Panel
from bisection.report.svg.plots import Bar, bars_svg
from bisection.report.svg.style import BLUE, GREY, RED, YELLOW
from bisection.report.tables import rows_table

BARS = 30  # that a figure shows at most; the rest is counted
TIME, RATE, SWEEP = 1, 2, 3
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


def speedups(rows: Sequence[Row], expected: float | None) -> list[Group]:
    """Performance after over before, a bar a test, like figure 17 of the HPCx report (2004)."""
    candidates = primary(rows)
    if not candidates:
        return []
    candidates.sort(key=lambda row: (COMPARED.index(row.verdict), row.speedup[0]))
    shown = sorted(candidates[:BARS], key=lambda row: row.speedup[0])
    bars = [_bar(row, expected) for row in shown]
    describe = "; ".join(f"{bar.label}: {times(bar.ratio)} {bar.words}" for bar in bars)
    panel = Panel("Speed-up of each test", describe, partial(bars_svg, bars, expected))
    left = len(candidates) - len(shown)
    notes = [f"{left} more tests are not drawn; all are listed below."] if left else []
    notes += ["A black line is the confidence interval."] if any(bar.low for bar in bars) else []
    if expected:
        notes.append(
            "The dashed line is what the change alone should give, such as the ratio of clocks: a "
            "bar beyond it gained from something else as well, one short of it lost on the way."
        )
    return [Group("", [panel], rows_table(shown), note=" ".join(notes))]


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


def nearness(row: Row) -> int:
    """How near a metric is to what one asks of a test; 0 if it is no speed."""
    if row.metric == "time":
        return TIME
    if row.unit.endswith("/s"):
        return RATE
    return SWEEP if row.base == "time" else 0


def _bar(row: Row, expected: float | None) -> Bar:
    ratio, low, high = row.speedup
    word = row.against if expected and row.against else row.verdict
    geometry = before_after(_brief(row.before.geometry), _brief(row.after.geometry))
    software = before_after(row.before.software, row.after.software)
    return Bar(
        short(row.label + (" (control)" if row.control else ""), 90),
        short(" \N{MIDDLE DOT} ".join(filter(None, (geometry, software))), 120),
        word,
        ratio,
        low if finite(low) and low > 0 else None,
        high if finite(high) and high > 0 else None,
        *LOOKS.get(word, UNSURE),
    )


def _brief(geometry: str) -> str:
    """Ranks x threads, and nodes."""
    shape = parsed(geometry)
    if shape is None:
        return geometry or "geometry not known"
    size = f"{shape.ranks} \N{MULTIPLICATION SIGN} {shape.threads}"
    return f"{size}, {plural(shape.nodes, 'node')}"
