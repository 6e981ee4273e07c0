"""From ReFrame's report to a verdict: what passed, what did not, and why.

ReFrame's own exit code is not enough: it is 0 when nothing was selected, when a check file does not
load, when everything was skipped, when a retry passed, when the results were not stored.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bisection.core.reasons import MACHINE_FAULTS, OUTER_FAULTS, SLOW_HOSTS, Code, Reason
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict
from bisection.kernels.results import KernelExit
from bisection.rfm import causes
from bisection.runs import reframe_log
from bisection.runs.model import JudgedMetric, RunVerdict, TestResult
from bisection.runs.reframe_log import Entry, key_of

# What ReFrame itself records of a session, and no tag may be called: a pattern.
RECORDED = "data_version|hostname|uuid|cmdline|config_files|log_files|user|version|workdir"
RECORDED += "|(prefix|time|num)_.*"


def judge(
    report: Mapping[str, Any] | None,
    log: str | None = None,
    listing: Callable[[], str] | None = None,
    left: Sequence[str] | None = None,
) -> RunVerdict:
    """The verdict on a run.

    Args:
        report: ReFrame's report; None if there is none.
        log: ReFrame's output; None if it was not kept.
        listing: gives ReFrame's list of the selected test cases; asked for if the run stopped
            early.
        left: jobs that are in the queue after the run; None if nobody looked.

    Raises:
        KeyError, TypeError, ...: the report is not one of ReFrame's.
    """
    troubles = reframe_log.troubles(log) if log is not None else []
    if report is None and log and reframe_log.began(log):
        report = {"session_info": {"time_elapsed": 0.0, "uuid": ""}, "runs": [{"testcases": []}]}
        troubles.append(Reason.of(Code.NO_REPORT))
    if report is None:
        # Nothing ran, so nothing could be stored.
        troubles = [trouble for trouble in troubles if trouble.code != Code.NOT_RECORDED]
        return RunVerdict(troubles=troubles or [Reason.of(Code.NONE_SELECTED)])
    cases, failures, end = [], [], reframe_log.end_of_run(troubles)
    for run in report["runs"]:
        entries = {key_of(entry): entry for entry in run["testcases"]}
        skipped = reframe_log.skip_reasons(log or "")
        judged = [_case(entry, entries, skipped, end) for entry in run["testcases"]]
        share_work(judged)
        leave_out_preempted(judged)
        cases += judged
        failures += _unjudged_wrong_answers(run["testcases"], judged)
    first = report["runs"][0]["testcases"]
    announced = reframe_log.selected(log or "")
    absent = announced - len(first) if announced else 0
    if absent:
        troubles.append(Reason.of(Code.TESTS_ABSENT, absent=absent, selected=announced))
    if listing and (absent or not announced):
        reason = end or Reason.of(Code.RUN_ENDED)
        cases += reframe_log.absent_cases(first, listing(), reason)
    if left is None:
        troubles += reframe_log.jobs_left(first)
    else:
        troubles += [Reason.of(Code.JOBS_LEFT, scheduler="slurm", jobs=left)] if left else []
        for case in cases:
            case.reason = _without_cancelled(case.reason, left)
    if not any(not case.fixture for case in cases):
        troubles.append(Reason.of(Code.NO_TEST))
    session = report["session_info"]
    return RunVerdict(
        cases=cases,
        troubles=troubles,
        failures=failures,
        remarks=faulty_hosts(cases),
        seconds=session["time_elapsed"],
        session=session["uuid"],
        started=session.get("time_start_unix", 0.0),
        tags={n: str(value) for n, value in session.items() if not re.fullmatch(RECORDED, n)},
    )


# How bad a fault of a host is, to name the worst of several launches; else the last is named.
SEVERITY: dict[Code, Callable[[Reason], float]] = {
    Code.SLOW_CLOCK: lambda reason: reason["median"] / reason["ghz"],
    Code.SLOW_CORES: lambda reason: reason["seconds"] / reason["median"],
    Code.SLOW_MEMORY: lambda reason: reason["median"] / reason["rate"],
    Code.BUSY_CORES: lambda reason: reason["lost"],
    Code.ADAPTER_ERRORS: lambda reason: sum(count for _, count in reason["errors"]),
    Code.TCP_LOSSES: lambda reason: reason["fraction"],
}


def faulty_hosts(cases: Sequence[TestResult]) -> list[Reason]:
    """The hosts that were slow in a launch, or whose adapters were faulty: of each fault the worst,
    and in how many launches."""
    launches = [case for case in cases if case.fixture and case.controls.get("clock")]
    known: dict[tuple[Any, ...], list[Reason]] = {}
    for reason in (reason for case in launches for reason in case.host_faults):
        name = (
            reason["host"],
            reason.code,
            reason["adapter"] or "",
            reason["fact"] or "",
            reason["cores"] or 0,
        )
        known.setdefault(name, []).append(reason)
    remarks = []
    for (host, code, *_), reasons in sorted(known.items()):
        worst = max(reversed(reasons), key=SEVERITY.get(Code(code), lambda _: 0.0))
        kernels = {"noise"} if code in SLOW_HOSTS - {Code.SLOW_CLOCK} else None  # all show others
        shown = [case for case in launches if not kernels or case.kernel in kernels]
        if code == Code.TCP_LOSSES:  # of two hosts neither is named; of noise there is no traffic
            shown = [case for case in shown if len(case.hosts) > 2 and case.kernel != "noise"]
        of = sum(host in case.hosts for case in shown)
        # A lossy link loses in every launch that uses it; a queue that overflowed once is no fault.
        if code == Code.TCP_LOSSES and 2 * len(reasons) < of:
            continue
        remarks.append(Reason(worst.code, {**worst.values, "launches": len(reasons), "of": of}))
    return remarks


def _without_cancelled(reason: Reason | None, left: Sequence[str]) -> Reason | None:
    """A reason that names, of the jobs that it leaves in the queue, those that are there still."""
    if reason is None or not reason["jobs"]:
        return reason
    jobs = [job for job in reason["jobs"] if job in left]
    return replace(reason, values={**reason.values, "jobs": jobs})


def share_work(cases: Sequence[TestResult]) -> None:
    """Notes with every test what its launch computed."""
    works = {case.launch: case.work for case in cases if case.fixture and case.kernel}
    for case in cases:
        case.work = works.get(case.launch)


def leave_out_preempted(cases: Sequence[TestResult]) -> None:
    """Turns pass and slow into not measured where other processes had the cores of the launch;
    notes with every test how often its launch was preempted."""
    launches = {case.launch: case for case in cases if case.fixture and case.kernel}
    for case in cases:
        if case.fixture or not (launch := launches.get(case.launch)):
            continue
        case.preempted = launch.preempted
        slow = case.verdict == Verdict.FAIL and any(metric.failed for metric in case.metrics)
        if case.preempted > LIMITS.preempted_launch and (slow or case.verdict == Verdict.PASS):
            reason = Reason.of(Code.PREEMPTED, fraction=round(case.preempted, 4))
            if launch.remark and launch.remark.code == Code.STOPPED:
                reason = launch.remark
            case.verdict, case.reason, case.remark = Verdict.NOT_MEASURED, reason, None


def _case(
    entry: Entry,
    entries: Mapping[tuple[str, str, str], Entry],
    skipped: Mapping[str, str],
    end: Reason | None,
) -> TestResult:
    verdict, reason = _classify(entry, entries, skipped, end)
    higher = entry.get("higher") or []
    metrics = [
        _metric(name, values, higher) for name, values in (entry["perfvalues"] or {}).items()
    ]
    metrics = [metric for metric in metrics if metric.value is not None]
    if verdict == Verdict.PASS and not entry["fixture"] and not metrics:
        verdict, reason = Verdict.NOT_MEASURED, Reason.of(Code.NOTHING_MEASURED)
    if verdict != Verdict.PASS and entry["fail_phase"] in ("compile", "compile_wait"):
        reason = _build_error(entry, reason)
    failed = [(m.name, m.value, m.unit, m.low, m.high) for m in metrics if m.failed]
    if failed:
        reason = Reason.of(Code.OUT_OF_BOUNDS, metrics=failed)
    text = {n: entry.get(n) or "" for n in ("kernel", "geometry", "built_with")}
    facts = dict(entry.get("facts") or {})
    if entry["fixture"]:
        facts |= {name: entry[name] for name in ("lock", "software") if entry.get(name)}
    return TestResult(
        *(entry["system"], entry["partition"], entry["environ"]),
        re.split(r"[ %]", entry["display_name"])[0],
        *(entry.get(name) or "" for name in ("case", "layout", "method")),
        name=entry["display_name"],
        hash=entry["hashcode"],
        run=entry["run_index"],
        fixture=entry["fixture"],
        verdict=verdict,
        reason=reason,
        remark=Reason.read(entry.get("remark")),
        preempted=entry.get("preempted") or entry.get("disturbed") or 0.0,
        hosts=entry.get("hosts") or (entry.get("job_nodelist") or [] if entry["fixture"] else []),
        folders=[entry[name] for name in ("outputdir", "stagedir") if entry.get(name)],
        metrics=metrics,
        facts=facts,
        controls=entry.get("controls") or {},
        slowest=entry.get("slowest") or "",
        host_faults=[Reason.read(reason) for reason in entry.get("host_faults") or []],
        seconds=entry.get("time_run") or 0.0,
        work=entry["work"].get(entry["case"], "") if "work" in entry else None,
        **text,
    )


def _classify(
    entry: Entry,
    entries: Mapping[tuple[str, str, str], Entry],
    skipped: Mapping[str, str],
    end: Reason | None,
) -> tuple[Verdict, Reason | None]:
    result = entry["result"]
    if result == "pass":
        return Verdict.PASS, None
    if result == "xfail":
        return Verdict.KNOWN, _reason(entry)
    if result == "xpass":
        return Verdict.FAIL, Reason.of(Code.UNEXPECTED_PASS)
    if result == "fail":
        fault = reframe_log.failure(entry["fail_reason"] or "", entry.get("time_run"))
        reason = fault or _reason(entry)
        return _failed(entry, reason), reason
    if result in ("skip", "fail_deps"):
        root = _root(entry, entries)
        if why := root.get("not_applicable"):
            return Verdict.NOT_APPLICABLE, Reason.read(why)
        if root is not entry:
            return Verdict.NOT_MEASURED, Reason.of(Code.FOLLOWS, test=root["display_name"])
        why = skipped.get(entry["hashcode"])
        return Verdict.NOT_MEASURED, Reason.of(Code.SKIPPED, why=why)
    return Verdict.NOT_MEASURED, end or Reason.of(Code.NOT_RUN, result=result or None)


def _reason(entry: Entry) -> Reason:
    """Why a test failed: what it recorded itself, else ReFrame's words."""
    reason = Reason.read(entry.get("reason")) or Reason.read(
        reframe_log.plain(entry["fail_reason"])
    )
    return reason or Reason.of(Code.TEXT)


def _failed(entry: Entry, reason: Reason) -> Verdict:
    """FAIL if the test was wrong or slow, NOT_MEASURED if it did not come to be measured.

    A fault says which: a machine on which a launch hangs or loses a node has failed it; one that
    never got it has not.
    """
    measured = entry["fail_phase"] in ("sanity", "performance", "cleanup")
    if reason.code in MACHINE_FAULTS | OUTER_FAULTS:
        measured = reason.code in MACHINE_FAULTS
    build = entry["fixture"] and not entry.get("kernel")
    refused = entry.get("exit_code") in (KernelExit.USAGE, KernelExit.RESOURCES)
    refused = refused and reason.code != Code.MISPLACED
    return Verdict.FAIL if measured and not build and not refused else Verdict.NOT_MEASURED


def _build_error(entry: Entry, reason: Reason | None) -> Reason | None:
    """The reason, which may be a full disk, with the first line by which the build names its error,
    and the line after it."""
    try:
        with open(os.path.join(entry["stagedir"], entry["build_stderr"]), errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
    except (OSError, KeyError, TypeError):
        return reason
    reason = causes.of_full_disk(entry["stagedir"], lines) or reason
    for pattern in (r"(?i)error\b", r"^bisection\.kernels\.spack: "):
        for index, line in enumerate(lines):
            if re.search(pattern, line):
                error = " ".join(lines[index : index + 2])
                reason = reason or Reason.of(Code.TEXT)
                return replace(reason, values={**reason.values, "build": error})
    return reason


def _root(entry: Entry, entries: Mapping[tuple[str, str, str], Entry]) -> Entry:
    """The test case that kept this one from running: the last on the chain of what did not pass."""
    for key in map(tuple, entry["dependencies_actual"] or []):
        needed = entries.get(key)
        if needed is not None and needed["result"] != "pass":
            return _root(needed, entries)
    return entry


def _unjudged_wrong_answers(entries: Sequence[Entry], cases: Sequence[TestResult]) -> list[Reason]:
    """Wrong answers in a launch that passed, of methods that no failed test answers for."""
    answered = {(*case.launch, case.method) for case in cases if case.verdict == Verdict.FAIL}
    return [
        Reason.of(Code.UNJUDGED_WRONG_ANSWER, method=method, place=case.group)
        for entry, case in zip(entries, cases, strict=True)
        if case.verdict == Verdict.PASS
        for method in entry.get("wrong") or []
        if (*case.launch, method) not in answered
    ]


def _metric(name: str, values: Sequence[Any], higher: Sequence[str]) -> JudgedMetric:
    value, reference, lower, upper, unit, verdict = values
    # A metric without a reference has 0 for one and no bounds.
    low, high = (None if part is None else reference * (1 + part) for part in (lower, upper))
    name = name.rsplit(":", 1)[-1]
    better = "higher" if name in higher else "lower"
    expected = None if low is None and high is None else reference
    return JudgedMetric(name, value, unit, low, high, verdict, better, expected)
