"""The one place that makes an exit code: of a run, a comparison, a history and a report."""

from collections.abc import Collection, Iterable, Iterator
from enum import Enum, auto

from bisection.analysis.judging import CHANGED
from bisection.analysis.model import Comparison, Row
from bisection.analysis.outlying import slower
from bisection.core.reasons.performance import SMALL
from bisection.core.verdicts import COMPARED, Against, Exit, Verdict
from bisection.runs.run_verdict import RunVerdict
from bisection.store.selection import SLOWER


class Weight(Enum):
    """What a finding means. The first of these that there is decides the exit code."""

    WRONG = auto()  # failed, regressed, defective
    UNMEASURED = auto()  # something is missing: what else is slower is not known
    SLOWER = auto()  # confirmed: by a retest, by several launches, by several nights
    DOUBT = auto()  # seen once, or not to be trusted


CODES = {
    Weight.WRONG: Exit.FAILED,
    Weight.UNMEASURED: Exit.NOT_MEASURED,
    Weight.SLOWER: Exit.SLOWER,
    Weight.DOUBT: Exit.NOT_MEASURED,
}
# The findings of a run: verdicts on its tests, and tuples of reasons by their names.
OF_TEST = {Verdict.FAIL: Weight.WRONG, Verdict.NOT_MEASURED: Weight.UNMEASURED}
OF_RUN = {
    "failures": Weight.WRONG,
    "slower": Weight.SLOWER,
    "slow_nodes": Weight.SLOWER,
    "worse_components": Weight.SLOWER,
    "alarms": Weight.SLOWER,
    "troubles": Weight.UNMEASURED,
    "outliers": Weight.DOUBT,
    "suspect_nodes": Weight.DOUBT,
    "network": Weight.DOUBT,
}
# The findings of a comparison, by the names that --fail-on takes.
OUTLIER, NODE = "outlier", "node"
OF_COMPARISON: dict[str, Weight] = {
    **dict.fromkeys(COMPARED, Weight.UNMEASURED),
    OUTLIER: Weight.DOUBT,
    NODE: Weight.SLOWER,
    Verdict.REGRESSED: Weight.WRONG,
    Against.BELOW: Weight.WRONG,
}
# Those that fail unless a person names others.
BAD = (Verdict.REGRESSED, Against.BELOW, Verdict.MISSING, Verdict.NOT_MEASURED)
FAIL_ON = (*BAD, OUTLIER, NODE)


def _decided(weights: Iterable[Weight]) -> Exit:
    there = set(weights)
    return next((code for weight, code in CODES.items() if weight in there), Exit.OK)


def of_run(run: RunVerdict) -> Exit:
    """The exit code of a run, by its verdict."""
    return _decided(_run(run))


def of_comparison(comparison: Comparison, fail_on: Collection[str] = FAIL_ON) -> Exit:
    """The exit code of a comparison; `fail_on`: the names of OF_COMPARISON that are findings, none
    if a person wants no failure."""
    return _decided(_comparison(comparison, fail_on))


def of_history(alarms: Collection[object], is_long: bool) -> Exit:
    """The exit code of a history, which must have enough nights to show a change of level."""
    if not is_long:
        return _decided([Weight.UNMEASURED])
    return _decided([Weight.SLOWER] if alarms else [])


def of_report(
    run: RunVerdict | None,
    comparison: Comparison | None,
    alarms: Collection[object],
    fail_on: Collection[str] = FAIL_ON,
) -> Exit:
    """The exit code of a report on stored sessions: by the verdict of the newest run if it is
    known, the comparison if there is one, and the alarms of the history."""
    if comparison and not fail_on:  # as a person asked for
        return Exit.OK
    weights = [Weight.SLOWER] if alarms else []
    weights += _run(run) if run else ()
    weights += _comparison(comparison, fail_on) if comparison else ()
    return _decided(weights if run or comparison else [Weight.UNMEASURED])


def is_judged(row: Row) -> bool:
    """True if a row is not open, by its sides or as one session beside the earlier ones."""
    sure = row.verdict in (*CHANGED, Verdict.UNCHANGED) or row.limit is not None
    return sure or getattr(row.reason, "group", "") == SMALL


def is_confirmed(comparison: Comparison) -> bool:
    """True if retests confirmed that the sessions after the change were slower."""
    return all(session["tags"].get(SLOWER) == "confirmed" for session in comparison.after)


def _run(run: RunVerdict) -> Iterator[Weight]:
    yield from (OF_TEST[case.verdict] for case in run.cases if case.verdict in OF_TEST)
    yield from (weight for name, weight in OF_RUN.items() if getattr(run, name))
    if not run.count(Verdict.PASS) + run.count(Verdict.KNOWN) + len(run.every_node):
        yield Weight.UNMEASURED


def _comparison(comparison: Comparison, fail_on: Collection[str]) -> Iterator[Weight]:
    there: set[str | None] = {NODE} if comparison.suspects else set()
    there |= {word for row in comparison.rows for word in (row.verdict, row.against)}
    yield from (OF_COMPARISON[name] for name in fail_on if name in there)
    if OUTLIER in fail_on and slower(comparison.rows):
        yield Weight.SLOWER if is_confirmed(comparison) else OF_COMPARISON[OUTLIER]
    if fail_on and (comparison.unsafe or not any(map(is_judged, comparison.rows))):
        yield Weight.DOUBT
