"""Where the triage loads: a site of one node does without it."""

import re

import pytest

from bisection.judge import network
from interconnect import impact, pairs


def test_the_kernels_that_load_it_are_those_that_it_judges():
    assert set(network.KERNELS) == {pairs.KERNEL, impact.KERNEL}


@pytest.mark.parametrize(("tier", "loads"), [("nightly", False), ("triage", True)])
def test_a_run_of_one_node_loads_it_only_for_a_verdict_on_the_network(
    bisection, monkeypatch, tier, loads
):
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    run = bisection(selected=("-n", "^(pairs|network%method=pingpong)"), tier=tier)
    loaded = set(re.findall(r"(?m)^import time:.* ([\w.]+)$", run.text))
    assert loaded >= {"bisection.judge.network", "bisection.report.figures.session_figures"}
    assert ("interconnect" in loaded) == loads
