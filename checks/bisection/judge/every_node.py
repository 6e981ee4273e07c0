"""Every node of a campaign (`run --every-node`) beside its peers: nodes of its kind, in the same
tests.

A launch of one node judges that node, a launch on a pair its two nodes. A node is slow if a metric
is slow in all its launches that have it: in two at least, of pairs with two partners, and in as
many as make it improbable that chance slowed them all. One launch that is as fast as the peers'
clears a node.
"""

import functools
import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from bisection.analysis.outlying import FEW_SAMPLES
from bisection.core.format import plural
from bisection.core.grouping import grouped
from bisection.core.identity import POINT
from bisection.core.reasons.base import Reason, Text
from bisection.core.reasons.machines import NodeJudged, SlowBesidePeers
from bisection.core.thresholds import LIMITS
from bisection.core.units import KIND_OF_UNIT
from bisection.core.verdicts import Verdict, Word
from bisection.judge.evidence import Evidence
from bisection.judge.hosts import slow_limit
from bisection.runs.run_verdict import RunVerdict, TestResult

Spot = tuple[str, str]  # full name of a partition, node
RATES = ("rate", "latency", "bandwidth", "bandwidth_both")  # judged in place of a test's time
ALONE, PAIR = 1, 2  # nodes of a launch


class Judged(Word):
    """The verdict on a node, the worst first."""

    FAILED = "failed"
    SLOW = "slow"
    SUSPECT = "suspect"  # slow, in too few launches
    OPEN = "not judged"
    OK = "as its peers"


class Measured(NamedTuple):
    """A metric of launches that can be compared: by equal tests, on nodes of one kind."""

    partition: str
    test: str
    metric: str
    unit: str
    better: str
    geometry: str
    kind: str  # of processor
    environ: str = ""  # that built the kernels


@dataclass(frozen=True)
class NodeLaunch:
    """A launch on one node, or on a pair."""

    partition: str
    nodes: tuple[str, ...]
    at: float  # Unix time of its session
    values: Mapping[Measured, float] = field(default_factory=dict)
    failure: Reason | None = None
    lost: Reason | None = None  # why it has no values; None: it has, or it failed
    number: int = 0  # in its session

    @property
    def size(self) -> int:
        return len(self.nodes)


@dataclass(frozen=True)
class Survey:
    """A campaign: what was launched, and the nodes that it is about."""

    launches: tuple[NodeLaunch, ...]
    nodes: tuple[Spot, ...]
    sizes: tuple[int, ...] = (ALONE, PAIR)  # of the launches that each node needs
    open: Mapping[Spot, str] = field(default_factory=dict)  # why nodes were not reached
    name: str = ""

    @functools.cached_property
    def judged(self) -> Mapping[Spot, "OnNode"]:
        return judge(self)


@dataclass
class OnNode:
    """What launches say of a node."""

    verdict: Judged
    launches: list[NodeLaunch]
    again: set[int] = field(default_factory=set)  # sizes of launches in which it is suspect
    slow: list[tuple[Measured, "Beside"]] = field(default_factory=list)
    worst: tuple[Measured, "Beside"] | None = None
    why: str = ""


class Beside(NamedTuple):
    """A metric of a node, by its fastest launch, beside the peers'."""

    value: float
    usual: float
    peers: int
    launches: int
    excess: float  # how far it is from the median, of what makes it slow


def launches_of(run: RunVerdict) -> Iterator[NodeLaunch]:
    """Yields the launches of a session of a campaign that ended, by their numbers in `spots`."""
    tests = grouped(run.judged, lambda case: case.launch)
    for case in run.cases:
        if not case.is_launch or case.run >= len(run.request.spots):
            continue
        partition, nodes = run.request.spots[case.run]
        mine = tests.get(case.launch, [])
        failed = [c.reason or Text("it failed") for c in mine if c.verdict == Verdict.FAIL]
        if case.verdict == Verdict.FAIL:
            failed = [case.reason or Text("it failed")]
        lost = [c.reason or Text() for c in (case, *mine) if c.verdict == Verdict.NOT_MEASURED]
        if case.record.lost_part > LIMITS.disturbed_launch:
            lost = [case.record.lost]
        if not mine:  # the run was stopped before them
            lost = [*lost, Text("its tests did not run")]
        skipped = [c.reason or Text() for c in mine if c.verdict == Verdict.NOT_APPLICABLE]
        if not lost and len(skipped) == len(mine):
            lost = skipped
        values = {} if lost or failed else dict(_values(case, mine, partition))
        yield NodeLaunch(
            partition,
            tuple(nodes),
            run.started,
            values,
            failed[0] if failed else None,
            lost[0] if lost and not failed else None,
            case.run,
        )


def _values(
    launch: TestResult, tests: Sequence[TestResult], partition: str
) -> Iterator[tuple[Measured, float]]:
    record = launch.record
    alike = (record.geometry, record.facts.get("CPU", ""), launch.environ)
    for case in tests:
        timed = [m for m in case.metrics if KIND_OF_UNIT.get(m.unit) == "time" and m.value > 0]
        named = [m for m in timed if POINT.sub("", m.name) in RATES]
        for metric in named or [m for m in timed if POINT.sub("", m.name) == "time"]:
            if POINT.sub("", metric.name) not in FEW_SAMPLES:
                test = " ".join(filter(None, (case.check, case.method)))
                words = (partition, test, metric.name, metric.unit, metric.better)
                yield Measured(*words, *alike), metric.value
    clock = record.controls.get("clock", 0.0)
    if clock > 0 and len(record.hosts) == 1:
        yield Measured(partition, record.kernel, "clock", "GHz", "higher", *alike), clock


def judge(survey: Survey) -> dict[Spot, OnNode]:
    """The verdict on each node of a survey; empty where there is none."""
    of_node: dict[Spot, list[NodeLaunch]] = {spot: [] for spot in survey.nodes}
    for launch in survey.launches:
        for node in launch.nodes:
            of_node.setdefault((launch.partition, node), []).append(launch)
    beside = _beside(survey.launches, of_node)
    judged = {}
    for spot in survey.nodes:
        own = of_node[spot]
        state = OnNode(Judged.OK, own)
        usable = [launch for launch in own if launch.values]
        failures = [launch.failure for launch in own if launch.failure]
        # Of a pair that fails, either node may be the reason.
        shared = all(launch.size == PAIR for launch in own if launch.failure)
        open_failure = shared and len(failures) < LIMITS.slow_launches
        slow = [(m, b, needed) for m, (b, needed) in beside[spot].items() if b.excess > 1]
        state.slow = [(m, b) for m, b, needed in slow if b.launches >= needed]
        state.again = {
            size
            for m, b, needed in slow
            if b.launches < needed
            for size in {launch.size for launch in usable if m in launch.values}
        }
        if known := beside[spot]:
            worst = max(known, key=lambda m: known[m][0].excess)
            state.worst = worst, known[worst][0]
        if failures and shared and any(launch.size == PAIR for launch in usable):
            failures = []
        if failures and open_failure:
            state.again.add(PAIR)
        if failures and not open_failure:
            state.verdict, state.why = Judged.FAILED, str(failures[-1])
        elif state.slow:
            state.verdict = Judged.SLOW
        elif failures:
            state.verdict, state.why = Judged.SUSPECT, str(failures[-1])
        elif state.again:
            state.verdict = Judged.SUSPECT
        elif why := _why_open(survey, spot, own, known):
            state.verdict, state.why = Judged.OPEN, why
        judged[spot] = state
    return judged


def _why_open(
    survey: Survey, spot: Spot, own: Sequence[NodeLaunch], judged: Collection[Measured]
) -> str:
    """Why a node is not judged by launches of all sizes; "" if it is."""
    for size in survey.sizes:
        launches = [launch for launch in own if launch.size == size]
        usable = [launch for launch in launches if launch.values]
        if not usable:
            lost = [str(launch.lost) for launch in launches if launch.lost]
            why = survey.open.get(spot) or next(reversed(lost), "it had no turn")
            return f"no launch with a partner: {why}" if size == PAIR and judged else why
        if not any(m in judged for launch in usable for m in launch.values):
            least = f"{LIMITS.node_peers} launches on others of its kind are needed"
            return f"too few peers to judge it{' in pairs' if size == PAIR else ''}: {least}"
    return ""


def _beside(
    launches: Sequence[NodeLaunch], of_node: Mapping[Spot, Sequence[NodeLaunch]]
) -> Mapping[Spot, dict[Measured, tuple[Beside, int]]]:
    """Each metric of each node beside the peers', and in how many launches it must be slow to make
    a slow node; without those of too few peers."""
    speeds: dict[Measured, list[tuple[NodeLaunch, float]]] = defaultdict(list)
    for launch in launches:
        for measured, value in launch.values.items():
            speeds[measured].append((launch, value if measured.better == "higher" else 1 / value))
    beside: dict[Spot, dict[Measured, tuple[Beside, int]]] = {spot: {} for spot in of_node}
    for measured, known in speeds.items():
        mine: dict[Spot, list[tuple[NodeLaunch, float]]] = defaultdict(list)
        base = []  # a slow node that was measured again must not count as several
        size = known[0][0].size
        nodes = {node for launch, _ in known for node in launch.nodes}
        turns = 2 if size == PAIR and len(nodes) <= LIMITS.node_ring else 1
        for launch, speed in known:
            spots = [(launch.partition, node) for node in launch.nodes]
            if any(len(mine[spot]) < turns for spot in spots):
                base.append(speed)
            for spot in spots:
                mine[spot].append((launch, speed))
        if len(base) <= LIMITS.node_peers:
            continue
        middle, limit = slow_limit(base)
        # Of as many nodes, so many are slow at first: chance makes one so again as often.
        slow = sum(speed < limit for speed in base) - 1
        needed = LIMITS.slow_launches
        if slow > 0:
            chance = LIMITS.pair_chance / len(base)
            needed = math.ceil(math.log(chance) / min(math.log(slow / len(base)), -0.1))
            needed = min(max(needed, LIMITS.slow_launches), LIMITS.node_launches)
        for spot, own in mine.items():
            fastest = max(speed for _, speed in own)
            partners = {launch.nodes for launch, _ in own} if size == PAIR else own
            excess = math.log(middle / fastest) / math.log(middle / limit)
            value, usual = (
                speed if measured.better == "higher" else 1 / speed for speed in (fastest, middle)
            )
            count = len(partners)
            beside[spot][measured] = Beside(value, usual, len(base) - 1, count, excess), needed
    return beside


def rule(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Names the nodes of a campaign that are slow beside their peers, and those that it has not
    judged; with the table of all nodes."""
    survey = evidence.survey
    if survey is None:
        return verdict
    order = [*Judged]
    rows, slow, suspect = [], [], []
    for (partition, node), state in survey.judged.items():
        at = max((launch.at for launch in state.launches), default=0.0)
        row = NodeJudged(
            node=node, partition=partition, verdict=str(state.verdict), at=at, why=state.why
        )
        rows.append(replace(row, **_beside_peers(*state.worst)) if state.worst else row)
        if state.verdict == Judged.SUSPECT and state.worst and not state.why:
            suspect.append(_fault(node, *state.worst))
        if state.verdict == Judged.SLOW:
            slow += [_fault(node, *found) for found in _clearest(state.slow)]
    rows.sort(key=lambda row: (order.index(Judged(row.verdict)), row.node))
    left = [row for row in rows if row.verdict == Judged.OPEN]
    # Of a pair that failed, in this session or in an earlier one.
    troubles = [Text(str(row)) for row in rows if row.verdict == Judged.SUSPECT and row.why]
    if left:
        count = f"{plural(len(left), 'node')} of {len(rows)} not judged"
        troubles.append(Text(f"{count}; a run with --every-node {survey.name} goes on"))
    failed = [row for row in rows if row.verdict == Judged.FAILED]
    known = {str(case.reason) for case in verdict.bad}
    failures = [Text(str(row)) for row in failed if row.why not in known]
    verdict = verdict.adding(
        troubles=troubles, failures=failures, slow_nodes=slow, suspect_nodes=suspect
    )
    return replace(verdict, every_node=tuple(rows))


def _clearest(slow: Sequence[tuple[Measured, Beside]]) -> list[tuple[Measured, Beside]]:
    """The clearest metric of each test, two at most."""
    best: dict[str, tuple[Measured, Beside]] = {}
    for measured, beside in sorted(slow, key=lambda item: -item[1].excess):
        best.setdefault(measured.test, (measured, beside))
    return [*best.values()][:2]


def _fault(node: str, measured: Measured, beside: Beside) -> SlowBesidePeers:
    count = beside.launches
    return SlowBesidePeers(host=node, launches=count, of=count, **_beside_peers(measured, beside))


def _beside_peers(measured: Measured, beside: Beside) -> dict[str, Any]:
    """The fields of a reason on a metric beside the peers'."""
    values = {"value": beside.value, "usual": beside.usual, "peers": beside.peers}
    return {"test": f"{measured.test} {measured.metric}", "unit": measured.unit, **values}
