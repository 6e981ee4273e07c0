"""A network in a report: its verdict, and its pairs of nodes."""

import base64
import json
import re

import pytest
from made_up_network import World
from made_up_traffic import launch
from reports import only, page
from results_made import result_of

from bisection.core.reasons.base import Text
from bisection.core.verdicts import Exit, Grade, Verdict
from bisection.judge import decision, network
from bisection.judge.evidence import Evidence
from bisection.report import exports
from bisection.report import page as pages
from bisection.report.verdict_text import counted
from bisection.runs.run_verdict import Request, RunVerdict
from interconnect import maps
from interconnect.blame import judge
from interconnect.pairs import KINDS
from interconnect.rulings import CHECKS

PLACE = ("vc", "net", "system")


def blamed(*faults, nodes=64, leaf=16, rounds=16, **more):
    world = World.with_faults(*faults, nodes=nodes, leaf=leaf, seed=5)
    return judge(world.matrix(rounds, **more))


SLOW = ("node", 5, 0.5)


def ruled(*blames, checks=CHECKS, cases=(), impacts=()):
    """The verdict on a run in which every check passed, by what its pairs show."""
    passed = [result_of(*PLACE, name, "case", "mpi", "x", verdict=Verdict.PASS) for name in checks]
    verdict = RunVerdict([*passed, *cases], request=Request(tier="triage"))
    evidence = Evidence(blames=blames, impacts=impacts)
    return network.rule(network.rule_pairs(verdict, evidence), evidence)


def test_a_slow_node_is_no_go_by_its_name():
    slow = blamed(SLOW)
    verdict = ruled(slow)
    first, second, *_ = verdict.interconnect.lines()
    assert first == "Network: no-go (node cn0005 slow)"
    assert second.startswith("  no-go: node cn0005: ")
    assert decision.of_run(verdict) == Exit.FAILED
    assert "1 bad component of the network" in counted(verdict)
    html = page(only(run=verdict, blames=[slow]))
    assert html.headings[:2] == ["What to do", "Network"]
    assert first in html.text
    assert "Repair the components listed" in html.text


def test_what_was_not_measured_is_listed_with_its_reason():
    why = {"verdict": Verdict.NOT_APPLICABLE, "reason": Text("needs 2 nodes, a launch here has 1")}
    noise = result_of(*PLACE, "network_noise", "nodes", "mpi", "quantum", **why)
    partial = ruled(blamed(), checks=["pairs", "transpose"], cases=[noise])
    assert partial.interconnect.lines() == [
        "Network: go (3 parts not measured)",
        "  not measured: network_noise (needs 2 nodes, a launch here has 1); network, "
        "congestion (not in this run)",
    ]
    html = page(only(run=partial))
    assert "needs 2 nodes, a launch here has 1" in html.text
    assert "congestion: not in this run" in html.text


def test_without_a_message_there_is_no_verdict_on_the_network():
    assert ruled(checks=["network_noise"]).interconnect is None
    assert ruled(checks=["network_noise", "network"]).interconnect.grade == Grade.GO


@pytest.mark.parametrize(
    ("how", "grade", "words"),
    [
        ({}, Grade.GO, "Network: go"),
        ({"mean": 2.5}, Grade.NO_GO, "  no-go: alltoallv under incast (apart) takes 2.4"),
        ({"again": 1.3}, Grade.GO, "  not measured: congestion (quiet twice, the second took"),
    ],
)
def test_impacts_of_other_traffic(tmp_path, how, grade, words):
    (tmp_path / "apart.json").write_text(json.dumps(launch(**how)))
    of_launch = {"kernel": "congestion", "fixture": True, "files": f"{tmp_path}/apart.*"}
    place = (*PLACE, "CongestionLaunch", "apart", "mpi", "")
    cases = [result_of(*place, **of_launch, verdict=Verdict.PASS)]
    impacts = network.measured(Evidence(), None, ruled(cases=cases)).impacts
    loaded = ruled(blamed(), cases=cases, impacts=impacts)
    assert loaded.interconnect.grade == grade
    assert loaded.interconnect.lines()[-1].startswith(words)
    assert bool(loaded.interconnect.findings) == (grade == Grade.NO_GO)
    html = page(only(run=loaded, impacts=impacts))
    assert "Under other traffic" in html.text
    assert "incast (apart)" in html.text


# ---- pairs of nodes ----


def images(html):
    """(width, height) of each PNG of a page."""
    parts = re.findall(r"data:image/png;base64,([^\"]+)", html)
    heads = [base64.b64decode(part)[16:24] for part in parts]
    return [tuple(int.from_bytes(head[at : at + 4], "big") for at in (0, 4)) for head in heads]


def test_bad_components_with_where_to_look():
    report = only(blames=[blamed(SLOW, ("switch", 2, 0.8), ("pair", (1, 60), 0.4), rounds=0)])
    html = page(report)
    assert "Network" in html.headings
    texts = ("links of switch 2 to others", "node cn0005", "path cn0001 - cn0060", "transceivers")
    assert [text for text in texts if text not in html.text] == []
    assert "3 bad components" in exports.markdown(report)
    assert (64, 64) in images(pages.html(report))  # a pixel per pair


def test_a_clean_network_is_said_to_be_so():
    report = only(blames=[blamed(known=False, leaf=64, rounds=0)])
    assert "No bad component: latency, bandwidth, both ways judged" in page(report).text
    assert "no topology is known" in page(report).text


@pytest.mark.parametrize(
    ("known", "size", "words"),
    [
        (False, (8, 4096), "A row per node"),
        (True, (128, 128), "A pixel per pair of switches"),
    ],
)
def test_4096_nodes_stay_within_a_page(known, size, words):
    """Few rounds are a row per node; where switches are known, a map is by switch."""
    slow = blamed(("node", 77, 0.5), nodes=4096, leaf=32, known=known)
    html = pages.html(only(blames=[slow]))
    assert len(html) < pages.LIMIT
    assert "node cn0077" in html
    assert size in images(html)
    assert words in html


@pytest.mark.parametrize(("kind", "ways"), [(KINDS[0], 1), (KINDS[1], 2)])
def test_a_map_by_switch_lists_the_worst_nodes_by_name(kind, ways):
    faults = [("node", 77, 0.5), ("latency", 130, 2)]
    world = World.with_faults(*faults, nodes=512, leaf=32, pod=128, seed=5)
    blame = judge(world.matrix(64))
    group = maps._group(blame, kind)
    first = group.table.rows[0]
    assert first[:2] == (["cn0130", "switch 4"] if ways == 1 else ["cn0077", "switch 2"])
    assert all(float(cell) == pytest.approx(0.5, abs=0.05) for cell in first[2:])
    assert len(first) == 2 + ways
    rows, side = maps._rows(blame)
    assert side.named >= {"switch 2", "cn0077"}
    assert [side.names[row] for row in rows] == [f"switch {node // 32}" for node in range(512)]
    assert side.switches == [f"pod {number // 4}" for number in range(16)]
