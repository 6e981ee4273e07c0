"""Predictions from primitives on a made-up network whose bounds are known."""

import numpy as np
import pytest
from made_up import case, sessions, store

from bisection.analysis.predict import Finding, _neighbours, predictions
from bisection.core.identity import Geometry
from bisection.kernels.results import point_label
from bisection.report.sections import predictions_table

SHAPE = Geometry(8, 16, 1)  # 128 ranks
RANKS, PER_NODE = SHAPE.ranks, SHAPE.ranks_per_node
LATENCY, GAP, MESSAGE, NODE = 2e-6, 0.2e-6, 10e9, 12e9  # s, s, B/s of one message, of a node
SIZES = [8 << power for power in range(18)]
LONG = [size for size in SIZES if size >= 65536]


def metric(size):
    return f"time_{point_label({'bytes': size})}"


def night(rng, bisection=NODE, random=NODE, late=0.0, **factors):
    """The patterns, and a transpose, where each node has `bisection` B/s across, `random` in random
    pairs, which are `late` by so much (s); factors of some patterns' times."""
    inside, across = PER_NODE * (RANKS - PER_NODE) / NODE, RANKS**2 / 4 / (4 * bisection)
    seconds = {
        "pingpong": lambda size: LATENCY + size / MESSAGE,
        "message-rate": lambda _: GAP,
        "node-to-node": lambda size: LATENCY + PER_NODE * size / NODE,
        "bisecting": lambda size: LATENCY + PER_NODE * size / bisection,
        "random-matching": lambda size: late + LATENCY + PER_NODE * size / random,
        "alltoall": lambda size: LATENCY + max((RANKS - 1) * GAP, inside * size, across * size),
        "alltoallv": lambda size: seconds["alltoall"](size),
        "halo": lambda size: LATENCY + max(6 * GAP, size / MESSAGE, 32 * size / NODE),
        "allreduce": lambda size: 7 * LATENCY + 2 * 7 / 8 * size / NODE,
    }
    cases = []
    for method, of_size in seconds.items():
        factor = factors.get(method, 0 if method == "alltoallv" else 1)
        times = {metric(s): factor * of_size(s) * np.exp(rng.normal(0, 0.02)) for s in SIZES}
        if method == "message-rate":
            times = {metric(8): times[metric(8)]}
        where = {"check": "network", "case": "sweep", "geometry": str(SHAPE)}
        cases += [case(method, times, **where)] if factor else []
    sent = {
        "time": 2e-3,
        "collective_share": [0.5, "fraction", "lower"],
        "collective_size": [512, "B/message", "lower"],
        "collective_calls": [2, "calls", "lower"],
    }
    return [*cases, case("alltoallv", sent, geometry=str(SHAPE))]


@pytest.fixture
def predicted(rng, tmp_path):
    """predicted(*nights): from these; without them from five such as `how` says."""

    def run(*nights, **how):
        nights = nights or (night(rng, **how) for _ in range(5))
        with store(tmp_path / "store.db", sessions(0, nights)) as filled:
            return [*predictions(filled, filled.sessions())]

    return run


def of(rows, method, test="network sweep"):
    return [row for row in rows if row.test == f"{test} mpi {method}"]


CROWDED = {"random": NODE / 4}  # routes collide
LATE = {"late": 2e-6}  # random pairs, at all sizes: latency, which many messages in flight hide
FORMS = {"alltoall": 3, "alltoallv": 1.8}  # that send the same


WORSE = {"halo": 2.5, "allreduce": 2.5}
# A collision costs a block of 64 B as much as the gap between two.
SHORT, REST = (
    ("alltoall", SIZES[:3], Finding.ALGORITHM),
    ("alltoall", SIZES[4:], Finding.CONTENTION),
)


@pytest.mark.parametrize(
    ("how", "findings"),
    [
        ({}, [(method, SIZES, Finding.EXPLAINED) for method in ("alltoall", "allreduce")]),
        ({}, [("halo", LONG, Finding.EXPLAINED)]),
        ({"alltoall": 0.3}, [("alltoall", SIZES, Finding.FEWER)]),
        ({"alltoall": 3}, [("alltoall", SIZES, Finding.ALGORITHM)]),
        (LATE | {"alltoall": 3}, [("alltoall", SIZES, Finding.ALGORITHM)]),
        (CROWDED | {"alltoall": 3}, [SHORT, REST]),
        # alltoallv is nearly as fast as collisions allow.
        (CROWDED | FORMS, [("alltoall", SIZES, Finding.ALGORITHM)]),
        (CROWDED | FORMS, [("alltoallv", SIZES[5:], Finding.CONTENTION)]),
        *(({m: WORSE[m]}, [(m, LONG, Finding.ALGORITHM)]) for m in WORSE),
        *((CROWDED | {m: WORSE[m]}, [(m, LONG, Finding.CONTENTION)]) for m in WORSE),
    ],
)
def test_findings(how, findings, predicted):
    every = predicted(**how)
    for method, sizes, finding in findings:
        rows = [row for row in of(every, method) if row.size in sizes]
        assert [row.finding for row in rows] == [finding] * len(sizes)
        assert {line[-1] for line in predictions_table(rows).rows} == {finding}
        assert how or all(0.85 < row.ratio < 1.15 for row in rows)


def test_transposes_are_so_many_alltoalls_that_messages_and_the_node_bound(predicted):
    every = predicted()
    first, *_, last = of(every, "alltoall")
    assert (first.bound, last.bound) == ("messages", "node")
    (row,) = of(every, "alltoallv", "transpose cnt40")
    alone = LATENCY + max((RANKS - 1) * GAP, PER_NODE * (RANKS - PER_NODE) * 512 / NODE)
    assert row.seconds == pytest.approx(1e-3)
    assert row.predicted == pytest.approx(2 * alone, rel=0.1)


def test_what_bounds_the_alltoall(predicted):
    first, *_, last = of(predicted(bisection=NODE / 8, random=NODE / 8), "alltoall")
    assert (first.bound, last.bound) == ("messages", "bisection")
    assert last.finding == Finding.EXPLAINED


@pytest.mark.parametrize("longest", [0, 4096])
def test_without_random_pairs_contention_is_not_told_from_the_algorithm(longest, rng, predicted):
    """Random pairs that were not measured, or with shorter messages, show nothing."""
    kept = [size for size in SIZES if size <= longest]
    names = {metric(size) for size in kept}
    nights = [night(rng, alltoall=3) for _ in range(5)]
    for test in (test for cases in nights for test in cases):
        if test["method"] == "random-matching":
            test["metrics"] = {n: value for n, value in test["metrics"].items() if n in names}
    rows = of(predicted(*nights), "alltoall")
    assert {row.finding for row in rows if row.size not in kept} == {Finding.UNEXPLAINED}
    assert {row.finding for row in rows if row.size in kept} <= {Finding.ALGORITHM}


# Times (us) of bisection-patterns under SimGrid 3.32, one rank on each of 16 hosts, four a switch:
# each host has an uplink of its own, or four share one. Sizes: from 8 B on, times two or eight.
SIMULATED = {
    "pingpong": "2.05 2.05 2.06 2.06 2.06 2.05 2.11 2.25 1.97 2.45 3.07 5.9 8.29 18.3 23.8 35",
    "message-rate": "0.0515",
    "node-to-node": "2.09 2.09 2.15 2.47 8.3 36",
}
FULL = SIMULATED | {
    "bisecting": "2.09 2.09 2.15 2.47 8.3 36",
    "random-matching": "2.09 2.1 2.24 2.85 11.6 57.3",
    "alltoall": "8.14 8.17 8.12 8.37 8.83 7.58 3.5 4.92 4.96 7.46 10.4 30.5 59.2 91.5 175 342",
    "alltoallv": "2.09 2.1 2.12 2.16 2.24 2.78 3.5 4.92 4.96 7.46 10.4 30.5 59.2 91.5 175 342",
}
SHARED = SIMULATED | {
    "bisecting": "2.1 2.12 2.52 3.75 19.6 103",
    "random-matching": "2.1 2.12 2.51 3.75 19.6 102",
    "alltoall": "8.14 8.17 8.12 8.37 8.83 7.59 8 13.7 14.7 22.4 31.4 94.3 185 281 549 1.08e+03",
    "alltoallv": "2.18 2.22 2.29 2.44 2.75 5.09 8 13.7 14.7 22.4 31.4 94.3 185 281 549 1.08e+03",
}


@pytest.mark.parametrize("tree", [FULL, SHARED], ids=["full tree", "4:1"])
def test_a_simulated_tree_whose_hosts_share_an_uplink_has_contention(tree, predicted):
    """And no other algorithm: from 256 B on it is the same on both. Shorter blocks of alltoall are
    forwarded (Bruck), on both."""
    cases = []
    for method, times in tree.items():
        step = 2 if method in ("pingpong", "alltoall", "alltoallv") else 8
        named = {metric(8 * step**i): float(t) * 1e-6 for i, t in enumerate(times.split())}
        cases.append(case(method, named, check="network", case="sweep", geometry="16x1"))
    rows = predicted(cases)
    findings = {(row.test.split()[-1], row.size): row.finding for row in rows}
    short = {each for each, finding in findings.items() if finding == Finding.ALGORITHM}
    assert short - {("alltoall", 256)} == {("alltoall", size) for size in (8, 16, 32, 64, 128)}
    crowded = {size for (_, size), finding in findings.items() if finding == Finding.CONTENTION}
    middle = {256, 512, 1024, 2048, 4096, 16384, 32768}
    assert crowded == (middle if tree is SHARED else set())


def test_without_primitives_nothing_is_predicted(rng, predicted):
    assert predicted([c for c in night(rng) if c["method"] != "message-rate"]) == []


@pytest.mark.parametrize(
    ("ranks", "per_node", "expected"),
    [
        (2, 1, (2, 2)),  # both ways round
        (7, 7, (2, 0)),
        (8, 4, (6, 8)),  # 2 x 2 x 2: two ways to the other plane of each of four ranks
        (48, 8, (6, 24)),  # 4 x 4 x 3
        (27, 9, (6, 18)),
        (64, 16, (6, 32)),
    ],
)
def test_neighbours_on_other_nodes(ranks, per_node, expected):
    assert _neighbours(ranks, per_node) == expected
