"""Which component explains slow pairs of nodes: a switch, a node, a way, a cable or a path.

    log value(i to j) = level of the pair's hop class + out_i + in_j + e

Latency and the bandwidth of both ways at once have one effect per node: u_i + u_j. The effects are
medians, taken in turn (Tukey 1977, chapter 11). A component is named if its effect is surer than
chance after Bonferroni, larger than the margin, shared by most of its pairs, and confirmed by the
kernel's second stage, which measures the suspects again, each pair alone. The largest component
that explains slow pairs is named, and not its parts. All thresholds: LIMITS.pair_*.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
from scipy.stats import norm

from bisection.analysis.pairs import KINDS, RETEST, TOURNAMENT, Kind, Matrix
from bisection.analysis.switches import by_latency
from bisection.core.reasons import Code, Reason
from bisection.core.thresholds import LIMITS

MEDIAN = 1.2533  # standard error of a median over that of a mean, of normal values: sqrt(pi / 2)
MAD = 1.4826  # standard deviation over the median absolute deviation, of normal values
TURNS = 40  # of the medians, at most


class Part(str, Enum):
    """What may be to blame, the largest explanation first."""

    SWITCH = "switch"  # most of its nodes are slow alike
    NODE = "node"
    WAY = "way"  # between one node and other switches; on its own switch the node is fine
    CABLE = "cable"  # slow routes of one switch to nodes of others
    PATH = "path"  # one pair alone

    __str__ = str.__str__
    __format__ = str.__format__


@dataclass
class Symptom:
    """What shows that a component is bad."""

    kind: str  # of KINDS
    way: str  # sends | receives, as the component sees it; "" for both
    factor: float  # of the value that its pairs have otherwise
    z: float  # standard deviations
    retests: int = 0  # pairs that were measured again
    again: float | None = None  # their factor


@dataclass
class BadComponent:
    """A component whose pairs are slow."""

    part: Part
    names: list[str]  # a switch | a node | two nodes
    symptoms: list[Symptom] = field(default_factory=list)
    beyond: bool = False  # of a switch: pairs on it are fine, its links to others are slow
    serves: list[str] = field(default_factory=list)  # of a cable: the nodes at its far end
    confirmed: bool = True  # False: a suspect


@dataclass
class Level:
    """The median of a hop class."""

    hops: int  # switch levels between the nodes: 0 on one switch
    value: float
    pairs: int


@dataclass
class Judged:
    """One kind of value of a matrix."""

    kind: Kind
    noise: float = math.nan  # standard deviation of the logarithm of a pair
    levels: list[Level] = field(default_factory=list)
    withheld: Reason | None = None  # why nothing is blamed by it


@dataclass
class Blame:
    """What a matrix says of the components of its network."""

    matrix: Matrix  # with the switches that were used
    kinds: list[Judged] = field(default_factory=list)
    bad: list[BadComponent] = field(default_factory=list)
    suspects: list[BadComponent] = field(default_factory=list)  # not confirmed, or not retested
    worse: list[BadComponent] = field(default_factory=list)  # worse than in earlier matrices
    notes: list[Reason] = field(default_factory=list)


# ---- the model ----


@dataclass
class Observations:
    """Values of one kind: s to r, or between s and r."""

    s: np.ndarray  # [observations] node numbers
    r: np.ndarray
    y: np.ndarray  # logarithm; worse is lower, whatever the kind
    hops: np.ndarray  # hop class, 0 the nearest
    classes: int
    nodes: int
    directed: bool

    @property
    def q(self) -> np.ndarray:
        """The effect of the second end: of `nodes` (one each), or 2 `nodes` (out, then in)."""
        return self.r + self.nodes * self.directed

    @property
    def effects(self) -> int:
        """How many effects there are."""
        return self.nodes * (1 + self.directed)

    @property
    def key(self) -> np.ndarray:
        """A number per pair, the same for both of its directions where there are none."""
        if self.directed:
            return self.s * self.nodes + self.r
        return np.minimum(self.s, self.r) * self.nodes + np.maximum(self.s, self.r)


def observations(matrix: Matrix, kind: Kind, stage: int) -> Observations:
    """What a stage measured of one kind; of pairs that were measured repeatedly the medians."""
    records = matrix.stage(stage)
    ends = [(records["a"], records["b"]), (records["b"], records["a"])]
    parts = [(*end, records[name]) for end, name in zip(ends, kind.fields, strict=False)]
    s, r, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    known = np.isfinite(y)
    s, r, y = s[known].astype(np.int64), r[known].astype(np.int64), y[known].astype(float)
    y = np.log(y) if kind.better == "higher" else -np.log(y)
    classes = 1 if matrix.switches is None else 1 + len(matrix.switches)
    values = Observations(s, r, y, s * 0, classes, len(matrix.nodes), len(kind.fields) > 1)
    keys, first, group = np.unique(values.key, return_index=True, return_inverse=True)
    y = medians(group, y, len(keys))
    s, r = s[first], r[first]
    return replace(values, s=s, r=r, y=y, hops=_hops(matrix.switches, s, r))


def _hops(switches: np.ndarray | None, s: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Switch levels that a pair has to climb; 0 for all where the switches are not known."""
    hops = np.zeros(len(s), np.int64)
    for level in switches if switches is not None else ():
        hops += level[s] != level[r]
    return hops


def medians(group: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """The median of `values` by `group` (0 to count - 1); NaN where a group is empty."""
    order = np.lexsort((values, group))
    ranked, sizes = values[order], np.bincount(group, minlength=count)
    middle = np.full(count, np.nan)
    if len(values):
        start = np.cumsum(sizes) - sizes
        low, high = (np.minimum(start + part, len(ranked) - 1) for part in halves(sizes))
        middle[sizes > 0] = ((ranked[low] + ranked[high]) / 2)[sizes > 0]
    return middle


def halves(sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The two ranks in the middle of so many values."""
    return np.maximum(sizes - 1, 0) // 2, sizes // 2


@dataclass
class Fit:
    """The effects of nodes and hop classes."""

    effects: np.ndarray  # [effects] of the logarithm, below 0 is worse
    rest: np.ndarray  # [observations] what they leave
    levels: np.ndarray  # [hop classes]
    sigma: float  # of an observation
    spread: np.ndarray  # [effects] what a healthy node's effect may be off by

    def short(self, values: Observations, end: int) -> np.ndarray:
        """What values fall short of, without what the other end explains.

        Args:
            values: of the same nodes and classes.
            end: 0 the first end's own, 1 the second one's.
        """
        other = values.q if end == 0 else values.s
        return values.y - self.levels[values.hops] - np.minimum(self.effects[other], 0)

    def left(self, values: Observations) -> np.ndarray:
        """What the effects of both ends leave of values."""
        ends = self.effects[values.s] + self.effects[values.q]
        return values.y - self.levels[values.hops] - ends


def fit(values: Observations) -> Fit:
    """Splits the logarithms into levels, effects and the rest by medians in turn."""
    ends = np.concatenate((values.s, values.q))
    sizes = np.bincount(ends, minlength=values.effects)
    rows = np.full((values.effects, max(sizes.max(), 1)), len(values.y))
    order, start = np.argsort(ends, kind="stable"), np.cumsum(sizes) - sizes
    rows[ends[order], np.arange(len(ends)) - start[ends[order]]] = order % len(values.y)
    low, high = (part[:, None] for part in halves(sizes))
    sides = (
        [slice(None)] if not values.directed else [slice(values.nodes), slice(values.nodes, None)]
    )
    effects = np.zeros(values.effects)

    def levels() -> np.ndarray:
        both = values.y - effects[values.s] - effects[values.q]
        return medians(values.hops, both, values.classes)

    level = levels()
    for turn in range(TURNS):
        rest = values.y - level[values.hops] - effects[values.s] - effects[values.q]
        ranked = np.sort(np.append(rest, np.inf)[rows], axis=1)
        middle = [np.take_along_axis(ranked, part, 1)[:, 0] for part in (low, high)]
        step = np.where(sizes > 0, (middle[0] + middle[1]) / 2, 0)
        effects += step * (0.5 if turn < 3 else 0.8)  # both ends take the same step
        for side in sides:
            effects[side] -= np.median(effects[side])
        level = levels()
        if np.abs(step).max() < 1e-4:
            break
    rest = values.y - level[values.hops] - effects[values.s] - effects[values.q]
    count, taken = len(rest), values.effects - len(sides) + values.classes
    sigma = MAD * float(np.median(np.abs(rest))) * math.sqrt(count / max(count - taken, count / 10))
    sigma = max(sigma, LIMITS.pair_resolution)
    spread = MEDIAN * sigma / np.sqrt(np.maximum(sizes, 1))
    for side in sides:
        spread[side] = np.maximum(spread[side], MAD * np.median(np.abs(effects[side])))
    return Fit(effects, rest, level, sigma, spread)


# ---- who is to blame, by one kind ----


@dataclass
class Suspicion:
    """A component that explains slow values of one kind, before it has a name."""

    part: Part
    who: tuple[int, ...]  # (level, switch) | node | two nodes
    way: str
    effect: float
    z: float
    again: np.ndarray  # what its pairs, measured again, fall short of
    confirmed: bool = False
    tried: bool = True  # enough of its pairs were measured again
    beyond: bool = False
    serves: tuple[int, ...] = ()


def _bar(candidates: int) -> float:
    """Standard deviations that chance exceeds for none of so many candidates (Bonferroni)."""
    return float(norm.isf(LIMITS.pair_chance / max(candidates, 1)))


class Court:
    """Judges the values of one kind."""

    def __init__(
        self, values: Observations, again: Observations, switches: np.ndarray | None, least: float
    ) -> None:
        self.values, self.again, self.switches = values, again, switches
        self.fit = fit(values)
        self.least = least  # effect on the logarithm
        self.ways = [("sends", 0), ("receives", values.nodes)] if values.directed else [("", 0)]
        self.taken = np.zeros(values.effects, bool)  # explained by what is named
        # Of every effect what its pairs fall short of, in the tournament and again.
        self.ends, self.own, self.far = self._by_effect(values)
        self.ends_again, self.own_again, self.far_again = self._by_effect(again)

    def _by_effect(self, values: Observations) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        ends = np.concatenate((values.s, values.q))
        own = np.concatenate((self.fit.short(values, 0), self.fit.short(values, 1)))
        return ends, own, np.tile(values.hops > 0, 2)

    def suspicions(self) -> Iterator[Suspicion]:
        """All suspicions, the largest explanations first."""
        for level in reversed(range(0 if self.switches is None else len(self.switches))):
            yield from self._take(self._switches(level))
        yield from self._take(self._nodes())
        yield from self._routes_and_paths()

    def _take(self, suspicions: Iterable[Suspicion]) -> Iterator[Suspicion]:
        for suspicion in suspicions:
            if suspicion.confirmed:
                self.taken[self._effects_of(suspicion)] = True
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
        """A switch: confirmed where most of its nodes that were measured again are slow to others;
        `beyond` where pairs on it are not."""
        number = self.switches[who[0]]
        mine = np.isin(self.ends_again, members) & self.far_again
        each = [self.own_again[mine & (self.ends_again == member)] for member in members]
        each = np.array([np.median(own) for own in each if len(own)])
        enough = len(each) >= LIMITS.pair_retests
        slow = enough and (each < -self.least / 2).mean() >= LIMITS.pair_share
        values = self.values
        inside = (number[values.s] == who[1]) & (number[values.r] == who[1])
        near = values.y[inside] - self.fit.levels[values.hops[inside]]
        beyond = bool(inside.any()) and float(np.median(near)) > effect / 2
        confirmed = bool(slow) and float(np.median(each)) < -self.least
        return Suspicion(Part.SWITCH, who, way, effect, z, each, confirmed, enough, beyond)

    def _nodes(self) -> Iterator[Suspicion]:
        effects = self.fit.effects
        share = np.zeros(len(effects))
        for counted in (self.far | True, self.far):  # a way is slow to other switches alone
            ends, slow = self.ends[counted], self.own[counted] < -self.least / 2
            count = np.bincount(ends, minlength=len(effects))
            part = np.bincount(ends, slow, len(effects)) / np.maximum(count, 1)
            share = np.maximum(share, np.where(count >= LIMITS.pair_retests, part, 0))
        z = -effects / self.fit.spread
        bad = (effects < -self.least) & (z > _bar(len(effects))) & (share >= LIMITS.pair_share)
        for k in np.flatnonzero(bad & ~self.taken):
            way = next(way for way, offset in reversed(self.ways) if k >= offset)
            mine = self.ends_again == k
            near, far = (self.own_again[mine & (self.far_again == far)] for far in (False, True))
            apart = far if len(far) else near
            enough = len(apart) >= LIMITS.pair_retests
            confirmed = enough and float(np.median(apart)) < -self.least
            fine = len(far) and len(near) > 1 and float(np.median(near)) > effects[k] / 2
            part = Part.WAY if fine else Part.NODE
            who = (int(k) % self.values.nodes,)
            yield Suspicion(part, who, way, effects[k], z[k], apart, confirmed, enough)

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
        for k in np.flatnonzero(slow):
            again = left_again[self.again.key == values.key[k]]
            confirmed = bool(len(again)) and again[0] < min(rest[k] / 2, -2 * self.least)
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
            for k in np.flatnonzero(sure):
                again = left_again[key_again == keys[k]]
                if len(again) < LIMITS.pair_retests or np.median(again) > -2 * self.least:
                    continue
                if (again < -self.least).mean() >= LIMITS.pair_share:
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


# ---- a matrix ----


def judge(matrix: Matrix, before: Sequence[Matrix] = ()) -> Blame:
    """Judges what was measured between nodes.

    Args:
        matrix: the newest.
        before: earlier ones of the same place, oldest first: what is worse than in all of them but
            the last, and was in the last one already, is worse.
    """
    matrix, notes = _placed(matrix)
    blame = Blame(matrix, notes=notes)
    guilty: list[tuple[Kind, Suspicion]] = []
    worse: list[tuple[Kind, Suspicion]] = []
    for kind in KINDS:
        values = observations(matrix, kind, TOURNAMENT)
        if not len(values.y):
            continue
        again = observations(matrix, kind, RETEST)
        court = Court(values, again, matrix.switches, _least(kind))
        blame.kinds.append(_judged(kind, matrix, values, court))
        if blame.kinds[-1].withheld:
            continue
        guilty += [(kind, suspicion) for suspicion in court.suspicions()]
        if len(before) > LIMITS.pair_nights:
            worse += [(kind, part) for part in _drift(matrix, before, kind) if part.confirmed]
    blame.bad = _named(matrix, ((k, s) for k, s in guilty if s.confirmed))
    untried = ((k, s) for k, s in guilty if not s.confirmed and not s.tried)
    named = {(part.part, *part.names) for part in blame.bad}
    blame.suspects = [p for p in _named(matrix, untried) if (p.part, *p.names) not in named]
    blame.worse = [p for p in _named(matrix, worse) if (p.part, *p.names) not in named]
    cleared = sum(s.tried and not s.confirmed for _, s in guilty)
    if cleared:
        blame.notes.append(Reason.of(Code.PAIRS_CLEARED, suspects=cleared))
    if len(matrix.stage(RETEST)) == 0 and any(not j.withheld for j in blame.kinds):
        blame.notes.append(Reason.of(Code.PAIRS_NOT_RETESTED, suspects=len(blame.suspects)))
    return blame


def _least(kind: Kind) -> float:
    """The least effect that is named, of the logarithm."""
    part = LIMITS.pair_effect
    return -math.log1p(-part) if kind.better == "higher" else math.log1p(part)


def _placed(matrix: Matrix) -> tuple[Matrix, list[Reason]]:
    """The matrix with switches that latency shows where no topology is known."""
    if matrix.switches is not None:
        return matrix, []
    values = observations(matrix, KINDS[0], TOURNAMENT)
    if len(values.y):
        numbers = by_latency(values.s, values.r, -fit(values).rest, values.nodes)
        if numbers is not None:
            count = int(numbers.max()) + 1
            note = Reason.of(Code.PAIRS_CLUSTERED, switches=count)
            return replace(matrix, switches=numbers[None]), [note]
    return matrix, [Reason.of(Code.PAIRS_NO_SWITCHES)]


def _judged(kind: Kind, matrix: Matrix, values: Observations, court: Court) -> Judged:
    sign = 1 if kind.better == "higher" else -1
    counts = np.bincount(values.hops, minlength=values.classes)
    levels = [
        Level(hops, math.exp(sign * level), int(count))
        for hops, (level, count) in enumerate(zip(court.fit.levels, counts, strict=True))
        if count
    ]
    judged = Judged(kind, court.fit.sigma, levels)
    seen = len(np.unique(np.concatenate((values.s, values.r))))
    if matrix.mode == "concurrent":
        judged.withheld = Reason.of(Code.PAIRS_CONCURRENT)
    elif seen < LIMITS.pair_nodes:
        judged.withheld = Reason.of(Code.PAIRS_FEW_NODES, nodes=seen, needed=LIMITS.pair_nodes)
    elif judged.noise > LIMITS.pair_noise:
        noise = {"noise": judged.noise, "limit": LIMITS.pair_noise}
        judged.withheld = Reason.of(Code.PAIRS_NOISE, **noise)
    return judged


def _named(matrix: Matrix, guilty: Iterable[tuple[Kind, Suspicion]]) -> list[BadComponent]:
    """Components with all that shows them, the largest explanations first."""
    order = {part: rank for rank, part in enumerate(Part)}
    parts: dict[tuple[Part, frozenset[str]], BadComponent] = {}
    for kind, suspicion in sorted(guilty, key=lambda item: order[item[1].part]):
        part, names = suspicion.part, _names_of(matrix, suspicion)
        if part == Part.WAY and (Part.NODE, frozenset(names)) in parts:
            part = Part.NODE
        component = parts.setdefault(
            (part, frozenset(names)),
            BadComponent(part, names, [], suspicion.beyond, confirmed=suspicion.confirmed),
        )
        component.beyond &= suspicion.beyond
        serves = {matrix.nodes[node] for node in suspicion.serves}
        component.serves = sorted(serves.union(component.serves))
        way = suspicion.way
        if part == Part.PATH and way and names != component.names:
            way = "receives"
        component.symptoms.append(_symptom(kind, suspicion, way))
    return [part for part in parts.values() if not _carried(matrix, part, parts.values())]


def _carried(matrix: Matrix, part: BadComponent, parts: Iterable[BadComponent]) -> bool:
    """Whether a cable that is named explains a way or a path: a way of a node on its switch, a path
    between that switch and a node that the cable serves."""
    if part.part not in (Part.WAY, Part.PATH):
        return False
    leaf = matrix.switches[0] if matrix.switches is not None else []
    for cable in (other for other in parts if other.part == Part.CABLE):
        on_it = [
            n
            for n in part.names
            if matrix.switch_name(0, leaf[matrix.nodes.index(n)]) == cable.names[0]
        ]
        if on_it and (part.part == Part.WAY or set(part.names) & set(cable.serves)):
            cable.serves = sorted({*cable.serves, *(part.names if part.part == Part.WAY else ())})
            return True
    return False


def _names_of(matrix: Matrix, suspicion: Suspicion) -> list[str]:
    if suspicion.part in (Part.SWITCH, Part.CABLE):
        return [matrix.switch_name(*suspicion.who)]
    return [matrix.nodes[node] for node in suspicion.who]


def _symptom(kind: Kind, suspicion: Suspicion, way: str) -> Symptom:
    sign = 1 if kind.better == "higher" else -1
    again = suspicion.again
    return Symptom(
        *(kind.name, way, math.exp(sign * suspicion.effect), float(suspicion.z), len(again)),
        again=math.exp(sign * float(np.median(again))) if len(again) else None,
    )


# ---- nights ----


def _drift(matrix: Matrix, before: Sequence[Matrix], kind: Kind) -> Iterator[Suspicion]:
    """What is worse than in the earlier matrices: the same rule, on what their effects leave. The
    last of them is the second stage: a drift shows in two nights."""
    earlier = [_renumbered(part, matrix) for part in before[:-1]]
    usual = _usual(earlier, kind)
    values, again = (
        _without(usual, observations(part, kind, TOURNAMENT))
        for part in (matrix, _renumbered(before[-1], matrix))
    )
    court = Court(values, again, matrix.switches, _least(kind))
    if court.fit.sigma <= LIMITS.pair_noise and len(again.y):
        again.y -= np.median(court.fit.left(again))  # the level of that night
        yield from court.suspicions()


def _renumbered(earlier: Matrix, matrix: Matrix) -> Matrix:
    """An earlier matrix with the node numbers of another, without nodes that this one lacks."""
    numbers = {node: number for number, node in enumerate(matrix.nodes)}
    order = np.array([numbers.get(node, -1) for node in earlier.nodes])
    records = earlier.records.copy()
    for end in ("a", "b"):
        records[end] = order[records[end]]
    records = records[(records["a"] >= 0) & (records["b"] >= 0)]
    return replace(earlier, nodes=matrix.nodes, records=records, switches=matrix.switches)


def _usual(earlier: Sequence[Matrix], kind: Kind) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Effects over earlier matrices, and what they leave of pairs that were measured often enough:
    the pairs' keys, sorted, and the logarithms."""
    parts = [observations(part, kind, TOURNAMENT) for part in earlier]
    first = parts[0]
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in ("s", "r", "y")]
    classes = first.classes * len(parts)  # each night has its levels
    hops = [part.hops + first.classes * night for night, part in enumerate(parts)]
    pooled = Observations(
        *columns, np.concatenate(hops), classes, first.nodes, directed=first.directed
    )
    fitted = fit(pooled)
    keys, group = np.unique(pooled.key, return_inverse=True)
    often = np.bincount(group) >= LIMITS.pair_retests
    return fitted.effects, keys[often], medians(group, fitted.rest, len(keys))[often]


def _without(
    usual: tuple[np.ndarray, np.ndarray, np.ndarray], values: Observations
) -> Observations:
    """Values without what is usual for their nodes and pairs."""
    effects, keys, rest = usual
    y = values.y - effects[values.s] - effects[values.q]
    if len(keys):
        at = np.minimum(np.searchsorted(keys, values.key), len(keys) - 1)
        y -= np.where(keys[at] == values.key, rest[at], 0)
    return replace(values, y=y)
