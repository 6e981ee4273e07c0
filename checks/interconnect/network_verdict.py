"""The verdict on a network: its findings, what was not measured, and both as lines of text."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from bisection.core.format import plural, short, some
from bisection.core.grouping import grouped
from bisection.core.reasons.base import Reason
from bisection.core.verdicts import Grade
from bisection.runs.run_verdict import read_each
from interconnect.reasons import PartUnmeasured, SlowComponent

LINES = 8  # findings of a terminal


class NetworkFinding(NamedTuple):
    """A finding against a network."""

    grade: Grade
    reason: Reason


@dataclass(frozen=True)
class Interconnect:
    """The verdict of a run on its network."""

    findings: tuple[NetworkFinding, ...]  # against the network, the worst first
    unmeasured: tuple[PartUnmeasured, ...]

    @property
    def grade(self) -> Grade:
        return self.findings[0].grade if self.findings else Grade.GO

    @property
    def bad(self) -> list[SlowComponent]:
        return [
            reason
            for grade, reason in self.findings
            if grade == Grade.NO_GO and isinstance(reason, SlowComponent)
        ]

    @property
    def headline(self) -> str:
        """The verdict in a few words, with the bad components by name."""
        bad = [component.name for component in self.bad]
        others = len(self.findings) - len(bad)
        parts = [f"{some(bad, 3)} slow"] if bad else []
        parts += [plural(others, "other finding" if bad else "finding")] if others else []
        missing = len({reason.check for reason in self.unmeasured})
        parts += [f"{plural(missing, 'part')} not measured"] if missing else []
        return f"Network: {self.grade}" + (f" ({', '.join(parts)})" if parts else "")

    def lines(self) -> list[str]:
        """Lines of a terminal: the verdict, the findings, what was not measured."""
        lines = [f"  {f.grade}: {f.reason}" for f in self.findings[:LINES]]
        left = len(self.findings) - len(lines)
        lines += [f"  {plural(left, 'more finding')} in the report"] if left else []
        missing = grouped(self.unmeasured, lambda reason: str(reason.why))
        parts = [f"{', '.join(r.check for r in part)} ({why})" for why, part in missing.items()]
        lines += [f"  not measured: {short('; '.join(parts), 400)}"] if parts else []
        return [self.headline, *lines]

    @classmethod
    def from_dict(cls, kept: Mapping[str, Any]) -> "Interconnect":
        """The verdict as verdict.json has it; LookupError if it is of another version."""
        grades, reasons = zip(*kept["findings"], strict=True) if kept["findings"] else ((), ())
        findings = map(NetworkFinding, map(Grade, grades), read_each(Reason, reasons))
        return cls(tuple(findings), read_each(PartUnmeasured, kept["unmeasured"]))
