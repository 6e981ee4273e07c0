"""Nodes that stand out: by the jobs that ran on them, and by pairs where pairs were measured."""

import math
from collections import defaultdict

import numpy as np

from bisection.analysis.model import Pairs, Suspect
from bisection.analysis.statistics import FEWEST, MARGIN
from bisection.store.database import unusable


def suspects(store, sessions, rows):
    """Nodes whose jobs cost more than those of the others, over all times of these sessions."""
    tests, metrics = store.tests(), store.metrics()
    names = {row.key for row in rows if row.metric.startswith("time")}
    outcomes = [o for o in store.outcomes(sessions) if not unusable(o)]
    hosts = {(o.session, o.test, o.run): o.hosts for o in outcomes}
    values = defaultdict(list)
    for session, test, metric, run, value in store.samples(sessions).tolist():
        key = (*tests[test].identity, metrics[metric].name)
        if key in names and value > 0 and hosts.get((session, test, run)):
            values[key].append((session, run, hosts[session, test, run], math.log(value)))
    jobs = defaultdict(list)  # a launch -> what its metrics cost over their medians
    for key, found in values.items():
        median = float(np.median([cost for *_, cost in found]))
        for session, run, nodes, cost in found:
            jobs[key[:2], key[3:6], session, run, nodes].append(cost - median)
    by_place = defaultdict(list)
    for (place, _, _, _, nodes), costs in jobs.items():
        by_place[place].append((nodes, float(np.median(costs))))
    return [s for place, found in by_place.items() for s in _of_place(":".join(place), found)]


def _of_place(place, jobs):
    from scipy.stats import mannwhitneyu

    nodes = {node for names, _ in jobs for node in names}
    found = []
    for node in sorted(nodes):
        with_it = [cost for names, cost in jobs if node in names]
        without = [cost for names, cost in jobs if node not in names]
        if min(len(with_it), len(without)) < FEWEST:
            continue
        effect = float(np.median(with_it) - np.median(without))
        p = mannwhitneyu(with_it, without, alternative="greater").pvalue * len(nodes)
        if effect > math.log1p(MARGIN) and p < 0.01:
            found.append(Suspect(node, math.exp(effect), len(with_it), place))
    for suspect in found:
        suspect.why = (
            f"its {suspect.jobs} jobs take {suspect.ratio - 1:.0%} longer than those without it"
        )
    return found


RESIDUAL = 0.1  # of the logarithm: a path, or a node, that differs by more is named


def pairs(store, sessions):
    """Matrices of what was measured between pairs of nodes, with what stands out in each: a node
    by its effect on all its pairs, a path by what the effects of its nodes leave (median polish of
    the logarithms)."""
    tests, metrics = store.tests(), store.metrics()
    tests = {number: test for number, test in tests.items() if test.pair.count(" ") == 1}
    if not tests:
        return []
    cells = defaultdict(lambda: defaultdict(list))
    for _, test, metric, _, value in store.samples(sessions).tolist():
        if test in tests and value > 0:
            about, what = tests[test], metrics[metric]
            cells[about[:6], what][tuple(about.pair.split())].append(value)
    return [_matrix(place, what, found) for (place, what), found in cells.items()]


def _matrix(place, what, found):
    nodes = sorted({node for pair in found for node in pair})
    where = {node: index for index, node in enumerate(nodes)}
    values = np.full((len(nodes), len(nodes)), np.nan)
    for (one, other), amounts in found.items():
        values[where[one], where[other]] = np.median(amounts)
    return Pairs(
        nodes=nodes,
        values=[[None if np.isnan(v) else float(v) for v in row] for row in values],
        unit=what.unit,
        title=" ".join(filter(None, (*place[3:], what.name))),
        suspects=named(nodes, values, what.better),
    )


def polished(values):
    """(effects of nodes, residuals) of the logarithm of a matrix between nodes, NaN where nothing
    was measured."""
    logs = np.log(values)
    both = np.where(np.isnan(logs), logs.T, logs)  # measured one way stands for both
    effects = np.zeros(len(logs))
    residuals = both - np.nanmedian(both)
    for _ in range(20):
        step = np.nanmedian(residuals, axis=1) / 2
        effects += step
        residuals = residuals - step[:, None] - step[None, :]
    return effects - np.median(effects), residuals


def named(nodes, values, better):
    """Sentences on nodes, then on paths, that are worse than the others."""
    if len(nodes) < 4:
        return []
    effects, residuals = polished(values)
    worse = -1 if better == "higher" else 1
    found = [
        f"node {node}: its pairs are at {math.exp(effect):.0%} of the others; retest it"
        for node, effect in zip(nodes, effects, strict=True)
        if worse * effect > RESIDUAL
    ]
    for i, j in zip(*np.triu_indices(len(nodes), 1), strict=True):
        if worse * residuals[i, j] > RESIDUAL:
            share = math.exp(residuals[i, j])
            found.append(
                f"path {nodes[i]} - {nodes[j]}: {share:.0%} of what its nodes give; retest"
            )
    return found
