"""matplotlib's figures as SVG that a page can hold: colours and symbols, legends, sparklines."""

from __future__ import annotations

import functools
import html
import io
import itertools
import statistics
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib

from bisection.core.format import finite, plain, short
from bisection.kernels.layouts import ALL_LAYOUTS

if TYPE_CHECKING:  # takes most of a second, which pages without figures spare
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = matplotlib.rc_params_from_file(Path(__file__).with_name("page.mplstyle"))
INK, MUTED, GRID, PAPER = (
    STYLE[name] for name in ("text.color", "axes.edgecolor", "grid.color", "lines.markeredgecolor")
)
EXPECTED = "#a0468c"  # the line of what a change should give
WORSE, BETTER = "#a83a00", "#005a8c"  # where a level begins
FONT = STYLE["font.size"]
COLOURS = tuple(STYLE["axes.prop_cycle"].by_key()["color"])
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
DASHES = ("-", "--", ":")
HATCHES = ("", "////", "\\\\\\\\", "----", "xxxx", "||||")  # dots would be ten times as long
BLUE, GREY, RED, YELLOW = "#0072b2", "#8a94a3", "#d55e00", "#e69f00"
# How matplotlib draws a level that is ideal, and the best point.
IDEAL = {"color": MUTED, "linewidth": 1, "linestyle": (0, (1, 3))}
RING = {"marker": "o", "markerfacecolor": "none", "markeredgecolor": INK, "markersize": 13,
        "markeredgewidth": 1.2, "linestyle": "none"}  # fmt: skip
PREFIX = "\ue000"  # stands before every identifier until the drawing is put into a page
# What of matplotlib's SVG a page has otherwise: colours, so that a dark page has light lines; its
# own font; pixels; identifiers.
IN_PAGE = {
    WORSE: "var(--bad)",
    BETTER: "var(--better)",
    INK: "var(--ink)",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    PAPER: "var(--paper)",
    EXPECTED: "var(--expected)",
    "font-family: 'DejaVu Sans'; ": "",
    'pt"': '"',
    ' id="': f' id="{PREFIX}',
    'href="#': f'href="#{PREFIX}',
    "url(#": f"url(#{PREFIX}",
}


# ---- SVG ----


def drawn(function: Callable[..., Figure]) -> Callable[..., str]:
    """Makes a function that returns a figure of matplotlib return it as SVG."""

    @functools.wraps(function)
    def draw(*arguments: Any, **options: Any) -> str:
        with matplotlib.rc_context(STYLE):
            figure = function(*arguments, **options)
            text = io.StringIO()
            nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # letters that DejaVu lacks: a page has more fonts
                figure.savefig(text, format="svg", metadata=nothing, transparent=True)
        svg = "".join(map(str.strip, text.getvalue().splitlines()))
        svg = svg[svg.index("<svg") :]
        for old, new in IN_PAGE.items():
            svg = svg.replace(old, new)
        return svg

    return draw


def plot(
    width: float, height: float, margins: tuple[float, ...] = (0, 0, 0, 0)
) -> tuple[Figure, Axes]:
    """A figure and its axes, all lengths in units of the view box; margins: left, bottom, right,
    top."""
    from matplotlib.figure import Figure

    left, bottom, right, top = margins
    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    box = (left / width, bottom / height, (width - left - right) / width)
    return figure, figure.add_axes((*box, (height - bottom - top) / height))


def embed(svg: str, prefix: str, title: str = "", describe: str = "") -> str:
    """A drawing for a page, which it describes in words; `prefix` makes its identifiers differ from
    all others. A symbol of a legend stands beside its text, and has no title."""
    svg = svg.replace(PREFIX, f"{prefix}-")
    if not title and not describe:
        return svg.replace("<svg ", '<svg class="key" aria-hidden="true" ', 1)
    named = f'<title id="{prefix}-t">{html.escape(plain(title))}</title>'
    named += f'<desc id="{prefix}-d">{html.escape(short(describe, 1200))}</desc>'
    start = f'<svg role="img" aria-labelledby="{prefix}-t {prefix}-d" '
    return svg.replace("<svg ", start, 1).replace(">", ">" + named, 1)


# ---- styles and legends ----


@dataclass(frozen=True)
class Style:
    """How one method or layout looks in every figure."""

    colour: str
    marker: str
    dash: str

    @classmethod
    def number(cls, index: int) -> Style:
        """The style of the index-th thing: colour and marker turn first, then dashes."""
        return cls(
            COLOURS[index % len(COLOURS)],
            MARKERS[index % len(MARKERS)],
            DASHES[index // len(COLOURS) % len(DASHES)],
        )

    def marked(self, hollow: bool = False) -> dict[str, Any]:
        look = {"color": self.colour, "marker": self.marker, "linestyle": "none"}
        edge = {"markerfacecolor": PAPER, "markeredgecolor": self.colour, "markeredgewidth": 1.6}
        return look | (edge if hollow else {})


def numbered(names: Iterable[str]) -> dict[str, Style]:
    return {name: Style.number(index) for index, name in enumerate(dict.fromkeys(names))}


def of_layouts(layouts: Iterable[str]) -> dict[str, Style]:
    names = sorted(set(layouts), key=layout_rank)
    return {name: Style.number(layout_rank(name)[0]) for name in names}


def layout_rank(layout: str) -> tuple[int, str]:
    """Sorts layouts: those of ours in their order, then others by name."""
    return [*ALL_LAYOUTS, layout].index(layout), layout


Legend = list[tuple[str, str]]  # (symbol as SVG, what it means)


def legend_of(styles: Mapping[str, Style], before: str = "", lines: bool = True) -> Legend:
    """The legend of methods or layouts, `before` each name, with lines through the markers if the
    figures have `lines`."""
    return [
        (symbol(**style.marked() | ({"linestyle": style.dash} if lines else {})), before + name)
        for name, style in styles.items()
        if name
    ]


def _key() -> tuple[Figure, Axes]:
    figure, axes = plot(32, 14)
    axes.set(xlim=(0, 32), ylim=(0, 14))
    axes.set_axis_off()
    return figure, axes


@functools.cache
@drawn
def symbol(**look: Any) -> Figure:
    """A piece of line with its marker as SVG; arguments as of matplotlib's plot."""
    figure, axes = _key()
    axes.plot([1, 16, 31], [7, 7, 7], markevery=[1], **look)
    return figure


@functools.cache
@drawn
def swatch(index: int) -> Figure:
    figure, axes = _key()
    axes.barh(7, 28, 12, left=2, **filled(index))
    return figure


def filled(index: int) -> dict[str, Any]:
    return {"color": COLOURS[index % 6], "hatch": HATCHES[index % 6], "edgecolor": PAPER}


# ---- sparklines ----


@drawn
def sparkline(values: Sequence[Any], points: Sequence[int], better: str) -> Figure:
    """A metric's history as a small figure; what is no number is left out. `points` are indices
    where a new level begins: each gets a tick and a triangle, down for worse. `better`: lower |
    higher."""
    figure, axes = plot(240, 46, (6, 3, 6, 9))
    axes.set_axis_off()
    known = {index: value for index, value in enumerate(values) if finite(value)}
    # At least a fifth of the median from bottom to top: noise of a few percent is no step.
    middle = statistics.median(known.values())
    around = (0.9 * middle, 1.1 * middle) if min(known.values()) > 0 else ()
    axes.plot(*zip(*known.items(), strict=True), color=MUTED, linewidth=1.3)
    axes.plot(*[*known.items()][-1], "o", color=INK, markersize=5)
    axes.update_datalim([(0, y) for y in around])
    axes.autoscale_view()
    axes.set_xlim(-0.5, len(values) - 0.5)
    starts = sorted(index for index in points if 0 < index < len(values))
    levels = [
        statistics.median([known[k] for k in range(*ends) if k in known] or [0.0])
        for ends in itertools.pairwise([0, *starts, len(values)])
    ]
    for start, (old, new) in zip(starts, itertools.pairwise(levels), strict=True):
        worse = (new > old) == (better == "lower")
        colour, marker = (WORSE, "v") if worse else (BETTER, "^")
        axes.axvline(start, color=colour, linewidth=1.2, linestyle=(0, (3, 2)))
        above = axes.get_xaxis_transform()
        axes.plot([start], [1.05], marker, color=colour, transform=above, clip_on=False)
    return figure
