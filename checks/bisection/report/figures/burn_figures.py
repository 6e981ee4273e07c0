"""Figures of burn-in: the rate and the sensors of the worst node over time."""

import contextlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from bisection.core.format import amount, finite
from bisection.kernels import results
from bisection.report.figures.common import FigureGroup, Panel, pivot
from bisection.report.svg import style
from bisection.report.svg.plots import Curve, curves_svg
from bisection.report.svg.style import legend_of
from bisection.runs.folder import kept_file, kept_launches
from bisection.runs.run_verdict import RunVerdict

POINTS, NODES = 40, 8  # of a curve; of a method in the table, the worst first
# Columns of a curve that are drawn, over their beginning.
DRAWN = {"rate": "rate", "clock": "clock"}
# Columns of the table, where a node has them: head -> key, unit; None: that of the method's rates.
COLUMNS = {
    "rate at first": ("first", None),
    "rate at last": ("last", None),
    "fastest pass": ("best", None),
    "clock at first": ("clock_first", "GHz"),
    "clock at last": ("clock_last", "GHz"),
    "hottest": ("temperature", "degC"),
    "energy of a pass": ("joules", "J"),
    "corrected errors": ("corrected_errors", ""),
    "throttling events": ("throttled", ""),
}


def curves(run: RunVerdict | None) -> Iterator[FigureGroup]:
    """A group for each launch of burn whose result was kept."""
    for case in kept_launches(run, "burn") if run else ():
        with contextlib.suppress(results.ResultError):
            result = results.load(kept_file(case, "json"), "burn")
            yield _group(f"{case.system}:{case.partition}", result["details"].get("burn") or {})


def _group(title: str, methods: Mapping[str, Any]) -> FigureGroup:
    looks = style.numbered(DRAWN.values())
    panels, cells = [], []
    for method, burnt in methods.items():
        nodes = sorted(burnt["nodes"], key=_kept)
        host = burnt["curve"]["host"]
        drawn = [
            Curve(looks[name], points)
            for key, name in DRAWN.items()
            if (points := _relative(burnt["curve"]["busy"], burnt["curve"].get(key)))
        ]
        if drawn:
            draw = partial(curves_svg, drawn, "seconds under load", "part of the beginning")
            describe = f"Rate and clock of {host} by {method} over time; "
            describe += f"the rate at last is {_kept(nodes[0]):.0%} of the first"
            panels.append(Panel(f"{method} on {host}", describe, draw))
        for node in nodes[:NODES]:
            key = (method, node["host"])
            cells.append((key, "kept", f"{_kept(node):.0%}" if "last" in node else ""))
            for head, (name, unit) in COLUMNS.items():
                if name in node:
                    unit = burnt["unit"] if unit is None else unit
                    text = amount(node[name], unit) if unit else f"{node[name]:.0f}"
                    cells.append((key, head, text))
    return FigureGroup(title, panels, pivot(["method", "node"], cells), legend_of(looks))


def _kept(node: Mapping[str, Any]) -> float:
    """The rate at last over the rate at first; 1 where the launch was too short to tell."""
    return node["last"] / node["first"] if "last" in node and "first" in node else 1.0


def _relative(at: Sequence[float], values: Sequence[float | None] | None) -> dict[float, float]:
    """Medians of neighbouring points, over the first of them: seconds -> part."""
    size = -(-len(at) // POINTS)
    points: dict[float, float] = {}
    for start in range(0, len(at), size):
        known = [v for v in (values or [])[start : start + size] if finite(v)]
        if known:
            points[round(at[start])] = statistics.median(known)
    first = next(iter(points.values()), 0)
    return {time: value / first for time, value in points.items()} if first else {}
