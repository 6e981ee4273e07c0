"""matplotlib's figures as SVG that a page can hold."""

import functools
import html
import io
import math
import re
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from bisection.core.format import plain, short
from bisection.report.svg.style import FONT, SETTINGS, VARIABLES

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
ET.register_namespace("", SVG)
ET.register_namespace("xlink", XLINK)
PREFIX = "\ue000"  # stands before every identifier until the drawing is put into a page
# What every text has by the page's style sheet.
TEXT_STYLE = {"font-size": f"{FONT}px", "font-family": "'DejaVu Sans'", "fill": "var(--ink)"}


def drawn(function: Callable[..., Figure]) -> Callable[..., str]:
    """Makes a function that returns a figure of matplotlib return it as SVG."""

    @functools.wraps(function)
    def draw(*arguments: Any, **options: Any) -> str:
        with matplotlib.rc_context({**matplotlib.rcParamsDefault, **SETTINGS}):
            figure = function(*arguments, **options)
            text = io.StringIO()
            nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # letters that DejaVu lacks: a page has more fonts
                figure.savefig(text, format="svg", metadata=nothing, transparent=True)
        return _clean(text.getvalue())

    return draw


def canvas(width: float, height: float) -> Figure:
    """A figure of so many units of its view box."""
    return Figure(figsize=(width / 72, height / 72), dpi=72)


def _clean(text: str) -> str:
    """matplotlib's file as an element of the size of its place, in the page's font and colours,
    without what nobody refers to."""
    root = ET.fromstring(text)
    used = set(re.findall(r"#([\w.-]+)", text))
    for parent in root.iter():
        for child in list(parent):
            if child.tag in (f"{{{SVG}}}metadata", f"{{{SVG}}}style"):
                parent.remove(child)
    for element in root.iter():
        element.text = element.text if (element.text or "").strip() else None
        element.tail = None
        _clean_attributes(element, used)
    for child in list(root):
        if child.tag == f"{{{SVG}}}defs" and len(child) == 0:
            root.remove(child)
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


def embed(svg: str, prefix: str, title: str, describe: str) -> str:
    """The SVG with a title, a description and identifiers that no other in the page has."""
    named = f'<title id="{prefix}-t">{html.escape(plain(title))}</title>'
    named += f'<desc id="{prefix}-d">{html.escape(short(describe, 1200))}</desc>'
    start = f'<svg role="img" aria-labelledby="{prefix}-t {prefix}-d" '
    svg = svg.replace(PREFIX, f"{prefix}-")
    return svg.replace("<svg ", start, 1).replace(">", ">" + named, 1)


def new_axes(figure: Figure, left: float, bottom: float, right: float, top: float) -> Axes:
    """Axes with margins in units of the view box, without a frame."""
    width, height = figure.get_size_inches() * 72
    box = (left / width, bottom / height, (width - left - right) / width)
    axes = figure.add_axes((*box, (height - bottom - top) / height))
    axes.patch.set_alpha(0)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.tick_params(length=3, width=0.8, pad=3)
    axes.set_axisbelow(True)
    return axes


def ratio_ticks(low: float, high: float) -> list[float]:
    """At most seven round numbers between two ratios, 1 among them."""
    choices = [[round(1 + k * step, 4) for k in range(-40, 41)] for step in (0.01, 0.02, 0.05, 0.1)]
    choices.append([0.3, 0.4, 0.5, 0.6, 0.8, 1, 1.25, 1.5, 2, 2.5, 3])
    choices.append([0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 4, 5, 7, 10])
    choices.append([m * 10.0**e for e in range(-6, 7) for m in (1, 2, 5)])
    choices += [[10.0**e for e in range(-12, 13, step)] for step in (1, 2, 4)]
    for choice in choices:
        found = [tick for tick in choice if low <= tick <= high and tick > 0]
        if len(found) <= 7 and (choice[0] <= low or choice[0] < 0.02) and choice[-1] >= high:
            return found
    return [1.0]


def plain_ticks(
    axis: Axis, ticks: Sequence[float], form: Callable[[float], str] = "{:g}".format
) -> None:
    """Puts ticks on an axis at these numbers only."""
    axis.set_ticks(ticks, labels=[form(tick) for tick in ticks])
    axis.set_minor_locator(NullLocator())


def decades(low: float, high: float) -> list[float]:
    """Round numbers of a long logarithmic axis."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [m * 10.0**e for e in range(first, last + 1) for m in factors]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= 8:
            break
    return ticks or [low, high]
