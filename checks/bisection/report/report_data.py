"""Everything that a report holds, and its headline."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from bisection.analysis.model import Comparison, Row
from bisection.analysis.outlying import faster, slower
from bisection.analysis.predict import Prediction
from bisection.core.format import plural
from bisection.core.reasons.performance import SlowNode, WorseSince
from bisection.core.verdicts import Against, Exit, Verdict
from bisection.judge import decision
from bisection.judge.alarms import alarms_of
from bisection.judge.evidence import Evidence
from bisection.report import words
from bisection.report.verdict_text import counted
from bisection.runs.run_verdict import RunVerdict

if TYPE_CHECKING:  # loads where a network was measured
    from interconnect.network_verdict import Interconnect


@dataclass
class Report:
    """Everything that a report holds."""

    title: str  # the system and its nodes
    written: float  # Unix time
    evidence: Evidence = field(default_factory=Evidence)
    predictions: list[Prediction] = field(default_factory=list)
    run: RunVerdict | None = None  # on the newest session, if it is known
    of_run: bool = False  # whether the report is part of that run, and has its exit code
    about: str = ""  # the sessions and the software
    folder: Path | None = None  # where it is written, for links to files beside it
    fail_on: Sequence[str] = decision.FAIL_ON  # what of the comparison is a failure

    @property
    def comparison(self) -> Comparison | None:
        return self.evidence.comparison

    @property
    def rows(self) -> Sequence[Row]:
        return self.comparison.rows if self.comparison else ()

    @property
    def suspects(self) -> Sequence[SlowNode]:
        return self.comparison.suspects if self.comparison else ()

    @property
    def interconnect(self) -> "Interconnect | None":
        return self.run.interconnect if self.run else None

    @cached_property
    def alarms(self) -> Sequence[WorseSince]:
        if self.of_run and self.run:
            return self.run.alarms
        return [*alarms_of(self.evidence.events, self.run.request if self.run else None)]

    @property
    def exit_code(self) -> Exit:
        """What banner, JUnit and Prometheus have too. A report that is part of a run has the
        run's."""
        if self.of_run and self.run:
            return decision.of_run(self.run)
        return decision.of_report(self.run, self.comparison, self.alarms, self.fail_on)


GOOD, BAD, UNMEASURED, UNCERTAIN, UNSAFE = "good", "bad", "unmeasured", "uncertain", "unsafe"
# What a headline with this exit code looks like; with 0 also UNCERTAIN.
CODES = {Exit.OK: GOOD, Exit.FAILED: BAD, Exit.NOT_MEASURED: UNMEASURED, Exit.SLOWER: BAD}
# What a verdict looks like: the class of its colour, its symbol.
MARKS = {
    Verdict.REGRESSED: (BAD, "\u25bc"),
    Verdict.FAIL: (BAD, "\u2715"),
    Verdict.MISSING: (UNMEASURED, "\u2205"),
    Verdict.NOT_MEASURED: (UNMEASURED, "?"),
    Verdict.INCONCLUSIVE: (UNCERTAIN, "~"),
    Verdict.IMPROVED: ("better", "\u25b2"),
    Verdict.NEW: ("better", "+"),
    Verdict.UNCHANGED: (GOOD, "="),
    Verdict.PASS: (GOOD, "\u2713"),
    Verdict.KNOWN: (UNCERTAIN, "!"),
    Verdict.NOT_APPLICABLE: ("aside", "\u2212"),
}
STATES = {GOOD: "\u2713", BAD: "\u2715", UNMEASURED: "?", UNCERTAIN: "~", UNSAFE: "!"}


def headline(report: Report) -> tuple[str, str]:
    """The verdict: its state, a key of STATES, and a few words. A report that is part of a run has
    the run's, which no comparison changes."""
    comparison, run, code = report.comparison, report.run, report.exit_code
    if report.of_run and run:
        return CODES[code], counted(run)
    counts = Counter(row.verdict for row in report.rows)
    below = sum(row.against == Against.BELOW for row in report.rows)
    late, early = slower(report.rows), faster(report.rows)
    bad = below or late or early or report.suspects or counts.keys() & decision.BAD
    judged = any(map(decision.is_judged, report.rows))
    clean = not bad and (judged or (run and not comparison))
    state = CODES[code] if code or clean else UNCERTAIN
    parts = [counted(run)] if run and (decision.of_run(run) or not comparison) else []
    parts += [words.banner(report.alarms)] if report.alarms else []
    parts += ["Nothing regressed"] if comparison and state == GOOD else []
    less = [Verdict.UNCHANGED, *[Verdict.INCONCLUSIVE] * bool(report.alarms)]  # of interest
    parts += words.counted(comparison, less) if comparison else []
    expected = comparison.expected if comparison else None
    parts += [f"{below} below the expected {expected:g}"] if below else []
    if late and comparison:
        sure = "" if decision.is_confirmed(comparison) else ", not retested"
        parts.append(f"{plural(len(late), 'metric')} slower than before{sure}")
    parts += [f"{plural(len(early), 'metric')} faster than before"] if early else []
    parts += words.slow_nodes(report.suspects, RunVerdict())
    text = ", ".join(parts) or ("Nothing was compared" if comparison else "No verdict")
    failed = run and decision.of_run(run) == Exit.FAILED
    unsafe = comparison and comparison.unsafe and not failed
    return (UNSAFE, f"Not to be trusted: {text}") if unsafe else (state, text)
