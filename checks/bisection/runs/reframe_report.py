"""Reads ReFrame's report and output: what passed, what did not, and why.

ReFrame's own exit code is not enough: it is 0 when nothing was selected, when a check file does not
load, when everything was skipped, when a retry passed, when the results were not stored. ReFrame's
own words are matched here and nowhere else; what they mean is returned as a Reason.
"""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from bisection import schedulers
from bisection.core import paths
from bisection.core.commands import all_errors, last_error
from bisection.core.grouping import grouped
from bisection.core.reasons import MACHINE_FAULTS, OUTER_FAULTS, read_reason
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.launches import (
    Blocked,
    Infrastructure,
    Misplaced,
    ReframeText,
    TestFailed,
    Timeout,
    jobs_left,
)
from bisection.core.verdicts import KernelExit, Verdict
from bisection.kernels import launch_faults
from bisection.kernels.launch_record import LaunchRecord
from bisection.runs.run_verdict import JudgedMetric, RunVerdict, TestResult
from bisection.schedulers.scheduler import UNREACHABLE, hosts_of

NONE_SELECTED = Text("no check was selected: ReFrame found none for this tier, name and partition")

Entry = Mapping[str, Any]  # a test case in ReFrame's report
Key = tuple[str, str, str]  # what a test case is called where another one depends on it

# What ReFrame itself records of a session, and no tag may be called: a pattern.
RECORDED = "data_version|hostname|uuid|cmdline|config_files|log_files|user|version|workdir"
RECORDED += "|(prefix|time|num)_.*"


def load_report(path: Path) -> dict[str, Any]:
    """ReFrame's report in a file. OSError, ValueError: it cannot be read, or is not a report."""
    report = json.loads(paths.regular(path).read_text(encoding="utf-8"))
    if not isinstance(report, dict) or "runs" not in report:
        raise ValueError(f"{path} is not a report of ReFrame")
    return report


def read(
    report: Mapping[str, Any] | None,
    log: str = "",
    listing: Callable[[], str] | None = None,
    left: Sequence[str] | None = None,
    scheduler: str = "",
) -> RunVerdict:
    """Reads a run; bisection.judge rules on it.

    Args:
        report: ReFrame's; None if there is none.
        log: ReFrame's output; "" if it was not kept.
        listing: gives ReFrame's list of the selected test cases, if the run stopped early.
        left: jobs that are in the queue after the run; None if nobody looked.
        scheduler: ReFrame's name of the scheduler of these jobs.

    Raises:
        KeyError, TypeError, ...: the report is not one of ReFrame's.
    """
    troubles = log_troubles(log)
    if report is None:
        if not re.search(r"^\[=+\] Running [1-9]\d* check", log, re.M):
            return RunVerdict(troubles=tuple(troubles) or (NONE_SELECTED,))
        report = {"session_info": {"time_elapsed": 0.0, "uuid": ""}, "runs": [{"testcases": []}]}
        troubles.append(ReframeText(text="ReFrame ended without a report", ended=True))
    cases: list[TestResult] = []
    end = RunVerdict(troubles=tuple(troubles)).end
    skipped = dict(re.findall(r"^\[\s+SKIP \] \(.*?/([0-9a-f]{8}) @\S+ \[(.*)\]$", log, re.M))
    for run in report["runs"]:
        entries = {_key(entry): entry for entry in run["testcases"]}
        records = _records(entries)
        known = _Known(entries, records, skipped, end)
        cases += [_case(entry, known) for entry in run["testcases"]]
    first = report["runs"][0]["testcases"]
    announced = re.search(r"^\[.*\] \(\s*\d+/(\d+)\)", log, re.M)
    selected = int(announced[1]) if announced else len(first)
    absent = selected - len(first)
    if absent:
        troubles.append(Text(f"{absent} of {selected} selected test cases did not run"))
    if listing and (absent or not announced):
        cases += _absent_cases(first, listing(), end or Text("the run ended before it"))
    if left is None:
        troubles += _jobs_left(first)
    else:
        troubles += [Text(jobs_left(left, schedulers.of(scheduler).cancels))] if left else []
        for index, case in enumerate(cases):  # of the jobs that it leaves, those that are there
            if isinstance(case.reason, Infrastructure):
                still = tuple(job for job in case.reason.jobs if job in left)
                cases[index] = replace(case, reason=replace(case.reason, jobs=still))
    if all(case.fixture for case in cases):
        troubles.append(Text("no check was selected"))
    session = report["session_info"]
    return RunVerdict(
        cases=tuple(cases),
        troubles=tuple(troubles),
        seconds=session["time_elapsed"],
        session=session["uuid"],
        started=session.get("time_start_unix", 0.0),
        tags={n: str(value) for n, value in session.items() if not re.fullmatch(RECORDED, n)},
    )


# ---- the log ----


def usage_error(log: str) -> str | None:
    """ReFrame's words on a command line that it does not take; None if it took it."""
    match = re.search(r"^reframe: error: (.*)", log, re.M)
    return match[1] if match else None


def log_troubles(log: str) -> list[Reason]:
    """Returns failures to load, and those that stopped the run."""
    reasons: list[Reason] = []
    for line in log.splitlines():
        if match := re.match(r"WARNING: skipping (test file|test|incompatible test) (.*)", line):
            trouble = Text(f"{match[1]} does not load: {match[2]}")
            if trouble not in reasons:
                reasons.append(trouble)
        elif line.startswith(("ERROR: ", "WARNING: failed to ", "WARNING: run session stopped")):
            text = line.split(": ", 1)[1]
            ends = text.startswith("run session stopped")
            # The words behind it may say more.
            fault = failure(log[log.index(line) :]) if line.startswith("ERROR") and ends else None
            reasons.append(fault or ReframeText(text=text, ended=ends))
    return reasons


# ---- jobs and tests that ReFrame left ----


def _jobs_left(entries: Iterable[Entry]) -> list[Reason]:
    """Per scheduler, the launches that ReFrame left, neither ended nor cancelled."""
    ended = ("pass", "fail", "xfail", "xpass", "skip", "fail_deps", "abort")
    launches = (entry for entry in entries if entry["fixture"] and entry.get("launch_record"))
    left = [each for each in launches if each["result"] not in ended and each.get("jobid")]
    jobs = grouped(left, lambda entry: entry["scheduler"])
    return [
        Text(jobs_left([str(entry["jobid"]) for entry in group], schedulers.of(name).cancels))
        for name, group in jobs.items()
        if not schedulers.of(name).is_local
    ]


def _absent_cases(entries: Iterable[Entry], listing: str, reason: Reason) -> Iterator[TestResult]:
    """The selected test cases that the run did not come to, from ReFrame's list of them (-lC)."""
    known = {(entry["hashcode"], *_key(entry)[1:]) for entry in entries}
    listed = re.findall(r"^- (\S+)(.*) /([0-9a-f]{8}) @(\S+)\+(\S+)$", listing, re.M)
    for check, rest, hashcode, where, environ in listed:
        if (hashcode, where, environ) not in known:
            parameters = dict(re.findall(r"%(?:launch\.)?(\w+)=(\S+)", check + rest))
            system, _, partition = where.partition(":")
            yield TestResult(
                system=system,
                partition=partition,
                environ=environ,
                check=check,
                case=parameters.get("case", ""),
                layout=parameters.get("layout", ""),
                method=parameters.get("method", ""),
                name=check + rest,
                hash=hashcode,
                record=LaunchRecord(check),
                reason=reason,
                ran=False,
            )


# ---- test cases ----


def _key(entry: Entry) -> Key:
    return entry["unique_name"], f"{entry['system']}:{entry['partition']}", entry["environ"]


def _needed(entry: Entry) -> list[Key]:
    return [tuple(key) for key in entry.get("dependencies_actual") or []]


def _records(entries: Mapping[Key, Entry]) -> dict[Key, LaunchRecord]:
    """The record of each launch and build; of a test that of the launch that it depends on. A test
    of launches in several layouts has hosts and facts of the first, and is as disturbed as the one
    that is most."""
    records = {}
    for key, entry in entries.items():
        if entry["fixture"]:
            stored = entry.get("launch_record") or {"facts": entry.get("facts") or {}}
            record = LaunchRecord.read(stored)
            hosts = record.hosts or tuple(hosts_of(entry.get("job_nodelist")))
            records[key] = replace(record, hosts=hosts)
    for key, entry in entries.items():
        launches = [other for other in _needed(entry) if other in records and records[other].kernel]
        alike = [k for k in launches if entries[k].get("layout") == entry.get("layout")]
        record = records[(alike or launches)[0]] if launches else LaunchRecord()
        if len(launches) > 1:
            of_all = [records[name] for name in launches]
            worst = max(of_all, key=lambda each: each.lost_part)
            record = replace(
                record,
                seconds=tuple(part for each in of_all for part in each.seconds),
                disturbed=worst.disturbed,
                waited=worst.waited,
                stopped=worst.stopped,
            )
            if not alike:
                record = replace(record, geometry="", work=None, wrong=())
        records.setdefault(key, record)
    return records


class _Known(NamedTuple):
    """The facts by which test cases are classified."""

    entries: Mapping[Key, Entry]
    records: Mapping[Key, LaunchRecord]
    skipped: Mapping[str, str]  # hash of a skipped test -> why
    end: Reason | None  # why the run ended before its time


def _case(entry: Entry, known: _Known) -> TestResult:
    record = known.records[_key(entry)]
    verdict, reason = _classify(entry, known)
    higher = entry.get("higher") or []
    spot = entry.get("spot", -1)  # of a campaign over every node: its runs are one
    values = (entry["perfvalues"] or {}).items()
    metrics = [_metric(name, parts, higher) for name, parts in values if parts[0] is not None]
    if verdict == Verdict.PASS and not entry["fixture"] and not metrics:
        verdict, reason = Verdict.NOT_MEASURED, Text("it passed without measuring anything")
    if verdict != Verdict.PASS and entry["fail_phase"] in ("compile", "compile_wait"):
        reason = _build_error(entry, reason)
    if failed := tuple(metric.bounds for metric in metrics if metric.failed):
        reason = record.beyond(entry.get("method") or "", failed)
    needed = (known.entries.get(key) for key in _needed(entry))
    launches = tuple(o["display_name"] for o in needed if o and o.get("launch_record"))
    return TestResult(
        system=entry["system"],
        partition=entry["partition"],
        environ=entry["environ"],
        check=re.split(r"[ %]", entry["display_name"])[0],
        case=entry.get("case") or "",
        layout=entry.get("layout") or "",
        method=entry.get("method") or "",
        name=entry["display_name"],
        hash=entry["hashcode"],
        run=entry["run_index"] if spot < 0 else spot,
        fixture=entry["fixture"],
        launches=() if entry["fixture"] else launches,
        verdict=verdict,
        reason=reason,
        remark=read_reason(entry.get("remark")),
        folders=tuple(entry[name] for name in ("outputdir", "stagedir") if entry.get(name)),
        metrics=tuple(metrics),
        record=record,
    )


def _classify(entry: Entry, known: _Known) -> tuple[Verdict, Reason | None]:
    result, words = entry["result"], entry["fail_reason"] or ""
    plain = " ".join(words.strip().splitlines())
    plain = re.sub(r"^(sanity|performance|reframe|build|job) error: ", "", plain)
    recorded = read_reason(entry.get("reason")) or read_reason(plain) or Text()
    if result == "pass":
        return Verdict.PASS, None
    if result == "xfail":
        return Verdict.KNOWN, recorded
    if result == "xpass":
        return Verdict.FAIL, Text("passes, though the reference says that it is known to fail")
    if result == "fail":
        reason = failure(words, entry.get("time_run")) or recorded
        return _failed(entry, known.records[_key(entry)], reason), reason
    if result in ("skip", "fail_deps"):
        root = _root(entry, known.entries)
        if why := root.get("not_applicable"):
            return Verdict.NOT_APPLICABLE, read_reason(why)
        if root is not entry:
            return Verdict.NOT_MEASURED, TestFailed(root["display_name"])
        why = known.skipped.get(entry["hashcode"], "unknown")
        return Verdict.NOT_MEASURED, Text(f"skipped: {why}")
    return Verdict.NOT_MEASURED, known.end or Text(f"ReFrame's result is {result or 'unknown'}")


def _failed(entry: Entry, record: LaunchRecord, reason: Reason) -> Verdict:
    """FAIL if the test was wrong or slow, NOT_MEASURED if it did not come to be measured.

    A fault says which: a machine on which a launch hangs or loses a node has failed it; one that
    never got it has not.
    """
    if isinstance(reason, MACHINE_FAULTS):
        return Verdict.FAIL
    if isinstance(reason, OUTER_FAULTS):
        return Verdict.NOT_MEASURED
    reached = entry["fail_phase"] in ("sanity", "performance", "cleanup")
    build = entry["fixture"] and not record.kernel
    refused = record.exit_code in (KernelExit.USAGE, KernelExit.RESOURCES)
    refused = refused and not isinstance(reason, Misplaced)
    return Verdict.FAIL if reached and not build and not refused else Verdict.NOT_MEASURED


def _build_error(entry: Entry, reason: Reason | None) -> Reason | None:
    """The reason, which may be a full disk, with the first line by which the build names its error,
    and the line after it."""
    try:
        with open(os.path.join(entry["stagedir"], entry["build_stderr"]), errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
    except (OSError, KeyError, TypeError):
        return reason
    reason = launch_faults.of_full_disk(entry["stagedir"], lines) or reason
    for pattern in (r"(?i)error\b", r"^bisection\.kernels\.spack: "):
        for index, line in enumerate(lines):
            if re.search(pattern, line):
                return replace(reason or Text(), build=" ".join(lines[index : index + 2]))
    return reason


def _root(entry: Entry, entries: Mapping[Key, Entry]) -> Entry:
    """The test case that kept this one from running: the last on the chain of what did not pass."""
    for key in _needed(entry):
        if key in entries and entries[key]["result"] != "pass":
            return _root(entries[key], entries)
    return entry


def _metric(name: str, values: Sequence[Any], higher: Sequence[str]) -> JudgedMetric:
    value, reference, lower, upper, unit, verdict = values
    # A metric without a reference has 0 for one and no bounds.
    low, high = (None if part is None else reference * (1 + part) for part in (lower, upper))
    name = name.rsplit(":", 1)[-1]
    better = "higher" if name in higher else "lower"
    expected = None if low is None and high is None else reference
    return JudgedMetric(name, value, unit, low, high, verdict, better, expected)


# ---- words for failures ----

SPAWNED = re.compile(
    r"spawned process (?:error|timeout): command '(?P<command>.*?)' (?P<how>failed|timed out) .*?:"
    r"\s+--- stdout ---\s.*?--- stdout ---\s+--- stderr ---\s(?P<stderr>.*?)--- stderr ---",
    re.S,
)


def failure(text: str, seconds: float | None = None) -> Reason | None:
    """The fault of a scheduler that ReFrame's words, on a failure or all of its output, are about;
    `seconds`: how long ReFrame had the job."""
    for spawned in SPAWNED.finditer(text):
        command = Path(spawned["command"].split(" ")[0]).name
        if scheduler := schedulers.with_command(command):
            error = last_error(command, spawned["stderr"])
            if spawned["how"] == "timed out" or not error:
                return Infrastructure(why=f"{command} did not answer in time")
            if command == scheduler.submits and not UNREACHABLE.search(error):
                return Blocked(refused=all_errors(command, spawned["stderr"]))
            return Infrastructure(why=error)
    if match := re.search(r"job blocked error: \[jobid=(\S+)\] .*? due to reason: (.*)", text):
        return Blocked(job=match[1], waited=seconds or 0.0, reason=match[2].strip())
    if match := re.search(r"job error: \[jobid=(\S+)\] maximum pending time exceeded", text):
        return Blocked(job=match[1], waited=seconds or 0.0)
    if match := re.search(r"job error: \[jobid=\S+\] job timed out \(.*s > (\S+)s\)", text):
        return Timeout(limit=float(match[1]))
    if match := re.search(r"job scheduler error: (.*)", text):
        return Infrastructure(why=match[1])
    return None
