"""Output of ReFrame that it does not record: its log, its list of tests, its words for failures.

ReFrame's own words are matched here and nowhere else; what they mean is returned as a Reason.
"""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bisection.core.commands import all_errors, last_error
from bisection.core.reasons import MACHINE_FAULTS, OUTER_FAULTS, Code, Reason
from bisection.core.slurm import UNREACHABLE
from bisection.core.verdicts import Verdict
from bisection.kernels.launch_record import LaunchRecord
from bisection.runs.model import TestResult

Entry = Mapping[str, Any]  # a test case in ReFrame's report
Key = tuple[str, str, str]  # what a test case is called where another one depends on it

# ---- the log ----


def selected(log: str) -> int | None:
    """Returns how many test cases ReFrame announced; None if it came to none."""
    match = re.search(r"^\[.*\] \(\s*\d+/(\d+)\)", log, re.M)
    return int(match[1]) if match else None


def began(log: str) -> bool:
    """True if ReFrame had tests to run."""
    return bool(re.search(r"^\[=+\] Running [1-9]\d* check", log, re.M))


def usage_error(log: str) -> str | None:
    """ReFrame's words on a command line that it does not take; None if it took it."""
    match = re.search(r"^reframe: error: (.*)", log, re.M)
    return match[1] if match else None


def troubles(log: str) -> list[Reason]:
    """Returns failures to load or record, and those that stopped the run."""
    reasons = []
    for line in log.splitlines():
        if match := re.match(r"WARNING: skipping (test file|test|incompatible test) (.*)", line):
            trouble = Code.NOT_LOADED(kind=match[1], text=match[2])
            if trouble not in reasons:
                reasons.append(trouble)
        elif line.startswith(("ERROR: ", "WARNING: failed to ", "WARNING: run session stopped")):
            stopped = line.startswith("ERROR: run session stopped")
            fault = failure(log[log.index(line) :]) if stopped else None
            text = line.split(": ", 1)[1]
            ends = text.startswith("run session stopped") or None
            reasons.append(fault or Code.REFRAME_TEXT(text=text, ended=ends))
    ran = re.search(r"^\[==========\] Finished", log, re.M)
    stored = re.search(r"^Current session stored with UUID: ", log, re.M)
    if (
        ran
        and not stored
        and not re.search("^(ERROR|WARNING): .*results in the database", log, re.M)
    ):
        reasons.append(Code.NOT_RECORDED())
    return reasons


def end_of_run(troubles: Iterable[Reason]) -> Reason | None:
    """The trouble that ended the run before its time; None if none did."""
    ends = {Code.NO_REPORT, *MACHINE_FAULTS, *OUTER_FAULTS}
    return next((t for t in troubles if t.code in ends or t["ended"]), None)


def skip_reasons(log: str) -> dict[str, str]:
    """Hash of a skipped test -> ReFrame's words why; its report does not have them."""
    return dict(re.findall(r"^\[\s+SKIP \] \(.*?/([0-9a-f]{8}) @\S+ \[(.*)\]$", log, re.M))


# ---- jobs and tests that it left ----


def jobs_left(entries: Iterable[Entry]) -> list[Reason]:
    """Per scheduler, the launches that ReFrame left, neither ended nor cancelled."""
    left: dict[str, list[str]] = {}
    ended = ("pass", "fail", "xfail", "xpass", "skip", "fail_deps", "abort")
    for entry in entries:
        launch = entry["fixture"] and entry.get("launch_record")
        if launch and entry["result"] not in ended and entry.get("jobid"):
            left.setdefault(entry["scheduler"], []).append(str(entry["jobid"]))
    return [
        Code.JOBS_LEFT(scheduler=name, jobs=jobs) for name, jobs in left.items() if name != "local"
    ]


def key_of(entry: Entry) -> Key:
    """Returns what a test case is called where another one depends on it."""
    return entry["unique_name"], f"{entry['system']}:{entry['partition']}", entry["environ"]


def absent_cases(entries: Iterable[Entry], listing: str, reason: Reason) -> list[TestResult]:
    """The selected test cases that the run did not come to, from ReFrame's list of them (-lC)."""
    known = {(entry["hashcode"], *key_of(entry)[1:]) for entry in entries}
    listed = re.findall(r"^- (\S+)(.*) /([0-9a-f]{8}) @(\S+)\+(\S+)$", listing, re.M)
    return [
        _absent(check, check + rest, hashcode, partition, environ, reason)
        for check, rest, hashcode, partition, environ in listed
        if (hashcode, partition, environ) not in known
    ]


def _absent(
    check: str, name: str, hashcode: str, where: str, environ: str, reason: Reason
) -> TestResult:
    parameters = dict(re.findall(r"%(?:launch\.)?(\w+)=(\S+)", name))
    system, _, partition = where.partition(":")
    of_launch = [parameters.get(name, "") for name in ("case", "layout", "method")]
    return TestResult(
        *(system, partition, environ, check, *of_launch),
        name=name,
        hash=hashcode,
        record=LaunchRecord(check),
        verdict=Verdict.NOT_MEASURED,
        reason=reason,
        ran=False,
    )


# ---- its words for failures ----

COMMANDS = re.compile(
    r"(?:\S*/)?(sacct|sbatch|scancel|scontrol|sinfo|squeue|qdel|qselect|qstat|qsub|bjobs|bkill|"
    r"bsub|oardel|oarstat|oarsub|flux)(?:\s|$)"
)
SUBMIT = ("sbatch", "qsub", "bsub", "oarsub")
SPAWNED = re.compile(
    r"spawned process (?:error|timeout): command '(?P<command>.*?)' (?P<how>failed|timed out) .*?:"
    r"\s+--- stdout ---\s.*?--- stdout ---\s+--- stderr ---\s(?P<stderr>.*?)--- stderr ---",
    re.S,
)


def failure(text: str, seconds: float | None = None) -> Reason | None:
    """The fault of a scheduler that ReFrame's reason for a failure, or its output, is about.

    Args:
        text: ReFrame's words.
        seconds: how long ReFrame had the job.
    """
    for spawned in SPAWNED.finditer(text):
        if command := COMMANDS.match(spawned["command"]):
            return _of_command(command[1], spawned)
    if match := re.search(r"job blocked error: \[jobid=(\S+)\] .*? due to reason: (.*)", text):
        why = match[2].strip()
        return Code.BLOCKED(job=match[1], waited=seconds, reason=why)
    if match := re.search(r"job error: \[jobid=(\S+)\] maximum pending time exceeded", text):
        return Code.BLOCKED(job=match[1], waited=seconds)
    if match := re.search(r"job error: \[jobid=\S+\] job timed out \(.*s > (\S+)s\)", text):
        return Code.TIMEOUT(limit=float(match[1]))
    if match := re.search(r"job scheduler error: (.*)", text):
        return Code.INFRASTRUCTURE(said=match[1])
    return None


def _of_command(command: str, spawned: re.Match[str]) -> Reason:
    error = last_error(command, spawned["stderr"])
    if spawned["how"] == "timed out":
        return Code.INFRASTRUCTURE(command=command)
    if command in SUBMIT and error and not UNREACHABLE.search(error):
        return Code.BLOCKED(refused=all_errors(command, spawned["stderr"]))
    return Code.INFRASTRUCTURE(said=error or None, command=command)


def plain(text: str | None) -> str:
    """ReFrame's words without the name of the exception."""
    words = " ".join((text or "").strip().splitlines())
    return re.sub(r"^(sanity|performance|reframe|build|job) error: ", "", words)


def load_report(path: Path | str) -> dict[str, Any] | None:
    """ReFrame's report in `path`; None if there is none. ValueError if the file is not a report."""
    try:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
    except FileNotFoundError:
        return None
    if not isinstance(report, dict) or "runs" not in report:
        raise ValueError(f"{path} is not a report of ReFrame")
    return report
