"""Finds bad components in a matrix of pairs of nodes, by all kinds of values together."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import scipy  # its parts load when they are used

from bisection.core.format import some
from bisection.core.thresholds import LIMITS
from interconnect.effects import PairValues, fit, medians, observations
from interconnect.pairs import KINDS, RETEST, TOURNAMENT, Kind, Matrix
from interconnect.reasons import Part, SlowComponent, Symptom
from interconnect.suspicions import SuspectSearch, Suspicion

MOST = 2048  # nodes that latency may cluster: their distances are 8 B a pair, several times
# Records of each matrix by which nights are compared, its first: of up to 512 nodes a whole
# tournament. Of more nodes, no path is worse than before.
PAST = 1 << 17
CONCURRENT = "pairs measured at the same time slow each other down: nothing is reported"


@dataclass
class HopLevel:
    """The median of a hop class."""

    hops: int  # switch levels between the nodes: 0 on one switch
    value: float
    pairs: int


@dataclass
class Judged:
    """One kind of value of a matrix."""

    kind: Kind
    noise: float = math.nan  # standard deviation of the logarithm of a pair
    levels: list[HopLevel] = field(default_factory=list)
    withheld: str = ""  # why nothing, or only what is gross, is blamed by it
    gross: bool = False  # what is gross is blamed all the same
    # Of bandwidths, which each page draws; of many nodes it takes seconds to find them again.
    values: PairValues | None = field(default=None, repr=False, compare=False)


@dataclass
class Blame:
    """Verdict on the components of a network, from a matrix of pairs."""

    matrix: Matrix  # with the switches that were used
    place: str = ""  # where it was measured, for people
    kinds: list[Judged] = field(default_factory=list)
    bad: list[SlowComponent] = field(default_factory=list)
    suspects: list[SlowComponent] = field(default_factory=list)  # not rerun; no paths
    worse: list[SlowComponent] = field(default_factory=list)  # worse than in earlier matrices
    notes: list[str] = field(default_factory=list)

    def bad_nodes(self) -> Iterator[tuple[str, str]]:
        """Yields (node, why); of all other components, no single node is accused."""
        for component in self.bad:
            if component.part == Part.NODE:
                yield component.names[0], component.slowness


# ---- a matrix ----


def judge(matrix: Matrix, before: Sequence[Matrix] = ()) -> Blame:
    """Judges what was measured between nodes. `before`: earlier matrices of the same place, oldest
    first. A component is worse if this matrix and the last earlier one are both worse than every
    older one."""
    matrix, notes = _placed(matrix)
    blame = Blame(matrix, notes=notes)
    suspicions: list[Suspicion] = []
    worse: list[Suspicion] = []
    for kind in KINDS:
        values = observations(matrix, kind, TOURNAMENT)
        if not len(values.y):
            continue
        rerun = observations(matrix, kind, RETEST)
        search = SuspectSearch(kind, values, rerun, matrix.switches)
        judged = _judged(matrix, search)
        blame.kinds.append(judged)
        if judged.withheld:
            if not judged.gross:
                continue
            search.least = max(search.least, LIMITS.pair_noisy * judged.noise)
        suspicions += search.suspicions()
        if len(before) > LIMITS.pair_nights:
            worse += [part for part in _drift(matrix, before, kind) if part.confirmed]
    blame.bad = _named(matrix, [s for s in suspicions if s.confirmed])
    untried = [s for s in suspicions if not s.confirmed and not s.tried]
    blame.suspects = _named(matrix, [s for s in untried if s.part != Part.PATH], blame.bad)
    blame.worse = [replace(part, drift=True) for part in _named(matrix, worse, blame.bad)]
    paths = {frozenset(s.who) for s in untried if s.part == Part.PATH}
    is_rerun = (matrix.records["stage"] == RETEST).any()
    cleared = sum(s.tried and not s.confirmed for s in suspicions)
    suspects = 0 if is_rerun else len(blame.suspects)
    for count, text in (
        (cleared, "suspects of the first stage that the rerun cleared"),
        (len(paths), "further slow paths, not rerun, so not reported"),
        (suspects, "no pair was rerun, and no component is reported; suspects"),
    ):
        blame.notes += [f"{text}: {count}"] if count else []
    return blame


def _placed(matrix: Matrix) -> tuple[Matrix, list[str]]:
    """The matrix with switches that latency shows where no topology is known."""
    if matrix.switches is not None:
        return matrix, []
    unknown = "no topology is known"
    if matrix.unplaced:
        unknown = f"the topology lacks {some(matrix.unplaced, 4)}"
    values = observations(matrix, KINDS[0], TOURNAMENT)
    numbers = _switches_by_latency(values)
    if numbers is None:
        alike = "all pairs are judged alike, and no switch, uplink or cable can be named"
        return matrix, [f"{unknown}, and latency does not show one: {alike}"]
    note = f"{unknown}: latency shows the {int(numbers.max()) + 1} switches used here"
    return replace(matrix, switches=numbers[None]), [note]


def _switches_by_latency(values: PairValues) -> np.ndarray | None:
    """The switch of each node, [nodes], by average linkage on the nodes' rows of the matrix: nodes
    of one switch see each other faster.

    None where pairs lack or where the switches would be guessed: pairs of different ones must take
    LIMITS.pair_far times as long, of LIMITS.pair_switch nodes each.
    """
    s, r, nodes, smallest = values.s, values.r, values.nodes, int(LIMITS.pair_switch)
    if len(s) < max(1, nodes * (nodes - 1) // 2) or not 2 * smallest <= nodes <= MOST:
        return None
    rest = -fit(values).rest
    rows = np.zeros((nodes, nodes))
    rows[s, r] = rows[r, s] = rest
    np.fill_diagonal(rows, np.quantile(rest, 0.001))
    apart = scipy.spatial.distance.pdist(rows)
    tree = scipy.cluster.hierarchy.linkage(apart, "average")
    height = tree[:, 2]
    half = len(height) // 2
    widest = half + int(np.argmax(np.diff(height)[half:]))
    if height[widest + 1] - height[widest] < LIMITS.pair_gap * height[widest]:
        return None
    between = (height[widest] + height[widest + 1]) / 2
    numbers = scipy.cluster.hierarchy.fcluster(tree, between, "distance") - 1
    near, sizes = numbers[s] == numbers[r], np.bincount(numbers)
    if len(sizes) < 2 or np.median(sizes) < smallest or near.all() or not near.any():
        return None
    far = np.median(rest[~near]) - np.median(rest[near])
    return numbers if far >= math.log(LIMITS.pair_far) else None


def _judged(matrix: Matrix, search: SuspectSearch) -> Judged:
    kind, values = search.kind, search.values
    counts = np.bincount(values.hops, minlength=values.classes)
    levels = [
        HopLevel(hops, math.exp(kind.sign * level), int(count))
        for hops, (level, count) in enumerate(zip(search.fit.levels, counts, strict=True))
        if count
    ]
    judged = Judged(kind, search.fit.sigma, levels)
    judged.values = values if values.directed else None
    measured = np.zeros(values.nodes, bool)
    measured[values.s] = measured[values.r] = True
    nodes = int(measured.sum())
    if matrix.mode == "concurrent":
        judged.withheld = CONCURRENT
    elif nodes < LIMITS.pair_nodes:
        needed = LIMITS.pair_nodes
        judged.withheld = f"{nodes} nodes do not tell a bad node from noise: {needed} do"
    elif judged.noise > LIMITS.pair_noise:
        factor = math.exp(LIMITS.pair_noisy * judged.noise)
        named = f"only a component {factor:.1f} times slower is reported"
        noise = f"pair-to-pair noise is {judged.noise:.0%} (limit {LIMITS.pair_noise:.0%})"
        cause = "other jobs on the network, or other processes on the cores"
        judged.withheld, judged.gross = f"{noise}: {named} ({cause})", True
    return judged


def _named(
    matrix: Matrix, suspicions: Sequence[Suspicion], known: Sequence[SlowComponent] = ()
) -> list[SlowComponent]:
    """Components with all that shows them, the largest explanations first; without those that are
    known already."""
    order = list(Part)
    parts: dict[tuple[Part, frozenset[str]], SlowComponent] = {}
    for suspicion in sorted(suspicions, key=lambda s: order.index(s.part)):
        part, way = suspicion.part, suspicion.way
        names = tuple(matrix.nodes[node] for node in suspicion.who)
        if part == Part.SWITCH:
            names = (matrix.switch_name(*suspicion.who),)
        if part == Part.WAY and (Part.NODE, frozenset(names)) in parts:
            part = Part.NODE
        key = part, frozenset(names)
        component = parts.get(key) or SlowComponent(
            part=part, names=names, beyond=suspicion.beyond, confirmed=suspicion.confirmed
        )
        if part == Part.PATH and way and names != component.names:
            way = "receives"
        sign, rerun = suspicion.kind.sign, suspicion.rerun
        second = math.exp(sign * float(np.median(rerun))) if len(rerun) else None
        factor, z = math.exp(sign * suspicion.effect), float(suspicion.z)
        symptom = Symptom(suspicion.kind.name, way, factor, z, len(rerun), second)
        parts[key] = replace(
            component,
            symptoms=(*component.symptoms, symptom),
            beyond=component.beyond and suspicion.beyond,
        )
    components = list(parts.values())
    if all(part.confirmed for part in components):
        components = _with_cables(matrix, components)
    named = {(part.part, *part.names) for part in known}
    return [part for part in components if (part.part, *part.names) not in named]


# ---- cables ----


def _with_cables(matrix: Matrix, parts: list[SlowComponent]) -> list[SlowComponent]:
    """Joins slow paths of one switch, and ways of nodes on it, to a cable, unless they are few."""
    nodes_of, cables, order = matrix.nodes_of_switches(), [], list(Part)
    while switch := _switch_of_most(parts, nodes_of):
        nodes = nodes_of[switch]
        explained = _explained(parts, nodes)
        paths = [part for part in explained if part.part == Part.PATH]
        every = sorted((s for path in paths for s in path.symptoms), key=lambda s: s.z)
        surest = {symptom.kind: symptom for symptom in every}
        beyond = {name for path in paths for name in path.names if name not in nodes}
        serves = beyond.union(*(part.names for part in explained if part.part == Part.WAY))
        symptoms, ends = tuple(surest.values()), tuple(sorted(serves))
        cables.append(
            SlowComponent(part=Part.CABLE, names=(switch,), symptoms=symptoms, serves=ends)
        )
        served = [part for part in parts if part.part == Part.WAY and serves.issuperset(part.names)]
        parts = [part for part in parts if part not in explained and part not in served]
    return sorted(parts + cables, key=lambda part: order.index(part.part))


def _explained(parts: Sequence[SlowComponent], nodes: frozenset[str]) -> list[SlowComponent]:
    """The ways and paths that a cable of the switch of these nodes explains."""
    ways_and_paths = [part for part in parts if part.part in (Part.WAY, Part.PATH)]
    return [part for part in ways_and_paths if len(nodes.intersection(part.names)) == 1]


def _switch_of_most(parts: Sequence[SlowComponent], nodes_of: Mapping[str, frozenset[str]]) -> str:
    """The switch whose cable explains the most: of those below each other the lowest that explains
    most of what one above it does. "" if no cable explains enough, and a path.

    Args:
        nodes_of: a switch -> the nodes below it; from the leaves up.
    """
    most, best = LIMITS.pair_retests - 1, ""
    for switch, nodes in nodes_of.items():
        explained = _explained(parts, nodes)
        weight = sum(2 if part.part == Part.WAY else 1 for part in explained)
        is_above = best and nodes_of[best] < nodes
        more = weight > (most / LIMITS.pair_share if is_above else most)
        if more and any(part.part == Part.PATH for part in explained):
            most, best = weight, switch
    return best


# ---- nights ----


def _drift(matrix: Matrix, before: Sequence[Matrix], kind: Kind) -> Iterator[Suspicion]:
    """Yields what is worse than in the earlier matrices: the same rule, on what their effects
    leave. The last of them is the second stage: a drift shows in two nights."""
    *earlier, last = (_renumbered(part, matrix) for part in before)
    unusual = _unusual(earlier, kind)
    matrix = replace(matrix, records=matrix.records[:PAST])
    values, rerun = (unusual(observations(part, kind, TOURNAMENT)) for part in (matrix, last))
    fitted = fit(values)
    if fitted.sigma <= LIMITS.pair_noise and len(rerun.y):
        rerun = replace(rerun, y=rerun.y - np.median(fitted.left(rerun)))  # that night's level
        yield from SuspectSearch(kind, values, rerun, matrix.switches).suspicions()


def _renumbered(earlier: Matrix, matrix: Matrix) -> Matrix:
    """An earlier matrix with the node numbers of another, without nodes that this one lacks."""
    numbers = {node: number for number, node in enumerate(matrix.nodes)}
    order = np.array([numbers.get(node, -1) for node in earlier.nodes])
    records = earlier.records.copy()
    for end in ("a", "b"):
        records[end] = order[records[end]]
    records = records[(records["a"] >= 0) & (records["b"] >= 0)]
    return replace(earlier, nodes=matrix.nodes, records=records, switches=matrix.switches)


def _unusual(earlier: Sequence[Matrix], kind: Kind) -> Callable[[PairValues], PairValues]:
    """A function that takes from values what is usual for their nodes, and for pairs that were
    measured often enough, over earlier matrices."""
    parts = [observations(part, kind, TOURNAMENT) for part in earlier]
    first, names = parts[0], ("s", "r", "y", "best")
    s, r, y, best = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
    # Each night has its levels.
    hops = np.concatenate([part.hops + first.classes * n for n, part in enumerate(parts)])
    classes = first.classes * len(parts)
    pooled = PairValues(s, r, y, best, hops, classes, first.nodes, first.directed)
    fitted = fit(pooled)
    keys, group = np.unique(pooled.key, return_inverse=True)
    often = np.bincount(group) >= LIMITS.pair_retests
    keys, rest = keys[often], medians(group, fitted.rest, len(keys))[often]

    def unusual(values: PairValues) -> PairValues:
        y = values.y - fitted.effects[values.s] - fitted.effects[values.q]
        if len(keys):
            at = np.minimum(np.searchsorted(keys, values.key), len(keys) - 1)
            y -= np.where(keys[at] == values.key, rest[at], 0)
        return replace(values, y=y, best=y)

    return unusual
