"""A run judged: its cases, their metrics, what follows."""

from dataclasses import dataclass, field

from bisection.core.format import duration, number
from bisection.core.verdicts import (
    ALL_PASSED,
    FAIL,
    KNOWN,
    NOT_ALL_MEASURED,
    NOT_APPLICABLE,
    NOT_MEASURED,
    PASS,
    SOME_FAILED,
)


@dataclass
class Metric:
    """A measured value; `low` and `high` are what may pass, None where nothing is asserted."""

    name: str
    value: float
    unit: str
    low: float | None
    high: float | None
    verdict: str

    @property
    def asserted(self):
        return self.low is not None or self.high is not None

    @property
    def strain(self):
        """How near to its bounds a value is: 0 in the middle, 1 on a bound, above 1 outside."""
        if self.low is None or self.high is None:
            return 0.0
        middle, half = (self.high + self.low) / 2, (self.high - self.low) / 2
        return abs(self.value - middle) / half if half else float(self.value != middle)


@dataclass
class Case:
    """One test case of ReFrame's report and what became of it."""

    test: str  # as ReFrame displays it
    hash: str  # for -n /hash
    check: str
    kernel: str
    case: str
    layout: str
    geometry: str
    method: str
    partition: str
    environ: str
    built_with: str
    run: int
    fixture: bool
    verdict: str
    cause: str
    disturbed: float  # share of samples in which other processes took a core
    remark: str  # what a person should know though nothing is wrong
    folders: list[str]  # where ReFrame left its files
    files: str = ""  # where they are kept
    ran: bool = True  # False: the run stopped before it
    hosts: list[str] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)

    @property
    def launch(self):
        """What the cases of one launch have in common."""
        return self.kernel, self.case, self.layout, self.partition, self.environ, self.run

    @property
    def place(self):
        """Words that name the launch, or the build, that the case is about."""
        words = [self.check, self.case, self.layout]
        return " ".join(word for word in words if word) + f" ({self.environ})"


@dataclass
class Verdict:
    """The cases of one run, what is wrong with the run as a whole, and what follows from both."""

    cases: list[Case]
    troubles: list[str]  # each one line; the run is not complete
    failures: list[str]  # each one line; wrong, but of no selected case
    seconds: float
    session: str

    @property
    def judged(self):
        return [case for case in self.cases if not case.fixture]

    @property
    def bad(self):
        """Failed and unmeasured cases; a fixture stands for the cases that depend on it."""
        return [case for case in self.cases if case.verdict in (FAIL, NOT_MEASURED)]

    def count(self, verdict):
        return sum(case.verdict == verdict for case in self.judged)

    @property
    def exit_code(self):
        if self.failures or any(case.verdict == FAIL for case in self.cases):
            return SOME_FAILED
        unmeasured = any(case.verdict == NOT_MEASURED for case in self.cases)
        measured = self.count(PASS) + self.count(KNOWN)
        return NOT_ALL_MEASURED if self.troubles or unmeasured or not measured else ALL_PASSED

    @property
    def sentence(self):
        """The verdict in one line, with counts and the duration."""
        word = {ALL_PASSED: "PASS", SOME_FAILED: "FAIL", NOT_ALL_MEASURED: "NOT MEASURED"}
        counts = [f"{self.count(PASS)} of {len(self.judged)} checks passed"]
        counts += [
            f"{self.count(verdict)} {name}"
            for verdict, name in (
                (FAIL, "failed"),
                (NOT_MEASURED, "not measured"),
                (NOT_APPLICABLE, "not applicable here"),
                (KNOWN, "failed as known"),
            )
            if self.count(verdict)
        ]
        if not self.judged:
            counts = ["no check ran"]
        return f"{word[self.exit_code]}: {', '.join(counts)}, in {duration(self.seconds)}"


def span(metric):
    ends = ["open" if end is None else number(end) for end in (metric.low, metric.high)]
    return "..".join(ends)
