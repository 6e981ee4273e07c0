"""Which component is named in matrices of made-up networks, how often, and how often wrongly.

With pytest's --full each line of the table is of 100 seeded matrices, otherwise of fewer.
"""

import copy
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from made_up_network import World, tournament

from bisection.core.reasons.base import clause
from interconnect import effects, suspicions
from interconnect.blame import _renumbered, judge
from interconnect.effects import fit, observations
from interconnect.pairs import KINDS, RETEST, TOURNAMENT, pieces
from interconnect.reasons import Part
from interconnect.suspicions import SuspectSearch

SETS = 100  # in full
# nodes, per switch, per pod (three levels; 0: two), rounds, sets
DESIGNS = [
    *((64, 16, 0, 0, 8), (64, 16, 0, 16, 8), (64, 8, 16, 0, 8), (64, 8, 16, 16, 8)),
    *(pytest.param(512, *more, 16, 3, marks=pytest.mark.long) for more in ((32, 0), (16, 64))),
]
FAULTS = {
    "clean": ("", 1),
    "node x0.8": ("node", 0.8),
    "latency +20%": ("latency", 1.2),
    "pair x0.5": ("pair", 0.5),
    "switch x0.8": ("switch", 0.8),
    "sends x0.8": ("sends", 0.8),
    "receives x0.8": ("receives", 0.8),
    "cable x0.5": ("cable", 0.5),
}
UPPER_FAULTS = {"pod x0.8": ("pod", 0.8), "its cable x0.5": ("trunk", 0.5)}


def placed(world, kind, factor, rounds, seed):
    """Puts a fault into a network; what is to be named: [(part, names)], any one of them."""
    rng = np.random.default_rng([seed, 7])
    node, leaf = int(rng.integers(world.nodes)), world.leaf
    name, switch, pod = f"cn{node:04d}", node // leaf, int(world.pod[node])
    # One node is behind a cable: a way; of others routes were measured: a cable.
    behind = [(Part.CABLE, {f"switch {switch}"}), (Part.WAY, {name})]
    places = {
        "": (node, []),
        "switch": (switch, [(Part.SWITCH, {f"switch {switch}"})]),
        "cable": ((switch, node % leaf), behind),
        "pod": (pod, [(Part.SWITCH, {f"pod {pod}"})]),
        "trunk": ((pod, node % leaf), [(Part.CABLE, {f"pod {pod}"})]),
    }
    who, names = places.get(kind, (node, [(Part.NODE, {name})]))
    if kind == "pair":  # one that is measured
        a, b, _ = tournament(world.nodes, rounds, copy.deepcopy(world.rng))
        who = tuple(int(end[rng.integers(1) + node]) for end in (a, b))
        names = [(Part.PATH, {f"cn{end:04d}" for end in who})]
    world.faults = [(kind, who, factor)] if kind else []
    return names


def named(blame):
    return [(component.part, set(component.names)) for component in blame.bad]


@pytest.mark.parametrize(("nodes", "leaf", "pod", "rounds", "sets"), DESIGNS)
def test_faults_are_named_and_nothing_else(nodes, leaf, pod, rounds, sets, full):
    sets = SETS if full else sets
    shape = f"{nodes} nodes, {3 if pod else 2} levels of switches, {rounds or nodes - 1} rounds"
    print(f"\n{shape}, {sets} sets: found %, other names %")
    for title, (kind, factor) in (FAULTS | (UPPER_FAULTS if pod else {})).items():
        right = wrong = 0
        for seed in range(sets):
            world = World(nodes, leaf, [seed, nodes, rounds], pod=pod)
            truth = placed(world, kind, factor, rounds, seed)
            names = named(judge(world.matrix(rounds)))
            right += any(name in truth for name in names) or not truth
            wrong += any(name not in truth for name in names)
        print(f"{title:14s} {100 * right / sets:5.0f} {100 * wrong / sets:5.0f}")
        assert right >= 0.99 * sets, title
        assert wrong == 0, title


@pytest.mark.parametrize("size", [6, 7, 8, 13])
def test_a_slow_node_among_few_without_switches(size):
    right = 0
    for seed in range(20):
        world = World(size, size, [seed, size])
        assert named(judge(world.matrix(known=False))) == []
        world.faults = [("node", seed % size, 0.6)]
        names = named(judge(world.matrix(known=False)))
        right += names == [(Part.NODE, {f"cn{seed % size:04d}"})]
    assert right >= 19


@pytest.mark.parametrize("harder", [{"noise": 0.1}, {"healthy": 0.03}, {"tails": 0.05}])
def test_noisier_networks_have_no_false_names(harder, full):
    sets = SETS if full else 15
    wrong = sum(bool(judge(World(64, 16, [s], **harder).matrix(16)).bad) for s in range(sets))
    assert wrong <= max(1, sets / 50)


def test_without_noise_a_quarter_of_the_network_is_still_a_switch():
    for seed in range(6):
        world = World.with_faults(("switch", 1, 0.8), seed=seed, noise=1e-3, healthy=0, tails=0)
        assert named(judge(world.matrix(16))) == [(Part.SWITCH, {"switch 1"})]


def test_what_was_not_rerun_is_suspected_and_not_named():
    blame = judge(World.with_faults(("node", 5, 0.5)).matrix(16, retest=False))
    assert blame.bad == []
    assert (blame.suspects[0].names, blame.suspects[0].confirmed) == (("cn0005",), False)
    assert "no pair was rerun, and no component is reported; suspects: 1" in blame.notes


def test_a_fault_that_is_gone_in_the_second_stage_is_not_named():
    world = World.with_faults(("node", 5, 0.5))
    slow = world.matrix(16)
    first, second = (slow.records[slow.records["stage"] == stage] for stage in (0, 1))
    a, b = (second[second["round"] == 0][end].astype(int) for end in "ab")
    world.faults = []
    fine = np.concatenate([world.measured(a, b, turn, 1) for turn in range(5)])
    blame = judge(replace(slow, records=np.concatenate((first, fine))))
    assert blame.bad == blame.suspects == []
    assert any("the rerun cleared" in note for note in blame.notes)


def test_directions_and_kinds_of_one_node_are_one_component():
    world = World.with_faults(("node", 9, 0.8), ("latency", 9, 1.2), seed=3)
    (component,) = judge(world.matrix()).bad
    latency, *bandwidths = component.symptoms
    assert (latency.kind, latency.way) == ("latency", "")
    assert latency.factor == pytest.approx(1.2, abs=0.06)
    ways = [(symptom.kind, symptom.way) for symptom in bandwidths]
    assert ways == [("bandwidth", "sends"), ("bandwidth", "receives"), ("both ways", "")]
    for value in (*(symptom.rerun for symptom in bandwidths), component.factor):
        assert value == pytest.approx(0.8, abs=0.05)


def test_a_cable_serves_a_node_of_its_switch_and_those_behind_it():
    (component,) = judge(World.with_faults(("cable", (1, 3), 0.5)).matrix()).bad
    assert (component.part, component.names) == (Part.CABLE, ("switch 1",))
    assert component.serves == ("cn0003", "cn0019", "cn0035", "cn0051")


def test_links_of_a_switch_are_told_from_the_switch_itself():
    nodes = [("node", node, 0.8) for node in range(16, 32)]
    for faults, beyond in (([("switch", 1, 0.8)], True), (nodes, False)):
        (component,) = judge(World.with_faults(*faults).matrix()).bad
        assert (component.names, component.beyond) == (("switch 1",), beyond)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("noise", [0.4, 0.6])
def test_what_is_gross_is_blamed_whatever_the_noise(noise, seed):
    """Six nodes, noisy latencies: one is 49 times slower than the others, another has a slow way.
    Noise of bandwidths is as usual."""
    faults = ("latency", 5, 49), ("sends", 2, 0.3)
    world = World.with_faults(*faults, nodes=6, leaf=6, seed=seed, noise=0.02)
    matrix = world.matrix(known=False)
    factors = np.exp(world.rng.normal(0, noise, len(matrix.records)))
    matrix.records["latency"] *= factors.astype("f4")
    blame = judge(matrix)
    assert blame.kinds[0].gross
    named = {part.names[0]: part.symptoms[0] for part in blame.bad}
    assert set(named) == {"cn0002", "cn0005"}
    assert named["cn0005"].kind == "latency"
    assert 20 < named["cn0005"].factor < 120


@pytest.mark.parametrize("noise", [0.3, 0.6])
def test_nothing_is_blamed_of_noise_alone(noise, full):
    for seed in range(20 if full else 5):
        for tails in (0.01, 0.05):
            blame = judge(World(6, 6, seed, noise=noise, tails=tails).matrix(known=False))
            assert not blame.bad


@pytest.mark.parametrize(
    ("nodes", "noise", "change", "says"),
    [
        (64, 0.3, {}, "pair-to-pair noise is"),
        (64, 0.05, {"mode": "concurrent"}, "at the same time"),
        (4, 0.05, {}, "4 nodes do not tell"),
    ],
)
def test_what_cannot_be_judged_is_withheld(nodes, noise, change, says):
    world = World.with_faults(("node", 3, 0.5), nodes=nodes, noise=noise)
    blame = judge(replace(world.matrix(16), **change))
    assert blame.bad == blame.suspects == []
    assert all(says in judged.withheld for judged in blame.kinds)


def test_pieces_of_any_size_give_the_same_judgement(monkeypatch):
    """A network of 4,000 nodes has hundreds of pieces, those of these tests one."""
    matrix = World.with_faults(("switch", 1, 0.5), ("node", 5, 0.5), ("pair", (40, 60), 0.4))
    matrix = matrix.matrix(0)
    whole = judge(matrix)
    assert {part.part for part in whole.bad} == {Part.SWITCH, Part.NODE, Part.PATH}
    for module in (effects, suspicions):
        monkeypatch.setattr(module, "pieces", lambda count, size=100: pieces(count, min(size, 100)))
    assert repr(judge(matrix)) == repr(whole)


@pytest.mark.parametrize("count", [1, 2, 9, 10])
@pytest.mark.parametrize("above", [0, 1, 4])
def test_medians_by_one_partition(count, above):
    values = np.random.default_rng(count).normal(size=count + above)
    expected = np.median(np.sort(values)[above:])
    assert effects._middle(values, above) == expected


@pytest.mark.parametrize(("nodes", "rounds"), [(8, 0), (16, 8), (64, 16)])
def test_the_noise_of_few_pairs_is_not_underestimated(nodes, rounds):
    sigmas = []
    for seed in range(40):
        matrix = World(nodes, nodes, seed).matrix(rounds, known=False, retest=False)
        sigmas.append(fit(observations(matrix, KINDS[1], TOURNAMENT)).sigma)
    assert np.mean(sigmas) == pytest.approx(0.05, rel=0.12)


def test_routes_from_one_switch_are_no_slow_node():
    """Slow paths are measured again, too: most retests of a node at their end are slow."""
    world = World.with_faults(("cable", (3, 3), 0.5), seed=[57, 64, 16])
    matrix, kind = world.matrix(16), KINDS[1]
    stages = [observations(matrix, kind, stage) for stage in (TOURNAMENT, RETEST)]
    search = SuspectSearch(kind, *stages, matrix.switches)
    ways = {s.who: s.confirmed for s in search.suspicions() if s.part in (Part.WAY, Part.NODE)}
    assert ways[35,] is False


# ---- switches ----


def test_latency_shows_switches_only_where_it_is_exact():
    world = World(64, 16, 1)
    world.switch = world.switch[world.rng.permutation(64)]
    blame = judge(world.matrix(known=False))
    assert "latency shows the 4 switches used here" in blame.notes[0]
    groups = blame.matrix.switches[0]
    assert len({*zip(groups, world.switch, strict=True)}) == 4
    for leaf, far in ((16, 1.1), (8, 1.3)):
        blame = judge(World(64, leaf, 1, far=far).matrix(known=False))
        assert blame.matrix.switches is None
        assert "latency does not show one" in blame.notes[0]


def test_a_topology_that_lacks_a_node_is_named_and_not_used():
    matrix = World(64, 8, 1).matrix(known=False)
    blame = judge(matrix.placed(dict.fromkeys(matrix.nodes[1:], ("leaf",))))
    assert blame.matrix.switches is None
    assert clause(blame.notes[0]).startswith("the topology lacks cn0000, and latency does not")


def test_levels_are_medians_of_hop_classes():
    matrix = World(64, 16, 1).matrix()
    upper = np.arange(64) // 32
    latency = judge(replace(matrix, switches=np.array([matrix.switches[0], upper]))).kinds[0]
    assert [level.hops for level in latency.levels] == [0, 1, 2]
    assert latency.levels[0].value == pytest.approx(1.2e-6, rel=0.02)
    assert latency.levels[2].value == pytest.approx(1.56e-6, rel=0.02)
    assert sum(level.pairs for level in latency.levels) == 64 * 63 / 2


def test_values_that_were_not_measured_are_left_out():
    matrix = World.with_faults(("node", 5, 0.5), nodes=16).matrix()
    matrix.records["latency"] = np.nan
    matrix.records["both"][::2] = np.nan
    blame = judge(matrix)
    assert [judged.kind.name for judged in blame.kinds] == ["bandwidth", "both ways"]
    assert named(blame) == [(Part.NODE, {"cn0005"})]


# ---- nights ----


def nights_of(count, effect):
    """Matrices of nights of nodes that differ by 3%, always alike; the node cn0005 is worse than
    the median by effect(night), of the logarithm."""
    worlds = [World(64, 16, [night, 9]) for night in range(count)]
    for night, world in enumerate(worlds):
        world.healthy[:] = np.random.default_rng(3).normal(0, 0.03, (4, 64))
        world.healthy[:, 5] = effect(night)
    return [world.matrix(16) for world in worlds]


def test_a_link_that_degrades_is_seen_beside_its_own_past():
    """A node that was always 10% better than the others and is now 3% worse: no fault by itself."""
    nights = nights_of(8, lambda night: -0.1 + 0.13 * (night > 5))
    assert judge(nights[-1]).bad == []
    assert judge(nights[-1], nights[:2]).worse == []  # too few
    assert judge(nights[5], nights[:5]).worse == []
    assert judge(nights[6], nights[:6]).worse == []  # one night alone
    (component,) = judge(nights[7], nights[:7]).worse
    assert (component.part, component.names) == (Part.NODE, ("cn0005",))
    assert component.drift
    assert component.factor == pytest.approx(np.exp(-0.13), abs=0.04)


def test_a_slow_night_confirms_no_drift():
    """Tonight a node is no longer 10% better than others; last night all pairs were slower."""
    nights = nights_of(6, lambda night: -0.1 * (night < 5))
    for name in ("out", "back", "both"):
        nights[-2].records[name] *= 0.85
    assert judge(nights[-1], nights[:-1]).worse == []


def test_nights_may_have_other_nodes():
    nights = nights_of(6, lambda night: 0)
    for night, matrix in enumerate(nights[:-1]):
        matrix.nodes[night] = f"away{night}"
    blame = judge(nights[-1], nights[:-1])
    assert blame.worse == blame.bad == []
    was, now = nights[1].records, _renumbered(nights[1], nights[-1]).records
    assert len(now) == ((was["a"] != 1) & (was["b"] != 1)).sum()


# ---- memory ----


def test_4096_nodes_in_bounded_memory():
    matrix = World.with_faults(("node", 77, 0.8), nodes=4096, leaf=32).matrix(16)
    tracemalloc.start()
    names = named(judge(matrix))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"\n4096 nodes, 16 rounds: {peak / 2**20:.0f} MiB")
    assert names == [(Part.NODE, {"cn0077"})]
    assert peak < 128 << 20


@pytest.mark.parametrize("kind", KINDS[:2])
def test_turns_that_begin_with_some_pairs_end_near_those_over_all(kind, monkeypatch):
    """Medians of 319 pairs know an effect to half a percent."""
    world = World.with_faults(("node", 3, 0.7), nodes=320, leaf=32)
    values = observations(world.matrix(0, retest=False), kind, TOURNAMENT)
    quick = fit(values)
    monkeypatch.setattr("interconnect.effects.SOME", 10**6)
    slow = fit(values)
    assert quick.effects == pytest.approx(slow.effects, abs=2e-3)
    assert quick.levels == pytest.approx(slow.levels, abs=2e-3)
