"""Finds suspect components by one kind of value: switches, nodes, uplinks, cables, paths.

A component is suspected if its effect is surer than chance after Bonferroni, larger than the
margin, and shared by most of its pairs. It is confirmed by the kernel's second stage, which
measures the suspects again, each pair alone. The largest component that explains slow pairs is
named, and not its parts. All thresholds: LIMITS.pair_*.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import scipy  # its parts load when they are used

from bisection.analysis.effects import MEDIAN, Observations, fit, medians
from bisection.core.thresholds import LIMITS


class Part(str, Enum):
    """Kinds of components, the largest explanation first."""

    SWITCH = "switch"  # most of its nodes are slow alike
    NODE = "node"
    WAY = "way"  # between one node and other switches; on its own switch the node is fine
    CABLE = "cable"  # slow routes of one switch to nodes of others
    PATH = "path"  # one pair alone

    __str__ = str.__str__
    __format__ = str.__format__


@dataclass
class Suspicion:
    """A component that explains slow values of one kind, before it has a name."""

    part: Part
    who: tuple[int, ...]  # (level, switch) | node | two nodes
    way: str
    effect: float
    z: float
    again: np.ndarray  # shortfall of its pairs in the rerun
    confirmed: bool = False
    tried: bool = True  # enough of its pairs were rerun
    beyond: bool = False
    serves: tuple[int, ...] = ()


def _bar(candidates: int) -> float:
    """Standard deviations that chance exceeds for none of so many candidates (Bonferroni)."""
    return -float(scipy.special.ndtri(LIMITS.pair_chance / max(candidates, 1)))


class SuspectSearch:
    """Judges the values of one kind."""

    def __init__(
        self, values: Observations, again: Observations, switches: np.ndarray | None, least: float
    ) -> None:
        self.values, self.again, self.switches = values, again, switches
        self.fit = fit(values)
        self.least = least  # effect on the logarithm
        self.ways = [("sends", 0), ("receives", values.nodes)] if values.directed else [("", 0)]
        self.taken = np.zeros(values.effects, bool)  # explained by what is named
        self.known = np.zeros((values.classes, values.effects))  # by its switches, of pairs by hops
        # Of every effect what its pairs fall short of, in the tournament and again, and their hops.
        self.ends, self.own, self.hops = self._by_effect(values)
        self.ends_again, self.own_again, self.hops_again = self._by_effect(again)

    def _again(
        self,
        short: np.ndarray,
        common: int,
        candidates: int = 1,
        beyond: np.ndarray | None = None,
    ) -> bool:
        """True if pairs that were rerun are slow once more: most of them, by more than the
        margin and by more than chance.

        Args:
            short: what they fall short of.
            common: ends that all of them have in common, whose effect the tournament has.
            candidates: of which this is one.
            beyond: the switch at the other end of each pair: a few slow routes are no slow node.
        """
        effect, own = float(np.median(short)), float(np.median(self.fit.spread))
        pair = self.fit.sigma * (MEDIAN if self.again.repeats > 2 else 1)
        of_pair = math.hypot(pair / math.sqrt(self.again.repeats), own * math.sqrt(2 - common))
        error = math.hypot(MEDIAN * of_pair / math.sqrt(len(short)), own * math.sqrt(common))
        each = short
        if beyond is not None:
            group = np.unique(beyond, return_inverse=True)[1]
            each = medians(group, short, int(group.max()) + 1)
        slow = (each < -self.least / 2).mean() >= LIMITS.pair_share
        return bool(slow) and -effect > max(self.least, _bar(candidates) * error)

    def _by_effect(self, values: Observations) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ends = np.concatenate((values.s, values.q))
        own = np.concatenate((self.fit.short(values, 0), self.fit.short(values, 1)))
        return ends, own, np.tile(values.hops, 2)

    def suspicions(self) -> Iterator[Suspicion]:
        """All suspicions, the largest explanations first."""
        for level in reversed(range(0 if self.switches is None else len(self.switches))):
            yield from self._take(self._switches(level))
        yield from self._take(self._nodes())
        yield from self._routes_and_paths()

    def _take(self, suspicions: Iterable[Suspicion]) -> Iterator[Suspicion]:
        for suspicion in suspicions:
            if suspicion.confirmed:
                explained = self._effects_of(suspicion)
                self.taken[explained] = True
                if suspicion.part == Part.SWITCH:
                    on_it = 1 + suspicion.who[0] if suspicion.beyond else 0  # hops of sound pairs
                    self.known[on_it:, explained] = suspicion.effect
            yield suspicion

    def _effects_of(self, suspicion: Suspicion) -> np.ndarray:
        offset = dict(self.ways)[suspicion.way]
        if suspicion.part == Part.SWITCH:
            level, switch = suspicion.who
            return np.flatnonzero(self.switches[level] == switch) + offset
        return np.array(suspicion.who) + offset

    def _switches(self, level: int) -> Iterator[Suspicion]:
        number, effects = self.switches[level], self.fit.effects
        sizes = np.bincount(number)
        fit_for = np.flatnonzero((sizes >= LIMITS.pair_retests) & (sizes <= len(number) / 2))
        bar = _bar(len(fit_for) * len(self.ways))
        for switch in fit_for:
            for way, offset in self.ways:
                members = np.flatnonzero(number == switch) + offset
                if self.taken[members].any():
                    continue
                effect = float(np.median(effects[members]))
                error = MEDIAN * np.median(self.fit.spread[members]) / math.sqrt(len(members))
                slow = (effects[members] < -self.least / 2).mean()
                if effect < -self.least and -effect / error > bar and slow >= LIMITS.pair_share:
                    who = (level, int(switch))
                    yield self._switch(who, way, members, effect, -effect / error)

    def _switch(
        self, who: tuple[int, int], way: str, members: np.ndarray, effect: float, z: float
    ) -> Suspicion:
        """A switch: confirmed where most of its nodes that were rerun are slow to others;
        `beyond` where pairs on it are not."""
        number = self.switches[who[0]]
        mine = np.isin(self.ends_again, members) & (self.hops_again > who[0])
        each = [self.own_again[mine & (self.ends_again == member)] for member in members]
        each = np.array([np.median(own) for own in each if len(own)])
        enough = len(each) >= LIMITS.pair_retests
        values = self.values
        inside = (number[values.s] == who[1]) & (number[values.r] == who[1])
        near = values.y[inside] - self.fit.levels[values.hops[inside]]
        beyond = bool(inside.any()) and float(np.median(near)) > effect / 2
        confirmed = enough and self._again(each, 0)
        effect = float(np.median(self.own[np.isin(self.ends, members) & (self.hops > who[0])]))
        return Suspicion(Part.SWITCH, who, way, effect, z, each, confirmed, enough, beyond)

    def _nodes(self) -> Iterator[Suspicion]:
        effects = self.fit.effects - self.known[-1]
        own = self.own - self.known[self.hops, self.ends]
        own_again = self.own_again - self.known[self.hops_again, self.ends_again]
        share = np.zeros(len(effects))
        for counted in (self.hops >= 0, self.hops > 0):  # a way is slow to other switches alone
            ends, slow = self.ends[counted], own[counted] < -self.least / 2
            count = np.bincount(ends, minlength=len(effects))
            part = np.bincount(ends, slow, len(effects)) / np.maximum(count, 1)
            share = np.maximum(share, np.where(count >= LIMITS.pair_retests, part, 0))
        z = -effects / self.fit.spread
        other = np.concatenate((self.again.r, self.again.s))
        bad = (effects < -self.least) & (z > _bar(len(effects))) & (share >= LIMITS.pair_share)
        for k in np.flatnonzero(bad):
            way = next(way for way, offset in reversed(self.ways) if k >= offset)
            mine = self.ends_again == k
            near, far = mine & (self.hops_again == 0), mine & (self.hops_again > 0)
            apart = far if far.any() else near
            short, enough = own_again[apart], apart.sum() >= LIMITS.pair_retests
            beyond = None if self.switches is None else self.switches[0][other[apart]]
            confirmed = bool(enough) and self._again(short, 0, beyond=beyond)
            near = own_again[near]
            fine = far.any() and len(near) > 1 and float(np.median(near)) > effects[k] / 2
            part = Part.WAY if fine else Part.NODE
            who = (int(k) % self.values.nodes,)
            yield Suspicion(part, who, way, effects[k], z[k], short, confirmed, bool(enough))

    # ---- routes and paths: what the ends leave ----

    def _routes_and_paths(self) -> Iterator[Suspicion]:
        values, rest, bar = self.values, self.fit.rest, _bar(len(self.values.y))
        free = ~self.taken[values.s] & ~self.taken[values.q]
        z = -rest / self.fit.sigma
        slow = free & (rest < -2 * self.least) & (z > bar)
        left_again = self.fit.left(self.again)
        if self.switches is not None:
            routes = list(self._routes(free, slow, left_again))
            for (switch, way), members in _grouped(routes).items():
                effect = float(np.median([route.effect for route in members]))
                again = np.concatenate([route.again for route in members])
                serves = tuple(sorted({route.who[1] for route in members}))
                sure = max(route.z for route in members)
                yield Suspicion(
                    *(Part.CABLE, (0, switch), way, effect, sure, again, True), serves=serves
                )
            for route, side in itertools.product(routes, _sides(values)):
                if side.way == route.way:
                    from_switch = self.switches[0][side.near] == route.who[0]
                    slow &= ~(from_switch & (side.far == route.who[1]))
        suspects = np.flatnonzero(slow)
        for k in suspects:
            mine = self.again.key == values.key[k]
            again = left_again[mine]
            best = again + (self.again.best - self.again.y)[mine]
            confirmed = bool(len(best)) and best[0] < min(rest[k] / 2, -2 * self.least)
            confirmed = confirmed and self._again(again, 0, len(suspects))
            who = (int(values.s[k]), int(values.r[k]))
            way = "sends" if values.directed else ""
            yield Suspicion(Part.PATH, who, way, rest[k], z[k], again, confirmed, len(again) > 0)

    def _routes(
        self, free: np.ndarray, slow: np.ndarray, left_again: np.ndarray
    ) -> Iterator[Suspicion]:
        """Routes between a switch and a node of another one: all pairs of the two are slow."""
        values, leaf = self.values, self.switches[0]
        for side, side_again in zip(_sides(values), _sides(self.again), strict=True):
            key = leaf[side.near] * values.nodes + side.far
            key_again = leaf[side_again.near] * values.nodes + side_again.far
            key_again = np.where(self.again.hops > 0, key_again, -1)
            apart = free & (values.hops > 0)
            keys, group = np.unique(key[apart], return_inverse=True)
            middle, sizes = medians(group, self.fit.rest[apart], len(keys)), np.bincount(group)
            z = -middle * np.sqrt(sizes) / (MEDIAN * self.fit.sigma)
            several = sizes >= LIMITS.pair_retests
            sure = several & (middle < -2 * self.least) & (z > _bar(int(several.sum())))
            sure |= np.isin(keys, key[slow & apart])  # a slow path may be a route
            tried = np.flatnonzero(sure)
            for k in tried:
                again = left_again[key_again == keys[k]]
                enough = len(again) >= LIMITS.pair_retests
                if (
                    enough
                    and np.median(again) < -2 * self.least
                    and self._again(again, 1, len(tried))
                ):
                    switch, node = divmod(int(keys[k]), values.nodes)
                    who, effect = (switch, node), float(np.median(again))
                    yield Suspicion(Part.CABLE, who, side.way, effect, z[k], again, True)


@dataclass
class _Side:
    """The ends of observations, seen from the switch of one of them."""

    way: str  # of that switch: sends | receives
    near: np.ndarray
    far: np.ndarray


def _sides(values: Observations) -> list[_Side]:
    ways = ("sends", "receives") if values.directed else ("", "")
    return [_Side(ways[0], values.s, values.r), _Side(ways[1], values.r, values.s)]


def _grouped(routes: Sequence[Suspicion]) -> dict[tuple[int, str], list[Suspicion]]:
    groups = defaultdict(list)
    for route in routes:
        groups[route.who[0], route.way].append(route)
    return groups
