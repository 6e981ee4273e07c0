"""Stands in for the kernels `noise` and `pairs` on a virtual cluster: numbers that no neighbour of
this machine disturbs, 1% around the same on all nodes; of some nodes slower, by speeds.json."""

import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import fake_kernel

RATES = {"noise": {"rate": 1e10}, "pairs": {"bandwidth": 1e9, "bandwidth_both": 2e9}}
TIMES = {"noise": {"time": 1e-3}, "pairs": {"time": 0.1, "latency": 1e-6}}
HIGHER = {"unit": "B/s", "better": "higher"}


def program(speeds):
    """The text of a program; `speeds`: a file, {host: its speed over that of the others}."""
    path = Path(__file__).resolve()
    from running import fake_program

    head, of_sources, _ = fake_program().split("\n", 2)
    folders = [str(path.parent), str(Path(fake_kernel.__file__).parent)]
    lines = (
        f"import sys; sys.path[:0] = {folders!r}; import node_kernel; node_kernel.main({speeds!r})"
    )
    return f"{head}\n{of_sources}\n{lines}\n"


def main(speeds):
    parser = argparse.ArgumentParser()
    for option in ("--case", "--method", "--output"):
        parser.add_argument(option)
    parser.add_argument("--label", action="append", default=[])
    options, _ = parser.parse_known_args()
    if os.environ.get("SLURM_PROCID", "0") != "0":
        return
    listed = ["scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]]
    hosts = subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split()
    kernel = os.path.basename(sys.argv[0]).removeprefix("bisection-")
    result = fake_kernel.result_of(options, kernel)
    seats = [{"host": host, "threads": ["0"], "ghz": [3.0, 3.0]} for host in hosts]
    result["layout"] = fake_kernel.layout_of(seats)
    result["hosts"][0]["names"] = hosts
    result["adapters"] = []
    known = json.loads(Path(speeds).read_text())
    speed = min(known.get(host, 1.0) for host in hosts)
    for entry in result["results"]:
        values = {name: value * speed for name, value in RATES[kernel].items()}
        values |= {name: value / speed for name, value in TIMES[kernel].items()}
        entry["metrics"] = {
            name: fake_kernel.metric(name, value * random.uniform(0.99, 1.01))
            | (HIGHER if name in RATES[kernel] else {"unit": "s"})
            for name, value in values.items()
        }
    time.sleep(0.5)
    Path(options.output).write_text(json.dumps(result))
