"""A run judged: its tests, their metrics, and what follows from both."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from bisection.core.identity import TestId
from bisection.core.reasons import DISTURBED, SLOW_HOSTS, Code, Reason
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Exit, Verdict


@dataclass
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
    def asserted(self) -> bool:
        """Whether it has bounds."""
        return self.low is not None or self.high is not None

    @property
    def failed(self) -> bool:
        """Whether it is outside its bounds."""
        return self.verdict == "fail"

    @property
    def distance(self) -> float:
        """The normalised distance to the bounds: 0 in the middle, 1 on a bound, above 1 outside."""
        if self.low is None or self.high is None:
            return 0.0
        middle, half = (self.high + self.low) / 2, (self.high - self.low) / 2
        return abs(self.value - middle) / half if half else float(self.value != middle)

    @property
    def used(self) -> float:
        """How much of what is allowed is used: 0 on the better bound, 1 on the worse one, more
        where it is too bad, below 0 where it is too good."""
        if self.low is None or self.high is None or self.high <= self.low:
            return 0.0
        part = (self.value - self.low) / (self.high - self.low)
        return part if self.better == "lower" else 1 - part


@dataclass
class TestResult(TestId):
    """One test case of ReFrame's report and what became of it."""

    name: str = ""  # as ReFrame displays it
    hash: str = ""  # for -n /hash
    kernel: str = ""
    geometry: str = ""
    built_with: str = ""
    run: int = 0
    fixture: bool = False
    verdict: Verdict = Verdict.NOT_MEASURED
    reason: Reason | None = None
    remark: Reason | None = None  # what a person should know though nothing is wrong
    work: str | None = None  # options that say what the launch computes; None: not known
    preempted: float = 0.0  # fraction of the launch's samples in which others took a core
    folders: list[str] = field(default_factory=list)  # where ReFrame left its files
    files: str = ""  # where they are kept: a pattern
    ran: bool = True  # False: the run stopped before it
    seconds: float = 0.0  # of its job, with what it waited for in a queue
    hosts: list[str] = field(default_factory=list)
    metrics: list[JudgedMetric] = field(default_factory=list)
    # Of a launch: what it ran on and with, and what measured its cores alone.
    facts: dict[str, str] = field(default_factory=dict)
    controls: dict[str, float] = field(default_factory=dict)
    slowest: str = ""  # the host that the clock among the controls is of
    host_faults: list[Reason] = field(default_factory=list)

    @property
    def launch(self) -> tuple[str | int, ...]:
        """What the tests of one launch have in common."""
        place = (self.system, self.partition, self.environ)
        return (self.kernel, self.case, self.layout, *place, self.run)

    @property
    def lost_to_others(self) -> bool:
        """Whether it was not measured because other processes had the cores, and that alone."""
        disturbed = self.reason is not None and self.reason.code in DISTURBED
        return self.verdict == Verdict.NOT_MEASURED and disturbed

    @property
    def group(self) -> str:
        """The launch, or the build, that the test is about, for people."""
        words = [self.check, self.case, self.layout]
        return " ".join(word for word in words if word) + f" ({self.environ})"

    @property
    def follows(self) -> str:
        """The test whose failure kept this one from running; "" if it is its own."""
        return self.reason["test"] if self.reason and self.reason.code == Code.FOLLOWS else ""

    @classmethod
    def from_dict(cls, case: Mapping[str, Any]) -> "TestResult":
        """A test of verdict.json, of this version or an earlier one."""

        def text(name: str) -> str:
            return str(case.get(name) or "")

        system, _, partition = text("partition").partition(":")
        reasons = case.get("reasons") or {}
        reason = Reason.read(reasons.get("cause") or case.get("cause"))
        if reason and reason.code == Code.OUT_OF_BOUNDS and "preempted" in reason.values:
            # of an earlier version
            reason = Reason.of(Code.PREEMPTED, fraction=reason["preempted"])
        metrics = []
        for metric in case.get("metrics") or []:
            names = ("name", "value", "unit", "low", "high", "verdict")
            values = [metric.get(name) for name in names]
            metrics.append(
                JudgedMetric(*values, metric.get("better") or "lower", metric.get("reference"))
            )
        return cls(
            *(system, partition, text("environ"), text("check"), text("case")),
            *(text("layout"), text("method")),
            name=text("test"),
            hash=text("hash"),
            kernel=text("kernel"),
            geometry=text("geometry"),
            built_with=text("built_with"),
            run=case.get("run") or 0,
            fixture=bool(case.get("fixture")),
            verdict=_verdict(case.get("verdict")),
            reason=reason,
            remark=Reason.read(reasons.get("remark") or case.get("remark")),
            preempted=case.get("preempted") or 0.0,
            files=text("files"),
            ran=bool(case.get("ran", True)),
            seconds=case.get("seconds") or 0.0,
            hosts=[str(host) for host in case.get("hosts") or []],
            metrics=metrics,
            facts=case.get("facts") or {},
        )


def _verdict(word: Any) -> Verdict:
    try:
        return Verdict(word)
    except ValueError:
        return Verdict.NOT_MEASURED


@dataclass
class Request:
    """What a run was asked for."""

    tier: str = "nightly"
    system: str = "localhost"  # ReFrame's --system
    environ: str = "system"
    arguments: list[str] = field(default_factory=list)  # further ones of ReFrame
    command: list[str] = field(default_factory=list)  # ReFrame's command line
    site: str = ""  # the site file, where it is not one of site-configs/
    job_name: str = ""  # of all its jobs, where Slurm starts them one after the other
    deadline: float = 0.0  # s after its start, by which launches must start; 0: none
    until: float = 0.0  # the deadline as Unix time
    # The full name of a partition -> sets of nodes that its launches ask for in turn.
    nodes: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    partitions: list[str] = field(default_factory=list)  # full names; none: all of `system`
    files: list[str] = field(default_factory=list)  # of checks, from the root; none: all
    is_local: bool = False  # launches run on this host, and --wait waits for it to be quiet
    reruns: int = 0  # beside those that `arguments` ask for: one for each further set of nodes


@dataclass
class RunVerdict:
    """The tests of one run, what is wrong with the run as a whole, and what follows from both."""

    # What is said of the run as a whole: the names of the lists of reasons below.
    REASONS: ClassVar = (
        *("troubles", "failures", "slower", "suspects", "network", "alarms", "remarks"),
    )

    cases: list[TestResult] = field(default_factory=list)
    troubles: list[Reason] = field(default_factory=list)  # the run is not complete
    failures: list[Reason] = field(default_factory=list)  # wrong, but of no selected test
    slower: list[Reason] = field(default_factory=list)  # than in all earlier sessions, and again so
    suspects: list[Reason] = field(default_factory=list)  # the same, but not measured again
    network: list[Reason] = field(default_factory=list)  # suspected of it, or to be looked at
    alarms: list[Reason] = field(default_factory=list)  # of the history: worse since a session
    remarks: list[Reason] = field(default_factory=list)  # what a person should know beside
    nights: int | None = None  # sessions of its kind, this one among them; None: not known
    seconds: float = 0.0
    session: str = ""  # ReFrame's UUID
    started: float = 0.0  # Unix time
    tags: dict[str, str] = field(default_factory=dict)
    request: Request = field(default_factory=Request)

    @property
    def judged(self) -> list[TestResult]:
        """The tests without fixtures."""
        return [case for case in self.cases if not case.fixture]

    @property
    def bad(self) -> list[TestResult]:
        """Failed and unmeasured tests; a fixture stands for the tests that depend on it."""
        return [case for case in self.cases if case.verdict in (Verdict.FAIL, Verdict.NOT_MEASURED)]

    @functools.cached_property
    def _failed_launches(self) -> set[str]:
        return {case.name for case in self.cases if case.fixture and case.verdict == Verdict.FAIL}

    def outcome(self, case: TestResult) -> Verdict:
        """The verdict on a test as every form counts it: a test whose launch failed has failed."""
        return Verdict.FAIL if case.follows in self._failed_launches else case.verdict

    @property
    def applicable(self) -> int:
        """How many tests the machine can have."""
        return len(self.judged) - self.count(Verdict.NOT_APPLICABLE)

    @property
    def lost_to_others(self) -> list[TestResult]:
        """The tests that were not measured because other processes had the cores."""
        return [case for case in self.judged if case.lost_to_others]

    @property
    def late(self) -> list[TestResult]:
        """The launches that took many times their estimate."""
        late = (case for case in self.cases if case.remark and case.fixture)
        return [case for case in late if case.remark.code == Code.LAUNCH_LATE]

    def count(self, verdict: Verdict) -> int:
        """How many tests have this outcome, fixtures not among them."""
        return sum(self.outcome(case) == verdict for case in self.judged)

    def _slow_hosts(self) -> list[Reason]:
        """What launches showed of hosts, where there are other hosts beside them."""
        several = len({host for case in self.cases for host in case.hosts}) > 1
        return [r for r in self.remarks if several and r.code in SLOW_HOSTS and r["launches"]]

    @property
    def slow_nodes(self) -> list[Reason]:
        """The remarks that name a slow node, or nodes of which one is slow: by the times of many
        launches, by its clock in a third of its launches, by what it did alone in all of them."""
        named = [r for r in self.remarks if r.code == Code.SLOW_NODE and r["nodes"]]
        for reason in self._slow_hosts():
            share = 1 / 3 if reason.code == Code.SLOW_CLOCK else 1
            if reason["launches"] >= max(LIMITS.slow_launches, share * reason["of"]):
                named.append(reason)
        return named

    @property
    def suspect_nodes(self) -> list[Reason]:
        """The remarks that a node was slow in the only launch that can show it."""
        return [r for r in self._slow_hosts() if r["launches"] < LIMITS.slow_launches > r["of"]]

    @property
    def exit_code(self) -> Exit:
        """FAILED if anything is wrong, else NOT_MEASURED if anything is missing, else SLOWER if
        anything is slower than before, worse since an earlier session, or a node slower than the
        others, else NOT_MEASURED if anything may be, also of the network, else OK."""
        if self.failures or any(case.verdict == Verdict.FAIL for case in self.cases):
            return Exit.FAILED
        unmeasured = any(case.verdict == Verdict.NOT_MEASURED for case in self.cases)
        measured = self.count(Verdict.PASS) + self.count(Verdict.KNOWN)
        complete = measured and not self.troubles and not unmeasured
        worse = [reason for reason in self.network if reason["drift"]]
        if complete and (self.slower or self.alarms or self.slow_nodes or worse):
            return Exit.SLOWER
        doubts = self.suspects or self.suspect_nodes or self.network
        return Exit.OK if complete and not doubts else Exit.NOT_MEASURED

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> "RunVerdict":
        """What verdict.json holds, of this version or an earlier one."""
        reasons = kept.get("reasons") or kept
        ruled = {
            name: [Reason.read(reason) for reason in reasons.get(name) or [] if reason]
            for name in cls.REASONS
        }
        names = ("tier", "system", "environ", "arguments", "command", "site", "is_local")
        asked = {name: kept[name] for name in names if kept.get(name)}
        return cls(
            cases=[TestResult.from_dict(case) for case in kept.get("cases") or []],
            **ruled,
            nights=kept.get("nights"),
            seconds=kept.get("seconds") or 0.0,
            session=kept.get("session") or "",
            request=Request(**asked),
        )
