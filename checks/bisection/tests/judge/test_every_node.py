"""Campaigns over every node: which launches come next, and which nodes are named, on made-up
launches."""

import math
from collections import Counter

import numpy as np
import pytest

from bisection.core.reasons.base import Text
from bisection.judge import rule
from bisection.judge.every_node import Judged, Measured, NodeLaunch, Survey
from bisection.judge.evidence import Evidence
from bisection.night.campaign import Campaign
from bisection.runs.run_verdict import Request, RunVerdict
from bisection.schedulers.scheduler import QueueNode
from bisection.tests.analysis.nights import lognormal, student, with_outliers

PLACE = "lab:cpu"
METRICS = {
    1: (("network_noise quantum", "time", "s", "lower"), ("network_noise copy-core", "rate", "B/s",
        "higher"), ("network_noise copy-node", "rate", "B/s", "higher"),
        ("noise", "clock", "GHz", "higher")),
    2: (("pairs tournament", "latency", "s", "lower"), ("pairs tournament", "bandwidth", "B/s",
        "higher")),
}  # fmt: skip


class World:
    """A cluster whose launches are made up: a campaign goes to its end on it."""

    def __init__(self, nodes, rng, noise, slow=None, kinds=1, sizes=(1, 2), **states):
        self.names = [f"n{number:04d}" for number in range(nodes)]
        self.rng, self.noise, self.slow = rng, noise, slow or {}
        self.kinds = {name: f"CPU {number % kinds}" for number, name in enumerate(self.names)}
        self.usual = {name: rng.normal(0, 0.01) for name in self.names}  # no two are alike
        arguments = ["-n", "^network_noise"] if sizes == (1,) else []
        part = {"fullname": PLACE, "scheduler": "slurm", "access": []}
        self.campaign = Campaign("c", [part], Request(arguments=arguments), math.inf, True, [])
        self.campaign.nodes = {
            (PLACE, name): QueueNode(name, name, states.get(name, "idle")) for name in self.names
        }
        self.batches = []

    def launch(self, nodes):
        """The cost of a launch is that of its slowest node, by its kind, and noise."""
        values = {}
        kinds = " | ".join(sorted({self.kinds[node] for node in nodes}))
        for number, words in enumerate(METRICS[len(nodes)]):
            noise = float(self.noise(self.rng, (1, 1))[0, 0])
            cost = max(self.usual[n] + math.log(self.slow.get(n, 1.0)) for n in nodes) + noise
            cost += 0.5 * len(kinds) * (number + 1) / 10  # a kind has its own speeds
            if "CPU 1" in kinds:
                cost += math.log(1.4)
            measured = Measured(PLACE, *words, f"{len(nodes)}x1x1", kinds)
            values[measured] = math.exp(cost if words[3] == "lower" else -cost)
        return NodeLaunch(PLACE, nodes, 1.0, values)

    def run(self):
        while batch := self.campaign.next_batch():
            self.batches.append(batch)
            self.campaign.earlier += [self.launch(nodes) for _, nodes in batch]
            assert len(self.batches) < 200
        return self.campaign.survey()

    def named(self):
        judged = self.run().judged
        return {node for (_, node), state in judged.items() if state.verdict == Judged.SLOW}

    def count(self):
        return Counter(len(nodes) for batch in self.batches for _, nodes in batch)


NOISES = {
    "quiet": lognormal(0.003),
    "usual": lognormal(0.01),
    "with outliers": with_outliers(0.01, share=0.02),
    "heavy tails": student(0.006, df=3),
}


@pytest.fixture
def rng():
    return np.random.default_rng(20261130)


@pytest.mark.parametrize("noise", NOISES)
def test_of_4000_healthy_nodes_none_is_named_and_slow_ones_are(rng, noise):
    slow = {"n0100": 1 / 0.9, "n1001": 1 / 0.9, "n2000": 1 / 0.7, "n3999": 1 / 0.7}
    world = World(4000, rng, NOISES[noise], slow)
    assert world.named() == set(slow)
    launches = world.count()
    assert 4000 <= launches[1] < 4400
    assert 2000 <= launches[2] < 2600
    assert World(4000, rng, NOISES[noise]).named() == set()


@pytest.mark.parametrize("nodes", [5, 6, 7, 12, 13, 40])
def test_few_nodes_are_judged_too(rng, nodes):
    healthy = World(nodes, rng, NOISES["usual"])
    assert healthy.named() == set()
    assert {state.verdict for state in healthy.run().judged.values()} == {Judged.OK}
    world = World(nodes, rng, NOISES["usual"], {"n0003": 1 / 0.7})
    assert world.named() == {"n0003"}
    partners = {launch.nodes for launch in world.campaign.earlier if "n0003" in launch.nodes}
    assert len({pair for pair in partners if len(pair) == 2}) >= 2


def test_the_slower_of_two_processors_is_no_slow_node(rng):
    world = World(60, rng, NOISES["usual"], {"n0007": 1 / 0.7}, kinds=2, sizes=(1,))
    assert world.named() == {"n0007"}


@pytest.mark.parametrize("nodes", [1, 2, 3, 4])
def test_with_fewer_than_four_peers_no_node_is_judged(rng, nodes):
    survey = World(nodes, rng, NOISES["quiet"], {"n0000": 2.0}).run()
    for state in survey.judged.values():
        assert state.verdict == Judged.OPEN
        assert state.why == (
            "too few peers to judge it: 4 launches on others of its kind are needed"
        )


def test_nodes_that_take_no_jobs_are_listed_with_the_reason(rng):
    world = World(8, rng, NOISES["quiet"], n0001="drain", n0002="down*", n0003="alloc")
    world.campaign.nodes[PLACE, "n0001"].why = "fan"
    survey = world.run()
    verdicts = {node: state.why or state.verdict for (_, node), state in survey.judged.items()}
    assert verdicts.pop("n0001") == "drain: fan"
    assert verdicts.pop("n0002") == "down*"
    assert set(verdicts.values()) == {Judged.OK}
    idle, *_, busy = world.batches
    assert "n0003" in busy[0][1]
    assert all("n0003" not in nodes for _, nodes in idle)


def test_a_slow_node_is_suspect_without_a_further_launch(rng):
    world = World(20, rng, NOISES["quiet"], {"n0004": 1.4}, sizes=(1,))
    world.campaign.retests = False
    survey = world.run()
    assert survey.judged[PLACE, "n0004"].verdict == Judged.SUSPECT
    verdict = rule(RunVerdict(), Evidence(survey=survey))
    (reason,) = verdict.suspect_nodes
    assert (reason.host, reason.launches, verdict.slow_nodes) == ("n0004", 1, ())


def test_of_a_pair_that_failed_the_node_is_named_that_fails_again(rng):
    world = World(12, rng, NOISES["quiet"])

    def launch(nodes, healthy=world.launch):
        done = healthy(nodes)
        broken = "n0005" in nodes and len(nodes) == 2
        failure = Text("its cable is loose") if broken else None
        return NodeLaunch(PLACE, nodes, 1.0, {} if broken else done.values, failure)

    world.launch = launch
    judged = world.run().judged
    failed = {node for (_, node), state in judged.items() if state.verdict == Judged.FAILED}
    assert failed == {"n0005"}
    assert {state.verdict for state in judged.values()} == {Judged.FAILED, Judged.OK}


def test_a_node_whose_launches_are_lost_is_listed(rng):
    world = World(6, rng, NOISES["quiet"], sizes=(1,))
    lost = NodeLaunch(PLACE, ("n0002",), 1.0, lost=Text("others had its cores"))
    world.campaign.earlier = [
        launch for launch in map(world.launch, [(name,) for name in world.names])
        if launch.nodes != ("n0002",)
    ]  # fmt: skip
    survey = Survey((*world.campaign.earlier, lost), tuple(world.campaign.nodes), (1,))
    assert survey.judged[PLACE, "n0002"].why == "others had its cores"
    assert world.campaign.next_batch() == [(PLACE, ("n0002",))]


def test_the_budget_ends_a_campaign(rng):
    world = World(300, rng, NOISES["quiet"], sizes=(1,))
    world.campaign.node_hours = 2.0  # 120 launches of a minute
    assert len(world.campaign.next_batch()) == 120
    world.campaign.spent = 2.0
    assert world.campaign.next_batch() == []
    assert world.campaign.stopped == "the budget of 2.00 node-hours is spent"


def test_repaired_nodes_are_judged_anew(rng):
    world = World(20, rng, NOISES["quiet"], {"n0004": 1.4})
    assert world.named() == {"n0004"}
    world.campaign.forget_slow()
    world.slow = {}
    assert world.named() == set()
