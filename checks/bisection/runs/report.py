"""Reads ReFrame's report: what passed, what did not, and why.

ReFrame's own exit code is not enough: it is 0 when nothing was selected, when a check file does not
load, when everything was skipped, when a retry passed, when the results were not stored.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bisection.core.reasons import MACHINE_FAULTS, OUTER_FAULTS, Code, Reason
from bisection.core.verdicts import KernelExit, Verdict
from bisection.kernels.launch_record import LaunchRecord
from bisection.rfm import causes
from bisection.runs import reframe_log
from bisection.runs.model import JudgedMetric, RunVerdict, TestResult
from bisection.runs.reframe_log import Entry, Key, key_of

# What ReFrame itself records of a session, and no tag may be called: a pattern.
RECORDED = "data_version|hostname|uuid|cmdline|config_files|log_files|user|version|workdir"
RECORDED += "|(prefix|time|num)_.*"


def read(
    report: Mapping[str, Any] | None,
    log: str | None = None,
    listing: Callable[[], str] | None = None,
    left: Sequence[str] | None = None,
) -> RunVerdict:
    """Reads a run; bisection.judge rules on it.

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
        troubles.append(Code.NO_REPORT())
    if report is None:
        # Nothing ran, so nothing could be stored.
        troubles = [trouble for trouble in troubles if trouble.code != Code.NOT_RECORDED]
        return RunVerdict(troubles=troubles or [Code.NONE_SELECTED()])
    cases, end = [], reframe_log.end_of_run(troubles)
    for run in report["runs"]:
        entries = {key_of(entry): entry for entry in run["testcases"]}
        skipped = reframe_log.skip_reasons(log or "")
        records = _records(entries)
        cases += [_case(e, entries, records[key_of(e)], skipped, end) for e in run["testcases"]]
    first = report["runs"][0]["testcases"]
    announced = reframe_log.selected(log or "")
    absent = announced - len(first) if announced else 0
    if absent:
        troubles.append(Code.TESTS_ABSENT(absent=absent, selected=announced))
    if listing and (absent or not announced):
        reason = end or Code.RUN_ENDED()
        cases += reframe_log.absent_cases(first, listing(), reason)
    if left is None:
        troubles += reframe_log.jobs_left(first)
    else:
        troubles += [Code.JOBS_LEFT(scheduler="slurm", jobs=left)] if left else []
        cases = [replace(c, reason=_without_cancelled(c.reason, left)) for c in cases]
    if not any(not case.fixture for case in cases):
        troubles.append(Code.NO_TEST())
    session = report["session_info"]
    return RunVerdict(
        cases=cases,
        troubles=troubles,
        seconds=session["time_elapsed"],
        session=session["uuid"],
        started=session.get("time_start_unix", 0.0),
        tags={n: str(value) for n, value in session.items() if not re.fullmatch(RECORDED, n)},
    )


def _without_cancelled(reason: Reason | None, left: Sequence[str]) -> Reason | None:
    """A reason that names, of the jobs that it leaves in the queue, those that are there still."""
    if reason is None or not reason["jobs"]:
        return reason
    jobs = [job for job in reason["jobs"] if job in left]
    return reason.with_values(jobs=jobs)


def _records(entries: Mapping[Key, Entry]) -> dict[Key, LaunchRecord]:
    """The record of each launch and build; of a test that of the launch that it depends on. A test
    of launches in several layouts has hosts and facts of the first."""
    records = {key: _record(entry) for key, entry in entries.items() if entry["fixture"]}
    for key, entry in entries.items():
        needed = [tuple(other) for other in entry.get("dependencies_actual") or []]
        launches = [other for other in needed if other in records and records[other].kernel]
        alike = [k for k in launches if entries[k].get("layout") == entry.get("layout")]
        if len(launches) > 1 and not alike:
            shared = {"geometry": "", "work": None, "wrong": (), "preempted": 0.0}
            records.setdefault(key, replace(records[launches[0]], **shared))
        record = records[(alike or launches)[0]] if launches else LaunchRecord()
        records.setdefault(key, record)
    return records


def _record(entry: Entry) -> LaunchRecord:
    record = LaunchRecord.read(entry.get("launch_record") or {"facts": entry.get("facts") or {}})
    return replace(record, hosts=record.hosts or tuple(entry.get("job_nodelist") or ()))


def _case(
    entry: Entry,
    entries: Mapping[Key, Entry],
    record: LaunchRecord,
    skipped: Mapping[str, str],
    end: Reason | None,
) -> TestResult:
    verdict, reason = _classify(entry, entries, record, skipped, end)
    higher = entry.get("higher") or []
    metrics = [
        _metric(name, values, higher) for name, values in (entry["perfvalues"] or {}).items()
    ]
    metrics = [metric for metric in metrics if metric.value is not None]
    if verdict == Verdict.PASS and not entry["fixture"] and not metrics:
        verdict, reason = Verdict.NOT_MEASURED, Code.NOTHING_MEASURED()
    if verdict != Verdict.PASS and entry["fail_phase"] in ("compile", "compile_wait"):
        reason = _build_error(entry, reason)
    failed = [(m.name, m.value, m.unit, m.low, m.high) for m in metrics if m.failed]
    if failed:
        reason = Code.OUT_OF_BOUNDS(metrics=failed)
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
        folders=[entry[name] for name in ("outputdir", "stagedir") if entry.get(name)],
        metrics=metrics,
        record=record,
        seconds=entry.get("time_run") or 0.0,
    )


def _classify(
    entry: Entry,
    entries: Mapping[Key, Entry],
    record: LaunchRecord,
    skipped: Mapping[str, str],
    end: Reason | None,
) -> tuple[Verdict, Reason | None]:
    result = entry["result"]
    if result == "pass":
        return Verdict.PASS, None
    if result == "xfail":
        return Verdict.KNOWN, _reason(entry)
    if result == "xpass":
        return Verdict.FAIL, Code.UNEXPECTED_PASS()
    if result == "fail":
        fault = reframe_log.failure(entry["fail_reason"] or "", entry.get("time_run"))
        reason = fault or _reason(entry)
        return _failed(entry, record, reason), reason
    if result in ("skip", "fail_deps"):
        root = _root(entry, entries)
        if why := root.get("not_applicable"):
            return Verdict.NOT_APPLICABLE, Reason.read(why)
        if root is not entry:
            return Verdict.NOT_MEASURED, Code.FOLLOWS(test=root["display_name"])
        why = skipped.get(entry["hashcode"])
        return Verdict.NOT_MEASURED, Code.SKIPPED(why=why)
    return Verdict.NOT_MEASURED, end or Code.NOT_RUN(result=result or None)


def _reason(entry: Entry) -> Reason:
    """Returns why a test failed: what it recorded itself, else ReFrame's words."""
    reason = Reason.read(entry.get("reason")) or Reason.read(
        reframe_log.plain(entry["fail_reason"])
    )
    return reason or Code.TEXT()


def _failed(entry: Entry, record: LaunchRecord, reason: Reason) -> Verdict:
    """FAIL if the test was wrong or slow, NOT_MEASURED if it did not come to be measured.

    A fault says which: a machine on which a launch hangs or loses a node has failed it; one that
    never got it has not.
    """
    measured = entry["fail_phase"] in ("sanity", "performance", "cleanup")
    if reason.code in MACHINE_FAULTS | OUTER_FAULTS:
        measured = reason.code in MACHINE_FAULTS
    build = entry["fixture"] and not record.kernel
    refused = record.exit_code in (KernelExit.USAGE, KernelExit.RESOURCES)
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
                reason = reason or Code.TEXT()
                return reason.with_values(build=error)
    return reason


def _root(entry: Entry, entries: Mapping[Key, Entry]) -> Entry:
    """The test case that kept this one from running: the last on the chain of what did not pass."""
    for key in map(tuple, entry["dependencies_actual"] or []):
        needed = entries.get(key)
        if needed is not None and needed["result"] != "pass":
            return _root(needed, entries)
    return entry


def _metric(name: str, values: Sequence[Any], higher: Sequence[str]) -> JudgedMetric:
    value, reference, lower, upper, unit, verdict = values
    # A metric without a reference has 0 for one and no bounds.
    low, high = (None if part is None else reference * (1 + part) for part in (lower, upper))
    name = name.rsplit(":", 1)[-1]
    better = "higher" if name in higher else "lower"
    expected = None if low is None and high is None else reference
    return JudgedMetric(name, value, unit, low, high, verdict, better, expected)
