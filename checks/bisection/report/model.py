"""Everything that a report holds, and its headline."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from bisection.analysis.model import Comparison, Row, Suspect
from bisection.analysis.outlying import faster, slower
from bisection.analysis.predict import Prediction
from bisection.core.format import plural
from bisection.core.reasons.performance import WorseSince
from bisection.core.verdicts import COMPARED, Against, Exit, Verdict
from bisection.judge.alarms import alarms_of
from bisection.judge.evidence import Evidence
from bisection.report.run import counted
from bisection.report.words import banner, slow_nodes
from bisection.runs.model import Interconnect, RunVerdict


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

    @property
    def comparison(self) -> Comparison | None:
        """The comparison with other sessions; None without one."""
        return self.evidence.comparison

    @property
    def rows(self) -> Sequence[Row]:
        """The rows of the comparison."""
        return self.comparison.rows if self.comparison else ()

    @property
    def suspects(self) -> Sequence[Suspect]:
        """Slow nodes by the comparison."""
        return self.comparison.suspects if self.comparison else ()

    @property
    def interconnect(self) -> Interconnect | None:
        """The verdict on the network, if that is what the run was asked for."""
        return self.run.interconnect if self.run else None

    @cached_property
    def alarms(self) -> Sequence[WorseSince]:
        """The events since which metrics are worse, that of most metrics first."""
        run = self.run or RunVerdict()
        events = self.evidence.events
        return (
            run.alarms if self.of_run else [*alarms_of(events, run.request if self.run else None)]
        )


GOOD, BAD, UNMEASURED, UNCERTAIN, UNSAFE = "good", "bad", "unmeasured", "uncertain", "unsafe"
SEVERITY = (GOOD, UNCERTAIN, UNMEASURED, BAD)
# What a headline with this exit code looks like at least.
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
    comparison, run, code = report.comparison, report.run, exit_code(report)
    if report.of_run and run:
        return CODES[code], counted(run)
    counts = Counter(row.verdict for row in report.rows)
    below = sum(row.against == Against.BELOW for row in report.rows)
    late, early = slower(report.rows), faster(report.rows)
    limited = any(row.limit is not None for row in report.rows)
    judged = limited or counts[Verdict.UNCHANGED] or counts[Verdict.IMPROVED]
    state = GOOD if judged or (run and not comparison) else UNCERTAIN
    if counts[Verdict.REGRESSED] or below or report.suspects:
        state = BAD
    elif counts[Verdict.MISSING] or counts[Verdict.NOT_MEASURED] or late:
        state = UNMEASURED
    elif early:
        state = UNCERTAIN
    state = max(state, CODES[code], key=SEVERITY.index)
    parts = [counted(run)] if run and (run.exit_code or not comparison) else []
    parts += [banner(report.alarms)] if report.alarms else []
    parts += ["Nothing regressed"] if comparison and state == GOOD else []
    parts += [f"{counts[v]} {v}" for v in COMPARED if counts[v] and v != Verdict.UNCHANGED]
    expected = comparison.expected if comparison else None
    parts += [f"{below} below the expected {expected:g}"] if below else []
    parts += [f"{plural(len(late), 'metric')} slower than before, not retested"] if late else []
    parts += [f"{plural(len(early), 'metric')} faster than before"] if early else []
    parts += slow_nodes(report.suspects, RunVerdict())
    text = ", ".join(parts) or ("Nothing was compared" if comparison else "No verdict")
    unsafe = comparison and comparison.unsafe and not (run and run.exit_code == Exit.FAILED)
    return (UNSAFE, f"Not to be trusted: {text}") if unsafe else (state, text)


def exit_code(report: Report) -> Exit:
    """Returns what follows from the report: banner, JUnit and Prometheus have it too.

    It is the run's exit code if the report is part of a run; else the worst one of the comparison,
    of the run that it is about, and of what its history says.
    """
    comparison = report.comparison
    codes = [report.run.exit_code] if report.run else []
    if report.of_run:
        return codes[0]
    if comparison and not comparison.fail_on:  # as a person asked for
        return comparison.exit_code
    if comparison:
        codes.append(comparison.exit_code)
    codes = codes or [Exit.NOT_MEASURED]
    codes += [Exit.FAILED] if report.alarms else []
    return min((code for code in codes if code), default=Exit.OK)
