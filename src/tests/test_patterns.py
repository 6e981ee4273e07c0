"""bisection-patterns as a user runs it: sizes, bandwidths, faults, refusals.

Usage: test_patterns.py PATTERNS FAULTY_PATTERNS [unittest arguments]
"""

import sys
import tempfile
import time
import unittest
from pathlib import Path

from kernel_run import assert_refused, built, checks, inapplicable, run

PATTERNS = FAULTY = ""
QUICK = ("--repeats", "1", "--block", "2")
SHORT = (*QUICK, "--largest", "8")


def of(out, method):
    return [entry for entry in out.result["results"] if entry["method"] == method]


def sizes(out, method):
    return [entry["point"].get("bytes") for entry in of(out, method)]


class Sweep(unittest.TestCase):
    def test_every_method_at_each_of_its_sizes(self):
        methods = built(PATTERNS, *SHORT)
        chosen = ("--method", ",".join(methods))
        out = run(PATTERNS, 2, *QUICK, "--ranks-per-node", "1", *chosen)
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        self.assertEqual({e["method"] for e in out.result["results"]}, set(methods))
        for entry in out.result["results"]:
            with self.subTest(method=entry["method"], point=entry["point"]):
                self.assertTrue(entry["verification"]["passed"])
                metrics = entry["metrics"]
                self.assertTrue(0 < metrics["time_min"]["value"] <= metrics["time"]["value"])
                self.assertLessEqual(metrics["time"]["value"], metrics["time_p99"]["value"])
        for method in ("alltoall", "alltoallv"):  # those of figure 2
            self.assertEqual(sizes(out, method), [2**power for power in range(3, 21)])
            for entry in of(out, method):
                self.assertGreater(entry["metrics"]["ratio_alltoallv"]["value"], 0)
        self.assertEqual(sizes(out, "pingpong"), [2**power for power in range(3, 23)])
        self.assertEqual(sizes(out, "barrier"), [None])
        self.assertNotIn("ratio_alltoall", of(out, "allgather")[0]["metrics"])
        planned = out.result["details"]["points"]
        self.assertEqual(planned, {m: [n or 0 for n in sizes(out, m)] for m in methods})
        self.assertEqual(out.result["details"]["left_out"], {})

    def test_time_is_of_one_exchange(self):
        """Small blocks are exchanged several times in a step."""
        out = run(PATTERNS, 3, "--largest", "8", "--method", "alltoall,alltoallv", *QUICK)
        for entry in out.result["results"]:
            calls = entry["communication"]["collective"]["calls"]["max"]
            self.assertGreater(calls, 1)
            shortest = min(entry["samples"]["seconds"])
            self.assertAlmostEqual(entry["metrics"]["time_min"]["value"] * calls / shortest, 1)
            sent = entry["communication"]["collective"]["bytes"]["max"]
            self.assertEqual(sent, calls * 2 * 8)  # to two others

    def test_bandwidth_is_of_what_the_busiest_node_sends(self):
        """On nodes of 2, 2 and 1 ranks, and of 2, 2, 2 and 1, counted by hand."""
        size = 65536
        blocks = {
            "alltoall": 2 * 3, "alltoallv": 2 * 3, "pingpong": 1, "node-to-node": 1,
            "bisecting": 1, "random-matching": 1, "random-ring": 3, "bcast": 1,
            "allreduce": 2 * 2 / 3, "allgather": 4, "allgatherv": 4, "reduce-scatter": 4,
            "halo": 2, "put": 1, "get": 1,
        }  # fmt: skip
        pairs = ("node-to-node", "bisecting", "random-matching", "put", "get")
        for ranks, counts in ((5, blocks), (7, dict.fromkeys(pairs, 2))):
            out = run(
                PATTERNS, ranks, "--ranks-per-node", "2", "--smallest", str(size), "--largest",
                str(size), "--adapter-rate", "8", "--method", ",".join(counts), *QUICK,
            )  # fmt: skip
            for method, count in counts.items():
                (entry,) = of(out, method)
                metrics = entry["metrics"]
                rate = count * size / metrics["time"]["value"]
                self.assertAlmostEqual(metrics["bandwidth"]["value"] / rate, 1, msg=method)
                self.assertAlmostEqual(metrics["of_adapter"]["value"] / rate, 1e-9, msg=method)

    def test_adapter_rate_is_of_the_fastest_that_are_up(self):
        for state, rates in (("ACTIVE", 400), ("DOWN", 200)):
            with self.subTest(state=state), tempfile.TemporaryDirectory() as root:
                for number, of_port in enumerate(("ACTIVE", state, "ACTIVE")):
                    port = Path(root, f"sys/class/infiniband/mlx5_{number}/ports/1")
                    port.mkdir(parents=True)
                    (port / "link_layer").write_text("InfiniBand\n")
                    (port / "state").write_text(f"4: {of_port}\n")
                    (port / "rate").write_text(f"{(200, 200, 100)[number]} Gb/sec (4X HDR)\n")
                more = {"BX_FAULT": "apart", "BX_SYS_ROOT": root}
                began = time.monotonic()
                out = run(FAULTY, 2, "--largest", "8", "--method", "pingpong", *QUICK, **more)
                took = time.monotonic() - began
                self.assertEqual(out.code, 0, out.stdout + out.stderr)
                self.assertEqual(out.result["details"]["adapter_rate"], rates * 1e9 / 8)
                (host,) = out.result["adapters"]
                (entry,) = of(out, "pingpong")
                self.assertGreater(host["seconds"], sum(entry["samples"]["seconds"]))
                self.assertLess(host["seconds"], took)
                states = {a["name"]: a["state"] for a in host["list"]}
                self.assertEqual(states["mlx5_1:1"], state.lower())

    def test_larger_blocks_than_memory_holds_are_left_out(self):
        out = run(PATTERNS, 4, "--memory", "1", *QUICK)
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        self.assertEqual(max(sizes(out, "alltoall")), 2**17)  # 4 blocks in half a MiB
        left = out.result["details"]["left_out"]
        self.assertEqual(left["alltoall"], [2**18, 2**19, 2**20])
        self.assertEqual(left["pingpong"], [2**20, 2**21, 2**22])
        self.assertIn("alltoall: blocks from 256 KiB on are left out: --memory 1 MiB", out.stdout)

    def test_cold_buffers_are_of_the_size_that_the_system_names(self):
        with tempfile.TemporaryDirectory() as root:
            size = Path(root, "sys/devices/system/cpu/cpu1/cache/index3/size")
            size.parent.mkdir(parents=True)
            for text, code in (("32K", 0), ("64M", 0), ("99999999M", 3)):
                with self.subTest(size=text):
                    size.write_text(f"{text}\n")
                    out = run(
                        PATTERNS, 3, "--cold", "--largest", "512", "--ranks-per-node", "2",
                        "--repeats", "2", BX_SYS_ROOT=root,
                    )  # fmt: skip
                    if code:
                        assert_refused(self, out, code, "--cold: ")
                        continue
                    self.assertEqual(out.code, 0, out.stdout + out.stderr)
                    self.assertIs(out.result["parameters"]["cold"], True)
                    methods = {e["method"] for e in out.result["results"] if e["applicable"]}
                    self.assertEqual(methods, set(built(PATTERNS, *SHORT)))

    def test_cold_buffers_where_the_system_names_no_size(self):
        with tempfile.TemporaryDirectory() as root:
            Path(root, "sys/devices/system/cpu").mkdir(parents=True)
            one_size = ("--method", "alltoall", "--smallest", "512", "--largest", "512")
            out = run(PATTERNS, 2, "--cold", *one_size, *QUICK, BX_SYS_ROOT=root)
            self.assertEqual(out.code, 0, out.stdout + out.stderr)
            line = "--cold: 512 MiB per rank are written, as the system names no size of a cache"
            self.assertIn(line, out.stdout)
            self.assertNotIn(line, run(PATTERNS, 2, *one_size, *QUICK, BX_SYS_ROOT=root).stdout)

    def test_too_few_ranks_or_nodes(self):
        result = run(PATTERNS, 1, "--largest", "64", *QUICK)
        self.assertEqual(result.code, 0, result.stdout + result.stderr)
        away = inapplicable(result)
        self.assertEqual(away.pop("node-to-node"), "needs two nodes")
        self.assertEqual(set(away.values()), {"needs two ranks"})
        self.assertIn("halo", away)
        self.assertTrue(of(result, "allreduce")[0]["verification"]["passed"])

    def test_one_seed_deals_the_same_patterns(self):
        """What a rank sends off its node depends on the deal alone."""
        sent = []
        for seed in ("1", "1", "2", "3"):
            out = run(
                PATTERNS, 6, "--method", "random-ring", "--ranks-per-node", "2", "--seed", seed,
                "--smallest", "65536", "--largest", "65536", "--repeats", "3", "--block", "1",
            )  # fmt: skip
            sent.append(of(out, "random-ring")[0]["communication"]["p2p"]["off_node_bytes"])
        self.assertEqual(sent[0], sent[1])
        self.assertTrue(sent[0] != sent[2] or sent[0] != sent[3], sent)


class Verification(unittest.TestCase):
    """Exchanges broken on purpose, at once and only after the first verification."""

    def faulty(self, fault: str, first: int, *arguments: str, ranks: int = 3, **environment: str):
        return run(
            FAULTY, ranks, "--ranks-per-node", "2", *arguments, *QUICK,
            BX_FAULT=fault, BX_FAULT_FROM=str(first), **environment,
        )  # fmt: skip

    def test_corrupted_payload_of_every_method_is_caught(self):
        """Each method by itself is wrong, and named on the terminal."""
        methods = set(built(PATTERNS, *SHORT)) - {"barrier", "message-rate"}  # see below
        for fault in ("sent", "byte", "skip"):
            with self.subTest(fault=fault):
                out = self.faulty(fault, 0, "--method", ",".join(methods),
                                  "--smallest", "65536", "--largest", "65536")  # fmt: skip
                self.assertEqual(out.code, 1, out.stdout + out.stderr)
                entries = [e for e in out.result["results"] if e["applicable"]]
                wrong = {e["method"] for e in entries if not e["verification"]["passed"]}
                # the target takes no part in put and get: it spoils at another time
                late = {"sent": {"get"}, "byte": {"put"}}.get(fault, set())
                self.assertEqual(wrong - late, methods - late)
                for method in wrong:
                    self.assertRegex(out.stdout, rf"{method} +wrong: content error")

    def test_faults_after_the_first_verification_are_caught(self):
        for fault in ("byte", "swap", "blocks", "skip", "sent"):
            with self.subTest(fault=fault):
                size = ("--smallest", "16", "--largest", "16")
                out = self.faulty(fault, 64, *size, "--method", "alltoall,halo,allreduce")
                self.assertEqual(out.code, 1, out.stdout + out.stderr)
                for entry in out.result["results"]:
                    self.assertFalse(entry["verification"]["passed"], entry["method"])

    def test_fault_in_any_one_exchange_is_caught(self):
        """64 exchanges of 8 bytes in a step; one verifying step, then warm-up and two samples."""
        for fault in ("byte", "blocks", "skip"):
            for call in (1, 31, 63, 64, 150, 255):
                with self.subTest(fault=fault, call=call):
                    out = self.faulty(
                        fault, call, "--largest", "8", "--method", "alltoall", BX_FAULT_ONCE="1"
                    )
                    self.assertEqual(out.code, 1, out.stdout + out.stderr)

    def test_fault_in_any_one_exchange_of_cold_buffers_is_caught(self):
        for call in (1, 64, 150, 255):
            with self.subTest(call=call):
                out = self.faulty("byte", call, "--largest", "8", "--method", "alltoall", "--cold",
                                  BX_FAULT_ONCE="1")  # fmt: skip
                self.assertEqual(out.code, 1, out.stdout + out.stderr)

    def test_message_rate_and_barrier(self):
        for method, word in (("message-rate", "content"), ("barrier", "left early")):
            for first in (0, 64):
                with self.subTest(method=method, first=first):
                    for _ in range(20):  # a rank without a core for 5 ms leaves no barrier early
                        out = self.faulty("skip", first, "--method", method)
                        failed = [n for n, c in checks(out, method).items() if not c["passed"]]
                        if word in failed:
                            break
                    self.assertEqual(out.code, 1, out.stdout + out.stderr)
                    self.assertIn(word, failed)

    def test_the_same_exchanges_unbroken(self):
        out = self.faulty("none", 0, "--largest", "1024")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)


class Refusals(unittest.TestCase):
    """One line that names the value, no result."""

    def refused(self, code: int, ranks: int, *arguments: str, named: str):
        with self.subTest(arguments=arguments):
            assert_refused(self, run(PATTERNS, ranks, *arguments, *QUICK), code, named)

    def test_sizes(self):
        self.refused(2, 2, "--largest", "100", named="--largest 100: not a power of two")
        self.refused(2, 2, "--smallest", "24", named="--smallest 24: not a power of two")
        self.refused(2, 2, "--smallest", "0", named="--smallest 0")
        self.refused(2, 2, "--largest", "-8", named="--largest -8")
        self.refused(2, 2, "--largest", "1e9", named="--largest 1e9")
        self.refused(2, 2, "--smallest", "64", "--largest", "8", named="more than --largest 8")
        self.refused(2, 2, "--adapter-rate", "-1", named="--adapter-rate -1")
        self.refused(2, 2, "--memory", "0", named="--memory 0")


if __name__ == "__main__":
    PATTERNS, FAULTY = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
