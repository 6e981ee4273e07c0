"""From ReFrame's report to a verdict: what passed, what did not, why, and an exit code.

ReFrame's own exit code is not enough: it is 0 when nothing was selected, when a check file does not
load, when everything was skipped, when a retry passed, when the results were not stored.
"""

import os
import re

from bisection.core.format import number
from bisection.core.verdicts import (
    DISTURBED,
    FAIL,
    FOLLOWS,
    KNOWN,
    NOT_APPLICABLE,
    NOT_MEASURED,
    PASS,
)
from bisection.rfm import scheduler_faults
from bisection.rfm.scheduler_faults import NAMES
from bisection.runs.model import Case, Metric, Verdict, span
from bisection.runs.reframe_log import (
    NOT_STORED,
    absent_cases,
    end_of_run,
    key_of,
    left_in_queue,
    skip_reasons,
    troubles_in_log,
)


def judge(report, log=None, listing=None):
    """The Verdict on ReFrame's report (None if there is none) and its output (None if not kept).

    If the run stopped early, `listing()` is ReFrame's list of the selected test cases.
    """
    troubles = troubles_in_log(log) if log is not None else []
    if report is None and re.search(r"^\[=+\] Running [1-9]\d* check", log or "", re.M):
        report = {"session_info": {"time_elapsed": 0.0, "uuid": ""}, "runs": [{"testcases": []}]}
        troubles.append("ReFrame ended without a report")
    if report is None:
        # Nothing ran, so nothing could be stored.
        troubles = [trouble for trouble in troubles if trouble != NOT_STORED]
        if not troubles:
            troubles = [
                "no check was selected: ReFrame found none for this tier, name and partition"
            ]
        return Verdict([], troubles, [], 0.0, "")
    session = report["session_info"]
    cases, failures, end = [], [], end_of_run(troubles)
    for run in report["runs"]:
        entries = {key_of(entry): entry for entry in run["testcases"]}
        reasons = skip_reasons(log or "")
        judged = [_case(entry, entries, reasons, end) for entry in run["testcases"]]
        withhold(judged)
        cases += judged
        failures += _unjudged_wrong_answers(run["testcases"], judged)
    first = report["runs"][0]["testcases"]
    announced = re.search(r"^\[.*\] \(\s*\d+/(\d+)\)", log or "", re.M)
    absent = int(announced[1]) - len(first) if announced else 0
    if absent:
        troubles.append(f"{absent} of {announced[1]} selected test cases did not run")
    if listing and (absent or not announced):
        cases += absent_cases(first, listing(), end or "the run ended before it")
    troubles += left_in_queue(first)
    if not any(not case.fixture for case in cases):
        troubles.append("no check was selected")
    return Verdict(cases, troubles, failures, session["time_elapsed"], session["uuid"])


def withhold(cases):
    """Turns slow into not measured where other processes had the cores of the launch."""
    shares = {case.launch: case.disturbed for case in cases if case.fixture and case.kernel}
    for case in cases:
        share = shares.get(case.launch, 0.0)
        outside = any(metric.verdict == "fail" for metric in case.metrics)
        if case.verdict == FAIL and not case.fixture and outside and share > DISTURBED:
            case.verdict, case.remark = NOT_MEASURED, ""
            case.cause += f" (but other processes had the cores in {share:.0%} of the samples)"


def _case(entry, entries, reasons, end):
    verdict, cause = _classify(entry, entries, reasons, end)
    metrics = [_metric(name, values) for name, values in (entry["perfvalues"] or {}).items()]
    metrics = [metric for metric in metrics if metric.value is not None]
    if verdict == PASS and not entry["fixture"] and not metrics:
        verdict, cause = NOT_MEASURED, "it passed without measuring anything"
    if verdict != PASS and entry["fail_phase"] in ("compile", "compile_wait"):
        cause += _build_error(entry)
    failed = [metric for metric in metrics if metric.verdict == "fail"]
    if failed:
        cause = "; ".join(
            f"{metric.name} is {number(metric.value)} {metric.unit}, allowed is {span(metric)}"
            for metric in failed
        )
    text = {
        name: entry.get(name) or ""
        for name in ("kernel", "case", "layout", "geometry", "method", "built_with")
    }
    return Case(
        test=entry["display_name"],
        hash=entry["hashcode"],
        check=re.split(r"[ %]", entry["display_name"])[0],
        partition=f"{entry['system']}:{entry['partition']}",
        environ=entry["environ"],
        run=entry["run_index"],
        fixture=entry["fixture"],
        verdict=verdict,
        cause=cause,
        disturbed=entry.get("disturbed") or 0.0,
        remark=entry.get("remark") or "",
        hosts=entry.get("hosts") or (entry.get("job_nodelist") or [] if entry["fixture"] else []),
        folders=[entry[name] for name in ("outputdir", "stagedir") if entry.get(name)],
        metrics=metrics,
        **text,
    )


def _classify(entry, entries, reasons, end):
    result = entry["result"]
    if result == "pass":
        return PASS, ""
    if result == "xfail":
        return KNOWN, _plain(entry["fail_reason"])
    if result == "xpass":
        return FAIL, "passes, though the reference says that it is known to fail"
    if result == "fail":
        cause = scheduler_faults.of_reframe(entry["fail_reason"] or "", entry.get("time_run"))
        cause = cause or _plain(entry["fail_reason"])
        return _failed(entry, scheduler_faults.name_of(cause)), cause
    if result in ("skip", "fail_deps"):
        root = _root(entry, entries)
        if why := root.get("not_applicable"):
            return NOT_APPLICABLE, why
        if root is not entry:
            return NOT_MEASURED, f"{root['display_name']} {FOLLOWS}"
        return NOT_MEASURED, f"skipped: {reasons.get(entry['hashcode'], 'no reason is known')}"
    return NOT_MEASURED, end or f"ReFrame's result is {result or 'none'}"


def _failed(entry, fault):
    """FAIL if the check was wrong or slow, NOT_MEASURED if it did not come to be measured.

    A fault's name says which: a machine on which a launch hangs or loses a node has failed it; one
    that never got it has not.
    """
    measured = entry["fail_phase"] in ("sanity", "performance", "cleanup")
    if fault:
        measured = NAMES[fault]
    build = entry["fixture"] and not entry.get("kernel")
    refused = entry.get("exit_code") in (2, 3)  # usage, resources
    return FAIL if measured and not build and not refused else NOT_MEASURED


def _build_error(entry):
    """The first line by which the build says what is wrong, with what follows it."""
    try:
        with open(os.path.join(entry["stagedir"], entry["build_stderr"]), errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
    except (OSError, KeyError, TypeError):
        return ""
    for index, line in enumerate(lines):
        if re.search(r"error\b|^bisection\.spack: ", line, re.I):
            return ": " + " ".join(lines[index : index + 2])
    return ""


def _root(entry, entries):
    """The case that made this one not run: the last on the chain of what did not pass."""
    for key in map(tuple, entry["dependencies_actual"] or []):
        needed = entries.get(key)
        if needed is not None and needed["result"] != "pass":
            return _root(needed, entries)
    return entry


def _unjudged_wrong_answers(entries, cases):
    """Wrong answers in a launch that passed, of methods that no failed case answers for."""
    answered = {
        (case.kernel, case.case, case.layout, case.partition, case.environ, case.method)
        for case in cases
        if case.verdict == FAIL
    }
    return [
        f"wrong answer of {method} in {case.place}, and no selected check judges it"
        for entry, case in zip(entries, cases, strict=True)
        if case.verdict == PASS
        for method in entry.get("wrong") or []
        if (case.kernel, case.case, case.layout, case.partition, case.environ, method)
        not in answered
    ]


def _metric(name, values):
    value, reference, lower, upper, unit, verdict = values
    # A metric without a reference has 0 for one and no bounds.
    low, high = (None if part is None else reference * (1 + part) for part in (lower, upper))
    return Metric(name.rsplit(":", 1)[-1], value, unit, low, high, verdict)


def _plain(reason):
    """ReFrame's reason without the name of the exception and without a traceback."""
    text = (reason or "no reason is given").strip().splitlines()
    return re.sub(r"^(sanity|performance|reframe|build|job) error: ", "", " ".join(text))
