#!/usr/bin/env python3
"""Stands in for a kernel: writes a result file that keeps the contract, or breaks it on demand.

Installed as bisection-transpose and bisection-patterns and started by a real mpirun. The
variable FAKE_FAULTS, a JSON object, says what goes wrong where: "p2p" is a method of any launch,
"mpi/cnt40" a launch, by layout and case, "p2p@mpi/cnt40" a method of one. What can go wrong is in
FAULTS, or a metric has a wrong value, as JSON: "ratio_packed=9".
"""

import argparse
import itertools
import json
import os
import re
import signal
import socket
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # started anywhere
from bisection.core import paths, reference_files
from bisection.core.units import UNITS
from bisection.kernels import tables

BASELINES = {
    "transpose": ["serial"],
    "eigen": ["dsyevd"],
    "md": ["cached"],
    "halo": ["stencil"],
    "tasks": ["ideal"],
    "patches": ["forces"],
    "restart": ["copy"],
}
BASE_SECONDS = 1e-3
RANKS = int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))
# Metrics of every method of every kernel; those of METHODS differ.
METRICS = {
    **dict.fromkeys(("ratio_alltoallv", "ratio_original", "ratio_isend", "ratio_static"), 1.0),
    "ratio_stencil": 1.3, "halo_over_stencil": 0.3, "points": 1e8,
    "ratio_ideal": 1.15, "imbalance": 1.1, "efficiency": 0.9,
    "latency": 1e-6, "ratio_bare": 1.0,
    "bandwidth_write": 1e8, "bandwidth_read": 1e9, "time_write_p99": 0.1, "cached_share": 0.1,
    "ratio_file_per_node": 1.2, "ratio_mpi_io_independent": 1.1, "ratio_copy": 50.0,
    "ratio_own_folder": 1.1,
    "sustained": 1.0, "rate": 1e10, "clock_end": 3.0, "energy": 2.0,
    **{f"operations_{p}": 1e5 for p in ("create", "stat", "rename", "list", "read", "remove")},
    "ratio_forces": 1.1, "messages_per_patch": 16.0 * (RANKS > 1), "messages_share": 0.05,
    "ratio_dsyevd": 1.2, "matrices": 1e6, "sweeps": 8.0,
    # Of an MD step; fewer ranks send less together, more each.
    "ratio_packed": 1.2, "ratio_cached": 1.7, "atom_steps": 1e6, "iterations": 44.0,
    "communication_share": 0.1 * (RANKS > 1), "fft_share": 0.2, "idle_share": 0.0,
    "two_body_forces_share": 0.3, "metal_ld_compute_share": 0.5, "tersoff_forces_share": 0.0,
    "bytes": 1000.0 * (RANKS - 1), "bytes_per_rank": 1000.0 * (RANKS - 1) / RANKS,
    "messages": 12.0 * (RANKS - 1),
}  # fmt: skip
METHODS = {
    "packed": {"ratio_packed": 1.0, "ratio_cached": 1.4},
    "dlpoly3": {"ratio_packed": 3.2, "ratio_cached": 5.0},
    **{method: {"ratio_dsyevd": 3.0} for method in ("pdsyevx", "elpa2")},
    "pdsyev": {"ratio_dsyevd": 3.5},
    # Rank 0 takes no tasks.
    **{m: {"ratio_ideal": 2.2} for m in ("counter-progress", "manager") if RANKS > 1},
}
UNITS_OF = {"latency": "s", "matrices": "B", "rate": "B/s"}  # of metrics whose name has no unit


def metric(name, value):
    units = (unit for unit, facts in UNITS.items() if re.fullmatch(facts.names, name))
    unit = UNITS_OF.get(name) or next(units, "ratio")
    low, high = value * 0.98, value * 1.02
    return {"value": value, "unit": unit, "better": "lower", "low": low, "high": high}


def of_jacobi(case):
    """The counts of block Jacobi are the kernel's, as references assert them exactly."""
    import yaml  # only eigen needs it, and it takes a while

    check = "eigen_guess" if "--guess-error" in sys.argv else "eigen"
    place = {"$partition": "localhost:default", "method": "jacobi", "geometry": f"{RANKS}x1"}
    entry = yaml.safe_load((paths.ROOT / "reference/systems/localhost.yaml").read_text())[check]
    asserted = reference_files.lookup(entry, {**place, "case": case})
    return {name: metric(name, bounds[0]) for name, bounds in asserted.items()}


def entry(method, baseline, point):
    seconds = BASE_SECONDS * (1 + (point or {}).get("bytes", 0) / 1e5)
    values = {**METRICS, **METHODS.get(method, {}), "time": seconds}
    values["ratio_best" if method.startswith("npar-") else "ratio_base"] = 1.0
    if point is None:
        values |= {"ratio_serial": 0.45, "exchange_share": 0.3}
    else:
        values |= {"ratio_alltoall": 1.0, "time_min": seconds * 0.9, "time_p99": seconds * 1.5}
    if RANKS > 1:
        values["message_rate"] = 1e5
    if method == "static":  # asks nobody for a task's number
        del values["latency"], values["ratio_bare"]
    check = {"name": "serial transform", "error": 0.0, "tolerance": 1e-10}
    check |= {"unit": "largest element", "passed": True}
    samples = {"seconds": [seconds] * 4, "waited": [0] * 4, "disturbed": [0] * 4}
    return {
        "method": method,
        "baseline": baseline,
        "point": point,
        "applicable": True,
        "why": None,
        "lacks_library": False,
        "verification": {"passed": True, "checks": [check]},
        "samples": {**samples, "rounds": [0, 0, 1, 1], "phases": {}},
        "metrics": {name: metric(name, value) for name, value in values.items()},
    }


def seats(ranks, threads):
    """Threads on CPUs of their own, in rank order."""
    cpus = [[str(rank * threads + i) for i in range(threads)] for rank in range(ranks)]
    return [{"host": socket.gethostname(), "threads": mine, "ghz": [3.0, 3.0]} for mine in cpus]


def layout_of(seats, **more):
    """The "layout" of a result whose ranks, in order, have these seats: host, and if it matters
    threads, cpus, kind of core and ghz."""
    groups = []
    for node, host in enumerate(dict.fromkeys(seat["host"] for seat in seats)):
        ranks = {str(rank): seat for rank, seat in enumerate(seats) if seat["host"] == host}
        threads = [seat.get("threads", ["0"]) for seat in ranks.values()]
        cpus = [seat.get("cpus", ",".join(seat.get("threads", "0"))) for seat in ranks.values()]
        nodes = [{"node": node, "host": host, "ranks": ",".join(ranks)}]
        kinds = {"kinds": list(filter(None, (seat.get("kind") for seat in ranks.values())))}
        kinds = kinds if kinds["kinds"] else {}
        groups.append({"cpus": cpus, "threads": threads, **kinds, "nodes": nodes})
    ghz = itertools.zip_longest(*(seat.get("ghz", []) for seat in seats))
    facts = {"nodes": len(groups), "ranks": len(seats), "threads": 1, "emulated_nodes": False}
    fullest = max((len(group["cpus"]) for group in groups), default=0)
    facts |= {"ranks_per_node": fullest, "seats": groups, "ghz": [list(clocks) for clocks in ghz]}
    return {**facts, **more}


def adapters(payload=0, errors=None, hosts=()):
    """An idle InfiniBand adapter, and Ethernet that carries the payload."""
    usual = {"rate": 25, "firmware": "", "received": 0, "error_counters": 5, "errors": {}}
    idle = {**usual, "name": "mlx5_0:1", "kind": "infiniband", "state": "active", "sent": 0}
    busy = {**usual, "name": "eth0", "kind": "ethernet", "state": "up", "sent": payload}
    share = 1.0 if payload else None
    listed = [{**idle, "share": None, "errors": errors or {}}, {**busy, "share": share}]
    of_host = {"seconds": 1.0, "payload": payload, "segments": 1000, "retransmitted": 0}
    hosts = hosts or [socket.gethostname()]
    return [{"host": host, **of_host, "list": listed} for host in hosts]


def result_of(options, kernel):
    methods, baselines = tables.methods(kernel), BASELINES.get(kernel, [])
    points = {}
    if kernel == "patterns":
        sizes = {"alltoall": range(3, 21), "alltoallv": range(3, 21), "pingpong": range(3, 23)}
        points = {m: [{"bytes": 1 << n} for n in sizes.get(m, (3, 16))] for m in methods}
        points["barrier"] = [{}]
    groups = [n for n in range(1, RANKS + 1) if RANKS % n == 0] if kernel == "npar" else []
    if options.case == "mini2":
        groups = groups[-1:]
    methods = [f"npar-{n}" for n in groups] + methods
    if options.method == "published":
        methods = tables.methods(kernel, "published")
    threads = int(os.environ.get("OMP_NUM_THREADS", "1"))
    build = dict.fromkeys(("version", "commit", "compiler", "flags", "build_type", "mpi"), "none")
    host = dict.fromkeys(("cpu", "kernel", "architecture", "firmware"), "none")
    entries = [
        entry(method, method in baselines, point)
        for method in methods + baselines
        for point in points.get(method, [None])
    ]
    for jacobi in (entry for entry in entries if entry["method"] == "jacobi"):
        jacobi["metrics"] |= of_jacobi(options.case)
    return {
        "schema": "bisection-result",
        "version": 5,
        "kernel": kernel,
        "case": options.case,
        "status": "complete",
        "verified": True,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "command": sys.argv,
        "labels": dict(label.split("=", 1) for label in options.label),
        "parameters": {"repeats": 2, "block": 2, "seed": 1},
        "layout": layout_of(seats(RANKS, threads), threads=threads),
        "build": {**build, "sources": "0" * 64, "libraries": {"fftw": "0"}},
        "hosts": [{**host, "names": [socket.gethostname()]}],
        "adapters": adapters(),
        "best": {"npar": f"npar-{groups[-1]}"} if groups else {},
        "results": entries,
        "details": {
            "points": {m: [(p or {}).get("bytes", 0) for p in ps] for m, ps in points.items()}
        },
    }


def of(result, method):
    return next(entry for entry in result["results"] if entry["method"] == method)


def fault(name):
    if match := re.fullmatch(r"(\w+)=(.+)", name):
        return set_metric(json.loads(match[2]), match[1])
    return FAULTS[name]


def wrong(result, method, **_):
    result["verified"] = False
    verification = of(result, method)["verification"]
    verification["passed"] = verification["checks"][0]["passed"] = False
    verification["checks"][0]["error"] = 0.5
    return 1


def set_metric(value, name="ratio_alltoallv"):
    def fault(result, method):
        of(result, method)["metrics"][name]["value"] = value

    return fault


def slow_time(result, method):
    of(result, method)["metrics"]["time"]["value"] *= 8


def at_first(fault):
    """A fault of a method of a launch, the first time in BISECTION_HOME."""

    def either(result, method):
        names = ("launched", method, result["labels"]["layout"], result["case"])
        marker = Path(os.environ["BISECTION_HOME"], "-".join(names))
        if not marker.exists():
            fault(result, method)
        marker.touch()

    return either


def other_best(result, method):
    result["best"] = {"npar": method}
    for entry in result["results"]:
        if entry["method"].startswith("npar-") and entry["method"] != method:
            entry["metrics"]["ratio_best"]["value"] = 1.07


def without(metric):
    def fault(result, method):
        del of(result, method)["metrics"][metric]

    return fault


def reseat(result, change):
    threads = result["layout"]["threads"]
    changed = seats(RANKS, threads)
    change(changed)
    result["layout"] = layout_of(changed, threads=threads)


def shared_core(result, **_):
    reseat(
        result, lambda seats: [seat.update(threads=["0"] * len(seat["threads"])) for seat in seats]
    )


def of_launch(**values):
    return lambda result, **_: result.update(values)


def of_method(**values):
    return lambda result, method: of(result, method).update(values)


def of_last_rank(**values):
    return lambda result, **_: reseat(result, lambda seats: seats[-1].update(values))


def hang(result, **_):
    """What src/common/watchdog.c prints, and its exit code."""
    print(
        f"bisection-{result['kernel']}: nothing finished for 300 s on host here; its ranks:\n"
        "  ranks 0,2 on here: in MPI_Alltoallv, timing p2p, round 3\n"
        f"    MPI_Alltoallv (bisection-{result['kernel']}+0x13224)\n"
        "  rank 1 on here: no answer: stopped, or still advancing",
        file=sys.stderr,
    )
    result["status"] = "running"
    return 4


def unanswered(code, words, **values):
    """Ends with a code and words, and without a result; with `status` it has begun one."""

    def fault(result, **_):
        print(words.format(host=socket.gethostname()), file=sys.stderr)
        result.update(values or {"status": None})
        return code

    return fault


PAGE = "-" * 74
FAULTS = {
    # What launchers and libraries print, and with which code they end.
    "mpi-error": unanswered(
        1,
        "[{host}:00431] *** An error occurred in MPI_Alltoallw\n"
        "[{host}:00431] *** reported by process [3104309249,1]\n"
        "[{host}:00431] *** on communicator MPI_COMM_WORLD\n"
        "[{host}:00431] *** MPI_ERR_TRUNCATE: message truncated\n"
        "[{host}:00431] *** MPI_ERRORS_ARE_FATAL (processes in this communicator will now abort,",
        status="running",
    ),
    "no-library": unanswered(
        127,
        "bisection-halo: error while loading shared libraries: libgone.so.7: cannot open shared "
        "object file: No such file or directory",
    ),
    "odd-launcher": unanswered(1, "launchd: the oracle could not be reached\nSee the manual."),
    "no-interface": unanswered(0, "[{host}:9] opal_ifinit: unable to find network interfaces."),
    "warns": lambda *_, **__: print(
        f"{PAGE}\nIt appears as if there is not enough space for /dev/shm/segment.7 (the "
        "shared-memory backing\nfile). It is likely that your MPI job will now either abort or "
        f"experience\nperformance degradation.\n\n  Local host:  {socket.gethostname()}\n"
        f"  Space Requested: 4194312 B\n  Space Available: 16384 B\n{PAGE}",
        file=sys.stderr,
    ),
    "wrong": wrong,
    "wrong-baseline": lambda result, **_: wrong(result, "serial"),
    "wrong-but-exit-0": lambda result, method: wrong(result, method) and 0,
    "exit-1-but-verified": lambda *_, **__: 1,
    "exit-2": lambda *_, **__: 2,
    "exit-3": lambda *_, **__: 3,
    "hang": hang,
    "hang-on-one-core": lambda result, **_: shared_core(result) or hang(result),
    "segv-after": lambda *_, **__: -signal.SIGSEGV,
    "slow": set_metric(2.5),
    "other-best": other_best,
    "slow-time": slow_time,
    "slow-at-first": at_first(slow_time),
    "slow-ratio-at-first": at_first(set_metric(2.5)),
    "no-ratio": without("ratio_serial"),
    "no-imbalance": without("imbalance"),
    "no-list": without("operations_list"),
    "no-method": lambda result, method: result["results"].remove(of(result, method)),
    "inapplicable": of_method(applicable=False, why="needs two nodes", samples={}, metrics={}),
    "lacking": of_method(applicable=False, why="no ELPA", lacks_library=True, metrics={}),
    "unchecked": of_method(verification={"passed": True, "checks": []}),
    "running": of_launch(status="running"),
    "shared-core": shared_core,
    "two-hosts": of_last_rank(host="elsewhere"),
    "slow-clock": of_last_rank(ghz=[3.0, 2.6]),
    "errors": of_launch(adapters=adapters(errors={"symbol_error": 12})),
    "tcp": of_launch(adapters=adapters(1e9, hosts=("n1", "n2"))),
}


def main():
    parser = argparse.ArgumentParser()
    for option in ("--case", "--method", "--output"):
        parser.add_argument(option)
    parser.add_argument("--label", action="append", default=[])
    options, _ = parser.parse_known_args()
    if os.environ.get("OMPI_COMM_WORLD_RANK", "0") != "0":
        return 0
    result = result_of(options, os.path.basename(sys.argv[0]).removeprefix("bisection-"))
    launch = f"{result['labels'].get('layout')}/{options.case}"
    code = 0
    for where, name in json.loads(os.environ.get("FAKE_FAULTS", "{}")).items():
        method, _, at = where.rpartition("@")
        if where == launch and name == "nothing":
            return 0
        if method and at != launch:
            continue
        method = method or ("p2p" if where == launch else where)
        has = any(entry["method"] == method for entry in result["results"])
        # Patterns and transposes share names of methods; faults of metrics are of the transposes.
        is_its = result["kernel"] != "patterns" or name in ("wrong", "inapplicable")
        if where == launch or (has and is_its):
            code = fault(name)(result, method=method) or code
    if result["status"]:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(result, file)
    print("measured", flush=True)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


if __name__ == "__main__":
    sys.exit(main())
