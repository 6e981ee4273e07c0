"""Reading a kernel's result.json (src/common/result.schema.json) without trusting it."""

import json
import math
import statistics

SCHEMA, VERSION = "bisection-result", 2


class ResultError(Exception):
    """The result file is not a complete result of the kernel; the text says why."""


def load(path, kernel, case=None):
    """The complete result of `kernel` (and `case`) in the file `path`, as a dictionary."""
    try:
        with open(path, encoding="utf-8") as file:
            result = json.load(file)
    except FileNotFoundError:
        raise ResultError(f"{kernel} wrote no result file") from None
    except (OSError, ValueError) as error:
        raise ResultError(f"cannot read {path}: {error}") from None
    if not isinstance(result, dict) or result.get("schema") != SCHEMA:
        raise ResultError(f"{path} is not a {SCHEMA} file")
    result = upgraded(result, path)
    for key, wanted in (("kernel", kernel), ("case", case)):
        if wanted is not None and result.get(key) != wanted:
            raise ResultError(f"{path} is of {key} {result.get(key)!r}, not {wanted!r}")
    if result.get("status") != "complete":
        done = len([entry for entry in result.get("results", []) if entry.get("samples")])
        raise ResultError(
            f"status is {result.get('status')!r}, not 'complete': {kernel} stopped early, "
            f"with samples of {done} methods"
        )
    return result


def upgraded(result, path):
    """A result of any version up to this one, in the form of this one."""
    version = result.get("version")
    if version == 1:  # did not tell the firmware
        layout = {"firmware": {}, **result.get("layout", {})}
        return {**result, "version": VERSION, "layout": layout}
    if version != VERSION:
        raise ResultError(f"{path} has version {version!r}; 1 to {VERSION} can be read")
    return result


def of_method(result, method):
    """The entries of one method, one a sweep point; ResultError if there are none."""
    entries = [entry for entry in result["results"] if entry["method"] == method]
    if not entries:
        raise ResultError(f"method {method} is missing from the results")
    return entries


def failed_checks(entry):
    """Sentences on what verification found wrong with one entry; empty if it passed."""
    verification = entry.get("verification") or {}
    wrong = [
        f"{check['name']}: error {_number(check['error'])} {check['unit']}, "
        f"tolerance {_number(check['tolerance'])}"
        for check in verification.get("checks", [])
        if check.get("passed") is not True
    ]
    if not wrong and not verification.get("checks"):
        return ["not verified: no check was made"]
    if not wrong and verification.get("passed") is not True:
        return ["verification did not pass"]
    return wrong


def wrong_methods(result):
    """Names of the applicable methods and baselines whose verification failed, in file order."""
    names = [e["method"] for e in result["results"] if e["applicable"] and failed_checks(e)]
    return list(dict.fromkeys(names))


def baselines(result):
    """Names of the methods that the others are compared with only."""
    return {entry["method"] for entry in result["results"] if entry.get("baseline")}


def hosts(result):
    """Names of the hosts that ran the launch, in order."""
    return sorted({rank["host"] for rank in result["layout"]["per_rank"]})


def facts(result):
    """What a launch ran on and with: name -> text; what may explain a change of its times."""
    build, host = result["build"], result["host"]
    firmware = sorted(set(result["layout"]["firmware"].values()))
    found = {
        "CPU": host["cpu"],
        "operating system's kernel": host["kernel"],
        "firmware": " | ".join(firmware),
        "compiler": build["compiler"],
        "flags": build["flags"],
        "MPI": build["mpi"],
        "libraries": ", ".join(f"{name} {text}" for name, text in build["libraries"].items()),
        "kernels": f"{build['version']} {build['commit']} {build['build_type']}",
    }
    return {name: text for name, text in found.items() if text}


def controls(result):
    """What measures the cores alone: GHz of a chain of dependent operations (the slower of before
    and after), and the seconds of each baseline, which does not communicate."""
    clocks = [clock["chain_ghz"] for clock in result["host"]["clock"].values()]
    found = {"clock": float(min(clocks))} if clocks else {}
    for entry in result["results"]:
        time = (entry.get("metrics") or {}).get("time")
        if entry.get("baseline") and time and unusable(time) is None:
            found[entry["method"]] = float(time["value"])
    return found


def disturbed(result):
    """The share of samples in which other processes took a core from a rank.

    Counted are samples with more involuntary context switches than the one, and 30 a second, that
    timers and the system's own services may cost.
    """
    samples = [
        (seconds, switches)
        for entry in result["results"]
        for seconds, switches in zip(
            entry["samples"].get("seconds", []),
            entry["samples"].get("switches", []),
            strict=True,
        )
    ]
    hit = sum(switches > 1 + 30 * seconds for seconds, switches in samples)
    return hit / len(samples) if samples else 0.0


def point_label(point):
    """A sweep point in a metric's name: {"bytes": 2048} is "2KiB"; "" without a sweep."""
    if not point:
        return ""
    return "_".join(
        _bytes(value) if key == "bytes" else f"{key}{_number(value)}"
        for key, value in point.items()
    )


def metrics(entries):
    """All metrics of one method's entries: name -> {"value", "unit", "better", ...}.

    A sweep's metrics carry their point: time_8B, time_1KiB.
    """
    flat = {}
    for entry in entries:
        label = point_label(entry.get("point"))
        own = entry.get("metrics") or {}
        for name, metric in {**own, **_mpi_share(entry)}.items():
            flat[f"{name}_{label}" if label else name] = metric
    return flat


def _mpi_share(entry):
    """The part of a step that is spent in MPI, the mean over ranks, as a metric."""
    seconds = entry["samples"].get("seconds")
    if not seconds or not entry.get("communication"):
        return {}
    inside = sum(traffic["seconds"]["mean"] for traffic in entry["communication"].values())
    share = min(1.0, inside / statistics.median(seconds))
    return {"mpi_share": {"value": share, "unit": "share", "better": "lower"}}


def unusable(metric):
    """Why a metric's value cannot be judged; None if it can."""
    value, unit = metric.get("value"), metric.get("unit")
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return f"is {json.dumps(value)}, not a number"
    if not math.isfinite(value):
        return f"is {value}, not finite"
    if unit == "share":
        return None if 0 <= value <= 1 else f"is {value}, a share is between 0 and 1"
    if unit in ("B", "messages"):  # one rank sends none
        return None if value >= 0 else f"is {value}, below zero"
    return None if value > 0 else f"is {value}, not above zero"


def _bytes(value):
    for factor, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= factor and value % factor == 0:
            return f"{_number(value // factor)}{unit}"
    return f"{_number(value)}B"


def _number(value):
    return f"{value:.4g}" if isinstance(value, float) and not value.is_integer() else str(value)
