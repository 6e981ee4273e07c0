"""bisection-tasks as a user runs it: balance, latencies, faults, refusals.

Usage: test_tasks.py TASKS FAULTY_TASKS [unittest arguments]
"""

import sys
import unittest

from kernel_run import assert_refused, checks, drawn, entry, listed, run

TASKS = FAULTY = ""
QUICK = ("--repeats", "1", "--block", "2", "--warmup", "0")
SMALL = ("--blocks", "3", "--rows", "2", "--partners", "2", "--work", "500")  # 12 tasks
NO_WATCHDOG = ("--progress-timeout", "0")  # whose window is shared
METHODS = ["static", "counter", "counter-progress", "manager", "hierarchical"]
ASKING = METHODS[1:]
COST = 2  # what numbers are drawn for: the enum in fock.c


def cost(task: int, work: int, seed: int = 1) -> int:
    """Turns of a task, by its definition: up to 12 levels, each 1.5 times the one before."""
    bits = drawn(drawn(seed, COST), task)
    level = min(next((n for n in range(56) if not bits >> (8 + n) & 1), 56), 12)
    turns = work
    for _ in range(level):
        turns += turns // 2
    return 1 + turns * (256 + bits % 256) // 768


def metric(out, method: str, name: str) -> float:
    return entry(out, method)["metrics"][name]["value"]


class Balance(unittest.TestCase):
    def test_static_is_as_unbalanced_as_its_costs(self):
        work = 3000
        out = run(TASKS, 4, *QUICK, "--work", str(work), "--seed", "1")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        self.assertEqual(listed(TASKS, "methods"), METHODS)
        costs = [cost(task, work) for task in range(out.result["details"]["tasks"])]
        self.assertEqual(len(costs), 312)
        self.assertEqual(sum(costs), out.result["details"]["turns"])
        self.assertEqual(max(costs), out.result["details"]["largest_task"])
        self.assertAlmostEqual(sum(costs) / len(costs) / work, 1, delta=0.25)
        self.assertGreater(max(costs), 10 * sum(costs) / len(costs))
        most = max(sum(costs[rank::4]) for rank in range(4))
        self.assertAlmostEqual(metric(out, "static", "imbalance"), 4 * most / sum(costs))
        for method in METHODS:
            self.assertTrue(1 <= metric(out, method, "imbalance") <= 4)
            self.assertGreater(metric(out, method, "efficiency"), 0)
        for method in ("counter-progress", "manager"):  # three of four ranks work
            self.assertGreaterEqual(metric(out, method, "imbalance"), 4 / 3)

    def test_latencies_are_of_what_asks(self):
        out = run(TASKS, 3, *QUICK, *SMALL)
        for method in METHODS:
            asks = method in ASKING
            names = {"latency", "latency_computing", "ratio_bare"}
            self.assertEqual(names <= entry(out, method)["metrics"].keys(), asks, method)
            self.assertEqual(bool(names & entry(out, method)["metrics"].keys()), asks, method)

    def test_phases(self):
        """The manager deals numbers for as long as either of the two others computes."""
        manager = ("--method", "manager", "--baseline", "none")
        out = run(TASKS, 3, *QUICK, *SMALL[:-1], "4000000", *manager)
        phases = {k: sum(v) for k, v in entry(out, "manager")["samples"]["phases"].items()}
        self.assertGreater(2 * phases["counter"], phases["integrals"])
        self.assertGreater(phases["waiting"], 0)

    def test_host_that_computes_holds_up_a_counter_without_progress(self):
        """Open MPI's one-sided messages by two-sided ones need their target's help."""
        if "Open MPI v4" not in run(TASKS, 1, *QUICK, *SMALL).result["build"]["mpi"]:
            self.skipTest("has no such component")
        latencies, disturbed = [], []
        for _ in range(8):  # beside a neighbour the last rank may run when the others have computed
            out = run(TASKS, 2, *QUICK, *SMALL, *NO_WATCHDOG, OMPI_MCA_osc="pt2pt")
            self.assertEqual(out.code, 0, out.stdout + out.stderr)
            latencies.append(metric(out, "counter", "latency_computing"))
            if latencies[-1] > 0.3e-3:
                return
            disturbed.append(any(entry(out, "counter")["samples"]["disturbed"]))
        if all(disturbed):
            self.skipTest("other processes had the cores in all launches")
        self.fail(f"latencies while rank 0 computes: {latencies} s")


class Layouts(unittest.TestCase):
    def test_one_rank_has_no_spare(self):
        out = run(TASKS, 1, *QUICK, *SMALL)
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        spare = [e["method"] for e in out.result["results"] if not e["applicable"]]
        self.assertEqual(spare, ["counter-progress", "manager"])
        self.assertEqual(entry(out, "manager")["why"], "needs two ranks: rank 0 takes no tasks")
        self.assertNotIn("latency_computing", entry(out, "counter")["metrics"])

    def test_emulated_nodes_have_windows_of_their_own(self):
        """Made at the same time, Open MPI 4 mixes them up in two of three launches."""
        nodes = ("--ranks-per-node", "2", "--method", "hierarchical", "--baseline", "none")
        for _ in range(4):
            out = run(TASKS, 8, *QUICK, *SMALL, *nodes)
            self.assertEqual(out.code, 0, out.stdout + out.stderr)

    def test_refusals(self):
        for option, value in (("blocks", "0"), ("rows", "1001"), ("partners", "-1"), ("work", "x")):
            out = run(TASKS, 2, f"--{option}", value)
            assert_refused(self, out, 2, f"--{option} {value}")
        assert_refused(self, run(TASKS, 2, "--work", "100000000"), 3, "--work 100000000")


class Faults(unittest.TestCase):
    def wrong(self, fault: str, first: int, *arguments: str) -> "dict[str, set[str]]":
        """The names of the checks that did not pass, by method; without the others."""
        out = run(FAULTY, 3, *QUICK, *SMALL, *arguments, BX_FAULT=fault, BX_FAULT_FROM=str(first))
        self.assertEqual(out.code, 1, fault + out.stdout + out.stderr)
        failed = {
            method: {name for name, check in checks(out, method).items() if not check["passed"]}
            for method in (e["method"] for e in out.result["results"])
        }
        return {method: names for method, names in failed.items() if names}

    def test_without_a_fault(self):
        self.assertEqual(run(FAULTY, 3, *QUICK, *SMALL).code, 0)

    def test_lost_and_doubled_tasks_of_each_method(self):
        for method in METHODS:
            for first in (0, 5):  # during verification; in a build that is timed
                for fault, check in (("lose", "lost"), ("repeat", "doubled")):
                    with self.subTest(method=method, fault=fault, first=first):
                        wrong = self.wrong(fault, first, "--method", method)
                        self.assertEqual(wrong, {method: {check, "Fock matrix"}})

    def test_wrong_bit_and_wrong_sums(self):
        for fault in ("get", "drop", "again"):
            for first in (1, 9):
                with self.subTest(fault=fault, first=first):
                    wrong = self.wrong(fault, first, "--method", "static")
                    self.assertEqual(wrong, {"static": {"Fock matrix"}})

    def test_wrong_numbers(self):
        for method in ("counter", "counter-progress", "hierarchical"):
            with self.subTest(method=method):
                wrong = self.wrong("skip", 1, "--method", method)
                self.assertIn("lost", wrong[method])
        for method in ("counter", "counter-progress"):
            with self.subTest(method=method):
                wrong = self.wrong("same", 1, "--method", method)
                self.assertIn("doubled", wrong[method])
        self.assertIn("lost", self.wrong("other", 1, "--method", "manager")["manager"])


if __name__ == "__main__":
    TASKS, FAULTY = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
