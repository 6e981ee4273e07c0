"""What identifies a test and a metric, and the geometry of a launch."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Geometry:
    """`nodes` x `ranks_per_node` ranks of `threads` threads, each thread on a core of its own."""

    nodes: int
    ranks_per_node: int
    threads: int

    @property
    def ranks(self):
        return self.nodes * self.ranks_per_node

    @property
    def cores(self):
        return self.ranks * self.threads

    def __str__(self):
        shape = f"{self.ranks_per_node}x{self.threads}"
        return shape if self.nodes == 1 else f"{self.nodes}x{shape}"


def parsed(text):
    """The Geometry of "[nodes x] ranks a node x threads a rank"; None if the text is not one."""
    parts = (text or "").split("x")
    if len(parts) not in (2, 3) or not all(re.fullmatch("[0-9]{1,7}", part) for part in parts):
        return None
    numbers = [int(part) for part in parts]
    return Geometry(*numbers) if len(numbers) == 3 else Geometry(1, *numbers)


@dataclass
class Place:
    """A test, where it runs."""

    system: str
    partition: str
    environ: str
    check: str
    case: str
    layout: str
    method: str

    @property
    def identity(self):
        """The test, as stored."""
        place = (self.system, self.partition, self.environ)
        return (*place, self.check, self.case, self.layout, self.method)

    @property
    def test(self):
        """What identifies the test, for people."""
        return " ".join(w for w in (self.check, self.case, self.layout, self.method) if w)


POINT = re.compile(r"_\d+[KM]?i?B$")  # the size of a sweep, at the end of a metric's name


@dataclass
class Measure(Place):
    """A metric of a test."""

    metric: str
    unit: str
    better: str  # lower | higher

    @property
    def key(self):
        return (*self.identity, self.metric)

    @property
    def base(self):
        """The metric, at whatever size of a sweep."""
        return POINT.sub("", self.metric)

    @property
    def absolute(self):
        """Whether it is a time or a rate: what a slower clock changes by itself."""
        return self.unit in ("s", "ms", "us", "ns") or self.unit.endswith("/s")
