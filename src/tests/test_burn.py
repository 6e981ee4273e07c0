"""bisection-burn as a user runs it: curves and sensors of nodes, a node that throttles, refusals.

Usage: test_burn.py BURN [unittest arguments]
"""

import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import kernel_run
from kernel_run import long, members, run

BURN = ""
ROWS, ARRAY, BYTES = 256, 8 << 20, 1 << 20
QUICK = ("--slice", "0.05", "--rows", str(ROWS), "--array", str(ARRAY), "--bytes", str(BYTES))
SENSORS = ("temperature", "joules", "corrected_errors", "uncorrected_errors", "throttled")


class Node:
    """A made-up /sys, whose node gets hot when `heat` is called."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.put("class/hwmon/hwmon0/name", "k10temp")
        self.put("devices/system/edac/mc/mc0/ue_count", 1)
        self.put("cray/pm_counters/power", "150 W 17 us")
        self.set(2600000, 60000, 5, 0)

    def put(self, name: str, value: object) -> None:
        file = self.root / "sys" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name("part")
        part.write_text(f"{value}\n")
        part.rename(file)  # a reader never sees an empty file

    def set(self, clock: int, temperature: int, errors: int, throttled: int) -> None:
        for cpu in range(os.cpu_count() or 1):
            self.put(f"devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq", clock)
        self.put("class/hwmon/hwmon0/temp1_input", temperature)
        self.put("devices/system/edac/mc/mc0/ce_count", errors)
        self.put("devices/system/cpu/cpu0/thermal_throttle/package_throttle_count", throttled)

    def heat(self) -> None:
        self.set(1800000, 97000, 9, 3)


def after_first_round(output: Path, call, done: threading.Event) -> None:
    """Calls when the result so far has samples."""
    while not done.is_set():
        if output.exists():
            results = json.loads(output.read_text())["results"]
            if any(entry["samples"]["seconds"] for entry in results):
                call()
                return
        time.sleep(0.01)


def run_and(call, ranks: int, *arguments: str, **environment: str):
    """A launch in which `call` is called after the first round."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder, "result.json")
        done = threading.Event()
        watch = threading.Thread(target=after_first_round, args=(output, call, done))
        watch.start()
        try:
            out = run(BURN, ranks, *arguments, "--output", str(output), **environment)
        finally:
            done.set()
            watch.join()
        out.result = json.loads(output.read_text()) if output.exists() else None
        return out


class Curves(unittest.TestCase):
    def test_rates_are_work_over_time(self):
        out = run(BURN, 2, *QUICK, "--repeats", "3", "--block", "2", BX_SYS_ROOT="/nonexistent")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        self.assertEqual(kernel_run.misfit(out), "")
        burn = out.result["details"]["burn"]
        work = {"dgemm": 4e-9 * ROWS**3, "triad": 3 * ARRAY, "alltoall": 2 * BYTES}
        for entry in out.result["results"]:
            if not entry["applicable"]:
                continue
            with self.subTest(method=entry["method"]):
                burnt = burn[entry["method"]]
                ((node,), curve) = burnt["nodes"], burnt["curve"]
                self.assertEqual(len(curve["at"]), 6)
                self.assertEqual(curve["at"], sorted(curve["at"]))
                of_step = work[entry["method"]] * burnt["passes"]
                for rate, seconds in zip(curve["rate"], curve["seconds"], strict=True):
                    self.assertAlmostEqual(rate * seconds / of_step, 1, 6)
                for whole, seconds in zip(
                    entry["samples"]["seconds"], curve["seconds"], strict=True
                ):
                    self.assertLessEqual(seconds, whole * 1.01)
                self.assertAlmostEqual(node["rate"] / statistics.median(curve["rate"]), 1, 6)
                metrics = {name: item["value"] for name, item in entry["metrics"].items()}
                self.assertAlmostEqual(metrics["sustained"] / (node["last"] / node["first"]), 1)
                self.assertAlmostEqual(metrics["rate"] / node.get("best", node["rate"]), 1)
                self.assertLess(0.1, metrics["clock_end"])  # measured
                for name in SENSORS:  # absent, not zero
                    self.assertNotIn(name, node)
                self.assertFalse({"temperature_max", "energy", "corrected_errors"} & {*metrics})
                self.assertFalse({"temperature", "power", "corrected"} & {*curve})

    def test_a_step_takes_as_long_as_asked_at_first(self):
        """Passes are counted before; a busy host makes them fewer, or their step longer."""
        few, many = (
            run(BURN, 1, "--method", "dgemm", "--rows", "48", "--slice", seconds, "--repeats", "1")
            for seconds in ("0.002", "0.2")
        )
        passes = [out.result["details"]["burn"]["dgemm"]["passes"] for out in (few, many)]
        self.assertGreater(passes[1], 4 * passes[0])

    def test_arrays_follow_the_rule_of_stream(self):
        caches = {"0": (64, "0-1"), "1": (64, "0-1")}
        with tempfile.TemporaryDirectory() as folder:
            for cpu, (size, shared) in caches.items():
                cache = Path(folder, f"sys/devices/system/cpu/cpu{cpu}/cache/index3")
                cache.mkdir(parents=True)
                (cache / "size").write_text(f"{size * 64}K\n")
                (cache / "level").write_text("3\n")
                (cache / "shared_cpu_list").write_text(f"{shared}\n")
            plain = ("--method", "triad", "--slice", "0.01", "--repeats", "1", "--block", "3")
            whole = run(BURN, 2, *plain, BX_SYS_ROOT=folder)
            small = run(BURN, 2, *plain, "--array", "1000000", BX_SYS_ROOT=folder)
        burnt = whole.result["details"]["burn"]["triad"]
        self.assertEqual(burnt["cache_bytes"], 4 << 20)
        self.assertEqual(burnt["array_bytes"], 16 << 20)
        self.assertNotIn("STREAM", whole.stdout)
        self.assertIn("not a rate by STREAM's rules", small.stdout)

    def test_nodes_of_a_launch(self):
        """Few passes: ranks that share cores wait long at each barrier."""
        out = run(BURN, 5, "--slice", "0.005", "--rows", "64", "--array", str(ARRAY),
                  "--ranks-per-node", "2", "--method", "dgemm,triad",
                  "--repeats", "3", "--block", "2")  # fmt: skip
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        for burnt in out.result["details"]["burn"].values():
            self.assertEqual([node["cores"] for node in burnt["nodes"]], [2, 2, 1])
            hosts = [node["host"] for node in burnt["nodes"]]
            self.assertEqual([host.rpartition("/")[2] for host in hosts], ["0", "1", "2"])
            kept = {n["host"]: n["last"] / n["first"] for n in burnt["nodes"] if "last" in n}
            self.assertEqual(burnt["curve"]["host"], min(kept, key=kept.__getitem__))


class Sensors(unittest.TestCase):
    def test_a_falling_clock_and_errors_are_in_the_curve(self):
        with tempfile.TemporaryDirectory() as folder:
            node = Node(Path(folder))
            out = run_and(
                node.heat, 1, *QUICK, "--method", "triad", "--slice", "0.3",
                "--repeats", "12", "--block", "1", BX_SYS_ROOT=folder,
            )  # fmt: skip
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        burnt = out.result["details"]["burn"]["triad"]
        ((node,), curve) = burnt["nodes"], burnt["curve"]
        self.assertEqual(node["clock_last"], 1.8)
        third = sum(curve["seconds"]) / 3
        middles = [b - s / 2 for b, s in zip(curve["busy"], curve["seconds"], strict=True)]
        first = [c for c, at in zip(curve["clock"], middles, strict=True) if at <= third]
        self.assertAlmostEqual(node["clock_first"], statistics.median(first))
        self.assertEqual([*dict.fromkeys(curve["clock"])], [2.6, 1.8])
        self.assertEqual([*dict.fromkeys(curve["temperature"])], [60, 97])
        self.assertEqual((node["corrected_errors"], node["uncorrected_errors"]), (4, 0))
        self.assertEqual([*dict.fromkeys(curve["corrected"])], [0, 4])
        self.assertEqual(node["throttled"], 3)
        self.assertEqual(set(curve["power"]), {150})
        joules = statistics.median(150 * s / burnt["passes"] for s in curve["seconds"])
        metrics = {n: m["value"] for n, m in out.result["results"][0]["metrics"].items()}
        for name, value in (
            ("energy", joules), ("clock_end", 1.8), ("temperature_max", 97), ("corrected_errors", 4)
        ):  # fmt: skip
            self.assertAlmostEqual(metrics[name] / value, 1, 6, name)

    @long
    def test_a_node_whose_cores_are_taken_does_not_sustain_its_rate(self):
        """Stopped for nine tenths of the time: neighbours do not make up for that."""
        over = threading.Event()

        def take() -> None:
            threading.Thread(target=duty, daemon=True).start()

        def duty() -> None:
            ranks = []
            while not over.is_set():
                ranks = [pid for pid in members(os.getsid(0)) if is_rank(pid)]
                for sign, pause in ((signal.SIGSTOP, 0.18), (signal.SIGCONT, 0.02)):
                    for pid in ranks:
                        with contextlib.suppress(ProcessLookupError):
                            os.kill(pid, sign)
                    time.sleep(pause)

        def is_rank(pid: int) -> bool:
            with contextlib.suppress(OSError):  # processes of the session come and go
                return Path(f"/proc/{pid}/comm").read_text().startswith("bisection-burn")
            return False

        out = run_and(take, 1, "--slice", "0.5", "--method", "dgemm", "--repeats", "9",
                      "--block", "1")  # fmt: skip
        over.set()
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        sustained = out.result["results"][0]["metrics"]["sustained"]["value"]
        self.assertLess(sustained, 0.6)


class Refusals(unittest.TestCase):
    def test_refusals(self):
        for option, value in (("--slice", "0"), ("--rows", "0"), ("--array", "-1"),
                              ("--bytes", "7")):  # fmt: skip
            out = run(BURN, 2, option, value)
            self.assertEqual(out.code, 2)
            self.assertIn(f"{option} {value}", out.stderr)
        out = run(BURN, 2, "--array", "9000000000000")
        self.assertEqual(out.code, 3)
        self.assertIn("--array", out.stderr)

    def test_one_rank_exchanges_nothing(self):
        out = run(BURN, 1, *QUICK, "--repeats", "1", "--block", "1")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        self.assertIn("has none to exchange", kernel_run.inapplicable(out)["alltoall"])


if __name__ == "__main__":
    BURN = sys.argv[1]
    kernel_run.main(*sys.argv[2:])
