"""The atoms and the test case of the tests of bisection-md, which take KERNEL FAULTY-KERNEL."""

import sys
import tempfile
import unittest
from pathlib import Path

import kernel_run
from kernel_run import run

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
COLUMNS = 'Properties=id:I:1:species:S:1:pos:R:3:velo:R:3:forces:R:3:energies:R:1 pbc="T T T"'
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
    return kernel_run.entry(out, method)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, name):
        return str(self.folder / name)

    def write(self, atoms, lattice, name="in.xyz"):
        """A file as --dump writes it, of atoms (species, x, y, z) or with velocities."""
        if isinstance(lattice, float):
            lattice = (lattice, 0, 0, 0, lattice, 0, 0, 0, lattice)
        lines = [str(len(atoms)), f'Lattice="{" ".join(map(repr, lattice))}" {COLUMNS}']
        for n, (species, *values) in enumerate(atoms, 1):
            values += [0.0] * (10 - len(values))
            lines.append(f"{n} {species} {' '.join(map(repr, values))}")
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
