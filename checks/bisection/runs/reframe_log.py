"""What ReFrame says in its output alone."""

import json
import re

from bisection.core.verdicts import NOT_MEASURED
from bisection.rfm import scheduler_faults
from bisection.rfm.scheduler_faults import NAMES
from bisection.runs.model import Case

NOT_STORED = "the results were not stored in ReFrame's database (storage: enable)"


def troubles_in_log(log):
    """What ReFrame says in its output alone: what did not load, was not stored, stopped the run."""
    troubles = []
    for line in log.splitlines():
        if match := re.match(r"WARNING: skipping (test file|test|incompatible test) (.*)", line):
            trouble = f"{match[1]} does not load: {match[2]}"
            if trouble not in troubles:
                troubles.append(trouble)
        elif line.startswith(("ERROR: ", "WARNING: failed to ", "WARNING: run session stopped")):
            stopped = line.startswith("ERROR: run session stopped")
            fault = scheduler_faults.of_reframe(log[log.index(line) :]) if stopped else ""
            troubles.append(fault or line.split(": ", 1)[1])
    ran = re.search(r"^\[==========\] Finished", log, re.M)
    stored = re.search(r"^Current session stored with UUID: ", log, re.M)
    if ran and not stored and not any("results in the database" in line for line in troubles):
        troubles.append(NOT_STORED)
    return troubles


def end_of_run(troubles):
    """The trouble that ended the run before its time, "" if none did."""
    stops = ("run session stopped", "ReFrame ended", *NAMES)
    return next((trouble for trouble in troubles if trouble.startswith(stops)), "")


def left_in_queue(entries):
    """A line for each scheduler with launches that ReFrame left, neither ended nor cancelled."""
    left = {}
    ended = ("pass", "fail", "xfail", "xpass", "skip", "fail_deps", "abort")
    for entry in entries:
        launch = entry["fixture"] and entry.get("geometry")
        if launch and entry["result"] not in ended and entry.get("jobid"):
            left.setdefault(entry["scheduler"], []).append(entry["jobid"])
    return [scheduler_faults.left_in_queue(*both) for both in left.items() if both[0] != "local"]


def absent_cases(entries, listing, cause):
    """The selected test cases that the run did not come to, from ReFrame's list of them (-lC)."""
    known = {(entry["hashcode"], *key_of(entry)[1:]) for entry in entries}
    found = re.findall(r"^- (\S+)(.*) /([0-9a-f]{8}) @(\S+)\+(\S+)$", listing, re.M)
    return [
        _absent(check, check + rest, hashcode, partition, environ, cause)
        for check, rest, hashcode, partition, environ in found
        if (hashcode, partition, environ) not in known
    ]


def _absent(check, name, hashcode, partition, environ, cause):
    parameters = dict(re.findall(r"%(?:launch\.)?(\w+)=(\S+)", name))
    return Case(
        test=name,
        hash=hashcode,
        check=check,
        kernel=check,
        case=parameters.get("case", ""),
        layout=parameters.get("layout", ""),
        geometry="",
        method=parameters.get("method", ""),
        partition=partition,
        environ=environ,
        built_with="",
        run=0,
        fixture=False,
        verdict=NOT_MEASURED,
        cause=cause,
        disturbed=0.0,
        remark="",
        folders=[],
        ran=False,
    )


def skip_reasons(log):
    """Hash of a skipped test -> why, from ReFrame's output; the report does not say."""
    found = re.findall(r"^\[\s+SKIP \] \(.*?/([0-9a-f]{8}) @\S+ \[(.*)\]$", log, re.M)
    return dict(found)


def key_of(entry):
    return entry["unique_name"], f"{entry['system']}:{entry['partition']}", entry["environ"]


def load_report(path):
    """ReFrame's report in `path`; None if there is none. ValueError if it is not one."""
    try:
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
    except FileNotFoundError:
        return None
    if not isinstance(report, dict) or "runs" not in report:
        raise ValueError(f"{path} is not a report of ReFrame")
    return report
