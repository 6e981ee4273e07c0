"""Which adapters carried a launch's messages, and which of them are faulty."""

import json
import statistics

import pytest

from bisection.core.paths import ROOT
from bisection.core.reasons.base import clause
from bisection.kernels import adapters

PAYLOAD = 1e9  # B of a host


def adapter(name, sent=0.0, kind="infiniband", **facts):
    """One adapter as a result has it, of which `sent` are bytes over the payload of its host."""
    usual = {"state": "active", "rate": 200, "firmware": "28.39", "received": 0, "errors": {}}
    measured = {"name": name, "kind": kind, "sent": None if sent is None else sent * PAYLOAD}
    return {**usual, **measured, "share": sent, "error_counters": 9, **facts}


def launch(*hosts, ranks_per_node=8, payload=PAYLOAD, losses=()):
    """A launch on n1, n2 ..., of which each has a list of adapters."""
    counted = {"seconds": 1.0, "payload": payload, "segments": 1e6}
    rows = enumerate(zip(hosts, losses or [0] * len(hosts), strict=True), 1)
    of_hosts = [
        {**counted, "host": f"n{number}", "retransmitted": lost, "list": [*listed]}
        for number, (listed, lost) in rows
    ]
    return {"layout": {"ranks_per_node": ranks_per_node}, "adapters": of_hosts}


def eth(sent):
    return adapter("eth0", sent, "ethernet", state="up", rate=25)


MLX = [adapter("mlx5_0:1", 1.02), eth(0.001)]
TCP = [adapter("mlx5_0:1"), eth(1.05)]
IPOIB = [adapter("mlx5_0:1", 1.05), adapter("ib0", 1.04, "ipoib"), eth(0.001)]
HSN = [adapter("cxi0", 1.05, "slingshot"), adapter("hsn0", 1.04, "slingshot-ip")]
BUSY = [adapter("mlx5_0:1", 1.02), eth(3.0)]  # files of others go by Ethernet
RAILS = [adapter("mlx5_0:1", 0.5), adapter("mlx5_1:1", 0.5)]
ONE_RAIL = [adapter("mlx5_0:1", 1.0), adapter("mlx5_1:1", 0.01)]


@pytest.mark.parametrize(
    ("claimed", "host", "says"),
    [
        (["mlx5_0"], MLX, None),
        (["mlx5_0"], BUSY, None),
        ([], TCP, None),  # nothing is claimed
        (["eth0"], TCP, None),  # TCP itself is claimed
        (["mlx5_0"], TCP, "eth0 105% of the bytes"),
        (["mlx5_0"], IPOIB, "mlx5_0 105%, ib0 104% of the bytes"),
        (["cxi0"], HSN, "cxi0 105%, hsn0 104% of the bytes"),
        (["mlx5_0", "mlx5_1"], RAILS, None),
        (["mlx5_0", "mlx5_1"], ONE_RAIL, "mlx5_1 carried nothing on n1, n2"),
        (["mlx5_0", "mlx5_1"], MLX, "mlx5_1 carried nothing on n1, n2"),  # is not there
        (["mlx5_0", "mlx5_1"], [RAILS[0], adapter("mlx5_1:1", None)], None),  # is not counted
    ],
)
def test_a_claimed_network_that_was_not_used(claimed, host, says):
    unused = adapters.unused(launch(host, host), claimed)
    assert bool(unused) == (says is not None)
    assert says is None or says in unused


def test_rails_of_a_launch_with_fewer_ranks_than_rails_are_not_judged():
    claimed = ["mlx5_0", "mlx5_1"]
    assert adapters.unused(launch(ONE_RAIL, ONE_RAIL, ranks_per_node=1), claimed) == ""
    unused = adapters.unused(launch(RAILS, ONE_RAIL, ranks_per_node=2), claimed)
    assert unused.endswith("mlx5_1 carried nothing on n2")


@pytest.mark.parametrize(
    "result",
    [
        launch(TCP),  # one node
        launch(TCP, TCP, payload=None),  # emulated nodes
        launch(TCP, TCP, payload=1e5),  # less than what else a node sends
        {"layout": {"ranks_per_node": 8}},  # of an earlier kernel
    ],
)
def test_what_cannot_be_seen_is_not_judged(result):
    assert adapters.unused(result, ["mlx5_0"]) == ""
    assert adapters.carriers(result) == []


def faults(*hosts, **how):
    return [clause(reason) for reason in adapters.faults(launch(*hosts, **how))]


def with_errors(**errors):
    return [adapter("mlx5_0:1", 1.0, errors=errors)]


SICK = with_errors(symbol_error=5)
USUAL = [with_errors(hni_pcs_uncorrected_cw=count) for count in (90, 110, 80, 300)]
ETH1_DOWN = adapter("eth1", 0.0, "ethernet", state="down", errors={"rx_errors": 5})


@pytest.mark.parametrize(
    ("hosts", "how", "says"),
    [
        (
            [MLX, MLX, MLX, with_errors(symbol_error=12, link_downed=1)],
            {},
            ["n4: errors of adapter mlx5_0:1 grew: symbol_error by 12, link_downed by 1"],
        ),
        # both ends of a cable; and on two nodes none is the measure of the other
        ([MLX, MLX, MLX, SICK, SICK], {}, ["n4: errors", "n5: errors"]),
        ([SICK, SICK], {}, ["n1: errors", "n2: errors"]),
        (USUAL, {}, []),
        ([*USUAL, with_errors(hni_pcs_uncorrected_cw=9000)], {}, ["n5: errors"]),
        ([RAILS, RAILS, ONE_RAIL[:1]], {}, ["n3: adapter mlx5_1:1 is missing"]),
        ([MLX, MLX, [*MLX, ETH1_DOWN]], {}, []),  # idle beside a fast network
        ([[eth(1.0)]] * 3, {"losses": (0, 20, 3e4)}, ["n3: TCP sent 3.00% of its segments again"]),
        ([[eth(1.0)]] * 3, {"losses": (0, 0, 20)}, []),
        ([[eth(1.0)]] * 3, {"losses": (0, 0, 3e4), "payload": 1e5}, []),
        ([[eth(1.0)]] * 2, {"losses": (0, 3e4)}, []),  # whose link loses is not known
        ([[eth(1.0)]] * 6, {"losses": (3e4, 2e4, 1.5e4, 2e4, 3e4, 2e4)}, []),  # all of them
    ],
)
def test_adapters_with_errors_or_losses_are_named(hosts, how, says):
    reasons = faults(*hosts, **how)
    assert len(reasons) == len(says)
    assert all(map(str.startswith, reasons, says))


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"rate": 100}, "adapter mlx5_0:1 has 100 Gb/s, that of most other nodes has 200 Gb/s"),
        ({"firmware": "28.35"}, "has firmware 28.35, that of most other nodes has firmware 28.39"),
        ({"state": "down"}, "adapter mlx5_0:1 is down, that of most other nodes is active"),
    ],
)
def test_the_odd_adapter_is_named(facts, says):
    odd = [adapter("mlx5_0:1", 1.0, **facts)]
    (told,) = faults(MLX, odd, MLX)
    assert told.startswith("n2: ")
    assert says in told
    assert len(faults(MLX, odd)) == ("firmware" not in facts)  # of two nodes, the worse is odd


@pytest.mark.parametrize("count", [3, 4, 6, 12, 40])
def test_a_lossy_link_is_told_from_those_that_send_to_it(count):
    """In an all-to-all each host has an equal share of the segments that it loses of others."""
    losses = [3e4 / (count - 1)] * count
    losses[1] = 3e4
    (says,) = faults(*[[eth(1.0)]] * count, losses=losses)
    assert says.startswith("n2: TCP sent 3.00%")


def test_kinds_are_those_of_results():
    schema = json.loads((ROOT / "checks/bisection/kernels/result.schema.json").read_text())
    listed = schema["properties"]["adapters"]["items"]["properties"]["list"]["items"]
    assert sorted(listed["properties"]["kind"]["enum"]) == sorted([*adapters.IP, *adapters.RDMA])


@pytest.mark.parametrize("count", [2, 3, 4, 9, 10])
def test_what_is_usual_for_all_others_is_their_median(count):
    values = {name: name * 7 % 5 / count for name in range(count)}  # some are equal
    others = {name: statistics.median(values[n] for n in values if n != name) for name in values}
    assert adapters._of_others(values) == pytest.approx(others)
