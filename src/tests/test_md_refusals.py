"""bisection-md as it is run: failures, refusals, files.

Usage: test_md_refusals.py KERNEL FAULTY-KERNEL
"""

import os
import stat
import sys
import unittest
from pathlib import Path

from kernel_run import assert_refused, checks, run
from md_case import COLUMNS, FAULTY, KERNEL, ONE, STILL, Case, text


class Failures(Case):
    def fails(self, *words, arguments, ranks=1, threads=1):
        out = run(KERNEL, ranks, *arguments, threads=threads)
        self.assertEqual(out.code, 1, text(out))
        for word in words:
            self.assertIn(word, out.stderr)
        return out

    def test_a_step_that_explodes(self):
        atoms = [
            ("Cu", 1.0, 1.0, 1.0, 1e5, 0.0, 0.0),
            ("Cu", 3.5, 1.0, 1.0, 0.0, 0.0, 0.0),
        ]
        start = self.write(atoms, 30.0)
        for ranks in (1, 3):
            self.fails(
                "bisection-md: step 1: atom 1 on rank ", " has moved 100.0 A since the list",
                arguments=("--input", start, *ONE, "--until", "50"), ranks=ranks,
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
        start = self.write(chain, box)
        for ranks in (1, 3, 5):
            self.fails(
                "bisection-md: step 3: atoms ", " are 0.80", "below 1.587 A", ranks=ranks,
                arguments=("--input", start, *ONE, "--until", "20"),
            )  # fmt: skip


class Refusals(Case):
    def refused(self, words, *arguments, ranks=1):
        assert_refused(self, run(KERNEL, ranks, *arguments), 2, words)

    def test_options(self):
        for words, *arguments in (
            ("--case gold: unknown", "--case", "gold"),
            ("--cells 0: not a whole number from 1", "--cells", "0"),
            ("--timestep 0: not", "--timestep", "0"),
            ("--timestep nan: not", "--timestep", "nan"),
            ("--skin -1: not", "--skin", "-1"),
            ("--timestep 2.000: at most 1.0 fs", "--case", "sic", "--timestep", "2"),
            ("--timestep 300.0: at most 8.0 fs", "--case", "fe", "--timestep", "300"),
            (
                "--temperature 20000.0: at most 3000.0 K for this potential, whose density is",
                "--case",
                "fe",
                "--temperature",
                "20000",
            ),
            (
                "--temperature 100000.0: atoms move 0.50 A in a --timestep of 1.000 fs; at most",
                "--case",
                "gramicidin-mini",
                "--temperature",
                "100000",
            ),
            ("--save x: not with method replicated", "--save", "x", "--method", "replicated"),
            ("--restart x: not with method replicated", "--restart", "x", "--method", "replicated"),
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

    def test_no_temperature_and_time_step_that_are_allowed_are_wrong(self):
        for name, cells, *hot in (
            ("nacl", "3", "20000", "1"), ("nacl", "3", "3000", "8"), ("gramicidin", "3", "10", "1"),
            ("gramicidin", "3", "3000", "2"), ("gramicidin", "3", "0", "0.05"),
            ("sic", "3", "20000", "1"), ("fe", "5", "3000", "8"),
            ("cu3au", "4", "10000", "4"), ("w", "4", "20000", "1"), ("cu", "4", "100", "0.5"),
        ):  # fmt: skip
            with self.subTest(name=name, hot=hot):
                self.good("--case", name, "--cells", cells, "--temperature", hot[0], "--timestep",
                          hot[1], "--until", "200", *ONE)  # fmt: skip

    def test_a_method_that_cannot_be(self):
        for ranks, method, words in (
            (2, "recompute", "this potential keeps no pair terms"),
            (2, "column-wise", "no FFT without charges"),
            (1, "replicated", "one rank has all atoms in any style"),
        ):
            with self.subTest(method=method):
                out = run(
                    KERNEL, ranks, "--case", "sic", "--cells", "4", *STILL, "--method", method
                )
                self.assertEqual(out.code, 3, text(out))  # nothing was measured
                self.assertIn(f"{method}: {words}", text(out))

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
        still = "0 0 0 0 0 0 0"
        cube = f'2\nLattice="12 0 0 0 12 0 0 0 12" {COLUMNS}\n1 Fe 1 1 1 {still}\n2 Fe '
        for words, content in (
            ("line 1 is no number of atoms that the file can hold: x", "x\n"),
            ("line 4 is not that of atom 2", f"{cube}1 1/2 1 {still}\n"),
            ("atoms 1 and 2 are 0.000 A apart, at least 0.5 A", f"{cube}1 1 1 {still}\n"),
            ("atoms 1 and 2 are 0.000 A apart, at least 0.5 A", f"{cube}-11 25 1 {still}\n"),
            ("atoms 1 and 2 are 0.300 A apart, at least 0.5 A", f"{cube}1 1 1.3 {still}\n"),
            ("no two atoms are within the cutoff, 3.57 A: there is", f"{cube}7 7 7 {still}\n"),
        ):
            with self.subTest(words=words, content=content):
                path = Path(self.file("bad.xyz"))
                path.write_text(content)
                for ranks in (1, 3):
                    out = run(KERNEL, ranks, "--input", str(path))
                    self.assertEqual(out.code, 2, text(out))
                    self.assertIn(f"--input {path}: {words}", out.stderr)
        self.refused("has molecules; only --case makes them", "--input",
                     self.write([("O", 1.0, 1.0, 1.0)], 30.0))  # fmt: skip
        self.refused("no two atoms are within the cutoff", "--input",
                     self.write([("Si", 1.0, 1.0, 1.0)], 30.0))  # fmt: skip
        ions = [("Cl", 1.0, 1.0, 1.0), ("Na", 3.8, 1.0, 1.0), ("Cl", 6.6, 1.0, 1.0)]
        for ranks in (1, 3):
            self.refused("the charges of all ions add up to -1.0 e: they have to add up to 0",
                         "--input", self.write(ions, 40.0), ranks=ranks)  # fmt: skip

    def test_exponents_of_three_digits(self):
        """Written with their E, and read back."""
        atoms = [("Fe", 1.0, 1e-120, 1.0), ("Fe", 3.3, 1e-120, 1.0)]
        self.good("--input", self.write(atoms, 12.0), *STILL, "--temperature", "0", "--method",
                  "packed", "--dump", self.file("out.xyz"))  # fmt: skip
        self.assertRegex(Path(self.file("out.xyz")).read_text(), r" 9\.\d{16}E-121 ")
        self.good("--input", self.file("out.xyz"), *STILL, "--temperature", "0", "--method",
                  "packed", "--dump", self.file("again.xyz"))  # fmt: skip
        self.assertEqual(self.read("again.xyz"), self.read("out.xyz"))

    def test_a_dump_with_velocities_goes_on(self):
        """The same steps, but for the last digits: the atoms are in another order."""
        size = ("--case", "fe", "--cells", "6", *ONE)
        self.good(*size, "--until", "40", "--dump", self.file("whole.xyz"), ranks=2)
        self.good(*size, "--until", "20", "--dump", self.file("half.xyz"), ranks=2)
        self.good("--input", self.file("half.xyz"), *ONE, "--until", "20", "--dump",
                  self.file("parts.xyz"), ranks=3)  # fmt: skip
        whole = self.read("whole.xyz")
        for n, values in self.read("parts.xyz").items():
            for mine, theirs in zip(values[:6], whole[n][:6], strict=True):
                self.assertAlmostEqual(mine, theirs, delta=1e-9)

    def test_restart_files(self):
        size = ("--case", "fe", "--cells", "6", *ONE)
        save = Path(self.file("saved"))
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
        assert_refused(self, run(KERNEL, ranks, *arguments), 2, f"bisection-md: {words}")

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
        save = self.file("saved")
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
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
