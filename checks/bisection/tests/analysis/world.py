"""Made-up networks: what the kernel `pairs` would measure on them, in both of its stages."""

import numpy as np

from bisection.analysis.effects import fit, observations
from bisection.analysis.pairs import KINDS, RECORD, Matrix

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
    """

    def __init__(self, nodes, leaf, seed, noise=0.05, healthy=0.01, tails=0.01, far=FAR_LATENCY):
        self.nodes, self.leaf, self.noise, self.tails, self.far = nodes, leaf, noise, tails, far
        self.switch = np.arange(nodes) // leaf
        self.rng = np.random.default_rng(seed)
        self.healthy = self.rng.normal(0, healthy, (4, nodes))  # latency, out, in, both
        self.faults = []  # (kind, who, factor)

    def _loss(self, s, r, latency):
        """The logarithm of what faults cost: s sends to r."""
        loss = np.zeros(len(s))
        for kind, who, factor in self.faults:
            if (kind == "latency") != latency:
                continue
            apart = self.switch[s] != self.switch[r]
            if kind in ("node", "latency"):
                hit = (s == who) | (r == who)
            elif kind == "sends":
                hit = s == who
            elif kind == "receives":
                hit = r == who
            elif kind == "pair":
                hit = (np.minimum(s, r) == min(who)) & (np.maximum(s, r) == max(who))
            elif kind == "switch":
                hit = ((self.switch[s] == who) | (self.switch[r] == who)) & apart
            else:  # cable: (switch, uplink)
                up = (self.switch[s] == who[0]) & (r % self.leaf == who[1])
                down = (self.switch[r] == who[0]) & (r % self.leaf == who[1])
                hit = (up | down) & apart
            loss += hit * abs(np.log(factor))
        return loss

    def measured(self, a, b, number, stage):
        """Records of these pairs."""
        records = np.zeros(len(a), RECORD)
        records["stage"], records["round"] = stage, number
        records["a"], records["b"] = a, b
        for name, s, r, send, receive in (
            ("latency", a, b, 0, 0),
            ("out", a, b, 1, 2),
            ("back", b, a, 1, 2),
            ("both", a, b, 3, 3),
        ):
            worse = self.healthy[send][s] + self.healthy[receive][r]
            if name == "both":  # the slower way takes longer
                worse = worse + np.maximum(self._loss(s, r, False), self._loss(r, s, False))
            else:
                worse = worse + self._loss(s, r, name == "latency")
            worse = worse + self.rng.normal(0, self.noise, len(s))
            hit = self.rng.random(len(s)) < self.tails
            worse = worse + hit * self.rng.uniform(0.05, 0.5, len(s))
            apart = self.switch[s] != self.switch[r]
            sign = -1
            if name == "latency":
                worse, sign = worse + apart * np.log(self.far), 1
            records[name] = NEAR[name] * np.exp(sign * worse)
        return records

    def matrix(self, rounds=0, known=True, retest=True):
        """A launch of the kernel: tournament, rule of suspects, second stage."""
        a, b, number = tournament(self.nodes, rounds, self.rng)
        records = self.measured(a, b, number, 0)
        if retest:
            pairs = suspected_pairs(records, self.nodes, self.switch if known else None, self.rng)
            a, b = (np.array(end, int) for end in zip(*pairs, strict=True)) if pairs else ([], [])
            again = [self.measured(a, b, turn, 1) for turn in range(5)] if pairs else []
            records = np.concatenate([records, *again])
        names = [f"cn{node:04d}" for node in range(self.nodes)]
        switches = self.switch[None] if known else None
        return Matrix(names, records, "thin", rounds, switches)


# ---- the kernel's rule of suspects, as src/network/pairs states it ----


def suspected_pairs(records, nodes, switch, rng):
    """The pairs that the second stage measures, by the rule of the kernel: effects by medians in
    turn, the worst nodes below -0.04, the worst paths below -0.1 and 4 sigma."""
    placed = None if switch is None else switch[None]
    matrix = Matrix([str(node) for node in range(nodes)], records, switches=placed)
    worst, paths = np.zeros(nodes), {}
    for kind in KINDS:
        values = observations(matrix, kind, 0)
        fitted = fit(values)
        worst = np.minimum(worst, fitted.effects.reshape(-1, nodes).min(axis=0))
        bad = np.minimum(fitted.effects, 0)
        rest = values.y - fitted.levels[values.hops] - bad[values.s] - bad[values.q]
        for k in np.flatnonzero(rest < -max(0.1, 4 * fitted.sigma)):
            ends = tuple(sorted((int(values.s[k]), int(values.r[k]))))
            paths[ends] = min(rest[k], paths.get(ends, 0))
    order = np.argsort(worst, kind="stable")
    suspects = [int(k) for k in order[: 8 + nodes // 32] if worst[k] < -0.04]
    pairs = set()
    for node in suspects:
        others = [int(k) for k in rng.permutation(nodes) if k != node]
        others.sort(key=lambda k: k in suspects)
        near = [k for k in others if switch is not None and switch[k] == switch[node]][:4]
        chosen, seen = [], set()
        apart = [k for k in others if switch is None or switch[k] != switch[node]]
        for again in (False, True):
            for k in apart:
                new = switch is None or again or switch[k] not in seen
                if len(chosen) < (8 if switch is None else 4) and k not in chosen and new:
                    chosen.append(k)
                    seen.add(None if switch is None else int(switch[k]))
        pairs |= {(min(node, k), max(node, k)) for k in near + chosen}
    slowest = sorted(paths, key=paths.get)[: 32 + nodes // 16]
    pairs.update(slowest)
    for a, b in slowest[:16] if switch is not None else ():
        for one, other in ((a, b), (b, a)) if switch[a] != switch[b] else ():
            alike = [int(node) for node in rng.permutation(nodes) if switch[node] == switch[one]]
            more = [node for node in alike if node != one][:3]
            pairs |= {(min(node, other), max(node, other)) for node in more}
    return sorted(pairs)
