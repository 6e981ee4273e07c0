"""Results of a retest, compared with those of the run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import geometric_mean, median

from bisection.analysis.outlying import FEW_SAMPLES
from bisection.core.format import finite
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict
from bisection.judge.evidence import Retest
from bisection.runs.model import RunVerdict, TestResult

Key = tuple[str, ...]  # a test's identity, and the name of a metric behind it


@dataclass
class Again:
    """A metric in the retest: its values, the first on the run's nodes."""

    values: list[float] = field(default_factory=list)
    hosts: list[Sequence[str]] = field(default_factory=list)

    @property
    def value(self) -> float:
        """The mean of the logarithms, as a value."""
        return geometric_mean(self.values)

    def by(self, drift: float, better: str) -> "Again":
        """The same without what the whole machine was slower by."""
        factor = 1 / drift if better == "lower" else drift
        return replace(self, values=[value * factor for value in self.values])

    def outside(self, low: float, high: float) -> list[str] | None:
        """None if it is within these bounds now; else the nodes to which that is bound, if it is
        within them on the others."""
        here, *others = (not low <= value <= high for value in self.values)
        elsewhere = others and not set(self.hosts[0]) & set(self.hosts[-1])
        if elsewhere and here and not any(others):
            return [*self.hosts[0]]
        return None if low <= self.value <= high else []


def metric_values(verdict: RunVerdict | None) -> dict[Key, Again]:
    """Returns the results of usable launches of a run, in their order."""
    values: dict[Key, Again] = {}
    for case in sorted(verdict.cases if verdict else (), key=lambda case: case.run):
        unmeasured = case.verdict == Verdict.NOT_MEASURED
        if unmeasured or case.record.preempted > LIMITS.preempted_launch:
            continue
        for key, value in _values(case):
            if finite(value) and value > 0:
                again = values.setdefault(key, Again())
                again.values.append(value)
                again.hosts.append(case.record.hosts)
    return values


def _values(case: TestResult) -> Iterator[tuple[Key, float]]:
    """The metrics of a test; the controls of a launch that was placed as asked."""
    if not case.fixture:
        yield from (((*case.identity, metric.name), metric.value) for metric in case.metrics)
    elif case.verdict == Verdict.PASS:
        for name, value in case.record.controls.items():
            test = replace(case, check=case.record.kernel, method=name)
            yield (*test.identity, "clock" if name == "clock" else "time"), value


def drift(verdict: RunVerdict, retest: Retest) -> float:
    """Returns how many times as long the control takes as before; 1 where it takes less, or is
    none."""
    control, before, now = retest.plan.control, metric_values(verdict), metric_values(retest.again)
    tests = {case.identity for case in verdict.judged if case.launch[:-1] == control}
    ratios = [
        now[key].value / before[key].value
        for key in before.keys() & now.keys()
        if key[:-1] in tests and key[-1].startswith("time") and key[-1] not in FEW_SAMPLES
    ]
    return max(median(ratios), 1.0) if ratios else 1.0
