"""Colours and symbols of figures, legends, sparklines."""

import html
import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.markers import MarkerStyle

from bisection.core.format import finite, plain
from bisection.core.identity import TestId

# These two become CSS variables in the page, so that a dark page has light lines.
INK, MUTED, GRID, PAPER = "#1b1f25", "#59626f", "#dce1e8", "#fffffe"
EXPECTED = "#a0468c"  # the line of what a change should give
VARIABLES = {
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    PAPER: "--paper",
    EXPECTED: "--expected",
}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
DASHES = ("-", "--", ":")
HATCHES = ("", "////", "\\\\\\\\", "----", "xxxx", "||||")  # dots would be ten times as long
BLUE, GREY, RED, YELLOW = "#0072b2", "#8a94a3", "#d55e00", "#e69f00"
LAYOUTS = ("mpi", "node", "node2", "domain")


@dataclass(frozen=True)
class Style:
    """How one method or layout looks in every figure."""

    colour: str
    marker: str
    dash: str

    @classmethod
    def number(cls, index: int) -> "Style":
        """The style of the index-th thing: colour and marker turn first, then dashes."""
        return cls(
            COLOURS[index % len(COLOURS)],
            MARKERS[index % len(MARKERS)],
            DASHES[index // len(COLOURS) % len(DASHES)],
        )


class Styles:
    """Styles by check and method, in the order in which they come, and by layout."""

    def __init__(self, cases: Iterable[TestId] = (), rows: Iterable[TestId] = ()) -> None:
        self._methods: dict[str, dict[str, int]] = {}
        for test in (*cases, *rows):
            self.method(test.check, test.method)
        self._layouts = {name: index for index, name in enumerate(LAYOUTS)}

    def method(self, check: str, method: str) -> Style:
        """The style of a method, the same in all figures."""
        known = self._methods.setdefault(check, {})
        return Style.number(known.setdefault(method, len(known)))

    def layout(self, layout: str) -> Style:
        """The style of a layout, the same in all figures."""
        return Style.number(self._layouts.setdefault(layout, len(self._layouts)))


FONT = 11
SETTINGS = {
    "svg.fonttype": "none",
    "svg.hashsalt": "bisection",
    "text.parse_math": False,
    "font.size": FONT,
    "font.family": "DejaVu Sans",
    "hatch.linewidth": 0.8,
    "text.color": INK,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.8,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.6,
}


def legend_of(styles: dict[str, Style], before: str = "") -> list[tuple[str, str]]:
    """(symbol, text) of each name."""
    return [(_symbol(style), f"{before}{name}") for name, style in styles.items() if name]


def _symbol(style: Style) -> str:
    """A piece of line with its marker, as SVG."""
    marker = MarkerStyle(style.marker)
    path = marker.get_path().transformed(marker.get_transform())
    steps = []
    for points, code in path.iter_segments(curves=True):
        letter = {1: "M", 2: "L", 3: "Q", 4: "C", 79: "Z"}[int(code)]
        numbers = [] if letter == "Z" else points
        steps.append(
            letter
            + " ".join(
                f"{16 + 9 * v:.1f}" if k % 2 == 0 else f"{7 - 9 * v:.1f}"
                for k, v in enumerate(numbers)
            )
        )
    colour = _variable(style.colour)
    dash = {"-": "", "--": ' stroke-dasharray="5 3"', ":": ' stroke-dasharray="1.5 2.5"'}[
        style.dash
    ]
    return (
        '<svg class="key" viewBox="0 0 32 14" aria-hidden="true">'
        f'<path d="M1,7H31" style="stroke:{colour}" stroke-width="1.8"{dash}/>'
        f'<path d="{"".join(steps)}" style="fill:{colour};stroke:{colour}"/></svg>'
    )


def swatch(index: int) -> str:
    """A box of a stack, as SVG, with lines like its hatch."""
    colour = COLOURS[index % 6]
    lines = {
        "": "",
        "////": "M4,14L14,0M12,14L22,0M20,14L30,0",
        "xxxx": "M4,14L14,0M12,14L22,0M20,14L30,0M4,0L14,14M12,0L22,14M20,0L30,14",
        "\\\\\\\\": "M4,0L14,14M12,0L22,14M20,0L30,14",
        "----": "M2,4H30M2,10H30",
        "||||": "M6,0V14M13,0V14M20,0V14M27,0V14",
    }
    lines = lines.get(HATCHES[index % len(HATCHES)], "")
    return (
        '<svg class="key" viewBox="0 0 32 14" aria-hidden="true">'
        f'<path d="M2,1H30V13H2Z" style="fill:{colour}"/>'
        f'<path d="{lines}" style="stroke:var(--paper)" stroke-width="1.2"/></svg>'
    )


def _variable(colour: str) -> str:
    return f"var({VARIABLES[colour]})" if colour in VARIABLES else colour


def sparkline(values: Sequence[Any], points: Sequence[int], better: str, label: str) -> str:
    """A metric's history as a small SVG; a tick and a triangle, down for worse, at each new
    level."""
    width, height, top = 240, 46, 12
    known = [(index, value) for index, value in enumerate(values) if finite(value)]
    if not known:
        return ""
    low, high = _span([value for _, value in known])
    across = (width - 12) / max(len(values) - 1, 1)
    up = (height - top - 5) / (high - low) if high > low else 0.0

    def at(index: int, value: float) -> str:
        y = height - 5 - (value - low) * up if up else (height + top) / 2
        return f"{6 + index * across:.1f},{y:.1f}"

    line = "L".join(at(index, value) for index, value in _thinned(known, 100))
    parts = [f'<path class="line" d="M{line}"/>']
    starts = sorted(index for index in points if 0 < index < len(values))
    for index, worse in zip(starts, _worse(values, starts, better), strict=True):
        x = 6 + index * across
        mark = f"M{x - 4:.1f},1h8l-4,7z" if worse else f"M{x - 4:.1f},8h8l-4,-7z"
        kind = "worse" if worse else "better"
        parts.append(f'<path class="tick {kind}" d="M{x:.1f},9V{height}"/>')
        parts.append(f'<path class="mark {kind}" d="{mark}"/>')
    x, y = at(*known[-1]).split(",")
    parts.append(f'<circle class="last" cx="{x}" cy="{y}" r="2.6"/>')
    said = html.escape(plain(label), quote=True)
    return (
        f'<svg class="spark" viewBox="0 0 {width} {height}" role="img" aria-label="{said}">'
        f"<title>{said}</title>{''.join(parts)}</svg>"
    )


def _span(values: Sequence[float]) -> tuple[float, float]:
    """What a line covers from bottom to top: at least a fifth of its median, so that noise of a few
    percent does not look like a step."""
    low, high = min(values), max(values)
    if low <= 0:
        return low, high
    middle = statistics.median(values)
    return min(low, 0.9 * middle), max(high, 1.1 * middle)


def _worse(values: Sequence[Any], starts: Sequence[int], better: str) -> list[bool]:
    """Whether the level that begins at each of `starts` is worse than the one before it."""
    edges = [0, *starts, len(values)]
    levels = []
    for first, last in itertools.pairwise(edges):
        level = [value for value in values[first:last] if finite(value)]
        levels.append(statistics.median(level) if level else 0.0)
    return [(new > old) == (better == "lower") for old, new in itertools.pairwise(levels)]


def _thinned(known: list[tuple[int, float]], bins: int) -> list[tuple[int, float]]:
    """At most two points a bin, its extremes, so that no outlier is lost."""
    if len(known) <= 2 * bins:
        return known
    kept = []
    for step in range(bins):
        part = known[step * len(known) // bins : (step + 1) * len(known) // bins]
        kept += sorted({min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])})
    return kept
