"""Finds suspect components by one kind of value: switches, nodes, uplinks, paths.

A component is suspected if its effect is surer than chance after Bonferroni, larger than the
margin, and shared by most of its pairs. It is confirmed by the kernel's second stage, which
reruns the suspects, each pair alone. The largest component that explains slow pairs is named, and
not its parts. All thresholds: LIMITS.pair_*.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy  # its parts load when they are used

from bisection.core.thresholds import LIMITS
from interconnect.effects import MEDIAN, PairValues, fit, medians
from interconnect.pairs import Kind, pieces
from interconnect.reasons import Part


@dataclass
class Suspicion:
    """A component that explains slow values of one kind, before it has a name."""

    kind: Kind
    part: Part
    who: tuple[int, ...]  # (level, switch) | node | two nodes
    way: str
    effect: float
    z: float
    rerun: np.ndarray  # shortfall of its pairs in the rerun
    confirmed: bool = False
    tried: bool = True  # enough of its pairs were rerun
    beyond: bool = False


def _limit(candidates: int) -> float:
    """Standard deviations that chance exceeds for none of so many candidates (Bonferroni)."""
    return -float(scipy.special.ndtri(LIMITS.pair_chance / max(candidates, 1)))


class SuspectSearch:
    """Judges the values of one kind.

    `least`: the least effect that is named, of the logarithm.
    """

    def __init__(
        self,
        kind: Kind,
        values: PairValues,
        rerun: PairValues,
        switches: np.ndarray | None,
    ) -> None:
        self.kind, self.values, self.rerun, self.switches = kind, values, rerun, switches
        self.least = abs(math.log1p(-kind.sign * LIMITS.pair_effect))
        self.fit = fit(values)
        self.ways = [("sends", 0), ("receives", values.nodes)] if values.directed else [("", 0)]
        self.taken = np.zeros(values.effects, bool)  # explained by what is named
        self.known = np.zeros((values.classes, values.effects))  # by its switches, of pairs by hops
        # Of every effect the shortfall of its pairs, and their hops: in the tournament, in the
        # rerun.
        self.ends, self.short, self.hops = self._by_effect(values)
        self.ends_rerun, self.short_rerun, self.hops_rerun = self._by_effect(rerun)

    def _by_effect(self, values: PairValues) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ends = np.concatenate((values.s, values.q))
        short = np.concatenate((self.fit.short(values, 0), self.fit.short(values, 1)))
        return ends, short, np.tile(values.hops, 2)

    def _repeats(
        self, short: np.ndarray, candidates: int = 1, beyond: np.ndarray | None = None
    ) -> bool:
        """True if pairs are slow in the rerun, too: most of them, by more than the margin and by
        more than chance.

        Args:
            short: the shortfall of each pair.
            candidates: of which this is one.
            beyond: the switch at the other end of each pair: a few slow routes are no slow node.
        """
        effect, spread = float(np.median(short)), float(np.median(self.fit.spread))
        pair = self.fit.sigma * (MEDIAN if self.rerun.repeats > 2 else 1)
        of_pair = math.hypot(pair / math.sqrt(self.rerun.repeats), spread * math.sqrt(2))
        error = MEDIAN * of_pair / math.sqrt(len(short))
        each = short
        if beyond is not None:
            group = np.unique(beyond, return_inverse=True)[1]
            each = medians(group, short, int(group.max()) + 1)
        slow = (each < -self.least / 2).mean() >= LIMITS.pair_share
        return bool(slow) and -effect > max(self.least, _limit(candidates) * error)

    def suspicions(self) -> Iterator[Suspicion]:
        """All suspicions, the largest explanations first."""
        switches = [] if self.switches is None else list(self.switches)
        for level in reversed(range(len(switches))):
            yield from self._take(self._switches(level, switches[level]))
        yield from self._take(self._nodes())
        yield from self._paths()

    def _take(self, suspicions: Iterable[Suspicion]) -> Iterator[Suspicion]:
        for suspicion in suspicions:
            if suspicion.confirmed:
                explained, on_it = np.array(suspicion.who), 0
                if suspicion.part == Part.SWITCH and self.switches is not None:
                    level, switch = suspicion.who
                    explained = np.flatnonzero(self.switches[level] == switch)
                    on_it = 1 + level if suspicion.beyond else 0  # hops of sound pairs
                explained = explained + dict(self.ways)[suspicion.way]
                self.taken[explained] = True
                if suspicion.part == Part.SWITCH:
                    self.known[on_it:, explained] = suspicion.effect
            yield suspicion

    def _switches(self, level: int, number: np.ndarray) -> Iterator[Suspicion]:
        """Switches: confirmed where most of the nodes that were rerun are slow to others; `beyond`
        where pairs on the switch are not slow."""
        values, effects = self.values, self.fit.effects
        sizes = np.bincount(number)
        fit_for = np.flatnonzero((sizes >= LIMITS.pair_retests) & (sizes <= len(number) / 2))
        limit = _limit(len(fit_for) * len(self.ways))
        for switch, (way, offset) in itertools.product(fit_for, self.ways):
            members = np.flatnonzero(number == switch) + offset
            effect = float(np.median(effects[members]))
            error = MEDIAN * np.median(self.fit.spread[members]) / math.sqrt(len(members))
            slow = (effects[members] < -self.least / 2).mean() >= LIMITS.pair_share
            sure = effect < -self.least and -effect / error > limit
            if self.taken[members].any() or not slow or not sure:
                continue
            apart = self.hops_rerun > level
            shorts = [self.short_rerun[apart & (self.ends_rerun == member)] for member in members]
            each = np.array([np.median(short) for short in shorts if len(short)])
            enough = len(each) >= LIMITS.pair_retests
            inside = (number[values.s] == switch) & (number[values.r] == switch)
            near = values.y[inside] - self.fit.levels[values.hops[inside]]
            beyond = bool(inside.any()) and float(np.median(near)) > effect / 2
            confirmed = enough and self._repeats(each)
            whole = float(np.median(self.short[np.isin(self.ends, members) & (self.hops > level)]))
            who, z = (level, int(switch)), -effect / error
            where = (self.kind, Part.SWITCH, who, way)
            yield Suspicion(*where, whole, z, each, confirmed, enough, beyond)

    def _nodes(self) -> Iterator[Suspicion]:
        effects = self.fit.effects - self.known[-1]
        short, short_rerun = self.short, self.short_rerun
        if self.known.any():
            short = short - self.known[self.hops, self.ends]
            short_rerun = short_rerun - self.known[self.hops_rerun, self.ends_rerun]
        # [near, far; all, slow; effects]: a way is slow to other switches alone
        pairs, share = np.zeros((2, 2, len(effects)), int), np.zeros(len(effects))
        for piece in pieces(len(short)):
            far, slow = self.hops[piece] > 0, short[piece] < -self.least / 2
            for place in np.ndindex(2, 2):
                of = (far == place[0]) & (slow >= place[1])
                pairs[place] += np.bincount(self.ends[piece][of], minlength=len(effects))
        for count, part in (pairs.sum(axis=0), pairs[1]):
            part = part / np.maximum(count, 1)
            share = np.maximum(share, np.where(count >= LIMITS.pair_retests, part, 0))
        z = -effects / self.fit.spread
        other = np.concatenate((self.rerun.r, self.rerun.s))
        bad = (effects < -self.least) & (z > _limit(len(effects))) & (share >= LIMITS.pair_share)
        for k in np.flatnonzero(bad):
            way = next(way for way, offset in reversed(self.ways) if k >= offset)
            mine = self.ends_rerun == k
            near, far = mine & (self.hops_rerun == 0), mine & (self.hops_rerun > 0)
            apart = far if far.any() else near
            enough = bool(apart.sum() >= LIMITS.pair_retests)
            beyond = None if self.switches is None else self.switches[0][other[apart]]
            confirmed = enough and self._repeats(short_rerun[apart], beyond=beyond)
            near = short_rerun[near]
            fine = far.any() and len(near) > 1 and float(np.median(near)) > effects[k] / 2
            part, who = Part.WAY if fine else Part.NODE, (int(k) % self.values.nodes,)
            measure = (effects[k], z[k], short_rerun[apart], confirmed, enough)
            yield Suspicion(self.kind, part, who, way, *measure)

    def _paths(self) -> Iterator[Suspicion]:
        """Single pairs, by what the effects of their ends leave."""
        values, rest, left_rerun = self.values, self.fit.rest, self.fit.left(self.rerun)
        free = ~self.taken[values.s] & ~self.taken[values.q]
        z = -rest / self.fit.sigma
        slow = free & (rest < -2 * self.least) & (z > _limit(len(values.y)))
        suspects, again = np.flatnonzero(slow), self.rerun.key
        tried = np.isin(values.key[suspects], again)
        for k, is_tried in zip(suspects, tried, strict=True):
            rerun, confirmed = left_rerun[:0], False
            if is_tried:
                mine = again == values.s[k] * np.int64(values.nodes) + values.r[k]
                rerun = left_rerun[mine]
                best = rerun + (self.rerun.best - self.rerun.y)[mine]
                confirmed = best[0] < min(rest[k] / 2, -2 * self.least)
                confirmed = confirmed and self._repeats(rerun, len(suspects))
            who, way = (int(values.s[k]), int(values.r[k])), "sends" if values.directed else ""
            measure = (rest[k], z[k], rerun, bool(confirmed), bool(is_tried))
            yield Suspicion(self.kind, Part.PATH, who, way, *measure)
