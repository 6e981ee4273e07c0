"""Nodes that stand out by the times of the launches on them. By pairs: checks/interconnect.

A launch waits for its slowest node, so launches with a slow node are compared with those without
it. Only the design can tell nodes apart: those that always ran together are one group.

- Where a session used several sets of nodes, these are compared within it: its factor drops out.
- Sessions with one set each are compared with each other, one vote a session.
- Launches or nights in a row on the same nodes are one vote, as they share what is special then.

A group is named if reshuffled votes seldom show any group so clearly (step-down maxT, Westfall and
Young 1993), if a t-test is sure of it, and if the effect exceeds the margin. The best explanation
is named first; votes with its nodes are then left out, and the rest is judged again.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.model import Row
from bisection.analysis.statistics import scale
from bisection.core.grouping import grouped
from bisection.core.reasons.performance import SlowNode
from bisection.core.thresholds import LIMITS
from bisection.store.database import Session, Store
from bisection.store.nights import Nights

SHUFFLES, PIECE = 5000, 500  # of votes, at most; at a time
SURELY = 0.05  # chance that is above LIMITS.node_chance whatever further shuffles show


class Vote(NamedTuple):
    """The result of a session for a set of nodes."""

    session: int  # its place in the order of time
    run: int  # of a session that repeats its launches
    nodes: tuple[str, ...]
    cost: float  # logarithm of the launches' time over the usual one
    launches: int = 1


def suspects(
    store: Store, sessions: Sequence[Session], rows: Sequence[Row] | None = None
) -> list[SlowNode]:
    """Nodes whose launches take longer than those of the others, over all times of these sessions,
    which are of one kind and of one state of the machine. `rows`: a table; only its times count.

    Disturbed launches count as others do: what takes the cores of one node again and again is a
    fault of that node.
    """
    nights = Nights(store, sessions)
    names = None if rows is None else {row.key for row in rows}
    order = {s.id: at for at, s in enumerate(sorted(sessions, key=lambda s: s.start))}
    # A control may have the host of its slowest rank alone: the launch has them all.
    hosts: dict[tuple[object, ...], tuple[str, ...]] = defaultdict(tuple)
    launches: dict[tuple[int, int, int], tuple[Any, ...]] = {}
    sets: dict[int, tuple[str, ...]] = {}  # of nodes, each once
    for o in nights.launches:
        if o.hosts and (o.disturbed or not o.unusable):
            test = nights.tests[o.test]
            launch = (o.session, o.run, test.system, test.partition, test.case, test.layout)
            launches[o.session, o.test, o.run] = launch
            if (number := id(o.hosts)) not in sets:
                sets[number] = tuple(sorted(set(o.hosts)))
            hosts[launch] = max(hosts[launch], sets[number], key=len)
    values = defaultdict(list)
    for test, metric, measured in nights.series:
        key = (*test.identity, metric.name)
        if not metric.name.startswith("time") or (names is not None and key not in names):
            continue
        for number, _, at, run, value, _ in measured[measured["value"] > 0].tolist():
            session = sessions[at].id
            if (session, number, run) in launches:
                nodes = hosts[launches[session, number, run]]
                values[key, len(nodes)].append((session, run, nodes, math.log(value)))
    costs = defaultdict(list)
    for (key, _), jobs in values.items():
        usual = median(cost for *_, cost in jobs)
        for session, run, nodes, cost in jobs:
            of_job = (":".join(key[:2]), order[session], run, nodes)
            costs[of_job].append((cost - usual, key[3:6]))
    votes = defaultdict(list)
    for (place, session, run, nodes), times in sorted(costs.items()):
        cost, kinds = median(cost for cost, _ in times), {kind for _, kind in times}
        votes[place].append(Vote(session, run, nodes, cost, len(kinds)))
    return [suspect for place, part in votes.items() for suspect in slow_nodes(part, place)]


class _Design:
    """Votes, and which groups of nodes they are about.

    Args:
        strata: votes that are compared with each other.
        between: True if the first stratum is of sessions with one set of nodes each.
    """

    def __init__(self, strata: Sequence[Sequence[Vote]], between: bool) -> None:
        self.votes = [vote for stratum in strata for vote in stratum]
        ends = np.cumsum([len(stratum) for stratum in strata])
        self.strata = np.split(np.arange(len(self.votes)), ends[:-1])
        self.nights = self.strata[0] if between else np.arange(0)  # of one set of nodes each
        names = np.array(sorted({node for vote in self.votes for node in vote.nodes}))
        members = np.array([np.isin(names, vote.nodes) for vote in self.votes])
        # [votes, groups]: which vote is with a group, of nodes that were never apart
        self.members, of_name = np.unique(members, axis=1, return_inverse=True)
        groups = range(self.members.shape[1])
        self.groups = [names[of_name.ravel() == group].tolist() for group in groups]
        self.cost = np.array([vote.cost for vote in self.votes])  # over the stratum's median
        within = ~np.isin(np.arange(len(self.votes)), self.nights)
        centred, clipped = self.members.astype(float), np.empty(len(self.votes))
        for stratum in self.strata:
            self.cost[stratum] -= np.median(self.cost[stratum])
            cost = np.clip(self.cost[stratum], -LIMITS.node_vote, LIMITS.node_vote)
            clipped[stratum] = cost - cost.mean()
            centred[stratum] -= centred[stratum].mean(0)
        weight = np.ones(len(self.votes))
        for kind in (within, ~within):  # a session has less noise within than sessions between them
            if kind.any():
                weight[kind] = 1 / max(float(scale(self.cost[kind])), LIMITS.node_resolution) ** 2
        # Each group's column so that its product with the costs is their correlation.
        self.total = float(weight @ clipped**2)  # weighted squares of the costs
        length = np.sqrt(np.maximum(weight @ centred**2 * self.total, 1e-30))
        self.columns = weight[:, None] * centred / length
        self.clipped = clipped
        self.floor = float(weight.sum()) * LIMITS.node_resolution**2
        self.freedom = len(self.votes) - len(self.strata) - 1

    def chance(self, correlation: float) -> float:
        """Returns how often reshuffled votes have a group that correlates so well; roughly, where
        it is far from LIMITS.node_chance."""
        rng = np.random.default_rng(len(self.votes))  # the same data, the same verdict
        shuffles = as_well = 0
        while shuffles < SHUFFLES and (not shuffles or 0 < as_well < SURELY * shuffles):
            costs = np.empty((PIECE, len(self.votes)))
            for stratum in self.strata:
                same = np.tile(self.clipped[stratum], (PIECE, 1))
                costs[:, stratum] = rng.permuted(same, axis=1)
            as_well += int(((costs @ self.columns).max(1) > correlation - 1e-9).sum())
            shuffles += PIECE
        return (1 + as_well) / (1 + shuffles)


def _merged(votes: Sequence[Vote]) -> list[Vote]:
    """Those in a row on the same nodes as one."""
    rows = [list(row) for _, row in groupby(votes, key=lambda vote: vote.nodes)]
    return [
        row[0]._replace(cost=median(v.cost for v in row), launches=sum(v.launches for v in row))
        for row in rows
    ]


def _design(votes: Sequence[Vote]) -> _Design | None:
    """The votes that can be compared, in their strata: the first of sessions with one set of nodes,
    then one for each session and number of nodes of which it used several sets."""
    between: list[Vote] = []
    within: list[list[Vote]] = []
    for _, of_session in groupby(sorted(votes), key=lambda vote: vote.session):
        by_size = grouped(of_session, lambda vote: len(vote.nodes))
        sizes = [_merged(part) for part in by_size.values()]
        several = [part for part in sizes if len(part) > 1]
        within += several
        if not several:  # a session has one vote, whatever the numbers of nodes of its launches
            between.append(max((vote for (vote,) in sizes), key=lambda v: v.launches))
    merged = _merged(between)
    strata = [part for part in (merged, *within) if len(part) > 1]
    enough = sum(map(len, strata)) >= 2 * LIMITS.node_votes
    return _Design(strata, len(merged) > 1) if enough else None


def slow_nodes(votes: Sequence[Vote], where: str = "") -> Iterator[SlowNode]:
    """Yields the slow nodes of a partition, the clearest first; nodes that the votes do not tell
    apart are one suspect. A session's launches on the same nodes are one vote."""
    while (design := _design(votes)) and (clearest := _clearest(design, where)):
        suspect, nodes = clearest
        yield suspect
        votes = [vote for vote in votes if not nodes.intersection(vote.nodes)]


def _clearest(design: _Design, where: str) -> tuple[SlowNode, set[str]] | None:
    """The suspect that explains most, and the nodes that explain it best; None if nobody does."""
    correlation = design.clipped @ design.columns
    best = int(np.argmax(correlation))
    mine, r = design.members[:, best], float(correlation[best])
    votes = int(min(mine.sum(), (~mine).sum()))
    if votes < LIMITS.node_votes or r <= 0 or design.freedom < 1:
        return None
    effect = float(np.median(design.cost[mine]) - np.median(design.cost[~mine]))
    # The weighted squares that each group leaves unexplained.
    left = design.total * (1 - correlation**2) + design.floor
    t = r * math.sqrt(design.total * design.freedom / left[best])
    sure = scipy.special.stdtr(design.freedom, -t) * len(design.groups) < LIMITS.pair_chance
    if effect <= math.log1p(LIMITS.margin) or not sure:
        return None
    if not _explains_nights(design, mine, effect) or design.chance(r) > LIMITS.node_chance:
        return None
    # Logarithms of the odds against the other groups, by likelihood.
    odds = len(design.votes) / 2 * np.log(left / left[best])
    alike = np.flatnonzero((odds < math.log(LIMITS.node_odds)) & (correlation > 0))
    nodes = sorted(node for group in alike for node in design.groups[group])
    jobs = sum(v.launches for v, counted in zip(design.votes, mine, strict=True) if counted)
    ratio, together = math.exp(effect), len(alike) == 1
    suspect = SlowNode(nodes=tuple(nodes), jobs=jobs, ratio=ratio, where=where, always=together)
    return suspect, set(design.groups[best])


def _explains_nights(design: _Design, mine: np.ndarray, effect: float) -> bool:
    """True if nights with one set of nodes are slow with these nodes, and only then: slow ones
    without them show that nights have a slow state of their own."""
    cost, with_it = design.cost[design.nights], mine[design.nights]
    slow = (cost - np.median(design.cost[~mine])) / effect
    fast, others = (slow < 0.25) & with_it, (slow > 0.75) & ~with_it
    share = LIMITS.node_exceptions
    return fast.sum() <= share * with_it.sum() and others.sum() <= share * (~with_it).sum()


def votes_needed(nodes: int, of_launch: int) -> int:
    """With how many launches each node must be, and without how many, in a sweep of `nodes` that is
    to name one: so many that chance has room for launches out of order, a tenth of
    LIMITS.node_chance if they all are in order."""
    count = int(LIMITS.node_votes)
    share = of_launch / nodes
    part = min(share, 1 - share)
    while nodes / math.comb(math.ceil(count / part), count) > LIMITS.node_chance / 10:
        count += 1
    return count


def recent(store: Store, session: Session) -> list[Session]:
    """The newest sessions of a session's kind up to it, by which a run blames nodes: also those
    that were slower than others, as nights on a slow node are."""
    alike = [
        other
        for other in store.sessions()
        if other.kind == session.kind and other.start <= session.start and not other.excluded
    ]
    return alike[-int(LIMITS.node_sessions) :]
