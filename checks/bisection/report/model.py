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
from bisection.core.reasons import Reason
from bisection.core.verdicts import Against, Exit, Verdict
from bisection.judge.alarms import alarms_of
from bisection.judge.evidence import Evidence
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
    def alarms(self) -> Sequence[Reason]:
        """The events since which metrics are worse, that of most metrics first."""
        run = self.run or RunVerdict()
        events = self.evidence.events
        return run.alarms if self.of_run else [*alarms_of(events, self.run and run.request)]


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
    """The verdict: its state, a key of STATES, and a few words."""
    comparison, run = report.comparison, report.run or RunVerdict()
    counts = Counter(row.verdict for row in report.rows)
    failed = run.count(Verdict.FAIL)
    unmeasured = run.count(Verdict.NOT_MEASURED) or counts[Verdict.NOT_MEASURED]
    below = sum(row.against == Against.BELOW for row in report.rows)
    texts = {
        f"{failed} failed": failed,
        f"Slower than before: {plural(len(run.slower), 'metric')}": run.slower,
        f"{plural(len(run.network), 'finding')} about the network": run.network,
        f"{counts[Verdict.REGRESSED]} regressed": counts[Verdict.REGRESSED],
        f"{counts[Verdict.MISSING]} missing": counts[Verdict.MISSING],
        f"{unmeasured} not measured": unmeasured,
        f"{below} below the expected {comparison.expected if below else 0:g}": below,
    }
    parts = [text for text, holds in texts.items() if holds] + slow_nodes(report.suspects, run)
    nodes = run.slow_nodes if report.run else report.suspects
    worse = failed or run.slower or nodes or counts[Verdict.REGRESSED] or below
    state = BAD if worse else UNMEASURED
    if not parts:
        state, parts = _nothing_wrong(report, counts)
    elif report.alarms:
        parts.append(f"{plural(len(report.alarms), 'alarm')} of the history")
    code = exit_code(report)
    if report.of_run:  # whose verdict no comparison changes
        state = CODES[code] if code else min(state, UNCERTAIN, key=SEVERITY.index)
    else:
        state = max(state, CODES[code], key=SEVERITY.index)
    judged = (Verdict.REGRESSED, Verdict.IMPROVED, Verdict.UNCHANGED, Verdict.MISSING)
    if report.of_run and code == Exit.OK and comparison and not any(counts[v] for v in judged):
        few = min(len(comparison.before), len(comparison.after))
        parts = [f"Everything measured passed; {plural(few, 'session')} per side to compare"]
        state = GOOD
    text = ", ".join(parts)
    if comparison and comparison.unsafe and (failed or report.of_run):  # which need none
        return state, f"{text} (the comparison is not to be trusted)"
    if comparison and comparison.unsafe:
        return UNSAFE, f"Not to be trusted: {text[0].lower()}{text[1:]}"
    return state, text


def _nothing_wrong(report: Report, counts: Counter[Verdict]) -> tuple[str, list[str]]:
    """State and words where no test failed and no row is worse or absent."""
    run, rows = report.run, report.rows
    if run and run.exit_code == Exit.FAILED:
        return BAD, ["The run failed"]
    if run and run.exit_code == Exit.NOT_MEASURED:
        text = f"{plural(len(run.outliers), 'outlier')} not confirmed"
        return UNMEASURED, [text if run.outliers else "Not everything was measured"]
    more = [f"{counts[v]} {v}" for v in (Verdict.IMPROVED, Verdict.INCONCLUSIVE) if counts[v]]
    if alarms := report.alarms:
        return BAD, [banner(alarms), *more]
    if report.comparison is None:
        passed = run and run.exit_code == Exit.OK
        return (GOOD, ["Everything measured passed"]) if passed else (UNMEASURED, ["No verdict"])
    if not rows:
        return UNMEASURED, ["Nothing was compared"]
    beside = any(row.limit is not None for row in rows)
    if not (counts[Verdict.UNCHANGED] or counts[Verdict.IMPROVED] or beside):
        texts = [f"{counts[v]} {v}" for v in (Verdict.INCONCLUSIVE, Verdict.NEW) if counts[v]]
        return UNCERTAIN, [f"{'Nothing judged:' if len(texts) > 1 else 'All'} {', '.join(texts)}"]
    if (slow := slower(rows)) and not report.of_run:  # what its run did not refute
        text = f"{plural(len(slow), 'metric')} slower than in all earlier sessions, not retested"
        return UNMEASURED, [text, *more]
    if better := faster(rows):
        text = f"{plural(len(better), 'metric')} faster than in all earlier sessions"
        return UNCERTAIN, [text, *more]
    return GOOD, ["As in earlier sessions" if beside else "Nothing regressed", *more]


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
