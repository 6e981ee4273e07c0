"""Plans the retest: of launches outside their limits, of those slower than in all earlier sessions,
and of those that may have got worse lately. Only confirmed results count: bisection.judge.

Launches are rerun in turns, with a control between them: a launch whose results were unchanged. If
the control takes longer than before, the machine changed meanwhile, and times are divided by that.
If the scheduler has other nodes, every second turn is on those.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bisection.analysis.model import ChangePoint, Row
from bisection.core.grouping import grouped
from bisection.core.identity import TestId
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import Verdict
from bisection.runs.run_verdict import RunVerdict, TestResult

Launch = tuple[str | int, ...]  # kernel, case, layout, system, partition, environment


@dataclass
class Plan:
    """The launches to retest, and why. They are in the order of their worst metric."""

    slower: Mapping[Launch, list[Row]]  # launch -> rows that may be, the worst first
    budget: float  # s
    failed: list[TestResult] = field(default_factory=list)  # by their bounds
    # In which a node looks slow, and no other launch shows whether it is.
    nodes: list[Launch] = field(default_factory=list)
    unusual: Mapping[Launch, Sequence[ChangePoint]] = field(default_factory=dict)  # may be worse
    cost: dict[Launch, float] = field(default_factory=dict)  # s that each launch took
    chosen: list[Launch] = field(default_factory=list)
    control: Launch | None = None  # the shortest unchanged launch of its partition
    why: str = ""  # why there is no retest: failed | off
    elsewhere: bool = False  # every second turn is on other nodes

    @property
    def seconds(self) -> float:
        return LIMITS.retest_start + self.repeats * self._turn

    @property
    def repeats(self) -> int:
        is_open = self.elsewhere or not self.unusual.keys().isdisjoint(self.chosen)
        if not is_open or not self._turn:
            return LIMITS.retest_turns
        turns = int((self.budget - LIMITS.retest_start) / self._turn)
        return min(max(turns, LIMITS.retest_turns), LIMITS.retest_most)

    @property
    def _turn(self) -> float:
        return sum(self.cost[launch] for launch in filter(None, [*self.chosen, self.control]))

    def fits(self, seconds: float) -> bool:
        return LIMITS.retest_start + LIMITS.retest_turns * (self._turn + seconds) <= self.budget


def plan(
    rows: Sequence[Row],
    verdict: RunVerdict,
    budget: float,
    unusual: Sequence[ChangePoint] = (),
) -> Plan:
    """Chooses launches to rerun until the budget (s) is spent: those with a metric outside its
    bounds, those with a node that looks slow, those that are slower than before, then those that
    may have got worse. None is chosen if anything but a bound made the run fail, or it was stopped.

    Args:
        rows: the metrics that are slower, the worst first.
        unusual: metrics that may have got worse lately, the surest first.
    """
    kernels = {case.check: case.record.kernel for case in verdict.cases if case.record.kernel}

    def launch_of(row: TestId) -> Launch:
        place = (row.system, row.partition, row.environ)
        return (kernels.get(row.check, row.check), row.case, row.layout, *place)

    slower = grouped(rows, launch_of)
    failed = [case for case in verdict.cases if case.verdict == Verdict.FAIL]
    is_hopeless = bool(verdict.failures) or not all(case.by_bounds for case in failed)
    failed = [] if is_hopeless else failed  # no retest mends what else is wrong
    suspected = {(reason.code, reason.host) for reason in verdict.suspect_nodes}
    nodes = [  # launches by which a node looks slow, and no other launch shows whether it is
        case.launch[:-1]
        for case in verdict.cases
        if case.fixture
        and any((fault.code, fault.host) in suspected for fault in case.record.host_faults)
    ]
    seconds = {case.launch[:-1]: case.seconds for case in verdict.cases if case.fixture}
    worse = grouped(unusual, launch_of)
    worse = {launch: points for launch, points in worse.items() if launch in seconds}
    launches = dict.fromkeys([*(case.launch[:-1] for case in failed), *nodes, *slower, *worse])
    cost = {launch: seconds.get(launch, 0.0) for launch in launches}
    agenda = Plan(slower, budget, failed, nodes, worse, cost)
    if is_hopeless or verdict.end:
        agenda.why = "failed"
    elif not budget:
        agenda.why = "off"
    else:
        for launch in launches:
            if agenda.fits(cost[launch]):
                agenda.chosen.append(launch)
    if not agenda.chosen:
        return agenda
    # The control is of the first launch's partition and environment.
    passed = {case.launch[:-1] for case in verdict.judged if case.verdict == Verdict.PASS}
    passed -= {case.launch[:-1] for case in verdict.bad} | launches.keys()
    passed = {each for each in passed & seconds.keys() if each[3:] == agenda.chosen[0][3:]}
    if fitting := [(seconds[each], each) for each in passed if agenda.fits(seconds[each])]:
        agenda.cost[min(fitting)[1]], agenda.control = min(fitting)
    return agenda


# ---- what other processes disturbed ----


def disturbed(verdict: RunVerdict, budget: float) -> list[TestResult]:
    """The launches to rerun because other processes used their cores, of each launch one
    run, the worst first, until the budget (s) is spent. None of a run that was stopped, or whose
    launches are repeated on other nodes."""
    sweeps = any(len(sets) > 1 for sets in verdict.request.nodes.values())
    if sweeps or verdict.end:
        return []
    launches = [case for case in verdict.cases if case.is_launch]
    of_lost: dict[Launch, TestResult] = {}  # of a test of several, those that were disturbed
    for test in verdict.lost_to_others:
        taken = [launch for launch in launches if test.takes(launch)]
        bad = [each for each in taken if each.record.lost_part > LIMITS.disturbed_confirm]
        of_lost |= {launch.launch: launch for launch in bad or taken}
    seconds, chosen = LIMITS.retest_start, {}
    for case in sorted(of_lost.values(), key=lambda case: -case.record.lost_part):
        if case.launch[:-1] not in chosen and seconds + case.seconds <= budget:
            seconds += case.seconds
            chosen[case.launch[:-1]] = case
    return list(chosen.values())
