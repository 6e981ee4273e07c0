"""Nodes that stand out: by the jobs that ran on them, and by pairs where pairs were measured."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import mannwhitneyu

from bisection.analysis.model import OddNode, OddPath, Pairs, Row, Suspect
from bisection.core.thresholds import LIMITS
from bisection.store.database import Metric, Session, Store


def suspects(store: Store, sessions: Sequence[Session], rows: Sequence[Row]) -> list[Suspect]:
    """Nodes whose jobs take longer than those of the others, over all times of these sessions.

    Args:
        store: where the sessions are stored.
        sessions: the newer side of a comparison.
        rows: its rows; their times are looked at.
    """
    tests, metrics = store.tests(), store.metrics()
    names = {row.key for row in rows if row.metric.startswith("time")}
    outcomes = [o for o in store.outcomes(sessions) if not o.unusable]
    hosts = {(o.session, o.test, o.run): o.hosts for o in outcomes}
    values = defaultdict(list)
    for session, test, metric, run, value in store.samples(sessions).tolist():
        key = (*tests[test].key, metrics[metric].name)
        if key in names and value > 0 and hosts.get((session, test, run)):
            values[key].append((session, run, hosts[session, test, run], math.log(value)))
    jobs = defaultdict(list)  # a launch -> what its metrics cost over their medians
    for key, costs in values.items():
        median = float(np.median([cost for *_, cost in costs]))
        for session, run, nodes, cost in costs:
            jobs[key[:2], key[3:6], session, run, nodes].append(cost - median)
    by_place = defaultdict(list)
    for (place, _, _, _, nodes), costs in jobs.items():
        by_place[place].append((nodes, float(np.median(costs))))
    return [s for place, costs in by_place.items() for s in _of_place(":".join(place), costs)]


def _of_place(place: str, jobs: Sequence[tuple[tuple[str, ...], float]]) -> list[Suspect]:
    nodes = {node for names, _ in jobs for node in names}
    suspects = []
    for node in sorted(nodes):
        with_it = [cost for names, cost in jobs if node in names]
        without = [cost for names, cost in jobs if node not in names]
        if min(len(with_it), len(without)) < LIMITS.fewest:
            continue
        effect = float(np.median(with_it) - np.median(without))
        p = mannwhitneyu(with_it, without, alternative="greater").pvalue * len(nodes)
        if effect > math.log1p(LIMITS.margin) and p < LIMITS.node_chance:
            suspects.append(Suspect(node, math.exp(effect), len(with_it), place))
    return suspects


# ---- pairs ----


def pairs(store: Store, sessions: Sequence[Session]) -> list[Pairs]:
    """Matrices of what was measured between pairs of nodes, with what stands out in each."""
    tests, metrics = store.tests(), store.metrics()
    tests = {number: test for number, test in tests.items() if test.pair.count(" ") == 1}
    if not tests:
        return []
    cells = defaultdict(lambda: defaultdict(list))
    for _, number, metric, _, value in store.samples(sessions).tolist():
        if number in tests and value > 0:
            test = tests[number]
            cells[test.identity[:6], metrics[metric]][tuple(test.pair.split())].append(value)
    return [_matrix(place, metric, values) for (place, metric), values in cells.items()]


def _matrix(
    place: tuple[str, ...], metric: Metric, cells: Mapping[tuple[str, str], list[float]]
) -> Pairs:
    nodes = sorted({node for pair in cells for node in pair})
    where = {node: index for index, node in enumerate(nodes)}
    values = np.full((len(nodes), len(nodes)), np.nan)
    for (sender, receiver), amounts in cells.items():
        values[where[sender], where[receiver]] = np.median(amounts)
    return Pairs(
        nodes=nodes,
        values=[[None if np.isnan(v) else float(v) for v in row] for row in values],
        unit=metric.unit,
        title=" ".join(filter(None, (*place[3:], metric.name))),
        suspects=odd_ones(nodes, values, metric.better),
    )


def median_polish(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Splits a matrix between nodes into the effects of its nodes and the rest (Tukey 1977).

    Args:
        values: positive, [nodes, nodes]; NaN where nothing was measured.

    Returns:
        Effects [nodes] and residuals [nodes, nodes] of the logarithm.
    """
    logs = np.log(values)
    both = np.where(np.isnan(logs), logs.T, logs)  # measured one way stands for both
    effects = np.zeros(len(logs))
    residuals = both - np.nanmedian(both)
    for _ in range(20):
        step = np.nanmedian(residuals, axis=1) / 2
        effects += step
        residuals = residuals - step[:, None] - step[None, :]
    return effects - np.median(effects), residuals


def odd_ones(nodes: Sequence[str], values: np.ndarray, better: str) -> list[OddNode | OddPath]:
    """Nodes that are worse than the others by their effect on all their pairs, then paths that are
    worse than the effects of their nodes.

    Args:
        nodes: names.
        values: positive, [nodes, nodes]; NaN where nothing was measured.
        better: lower | higher.
    """
    if len(nodes) < LIMITS.path_nodes:
        return []
    effects, residuals = median_polish(values)
    worse = -1 if better == "higher" else 1
    odd: list[OddNode | OddPath] = [
        OddNode(node, math.exp(effect))
        for node, effect in zip(nodes, effects, strict=True)
        if worse * effect > LIMITS.path_residual
    ]
    for i, j in zip(*np.triu_indices(len(nodes), 1), strict=True):
        if worse * residuals[i, j] > LIMITS.path_residual:
            odd.append(OddPath((nodes[i], nodes[j]), math.exp(residuals[i, j])))
    return odd
