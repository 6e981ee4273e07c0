"""Reading a kernel's result.json (src/common/result.schema.json) without trusting it."""

import json
import math
import statistics
from collections.abc import Iterable
from enum import IntEnum
from pathlib import Path
from typing import Any

from bisection.core.format import some
from bisection.core.reasons import Code, Reason
from bisection.core.thresholds import LIMITS
from bisection.kernels import adapters

SCHEMA, VERSION = "bisection-result", 3

Result = dict[str, Any]  # a result file
Entry = dict[str, Any]  # a method at one point: an element of its "results"
Metric = dict[str, Any]  # "value", "unit", "better", and for times "low", "high"


class KernelExit(IntEnum):
    """Exit codes of a kernel (src/common/bx.h)."""

    VERIFIED = 0
    WRONG_ANSWER = 1
    USAGE = 2
    RESOURCES = 3
    HANG = 4


class ResultError(Exception):
    """The result file is not a complete result of the kernel."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(str(reason))
        self.reason = reason


def load(path: Path | str, kernel: str, case: str | None = None) -> Result:
    """The complete result of a kernel.

    Args:
        path: the result file.
        kernel: the kernel that must have written it.
        case: the case that it must be of; None for any.

    Raises:
        ResultError: there is no such file, or it is not whole, or of another kernel or case.
    """
    try:
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
    except FileNotFoundError:
        raise ResultError(Reason.of(Code.NO_RESULT, kernel=kernel)) from None
    except (OSError, ValueError) as error:
        reason = Reason.of(Code.RESULT_UNREADABLE, path=str(path), error=str(error))
        raise ResultError(reason) from None
    if not isinstance(result, dict) or result.get("schema") != SCHEMA:
        raise ResultError(Reason.of(Code.RESULT_FOREIGN, path=str(path), schema=SCHEMA))
    result = upgraded(result, path)
    for key, wanted in (("kernel", kernel), ("case", case)):
        if wanted is not None and result.get(key) != wanted:
            other = {"path": str(path), "key": key, "value": repr(result.get(key))}
            raise ResultError(Reason.of(Code.RESULT_OTHER, wanted=repr(wanted), **other))
    if result.get("status") != "complete":
        measured = len([entry for entry in result.get("results", []) if entry.get("samples")])
        status = repr(result.get("status"))
        raise ResultError(
            Reason.of(Code.RESULT_INCOMPLETE, kernel=kernel, status=status, methods=measured)
        )
    return result


def upgraded(result: Result, path: Path | str) -> Result:
    """A result in the form of this version.

    Args:
        result: a result of any version up to this one.
        path: its file, for the error.

    Raises:
        ResultError: it is of a later version.
    """
    version = result.get("version")
    if version in (1, 2):
        return {**result, "version": VERSION, **_of_rank_0(result)}
    if version != VERSION:
        other = {"path": str(path), "version": repr(version)}
        raise ResultError(Reason.of(Code.RESULT_VERSION, last=VERSION, **other))
    return result


def _of_rank_0(result: Result) -> Result:
    """The hosts and the layout of a result of version 1 or 2, which held the facts of rank 0."""
    layout, host = dict(result.get("layout", {})), result.get("host", {})
    firmware = layout.pop("firmware", {})  # by host; not in version 1
    first = {"cpu": host.get("cpu", ""), "kernel": host.get("kernel", ""), "first_rank": 0}
    first["architecture"] = host.get("architecture", "")
    names = {rank["host"]: firmware.get(rank["host"], "") for rank in layout.get("per_rank", [])}
    groups = [
        {**first, "firmware": text, "names": [name for name in names if names[name] == text]}
        for text in dict.fromkeys(names.values())
    ]
    clocks = [clock["chain_ghz"] for clock in host.get("clock", {}).values()]
    if "per_rank" in layout:
        layout["per_rank"] = [
            {**rank, "ghz": [] if number else clocks}
            for number, rank in enumerate(layout["per_rank"])
        ]
    return {"hosts": groups, "layout": layout}


def of_method(result: Result, method: str) -> list[Entry]:
    """The entries of one method.

    Args:
        result: the result of a kernel.
        method: the method's name.

    Returns:
        One entry per point of a sweep; a single one of other kernels.

    Raises:
        ResultError: there are none.
    """
    entries = [entry for entry in result["results"] if entry["method"] == method]
    if not entries:
        raise ResultError(Reason.of(Code.METHOD_MISSING, method=method))
    return entries


def failed_checks(entry: Entry) -> list[Reason]:
    """What verification found wrong with one entry; empty if it passed."""
    verification = entry.get("verification") or {}
    wrong = [
        Reason.of(
            Code.CHECK_FAILED, **{n: check[n] for n in ("name", "error", "unit", "tolerance")}
        )
        for check in verification.get("checks", [])
        if check.get("passed") is not True
    ]
    if not wrong and not verification.get("checks"):
        return [Reason.of(Code.NO_CHECK)]
    if not wrong and verification.get("passed") is not True:
        return [Reason.of(Code.NOT_VERIFIED)]
    return wrong


def wrong_methods(result: Result) -> list[str]:
    """The applicable methods and baselines whose verification failed, in file order."""
    names = [e["method"] for e in result["results"] if e["applicable"] and failed_checks(e)]
    return list(dict.fromkeys(names))


def baselines(result: Result) -> set[str]:
    """The methods that serve for comparison only."""
    return {entry["method"] for entry in result["results"] if entry.get("baseline")}


def hosts(result: Result) -> list[str]:
    """The hosts that ran the launch, in order."""
    return sorted({rank["host"] for rank in result["layout"]["per_rank"]})


def facts(result: Result) -> dict[str, str]:
    """What a launch ran on and with, by name: what may explain a change of its times."""
    build = result["build"]
    texts = {
        "CPU": _of_hosts(result, "cpu"),
        "operating system's kernel": _of_hosts(result, "kernel"),
        "firmware": _of_hosts(result, "firmware"),
        "network": ", ".join(sorted(name for name, _ in adapters.carriers(result))),
        "compiler": build["compiler"],
        "flags": build["flags"],
        "MPI": build["mpi"],
        "libraries": ", ".join(f"{name} {text}" for name, text in build["libraries"].items()),
        "kernels": f"{build['version']} {build['commit']} {build['build_type']}",
        "kernels' sources": build.get("sources", "")[:12],
    }
    return {name: text for name, text in texts.items() if text}


def _of_hosts(result: Result, name: str) -> str:
    """A fact of the hosts; where hosts differ, that of most, then the others with their hosts."""
    hosts: dict[str, list[str]] = {}
    for group in result["hosts"]:
        hosts.setdefault(group[name], []).extend(group["names"])
    first, *others = sorted(hosts, key=lambda text: (-len(hosts[text]), text)) or [""]
    if not others:
        return first
    texts = [f"{text or '?'} ({some(hosts[text], 8)})" for text in others]
    return " | ".join([first or "?", *texts])


def _clocks(result: Result) -> list[tuple[float, Any]]:
    """(GHz, rank) of each rank whose clock is known, the slower of before and after."""
    return [(float(min(r["ghz"])), r) for r in result["layout"]["per_rank"] if r["ghz"]]


def slowest_host(result: Result) -> str:
    """The host of the rank with the slowest clock; "" if no clock is known."""
    _, rank = min(_clocks(result), key=lambda clock: clock[0], default=(0.0, {"host": ""}))
    return rank["host"]


def slow_clocks(result: Result) -> list[Reason]:
    """The hosts on which a rank's clock is far below the launch's median clock.

    Of two equal halves the faster is the median. A launch that other processes preempted names
    none. A limit on the processor time of a host's processes (a control group's quota) is not seen
    by the clock: src/common/host.h.

    Returns:
        A reason of code SLOW_CLOCK for the slowest rank of each such host.
    """
    clocks = _clocks(result)
    if not clocks or preempted(result) > LIMITS.preempted_launch:
        return []
    median = statistics.median_high(ghz for ghz, _ in clocks)
    slow: dict[str, tuple[float, Any]] = {}
    for ghz, rank in sorted(clocks, key=lambda clock: clock[0]):
        if ghz < LIMITS.slow_clock * median:
            slow.setdefault(rank["host"], (ghz, rank))
    return [
        Reason.of(
            Code.SLOW_CLOCK, host=h, rank=rank["rank"], cpus=rank["cpus"], ghz=ghz, median=median
        )
        for h, (ghz, rank) in slow.items()
    ]


def controls(result: Result) -> dict[str, float]:
    """What measures the cores alone: under "clock" the GHz of a chain of dependent operations on
    the slowest rank (the slower of before and after), and the seconds of each baseline, which does
    not communicate."""
    clocks = [ghz for ghz, _ in _clocks(result)]
    values = {"clock": min(clocks)} if clocks else {}
    for entry in result["results"]:
        time = (entry.get("metrics") or {}).get("time")
        if entry.get("baseline") and time and unusable(time) is None:
            values[entry["method"]] = float(time["value"])
    return values


def preempted_samples(entry: Entry) -> list[bool]:
    """Of each sample of an entry, whether other processes took a core from a rank.

    The kernel rules on it (bx_metrics_preempted in src/common/metrics.c) and marks its samples.
    Files of earlier kernels have no marks: their samples are judged by their context switches.
    """
    samples = entry["samples"]
    if "preempted" in samples:
        return list(map(bool, samples["preempted"]))
    pairs = zip(samples.get("seconds", []), samples.get("switches", []), strict=True)
    return [
        switches > LIMITS.free_switches + LIMITS.switches_per_second * seconds
        for seconds, switches in pairs
    ]


def preempted(*results: Result) -> float:
    """The fraction of preempted samples in all methods of these results."""
    flags = [flag for r in results for entry in r["results"] for flag in preempted_samples(entry)]
    return sum(flags) / len(flags) if flags else 0.0


def point_label(point: dict[str, float] | None) -> str:
    """A sweep point in a metric's name: {"bytes": 2048} is "2KiB"; "" without a sweep."""
    if not point:
        return ""
    return "_".join(
        _bytes(value) if key == "bytes" else f"{key}{_number(value)}"
        for key, value in point.items()
    )


def metrics(entries: Iterable[Entry]) -> dict[str, Metric]:
    """All metrics of one method's entries, by name; those of a sweep carry their point: time_8B."""
    flat = {}
    for entry in entries:
        label = point_label(entry.get("point"))
        own = entry.get("metrics") or {}
        for name, metric in {**own, **_mpi_share(entry)}.items():
            flat[f"{name}_{label}" if label else name] = metric
    return flat


def _mpi_share(entry: Entry) -> dict[str, Metric]:
    """The fraction of a step that is spent in MPI, the mean over ranks, as a metric."""
    seconds = entry["samples"].get("seconds")
    if not seconds or not entry.get("communication"):
        return {}
    inside = sum(traffic["seconds"]["mean"] for traffic in entry["communication"].values())
    share = min(1.0, inside / statistics.median(seconds))
    return {"mpi_share": {"value": share, "unit": "share", "better": "lower"}}


def unusable(metric: Metric) -> Reason | None:
    """Why a metric's value cannot be judged; None if it can."""
    value, unit = metric.get("value"), metric.get("unit")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return Reason.of(Code.NOT_A_NUMBER, value=json.dumps(value))
    if not math.isfinite(value):
        return Reason.of(Code.NOT_FINITE, value=value)
    if unit == "share":
        return None if 0 <= value <= 1 else Reason.of(Code.NO_FRACTION, value=value)
    if unit in ("B", "messages"):  # one rank sends none
        return None if value >= 0 else Reason.of(Code.BELOW_ZERO, value=value)
    return None if value > 0 else Reason.of(Code.NOT_ABOVE_ZERO, value=value)


def _bytes(value: float) -> str:
    for factor, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= factor and value % factor == 0:
            return f"{_number(value // factor)}{unit}"
    return f"{_number(value)}B"


def _number(value: float) -> str:
    return f"{value:.4g}" if isinstance(value, float) and not value.is_integer() else str(value)
