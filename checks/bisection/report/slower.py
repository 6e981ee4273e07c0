"""Lines on times of a run: slower than before, outliers, or not checked yet."""

from collections.abc import Sequence

from bisection.core.format import amount, duration, lasting, number, plural, some
from bisection.core.reasons import Reason
from bisection.core.thresholds import LIMITS
from bisection.core.units import KIND_OF_UNIT
from bisection.report.events import banner
from bisection.report.tables import columns
from bisection.report.words import slow_nodes
from bisection.runs.command import rerun
from bisection.runs.model import RunVerdict, TestResult

MOST = 6  # launches that are listed


def slower_lines(verdict: RunVerdict) -> list[str]:
    """Returns the slower metrics, a line per launch with its worst metric; the outliers;
    what changed since, and the command that measures it again."""
    lines = []
    if verdict.slower:
        sessions = plural(max(reason["sessions"] for reason in verdict.slower), "earlier session")
        lines.append(f"slower than in all of {sessions}, confirmed by a retest:")
        lines += _table(verdict.slower)
    for why in dict.fromkeys(reason["why"] for reason in verdict.outliers):
        group = [reason for reason in verdict.outliers if reason["why"] == why]
        sessions = plural(max(reason["sessions"] for reason in group), "earlier session")
        lines.append(f"outliers, slower than in all of {sessions}; {_why(why, group)}:")
        lines += _table(group)
    if lines:
        lines += [f"    rerun: {rerun(_tests(verdict), verdict.request, LIMITS.fewest - 1)}"]
    return lines


def _table(reasons: Sequence[Reason]) -> list[str]:
    launches: dict[tuple[str, ...], list[Reason]] = {}
    for reason in reasons:
        launches.setdefault((reason["check"], reason["case"], reason["layout"]), []).append(reason)
    cells = []
    for names, group in list(launches.items())[:MOST]:
        worst = max(group, key=lambda reason: (reason["unit"] == "s", reason["factor"]))
        sides = [amount(worst[side], worst["unit"]) for side in ("before", "after")]
        more = f"and {plural(len(group) - 1, 'more metric')}" if group[1:] else ""
        test = f"{worst['method']} {worst['metric']}"
        cells.append(
            [" ".join(names), test, " -> ".join(sides), f"{number(worst['factor'])} x", more]
        )
    lines = [f"  {line}" for line in columns(cells)]
    hidden = sum(map(len, list(launches.values())[MOST:]))
    more = plural(len(launches) - MOST, "more launch", "more launches")
    return lines + ([f"  and {more}, {plural(hidden, 'metric')}"] if hidden else [])


def _why(why: str, group: Sequence[Reason]) -> str:
    """Returns why outliers were not retested."""
    if why == "budget":
        longest = duration(max(reason["seconds"] for reason in group))
        budget = lasting(group[0]["budget"])
        return f"not retested: a launch takes {longest}, the budget is {budget} (--retest)"
    return {
        "failed": "not retested: the run failed",
        "off": "not retested (--retest 0)",
        "unmeasured": "the retest did not measure it",
    }[why]


def _tests(verdict: RunVerdict) -> list[TestResult]:
    """The tests that are slower, and those with outliers."""
    names = ("system", "partition", "environ", "case", "layout")
    places = {tuple(r[name] for name in names) for r in [*verdict.slower, *verdict.outliers]}
    checks = {reason["check"] for reason in [*verdict.slower, *verdict.outliers]}
    return [
        case
        for case in verdict.judged
        if tuple(getattr(case, name) for name in names) in places
        and (case.check in checks or case.record.kernel in checks)
    ]


def counts(verdict: RunVerdict) -> list[str]:
    """Returns how many metrics are slower, and how many may be, for the verdict's sentence."""
    texts = (
        [f"{plural(len(verdict.slower), 'metric')} slower than before"] if verdict.slower else []
    )
    outliers = plural(len(verdict.outliers), "outlier")
    texts += [f"{outliers} not confirmed"] if verdict.outliers else []
    texts += [banner(verdict.alarms)] if verdict.alarms else []
    if verdict.network:
        texts.append(f"{plural(len(verdict.network), 'finding')} about the network")
    return texts + slow_nodes(None, verdict)


def _bare(verdict: RunVerdict) -> list[str]:
    """The partitions whose metrics are all without bounds."""
    asserted: dict[str, bool] = {}
    for case in verdict.judged:
        place = f"{case.system}:{case.partition}"
        for metric in case.metrics:
            asserted[place] = asserted.get(place, False) or metric.asserted
    return [place for place, judged in asserted.items() if not judged]


def times_judged(verdict: RunVerdict) -> str:
    """Returns a sentence on times that are not checked; "" if all have references."""
    if verdict.nights is not None and verdict.nights <= LIMITS.fewest and (bare := _bare(verdict)):
        has = "has" if len(bare) == 1 else "have"
        nights = plural(verdict.nights, "night")
        needed = f"propose after {LIMITS.reference_sessions}"
        return f"Nothing was judged: {some(bare)} {has} no references ({nights}; {needed})"
    times = [
        metric
        for case in verdict.judged
        for metric in case.metrics
        if KIND_OF_UNIT.get(metric.unit) == "time"
    ]
    if not times or any(metric.asserted for metric in times) or verdict.nights is None:
        return ""
    earlier, needed = verdict.nights - 1, LIMITS.reference_sessions
    if earlier < LIMITS.fewest:
        why = f"reference values need {needed} nights, {verdict.nights} recorded"
        return f"Run times not checked yet: {why}"
    why = f"no references yet ({verdict.nights} of {needed} nights)"
    if verdict.nights >= needed:
        why = "`references propose` makes references"
    return f"Times are judged by {earlier} earlier nights: {why}"
