"""A campaign over every node: batches of small launches, each on nodes of its own, until each node
is judged, or the deadline or the budget is reached.

What was done is in the sessions of the campaign, which have its name as a tag: a further run goes
on where the last one ended.
"""

import itertools
import math
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

from bisection import schedulers
from bisection.core import paths
from bisection.core.format import duration, number, plural, some
from bisection.core.reasons.base import Reason, Text
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
from bisection.night.prepare import Order, say_waiting, tell
from bisection.report import gather
from bisection.runs import command, folder, waiting
from bisection.runs.run_verdict import Request, RunVerdict
from bisection.schedulers.scheduler import QueueNode, Scheduler
from bisection.sites.before_run import Partitions
from bisection.store import sync
from bisection.store.database import Store
from bisection.store.marks import results_of

IDLE = "idle"
# States of sinfo in which a node will take a job: in use, or asleep; a star does not answer.
BUSY = re.compile(r"(alloc|mix|comp|plnd|resv|block|boot|pow|idle)[^*]*")
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
    silent: list[str] = field(default_factory=list)  # partitions whose nodes were not named lately
    troubles: list[Reason] = field(default_factory=list)  # of this session, beside its launches'

    @property
    def sizes(self) -> tuple[int, ...]:
        """The sizes of launches that the tests need."""
        return tuple(self.request.sizes) or (ALONE, PAIR)

    @property
    def schedulers(self) -> list[Scheduler]:
        return [schedulers.of(name) for name in sorted({p["scheduler"] for p in self.partitions})]

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
        """Asks the schedulers for the nodes of all partitions, each in the first that has it. What
        was known stays: a scheduler that does not answer names none."""
        known: dict[str, tuple[Spot, QueueNode]] = {}
        self.silent = []
        for part in self.partitions:
            place = part["fullname"]
            nodes = schedulers.of(part["scheduler"]).nodes_of(part["access"])
            if not nodes:
                self.silent.append(place)
                nodes = [node for (where, _), node in self.nodes.items() if where == place]
            for node in nodes:
                known.setdefault(node.name, ((place, node.name), node))
        gone = {
            spot: replace(node, state="the scheduler names it no longer", why="")
            for spot, node in self.nodes.items()
            if spot[1] not in known
        }
        self.nodes = dict(known.values()) | gone

    def forget(self, anew: bool = False) -> None:
        """Leaves out the launches of nodes that an earlier session found bad, and that take jobs
        again: somebody may have repaired them. `anew`: those of all nodes."""
        bad = {
            spot
            for spot, state in self.survey().judged.items()
            if anew
            or (
                state.verdict in (Judged.SLOW, Judged.FAILED)
                and BUSY.fullmatch(self.nodes[spot].state)
            )
        }
        self.launches = [
            launch
            for launch in self.launches
            if bad.isdisjoint((launch.partition, node) for node in launch.nodes)
        ]

    def next_batch(self) -> Sets:
        """The launches that come next: of idle nodes that have none, of those that looked slow,
        then both of busy nodes, which wait in the queue. None once there is nothing left."""
        if self.silent:
            trouble = Text(f"{some(self.silent)}: the scheduler names no nodes any more")
            self.troubles += [trouble] if trouble not in self.troubles else []
            why = "the scheduler does not answer"
            self.lost |= {spot: why for spot in self.nodes if spot[0] in self.silent}
            if len(self.silent) == len(self.partitions):
                self.stopped = why
                return []
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
            if part["fullname"] not in self.silent
        ]

        def first(takes: Callable[[str], object]) -> Sets:
            return [each for turn in turns for each in turn.first(takes)]

        def again(takes: Callable[[str], object]) -> Sets:
            return [each for turn in turns for each in turn.again(takes)] if self.retests else []

        # A node is busy for a while behind its own launch. Those that look slow do not wait for
        # launches on nodes that other users have.
        sets = first(IDLE.__eq__) or again(IDLE.__eq__)
        sets = sets or [*again(BUSY.fullmatch), *first(BUSY.fullmatch)]
        return self.affordable(sets[: LIMITS.node_batch])

    def affordable(self, sets: Sets) -> Sets:
        """Those of these launches that the budget allows, by what launches of their size took so
        far. Before one has ended, a budget allows a few of a size."""
        left, self.stopped = self.node_hours - self.spent, ""
        took: dict[int, list[float]] = defaultdict(list)
        for case in self.run.cases if self.run else ():
            if self.run and case.is_launch and case.seconds:
                took[len(self.run.request.spots[case.run][1])].append(case.seconds)
        estimates = {size: median(seconds) for size, seconds in took.items()}
        chosen: Sets = []
        count: Counter[int] = Counter()
        for partition, nodes in sets:
            size = len(nodes)
            count[size] += 1
            if size not in estimates and left < math.inf and count[size] > LIMITS.node_first:
                continue
            left -= size * estimates.get(size, LIMITS.node_estimate) / 3600
            if left < 0:
                self.stopped = f"the budget of {number(self.node_hours)} node-hours is spent"
                break
            chosen.append((partition, nodes))
        return chosen


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

    def again(self, takes: Callable[[str], object]) -> Sets:
        """Further launches of nodes in a state that look slow; of pairs, each with a new partner,
        which is idle if there is one."""
        states = self.survey.judged
        mine = [node for node, state in self.state.items() if takes(state)]
        mine.sort(key=lambda node: self.state[node] != IDLE)
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


def begun(order: Order, request: Request, partitions: Partitions, store: Store | None) -> Campaign:
    """The campaign of an order on the partitions whose schedulers start jobs on nodes by name, as
    far as its sessions with kernels of the same environment have it. BisectionError: there is no
    such partition, or none of them has nodes."""
    chosen = [part for part in partitions if schedulers.of(part["scheduler"]).takes_nodes]
    if not chosen:
        why = "no partition has a scheduler that starts jobs on nodes by name"
        raise BisectionError(f"--every-node: {request.system}: {why}")
    system = request.system.partition(":")[0]
    sessions = {
        session.uuid: session.start
        for session in (store.sessions() if store else ())
        if session.tags.get(command.CAMPAIGN) == order.every_node
        and session.tags.get("system", "").partition(":")[0] == system
        and session.tags.get("environ") == request.environ
        and not session.excluded
    }
    kept = folder.kept_verdicts(results_of(paths.home(), sessions))
    runs = [replace(kept[name], started=sessions[name]) for name in sessions if name in kept]
    earlier = [launch for run in runs for launch in launches_of(run)]
    name, hours = order.every_node, order.node_hours
    campaign = Campaign(name, chosen, request, hours, bool(order.retest), earlier)
    campaign.look()
    if not campaign.nodes:
        raise BisectionError(f"--every-node: {request.system}: the scheduler names no nodes")
    for place in campaign.silent:  # as where jobs ask for an alternative of features
        campaign.troubles.append(Text(f"{place}: the scheduler names no nodes"))
    campaign.partitions = [part for part in chosen if part["fullname"] not in campaign.silent]
    campaign.forget(order.anew)
    states = Counter(node.state for node in campaign.nodes.values())
    known = len({node for launch in campaign.launches for node in launch.nodes})
    counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
    done = f"; {known} have launches of {plural(len(runs), 'earlier session')}" if runs else ""
    if lost := len(sessions) - len(runs):
        done += f"; {plural(lost, 'earlier session')} without results"
    print(f"campaign {name}: {plural(len(campaign.nodes), 'node')}: {counts}{done}", flush=True)
    return campaign


def measure_all(
    campaign: Campaign, site: Path, results: Path, tags: Sequence[str], store: Store | None
) -> RunVerdict:
    """Runs batches of launches until none is left to do; each is kept in a folder of its own. The
    session is recorded as it grows, so that a killed run loses little. Returns the session: what
    ends a batch early is a trouble of it.

    Raises:
        KeyboardInterrupt, BisectionError, OSError: before a batch has ended.
    """
    recorded = 0.0  # when what is recorded may be written anew
    try:
        for turn in itertools.count(1):
            if _measure_batch(campaign, turn, site, results, tags):
                break
            if campaign.run and time.monotonic() > recorded:  # a tenth of the time at most
                began = time.monotonic()
                for fault in sync.keep(store, rule(campaign.run), results):
                    tell(fault)
                judged = rule(campaign.run, Evidence(survey=campaign.survey()))
                gather.write_verdict(judged, results)
                recorded = time.monotonic() + 9 * (time.monotonic() - began)
    except (KeyboardInterrupt, BisectionError, OSError) as error:
        if campaign.run is None:
            if not isinstance(error, OSError):
                folder.discard(results)
            raise
        interrupted = isinstance(error, KeyboardInterrupt)
        campaign.stopped = "interrupted" if interrupted else str(error)
        text = f"run session stopped: {campaign.stopped}"
        campaign.troubles.append(ReframeText(text=text, ended=True))
    if campaign.run is None:  # there was nothing to do: the verdict is that of earlier sessions
        campaign.run = RunVerdict(request=campaign.request, started=time.time())
    return campaign.run.adding(troubles=campaign.troubles)


def _measure_batch(
    campaign: Campaign, turn: int, site: Path, results: Path, tags: Sequence[str]
) -> bool:
    """Runs the next batch of launches; True if it was the last, or nothing is left to do."""
    before = campaign.run.request if campaign.run else campaign.request
    if before.until and time.time() > before.until:
        campaign.stopped = f"the deadline of {duration(before.deadline)} came first"
        return True
    campaign.look()
    if campaign.silent:
        for scheduler in campaign.schedulers:
            waiting.silence(scheduler, say_waiting)
        campaign.look()
    batch = campaign.next_batch()
    if not batch:
        return True
    request = replace(before, spots=[*before.spots, *batch], first=len(before.spots))
    into = results / f"batch-{turn}"
    into.mkdir()
    request.command = command.command(request, site, into, tags)
    nodes = len({node for _, names in batch for node in names})
    print(f"batch {turn}: {plural(len(batch), 'launch', 'launches')} on {nodes} nodes", flush=True)
    run = measure(request, into)
    campaign.spent += run.price_of_launches.node_hours
    for launch in launches_of(run):
        if launch.lost:
            on = [(launch.partition, node) for node in launch.nodes]
            campaign.lost |= dict.fromkeys(on, str(launch.lost))
        else:
            campaign.launches.append(launch)
    campaign.run = _joined(campaign.run, run)
    folder.keep(run, into)
    folder.clear(run, into)
    if run.end or not any(case.is_launch for case in run.cases):
        campaign.stopped = str(run.end or "a build failed")
        return True
    return False


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
