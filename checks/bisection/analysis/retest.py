"""The retest: what a run measures again at once, because it was outside its bounds, or slower than
in all earlier sessions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bisection.analysis.model import Row
from bisection.analysis.outlying import is_confirmed, measured_again
from bisection.core.identity import IDENTITY
from bisection.core.reasons import FAULTS_OF_HOSTS, Code, Reason
from bisection.core.verdicts import Exit, Verdict
from bisection.runs.command import launch_pattern, once
from bisection.runs.judge import faulty_hosts
from bisection.runs.model import Request, RunVerdict, TestResult
from bisection.runs.reframe_log import end_of_run

START = 10.0  # s that ReFrame needs beside the launches
Launch = tuple[str, ...]  # kernel, case, layout, system, partition, environment


@dataclass
class Plan:
    """What is to be measured again. Launches are in the order of their worst metric."""

    suspects: dict[Launch, list[Row]]  # launch -> its rows, the worst first
    budget: float  # s
    failed: list[TestResult] = field(default_factory=list)  # by their bounds
    # In which a node looks slow, and no other launch shows whether it is.
    nodes: list[Launch] = field(default_factory=list)
    cost: dict[Launch, float] = field(default_factory=dict)  # s that each launch took
    chosen: list[Launch] = field(default_factory=list)
    why: str = ""  # why nothing is measured again: failed | off

    @property
    def seconds(self) -> float:
        """How long the retest takes, by what its launches took before."""
        return START + sum(self.cost[launch] for launch in self.chosen)


def plan(rows: Sequence[Row], verdict: RunVerdict, budget: float) -> Plan:
    """Chooses launches to measure again until the budget is spent: those with a metric outside its
    bounds, those with a node that looks slow, then those that are slower than before, the worst
    first.

    Args:
        rows: the rows that are slower than before, the worst first.
        verdict: on the run that they are from. If anything but a bound made it fail, or it was
            stopped, nothing is chosen.
        budget: s; 0 chooses nothing.
    """
    kernels = {case.check: case.kernel for case in verdict.cases if case.kernel}
    suspects: dict[Launch, list[Row]] = {}
    for row in rows:
        place = (row.system, row.partition, row.environ)
        launch = (kernels.get(row.check, row.check), row.case, row.layout, *place)
        suspects.setdefault(launch, []).append(row)
    failed = _outside_bounds(verdict)
    seconds = {case.launch[:-1]: case.seconds for case in verdict.cases if case.fixture}
    nodes = _with_suspect_nodes(verdict)
    launches = dict.fromkeys([*(case.launch[:-1] for case in failed), *nodes, *suspects])
    cost = {launch: seconds.get(launch, 0.0) for launch in launches}
    agenda = Plan(suspects, budget, failed, nodes, cost)
    if (verdict.exit_code == Exit.FAILED and not failed) or end_of_run(verdict.troubles):
        agenda.why = "failed"
    elif not budget:
        agenda.why = "off"
    else:
        for launch in launches:
            if agenda.seconds + agenda.cost[launch] <= budget:
                agenda.chosen.append(launch)
    return agenda


def _with_suspect_nodes(verdict: RunVerdict) -> list[Launch]:
    """The launches by which a node looks slow, and no other launch shows whether it is."""
    suspected = {(reason.code, reason["host"]) for reason in verdict.suspect_nodes}
    launches = [
        case.launch[:-1]
        for case in verdict.cases
        if any((fault.code, fault["host"]) in suspected for fault in case.host_faults)
    ]
    return list(dict.fromkeys(launches))


def _outside_bounds(verdict: RunVerdict) -> list[TestResult]:
    """The tests that failed by their bounds; none if anything else is wrong."""
    failed = [case for case in verdict.cases if case.verdict == Verdict.FAIL]
    bounds = [case for case in failed if case.reason and case.reason.code == Code.OUT_OF_BOUNDS]
    return bounds if len(bounds) == len(failed) and not verdict.failures else []


def request(agenda: Plan, verdict: RunVerdict) -> Request:
    """What ReFrame is asked for, to run the chosen launches once."""
    others = [launch for launch in agenda.chosen if launch in [*agenda.nodes, *agenda.suspects]]
    tests = [test for launch in others for test in _tests(agenda, launch, verdict)]
    # Those that failed are judged again, not what else is of their launches.
    failed = [f"/{case.hash}" for case in agenda.failed if case.launch[:-1] in agenda.chosen]
    names = dict.fromkeys([*failed, *map(launch_pattern, tests)])
    asked = verdict.request
    arguments = [*once(asked.arguments), *(f"--name={name}" for name in names)]
    return replace(asked, arguments=arguments, command=[])


def _tests(agenda: Plan, launch: Launch, verdict: RunVerdict) -> list[TestResult]:
    """The tests of the checks by which a launch is suspected; those of all its checks if only what
    measures its cores alone is."""
    tests = [case for case in verdict.judged if case.launch[:-1] == launch]
    checks = {row.check for row in agenda.suspects.get(launch, ())}
    return [test for test in tests if test.check in checks] or tests


def rule(verdict: RunVerdict, agenda: Plan, again: RunVerdict | None = None) -> None:
    """Notes with a verdict what is slower than before: sure by the retest, or only suspected.

    Args:
        verdict: on the run.
        agenda: what was to be measured again.
        again: the verdict on the retest; None if there was none (yet).
    """
    values = measured_again(again) if again else {}
    verdict.slower, verdict.suspects = [], []
    refuted: dict[Launch, list[Row]] = {}
    for launch, rows in agenda.suspects.items():
        confirmed = [
            row for row in rows if row.key in values and is_confirmed(row, values[row.key])
        ]
        verdict.slower += [reason_of(Code.SLOWER, row, again=values[row.key]) for row in confirmed]
        known = [row for row in rows if row.key in values]
        if known and not confirmed:
            refuted[launch] = known
        why = agenda.why or ("unmeasured" if launch in agenda.chosen else "budget")
        verdict.suspects += [
            reason_of(Code.SUSPECT, row, why=why, seconds=agenda.cost[launch], budget=agenda.budget)
            for row in rows
            if row.key not in values and not confirmed
        ]
    if refuted:
        worst = max(row.excess for rows in refuted.values() for row in rows)
        counts = {"metrics": sum(map(len, refuted.values())), "factor": worst}
        launches = [" ".join((rows[0].check, *launch[1:3])) for launch, rows in refuted.items()]
        verdict.remarks.append(Reason.of(Code.DID_NOT_REPEAT, launches=launches, **counts))
    if again:
        others = [remark for remark in verdict.remarks if remark.code not in FAULTS_OF_HOSTS]
        verdict.remarks = others + faulty_hosts([*verdict.cases, *again.cases])
    twice = _failed_twice(agenda.failed, again) if again else set()
    for case in again.cases if again else ():
        if case.verdict == Verdict.FAIL and case.name not in twice:
            failed = {"test": case.group, "cause": case.reason}
            verdict.failures.append(Reason.of(Code.RETEST_FAILED, **failed))


def _failed_twice(failed: Sequence[TestResult], again: RunVerdict) -> set[str]:
    """Notes with tests that failed by their bounds what the retest gave; the names of those that
    failed so in it too."""
    second = {case.name: case for case in again.judged}
    for case in failed:
        if (other := second.get(case.name)) and (other.metrics or other.lost_to_others):
            word = "preempted" if other.lost_to_others else str(other.verdict)
            values = {metric.name: metric.value for metric in other.metrics}
            more = {"retest": word, "again": values}
            case.reason = replace(case.reason, values={**case.reason.values, **more})
    return {
        case.name
        for case in failed
        if case.reason["retest"] == Verdict.FAIL
        and second[case.name].reason.code == Code.OUT_OF_BOUNDS
    }


def reason_of(code: Code, row: Row, **more: Any) -> Reason:
    """The Reason of this code on a metric: its test, both sides, how many times slower it is."""
    names = (*IDENTITY, "metric", "unit")
    values: Mapping[str, Any] = {name: getattr(row, name) for name in names}
    sides = {"before": row.before.median, "after": row.seen, "factor": row.excess}
    return Reason.of(code, **values, **sides, sessions=row.before.sessions, **more)
