import re

import pytest
from fake_kernel import layout_of

from bisection.core.identity import Geometry
from bisection.core.reasons.base import clause
from bisection.kernels.layouts import ALL_LAYOUTS, DoesNotFit, domains, geometry, misplaced, places


@pytest.mark.parametrize("cores", range(1, 9))
def test_every_geometry_is_measured_and_mpi_keeps_its_own(cores):
    """Whatever the cores: what other layouts repeat is measured under an earlier name."""
    kept, repeated = {}, []
    for layout in ALL_LAYOUTS:
        try:
            kept[layout] = str(geometry(layout, cores, topology=NUMA))
        except DoesNotFit as error:
            repeated += re.findall(r"is the same as .* \((.*)\)", str(error))
    assert "mpi" in kept
    assert len(set(kept.values())) == len(kept)
    assert set(repeated) <= set(kept.values())


NUMA = {"numa_nodes": ["0x0f", "0xf0", "0xf00", "0xf000"]}
CACHES = {
    "numa_nodes": ["0xffff"],
    "caches": [{"type": "L2", "cpusets": ["0x1"] * 16}, {"type": "L3", "cpusets": ["0xff"] * 8}],
}


def test_one_rank_a_domain():
    assert domains({}) == 1
    assert (domains(NUMA), domains(CACHES)) == (4, 8)
    assert geometry("domain", 16, topology=NUMA) == Geometry(1, 4, 4)
    assert geometry("domain", 16, nodes=2, topology=CACHES) == Geometry(2, 8, 2)
    for topology, twin in (
        ({}, "node"),
        ({"numa_nodes": ["0x3", "0xc"]}, "node2"),
        ({"numa_nodes": ["0x1", "0x2", "0x4"]}, "mpi"),
    ):
        with pytest.raises(DoesNotFit, match=f"layout domain is the same as {twin} here"):
            geometry("domain", 3, topology=topology)


SMT = ["0x11", "0x22", "0x44", "0x88"]  # four cores, cpus n and n + 4 share one


def placed(*ranks, hosts=None):
    """The "layout" of a result: one list of thread masks a rank."""
    seats = zip(hosts or "a" * len(ranks), ranks, strict=True)
    return layout_of([{"host": host, "threads": threads} for host, threads in seats])


@pytest.mark.parametrize(
    ("reported", "asked", "says"),
    [
        (placed(["0"], ["1"]), Geometry(1, 2, 1), None),
        (placed(["0,4"], ["1,5"]), Geometry(1, 2, 1), None),
        (placed(["0", "1"], ["2", "3"]), Geometry(1, 2, 2), None),
        (placed(["0"], ["0"], hosts=["a", "b"]), Geometry(2, 1, 1), None),
        (placed(["0"]), Geometry(1, 2, 1), "1 of 2 ranks ran"),
        (placed(["0"], ["4"]), Geometry(1, 2, 1), "rank 1 on a (cpus 4) shares a core with rank 0"),
        (placed(["0-3"], ["0-3"]), Geometry(1, 2, 1), "(cpus 0-3) shares a core"),
        (placed(["0-1"]), Geometry(1, 1, 1), "rank 0 on a is not bound to one core"),
        (placed(["0", "0"]), Geometry(1, 1, 2), "thread 1 (cpus 0) shares a core with rank 0 on a"),
        (placed(["0-1", "0-1"]), Geometry(1, 1, 2), "thread 1 (cpus 0-1) shares a core"),
        (placed(["0", "1"], ["1", "2"]), Geometry(1, 2, 2), "rank 1 on a thread 0 (cpus 1) shares"),
        (placed(["0", "1"]), Geometry(1, 1, 4), "rank 0 on a ran 2 threads, not 4"),
        (placed(["0"], ["1"], hosts=["a", "b"]), Geometry(1, 2, 1), "on the hosts a, b, not on 1"),
        (placed(["0"], ["1"]), Geometry(2, 1, 1), "on the hosts a, not on 2"),
        (
            placed(["0"], ["1"], ["2"], ["0"], hosts=["a", "a", "a", "b"]),
            Geometry(2, 2, 1),
            "3 ranks ran on host a, not 2",
        ),
    ],
)
def test_ranks_off_their_cores_are_misplaced(reported, asked, says):
    wrong = [clause(reason) for reason in misplaced(places(reported), asked, SMT)]
    assert bool(wrong) == bool(says), wrong
    assert says is None or says in "; ".join(wrong)


def test_of_many_misplaced_ranks_some_are_named_and_the_others_counted():
    """All nodes alike, and one of its own kind, whose ranks share a core."""
    cpus = [str(core) for core in range(4)]
    nodes = [{"node": n, "host": f"n{n:03d}", "ranks": f"{4 * n}-{4 * n + 3}"} for n in range(100)]
    sound = {"cpus": cpus, "threads": [[cpu] for cpu in cpus], "nodes": nodes[1:]}
    other = {"cpus": ["0"] * 4, "threads": [["0"]] * 4, "nodes": nodes[:1]}
    (first, second, more) = misplaced(places({"seats": [sound, other]}), Geometry(100, 4, 1))
    for rank, reason in ((1, first), (2, second)):
        shares = f"rank {rank} on n000 (cpus 0) shares a core with rank 0 on n000 (cpus 0)"
        assert str(reason) == shares
    assert str(more) == "1 more, on 1 hosts in all"
    *listed, more = misplaced(places({"seats": [{**other, "nodes": nodes}]}), Geometry(100, 4, 1))
    assert str(more) == f"{300 - len(listed)} more, on 100 hosts in all"
    assert {reason.host for reason in listed} < {node["host"] for node in nodes}
    for reason in listed:
        assert int(str(reason).split()[1]) // 4 == int(reason.host[1:])
    others = [{**other, "cpus": [*other["cpus"]], "nodes": [node]} for node in nodes]
    *listed, more = misplaced(places({"seats": others}), Geometry(100, 4, 1))
    assert len(listed) < 20  # of hosts that are no two alike
    assert str(more).startswith(f"{300 - len(listed)} more")
