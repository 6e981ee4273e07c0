"""Reading a kernel's result.json (result.schema.json) without trusting it."""

import itertools
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bisection.core.format import duration, finite, some
from bisection.core.reasons.launches import Starved, Stopped
from bisection.core.thresholds import LIMITS
from bisection.core.units import UNITS
from bisection.kernels import adapters, fits, layouts

SCHEMA, VERSION = "bisection-result", 5

Result = dict[str, Any]  # a result file
Entry = dict[str, Any]  # a method at one point: an element of its "results"
Metric = dict[str, Any]  # "value", "unit", "better", and for times "low", "high"


class ResultError(Exception):
    """The result file is not a complete result of the kernel; the text says why."""


def load(path: Path | str, kernel: str, case: str | None = None) -> Result:
    """The complete result of a kernel, and of a case if one is given.

    Raises:
        ResultError: there is no such file, or it is incomplete, or of another version, kernel or
            case.
    """
    try:
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
    except FileNotFoundError:
        raise ResultError(f"{kernel} wrote no result file") from None
    except (OSError, ValueError) as error:
        raise ResultError(f"cannot read {path}: {error}") from None
    if not isinstance(result, dict) or result.get("schema") != SCHEMA:
        raise ResultError(f"{path} is not a {SCHEMA} file")
    if (version := result.get("version")) != VERSION:
        raise ResultError(f"{path} has version {version!r}, and only {VERSION} can be read: rerun")
    for key, wanted in (("kernel", kernel), ("case", case)):
        if wanted is not None and (value := result.get(key)) != wanted:
            raise ResultError(f"{path} is of {key} {value!r}, not {wanted!r}")
    if (status := result.get("status")) != "complete":
        count = sum(bool(entry.get("samples")) for entry in result.get("results", []))
        measured = f"{kernel} measured {count} methods"
        raise ResultError(f"status is {status!r}, not 'complete': {measured}")
    return result


def of_method(result: Result, method: str) -> list[Entry]:
    """The entries of one method: one per point of a sweep, a single one of other kernels.

    Raises:
        ResultError: there are none.
    """
    entries = [entry for entry in result["results"] if entry["method"] == method]
    if not entries:
        raise ResultError(f"method {method} is missing from the results")
    return entries


def failed_checks(entry: Entry) -> list[str]:
    """Returns what verification found wrong with one entry; empty if it passed."""
    verification = entry.get("verification") or {"checks": []}
    if not verification["checks"]:
        return ["not verified: no check was made"]
    wrong = [_failed(check) for check in verification["checks"] if check["passed"] is not True]
    return wrong or ([] if verification["passed"] is True else ["verification did not pass"])


def _failed(check: Mapping[str, Any]) -> str:
    """What a check of an answer, or of a method's name, found wrong."""
    if "shown" not in check:
        tolerance = f"tolerance {_short(check['tolerance'])}"
        return f"{check['name']}: error {_short(check['error'])} {check['unit']}, {tolerance}"
    promised, most = _short(check["least"]), check["most"]
    if most is None:
        promised = f"at least {promised}"
    elif most > check["least"]:
        promised = f"{promised} to {_short(most)}"
    shown = f"{check['name']}: {_short(check['shown'])}"
    return f"not what its name says: {shown}, promised {promised}"


def _short(value: Any) -> str:
    if value is None:
        return "nan"
    return f"{value:.4g}" if isinstance(value, float) and not value.is_integer() else str(value)


def wrong_methods(result: Result) -> list[str]:
    """The applicable methods and baselines whose verification failed, in file order."""
    names = [e["method"] for e in result["results"] if e["applicable"] and failed_checks(e)]
    return list(dict.fromkeys(names))


def hosts(result: Result) -> list[str]:
    return sorted({node["host"] for group in result["layout"]["seats"] for node in group["nodes"]})


def facts(result: Result) -> dict[str, str]:
    """Returns what a launch ran on and with, by name: what may explain a change of its times."""
    build, model = result["build"], result.get("simulated")
    hollow = ", hollow" if model and model["hollow"] else ""
    texts = {
        "simulated": f"{model['machine']} by {model['by']}{hollow}" if model else "",
        "CPU": _of_hosts(result, "cpu"),
        "operating system's kernel": _of_hosts(result, "kernel"),
        "firmware": _of_hosts(result, "firmware"),
        "network": ", ".join(sorted(name for name, _ in adapters.carriers(result))),
        **_devices(result.get("layout", {}).get("devices", [])),
        "compiler": build["compiler"],
        "flags": build["flags"],
        "MPI": build["mpi"],
        "libraries": ", ".join(f"{name} {text}" for name, text in build["libraries"].items()),
        "kernels": f"{build['version']} {build['commit']} {build['build_type']}",
        "kernels' sources": build["sources"][:12],
    }
    return {name: text for name, text in texts.items() if text}


def _devices(groups: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The facts of a launch's devices: what they and their software are; where they are."""
    kinds, places = [], set()
    for group in groups:
        clock = f" {group['clock'] / 1e9:g} GHz" if group.get("clock") else ""
        software = f"{group['library']} {group['runtime']}, driver {group['driver']}"
        ffts = f", {group['ffts']}" if group.get("ffts") else ""
        kinds.append(f"{group['name']}{clock}, {software}{ffts}")
        for rank in group["ranks"]:
            near = f" NUMA {rank['numa']}" if rank.get("numa") is not None else ""
            near += f" near {rank['adapter']}" if rank.get("adapter") else ""
            places.add(f"{rank['id'].partition('/')[0]}{near}")  # a UUID is of one host's device
    aware = dict.fromkeys(group["aware"] for group in groups if group["aware"])
    return {
        "devices": " | ".join(dict.fromkeys(kinds)),
        "devices' places": ", ".join(sorted(places)),
        "MPI takes device addresses": ", ".join(aware),
    }


def _of_hosts(result: Result, name: str) -> str:
    """A fact of the hosts; where hosts differ, that of most, then the others with their hosts."""
    hosts: dict[str, list[str]] = {}
    for group in result["hosts"]:
        hosts.setdefault(group[name], []).extend(group["names"])
    first, *others = sorted(hosts, key=lambda text: (-len(hosts[text]), text))
    texts = [f"{text or '?'} ({some(hosts[text], 8)})" for text in others]
    return " | ".join([first or "?", *texts]) if others else first


def controls(result: Result) -> tuple[dict[str, float], str]:
    """Returns what measures the cores alone: under "clock" the GHz of a chain of dependent
    operations on the slowest rank (the slower of before and after), and the seconds of each
    baseline, which does not communicate. And the host of that rank, "" if no clock is known."""
    layout = result["layout"]
    clocks = [(ghz, rank) for column in layout["ghz"] for rank, ghz in enumerate(column) if ghz]
    values, slowest = {}, ""
    if clocks:
        clock, rank = min(clocks)
        values["clock"] = float(clock)
        slowest = layouts.host_of(layouts.places(layout), rank) or ""
    for entry in result["results"]:
        time = (entry.get("metrics") or {}).get("time")
        if entry.get("baseline") and time and unusable(time) is None:
            values[entry["method"]] = float(time["value"])
    return values, slowest


def disturbed(*results: Mapping[str, Any]) -> float:
    """The fraction of samples that kernels marked as disturbed, of all methods of these results."""
    samples = [entry["samples"] for result in results for entry in result["results"]]
    flags = [flag for columns in samples for flag in columns.get("disturbed", [])]
    return sum(flags) / len(flags) if flags else 0.0


def waited(result: Result) -> float:
    """The fraction of the time of samples in which a thread was ready to run and had no core."""
    columns = [entry["samples"] for entry in result["results"]]
    lost = sum(sum(filter(None, of_entry.get("waited", ()))) for of_entry in columns)
    took = sum(sum(of_entry.get("seconds", ())) for of_entry in columns)
    return min(lost / took, 1.0) if took else 0.0


def stopped(result: Result) -> Stopped | Starved | None:
    """Returns a reason if processes were stopped, or had no core, in few samples: all took many
    times what their medians add up to, and the processes ran for a part of the time. Where the
    network stalls, they wait running."""
    harness = result.get("harness") or {}
    if not harness.get("launch_s") or disturbed(result) > LIMITS.disturbed_launch:
        return None
    ran = harness.get("processor_s", math.inf) / harness["launch_s"]
    samples = [entry["samples"].get("seconds") for entry in result["results"]]
    medians = sum(len(seconds) * statistics.median(seconds) for seconds in samples if seconds)
    took = sum(map(sum, filter(None, samples)))
    factor = took / medians if medians else 1.0
    if factor < LIMITS.stopped or ran >= LIMITS.stopped_ran:
        return None
    lost = waited(result)
    if lost > (1 - ran) / 2:
        return Starved(ran=ran, waited=lost)
    return Stopped(ran=ran, waited=lost, factor=factor)


def late(result: Result) -> str | None:
    """Returns a sentence if a launch took many times its own estimate; None if it did not, or has
    none."""
    harness = result.get("harness") or {}
    seconds, claimed = harness.get("launch_s"), harness.get("claimed_s") or math.inf
    if not seconds or seconds < max(LIMITS.late * claimed, claimed + LIMITS.late_least):
        return None
    times = f"{seconds / claimed:.0f} times"
    return f"took {duration(seconds)}, {times} its estimate of {duration(claimed)}"


def point_label(point: dict[str, float] | None) -> str:
    """A sweep point in a metric's name: {"bytes": 2048} is "2KiB"; "" without a size."""
    if not point:
        return ""
    size, units = point["bytes"], {"MiB": 1 << 20, "KiB": 1 << 10, "B": 1}
    unit = next(name for name, factor in units.items() if size % factor == 0)
    return f"{size // units[unit]:.0f}{unit}"


def metrics(entries: Iterable[Entry]) -> dict[str, Metric]:
    """All metrics of one method's entries, by name; those of a sweep carry their point: time_8B.

    What explains the times is among them, in units that are not judged (core/units.py, CONTEXT):
    the time of all samples (time_all), shares of the time inside MPI, how far the ranks' starts are
    apart, and what is sent by the classes of calls. A sweep of sizes also has its fit.
    """
    flat, times = {}, {}
    for entry in entries:
        label = point_label(entry.get("point"))
        listed = entry.get("metrics") or {}
        if "time_all" in listed:
            listed = {**listed, "time_all": {**listed["time_all"], "unit": "seconds"}}
        for name, metric in {**listed, **_communication(entry)}.items():
            flat[f"{name}_{label}" if label else name] = metric
        size, time = (entry.get("point") or {}).get("bytes"), listed.get("time")
        if size and time and unusable(time) is None:
            times[size] = time["value"]
    return {**flat, **fits.metrics(times)}


def _communication(entry: Entry) -> dict[str, Metric]:
    """The fraction of a step that is spent in MPI, the mean over ranks, as a metric.

    Without a sweep also of each class of calls: the fraction of the time inside, the mean size of
    its messages and the peers of a call, of the rank that sends most. No fraction is known where
    disturbed steps took so much of the time that waiting for a core would count as communication.
    """
    classes, seconds = entry.get("communication") or {}, entry["samples"].get("seconds")
    if not seconds:
        return {}
    values: dict[str, tuple[float, str]] = {}
    if (share := (entry.get("start") or {}).get("share")) is not None:
        values["skew_share"] = (share, "fraction")
    disturbed = sum(itertools.compress(seconds, entry["samples"].get("disturbed", ())))
    known = disturbed <= LIMITS.disturbed_note * sum(seconds)
    step = statistics.fmean(seconds)  # the seconds inside MPI are of all steps
    if known and step and classes:
        inside = sum(traffic["seconds"]["mean"] for traffic in classes.values())
        values["mpi_share"] = (inside / step, "share")
    for name in () if entry.get("point") else ("p2p", "collective"):
        traffic = classes.get(name)
        if not traffic or not traffic["messages"]["max"]:
            continue
        messages, calls = traffic["messages"]["max"], traffic["calls"]["max"]
        item = (entry["metrics"].get("time_min") or {}).get("value")
        items = max(1.0, float(round(min(seconds) / item))) if item else 1.0  # in a step
        if known and step:
            values[f"{name}_share"] = (traffic["seconds"]["mean"] / step, "fraction")
        values[f"{name}_size"] = (traffic["bytes"]["max"] / messages, "B/message")
        values[f"{name}_peers"] = (messages / max(1, calls), "messages/call")
        values[f"{name}_calls"] = (calls / items, "calls")
    return {n: {"value": v, "unit": unit, "better": "lower"} for n, (v, unit) in values.items()}


def at_point(entry: Entry) -> str:
    """What an entry is called by: its method, of a sweep with the point ("alltoall_8B")."""
    return "_".join(filter(None, (entry["method"], point_label(entry.get("point")))))


def skews(result: Result) -> dict[str, float]:
    """The skew of starts, as a fraction of a step, where it is not small, by `at_point`."""
    shares = {at_point(e): (e.get("start") or {}).get("share") or 0.0 for e in result["results"]}
    return {place: share for place, share in shares.items() if share > LIMITS.skew}


def last_ranks(result: Result) -> dict[str, str]:
    """The rank for which the others wait, if it spends far more time outside of MPI than their
    mean, by `at_point`: "rank 5 on n3 has 1.4 times the mean outside MPI"."""
    most: dict[str, tuple[float, int]] = {}
    for entry in result["results"]:
        own = (entry.get("ranks") or {}).get("outside_mpi")
        if not own or not own["mean"] > 0 or entry["baseline"]:
            continue
        factor = own["max"] / own["mean"]
        if factor > LIMITS.last:
            most[at_point(entry)] = factor, own["max_rank"]
    taken = layouts.places(result["layout"]) if most else []
    names = {place: named_rank(taken, rank) for place, (_, rank) in most.items()}
    return {p: f"{names[p]} has {f:.1f} times the mean outside MPI" for p, (f, _) in most.items()}


def named_rank(places: Iterable[layouts.Place], rank: int) -> str:
    """A rank with its host: "rank 5 on n3"."""
    host = layouts.host_of(places, rank)
    return f"rank {rank} on {host}" if host else f"rank {rank}"


def unusable(metric: Metric) -> str | None:
    """Returns why a metric's value cannot be judged; None if it can."""
    value, unit = metric.get("value"), metric.get("unit")
    if not finite(value):
        return f"is {json.dumps(value)}, not a finite number"
    if unit == "share":
        return None if 0 <= value <= 1 else f"is {value}, a share is between 0 and 1"
    if unit in UNITS and UNITS[unit].may_be_zero:
        return None if value >= 0 else f"is {value}, below zero"
    return None if value > 0 else f"is {value}, not above zero"
