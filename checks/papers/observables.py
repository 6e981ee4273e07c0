"""Findings of the four papers, as expressions of the results of our kernels.

reference/literature/findings.csv has a row per finding; observables.csv has the numbers, signs and
orders that a finding consists of, each as an expression:

    alltoallv[48] / alltoallv[24]           times of a method on so many cores
    node.dlpoly3.bytes[64]                  another metric; a layout, if it is not mpi
    hpcx_phase1.shm[64] / hpcx_phase2.shm[64]    another machine or case than the row's
    peak(alltoallv, 6, 12, 24, 48)          of these cores those of the least time
    fastest(32, npar_2, npar_4, npar_8)     the number that ends the name of the fastest method
    crossover(mpi.dlpoly3, node.dlpoly3, 64, 128, 256)   the fewest cores from which on another
                                            than the first is the fastest; 0 if it never is

Words have _ where names of methods, cases and machines have -.
"""

import csv
import functools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from types import CodeType
from typing import Any

from bisection.core import paths
from bisection.core.thresholds import LIMITS
from bisection.kernels import results, tables
from bisection.kernels.layouts import LAYOUTS
from bisection.kernels.results import Entry, Metric, Result
from papers.launches import LaunchKey, Wanted

LITERATURE = paths.ROOT / "reference" / "literature"
# What figures draw: of each launch of a kernel these methods.
DRAWN = {"transpose": ("alltoallv", "padded", "shm", "gather-scatter")}
SECONDS = "_seconds"  # ends the name of a share of the time that is meant in seconds


@dataclass(frozen=True)
class Point:
    """A method in a launch on a simulated machine."""

    machine: str
    kernel: str
    case: str
    layout: str
    cores: int  # ranks times threads
    method: str

    @property
    def launch(self) -> LaunchKey:
        """Returns what methods that run in one launch have in common."""
        return self.machine, self.kernel, self.case, self.layout, self.cores


class Unmeasured(LookupError):
    """There is no result of a point; or it lacks the metric."""

    def __init__(self, point: Point, metric: str) -> None:
        super().__init__(f"{point}: {metric}")
        self.point, self.metric = point, metric


Lookup = Callable[[Point, str], float]  # a metric of a point; raises Unmeasured


# ---- what was published ----


class Kind(str, Enum):
    """Ways to compare an observable with its published value."""

    RATIO = "ratio"  # within LIMITS.published of it
    NUMBER = "number"  # likewise, and counted; but the finding is of signs and orders
    COUNT = "count"  # equal to it
    SIGN = "sign"  # on its side of a number: <1, >1
    RANGE = "range"  # within it: 1.65..2.88


@dataclass(frozen=True)
class Observable:
    """A number, sign or order of a finding."""

    finding: str  # ID
    machine: str
    kernel: str
    case: str
    expression: str
    published: str
    kind: Kind

    @property
    def number(self) -> float | None:
        """The published number; None of a sign or a range."""
        return None if self.kind in (Kind.SIGN, Kind.RANGE) else float(self.published)

    @property
    def bounds(self) -> tuple[float, float]:
        """Returns what a value must be between; of a sign it must not be the number itself."""
        if self.kind == Kind.SIGN:
            level = float(self.published[1:])
            return (0.0, level) if self.published[0] == "<" else (level, math.inf)
        if self.kind == Kind.RANGE:
            low, high = map(float, self.published.split(".."))
            return low, high
        margin = 0.0 if self.kind == Kind.COUNT else LIMITS.published
        value = float(self.published)
        return value * (1 - margin), value * (1 + margin)

    def holds(self, value: float) -> bool:
        """True if a value agrees with what was published."""
        low, high = self.bounds
        if self.kind == Kind.SIGN:
            return value < high if self.published[0] == "<" else value > low
        return low <= value <= high

    def value(self, lookup: Lookup) -> float:
        """The value of the expression; NaN, which no published value agrees with, if it divides by
        zero.

        Raises:
            ValueError: it is no such expression.
            Unmeasured: a launch is missing.
        """
        curve = _Curve(lookup, Point(self.machine, self.kernel, self.case, "mpi", 0, ""))
        try:
            value = eval(_compiled(self.expression), {}, _Names(curve))
        except ZeroDivisionError:
            return math.nan
        except (SyntaxError, TypeError):
            value = None
        if not isinstance(value, int | float):
            raise ValueError(f"{self.finding}: {self.expression}: not an expression of launches")
        return value

    @property
    def metrics(self) -> frozenset[tuple[Point, str]]:
        """Returns the metrics of points to measure."""
        needed = set()

        def note(point: Point, metric: str) -> float:
            needed.add((point, metric))
            return float(len(needed))  # a difference is not zero

        self.value(note)
        return frozenset(needed)

    @property
    def points(self) -> frozenset[Point]:
        """Returns the launches that are needed."""
        return frozenset(point for point, _ in self.metrics)


@dataclass(frozen=True)
class Finding:
    """A row of findings.csv."""

    id: str
    paper: str
    source: str  # section, table or figure
    finding: str
    by: str  # what asserts it: simulated, test, typed; or missing
    where: str  # file and name of the test; what is missing
    lacking: str  # why a simulation does not show it; "" if it does
    change: str  # of workshop findings --change, by which it does; "" if none is known
    observables: tuple[Observable, ...]


@functools.cache
def findings() -> tuple[Finding, ...]:
    """All findings, in the order of the papers.

    Raises:
        OSError, ValueError, KeyError: a table cannot be read.
    """
    parts: dict[str, list[Observable]] = {}
    for row in _rows("observables.csv"):
        kind = Kind(row.pop("kind"))
        parts.setdefault(row["finding"], []).append(Observable(kind=kind, **row))
    changes = {row["finding"]: row["change"] for row in _rows("changes.csv")}
    listed = [
        Finding(
            **row,
            change=changes.pop(row["id"], ""),
            observables=tuple(parts.pop(row["id"], ())),
        )
        for row in _rows("findings.csv")
    ]
    for file, rest in (("observables.csv", parts), ("changes.csv", changes)):
        if rest:
            raise ValueError(f"{file}: no finding {', '.join(rest)}")
    return tuple(listed)


def _rows(name: str) -> list[dict[str, str]]:
    with open(LITERATURE / name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@functools.cache
def machines() -> list[str]:
    """The simulated machines that observables are of."""
    return sorted({row["machine"] for row in _rows("observables.csv")})


def points(machine: str) -> dict[tuple[str, str, str, int], Wanted]:
    """Returns what a session launches on a machine, by (kernel, case, layout, cores)."""
    return {
        launch[1:]: wanted for launch, wanted in needed(findings()).items() if launch[0] == machine
    }


def needed(rows: Iterable[Finding]) -> dict[LaunchKey, Wanted]:
    """Returns what findings are made of, and what figures draw beside it, by launch: a session and
    `workshop findings --simulate` launch the same. The first method of a launch begins on ranks
    that are in step, and takes up to 7% less: on any number of cores it is the same one."""
    launches: dict[LaunchKey, Wanted] = {}
    for part in (part for row in rows for part in row.observables):
        for point, metric in part.metrics:
            drawn = set(DRAWN.get(point.kernel, ()))
            wanted = launches.setdefault(point.launch, Wanted(drawn, set()))
            wanted.methods.add(point.method)
            wanted.metrics.add(metric)
    return {launch: launches[launch] for launch in sorted(launches)}


# ---- what was measured ----


def lookup_in(launches: Iterable[Result], machine: str = "") -> Lookup:
    """Metrics of launches, by point; of several of one point the newest counts.

    Args:
        launches: results.
        machine: whose findings they are to show where they were not simulated; without it such
            results are left out.
    """
    metrics: dict[Point, Mapping[str, Metric]] = {}
    for result in sorted(launches, key=lambda result: result["started"]):
        for method in {entry["method"] for entry in result["results"]}:
            if point := _point(result, method, machine):
                entries = results.of_method(result, method)
                metrics[point] = {**results.metrics(entries), **_communication(entries)}

    def lookup(point: Point, name: str) -> float:
        try:
            return _metric(metrics[point], name)
        except KeyError:
            raise Unmeasured(point, name) from None

    return lookup


def _point(result: Result, method: str, machine: str) -> Point | None:
    """Of a method that was verified; else None."""
    entries = results.of_method(result, method)
    machine = (result.get("simulated") or {}).get("machine", machine)
    if not machine or any(not e["applicable"] or results.failed_checks(e) for e in entries):
        return None
    placed, threads = result["layout"], result["layout"]["threads"]
    fullest = placed["ranks_per_node"]
    layout = "mpi" if threads == 1 else {1: "node"}.get(fullest, f"node{fullest}")
    cores = placed["ranks"] * threads
    return Point(machine, result["kernel"], result["case"], layout, cores, method)


def _communication(entries: list[Entry]) -> dict[str, Metric]:
    """Seconds per step in the classes of MPI calls, mean over ranks: p2p_seconds and so on."""
    classes = (entries[0].get("communication") or {}) if len(entries) == 1 else {}
    return {
        f"{name}{SECONDS}": {"value": traffic["seconds"]["mean"]}
        for name, traffic in classes.items()
    }


def _metric(metrics: Mapping[str, Metric], name: str) -> float:
    if name.endswith(SECONDS) and name not in metrics:
        share = metrics[f"{name.removesuffix(SECONDS)}_share"]["value"]
        return share * metrics["time"]["value"]
    return metrics[name]["value"]


# ---- expressions ----


@dataclass(frozen=True)
class _Curve:
    """A metric of a method over the number of cores."""

    lookup: Lookup
    point: Point
    metric: str = "time"

    def __getattr__(self, word: str) -> "_Curve":
        """Returns the curve of another machine, case, layout, method or metric."""
        name, point = word.replace("_", "-"), self.point
        if name in machines():
            part = "machine"
        elif point.kernel in tables.CASES and name in tables.cases(point.kernel):
            part = "case"
        elif name in LAYOUTS:
            part = "layout"
        elif not point.method:
            part = "method"
        else:
            return replace(self, metric=word)
        changed: dict[str, Any] = {part: name}
        return replace(self, point=replace(point, **changed))

    def __getitem__(self, cores: int) -> float:
        return self.lookup(replace(self.point, cores=cores), self.metric)


def peak(curve: _Curve, *counts: int) -> int:
    """The cores of the least time of a curve."""
    return min(counts, key=curve.__getitem__)


def fastest(cores: int, *curves: _Curve) -> int:
    """The number at the end of the name of the method of the least time on so many cores."""
    best = min(curves, key=lambda curve: curve[cores])
    return int(best.point.method.rpartition("-")[2])


def crossover(*curves_and_counts: _Curve | int) -> int:
    """The fewest cores from which on another curve than the first is the fastest; 0 if none."""
    first, *others = [part for part in curves_and_counts if isinstance(part, _Curve)]
    from_here = 0
    for cores in sorted(part for part in curves_and_counts if isinstance(part, int)):
        slower = min(curve[cores] for curve in others) < first[cores]
        from_here = (from_here or cores) if slower else 0
    return from_here


class _Names(dict[str, Any]):
    """What the words of an expression mean; those that are not listed begin a curve."""

    def __init__(self, curve: _Curve) -> None:
        listed = {f.__name__: f for f in (min, max, peak, fastest, crossover)}
        super().__init__(listed)
        self._curve = curve

    def __missing__(self, word: str) -> _Curve:
        return getattr(self._curve, word)


@functools.cache
def _compiled(expression: str) -> CodeType:
    return compile(expression, "observables.csv", "eval")
