"""Tests of a run, made up from one list of fields, and of ReFrame's report."""

import dataclasses
from types import SimpleNamespace

from bisection.analysis.model import Row, Side
from bisection.core.reasons.launches import OutOfBounds
from bisection.core.reasons.machines import SlowMemory
from bisection.core.verdicts import Verdict
from bisection.kernels.launch_record import LaunchRecord
from bisection.runs.run_verdict import JudgedMetric, RunVerdict, TestResult

SLOW_MEMORY = SlowMemory(host="n2", rate=9e9, median=12e9, cores=1)
RECORDED = {item.name for item in dataclasses.fields(LaunchRecord)}


def _split(facts):
    record = {name: facts.pop(name) for name in RECORDED & facts.keys()}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in record.items()}


def finished_job(state=None, launcher="srun", cancelling=False):
    """A job of Slurm that ReFrame takes for finished, after 90 s."""
    scheduler, started_by = (SimpleNamespace(registered_name=n) for n in ("squeue", launcher))
    named = {"scheduler": scheduler, "launcher": started_by, "jobid": "7", "state": state}
    times = {"time_limit": 900, "submit_time": 100.0, "completion_time": 190.0}
    return SimpleNamespace(is_cancelling=cancelling, **named, **times)


def result_of(*place, **facts):
    """A TestResult; facts of its launch go into the record."""
    record = LaunchRecord(**_split(facts))
    return TestResult(*place, **facts, record=record)


def launched(check="transpose", kernel="transpose", case="a", time=1e-3, faults=(), **more):
    """A launch and its test, which took so many seconds."""
    place = ("lab", "cpu", "system")
    shared = {"kernel": kernel, "verdict": Verdict.PASS, "hosts": ["n1", "n2"], **more}
    of_launch = {"fixture": True, "controls": {"clock": 3.0, "serial": 1e-3}, "seconds": [40.0]}
    metrics = [JudgedMetric("time", time, "s", None, None, "pass")]
    names = {"name": f"{check} {case}", "hash": "abc"}
    return (
        result_of(*place, "Launch", case, "mpi", "", **shared, **of_launch, host_faults=faults),
        result_of(*place, check, case, "mpi", "p2p", **shared, **names, metrics=metrics),
    )


def outlier(case="a", after=9e-3, method="p2p", check="transpose", better="lower", limit=1.2e-3):
    """The row of a time that was 1 ms in eight sessions, and is beyond its limit in one."""
    names = ("lab", "cpu", "system", check, case, "mpi", method, "time", "s", better)
    sides = {"before": Side(sessions=8, median=1e-3), "after": Side(sessions=1, median=after)}
    marks = {"outlier": True, "again": True, "limit": limit, "seen": after}
    return Row(*names, False, **sides, ratio=after / 1e-3, **marks)


def changed(test, /, **facts):
    """The TestResult with other values, also of the record."""
    record = dataclasses.replace(test.record, **_split(facts))
    return dataclasses.replace(test, **facts, record=record)


def outside(value=1.3, **more):
    """A run of two launches, of which p2p is outside its bounds in the first."""
    (launch, test), metric = launched(**more), ["ratio", value, "ratio", 0.5, 1.2]
    failed = {"verdict": Verdict.FAIL, "reason": OutOfBounds(metrics=[metric])}
    failed["metrics"] = [JudgedMetric(*metric, "fail")]
    return RunVerdict([launch, changed(test, **failed), *launched(case="b", **more)])


def noise_run(*faults, hosts=("n1", "n2")):
    """A run of the kernel noise with these faults of hosts, and of another one."""
    nodes = launched("network_noise", "noise", "nodes", faults=faults, hosts=[*hosts])
    return RunVerdict([*launched(hosts=[*hosts]), *nodes])


def entry(name="transpose %method=p2p", result="pass", value=1e-3, **more):
    """A test case in ReFrame's report."""
    metrics = {"here:all:time": [value, 0, None, None, "s", "pass"]} if result == "pass" else {}
    place = {"system": "here", "partition": "all", "environ": "system", "run_index": 0}
    outcome = {"result": result, "fail_phase": None, "fail_reason": None, "perfvalues": metrics}
    names = {"unique_name": name, "display_name": name, "hashcode": "0123abcd", "fixture": False}
    return {**names, **place, **outcome, "dependencies_actual": [], **more}


def report(*entries, **info):
    session = {"uuid": "u", "time_elapsed": 1.0, **info}
    return {"session_info": session, "runs": [{"testcases": list(entries)}]}
