"""The verdict on a network: go, look or no-go, in words."""

import dataclasses
import json

import pytest
from made_up import with_case
from made_up_network import World
from made_up_traffic import launch
from reports import only, page, row
from results_made import result_of

from bisection.analysis.blame import judge
from bisection.analysis.model import Comparison
from bisection.core.reasons import Code, Reason
from bisection.core.verdicts import Exit, Grade, Verdict
from bisection.judge import network, pairs
from bisection.judge.evidence import Evidence, of_network
from bisection.report.interconnect import headline, text
from bisection.report.run import counted
from bisection.runs.model import Request, RunVerdict

PLACE = ("vc", "net", "system")


def blame(*faults, **more):
    world = World(64, 16, 5)
    world.faults = list(faults)
    judged = judge(world.matrix(16, **more))
    judged.place = "vc:net system"
    return judged


def run(tier="triage", checks=network.CHECKS):
    """A run in which every check passed."""
    cases = [
        result_of(*PLACE, check, "case", "mpi", "method", verdict=Verdict.PASS) for check in checks
    ]
    return RunVerdict(cases, request=Request(tier=tier))


def ruled(verdict, *blames, **more):
    """The verdict on a run by what its pairs say."""
    evidence = Evidence(blames=blames, **more)
    return network.rule(pairs.rule(verdict, evidence), evidence)


def verdict(*blames, comparison=None, **more):
    return ruled(run(**more), *blames, comparison=comparison).interconnect


def test_a_clean_network_is_go():
    clean = verdict(blame())
    assert (clean.grade, clean.findings, clean.unmeasured) == (Grade.GO, [], ())
    assert text(clean) == ["Network: go"]


def test_a_slow_node_is_no_go_by_its_name():
    slow = blame(("node", 5, 0.5))
    lines = text(verdict(slow))
    assert lines[0] == "Network: no-go (node cn0005 slow)"
    assert lines[1].startswith("  no-go: node cn0005: ")
    assert ruled(run(), slow).exit_code == Exit.FAILED
    assert "1 bad component of the network" in counted(ruled(run(), slow))


def test_pairs_that_cannot_be_judged_are_no_go_ahead():
    noisy = blame()
    noisy.kinds = [
        dataclasses.replace(kind, withheld=Code.PAIRS_CONCURRENT()) for kind in noisy.kinds
    ]
    judged = verdict(noisy)
    assert judged.grade == Grade.LOOK
    assert "no bandwidth of pairs could be judged" in text(judged)[1]


def test_what_was_not_measured_is_listed_with_its_reason():
    noise = result_of(
        *(*PLACE, "network_noise", "nodes", "mpi", "quantum"),
        verdict=Verdict.NOT_APPLICABLE,
        reason=Code.NODES_NEEDED(needed=2, nodes=1),
    )
    partial = run(checks=["pairs", "transpose"])
    partial = ruled(dataclasses.replace(partial, cases=[*partial.cases, noise]), blame())
    assert text(partial.interconnect) == [
        "Network: go (3 parts not measured)",
        "  not measured: network_noise (needs 2 nodes, a launch here has 1); network, "
        "congestion (not in this run)",
    ]
    html = page(only(run=partial))
    assert "needs 2 nodes, a launch here has 1" in html.said
    assert "the impact of other jobs congestion: not in this run" in html.said


def test_a_failed_launch_is_no_go_and_a_missing_one_is_looked_at():
    for kind, grade in ((Verdict.FAIL, Grade.NO_GO), (Verdict.NOT_MEASURED, Grade.LOOK)):
        bad = with_case(run(), 0, verdict=kind, reason=Reason(Code.NETWORK_BYPASSED))
        assert ruled(bad).interconnect.grade == grade


def test_a_level_below_the_old_network_is_no_go():
    worse = row("pairs", "sampled", "tournament", Verdict.REGRESSED, 1.4, metric="latency")
    judged = verdict(blame(), comparison=Comparison([], [], [worse]))
    assert judged.grade == Grade.NO_GO
    assert "latency: 40%" in text(judged)[1]
    assert "slower" in text(judged)[1]


def test_errors_of_an_adapter_are_looked_at():
    remark = Code.ADAPTER_ERRORS(host="n1", adapter="mlx5_0", errors=[["crc", 9]], launches=1, of=2)
    noted = ruled(run().noting(remarks=[remark]))
    assert headline(noted.interconnect) == "Network: look (1 finding)"


@pytest.mark.parametrize("tier", ["nightly", "quick"])
def test_other_tiers_have_no_verdict_on_the_network(tier):
    assert verdict(blame(), tier=tier) is None


def test_the_page_begins_with_the_network_and_its_bad_component():
    slow = blame(("node", 5, 0.5))
    report = only(run=ruled(run(), slow), pairs=[slow])
    html = page(report)
    assert html.headings[0] == "Network"
    assert "Network: no-go (node cn0005 slow)" in html.said
    assert "Repair the components listed" in html.said


@pytest.mark.parametrize(
    ("how", "grade", "says"),
    [
        ({}, Grade.GO, ""),
        ({"mean": 1.5}, Grade.LOOK, "alltoallv under incast (apart) takes 1.4"),
        ({"mean": 2.5}, Grade.NO_GO, "alltoallv under incast (apart) takes 2.4"),
        ({"again": 1.3}, Grade.GO, ""),
    ],
)
def test_impacts_of_other_traffic(tmp_path, how, grade, says):
    files = tmp_path / "congestion-apart-mpi.json"
    files.write_text(json.dumps(launch(**how)))
    of_launch = {"kernel": "congestion", "fixture": True, "verdict": Verdict.PASS}
    of_launch["files"] = f"{files.with_suffix('')}.*"
    congestion = result_of(*PLACE, "CongestionLaunch", "apart", "mpi", "", **of_launch)
    loaded = dataclasses.replace(run(), cases=[*run().cases, congestion])
    impacts = of_network(Evidence(), None, loaded).impacts
    loaded = ruled(loaded, blame(), impacts=impacts)
    judged = loaded.interconnect
    assert judged.grade == grade
    assert [says in line for line in text(judged)[1:2] if judged.findings] == [True] * (
        grade != Grade.GO
    )
    assert ("again" in how) == ("congestion (quiet twice, the second took" in text(judged)[-1])
    html = page(only(run=loaded, impacts=impacts))
    assert "Under other traffic" in html.said
    assert "incast (apart)" in html.said
