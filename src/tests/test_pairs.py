"""bisection-pairs as a user runs it: tournament, matrix file, wrong content, hang, refusals.

Usage: test_pairs.py PAIRS FAULTY_PAIRS [unittest arguments]
"""

import itertools
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from kernel_run import ENVIRONMENT, MPIEXEC, TIMEOUT, assert_refused, choices, kill, run

PAIRS = FAULTY = ""
QUICK = ("--bytes", "65536", "--samples", "2")
RECORD = struct.Struct("<hhiiffff")  # stage, round, a, b, latency, out, back, both


def play(ranks: int, *arguments: str, executable: str = "", **environment: str):
    """Outcome and matrix of a launch; without --ranks-per-node a rank is a node."""
    if "--ranks-per-node" not in arguments:
        arguments = (*arguments, "--ranks-per-node", "1")
    out = run(executable or PAIRS, ranks, *QUICK, *arguments, **environment)
    matrix = out.files.get("result.pairs")
    return out, None if matrix is None else list(RECORD.iter_unpack(matrix))


class Tournament(unittest.TestCase):
    def test_cold_messages_are_verified(self):
        out, matrix = play(3, "--cold", "--case", "all")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        self.assertIs(out.result["parameters"]["cold"], True)
        self.assertTrue(matrix)
        with tempfile.TemporaryDirectory() as root:
            size = Path(root, "sys/devices/system/cpu/cpu0/cache/index0/size")
            size.parent.mkdir(parents=True)
            size.write_text("99999999M\n")
            out, _ = play(2, "--cold", BX_SYS_ROOT=root)
            assert_refused(self, out, 3, "--cold: twice the last cache: needs ")

    def test_all_pairs_meet_once(self):
        plays = [(nodes, "thin") for nodes in (2, 3, 4, 5, 7)]
        for nodes, mode in (*plays, (5, "serial"), (6, "concurrent")):
            with self.subTest(nodes=nodes, mode=mode):
                out, matrix = play(nodes, "--case", "all", "--mode", mode)
                self.assertEqual(out.code, 0, out.stdout + out.stderr)
                first = [record for record in matrix if record[0] == 0]
                met = sorted(tuple(sorted(record[2:4])) for record in first)
                self.assertEqual(met, list(itertools.combinations(range(nodes), 2)))
                for number in range(nodes - 1 + nodes % 2):
                    ends = [node for r in first if r[1] == number for node in r[2:4]]
                    self.assertEqual(len(ends), nodes // 2 * 2)
                    self.assertEqual(len(ends), len(set(ends)))
                for record in matrix:
                    for value in record[4:]:
                        self.assertTrue(0 < value < math.inf, record)

    def test_nobody_is_suspected_of_two(self):
        _, matrix = play(2)
        self.assertEqual([record[0] for record in matrix], [0])

    def test_result(self):
        out, matrix = play(5, "--rounds", "2", "--seed", "4")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        entry, pairs = out.result["results"][0], out.result["details"]["pairs"]
        self.assertEqual(entry["method"], "tournament")
        self.assertEqual(len(entry["samples"]["seconds"]), 1)
        self.assertEqual(len(set(pairs["nodes"])), 5)
        expected = {"mode": "thin", "rounds": 2, "switches": None, "bytes": 65536}
        expected |= {"ranks_per_node": 1, "file": "result.pairs", "records": len(matrix)}
        self.assertEqual({name: pairs[name] for name in expected}, expected)
        first = [record for record in matrix if record[0] == 0]
        self.assertEqual([record[1] for record in first], [0, 0, 1, 1])
        metrics = {name: metric["value"] for name, metric in entry["metrics"].items()}
        low, high = sorted(record[4] for record in first)[1:3]  # the median is of logarithms
        self.assertAlmostEqual(metrics["latency"] / math.sqrt(low * high), 1, places=5)
        self.assertGreaterEqual(metrics["worst_latency"], 1)
        self.assertLessEqual(metrics["worst_bandwidth"], 1)

    def test_repeats_are_further_tournaments(self):
        out, matrix = play(4, "--rounds", "1", "--repeats", "3")
        self.assertEqual(len(out.result["results"][0]["samples"]["seconds"]), 3)
        self.assertEqual(len([record for record in matrix if record[0] == 0]), 6)

    def test_as_many_ranks_talk_as_the_emptiest_node_has(self):
        for ranks, per_node, talk in ((4, 2, 2), (5, 2, 1), (7, 4, 3), (6, 3, 3)):
            with self.subTest(ranks=ranks, per_node=per_node):
                out, matrix = play(ranks, "--ranks-per-node", str(per_node))
                self.assertEqual(out.code, 0, out.stdout + out.stderr)
                pairs = out.result["details"]["pairs"]
                self.assertEqual(pairs["ranks_per_node"], talk)
                self.assertEqual(pairs["bytes"], -(-65536 // talk // 8) * 8)
                self.assertTrue(matrix)

    def test_one_node_has_no_pairs(self):
        for arguments in ((), ("--ranks-per-node", "3")):
            out = run(PAIRS, 3, *QUICK, *arguments)
            self.assertEqual(out.code, 3)
            self.assertIn("no method can run here: tournament: 1 node: a pair needs 2", out.stderr)
            self.assertEqual(out.leftovers, [])

    def test_switches_of_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "switches"
            names = play(4, "--rounds", "1")[0].result["details"]["pairs"]["nodes"]
            file.write_text(f"s1 {names[0]} other {names[3]} # two\n\ns2 {names[1]}\t{names[2]}\n")
            out, _ = play(4, "--switches", str(file))
            self.assertEqual(out.code, 0, out.stdout + out.stderr)
            pairs = out.result["details"]["pairs"]
            self.assertEqual(pairs["switches"], [0, 1, 1, 0])
            self.assertEqual(pairs["switch_names"], ["s1", "s2"])
            file.write_text(f"s1 {names[0]} {names[1]}\ns2 {names[1]} {names[2]} {names[3]}\n")
            self.refused(file, f"line 2: host {names[1]} is on switch s1 too")
            file.write_text(" ".join(["s1", *names[:3]]))
            self.refused(file, f"no switch has host {names[3]}")
            file.unlink()
            self.refused(file, "No such file")

    def refused(self, file: Path, reason: str):
        out, matrix = play(4, "--switches", str(file))
        assert_refused(self, out, 2, f"bisection-pairs: --switches {file}: {reason}")
        self.assertIsNone(matrix)

    def test_messages_are_shortened_on_a_slow_network(self):
        """256 MiB take longer than 20 ms from core to core."""
        out, _ = play(2, "--bytes", str(1 << 28), "--samples", "1")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        size = out.result["details"]["pairs"]["bytes"]
        self.assertTrue(65536 <= size < 1 << 28, size)
        self.assertIn(f"messages of {size} bytes per node, not {1 << 28}", out.stdout)

    def test_refusals(self):
        for arguments, code, named in (
            (("--mode", "fast"), 2, "--mode fast: unknown; choose from thin, serial, concurrent"),
            (("--rounds", "0"), 2, "--rounds 0: not a whole number from 1"),
            (("--bytes", "4"), 2, "--bytes 4: not a whole number from 8"),
            (("--samples", "0"), 2, "--samples 0: not a whole number from 1"),
        ):
            out, _ = play(2, *arguments)
            assert_refused(self, out, code, named)
        self.assertEqual(choices(PAIRS, "--mode"), ["thin", "serial", "concurrent"])


class Faults(unittest.TestCase):
    """Messages from the first node to the last are broken."""

    def test_wrong_content_names_its_pair(self):
        faults = [("byte", "0"), ("byte", "9"), ("swap", "9"), ("stale", "9"), ("latency", "29")]
        for fault, sound in faults:
            with self.subTest(fault=fault, sound=sound):
                out, _ = play(4, executable=FAULTY, BX_FAULT=fault, BX_FAULT_FROM=sound)
                self.assertEqual(out.code, 1, out.stdout + out.stderr)
                nodes = out.result["details"]["pairs"]["nodes"]
                self.assertIn(f"WRONG content from host {nodes[0]} to host {nodes[3]}", out.stderr)
                self.assertNotIn(f"to host {nodes[1]}", out.stderr)
                checks = out.result["results"][0]["verification"]["checks"]
                wrong = [check["name"] for check in checks if not check["passed"]]
                pair = f"content from {nodes[0][:20]} to {nodes[3][:20]}"
                self.assertEqual(wrong, ["content", pair])

    def test_values_are_those_of_the_clock(self):
        """Messages from the first node to the last take 20 ms; on a busy host, one try of some."""
        for _ in range(5):
            out, matrix = play(4, executable=FAULTY, BX_FAULT="slow")
            self.assertEqual(out.code, 0, out.stdout + out.stderr)
            times = []  # over those that they should be
            for stage, _, a, b, latency, *rates, both in matrix:
                if {a, b} == {0, 3} and stage == 0:
                    times += [latency / 0.0099]  # one of two ways is slow
                    times += [65536 / rates[a > 0] / 0.0199, 2 * 65536 / both / 0.0199]
            self.assertGreaterEqual(min(times), 1)
            if max(times) < 1.5:
                return
        self.fail(f"times are too long: {times}")

    def test_unbroken(self):
        out, _ = play(4, executable=FAULTY)
        self.assertEqual(out.code, 0, out.stdout + out.stderr)

    def test_a_hang_names_its_pair(self):
        """What was measured before is kept."""
        with tempfile.TemporaryDirectory() as folder:
            output = Path(folder) / "result.json"
            arguments = (*QUICK, "--ranks-per-node", "1", "--progress-timeout", "3")
            process = subprocess.Popen(
                [*MPIEXEC, "-n", "5", FAULTY, *arguments, "--output", str(output)],
                env={**os.environ, **ENVIRONMENT, "BX_FAULT": "hang", "BX_FAULT_FROM": "20"},
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                start_new_session=True,
            )  # fmt: skip
            try:
                errors = process.communicate(timeout=TIMEOUT)[1]
            finally:
                kill(process)
            # hydra ends with the signal of a rank that it killed
            self.assertIn(process.returncode, (4, 9), errors)
            kept = Path(folder, "result.pairs.partial").read_bytes()
            self.assertTrue(list(RECORD.iter_unpack(kept)))
            self.assertRegex(errors, r"rank 4 on \S+: .*, waits for rank 0 on \S+/0\n")
            self.assertRegex(errors, r"rank 0 on \S+: in MPI_\w+, .*, waits for rank 4 on \S+/4\n")


if __name__ == "__main__":
    PAIRS, FAULTY = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
