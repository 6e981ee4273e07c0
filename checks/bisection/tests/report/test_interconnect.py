"""The verdict on a network: go, look or no-go, in words."""

import dataclasses
import json

import pytest
from made_up_network import World
from made_up_traffic import launch
from reports import only, page, row

from bisection.analysis import network
from bisection.analysis.blame import judge
from bisection.analysis.interconnect import CHECKS, Grade
from bisection.analysis.interconnect import judge as verdict_on
from bisection.analysis.model import Comparison
from bisection.core.reasons import Code, Reason
from bisection.core.verdicts import Exit, Verdict
from bisection.report.interconnect import headline, text
from bisection.report.run import counted
from bisection.runs.model import Request, RunVerdict, TestResult

PLACE = ("vc", "net", "system")


def blame(*faults, **more):
    world = World(64, 16, 5)
    world.faults = list(faults)
    judged = judge(world.matrix(16, **more))
    judged.place = "vc:net system"
    return judged


def run(*blames, tier="triage", checks=CHECKS):
    """A run in which every check passed, and what its pairs say."""
    cases = [
        TestResult(*PLACE, check, "case", "mpi", "method", verdict=Verdict.PASS) for check in checks
    ]
    verdict_of_run = RunVerdict(cases, request=Request(tier=tier))
    verdict_of_run.failures += [network.reason(part) for judged in blames for part in judged.bad]
    return verdict_of_run


def verdict(*blames, comparison=None, **more):
    return verdict_on(run(*blames, **more), blames, comparison)


def test_a_clean_network_is_go():
    clean = verdict(blame())
    assert (clean.grade, clean.findings, clean.unmeasured) == (Grade.GO, [], [])
    assert text(clean) == ["Network: go"]


def test_a_slow_node_is_no_go_by_its_name():
    slow = blame(("node", 5, 0.5))
    lines = text(verdict(slow))
    assert lines[0] == "Network: no-go (node cn0005 slow)"
    assert lines[1].startswith("  no-go: node cn0005: ")
    assert run(slow).exit_code == Exit.FAILED
    assert "1 bad component of the network" in counted(run(slow))


def test_pairs_that_cannot_be_judged_are_no_go_ahead():
    noisy = blame()
    noisy.kinds = [
        dataclasses.replace(kind, withheld=Reason.of(Code.PAIRS_CONCURRENT)) for kind in noisy.kinds
    ]
    judged = verdict(noisy)
    assert judged.grade == Grade.LOOK
    assert "no bandwidth of pairs could be judged" in text(judged)[1]


def test_what_was_not_measured_is_listed_with_its_reason():
    partial = run(blame(), checks=["pairs", "transpose"])
    partial.cases += [
        TestResult(
            *(*PLACE, "network_noise", "nodes", "mpi", "quantum"),
            verdict=Verdict.NOT_APPLICABLE,
            reason=Reason.of(Code.NODES_NEEDED, needed=2, nodes=1),
        )
    ]
    judged = verdict_on(partial, [blame()], None)
    assert text(judged) == [
        "Network: go (3 parts not measured)",
        "  not measured: network_noise (needs 2 nodes, a launch here has 1); network, "
        "congestion (not in this run)",
    ]
    html = page(only(run=partial, interconnect=judged))
    assert "needs 2 nodes, a launch here has 1" in html.said
    assert "the impact of other jobs congestion: not in this run" in html.said


def test_a_failed_launch_is_no_go_and_a_missing_one_is_looked_at():
    bad = run(blame())
    bad.cases[0].verdict, bad.cases[0].reason = Verdict.FAIL, Reason.of(Code.NETWORK_BYPASSED)
    assert verdict_on(bad, [], None).grade == Grade.NO_GO
    bad.cases[0].verdict = Verdict.NOT_MEASURED
    assert verdict_on(bad, [], None).grade == Grade.LOOK


def test_a_level_below_the_old_network_is_no_go():
    worse = row("pairs", "sampled", "tournament", Verdict.REGRESSED, 1.4, metric="latency")
    judged = verdict(blame(), comparison=Comparison([], [], [worse]))
    assert judged.grade == Grade.NO_GO
    assert "latency: 40%" in text(judged)[1]
    assert "slower" in text(judged)[1]


def test_errors_of_an_adapter_are_looked_at():
    noted = run(blame())
    noted.remarks = [
        Reason.of(
            Code.ADAPTER_ERRORS, host="n1", adapter="mlx5_0", errors=[["crc", 9]], launches=1, of=2
        )
    ]
    assert headline(verdict_on(noted, [], None)) == "Network: look (1 finding)"


@pytest.mark.parametrize("tier", ["nightly", "quick"])
def test_other_tiers_have_no_verdict_on_the_network(tier):
    assert verdict(blame(), tier=tier) is None


def test_the_page_begins_with_the_network_and_its_bad_component():
    slow = blame(("node", 5, 0.5))
    report = only(run=run(slow), pairs=[slow], interconnect=verdict(slow))
    html = page(report)
    assert html.headings[0] == "Network"
    assert "Network: no-go (node cn0005 slow)" in html.said
    assert "Repair what is listed" in html.said


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
    loaded = run(blame())
    files = tmp_path / "congestion-apart-mpi.json"
    files.write_text(json.dumps(launch(**how)))
    of_launch = {"kernel": "congestion", "fixture": True, "verdict": Verdict.PASS}
    loaded.cases.append(
        TestResult(
            *(*PLACE, "CongestionLaunch", "apart", "mpi", ""),
            **of_launch,
            files=f"{files.with_suffix('')}.*",
        )
    )
    judged = verdict_on(loaded, [blame()], None)
    assert judged.grade == grade
    assert [says in line for line in text(judged)[1:2] if judged.findings] == [True] * (
        grade != Grade.GO
    )
    assert ("again" in how) == ("congestion (quiet twice, the second took" in text(judged)[-1])
    html = page(only(run=loaded, interconnect=judged))
    assert "Under other traffic" in html.said
    assert "incast (apart)" in html.said
