"""A Fortran kernel under the harness, and what it sends by mpi_f08, counted.

Usage: test_fortran.py FORTRAN_KERNEL [unittest arguments]
"""

import sys
import unittest

from kernel_run import checks, run

KERNEL = ""


class FortranKernel(unittest.TestCase):
    def test_verified_and_counted(self):
        ranks = 5
        out = run(KERNEL, ranks, "--factor", "3", "--repeats", "2", "--block", "4")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        self.assertIn("a note from Fortran", out.stdout)
        self.assertEqual(out.result["parameters"]["factor"], 3)
        allreduce, ring, root = out.result["results"]
        self.assertEqual(allreduce["method"], "allreduce")
        sent = allreduce["communication"]["collective"]
        self.assertEqual((sent["calls"]["mean"], sent["bytes"]["mean"]), (1, 8))
        self.assertEqual(allreduce["communication"]["p2p"]["calls"]["max"], 0)
        sent = ring["communication"]["p2p"]
        self.assertEqual(
            (sent["messages"]["min"], sent["bytes"]["max"]), (ranks - 1, 8 * (ranks - 1))
        )
        self.assertEqual(len(ring["samples"]["seconds"]), 8)
        sent = root["communication"]
        self.assertEqual(sent["collective"]["calls"]["min"], 1)
        self.assertEqual(sent["collective"]["messages"]["max"], ranks - 1)
        self.assertEqual(sent["p2p"]["messages"]["mean"], (ranks - 1) / ranks)
        # 2 rounds of 1 + 4 steps and one to verify, all within the region
        region = out.result["communication"]["regions"]["sum"]
        self.assertEqual(region["collective"]["calls"]["mean"], 11 * 2)
        messages = 11 * (ranks - 1 + (ranks - 1) / ranks)
        self.assertAlmostEqual(region["p2p"]["messages"]["mean"], messages)
        for name, kind in region.items():
            self.assertEqual(kind, out.result["communication"][name])

    def test_calls_of_mpi_are_those_that_a_method_declares(self):
        sampling = ("--repeats", "2", "--block", "3")
        out = run(KERNEL, 3, "--factor", "8", *sampling)
        self.assertEqual(out.code, 1)
        verified = {r["method"]: r["verification"]["passed"] for r in out.result["results"]}
        self.assertEqual(verified, {"allreduce": True, "ring": False, "root-3": True})
        self.assertIn("wrong: declared calls of MPI error 1, allowed 0 missing", out.stdout)
        out = run(KERNEL, 3, "--factor", "9", *sampling)
        self.assertEqual(out.code, 1)
        self.assertIn("not what its name says: calls of MPI_Barrier: 3, the name promises 0",
                      out.stdout)  # fmt: skip
        check = checks(out, "allreduce")["calls of MPI_Barrier"]
        self.assertEqual([check[n] for n in ("shown", "least", "most", "error")], [3, 0, 0, 3])
        # measured no further than the block that showed it
        self.assertEqual(len(out.result["results"][0]["samples"]["seconds"]), 3)

    def test_tables_depend_on_the_ranks(self):
        for ranks in (2, 3):
            out = run(KERNEL, ranks, "--method", f"root-{ranks}", "--repeats", "1", "--block", "2")
            self.assertEqual(out.code, 0, out.stdout + out.stderr)
            self.assertEqual([r["method"] for r in out.result["results"]], [f"root-{ranks}"])
        out = run(KERNEL, 2, "--method", "root-3")
        self.assertEqual(out.code, 2)
        self.assertIn("root-2", out.stderr)

    def test_what_a_kernel_adds(self):
        out = run(KERNEL, 4, "--factor", "2", "--ranks-per-node", "2", "--repeats", "1")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        self.assertEqual(out.result["case"], "multiple")
        self.assertEqual(out.result["details"], {"case": "multiple", "nodes": 2})
        self.assertEqual(
            [r["metrics"]["useful_share"] for r in out.result["results"]],
            [{"value": m / 4, "unit": "share", "better": "higher"} for m in (1, 2, 3)],
        )

    def test_families_and_aliases(self):
        out = run(KERNEL, 3, "--repeats", "5", "--block", "3")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        allreduce, ring, root = (r["metrics"] for r in out.result["results"])
        for metrics in (allreduce, ring, root):
            self.assertIn("ratio_allreduce", metrics)
            self.assertNotIn("ratio_ring", metrics)
        self.assertEqual(ring["ratio_base"]["value"], 1)
        self.assertNotIn("ratio_best", allreduce)  # of no family
        best = "ring" if ring["time"]["value"] <= root["time"]["value"] else "root-3"
        self.assertEqual(out.result["best"], {"hand-made": best})
        metrics = {"ring": ring, "root-3": root}
        for bound in ("value", "low", "high"):
            self.assertEqual(metrics[best]["ratio_best"][bound], 1)
        for column in ("/allreduce", "/base", "/best"):
            self.assertIn(column, out.stdout.splitlines()[1])
        alone = run(KERNEL, 3, "--method", "allreduce", "--repeats", "1")
        self.assertEqual(alone.result["best"], {})
        self.assertNotIn("/best", alone.stdout)

    def test_profile_by_routine(self):
        out = run(KERNEL, 3, "--profile", "--separate-waiting", "--repeats", "2", "--block", "5")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        mpi = {
            "allreduce": {"MPI_Allreduce (sum)", "waiting for MPI_Allreduce (sum)"},
            "ring": {"MPI_Sendrecv (sum)"},
            # rank 0 never calls MPI_Ssend, the others never MPI_Recv
            "root-3": {
                "MPI_Bcast (sum)",
                "MPI_Recv (sum)",
                "MPI_Ssend (sum)",
                "waiting for MPI_Bcast (sum)",
            },
        }
        for result in out.result["results"]:
            profile, parts = result["profile"], result["profile"]["parts"]
            by_group = {
                group: {p["name"]: p["share"] for p in parts if p["group"] == group}
                for group in ("user", "library", "MPI")
            }
            self.assertAlmostEqual(sum(profile[group] for group in by_group), 1)
            self.assertEqual(set(by_group["MPI"]), mpi[result["method"]])
            self.assertEqual(set(by_group["library"]), {"input"})
            self.assertEqual(set(by_group["user"]), {"exchange"})
            for group in ("library", "MPI"):
                self.assertAlmostEqual(sum(by_group[group].values()), profile[group])
            self.assertLessEqual(sum(by_group["user"].values()), profile["user"] + 1e-12)
            seconds = sum(c["seconds"]["mean"] for c in result["communication"].values())
            self.assertGreater(seconds, 0)
        lines = out.stdout.splitlines()
        heading = "time of root-3, mean over ranks; rank "
        at = next(i for i, line in enumerate(lines) if line.startswith(heading))
        self.assertRegex(
            lines[at], r"rank [0-2] has most outside of MPI, \d+\.\d\d times the mean$"
        )
        split = [line.split("% ") for line in lines[at + 1 :]]
        shares = [float(share) for share, name in split if name in ("user", "library", "MPI")]
        self.assertAlmostEqual(sum(shares), 100, delta=0.2)
        self.assertTrue(any(line.endswith("% MPI_Ssend (sum)") for line in lines[at:]))
        quiet = run(KERNEL, 2, "--repeats", "1")
        self.assertNotIn("time of", quiet.stdout)
        self.assertIn("profile", quiet.result["results"][0])

    def test_waiting_is_told_apart(self):
        out = run(KERNEL, 2, "--method", "allreduce", "--separate-waiting", "--repeats", "1")
        self.assertEqual(out.code, 0, out.stdout + out.stderr)
        sent = out.result["results"][0]["communication"]["collective"]
        self.assertGreater(sent["waiting"]["mean"], 0)
        self.assertLess(sent["waiting"]["mean"], sent["seconds"]["mean"])

    def test_refusal_from_fortran(self):
        out = run(KERNEL, 3, "--factor", "7")
        self.assertEqual(out.code, 2)
        self.assertIn("--factor 7: unlucky", out.stderr)
        self.assertIsNone(out.result)


if __name__ == "__main__":
    KERNEL = sys.argv[1]
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
