"""LAMMPS' particle meshes of ions, as accurate as the kernel's.

LAMMPS' `kspace_style pppm A` aims, by an estimate, at an rms error of A times the force between two
unit charges 1 A apart (14.4 eV/A). The kernel's mesh is fixed, and its verification bounds the
largest errors of single ions. These numbers do not compare. So errors of both sides are measured on
the same ions, those that the kernel measures: the root of the mean square, over all ions, of the
vector between the force and that of Ewald's sum without a mesh. The sum is LAMMPS', with almost
twice the cutoff. Each of LAMMPS' meshes gets the largest A at which its error is at most the
kernel's.
"""

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bisection.peers import NotMeasured
from bisection.peers.lammps import PAIR, Build, ran
from bisection.peers.potentials import System

EXACT_CUTOFF = 20.0  # A
EXACT = ("kspace_style ewald 1e-8",)
# LAMMPS' default is the first: order of the splines; fields by an FFT each, or by splines' slopes.
KINDS = tuple(f"kspace_modify order {order} diff {by}" for order in (5, 7) for by in ("ik", "ad"))
ACCURACIES = tuple(10 ** (-3 - k / 10) for k in range(31))  # A; 25% between two


@dataclass(frozen=True)
class Mesh:
    """LAMMPS' lines of a mesh, and its error: eV/A."""

    lines: tuple[str, ...]
    error: float


@dataclass(frozen=True)
class Meshes:
    """The error of the kernel's mesh (eV/A), and LAMMPS' meshes of at most that error."""

    ours: float
    theirs: tuple[Mesh, ...]


def equal_meshes(dump: Path, build: Build, system: System, potential: Path) -> Meshes:
    """LAMMPS' meshes that are as accurate as the kernel's.

    Args:
        dump: what the kernel wrote by --dump; LAMMPS' files go beside it.
        build: the LAMMPS whose forces are compared.
        system: the ions.
        potential: LAMMPS' file of the potential.

    Raises:
        NotMeasured: LAMMPS failed, or none of its meshes is accurate enough.
    """
    rows = [line.split() for line in dump.read_text().splitlines()[2:]]
    ions = dump.with_suffix(".data")
    ions.write_text("\n".join(data_lines(system, rows)) + "\n")

    def forces(mesh: Sequence[str], *cutoff: float) -> np.ndarray:
        """LAMMPS' forces on the ions, in the order of their numbers: (ions, 3), eV/A."""
        file, written = dump.with_suffix(".in"), dump.with_suffix(".forces")
        lines = force_script(system, ions, potential, mesh, written, *cutoff)
        file.write_text("\n".join(lines) + "\n")
        ran(build, PAIR, next(iter(build.styles(PAIR))), file)
        return np.loadtxt(written, skiprows=9)[:, 1:]

    exact = forces(EXACT, EXACT_CUTOFF)
    ours = rms_of(np.array([row[8:11] for row in rows], dtype=float) - exact)
    chosen = []
    for kind in KINDS:
        errors = {}

        def is_accurate(accuracy: float, kind: str = kind, errors: dict = errors) -> bool:
            lines = (f"kspace_style pppm {accuracy:.3g}", kind)
            errors[accuracy] = Mesh(lines, rms_of(forces(lines) - exact))
            return errors[accuracy].error <= ours

        at = bisect.bisect_left(ACCURACIES, True, key=is_accurate)
        if at < len(ACCURACIES):
            chosen.append(errors[ACCURACIES[at]])
    if not chosen:
        raise NotMeasured(f"no mesh of LAMMPS has an error of at most {ours:.2g} eV/A")
    return Meshes(ours, tuple(chosen))


def rms_of(vectors: np.ndarray) -> float:
    """The root of the mean square of vectors' lengths."""
    return float(np.sqrt((vectors**2).sum(axis=1).mean()))


def data_lines(system: System, rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Lines of LAMMPS' data file of the ions of an extended XYZ file (number, species, place)."""
    species = sorted({row[1] for row in rows}, key=system.elements.split().index)
    edge = system.cells * system.edge
    yield from ("ions", "", f"{len(rows)} atoms", f"{len(species)} atom types")
    yield from (f"0 {edge!r} {axis}lo {axis}hi" for axis in "xyz")
    yield from ("", "Masses", "")
    yield from (f"{kind} {mass}" for kind, mass in enumerate(system.masses, 1))
    yield from ("", "Atoms # charge", "")
    for number, name, *place in (row[:5] for row in rows):
        kind = species.index(name)
        yield f"{number} {kind + 1} {system.charges[kind]} {' '.join(place)}"


def force_script(
    system: System,
    ions: Path,
    potential: Path,
    mesh: Sequence[str],
    written: Path,
    *cutoff: float,
) -> Iterator[str]:
    """LAMMPS' input that writes the forces on the ions of a data file.

    Args:
        system: the ions.
        ions: the data file.
        potential: LAMMPS' file of the potential.
        mesh: LAMMPS' lines of the sum over charges.
        written: the file of the forces.
        cutoff: of the sum in real space (A), if it is not that of the potential.
    """
    yield from ("units metal", "atom_style charge", "boundary p p p", f"read_data {ions}")
    yield " ".join([f"pair_style {system.pair_style}", *map(str, cutoff)])
    yield from (f"include {potential}", *mesh, "run 0")
    yield f"write_dump all custom {written} id fx fy fz modify sort id format float %.17g"
