"""Nodes and paths that stand out."""

import numpy as np
import pytest
from made_up import case, session, store

from bisection.analysis import history
from bisection.analysis.nodes import median_polish, odd_ones, pairs
from bisection.report.words import named


@pytest.fixture
def rng():
    return np.random.default_rng(1)


def bandwidths(rng, nodes=8, slow_node=None, slow_path=None, sigma=0.02):
    values = 1e9 * np.exp(rng.normal(0, sigma, (nodes, nodes)))
    if slow_node is not None:
        values[slow_node, :] *= 0.75
        values[:, slow_node] *= 0.75
    if slow_path:
        values[slow_path] *= 0.6
        values[slow_path[::-1]] *= 0.6
    np.fill_diagonal(values, np.nan)
    return values


def test_a_slow_adapter_is_a_node_and_a_slow_cable_a_path(rng):
    nodes = [f"n{i}" for i in range(8)]
    assert odd_ones(nodes, bandwidths(rng), "higher") == []
    (odd,) = odd_ones(nodes, bandwidths(rng, slow_node=3), "higher")
    assert named(odd).startswith("node n3: its pairs are at 7")
    (odd,) = odd_ones(nodes, bandwidths(rng, slow_path=(2, 6)), "higher")
    assert named(odd).startswith("path n2 - n6: 6")
    effects, residuals = median_polish(bandwidths(rng, slow_node=3, sigma=0))
    assert np.exp(effects[3]) == pytest.approx(0.75)
    assert np.nanmax(np.abs(residuals)) < 1e-6


def test_pairs_of_the_store(rng, tmp_path):
    values = bandwidths(rng, nodes=5, slow_node=1)
    cases = [
        case("pingpong", {"bandwidth": [values[i, j], "B/s", "higher"]}, pair=[f"n{i}", f"n{j}"])
        for i in range(5)
        for j in range(5)
        if i != j
    ]
    stored = store(tmp_path / "store.db", [(session(0), cases)])
    (matrix,) = pairs(stored, stored.sessions())
    assert matrix.nodes == ["n0", "n1", "n2", "n3", "n4"]
    assert matrix.values[0][0] is None
    assert matrix.values[0][2] == pytest.approx(values[0, 2])
    assert [odd.node for odd in matrix.suspects] == ["n1"]
    assert history.histories(stored, stored.sessions()) == []
