"""The kernels beside other codes, as ratios beside the limits of the project."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, quantiles

from bisection.kernels.local import Estimate
from bisection.kernels.results import Entry, Result

# How a limit bounds a number: at most, at least, or this far from one.
AT_MOST, AT_LEAST, WITHIN = "at most", "at least", "within"


def quartiles(values: Sequence[float]) -> Estimate:
    """The median of at least one value, with its quartiles."""
    if len(values) == 1:
        return Estimate(values[0], values[0], values[0])
    low, _, high = quantiles(values, n=4, method="inclusive")
    return Estimate(median(values), low, high)


def estimates(result: Result, name: str) -> dict[str, Estimate]:
    """The metric `name`, with its quartiles, of each method that has it."""
    values = {}
    for part in result["results"]:
        metric = part["metrics"].get(name)
        if metric and metric["value"] is not None:
            values[part["method"]] = Estimate(metric["value"], metric["low"], metric["high"])
    return values


def entry(result: Result, method: str) -> Entry:
    """The first entry of a method."""
    return next(part for part in result["results"] if part["method"] == method)


class NotMeasured(Exception):
    """A peer is not installed, or did other work than it was given; the text says which."""


@dataclass(frozen=True)
class Limit:
    """The limit of a number."""

    number: float
    bound: str = AT_MOST
    unit: str = "ratio"  # or share

    def met(self, value: float) -> bool:
        """True if a value is within the limit."""
        if self.bound == WITHIN:
            return abs(value - 1) <= self.number
        return value >= self.number if self.bound == AT_LEAST else value <= self.number


@dataclass
class Judged:
    """A measured ratio beside its limit."""

    case: str
    ranks: int
    method: str
    ratio: Estimate
    limit: Limit | None  # None: printed beside others, not judged
    sides: tuple[float, ...] = ()  # medians of what is above and below the line
    unit: str = "s"  # of both sides


def judged(
    case: str,
    ranks: int,
    method: str,
    pairs: Sequence[tuple[float, float]],
    limit: Limit,
    unit: str = "s",
) -> Judged:
    """The ratio of two quantities that were measured in turns.

    Args:
        case: the kernel's case.
        ranks: MPI ranks.
        method: the method, or methods.
        pairs: (above the line, below the line), one per turn.
        limit: of the ratio.
        unit: of both quantities.
    """
    ratio = quartiles([above / below for above, below in pairs])
    sides = tuple(median(side) for side in zip(*pairs, strict=True))
    return Judged(case, ranks, method, ratio, limit, sides, unit)
