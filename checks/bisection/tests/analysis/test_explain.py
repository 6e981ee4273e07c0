"""The network explains slower codes: made-up machines on which one primitive got worse."""

import re

import numpy as np
import pytest
from made_up import case, row, sessions, store
from reports import only

from bisection.analysis.events import events_of
from bisection.analysis.explain import explain_points
from bisection.analysis.histories import histories
from bisection.analysis.night_tables import tables_of
from bisection.core.identity import Geometry
from bisection.core.reasons.performance import NetworkExplains, SharedChange
from bisection.core.verdicts import Verdict
from bisection.kernels import fits
from bisection.kernels.results import point_label
from bisection.report import words
from bisection.report.comparison_text import comparison_text, history_text
from bisection.report.sections import sections

GEOMETRY = Geometry(8, 16, 1)
SIZES = [8 << power for power in range(18)]
# Codes: check, method, what stands for its calls, fraction of the time, bytes per message, peers.
CODES = {
    "short": ("transpose", "collective", 0.5, 512, 127),
    "long": ("transpose", "collective", 0.5, 262144, 127),
    "alone": ("transpose", "collective", 0.01, 512, 127),
    "halo": ("md", "p2p", 0.4, 4096, 1),
    "sums": ("npar", "collective", 0.3, 64, 1),
}


class Network:
    """Latency (s) and bandwidth (B/s) of a message, s that those of 1 to 64 KiB take longer, and a
    factor of each collective."""

    def __init__(self, latency=2e-6, bandwidth=10e9, middle=0.0, slow=()):
        self.latency, self.bandwidth, self.slow = latency, bandwidth, dict(slow)
        self.middle = middle

    def seconds(self, method, size):
        steps = {"pingpong": 1, "alltoallv": 127, "halo": 6, "allreduce": 7}[method]
        latency = self.latency + self.middle * (1024 <= size <= 65536)
        return self.slow.get(method, 1) * steps * (latency + size / self.bandwidth)


def night(rng, network, first, cores=1.0, once=False):
    """The tests of a session: patterns, and codes that were calibrated on the network `first`;
    `once`: they exchange once, and wait for slower ranks in the same call."""

    def noisy(value, sigma=0.02):
        return float(value * np.exp(rng.normal(0, sigma)))

    cases = []
    for method in ("pingpong", "alltoallv", "halo", "allreduce"):
        times = {s: noisy(network.seconds(method, s)) for s in SIZES}
        metrics = {f"time_{point_label({'bytes': s})}": t for s, t in times.items()}
        fitted = fits.metrics(times)
        metrics |= {n: [m["value"], m["unit"], m["better"]] for n, m in fitted.items()}
        cases.append(case(method, metrics, check="network", case="sweep", geometry=str(GEOMETRY)))
    for name, (check, calls, share, size, peers) in CODES.items():
        method = {"md": "halo", "npar": "allreduce"}.get(check, "alltoallv")
        network_part = share * network.seconds(method, size) / first.seconds(method, size)
        time = noisy(1e-2 * ((1 - share) * cores + network_part), 0.01)
        if once:
            time = noisy(share * 1e-2 * cores + network.seconds(method, size), 0.01)
        metrics = {
            "time": time,
            f"{calls}_share": [share, "fraction", "lower"],
            f"{calls}_size": [size, "B/message", "lower"],
            f"{calls}_peers": [peers, "messages/call", "lower"],
        }
        if once:  # the rest of the time inside calls is waiting
            metrics[f"{calls}_calls"] = [1.0, "calls", "lower"]
        cases.append(case(name, metrics, check=check, case="silicon", geometry=str(GEOMETRY)))
    return cases


def pair(rng, after, cores=1.0, count=12, **how):
    old = Network()
    return [
        sessions(number, (night(rng, network, old, speed, **how) for _ in range(count)))
        for number, network, speed in ((0, old, 1.0), (100, after, cores))
    ]


def causes(result):
    return {r.method: r.cause for r in result.rows if r.check != "network" and r.cause}


def test_latency_explains_the_codes_of_short_messages(rng, compared):
    result = compared(*pair(rng, Network(latency=2e-6 * 2.8)))
    named = causes(result)
    for name, share in (("short", 0.5), ("halo", 0.4), ("sums", 0.3)):
        cause = named[name]
        assert isinstance(cause, NetworkExplains)
        assert cause.cause == "latency"
        assert cause.change == pytest.approx(1.8, rel=0.1)
        excess = row(result, name).slowdown - 1
        assert cause.points == pytest.approx(excess, rel=0.2), name
        assert cause.points <= share * 1.8 * 1.1
    assert named["long"].points < 0.1  # 28 us per block: latency is a fourteenth of that
    assert row(result, "alone").verdict != Verdict.REGRESSED
    text = comparison_text(result)
    assert "latency +1" in "\n".join(text)
    assert max(map(len, text)) <= 100


def test_waiting_inside_calls_is_not_of_the_network(rng, compared):
    """One exchange of 127 short messages, 0.26 ms, in a code of 5 ms that waits half of its time in
    the call. The cores got slower too: the network adds what the exchange takes longer."""
    old, new = Network(), Network(latency=2e-6 * 9)
    result = compared(*pair(rng, new, cores=1.4, once=True))
    cause = causes(result)["short"]
    excess = row(result, "short").slowdown - 1
    assert cause.of == pytest.approx(excess)
    added = 127 * (new.latency - old.latency) / (5e-3 + old.seconds("alltoallv", 512))
    assert cause.points == pytest.approx(added, rel=0.1)
    assert cause.points < 0.6 * excess


@pytest.mark.parametrize(
    ("after", "code", "cause", "change", "left_alone"),
    [
        ({"bandwidth": 7e9}, "long", "bandwidth", -0.3, ""),
        # Of messages of one size, as where an MPI library changes its protocol at another size.
        ({"middle": 5e-6}, "halo", "message", 5 / 2.4, "short"),
        ({"slow": {"alltoallv": 1.6}}, "short", "pattern", 0.6, "sums"),
    ],
)
def test_what_got_worse_is_the_cause(rng, compared, after, code, cause, change, left_alone):
    result = compared(*pair(rng, Network(**after)))
    reason = causes(result)[code]
    assert (type(reason), reason.cause) == (NetworkExplains, cause)
    assert reason.change == pytest.approx(change, abs=0.05, rel=0.1)
    assert reason.points == pytest.approx(row(result, code).slowdown - 1, rel=0.25)
    assert left_alone not in causes(result)


def test_slower_cores_are_not_explained_by_the_network_nor_anything_without_patterns(rng, compared):
    before, after = pair(rng, Network(), cores=1.4)
    result = compared(before, after)
    cause = causes(result)["short"]
    nothing = r"does not explain it: alltoallv at 512 B, 50% of the time, gives [01] of (19|20|21)"
    assert re.search(nothing, str(cause)), cause
    count = "the network explains 0 of 5 slower codes"
    assert words.sentence(result).endswith(count)
    before, after = (
        sessions(first, [[c for c in cases if c["check"] != "network"] for _, cases in side])
        for first, side in ((200, before), (300, after))
    )
    assert causes(compared(before, after)) == {}


def test_codes_stand_above_the_network_that_explains_them(rng, compared):
    """Each once, also where all metrics of a kernel are one finding."""
    result = compared(*pair(rng, Network(latency=2e-6 * 2.8)))
    size = {"ratio": 1.1, "low": 1.0, "high": 1.2, "metrics": 2, "of": 2}
    shared = SharedChange(place="lab:cpu", kernel="transpose", **size)
    for each in result.rows:
        if each.check == "transpose":  # as those of a kernel that is slower as a whole
            each.reason = shared
    text = comparison_text(result)
    codes = text.index("slower codes, and what of it the network explains on lab:cpu system:")
    network = text.index("regressed on lab:cpu system:")
    for name in ("transpose silicon mpi short", "npar silicon mpi sums", "md silicon mpi halo"):
        (line,) = [i for i, line in enumerate(text) if line.strip().startswith(name)]
        assert codes < line < network
    assert words.sentence(result).endswith("the network explains 4 of 4 slower codes")
    worse = next(s for s in sections(only(comparison=result)) if s.id == "worse")
    assert worse.tables[0].title == "Slower codes, and what of it the network explains"
    assert len(worse.tables[0].rows) == 4
    assert {row[1].split()[0] for row in worse.tables[1].rows} == {"network"}


@pytest.mark.parametrize(
    ("noise", "verdict", "slower"), [(1, Verdict.INCONCLUSIVE, 4), (0.001, Verdict.UNCHANGED, 3)]
)
def test_the_fastest_sample_counts_where_the_time_is_left_open(
    rng, compared, noise, verdict, slower
):
    """Neighbours disturb every time, and seldom the fastest sample of a launch."""
    sides = pair(rng, Network(latency=2e-6 * 2.8))
    for side in sides:
        for _, cases in side:
            metrics = next(c for c in cases if c["method"] == "short")["metrics"]
            seconds, *unit = metrics["time"]
            metrics["time_min"] = [seconds, *unit]
            usual = seconds if verdict == Verdict.INCONCLUSIVE else 10e-3
            metrics["time"] = [usual * np.exp(rng.normal(0, noise)), *unit]
    result = compared(*sides)
    assert row(result, "short", "time").verdict == verdict
    assert row(result, "short", "time").cause is None
    assert bool(row(result, "short", "time_min").cause) == (slower == 4)
    count = f"the network explains {slower} of {slower} slower codes"
    assert words.sentence(result).endswith(count)


def test_history_sets_a_step_against_the_network(rng, tmp_path):
    before, after = pair(rng, Network(latency=2e-6 * 2.8), count=20)
    with store(tmp_path / "store.db", before, after) as filled:
        chosen = filled.sessions()
        past = histories(filled, chosen)
        events, _ = events_of(tables_of(past, chosen))
        points = [point for event in events for point in event.points]
        explain_points(points, chosen, filled)
    named = {p.method: p.cause for p in points if p.check != "network"}
    assert named["short"].cause == "latency"
    assert "latency +1" in "\n".join(history_text(events, past, len(chosen), all_metrics=True))
