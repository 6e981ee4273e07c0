"""From ReFrame's report to a verdict: what passed, what did not, why, and an exit code.

ReFrame's own exit code is not enough: it is 0 when nothing was selected, when a check file does not
load, when everything was skipped, when a retry passed, when the results were not stored.
"""

import json
import os
import re
from dataclasses import dataclass, field

from bisection import faults

PASS, FAIL = "pass", "FAIL"
NOT_MEASURED, NOT_APPLICABLE, KNOWN = "not measured", "not applicable", "known failure"

FOLLOWS = "did not pass"  # how the cause of a case ends that another one's failure stopped
NOT_STORED = "the results were not stored in ReFrame's database (storage: enable)"

# Exit codes: 2 is for usage (argparse's own).
ALL_PASSED, SOME_FAILED, NOT_ALL_MEASURED = 0, 1, 3


@dataclass
class Metric:
    """A measured value; `low` and `high` are what may pass, None where nothing is asserted."""

    name: str
    value: float
    unit: str
    low: float | None
    high: float | None
    verdict: str

    @property
    def asserted(self):
        return self.low is not None or self.high is not None

    @property
    def strain(self):
        """How near to its bounds a value is: 0 in the middle, 1 on a bound, above 1 outside."""
        if self.low is None or self.high is None:
            return 0.0
        middle, half = (self.high + self.low) / 2, (self.high - self.low) / 2
        return abs(self.value - middle) / half if half else float(self.value != middle)


@dataclass
class Case:
    """One test case of ReFrame's report and what became of it."""

    test: str  # as ReFrame displays it
    hash: str  # for -n /hash
    check: str
    kernel: str
    case: str
    layout: str
    geometry: str
    method: str
    partition: str
    environ: str
    built_with: str
    run: int
    fixture: bool
    verdict: str
    cause: str
    disturbed: float  # share of samples in which other processes took a core
    remark: str  # what a person should know though nothing is wrong
    folders: list[str]  # where ReFrame left its files
    files: str = ""  # where they are kept
    ran: bool = True  # False: the run stopped before it
    hosts: list[str] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)

    @property
    def launch(self):
        """What the cases of one launch have in common."""
        return self.kernel, self.case, self.layout, self.partition, self.environ, self.run

    @property
    def place(self):
        """Words that name the launch, or the build, that the case is about."""
        words = [self.check, self.case, self.layout]
        return " ".join(word for word in words if word) + f" ({self.environ})"


@dataclass
class Verdict:
    """The cases of one run, what is wrong with the run as a whole, and what follows from both."""

    cases: list[Case]
    troubles: list[str]  # each one line; the run is not complete
    failures: list[str]  # each one line; wrong, but of no selected case
    seconds: float
    session: str

    @property
    def judged(self):
        return [case for case in self.cases if not case.fixture]

    @property
    def bad(self):
        """Failed and unmeasured cases; a fixture stands for the cases that depend on it."""
        return [case for case in self.cases if case.verdict in (FAIL, NOT_MEASURED)]

    def count(self, verdict):
        return sum(case.verdict == verdict for case in self.judged)

    @property
    def exit_code(self):
        if self.failures or any(case.verdict == FAIL for case in self.cases):
            return SOME_FAILED
        unmeasured = any(case.verdict == NOT_MEASURED for case in self.cases)
        measured = self.count(PASS) + self.count(KNOWN)
        return NOT_ALL_MEASURED if self.troubles or unmeasured or not measured else ALL_PASSED

    @property
    def sentence(self):
        """The verdict in one line, with counts and the duration."""
        word = {ALL_PASSED: "PASS", SOME_FAILED: "FAIL", NOT_ALL_MEASURED: "NOT MEASURED"}
        counts = [f"{self.count(PASS)} of {len(self.judged)} checks passed"]
        counts += [
            f"{self.count(verdict)} {name}"
            for verdict, name in (
                (FAIL, "failed"),
                (NOT_MEASURED, "not measured"),
                (NOT_APPLICABLE, "not applicable here"),
                (KNOWN, "failed as known"),
            )
            if self.count(verdict)
        ]
        if not self.judged:
            counts = ["no check ran"]
        return f"{word[self.exit_code]}: {', '.join(counts)}, in {duration(self.seconds)}"


# ---- judging a report ----


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
    cases, failures, end = [], [], _end(troubles)
    for run in report["runs"]:
        entries = {_key(entry): entry for entry in run["testcases"]}
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


# In a launch with more disturbed samples than this, a metric outside its bounds says nothing.
DISTURBED = 0.3


def withhold(cases):
    """Turns slow into not measured where other processes had the cores of the launch."""
    shares = {case.launch: case.disturbed for case in cases if case.fixture and case.kernel}
    for case in cases:
        share = shares.get(case.launch, 0.0)
        outside = any(metric.verdict == "fail" for metric in case.metrics)
        if case.verdict == FAIL and not case.fixture and outside and share > DISTURBED:
            case.verdict, case.remark = NOT_MEASURED, ""
            case.cause += f" (but other processes had the cores in {share:.0%} of the samples)"


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
            fault = faults.of_reframe(log[log.index(line) :]) if stopped else ""
            troubles.append(fault or line.split(": ", 1)[1])
    ran = re.search(r"^\[==========\] Finished", log, re.M)
    stored = re.search(r"^Current session stored with UUID: ", log, re.M)
    if ran and not stored and not any("results in the database" in line for line in troubles):
        troubles.append(NOT_STORED)
    return troubles


def _end(troubles):
    """The trouble that ended the run before its time, "" if none did."""
    stops = ("run session stopped", "ReFrame ended", *faults.NAMES)
    return next((trouble for trouble in troubles if trouble.startswith(stops)), "")


def left_in_queue(entries):
    """A line for each scheduler with launches that ReFrame left, neither ended nor cancelled."""
    left = {}
    ended = ("pass", "fail", "xfail", "xpass", "skip", "fail_deps", "abort")
    for entry in entries:
        launch = entry["fixture"] and entry.get("geometry")
        if launch and entry["result"] not in ended and entry.get("jobid"):
            left.setdefault(entry["scheduler"], []).append(entry["jobid"])
    return [faults.left_in_queue(*both) for both in left.items() if both[0] != "local"]


def absent_cases(entries, listing, cause):
    """The selected test cases that the run did not come to, from ReFrame's list of them (-lC)."""
    known = {(entry["hashcode"], *_key(entry)[1:]) for entry in entries}
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


def _key(entry):
    return entry["unique_name"], f"{entry['system']}:{entry['partition']}", entry["environ"]


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
        cause = faults.of_reframe(entry["fail_reason"] or "", entry.get("time_run"))
        cause = cause or _plain(entry["fail_reason"])
        return _failed(entry, faults.name_of(cause)), cause
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
        measured = faults.NAMES[fault]
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


def span(metric):
    ends = ["open" if end is None else number(end) for end in (metric.low, metric.high)]
    return "..".join(ends)


def number(value):
    """Two decimals, where they say something."""
    return f"{value:.2f}" if 0.095 <= abs(value) < 1000 else f"{value:.2g}"


def duration(seconds):
    """Seconds as a person says them: 118 us, 3.4 s, 2 min 5 s."""
    if seconds >= 60:
        return f"{int(seconds) // 60} min {int(seconds) % 60} s"
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
