"""Which hosts a launch shows to be slow."""

import statistics

import pytest
from fake_kernel import layout_of

from bisection.core.reasons.base import clause
from bisection.core.reasons.machines import (
    BusyCores,
    FaultyMemory,
    MemoryErrors,
    SlowCores,
    SlowLoad,
    SlowMemory,
    Throttled,
)
from bisection.judge.hosts import burnt_hosts, slow_clocks, slow_hosts, slow_writers
from bisection.kernels import results


def on_hosts(**hosts):
    """The part of a result that says at how many GHz each host's ranks ran: one reading, several,
    or one with the kind of core."""
    seats = []
    for host, rank in ((host, rank) for host, ranks in hosts.items() for rank in ranks):
        ghz, kind = rank if isinstance(rank, tuple) else (rank, "")
        ghz = ghz if isinstance(ghz, list) else [ghz]
        seats.append({"host": host, "ghz": ghz, "kind": kind})
    return {"layout": layout_of(seats), "results": []}


@pytest.mark.parametrize(
    ("clocks", "slow"),
    [
        ({"n1": [3.0], "n2": [3.0], "n3": [2.69]}, [("n3", 2)]),
        ({"n1": [3.0], "n2": [3.0], "n3": [2.71]}, []),
        # one slow core of many, after the measurement only
        ({"n1": [3.0] * 8, "n2": [*[3.0] * 7, [3.0, 2.5]]}, [("n2", 15)]),
        ({"n1": [3.0], "n2": [2.6]}, [("n2", 1)]),  # of two, the slower
        ({"n1": [2.0, 1.0], "n2": [3.0] * 5}, [("n1", 1)]),  # a host once, by its slowest rank
        ({"n1": [3.0]}, []),
        ({"n1": [[]], "n2": [[]]}, []),
    ],
)
def test_hosts_with_a_slow_clock(clocks, slow):
    result = on_hosts(**clocks)
    reasons = slow_clocks(result)
    assert [(reason.host, reason.rank) for reason in reasons] == slow
    if slow:
        assert results.controls(result) == ({"clock": reasons[0].ghz}, slow[0][0])


P, E = (3.9, "0"), (2.8, "1")  # GHz and kind of the cores of a hybrid processor


@pytest.mark.parametrize(
    ("hosts", "slow"),
    [
        ({"n1": [P] * 10 + [E] * 10}, {}),
        (dict.fromkeys(("n1", "n2"), [(2.4, "0")] * 4 + [(1.8, "1")] * 4), {}),
        # A slow one among its like, on both kinds; P at the clock of E is slow.
        ({"n1": [P] * 3 + [E] * 2 + [(2.4, "1")]}, {"n1": (5, 2.8)}),
        ({"n1": [P] * 3 + [E] * 3, "n2": [P] * 2 + [(2.8, "0")] + [E] * 3}, {"n2": (8, 3.9)}),
        ({"n1": [P] * 3 + [E] * 3, "n2": [P] * 3 + [(2.5, "1")] * 3}, {"n2": (9, 2.8)}),
        # A node with all of its clocks low is a slow node, not one of another kind.
        ({"n1": [P] * 2, "n2": [P] * 2, "n3": [(2.8, "0")] * 2}, {"n3": (4, 3.9)}),
        # Ranks over both kinds of core, each thread bound; and unbound, which says nothing.
        ({"n1": [(2.8, "0-1")], "n2": [(2.8, "0-1")], "n3": [(2.2, "0-1")]}, {"n3": (2, 2.8)}),
        ({"n1": [(3.9, "any"), (2.8, "any"), (3.9, "any")]}, {}),
    ],
)
def test_a_clock_is_judged_by_those_of_its_kind_of_core(hosts, slow):
    reasons = slow_clocks(on_hosts(**hosts))
    assert {r.host: (r.rank, r.median) for r in reasons} == slow
    for reason in reasons:
        assert f"that of such cores in the launch {reason.median:.2f} GHz" in clause(reason)


@pytest.mark.parametrize(
    ("before", "after", "slow"),
    [(1.6, 1.7, ["n2"]), (1.6, 3.0, []), (3.0, 1.6, []), (1.6, None, [])],
)
def test_a_clock_between_other_processes_must_be_slow_before_and_after(before, after, slow):
    readings = [ghz for ghz in (before, after) if ghz]
    result = on_hosts(n1=[[3.0, 3.1]], n2=[readings], n3=[[3.1, 3.0]])
    samples = {"seconds": [1, 1], "disturbed": [1, 0]}
    reasons = slow_clocks({**result, "results": [{"samples": samples}]})
    assert [reason.host for reason in reasons] == slow


def noise(**nodes):
    """A result of the kernel noise: of each node quantum (s), copy_core and copy_node (B/s), cores,
    the share of its time that others had."""
    names = ("quantum", "copy_core", "copy_node", "cores", "lost")
    entries = [
        {"host": host, "cores": 8, "lost": 0.001, **dict(zip(names, values, strict=False))}
        for host, values in nodes.items()
    ]
    return {**on_hosts(n1=[3.0]), "details": {"noise": entries}}


SOUND = (40e-6, 12e9, 180e9)


def copies(cores, rate):
    """The reason that these cores of n3 copy so many B/s."""
    median = SOUND[1] if cores == 1 else SOUND[2]
    return SlowMemory(host="n3", rate=rate, median=median, cores=cores)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (SOUND, []),
        ((44e-6, 11e9, 163e9), []),  # within 10%
        ((50e-6, 12e9, 180e9), [SlowCores(host="n3", seconds=50e-6, median=40e-6)]),
        ((40e-6, 12e9, 120e9), [copies(8, 120e9)]),
        ((40e-6, 6e9, 90e9), [copies(1, 6e9), copies(8, 90e9)]),
        ((40e-6, 24e9, 90e9, 4), []),  # with fewer cores at work
        ((None, None, 180e9), []),  # not measured
        ((*SOUND, 8, 0.45), [BusyCores(host="n3", lost=0.45, median=0.001)]),
    ],
)
def test_slow_nodes_are_named_by_what_is_slow(node, expected):
    result = noise(n1=SOUND, n2=SOUND, n3=node, n4=SOUND)
    reasons = slow_hosts(result)
    assert [type(reason) for reason in reasons] == [type(reason) for reason in expected]
    for reason, other in zip(reasons, expected, strict=True):
        assert vars(reason) == pytest.approx(vars(other))
    # Other processes disturb copies, not the best quantum.
    samples = {"seconds": [1, 1], "disturbed": [1, 1]}
    reasons = slow_hosts({**result, "results": [{"samples": samples}]})
    assert SlowMemory not in [type(reason) for reason in reasons]


def test_no_node_of_a_loud_machine_is_busy():
    busy = (*SOUND, 8, 0.45)
    assert slow_hosts(noise(n1=busy, n2=busy, n3=SOUND)) == []


@pytest.mark.parametrize("nodes", [5, 6, 32])
def test_the_spread_of_many_nodes_says_which_is_slow(nodes):
    """Of few nodes none that is within 10%; of many those far outside of their spread."""
    rates = [12e9 * (1 + 0.004 * (number % 5 - 2)) for number in range(nodes)]
    table = {f"n{k}": (40e-6, rate, 180e9) for k, rate in enumerate(rates)}
    table["n0"] = (40e-6, 12e9 / 1.08, 180e9)
    hosts = [reason.host for reason in slow_hosts(noise(**table))]
    assert hosts == ([] if nodes < 6 else ["n0"])
    for slow in range(0, nodes, 5):  # in two states, a fifth of them in the slow one
        table[f"n{slow}"] = (40e-6, 9e9, 180e9)
    if nodes == 32:
        assert slow_hosts(noise(**table)) == []
        table |= {f"n{slow}": (40e-6, 6e9, 180e9) for slow in range(0, nodes, 5)}  # half speed
        assert len(slow_hosts(noise(**table))) == 7


@pytest.mark.parametrize(
    ("ratios", "slowest", "hosts", "named"),
    [
        ((9.0, 5.0), (2, 2), ("n1", "n1", "n2"), ["n2"]),
        ((9.0, 2.0), (2, 2), ("n1", "n1", "n2"), []),  # of one method alone
        ((9.0, 5.0), (2, 0), ("n1", "n1", "n2"), []),
        ((9.0, 5.0), (2, 2), ("n1", "n1", "n1"), []),  # nothing to compare a host with
    ],
)
def test_a_rank_that_writes_slowly_by_all_methods_is_named_with_its_host(
    ratios, slowest, hosts, named
):
    methods = ("file-per-rank", "mpi-io-independent")
    values = zip(methods, ratios, slowest, strict=True)
    copy = {"method": "copy", "metrics": {}}
    listed = [
        {"method": m, "metrics": {"imbalance": {"value": v, "rank": r}}} for m, v, r in values
    ]
    result = {
        "kernel": "restart",
        "results": [*listed, copy],
        "layout": layout_of([{"host": host} for host in hosts]),
    }
    assert [reason.host for reason in slow_writers(result)] == named


def burnt(waited=0.0, before=0.0, models=None, **nodes):
    """A result of the kernel burn, of dgemm: of each node the rates of the first and the last
    minute, and what its sensors say. `before`, `waited`: the parts of the first and of the last
    samples in which a thread had no core."""
    entries = [
        {"host": host, "cores": 8, "rate": statistics.mean(rates), "first": rates[0],
         "last": rates[1], **sensors}
        for host, (rates, sensors) in nodes.items()
    ]  # fmt: skip
    samples = {"seconds": [1.0] * 9, "waited": [before] * 3 + [0.0] * 3 + [waited] * 3}
    samples["disturbed"] = [int(seconds > 0) for seconds in samples["waited"]]
    models = models or dict.fromkeys(nodes, "a processor")
    return {
        "results": [{"method": "dgemm", "samples": samples}],
        "hosts": [{"cpu": model, "names": [host]} for host, model in models.items()],
        "details": {"burn": {"dgemm": {"unit": "Gflop/s", "nodes": entries}}},
    }


STEADY = ((80.0, 79.0), {"clock_first": 2.6, "clock_last": 2.6})
HOT = {"clock_first": 2.6, "clock_last": 1.8, "temperature": 97.0, "throttled": 3}


def test_a_node_that_throttles_is_named_beside_its_peers_and_alone():
    for peers in ({}, {"n2": STEADY, "n3": STEADY}):
        (reason,) = burnt_hosts(burnt(n1=((80.0, 56.0), HOT), **peers))
        assert isinstance(reason, Throttled)
        usual = 79 / 80 if peers else None
        assert (reason.host, reason.kept, reason.median) == ("n1", (("dgemm", 0.7),), usual)
        assert (reason.clock, reason.temperature, reason.events) == ((2.6, 1.8), 97.0, 3)
        words = str(reason)
        assert "fell to 70% of that at the beginning" in words
        assert "2.60 to 1.80 GHz" in words
        assert ("on the median node" in words) is bool(peers)


def test_a_quota_is_seen_though_it_disturbs_the_launch():
    result = burnt(waited=0.5, n1=((80.0, 40.0), {"clock_first": 2.6, "clock_last": 2.6}))
    assert results.disturbed(result) > 0.3
    (reason,) = burnt_hosts(result)
    assert (reason.waited, reason.clock) == (0.5, (2.6, 2.6))
    assert "no core for 50%" in str(reason)
    # Neighbours that were there from the beginning, and are more now: nothing is known.
    assert burnt_hosts(burnt(waited=0.5, before=0.2, n1=((80.0, 40.0), {}))) == []
    # But no neighbour lowers the clock.
    (reason,) = burnt_hosts(burnt(waited=0.5, before=0.2, n1=((80.0, 40.0), HOT)))
    assert reason.clock == (2.6, 1.8)


@pytest.mark.parametrize(("slower", "named"), [(60.0, ["n2"]), (76.0, [])])
def test_a_steady_slower_node_does_not_throttle(slower, named):
    """Beside equal processors it is slow; of another processor nothing is said."""
    pair = {"n1": STEADY, "n2": ((slower, slower), {})}
    reasons = burnt_hosts(burnt(**pair))
    assert [reason.host for reason in reasons] == named
    assert all(isinstance(reason, SlowLoad) for reason in reasons)
    assert burnt_hosts(burnt(models={"n1": "new", "n2": "old"}, **pair)) == []


@pytest.mark.parametrize(
    ("corrected", "uncorrected", "kind"),
    [(0, 0, None), (1, 0, MemoryErrors), (10, 0, FaultyMemory), (0, 1, FaultyMemory)],
)
def test_errors_of_memory(corrected, uncorrected, kind):
    rates, sensors = STEADY
    counts = {"corrected_errors": corrected, "uncorrected_errors": uncorrected}
    reasons = burnt_hosts(burnt(n1=(rates, {**sensors, **counts}), n2=STEADY))
    assert [type(reason) for reason in reasons] == [kind] * bool(kind)


def test_a_short_launch_without_sensors_says_nothing():
    result = burnt(n1=STEADY)
    entry = {"host": "n1", "cores": 2, "rate": 80.0}
    result["details"]["burn"]["dgemm"]["nodes"] = [entry]
    assert burnt_hosts(result) == []
