"""Made-up networks: what the kernel `pairs` would measure on them, in both of its stages."""

import json
from heapq import nlargest

import numpy as np

from bisection.analysis.statistics import scale
from bisection.kernels.results import SCHEMA, VERSION
from interconnect.effects import fit, observations
from interconnect.pairs import KINDS, RECORD, TOURNAMENT, Matrix

NEAR = {"latency": 1.2e-6, "out": 2.4e10, "back": 2.4e10, "both": 4.4e10}
FAR_LATENCY = 1.3


def tournament(nodes, rounds, rng):
    """Pairs (a, b) and rounds of the first rounds of a relabelled round robin by the circle method;
    0 rounds are all. With an odd number of nodes one rests in each."""
    even = nodes + nodes % 2
    label, order = rng.permutation(even), rng.permutation(even - 1)
    order = order[: rounds or even - 1][:, None]
    step = np.arange(1, even // 2)
    a = np.concatenate((np.full_like(order, even - 1), (order + step) % (even - 1)), 1)
    b = np.concatenate((order, (order - step) % (even - 1)), 1)
    a, b = label[a].ravel(), label[b].ravel()
    number = np.repeat(np.arange(len(order)), even // 2)
    there = (a < nodes) & (b < nodes)
    return a[there], b[there], number[there]


class World:
    """Nodes on leaf switches under static routes: by destination modulo the uplinks: a leaf
    has as many as nodes.

    Args:
        nodes, leaf: how many there are, and on each switch.
        seed: of the noise.
        noise: of a pair, of the logarithm; `healthy`: of healthy nodes; `tails`: the fraction of
            values that something else makes worse by up to 0.5 of the logarithm.
        far: latency of each further level of switches, over that of the one below.
        pod: nodes below each switch of the second of three levels, with an uplink per leaf node;
            0: there are two levels.
    """

    def __init__(
        self, nodes, leaf, seed, noise=0.05, healthy=0.01, tails=0.01, far=FAR_LATENCY, pod=0
    ):
        self.nodes, self.leaf, self.noise, self.tails, self.far = nodes, leaf, noise, tails, far
        self.switch = np.arange(nodes) // leaf
        self.pod = np.arange(nodes) // (pod or nodes)
        self.rng = np.random.default_rng(seed)
        self.healthy = self.rng.normal(0, healthy, (4, nodes))  # latency, out, in, both
        self.faults = []  # (kind, who, factor)

    def _loss(self, s, r, latency):
        """The logarithm of what faults cost: s sends to r."""
        loss = np.zeros(len(s))
        for kind, who, factor in self.faults:
            if (kind == "latency") != latency:
                continue
            number = self.pod if kind in ("pod", "trunk") else self.switch
            apart = number[s] != number[r]
            if kind == "pair":
                hit = (np.minimum(s, r) == min(who)) & (np.maximum(s, r) == max(who))
            elif kind in ("switch", "pod"):
                hit = ((number[s] == who) | (number[r] == who)) & apart
            elif kind in ("cable", "trunk"):  # (switch or pod, uplink)
                on_it = (number[s] == who[0]) | (number[r] == who[0])
                hit = on_it & (r % self.leaf == who[1]) & apart
            else:  # node, latency, sends, receives
                hit = (kind != "receives") & (s == who) | (kind != "sends") & (r == who)
            loss += hit * abs(np.log(factor))
        return loss

    def measured(self, a, b, number, stage):
        """Records of these pairs."""
        records = np.zeros(len(a), RECORD)
        records["stage"], records["round"] = stage, number
        records["a"], records["b"] = a, b
        hops = (self.switch[a] != self.switch[b]) * 1 + (self.pod[a] != self.pod[b])
        for name, s, r, send, receive in (
            ("latency", a, b, 0, 0),
            ("out", a, b, 1, 2),
            ("back", b, a, 1, 2),
            ("both", a, b, 3, 3),
        ):
            loss = self._loss(s, r, name == "latency")
            if name == "both":  # the slower way takes longer
                loss = np.maximum(loss, self._loss(r, s, False))
            worse = loss + self.healthy[send][s] + self.healthy[receive][r]
            worse += self.rng.normal(0, self.noise, len(s))
            hit = self.rng.random(len(s)) < self.tails
            worse += hit * self.rng.uniform(0.05, 0.5, len(s))
            worse = worse + hops * np.log(self.far) if name == "latency" else -worse
            records[name] = NEAR[name] * np.exp(worse)
        return records

    @classmethod
    def with_faults(cls, *faults, nodes=64, leaf=16, seed=1, **more):
        """A world with these faults (kind, who, factor)."""
        world = cls(nodes, leaf, seed, **more)
        world.faults = [*faults]
        return world

    def matrix(self, rounds=0, known=True, retest=True):
        """A launch of the kernel: tournament, rule of suspects, second stage."""
        a, b, number = tournament(self.nodes, rounds, self.rng)
        records = self.measured(a, b, number, 0)
        names = [f"cn{node:04d}" for node in range(self.nodes)]
        switches, titles = self.switch[None] if known else None, None
        if retest:
            leaves = Matrix(names, records, switches=switches)
            a, b = np.array(second_stage(leaves, self.rng), int).reshape(-1, 2).T
            second = [self.measured(a, b, turn, 1) for turn in range(5)]
            records = np.concatenate([records, *second])
        if known and self.pod.any():
            switches = np.array([self.switch, self.pod])
            titles = [[f"{t} {n}" for n in range(self.nodes)] for t in ("switch", "pod")]
        return Matrix(names, records, "thin", rounds, switches, titles)


def write(matrix, folder, name="result", **head):
    """Writes a matrix as the kernel does; returns the path of result.json. `head` changes what
    details.pairs says."""
    details = {
        "nodes": matrix.nodes,
        "mode": matrix.mode,
        "rounds": matrix.rounds,
        "switches": None if matrix.switches is None else matrix.switches[0].tolist(),
        "switch_names": None,
        "bytes": 1 << 22,
        "ranks_per_node": 4,
        "records": len(matrix.records),
        **head,
    }
    result = {"schema": SCHEMA, "version": VERSION, "kernel": "pairs", "case": "nodes"}
    result |= {"status": "complete", "results": [], "details": {"pairs": details}}
    path = folder / f"{name}.json"
    path.write_text(json.dumps(result))
    path.with_suffix(".pairs").write_bytes(matrix.records.tobytes())
    return path


# ---- the kernel's rule of suspects: src/network/pairs_suspects.c ----

NODE_EFFECT, NODE_SPREADS, PATH_EFFECT, PATH_SPREADS = 0.03, 2, 0.08, 3
SUSPECTS, PATHS, PARTNERS = 16, 64, 4


def note(scores, names, values, least, spreads):
    """Keeps the largest score of each name, of values that are beyond the margin and the spread."""
    width = scale(values - np.median(values))
    for k in np.flatnonzero(values > max(least, spreads * width)):
        scores[names[k]] = max(values[k] / max(least, width), scores.get(names[k], 0))


def second_stage(matrix, rng):
    """The pairs that are rerun: bx_pairs_summarise and bx_pairs_second_stage."""
    nodes, worst, paths = range(len(matrix.nodes)), {}, {}
    for kind in KINDS:
        values = observations(matrix, kind, TOURNAMENT)
        fitted = fit(values)
        note(worst, [*nodes, *nodes], -fitted.effects, NODE_EFFECT, NODE_SPREADS)
        slow = np.minimum(0, fitted.effects)
        rest = fitted.levels[values.hops] + slow[values.s] + slow[values.q] - values.y
        ends = np.sort([values.s, values.r], axis=0).T.tolist()
        note(paths, [*map(tuple, ends)], rest, PATH_EFFECT, PATH_SPREADS)
    suspects, pairs = nlargest(SUSPECTS, worst, worst.get), []
    switch = None if matrix.switches is None else matrix.switches[0]
    for node in suspects:
        others = [int(other) for other in rng.permutation(nodes) if other not in suspects]
        near = [o for o in others if switch is not None and switch[node] == switch[o]]
        far = [other for other in others if other not in near]
        partners = near[:PARTNERS] + far[: PARTNERS * (2 if switch is None else 1)]
        pairs += [(node, other) for other in partners]
    return pairs + nlargest(PATHS, paths, paths.get)
