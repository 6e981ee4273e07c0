"""A run's verdict for people and for machines: a mail, the table of all tests, JSON."""

import re
import statistics
import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from bisection.core import paths
from bisection.core.format import duration, number, plural, short
from bisection.core.reasons import Reason
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Exit, Verdict
from bisection.report.clauses import clause, span
from bisection.report.tables import columns
from bisection.runs.command import dependents, rerun
from bisection.runs.model import JudgedMetric, RunVerdict, TestResult

WIDTH = 80  # columns of a mail


def text(verdict: RunVerdict, verbose: bool = False) -> list[str]:
    """The verdict as lines: its sentence, failures first, a line per kernel and case.

    Args:
        verdict: the verdict.
        verbose: whether to add the table of all tests.
    """
    lines = [sentence(verdict), *failures(verdict)]
    lines += [*summary(verdict), ""] if verdict.judged else [""]
    lines += [*table(verdict), ""] if verbose and verdict.judged else []
    return [*lines, *notes(verdict)]


def sentence(verdict: RunVerdict) -> str:
    """The verdict in one line, with counts and the duration."""
    names = {Exit.OK: "PASS", Exit.FAILED: "FAIL", Exit.NOT_MEASURED: "NOT MEASURED"}
    counts = [f"{verdict.count(Verdict.PASS)} of {len(verdict.judged)} checks passed"]
    counts += [
        f"{verdict.count(kind)} {name}"
        for kind, name in (
            (Verdict.FAIL, "failed"),
            (Verdict.NOT_MEASURED, "not measured"),
            (Verdict.NOT_APPLICABLE, "not applicable here"),
            (Verdict.KNOWN, "failed as known"),
        )
        if verdict.count(kind)
    ]
    if not verdict.judged:
        counts = ["no check ran"]
    return f"{names[verdict.exit_code]}: {', '.join(counts)}, in {duration(verdict.seconds)}"


# ---- what went wrong ----


def failures(verdict: RunVerdict) -> list[str]:
    """What is wrong, where and why, with the command that repeats it."""
    lines = [f"trouble: {clause(trouble)}" for trouble in verdict.troubles]
    lines += [f"FAIL: {clause(failure)}" for failure in verdict.failures]
    lines = [part for line in lines for part in wrapped(line)]
    bad = sorted(verdict.bad, key=lambda case: case.verdict != Verdict.FAIL)
    for (kind, places), causes in grouped(bad).items():
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        lines.append(f"{kind}: {', '.join(places[:3])}{more}")
        cases = [case for group in causes.values() for case in group]
        for cause, group in causes.items():
            methods = ", ".join(dict.fromkeys(case.method for case in group if case.method))
            lines += wrapped(f"{methods}: {cause}" if methods else cause, "    ")
        lines.append(f"    rerun: {rerun(dependents(verdict, cases) or cases, verdict.request)}")
        if any(case.ran for case in cases):
            files = next(case.files for case in cases if case.ran)
            lines.append(f"    files: {paths.shown(paths.ROOT / files)}")
    return lines


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


# ---- a line per kernel and case ----


def summary(verdict: RunVerdict) -> list[str]:
    """A line per kernel and case: how many tests passed, the fastest method, and the metric that is
    closest to the worse of its bounds."""
    blocks: dict[tuple[str, str], dict[tuple[str, str], list[TestResult]]] = {}
    kernels = {case.check: case.kernel for case in verdict.judged if case.kernel}
    for case in verdict.judged:
        block = blocks.setdefault((f"{case.system}:{case.partition}", case.environ), {})
        kernel = kernels.get(case.check, case.check)  # a test that did not run has none
        block.setdefault((kernel, case.case), []).append(case)
    lines = []
    for (partition, environ), groups in blocks.items():
        cases = [case for group in groups.values() for case in group]
        built = next((case.built_with for case in cases if case.built_with), "")
        about = f" ({built})" if built else ""
        heading = f"{partition}, environment {environ}{about}"
        lines += ["", *textwrap.wrap(heading, WIDTH, subsequent_indent="  ")]
        head = ["check", "case", "passed", "fastest", "worst metric"]
        rows = [[g[0].check, case, *_cells(g)] for (_, case), g in groups.items()]
        lines += [f"  {line}" for line in columns([head, *rows])]
    if any(metric.asserted for case in verdict.judged for metric in case.metrics):
        lines.append("  (a metric at 0% is on the better of its bounds, at 100% on the worse one)")
    return lines


def _cells(cases: Sequence[TestResult]) -> list[str]:
    """Cells of a line: passed, fastest (of a sweep at its last point), worst metric."""
    counts = Counter(case.verdict for case in cases)
    applicable = len(cases) - counts[Verdict.NOT_APPLICABLE]
    passed = f"{counts[Verdict.PASS]}/{applicable}" if applicable else "-"
    timed = [(metric.value, index) for index, c in enumerate(cases) if (metric := _longest(c))]
    fastest = "-"
    if timed:
        case = cases[min(timed)[1]]
        fastest = short(f"{case.method} {case.layout}".strip(), 22)
    metrics = [metric for case in cases for metric in case.metrics if metric.asserted]
    if not metrics:
        return [passed, fastest, "-"]
    worst = max(metrics, key=lambda metric: (metric.failed, metric.used))
    return [passed, fastest, f"{worst.name} {worst.used:.0%}"]


def _times(case: TestResult) -> list[JudgedMetric]:
    """The absolute times of a test; of a sweep, at every point."""
    times = [m for m in case.metrics if m.name == "time" or m.name.startswith("time_")]
    return [m for m in times if not re.match("time_(min|p99)", m.name)]


def _longest(case: TestResult) -> JudgedMetric | None:
    """The time of a test that was measured; of a sweep, at its last point."""
    times = _times(case) if case.verdict in (Verdict.PASS, Verdict.FAIL) else []
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
        built_with = next((case.built_with for case in cases if case.built_with), "")
        about = f" ({built_with})" if built_with else ""
        lines += ["", f"{check} on {partition}, environment {environ}{about}"]
        lines += _block(cases)
    return lines[1:]


def _block(cases: Sequence[TestResult]) -> list[str]:
    judged = {m.name for case in cases for m in case.metrics if m.asserted} - {"time"}
    names = dict.fromkeys(m.name for case in cases for m in case.metrics)
    asserted = [name for name in names if name in judged]
    wide = len(asserted) > 4  # a sweep: show the point closest to its bounds
    head = ["case", "layout", "method", "time", *(["closest to a bound"] if wide else asserted)]
    rows, last = [], None
    for case, verdict in over_runs(folded(cases)):
        metrics = {metric.name: metric for metric in case.metrics}
        cells = [_closest(case)] if wide else [_cell(metrics.get(name)) for name in asserted]
        place = [case.case, f"{case.layout} {case.geometry}".strip()]
        rows.append([*(place if place != last else ["", ""]), case.method, _time(case), *cells])
        rows[-1].append(verdict)
        last = place
    return ["  " + line for line in columns([[*head, "verdict"], *rows])]


def folded(cases: Iterable[TestResult]) -> Iterable[TestResult]:
    """The tests, those of a launch that measured nothing as one."""
    launches: dict[tuple[str, int], list[TestResult]] = {}
    for case in cases:
        launches.setdefault((case.group, case.run), []).append(case)
    for group in launches.values():
        if len(group) > 1 and all(case.verdict == Verdict.NOT_MEASURED for case in group):
            yield replace(group[0], method=f"({len(group)} methods)")
        else:
            yield from group


def over_runs(cases: Iterable[TestResult]) -> Iterable[tuple[TestResult, str]]:
    """(test, verdict): what passed in several runs as one, with the median of each metric."""
    groups: dict[tuple[str, str, bool], list[TestResult]] = {}
    for case in cases:
        passed = case.verdict == Verdict.PASS
        groups.setdefault((case.group, case.method, passed), []).append(case)
    for (_, _, passed), group in groups.items():
        if not passed or len(group) == 1:
            yield from ((case, case.verdict) for case in group)
            continue
        values: dict[str, list[float]] = {}
        for metric in (metric for case in group for metric in case.metrics):
            values.setdefault(metric.name, []).append(metric.value)
        metrics = [replace(m, value=statistics.median(values[m.name])) for m in group[0].metrics]
        yield replace(group[0], metrics=metrics), f"{Verdict.PASS} x{len(group)}"


def _closest(case: TestResult) -> str:
    sweep = [metric for metric in case.metrics if metric.asserted]
    if not sweep:
        return ""
    worst = max(sweep, key=lambda metric: (metric.failed, metric.distance))
    return f"{worst.name} {_cell(worst)} of {len(sweep)}"


def _cell(metric: JudgedMetric | None) -> str:
    if metric is None:
        return ""
    if not metric.asserted:
        return number(metric.value)
    mark = "!" if metric.failed else " "
    return f"{number(metric.value)}{mark}({span(metric.low, metric.high)})"


def _time(case: TestResult) -> str:
    """The absolute time; of a sweep, at its first and last point."""
    times = _times(case)
    if not times:
        return ""
    ends = [times[0]] if len(times) == 1 else [times[0], times[-1]]
    texts = [duration(metric.value) for metric in ends]
    if len(ends) == 2:
        texts = [f"{t} at {m.name[5:]}" for t, m in zip(texts, ends, strict=True)]
    return ", ".join(texts) + ("!" if any(m.failed for m in times) else "")


# ---- what a person should know beside ----


def notes(verdict: RunVerdict) -> list[str]:
    """Remarks on tests, launches that were preempted, what is not applicable."""
    remarks: dict[Reason, list[str]] = {}
    for case in verdict.judged:
        if case.remark:
            remarks.setdefault(case.remark, []).append(case.group)
    lines = []
    for remark, groups in remarks.items():
        others = f" and {plural(len(groups) - 1, 'other test')}" if groups[1:] else ""
        lines.append(f"note: {groups[0]}{others}: {clause(remark)}")
    hit = [c for c in verdict.cases if c.fixture and c.preempted > LIMITS.preempted_note]
    if hit:
        worst = max(hit, key=lambda case: case.preempted)
        launches = "1 launch" if len(hit) == 1 else f"{len(hit)} launches"
        lines.append(
            f"note: other processes ran on the cores of {launches}, in up to "
            f"{worst.preempted:.0%} of the samples ({worst.group}); a quiet machine gives other "
            "times"
        )
    unfit = {clause(c.reason) for c in verdict.judged if c.verdict == Verdict.NOT_APPLICABLE}
    lines += [f"not applicable: {cause}" for cause in sorted(unfit)]
    return [part for line in lines for part in wrapped(line)]


def wrapped(line: str, indent: str = "") -> list[str]:
    """A line in as many as a mail has room for; long words stay whole, to be copied."""
    more = indent + ("    " if indent else "  ")
    indents = {"initial_indent": indent, "subsequent_indent": more}
    return textwrap.wrap(
        line, WIDTH, **indents, break_on_hyphens=False, break_long_words=False
    ) or [""]


# ---- for programs ----


def as_json(verdict: RunVerdict) -> dict[str, Any]:
    """The verdict for verdict.json: in words, and under `reasons` as codes with their values."""
    kinds = {"troubles": verdict.troubles, "failures": verdict.failures}
    request = asdict(verdict.request)
    return {
        "exit_code": verdict.exit_code,
        "verdict": sentence(verdict),
        "session": verdict.session,
        "seconds": verdict.seconds,
        **{name: list(map(clause, reasons)) for name, reasons in kinds.items()},
        "reasons": {name: [r.as_dict() for r in reasons] for name, reasons in kinds.items()},
        **request,
        "cases": [_case_as_json(case) for case in verdict.cases],
    }


def _case_as_json(case: TestResult) -> dict[str, Any]:
    names = ("check", "case", "layout", "method", "environ", "hash", "kernel", "geometry")
    more = ("built_with", "run", "fixture", "verdict", "preempted", "folders", "files", "ran")
    reasons = {"cause": case.reason, "remark": case.remark}
    return {
        "test": case.name,
        "partition": f"{case.system}:{case.partition}",
        **{name: getattr(case, name) for name in (*names, *more)},
        **{name: clause(reason) for name, reason in reasons.items()},
        "reasons": {name: r.as_dict() for name, r in reasons.items() if r},
        "hosts": case.hosts,
        "metrics": [{**asdict(m), "asserted": m.asserted} for m in case.metrics],
    }
