"""The figures of the four papers, drawn again: published numbers beside simulated ones.

Most figures have no printed values: they show the simulation alone, and the note says what the
paper states of them.
"""

import csv
import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path

from bisection.advice import sources
from bisection.core.format import NONE, number, utc
from bisection.kernels import tables
from bisection.kernels.layouts import LAYOUTS
from bisection.report.figures.common import FigureGroup, Panel, draw, ends_of
from bisection.report.opening import Opening
from bisection.report.page import FIGURES, page_template
from bisection.report.sections import Section
from bisection.report.svg.plots import Bar, Curve, bars_svg, curves_svg
from bisection.report.svg.style import BLUE, GREY, RING, Legend, Style, legend_of, symbol
from bisection.report.text_tables import TextTable, cells_table
from papers import observables
from papers.observables import Lookup, Point, Unmeasured
from workshop.papers.judging import Judged, Part
from workshop.papers.text import totals

PURPOSE = (
    "Four papers are what this suite's kernels come from. The machines are simulated by SimGrid: "
    "nothing on this page was measured on them. Hollow marks are numbers that a paper prints."
)
DASHED, MPI = "--", "mpi"
GWW = {
    3: ("hector-xt4", "cnt40"),
    4: ("hector-xt4", "cnt80"),
    5: ("hector-xt4", "silicon"),
    6: ("hector-xt6", "cnt40"),
    7: ("hector-xt6", "cnt80"),
    8: ("hector-xt6", "silicon"),
}
# Figures 2 to 11 of Chorley and Walker: what is drawn, its tests, clusters, metric and unit.
BOTH = ("merlin", "stella")
DLPOLY = {
    "2": ("speed-up", 10, BOTH, "", ""),
    "3": ("speed-up", 20, BOTH, "", ""),
    "4, per rank": ("bytes per rank and step", 20, ("merlin",), "bytes_per_rank", "B"),
    "4, in all": ("bytes per step", 20, ("merlin",), "bytes", "B"),
    "5": ("communication per step", 30, BOTH, "mpi_seconds", "s"),
    "6": ("communication, share", 10, BOTH, "mpi_share", ""),
    "7": ("barriers per step", 10, BOTH, "barrier_seconds", "s"),
    "8": ("collectives per step", 20, BOTH, "collective_seconds", "s"),
    "9": ("point-to-point per step", 30, BOTH, "p2p_seconds", "s"),
    "10": ("two-body loop per step", 30, BOTH, "two_body_forces_seconds", "s"),
    "11": ("metal_ld_compute per step", 30, BOTH, "metal_ld_compute_seconds", "s"),
}
STYLE = "dlpoly3"  # the method that communicates as DL_POLY does
UPGRADE = "/ hpcx_phase2_sp7."  # in expressions of what Phase2 gains over Phase1
CLOCKS = 1.31  # of Phase2 over Phase1: 1.7 and 1.3 GHz (table 1)


def page(lookup: Lookup, rows: Sequence[Judged]) -> str:
    """The page.

    Args:
        lookup: simulated results.
        rows: the findings with their verdicts, for the notes.
    """
    notes = _Notes(rows)
    parts = {
        "gww": ("FFT transposes on the Cray XT4 and XT6 (Bethune 2010)", _gww(lookup, notes)),
        "npar": ("NPAR of VASP on the Cray XT4 (Catlow et al. 2010)", _npar(lookup, notes)),
        "dlpoly": ("Hybrid DL_POLY on Merlin and Stella (Chorley, Walker 2010)",
                   _dlpoly(lookup, notes)),
        "hpcx": ("HPCx, Phase2 over Phase1 (Ashworth et al. 2004)", _hpcx(lookup, rows)),
    }  # fmt: skip
    room, sections = FIGURES, []
    for name, (title, groups) in parts.items():
        drawn, room = draw(groups, room)
        sections.append(Section(name, title, groups=drawn))
    counts = list(totals(rows))
    return page_template("published.html.jinja", Path(__file__).parent).render(
        title="The papers' figures, simulated",
        about="",
        purpose=PURPOSE,
        opening=Opening("uncertain", counts[0], counts[1:]),
        tiles=[],
        sections=[section for section in sections if section.shown],
        expected=None,
        limits=[],
        made=utc(time.time(), seconds_too=True),
    )


class _Notes:
    """Statements of a paper on a figure, with the verdict of the simulation."""

    def __init__(self, rows: Sequence[Judged]) -> None:
        self._rows = rows

    def of(self, wanted: Callable[[Part], bool]) -> str:
        """A sentence per finding that has a part of this kind."""
        texts = [
            f"{row.finding.id} ({row.verdict}): {row.finding.finding}."
            for row in self._rows
            if any(map(wanted, row.parts))
        ]
        return " ".join(texts)


def _curve(lookup: Lookup, point: Point, metric: str, cores: Iterable[int], style: Style) -> Curve:
    """A metric over cores, where it was simulated."""
    points = {}
    for count in sorted(cores):
        try:
            key = Point(point.machine, point.kernel, point.case, point.layout, count, point.method)
            points[float(count)] = lookup(key, metric)
        except Unmeasured:
            continue
    return Curve(style, points)


def _inverse(curve: Curve, unit: float) -> Curve:
    """Speed-up over a time."""
    points = {x: unit / y for x, y in curve.points.items()}
    best = max(points, key=points.__getitem__, default=None)
    return Curve(curve.style, points, best)


def _table(across: str, curves: dict[str, Curve]) -> TextTable:
    """A row per x, a column per curve."""
    xs = sorted({x for curve in curves.values() for x in curve.points})
    cells = (
        [f"{x:g}", *(number(c.points[x]) if x in c.points else NONE for c in curves.values())]
        for x in xs
    )
    return cells_table([across, *curves], ["num"] * (len(curves) + 1), cells)


def _counts(machine: str, kernel: str, case: str) -> dict[tuple[str, str], set[int]]:
    """(layout, method) -> cores that are simulated."""
    cores_of: dict[tuple[str, str], set[int]] = {}
    for (of, name, layout, cores), wanted in observables.points(machine).items():
        if (of, name) == (kernel, case):
            for method in wanted.methods:
                cores_of.setdefault((layout, method), set()).add(cores)
    return cores_of


# ---- GWW, figures 3 to 8 ----


def _is_of(machine: str, case: str, part: Part) -> bool:
    return (part.observable.machine, part.observable.case) == (machine, case)


def _gww(lookup: Lookup, notes: _Notes) -> list[FigureGroup]:
    groups = []
    for figure, (machine, case) in GWW.items():
        counts = _counts(machine, "transpose", case)
        cores = set().union(*counts.values())
        curves: dict[str, Curve] = {}
        for index, method in enumerate(tables.methods("transpose")):  # a style each, everywhere
            point = Point(machine, "transpose", case, MPI, 0, method)
            curve = _curve(lookup, point, "time", cores, Style.number(index))
            curves |= {method: curve} if curve.points else {}
        if "alltoallv" not in curves:
            continue
        fewest, unit = min(curves["alltoallv"].points.items())
        ups = {name: _inverse(curve, unit) for name, curve in curves.items()}
        up = f"speed-up over alltoallv on {fewest:g} core{'s' if fewest > 1 else ''}"
        plot = partial(curves_svg, list(ups.values()), "cores", up, log="xy")
        says = notes.of(partial(_is_of, machine, case))
        legend = legend_of({name: curve.style for name, curve in ups.items()})
        legend.append((symbol(**RING), "the fastest number of cores"))
        title = f"Figure {figure}: {case} on {machine}"
        panel = Panel("", f"{title}; {ends_of(list(ups.values()))}", plot)
        says = f"The paper prints no values of this figure. {says}"
        groups.append(FigureGroup(title, [panel], _table("cores", ups), legend, says))
    return groups


# ---- VASP, appendix B ----


def _npar(lookup: Lookup, notes: _Notes) -> list[FigureGroup]:
    machine, case = "hector-xt4", "bench1"
    panels: list[Panel] = []
    columns: dict[str, Curve] = {}
    looks = {"published": Style(GREY, "o", DASHED), "simulated": Style(BLUE, "s", "-")}
    for cores, times in sources.npar_times(1).items():
        published = {float(npar): t / min(times.values()) for npar, t in sorted(times.items())}
        values = {}
        for npar in times:
            try:
                point = Point(machine, "npar", case, MPI, cores, f"npar-{npar}")
                values[float(npar)] = lookup(point, "time")
            except Unmeasured:
                continue
        if len(values) < 2:
            continue
        # the same choice is the unit of both
        unit = min(values, key=published.__getitem__)
        ours = {n: t / values[unit] for n, t in sorted(values.items())}
        theirs = {n: y / published[unit] for n, y in published.items()}
        curves = [
            Curve(looks["published"], theirs, hollow=True),
            Curve(looks["simulated"], ours),
        ]
        up = f"time over that of NPAR {unit:g}"
        plot = partial(curves_svg, curves, "NPAR", up, log="x")
        panels.append(Panel(f"{cores} cores", f"{cores} cores; {ends_of(curves)}", plot))
        columns |= {f"{cores} cores, published": curves[0], f"{cores} cores, simulated": curves[1]}
    if not panels:
        return []
    says = notes.of(lambda part: part.observable.kernel == "npar" and "npar_" in
                    part.observable.expression)  # fmt: skip
    title = "Appendix B: benchmark 1"
    return [FigureGroup(title, panels, _table("NPAR", columns), _both(looks), says)]


def _both(looks: dict[str, Style]) -> Legend:
    """The legend of published and simulated curves; published ones are hollow."""
    legend = []
    for name, style in looks.items():
        look = style.marked(name.endswith("published")) | {"linestyle": style.dash}
        legend.append((symbol(**look), name))
    return legend


# ---- DL_POLY, figures 2 to 11 ----

# Layouts of checks, by their names in the table of Chorley and Walker (2010).
MODELS = {
    "pure_mpi": "mpi",
    "hybrid_1mpi_per_node": "node",
    "hybrid_2mpi_per_node": "node2",
}


def md_times(cluster: str, test: int) -> dict[int, dict[str, float]]:
    """Table 1 of Chorley and Walker (2010): cores -> layout -> seconds; more cores than one, where
    layouts differ."""
    times = sources.published(
        "dlpoly_times.csv", "model", MODELS.__getitem__, cluster=cluster, test=test
    )
    return {cores: row for cores, row in times.items() if cores > 1}


def _is_of_test(test: int, metric: str, part: Part) -> bool:
    words = part.observable.expression
    plain = "." not in words.replace(f".{STYLE}", "")
    return part.observable.case == f"test{test}" and (f".{metric}[" in words if metric else plain)


def _dlpoly(lookup: Lookup, notes: _Notes) -> list[FigureGroup]:
    groups = []
    for figure, (up, test, clusters, metric, unit) in DLPOLY.items():
        panels: list[Panel] = []
        columns: dict[str, Curve] = {}
        looks: dict[str, Style] = {}
        for cluster in clusters:
            curves = _layouts(lookup, cluster, test, metric or "time")
            if not any(curve.points for curve in curves.values()):
                continue
            text, log = up, "xy" if metric != "mpi_share" else "x"
            if not metric:
                curves = _speedups(curves, md_times(cluster, test))
                text = "speed-up over one rank per core"
            drawn = {name: curve for name, curve in curves.items() if curve.points}
            positive = all(y > 0 for c in drawn.values() for y in c.points.values())
            log = log if positive else "x"
            options = {"log": log, "unit": unit}
            plot = partial(curves_svg, list(drawn.values()), "cores", text, **options)
            words = f"{text} on {cluster}; {ends_of(list(drawn.values()))}"
            panels.append(Panel(cluster.title(), words, plot))
            columns |= {f"{cluster}, {name}": curve for name, curve in drawn.items()}
            looks |= {name: curve.style for name, curve in drawn.items()}
        if panels:
            title = f"Figure {figure}: {up}, test {test}"
            legend = _both(looks)
            says = notes.of(partial(_is_of_test, test, metric))
            groups.append(FigureGroup(title, panels, _table("cores", columns), legend, says))
    return groups


def _layouts(lookup: Lookup, cluster: str, test: int, metric: str) -> dict[str, Curve]:
    case = f"test{test}"
    cores = set().union(set(), *_counts(cluster, "md", case).values())
    return {
        layout: _curve(lookup, Point(cluster, "md", case, layout, 0, STYLE), metric, cores,
                       Style.number(index))
        for index, layout in enumerate(LAYOUTS)
    }  # fmt: skip


def _speedups(curves: dict[str, Curve], published: dict[int, dict[str, float]]) -> dict[str, Curve]:
    """Over one rank per core on the fewest cores that were simulated; the papers' likewise."""
    shared = [int(x) for x in curves[MPI].points if int(x) in published]
    if not shared:
        return {}
    first = min(shared)
    ours, theirs = curves[MPI].points[first], published[first][MPI]
    result = {name: _inverse(curve, ours) for name, curve in curves.items()}
    for name, curve in curves.items():
        points = {
            float(cores): theirs / times[name]
            for cores, times in sorted(published.items())
            if name in times and cores >= first
        }
        look = Style(curve.style.colour, curve.style.marker, DASHED)
        result[f"{name}, published"] = Curve(look, points, hollow=True)
    for curve in result.values():
        curve.best = None
    return result


# ---- HPCx, figure 17 ----


def _upgrade() -> list[tuple[str, str, int, float]]:
    """All ratios in the text of HPCxTR0417: (code, data, processors, speed-up of the new system,
    after SP7 where that is known)."""
    after, before = "phase2_sp7_over_phase1", "phase2_over_phase1"
    with open(sources.LITERATURE / "hpcx_ratios.csv", newline="") as file:
        return [
            (row["code"], row["data"], int(row["processors"]), float(row[after] or row[before]))
            for row in csv.DictReader(file)
        ]


def _hpcx(lookup: Lookup, rows: Sequence[Judged]) -> list[FigureGroup]:
    bars = [
        Bar(f"{code} {data}".strip(), f"published, {cores} processors", "", ratio, None, None,
            GREY, "")
        for code, data, cores, ratio in _upgrade()
    ]  # fmt: skip
    for row in rows:
        for part in row.parts:
            quantity = part.observable
            upgrade = quantity.machine == "hpcx-phase1" and UPGRADE in quantity.expression
            if upgrade and quantity.kernel != "patterns" and part.value:
                name = f"our {quantity.kernel} {quantity.case}"
                place = f"simulated, {max(point.cores for point in quantity.points)} processors"
                bars.append(Bar(name, place, "", part.value, None, None, BLUE, ""))
    bars.sort(key=lambda bar: -bar.ratio)
    cells = [[bar.label, bar.place, number(bar.ratio)] for bar in bars]
    table = cells_table(
        ["code", "", "Phase1 time over Phase2 time"], ["text", "text", "num"], cells
    )
    words = "; ".join(f"{bar.label} ({bar.place}) {bar.ratio:.2f}" for bar in bars)
    panel = Panel("", words, partial(bars_svg, bars, CLOCKS))
    title = "Figure 17: what codes gained; the line is the ratio of clocks"
    hollow = {"marker": "s", "linestyle": "none"}
    legend = [(symbol(color=GREY, **hollow), "published, by the text of the paper"),
              (symbol(color=BLUE, **hollow), "our kernels, simulated")]  # fmt: skip
    return [FigureGroup(title, [panel], table, legend)]
