"""LAMMPS' particle meshes of ions, as accurate as the kernel's.

LAMMPS' `kspace_style pppm A` aims, by an estimate, at an rms error of A times the force between
two unit charges 1 A apart (14.4 eV/A). The kernel's mesh is fixed, and its verification bounds the
largest errors of single ions. These numbers cannot be compared. So errors of both sides are
measured on the same ions, those that the kernel dumps. An error is the root of the mean square,
over all ions, of the vector between the force and that of Ewald's sum without a mesh. The sum is
LAMMPS', with almost twice the cutoff. LAMMPS gets, for each order and splitting below, the
smallest mesh whose error is at most the kernel's, and the fastest of these four. Both sides have
the potential's cutoff; a shorter one of LAMMPS' charges, on a finer mesh, is not tried.
"""

import bisect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from workshop.peers import NotMeasured
from workshop.peers.lammps import PAIR, Build, ran
from workshop.peers.potentials import System

EXACT_CUTOFF = 20.0  # A
EXACT = ("kspace_style ewald 1e-8",)
# Orders of the splines: LAMMPS' default and its highest; splittings (1/A): lower, and the kernel's.
# Left out is `diff ad`: with order 7 it needs 80 points where `ik` needs 60, and is slower.
KINDS = tuple((order, splitting) for order in (5, 7) for splitting in (0.30, 0.321))
# Points per direction of a cube, with factors 2, 3 and 5.
POINTS = (48, 50, 54, 60, 64, 72, 75, 80, 81, 90, 96, 100, 108, 120, 125, 128, 135, 144)


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

    def smallest(order: int, splitting: float) -> Mesh | None:
        """The smallest mesh that is as accurate; None if none is."""
        meshes: dict[int, Mesh] = {}

        def is_accurate(points: int) -> bool:
            mesh = f"order {order} gewald {splitting} mesh {points} {points} {points}"
            lines = ("kspace_style pppm 1e-5", f"kspace_modify {mesh}")
            meshes[points] = Mesh(lines, rms_of(forces(lines) - exact))
            return meshes[points].error <= ours

        at = bisect.bisect_left(POINTS, True, key=is_accurate)
        return meshes[POINTS[at]] if at < len(POINTS) else None

    exact = forces(EXACT, EXACT_CUTOFF)
    ours = rms_of(np.array([row[8:11] for row in rows], dtype=float) - exact)
    theirs = tuple(filter(None, (smallest(*kind) for kind in KINDS)))
    if not theirs:
        raise NotMeasured(f"no mesh of LAMMPS has an error of at most {ours:.2g} eV/A")
    return Meshes(ours, theirs)


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
