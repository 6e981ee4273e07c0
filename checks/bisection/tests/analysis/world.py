"""Made-up networks: what the kernel `pairs` would measure on them, in both of its stages."""

import numpy as np

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
    """Nodes on leaf switches under static routes: by destination modulo the uplinks, of which a leaf
    has one per node.

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
    """The pairs that the second stage measures."""
    worst, paths, path_ends = np.zeros(nodes), np.zeros(len(records)), []
    far = (
        np.zeros(len(records), int)
        if switch is None
        else 1 * (switch[records["a"]] != switch[records["b"]])
    )
    for kind in KINDS:
        directed, sign = len(kind.fields) > 1, 1 if kind.better == "higher" else -1
        ends = [("a", "b"), ("b", "a")][: len(kind.fields)]
        p = np.concatenate([records[s] for s, _ in ends])
        q = np.concatenate([records[r] for _, r in ends]) + nodes * directed
        y = sign * np.log(np.concatenate([records[name] for name in kind.fields]))
        classes = np.tile(far, len(ends))
        for number in np.unique(classes):
            y[classes == number] -= np.median(y[classes == number])
        both, twice = np.concatenate((p, q)), np.concatenate((y, y))
        order = np.argsort(both, kind="stable")
        parts = np.split(twice[order], np.cumsum(np.bincount(both, minlength=q.max() + 1))[:-1])
        effect = np.array([np.median(part) if len(part) else 0 for part in parts])
        effect = np.append(effect, np.zeros(nodes * (1 + directed) - len(effect)))
        sigma = 1.4826 * np.median(np.abs(y - effect[p] - effect[q]))
        rest = y - np.minimum(effect[p], 0) - np.minimum(effect[q], 0)
        rest[rest >= -max(0.1, 4 * sigma)] = 0
        for part in np.split(rest, len(ends)):
            paths = np.minimum(paths, part)
        for part in np.split(effect, 1 + directed):
            worst = np.minimum(worst, part)
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
    order = [k for k in np.argsort(paths, kind="stable") if paths[k] < 0][: 32 + nodes // 16]
    for rank, k in enumerate(order):
        a, b = int(records["a"][k]), int(records["b"][k])
        pairs.add((min(a, b), max(a, b)))
        if switch is not None and rank < 16 and switch[a] != switch[b]:
            for one, other in ((a, b), (b, a)):
                alike = [int(n) for n in rng.permutation(nodes) if switch[n] == switch[one]]
                more = [n for n in alike if n != one][:3]
                pairs |= {(min(n, other), max(n, other)) for n in more}
    return sorted(pairs)
