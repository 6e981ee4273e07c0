"""A campaign over every node: batches of small launches, each on nodes of its own, until each node
is judged, or the deadline or the budget is reached.

What was done is in the sessions of the campaign, which have its name as a tag: a further run goes
on where the last one ended.
"""

import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from bisection import schedulers
from bisection.core.format import duration, number, plural
from bisection.core.reasons.launches import ReframeText
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import BisectionError
from bisection.judge import rule
from bisection.judge.every_node import (
    ALONE,
    PAIR,
    Judged,
    NodeLaunch,
    Spot,
    Survey,
    launches_of,
)
from bisection.judge.evidence import Evidence
from bisection.night.measure import measure
from bisection.night.prepare import tell
from bisection.report import gather
from bisection.runs import command, folder
from bisection.runs.run_verdict import Request, RunVerdict
from bisection.schedulers.scheduler import QueueNode
from bisection.sites.before_run import Partitions, name_patterns
from bisection.store import sync
from bisection.store.database import Store

IDLE = "idle"
# States of sinfo in which a node will take a job: in use, or asleep; a star does not answer.
BUSY = re.compile(r"(alloc|mix|comp|plnd|resv|boot|pow|idle)[^*]*")
# A test of each size of launch, as ReFrame's -n sees its name.
EXAMPLES = {ALONE: "network_noise%method=quantum", PAIR: "pairs%method=tournament"}
Sets = list[tuple[str, tuple[str, ...]]]  # full name of a partition, nodes


@dataclass
class Campaign:
    """A campaign as far as it is known."""

    name: str
    partitions: Partitions
    request: Request
    node_hours: float  # that this run may use
    retests: bool  # whether nodes that look slow are measured again
    launches: list[NodeLaunch]  # that have results, of earlier sessions too
    run: RunVerdict | None = None  # of this session, once a batch has ended
    nodes: dict[Spot, QueueNode] = field(default_factory=dict)  # as the scheduler has them now
    lost: dict[Spot, str] = field(default_factory=dict)  # why a launch on a node has no result
    spent: float = 0.0  # node-hours
    stopped: str = ""  # why nothing more is launched

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of launches that the tests of -n need."""
        names = name_patterns(self.request.arguments)
        chosen = {s for s in EXAMPLES for n in names or [""] if re.search(n, EXAMPLES[s])}
        return tuple(sorted(chosen)) or (ALONE,)

    def survey(self) -> Survey:
        shut = {
            spot: ": ".join(filter(None, (node.state, node.why)))
            for spot, node in self.nodes.items()
            if not BUSY.fullmatch(node.state)
        }
        stopped = dict.fromkeys(self.nodes, self.stopped) if self.stopped else {}
        known = tuple(self.nodes)
        return Survey(
            tuple(self.launches), known, self.sizes, {**stopped, **self.lost, **shut}, self.name
        )

    def look(self) -> None:
        """Asks the schedulers for the nodes of all partitions, each in the first that has it."""
        known: dict[str, tuple[Spot, QueueNode]] = {}
        for part in self.partitions:
            for node in schedulers.of(part["scheduler"]).nodes_of(part["access"]):
                known.setdefault(node.name, ((part["fullname"], node.name), node))
        self.nodes = dict(known.values())

    def forget_slow(self) -> None:
        """Leaves out the launches of nodes that an earlier session found bad, and that take jobs
        again: somebody may have repaired them."""
        bad = {
            spot
            for spot, state in self.survey().judged.items()
            if state.verdict in (Judged.SLOW, Judged.FAILED)
            and BUSY.fullmatch(self.nodes[spot].state)
        }
        self.launches = [
            launch
            for launch in self.launches
            if bad.isdisjoint((launch.partition, node) for node in launch.nodes)
        ]

    def next_batch(self) -> Sets:
        """The launches that come next: of idle nodes that have none, of those that looked slow,
        then of busy nodes, which wait in the queue. None once there is nothing left."""
        survey = self.survey()
        tried = Counter(
            (partition, node, len(nodes))
            for partition, nodes in (self.run.request.spots if self.run else ())
            for node in nodes
        )
        turns = [
            _Turn(part["fullname"], size, survey, self.nodes, tried)
            for size in survey.sizes
            for part in self.partitions
        ]
        sets = [each for turn in turns for each in turn.first(lambda state: state == IDLE)]
        if not sets and self.retests:
            sets = [each for turn in turns for each in turn.again()]
        if not sets:
            sets = [each for turn in turns for each in turn.first(BUSY.fullmatch)]
        return sets[: min(LIMITS.node_batch, self.affordable(sets))]

    def affordable(self, sets: Sets) -> int:
        """How many of these launches the budget allows, by what such launches took so far."""
        left, self.stopped = self.node_hours - self.spent, ""
        took = [c.seconds for c in self.run.cases if c.is_launch and c.seconds] if self.run else []
        each = sorted(took)[len(took) // 2] if took else LIMITS.node_estimate
        for count, (_, nodes) in enumerate(sets):
            left -= len(nodes) * each / 3600
            if left < 0:
                self.stopped = f"the budget of {number(self.node_hours)} node-hours is spent"
                return count
        return len(sets)


class _Turn:
    """The launches of one size on the nodes of a partition."""

    def __init__(
        self,
        partition: str,
        size: int,
        survey: Survey,
        nodes: dict[Spot, QueueNode],
        tried: Counter[tuple[str, str, int]],
    ) -> None:
        self.partition, self.size, self.survey = partition, size, survey
        self.state = {
            node: known.state for (part, node), known in nodes.items() if part == partition
        }
        self.tried = tried
        self.partners: dict[str, set[str]] = defaultdict(set)  # of usable launches, itself too
        self.launched: Counter[str] = Counter()
        for launch in survey.launches:
            if launch.partition == partition and launch.size == size and not launch.lost:
                for node in launch.nodes:
                    self.partners[node].update(launch.nodes)
                    self.launched[node] += 1

    def first(self, takes: Callable[[str], object]) -> Sets:
        """Launches on nodes in a state that have too few."""
        there = [node for node, state in self.state.items() if takes(state)]
        ring = self.size == PAIR and len(there) <= LIMITS.node_ring
        least = 2 if ring and len(there) > 2 else 1
        todo = [
            node
            for node in there
            if self.launched[node] < least
            and self.tried[self.partition, node, self.size] < least + LIMITS.node_tries - 1
        ]
        if self.size == ALONE:
            return [(self.partition, (node,)) for node in todo]
        if ring:
            pairs = [(there[i - 1], node) for i, node in enumerate(there)] if there[1:] else []
            pairs = [pair for pair in dict.fromkeys(map(_sorted, pairs)) if {*pair} & {*todo}]
            known = {launch.nodes for launch in self.survey.launches if not launch.lost}
            return [(self.partition, pair) for pair in pairs if pair not in known]
        pairs = [*zip(todo[::2], todo[1::2], strict=False)]
        if len(todo) % 2:  # the last one with a node that has had its turn
            other = next((node for node in there if node != todo[-1]), None)
            pairs += [(todo[-1], other)] if other else []
        return [(self.partition, _sorted(pair)) for pair in pairs]

    def again(self) -> Sets:
        """Further launches of idle nodes that look slow; of pairs, each with a new partner."""
        states = self.survey.judged
        mine = [node for node, state in self.state.items() if state == IDLE]
        most = LIMITS.node_launches + LIMITS.node_tries
        slow = [
            node
            for node in mine
            if self.size in states[self.partition, node].again
            and self.tried[self.partition, node, self.size] < most
        ]
        if self.size == ALONE:
            return [(self.partition, (node,)) for node in slow]
        free = [node for node in mine if self.launched[node] and node not in slow]
        pairs = []
        for node in slow:
            other = next((n for n in free if n not in self.partners[node]), None)
            if other:
                free.remove(other)
                pairs.append(_sorted((node, other)))
        return [(self.partition, pair) for pair in pairs]


def _sorted(pair: tuple[str, str]) -> tuple[str, str]:
    return (pair[0], pair[1]) if pair[0] < pair[1] else (pair[1], pair[0])


def begun(
    name: str,
    request: Request,
    partitions: Partitions,
    store: Store | None,
    node_hours: float,
    retests: bool,
) -> Campaign:
    """The campaign of this name on the partitions whose schedulers start jobs on nodes by name, as
    far as its sessions have it. BisectionError: there is no such partition."""
    chosen = [part for part in partitions if schedulers.of(part["scheduler"]).takes_nodes]
    if not chosen:
        why = "no partition has a scheduler that starts jobs on nodes by name"
        raise BisectionError(f"--every-node: {request.system}: {why}")
    system = request.system.partition(":")[0]
    sessions = {
        session.uuid: session.start
        for session in (store.sessions() if store else ())
        if session.tags.get(command.CAMPAIGN) == name
        and session.tags.get("system", "").partition(":")[0] == system
        and not session.excluded
    }
    kept = folder.kept_verdicts(sessions.keys())
    runs = [replace(kept[name], started=sessions[name]) for name in sessions if name in kept]
    earlier = [launch for run in runs for launch in launches_of(run)]
    campaign = Campaign(name, chosen, request, node_hours, retests, earlier)
    campaign.look()
    if not campaign.nodes:
        raise BisectionError(f"--every-node: {request.system}: the scheduler names no nodes")
    campaign.forget_slow()
    states = Counter(node.state for node in campaign.nodes.values())
    known = len({node for launch in campaign.launches for node in launch.nodes})
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    done = f"; {known} have launches of {plural(len(runs), 'earlier session')}" if runs else ""
    print(f"campaign {name}: {plural(len(campaign.nodes), 'node')}: {counts}{done}", flush=True)
    return campaign


def measure_all(
    campaign: Campaign, site: Path, results: Path, tags: Sequence[str], store: Store | None
) -> RunVerdict:
    """Runs batches of launches until none is left to do; each is kept in a folder of its own. The
    session is recorded as it grows, so that a killed run loses little. Returns the session.
    KeyboardInterrupt: it was interrupted before its first launch."""
    request = campaign.request
    spots: Sets = []
    recorded = 0.0  # when what is recorded may be written anew
    for turn in range(1, 1 << 30):
        if request.until and time.time() > request.until:
            campaign.stopped = f"the deadline of {duration(request.deadline)} came first"
            break
        campaign.look()
        batch = campaign.next_batch()
        if not batch:
            break
        spots = [*spots, *batch]
        request = replace(request, spots=spots, first=len(spots) - len(batch))
        into = results / f"batch-{turn}"
        into.mkdir()
        request.command = command.command(request, site, into, tags)
        nodes = len({node for _, names in batch for node in names})
        print(
            f"batch {turn}: {plural(len(batch), 'launch', 'launches')} on {nodes} nodes", flush=True
        )
        try:
            run = measure(request, into)
        except KeyboardInterrupt:
            if campaign.run is None:
                folder.discard(results)
                raise
            end = ReframeText(text="run session stopped: interrupted", ended=True)
            campaign.run = campaign.run.adding(troubles=[end])
            break
        folder.keep(run, into)
        folder.clear(run, into)
        campaign.spent += run.price_of_launches.node_hours
        for launch in launches_of(run):
            if launch.lost:
                on = [(launch.partition, node) for node in launch.nodes]
                campaign.lost |= dict.fromkeys(on, str(launch.lost))
            else:
                campaign.launches.append(launch)
        campaign.run = _joined(campaign.run, run)
        if time.monotonic() > recorded:  # a tenth of the time at most
            began = time.monotonic()
            for fault in sync.keep(store, rule(campaign.run), results):
                tell(fault)
            gather.write_verdict(rule(campaign.run, Evidence(survey=campaign.survey())), results)
            recorded = time.monotonic() + 9 * (time.monotonic() - began)
        if run.end or not any(case.is_launch for case in run.cases):
            campaign.stopped = str(run.end or "a build failed")
            break
    if campaign.run is None:  # there was nothing to do: the verdict is that of earlier sessions
        campaign.run = RunVerdict(request=request, started=time.time())
    return campaign.run


def _joined(before: RunVerdict | None, run: RunVerdict) -> RunVerdict:
    """The session with a further batch. A launch that was not measured counts no longer: its nodes
    are in the table of the campaign; a build counts once."""
    lost = {launch.number for launch in launches_of(run) if launch.lost}
    kept = [case for case in run.cases if not case.record.kernel or case.run not in lost]
    if before is None:
        return replace(run, cases=tuple(kept))
    builds = {case.name for case in kept if not case.record.kernel}
    old = [case for case in before.cases if case.record.kernel or case.name not in builds]
    return replace(
        before,
        cases=(*old, *kept),
        troubles=tuple(dict.fromkeys((*before.troubles, *run.troubles))),
        seconds=before.seconds + run.seconds,
        request=run.request,
    )
