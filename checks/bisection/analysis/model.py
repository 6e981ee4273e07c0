"""What a comparison of stored sessions says: the form that reports are made from."""

from dataclasses import asdict, dataclass, field

from bisection.core.identity import Measure
from bisection.core.verdicts import INCONCLUSIVE, REGRESSED


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


def changes(before, after):
    """What is recorded of the sessions and is not the same on both sides."""
    names = dict.fromkeys(name for side in (before, after) for s in side for name in s.facts)
    found = []
    for name in names:
        old, new = (
            list(dict.fromkeys(s.facts[name] for s in side if s.facts.get(name)))
            for side in (before, after)
        )
        if set(old) != set(new):
            found.append(difference(name, old, new))
    return found


def differences(before, after):
    """What is recorded of two sessions and differs."""
    names = dict.fromkeys([*before.facts, *after.facts])
    texts = [[[s.facts[n]] if s.facts.get(n) else [] for s in (before, after)] for n in names]
    return [
        difference(n, old, new) for n, (old, new) in zip(names, texts, strict=True) if old != new
    ]


def difference(name, old, new):
    """The Change from one list of texts to another; of one list of items to another, the items
    that differ."""
    if len(old) == len(new) == 1 and ", " in old[0] + new[0]:
        items = [text.split(", ") for text in (old[0], new[0])]
        old, new = (
            [", ".join(item for item in mine if item not in theirs) or "none"]
            for mine, theirs in (items, items[::-1])
        )
    return Change(name, *(" | ".join(texts) or "not recorded" for texts in (old, new)))
