"""A run's verdict for people and for machines: the table, the explanations, JSON and JUnit."""

import re
import statistics
import xml.etree.ElementTree as ET
from dataclasses import asdict, replace

from bisection.core.format import duration, number
from bisection.core.verdicts import FAIL, FOLLOWS, NOT_APPLICABLE, NOT_MEASURED, PASS
from bisection.report.tables import columns
from bisection.runs.command import selection
from bisection.runs.model import span


def table(verdict):
    """The cases as lines of text, one a case, a block for each check, partition and environment."""
    blocks = {}
    for case in verdict.judged:
        blocks.setdefault((case.check, case.partition, case.environ), []).append(case)
    lines = []
    for (check, partition, environ), cases in blocks.items():
        built_with = next((case.built_with for case in cases if case.built_with), "")
        about = f" ({built_with})" if built_with else ""
        lines += ["", f"{check} on {partition}, environment {environ}{about}"]
        lines += _block(cases)
    return lines


def _block(cases):
    judged = {m.name for case in cases for m in case.metrics if m.asserted} - {"time"}
    names = dict.fromkeys(m.name for case in cases for m in case.metrics)
    asserted = [name for name in names if name in judged]
    wide = len(asserted) > 4  # a sweep: show the point nearest to its bounds
    head = ["case", "layout", "method", "time", *(["nearest to its bounds"] if wide else asserted)]
    rows, last = [], None
    for case in over_runs(folded(cases)):
        metrics = {metric.name: metric for metric in case.metrics}
        cells = [_nearest(case)] if wide else [_cell(metrics.get(name)) for name in asserted]
        place = [case.case, f"{case.layout} {case.geometry}".strip()]
        rows.append([*(place if place != last else ["", ""]), case.method, _time(case), *cells])
        rows[-1].append(case.verdict)
        last = place
    return ["  " + line for line in columns([[*head, "verdict"], *rows])]


def folded(cases):
    """The cases, those of a launch that gave nothing as one."""
    launches = {}
    for case in cases:
        launches.setdefault((case.place, case.run), []).append(case)
    for found in launches.values():
        if len(found) > 1 and all(case.verdict == NOT_MEASURED for case in found):
            yield replace(found[0], method=f"({len(found)} methods)")
        else:
            yield from found


def over_runs(cases):
    """The cases, what passed in several runs as one: with the median of each metric."""
    groups = {}
    for case in cases:
        groups.setdefault((case.place, case.method, case.verdict == PASS), []).append(case)
    for (_, _, passed), found in groups.items():
        if not passed or len(found) == 1:
            yield from found
            continue
        values = {}
        for metric in (metric for case in found for metric in case.metrics):
            values.setdefault(metric.name, []).append(metric.value)
        metrics = [replace(m, value=statistics.median(values[m.name])) for m in found[0].metrics]
        yield replace(found[0], metrics=metrics, verdict=f"{PASS} x{len(found)}")


def _nearest(case):
    sweep = [metric for metric in case.metrics if metric.asserted]
    if not sweep:
        return ""
    worst = max(sweep, key=lambda metric: (metric.verdict == "fail", metric.strain))
    return f"{worst.name} {_cell(worst)} of {len(sweep)}"


def _cell(metric):
    if metric is None:
        return ""
    if not metric.asserted:
        return number(metric.value)
    mark = "!" if metric.verdict == "fail" else " "
    return f"{number(metric.value)}{mark}({span(metric)})"


def _time(case):
    """The absolute time; of a sweep, at its first and last point."""
    times = [m for m in case.metrics if m.name == "time" or m.name.startswith("time_")]
    times = [m for m in times if not re.match("time_(min|p99)", m.name)]
    if not times:
        return ""
    ends = [times[0]] if len(times) == 1 else [times[0], times[-1]]
    texts = [duration(metric.value) for metric in ends]
    if len(ends) == 2:
        texts = [f"{t} at {m.name[5:]}" for t, m in zip(texts, ends, strict=True)]
    return ", ".join(texts) + ("!" if any(m.verdict == "fail" for m in times) else "")


def explanations(verdict, rerun):
    """Lines that say what is wrong, where and why; `rerun(arguments)` is a command to repeat it."""
    lines = [f"trouble: {trouble}" for trouble in verdict.troubles]
    lines += [f"FAIL: {failure}" for failure in verdict.failures]
    for (word, places), causes in grouped(verdict.bad).items():
        more = f" and {len(places) - 3} more" if len(places) > 3 else ""
        lines.append(f"{word}: {', '.join(places[:3])}{more}")
        cases = [case for found in causes.values() for case in found]
        for cause, found in causes.items():
            methods = ", ".join(dict.fromkeys(case.method for case in found if case.method))
            lines.append(f"    {methods}: {cause}" if methods else f"    {cause}")
        lines.append(f"    again: {rerun(selection(verdict, cases))}")
        if any(case.ran for case in cases):
            lines.append(f"    files: {next(case.files for case in cases if case.ran)}")
    lines += [f"note: {case.place}: {case.remark}" for case in verdict.judged if case.remark]
    lines += disturbances(verdict)
    unfit = {case.cause for case in verdict.judged if case.verdict == NOT_APPLICABLE}
    lines += [f"not applicable: {cause}" for cause in sorted(unfit)]
    return lines


def grouped(cases):
    """(verdict, places) -> cause -> cases: what went wrong alike is told once.

    Cases that only follow another that failed are left out.
    """
    by_place = {}
    for case in cases:
        if not case.cause.endswith(FOLLOWS):
            causes = by_place.setdefault((case.verdict, case.place), {})
            causes.setdefault(case.cause, []).append(case)
    alike = {}  # places where the same happened to the same methods
    for (word, place), causes in by_place.items():
        told = tuple(
            (cause, tuple(case.method for case in found)) for cause, found in causes.items()
        )
        alike.setdefault((word, told), []).append((place, causes))
    groups = {}
    for (word, _), found in alike.items():
        merged = {}
        for _, causes in found:
            for cause, those in causes.items():
                merged.setdefault(cause, []).extend(those)
        groups[word, tuple(place for place, _ in found)] = merged
    return groups


def disturbances(verdict):
    """A line on launches that did not have their cores to themselves, if that may explain much."""
    hit = [case for case in verdict.cases if case.disturbed > 0.2]
    if not hit:
        return []
    worst = max(hit, key=lambda case: case.disturbed)
    launches = "1 launch" if len(hit) == 1 else f"{len(hit)} launches"
    return [
        f"note: other processes ran on the cores of {launches}, in up to "
        f"{worst.disturbed:.0%} of the samples ({worst.place}); a quiet machine gives other times"
    ]


def as_json(verdict, **more):
    """The verdict as a dictionary for verdict.json."""
    return {
        "exit_code": verdict.exit_code,
        "verdict": verdict.sentence,
        "session": verdict.session,
        "seconds": verdict.seconds,
        "troubles": verdict.troubles,
        "failures": verdict.failures,
        **more,
        "cases": [
            {
                **asdict(case),
                "metrics": [{**asdict(m), "asserted": m.asserted} for m in case.metrics],
            }
            for case in verdict.cases
        ],
    }


def as_junit(verdict):
    """The verdict as JUnit XML: failed is a failure, not measured an error, the rest skipped."""
    tests = [case for case in verdict.cases if not case.fixture or case in verdict.bad]
    failed = [case for case in tests if case.verdict == FAIL]
    errors = [case for case in tests if case.verdict == NOT_MEASURED]
    suite = ET.Element(
        "testsuite",
        name="bisection",
        tests=str(len(tests) + len(verdict.troubles) + len(verdict.failures)),
        failures=str(len(failed) + len(verdict.failures)),
        errors=str(len(errors) + len(verdict.troubles)),
        time=f"{verdict.seconds:.3f}",
    )
    for case in tests:
        where = f"{case.partition}.{case.environ}"
        test = ET.SubElement(suite, "testcase", classname=f"{case.check}.{where}", name=case.test)
        tag = {FAIL: "failure", NOT_MEASURED: "error", PASS: None}.get(case.verdict, "skipped")
        if tag:
            ET.SubElement(test, tag, message=case.cause)
    for tag, texts in (("error", verdict.troubles), ("failure", verdict.failures)):
        for text in texts:
            test = ET.SubElement(suite, "testcase", classname="bisection.run", name=text)
            ET.SubElement(test, tag, message=text)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True)
