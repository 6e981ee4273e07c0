"""matplotlib's figures as SVG that a page can hold."""

import functools
import html
import io
import math
import re
import warnings

from bisection.core.format import plain, short
from bisection.report.svg.style import FONT, SETTINGS, VARIABLES


def drawn(function):
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


def canvas(width, height):
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


def new_axes(figure, left, bottom, right, top):
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


def ratio_ticks(low, high):
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


def plain_ticks(axis, ticks, form="{:g}".format):
    from matplotlib.ticker import NullLocator

    axis.set_ticks(ticks, labels=[form(tick) for tick in ticks])
    axis.set_minor_locator(NullLocator())


def decades(low, high):
    """Round numbers of a long logarithmic axis."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for factors in ((1, 2, 5), (1, 3), (1,)):
        ticks = [m * 10.0**e for e in range(first, last + 1) for m in factors]
        ticks = [tick for tick in ticks if low <= tick <= high]
        if len(ticks) <= 8:
            break
    return ticks or [low, high]
