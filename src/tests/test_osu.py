"""bisection-osu as a user runs it: values by OSU's rules on a made-up clock, faults, refusals.

Usage: test_osu.py OSU FAULTY_OSU [unittest arguments]
"""

import sys
import unittest

from kernel_run import listed, run

OSU = FAULTY = ""
QUICK = ("--iterations", "10", "--repeats", "1", "--block", "1", "--warmup", "0")
ONE = ("--smallest", "64", "--largest", "64")
WINDOW = 64


def values(out, name):
    """A metric by method and size (B), of those that have it."""
    return {
        (entry["method"], entry["point"]["bytes"]): entry["metrics"][name]["value"]
        for entry in out.result["results"]
        if name in entry["metrics"]
    }


class Values(unittest.TestCase):
    def test_values_follow_from_clocks_and_messages(self):
        """A loop of pairs looks twice at a clock that adds rank + 1 s a look, a collective loop
        twice per call."""
        for ranks, options in ((2, ()), (4, ("--ranks-per-node", "2")), (5, ()), (7, ())):
            with self.subTest(ranks=ranks):
                out = run(FAULTY, ranks, *QUICK, *ONE, *options)
                self.assertEqual(out.code, 0, out.stdout + out.stderr)
                pairs = ranks // 2
                senders = sum(range(1, pairs + 1)) / pairs / 10  # mean s of an iteration
                everyone = sum(range(1, ranks + 1)) / ranks
                latency = {"latency": 0.1 / 2, "alltoall": everyone, "allreduce": everyone}
                rate = {"bw": WINDOW / 0.1, "bibw": 2 * WINDOW / 0.1}
                rate["mbw-mr"] = pairs * WINDOW / senders
                for name, expected in (
                    ("latency", latency),
                    ("bandwidth", {method: number * 64 for method, number in rate.items()}),
                    ("message_rate", {"mbw-mr": rate["mbw-mr"]}),
                ):
                    measured = values(out, name)
                    self.assertEqual(sorted(measured), sorted((m, 64) for m in expected))
                    for method, value in expected.items():
                        self.assertAlmostEqual(measured[method, 64] / value, 1, msg=method)

    def test_the_median_of_loops_counts(self):
        out = run(
            FAULTY,
            2,
            "--iterations",
            "5",
            "--repeats",
            "3",
            *ONE,
            "--method",
            "latency",
            "--warmup",
            "0",
            BX_FAULT="slower",
            BX_FAULT_FROM="0",
        )
        (value,) = values(out, "latency").values()
        self.assertEqual(value, 8**2 / 5 / 2)  # looks 6, 8 and 10 end the loops; 2 and 4 verify

    def test_sizes_are_those_of_the_rules(self):
        out = run(OSU, 3, *QUICK)
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        largest = {"alltoall": 1 << 20, "allreduce": 1 << 20}
        points = out.result["details"]["points"]
        self.assertEqual(list(points), listed(OSU, "methods"))
        for method, sizes in points.items():
            first = 4 if method == "allreduce" else 1
            expected, size = [], first
            while size <= largest.get(method, 4 << 20):
                expected.append(size)
                size *= 2
            self.assertEqual(sizes, expected, method)
        self.assertEqual(out.result["details"]["pairs"], 1)

    def test_memory_leaves_out_large_blocks(self):
        out = run(OSU, 4, *QUICK, "--memory", "1", "--method", "alltoall,bw")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        points = out.result["details"]["points"]
        self.assertEqual(points["alltoall"][-1], 1 << 17)  # 2 buffers of 4 blocks
        self.assertEqual(points["bw"][-1], 1 << 19)
        self.assertIn("alltoall: large blocks are left out: --memory 1 MiB", out.stdout)


class Faults(unittest.TestCase):
    def test_what_does_not_arrive_is_wrong(self):
        """In the measured loop alone: one look begins the loop of the verification, of the warm-up
        and of the measurement, and one ends each."""
        for method in listed(OSU, "methods"):
            for fault in ("byte", "skip"):
                for size in ("4", "4096"):
                    with self.subTest(method=method, fault=fault, size=size):
                        size_only = ("--smallest", size, "--largest", size, "--method", method)
                        fault_of = {"BX_FAULT": fault, "BX_FAULT_FROM": "5"}
                        out = run(FAULTY, 2, *QUICK, *size_only, **fault_of)
                        self.assertEqual(out.code, 1, out.stdout + out.stderr)
                        (entry,) = out.result["results"]
                        wrong = [
                            c["name"] for c in entry["verification"]["checks"] if not c["passed"]
                        ]
                        self.assertIn("content", wrong)

    def test_refusals(self):
        for option, value in (
            ("--smallest", "3"),
            ("--largest", "8388608"),
            ("--iterations", "-1"),
            ("--memory", "0"),
        ):
            out = run(OSU, 2, option, value)
            self.assertEqual(out.code, 2)
            self.assertIn(f"{option} {value}", out.stderr)
        out = run(OSU, 1, *QUICK)
        self.assertEqual(out.code, 3)
        self.assertIn("needs two ranks", out.stderr)
        out = run(OSU, 2, *QUICK, "--largest", "2", "--method", "allreduce")
        self.assertIn("has sizes from 4 to 1048576 B", out.stdout + out.stderr)


if __name__ == "__main__":
    OSU, FAULTY = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
