"""The figures of a report: what each shows, as SVG, and the same as a table.

Each function from `speedups` on takes stored results and gives a list of Groups, empty if there is
nothing to show; all drawing is at the end. Nothing here measures, judges or reads a file.
"""

import functools
import html
import io
import itertools
import math
import re
import statistics
import warnings
from dataclasses import dataclass, field

from bisection.comparison import ABOVE, AT, BELOW, UNCLEAR, VERDICTS
from bisection.verdict import duration, number

NONE = "\N{EN DASH}"  # where there is no number

# What a figure shows at most; the rest is counted.
BARS, PANELS, STACKS = 30, 12, 24


@dataclass
class Table:
    """Rows of text under `head`; `kinds` says of each column how it is shown."""

    head: list[str]
    kinds: list[str]  # text | num | verdict | against | code | small
    rows: list[list[str]]
    note: str = ""  # what was left out


@dataclass
class Panel:
    """One drawing. `narrow` is the same for small screens, if it is not the same drawing."""

    title: str
    describe: str  # in words, for those who do not see it
    svg: str
    narrow: str = ""


@dataclass
class Group:
    """Panels that share a legend and, beneath them, a table."""

    title: str
    panels: list[Panel]
    table: Table
    legend: list[tuple[str, str]] = field(default_factory=list)  # (symbol as SVG, what it means)
    note: str = ""


# ---- words and numbers ----


def finite(value):
    """Whether it is a number that can be drawn."""
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def plain(text):
    """Text without what XML and terminals take amiss: control characters, lone surrogates."""
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", str(text))
    return re.sub("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", " ", text)


def short(text, limit=300):
    """Text of at most `limit` characters."""
    text = plain(text)
    return text if len(text) <= limit else text[: limit - 1] + "\N{HORIZONTAL ELLIPSIS}"


def amount(value, unit):
    """A value as a person says it: 118 us, 13%, 7.31 M atom-steps/s."""
    if not finite(value):
        return NONE
    if unit == "s":
        return duration(value) if value > 0 else f"{value:.3g} s"
    if unit == "share":
        return f"{100 * value:.3g}%"
    if unit in ("", "ratio"):
        return number(value)
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= max(factor, 1e4):
            return f"{value / factor:.3g} {prefix}{_gap(unit)}"
    return f"{value:.4g} {unit}"


def _gap(unit):
    """A prefix goes before B/s and flop/s, and stands alone before words."""
    return unit if re.match(r"(B|flops?|it|Hz)(/s)?$", unit) else f" {unit}"


def times(ratio):
    """A ratio as text."""
    return number(ratio) if finite(ratio) else NONE


def interval(low, high):
    """An interval as text, "" if neither end is known."""
    if not finite(low) and not finite(high):
        return ""
    return f"[{times(low)}, {times(high)}]"


@dataclass(frozen=True)
class Shape:
    """A geometry, taken apart."""

    nodes: int
    ranks_per_node: int
    threads: int

    @property
    def ranks(self):
        return self.nodes * self.ranks_per_node

    @property
    def cores(self):
        return self.ranks * self.threads


def shape(geometry):
    """The Shape of "[nodes x] ranks a node x threads a rank"; None if the text is not one."""
    parts = (geometry or "").split("x")
    if len(parts) not in (2, 3) or not all(re.fullmatch("[0-9]{1,7}", part) for part in parts):
        return None
    numbers = [int(part) for part in parts]
    return Shape(*numbers) if len(numbers) == 3 else Shape(1, *numbers)


def spoken(geometry):
    """A geometry in words: 256 ranks x 1 thread, 16 nodes."""
    found = shape(geometry)
    if found is None:
        return geometry or "geometry not known"
    return (
        f"{plural(found.ranks, 'rank')} \N{MULTIPLICATION SIGN} {plural(found.threads, 'thread')}, "
        f"{plural(found.nodes, 'node')}"
    )


def plural(count, word):
    """1 rank, 2 ranks."""
    return f"{count} {word}" if count == 1 else f"{count:,} {word}s"


def before_after(before, after):
    """Both, or one if they are the same, or nothing."""
    if before == after:
        return after
    return f"{before or NONE} \N{RIGHTWARDS ARROW} {after or NONE}"


# ---- colours and symbols: Okabe and Ito's, told apart by shape and dash as well ----

# These two become CSS variables in the page, so that a dark page has light lines.
INK, MUTED, GRID, PAPER = "#1b1f25", "#59626f", "#dce1e8", "#fffffe"
EXPECTED = "#a0468c"  # the line of what a change should give
VARIABLES = {INK: "--ink", MUTED: "--muted", GRID: "--grid", PAPER: "--paper", EXPECTED: "--expected"}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", INK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p")
DASHES = ("-", "--", ":")
HATCHES = ("", "////", "\\\\\\\\", "----", "xxxx", "||||")  # dots would be ten times as long

AGAINST_COLOURS = {ABOVE: "#0072b2", AT: "#8a94a3", BELOW: "#d55e00", UNCLEAR: "#e69f00"}
AGAINST_HATCHES = {ABOVE: "", AT: "", BELOW: "////", UNCLEAR: "xxxx"}
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


# ---- two sides ----


def speedups(rows, expected):
    """Performance after over before, a bar a test, like figure 17 of the HPCx report (2004)."""
    found = primary(rows)
    rank = {verdict: index for index, verdict in enumerate(VERDICTS)}
    found.sort(key=lambda row: (rank.get(row.verdict, 0), row.speedup[0]))
    shown = sorted(found[:BARS], key=lambda row: row.speedup[0])
    if not shown:
        return []
    bars = [_bar(row, expected) for row in shown]
    describe = "; ".join(f"{bar.label}: {bar.value} {bar.words}" for bar in bars)
    drawn = [_svg_bars(bars, expected, narrow) for narrow in (False, True)]
    panel = Panel("Speed-up of each test", describe, *drawn)
    table = _speedup_table(shown, expected)
    if len(found) > len(shown):
        table.note = f"{len(found) - len(shown)} more tests are not drawn; all are listed below."
    return [Group("", [panel], table, note=_mixed(shown))]


def primary(rows):
    """The rows whose ratio is a speed-up: of each test its time, or else its rates."""
    tests = {}
    for row in rows:
        speedup = row.speedup if finite(row.ratio) and row.ratio > 0 else None
        if speedup and (row.metric == "time" or row.unit.endswith("/s")):
            key = row.system, row.partition, row.environ, row.test
            tests.setdefault(key, []).append(row)
    for key, found in tests.items():
        tests[key] = [row for row in found if row.metric == "time"] or found
    return [row for found in tests.values() for row in found]


@dataclass
class _Bar:
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


VERDICT_COLOURS = {
    "regressed": ("#d55e00", "////"),
    "improved": ("#0072b2", ""),
    "unchanged": ("#8a94a3", ""),
}


def _bar(row, expected):
    ratio, low, high = row.speedup
    word = row.against if expected and row.against else row.verdict
    if expected and row.against:
        colour, hatch = AGAINST_COLOURS.get(word, MUTED), AGAINST_HATCHES.get(word, "")
    else:
        colour, hatch = VERDICT_COLOURS.get(word, ("#e69f00", "xxxx"))
    metric = "" if row.metric == "time" else f" {row.metric}"
    control = " (control)" if row.control else ""
    return _Bar(
        label=short(row.test + metric + control, 90),
        place=short(" \N{MIDDLE DOT} ".join(_where(row)), 120),
        value=times(ratio),
        interval=interval(low, high),
        words=word,
        ratio=ratio,
        low=low if finite(low) and low > 0 else None,
        high=high if finite(high) and high > 0 else None,
        colour=colour,
        hatch=hatch,
    )


def _where(row):
    """Geometry and software of a row, each side's if they differ."""
    geometry = before_after(spoken(row.before.geometry), spoken(row.after.geometry))
    software = before_after(row.before.software, row.after.software)
    return [geometry] + ([software] if software else [])


def _speedup_table(rows, expected):
    head = ["test", "where", "geometry", "software", "speed-up", "interval", "verdict"]
    kinds = ["text", "small", "text", "small", "num", "num", "verdict"]
    if expected:
        head += ["against expected", "communicating before", "explained by a faster network"]
        kinds += ["against", "num", "small"]
    cells = []
    for row in rows:
        ratio, low, high = row.speedup
        where = f"{row.system}:{row.partition} {row.environ}"
        software = before_after(row.before.software, row.after.software)
        geometry = before_after(row.before.geometry, row.after.geometry)
        metric = "" if row.metric == "time" else f" {row.metric}"
        cells.append([short(row.test + metric, 120), short(where, 80), short(geometry, 60)])
        cells[-1] += [short(software, 200), times(ratio), interval(low, high), row.verdict]
        if expected:
            share = amount(row.communication, "share")
            cells[-1] += [row.against or NONE, share, short(row.explained, 200) or NONE]
    return Table(head, kinds, cells)


def _mixed(rows):
    """A warning where bars do not compare the same geometry or the same software."""
    ranks = sorted({found.ranks for row in rows if (found := shape(row.after.geometry))})
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


def scaling(rows, expected, styles):
    """Speed-up after over before against ranks, where a test was measured at several geometries."""
    panels = {}
    for row in primary(rows):
        found = shape(row.after.geometry)
        if found is None or row.before.geometry != row.after.geometry:
            continue
        key = row.check, row.case, row.layout, row.system, row.environ, row.metric
        line = panels.setdefault(key, {}).setdefault(row.method, {})
        line.setdefault(found.ranks, []).append(row)
    groups = {}
    for key, lines in panels.items():
        lines = {method: points for method, points in lines.items() if len(points) > 1}
        if lines:
            groups.setdefault(key[0], []).append((key, lines))
    return [_scaling_group(check, found, expected, styles) for check, found in groups.items()]


def _scaling_group(check, found, expected, styles):
    panels, cells, methods = [], [], {}
    for key, lines in found:
        title = " ".join(word for word in (*key[1:3], "" if key[5] == "time" else key[5]) if word)
        curves = []
        for method, points in lines.items():
            methods[method] = styles.method(check, method)
            curve = {ranks: points[ranks][0].speedup for ranks in sorted(points)}
            curves.append(_Curve(methods[method], curve))
            cells += [
                _scaling_cells(title, row) for ranks in sorted(points) for row in points[ranks]
            ]
        if len(panels) < PANELS:
            marks = [(1.0, "as before")] + ([(expected, "expected")] if finite(expected) else [])
            svg = _svg_curves(curves, "ranks", "speed-up", marks, log="xy")
            describe = f"Speed-up after over before against ranks, {check} {title}; {_said(curves)}"
            panels.append(Panel(title or check, describe, svg))
    head = ["case", "method", "ranks", "geometry", "speed-up", "interval", "against expected"]
    kinds = ["text", "text", "num", "text", "num", "num", "against"]
    table = Table(head, kinds, *_cut(cells, 200))
    return Group(check, panels, table, _legend(methods), _not_drawn(found))


def _scaling_cells(title, row):
    ratio, low, high = row.speedup
    cells = [title, row.method or NONE, str(shape(row.after.geometry).ranks), row.after.geometry]
    return [*cells, times(ratio), interval(low, high), row.against or NONE]


def _cut(rows, limit):
    """The first rows, and a sentence about the others."""
    left = len(rows) - limit
    return rows[:limit], f"{left:,} more rows are not listed." if left > 0 else ""


def _not_drawn(found):
    left = len(found) - PANELS
    return f"{plural(left, 'more case')} not drawn." if left > 0 else ""


def _said(curves):
    """Ends of each curve, in words."""
    said = []
    for curve in curves:
        (first, at_first), (last, at_last) = min(curve.points.items()), max(curve.points.items())
        said.append(f"{times(at_first[0])} at {first} to {times(at_last[0])} at {last}")
    return "; ".join(said[:12])


# ---- one session ----


@dataclass
class _Timed:
    """A case of verdict.json with its numbers at hand."""

    system: str
    partition: str
    environ: str
    check: str
    case: str
    layout: str
    method: str
    geometry: str
    shape: Shape
    metrics: dict[str, float]

    @property
    def time(self):
        return self.metrics["time"]


def timed(cases):
    """The cases that were measured, with a time above zero and a geometry."""
    found = []
    for case in cases:
        numbers = {m["name"]: m["value"] for m in case.get("metrics") or [] if finite(m["value"])}
        place = shape(case.get("geometry"))
        measured = case.get("verdict") != "not measured" and numbers.get("time", 0) > 0
        if not case.get("fixture") and place and measured:
            system, _, partition = (case.get("partition") or "").partition(":")
            text = {name: plain(case.get(name) or "") for name in _NAMES}
            geometry = case["geometry"]
            found.append(
                _Timed(system, partition, shape=place, geometry=geometry, metrics=numbers, **text)
            )
    return found


_NAMES = ("environ", "check", "case", "layout", "method")


def _split(found, *names):
    """Cases by the attributes `names`, in order."""
    groups = {}
    for case in found:
        groups.setdefault(tuple(getattr(case, name) for name in names), []).append(case)
    return groups


def _comparable(found):
    """Cases in groups of one environment of one system, in which cores tell geometries apart; of
    one partition if two of a system have as many cores."""
    for cases in _split(found, "system", "environ").values():
        keys = [(c.check, c.case, c.layout, c.method, c.shape.cores) for c in cases]
        if len(set(keys)) == len(keys):
            yield cases
        else:
            yield from _split(cases, "partition").values()


def baseline(cases):
    """The method that others are set against: the one in the name of a ratio, or else the first."""
    methods = dict.fromkeys(case.method for case in cases)
    named = [name[6:] for case in cases for name in case.metrics if name.startswith("ratio_")]
    return next((name for name in named if name in methods), next(iter(methods)))


def crossovers(cases, styles):
    """Methods against each other: speed-up against cores where a case was measured on several
    numbers of cores, as figures 3 to 8 of the GWW report (2010) have it; times elsewhere."""
    groups = []
    for place in _comparable(timed(cases)):
        for (check,), found in _split(place, "check").items():
            if len({case.method for case in found}) > 1:
                groups.append(_crossover_group(check, found, styles))
    return groups


def _crossover_group(check, found, styles):
    base = baseline(found)
    methods = {case.method: styles.method(check, case.method) for case in found}
    panels, layouts, count = [], {}, 0
    for (case,), of_case in _split(found, "case").items():
        several = len({c.shape.cores for c in of_case}) > 1
        parts = _split(of_case, "layout") if several else {("",): of_case}
        for (layout,), part in parts.items():
            count += 1
            if len(panels) == PANELS:
                continue
            title = f"{case} {layout}".strip()
            if several:
                panels.append(_speedup_panel(title, check, part, base, methods))
            else:
                panels.append(_dots_panel(title, check, part, styles))
                layouts.update({c.layout: styles.layout(c.layout) for c in part})
    legend = _legend(layouts, "layout ") if layouts else _legend(methods)
    left = f"{plural(count - len(panels), 'more case')} not drawn." if count > len(panels) else ""
    where = f"{found[0].system}:{found[0].partition}, environment {found[0].environ}"
    return Group(f"{check} on {where}", panels, _pivot(found), legend, left)


def _speedup_panel(title, check, part, base, methods):
    fewest = min(case.shape.cores for case in part)
    first = [case for case in part if case.shape.cores == fewest]
    unit = next((case.time for case in first if case.method == base), first[0].time)
    curves = []
    for (method,), points in _split(part, "method").items():
        points = {case.shape.cores: (unit / case.time, None, None) for case in points}
        curves.append(_Curve(methods[method], dict(sorted(points.items()))))
    svg = _svg_curves(curves, "cores", "speed-up", [], log="xy", ideal=fewest)
    best = {}
    for case in part:
        if case.shape.cores not in best or case.time < best[case.shape.cores].time:
            best[case.shape.cores] = case
    said = ", ".join(f"{best[cores].method} on {cores}" for cores in sorted(best))
    describe = (
        f"Speed-up over {base} on {fewest} cores against cores, {check} {title}. Best: {said}"
    )
    return Panel(title, describe, svg)


def _dots_panel(title, check, part, styles):
    names = list(dict.fromkeys(case.method for case in part))
    dots = [(names.index(c.method), c.time, styles.layout(c.layout)) for c in part]
    best = min(part, key=lambda case: case.time)
    describe = f"Time of each method and layout, {check} {title}. Shortest: {best.method}, "
    describe += f"layout {best.layout}, {duration(best.time)}"
    return Panel(title, describe, _svg_dots(names, dots, "s"))


def _pivot(found):
    """Times: a row a case and geometry, a column a method."""
    methods = list(dict.fromkeys(case.method for case in found))
    cells = []
    for (case, layout, geometry), part in _split(found, "case", "layout", "geometry").items():
        by_method = {c.method: duration(c.time) for c in part}
        cells.append([case, f"{layout} {geometry}", str(part[0].shape.cores)])
        cells[-1] += [by_method.get(method, NONE) for method in methods]
    head = ["case", "layout", "cores", *(method or "time" for method in methods)]
    return Table(head, ["text", "text", *["num"] * (len(head) - 2)], *_cut(cells, 120))


def npar_curves(cases, styles):
    """Time against the number of band groups."""
    groups = []
    for place in _comparable(timed(cases)):
        for (check,), found in _split(place, "check").items():
            points = [(case, int(m[1])) for case in found if (m := _NPAR.fullmatch(case.method))]
            if len({groups_ for _, groups_ in points}) > 1:
                groups.append(_npar_group(check, points, styles))
    return [group for group in groups if group.panels]


_NPAR = re.compile("npar-([1-9][0-9]{0,5})")


def _npar_group(check, points, styles):
    tuned, looks, cells = {}, {}, []
    for case, npar in points:
        tuned.setdefault(case.case, {}).setdefault((case.layout, case.geometry), {})[npar] = (
            case.time
        )
    panels, numbers = [], sorted({npar for _, npar in points})
    for name, lines in tuned.items():
        curves = []
        for (layout, geometry), line in lines.items():
            text = f"{layout} {geometry}"
            best = min(line, key=line.get)
            cells.append([name, text, *(duration(line[n]) if n in line else NONE for n in numbers)])
            cells[-1].append(str(best))
            if len(line) > 1:
                looks.setdefault(text, Style.number(len(looks)))
                curve = {npar: (line[npar], None, None) for npar in sorted(line)}
                curves.append(_Curve(looks[text], curve, best=best))
        if curves and len(panels) < PANELS:
            svg = _svg_curves(curves, "NPAR (band groups)", "time", [], log="x", unit="s")
            describe = f"Time against NPAR, {check} {name}"
            panels.append(Panel(name, describe, svg))
    head = ["case", "layout", *(f"NPAR {n}" for n in numbers), "best"]
    kinds = ["text", "text", *["num"] * (len(numbers) + 1)]
    return Group(check, panels, Table(head, kinds, *_cut(cells, 120)), _legend(looks))


def hybrids(cases, styles):
    """Layouts against each other, each with its fastest method."""
    groups = []
    for place in _comparable(timed(cases)):
        for (check,), found in _split(place, "check").items():
            fastest = {}
            for case in found:
                key = case.case, case.shape.cores, case.layout
                if key not in fastest or case.time < fastest[key].time:
                    fastest[key] = case
            if len({layout for _, _, layout in fastest}) > 1:
                groups.append(_hybrid_group(check, list(fastest.values()), styles))
    return groups


def _hybrid_group(check, found, styles):
    order = {name: index for index, name in enumerate(LAYOUTS)}
    layouts = sorted({c.layout for c in found}, key=lambda name: order.get(name, len(order)))
    looks = {layout: styles.layout(layout) for layout in layouts}
    several = [c for c in _split(found, "case").values() if len({x.shape.cores for x in c}) > 1]
    if several:
        panels = [_hybrid_curves(check, part, layouts, looks) for part in several[:PANELS]]
    else:
        panels = [_hybrid_dots(check, found, layouts, looks)]
    cells = []
    for (case,), part in _split(found, "case").items():
        for cores in sorted({c.shape.cores for c in part}):
            at = {c.layout: c for c in part if c.shape.cores == cores}
            best = min(at.values(), key=lambda c: c.time)
            row = [case, str(cores)]
            row += [_hybrid_cell(at.get(layout)) for layout in layouts]
            cells.append([*row, best.layout])
    head = ["case", "cores", *layouts, "best"]
    kinds = ["text", "num", *["num"] * len(layouts), "text"]
    table = Table(head, kinds, *_cut(cells, 120))
    return Group(check, panels, table, _legend(looks, "layout "), _not_drawn(several))


def _hybrid_cell(case):
    return f"{duration(case.time)} ({case.geometry}, {case.method})" if case else NONE


def _hybrid_curves(check, part, layouts, looks):
    fewest = min(part, key=lambda c: (c.shape.cores, layouts.index(c.layout)))
    curves = []
    for layout in layouts:
        points = {
            c.shape.cores: (fewest.time / c.time, None, None) for c in part if c.layout == layout
        }
        if points:
            curves.append(_Curve(looks[layout], dict(sorted(points.items()))))
    svg = _svg_curves(curves, "cores", "speed-up", [], log="xy", ideal=fewest.shape.cores)
    title = part[0].case
    describe = f"Speed-up of each layout over {fewest.layout} on {fewest.shape.cores} cores, "
    return Panel(title, f"{describe}{check} {title}; {_said(curves)}", svg)


def _hybrid_dots(check, found, layouts, looks):
    """Times over that of the first layout a case has."""
    by_case = _split(found, "case")
    names = [case for (case,) in by_case][:STACKS]
    dots = []
    for index, name in enumerate(names):
        part = by_case[name,]
        unit = min(part, key=lambda c: layouts.index(c.layout)).time
        dots += [(index, case.time / unit, looks[case.layout]) for case in part]
    describe = f"Time of each layout over that of {layouts[0]}, {check}"
    return Panel(f"time over {layouts[0]}'s", describe, _svg_dots(names, dots, "ratio", mark=1))


# What of a step is communication: the profile where there is one, else the phases that communicate.
PROFILE = ("p2p", "collective", "barrier", "onesided", "one-sided")
PHASES = ("exchange", "redistribute", "reduce", "paw-sum", "paw-wait")
WORDS = {"p2p": "point-to-point", "onesided": "one-sided", "paw-sum": "sum of PAW's parts"}


def shares(cases):
    """What part of the time goes into communication, by kind."""
    groups = []
    for place in _comparable(timed(cases)):
        for (check,), found in _split(place, "check").items():
            base = baseline(found)
            parts = _parts(found)
            stacks = {}
            for case in found:
                key = case.case, case.layout, case.geometry
                if key not in stacks or case.method == base:
                    stacks[key] = case
            if parts:
                groups.append(_share_group(check, list(stacks.values()), found, parts))
    return groups


def _parts(found):
    """The names of the shares to stack, in order."""
    known = {name[: -len("_share")] for c in found for name in c.metrics if name.endswith("_share")}
    for names in (PROFILE, PHASES, ("communication",)):
        if parts := [name for name in names if name in known]:
            return parts
    return []


def _share_group(check, stacks, found, parts):
    shown = stacks[:STACKS]
    labels = [f"{case.case} {case.layout} {case.geometry}" for case in shown]
    values = [[case.metrics.get(f"{part}_share", 0.0) for part in parts] for case in shown]
    method = shown[0].method
    total = max(sum(row) for row in values)
    describe = f"Share of the time spent communicating, {check} {method}; at most {total:.0%}"
    panel = Panel(f"{check} {method}".strip(), describe, _svg_stacks(labels, values))
    head = ["case", "layout", "method", *(WORDS.get(part, part) for part in parts), "together"]
    cells = []
    for case in found:
        each = [case.metrics.get(f"{part}_share") for part in parts]
        total = sum(value for value in each if finite(value))
        row = [case.case, f"{case.layout} {case.geometry}", case.method]
        cells.append(row + [amount(value, "share") for value in (*each, total)])
    table = Table(head, ["text", "text", "text", *["num"] * (len(parts) + 1)], *_cut(cells, 120))
    legend = [(_swatch(index), WORDS.get(part, part)) for index, part in enumerate(parts)]
    left = len(stacks) - len(shown)
    note = f"{plural(left, 'more case')} not drawn." if left > 0 else ""
    return Group(check, [panel], table, legend, note)


def sweeps(cases, styles):
    """Time against message size, where a check sweeps it."""
    panels, methods, cells = [], {}, []
    for case in cases:
        if case.get("fixture") or case.get("verdict") == "not measured":
            continue
        points = {}
        for metric in case.get("metrics") or []:
            size = _SIZE.fullmatch(metric["name"])
            if size and finite(metric["value"]) and metric["value"] > 0:
                points[int(size[1]) * _UNITS[size[2]]] = metric["value"]
        if len(points) > 1:
            key = [plain(case.get(name) or "") for name in ("check", "case", "layout", "geometry")]
            cells.append((" ".join(key), plain(case.get("method") or ""), points))
    for title in dict.fromkeys(title for title, _, _ in cells):
        curves = []
        for _, method, points in (cell for cell in cells if cell[0] == title):
            methods[method] = styles.method("sweep", method)
            curve = {size: (points[size], None, None) for size in sorted(points)}
            curves.append(_Curve(methods[method], curve))
        if len(panels) < PANELS:
            svg = _svg_curves(curves, "bytes", "time", [], log="xy", unit="s", sizes=True)
            panels.append(Panel(title, f"Time against message size, {title}", svg))
    if not panels:
        return []
    sizes = sorted({size for _, _, points in cells for size in points})
    rows = [
        [title, method, *(duration(points[size]) if size in points else NONE for size in sizes)]
        for title, method, points in cells
    ]
    head = ["case", "method", *(_size(size) for size in sizes)]
    table = Table(head, ["text", "text", *["num"] * len(sizes)], *_cut(rows, 60))
    return [Group("", panels, table, _legend(methods))]


_SIZE = re.compile("time_([1-9][0-9]*)(B|KiB|MiB|GiB)")
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def _size(size):
    """A number of bytes: 8 B, 64 KiB."""
    for unit in ("GiB", "MiB", "KiB"):
        if size >= _UNITS[unit]:
            return f"{size / _UNITS[unit]:g} {unit}"
    return f"{size:g} B"


# ---- nodes ----

MATRIX = 16  # nodes of which a table shows every pair


def heat_maps(pairs):
    """A map of each matrix of pairs."""
    groups = []
    for found in pairs:
        values = _square(found)
        if not any(finite(value) for row in values for value in row):
            continue
        named = [
            n
            for n in found.nodes
            if any(re.search(rf"\b{re.escape(n)}\b", s) for s in found.suspects)
        ]
        svg = _svg_heat(found, values, named)
        worst = "; ".join(found.suspects) or "no pair is suspected"
        describe = f"{found.unit} between {plural(len(found.nodes), 'node')}, {short(worst)}"
        panel = Panel(short(found.title, 120), describe, svg)
        groups.append(Group("", [panel], _pair_table(found, values)))
    return groups


def _square(found):
    """The values as a full matrix, None where something lacks."""
    size = len(found.nodes)
    rows = [list(row[:size]) + [None] * (size - len(row)) for row in found.values[:size]]
    rows += [[None] * size] * (size - len(rows))
    return [[v if finite(v) else None for v in row] for row in rows]


def better_high(unit):
    """Whether more is better: it is of what is counted by time."""
    return unit.endswith("/s")


def _pair_table(found, values):
    size = len(found.nodes)
    if size <= MATRIX:
        cells = [
            [short(node, 40), *(NONE if v is None else amount(v, found.unit) for v in row)]
            for node, row in zip(found.nodes, values, strict=True)
        ]
        return Table(["from \\ to", *found.nodes], ["text", *["num"] * size], cells)
    listed = [
        (value, found.nodes[i], found.nodes[j])
        for i, row in enumerate(values)
        for j, value in enumerate(row)
        if value is not None and i != j
    ]
    listed.sort(reverse=not better_high(found.unit))
    middle = statistics.median(value for value, _, _ in listed) if listed else 1.0
    cells = [
        [sender, receiver, amount(value, found.unit), times(value / middle) if middle else NONE]
        for value, sender, receiver in listed[:24]
    ]
    note = f"The worst {len(cells)} of {len(listed):,} pairs."
    return Table(
        ["from", "to", found.unit, "over the median"], ["text", "text", "num", "num"], cells, note
    )


# ---- histories ----


def sparkline(values, points, better, label):
    """A metric's history as a small SVG; a tick and a triangle, down for worse, at each new
    level."""
    width, height, top = 240, 46, 12
    known = [(index, value) for index, value in enumerate(values) if finite(value)]
    if not known:
        return ""
    low, high = min(v for _, v in known), max(v for _, v in known)
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
class _Curve:
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
        return f'<svg {wide} xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 {width} {height}">'
    if "base64" in tag:
        return tag
    tag = re.sub(r' id="([^"]*)"', lambda found: found[0] if found[1] in used else "", tag)
    tag = re.sub(r"(\.\d\d)\d+", r"\1", tag)
    tag = re.sub(r' transform="rotate\(-0 [^"]*"', "", tag)
    tag = tag.replace("font-family: 'DejaVu Sans'", "font-family: var(--sans)")
    for colour, name in VARIABLES.items():
        tag = tag.replace(colour, f"var({name})")
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
def _svg_bars(bars, expected, narrow):
    """Bars from 1, which is as before, on a logarithmic axis."""
    width, row = (400, 50) if narrow else (880, 38)
    left, right = (10, 16) if narrow else (320, 170)
    bottom, top = 34, 34 if narrow else 24
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
    axes.set_xlabel("speed-up, after over before (logarithmic)", fontsize=FONT - 0.5)
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
        label, place = short(bar.label, 40), short(bar.place, 58)
        axes.text(0, index - 0.3, label, transform=along, va="center", weight="bold", size=FONT)
        axes.text(1, index - 0.3, values, transform=along, va="center", ha="right", size=FONT)
        axes.text(0, index - 0.04, place, transform=along, va="center", size=FONT - 2, color=MUTED)
        return
    label, place = short(bar.label, 44), short(bar.place, 58)
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
    lines = [(1.0, "as before", INK, "-", 1.1)]
    if finite(expected) and low < expected < high:
        lines.append((expected, f"expected {times(expected)}", EXPECTED, (0, (5, 3)), 1.6))
    if not narrow:
        axes.grid(axis="x", color=GRID, linewidth=0.8)
    for level, text, colour, dash, width in lines:
        for first, last in spans:
            axes.plot([level, level], [first, last], color=colour, linestyle=dash, linewidth=width)
        right = len(lines) == 2 and level == min(line[0] for line in lines)
        look = {"ha": "right" if right else "left", "color": colour, "size": FONT - 1}
        place = (level, 1 + (8 if narrow else 0) / axes.bbox.height)
        shift = (-2 if right else 2, 2)
        axes.annotate(text, place, xycoords=above, xytext=shift, textcoords="offset points", **look)


@_drawn
def _svg_curves(curves, across, up, marks, log="", ideal=None, unit="ratio", sizes=False):
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
    wanted = xs if len(xs) <= 7 else xs[:: -(-len(xs) // 7)]
    _plain_ticks(axes.xaxis, wanted, _size if sizes else "{:g}".format)
    axes.grid(color=GRID, linewidth=0.8)
    axes.set_xlabel(across, labelpad=3)
    figure.text(4 / 330, 1 - 11 / 240, up, size=FONT - 0.5, va="center", color=MUTED)
    return figure


def _draw_curve(axes, curve):
    style, xs = curve.style, list(curve.points)
    ys = [y for y, _, _ in curve.points.values()]
    look = {"color": style.colour, "linestyle": style.dash, "marker": style.marker, "markersize": 6.5}
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
    """Limits and ticks of the y axis, in words that people use."""
    ys = [y for curve in curves for y, _, _ in curve.points.values()] + [
        level for level, _ in marks
    ]
    if ideal:
        ys.append(1.0)
    low, high = min(ys), max(ys)
    if "y" in log:
        low, high = low / 1.12, high * 1.12
        axes.set_ylim(low, high)
        ticks = _ratio_ticks(low, high)
        ticks = ticks if unit == "ratio" else _decades(low, high)
    else:
        axes.set_ylim(0, high * 1.12)
        ticks = [tick for tick in axes.get_yticks() if 0 <= tick <= high * 1.12]
    form = (lambda v: duration(v) if v > 0 else "0") if unit == "s" else "{:g}".format
    _plain_ticks(axes.yaxis, ticks, form)
    if "x" in log and len(xs) > 1:
        axes.set_xlim(xs[0] / (xs[-1] / xs[0]) ** 0.05, xs[-1] * (xs[-1] / xs[0]) ** 0.05)


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
def _svg_dots(names, dots, unit, mark=None):
    """A row for each name, a dot for each (row, value, style)."""
    left = 14 + 6.4 * max(len(short(name, 22)) for name in names)
    figure = _canvas(330, 50 + 21 * len(names))
    axes = _axes(figure, left, 34, 16, 14)
    high = max([value for _, value, _ in dots] + ([mark] if mark else [])) * 1.08
    scale, prefix = _scaled(high, unit)
    styles = list(dict.fromkeys(style for _, _, style in dots))
    for row, value, style in dots:
        y = row + (styles.index(style) - (len(styles) - 1) / 2) * 0.2
        axes.plot(
            [value * scale],
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
    axes.set_xlim(0, high * scale)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_yticks(range(len(names)), labels=[short(name, 22) for name in names])
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color=GRID, linewidth=0.8)
    axes.locator_params(axis="x", nbins=5)
    axes.set_xlabel(prefix, labelpad=2)
    return figure


def _scaled(high, unit):
    """Factor and label that make numbers up to `high` short."""
    if unit != "s":
        return 1.0, "time over that of the first layout" if unit == "ratio" else unit
    for factor, name in ((1, "s"), (1e3, "ms"), (1e6, "us"), (1e9, "ns")):
        if high * factor >= 1:
            return factor, f"time in {name}"
    return 1e9, "time in ns"


@_drawn
def _svg_stacks(labels, values):
    """Shares stacked in a row for each label."""
    left = 14 + 6.2 * max(len(short(label, 30)) for label in labels)
    figure = _canvas(520, 52 + 20 * len(labels))
    axes = _axes(figure, left, 34, 46, 14)
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
                hatch=HATCHES[index % 8],
                edgecolor=PAPER,
                linewidth=0.4,
            )
            start += part
        axes.annotate(
            f"{start:.3g}%",
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
def _svg_heat(found, values, named):
    """A map in cividis; pairs without a value are crossed out."""
    import numpy

    size = len(found.nodes)
    labels = [short(node, 14) + ("*" if node in named else "") for node in found.nodes]
    margin = 16 + 6.2 * max(len(label) for label in labels)
    figure = _canvas(420 + margin, 352 + margin)
    axes = _axes(figure, margin, 12, 100, margin)
    grid = numpy.array([[numpy.nan if v is None else v for v in row] for row in values], float)
    if size <= 40:
        edges = numpy.arange(size + 1) - 0.5
        image = axes.pcolormesh(edges, edges, grid, cmap="cividis", linewidth=0)
    else:
        image = axes.imshow(grid, cmap="cividis", interpolation="nearest", aspect="auto")
    axes.set_ylim(size - 0.5, -0.5)
    axes.set_xlim(-0.5, size - 0.5)
    _heat_cells(axes, values, image)
    step = -(-size // 24)
    shown = sorted({*range(0, size, step), *(found.nodes.index(node) for node in named[:4])})
    axes.xaxis.tick_top()
    axes.set_xticks(shown, labels=[labels[i] for i in shown], rotation=90)
    axes.set_yticks(shown, labels=[labels[i] for i in shown])
    for spine in axes.spines.values():
        spine.set_visible(False)
    _colour_bar(figure, axes, image, found.unit)
    return figure


def _heat_cells(axes, values, image):
    """Numbers in the cells of a small map; a cross where there is none."""
    size = len(values)
    if size > 40:
        return
    for i, row in enumerate(values):
        for j, value in enumerate(row):
            if value is None:
                axes.text(j, i, "\N{MULTIPLICATION SIGN}", ha="center", va="center", color=MUTED)
            elif size <= 8:
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


def _legend(styles, before=""):
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


def _swatch(index):
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
    lines = lines.get(HATCHES[index % 8], "")
    return (
        '<svg class="key" viewBox="0 0 32 14" aria-hidden="true">'
        f'<path d="M2,1H30V13H2Z" style="fill:{colour}"/>'
        f'<path d="{lines}" style="stroke:var(--paper)" stroke-width="1.2"/></svg>'
    )


def _variable(colour):
    return f"var({VARIABLES[colour]})" if colour in VARIABLES else colour
