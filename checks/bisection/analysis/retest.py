"""The retest: what a run measures again at once, because it was outside its bounds, or slower than
in all earlier sessions. Only what is so again counts.

Launches are measured again in turns, with a control between them: a launch that did not look
changed. Where the control takes longer than before, the machine changed meanwhile, and times are
taken by it. Where the scheduler has other nodes, the second turn is on those.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import geometric_mean, median
from typing import Any

from bisection.analysis.model import Row
from bisection.analysis.outlying import FEW_SAMPLES
from bisection.core.identity import IDENTITY
from bisection.core.reasons import FAULTS_OF_HOSTS, Code, Reason
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Exit, Verdict
from bisection.rfm.references import KIND_OF_UNIT
from bisection.runs.command import launch_pattern, once
from bisection.runs.judge import faulty_hosts
from bisection.runs.model import Request, RunVerdict, TestResult
from bisection.runs.reframe_log import end_of_run
from bisection.store.sources import lines_of

START = 10.0  # s that ReFrame needs beside the launches
TURNS = 2  # how often each launch is measured again
Key = tuple[str, ...]  # a test's identity, and the name of a metric behind it
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
    control: Launch | None = None  # did not look changed; the cheapest of its partition
    why: str = ""  # why nothing is measured again: failed | off

    @property
    def seconds(self) -> float:
        """How long the retest takes, by what its launches took before."""
        launches = [*self.chosen, *([self.control] if self.control else [])]
        return START + TURNS * sum(self.cost[launch] for launch in launches)


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
            if agenda.seconds + TURNS * cost[launch] <= budget:
                agenda.chosen.append(launch)
    if agenda.chosen:
        _choose_control(agenda, verdict, launches, seconds)
    return agenda


def _choose_control(
    agenda: Plan,
    verdict: RunVerdict,
    changed: Mapping[Launch, None],
    seconds: Mapping[Launch, float],
) -> None:
    """Adds the cheapest launch of the first one's partition and environment that passed and does
    not look changed, if there is one that fits the budget."""
    passed = {case.launch[:-1] for case in verdict.judged if case.verdict == Verdict.PASS}
    passed -= {case.launch[:-1] for case in verdict.bad} | set(changed)
    fitting = [
        launch
        for launch in passed
        if launch[3:] == agenda.chosen[0][3:]
        and agenda.seconds + TURNS * seconds.get(launch, agenda.budget) <= agenda.budget
    ]
    if fitting:
        agenda.control = min(fitting, key=lambda launch: (seconds[launch], launch))
        agenda.cost[agenda.control] = seconds[agenda.control]


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
    bounds = [case for case in failed if _by_bounds(case)]
    return bounds if len(bounds) == len(failed) and not verdict.failures else []


def request(
    agenda: Plan, verdict: RunVerdict, others: Mapping[str, tuple[str, ...]] | None = None
) -> Request:
    """What ReFrame is asked for, to run the chosen launches in turns.

    Args:
        agenda: the plan.
        verdict: on the run.
        others: a partition's full name -> other nodes than the run had, for the second turn.
    """
    looked_at = [launch for launch in agenda.chosen if launch in (*agenda.nodes, *agenda.suspects)]
    tests = [test for launch in looked_at for test in _tests(agenda, launch, verdict)]
    tests += [test for test in verdict.judged if test.launch[:-1] == agenda.control]
    # Those that failed are judged again, not what else is of their launches.
    failed = [f"/{case.hash}" for case in agenda.failed if case.launch[:-1] in agenda.chosen]
    names = dict.fromkeys([*failed, *map(launch_pattern, tests)])
    asked = verdict.request
    arguments = [*once(asked.arguments), *(f"--name={name}" for name in names)]
    nodes = {
        name: [sets[0], *([others[name]] if others and name in others else [])]
        for name, sets in asked.nodes.items()
    }
    return replace(asked, arguments=arguments, command=[], nodes=nodes, reruns=TURNS - 1)


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
    values = _measured(again) if again else {}
    drift = _drift(_measured(verdict), values, verdict, agenda.control)
    verdict.slower, verdict.suspects = [], []
    refuted: dict[Launch, list[Row]] = {}
    for launch, rows in agenda.suspects.items():
        known = [row for row in rows if row.key in values]
        confirmed, alike, still = [], [], 0
        for row in known:
            now = values[row.key].by(drift if row.absolute else 1.0, row.better)
            for limit in filter(None, (row.limit, row.shared_limit)):
                low, high = (0.0, limit) if row.better == "lower" else (limit, math.inf)
                if (nodes := now.outside(low, high)) is not None:
                    slower = reason_of(Code.SLOWER, row, again=now.value, nodes=nodes)
                    (alike if limit == row.shared_limit else confirmed).append(slower)
                    still += bool(row.shared)
                    break
        # What times share is in half of them again.
        if alike and 2 * still >= max(row.shared for row in known):
            confirmed += alike
        verdict.slower += confirmed
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
    if again is None:
        return
    if drift > 1 + LIMITS.margin:
        control = " ".join(filter(None, agenda.control[:3]))
        verdict.remarks.append(Reason.of(Code.RETEST_SLOWER, control=control, factor=drift))
    remarks = [remark for remark in verdict.remarks if remark.code not in FAULTS_OF_HOSTS]
    verdict.remarks = remarks + faulty_hosts([*verdict.cases, *again.cases])
    lost = {case.identity for case in again.judged if case.lost_to_others}
    for case in agenda.failed:
        if case.launch[:-1] in agenda.chosen:
            _rule_on_bounds(case, values, drift, case.identity in lost)
    for case in again.cases:
        if case.verdict == Verdict.FAIL and not _by_bounds(case):
            wrong = {"test": case.group, "cause": case.reason}
            verdict.failures.append(Reason.of(Code.RETEST_FAILED, **wrong))


@dataclass
class _Again:
    """A metric as it was measured again: its values, the first on the run's nodes."""

    values: list[float] = field(default_factory=list)
    hosts: list[list[str]] = field(default_factory=list)

    @property
    def value(self) -> float:
        """The mean of the logarithms, as a value."""
        return geometric_mean(self.values)

    def by(self, drift: float, better: str) -> "_Again":
        """The same without what the whole machine was slower by."""
        factor = 1 / drift if better == "lower" else drift
        return replace(self, values=[value * factor for value in self.values])

    def outside(self, low: float, high: float) -> list[str] | None:
        """None if it is within these bounds now; else the nodes to which that is bound, if it is
        within them on the others."""
        here, *others = (not low <= value <= high for value in self.values)
        elsewhere = others and not set(self.hosts[0]) & set(self.hosts[-1])
        if elsewhere and here and not any(others):
            return self.hosts[0]
        return None if low <= self.value <= high else []


def _measured(verdict: RunVerdict) -> dict[Key, _Again]:
    """What usable launches of a run measured, in their order."""
    values: dict[Key, _Again] = {}
    for line in sorted(lines_of(verdict), key=lambda line: line["run"]):
        usable = line["verdict"] != Verdict.NOT_MEASURED
        if not usable or line["disturbed"] > LIMITS.preempted_launch:
            continue
        for metric, (value, _, _) in line["metrics"].items():
            if value is not None and value > 0:
                key = (*(line[name] for name in IDENTITY), metric)
                again = values.setdefault(key, _Again())
                again.values.append(value)
                again.hosts.append(line["hosts"])
    return values


def _drift(
    before: Mapping[Key, _Again],
    now: Mapping[Key, _Again],
    verdict: RunVerdict,
    control: Launch | None,
) -> float:
    """How many times as long the control takes as before; 1 where it takes less, or is none."""
    tests = {case.identity for case in verdict.judged if case.launch[:-1] == control}
    ratios = [
        now[key].value / before[key].value
        for key in before.keys() & now.keys()
        if key[:-1] in tests and key[-1].startswith("time") and key[-1] not in FEW_SAMPLES
    ]
    return max(median(ratios), 1.0) if ratios else 1.0


def _by_bounds(case: TestResult) -> bool:
    """Whether a test failed by its bounds alone."""
    return case.reason is not None and case.reason.code == Code.OUT_OF_BOUNDS


def _rule_on_bounds(
    case: TestResult, values: Mapping[Key, _Again], drift: float, preempted: bool
) -> None:
    """Has a test pass, with a remark, if what was outside its bounds is within them now; else notes
    with its failure what the retest gave.

    Args:
        case: the test, failed by its bounds.
        values: of the retest.
        drift: how many times as long the control takes.
        preempted: whether other processes had the cores of the retest.
    """
    outside = {metric.name: metric for metric in case.metrics if metric.failed}
    again = {
        name: values[(*case.identity, name)].by(
            drift if KIND_OF_UNIT.get(metric.unit) == "time" else 1.0, metric.better
        )
        for name, metric in outside.items()
        if (*case.identity, name) in values
    }
    more: dict[str, Any] = {"again": {name: now.value for name, now in again.items()}}
    ends = {name: (_end(m.low, 0.0), _end(m.high, math.inf)) for name, m in outside.items()}
    nodes = [again[name].outside(*ends[name]) for name in again]
    if again.keys() == outside.keys() and not any(bound is not None for bound in nodes):
        case.remark = replace(
            case.reason, values={**case.reason.values, **more, "retest": Verdict.PASS}
        )
        case.verdict, case.reason = Verdict.PASS, None
        for metric in outside.values():
            metric.verdict = "pass"
        return
    if again:
        more["retest"] = Verdict.FAIL
        more["nodes"] = sorted({node for bound in nodes for node in bound or ()})
    elif preempted:
        more["retest"] = "preempted"
    case.reason = replace(case.reason, values={**case.reason.values, **more})


def _end(bound: float | None, default: float) -> float:
    return default if bound is None else bound


# ---- what other processes disturbed ----


def disturbed(verdict: RunVerdict, budget: float) -> list[TestResult]:
    """The launches to measure again because other processes had their cores, of each launch one
    run, the worst first, until the budget (s) is spent. None of a run that was stopped, or whose
    launches are repeated on other nodes."""
    sweeps = any(len(sets) > 1 for sets in verdict.request.nodes.values())
    if sweeps or end_of_run(verdict.troubles):
        return []
    lost = {case.launch for case in verdict.lost_to_others}
    launches = [case for case in verdict.cases if case.fixture and case.launch in lost]
    seconds, chosen = START, {}
    for case in sorted(launches, key=lambda case: -case.preempted):
        if case.launch[:-1] not in chosen and seconds + case.seconds <= budget:
            seconds += case.seconds
            chosen[case.launch[:-1]] = case
    return list(chosen.values())


def request_for(verdict: RunVerdict, launches: Sequence[TestResult]) -> Request:
    """What ReFrame is asked for, to run these launches again, once each."""
    again = {launch.launch for launch in launches}
    tests = [case for case in verdict.judged if case.launch in again]
    names = dict.fromkeys(map(launch_pattern, tests))
    asked = verdict.request
    arguments = [*once(asked.arguments), *(f"--name={name}" for name in names)]
    partitions = sorted({f"{launch.system}:{launch.partition}" for launch in launches})
    return replace(asked, arguments=arguments, command=[], reruns=0, partitions=partitions)


def replace_disturbed(
    verdict: RunVerdict, launches: Sequence[TestResult], again: RunVerdict
) -> int:
    """Puts launches that were measured again, and their tests, in the place of disturbed ones. What
    was wrong only now is a failure of the run.

    Returns:
        How many are not disturbed any more.
    """
    measured = {case.launch[:-1]: case for case in again.cases if case.fixture and case.kernel}
    tests = {(case.name, case.launch[:-1]): case for case in again.cases}
    better = 0
    for launch in launches:
        second = measured.get(launch.launch[:-1])
        if second is None or second.verdict == Verdict.NOT_MEASURED:
            continue
        quieter = second.preempted < launch.preempted
        for index, case in enumerate(verdict.cases):
            new = tests.get((case.name, case.launch[:-1]))
            replaces = case.launch == launch.launch and (case.fixture or case.lost_to_others)
            if new and replaces and (quieter or new.verdict == Verdict.FAIL):
                verdict.cases[index] = replace(new, run=launch.run)
        passed = second.verdict != Verdict.FAIL
        better += passed and second.preempted <= LIMITS.preempted_launch
    verdict.failures += [reason for reason in again.failures if reason not in verdict.failures]
    remarks = [remark for remark in verdict.remarks if remark.code not in FAULTS_OF_HOSTS]
    verdict.remarks = remarks + faulty_hosts(verdict.cases)
    return better


def reason_of(code: Code, row: Row, **more: Any) -> Reason:
    """The Reason of this code on a metric: its test, both sides, how many times slower it is."""
    names = (*IDENTITY, "metric", "unit")
    values: Mapping[str, Any] = {name: getattr(row, name) for name in names}
    sides = {"before": row.before.median, "after": row.seen, "factor": row.excess}
    return Reason.of(code, **values, **sides, sessions=row.before.sessions, **more)
