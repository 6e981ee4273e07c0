"""bisection-md as it is run: oracles on every layout, time, restart files.

Usage: test_md.py KERNEL FAULTY-KERNEL
"""

import csv
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

from kernel_run import ENVIRONMENT, MPIEXEC, kill, long, main
from md_case import KERNEL, ONE, ORACLE, SPECIES, STILL, Case, displaced, entry

RANKS = (1, 2, 3, 4, 6, 8)
LAYOUTS = ((2, 2), (5, 1), (12, 1))
PAIRS = itertools.product(SPECIES, ("dlpoly3", "recompute", "replicated"))
METHODS = [pair for pair in PAIRS if pair != ("sic", "recompute")]


class Oracle(Case):
    def compare(self, name, ranks, threads, method="packed"):
        rows = list(csv.reader((ORACLE / f"{name}_ref.csv").read_text().splitlines()))
        _, count, energy, pressure = rows[0]
        reference = {int(row[0]): [float(v) for v in row[1:]] for row in rows[1:]}
        self.assertEqual(len(reference), int(count))
        out = self.good(
            "--input", self.write(*displaced(name)), *STILL, "--method", method,
            "--dump", self.file("out.xyz"), ranks=ranks, threads=threads,
        )  # fmt: skip
        atoms = self.read("out.xyz")
        self.assertEqual(set(atoms), set(reference))
        largest = max(abs(f) for r in reference.values() for f in r[:3])
        for n, wanted in reference.items():
            for mine, theirs in zip(atoms[n][6:9], wanted[:3], strict=True):
                self.assertLess(abs(mine - theirs), 1e-12 * largest)
            self.assertLess(abs(atoms[n][9] / wanted[3] - 1), 1e-12)
        details = out.result["details"]
        self.assertLess(abs(details["potential_energy"] / float(energy) - 1), 1e-13)
        self.assertLess(abs(details["static_pressure"] / float(pressure) - 1), 1e-10)

    # Numbers of threads in turns, so that each number of ranks has each of them; methods on two
    # layouts in turns, each method and each species on both.
    IN_TURNS = [(name, ranks, 1 + (n + place) % 3) for n, name in enumerate(SPECIES)
                for place, ranks in enumerate((1, 2, 3, 8))]  # fmt: skip
    METHODS_IN_TURNS = list(zip(itertools.cycle(LAYOUTS[:2]), METHODS, strict=False))

    def test_every_number_of_ranks_and_of_threads(self):
        self.compare_layouts(self.IN_TURNS)

    @long
    def test_every_other_layout(self):
        launches = itertools.product(SPECIES, RANKS, (1, 2, 3))
        self.compare_layouts(launch for launch in launches if launch not in self.IN_TURNS)

    def compare_layouts(self, launches):
        for name, ranks, threads in launches:
            with self.subTest(name=name, ranks=ranks, threads=threads):
                self.compare(name, ranks, threads)

    def test_every_method(self):
        self.compare_methods(self.METHODS_IN_TURNS)

    @long
    def test_every_method_on_every_other_layout(self):
        launches = itertools.product(LAYOUTS, METHODS)
        self.compare_methods(launch for launch in launches if launch not in self.METHODS_IN_TURNS)

    def compare_methods(self, launches):
        for layout, (name, method) in launches:
            with self.subTest(name=name, method=method, layout=layout):
                self.compare(name, *layout, method)

    def test_trajectories(self):
        for name, step in (("sic", "0.5"), ("cu3au", "1"), ("fe", "1")):
            rows = list(csv.DictReader((ORACLE / f"{name}_nve.csv").read_text().splitlines()))
            at = {(int(r["step"]), int(r["id"])): r for r in rows}
            count = len(at) // 2
            first = [at[0, n] for n in range(1, count + 1)]
            atoms = [
                (SPECIES[name][int(r["type"]) - 1], *(float(r[c]) for c in "xyz"),
                 *(float(r[f"v{c}"]) for c in "xyz"))
                for r in first
            ]  # fmt: skip
            edge = {"sic": 3 * 4.32, "cu3au": 5 * 3.744, "fe": 6 * 2.8665}[name]
            start = self.write(atoms, edge)
            for ranks, threads, method in (
                (1, 1, "packed"), (8, 1, "packed"), (2, 2, "dlpoly3"), (3, 1, "replicated"),
            ):  # fmt: skip
                with self.subTest(name=name, ranks=ranks, method=method):
                    self.good(
                        "--input", start, *STILL[:4], "--method", method, "--until", "100",
                        "--timestep", step,
                        "--dump", self.file("out.xyz"), ranks=ranks, threads=threads,
                    )  # fmt: skip
                    for n, mine in self.read("out.xyz").items():
                        theirs = [float(at[100, n][c]) for c in ("x", "y", "z", "vx", "vy", "vz")]
                        for a, b in zip(mine[:3], theirs[:3], strict=True):
                            self.assertLess(abs(a - b), 1e-9)
                        for a, b in zip(mine[3:6], theirs[3:], strict=True):
                            self.assertLess(abs(a - b), 1e-7)

    def test_forces_are_the_gradient_and_the_pressure_is_of_the_volume(self):
        for name in SPECIES:
            atoms, edge = displaced(name)
            h = 1e-4

            def energy(atoms, edge):
                out = self.good("--input", self.write(atoms, edge), *STILL, "--method", "packed",
                                "--dump", self.file("out.xyz"))  # fmt: skip
                return out.result["details"]

            with self.subTest(name=name):
                middle = energy(atoms, edge)
                force = self.read("out.xyz")[40][7]
                pair = []
                for sign in (1, -1):
                    moved = list(atoms)
                    kind, x, y, z = moved[39]
                    moved[39] = (kind, x, y + sign * h, z)
                    pair.append(energy(moved, edge)["potential_energy"])
                self.assertAlmostEqual(-(pair[0] - pair[1]) / (2 * h), force, delta=2e-6)
                pair = []
                for scale in (1 + h / 10, 1 - h / 10):
                    larger = [(k, x * scale, y * scale, z * scale) for k, x, y, z in atoms]
                    pair.append(energy(larger, edge * scale)["potential_energy"])
                pressure = -(pair[0] - pair[1]) / (2 * h / 10) / (3 * edge**3)
                self.assertAlmostEqual(pressure / middle["static_pressure"], 1, delta=1e-4)


class Layouts(Case):
    def test_energy_and_trajectory_on_every_layout(self):
        # Each layout with two of the three forces.
        for name, cells, layouts in (
            ("sic", "5", ((3, 2), (7, 1), (1, 3))),
            ("cu3au", "6", ((3, 2), (8, 2))),
            ("fe", "9", ((7, 1), (8, 2), (1, 3))),
        ):
            size = ("--case", name, "--cells", cells, "--dump", self.file("out.xyz"))
            alone = self.good(*size, *ONE, "--until", "60")
            atoms = self.read("out.xyz")
            for ranks, threads in layouts:
                with self.subTest(name=name, ranks=ranks, threads=threads):
                    out = self.good(*size, *ONE, "--until", "60", ranks=ranks, threads=threads)
                    self.assertLess(abs(self.energy(out) / self.energy(alone) - 1), 1e-12)
                    for n, mine in self.read("out.xyz").items():
                        for a, b in zip(mine[:3], atoms[n][:3], strict=True):
                            self.assertLess(abs(a - b), 1e-9)

    def test_the_same_layout_gives_the_same_bits(self):
        for ranks, threads in ((1, 1), (2, 2), (5, 1)):
            files = []
            for n in range(2):
                dump = ("--dump", self.file(f"{n}.xyz"))
                size = ("--case", "cu3au", "--cells", "6", "--until", "60")
                self.good(*size, *ONE, *dump, ranks=ranks, threads=threads)
                files.append(Path(self.file(f"{n}.xyz")).read_bytes())
            self.assertEqual(*files)

    def test_any_box(self):
        """The same crystal by other vectors, and shifted by whole ones."""
        for name in ("sic", "cu3au", "fe"):
            atoms, edge = displaced(name)
            self.good("--input", self.write(atoms, edge), *STILL, "--method", "packed",
                      "--dump", self.file("out.xyz"))  # fmt: skip
            cube = self.read("out.xyz")
            slanted = (edge, 0.0, 0.0, edge, edge, 0.0, -edge, 0.0, edge)
            far = [(k, x + edge, y - 3 * edge, z) for k, x, y, z in atoms]
            for ranks in (1, 3, 8):
                with self.subTest(name=name, ranks=ranks):
                    self.good("--input", self.write(far, slanted), *STILL, "--method", "packed",
                              "--dump", self.file("out.xyz"), ranks=ranks)  # fmt: skip
                    for n, mine in self.read("out.xyz").items():
                        for a, b in zip(mine[6:9], cube[n][6:9], strict=True):
                            self.assertLess(abs(a - b), 1e-11)

    def test_a_box_smaller_than_the_cutoff_has_its_images(self):
        for name, large in (("fe", "5"), ("cu3au", "4"), ("sic", "4")):
            with self.subTest(name=name):
                small = self.good("--case", name, "--cells", "2", *STILL, "--method", "packed")
                crystal = self.good("--case", name, "--cells", large, *STILL, "--method", "packed")
                per_atom = [o.result["details"]["potential_energy"] / o.result["details"]["atoms"]
                            for o in (small, crystal)]  # fmt: skip
                self.assertAlmostEqual(*per_atom, delta=1e-12)

    def test_ranks_without_atoms(self):
        pair = [("Fe", 1.0, 1.0, 1.0), ("Fe", 3.3, 1.0, 1.0)]
        for ranks in (1, 2, 4, 6):
            for method in ("packed", "replicated")[: 1 if ranks == 1 else 2]:
                with self.subTest(ranks=ranks, method=method):
                    start = ("--input", self.write(pair, 40.0), "--temperature", "50")
                    dump = ("--dump", self.file(f"{ranks}.xyz"))
                    self.good(*start, *ONE, "--until", "50", *dump, "--method", method, ranks=ranks)
                    for n, mine in self.read(f"{ranks}.xyz").items():
                        for a, b in zip(mine, self.read("1.xyz")[n], strict=True):
                            self.assertLess(abs(a - b), 1e-9)

    def test_one_atom_and_its_images(self):
        """A crystal of one atom a cell, which it and its images are."""
        edge = (0.0, 2.715, 2.715, 2.715, 0.0, 2.715, 2.715, 2.715, 0.0)
        atoms = [("Si", 0.0, 0.0, 0.0), ("Si", 1.3575, 1.3575, 1.3575)]
        out = self.good("--input", self.write(atoms, edge), *STILL, "--temperature", "0")
        self.assertAlmostEqual(out.result["details"]["potential_energy"] / 2, -4.6296, delta=1e-4)

    def test_atoms_out_of_reach_are_in_the_lists(self):
        """One pair and atoms far from all others: a rank has none, one or some."""
        atoms = [("Si", 1.0, 1.0, 1.0), ("Si", 3.3, 1.0, 1.0), ("C", 15.0, 15.0, 15.0)]
        for ranks in (1, 2, 5):
            self.good("--input", self.write(atoms, 30.0), *STILL, "--temperature", "0", "--method",
                      "packed,dlpoly3", ranks=ranks)  # fmt: skip

    def test_ghosts_are_as_many_as_the_halo_holds(self):
        for name, cells, edge, cutoff, sites in (("cu3au", 8, 3.74422, 6.2, 4),
                                                 ("fe", 14, 2.8665, 3.569745, 2)):  # fmt: skip
            for ranks in (1, 8):
                out = self.good("--case", name, "--cells", str(cells), *STILL, "--method",
                                "dlpoly3", ranks=ranks)  # fmt: skip
                self.assertLess(abs(out.result["details"]["ghosts"] - ghosts(
                    cells * edge, ranks, cutoff, sites / edge**3)), 0.12 * ghosts(
                    cells * edge, ranks, cutoff, sites / edge**3))  # fmt: skip

    def test_the_published_geometry(self):
        """Test 20, 256,000 atoms: what finding D05 says of 512 ranks and of 64."""
        density = 4 / 3.744**3
        many, few = (ghosts(40 * 3.744, ranks, 6.2, density) for ranks in (512, 64))
        self.assertEqual((round(many), round(few)), (1797, 5436))
        self.assertGreater(few, many)
        self.assertLess(64 * few, 512 * many)

    @long
    def test_fewer_ranks_send_more_each_and_less_together(self):
        """D05, counted: 8 ranks against 27 on the same cores' worth of atoms."""
        counted = []
        for ranks in (27, 8):
            out = self.good("--case", "cu3au", "--cells", "9", "--method", "packed", "--repeats",
                            "1", "--steps", "4", "--until", "1", ranks=ranks)  # fmt: skip
            metrics = entry(out)["metrics"]
            counted.append({name: metrics[name]["value"] for name in
                            ("bytes", "bytes_per_rank", "messages")})  # fmt: skip
        pure, hybrid = counted
        self.assertGreater(hybrid["bytes_per_rank"], pure["bytes_per_rank"])
        self.assertLess(hybrid["bytes"], pure["bytes"])
        self.assertLess(hybrid["messages"], pure["messages"])

    def test_what_dlpoly3_sends(self):
        """Atoms, ghosts and slopes (Tersoff: forces) in six directions: size, payload, two checks.

        Then a check and two sums per step; for metals another check and a sum.
        """
        for name, cells, more in (("fe", "10", 5), ("sic", "6", 3)):
            for ranks in (3, 4, 8):
                with self.subTest(name=name, ranks=ranks):
                    out = self.good("--case", name, "--cells", cells, "--method", "packed,dlpoly3",
                                    "--repeats", "1", "--steps", "2", "--until", "1",
                                    ranks=ranks)  # fmt: skip
                    packed, dlpoly3 = (entry(out, m)["metrics"] for m in ("packed", "dlpoly3"))
                    divided = sum(out.result["details"][f"domains_{v}"] > 1 for v in "abc")
                    self.assertEqual(dlpoly3["messages"]["value"],
                                     ranks * (3 * 2 * 2 * divided + 3 * 6 * 2 + more))  # fmt: skip
                    self.assertLess(packed["messages"]["value"], dlpoly3["messages"]["value"] / 2)
                    self.assertGreater(dlpoly3["barrier_share"]["value"], 0)
                    self.assertEqual(packed["barrier_share"]["value"], 0)

    def test_what_replicated_sends(self):
        """The forces of all atoms and their energy, the state, densities (metals), a net (ions)."""
        for name, cells, words in (("sic", "4", 0), ("cu3au", "5", 1), ("nacl", "5", 0)):
            for ranks in (2, 7):
                with self.subTest(name=name, ranks=ranks):
                    out = self.good("--case", name, "--cells", cells, "--method", "replicated",
                                    "--repeats", "1", "--steps", "3", "--until", "1",
                                    ranks=ranks)  # fmt: skip
                    atoms = out.result["details"]["atoms"]
                    sums = [3 * atoms + 1, 2, *[words * atoms] * words, *[3] * (name == "nacl")]
                    metrics = entry(out, "replicated")["metrics"]
                    self.assertEqual(metrics["messages"]["value"], ranks * len(sums))
                    self.assertEqual(metrics["bytes"]["value"], ranks * 8 * sum(sums))
                    self.assertEqual(metrics["p2p_share"]["value"], 0)

    def test_replicated_is_packed_on_every_layout(self):
        for name, cells in (("sic", "4"), ("fe", "6"), ("nacl", "5")):
            size = ("--case", name, "--cells", cells, *ONE[:4], "--until", "30", "--dump")
            alone = self.good(*size, self.file("alone.xyz"), "--method", "packed")
            atoms = self.read("alone.xyz")
            for ranks, threads in ((3, 2), (7, 1)):
                with self.subTest(name=name, ranks=ranks, threads=threads):
                    out = self.good(*size, self.file("out.xyz"), "--method", "replicated",
                                    ranks=ranks, threads=threads)  # fmt: skip
                    self.assertLess(abs(self.energy(out) / self.energy(alone) - 1), 1e-12)
                    for n, mine in self.read("out.xyz").items():
                        for a, b in zip(mine[:6], atoms[n][:6], strict=True):
                            self.assertLess(abs(a - b), 1e-9)


class Molecules(Case):
    SIZE = ("--case", "gramicidin", "--cells", "3", *ONE[:4])

    def test_the_same_on_every_layout_after_as_many_iterations(self):
        size = (*self.SIZE, "--until", "5", "--dump")
        alone = self.good(*size, self.file("alone.xyz"), "--method", "packed")
        atoms = self.read("alone.xyz")
        for ranks, threads, method in (
            (2, 2, "dlpoly3"), (3, 1, "column-wise"), (3, 1, "replicated"), (5, 1, "packed"),
        ):  # fmt: skip
            with self.subTest(ranks=ranks, method=method):
                out = self.good(*size, self.file("out.xyz"), "--method", method, ranks=ranks,
                                threads=threads)  # fmt: skip
                self.assertLess(abs(self.energy(out) / self.energy(alone) - 1), 1e-11)
                for n, mine in self.read("out.xyz").items():
                    for a, b in zip(mine[:6], atoms[n][:6], strict=True):
                        self.assertLess(abs(a - b), 1e-8)
                counts = [entry(o, m)["metrics"]["iterations"]["value"]
                          for o, m in ((alone, "packed"), (out, method))]  # fmt: skip
                self.assertEqual(*counts)
                self.assertGreater(counts[0], 4)
                self.assertLess(counts[0], 60)  # three times as many without Chebyshev's weights

    def test_energy_is_kept(self):
        first = self.good(*self.SIZE, "--method", "packed", "--until", "50")
        last = self.good(*self.SIZE, "--method", "packed", "--until", "250")
        drift = (self.energy(last) - self.energy(first)) / last.result["details"]["atoms"]
        self.assertLess(abs(drift), 3e-5)

    def test_restart_is_bitwise(self):
        where = {"ranks": 3}
        size = (*self.SIZE, "--method", "packed", "--until")
        self.good(*size, "5", "--dump", self.file("whole.xyz"), **where)
        self.good(*size, "2", "--save", self.file("saved"), **where)
        self.good(*size, "5", "--restart", self.file("saved"), "--dump", self.file("parts.xyz"),
                  **where)  # fmt: skip
        self.assertEqual(Path(self.file("whole.xyz")).read_bytes(),
                         Path(self.file("parts.xyz")).read_bytes())  # fmt: skip


def ghosts(edge, ranks, reach, density):
    domain = edge / round(ranks ** (1 / 3))
    return density * ((domain + 2 * reach) ** 3 - domain**3)


class Time(Case):
    # crystals large enough that the energy's own fluctuation is far below what is allowed
    LARGE = (("sic", "6", "0.5", 2e-4), ("cu3au", "4", "1", 1e-4), ("nacl", "4", "1", 1e-4),
             ("fe", "6", "1", 1e-4))  # fmt: skip

    def test_a_thousand_steps_keep_the_energy(self):
        self.keep_energy(1100)

    @long
    def test_ten_thousand_steps_keep_the_energy(self):
        self.keep_energy(10100)

    def keep_energy(self, steps):
        for name, cells, step, most in self.LARGE:
            with self.subTest(name=name):
                self.keep_energy_of(steps, name, cells, step, most)

    def keep_energy_of(self, steps, name, cells, step, most):
        size = ("--case", name, "--cells", cells, "--timestep", step, *ONE)
        first = self.good(*size, "--until", "100")
        last = self.good(*size, "--until", str(steps))
        drift = (self.energy(last) - self.energy(first)) / last.result["details"]["atoms"]
        self.assertLess(abs(drift), most)
        self.assertGreater(last.result["details"]["temperature"], 150)

    CRYSTALS = (("sic", "5", 1, 1), ("cu3au", "6", 3, 1), ("fe", "9", 2, 2), ("nacl", "4", 2, 1))

    def test_restart_is_bitwise(self):
        for crystal, method in zip(self.CRYSTALS, ("packed", "dlpoly3") * 2, strict=True):
            self.restart(*crystal, method)

    @long
    def test_restart_is_bitwise_by_the_other_method(self):
        for crystal, method in zip(self.CRYSTALS, ("dlpoly3", "packed") * 2, strict=True):
            self.restart(*crystal, method)

    def restart(self, name, cells, ranks, threads, method):
        with self.subTest(name=name, method=method):
            size = ("--case", name, "--cells", cells, "--temperature", "1500", "--repeats", "1",
                    "--steps", "1", "--method", method)  # fmt: skip
            where = {"ranks": ranks, "threads": threads}
            self.good(*size, "--until", "90", "--dump", self.file("whole.xyz"), **where)
            self.good(*size, "--until", "37", "--save", self.file("saved"), **where)
            self.good(*size, "--until", "90", "--restart", self.file("saved"),
                      "--dump", self.file("parts.xyz"), **where)  # fmt: skip
            self.assertEqual(Path(self.file("whole.xyz")).read_bytes(),
                             Path(self.file("parts.xyz")).read_bytes())  # fmt: skip

    def test_killed_and_restarted(self):
        size = ("--case", "fe", "--cells", "12", *ONE)
        save = self.folder / "saved"
        self.good(*size, "--until", "2000", "--dump", self.file("whole.xyz"), ranks=2)
        process = subprocess.Popen(
            [*MPIEXEC, "-n", "2", KERNEL, *size, "--until", "2000", "--save", str(save),
             "--save-every", "50"],
            env={**os.environ, **ENVIRONMENT, "OMP_NUM_THREADS": "1"}, start_new_session=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        limit = time.monotonic() + 60
        seen = set()
        while len(seen) < 3 and process.poll() is None and time.monotonic() < limit:
            if save.exists():
                seen.add(save.stat().st_mtime_ns)
            time.sleep(0.001)
        self.assertIsNone(process.poll(), "it ended before it was killed")
        kill(process)
        self.good(*size, "--until", "2000", "--restart", str(save), "--dump",
                  self.file("parts.xyz"), ranks=2)  # fmt: skip
        self.assertEqual(Path(self.file("whole.xyz")).read_bytes(),
                         Path(self.file("parts.xyz")).read_bytes())  # fmt: skip

    def test_metrics(self):
        out = self.good("--case", "cu3au", "--cells", "8", "--steps", "3", "--repeats", "2",
                        ranks=2, threads=2)  # fmt: skip
        metrics = entry(out)["metrics"]
        atoms = out.result["details"]["atoms"]
        self.assertAlmostEqual(metrics["atom_steps"]["value"] * metrics["time"]["value"], atoms)
        self.assertEqual(metrics["atom_steps"]["better"], "higher")
        self.assertGreater(metrics["bytes"]["value"], 0)
        self.assertAlmostEqual(metrics["bytes"]["value"], 2 * metrics["bytes_per_rank"]["value"])
        for name in ("p2p_share", "collective_share", "fork_join_share", "serial_share"):
            self.assertGreaterEqual(metrics[name]["value"], 0, name)
        self.assertGreater(metrics["p2p_share"]["value"], 0)
        self.assertLess(metrics["communication_share"]["value"], 1)
        self.assertNotIn("ratio_packed", entry(out, "cached")["metrics"])
        self.assertGreater(metrics["ratio_cached"]["value"], 0)

    def test_phases_are_the_whole_step(self):
        """On one rank: of several ranks, each may wait for another that has no core."""
        out = self.good("--case", "cu3au", "--cells", "8", "--steps", "3", "--repeats", "2")
        for method in ("packed", "dlpoly3", "recompute"):
            metrics, samples = (entry(out, method)[key] for key in ("metrics", "samples"))
            shares = [metrics[f"{phase}_share"]["value"] for phase in samples["phases"]]
            self.assertAlmostEqual(sum(shares), 1, delta=1e-9, msg=method)
            parts = zip(*samples["phases"].values(), strict=True)
            # On a busy core, a step may lose it between two phases: not all of them do.
            most = max(map(lambda phases, whole: sum(phases) / whole, parts, samples["seconds"]))
            self.assertAlmostEqual(most, 1, delta=0.1, msg=method)
            if method == "recompute":
                continue
            # the routine that Chorley and Walker time: its loops and their exchange; on a busy
            # core, a share of all steps is not the share of those that are kept
            mean = {name: sum(part) / sum(samples["seconds"])
                    for name, part in samples["phases"].items()}  # fmt: skip
            routine = metrics["metal_ld_routine_share"]["value"]
            self.assertGreater(routine, 0.8 * mean["metal_ld_compute"])
            self.assertLess(routine + mean["two_body_forces"], 1.2)


if __name__ == "__main__":
    main(*sys.argv[3:])
