"""Slow hosts of a launch, by its result: their clocks, what they wrote, and what the kernel noise
found."""

import contextlib
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bisection.core.grouping import grouped
from bisection.core.reasons.machines import (
    BusyCores,
    FaultyMemory,
    HostFault,
    MemoryErrors,
    SlowClock,
    SlowCores,
    SlowLoad,
    SlowMemory,
    SlowWriter,
    Throttled,
)
from bisection.core.thresholds import LIMITS, MAD
from bisection.kernels import layouts, results
from bisection.kernels.launch_record import LaunchRecord
from bisection.runs.run_verdict import RunVerdict, TestResult


def with_slow_hosts(run: RunVerdict) -> RunVerdict:
    """The run, in which the records of launches name the hosts that were slow, by the results that
    ReFrame left."""
    records = {}
    for case in run.cases:
        if case.is_launch and case.record.controls:  # it gave an answer
            records[id(case.record)] = _judged(case)
    judged = (replace(c, record=records.get(id(c.record), c.record)) for c in run.cases)
    return replace(run, cases=tuple(judged))


def _judged(launch: TestResult) -> LaunchRecord:
    record = launch.record
    for folder in launch.folders:
        with contextlib.suppress(results.ResultError):  # of two folders one has it
            result = results.load(Path(folder, "result.json"), record.kernel)
            slow = (*slow_hosts(result), *slow_writers(result), *burnt_hosts(result))
            return replace(record, host_faults=(*slow, *record.host_faults))
    return record


def slow_hosts(result: results.Result) -> list[HostFault]:
    """The hosts with a slow clock (SLOW_CLOCK), and those that the kernel noise found slow:
    SLOW_CORES (a core needs long for the work that all do), SLOW_MEMORY (of one core, or of all
    at once; not of a launch that was disturbed), BUSY_CORES (other processes used the cores of
    few nodes)."""
    nodes = result.get("details", {}).get("noise") or []
    # Cores share the memory: nodes with as many at work can be compared.
    cores = statistics.multimode(node["cores"] for node in nodes)
    nodes = [node for node in nodes if node["cores"] == cores[0]]
    faults: list[HostFault] = [*slow_clocks(result)]
    lost = {node["host"]: node["lost"] for node in nodes if node["lost"] is not None}
    # Where most nodes lose nothing, others had the cores of those that do.
    if lost and (median := statistics.median_low(lost.values())) <= LIMITS.lost_usual:
        most = {host: share for host, share in lost.items() if share > LIMITS.lost_most}
        faults += [BusyCores(host=h, lost=share, median=median) for h, share in most.items()]
    speeds = {n["host"]: 1 / n["quantum"] for n in nodes if n["quantum"]}
    for host, speed, median in _slow_nodes(speeds):
        faults.append(SlowCores(host=host, seconds=1 / speed, median=1 / median))
    if results.disturbed(result) > LIMITS.disturbed_launch:
        return faults
    for name, at_once in (("copy_core", 1), ("copy_node", cores[0] if cores else 0)):
        rates = {node["host"]: node[name] for node in nodes if node[name]}
        for host, rate, median in _slow_nodes(rates):
            faults.append(SlowMemory(host=host, rate=rate, median=median, cores=at_once))
    return faults


def _slow_nodes(speeds: Mapping[str, float]) -> list[tuple[str, float, float]]:
    """Returns what `_slow` gives, by the spread of the nodes where they are enough to show it."""
    if len(speeds) < LIMITS.pair_nodes:
        return _slow(speeds)
    middle, least = slow_limit([*speeds.values()])
    slow = [(host, speed, middle) for host, speed in speeds.items() if speed < least]
    return sorted(slow, key=lambda item: item[1])


def slow_limit(speeds: Sequence[float]) -> tuple[float, float]:
    """The median speed of alike nodes, and the speed below which one is slow, by their spread where
    they are enough to show it. The limit is for two launches, in both of which chance puts one of
    the nodes beyond it (LIMITS.pair_chance)."""
    if len(speeds) < LIMITS.pair_nodes:
        middle = statistics.median_high(speeds)
        return middle, LIMITS.slow_clock * middle
    middle = statistics.median(speeds)
    below = [math.log(middle / speed) for speed in speeds]
    # Several slow nodes are how these nodes are: of heavy tails, of two states.
    tenth = statistics.quantiles(sorted(below)[:-1], n=10, method="inclusive")[-1]
    spread = max(MAD * statistics.median(map(abs, below)), tenth / 1.2816)
    chance = math.sqrt(LIMITS.pair_chance / len(speeds))
    limit = statistics.NormalDist().inv_cdf(1 - chance) * max(spread, LIMITS.pair_resolution)
    least = min(max(math.log1p(LIMITS.margin), limit), math.log(LIMITS.slow_gross))
    return middle, middle * math.exp(-least)


def _slow(speeds: Mapping[Any, float]) -> list[tuple[Any, float, float]]:
    """Returns what is far below the median, slowest first: name, speed, median. Of two equal halves
    the faster is the median."""
    median = statistics.median_high(speeds.values()) if speeds else 0.0
    slow = [(name, v, median) for name, v in speeds.items() if v < LIMITS.slow_clock * median]
    return sorted(slow, key=lambda item: item[1])


def slow_writers(result: results.Result) -> list[SlowWriter]:
    """SLOW_WRITER for the rank that takes far longer than the others to write a restart file, by
    all methods in which each rank writes what it holds; of several hosts."""
    listed = (entry["metrics"].get("imbalance") for entry in result["results"])
    ratios = [metric for metric in listed if metric and "rank" in metric]
    slowest = {metric["rank"] for metric in ratios}
    if result["kernel"] != "restart" or len(slowest) != 1 or len(results.hosts(result)) < 2:
        return []
    rank, ratio = slowest.pop(), min(metric["value"] or 0.0 for metric in ratios)
    host = layouts.host_of(layouts.places(result["layout"]), rank)
    slow = ratio > LIMITS.slow_writer
    return [SlowWriter(host=host, rank=rank, ratio=ratio)] if host and slow else []


def slow_clocks(result: results.Result) -> list[SlowClock]:
    """SLOW_CLOCK for the slowest rank of each host on which a rank's clock is far below the
    median clock of the launch's ranks on the same kind of core: a processor may have slow ones by
    design. A rank whose threads may be on cores of several kinds is not judged.

    Of a launch that other processes disturbed, a rank's clock must be slow before and after: each
    reading is the best of many attempts, of which processes spare some. A limit on the processor
    time of a host's processes (a control group's quota) is not seen by the clock:
    src/common/host.h.
    """
    shared = results.disturbed(result) > LIMITS.disturbed_launch
    readings = (filter(None, pair) for pair in zip(*result["layout"]["ghz"], strict=True))
    pairs = ((rank, [*pair]) for rank, pair in enumerate(readings))
    clocks = {rank: (max if shared else min)(pair) for rank, pair in pairs if len(pair) > shared}
    taken = layouts.places(result["layout"])
    kinds = dict(pair for p in taken if p.kinds for pair in zip(p.ranks, p.kinds, strict=True))
    alike = grouped(clocks, lambda rank: kinds.get(rank, ""))
    alike.pop(layouts.ANY_KIND, None)
    below = [item for ranks in alike.values() for item in _slow({r: clocks[r] for r in ranks})]
    slow: dict[str, SlowClock] = {}
    if below:
        seats = {r: (p.host, p.cpus[at]) for p in taken for at, r in enumerate(p.ranks)}
    for rank, ghz, median in sorted(below, key=lambda item: item[1] / item[2]):
        (host, cpus), kind = seats[rank], kinds.get(rank, "")
        fault = SlowClock(host=host, rank=rank, cpus=cpus, ghz=ghz, median=median, kind=kind)
        slow.setdefault(host, fault)
    return [*slow.values()]


def burnt_hosts(result: results.Result) -> list[HostFault]:
    """What the kernel burn found: THROTTLED, of hosts whose rate fell within the launch;
    MEMORY_ERRORS and FAULTY_MEMORY; SLOW_LOAD, of steady hosts that are slower than others with
    the same processor (not of a launch that was disturbed).

    A fallen rate is judged in a disturbed launch, too, if its beginning was not disturbed: what
    takes the cores of a node after a minute, such as a control group's quota, is a fault of it. A
    clock that fell is so whatever other processes do.
    """
    methods = result.get("details", {}).get("burn") or {}
    fallen: dict[str, list[tuple[float, str, Mapping[str, Any]]]] = {}
    waited = {method: _waited(result, method) for method in methods}
    usual: dict[str, float | None] = {}
    errors: dict[str, tuple[float, float]] = {}
    for method, burnt in methods.items():
        nodes = [node for node in burnt["nodes"] if node.get("first") and node.get("last")]
        parts = [node["last"] / node["first"] for node in nodes]
        usual[method] = statistics.median(parts) if len(parts) > 1 else None
        for part, node in zip(parts, nodes, strict=True):
            quiet = waited[method][0] <= LIMITS.disturbed_confirm
            if part < LIMITS.sustained and (quiet or _clock_fell(node)):
                fallen.setdefault(node["host"], []).append((part, method, node))
        for node in burnt["nodes"]:
            counts = (node.get("corrected_errors", 0), node.get("uncorrected_errors", 0))
            errors[node["host"]] = max(counts, errors.get(node["host"], counts))
    faults: list[HostFault] = []
    for host, fell in fallen.items():
        fell.sort(key=lambda item: item[0])
        _, worst, node = fell[0]
        faults.append(
            Throttled(
                host=host,
                kept=tuple((method, part) for part, method, _ in fell),
                median=usual[worst],
                clock=tuple(node[at] for at in ("clock_first", "clock_last") if node.get(at)),
                temperature=node.get("temperature"),
                events=node.get("throttled", 0.0),
                waited=waited[worst][1],
            )
        )
    for host, (corrected, uncorrected) in errors.items():
        if corrected or uncorrected:
            bad = uncorrected or corrected >= LIMITS.memory_errors
            kind = FaultyMemory if bad else MemoryErrors
            faults.append(kind(host=host, corrected=corrected, uncorrected=uncorrected))
    if results.disturbed(result) > LIMITS.disturbed_launch:
        return faults
    models = {name: group["cpu"] for group in result["hosts"] for name in group["names"]}
    for method, burnt in methods.items():
        alike = grouped(burnt["nodes"], lambda node: (models.get(node["host"]), node["cores"]))
        for nodes in alike.values():
            rates = {node["host"]: node["rate"] for node in nodes if node["host"] not in fallen}
            for host, rate, median in _slow_nodes(rates):
                of_host = {"host": host, "method": method, "unit": burnt["unit"]}
                faults.append(SlowLoad(**of_host, rate=rate, median=median))
    return faults


def _clock_fell(node: Mapping[str, Any]) -> bool:
    first, last = node.get("clock_first"), node.get("clock_last")
    return bool(first and last) and last < LIMITS.sustained * first


def _waited(result: results.Result, method: str) -> tuple[float, float]:
    """The part of the first and of the last third of a method's samples in which a thread had no
    core; 0 where it does not disturb a sample."""
    samples = next(entry["samples"] for entry in result["results"] if entry["method"] == method)
    third = max(1, len(samples["seconds"]) // 3)
    parts = []
    for ends in (slice(third), slice(-third, None)):
        part = sum(filter(None, samples["waited"][ends])) / sum(samples["seconds"][ends])
        parts.append(min(part, 1.0) if part > LIMITS.disturbed_sample else 0.0)
    return parts[0], parts[1]
