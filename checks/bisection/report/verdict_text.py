"""A run's verdict for people: a mail, and the table of all tests."""

import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from bisection.core import paths
from bisection.core.format import amount, duration, finite, number, plain, plural, short, some, utc
from bisection.core.grouping import grouped
from bisection.core.reasons import DISTURBED
from bisection.core.reasons.base import Reason, Text, clause
from bisection.core.reasons.launches import KernelsKept, LaunchFault, Remarks, Stopped, span
from bisection.core.reasons.machines import LibraryWarns, NodeJudged
from bisection.core.reasons.performance import FactChanged, MetricMoved, WorseSince, not_retested
from bisection.core.thresholds import LIMITS
from bisection.core.units import KIND_OF_UNIT
from bisection.core.verdicts import Exit, Verdict
from bisection.judge import decision
from bisection.judge.every_node import Judged
from bisection.kernels.layouts import ON_DEVICES
from bisection.report.lines import WIDTH, commanded, wrapped
from bisection.report.text_tables import indented, noted
from bisection.report.words import MOST, banner, next_steps, slow_nodes
from bisection.runs.command import dependents, rerun
from bisection.runs.run_verdict import JudgedMetric, RunVerdict, TestResult

NAMES = {
    Exit.OK: "PASS",
    Exit.FAILED: "FAIL",
    Exit.NOT_MEASURED: "NOT MEASURED",
    Exit.SLOWER: "SLOWER THAN BEFORE",
}


def text(verdict: RunVerdict, verbose: bool = False) -> list[str]:
    """The verdict as lines: its sentence, failures first, a line per kernel and case; the table of
    all tests, if `verbose`."""
    times = filter(None, [times_judged(verdict)])
    lines = [plain(counted(verdict, timed=True)), *wrapped(*times, indent="    ")]
    lines += [
        *failures(verdict),
        *every_node(verdict),
        *slower_lines(verdict),
        *alarms(verdict.alarms),
    ]
    changes = [remark for remark in verdict.remarks if isinstance(remark, FactChanged)]
    lines += wrapped(*(f"changed since {utc(change.since)}: {change}" for change in changes))
    lines += [*summary(verdict), ""]
    lines += [*table(verdict), ""] if verbose and verdict.judged else []
    lines += notes(verdict, verbose)
    cores, nodes = map(number, verdict.price)  # of all launches, with those that were repeated
    price = f"price: {cores} core-hours ({nodes} node-hours)"
    return [*lines, price] if verdict.price.node_hours else lines


def sentence(verdict: RunVerdict) -> str:
    """The verdict in one sentence; in a second one how times are judged, where no references of
    times are."""
    return ". ".join(filter(None, [counted(verdict, timed=True), times_judged(verdict)]))


def counted(verdict: RunVerdict, timed: bool = False) -> str:
    """The verdict by the finding that decides it, then the counts of all findings, also of those
    that decide nothing; `timed`: with the time that it took. All forms begin with it."""
    counts = [*_nodes(verdict), *_counts(verdict)]
    counts += [f"in {duration(verdict.seconds)}"] if timed else []
    counts[-1:] = ["; ".join([counts[-1], *_findings(verdict)])]
    return f"{NAMES[decision.of_run(verdict)]}: {', '.join(counts)}"


def _nodes(verdict: RunVerdict) -> list[str]:
    """How the nodes of a campaign came out, but those that are slow, which are findings."""
    counts = Counter(row.verdict for row in verdict.every_node)
    texts = [f"{counts[word]} {word}" for word in (Judged.FAILED, Judged.OPEN) if counts[word]]
    passed = f"{counts[Judged.OK]} of {plural(len(verdict.every_node), 'node')} as their peers"
    return [passed, *texts] if counts else []


def _counts(verdict: RunVerdict) -> list[str]:
    """How the tests came out."""
    if not verdict.judged:
        return ["no check ran"]
    disturbed, passed = len(verdict.lost_to_others), verdict.count(Verdict.PASS)
    applicable = len(verdict.judged) - verdict.count(Verdict.NOT_APPLICABLE)
    if disturbed and passed + disturbed == applicable:
        if applicable == 1:
            return ["the answer is right; its times were disturbed"]
        return [f"all {applicable} answers are right; the times of {disturbed} were disturbed"]
    numbers = [
        (verdict.count(Verdict.FAIL), "failed"),
        (verdict.count(Verdict.NOT_MEASURED) - disturbed, "not measured"),
        (disturbed, "disturbed"),
        (verdict.count(Verdict.KNOWN), "failed as known"),
    ]
    parts = [f"{number} {name}" for number, name in numbers if number]
    return [f"{passed} of {applicable} checks passed", *parts]


def _findings(verdict: RunVerdict) -> list[str]:
    """The findings on the run as a whole, and possible ones (decision.OF_RUN), the worst first."""
    kinds = Counter(failure.counted or ("failure",) for failure in verdict.failures)
    troubles, slower, outliers = map(len, (verdict.troubles, verdict.slower, verdict.outliers))
    network = len(verdict.worse_components) + len(verdict.network)
    texts = [plural(count, *words) for words, count in kinds.items()]
    texts += [plural(troubles, "trouble")] if troubles else []
    texts += slow_nodes((), verdict)
    texts += [f"{plural(slower, 'metric')} slower than before"] if slower else []
    texts += [banner(verdict.alarms)] if verdict.alarms else []
    texts += [f"{plural(outliers, 'outlier')} not confirmed"] if outliers else []
    return texts + ([f"{plural(network, 'finding')} about the network"] if network else [])


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
        return f"Only answers were judged: {some(bare)} {has} no references ({nights}; {needed})"
    times = [metric for _, metric in metrics if KIND_OF_UNIT.get(metric.unit) == "time"]
    if not times or any(metric.asserted for metric in times):
        return ""
    needed = LIMITS.reference_sessions
    if verdict.nights <= LIMITS.fewest:
        why = f"reference values need {needed} nights, {verdict.nights} recorded"
        return f"Run times not checked yet: {why}"
    why = f"no references yet ({verdict.nights} of {needed} nights)"
    if verdict.nights >= needed:
        why = "`references propose` makes references"
    return f"Times are judged by earlier nights: {why}"


# ---- what went wrong ----


def failures(verdict: RunVerdict) -> list[str]:
    """Returns the failures: place, cause, and the command for a rerun."""
    lines = [f"trouble: {trouble}" for trouble in verdict.troubles]
    lines += [f"FAIL: {failure}" for failure in verdict.failures]
    doubts = (*verdict.worse_components, *verdict.network)
    lines += [f"network: {finding}" for finding in doubts]
    lines = wrapped(*lines)
    for group in failure_groups(verdict):
        lines += [f"{group.verdict}: {group.where}", *wrapped(*group.causes, indent="    ")]
        lines += commanded("rerun", group.rerun, "    ")
        lines += commanded("files", group.files, "    ") if group.files else []
    return lines


NODES = 16  # rows of a table that has all nodes; of more, only those that are not as their peers
EVERY_NODE: tuple[tuple[str, str, Callable[[NodeJudged], str]], ...] = (
    ("node", "text", lambda row: row.node),
    ("verdict", "text", lambda row: row.verdict),
    ("worst metric beside its peers", "text", lambda row: row.worst),
    ("when", "text", lambda row: utc(row.at) if row.at else ""),
    ("why", "small", lambda row: row.why),
)


def every_node(verdict: RunVerdict) -> list[str]:
    """The table of a campaign over every node, the worst first."""
    rows = verdict.every_node
    if not rows:
        return []
    counts = Counter(row.verdict for row in rows)
    head = f"{plural(len(rows), 'node')}: {', '.join(f'{n} {v}' for v, n in counts.items())}"
    shown = rows if len(rows) <= NODES else [r for r in rows if r.verdict != Judged.OK]
    table = noted(shown, EVERY_NODE[:-1], attrgetter("why"), 2 * NODES) if shown else []
    left = len(rows) - min(len(shown), 2 * NODES)
    more = [f"and {left:,} more, in the report"] if left else []
    return ["", head, *(f"  {line}" for line in [*table, *more])]


class FailureGroup(NamedTuple):
    """Tests that went wrong alike, on one launch or on several."""

    verdict: Verdict
    where: str  # the launches
    causes: list[str]  # methods, and why
    rerun: str  # command
    files: str  # pattern; "" if nothing ran
    cases: list[TestResult]


def what_next(reason: Reason | None) -> str:  # "" if nothing is known
    return reason.next if isinstance(reason, Text | LaunchFault | LibraryWarns) else ""


def failure_groups(verdict: RunVerdict) -> list[FailureGroup]:
    """Returns failed and unmeasured tests in groups of equal causes; failures first.
    Tests that only follow another one's failure are left out."""
    bad = [case for case in verdict.bad if not (case.lost_to_others or case.follows)]
    bad.sort(key=lambda case: case.verdict != Verdict.FAIL)
    alike: dict[tuple[Verdict, tuple[str, ...]], list[TestResult]] = {}
    for (kind, _), launch in grouped(bad, lambda case: (case.verdict, case.group)).items():
        lines = []
        for cause, cases in grouped(launch, lambda case: clause(case.reason)).items():
            own = [case for case in cases if case.reason not in verdict.troubles]
            methods = ", ".join(dict.fromkeys(case.method for case in own if case.method))
            lines.append(f"{methods}: {cause}" if methods else cause)
            steps = dict.fromkeys(step for case in own if (step := what_next(case.reason)))
            lines += [f"next: {step}" for step in steps]
        alike.setdefault((kind, tuple(lines)), []).extend(launch)
    groups = [
        _group(kind, lines, rerun(dependents(verdict, cases) or cases, verdict.request), cases)
        for (kind, lines), cases in alike.items()
    ]
    if lost := sorted(verdict.lost_to_others, key=lambda case: -case.record.lost_part):
        worst = {type(case.reason): case.reason for case in reversed(lost)}
        count = len({case.group for case in lost})
        of = f" (the worst of {count} launches)" if count > 1 else ""
        causes = [clause(reason) + of for reason in worst.values()]
        groups.append(_group(Verdict.NOT_MEASURED, causes, _in_quiet(verdict), lost))
    return groups


def _group(
    kind: Verdict, causes: Iterable[str], command: str, cases: list[TestResult]
) -> FailureGroup:
    places = list(dict.fromkeys(case.group for case in cases))
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    files = next((case.files for case in cases if case.ran and case.files), "")
    files = paths.shown(paths.ROOT / files) if files else ""
    return FailureGroup(kind, ", ".join(places[:3]) + more, list(causes), command, files, cases)


def _in_quiet(verdict: RunVerdict) -> str:
    wait = " --wait 30m" if verdict.request.is_local else ""
    return rerun(verdict.lost_to_others, verdict.request) + wait


LAUNCHES = 6  # slower ones that are listed


def slower_lines(verdict: RunVerdict) -> list[str]:
    """Returns the slower metrics, a line per launch with its worst metric; the outliers;
    what changed since, and the command that measures it again."""
    groups: dict[str, Sequence[MetricMoved]] = {
        "slower than in all of {}, confirmed by a retest": verdict.slower
    }
    for why, outliers in grouped(verdict.outliers, lambda reason: reason.why).items():
        longest = max(reason.seconds for reason in outliers)
        cause = not_retested(why, longest, outliers[0].budget)
        groups["outliers, slower than in all of {}; " + cause] = outliers
    lines: list[str] = []
    for title, reasons in groups.items():
        if reasons:
            sessions = plural(max(reason.sessions for reason in reasons), "earlier session")
            lines += [f"{title.format(sessions)}:", *_launches(reasons)]
    if lines:
        again = rerun(_slower_tests(verdict), verdict.request, LIMITS.fewest - 1)
        lines += commanded("rerun", again, "    ")
    return lines


def _launches(reasons: Sequence[MetricMoved]) -> list[str]:
    launches = grouped(reasons, lambda r: f"{r.check} {r.case} {r.layout}")
    cells = []
    for launch, group in [*launches.items()][:LAUNCHES]:
        worst = max(group, key=lambda reason: (reason.unit == "s", reason.factor))
        sides = [amount(side, worst.unit) for side in (worst.before, worst.after)]
        more = f"and {plural(len(group) - 1, 'more metric')}" if group[1:] else ""
        test, factor = f"{worst.method} {worst.metric}", f"{number(worst.factor)} x"
        cells.append([launch, test, " -> ".join(sides), factor, more])
    hidden = sum(map(len, [*launches.values()][LAUNCHES:]))
    more = plural(len(launches) - LAUNCHES, "more launch", "more launches")
    return indented(cells) + ([f"  and {more}, {plural(hidden, 'metric')}"] if hidden else [])


def _slower_tests(verdict: RunVerdict) -> list[TestResult]:
    """The tests that are slower, and those with outliers."""
    reasons: list[MetricMoved] = [*verdict.slower, *verdict.outliers]
    place = attrgetter("system", "partition", "environ", "case", "layout")
    places, checks = set(map(place, reasons)), {reason.check for reason in reasons}
    alike = [case for case in verdict.judged if place(case) in places]
    return [case for case in alike if checks & {case.check, case.record.kernel}]


def alarms(reasons: Sequence[WorseSince]) -> Iterator[str]:
    """Since when metrics are worse, by their history, and what to do about it."""
    for alarm in reasons[:MOST]:
        yield from wrapped(str(alarm))
        for label, command in next_steps(alarm):
            yield from commanded(label, command, "    ")
    if reasons[MOST:]:
        yield f"and {plural(len(reasons) - MOST, 'more alarm')}"


# ---- a line per kernel and case ----

SUMMARY = ("check", "case", "passed", "fastest", "worst metric")
USED = "0% = at the better limit, 100% = at the failing limit"


def summary(verdict: RunVerdict) -> Iterator[str]:
    """A line per kernel and case: how many tests passed, the fastest method, and the metric that is
    closest to the worse of its bounds."""
    for heading, rows in summary_blocks(verdict).items():
        yield from ["", *textwrap.wrap(heading, WIDTH, subsequent_indent="  ")]
        yield from indented([SUMMARY, *rows])
    if any(metric.asserted for case in verdict.judged for metric in case.metrics):
        yield f"  ({USED})"


def summary_blocks(verdict: RunVerdict) -> dict[str, list[list[str]]]:
    """Partition, environment and software -> cells under SUMMARY, per kernel and case."""
    kernels = {case.check: case.record.kernel for case in verdict.judged if case.record.kernel}
    blocks = {}
    for heading, cases in _blocks(verdict).items():
        # a test that did not run has no kernel; each memory of buffers has a line
        groups = grouped(
            cases,
            lambda case: (
                case.check if case.layout in ON_DEVICES else kernels.get(case.check, case.check),
                case.case,
            ),
        )
        blocks[heading] = [
            [group[0].check, case, *_cells(verdict, group)] for (_, case), group in groups.items()
        ]
    return blocks


def _blocks(verdict: RunVerdict) -> dict[str, list[TestResult]]:
    """Partition, environment and software -> tests."""
    blocks = {}
    places = grouped(verdict.judged, lambda c: f"{c.system}:{c.partition}, environment {c.environ}")
    for place, cases in places.items():
        software = (f" ({case.record.built_with})" for case in cases if case.record.built_with)
        blocks[place + next(software, "")] = cases
    return blocks


def _cells(verdict: RunVerdict, cases: Sequence[TestResult]) -> list[str]:
    """Cells of a line: passed, fastest (of a sweep at its last point), worst metric."""
    counts = Counter(map(verdict.outcome, cases))
    applicable = len(cases) - counts[Verdict.NOT_APPLICABLE]
    passed = f"{counts[Verdict.PASS]}/{applicable}" if applicable else "-"
    if applicable == sum(case.lost_to_others for case in cases) > 0:
        passed = f"{applicable} disturbed"
    done = [case for case in cases if case.verdict in (Verdict.PASS, Verdict.FAIL)]
    timed = [(times[-1].value, index) for index, c in enumerate(done) if (times := _times(c))]
    fastest, worst = "-", "-"
    case = done[min(timed)[1]] if timed else None
    if case and case.has_alternatives:
        fastest = short(f"{case.method} {case.layout}".strip(), 22)
    if metrics := [metric for case in done for metric in case.metrics if metric.asserted]:
        metric = max(metrics, key=_by_limits)
        worst = f"{metric.name} {metric.allowance_used:.0%}"
    return [passed, fastest, worst]


def _by_limits(metric: JudgedMetric) -> tuple[bool, float]:
    return metric.failed, metric.allowance_used


def _times(case: TestResult) -> list[JudgedMetric]:
    """The absolute time of a test; of a sweep, at each point."""
    times = [m for m in case.metrics if re.fullmatch(r"time(_\d\w*)?", m.name)]
    return [metric for metric in times if finite(metric.value)]


# ---- the table of all tests ----


def table(verdict: RunVerdict) -> list[str]:
    """The tests as lines of text, a block per partition and environment. One line each: a launch of
    which nothing was measured, and a test that passed in several runs."""
    launches = grouped(verdict.judged, lambda case: (case.place, case.group, case.run))

    def line(case: TestResult) -> tuple[Any, ...]:
        launch = launches[case.place, case.group, case.run]
        nothing = case.verdict in (Verdict.NOT_MEASURED, Verdict.NOT_APPLICABLE)
        if nothing and len({other.verdict for other in launch}) == 1:
            return case.group, case.run
        return case.group, case.method, "" if case.verdict == Verdict.PASS else case.run

    lines = []
    for heading, cases in _blocks(verdict).items():
        rows = [["check", "case", "layout", "method", "time", "limits", "verdict"]]
        for group in grouped(cases, line).values():
            case, methods = group[0], {case.method for case in group}
            layout = f"{case.layout} {case.record.geometry}".strip()
            method = f"({len(methods)} methods)" if len(methods) > 1 else case.method
            group.sort(key=lambda case: [metric.value for metric in _times(case)])
            time = " to ".join(dict.fromkeys((_time(group[0]), _time(group[-1]))))
            runs = f" x{len(group)}" if len(group) > 1 and len(methods) == 1 else ""
            place = [case.check, case.case, layout, method]
            rows.append([*place, time, _limits(case), verdict.outcome(case) + runs])
        lines += ["", heading, *indented(rows)]
    return lines[1:]


def _time(case: TestResult) -> str:
    """The absolute time; of a sweep, at its first and last point. Each with the skew of the starts,
    if it is not small."""
    times = _times(case)
    texts = []
    for metric in times if len(times) < 2 else (times[0], times[-1]):
        skew = case.record.skew(case.method, [metric.name])
        point = f" at {metric.name[5:]}" if times[1:] else ""
        texts.append(duration(metric.value) + point + (f" (starts {skew:.0%} apart)" * bool(skew)))
    return ", ".join(texts)


def _limits(case: TestResult) -> str:
    """The metrics with limits; of many, as of a sweep, the one closest to its limits."""

    def text(metric: JudgedMetric) -> str:
        mark = "!" if metric.failed else " "
        return f"{metric.name} {number(metric.value)}{mark}({span(metric.low, metric.high)})"

    metrics = [metric for metric in case.metrics if metric.asserted]
    if len(metrics) > 4:
        return f"{text(max(metrics, key=_by_limits))} of {len(metrics)}"
    return ", ".join(map(text, metrics))


# ---- what a person should know beside ----


def notes(verdict: RunVerdict, verbose: bool = False) -> list[str]:
    """Remarks on tests and launches, disturbed launches; kernels that were found built and
    what is not applicable, if `verbose`."""
    remarked = [case for case in verdict.judged if case.remark]
    builds = [c for c in verdict.cases if c.fixture and not (c.is_launch or c.run)]
    built: dict[Reason, None] = {}
    for remark in (case.remark for case in builds if case.remark):
        parts = remark.remarks if isinstance(remark, Remarks) else (remark,)
        built |= dict.fromkeys(parts)
    others = [remark for remark in verdict.remarks if remark not in verdict.network]
    others += [remark for remark in built if not isinstance(remark, KernelsKept)]
    lines = [f"kernels: {remark}" for remark in built] if verbose else []
    for remark in (remark for remark in others if not isinstance(remark, FactChanged)):
        step = what_next(remark)
        lines.append(f"note: {remark}; next: {step}" if step else f"note: {remark}")
    for words, cases in grouped(remarked, lambda case: str(case.remark)).items():
        more = f" and {plural(len(cases) - 1, 'other test')}" if cases[1:] else ""
        lines.append(f"note: {cases[0].group}{more}: {words}")
    low, high = LIMITS.disturbed_note, LIMITS.disturbed_launch
    launches = [case for case in verdict.cases if case.fixture]
    if hit := [launch for launch in launches if low < launch.record.disturbed <= high]:
        worst = max(hit, key=lambda case: case.record.disturbed)
        lines.append(
            f"note: other processes ran on the cores of {plural(len(hit), 'launch', 'launches')}, "
            f"in up to {worst.record.disturbed:.0%} of the samples ({worst.group}); "
            "a quiet machine gives other times"
        )
    lines += [
        f"note: {case.record.kernel} {case.case} {case.layout} {case.remark}"
        for case in launches
        if case.is_launch and case.remark and not isinstance(case.remark, DISTURBED)
    ]
    unfit = Counter(clause(c.reason) for c in verdict.judged if c.verdict == Verdict.NOT_APPLICABLE)
    if verbose:
        lines += [f"not applicable: {unfit[cause]} x {cause}" for cause in sorted(unfit)]
    return wrapped(*lines)


def next_step(verdict: RunVerdict) -> list[str]:
    """Returns the next step, where other processes kept launches from being measured."""
    if not verdict.lost_to_others:
        return []
    stopped = any(isinstance(case.reason, Stopped) for case in verdict.lost_to_others)
    when = "when nothing stops its processes" if stopped else "at a quieter time"
    return commanded(f"next: rerun {when}", _in_quiet(verdict))
