"""Tries the kernels on the GPUs of this host, in five minutes.

It builds them, copies between host and GPUs (bisection-device), and sends messages from memory of
the host, staged and of a GPU (ping-pong, alltoallv), and distributed 3D FFTs. Every answer is
verified. Where NVIDIA's compute-sanitizer is on PATH, short launches run under it too. Results are
JSON files in FOLDER.
"""

import argparse
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from bisection.core import paths
from bisection.core.format import amount, at_least, times
from bisection.core.verdicts import Exit
from bisection.kernels import layouts, local, results
from bisection.report.text_tables import indented

CODES = {Exit.FAILED: "an answer is wrong, or compute-sanitizer reports an error"}
METHODS = ("pingpong", "alltoallv")
TRANSFORMS = "--grid 64,64,64 --bands 2 --block 2 --method alltoallv,p2p --baseline none".split()
LIMIT = 60  # seconds of a launch


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    parser.add_argument("folder", type=Path, help="where results are written")
    parser.add_argument("--ranks", type=at_least(1), default=2, help="MPI ranks; default: 2")
    parser.add_argument("--largest", type=at_least(8), default=1 << 20, help="bytes of a message")


def act(options: argparse.Namespace) -> Exit:
    began, failures = time.time(), 0
    options.folder.mkdir(parents=True, exist_ok=True)
    build = paths.home() / "build"
    local.make(build, [], ["bisection-device", "bisection-patterns", "bisection-transpose"])
    copies, patterns = (build / "network" / f"bisection-{name}" for name in ("device", "patterns"))
    transpose = build / "transpose" / "bisection-transpose"
    failures += _copies(_launch(options, "copies", copies, []))
    messages = ["--method", ",".join(METHODS), "--largest", str(options.largest)]
    memories = []
    for buffers in layouts.BUFFERS:
        for name, program, what in (
            ("patterns", patterns, messages),
            ("transpose", transpose, TRANSFORMS),
        ):
            more = [*what, "--buffers", buffers, "--repeats", "20"]
            memories.append((buffers, _launch(options, f"{name}-{buffers}", program, more)))
    failures += sum(result is None for _, result in memories) + _times(memories)
    failures += _sanitized(options, copies, patterns, transpose)
    print(f"{'FAILED' if failures else 'passed'} in {time.time() - began:.0f} s; {options.folder}")
    return Exit.FAILED if failures else Exit.OK


def _launch(
    options: argparse.Namespace, name: str, program: Path, more: Sequence[str]
) -> results.Result | None:
    """The result of a launch; None, once what it printed is, where an answer is wrong."""
    limits = ["--limit", str(LIMIT)]
    file = options.folder / f"{name}.json"
    try:
        return local.launch(program, options.ranks, [*more, *limits], file)
    except local.BenchError as error:
        print(f"{name}: {error}")
        return None


def _copies(result: results.Result | None) -> int:
    """Prints the rates of copies; returns how many failures there are."""
    if result is None:
        return 1
    for group in result["layout"]["devices"]:
        print(f"{group['name']}: {group['library']} {group['runtime']}, driver {group['driver']}")
    rows = [["rank", "device", "copy", "NUMA node or device", "rate"]]
    for each in result["details"]["copies"]:
        for rate in each["rates"]:
            other = rate.get("peer", rate.get("numa"))
            place = "any" if other is None else str(other).partition("/")[0]
            device = each["id"].partition("/")[0]
            shown = amount(rate["rate"], "B/s")
            rows.append([str(each["rank"]), device, rate["method"], place, shown])
    print("\n".join(indented(rows)))
    return 0


def _times(memories: Sequence[tuple[str, results.Result | None]]) -> int:
    """Prints times by memory; returns 0, as a slow path is no failure."""
    seconds: dict[tuple[str, str], dict[str, float]] = {}
    for buffers, result in memories:
        for entry in result["results"] if result else ():
            size = results.point_label(entry.get("point")) or "FFT"
            if entry["applicable"]:
                value = entry["metrics"]["time"]["value"]
                seconds.setdefault((entry["method"], size), {})[buffers] = value
    rows = [["method", "size", *layouts.BUFFERS, "device over staged"]]
    for (method, size), known in seconds.items():
        there = "staged" in known and "device" in known
        ratio = times(known["staged"] / known["device"]) if there else "-"
        cells = [amount(known.get(buffers), "s") for buffers in layouts.BUFFERS]
        rows.append([method, size, *cells, ratio])
    print("\n".join(indented(rows)))
    return 0


def _sanitized(options: argparse.Namespace, copies: Path, patterns: Path, transpose: Path) -> int:
    """Runs short launches under compute-sanitizer; returns how many failures there are."""
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        print("compute-sanitizer is not on PATH: not run")
        return 0
    short = ["--repeats", "1", "--block", "1"]
    on_device = [*short, "--buffers", "device"]
    launches = {
        copies: ["--bytes", "65536", *short],
        patterns: ["--largest", "4096", "--method", ",".join(METHODS), *on_device],
        transpose: [*TRANSFORMS, *on_device],
    }
    done = [
        _launch(
            options,
            f"sanitized-{program.name.removeprefix('bisection-')}",
            Path(tool),
            ["--error-exitcode", "9", str(program), *arguments],
        )
        for program, arguments in launches.items()
    ]
    return sum(result is None for result in done)
