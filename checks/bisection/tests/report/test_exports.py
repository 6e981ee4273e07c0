"""Reports for other programs."""

import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest
from reports import MADE, NIGHT, case, cluster, comparison, failure, families, only, ran

from bisection.analysis.model import (
    OddNode,
    OddPath,
    Pairs,
    Suspect,
)
from bisection.core.verdicts import COMPARED, Verdict
from bisection.report import exports, model


def test_junit():
    suite = ET.fromstring(exports.junit(cluster()))
    tags = {test.get("name"): [child.tag for child in test] for test in suite}
    assert tags["transpose cnt40 mpi shm"] == ["failure"]
    assert tags["transpose silicon mpi p2p"] == ["error"]
    assert tags["transpose silicon mpi padded"] == ["error"]
    assert tags["md sic mpi packed"] == ["skipped"]
    assert tags["md fe mpi packed"] == []
    assert suite.get("tests") == str(len(suite)) == "11"
    assert (suite.get("failures"), suite.get("errors"), suite.get("skipped")) == ("3", "4", "1")
    message = suite.find("testcase/skipped").get("message")
    assert message.startswith("inconclusive: 10 ms before, 10 ms after, ratio 1.00 [0.96, 1.04]")
    assert "3 jobs only" in message


def test_prometheus():
    found = families(exports.prometheus(cluster()))
    assert found["bisection_exit_code"] == [({}, 1.0)]
    verdicts = {labels["verdict"]: value for labels, value in found["bisection_verdicts"]}
    assert verdicts == {**dict.fromkeys(COMPARED, 1.0), Verdict.REGRESSED: 2.0}
    starts = {labels["side"]: value for labels, value in found["bisection_session_start_seconds"]}
    assert starts == {"before": MADE - NIGHT, "after": MADE}
    ratios = {labels["method"]: value for labels, value in found["bisection_ratio"]}
    assert ratios["shm"] == pytest.approx(1.42)
    assert len(found["bisection_ratio"]) == 5  # the others have none
    assert len(found["bisection_verdict"]) == 8
    (shm,) = [lab for lab, _ in found["bisection_verdict"] if lab["method"] == "shm"]
    assert shm == {**shm, "verdict": Verdict.REGRESSED, "case": "cnt40", "metric": "time"}
    cases = {labels["verdict"]: value for labels, value in found["bisection_failed_cases"]}
    assert cases == {"FAIL": 1.0, "not measured": 2.0}


@pytest.mark.parametrize(
    ("run", "code"),
    [
        (ran(case()), 0),
        (ran(case(), failure()), 1),
        (ran(case(), failure(Verdict.NOT_MEASURED)), 3),
        (None, 3),
    ],
)
def test_exit_code_without_a_comparison(run, code):
    assert model.exit_code(only(run=run)) == code


def test_nodes_for_a_health_check():
    lines = exports.nodecheck(cluster()).splitlines()
    assert len(lines) == 1  # cn016 ran the failed case as well, but nothing names it
    node, reason = lines[0].split(" ", 1)
    assert node == "cn017"
    assert reason.startswith(
        "bisection: 12 jobs on it took 44% longer than the others, in cluster:cpu"
    )
    assert "its pairs are at 61% of the others" in reason
    assert "MPI_ABORT: rank 3 on cn017 aborted" in reason
    assert exports.nodecheck(only()) == ""


def test_a_path_between_two_nodes_accuses_neither():
    between = Pairs(["cn1", "cn2", "cn12"], [], "B/s", "Pairs", [OddPath(("cn1", "cn2"), 0.7)])
    assert exports.nodecheck(only(pairs=[between])) == ""
    one = replace(between, suspects=[OddNode("cn12", 0.6)])
    assert exports.nodecheck(only(pairs=[one])) == (
        "cn12 bisection: Pairs: its pairs are at 60% of the others; retest it\n"
    )


def test_what_is_no_node_name_and_what_a_shell_would_take_is_left_out():
    suspects = [Suspect("cn1; reboot", 2, 1, "p"), Suspect("cn2", 2, 1, 'a "b" `c` $(d)\ne')]
    made = only(comparison=comparison([], suspects=suspects))
    assert exports.nodecheck(made) == (
        "cn2 bisection: 1 job on it took 100% longer than the others, in a b c (d) e\n"
    )
