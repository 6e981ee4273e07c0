"""What a comparison of stored sessions says: the form that reports are made from."""

import re
from dataclasses import asdict, dataclass, field

REGRESSED, IMPROVED, UNCHANGED = "regressed", "improved", "unchanged"
INCONCLUSIVE, NOT_MEASURED, MISSING, NEW = "inconclusive", "not measured", "missing", "new"
VERDICTS = (REGRESSED, MISSING, NOT_MEASURED, IMPROVED, INCONCLUSIVE, NEW, UNCHANGED)

COUNTED = ("B", "messages")  # units of what is the same in every run: any change is one
CONTEXT = ("share", "groups")  # of what explains a time, and is not better or worse by itself

ABOVE, AT, BELOW, UNCLEAR = "above", "at", "below", "unclear"

# What a verdict is about: the machine, where sessions were sampled; two sessions, where only jobs
# within them were.
MACHINE, SESSIONS = "machine", "these sessions"


@dataclass
class Side:
    """One side of a row. `median` is None if nothing was measured."""

    sessions: int = 0  # that measured it
    jobs: int = 0
    median: float | None = None  # in the row's unit
    spread: float | None = None  # robust standard deviation of the logarithm, between samples
    geometry: str = ""  # [nodes x] ranks a node x threads a rank
    hosts: list[str] = field(default_factory=list)
    software: str = ""
    disturbed: float = 0.0  # share of samples in which other processes took a core, the mean job


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


@dataclass
class Row(Measure):
    """One metric of one test on both sides. `ratio` is after over before, of values as measured;
    `low` and `high` bound it; all None where there is none."""

    control: bool  # measures the cores alone
    before: Side
    after: Side
    verdict: str = INCONCLUSIVE
    why: str = ""  # one clause, "" where the numbers say it
    scope: str = ""
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None  # that such a difference is chance, controlled over the table
    suspect: bool = False  # one session outside of what the earlier ones showed
    against: str = ""  # above | at | below | unclear, of the expected ratio
    communication: float | None = None  # share of the time spent communicating, before
    explained: str = ""  # whether a faster network explains `against`

    @property
    def costs(self):
        """(low, high) of `worse`; None without an interval."""
        if self.low is None:
            return None
        return (self.low, self.high) if self.better == "lower" else (1 / self.high, 1 / self.low)

    @property
    def worse(self):
        """After over before as a cost: above 1 is worse, whatever the direction of the metric."""
        if self.ratio is None:
            return None
        return self.ratio if self.better == "lower" else 1 / self.ratio

    @property
    def speedup(self):
        """(ratio, low, high) of performance, above 1 is faster; None if there is none."""
        if self.ratio is None:
            return None
        if self.better == "higher":
            return self.ratio, self.low, self.high
        return tuple(1 / x if x else None for x in (self.ratio, self.high, self.low))


@dataclass
class Suspect:
    """A node whose jobs differ from those of the others."""

    node: str
    ratio: float  # cost on it over that elsewhere
    jobs: int
    where: str  # partition
    why: str = ""


@dataclass
class Change:
    """Something that is not the same on both sides, or was not before a change point."""

    what: str  # "MPI", "operating system's kernel", "lock", ...
    before: str
    after: str


@dataclass
class ChangePoint(Measure):
    """Where a metric's history has a step."""

    session: str  # the first on the new level
    at: float  # its start, Unix time
    ratio: float  # new level over old, of values as measured
    before: int  # sessions on the old level
    after: int
    changes: list[Change] = field(default_factory=list)
    verdict: str = REGRESSED  # or improved


@dataclass
class Series(Measure):
    """A metric's history, for a sparkline."""

    times: list[float]  # Unix time of each session
    values: list[float]
    points: list[int] = field(default_factory=list)  # indices where a new level begins


@dataclass
class Pairs:
    """Bandwidth or time between pairs of nodes."""

    nodes: list[str]
    values: list[list[float | None]]  # [sender][receiver]
    unit: str
    title: str
    suspects: list[str] = field(default_factory=list)  # sentences


@dataclass
class Comparison:
    """Two groups of sessions set side by side."""

    before: list[dict]  # sessions: uuid, start (Unix time), tags, folder
    after: list[dict]
    rows: list[Row]
    again: list[dict] = field(default_factory=list)  # the A/A run
    sentence: str = ""  # the verdict in one line
    advice: list[str] = field(default_factory=list)  # what to do next, what the verdict lacks
    unsafe: str = ""  # why verdicts are not to be trusted, "" if they are
    changes: list[Change] = field(default_factory=list)
    suspects: list[Suspect] = field(default_factory=list)
    expected: float | None = None  # ratio of performance that an upgrade should give
    rerun: str = ""  # command
    exit_code: int = 0
    settings: dict = field(default_factory=dict)  # confidence, margin, ...

    def count(self, verdict):
        return sum(row.verdict == verdict for row in self.rows)

    def as_dict(self):
        return asdict(self)
