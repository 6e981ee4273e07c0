"""bisection-md as it is run: oracles on every layout, time, restart files, refusals, failures.

Usage: test_md.py KERNEL FAULTY-KERNEL
"""

import csv
import math
import os
import stat
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from kernel_run import ENVIRONMENT, MPIEXEC, checks, kill, run

KERNEL, FAULTY = sys.argv[1:3]
ORACLE = Path(__file__).parent / "oracle" / "md"
SPECIES = {"sic": ["Si", "C"], "cu3au": ["Cu", "Au"], "fe": ["Fe"], "w": ["W"]}
CELLS = {"sic": (3, 4.32), "cu3au": (5, 3.74), "fe": (6, 2.8665), "w": (6, 3.1652)}
SITES = {
    "sic": [(0, 0, 0), (0, 0.5, 0.5), (0.5, 0, 0.5), (0.5, 0.5, 0), (0.25, 0.25, 0.25),
            (0.25, 0.75, 0.75), (0.75, 0.25, 0.75), (0.75, 0.75, 0.25)],
    "cu3au": [(0, 0, 0), (0, 0.5, 0.5), (0.5, 0, 0.5), (0.5, 0.5, 0)],
    "fe": [(0, 0, 0), (0.5, 0.5, 0.5)],
    "w": [(0, 0, 0), (0.5, 0.5, 0.5)],
}  # fmt: skip
KINDS = {"sic": [0, 0, 0, 0, 1, 1, 1, 1], "cu3au": [1, 0, 0, 0], "fe": [0, 0], "w": [0, 0]}
STILL = ("--repeats", "1", "--steps", "1", "--until", "0")
ONE = ("--repeats", "1", "--steps", "1", "--method", "packed")


def displaced(name):
    """The oracle's atoms as (species, x, y, z), and the edge of its box."""
    cells, a = CELLS[name]
    atoms = []
    for x in range(cells):
        for y in range(cells):
            for z in range(cells):
                for site, kind in zip(SITES[name], KINDS[name], strict=True):
                    n = len(atoms) + 1
                    at = [
                        (cell + part) * a
                        + 0.2 * ((1103515245 * (3 * n + c) + 12345) % 2**31 / 2**31 - 0.5)
                        for c, (cell, part) in enumerate(zip((x, y, z), site, strict=True), 1)
                    ]
                    atoms.append((SPECIES[name][kind], *at))
    return atoms, cells * a


def text(out):
    return out.stdout + out.stderr


def entry(out, method="packed"):
    return next(e for e in out.result["results"] if e["method"] == method)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, name):
        return str(self.folder / name)

    def write(self, atoms, lattice, properties="species:S:1:pos:R:3", name="in.xyz", more=""):
        if isinstance(lattice, float):
            lattice = (lattice, 0, 0, 0, lattice, 0, 0, 0, lattice)
        lines = [str(len(atoms)), f'Lattice="{" ".join(map(repr, lattice))}" '
                 f"Properties={properties} {more}"]  # fmt: skip
        lines += [" ".join(part if isinstance(part, str) else repr(part) for part in a)
                  for a in atoms]  # fmt: skip
        Path(self.file(name)).write_text("\n".join(lines) + "\n")
        return self.file(name)

    def read(self, name):
        """id -> the numbers of an atom in a dump: x y z, v, f, energy."""
        lines = Path(self.file(name)).read_text().splitlines()[2:]
        return {int(w[0]): [float(v) for v in w[2:]] for w in map(str.split, lines)}

    def good(self, *arguments, ranks=1, threads=1):
        out = run(KERNEL, ranks, *arguments, threads=threads)
        self.assertEqual(out.code, 0, text(out))
        return out

    def energy(self, out):
        details = out.result["details"]
        return details["potential_energy"] + details["kinetic_energy"]


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

    def test_every_layout(self):
        for name in SPECIES:
            for ranks in (1, 2, 3, 4, 6, 8):
                for threads in (1, 2, 3):
                    with self.subTest(name=name, ranks=ranks, threads=threads):
                        self.compare(name, ranks, threads)

    def test_every_method(self):
        for name in SPECIES:
            for method in ("dlpoly3", "recompute"):
                if (name, method) == ("sic", "recompute"):
                    continue
                for ranks, threads in ((1, 2), (5, 1), (12, 1)):
                    with self.subTest(name=name, method=method, ranks=ranks):
                        self.compare(name, ranks, threads, method)

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
            start = self.write(atoms, edge, "species:S:1:pos:R:3:velo:R:3")
            for ranks, threads in ((1, 1), (2, 2), (3, 1), (8, 1)):
                with self.subTest(name=name, ranks=ranks):
                    self.good(
                        "--input", start, *ONE, "--until", "100", "--timestep", step,
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
        for name, cells in (("sic", "5"), ("cu3au", "6"), ("fe", "9")):
            size = ("--case", name, "--cells", cells, "--dump", self.file("out.xyz"))
            alone = self.good(*size, *ONE, "--until", "100")
            atoms = self.read("out.xyz")
            for ranks, threads in ((2, 1), (3, 2), (7, 1), (8, 2), (1, 3)):
                with self.subTest(name=name, ranks=ranks, threads=threads):
                    out = self.good(*size, *ONE, "--until", "100", ranks=ranks, threads=threads)
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
            with self.subTest(ranks=ranks):
                start = ("--input", self.write(pair, 40.0), "--temperature", "50")
                dump = ("--dump", self.file(f"{ranks}.xyz"))
                self.good(*start, *ONE, "--until", "50", *dump, ranks=ranks)
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

    def test_fewer_ranks_send_more_each_and_less_together(self):
        """D05, counted: 8 ranks against 27 on the same cores' worth of atoms."""
        counted = []
        for ranks in (27, 8):
            out = self.good("--case", "cu3au", "--cells", "14", "--method", "packed", "--repeats",
                            "1", "--steps", "4", "--until", "1", ranks=ranks)  # fmt: skip
            metrics = entry(out)["metrics"]
            counted.append({name: metrics[name]["value"] for name in
                            ("bytes", "bytes_per_rank", "messages")})  # fmt: skip
        pure, hybrid = counted
        self.assertGreater(hybrid["bytes_per_rank"], pure["bytes_per_rank"])
        self.assertLess(hybrid["bytes"], pure["bytes"])
        self.assertLess(hybrid["messages"], pure["messages"])

    def test_what_dlpoly3_sends(self):
        out = self.good("--case", "fe", "--cells", "10", "--method", "packed,dlpoly3", "--repeats",
                        "1", "--steps", "4", "--until", "1", ranks=4)  # fmt: skip
        packed, dlpoly3 = (entry(out, m)["metrics"] for m in ("packed", "dlpoly3"))
        self.assertGreater(dlpoly3["messages"]["value"], 56 * 4)
        self.assertLess(packed["messages"]["value"], 25 * 4)
        self.assertGreater(dlpoly3["ratio_packed"]["value"], 1)


def ghosts(edge, ranks, reach, density):
    domain = edge / round(ranks ** (1 / 3))
    return density * ((domain + 2 * reach) ** 3 - domain**3)


class Time(Case):
    def test_ten_thousand_steps_keep_the_energy(self):
        # crystals large enough that the energy's own fluctuation is far below what is allowed
        for name, cells, step, most in (
            ("sic", "6", "0.5", 2e-4),
            ("cu3au", "4", "1", 1e-4),
            ("fe", "6", "1", 1e-4),
        ):
            with self.subTest(name=name):
                size = ("--case", name, "--cells", cells, "--timestep", step, *ONE)
                first = self.good(*size, "--until", "100")
                last = self.good(*size, "--until", "10100")
                drift = (self.energy(last) - self.energy(first)) / last.result["details"]["atoms"]
                self.assertLess(abs(drift), most)
                self.assertGreater(last.result["details"]["temperature"], 150)

    def test_restart_is_bitwise(self):
        for name, cells, ranks, threads in (("sic", "5", 1, 1), ("cu3au", "6", 3, 1),
                                            ("fe", "9", 2, 2)):  # fmt: skip
            for method in ("packed", "dlpoly3"):
                with self.subTest(name=name, method=method):
                    size = ("--case", name, "--cells", cells, "--temperature", "1500", "--repeats",
                            "1", "--steps", "1", "--method", method)  # fmt: skip
                    where = {"ranks": ranks, "threads": threads}
                    self.good(*size, "--until", "90", "--dump", self.file("whole.xyz"), **where)
                    self.good(*size, "--until", "37", "--save", self.file("r.h5"), **where)
                    self.good(*size, "--until", "90", "--restart", self.file("r.h5"),
                              "--dump", self.file("parts.xyz"), **where)  # fmt: skip
                    self.assertEqual(Path(self.file("whole.xyz")).read_bytes(),
                                     Path(self.file("parts.xyz")).read_bytes())  # fmt: skip

    def test_killed_and_restarted(self):
        size = ("--case", "fe", "--cells", "12", *ONE)
        save = self.folder / "r.h5"
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
        parts = ("two_body_forces", "metal_ld_compute", "tersoff_forces", "halo", "list",
                 "integrate", "reduce")  # fmt: skip
        for method in ("packed", "dlpoly3", "recompute"):
            metrics = entry(out, method)["metrics"]
            shares = sum(metrics[f"{part}_share"]["value"] for part in parts)
            self.assertAlmostEqual(shares, 1, delta=0.1)


class Failures(Case):
    def fails(self, *words, arguments, ranks=1, threads=1):
        out = run(KERNEL, ranks, *arguments, threads=threads)
        self.assertEqual(out.code, 1, text(out))
        for word in words:
            self.assertIn(word, out.stderr)
        return out

    def test_a_step_that_explodes(self):
        for ranks in (1, 3):
            self.fails(
                "bisection-md: step ", ": atom ", " on rank ", " A since the list was made",
                arguments=("--case", "cu3au", "--cells", "5", *ONE, "--timestep", "300",
                           "--until", "50"), ranks=ranks,
            )  # fmt: skip

    def test_a_density_below_zero(self):
        atoms = [("Fe", 1.0, 1.0, 1.0), ("Fe", 2.2, 1.0, 1.0), ("Fe", 1.0, 4.0, 1.0)]
        out = self.fails(
            "step 0: atoms 1 and 2 on rank ", "are 1.2", "below 1.58", ranks=2,
            arguments=("--input", self.write(atoms, 20.0), *STILL, "--method", "packed"),
        )  # fmt: skip
        self.assertFalse(checks(out, "packed")["trajectory"]["passed"])

    def test_a_density_below_zero_on_one_rank_of_several(self):
        """Two atoms of a chain fly at each other: the other ranks see nothing of it."""
        chain = [
            ("Fe", 4.0, 4.0, 4.0, 400.0, 0.0, 0.0),
            ("Fe", 7.2, 4.0, 4.0, -400.0, 0.0, 0.0),
            ("Fe", 15.0, 4.0, 4.0, 0.0, 0.0, 0.0),
            ("Fe", 25.0, 4.0, 4.0, 0.0, 0.0, 0.0),
        ]
        box = (30.0, 0.0, 0.0, 0.0, 9.0, 0.0, 0.0, 0.0, 9.0)
        start = self.write(chain, box, "species:S:1:pos:R:3:velo:R:3")
        for ranks in (1, 3, 5):
            self.fails(
                "bisection-md: step 3: atoms ", " are 0.80", "below 1.587 A", ranks=ranks,
                arguments=("--input", start, *ONE, "--until", "20"),
            )  # fmt: skip


class Refusals(Case):
    def refused(self, words, *arguments, ranks=1):
        out = run(KERNEL, ranks, *arguments)
        self.assertEqual(out.code, 2, text(out))
        self.assertIn(words, out.stderr)
        self.assertIsNone(out.result)

    def test_options(self):
        for words, *arguments in (
            ("--case gold: unknown", "--case", "gold"),
            ("--cells 0: not a whole number from 1", "--cells", "0"),
            ("--timestep 0: not", "--timestep", "0"),
            ("--timestep nan: not", "--timestep", "nan"),
            ("--skin -1: not", "--skin", "-1"),
            ("--comm-style all: unknown; choose from packed, dlpoly3", "--comm-style", "all"),
            ("--dump x: needs one method", "--dump", "x"),
            ("--save x: needs one method", "--save", "x", "--method", "packed,dlpoly3"),
            ("--save-every: needs --save FILE", "--save-every", "5"),
            ("--input x: No such file or directory", "--input", "x"),
            ("--cells: not with --input", "--input", "x", "--cells", "4"),
            ("--case fe: not with --input", "--input", "x", "--case", "fe"),
            ("--case sic: not with --input", "--input", "x", "--case", "sic"),  # the default
        ):
            with self.subTest(arguments=arguments):
                self.refused(words, *arguments)

    def test_comm_style_leaves_the_other_out(self):
        out = self.good("--case", "fe", "--cells", "6", *STILL, "--comm-style", "dlpoly3")
        self.assertIn("--comm-style dlpoly3 alone", entry(out, "packed")["why"])
        self.assertTrue(entry(out, "dlpoly3")["verification"]["passed"])
        self.refused("--comm-style dlpoly3: leaves none of the methods", "--comm-style", "dlpoly3",
                     "--method", "packed")  # fmt: skip

    def test_a_method_that_cannot_be(self):
        out = run(KERNEL, 2, "--case", "sic", "--cells", "4", *STILL, "--method", "recompute")
        self.assertEqual(out.code, 1, text(out))  # nothing was verified
        self.assertIn("keeps no pair terms", entry(out, "recompute")["why"])

    def test_a_box_too_small_for_these_ranks(self):
        self.refused(
            "the box is too small for a cutoff of 6.20 A", "--case", "cu3au", "--cells", "1",
            ranks=8,
        )  # fmt: skip

    def test_sizes_name_their_option(self):
        """What is too large is refused at once, by the option that makes it so."""
        for words, *arguments in (
            ("--cells 400: about", "--case", "cu3au", "--cells", "400"),  # entries of lists
            # 60 GiB of memory, or, where there is more, some time
            ("--cells 210", "--case", "cu3au", "--cells", "210", "--limit", "1"),
            ("--case test20 with --steps and --until: takes about", "--case", "test20", "--steps",
             "1000000"),
            ("--cells 4 with --steps and --until: takes about", "--cells", "4", "--until",
             "100000000000"),
        ):  # fmt: skip
            with self.subTest(arguments=arguments):
                out = run(KERNEL, 1, *arguments)
                self.assertEqual(out.code, 3, text(out))
                self.assertIn(f"bisection-md: {words}", out.stderr)
                self.assertIsNone(out.result)

    def test_inputs(self):
        """unit_md_input has more of them; these name the option, on every rank."""
        cube = '2\nLattice="12 0 0 0 12 0 0 0 12" Properties=species:S:1:pos:R:3\nFe 1 1 1\n'
        for words, content in (
            ("line 1 is no number of atoms: x", "x\n"),
            ("line 4, column 6: 1/2 is not a finite number", f"{cube}Fe 1 1/2 1\n"),
            ("atoms 1 and 2 are 0.000 A apart, at least 0.5 A", f"{cube}Fe 1 1 1\n"),
            ("atoms 1 and 2 are 0.000 A apart, at least 0.5 A", f"{cube}Fe -11 25 1\n"),
            ("atoms 1 and 2 are 0.300 A apart, at least 0.5 A", f"{cube}Fe 1 1 1.3\n"),
            ("no two atoms are within the cutoff, 3.57 A: there is", f"{cube}Fe 7 7 7\n"),
        ):
            with self.subTest(words=words, content=content):
                path = Path(self.file("bad.xyz"))
                path.write_text(content)
                for ranks in (1, 3):
                    out = run(KERNEL, ranks, "--input", str(path))
                    self.assertEqual(out.code, 2, text(out))
                    self.assertIn(f"--input {path}: {words}", out.stderr)
        self.refused("no two atoms are within the cutoff", "--input",
                     self.write([("Si", 1.0, 1.0, 1.0)], 30.0))  # fmt: skip

    def test_exponents_of_three_digits(self):
        """Written with their E, and read back."""
        atoms = [("Fe", 1.0, 1e-120, 1.0), ("Fe", 3.3, 1e-120, 1.0)]
        self.good("--input", self.write(atoms, 12.0), *STILL, "--temperature", "0", "--method",
                  "packed", "--dump", self.file("out.xyz"))  # fmt: skip
        self.assertRegex(Path(self.file("out.xyz")).read_text(), r" 9\.\d{16}E-121 ")
        self.good("--input", self.file("out.xyz"), *STILL, "--method", "packed", "--dump",
                  self.file("again.xyz"))  # fmt: skip
        self.assertEqual(self.read("again.xyz"), self.read("out.xyz"))

    def test_momenta_are_ase_s(self):
        """1 u of ASE's momentum is sqrt(u eV), 98.2 u A/ps."""
        atoms = [("Fe", 1.0, 1.0, 1.0, 55.845, 0.0, 0.0), ("Fe", 3.3, 1.0, 1.0, 0.0, 0.0, 0.0)]
        path = self.write(atoms, 20.0, "species:S:1:pos:R:3:momenta:R:3")
        self.good("--input", path, *STILL, "--method", "packed", "--dump", self.file("o.xyz"))
        self.assertAlmostEqual(self.read("o.xyz")[1][3], 1 / math.sqrt(1.0364269e-4))

    def test_restart_files(self):
        size = ("--case", "fe", "--cells", "6", *ONE)
        save = Path(self.file("r.h5"))
        self.good(*size, "--until", "20", "--save", str(save), ranks=2)
        good = save.read_bytes()
        self.refused("number of ranks is 2, here it is 1", *size, "--restart", str(save))
        self.refused("--until: is before the step of --restart", *size, "--restart", str(save),
                     "--until", "10", ranks=2)  # fmt: skip
        for words, *more in (
            ("skin is 0.3, here it is 0.4", "--skin", "0.4"),
            ("timestep in ps is 0.001, here it is 0.002", "--timestep", "2"),
            ("number of atoms is 432, here it is 686", "--cells", "7"),
        ):
            self.refused(words, *size, "--restart", str(save), *more, ranks=2)
        self.refused("number of atoms", "--case", "cu3au", *ONE, "--restart", str(save), ranks=2)
        self.refused("No such file", *size, "--restart", self.file("none"), ranks=2)
        save.write_bytes(good[: len(good) // 2])
        self.refused("truncated", *size, "--restart", str(save), ranks=2)


class Files(Case):
    SIZE = ("--case", "fe", "--cells", "6", *ONE)

    def refused(self, words, *arguments, ranks=2):
        """Before anything is computed."""
        out = run(KERNEL, ranks, *arguments)
        self.assertEqual(out.code, 2, text(out))
        self.assertIn(f"bisection-md: {words}", out.stderr)
        self.assertIsNone(out.result)

    def devices(self):
        """Paths of null and full: of this test's own, as root could replace the machine's."""
        if os.geteuid() != 0:
            return ["/dev/null", "/dev/full"]
        paths = []
        for name, minor in (("null", 3), ("full", 7)):
            try:
                os.mknod(self.file(name), stat.S_IFCHR | 0o666, os.makedev(1, minor))
            except PermissionError:  # a container's root
                continue
            paths.append(self.file(name))
        return paths

    def test_what_cannot_be_written_or_read(self):
        fifo, link = self.file("fifo"), self.file("link")
        devices = self.devices()
        own = [path.name for path in self.folder.iterdir()]
        os.mkfifo(fifo)
        os.symlink(self.file("a"), link)
        Path(self.file("a")).write_text("old")
        Path(self.file("sub")).mkdir()
        for option in ("dump", "save"):
            for path in (*devices, fifo, str(self.folder)):
                with self.subTest(option=option, path=path):
                    self.refused(f"--{option} {path}: exists and is no regular file", *self.SIZE,
                                 f"--{option}", path)  # fmt: skip
            path = self.file("none/x")
            self.refused(f"--{option} {path}: No such file or directory", *self.SIZE,
                         f"--{option}", path)  # fmt: skip
            self.assertTrue(all(Path(device).is_char_device() for device in devices))
        for option in ("input", "restart"):
            size = ONE if option == "input" else self.SIZE
            self.refused(f"--{option} {fifo}: exists and is no", *size, f"--{option}", fifo)
            self.refused(f"--{option} {self.file('none')}: No such file", *size, f"--{option}",
                         self.file("none"))  # fmt: skip
        out = self.file("out.json")
        a, b = self.file("a"), self.file("sub/../a")
        for words, *files in (
            (f"--dump {a}: is also the file of --save", "--dump", a, "--save", a),
            (f"--dump {link}: is also the file of --save", "--dump", link, "--save", b),
            (f"--dump {out}: is also the file of --output", "--dump", out, "--output", out),
            (f"--save {out}: is also the file of --output", "--save", out, "--output", out),
            (f"--dump {b}: is also the file of --restart", "--restart", a, "--dump", b),
        ):
            with self.subTest(files=files):
                self.refused(words, *self.SIZE, *files)
        path = self.write([("Fe", 1.0, 1.0, 1.0), ("Fe", 3.3, 1.0, 1.0)], 12.0)
        before = Path(path).read_text()
        self.refused(f"--input {path}: is also the file of --output", "--input", path, *ONE,
                     "--output", path)  # fmt: skip
        self.assertEqual(Path(path).read_text(), before)
        self.assertEqual(Path(a).read_text(), "old")
        names = sorted(p.name for p in self.folder.iterdir())
        self.assertEqual(names, sorted([*own, "a", "fifo", "in.xyz", "link", "sub"]))

    def test_a_restart_file_may_be_saved_to(self):
        save = self.file("r.h5")
        self.good(*self.SIZE, "--until", "40", "--dump", self.file("whole.xyz"))
        self.good(*self.SIZE, "--until", "20", "--save", save)
        both = ("--restart", save, "--save", save)
        self.good(*self.SIZE, "--until", "30", *both)
        self.good(*self.SIZE, "--until", "40", *both, "--dump", self.file("parts.xyz"))
        self.assertEqual(Path(self.file("whole.xyz")).read_bytes(),
                         Path(self.file("parts.xyz")).read_bytes())  # fmt: skip

    def test_a_full_disk(self):
        """The older file stays, one line says why, and nothing is measured."""
        for option, ranks in (("dump", 1), ("dump", 3), ("save", 1), ("save", 3)):
            with self.subTest(option=option, ranks=ranks):
                path = Path(self.file(option))
                path.write_text("old")
                out = run(FAULTY, ranks, *self.SIZE, f"--{option}", str(path), BX_DISK="20000")
                self.assertEqual(out.code, 3, text(out))
                lines = [line for line in out.stderr.splitlines() if line.startswith("bisection")]
                self.assertEqual(len(lines), 1, out.stderr)
                self.assertIn(f"bisection-md: --{option} {path}", lines[0])
                self.assertRegex(lines[0], "File too large|Input/output error")
                self.assertEqual(path.read_text(), "old")
                self.assertFalse(Path(f"{path}.partial").exists())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
