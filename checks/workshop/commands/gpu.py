"""Tries the kernels on the GPUs of this host, in five minutes.

It builds them, copies between host and GPUs (bisection-device), and sends messages from memory of
the host, staged and of a GPU (ping-pong, alltoallv), and distributed 3D FFTs. Every answer is
verified. Launches that must be refused are made, and the line of each is printed. Where NVIDIA's
compute-sanitizer is on PATH, short launches run under it too. Results are JSON files in FOLDER.
"""

import argparse
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.core.format import amount, at_least, times
from bisection.core.verdicts import Exit
from bisection.kernels import layouts, local, results
from bisection.report.text_tables import indented

CODES = {
    Exit.FAILED: "an answer is wrong, a launch ran that must be refused, or compute-sanitizer "
    "reports an error",
    Exit.NOT_MEASURED: "a launch was refused, or there was no time for it",
}
METHODS = ("pingpong", "alltoallv")
TRANSFORMS = "--grid 64,64,64 --bands 2 --block 2 --method alltoallv,p2p --baseline none".split()
WHOLE, LIMIT, LEAST = 300, 60, 5  # seconds of all; of a launch, at most and at least
REFUSED = re.compile(r"exited with 2:.*?bisection-\w+: ([^\n]*)", re.S)
HIDDEN = [f"{maker}_VISIBLE_DEVICES=-1" for maker in ("CUDA", "ROCR", "HIP")]
# Options of short launches.
ONCE = ["--repeats", "1", "--block", "1"]
FEW = ["--bytes", "65536", *ONCE]
SHORT = [*ONCE, "--buffers", "device"]
SMALL = ["--largest", "4096", *SHORT]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    parser.add_argument("folder", type=Path, help="where results are written")
    parser.add_argument("--ranks", type=at_least(1), default=2, help="MPI ranks; default: 2")
    parser.add_argument("--largest", type=at_least(8), default=1 << 20, help="bytes of a message")


def act(options: argparse.Namespace) -> Exit:
    launches = _Launches(options.folder, options.ranks, time.time())
    options.folder.mkdir(parents=True, exist_ok=True)
    build = paths.home() / "build"
    local.make(build, [], ["bisection-device", "bisection-patterns", "bisection-transpose"])
    copies = str(build / "network" / "bisection-device")
    patterns = [str(build / "network" / "bisection-patterns"), "--method", ",".join(METHODS)]
    transforms = [str(build / "transpose" / "bisection-transpose"), *TRANSFORMS]
    copied = launches.measure("copies", [copies])
    if copied:
        _print_copies(copied)
    messages = [*patterns, "--largest", str(options.largest)]
    memories = [
        (buffers, launches.measure(f"{name}-{buffers}", [*words, "--repeats", "20", *memory]))
        for buffers in layouts.BUFFERS
        for memory in [["--buffers", buffers]]
        for name, words in (("patterns", messages), ("transpose", transforms))
    ]
    _print_times(memories)
    rows = [["must be refused", "its line"]]
    sent = next(result for buffers, result in memories if buffers == "device")
    rows += _refusals(launches, copies, [*patterns, *SMALL], copied, sent)
    print("\n".join(indented(rows)))
    if tool := shutil.which("compute-sanitizer"):
        run = [tool, "--error-exitcode", "9"]
        launches.measure("sanitized-copies", [*run, copies, *FEW])
        launches.measure("sanitized-patterns", [*run, *patterns, *SMALL])
        launches.measure("sanitized-transpose", [*run, *transforms, *SHORT])
    else:
        print("compute-sanitizer is not on PATH: not run")
    lost = f", launches that did not run: {launches.lost}" if launches.lost else ""
    took = time.time() - launches.began
    print(f"{'FAILED' if launches.failed else 'passed'} in {took:.0f} s{lost}; {options.folder}")
    return Exit.FAILED if launches.failed else Exit.NOT_MEASURED if launches.lost else Exit.OK


@dataclass
class _Launches:
    """Launches within the time of all, and how many failed, or were refused or late."""

    folder: Path
    ranks: int
    began: float
    failed: int = 0
    lost: int = 0

    def measure(self, name: str, words: Sequence[str]) -> results.Result | None:
        """The result, of which what does not apply is printed; None, once it has printed why."""
        said, outcome = self._run(name, words, self.ranks)
        if isinstance(said, str):
            self.lost += outcome in ("refused", "late")
            self.failed += outcome == "failed"
            print(f"{name}: {said}")
            return None
        for entry in said["results"]:
            if not entry["applicable"]:
                print(f"{name}: {entry['method']} is not applicable: {entry['why']}")
        return said

    def refuse(self, words: Sequence[str], ranks: int) -> str:
        """The line that refuses a launch; a launch that is not refused is a failure."""
        said, outcome = self._run("refused", words, ranks)
        self.lost += outcome == "late"
        self.failed += outcome in ("ran", "failed")
        return said if isinstance(said, str) else "NOT REFUSED: it ran"

    def _run(self, name: str, words: Sequence[str], ranks: int) -> tuple[results.Result | str, str]:
        """The result, or why there is none; the outcome: ran, refused, failed, or late."""
        left = WHOLE - (time.time() - self.began)
        if left < LEAST:
            return f"not run, as {WHOLE} s are over", "late"
        limit = f"{min(LIMIT, left):.0f}"
        more = [*words[1:], "--limit", limit, "--progress-timeout", limit]
        try:
            return local.launch(Path(words[0]), ranks, more, self.folder / f"{name}.json"), "ran"
        except local.BenchError as error:
            line = REFUSED.search(str(error))
            return (line[1], "refused") if line else (str(error), "failed")


def _refusals(
    launches: _Launches, copies: str, small: list[str], *measured: results.Result | None
) -> Iterator[list[str]]:
    """What must be refused, and the line that refuses it; what cannot be met here. `measured`: the
    result of the copies, and that of messages from device memory."""
    copied, sent = measured
    yield ["no device", launches.refuse(["env", *HIDDEN, *small], launches.ranks)]
    aware = f"not met: {sent['layout']['devices'][0]['aware']}" if sent else "see patterns-device"
    yield ["MPI does not take addresses of a device", aware]
    if not copied:
        return
    first = copied["details"]["copies"][0]
    devices = 1 + len(_others(first))
    yield [
        "fewer devices than are asked for",
        launches.refuse([*small, "--devices", str(devices)], 1),
    ]
    yield ["too little memory", launches.refuse([copies, "--bytes", "1000000000000"], 1)]
    alone = [*small, "--ranks-per-device", "1"]
    yield ["two ranks on a device", launches.refuse(alone, devices + 1)]
    other = "two ranks on a device, while another has none"
    shared = (
        launches.refuse([*small, "--devices", "0"], 2) if devices > 1 else "not met: one device"
    )
    yield [other, shared]


def _others(of_rank: Any) -> set[str]:
    """The other devices that a rank of bisection-device sees."""
    return {each["peer"] for each in [*of_rank["rates"], *of_rank["refused"]] if "peer" in each}


def _print_copies(result: results.Result) -> None:
    """Prints devices, and the rate of each copy or why there is none."""
    for group in result["layout"]["devices"]:
        print(f"{group['name']}: {group['library']} {group['runtime']}, driver {group['driver']}")
    rows = [["rank", "device", "copy", "NUMA node or device", "rate", "way"]]
    for each in result["details"]["copies"]:
        rank, device = str(each["rank"]), each["id"].partition("/")[0]
        for rate in each["rates"]:
            other = rate.get("peer", rate.get("numa"))
            place = "any" if other is None else str(other).partition("/")[0]
            way = {True: "direct", False: "through the host"}.get(rate.get("direct"), "")
            rows.append([rank, device, rate["method"], place, amount(rate["rate"], "B/s"), way])
        for refused in each["refused"]:
            place = refused["peer"].partition("/")[0]
            rows.append([rank, device, "peer", place, "", f"refused: {refused['reason']}"])
    print("\n".join(indented(rows)))


def _print_times(memories: Sequence[tuple[str, results.Result | None]]) -> None:
    """Prints times by memory. A slow path is no failure."""
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
