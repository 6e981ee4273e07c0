"""Identities of tests and metrics, and the geometry of a launch."""

import re
from dataclasses import dataclass, fields

from bisection.core.format import BYTES
from bisection.core.units import is_absolute


@dataclass(frozen=True)
class Geometry:
    """`nodes` x `ranks_per_node` ranks of `threads` threads, each thread on a core of its own."""

    nodes: int
    ranks_per_node: int
    threads: int

    @property
    def ranks(self) -> int:
        return self.nodes * self.ranks_per_node

    @property
    def cores(self) -> int:
        return self.ranks * self.threads

    def __str__(self) -> str:
        shape = f"{self.ranks_per_node}x{self.threads}"
        return shape if self.nodes == 1 else f"{self.nodes}x{shape}"


def parsed(text: str | None) -> Geometry | None:
    """The Geometry of "[nodes x] ranks per node x threads per rank"; None for any other text."""
    match = re.fullmatch("(?:([0-9]{1,7})x)?([0-9]{1,7})x([0-9]{1,7})", text or "")
    return Geometry(*(int(number or 1) for number in match.groups())) if match else None


@dataclass
class TestId:
    """A test, where it runs. The geometry is not part of it: a test keeps its history when the
    number of nodes or cores changes."""

    __test__ = False  # pytest collects classes of this name

    system: str
    partition: str
    environ: str
    check: str
    case: str
    layout: str
    method: str

    @property
    def identity(self) -> tuple[str, ...]:
        place = (self.system, self.partition, self.environ)
        return (*place, self.check, self.case, self.layout, self.method)

    @property
    def by_name(self) -> dict[str, str]:
        """The seven words, by their names."""
        return dict(zip(IDENTITY, self.identity, strict=True))

    @property
    def test(self) -> str:
        return " ".join(w for w in (self.check, self.case, self.layout, self.method) if w)

    @property
    def place(self) -> str:
        """System, partition and environment, for people; "" if none is known."""
        where = ":".join(filter(None, (self.system, self.partition)))
        return " ".join(filter(None, (where, self.environ)))


IDENTITY = tuple(field.name for field in fields(TestId))  # the names of its seven words

POINT = re.compile(r"_\d+[KM]?i?B$")  # the size of a sweep, at the end of a metric's name


def is_ratio_to_itself(metric: str, method: str) -> bool:
    """True for the ratio of a method to itself, which is always 1."""
    return POINT.sub("", metric) == f"ratio_{method.replace('-', '_')}"


def swept_size(metric: str, of: str = "time") -> int | None:
    """The bytes of a metric, a time for example, at one point of a sweep: 2048 of time_2KiB; None
    of another metric."""
    match = re.fullmatch(f"{of}_([1-9][0-9]*)({'|'.join(BYTES)})", metric)
    return int(match[1]) * BYTES[match[2]] if match else None


@dataclass
class MetricId(TestId):
    """A metric of a test."""

    metric: str
    unit: str
    better: str  # lower | higher

    @property
    def key(self) -> tuple[str, ...]:
        return (*self.identity, self.metric)

    @property
    def base(self) -> str:
        return POINT.sub("", self.metric)

    @property
    def absolute(self) -> bool:
        return is_absolute(self.unit)

    @property
    def label(self) -> str:
        """Test and metric, for people; a time goes without saying."""
        return self.test if self.metric == "time" else f"{self.test} {self.metric}".strip()
