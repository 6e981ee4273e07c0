"""How the figures of a report look: colours and symbols, and all drawing, to SVG."""

import functools
import html
import io
import itertools
import math
import re
import statistics
import warnings
from dataclasses import dataclass

from bisection.texts import finite, plain, scaled, short, size_of, times
from bisection.verdict import duration

# ---- colours and symbols: Okabe and Ito's, told apart by shape and dash as well ----

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
    def number(cls, index):
        return cls(
            COLOURS[index % len(COLOURS)],
            MARKERS[index % len(MARKERS)],
            DASHES[index // len(COLOURS) % len(DASHES)],
        )


class Styles:
    """Styles by check and method, in the order in which they come, and by layout."""

    def __init__(self, cases=(), rows=()):
        self._methods = {}
        for case in cases:
            self.method(case.get("check"), case.get("method"))
        for row in rows:
            self.method(row.check, row.method)
        self._layouts = {name: index for index, name in enumerate(LAYOUTS)}

    def method(self, check, method):
        known = self._methods.setdefault(check, {})
        return Style.number(known.setdefault(method, len(known)))

    def layout(self, layout):
        return Style.number(self._layouts.setdefault(layout, len(self._layouts)))


# ---- histories ----


def sparkline(values, points, better, label):
    """A metric's history as a small SVG; a tick and a triangle, down for worse, at each new
    level."""
    width, height, top = 240, 46, 12
    known = [(index, value) for index, value in enumerate(values) if finite(value)]
    if not known:
        return ""
    low, high = _span([value for _, value in known])
    across = (width - 12) / max(len(values) - 1, 1)
    up = (height - top - 5) / (high - low) if high > low else 0.0

    def at(index, value):
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


def _span(values):
    """What a line covers from bottom to top: at least a fifth of its median, so that noise of a few
    percent does not look like a step."""
    low, high = min(values), max(values)
    if low <= 0:
        return low, high
    middle = statistics.median(values)
    return min(low, 0.9 * middle), max(high, 1.1 * middle)


def _worse(values, starts, better):
    """Whether the level that begins at each of `starts` is worse than the one before it."""
    edges = [0, *starts, len(values)]
    levels = []
    for first, last in itertools.pairwise(edges):
        level = [value for value in values[first:last] if finite(value)]
        levels.append(statistics.median(level) if level else 0.0)
    return [(new > old) == (better == "lower") for old, new in itertools.pairwise(levels)]


def _thinned(known, bins):
    """At most two points a bin, its extremes, so that no outlier is lost."""
    if len(known) <= 2 * bins:
        return known
    kept = []
    for step in range(bins):
        part = known[step * len(known) // bins : (step + 1) * len(known) // bins]
        kept += sorted({min(part, key=lambda p: p[1]), max(part, key=lambda p: p[1])})
    return kept


# ---- drawing ----

FONT = 11


@dataclass
class Bar:
    label: str
    place: str  # geometry and software
    value: str
    interval: str
    words: str  # above | at | below | unclear, or the verdict
    ratio: float
    low: float | None
    high: float | None
    colour: str
    hatch: str


@dataclass
class Curve:
    """(x -> (y, low, high)) and how it looks; `best` is an x to ring."""

    style: Style
    points: dict
    best: float | None = None


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


def _drawn(function):
    """Makes a function that returns a figure of matplotlib return it as SVG."""

    @functools.wraps(function)
    def draw(*arguments, **options):
        import matplotlib

        with matplotlib.rc_context({**matplotlib.rcParamsDefault, **SETTINGS}):
            figure = function(*arguments, **options)
            text = io.StringIO()
            nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # letters that DejaVu lacks: a page has more fonts
                figure.savefig(text, format="svg", metadata=nothing, transparent=True)
        return _clean(text.getvalue())

    return draw


def _canvas(width, height):
    """A figure of so many units of its view box."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width / 72, height / 72), dpi=72)


def _clean(svg):
    """The element itself, of the size of its place, in the page's font and colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", svg, count=1, flags=re.S)
    svg = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>", "", svg, flags=re.S)
    used = set(re.findall(r"#([\w.-]+)", svg))
    svg = re.sub(r"<[^>]*>", lambda tag: _clean_tag(tag[0], used), svg)
    return re.sub(r">\s*\n\s*<", "><", svg)


def _clean_tag(tag, used):
    if tag.startswith("<svg"):
        _, _, width, height = re.search(r'viewBox="([^"]*)"', tag)[1].split()
        wide = f'style="max-width:{1.15 * float(width):.0f}px"'
        link = 'xmlns:xlink="http://www.w3.org/1999/xlink"'
        return f'<svg {wide} {link} viewBox="0 0 {width} {height}">'
    if "base64" in tag:
        return tag
    tag = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", tag)
    tag = re.sub(r"(\.\d\d)\d+", r"\1", tag)
    tag = re.sub(r' transform="rotate\(-0 [^"]*"', "", tag)
    tag = tag.replace("font-family: 'DejaVu Sans'", "font-family: var(--sans)")
    for colour, name in VARIABLES.items():
        tag = tag.replace(colour, f"var({name})")
    if tag.startswith("<text"):  # as the page's style sheet has it
        tag = re.sub(
            rf"font-size: {FONT}px; |font-family: var\(--sans\); ?|; fill: var\(--ink\)", "", tag
        )
    tag = re.sub(r'style="[^"]*"', lambda style: re.sub("([:;]) ", r"\1", style[0]), tag)
    return re.sub(r"\s*\n\s*", " ", tag)


def embed(svg, prefix, title, describe):
    """The SVG with a title, a description and identifiers that no other in the page has."""
    svg = re.sub(r' id="([^"]*)"', rf' id="{prefix}-\1"', svg)
    svg = re.sub(r'href="#([^"]*)"', rf'href="#{prefix}-\1"', svg)
    svg = re.sub(r"url\(#([^)]*)\)", rf"url(#{prefix}-\1)", svg)
    named = f'<title id="{prefix}-t">{html.escape(plain(title))}</title>'
    named += f'<desc id="{prefix}-d">{html.escape(short(describe, 1200))}</desc>'
    start = f'<svg role="img" aria-labelledby="{prefix}-t {prefix}-d" '
    return svg.replace("<svg ", start, 1).replace(">", ">" + named, 1)


def _axes(figure, left, bottom, right, top):
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


def _ratio_ticks(low, high):
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


@_drawn
def bars_svg(bars, expected, narrow):
    """Bars from 1, which is as before, on a logarithmic axis."""
    width, row = (350, 50) if narrow else (880, 38)
    left, right = (4, 10) if narrow else (330, 170)
    bottom, top = 34, 24
    height = bottom + top + row * len(bars)
    figure = _canvas(width, height)
    axes = _axes(figure, left, bottom, right, top)
    _bar_scale(axes, bars, expected)
    axes.set_ylim(len(bars) - 0.5, -0.5)
    for index, bar in enumerate(bars):
        y = index + (0.24 if narrow else 0)
        axes.barh(
            y,
            bar.ratio - 1,
            0.3 if narrow else 0.46,
            left=1,
            color=bar.colour,
            hatch=bar.hatch,
            edgecolor=PAPER,
            linewidth=0,
        )
        if bar.low is not None and bar.high is not None:
            axes.plot(
                [bar.low, bar.high], [y, y], color=INK, linewidth=1.2, marker="|", markersize=7
            )
        _bar_label(axes, index, bar, narrow)
    _verticals(axes, expected, len(bars), narrow)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel("speed-up: 1 is as before (logarithmic)", fontsize=FONT - 0.5)
    return figure


def _bar_scale(axes, bars, expected):
    ratios = [bar.ratio for bar in bars] + [1.0] + ([expected] if finite(expected) else [])
    ends = [end for bar in bars for end in (bar.low, bar.high) if end is not None]
    low = max(min(ratios + ends), min(ratios) / 1.6) / 1.04
    high = min(max(ratios + ends), max(ratios) * 1.6) * 1.04
    low, high = min(low, 0.92), max(high, 1.09)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    _plain_ticks(axes.xaxis, _ratio_ticks(low, high))


def _plain_ticks(axis, ticks, form="{:g}".format):
    from matplotlib.ticker import NullLocator

    axis.set_ticks(ticks, labels=[form(tick) for tick in ticks])
    axis.set_minor_locator(NullLocator())


def _bar_label(axes, index, bar, narrow):
    values = f"{bar.value}  {bar.words}"
    along = axes.get_yaxis_transform()
    if narrow:
        label, place = short(bar.label, 34), short(bar.place, 56)
        axes.text(0, index - 0.3, label, transform=along, va="center", weight="bold", size=FONT)
        axes.text(1, index - 0.3, values, transform=along, va="center", ha="right", size=FONT)
        axes.text(0, index - 0.04, place, transform=along, va="center", size=FONT - 2, color=MUTED)
        return
    label, place = short(bar.label, 44), short(bar.place, 60)
    gap = 12 / (axes.bbox.width)
    axes.text(-gap, index - 0.17, label, transform=along, va="center", ha="right", weight="bold")
    axes.text(
        -gap,
        index + 0.21,
        place,
        transform=along,
        va="center",
        ha="right",
        size=FONT - 2,
        color=MUTED,
    )
    axes.text(1 + gap, index - 0.17, values, transform=along, va="center", weight="bold")
    axes.text(
        1 + gap,
        index + 0.21,
        bar.interval,
        transform=along,
        va="center",
        size=FONT - 2,
        color=MUTED,
    )


def _verticals(axes, expected, count, narrow):
    """Lines at no change and at what was expected; not through the labels of a narrow figure."""
    above, (low, high) = axes.get_xaxis_transform(), axes.get_xlim()
    spans = [(i + 0.05, i + 0.43) for i in range(count)] if narrow else [(-0.5, count - 0.5)]
    lines = [(1.0, "" if narrow else "as before", INK, "-", 1.1)]
    if finite(expected) and low < expected < high:
        lines.append((expected, f"expected {times(expected)}", EXPECTED, (0, (5, 3)), 1.6))
    if not narrow:
        axes.grid(axis="x", color=GRID, linewidth=0.8)
    for level, text, colour, dash, width in lines:
        for first, last in spans:
            axes.plot([level, level], [first, last], color=colour, linestyle=dash, linewidth=width)
        right = len(lines) == 2 and level == min(line[0] for line in lines)
        look = {"ha": "right" if right else "left", "color": colour, "size": FONT - 1}
        shift = (-2 if right else 2, 3)
        axes.annotate(
            text, (level, 1), xycoords=above, xytext=shift, textcoords="offset points", **look
        )


@_drawn
def curves_svg(curves, across, up, marks, log="", ideal=None, unit="ratio", sizes=False):
    """Lines with markers; `log` names the logarithmic axes, `ideal` draws y = x / ideal."""
    figure = _canvas(330, 240)
    axes = _axes(figure, 46, 38, 12, 22)
    xs = sorted({x for curve in curves for x in curve.points})
    if "x" in log:
        axes.set_xscale("log", base=2)
    if "y" in log:
        axes.set_yscale("log", base=2 if unit == "ratio" else 10)
    if ideal:
        axes.plot(
            [xs[0], xs[-1]],
            [x / ideal for x in (xs[0], xs[-1])],
            color=MUTED,
            linewidth=1,
            linestyle=(0, (1, 3)),
        )
    for curve in curves:
        _draw_curve(axes, curve)
    for level, text in marks:
        _horizontal(axes, level, text, xs)
    _curve_scale(axes, curves, marks, log, unit, ideal, xs)
    most = 5 if sizes and len(xs) > 7 else 7
    wanted = xs if len(xs) <= most else xs[:: -(-len(xs) // most)]
    _plain_ticks(axes.xaxis, wanted, size_of if sizes else "{:g}".format)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_xlabel(across, labelpad=3)
    figure.text(4 / 330, 1 - 11 / 240, up, size=FONT - 0.5, va="center", color=MUTED)
    return figure


def _draw_curve(axes, curve):
    style, xs = curve.style, list(curve.points)
    ys = [y for y, _, _ in curve.points.values()]
    look = {
        "color": style.colour,
        "linestyle": style.dash,
        "marker": style.marker,
        "markersize": 6.5,
    }
    axes.plot(xs, ys, **look, markeredgecolor=PAPER, markeredgewidth=0.5)
    for x, (_, low, high) in curve.points.items():
        if finite(low) and finite(high):
            axes.plot(
                [x, x], [low, high], color=style.colour, linewidth=1, marker="_", markersize=5
            )
    if curve.best is not None:
        ring = {"markerfacecolor": "none", "markeredgecolor": INK, "markersize": 13}
        axes.plot([curve.best], [curve.points[curve.best][0]], "o", **ring)


def _horizontal(axes, level, text, xs):
    dash = "-" if text == "as before" else (0, (5, 3))
    colour = INK if text == "as before" else EXPECTED
    axes.axhline(level, color=colour, linewidth=1.1, linestyle=dash)
    label = text if text == "as before" else f"{text} {times(level)}"
    axes.annotate(
        label,
        (1, level),
        xycoords=axes.get_yaxis_transform(),
        xytext=(0, 3),
        size=FONT - 2,
        textcoords="offset points",
        ha="right",
        va="bottom",
        color=colour,
    )


def _curve_scale(axes, curves, marks, log, unit, ideal, xs):
    """Limits and ticks of both axes."""
    ys = [y for curve in curves for y, _, _ in curve.points.values()]
    ys += [level for level, _ in marks] + ([1.0] if ideal else [])
    low, high = min(ys), max(ys)
    if "y" in log:
        low, high = low / 1.12, high * 1.12
        axes.set_ylim(low, high)
        ticks = _ratio_ticks(low, high) if unit == "ratio" else _decades(low, high)
        _plain_ticks(axes.yaxis, ticks, duration if unit == "s" else "{:g}".format)
    else:
        axes.set_ylim(0, high * 1.12)
        axes.locator_params(axis="y", nbins=6)
    if "x" in log and len(xs) > 1:
        reach = (xs[-1] / xs[0]) ** 0.06
        axes.set_xlim(xs[0] / reach, xs[-1] * reach)


def _decades(low, high):
    """Round numbers of a long logarithmic axis."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [m * 10.0**e for e in range(first, last + 1) for m in factors]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= 8:
            break
    return ticks or [low, high]


@_drawn
def dots_svg(names, dots, along, mark=None):
    """A row for each name, a dot for each (row, value, style)."""
    left = 14 + 6.4 * max(len(short(name, 22)) for name in names)
    figure = _canvas(330, 40 + 21 * len(names))
    axes = _axes(figure, left, 34, 16, 6)
    high = max([value for _, value, _ in dots] + ([mark] if mark else [])) * 1.08
    styles = list(dict.fromkeys(style for _, _, style in dots))
    for row, value, style in dots:
        y = row + (styles.index(style) - (len(styles) - 1) / 2) * 0.2
        axes.plot(
            [value],
            [y],
            style.marker,
            color=style.colour,
            markersize=7.5,
            markeredgecolor=PAPER,
            markeredgewidth=0.6,
        )
    for row in range(1, len(names)):
        axes.axhline(row - 0.5, color=GRID, linewidth=0.8)
    if mark:
        axes.axvline(mark, color=INK, linewidth=1)
    axes.set_xlim(0, high)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), labels=[short(name, 22) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel(along, labelpad=2)
    return figure


@_drawn
def stacks_svg(labels, values):
    """Shares stacked in a row for each label."""
    left = 14 + 6.2 * max(len(short(label, 30)) for label in labels)
    figure = _canvas(440, 40 + 20 * len(labels))
    axes = _axes(figure, left, 34, 46, 6)
    for row, parts in enumerate(values):
        start = 0.0
        for index, part in enumerate(parts):
            part = 100 * part if finite(part) and part > 0 else 0.0
            axes.barh(
                row,
                part,
                0.66,
                left=start,
                color=COLOURS[index % 6],
                hatch=HATCHES[index % len(HATCHES)],
                edgecolor=PAPER,
                linewidth=0.4,
            )
            start += part
        axes.annotate(
            f"{start:.2g}%" if start < 10 else f"{start:.0f}%",
            (start, row),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            size=FONT - 1,
        )
    most = max(sum(p for p in parts if finite(p)) for parts in values)
    axes.set_xlim(0, max(1.0, min(100.0, 100 * most * 1.05)))
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.set_yticks(range(len(labels)), labels=[short(label, 30) for label in labels])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.set_xlabel("share of the time, in percent", labelpad=2)
    return figure


@_drawn
def heat_svg(found, values, named):
    """A map in cividis; pairs without a value are crossed out."""
    import numpy

    size = len(found.nodes)
    labels = [short(node, 14) + (" *" if node in named else "") for node in found.nodes]
    margin = 16 + 6.2 * max(len(label) for label in labels)
    figure = _canvas(390 + margin, 330 + margin)
    axes = _axes(figure, margin, 12, 76, margin)
    factor, unit = scaled(max(v for row in values for v in row if v is not None), found.unit)
    values = [[None if v is None else v * factor for v in row] for row in values]
    grid = numpy.array([[numpy.nan if v is None else v for v in row] for row in values], float)
    if size <= 40:
        edges = numpy.arange(size + 1) - 0.5
        image = axes.pcolormesh(edges, edges, grid, cmap="cividis", linewidth=0)
    else:
        image = axes.imshow(grid, cmap="cividis", interpolation="nearest", aspect="auto")
    axes.set_ylim(size - 0.5, -0.5)
    axes.set_xlim(-0.5, size - 0.5)
    _heat_cells(axes, values, image)
    shown = _labelled(size, [found.nodes.index(node) for node in named[:4]])
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.set_xticks(shown, labels=[labels[i] for i in shown], rotation=90)
    axes.set_yticks(shown, labels=[labels[i] for i in shown])
    for spine in axes.spines.values():
        spine.set_visible(False)
    _colour_bar(figure, axes, image, unit)
    return figure


def _labelled(size, always):
    """Which of many labels to write: about 24, and those of `always` with room around them."""
    step = -(-size // 24)
    free = [i for i in range(0, size, step) if all(abs(i - k) >= step for k in always)]
    return sorted({*free, *always})


def _heat_cells(axes, values, image):
    """Numbers in the cells of a small map; a cross where there is none."""
    size = len(values)
    if size > 40:
        return
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            if value is None and i != j:
                axes.text(j, i, "\N{MULTIPLICATION SIGN}", ha="center", va="center", color=MUTED)
            elif value is not None and size <= 10:
                dark = image.norm(value) < 0.55
                colour = "#ffffff" if dark else "#111111"
                text = f"{value:.3g}"
                axes.text(j, i, text, ha="center", va="center", color=colour, size=FONT - 1)


def _colour_bar(figure, axes, image, unit):
    box = axes.get_position()
    width = figure.get_size_inches()[0] * 72
    bar = figure.add_axes((box.x1 + 14 / width, box.y0, 12 / width, box.height))
    figure.colorbar(image, cax=bar)
    bar.set_title(short(unit, 10), size=FONT - 1, loc="left", pad=6)
    bar.tick_params(length=3, labelsize=FONT - 1)


# ---- legends ----


def legend_of(styles, before=""):
    """(symbol, text) of each name."""
    return [(_symbol(style), f"{before}{name}") for name, style in styles.items() if name]


def _symbol(style):
    """A piece of line with its marker, as SVG."""
    from matplotlib.markers import MarkerStyle

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


def swatch(index):
    """A box of a stack, as SVG, with lines like its hatch."""
    colour = COLOURS[index % 6]
    lines = {
        "": "",
        "////": "M4,14L14,0M12,14L22,0M20,14L30,0",
        "....": "M6,4h2M14,4h2M22,4h2M6,10h2M14,10h2M22,10h2",
        "xxxx": "M4,14L14,0M12,14L22,0M20,14L30,0M4,0L14,14M12,0L22,14M20,0L30,14",
        "\\\\\\\\": "M4,0L14,14M12,0L22,14M20,0L30,14",
        "----": "M2,4H30M2,10H30",
    }
    lines = lines.get(HATCHES[index % len(HATCHES)], "")
    return (
        '<svg class="key" viewBox="0 0 32 14" aria-hidden="true">'
        f'<path d="M2,1H30V13H2Z" style="fill:{colour}"/>'
        f'<path d="{lines}" style="stroke:var(--paper)" stroke-width="1.2"/></svg>'
    )


def _variable(colour):
    return f"var({VARIABLES[colour]})" if colour in VARIABLES else colour
