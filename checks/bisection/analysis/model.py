"""The result of a comparison of stored sessions, from which reports are made."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bisection.analysis.statistics import exp
from bisection.core.format import change
from bisection.core.identity import IDENTITY, MetricId
from bisection.core.reasons.base import Reason
from bisection.core.reasons.performance import SharedChange, SlowNode, TwoStates, Unlike
from bisection.core.verdicts import Against, Scope, Verdict
from bisection.store.database import Session


@dataclass
class Side:
    """One side of a row. `median` is None if nothing was measured."""

    sessions: int = 0  # that measured it
    jobs: int = 0
    median: float | None = None  # in the row's unit
    spread: float | None = None  # robust standard deviation of the logarithm, between observations
    geometry: str = ""  # [nodes x] ranks per node x threads per rank
    hosts: list[str] = field(default_factory=list)
    software: str = ""
    disturbed: float = 0.0  # fraction of samples in which others took a core, the mean job


@dataclass
class Row(MetricId):
    """One metric of one test on both sides. `ratio` is after over before, of values as measured;
    `low` and `high` are its confidence interval; all None where there is none."""

    control: bool  # measures the cores alone
    before: Side
    after: Side
    verdict: Verdict = Verdict.INCONCLUSIVE  # until a ruling is made
    reason: Reason | None = None  # none where the numbers say it
    scope: Scope | None = None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    p: float | None = None  # p-value of such a difference, adjusted for the table
    outlier: bool = False  # one session outside of what the earlier ones showed
    again: bool = False  # perhaps: to be measured again where that is possible
    limit: float | None = None  # beyond it, a session is slower than all earlier ones
    seen: float | None = None  # what was set beside it, though others may have had the cores
    shared: int = 0  # the times of its launch, where it is beyond what they share
    shared_limit: float | None = None  # beyond which it is
    baseline_moved: bool = False  # outside, by the baseline of the ratio alone
    against: Against | None = None  # the expected ratio
    communication: float | None = None  # fraction of the time spent communicating, before
    explained: Reason | None = None  # whether a network explains `against`
    cause: Reason | None = None  # what of the network explains that a code got slower
    states: TwoStates | None = None  # the two that it has, and how often it is in the slower one

    def rule(self, verdict: Verdict, reason: Reason | None = None) -> None:
        self.verdict, self.reason = verdict, reason

    @property
    def sign(self) -> int:
        """Of the logarithm of a value that is a cost."""
        return 1 if self.better == "lower" else -1

    def set_costs(self, *cost: float) -> None:
        """Sets the ratio, with its interval if there is one, by logarithms of the slow-down."""
        self.ratio, *ends = (exp(self.sign * part) for part in cost)
        if ends:
            self.low, self.high = sorted(ends)

    @property
    def is_of_other_ranks(self) -> bool:
        """True if the sides cannot be compared, as they ran on unlike ranks, nodes or threads."""
        return isinstance(self.reason, Unlike) and self.reason.what == "geometry"

    @property
    def is_worse(self) -> bool:
        """True if it got worse, or one session is outside of what the earlier ones showed."""
        worse = self.outlier or self.verdict == Verdict.REGRESSED
        return worse and ((self.excess if self.outlier else self.slowdown) or 0) > 1

    @property
    def slowdown(self) -> float | None:
        """After over before as a cost: above 1 is worse, whatever the direction of the metric."""
        return self._cost(self.ratio) if self.ratio else None

    @property
    def excess(self) -> float | None:
        """`seen` over the earlier sessions as a cost; None where nothing was."""
        if self.seen is None or self.before.median is None:
            return None
        return self._cost(self.seen / self.before.median)

    @property
    def moved(self) -> dict[str, Any]:
        """The values of a reason on the metric: its test, both sides, how many times slower it
        is."""
        names = (*IDENTITY, "metric", "unit")
        values: dict[str, Any] = {name: getattr(self, name) for name in names}
        sides = {"before": self.before.median, "after": self.seen, "factor": self.excess}
        return {**values, **sides, "sessions": self.before.sessions}

    def _cost(self, ratio: float) -> float:
        return ratio if self.better == "lower" else 1 / ratio

    @property
    def slowdown_interval(self) -> tuple[float, float] | None:
        if self.low is None or self.high is None:
            return None
        return (self.low, self.high) if self.better == "lower" else (1 / self.high, 1 / self.low)

    @property
    def speedup(self) -> tuple[float | None, ...]:
        """(ratio, low, high) of performance, above 1 is faster; None for each that there is not."""
        if self.better == "higher":
            return self.ratio, self.low, self.high
        return tuple(1 / x if x else None for x in (self.ratio, self.high, self.low))

    @property
    def change(self) -> str:
        """The ratio with its interval, for people: 14% [11%, 17%] slower."""
        return change(self.unit, self.better, self.ratio, self.low, self.high)


@dataclass
class Change:
    """A fact that is not the same on both sides, or was not before a change point."""

    what: str  # "MPI", "operating system's kernel", "lock", ...
    before: str
    after: str


@dataclass
class ChangePoint(MetricId):
    """Where a metric's history has a step."""

    session: str  # the first on the new level
    at: float  # its start, Unix time
    ratio: float  # new level over old, of values as measured
    before: int  # sessions on the old level
    after: int
    verdict: Verdict = Verdict.REGRESSED  # or improved
    cause: Reason | None = None  # what of the network explains that a code got slower
    errors: float = 0.0  # standard errors between both levels
    stands: bool = True  # whether the newest level is this one
    alarm: bool = False  # worse for sure, as the metric has not been before
    back: bool = False  # worse than the level before, but not than the metric has been

    @property
    def suspect(self) -> bool:
        """True if the newest level may be worse: it is launched again."""
        worse = self.stands and self.verdict == Verdict.REGRESSED
        return worse and not self.alarm and not self.back

    @property
    def cost(self) -> float:
        """New cost over old: above 1 is worse, whatever the direction."""
        return self.ratio if self.better == "lower" else 1 / self.ratio


@dataclass
class Event:
    """Changes of level in one direction that began together, or a drift, in one partition."""

    system: str
    partition: str
    environ: str
    session: str  # in which it most probably began
    at: float  # its start, Unix time
    first: float  # start of the first session in which it may have begun, Unix time
    last: float
    metrics: dict[str, tuple[int, int]]  # check -> metrics that changed, metrics that there are
    before: Sequence[Session]  # the last ones on the level before
    after: Sequence[Session]  # all since it began
    points: list[ChangePoint] = field(default_factory=list)
    drift: float | None = None  # cost per night as a factor, if it is a drift: no points
    nights: int = 0  # of the drift
    changes: list[Change] = field(default_factory=list)  # that began with it, exactly
    candidates: list[tuple[Change, float]] = field(default_factory=list)  # that may have; the odds
    accepted: str = ""  # why it is no alarm any more, by one of these sessions
    near: Sequence[Session] = ()
    raised: float = 0.0  # start of the session that first made it an alarm; 0: not looked for

    @property
    def worse(self) -> list[ChangePoint]:
        return [point for point in self.points if point.alarm]

    @property
    def alarm(self) -> bool:
        return bool(self.worse) and not self.accepted

    @property
    def is_new(self) -> bool:
        """True if it is an alarm by the newest session, and was none before."""
        return self.alarm and self.raised == self.after[-1].start


@dataclass
class DrawnHistory(MetricId):
    """A metric's history, for a sparkline."""

    times: list[float]  # Unix time of each session
    values: list[float]
    points: list[int] = field(default_factory=list)  # indices where a new level begins


@dataclass
class Undecided:
    """Inconclusive metrics with the same kind of reason."""

    why: str
    metrics: int
    nights: str = ""  # per side, that would decide on the usual one of them; "": not known


@dataclass
class Comparison:
    """Two groups of sessions compared."""

    before: list[dict[str, Any]]  # sessions: uuid, start (Unix time), tags
    after: list[dict[str, Any]]
    rows: list[Row]  # the worst first
    aa: list[dict[str, Any]] = field(default_factory=list)  # sessions of the A/A test
    findings: list[SharedChange] = field(default_factory=list)  # changes that many metrics share
    advice: list[Reason] = field(default_factory=list)  # what the verdicts lack
    unsafe: list[Reason] = field(default_factory=list)  # why they cannot be trusted
    changes: list[Change] = field(default_factory=list)
    suspects: list[SlowNode] = field(default_factory=list)
    expected: float | None = None  # ratio of performance that an upgrade should give
    undecided: list[Undecided] = field(default_factory=list)  # the inconclusive rows, by reason

    def count(self, verdict: Verdict) -> int:
        return sum(row.verdict == verdict for row in self.rows)
