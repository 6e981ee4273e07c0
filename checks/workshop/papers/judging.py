"""The findings of the four papers beside what our kernels show on simulated machines."""

from collections.abc import Sequence
from dataclasses import dataclass

from bisection.core.format import number, plural
from bisection.core.verdicts import Exit, Word
from papers.observables import Finding, Kind, Lookup, Observable, Unmeasured
from workshop.papers import simulation


class Shown(Word):
    """Verdicts on a finding of a paper."""

    TRUE = "true"
    FALSE = "false"
    NOT_RUN = "not run"
    TEST = "test"  # by a test of our kernels
    TYPED = "typed"  # published numbers alone are tested
    MISSING = "missing"


PARTS = 2  # of a finding that are named


PLAIN = {"test": Shown.TEST, "typed": Shown.TYPED, "missing": Shown.MISSING}


@dataclass
class Part:
    """An observable, and its value."""

    observable: Observable
    value: float | None  # None: not measured

    @property
    def ratio(self) -> float | None:
        """The value over the published number; None without either."""
        number = self.observable.number
        return self.value / number if self.value is not None and number else None

    @property
    def holds(self) -> bool:
        """True if the value agrees with what was published."""
        return self.value is not None and self.observable.holds(self.value)


@dataclass
class Judged:
    """A finding with its verdict."""

    finding: Finding
    parts: list[Part]
    verdict: Shown
    reasons: list[str]
    fitted: dict[str, list[str]]  # quantity -> machines

    @property
    def strictly(self) -> Shown:
        """The verdict if each printed number decides, those of kind NUMBER too: some of these were
        RATIO until the values were known."""
        true = self.verdict == Shown.TRUE
        return Shown.FALSE if true and not all(p.holds for p in self.parts) else self.verdict

    @property
    def unexpected(self) -> bool:
        """True if it is false and no change is known that makes it true, or true though something
        is listed as lacking."""
        if self.verdict == Shown.TRUE:
            return bool(self.finding.lacking)
        return self.verdict == Shown.FALSE and not self.finding.change


def judged(finding: Finding, lookup: Lookup) -> Judged:
    """A finding with its verdict: it is true if every part of it holds that is no mere number."""
    parts, missing = [], []
    for observable in finding.observables:
        try:
            parts.append(Part(observable, observable.value(lookup)))
        except Unmeasured as error:
            parts.append(Part(observable, None))
            missing.append(error)
    decisive = [part for part in parts if part.observable.kind != Kind.NUMBER]
    wrong = [part for part in decisive if part.value is not None and not part.holds]
    reasons: list[str] = []
    if wrong:
        off = [
            f"{part.observable.expression} is {number(part.value)}, not {part.observable.published}"
            for part in wrong[:PARTS]
            if part.value is not None
        ]
        more = f"; and {len(wrong) - PARTS} more" if wrong[PARTS:] else ""
        reasons.append("; ".join(off) + more)
    if missing:
        point = missing[0].point
        where = f"{point.kernel} {point.case} on {plural(point.cores, 'core')} of {point.machine}"
        metric = f"{point.method} {missing[0].metric}"
        counts = f"{len(missing)} of {len(parts)} not measured"
        reasons.append(f"{counts}, the first by {where}, {metric}")
    if finding.by in PLAIN:
        verdict = PLAIN[finding.by]
    else:
        verdict = Shown.FALSE if wrong else Shown.NOT_RUN if missing else Shown.TRUE
    if finding.by == "missing":
        reasons.append(f"needs {finding.where}")
    if finding.lacking:
        mends = f"true with {finding.change}" if finding.change else "not explained; perhaps"
        if verdict == Shown.TRUE:
            reasons.append(f"shown, though {finding.lacking}: mend findings.csv")
        elif finding.by in PLAIN:  # nothing to be tested
            reasons.append(finding.lacking)
        else:
            reasons.append(f"{mends}: {finding.lacking}")
    return Judged(finding, parts, verdict, reasons, fitted(finding.id))


def fitted(finding: str) -> dict[str, list[str]]:
    """Which values of simulated machines were fitted to a finding: quantity -> machines."""
    quantities: dict[str, list[str]] = {}
    for row in simulation.rows():
        if row["fits"] == finding:
            quantities.setdefault(row["quantity"], []).extend(row["machines"].split())
    return quantities


def counts(rows: Sequence[Judged], strictly: bool) -> tuple[int, int, int]:
    """Findings that simulated machines show without and with a value fitted to them, and those that
    they do not show."""
    verdicts = [(row.strictly if strictly else row.verdict, bool(row.fitted)) for row in rows]
    by_fit = verdicts.count((Shown.TRUE, True))
    return verdicts.count((Shown.TRUE, False)), by_fit, sum(v == Shown.FALSE for v, _ in verdicts)


def numbers(rows: Sequence[Judged]) -> list[Part]:
    """The published numbers that were simulated, within 25% or not."""
    return [
        part
        for row in rows
        for part in row.parts
        if part.observable.kind in (Kind.RATIO, Kind.NUMBER) and part.value is not None
    ]


def exit_code(rows: Sequence[Judged]) -> Exit:
    """FAILED if a finding is false and not explained, or true though something is listed as
    lacking; NOT_MEASURED if launches are missing."""
    if any(row.unexpected for row in rows):
        return Exit.FAILED
    missing = any(row.verdict == Shown.NOT_RUN for row in rows)
    return Exit.NOT_MEASURED if missing else Exit.OK
