"""Predictions from primitives on a made-up network whose bounds are known."""

import numpy as np
import pytest
from made_up import case, sessions, store

from bisection.analysis.predict import Finding, _neighbours, predictions
from bisection.core.identity import Geometry
from bisection.report.tables import predictions_table

SHAPE = Geometry(8, 16, 1)  # 128 ranks
RANKS, PER_NODE = SHAPE.ranks, SHAPE.ranks_per_node
LATENCY, GAP, MESSAGE, NODE = 2e-6, 0.2e-6, 10e9, 12e9  # s, s, B/s of one message, of a node
SIZES = [8 << power for power in range(18)]


def label(size):
    return f"{size >> 20}MiB" if size >> 20 else f"{size >> 10}KiB" if size >> 10 else f"{size}B"


def network(bisection, random, factors):
    """The patterns' times where each node has `bisection` B/s across, `random` in random pairs."""

    def pairs(rate):
        return {s: LATENCY + PER_NODE * s / rate for s in SIZES}

    times = {
        "pingpong": {s: LATENCY + s / MESSAGE for s in SIZES},
        "message-rate": {8: GAP},
        "node-to-node": pairs(NODE),
        "bisecting": pairs(bisection),
        "random-matching": pairs(random),
        "alltoall": {
            s: LATENCY
            + max(
                (RANKS - 1) * GAP,
                PER_NODE * (RANKS - PER_NODE) * s / NODE,
                RANKS**2 / 4 * s / (4 * bisection),
            )
            for s in SIZES
        },
        "allreduce": {s: 7 * LATENCY + 2 * 7 / 8 * s / NODE for s in SIZES},
    }
    return {
        method: {size: t * factors.get(method, 1) for size, t in curve.items()}
        for method, curve in times.items()
    }


def night(rng, bisection=NODE, random=NODE, **factors):
    cases = []
    for method, curve in network(bisection, random, factors).items():
        metrics = {f"time_{label(s)}": t * np.exp(rng.normal(0, 0.02)) for s, t in curve.items()}
        cases.append(case(method, metrics, check="network", case="sweep", geometry=str(SHAPE)))
    sent = {
        "time": 2e-3,
        "collective_share": [0.5, "fraction", "lower"],
        "collective_size": [512, "B/message", "lower"],
        "collective_calls": [2, "calls", "lower"],
    }
    cases.append(case("alltoallv", sent, geometry=str(SHAPE)))
    return cases


@pytest.fixture
def predicted(rng, tmp_path):
    def run(**how):
        nights = sessions(0, (night(rng, **how) for _ in range(5)))
        with store(tmp_path / f"{len(list(tmp_path.iterdir()))}.db", nights) as filled:
            return predictions(filled, filled.sessions())

    return run


def of(rows, method, test="network sweep"):
    return [row for row in rows if row.test == f"{test} mpi {method}"]


def test_what_obeys_the_bounds_is_explained(predicted):
    rows = predicted()
    for method in ("alltoall", "allreduce"):
        found = of(rows, method)
        assert len(found) == len(SIZES)
        assert {row.finding for row in found} == {Finding.EXPLAINED}, method
        assert all(0.85 < row.ratio < 1.15 for row in found), method
        assert all(row.low < row.ratio < row.high for row in found)
    assert (of(rows, "alltoall")[0].bound, of(rows, "alltoall")[-1].bound) == ("messages", "node")


def test_transposes_are_so_many_alltoalls(predicted):
    (row,) = of(predicted(), "alltoallv", "transpose cnt40")
    alone = LATENCY + max((RANKS - 1) * GAP, PER_NODE * (RANKS - PER_NODE) * 512 / NODE)
    assert row.measured == pytest.approx(1e-3)
    assert row.predicted == pytest.approx(2 * alone, rel=0.1)


def test_random_pairs_tell_contention_from_an_algorithm(predicted):
    """An all-to-all three times slower than its bound, with and without collisions of routes."""
    long = 65536
    crowded = of(predicted(random=NODE / 4, alltoall=3), "alltoall")
    assert {r.finding for r in crowded if r.size >= long} == {Finding.CONTENTION}
    alone = of(predicted(alltoall=3), "alltoall")
    assert {r.finding for r in alone if r.size >= long} == {Finding.ALGORITHM}
    fewer = of(predicted(alltoall=0.3), "alltoall")
    assert {r.finding for r in fewer} == {Finding.FEWER}


def test_a_narrow_bisection_bounds_the_alltoall(predicted):
    rows = of(predicted(bisection=NODE / 8, random=NODE / 8), "alltoall")
    assert rows[-1].bound == "bisection"
    assert rows[-1].finding == Finding.EXPLAINED


def test_without_primitives_nothing_is_predicted(rng, tmp_path):
    cases = [c for c in night(rng) if c["method"] != "message-rate"]
    with store(tmp_path / "store.db", sessions(0, [cases])) as filled:
        assert predictions(filled, filled.sessions()) == []


@pytest.mark.parametrize(
    ("ranks", "per_node", "expected"),
    [
        (2, 1, (2, 2)),  # both ways round
        (7, 7, (2, 0)),
        (8, 4, (6, 8)),  # 2 x 2 x 2: two ways to the other plane of each of four ranks
        (27, 9, (6, 18)),
        (64, 16, (6, 32)),
    ],
)
def test_neighbours_on_other_nodes(ranks, per_node, expected):
    assert _neighbours(ranks, per_node) == expected


def test_the_report_has_a_line_per_test_and_finding(predicted):
    table = predictions_table(predicted(random=NODE / 4, alltoall=3))
    assert any("contention" in row for row in table.rows)
    assert all(len(row) == 6 for row in table.rows)
