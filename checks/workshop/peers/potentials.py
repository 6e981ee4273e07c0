"""The simulated systems: potentials and crystals, as files that LAMMPS reads."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from workshop.peers import Limit


@dataclass(frozen=True)
class Tersoff:
    """J. Tersoff, Phys. Rev. B 39, 5566 (1989): eV and A."""

    a: float
    b: float
    lambda_: float
    mu: float
    beta: float
    n: float
    c: float
    d: float
    h: float
    r: float
    s: float


TERSOFF = {
    "Si": Tersoff(
        1830.8, 471.18, 2.4799, 1.7322, 1.1e-6, 0.78734, 1.0039e5, 16.217, -0.59825, 2.7, 3.0
    ),
    "C": Tersoff(
        1393.6, 346.74, 3.4879, 2.2119, 1.5724e-7, 0.72751, 3.8049e4, 4.3484, -0.57058, 1.8, 2.1
    ),
}
CHI = 0.9776


@dataclass(frozen=True)
class Gupta:
    """F. Cleri and V. Rosato, Phys. Rev. B 48, 22 (1993): eV and A."""

    a: float
    xi: float
    p: float
    q: float
    r0: float

    def pair(self, r: float) -> float:
        """The pair energy (eV) at distance r (A)."""
        return 2 * self.a * math.exp(-self.p * (r / self.r0 - 1))

    def density(self, r: float) -> float:
        """The density at distance r (A)."""
        return self.xi**2 * math.exp(-2 * self.q * (r / self.r0 - 1))


COPPER, GOLD = (
    Gupta(0.0855, 1.224, 10.960, 2.278, 2.556),
    Gupta(0.2061, 1.790, 10.229, 4.036, 2.884),
)
COPPER_GOLD = Gupta(0.1539, 1.5605, 11.05, 3.0475, 2.65)


@dataclass(frozen=True)
class FinnisSinclair:
    """M. W. Finnis and J. E. Sinclair, Phil. Mag. A 50, 45 (1984): eV and A."""

    a: float
    c: float
    coefficients: tuple[float, ...]
    d: float
    beta: float

    def pair(self, r: float) -> float:
        """The pair energy (eV) at distance r (A)."""
        polynomial = sum(factor * r**k for k, factor in enumerate(self.coefficients))
        return (r - self.c) ** 2 * polynomial if r < self.c else 0.0

    def density(self, r: float) -> float:
        """The density at distance r (A)."""
        return (r - self.d) ** 2 + self.beta * (r - self.d) ** 3 / self.d


# With the parameters of the erratum, 53, 161 (1986).
IRON = FinnisSinclair(1.828905, 3.40, (1.2371147, -0.3592185, -0.0385607), 3.569745, 1.8)


@dataclass(frozen=True)
class Metal:
    """Content of a LAMMPS table of a second-moment potential; F(density) = -scale sqrt(density)."""

    name: str
    elements: tuple[tuple[Any, ...], ...]  # (symbol, number, mass, lattice constant, lattice)
    pairs: dict[tuple[int, int], Any]  # (element, element) -> the potential between them
    cutoff: float  # A
    scale: float = 1.0
    density_step: float = 0.1


# LAMMPS takes 56 bytes per point of a spline. 0.005 A apart, Cu-Au takes half a megabyte and stays
# in a core's cache; forces agree with those of a table 50 times as fine within 2e-7 of the largest.
# A finer one is slower, for its lookups miss: 0.002 A by 5%, 1e-4 A by a factor of 2.
RADIUS_STEP = 0.005
DENSITIES = 1001
GUPTA_TABLE = Metal(
    "Gupta, Phys. Rev. B 48, 22 (1993)",
    (("Cu", 29, 63.546, 3.615, "fcc"), ("Au", 79, 196.966569, 4.078, "fcc")),
    {(0, 0): COPPER, (1, 0): COPPER_GOLD, (0, 1): COPPER_GOLD, (1, 1): GOLD},
    6.2,
)
IRON_TABLE = Metal(
    "Finnis-Sinclair, Phil. Mag. A 53, 161 (1986)",
    (("Fe", 26, 55.845, 2.8665, "bcc"),),
    {(0, 0): IRON},
    IRON.d,
    IRON.a,
    density_step=0.03,
)


def eam_table(metal: Metal) -> Iterator[str]:
    """Lines of an eam/fs file."""
    # a spline needs points on both sides of the cutoff
    radii = [k * RADIUS_STEP for k in range(math.ceil(metal.cutoff / RADIUS_STEP) + 11)]
    densities = [k * metal.density_step for k in range(DENSITIES)]
    yield from (metal.name, "UNITS: metal", "written by workshop bench md")
    yield " ".join([str(len(metal.elements)), *(element[0] for element in metal.elements)])
    yield f"{DENSITIES} {metal.density_step} {len(radii)} {RADIUS_STEP} {metal.cutoff}"
    count = range(len(metal.elements))
    for i in count:
        yield " ".join(str(word) for word in metal.elements[i][1:])
        yield from numbers([-metal.scale * math.sqrt(density) for density in densities])
        for j in count:
            yield from numbers([metal.pairs[i, j].density(r) for r in radii])
    for i in count:
        for j in range(i + 1):
            yield from numbers([r * metal.pairs[i, j].pair(r) for r in radii])


def numbers(values: Sequence[float]) -> Iterator[str]:
    """Numbers as lines of five, as LAMMPS reads them."""
    for at in range(0, len(values), 5):
        yield " ".join(f"{value:.17g}" for value in values[at : at + 5])


def tersoff_file() -> Iterator[str]:
    """Lines of a tersoff file, mixed in full precision: those that LAMMPS brings are rounded."""
    yield "# Phys. Rev. B 39, 5566 (1989) UNITS: metal"
    for i, first in TERSOFF.items():
        for j, second in TERSOFF.items():
            for k, third in TERSOFF.items():
                r, s = math.sqrt(first.r * third.r), math.sqrt(first.s * third.s)
                # the bond's own terms are those of a triple whose last two are one
                chi = (j == k) * (1 if i == j else CHI)
                attraction = [
                    (j == k) * (first.mu + second.mu) / 2,
                    chi * math.sqrt(first.b * second.b),
                ]
                repulsion = [(first.lambda_ + second.lambda_) / 2, math.sqrt(first.a * second.a)]
                words = [
                    3,
                    1,
                    0,
                    first.c,
                    first.d,
                    first.h,
                    first.n,
                    (j == k) * first.beta,
                    *attraction,
                ]
                words += [(r + s) / 2, (s - r) / 2, *((j == k) * word for word in repulsion)]
                yield " ".join([i, j, k, *(f"{word:.17g}" for word in words)])


# M. P. Tosi and F. G. Fumi, J. Phys. Chem. Solids 25, 45 (1964): J, J A^6, J A^8, A of the pairs
# Na-Na, Na-Cl, Cl-Cl. Short-range terms and the sum in real space end between two shells.
JOULE = 1 / 1.602176634e-19  # eV
SALT_CUTOFF, SALT_RHO, SALT_B = 10.9, 0.317, 0.338e-19
SALT_PAIRS = (
    (1.25, 2.340, 1.68e-19, 0.8e-19),
    (1.00, 2.755, 11.2e-19, 13.9e-19),
    (0.75, 3.170, 116e-19, 233e-19),
)


def salt_lines() -> Iterator[str]:
    """Rock salt in LAMMPS' words, as a file that its input includes."""
    yield "# J. Phys. Chem. Solids 25, 45 (1964) UNITS: metal"
    for types, (pauling, radii, c6, d8) in zip(("1 1", "1 2", "2 2"), SALT_PAIRS, strict=True):
        numbers = (SALT_B * pauling * JOULE, SALT_RHO, radii, c6 * JOULE, -d8 * JOULE)
        yield f"pair_coeff {types} {' '.join(f'{number:.17g}' for number in numbers)}"


@dataclass(frozen=True)
class System:
    """A crystal, and how LAMMPS describes its potential."""

    case: str
    title: str
    cells: int
    edge: float  # of a cell: A
    sites: tuple[tuple[float, ...], ...]  # (x, y, z, type), in edges
    masses: tuple[float, ...]
    pair_style: str
    elements: str
    potential: Callable[[], Iterator[str]]
    energy: float  # of the perfect crystal: eV per atom
    target: float  # ours over LAMMPS
    charges: tuple[float, ...] = ()  # e, by type; none: no mesh
    memory: Limit | None = None  # of ours: bytes per atom

    @property
    def atoms(self) -> int:
        """The number of atoms."""
        return len(self.sites) * self.cells**3


FACES = ((0, 0, 0), (0, 0.5, 0.5), (0.5, 0, 0.5), (0.5, 0.5, 0))
ZINCBLENDE = (
    *((x, y, z, 1) for x, y, z in FACES),
    *((x + 0.25, y + 0.25, z + 0.25, 2) for x, y, z in FACES),
)
SYSTEMS = {
    system.case: system
    for system in (
        System(
            "sic", "SiC, Tersoff", 16, 4.32106, ZINCBLENDE,
            (28.0855, 12.0107), "tersoff", "Si C", tersoff_file, -6.16467, 2.3,
        ),
        System(
            "cu3au", "Cu3Au, Gupta", 20, 3.744,
            tuple((*at, 2 if at == (0, 0, 0) else 1) for at in FACES),
            (63.546, 196.966569), "eam/fs", "Cu Au", lambda: eam_table(GUPTA_TABLE), -3.64283, 1.25,
            memory=Limit(800, unit="B"),
        ),
        System(
            "fe", "Fe, Finnis-Sinclair", 25, 2.8665, ((0, 0, 0, 1), (0.5, 0.5, 0.5, 1)),
            (55.845,), "eam/fs", "Fe", lambda: eam_table(IRON_TABLE), -4.28, 1.0,
        ),
        System(
            "nacl", "NaCl, particle mesh Ewald", 15, 5.64,
            (*((*at, 1) for at in FACES),
             *((*((part + 0.5) % 1 for part in at), 2) for at in FACES)),
            (22.98976928, 35.453), f"born/coul/long {SALT_CUTOFF}", "Na Cl", salt_lines,
            -4.0290, 1.5, (1, -1),
        ),
    )
}  # fmt: skip
