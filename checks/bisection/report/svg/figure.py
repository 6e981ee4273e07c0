"""matplotlib's figures as SVG that a page can hold."""

from __future__ import annotations

import functools
import html
import io
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib

from bisection.core.format import plain, short

if TYPE_CHECKING:  # takes most of a second, which pages without figures spare
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

STYLE = matplotlib.rc_params_from_file(Path(__file__).with_name("page.mplstyle"))
# These become CSS variables in the page, so that a dark page has light lines.
INK, MUTED, GRID, PAPER = (
    STYLE[name] for name in ("text.color", "axes.edgecolor", "grid.color", "lines.markeredgecolor")
)
EXPECTED = "#a0468c"  # the line of what a change should give
WORSE, BETTER = "#a83a00", "#005a8c"  # where a level begins
VARIABLES = {
    WORSE: "--bad",
    BETTER: "--better",
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--grid",
    PAPER: "--paper",
    EXPECTED: "--expected",
}
FONT = STYLE["font.size"]
SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
ET.register_namespace("", SVG)
ET.register_namespace("xlink", XLINK)
PREFIX = "\ue000"  # stands before every identifier until the drawing is put into a page
# What every text has by the page's style sheet.
TEXT_STYLE = {"font-size": f"{FONT:g}px", "font-family": "'DejaVu Sans'", "fill": "var(--ink)"}


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
        return _clean(text.getvalue())

    return draw


def plot(
    width: float,
    height: float,
    left: float = 0,
    bottom: float = 0,
    right: float = 0,
    top: float = 0,
) -> tuple[Figure, Axes]:
    """A figure and its axes, all lengths in units of the view box."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
    box = (left / width, bottom / height, (width - left - right) / width)
    return figure, figure.add_axes((*box, (height - bottom - top) / height))


def _clean(text: str) -> str:
    """matplotlib's file as an element of the size of its place, in the page's font and colours,
    without identifiers that nothing refers to."""
    root = ET.fromstring(text)
    used = set(re.findall(r"#([\w.-]+)", text))
    for parent in list(root.iter()):
        for child in list(parent):
            empty = child.tag == f"{{{SVG}}}defs" and len(child) == 0
            if empty or child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        element.text = element.text if (element.text or "").strip() else None
        element.tail = None
        _clean_attributes(element, used)
    _, _, width, height = root.attrib["viewBox"].split()
    root.attrib.clear()
    root.set("style", f"max-width:{1.15 * float(width):.0f}px")
    root.set("viewBox", f"0 0 {width} {height}")
    return ET.tostring(root, encoding="unicode")


def _clean_attributes(element: ET.Element, used: set[str]) -> None:
    if element.get("id") not in used:
        element.attrib.pop("id", None)
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]
    for name, value in element.attrib.items():
        if value.startswith("data:"):
            continue
        value = re.sub(r"(\.\d\d)\d+", r"\1", " ".join(value.split()))
        if name == "id":
            value = f"{PREFIX}{value}"
        elif name.endswith("href"):
            value = value.replace("#", f"#{PREFIX}", 1)
        value = value.replace("url(#", f"url(#{PREFIX}")
        for colour, variable in VARIABLES.items():
            value = value.replace(colour, f"var({variable})")
        element.set(name, value)
    if style := element.get("style"):
        rules = dict(part.split(":", 1) for part in style.split(";") if ":" in part)
        rules = {name.strip(): value.strip() for name, value in rules.items()}
        if element.tag == f"{{{SVG}}}text":
            rules = {n: value for n, value in rules.items() if TEXT_STYLE.get(n) != value}
        element.set("style", ";".join(f"{name}:{value}" for name, value in rules.items()))


def embed(svg: str, prefix: str, title: str = "", describe: str = "") -> str:
    """A drawing for a page.

    Args:
        svg: the drawing.
        prefix: makes its identifiers differ from all others in the page.
        title: its name; "" for a symbol of a legend, which stands beside its text.
        describe: what it shows, in words.
    """
    svg = svg.replace(PREFIX, f"{prefix}-")
    if not title and not describe:
        return svg.replace("<svg ", '<svg class="key" aria-hidden="true" ', 1)
    named = f'<title id="{prefix}-t">{html.escape(plain(title))}</title>'
    named += f'<desc id="{prefix}-d">{html.escape(short(describe, 1200))}</desc>'
    start = f'<svg role="img" aria-labelledby="{prefix}-t {prefix}-d" '
    return svg.replace("<svg ", start, 1).replace(">", ">" + named, 1)


def log_ticks(low: float, high: float) -> list[float]:
    """At most eight round numbers of a logarithmic axis from `low` to `high`."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    if high < 3 * low:
        locators = [MaxNLocator(6, steps=(1, 2, 5, 10))]
    else:
        locators = [LogLocator(subs=subs, numticks=8) for subs in ((1, 2, 5), (1, 3), (1,))]
    for locator in locators:
        ticks = [tick for tick in locator.tick_values(low, high) if low <= tick <= high]
        if 1 < len(ticks) <= 8:
            break
    return ticks
