"""bisection-halo as a user runs it: bits on every decomposition, orders of the schemes, faults.

Usage: test_halo.py HALO FAULTY_HALO COUNTING_HALO [unittest arguments]
"""

import contextlib
import math
import os
import statistics
import subprocess
import sys
import time
import unittest
from pathlib import Path

from kernel_run import (
    ENVIRONMENT,
    MPIEXEC,
    assert_refused,
    built,
    checks,
    entry,
    inapplicable,
    main,
    members,
    run,
)

HALO = FAULTY = COUNTING = ""
ONCE = ("--repeats", "1", "--block", "3", "--warmup", "0")
SMALL = ("pchan-24", "polcoms-48", "thor-24")
PLAIN = ("--baseline", "none")
STEP = "a step is an exchange"  # of baselines, which have a stencil or a copy


def checksum(out):
    return out.result["details"]["halo"]["checksum"]


class Decompositions(unittest.TestCase):
    def verified(self, out):
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        for item in out.result["results"]:
            if item["applicable"]:
                self.assertTrue(item["verification"]["passed"], item["method"])
        return checksum(out)

    def test_the_same_bits_on_every_decomposition(self):
        """Each launch verifies that all of its methods give the same bits."""
        for case in SMALL:
            sums = {}
            for ranks in (1, 3, 5, 7):
                out = run(HALO, ranks, "--case", case, *ONCE, *PLAIN, "--ranks-per-node", "2")
                sums[ranks] = self.verified(out)
            self.assertEqual(len(set(sums.values())), 1, f"{case}: {sums}")

    def test_more_ranks_than_cells(self):
        """Ranks without a cell, halos beyond the neighbour, an ocean whose wave has no slope."""
        calm = ("--land", "none")
        for case, grid, *options in (
            ("pchan-24", "3,2,1"),
            ("polcoms-48", "2,2,3"),
            ("polcoms-48", "2,2,3", *calm),
            ("polcoms-48", "2,4,1", *calm),
            ("polcoms-48", "3,1,2", *calm, "--courant", "0.45"),
            ("polcoms-48", "1,1,2", *calm),
            ("thor-24", "1,3,1"),
        ):
            sums, shares = set(), set()
            for ranks in (1, 2, 7):
                out = run(HALO, ranks, "--case", case, "--grid", grid, *options, *ONCE, *PLAIN,
                          "--ranks-per-node", "3")  # fmt: skip
                sums.add(self.verified(out))
                shares.add(out.result["details"]["halo"]["computed_share"])
            self.assertEqual((len(sums), len(shares)), (1, 1), (case, grid))

    def test_many_levels(self):
        """Those far down are slow: their velocities are a thousand times their elevation."""
        for land in ("islands", "none"):
            out = run(HALO, 2, "--case", "polcoms-48", "--grid", "8,8,4096", "--land", land,
                      "--method", "isend", *ONCE, *PLAIN)  # fmt: skip
            self.verified(out)

    def test_a_plane_of_few_columns_is_stable(self):
        out = run(HALO, 2, "--case", "polcoms-48", "--grid", "4,4,1", "--courant", "0.45",
                  "--land", "none", "--method", "isend", *PLAIN,
                  "--repeats", "1", "--block", "1000", "--warmup", "0")  # fmt: skip
        self.verified(out)

    def test_permuted_nodes_give_the_permuted_answer(self):
        """The hash knows cells by their place in the grid, not by their number in memory."""
        ordered = run(HALO, 3, "--case", "thor-24", *ONCE, *PLAIN)
        shuffled = run(HALO, 3, "--case", "thor-24", "--order", "shuffled", *ONCE, *PLAIN)
        self.assertEqual(self.verified(ordered), self.verified(shuffled))

    def test_threads_do_not_change_bits(self):
        for case in SMALL:
            sums = {
                self.verified(run(HALO, 2, "--case", case, *ONCE, *PLAIN, threads=threads))
                for threads in (1, 3)
            }
            self.assertEqual(len(sums), 1, case)

    def test_one_rank_has_no_windows_or_has_them(self):
        """A method that cannot run says why."""
        out = run(HALO, 1, *ONCE, *PLAIN)
        away = inapplicable(out)
        self.assertLessEqual(set(away), {"rma-fence", "rma-pscw"})
        for why in away.values():
            self.assertRegex(why, "^MPI makes no window here: MPI_Win_create: ")


class Solutions(unittest.TestCase):
    """The error against the differential equation's solution falls with the scheme's order."""

    def error(self, case, grid, courant, steps, *options):
        out = run(
            HALO, 2, "--case", case, "--grid", grid, "--courant", str(courant), *PLAIN, *options,
            "--method", "isend", "--repeats", "1", "--warmup", "0", "--block", str(steps),
        )  # fmt: skip
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        self.assertIn("solution", checks(out, "isend"))
        return out.result["details"]["halo"]["error_exact"]

    def test_pchan_is_of_fourth_order(self):
        """The time step falls with the square of the cell: leapfrog is of second order in it."""
        coarse = self.error("pchan-24", "24,24,24", 0.2, 30)
        fine = self.error("pchan-24", "48,48,48", 0.1, 120)
        self.assertGreater(math.log2(coarse / fine), 3.9)

    def test_polcoms_is_of_second_order(self):
        coarse = self.error("polcoms-48", "24,24,4", 0.2, 30, "--land", "none")
        fine = self.error("polcoms-48", "96,96,4", 0.2, 120, "--land", "none")
        self.assertGreater(math.log2(coarse / fine) / 2, 1.9)

    def test_thor_is_of_second_order(self):
        """Sweeps are steps of the equation of heat, four times as many for half the cell."""
        coarse = self.error("thor-24", "16,16,16", 0.3, 20)
        fine = self.error("thor-24", "32,32,32", 0.3, 80)
        self.assertGreater(math.log2(coarse / fine), 1.9)


def rounds_of(result, seconds):
    """The median time of each round, of samples that were not disturbed; None without any."""
    samples, rounds = result["samples"], {}
    for number, disturbed, time_ in zip(
        samples["rounds"], samples["disturbed"], seconds, strict=True
    ):
        rounds.setdefault(number, []).extend([] if disturbed else [time_])
    return [statistics.median(times) if times else None for times in rounds.values()]


class Metrics(unittest.TestCase):
    def ratios(self, ranks):
        """What a launch reports, and the same from its samples: medians of rounds' ratios."""
        for _ in range(5):
            out = run(HALO, ranks, "--case", "pchan-24", "--method", "isend", "--repeats", "15")
            isend = entry(out, "isend")
            exchange = rounds_of(isend, isend["samples"]["phases"]["exchange"])
            stencil, copy, stream = (
                rounds_of(base, base["samples"]["seconds"])
                for base in (entry(out, name) for name in ("stencil", "copy", "stream"))
            )
            metrics, pairs = isend["metrics"], {}
            for name, over, under in (
                ("halo_over_stencil", exchange, stencil),
                ("halo_over_copy", exchange, copy),
                ("stencil_of_stream", stream, stencil),
            ):
                sides = zip(over, under, strict=True)
                quotients = [a / b for a, b in sides if a is not None and b is not None]
                if name in metrics and len(quotients) >= 5:
                    pairs[name] = metrics[name]["value"], statistics.median(quotients)
            if len(pairs) == 2 + (ranks > 1):
                return pairs
        raise unittest.SkipTest("too few rounds in which nobody waited for a core")

    def test_ratios_are_of_times_in_the_same_round(self):
        for reported, computed in self.ratios(1).values():
            self.assertAlmostEqual(reported / computed, 1)

    def test_the_slowest_rank_counts(self):
        """The samples have the mean of both ranks' exchange, at least half of the longer one."""
        pairs = self.ratios(2)
        for name in ("halo_over_stencil", "halo_over_copy"):
            reported, computed = pairs[name]
            self.assertGreaterEqual(reported, computed * (1 - 1e-9))
            self.assertLessEqual(reported, computed * (2 + 1e-9))
        reported, computed = pairs["stencil_of_stream"]
        self.assertAlmostEqual(reported / computed, 1)


class ExchangeOnly(unittest.TestCase):
    """Steps without a stencil, as with buffers in memory of devices."""

    def test_a_step_is_its_exchange(self):
        """Its fields are those of steps with the stencil: the same hash, which `end` verifies."""
        more = ("--case", "polcoms-48", "--repeats", "2", "--block", "3")
        for ranks in (1, 3):
            out, whole = (run(HALO, ranks, *more, *words) for words in (("--exchange-only",), ()))
            self.assertEqual(out.code, 0, out.stdout + out.stderr)
            hashes = {each.result["details"]["halo"]["checksum"] for each in (out, whole)}
            self.assertEqual(len(hashes), 1)
            none = "there is no stencil to overlap"
            away = {"overlap": none, **dict.fromkeys(("stencil", "copy", "stream"), STEP)}
            known = inapplicable(whole)
            self.assertEqual(inapplicable(out), known | away)
            for method in out.result["results"]:
                if not method["applicable"]:
                    continue
                self.assertNotIn("halo_over_stencil", method["metrics"])
                self.assertEqual({*method["samples"]["phases"]["stencil"]}, {0})


class Memory(unittest.TestCase):
    def faults(self, case):
        """Pages that each thread of a launch of two has touched first, in ascending order. On a
        busy host a launch can end between two looks at it."""
        pages = []
        for _ in range(5):
            pages = pages if len(pages) > 1 else self.faults_once(case)
        return pages

    def faults_once(self, case):
        process = subprocess.Popen(
            [*MPIEXEC, "-n", "1", HALO, "--case", case, "--grid", "96,96,34", *PLAIN, *ONCE,
             "--method", "isend"],
            env={**os.environ, **ENVIRONMENT, "OMP_NUM_THREADS": "2"},
            stdout=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        faults = {}
        while process.poll() is None:
            for pid in members(process.pid):
                with contextlib.suppress(OSError):  # it has ended
                    if not Path(f"/proc/{pid}/exe").samefile(HALO):
                        continue
                    for thread in Path(f"/proc/{pid}/task").glob("*/stat"):
                        fields = thread.read_text().rpartition(")")[2].split()
                        faults[thread] = int(fields[7])
            time.sleep(0.01)
        self.assertEqual(process.returncode, 0, case)
        return sorted(faults.values())

    def test_each_thread_touches_its_part_of_the_fields_first(self):
        """On a machine of several memories, a page lies by the thread that writes it first."""
        if "[always]" in Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text():
            self.skipTest("pages are too large to be counted")
        for case in SMALL:
            self.assertGreater(self.faults(case)[-2], 1000, case)  # both copies: 3600 and more


class Counts(unittest.TestCase):
    def test_messages_and_bytes_of_eight_cubes(self):
        """Counted by hand: both neighbours along x are one rank, as along z; y has a wall."""
        out = run(HALO, 8, "--case", "pchan-24", *ONCE, *PLAIN)
        faces = 12 * 12 * 2  # two cells deep
        for method in ("isend", "sendrecv", "persistent", "datatype", "overlap"):
            p2p = entry(out, method)["communication"]["p2p"]
            for which in ("min", "max"):
                self.assertEqual(p2p["messages"][which], 3 * 5, method)
                self.assertEqual(p2p["bytes"][which], (2 + 1 + 2) * faces * 5 * 8, method)
        aggregated = entry(out, "aggregated")["communication"]["p2p"]
        self.assertEqual(aggregated["messages"]["max"], 3)
        self.assertEqual(aggregated["bytes"]["max"], 5 * faces * 5 * 8)
        collective = entry(out, "neighbour-collective")["communication"]["collective"]
        self.assertEqual(collective["messages"]["max"], 3)
        self.assertEqual(collective["bytes"]["max"], 5 * faces * 5 * 8)
        for method in ("rma-fence", "rma-pscw"):
            puts = entry(out, method)["communication"]["one_sided"]
            self.assertEqual(puts["messages"]["max"], 3 * 5)
        self.assertEqual(entry(out, "shm")["communication"]["p2p"]["messages"]["max"], 0)

    def test_shm_sends_what_leaves_the_node(self):
        out = run(HALO, 8, "--case", "pchan-24", *ONCE, *PLAIN, "--ranks-per-node", "4")
        near, far = (entry(out, m)["communication"]["p2p"] for m in ("shm", "isend"))
        self.assertGreater(near["messages"]["mean"], 0)
        self.assertEqual(near["messages"]["mean"], far["off_node_messages"]["mean"])
        self.assertEqual(near["bytes"]["mean"], far["off_node_bytes"]["mean"])

    def test_land_is_neither_computed_nor_sent(self):
        wet, all_of = (
            run(HALO, 4, "--case", "polcoms-48", "--land", land, *ONCE, *PLAIN)
            for land in ("islands", "none")
        )
        details = [out.result["details"]["halo"] for out in (wet, all_of)]
        self.assertLess(details[0]["computed_share"], 0.9)
        self.assertEqual(details[1]["computed_share"], 1)
        self.assertLess(details[0]["received"]["mean"], details[1]["received"]["mean"])
        points = details[0]["points"]
        self.assertLess(points["max"] / points["mean"], 1.1)  # balanced by wet columns


class Faults(unittest.TestCase):
    """Exchanges broken on purpose, from the first on, later, and once."""

    def wrong(self, fault, case, after, *methods, once=False):
        environment = {"BX_FAULT": fault, "BX_FAULT_FROM": str(after)}
        if once:
            environment["BX_FAULT_ONCE"] = "1"
        chosen = ("--method", ",".join(methods)) if methods else ()
        out = run(FAULTY, 2, "--case", case, *ONCE, *PLAIN, *chosen, **environment)
        failed = {
            e["method"]
            for e in out.result["results"]
            if e["applicable"] and not e["verification"]["passed"]
        }
        ran = {e["method"] for e in out.result["results"] if e["applicable"]}
        return out.code, failed, ran

    def test_every_method_is_caught(self):
        for case in SMALL:
            for fault in ("byte", "swap", "message", "skip"):
                with self.subTest(case=case, fault=fault):
                    code, failed, ran = self.wrong(fault, case, 0)
                    self.assertEqual(code, 1)
                    self.assertEqual(failed, ran)
                    self.assertEqual(ran, set(built(HALO, *ONCE)))

    def test_one_fault_in_any_exchange_is_caught(self):
        """Two exchanges of marks, three steps of the verification, three that are timed."""
        for fault in ("byte", "swap", "message", "skip", "double"):
            for after in (0, 1, 2, 4, 5, 7):
                if fault == "double" and after < 2:
                    continue  # marks of own cells are read nowhere
                with self.subTest(fault=fault, after=after):
                    code, failed, _ = self.wrong(fault, "pchan-24", after, "isend", once=True)
                    self.assertEqual((code, failed), (1, {"isend"}))

    def test_a_changed_land_is_caught(self):
        code, failed, _ = self.wrong("land", "polcoms-48", 6, "isend", "shm")
        self.assertEqual((code, failed), (1, {"isend", "shm"}))

    def test_unbroken(self):
        for case in SMALL:
            code, failed, _ = self.wrong("none", case, 0)
            self.assertEqual((code, failed), (0, set()))


class Refusals(unittest.TestCase):
    """One line that names the value, no result."""

    def refused(self, code, *arguments, named):
        with self.subTest(arguments=arguments):
            assert_refused(self, run(HALO, 2, *arguments), code, named)

    def test_options(self):
        self.refused(2, "--order", "random", named="--order random: unknown; choose from ordered")
        self.refused(2, "--land", "yes", named="--land yes: unknown; choose from islands, none")
        self.refused(2, "--grid", "0,1,1", named="--grid 0,1,1")
        self.refused(2, "--grid", "5000,1,1", named="--grid 5000,1,1")
        self.refused(2, "--courant", "0.6", named="--courant 0.6")
        self.refused(2, "--case", "pchan-25", named="--case pchan-25")

    def test_too_large(self):
        self.refused(3, "--grid", "4096,4096,4096", named="--grid 4096,4096,4096")

    def test_the_largest_rank_counts(self):
        """13824 points, 4608 of three ranks each; blocks are unequal, and 4700 can be counted."""
        thor = ("--case", "thor-24", "--method", "isend", "--repeats", "1", "--block", "1")
        out = run(COUNTING, 3, *thor)
        self.assertEqual((out.code, out.result), (3, None), out.stdout + out.stderr)
        self.assertIn(
            "bisection-halo: --grid 24,24,24: more than 4700 points on a rank", out.stderr
        )
        out = run(COUNTING, 4, *thor)
        self.assertEqual(out.code, 0, out.stdout + out.stderr)


if __name__ == "__main__":
    HALO, FAULTY, COUNTING = sys.argv[1:4]
    main(*sys.argv[4:])
