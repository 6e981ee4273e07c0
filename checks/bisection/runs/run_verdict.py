"""A run judged: its tests, their metrics, and what follows from both."""

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from bisection.core.identity import TestId, parsed
from bisection.core.reasons import (
    DISTURBED,
    MACHINE_FAULTS,
    OUTER_FAULTS,
    known_fields,
    read_reason,
)
from bisection.core.reasons.base import Reason
from bisection.core.reasons.launches import (
    Bounds,
    OutOfBounds,
    ReframeText,
    TestFailed,
    Timeout,
    Unconfirmed,
)
from bisection.core.reasons.machines import HostFault, NodeJudged
from bisection.core.reasons.performance import Outlier, Slower, SlowNode, WorseSince
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict
from bisection.kernels import tables
from bisection.kernels.launch_record import LaunchRecord

if TYPE_CHECKING:  # loads where a network was measured
    from interconnect.network_verdict import Interconnect


VERSION = 1  # of verdict.json


def read_each(kind: Any, stored: Iterable[Any]) -> tuple[Any, ...]:
    """Stored reasons of this kind; LookupError if one is of another."""
    reasons = tuple(map(read_reason, stored))
    if not all(isinstance(reason, kind) for reason in reasons):
        raise LookupError(f"not all of {stored} are {kind}")
    return reasons


@dataclass(frozen=True)
class JudgedMetric:
    """A measured value; `low` and `high` bound what passes, None where nothing is asserted."""

    name: str
    value: float
    unit: str
    low: float | None
    high: float | None
    verdict: str  # ReFrame's: pass | fail | ...
    better: str = "lower"  # lower | higher
    reference: float | None = None  # None where nothing is asserted

    @property
    def bounds(self) -> Bounds:
        """The metric with its limits, as a reason has it."""
        return self.name, self.value, self.unit, self.low, self.high

    @property
    def asserted(self) -> bool:
        return self.low is not None or self.high is not None

    @property
    def failed(self) -> bool:
        return self.verdict == "fail"

    @property
    def allowance_used(self) -> float:
        """How much of what is allowed is used: 0 on the better bound, 1 on the worse one, more
        where it is too bad, below 0 where it is too good."""
        if self.low is None or self.high is None or self.high <= self.low:
            return 0.0
        part = (self.value - self.low) / (self.high - self.low)
        return part if self.better == "lower" else 1 - part


@dataclass
class TestResult(TestId):
    """One test case of ReFrame's report and what became of it. Fields are set once."""

    name: str = ""  # as ReFrame displays it
    hash: str = ""  # for -n /hash
    run: int = 0
    fixture: bool = False
    launches: tuple[str, ...] = ()  # names of those that it takes metrics from
    verdict: Verdict = Verdict.NOT_MEASURED
    reason: Reason | None = None
    remark: Reason | None = None  # what a person should know though nothing is wrong
    folders: tuple[str, ...] = ()  # where ReFrame left its files
    files: str = ""  # where they are kept: a pattern
    ran: bool = True  # False: the run stopped before it
    metrics: tuple[JudgedMetric, ...] = ()
    record: LaunchRecord = field(default_factory=LaunchRecord)  # of its launch; of a build, its own

    @property
    def is_launch(self) -> bool:
        return self.fixture and bool(self.record.kernel)

    @property
    def is_bad(self) -> bool:
        return self.verdict in (Verdict.FAIL, Verdict.NOT_MEASURED)

    @property
    def launch(self) -> tuple[str | int, ...]:
        place = (self.system, self.partition, self.environ)
        return (self.record.kernel, self.case, self.layout, *place, self.run)

    def takes(self, launch: "TestResult") -> bool:
        """True if it is of this launch, or takes metrics from it beside its own."""
        beside = launch.name in self.launches and self.launch[3:] == launch.launch[3:]
        return beside or self.launch == launch.launch

    def unmeasured(self, reason: Reason) -> "TestResult":
        return replace(self, verdict=Verdict.NOT_MEASURED, reason=reason, remark=None)

    def unconfirmed(self, record: LaunchRecord) -> "TestResult":
        """The test as not measured: it is outside its limits, which the launch of this record, that
        other processes disturbed, does not confirm."""
        metrics = tuple(metric.bounds for metric in self.metrics if metric.failed)
        return self.unmeasured(Unconfirmed(metrics=metrics, cause=record.lost))

    @property
    def seconds(self) -> float:
        """How long its launch held its nodes; if its time limit ended it, that."""
        limit = self.reason.limit if isinstance(self.reason, Timeout) else 0.0
        return sum(self.record.seconds) or limit

    @property
    def has_alternatives(self) -> bool:
        """True if the methods of its kernel compute the same, so that one can be the fastest."""
        return (self.record.kernel or self.check) in tables.ALTERNATIVES

    @property
    def lost_to_others(self) -> bool:
        return self.verdict == Verdict.NOT_MEASURED and isinstance(self.reason, DISTURBED)

    @property
    def by_bounds(self) -> bool:
        return self.verdict == Verdict.FAIL and isinstance(self.reason, OutOfBounds)

    @property
    def group(self) -> str:
        words = [self.check, self.case, self.layout]
        return " ".join(word for word in words if word) + f" ({self.environ})"

    @property
    def follows(self) -> str:
        """The test whose failure kept this one from running; "" if it is its own."""
        return self.reason.test if isinstance(self.reason, TestFailed) else ""

    @classmethod
    def from_dict(cls, case: Mapping[str, Any], records: Sequence[LaunchRecord]) -> "TestResult":
        """A test of verdict.json, whose launches are `records`."""
        system, _, partition = case["partition"].partition(":")
        values = {
            **known_fields(cls, case),
            "system": system,
            "partition": partition,
            "name": case["test"],
            "verdict": Verdict(case["verdict"]),
            "reason": read_reason(case["reasons"].get("cause")),
            "remark": read_reason(case["reasons"].get("remark")),
            "metrics": tuple(
                JudgedMetric(**known_fields(JudgedMetric, metric)) for metric in case["metrics"]
            ),
            "record": records[case["launch"]],
        }
        return cls(**values)


@dataclass
class Request:
    """The request for a run."""

    tier: str = "nightly"
    system: str = "localhost"  # ReFrame's --system
    environ: str = "system"
    arguments: Sequence[str] = ()  # further ones of ReFrame
    command: Sequence[str] = ()  # ReFrame's command line
    site: str = ""  # the site file, where it is not one of site-configs/
    scheduler: str = "local"  # ReFrame's name
    job_name: str = ""  # of all its jobs, where the scheduler starts them one after the other
    deadline: float = 0.0  # s after its start, by which launches must start; 0: none
    until: float = 0.0  # the deadline as Unix time
    # The full name of a partition -> sets of nodes that its launches ask for in turn.
    nodes: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    partitions: Sequence[str] = ()  # full names; none: all of `system`
    files: Sequence[str] = ()  # of checks, from the root; none: all
    is_local: bool = False  # launches run on this host, and --wait waits for it to be quiet
    reservation: str = ""  # of all jobs; "": that of the site file
    reruns: int = 0  # beside those that `arguments` ask for: one for each further set of nodes
    campaign: str = ""  # over every node: its name
    # Of a campaign over every node: of how many nodes the launches of its tests are; none: of one
    # and of two. The full name of a partition and the nodes of each launch, by its number in the
    # session.
    sizes: Sequence[int] = ()
    spots: Sequence[tuple[str, tuple[str, ...]]] = ()
    first: int = 0  # number of the first launch of this ReFrame; those before have ended
    at_once: int = 0  # jobs, at most


class Price(NamedTuple):
    """What launches held."""

    core_hours: float = 0.0
    node_hours: float = 0.0


@dataclass(frozen=True)
class RunVerdict:
    """The tests of one run, what is wrong with the run as a whole, and what follows from both."""

    # What is said of the run as a whole: the tuples of reasons below, and their kinds.
    REASONS: ClassVar[Mapping[str, Any]] = {
        "troubles": Reason,
        "failures": Reason,
        "slower": Slower,
        "outliers": Outlier,
        "slow_nodes": SlowNode | HostFault,
        "suspect_nodes": HostFault,
        "worse_components": Reason,
        "network": Reason,
        "alarms": WorseSince,
        "remarks": Reason,
        "every_node": NodeJudged,
    }

    cases: tuple[TestResult, ...] = ()
    troubles: tuple[Reason, ...] = ()  # the run is not complete
    failures: tuple[Reason, ...] = ()  # wrong, but of no selected test
    slower: tuple[Slower, ...] = ()  # than in all earlier sessions, and again so
    outliers: tuple[Outlier, ...] = ()  # the same, but not retested
    # Each a slow node, or nodes of which one is slow.
    slow_nodes: tuple[SlowNode | HostFault, ...] = ()
    suspect_nodes: tuple[HostFault, ...] = ()  # slow in the only launch that can show it
    worse_components: tuple[Reason, ...] = ()  # of the network, than in earlier sessions
    network: tuple[Reason, ...] = ()  # suspect components; what is to be looked at
    alarms: tuple[WorseSince, ...] = ()  # of the history: worse since a session
    remarks: tuple[Reason, ...] = ()  # what a person should know beside
    every_node: tuple[NodeJudged, ...] = ()  # of a campaign over every node, the worst first
    interconnect: "Interconnect | None" = None  # None: the tier asks another question
    # Sessions of its kind that references may be made from, this one among them; None: not known.
    nights: int | None = None
    seconds: float = 0.0
    # Of all launches, those of reruns and of the retest among them.
    price: Price = field(default_factory=Price)
    session: str = ""  # ReFrame's UUID
    started: float = 0.0  # Unix time
    tags: Mapping[str, str] = field(default_factory=dict)
    request: Request = field(default_factory=Request)
    installed: Sequence[str] = ()  # by set-up: time, `debian` or `python`, name and version

    def adding(
        self,
        *,
        troubles: Iterable[Reason] = (),
        failures: Iterable[Reason] = (),
        slower: Iterable[Slower] = (),
        outliers: Iterable[Outlier] = (),
        slow_nodes: Iterable[SlowNode | HostFault] = (),
        suspect_nodes: Iterable[HostFault] = (),
        worse_components: Iterable[Reason] = (),
        network: Iterable[Reason] = (),
        remarks: Iterable[Reason] = (),
    ) -> "RunVerdict":
        return replace(
            self,
            troubles=(*self.troubles, *troubles),
            failures=(*self.failures, *failures),
            slower=(*self.slower, *slower),
            outliers=(*self.outliers, *outliers),
            slow_nodes=(*self.slow_nodes, *slow_nodes),
            suspect_nodes=(*self.suspect_nodes, *suspect_nodes),
            worse_components=(*self.worse_components, *worse_components),
            network=(*self.network, *network),
            remarks=(*self.remarks, *remarks),
        )

    def without_disturbed(self) -> "RunVerdict":
        """Returns the run in which tests that passed or were slow are not measured, where other
        processes had the cores of a launch of theirs. It takes less of that to leave open whether
        metrics are outside their limits."""
        cases = []
        for case in self.cases:
            record = case.record
            slow = case.verdict == Verdict.FAIL and any(metric.failed for metric in case.metrics)
            timed = not case.fixture and (slow or case.verdict == Verdict.PASS)
            if timed and record.disturbed > LIMITS.disturbed_launch:
                case = case.unmeasured(record.lost)
            elif timed and slow and record.lost_part > LIMITS.disturbed_confirm:
                case = case.unconfirmed(record)
            cases.append(case)
        return replace(self, cases=tuple(cases))

    @property
    def judged(self) -> list[TestResult]:
        return [case for case in self.cases if not case.fixture]

    @property
    def price_of_launches(self) -> Price:
        held = [(c.seconds / 3600, parsed(c.record.geometry)) for c in self.cases if c.is_launch]
        cores = sum(hours * shape.cores for hours, shape in held if shape)
        return Price(cores, sum(hours * shape.nodes for hours, shape in held if shape))

    @property
    def bad(self) -> list[TestResult]:
        """Failed and unmeasured tests; a fixture stands for the tests that depend on it."""
        return [case for case in self.cases if case.is_bad]

    @functools.cached_property
    def _failed_launches(self) -> set[str]:
        return {case.name for case in self.cases if case.fixture and case.verdict == Verdict.FAIL}

    def outcome(self, case: TestResult) -> Verdict:
        """The verdict on a test as every form counts it: a test whose launch failed has failed."""
        return Verdict.FAIL if case.follows in self._failed_launches else case.verdict

    @property
    def end(self) -> Reason | None:
        """The trouble that ended the run before its time; None if none did."""
        ends = (*MACHINE_FAULTS, *OUTER_FAULTS)
        for trouble in self.troubles:
            if isinstance(trouble, ends) or (isinstance(trouble, ReframeText) and trouble.ended):
                return trouble
        return None

    @property
    def lost_to_others(self) -> list[TestResult]:
        return [case for case in self.judged if case.lost_to_others]

    def count(self, verdict: Verdict) -> int:
        """Returns how many tests have this outcome, fixtures not among them."""
        return sum(self.outcome(case) == verdict for case in self.judged)

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> "RunVerdict":
        """Returns the verdict stored in verdict.json.

        Raises:
            ValueError: another version of Bisection stored it.
        """
        try:
            if kept.get("version", VERSION) != VERSION:
                raise LookupError
            records = [LaunchRecord.read(record) for record in kept["launches"]]
            network = kept["interconnect"]
            reasons: dict[str, Any] = {
                name: read_each(kind, kept["reasons"].get(name, ()))
                for name, kind in cls.REASONS.items()
            }
            return cls(
                cases=tuple(TestResult.from_dict(case, records) for case in kept["cases"]),
                **reasons,
                interconnect=_on_network(network) if network else None,
                price=Price(**kept.get("price", {})),
                nights=kept["nights"],
                seconds=kept["seconds"],
                session=kept["session"],
                request=Request(**known_fields(Request, kept)),
                installed=tuple(kept.get("installed", ())),
            )
        except (LookupError, TypeError):
            raise ValueError("of another version of Bisection; run again") from None


def _on_network(kept: Mapping[str, Any]) -> "Interconnect":
    from interconnect.network_verdict import Interconnect

    return Interconnect.from_dict(kept)
