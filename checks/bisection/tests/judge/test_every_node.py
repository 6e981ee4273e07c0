"""Campaigns over every node: which launches come next, and which nodes are named, on made-up
launches."""

import json
import math
import os
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from reports import only
from results_made import changed, entry, launched, report

from bisection.core import paths
from bisection.core.reasons.base import Text
from bisection.core.verdicts import BisectionError, Exit, Verdict
from bisection.judge import decision, network, rule
from bisection.judge.every_node import Judged, Measured, NodeLaunch, Survey, launches_of
from bisection.judge.evidence import Evidence
from bisection.night import campaign, night
from bisection.night.campaign import Campaign
from bisection.night.notify import message
from bisection.night.prepare import Order, prepare
from bisection.report.documents import VerdictDocument
from bisection.report.verdict_text import every_node, text
from bisection.rfm import internals
from bisection.runs import command, reframe_report
from bisection.runs.run_verdict import Request, RunVerdict
from bisection.schedulers.scheduler import SPOTS, QueueNode
from bisection.schedulers.slurm import Slurm
from bisection.tests.analysis.nights import lognormal, student, with_outliers

PLACE = "lab:cpu"
PART = {"fullname": PLACE, "scheduler": "slurm", "access": []}
METRICS = {
    1: (("network_noise quantum", "time", "s", "lower"), ("network_noise copy-core", "rate", "B/s",
        "higher"), ("network_noise copy-node", "rate", "B/s", "higher"),
        ("noise", "clock", "GHz", "higher")),
    2: (("pairs tournament", "latency", "s", "lower"), ("pairs tournament", "bandwidth", "B/s",
        "higher")),
}  # fmt: skip


ACTIONS = paths.ROOT / "site-configs" / "actions"


class World:
    """A cluster whose launches are made up: a campaign goes to its end on it."""

    def __init__(self, nodes, rng, noise, slow=None, kinds=1, sizes=(1, 2), **states):
        self.names = [f"n{number:04d}" for number in range(nodes)]
        self.rng, self.noise, self.slow = rng, noise, slow or {}
        self.kinds = {name: f"CPU {number % kinds}" for number, name in enumerate(self.names)}
        self.usual = {name: rng.normal(0, 0.01) for name in self.names}  # no two are alike
        self.campaign = Campaign("c", [PART], Request(sizes=sizes), math.inf, True, [])
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
            self.campaign.launches += [self.launch(nodes) for _, nodes in batch]
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
    partners = {launch.nodes for launch in world.campaign.launches if "n0003" in launch.nodes}
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


def test_of_a_pair_that_failed_both_nodes_are_suspect_in_the_next_session_too(rng):
    """For the failure, and not for a metric that is as the peers'."""
    world = World(12, rng, NOISES["quiet"])
    world.run()
    pair = ("n0000", "n0001")
    kept = [
        each for each in world.campaign.launches if each.size == 1 or not {*pair} & {*each.nodes}
    ]
    hung = NodeLaunch(PLACE, pair, 1.0, failure=Text("HANG: rank 1"))
    verdict = rule(
        RunVerdict(), Evidence(survey=Survey((*kept, hung), tuple(world.campaign.nodes)))
    )
    said = [str(trouble) for trouble in verdict.troubles]
    assert [text.partition(":")[0] for text in said] == [*pair]
    assert all(text.endswith("HANG: rank 1") for text in said)
    assert (verdict.suspect_nodes, decision.of_run(verdict)) == ((), Exit.NOT_MEASURED)


def test_a_slow_node_stays_slow_when_a_pair_of_it_fails(rng):
    world = World(20, rng, NOISES["quiet"], {"n0004": 1.4})
    assert world.named() == {"n0004"}
    hung = NodeLaunch(PLACE, ("n0004", "n0009"), 1.0, failure=Text("HANG: rank 1"))
    kept = [each for each in world.campaign.launches if "n0004" not in each.nodes[each.size - 2 :]]
    alone = [each for each in world.campaign.launches if each.nodes == ("n0004",)]
    survey = Survey((*kept, *alone, hung), tuple(world.campaign.nodes))
    assert survey.judged[PLACE, "n0004"].verdict == Judged.SLOW


def test_a_node_whose_launches_are_lost_is_listed(rng):
    world = World(6, rng, NOISES["quiet"], sizes=(1,))
    lost = NodeLaunch(PLACE, ("n0002",), 1.0, lost=Text("others had its cores"))
    world.campaign.launches = [
        launch for launch in map(world.launch, [(name,) for name in world.names])
        if launch.nodes != ("n0002",)
    ]  # fmt: skip
    survey = Survey((*world.campaign.launches, lost), tuple(world.campaign.nodes), (1,))
    assert survey.judged[PLACE, "n0002"].why == "others had its cores"
    assert world.campaign.next_batch() == [(PLACE, ("n0002",))]


def test_the_budget_ends_a_campaign(rng):
    world = World(400, rng, NOISES["quiet"], sizes=(1,))
    world.campaign.node_hours = 2.0
    spent = dict.fromkeys([name for _, (name,) in world.campaign.next_batch()], 1.0)
    assert 1 <= len(spent) <= 10
    assert world.campaign.stopped == ""
    world.campaign.run = ended = session(spent)  # of 40 s each
    world.campaign.launches = [*launches_of(ended)]
    world.campaign.spent = 0.5
    assert len(world.campaign.next_batch()) == 135
    assert world.campaign.stopped == "the budget of 2.00 node-hours is spent"
    world.campaign.spent = 2.0
    assert world.campaign.next_batch() == []
    world.campaign.node_hours = 4.3  # for 207 launches, which are not one batch
    assert len(world.campaign.next_batch()) == 200
    assert world.campaign.stopped == ""


def test_what_launches_of_one_node_took_says_nothing_on_pairs(rng):
    world = World(400, rng, NOISES["quiet"])
    world.campaign.node_hours = 3.0
    world.campaign.run = session(dict.fromkeys(world.names, 1.0))
    world.campaign.run = replace(
        world.campaign.run,
        cases=[changed(case, seconds=[10.0]) for case in world.campaign.run.cases],
    )
    world.campaign.launches = [world.launch((name,)) for name in world.names]
    world.campaign.spent = 400 * 10 / 3600
    batch = world.campaign.next_batch()
    assert {len(nodes) for _, nodes in batch} == {2}
    assert len(batch) * 2 * 60 / 3600 < 3.0 - world.campaign.spent


@pytest.mark.parametrize("state", ["comp", "alloc", "mix-", "blocked"])
def test_slow_nodes_are_confirmed_though_they_are_busy_again(rng, state):
    """As all nodes are for a while, behind the last batch."""
    world = World(12, rng, NOISES["quiet"], {"n0007": 1.4})
    world.campaign.launches = [world.launch((name,)) for name in world.names]
    pairs = {tuple(sorted((world.names[i - 1], name))) for i, name in enumerate(world.names)}
    world.campaign.launches += map(world.launch, sorted(pairs))
    for spot, node in world.campaign.nodes.items():
        world.campaign.nodes[spot] = replace(node, state=state)
    assert world.named() == {"n0007"}


def test_a_slow_node_does_not_wait_for_the_jobs_of_others(rng):
    world = World(12, rng, NOISES["quiet"], {"n0007": 1.4}, sizes=(1,), n0007="comp", n0009="alloc")
    world.campaign.launches = [world.launch((n,)) for n in world.names if n != "n0009"]
    assert world.campaign.next_batch() == [(PLACE, ("n0007",)), (PLACE, ("n0009",))]


def test_repaired_nodes_are_judged_anew(rng):
    world = World(20, rng, NOISES["quiet"], {"n0004": 1.4})
    assert world.named() == {"n0004"}
    world.campaign.forget()
    world.slow = {}
    assert world.named() == set()


def test_a_recheck_measures_its_node_though_an_earlier_session_found_it_healthy(rng):
    world = World(20, rng, NOISES["quiet"], sizes=(1,))
    world.run()
    world.campaign.nodes = {(PLACE, "n0007"): QueueNode("n0007", "n0007", "idle")}
    world.campaign.forget()
    assert world.campaign.next_batch() == []
    world.campaign.forget(anew=True)
    assert world.campaign.next_batch() == [(PLACE, ("n0007",))]
    world.slow = {"n0007": 1.4}
    assert world.named() == {"n0007"}  # beside the peers of the earlier session
    words = (recheck := ACTIONS / "recheck").read_text().split("run --system", 1)[1].split()
    assert "--anew" in words[: words.index('"$@"')], recheck


# ---- from the record to the report ----


def session(speeds, **changes):
    """The run of a campaign of one launch on each node, with these rates over the usual one; with
    changes of the facts of the launches on some."""
    cases = []
    for number, (node, speed) in enumerate(speeds.items()):
        facts = {"hosts": [node], "run": number, "geometry": "1x1x1", **changes.get(node, {})}
        cases += launched("network_noise", "noise", "nodes", 1e-3 / speed, **facts)
    spots = tuple((PLACE, (node,)) for node in speeds)
    request = Request(tier="nodes", arguments=["-n", "^network_noise"], spots=spots)
    return RunVerdict(tuple(cases), session="f00d", started=1.7e9, request=request)


def judged(run, *earlier, **states):
    """The verdict on the last session of a campaign."""
    launches = [launch for part in (*earlier, run) for launch in launches_of(part)]
    nodes = dict.fromkeys((PLACE, n) for launch in launches for n in launch.nodes)
    survey = Survey(tuple(launches), tuple(nodes), (1,), {(PLACE, n): w for n, w in states.items()})
    return rule(run, Evidence(survey=survey))


SPEEDS = {f"n{number}": 1 + number / 1000 for number in range(8)}


def test_a_session_is_read_back_as_it_was_kept():
    run = session({**SPEEDS, "n3": 0.7})
    kept = json.loads(json.dumps(VerdictDocument.of(judged(run)).data()))
    read = replace(RunVerdict.from_dict(kept), started=run.started)
    assert list(launches_of(read)) == list(launches_of(run))
    assert read.every_node == judged(run).every_node


def test_a_message_names_accused_nodes_and_does_not_grow_with_the_others(tmp_path):
    sizes = []
    for count in (100, 400):
        speeds = {f"n{number}": 1.0 for number in range(count)}
        run = judged(session({**speeds, "n3": 0.7}))
        sent = json.loads(json.dumps(message(only(run=run, of_run=True, folder=tmp_path), run)))
        (words,) = sent["every_node"]
        (reason,) = sent["reasons"]["every_node"]
        assert words.startswith("n3: suspect")
        assert reason["node"] == "n3"
        assert sent["node_verdicts"] == dict.fromkeys(["suspect"], 1) | {"as its peers": count - 1}
        sizes.append(len(json.dumps(sent)))
    assert sizes[1] - sizes[0] < 100


def test_a_verdict_of_an_earlier_release_is_read():
    """One that knew no campaigns, no OSU benchmarks, no prices and no list of packages."""
    kept = json.loads(json.dumps(VerdictDocument.of(judged(session(SPEEDS))).data()))
    for name in ("every_node", "osu", "installed", "price", "spots", "first", "at_once"):
        del kept[name]
    del kept["reasons"]["every_node"]
    read = RunVerdict.from_dict(kept)
    assert (len(read.cases), read.every_node) == (len(session(SPEEDS).cases), ())
    assert decision.of_run(read) == Exit.OK


def test_pairs_of_a_campaign_are_no_matrix_of_the_network(monkeypatch):
    run = session(SPEEDS)
    monkeypatch.setattr(network, "kept_launches", lambda *_: pytest.fail("they were read"))
    assert network.measured(Evidence(), None, run) == Evidence()


def test_the_launches_of_a_large_campaign_are_looked_through_once(monkeypatch):
    run = session(SPEEDS)
    comparisons = []
    monkeypatch.setattr(type(run.cases[0]), "__eq__", lambda *_: comparisons.append(1))
    bad = [replace(case, verdict=Verdict.NOT_MEASURED) for case in run.cases]
    assert [*network.kept_launches(replace(run, cases=(*run.cases, *bad)), "noise")] == []
    assert comparisons == []


@pytest.mark.parametrize(
    ("speed", "again", "code", "verdict"),
    [
        (1.0, 1.0, Exit.OK, Judged.OK),
        (0.7, 1.0, Exit.OK, Judged.OK),
        (0.7, 0.7, Exit.SLOWER, Judged.SLOW),
        (0.7, None, Exit.NOT_MEASURED, Judged.SUSPECT),
    ],
)
def test_a_slow_launch_counts_once_another_confirms_it(speed, again, code, verdict):
    first = session({**SPEEDS, "n3": speed})
    second = session({"n3": again} if again else {})
    verdict_on = judged(replace(first, cases=(*first.cases,)), second)
    row = next(row for row in verdict_on.every_node if row.node == "n3")
    assert (decision.of_run(verdict_on), row.verdict) == (code, verdict)
    named = {reason.host for reason in (*verdict_on.slow_nodes, *verdict_on.suspect_nodes)}
    assert named == ({"n3"} if code else set())


def test_a_launch_whose_tests_did_not_run_is_lost():
    run = session(SPEEDS)
    run = replace(run, cases=run.cases[:-1])
    assert [launch.number for launch in launches_of(run) if launch.lost] == [7]


def test_a_launch_whose_tests_do_not_apply_is_lost_with_the_reason():
    run = session(SPEEDS)
    *others, test = run.cases
    skipped = replace(test, verdict=Verdict.NOT_APPLICABLE, reason=Text("one rank alone"))
    run = replace(run, cases=(*others, skipped))
    assert [str(launch.lost) for launch in launches_of(run) if launch.lost] == ["one rank alone"]
    assert [row.why for row in judged(run).every_node if row.why] == ["one rank alone"]


def test_launches_of_two_environments_are_no_peers():
    spack = session({**SPEEDS, "n3": 0.7})
    spack = replace(spack, cases=[replace(case, environ="spack") for case in spack.cases])
    verdict = judged(spack, session(SPEEDS))
    assert [reason.host for reason in verdict.suspect_nodes] == ["n3"]
    assert {reason.peers for reason in verdict.suspect_nodes} == {7}


@pytest.mark.parametrize(("run_index", "spot", "run"), [(1, 0, 0), (0, 3, 3), (1, -1, 1)])
def test_a_launch_is_that_of_its_own_nodes_in_a_repeated_run_too(run_index, spot, run):
    kept = report(entry(run_index=run_index, spot=spot))
    (case,) = reframe_report.read(kept).cases
    assert case.run == run


def test_a_disturbed_launch_judges_no_node():
    verdict = judged(session(SPEEDS, n2={"disturbed": 0.9}))
    (row,) = [row for row in verdict.every_node if row.verdict == Judged.OPEN]
    assert row.node == "n2"
    assert "90%" in row.why
    assert decision.of_run(verdict) == Exit.NOT_MEASURED


def test_the_table_has_the_worst_first_and_all_of_few_nodes():
    run = session({**SPEEDS, "n3": 0.7})
    verdict = judged(run, session({"n3": 0.7}), n9="drain: fan")
    lines = every_node(verdict)
    assert lines[1] == "8 nodes: 1 slow, 7 as its peers"
    assert (
        lines[3].split()
        == (
            "n3 slow network_noise p2p time 143% of 7 peers (1.43 ms, 997 us) 2023-11-14 22:13 UTC"
        ).split()
    )
    assert len(lines) == 3 + 8
    many = session({f"n{number}": 1.0 for number in range(40)})
    assert every_node(judged(many))[2:] == ["  and 40 more, in the report"]
    lost = {"verdict": Verdict.NOT_MEASURED, "reason": Text("BLOCKED")}
    none = session(dict.fromkeys(SPEEDS, 1.0) | {f"m{n}": 1.0 for n in range(12)})
    none = replace(none, cases=[replace(case, **lost) for case in none.cases])
    lines = every_node(judged(none))
    assert sum("not judged" in line for line in lines[2:]) == 20


def test_the_first_line_names_a_slow_node_beside_one_that_was_not_judged():
    run = session({**SPEEDS, "n3": 0.7}, n2={"disturbed": 0.9})
    verdict = judged(run, session({"n3": 0.7}))
    first, said = text(verdict)[0], VerdictDocument.of(verdict).data()["verdict"]
    assert decision.of_run(verdict) == Exit.NOT_MEASURED
    assert first.startswith("NOT MEASURED: 6 of 8 nodes as their peers, 1 not judged, ")
    assert first.endswith("; 1 trouble; 1 slow node: n3")
    assert said == first


def test_a_batch_replaces_what_it_lost():
    """Builds count once; a launch that was not measured is launched again, and no longer counts."""
    lost = {"verdict": Verdict.NOT_MEASURED, "reason": Text("BLOCKED")}
    first = campaign._joined(None, session(SPEEDS, n2=lost, n5={"disturbed": 0.9}))
    measured = {(node,) for node in SPEEDS if node not in ("n2", "n5")}
    assert {case.record.hosts for case in first.cases} == measured
    more = session({**SPEEDS, "n8": 1.0, "n9": 1.0})
    more = replace(more, cases=more.cases[-4:])
    both = campaign._joined(first, more)
    assert len(both.cases) == 2 * 8
    assert len(both.request.spots) == 10


# ---- a run from batch to batch ----


@pytest.fixture
def run_of(rng, monkeypatch, tmp_path):
    """run_of(world, *batches) runs a campaign. Each batch is what happens in place of ReFrame: the
    states of nodes that the scheduler names then, None if it does not answer, or an error."""

    def run(world, *batches):
        acts, states = [*batches], [dict.fromkeys(world.names, "idle")]

        def nodes_of(_, access):
            return [QueueNode(name, name, state) for name, state in (states[-1] or {}).items()]

        def measure(request, into):
            act = acts.pop(0) if acts else states[-1]
            if isinstance(act, BaseException):
                raise act
            states.append(act)
            nodes = [names for _, names in request.spots[request.first :]]
            cases = []
            for number, names in enumerate(nodes, request.first):
                speed = 0.7 if world.slow.keys() & {*names} else 1 + number / 10000
                facts = {"hosts": [*names], "run": number, "geometry": f"{len(names)}x1x1"}
                cases += launched("network_noise", "noise", "nodes", 1e-3 / speed, **facts)
            return RunVerdict(tuple(cases), session="f00d", started=1.7e9, request=request)

        monkeypatch.setattr(Slurm, "nodes_of", nodes_of)
        monkeypatch.setattr(campaign, "measure", measure)
        monkeypatch.setattr(campaign.waiting, "silence", lambda *_: "")
        monkeypatch.setattr(campaign.command, "command", lambda *_: [])
        monkeypatch.setattr(campaign.sync, "keep", lambda *_: [])
        monkeypatch.setattr(campaign.gather, "write_verdict", lambda *_: None)
        results = tmp_path / "results"
        results.mkdir()
        world.campaign.nodes = {}
        world.campaign.look()
        ended = campaign.measure_all(world.campaign, Path("lab.py"), results, [], None)
        return rule(ended, Evidence(survey=world.campaign.survey()))

    return run


def test_a_scheduler_that_falls_silent_passes_no_node(rng, run_of):
    world = World(12, rng, NOISES["quiet"], {"n0007": 1.4}, sizes=(1,))
    verdict = run_of(world, None)
    assert len(verdict.every_node) == 12
    assert "lab:cpu: the scheduler names no nodes any more" in map(str, verdict.troubles)
    assert [reason.host for reason in verdict.suspect_nodes] == ["n0007"]
    assert decision.of_run(verdict) == Exit.NOT_MEASURED


def test_a_node_that_the_scheduler_forgets_stays_in_the_table(rng, run_of):
    world = World(6, rng, NOISES["quiet"], sizes=(1,))
    world.campaign.request.sizes = ()
    verdict = run_of(world, dict.fromkeys(world.names[1:], "idle"))
    rows = {row.node: row for row in verdict.every_node}
    assert rows.keys() == {*world.names}
    why = "no launch with a partner: the scheduler names it no longer"
    assert rows["n0000"].why in (why, "")


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (BisectionError("no check is left by -x pairs"), "no check is left by -x pairs"),
        (OSError(28, "No space left on device"), "No space left on device"),
        (KeyboardInterrupt(), "interrupted"),
    ],
)
def test_what_ends_a_later_batch_loses_no_verdict(rng, run_of, error, says):
    world = World(300, rng, NOISES["quiet"], sizes=(1,))
    idle = dict.fromkeys(world.names, "idle")
    verdict = run_of(world, idle, error)
    assert verdict.end
    assert says in str(verdict.end)
    count = Counter(row.verdict for row in verdict.every_node)
    assert count == {Judged.OK: 200, Judged.OPEN: 100}
    assert decision.of_run(verdict) == Exit.NOT_MEASURED


@pytest.mark.parametrize("error", [BisectionError("unknown -S"), KeyboardInterrupt()])
def test_what_ends_the_first_batch_ends_the_run(rng, run_of, error, tmp_path):
    with pytest.raises(type(error)):
        run_of(World(12, rng, NOISES["quiet"], sizes=(1,)), error)
    assert not (tmp_path / "results").exists()


def test_an_interrupt_between_batches_loses_no_verdict(rng, run_of, monkeypatch):
    world, look = World(300, rng, NOISES["quiet"], sizes=(1,)), Campaign.look

    def interrupted(self):
        if self.run:
            raise KeyboardInterrupt
        look(self)

    monkeypatch.setattr(Campaign, "look", interrupted)
    verdict = run_of(world)
    assert (len(verdict.cases), "interrupted" in str(verdict.end)) == (400, True)


# ---- what a campaign takes, and prints ----


@pytest.mark.parametrize(
    ("arguments", "sizes"),
    [
        (["-n", "^pairs%.*layout=mpi%launch.case=sampled(%|$)"], [2]),
        (["-n", "^network_noise"], [1]),
        (["-n", "^(network_noise|pairs)%"], [1, 2]),
        (["-n", "^(network_noise|pairs)%", "-x", "pairs"], [1]),
        (["--name=^(network_noise|pairs)%", "--exclude=noise", "-x", "nothing"], [2]),
    ],
)
def test_the_tests_of_the_site_say_on_how_many_nodes_they_run(arguments, sizes):
    order = Order(tier="nodes", arguments=tuple(arguments), every_node="spring")
    request, _, _ = prepare(order)
    assert (request.sizes, request.campaign) == (sizes, "spring")


def test_the_sizes_are_those_that_a_campaign_launches(rng):
    world = World(8, rng, NOISES["quiet"], sizes=[2])
    assert {len(nodes) for _, nodes in world.campaign.next_batch()} == {2}


@pytest.fixture
def stored(monkeypatch, tmp_path):
    """stored(**folders) is a store with sessions of the campaign `spring`, and the folders of those
    that have any: {session: (environment, its run, None for no results)}."""
    monkeypatch.setenv("BISECTION_HOME", str(tmp_path))

    def make(**sessions):
        rows = []
        for name, (environ, run) in sessions.items():
            tags = {"campaign": "spring", "system": "lab", "environ": environ}
            rows.append(SimpleNamespace(uuid=name, start=1.0, tags=tags, excluded=""))
            if run:
                (folder := tmp_path / "results" / name).mkdir(parents=True)
                (folder / "samples.jsonl").write_text(json.dumps({"session": name}))
                kept = VerdictDocument.of(judged(replace(run, session=name))).data()
                (folder / "verdict.json").write_text(json.dumps(kept))
        return SimpleNamespace(sessions=lambda: rows)

    return make


def begun(monkeypatch, store, *partitions, **nodes):
    """The campaign `spring`, with nodes per partition that the scheduler names."""
    of = {place: [QueueNode(n, n, "idle") for n in names] for place, names in nodes.items()}
    monkeypatch.setattr(Slurm, "nodes_of", lambda _, access: of.get(access[0], []))
    chosen = [{**PART, "fullname": f"lab:{name}", "access": [name]} for name in partitions]
    order = Order(every_node="spring")
    return campaign.begun(order, Request(system="lab", environ="system"), chosen, store)


def test_a_campaign_goes_on_with_sessions_of_its_environment_that_have_results(
    monkeypatch, stored, capsys
):
    run = session(SPEEDS)
    store = stored(a=("system", run), b=("spack", run), c=("system", None))
    going = begun(monkeypatch, store, "cpu", cpu=SPEEDS)
    assert len(going.launches) == len(SPEEDS)
    said = (
        "8 nodes: 8 idle; 8 have launches of 1 earlier session; 1 earlier session without results"
    )
    assert capsys.readouterr().out == f"campaign spring: {said}\n"


def test_a_partition_without_nodes_is_a_trouble(monkeypatch, stored):
    going = begun(monkeypatch, stored(), "cpu", "gpu", cpu=SPEEDS)
    assert [part["fullname"] for part in going.partitions] == ["lab:cpu"]
    assert [*map(str, going.troubles)] == ["lab:gpu: the scheduler names no nodes"]


def test_a_node_of_two_partitions_stays_in_the_first_where_only_the_second_is_named(
    monkeypatch, stored
):
    going = begun(monkeypatch, stored(), "cpu", "all", cpu=["n1"], all=["n1", "n2"])
    spots = [("lab:cpu", "n1"), ("lab:all", "n2")]
    assert [*going.nodes] == spots
    named = [QueueNode(name, name, "idle") for name in ("n1", "n2")]
    monkeypatch.setattr(Slurm, "nodes_of", lambda _, access: named if access == ["all"] else [])
    going.look()
    assert [*going.nodes] == spots
    assert {node.state for node in going.nodes.values()} == {"idle"}
    # The partition that answers goes on; the nodes of the silent one have the reason.
    assert (going.next_batch(), going.stopped) == ([("lab:all", ("n2",))], "")
    assert going.survey().open == {("lab:cpu", "n1"): "the scheduler does not answer"}
    monkeypatch.setattr(Slurm, "nodes_of", lambda *_: [])
    going.look()
    assert (going.next_batch(), going.stopped) == ([], "the scheduler does not answer")


def test_launches_run_at_once_beside_a_partition_that_is_local(monkeypatch, stored, rng):
    """The jobs of a campaign have a name, by which they are watched and cancelled."""
    of_slurm = begun(monkeypatch, stored(), "cpu", cpu=SPEEDS)
    local = {**PART, "fullname": "lab:login", "scheduler": "local"}
    requests = []

    def measure_all(going, *_):
        requests.append(replace(going.request))
        raise KeyboardInterrupt

    monkeypatch.setattr(night, "begun", lambda *_: of_slurm)
    monkeypatch.setattr(night, "measure_all", measure_all)
    order = Order(every_node="spring", at_once=7)
    parts = [*of_slurm.partitions, local]
    with pytest.raises(KeyboardInterrupt):
        night.run_campaign(order, of_slurm.request, Path("lab.py"), parts, [])
    (request,) = requests
    assert request.job_name.startswith("bisection-")
    assert (request.scheduler, request.at_once) == ("slurm", 7)


def test_the_command_of_a_campaign_goes_on_with_it():
    run = session(SPEEDS)
    request = replace(run.request, campaign="spring", system="vc:six", environ="spack")
    words = command.rerun(run.judged[:1], request).split()
    words = words[words.index("run") :]
    said = "run --system vc:six -p spack -n '^network_noise' --every-node spring"
    assert " ".join(words) == said


def test_no_more_jobs_than_asked_for_are_in_the_queue(monkeypatch, tmp_path):
    """Of all partitions together; a partition's own limit stays, unless it is one at a time."""
    kept = {"spots": [[PLACE, ["n1"]]], "first": 0, "at_once": 7}
    (tmp_path / "spots.json").write_text(json.dumps(kept))
    program = "from bisection.rfm import queue; print(queue.allowed())"
    env = {**os.environ, SPOTS: str(tmp_path / "spots.json")}
    how = {"capture_output": True, "text": True, "check": True}
    assert subprocess.run([sys.executable, "-c", program], env=env, **how).stdout == "7\n"
    limits = [SimpleNamespace(_max_jobs=most) for most in (1, 4, 50)]
    system = SimpleNamespace(system=SimpleNamespace(partitions=limits))
    monkeypatch.setattr(internals, "runtime", lambda: system)
    internals.queue_at_once(7, above=1)
    assert [partition._max_jobs for partition in limits] == [7, 4, 50]
    internals.queue_at_once(10)
    assert [partition._max_jobs for partition in limits] == [10, 10, 50]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--reruns=2"], "--reruns=2: --every-node repeats the launches that need it"),
        (["--dura", "1h"], "--dura: --every-node repeats the launches that need it"),
        (["--tier", "quick"], "--tier is of another kind of run than --every-node"),
        (["--sweep-nodes"], "--sweep-nodes is of another kind of run than --every-node"),
        (["--against", "earlier"], "--against is of another kind of run than --every-node"),
        (["--node-hours", "0"], "'0' is not above 0"),
        (["--node-hours", "nan"], "'nan' is not node-hours such as 20, 0.5 or 8m"),
        (["--at-once", "0"], "'0' is not a whole number above 0"),
        ([], "localhost: no partition has a scheduler that starts jobs on nodes by name"),
    ],
)
def test_what_does_not_fit_a_campaign_is_refused(command_line, arguments, says):
    code, _, error = command_line("run", "--every-node", "spring", *arguments)
    assert (code, says in error) == (2, True), error


def test_a_name_is_no_path(command_line):
    code, _, error = command_line("run", "--every-node", "a,b")
    assert (code, "'a,b': not a name" in error) == (2, True)
