"""Lines on times of a run: slower than before, outliers, or not checked yet."""

from collections.abc import Sequence

from bisection.core.format import amount, duration, lasting, number, plural, some
from bisection.core.grouping import grouped
from bisection.core.reasons import Reason
from bisection.core.thresholds import LIMITS
from bisection.core.units import KIND_OF_UNIT
from bisection.report.tables import indented
from bisection.report.words import banner, slow_nodes
from bisection.runs.command import rerun
from bisection.runs.model import RunVerdict, TestResult

MOST = 6  # launches that are listed
WHY = {
    "failed": "not retested: the run failed",
    "off": "not retested (--retest 0)",
    "unmeasured": "the retest did not measure it",
}


def slower_lines(verdict: RunVerdict) -> list[str]:
    """Returns the slower metrics, a line per launch with its worst metric; the outliers;
    what changed since, and the command that measures it again."""
    groups = {"slower than in all of {}, confirmed by a retest": verdict.slower}
    for why in dict.fromkeys(reason["why"] for reason in verdict.outliers):
        group = [reason for reason in verdict.outliers if reason["why"] == why]
        groups["outliers, slower than in all of {}; " + _why(why, group)] = group
    lines = []
    for title, reasons in groups.items():
        if reasons:
            sessions = plural(max(reason["sessions"] for reason in reasons), "earlier session")
            lines += [f"{title.format(sessions)}:", *_table(reasons)]
    if lines:
        lines += [f"    rerun: {rerun(_tests(verdict), verdict.request, LIMITS.fewest - 1)}"]
    return lines


def _table(reasons: Sequence[Reason]) -> list[str]:
    launches = grouped(reasons, lambda r: f"{r['check']} {r['case']} {r['layout']}")
    cells = []
    for launch, group in [*launches.items()][:MOST]:
        worst = max(group, key=lambda reason: (reason["unit"] == "s", reason["factor"]))
        sides = [amount(worst[side], worst["unit"]) for side in ("before", "after")]
        more = f"and {plural(len(group) - 1, 'more metric')}" if group[1:] else ""
        test, factor = f"{worst['method']} {worst['metric']}", f"{number(worst['factor'])} x"
        cells.append([launch, test, " -> ".join(sides), factor, more])
    hidden = sum(map(len, [*launches.values()][MOST:]))
    more = plural(len(launches) - MOST, "more launch", "more launches")
    return indented(cells) + ([f"  and {more}, {plural(hidden, 'metric')}"] if hidden else [])


def _why(why: str, group: Sequence[Reason]) -> str:
    """Returns why outliers were not retested."""
    if why != "budget":
        return WHY[why]
    longest = duration(max(reason["seconds"] for reason in group))
    budget = lasting(group[0]["budget"])
    return f"not retested: a launch takes {longest}, the budget is {budget} (--retest)"


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
    slower, outliers, network = map(len, (verdict.slower, verdict.outliers, verdict.network))
    texts = [f"{plural(slower, 'metric')} slower than before"] if slower else []
    texts += [f"{plural(outliers, 'outlier')} not confirmed"] if outliers else []
    texts += [banner(verdict.alarms)] if verdict.alarms else []
    texts += [f"{plural(network, 'finding')} about the network"] if network else []
    return texts + slow_nodes((), verdict)


def times_judged(verdict: RunVerdict) -> str:
    """Returns a sentence on times that are not checked; "" if all have references."""
    if verdict.nights is None:
        return ""
    metrics = [(f"{c.system}:{c.partition}", m) for c in verdict.judged for m in c.metrics]
    asserted = {place for place, metric in metrics if metric.asserted}
    bare = [place for place in dict(metrics) if place not in asserted]
    if verdict.nights <= LIMITS.fewest and bare:
        has = "has" if len(bare) == 1 else "have"
        nights = plural(verdict.nights, "night")
        needed = f"propose after {LIMITS.reference_sessions}"
        return f"Nothing was judged: {some(bare)} {has} no references ({nights}; {needed})"
    times = [metric for _, metric in metrics if KIND_OF_UNIT.get(metric.unit) == "time"]
    if not times or any(metric.asserted for metric in times):
        return ""
    earlier, needed = verdict.nights - 1, LIMITS.reference_sessions
    if earlier < LIMITS.fewest:
        why = f"reference values need {needed} nights, {verdict.nights} recorded"
        return f"Run times not checked yet: {why}"
    why = f"no references yet ({verdict.nights} of {needed} nights)"
    if verdict.nights >= needed:
        why = "`references propose` makes references"
    return f"Times are judged by {earlier} earlier nights: {why}"
