"""Nodes that stand out by the jobs that ran on them. By pairs: blame.py."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.stats import ttest_ind

from bisection.analysis.model import Row, Suspect
from bisection.core.thresholds import LIMITS
from bisection.store.database import Session, Store


def suspects(
    store: Store, sessions: Sequence[Session], rows: Sequence[Row] | None = None
) -> list[Suspect]:
    """Nodes whose jobs take longer than those of the others, over all times of these sessions.

    Args:
        store: where the sessions are stored.
        sessions: those whose jobs are compared: of one kind, of one state of the machine.
        rows: a table; only times that it has are looked at. None: all times.
    """
    tests, metrics = store.tests(), store.metrics()
    names = None if rows is None else {row.key for row in rows}
    ran = {
        (o.session, o.test, o.run): (tuple(sorted(o.hosts)), o.preempted)
        for o in store.outcomes(sessions)
        if o.hosts and (o.preempted or not o.unusable)
    }
    values = defaultdict(list)
    for session, test, metric, run, value in store.samples(sessions).tolist():
        key = (*tests[test].key, metrics[metric].name)
        time = key[-1].startswith("time") and (names is None or key in names)
        if time and value > 0 and (session, test, run) in ran:
            values[key].append((session, run, *ran[session, test, run], math.log(value)))
    # A partition, session, run and its nodes -> of each metric the cost over its median, and the
    # fraction of preempted samples.
    costs = defaultdict(list)
    for key, jobs in values.items():
        median = float(np.median([cost for *_, cost in jobs]))
        for session, run, nodes, preempted, cost in jobs:
            costs[key[:2], session, run, nodes].append((cost - median, preempted))
    # Alone: a baseline has the host of its slowest rank, beside launches on several.
    by_place = defaultdict(lambda: defaultdict(list))
    for (place, session, run, nodes), excess in costs.items():
        by_place[":".join(place), len(nodes)][session].append((run, nodes, excess))
    strongest: dict[tuple[str, str], Suspect] = {}
    for (place, _), of_sessions in by_place.items():
        for suspect in _of_place(place, of_sessions):
            known = strongest.setdefault((place, suspect.node), suspect)
            if suspect.ratio > known.ratio:
                strongest[place, suspect.node] = suspect
    return list(strongest.values())


class _Jobs(NamedTuple):
    """The jobs of a session on the same nodes."""

    nodes: tuple[str, ...]
    cost: float  # logarithm of their time over the median of all
    preempted: float  # fraction of samples
    count: int


def _of_place(
    place: str,
    sessions: Mapping[int, Sequence[tuple[int, tuple[str, ...], list[tuple[float, float]]]]],
) -> list[Suspect]:
    """The slow nodes of a partition, by its sessions: [(run, nodes, [(cost, preempted)])] each, all
    of them on as many nodes.

    Jobs of one session on the same nodes are one value: they share its noise. Repeated runs count
    each where they were on other nodes each time. Preempted jobs count for nodes that have too few
    others: what takes the cores of one node is that node's fault.
    """
    jobs = []
    for runs in sessions.values():
        sets = {nodes for _, nodes, _ in runs}
        swept = len({run for run, *_ in runs}) >= len(sets) > 1
        groups = defaultdict(list)
        for run, nodes, values in runs:
            groups[run if swept else 0, nodes].append(values)
        for (_, nodes), several in groups.items():
            cost, preempted = np.median([pair for values in several for pair in values], axis=0)
            jobs.append(_Jobs(nodes, float(cost), float(preempted), len(several)))
    quiet = [each for each in jobs if each.preempted <= LIMITS.preempted_launch]
    names = sorted({node for each in jobs for node in each.nodes})
    suspects = []
    for node in names:
        sides = next(filter(_enough, (_sides(node, quiet), _sides(node, jobs))), None)
        if sides is None:
            continue
        with_it, without = ([each.cost for each in side] for side in sides)
        effect = float(np.median(with_it) - np.median(without))
        # By ranks, five against five have no chance below 1%, times the nodes.
        test = {"alternative": "greater", "equal_var": False, "trim": LIMITS.trimmed}
        p = ttest_ind(with_it, without, **test).pvalue * len(names)
        if effect > math.log1p(LIMITS.margin) and p < LIMITS.node_chance:
            count = sum(each.count for each in sides[0])
            suspects.append(Suspect(node, math.exp(effect), count, place))
    return suspects


def _sides(node: str, jobs: Sequence[_Jobs]) -> tuple[list[_Jobs], list[_Jobs]]:
    """The jobs on a node, and the others."""
    return (
        [each for each in jobs if node in each.nodes],
        [each for each in jobs if node not in each.nodes],
    )


def _enough(sides: tuple[list[_Jobs], list[_Jobs]]) -> bool:
    return min(map(len, sides)) >= LIMITS.fewest


def recent(store: Store, session: Session) -> list[Session]:
    """The newest sessions of a session's kind up to it, by which a run blames nodes: also those
    that were slower than others, as nights on a slow node are."""
    alike = [
        other
        for other in store.sessions()
        if other.kind == session.kind and other.start <= session.start and not other.excluded
    ]
    return alike[-int(LIMITS.node_sessions) :]
