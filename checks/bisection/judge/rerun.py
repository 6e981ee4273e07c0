"""Metrics of a retest, compared with those of the run."""

from collections import defaultdict
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
class Rerun:
    """A metric in the retest: its values, the first on the run's nodes."""

    values: list[float] = field(default_factory=list)
    hosts: list[Sequence[str]] = field(default_factory=list)

    @property
    def value(self) -> float:
        """The mean of the logarithms, as a value."""
        return geometric_mean(self.values)

    def outside(self, low: float, high: float) -> list[str] | None:
        """None if it is within these limits now; else the nodes to which that is bound, if it is
        within them on the others."""
        here, *others = (not low <= value <= high for value in self.values)
        elsewhere = others and not set(self.hosts[0]) & set(self.hosts[-1])
        if elsewhere and here and not any(others):
            return [*self.hosts[0]]
        return None if low <= self.value <= high else []


class Reruns:
    """The metrics of a retest.

    `drift`: how many times as long the control takes as in the run; 1 where it takes less, or is
    none.
    """

    def __init__(self, verdict: RunVerdict, retest: Retest) -> None:
        before, self.values = metric_values(verdict), metric_values(retest.rerun)
        tests = {
            case.identity for case in verdict.judged if case.launch[:-1] == retest.plan.control
        }
        ratios = [
            self.values[key].value / before[key].value
            for key in before.keys() & self.values.keys()
            if key[:-1] in tests and key[-1].startswith("time") and key[-1] not in FEW_SAMPLES
        ]
        self.drift = max(median(ratios), 1.0) if ratios else 1.0

    def metric(self, key: Key, better: str, is_time: bool) -> Rerun | None:
        """A metric, a time without the drift of the machine; None if it was not measured."""
        rerun = self.values.get(key)
        if rerun is None or not is_time:
            return rerun
        factor = 1 / self.drift if better == "lower" else self.drift
        return replace(rerun, values=[value * factor for value in rerun.values])


def metric_values(verdict: RunVerdict | None) -> dict[Key, Rerun]:
    """Returns the results of usable launches of a run, in their order."""
    values: dict[Key, Rerun] = defaultdict(Rerun)
    for case in sorted(verdict.cases if verdict else (), key=lambda case: case.run):
        unmeasured = case.verdict == Verdict.NOT_MEASURED
        if unmeasured or case.record.preempted > LIMITS.preempted_launch:
            continue
        for key, value in _values(case):
            if finite(value) and value > 0:
                values[key].values.append(value)
                values[key].hosts.append(case.record.hosts)
    return values


def _values(case: TestResult) -> Iterator[tuple[Key, float]]:
    """The metrics of a test; the controls of a launch that was placed as requested."""
    if not case.fixture:
        yield from (((*case.identity, metric.name), metric.value) for metric in case.metrics)
    elif case.verdict == Verdict.PASS:
        for name, value in case.record.controls.items():
            test = replace(case, check=case.record.kernel, method=name)
            yield (*test.identity, "clock" if name == "clock" else "time"), value
