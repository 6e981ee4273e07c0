"""A run's verdict for people and for machines: a mail, the table of all tests, JSON."""

import re
import shutil
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from bisection.core import paths
from bisection.core.format import duration, finite, number, plain, plural, short, utc
from bisection.core.reasons import Code, Reason, clause
from bisection.core.reasons.launches import span
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Exit, Verdict
from bisection.kernels import tables
from bisection.report.events import MOST
from bisection.report.slower import counts as slower_counts
from bisection.report.slower import slower_lines, times_judged
from bisection.report.tables import columns
from bisection.runs.command import dependents, rerun
from bisection.runs.model import JudgedMetric, RunVerdict, TestResult

# Columns: of a mail, fewer on a narrow terminal.
WIDTH = max(40, min(80, shutil.get_terminal_size().columns))
NAMES = {
    Exit.OK: "PASS",
    Exit.FAILED: "FAIL",
    Exit.NOT_MEASURED: "NOT MEASURED",
    Exit.SLOWER: "SLOWER THAN BEFORE",
}


def text(verdict: RunVerdict, verbose: bool = False) -> list[str]:
    """The verdict as lines: its sentence, failures first, a line per kernel and case.

    Args:
        verdict: the verdict.
        verbose: whether to add the table of all tests.
    """
    times = times_judged(verdict)
    lines = [*first_lines(verdict), *(wrapped(times, "    ") if times else [])]
    lines += [*failures(verdict), *slower_lines(verdict), *alarms(verdict), *changed(verdict)]
    lines += [*summary(verdict), ""] if verdict.judged else [""]
    lines += [*table(verdict), ""] if verbose and verdict.judged else []
    lines += builds(verdict) if verbose else []
    return [*lines, *notes(verdict, verbose)]


def builds(verdict: RunVerdict) -> list[str]:
    """A line for each time at which kernels were built that this run found kept."""
    first = [case for case in verdict.cases if case.fixture and not (case.is_launch or case.run)]
    remarks = dict.fromkeys(case.remark for case in first if case.remark)
    return [f"kernels: {clause(remark)}" for remark in remarks]


def sentence(verdict: RunVerdict) -> str:
    """The verdict in one sentence; in a second one how times are judged, where no references of
    times are."""
    return ". ".join(filter(None, [counted(verdict), times_judged(verdict)]))


def counted(verdict: RunVerdict) -> str:
    """The verdict with all its counts and the duration."""
    counts = ", ".join([*_counts(verdict), *_more_counts(verdict)])
    return f"{NAMES[verdict.exit_code]}: {counts}, in {duration(verdict.seconds)}"


def first_lines(verdict: RunVerdict) -> list[str]:
    """The same: a line for how the tests came out, and one for all else."""
    counts, more = ", ".join(_counts(verdict)), ", ".join(_more_counts(verdict))
    first = f"{NAMES[verdict.exit_code]}: {counts}, in {duration(verdict.seconds)}"
    return [*wrapped(first), *(wrapped(more, "    ") if more else [])]


def _counts(verdict: RunVerdict) -> list[str]:
    """How the tests came out."""
    if not verdict.judged:
        return ["no check ran"]
    preempted = len(verdict.lost_to_others)
    numbers = [
        (verdict.count(Verdict.FAIL), "failed"),
        (verdict.count(Verdict.NOT_MEASURED) - preempted, "not measured"),
        (preempted, "preempted"),
        (verdict.count(Verdict.KNOWN), "failed as known"),
    ]
    parts = [f"{verdict.count(Verdict.PASS)} of {verdict.applicable} checks passed"]
    return parts + [f"{number} {name}" for number, name in numbers if number]


def _more_counts(verdict: RunVerdict) -> list[str]:
    """Returns further problems, and possible ones."""
    slow = sum(failure.code == Code.BAD_COMPONENT for failure in verdict.failures)
    parts = [f"{plural(slow, 'bad component')} of the network"] if slow else []
    return parts + slower_counts(verdict)


# ---- what went wrong ----


def failures(verdict: RunVerdict) -> list[str]:
    """Returns the failures: place, cause, and the command for a rerun."""
    lines = [f"trouble: {clause(trouble)}" for trouble in verdict.troubles]
    lines += [f"FAIL: {clause(failure)}" for failure in verdict.failures]
    lines += [f"network: {clause(finding)}" for finding in verdict.network]
    lines = [part for line in lines for part in wrapped(line)]
    for group in failure_groups(verdict):
        lines.append(f"{group.verdict}: {group.where}")
        lines += [part for cause in group.causes for part in wrapped(cause, "    ")]
        lines.append(f"    rerun: {group.rerun}")
        lines += [f"    files: {group.files}"] if group.files else []
    return lines


class FailureGroup(NamedTuple):
    """Tests that went wrong alike, on one launch or on several."""

    verdict: Verdict
    where: str  # the launches
    causes: list[str]  # methods, and why
    rerun: str  # command
    files: str  # pattern; "" if nothing ran
    cases: list[TestResult]


def failure_groups(verdict: RunVerdict) -> list[FailureGroup]:
    """Returns failed and unmeasured tests in groups of equal causes; failures first.
    Tests that only follow another one's failure are left out."""
    groups = []
    bad = [case for case in verdict.bad if not case.lost_to_others]
    bad.sort(key=lambda case: case.verdict != Verdict.FAIL)
    for (kind, places), causes in grouped(bad).items():
        cases = [case for members in causes.values() for case in members]
        lines = []
        for cause, members in causes.items():
            methods = ", ".join(dict.fromkeys(case.method for case in members if case.method))
            lines.append(f"{methods}: {cause}" if methods else cause)
        command = rerun(dependents(verdict, cases) or cases, verdict.request)
        groups.append(_group(kind, places, lines, command, cases))
    if lost := sorted(verdict.lost_to_others, key=lambda case: -case.record.preempted):
        places = list(dict.fromkeys(case.group for case in lost))
        worst = {case.reason.code: case.reason for case in reversed(lost)}
        of = f" (the worst of {len(places)} launches)" if len(places) > 1 else ""
        causes = [clause(reason) + of for reason in worst.values()]
        groups.append(_group(Verdict.NOT_MEASURED, places, causes, _in_quiet(verdict), lost))
    return groups


def _group(
    kind: Verdict,
    places: Sequence[str],
    causes: list[str],
    command: str,
    cases: list[TestResult],
) -> FailureGroup:
    """A group, with the first few of its launches and the files of one."""
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    files = next((case.files for case in cases if case.ran and case.files), "")
    files = paths.shown(paths.ROOT / files) if files else ""
    return FailureGroup(kind, ", ".join(places[:3]) + more, causes, command, files, cases)


def _in_quiet(verdict: RunVerdict) -> str:
    """The command that measures again what other processes disturbed."""
    wait = " --wait 30m" if verdict.request.is_local else ""
    return rerun(verdict.lost_to_others, verdict.request) + wait


def grouped(
    cases: Iterable[TestResult],
) -> dict[tuple[Verdict, tuple[str, ...]], dict[str, list[TestResult]]]:
    """(verdict, launches) -> cause -> tests: what went wrong alike is one group. Tests that only
    follow another that failed are left out."""
    by_place: dict[tuple[Verdict, str], dict[str, list[TestResult]]] = {}
    for case in cases:
        if not case.follows:
            causes = by_place.setdefault((case.verdict, case.group), {})
            causes.setdefault(clause(case.reason), []).append(case)
    alike: dict[Any, list[tuple[str, dict[str, list[TestResult]]]]] = {}
    for (kind, place), causes in by_place.items():
        methods = tuple(
            (cause, tuple(case.method for case in group)) for cause, group in causes.items()
        )
        alike.setdefault((kind, methods), []).append((place, causes))
    groups: dict[tuple[Verdict, tuple[str, ...]], dict[str, list[TestResult]]] = {}
    for (kind, _), members in alike.items():
        merged = groups[kind, tuple(place for place, _ in members)] = {}
        for _, causes in members:
            for cause, group in causes.items():
                merged.setdefault(cause, []).extend(group)
    return groups


def alarms(verdict: RunVerdict) -> list[str]:
    """Since when metrics are worse, by their history, and the command that accepts the level."""
    if not verdict.alarms:
        return []
    lines = [part for alarm in verdict.alarms[:MOST] for part in wrapped(clause(alarm))]
    event = verdict.alarms[0]["session"][:8]
    return [*lines, f"    to accept the new level: bisection history --accept {event} -m REASON"]


def changed(verdict: RunVerdict) -> list[str]:
    """Returns the changes since the session before."""
    changes = [remark for remark in verdict.remarks if remark.code == Code.CHANGED]
    lines = [f"changed since {utc(change['since'])}: {clause(change)}" for change in changes]
    return [part for line in lines for part in wrapped(line)]


# ---- a line per kernel and case ----


SUMMARY = ("check", "case", "passed", "fastest", "worst metric")


def summary(verdict: RunVerdict) -> list[str]:
    """A line per kernel and case: how many tests passed, the fastest method, and the metric that is
    closest to the worse of its bounds."""
    lines = []
    for heading, rows in summary_blocks(verdict).items():
        lines += ["", *textwrap.wrap(heading, WIDTH, subsequent_indent="  ")]
        lines += [f"  {line}" for line in columns([SUMMARY, *rows])]
    if any(metric.asserted for case in verdict.judged for metric in case.metrics):
        lines.append(f"  ({USED})")
    return lines


USED = "0% = at the better limit, 100% = at the failing limit"


def summary_blocks(verdict: RunVerdict) -> dict[str, list[list[str]]]:
    """Partition, environment and software -> cells under SUMMARY, per kernel and case."""
    blocks: dict[tuple[str, str], dict[tuple[str, str], list[TestResult]]] = {}
    kernels = {case.check: case.record.kernel for case in verdict.judged if case.record.kernel}
    for case in verdict.judged:
        block = blocks.setdefault((f"{case.system}:{case.partition}", case.environ), {})
        kernel = kernels.get(case.check, case.check)  # a test that did not run has none
        block.setdefault((kernel, case.case), []).append(case)
    rows = {}
    for (partition, environ), groups in blocks.items():
        cases = [case for group in groups.values() for case in group]
        built = next((case.record.built_with for case in cases if case.record.built_with), "")
        about = f" ({built})" if built else ""
        rows[f"{partition}, environment {environ}{about}"] = [
            [group[0].check, case, *_cells(verdict, group)] for (_, case), group in groups.items()
        ]
    return rows


def _cells(verdict: RunVerdict, cases: Sequence[TestResult]) -> list[str]:
    """Cells of a line: passed, fastest (of a sweep at its last point), worst metric."""
    counts = Counter(map(verdict.outcome, cases))
    applicable = len(cases) - counts[Verdict.NOT_APPLICABLE]
    passed = f"{counts[Verdict.PASS]}/{applicable}" if applicable else "-"
    timed = [(metric.value, index) for index, c in enumerate(cases) if (metric := _longest(c))]
    fastest = "-"
    case = cases[min(timed)[1]] if timed else None
    if case and (case.record.kernel or case.check) in tables.ALTERNATIVES:
        fastest = short(f"{case.method} {case.layout}".strip(), 22)
    metrics = [metric for case in cases for metric in case.metrics if metric.asserted]
    if not metrics:
        return [passed, fastest, "-"]
    worst = max(metrics, key=lambda metric: (metric.failed, metric.used))
    return [passed, fastest, f"{worst.name} {worst.used:.0%}"]


def _is_time(name: str) -> bool:
    """True if a metric is the absolute time, of a sweep at one point."""
    return bool(re.match("time(?!_(min|p99))(_|$)", name))


def _longest(case: TestResult) -> JudgedMetric | None:
    """The time of a test that was measured; of a sweep, at its last point."""
    measured = case.verdict in (Verdict.PASS, Verdict.FAIL)
    times = [m for m in case.metrics if measured and _is_time(m.name) and finite(m.value)]
    return times[-1] if times else None


# ---- the table of all tests ----


def table(verdict: RunVerdict) -> list[str]:
    """The tests as lines of text, a block per check, partition and environment."""
    blocks: dict[tuple[str, str, str], list[TestResult]] = {}
    for case in verdict.judged:
        key = (case.check, f"{case.system}:{case.partition}", case.environ)
        blocks.setdefault(key, []).append(case)
    lines = []
    for (check, partition, environ), cases in blocks.items():
        built_with = next((case.record.built_with for case in cases if case.record.built_with), "")
        about = f" ({built_with})" if built_with else ""
        lines += ["", f"{check} on {partition}, environment {environ}{about}"]
        lines += _block(verdict, cases)
    return lines[1:]


def _block(verdict: RunVerdict, cases: Sequence[TestResult]) -> list[str]:
    judged = {m.name for case in cases for m in case.metrics if m.asserted} - {"time"}
    names = dict.fromkeys(m.name for case in cases for m in case.metrics)
    asserted = [name for name in names if name in judged]
    wide = len(asserted) > 4  # a sweep: show the point closest to its bounds
    head = ["case", "layout", "method", "time", *(["closest to a limit"] if wide else asserted)]
    rows, last = [], None
    for group in folded(verdict, cases):
        case, methods = group[0], dict.fromkeys(case.method for case in group)
        metrics: dict[str, list[JudgedMetric]] = {}
        for metric in (metric for case in group for metric in case.metrics):
            metrics.setdefault(metric.name, []).append(metric)
        cells = [_closest(metrics)] if wide else [_cell(metrics.get(name)) for name in asserted]
        place = [case.case, f"{case.layout} {case.record.geometry}".strip()]
        method = f"({len(methods)} methods)" if len(methods) > 1 else case.method
        times = f" x{len(group)}" if len(group) > 1 and len(methods) == 1 else ""
        shown = place if place != last else ["", ""]
        rows.append([*shown, method, _time(metrics), *cells, verdict.outcome(case) + times])
        last = place
    return ["  " + line for line in columns([[*head, "verdict"], *rows])]


def folded(verdict: RunVerdict, cases: Iterable[TestResult]) -> list[list[TestResult]]:
    """Groups of tests that are one row each: a launch of which nothing was measured, a test that
    passed in several runs; every other test is alone."""
    launches: dict[tuple[str, int], list[TestResult]] = {}
    for case in cases:
        launches.setdefault((case.group, case.run), []).append(case)
    groups: dict[tuple[str, ...], list[TestResult]] = {}
    nothing = (Verdict.NOT_MEASURED, Verdict.NOT_APPLICABLE)
    for launch in launches.values():
        alike = len({case.verdict for case in launch}) == 1 and launch[0].verdict in nothing
        for case in launch:
            passed = case.verdict == Verdict.PASS
            test = (case.group, case.method, "" if passed else str(case.run))
            key = (case.group, str(case.run)) if alike else test
            groups.setdefault(key, []).append(case)
    return list(groups.values())


def _closest(metrics: Mapping[str, Sequence[JudgedMetric]]) -> str:
    """Of a sweep the point closest to its bounds."""
    sweep = [metric for values in metrics.values() for metric in values if metric.asserted]
    if not sweep:
        return ""
    worst = max(sweep, key=lambda metric: (metric.failed, metric.distance))
    points = len({metric.name for metric in sweep})
    return f"{worst.name} {_cell(metrics[worst.name])} of {points}"


def _cell(metrics: Sequence[JudgedMetric] | None) -> str:
    """The range of a metric over the tests of a row, with the bounds that they have in common."""
    if not metrics:
        return ""
    text = _range(metrics, number)
    bounds = {(metric.low, metric.high) for metric in metrics}
    if not any(metric.asserted for metric in metrics):
        return text
    mark = "!" if any(metric.failed for metric in metrics) else " "
    return text + mark + (f"({span(*bounds.pop())})" if len(bounds) == 1 else "(several limits)")


def _range(metrics: Sequence[JudgedMetric], form: Callable[[float], str]) -> str:
    values = [metric.value for metric in metrics]
    return "..".join(dict.fromkeys((form(min(values)), form(max(values)))))


def _time(metrics: Mapping[str, Sequence[JudgedMetric]]) -> str:
    """The absolute time; of a sweep, at its first and last point."""
    names = [name for name in metrics if _is_time(name)]
    if not names:
        return ""
    texts = [
        _range(metrics[name], duration) + (f" at {name[5:]}" if len(names) > 1 else "")
        for name in dict.fromkeys((names[0], names[-1]))
    ]
    failed = any(metric.failed for name in names for metric in metrics[name])
    return ", ".join(texts) + ("!" if failed else "")


# ---- what a person should know beside ----


def notes(verdict: RunVerdict, verbose: bool = False) -> list[str]:
    """Remarks on tests, launches that were late or preempted; what is not applicable, if
    `verbose`."""
    remarks: dict[Reason, list[str]] = {}
    for case in verdict.judged:
        if case.remark:
            remarks.setdefault(case.remark, []).append(case.group)
    others = [remark for remark in verdict.remarks if remark not in verdict.network]
    lines = [f"note: {clause(remark)}" for remark in others if remark.code != Code.CHANGED]
    built = [case.remark for case in verdict.cases if case.check == "Build" and case.remark]
    stale = dict.fromkeys(remark for remark in built if remark.code == Code.KERNELS_STALE)
    lines += [f"note: {clause(remark)}" for remark in stale]
    for remark, groups in remarks.items():
        others = f" and {plural(len(groups) - 1, 'other test')}" if groups[1:] else ""
        lines.append(f"note: {groups[0]}{others}: {clause(remark)}")
    hit = [
        case
        for case in verdict.cases
        if case.fixture and LIMITS.preempted_note < case.record.preempted <= LIMITS.preempted_launch
    ]
    if hit:
        worst = max(hit, key=lambda case: case.record.preempted)
        launches = "1 launch" if len(hit) == 1 else f"{len(hit)} launches"
        lines.append(
            f"note: other processes ran on the cores of {launches}, in up to "
            f"{worst.record.preempted:.0%} of the samples ({worst.group}); a quiet machine gives "
            "other times"
        )
    lines += [
        f"note: {case.record.kernel} {case.case} {case.layout} {clause(case.remark)}"
        for case in verdict.late
    ]
    unfit = Counter(clause(c.reason) for c in verdict.judged if c.verdict == Verdict.NOT_APPLICABLE)
    if verbose:
        lines += [f"not applicable: {unfit[cause]} x {cause}" for cause in sorted(unfit)]
    return [part for line in lines for part in wrapped(line)]


def next_step(verdict: RunVerdict) -> list[str]:
    """Returns the next step, where other processes kept launches from being measured."""
    if not verdict.lost_to_others:
        return []
    stopped = any(case.reason.code == Code.STOPPED for case in verdict.lost_to_others)
    when = "when nothing stops its processes" if stopped else "at a quieter time"
    return [f"next: rerun {when}: {_in_quiet(verdict)}"]


def wrapped(line: str, indent: str = "") -> list[str]:
    """A line in as many as a mail has room for; long words stay whole, to be copied."""
    more = indent + ("    " if indent else "  ")
    indents = {"initial_indent": indent, "subsequent_indent": more}
    return textwrap.wrap(
        plain(line), WIDTH, **indents, break_on_hyphens=False, break_long_words=False
    ) or [""]


# ---- for programs ----


def as_json(verdict: RunVerdict) -> dict[str, Any]:
    """The verdict for verdict.json: in words, and under `reasons` as codes with their values."""
    kinds = {name: getattr(verdict, name) for name in verdict.REASONS}
    request = asdict(verdict.request)
    records = {id(case.record): case.record for case in verdict.cases}
    places = {key: place for place, key in enumerate(records)}
    return {
        "exit_code": verdict.exit_code,
        "verdict": sentence(verdict),
        "session": verdict.session,
        "seconds": verdict.seconds,
        "nights": verdict.nights,
        "grade": verdict.interconnect and verdict.interconnect.grade,
        "interconnect": verdict.interconnect and verdict.interconnect.as_dict(),
        **{name: list(map(clause, reasons)) for name, reasons in kinds.items()},
        "reasons": {name: [r.as_dict() for r in reasons] for name, reasons in kinds.items()},
        **request,
        "launches": [record.as_json() for record in records.values()],
        "cases": [
            {**_case_as_json(case), "launch": places[id(case.record)]} for case in verdict.cases
        ],
    }


def _case_as_json(case: TestResult) -> dict[str, Any]:
    names = ("check", "case", "layout", "method", "environ", "hash")
    more = ("run", "fixture", "verdict", "folders", "files", "ran", "seconds")
    reasons = {"cause": case.reason, "remark": case.remark}
    return {
        "test": case.name,
        "partition": f"{case.system}:{case.partition}",
        **{name: getattr(case, name) for name in (*names, *more)},
        **{name: clause(reason) for name, reason in reasons.items()},
        "reasons": {name: r.as_dict() for name, r in reasons.items() if r},
        "metrics": [{**asdict(m), "asserted": m.asserted} for m in case.metrics],
    }
