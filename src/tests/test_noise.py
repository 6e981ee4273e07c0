"""bisection-noise as a user runs it: what is known of each node, faults, refusals.

Usage: test_noise.py NOISE FAULTY_NOISE [unittest arguments]
"""

import sys
import unittest

from kernel_run import listed, run, seats

NOISE = FAULTY = ""
QUICK = ("--repeats", "2", "--block", "2", "--bytes", "1048576", "--quanta", "50")


class Nodes(unittest.TestCase):
    def test_each_node_is_described(self):
        out = run(NOISE, 5, *QUICK, "--ranks-per-node", "2")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        nodes = out.result["details"]["noise"]
        self.assertEqual([node["cores"] for node in nodes], [2, 2, 1])
        host = seats(out.result)[0]["host"]
        self.assertEqual([node["host"] for node in nodes], [f"{host}/{k}" for k in range(3)])
        for node in nodes:
            self.assertTrue(0 <= node["lost"] < 1)
            self.assertTrue(1e-6 < node["quantum"] < 1e-2)
            self.assertGreaterEqual(node["longest"], 0)
            self.assertGreater(min(node["copy_core"], node["copy_node"]), 1e7)

    def test_metrics_are_of_the_worst_node(self):
        out = run(NOISE, 4, *QUICK, "--ranks-per-node", "2")
        nodes = out.result["details"]["noise"]
        metrics = {entry["method"]: entry["metrics"] for entry in out.result["results"]}
        self.assertEqual(list(metrics), listed(NOISE, "methods"))
        quantum = metrics["quantum"]
        self.assertAlmostEqual(quantum["lost_share"]["value"], max(n["lost"] for n in nodes))
        self.assertAlmostEqual(quantum["longest"]["value"], max(n["longest"] for n in nodes))
        for method in ("copy_core", "copy_node"):
            slowest = min(node[method] for node in nodes)
            rate = metrics[method.replace("_", "-")]["rate"]
            self.assertAlmostEqual(rate["value"] / slowest, 1)
            self.assertEqual(rate["better"], "higher")

    def test_a_method_that_is_not_measured_is_null(self):
        out = run(NOISE, 2, *QUICK, "--method", "copy-node", threads=2)
        (node,) = out.result["details"]["noise"]
        self.assertIsNone(node["quantum"])
        self.assertIsNone(node["copy_core"])
        self.assertGreater(node["copy_node"], 1e7)
        self.assertEqual(node["cores"], 4)


class Faults(unittest.TestCase):
    def test_wrong_memory_and_wrong_work_are_caught(self):
        wrong = {"copy": ["copy-core", "copy-node"], "core": ["quantum"], "": []}
        for fault, methods in wrong.items():
            with self.subTest(fault=fault):
                out = run(FAULTY, 3, *QUICK, "--ranks-per-node", "2", BX_FAULT=fault)
                self.assertEqual(out.code, 1 if methods else 0, out.stdout + out.stderr)
                entries = out.result["results"]
                failed = [e["method"] for e in entries if not e["verification"]["passed"]]
                self.assertEqual(failed, methods)

    def test_rates_are_those_of_the_clock(self):
        """A copy of 1 MiB takes 20 ms, 60 at most on a busy host."""
        out = run(FAULTY, 3, *QUICK, "--ranks-per-node", "2", BX_FAULT="slow")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        for node in out.result["details"]["noise"]:
            for method, cores in (("copy_core", 1), ("copy_node", node["cores"])):
                self.assertTrue(0.020 <= cores * 2**20 / node[method] < 0.060, node)

    def test_refusals(self):
        for option, value in (("--bytes", "100"), ("--quanta", "0"), ("--bytes", "1e9")):
            out = run(NOISE, 2, option, value)
            self.assertEqual(out.code, 2)
            self.assertIn(f"{option} {value}", out.stderr)
        out = run(NOISE, 2, "--bytes", "900000000000")
        self.assertEqual(out.code, 3)
        self.assertIn("--bytes", out.stderr)


if __name__ == "__main__":
    NOISE, FAULTY = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
