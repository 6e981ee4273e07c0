"""Slow nodes and faulty adapters, by all that shows them."""

import contextlib
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from bisection.core.reasons import SLOW_HOSTS, Code, Reason
from bisection.core.thresholds import LIMITS, MAD
from bisection.judge.evidence import Evidence
from bisection.kernels import results
from bisection.runs.model import RunVerdict, TestResult


def rule(verdict: RunVerdict, evidence: Evidence) -> RunVerdict:
    """Names nodes that are slow, and those that may be: by the times of many launches, by their
    clock in a third of their launches, by what they did alone in all of them.

    A node is suspect if it was slow in the only launch that can show it. Of a run on one host
    nothing is compared.
    """
    rerun = evidence.retest and evidence.retest.rerun
    named = [Code.SLOW_NODE(**asdict(suspect)) for suspect in evidence.nodes]
    faults = faulty_hosts([*verdict.cases, *(rerun.cases if rerun else ())])
    several = len({host for case in verdict.cases for host in case.record.hosts}) > 1
    slow = [reason for reason in faults if several and reason.code in SLOW_HOSTS]
    least, shares = LIMITS.slow_launches, {Code.SLOW_CLOCK: 1 / 3}
    sure = [r for r in slow if r["launches"] >= max(least, shares.get(r.code, 1) * r["of"])]
    suspect = [r for r in slow if r["launches"] < least > r["of"]]
    return verdict.noting(
        remarks=[*faults, *named], slow_nodes=[*named, *sure], suspect_nodes=suspect
    )


def faulty_hosts(cases: Sequence[TestResult]) -> list[Reason]:
    """The hosts that were slow in a launch, or whose adapters were faulty: of each fault the last,
    and in how many launches."""
    launches = [case for case in cases if case.fixture and case.record.controls.get("clock")]
    known: dict[tuple[Any, ...], list[Reason]] = defaultdict(list)
    for reason in (reason for case in launches for reason in case.host_faults):
        part = (reason["adapter"] or "", reason["fact"] or "", reason["cores"] or 0)
        known[reason["host"], reason.code, part].append(reason)
    remarks = []
    for (host, code, _), reasons in sorted(known.items()):
        shown = [case.record for case in launches if host in case.record.hosts]
        if code in SLOW_HOSTS - {Code.SLOW_CLOCK}:
            shown = [record for record in shown if record.kernel == "noise"]
        if code == Code.TCP_LOSSES:
            # Of two hosts neither is named; of noise there is no traffic. A lossy link loses in
            # every launch that uses it; a queue that overflowed once is no fault.
            shown = [r for r in shown if len(r.hosts) > 2 and r.kernel != "noise"]
            if 2 * len(reasons) < len(shown):
                continue
        remarks.append(reasons[-1].with_values(launches=len(reasons), of=len(shown)))
    return remarks


# ---- what a launch shows ----


def seen(run: RunVerdict) -> RunVerdict:
    """The run as it was read, whose launches name the hosts that their results show to be slow."""
    return replace(run, cases=[_seen(case) if case.fixture else case for case in run.cases])


def _seen(launch: TestResult) -> TestResult:
    for folder in launch.folders if launch.record.controls else ():
        with contextlib.suppress(results.ResultError):
            slow = slow_hosts(results.load(Path(folder, "result.json"), launch.record.kernel))
            return replace(launch, slow_hosts=slow)
    return launch


def slow_hosts(result: results.Result) -> list[Reason]:
    """The hosts with a slow clock (SLOW_CLOCK), and those that the kernel noise found slow:
    SLOW_CORES (a core needs long for the work that all do), SLOW_MEMORY (of one core, or of all
    at once; not of a launch that was preempted), BUSY_CORES (other processes used the cores of
    few nodes)."""
    nodes = result.get("details", {}).get("noise") or []
    # Cores share the memory: nodes with as many at work can be compared.
    cores = statistics.multimode(node["cores"] for node in nodes)
    nodes = [node for node in nodes if node["cores"] == cores[0]]
    reasons = slow_clocks(result) + _busy(nodes)
    speeds = {n["host"]: 1 / n["quantum"] for n in nodes if n["quantum"]}
    for host, speed, median in _slow_nodes(speeds):
        reasons.append(Code.SLOW_CORES(host=host, seconds=1 / speed, median=1 / median))
    if results.preempted(result) > LIMITS.preempted_launch:
        return reasons
    for name, at_once in (("copy_core", 1), ("copy_node", cores[0] if cores else 0)):
        rates = {node["host"]: node[name] for node in nodes if node[name]}
        for host, rate, median in _slow_nodes(rates):
            values = {"rate": rate, "median": median, "cores": at_once}
            reasons.append(Code.SLOW_MEMORY(host=host, **values))
    return reasons


def _busy(nodes: Sequence[Mapping[str, Any]]) -> list[Reason]:
    """The nodes whose cores others had, where most nodes had theirs for themselves."""
    lost = {node["host"]: node["lost"] for node in nodes if node["lost"] is not None}
    if not lost or (median := statistics.median_low(lost.values())) > LIMITS.lost_usual:
        return []
    most = {host: share for host, share in lost.items() if share > LIMITS.lost_most}
    return [Code.BUSY_CORES(host=host, lost=share, median=median) for host, share in most.items()]


def _slow_nodes(speeds: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """Returns what `_slow` gives, by the spread of the nodes where they are enough to show it: its
    limit is for two launches, in both of which chance puts one of the nodes beyond it
    (LIMITS.pair_chance)."""
    if len(speeds) < LIMITS.pair_nodes:
        return _slow(speeds)
    middle = statistics.median(speeds.values())
    below = {host: math.log(middle / speed) for host, speed in speeds.items()}
    # Several slow nodes are how these nodes are: of heavy tails, of two states.
    tenth = statistics.quantiles(sorted(below.values())[:-1], n=10, method="inclusive")[-1]
    spread = max(MAD * statistics.median(map(abs, below.values())), tenth / 1.2816)
    chance = math.sqrt(LIMITS.pair_chance / len(speeds))
    limit = statistics.NormalDist().inv_cdf(1 - chance) * max(spread, LIMITS.pair_resolution)
    least = min(max(math.log1p(LIMITS.margin), limit), math.log(LIMITS.slow_gross))
    slow = [host for host in sorted(below, key=below.get, reverse=True) if below[host] > least]
    return [(host, speeds[host], middle) for host in slow]


def _slow(speeds: Mapping[Any, float]) -> list[tuple[Any, float, float]]:
    """Returns what is far below the median, slowest first: name, speed, median. Of two equal halves
    the faster is the median."""
    median = statistics.median_high(speeds.values()) if speeds else 0.0
    slowest = sorted(speeds.items(), key=lambda item: item[1])
    return [(name, v, median) for name, v in slowest if v < LIMITS.slow_clock * median]


def slow_clocks(result: results.Result) -> list[Reason]:
    """SLOW_CLOCK for the slowest rank of each host on which a rank's clock is far below the
    launch's median clock.

    Of a launch that other processes preempted, a rank's clock must be slow before and after: each
    reading is the best of many attempts, of which processes spare some. A limit on the processor
    time of a host's processes (a control group's quota) is not seen by the clock:
    src/common/host.h.
    """
    shared = results.preempted(result) > LIMITS.preempted_launch
    ranks = {r["rank"]: r for _, r in results.clocks(result) if not shared or len(r["ghz"]) > 1}
    clocks = {number: (max if shared else min)(rank["ghz"]) for number, rank in ranks.items()}
    slow: dict[str, Reason] = {}
    for number, ghz, median in _slow(clocks):
        at = {name: ranks[number][name] for name in ("host", "rank", "cpus")}
        slow.setdefault(at["host"], Code.SLOW_CLOCK(**at, ghz=ghz, median=median))
    return [*slow.values()]
