"""`workshop bench suite`: a made-up session of 4,000 nodes is stored, judged and reported.

Every core's clock before and after, the noise of every node, every pair of nodes three times, 2,100
metrics a night for a year. A node and a pair are slow. Each part runs as a process of its own, so
that its start and its memory count.
"""

import contextlib
import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bisection.core import paths
from bisection.core.identity import Geometry
from bisection.core.reasons.base import as_data
from bisection.kernels import adapters, layouts, results
from bisection.kernels.launch_record import LaunchRecord
from bisection.night.night import Night, conclude
from bisection.report import gather
from bisection.runs import folder, reframe_report
from bisection.runs.run_verdict import Request, RunVerdict
from bisection.store import sync
from bisection.store.database import Store
from workshop.peers.store_scale import DAY, cost_of

sys.path.append(str(paths.ROOT / "checks" / "bisection" / "tests"))
sys.path.append(str(paths.ROOT / "checks" / "interconnect" / "tests"))
import made_up_network  # type: ignore[import-not-found]  # of the tests
import results_made  # type: ignore[import-not-found]  # of the tests

CORES, LEAF = 128, 32  # of a node; nodes of a switch
ROUNDS, REPEATS = 3, 5  # of all pairs; of the pairs that are measured again
TESTS, METRICS_OF_A_TEST = 300, 7
LAUNCHES = 60
EARLIER = 4  # runs before it whose results folders are there: as many as show a drift
SLOW, PATH, FACTOR = 5, (7, 300), 0.6
PLACE = {"system": "lab", "partition": "cpu", "environ": "system"}
# Of each figure its unit and the most that is allowed; None: it is only printed.
TARGETS = {
    "end of a launch on every core": ("s", None),
    "verdict, from the last launch to the end of `run`": ("s", 60),
    "history": ("s", 60),
    "report": ("s", None),
    "compare": ("s", None),
    "page": ("MB", 5),
    "page in headless Chromium": ("s", 2),
    "store of a year": ("GB", 2),
    "sample files of a year": ("GB", None),
    "ReFrame's reports of a year": ("GB", None),
}


@dataclass
class Figure:
    """What was measured of a part; `value` is None where a program for it is missing."""

    value: float | None
    processor_s: float | None = None
    peak_mib: float | None = None


# ---- what is made up ----


def hosts_of(nodes: int) -> list[str]:
    """Names of nodes."""
    return [f"cn{node:04d}" for node in range(nodes)]


def result_of(kernel: str, nodes: int) -> dict[str, Any]:
    """The result of a kernel that ran on every core, without its samples."""
    rng, hosts, ranks = np.random.default_rng(2), hosts_of(nodes), nodes * CORES
    clocks = np.round(rng.normal(3.0, 0.01, (2, ranks)), 4).tolist()
    seats = {
        "cpus": [str(core) for core in range(CORES)],
        "threads": [[str(core)] for core in range(CORES)],
        "nodes": [
            {"node": n, "host": host, "ranks": f"{n * CORES}-{(n + 1) * CORES - 1}"}
            for n, host in enumerate(hosts)
        ],
    }
    adapter = {"name": "mlx5_0:1", "kind": "infiniband", "state": "active", "rate": 200.0}
    adapter |= {"firmware": "20.1", "sent": 1e12, "received": 1e12, "share": 1.0}
    adapter |= {"error_counters": 5, "errors": {"symbol_error": 1, "port_rcv_errors": 2}}
    counted = {"seconds": 10.0, "payload": 1e12, "segments": 1e6, "retransmitted": 10}
    build = dict.fromkeys(("version", "commit", "compiler", "flags", "build_type", "mpi"), "none")
    host = dict.fromkeys(("cpu", "kernel", "architecture", "firmware"), "none")
    noise = {"cores": CORES, "quantum": 5e-5, "longest": 1e-4, "lost": 0.001}
    noise |= {"copy_core": 1e10, "copy_node": 2e11}
    layout = {"nodes": nodes, "ranks": ranks, "threads": 1, "emulated_nodes": False}
    return {
        "schema": results.SCHEMA,
        "version": results.VERSION,
        "kernel": kernel,
        "case": "nodes",
        "status": "complete",
        "verified": True,
        "results": [],
        "layout": {**layout, "ranks_per_node": CORES, "seats": [seats], "ghz": clocks},
        "build": {**build, "sources": "0" * 64, "libraries": {"fftw": "0"}},
        "hosts": [{**host, "names": hosts}],
        "adapters": [{"host": host, **counted, "list": [adapter]} for host in hosts],
        "details": {"noise": [{"host": host, **noise} for host in hosts]},
    }


def write_pairs(where: Path, nodes: int) -> None:
    """The launch of `pairs`: result.json, result.pairs and the topology."""
    world = made_up_network.World(nodes, LEAF, 3)
    world.faults = [("node", SLOW, FACTOR), ("pair", PATH, FACTOR)]
    others = world.rng.permutation(np.arange(10, nodes))[:16]
    again = [(SLOW, int(other)) for other in others] + [PATH]
    a, b = np.array(again).T
    tournament, count = functools.partial(made_up_network.tournament, nodes, 0, world.rng), 0
    with open(where / "result.pairs", "wb") as file:
        for _ in range(ROUNDS):
            pairs = zip(*(np.array_split(part, 8) for part in tournament()), strict=True)
            stages = [(*part, 0) for part in pairs]
            for *part, stage in [*stages, *((a, b, turn, 1) for turn in range(REPEATS))]:
                records = world.measured(*part, stage)
                count += len(records)
                records.tofile(file)
    details = {"nodes": hosts_of(nodes), "mode": "thin", "rounds": nodes - 1, "records": count}
    details |= {"switches": world.switch.tolist(), "switch_names": None, "bytes": 1 << 22}
    result = {**result_of("pairs", nodes), "details": {"pairs": details}}
    (where / "result.json").write_text(json.dumps(result))
    leaves = [f"leaf{number:03d}" for number in range(-(-nodes // LEAF))]
    lines = [
        f"SwitchName={leaf} Nodes=cn[{k * LEAF:04d}-{min((k + 1) * LEAF, nodes) - 1:04d}]"
        for k, leaf in enumerate(leaves)
    ]
    lines.append(f"SwitchName=top Switches={','.join(leaves)}")
    (where / "topology.txt").write_text("\n".join(lines))


def entries(nodes: int, stage: Path, factors: np.ndarray) -> list[dict[str, Any]]:
    """The test cases of a night in ReFrame's report; `factors` are those of its metrics."""
    hosts, listed = hosts_of(nodes), []
    names = ["noise", "pairs", *(f"kernel{n % 10}" for n in range(LAUNCHES - 2))]
    for number, kernel in enumerate(names):
        facts = {"MPI": "Open MPI 5.0.5", "compiler": "GNU 14.2", "CPU": "none"}
        record = LaunchRecord(
            kernel,
            str(Geometry(nodes, CORES, 1)),
            work="",
            exit_code=0,
            hosts=tuple(hosts),
            seconds=(60.0,),
            facts=facts,
            controls={"clock": 2.9, "serial": 1e-3},
            slowest=hosts[9],
        )
        more = {"fixture": True, "launch_record": as_data(record), "job_nodelist": hosts}
        more |= {"stagedir": str(stage / kernel), "case": f"case{number}", "layout": "mpi"}
        listed.append(results_made.entry(f"Launch{number}", **PLACE, **more, perfvalues={}))
    for test, row in enumerate(factors):
        number = test % LAUNCHES
        check = {0: "network_noise", 1: "pairs"}.get(number, f"check{number % 10}")
        name, where = f"{check} %method=m{test}", f"{PLACE['system']}:{PLACE['partition']}"
        metrics = {
            f"{where}:time{f'_{1 << k}KiB' if k else ''}": [1e-3 * v, 0, None, None, "s", "pass"]
            for k, v in enumerate(row.tolist())
        }
        needed = [(f"Launch{number}", where, PLACE["environ"])]
        more = {"case": f"case{number}", "layout": "mpi", "method": f"m{test}"}
        more |= {"perfvalues": metrics, "dependencies_actual": needed}
        listed.append(results_made.entry(name, **PLACE, **more))
    return listed


def reports(nodes: int, stage: Path, nights: int) -> Iterator[dict[str, Any]]:
    """ReFrame's report of each night: noise of 3%, and a step in a tenth of the tests."""
    rng = np.random.default_rng(1)
    for night in range(nights):
        factors = np.exp(rng.normal(0, 0.03, (TESTS, METRICS_OF_A_TEST)))
        if night > 0.9 * nights:
            factors[: TESTS // 10] *= 1.15
        session = {"uuid": f"{night:08x}-made-up", "time_start_unix": 1.7e9 + night * DAY}
        session |= {"tier": "interconnect", "system": "lab", "environ": "system"}
        yield results_made.report(*entries(nodes, stage, factors), **session)


# ---- what is measured: processes of their own ----


def end_launch(stage: str) -> None:
    """What the end of a launch does with the result, within ReFrame."""
    result = results.load(Path(stage, "noise", "result.json"), "noise")
    results.stopped(result), results.late(result)
    LaunchRecord("noise").with_result(result, ["mlx5_0"]).write(stage)
    shape = Geometry(result["layout"]["nodes"], CORES, 1)
    taken = layouts.places(result["layout"])
    if wrong := layouts.misplaced(taken, shape, [hex(1 << core) for core in range(CORES)]):
        raise AssertionError(str(wrong[0]))
    adapters.unused(result, ["mlx5_0"])


def end_run(file: str) -> None:
    """All that follows the launches, from ReFrame's report."""
    results = folder.new_folder()
    conclude(Night(folder.named(read(Path(file)), results), Path("lab.py"), results), 0.0)


def read(file: Path) -> RunVerdict:
    """A run, by ReFrame's report in a file."""
    request = Request("interconnect", "lab", "system")
    return replace(reframe_report.read(reframe_report.load_report(file)), request=request)


def measure(home: Path, nodes: int, nights: int) -> Iterator[tuple[str, Figure]]:
    """Makes the nights up below `home`; yields each figure by its name."""
    stage, last = home / "stage", home / "report.json"
    for kernel in ("noise", "pairs"):
        (stage / kernel).mkdir(parents=True)
    (stage / "noise" / "result.json").write_text(json.dumps(result_of("noise", nodes)))
    with ProcessPoolExecutor(1) as other:  # else each process after it would count its memory
        other.submit(write_pairs, stage / "pairs", nodes).result()
    call = "import sys; from workshop.peers import suite_scale as s; s.{}(sys.argv[1])"
    program = [sys.executable, "-c"]
    name = iter(TARGETS)
    yield next(name), Figure(*cost_of(home, [*program, call.format("end_launch"), str(stage)]))
    with Store(paths.store_db(home)) as store:
        for night, text in enumerate(reports(nodes, stage, nights)):
            last.write_text(json.dumps(text))
            if night >= nights - 1 - EARLIER:
                earlier = read(last)
                if night < nights - 1:
                    leave(earlier, home / "results" / f"2020-01-0{nights - night}T000000Z", stage)
            if night < nights - 1:
                store.add([sync.of_verdict(read(last))])
    yield next(name), Figure(*cost_of(home, [*program, call.format("end_run"), str(last)]))
    written = home / "results" / "latest"
    suite = [sys.executable, "-m", "bisection"]
    for command in (
        ["history"],
        ["report", "earlier:20", "latest"],
        ["compare", "latest~1", "latest"],
    ):
        into = ["-o", str(home / command[0])] if command[0] == "report" else []
        yield next(name), Figure(*cost_of(home, [*suite, *command, *into]))
    yield next(name), Figure((written / "report.html").stat().st_size / 1e6)
    yield next(name), Figure(opening(written / "report.html"))
    yield next(name), Figure(paths.store_db(home).stat().st_size / 1e9 * 365 / nights)
    for file in (written / "samples.jsonl", last):
        yield next(name), Figure(file.stat().st_size / 1e9 * 365)


def leave(verdict: RunVerdict, where: Path, stage: Path) -> None:
    """A results folder of an earlier run, with the files of its pairs."""
    where.mkdir(parents=True)
    verdict = folder.named(verdict, where)
    (where / "kernels").mkdir()
    launch = next(case for case in verdict.cases if case.record.kernel == "pairs")
    for file, suffix in folder.KEPT.items():
        with contextlib.suppress(FileNotFoundError):
            os.link(stage / "pairs" / file.replace("*", "result"), f"{launch.files[:-1]}{suffix}")
    gather.write_verdict(verdict, where)


def opening(page: Path) -> float | None:
    """Seconds in which headless Chromium draws a page, beyond an empty one: the median of five.

    Raises:
        subprocess.CalledProcessError, FileNotFoundError: Chromium failed, or drew nothing.
    """
    if not shutil.which("chromium"):
        return None
    picture = page.with_suffix(".png")  # Chromium draws nothing for a file of another suffix
    options = ["--headless", "--no-sandbox", f"--screenshot={picture}", "--window-size=1280,4000"]
    differences = []
    for _ in range(5):
        marks = [time.monotonic()]
        for address in ("about:blank", page.as_uri()):
            program = ["chromium", *options, address]
            subprocess.run(program, capture_output=True, timeout=120, check=True)
            picture.unlink()
            marks.append(time.monotonic())
        differences.append(marks[2] - 2 * marks[1] + marks[0])
    return statistics.median(differences)
