"""Nodes that stand out by the jobs that ran on them. By pairs: blame.py."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

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
    outcomes = [o for o in store.outcomes(sessions) if not o.unusable]
    hosts = {(o.session, o.test, o.run): tuple(sorted(o.hosts)) for o in outcomes}
    values = defaultdict(list)
    for session, test, metric, run, value in store.samples(sessions).tolist():
        key = (*tests[test].key, metrics[metric].name)
        time = key[-1].startswith("time") and (names is None or key in names)
        if time and value > 0 and hosts.get((session, test, run)):
            values[key].append((session, run, hosts[session, test, run], math.log(value)))
    # A partition, session, run and its nodes -> what each of its metrics cost over their medians.
    costs = defaultdict(list)
    for key, jobs in values.items():
        median = float(np.median([cost for *_, cost in jobs]))
        for session, run, nodes, cost in jobs:
            costs[key[:2], session, run, nodes].append(cost - median)
    by_place = defaultdict(lambda: defaultdict(list))
    for (place, session, run, nodes), excess in costs.items():
        by_place[place][session].append((run, nodes, excess))
    return [
        suspect
        for place, of_sessions in by_place.items()
        for suspect in _of_place(":".join(place), of_sessions)
    ]


def _of_place(
    place: str, sessions: Mapping[int, Sequence[tuple[int, tuple[str, ...], list[float]]]]
) -> list[Suspect]:
    """The slow nodes of a partition, by its sessions: [(run, nodes, costs)] each.

    Jobs of one session on the same nodes are one value: they share its noise. Repeated runs count
    each where they were on other nodes each time.
    """
    values: list[tuple[tuple[str, ...], float, int]] = []
    for runs in sessions.values():
        sets = {nodes for _, nodes, _ in runs}
        swept = len({run for run, *_ in runs}) >= len(sets) > 1
        groups = defaultdict(list)
        for run, nodes, costs in runs:
            groups[run if swept else 0, nodes].append(costs)
        for (_, nodes), several in groups.items():
            costs = [cost for each in several for cost in each]
            values.append((nodes, float(np.median(costs)), len(several)))
    nodes = {node for names, *_ in values for node in names}
    suspects = []
    for node in sorted(nodes):
        with_it = [cost for names, cost, _ in values if node in names]
        without = [cost for names, cost, _ in values if node not in names]
        if min(len(with_it), len(without)) < LIMITS.fewest:
            continue
        effect = float(np.median(with_it) - np.median(without))
        # By ranks, five against five have no chance below 1%, times the nodes.
        test = {"alternative": "greater", "equal_var": False, "trim": LIMITS.trimmed}
        p = ttest_ind(with_it, without, **test).pvalue * len(nodes)
        if effect > math.log1p(LIMITS.margin) and p < LIMITS.node_chance:
            jobs = sum(count for names, _, count in values if node in names)
            suspects.append(Suspect(node, math.exp(effect), jobs, place))
    return suspects


def recent(store: Store, session: Session) -> list[Session]:
    """The newest sessions of a session's kind up to it, by which a run blames nodes: also those
    that were slower than others, as nights on a slow node are."""
    alike = [
        other
        for other in store.sessions()
        if other.kind == session.kind and other.start <= session.start and not other.excluded
    ]
    return alike[-int(LIMITS.node_sessions) :]
