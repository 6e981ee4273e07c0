"""`workshop bench md`: the MD kernel beside LAMMPS, as ratios of atom-steps per second.

Both sides start from the same perfect crystal at 600 K and take the same steps, in launches that
take turns. Each runs at the skin that serves it best in that system and layout, found beforehand,
and LAMMPS by the fastest of the builds and styles that are there; of ions, by the fastest mesh that
is as accurate as ours (meshes.py). What it reads is written here.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bisection.kernels.local import BenchError, Estimate, launch
from bisection.kernels.results import Result
from workshop.peers import NotMeasured, entry, estimates, quartiles
from workshop.peers.lammps import (
    ONE,
    PAIR,
    SETTLING,
    TEMPERATURE,
    TIMESTEP,
    Build,
    Layout,
    Log,
    parsed,
    ran,
    script,
)
from workshop.peers.meshes import Meshes, equal_meshes
from workshop.peers.potentials import System

Choice = tuple[Build, str, tuple[str, ...]]  # of LAMMPS: a build, a style, the mesh's lines

TURNS = 5
STEPS = 50
SAMPLES = 3
SKINS = (0.2, 0.4, 0.7, 1.0, 1.4, 2.0)  # A
MIDDLE = 1.0  # the skin at which LAMMPS' builds and styles are compared
THREADED = 0.92  # of twice the rate of one rank, what two threads reach at least


@dataclass
class Run:
    """A launch's rate in atom-steps/s, its memory in bytes per atom, how quiet the machine was."""

    rate: float
    memory: float
    result: Result | None = None  # ours
    used: float = 1.0  # the share of its cores that LAMMPS had


class Ours:
    """Our kernel on one system."""

    def __init__(self, kernel: Path, folder: Path, system: System, steps: int) -> None:
        self.kernel, self.folder, self.system, self.steps = kernel, folder, system, steps

    def run(
        self, layout: Layout, skin: float, samples: int = SAMPLES, methods: str = "packed"
    ) -> Run:
        """One launch.

        Args:
            layout: ranks and threads.
            skin: of the neighbour list (A).
            samples: how many to take.
            methods: of the kernel; the rate is the first one's.

        Raises:
            BenchError: the launch failed, or had other atoms.
        """
        arguments = ["--case", self.system.case, "--cells", str(self.system.cells)]
        arguments += ["--skin", str(skin), *sampling(self.steps, samples, methods)]
        output = self.folder / f"{self.system.case}.json"
        result = launch(self.kernel, layout.ranks, arguments, output, layout.threads)
        details = result["details"]
        if details["atoms"] != self.system.atoms:
            raise BenchError(f"{self.system.case} has {details['atoms']:.0f} atoms")
        seconds = result["results"][0]["metrics"]["time"]["value"]
        return Run(self.system.atoms / seconds, details["memory_per_atom"], result)

    def dump(self) -> Path:
        """An extended XYZ file of the atoms at the first sample, with their forces."""
        path = self.folder / f"{self.system.case}.xyz"
        arguments = ["--case", self.system.case, "--cells", str(self.system.cells)]
        arguments += [*sampling(1, 1), "--dump", str(path)]
        launch(self.kernel, PAIR.ranks, arguments, self.folder / f"{self.system.case}.json")
        return path


def sampling(steps: int, samples: int, methods: str = "packed") -> list[str]:
    """The kernel's options that are the same in every launch.

    Args:
        steps: MD steps per sample.
        samples: how many to take.
        methods: of the kernel.
    """
    words = ["--method", methods, "--baseline", "none", "--block", "1", "--warmup", "0"]
    words += ["--timestep", str(TIMESTEP), "--temperature", str(TEMPERATURE)]
    return [*words, "--until", str(SETTLING), "--steps", str(steps), "--repeats", str(samples)]


class Theirs:
    """LAMMPS on one system, in each build that is installed."""

    def __init__(self, builds: Sequence[Build], folder: Path, system: System, steps: int) -> None:
        self.builds, self.folder, self.system, self.steps = builds, folder, system, steps
        self.potential = folder / f"{system.case}.potential"
        self.meshes: Sequence[tuple[str, ...]] = ((),)
        if builds:
            self.potential.write_text("\n".join(system.potential()) + "\n")

    def equal_meshes(self, ours: Ours) -> Meshes:
        """Takes the meshes of ions that are as accurate as ours; of the first build.

        Raises:
            NotMeasured: LAMMPS failed, or none of its meshes is accurate enough.
        """
        meshes = equal_meshes(ours.dump(), self.builds[0], self.system, self.potential)
        self.meshes = [mesh.lines for mesh in meshes.theirs]
        return meshes

    def choices(self, layout: Layout) -> list[Choice]:
        """Builds and styles that run in a layout, with each mesh."""
        return [
            (build, style, mesh)
            for build in self.builds
            for style in build.styles(layout)
            for mesh in self.meshes
        ]

    def run(self, layout: Layout, choice: Choice, skin: float, samples: int = SAMPLES) -> Run:
        """One launch, of the same work as ours.

        Args:
            layout: ranks and threads.
            choice: build, style and mesh.
            skin: of the neighbour list (A).
            samples: how many to take.

        Raises:
            NotMeasured: it failed, or did other work.
        """
        build, style, mesh = choice
        file = self.folder / f"in.{self.system.case}"
        file.write_text(script(self.system, self.potential, mesh, skin, self.steps, samples))
        log = parsed(ran(build, layout, style, file))
        self.check(log, layout, samples)
        rate = self.system.atoms / statistics.median(s / n for s, _, n, _ in log.loops[1:])
        memory = log.memory * layout.ranks / self.system.atoms
        return Run(rate, memory, used=log.used / layout.threads)

    def check(self, log: Log, layout: Layout, samples: int) -> None:
        """That it did our work: a table gone wrong, or ranks that run alone, would be no peer."""
        atoms, cores = self.system.atoms, layout.ranks * layout.threads
        wanted = [(cores, steps, atoms) for steps in (SETTLING, *[self.steps] * samples)]
        if [tuple(counts) for _, *counts in log.loops] != wanted:
            raise NotMeasured(f"seconds, cores, steps and atoms were {log.loops}")
        if abs(log.energy - self.system.energy) > 1e-4:
            raise NotMeasured(f"{log.energy} eV per atom, it should be {self.system.energy}")


@dataclass
class Row:
    """A layout: how it was prepared, and launches of both sides, turn by turn."""

    layout: Layout
    skins: dict[float, float]  # skin (A) -> our rate in atom-steps/s (rate_by_skin)
    rates: dict[Choice, float]  # LAMMPS' builds and styles at the skin MIDDLE
    their_skins: dict[float, float]  # the same as `skins`, of the best of `rates`
    unfit: dict[Choice, str]  # builds and styles that were left out -> why
    ours: list[Run] = field(default_factory=list)
    theirs: list[Run] = field(default_factory=list)

    @property
    def choice(self) -> Choice | None:
        """LAMMPS' best build and style; None if there is none for this layout."""
        return max(self.rates, key=self.rates.__getitem__, default=None)

    @property
    def skin(self) -> float:
        """Our best skin (A)."""
        return max(self.skins, key=self.skins.__getitem__)

    @property
    def their_skin(self) -> float:
        """LAMMPS' best skin (A)."""
        return max(self.their_skins, key=self.their_skins.__getitem__)

    def ratio(self) -> Estimate:
        """Our rate over that of LAMMPS, turn by turn."""
        return over(self.ours, self.theirs)


def over(above: Sequence[Run], below: Sequence[Run], factor: float = 1.0) -> Estimate:
    """The ratio of rates, turn by turn, the lower ones times `factor`."""
    pairs = zip(above, below, strict=True)
    return quartiles([mine.rate / (factor * other.rate) for mine, other in pairs])


def rate_by_skin(rate: Callable[[float], float], known: dict[float, float]) -> dict[float, float]:
    """The rate at each skin, of the best three the median of three: a disturbance must not decide.

    Args:
        rate: measures the rate (atom-steps/s) at a skin (A).
        known: rates that were measured before.
    """
    rates = {skin: known.get(skin) or rate(skin) for skin in SKINS}
    for skin in sorted(rates, key=rates.__getitem__, reverse=True)[:3]:
        rates[skin] = statistics.median((rates[skin], rate(skin), rate(skin)))
    return rates


def prepared(ours: Ours, theirs: Theirs, layout: Layout) -> Row:
    """A Row whose skins and whose LAMMPS are chosen."""
    skins = rate_by_skin(lambda skin: ours.run(layout, skin, samples=1).rate, {})
    row = Row(layout, skins, {}, {}, {})
    for choice in theirs.choices(layout):
        try:
            row.rates[choice] = theirs.run(layout, choice, MIDDLE, samples=1).rate
        except NotMeasured as error:
            row.unfit[choice] = str(error)
    if best := row.choice:
        row.their_skins = rate_by_skin(
            lambda skin: theirs.run(layout, best, skin, samples=1).rate, {MIDDLE: row.rates[best]}
        )
    return row


def take_turns(ours: Ours, theirs: Theirs, rows: Sequence[Row], turns: int) -> None:
    """Launches of all rows in turns, so that drift hits both sides alike.

    Raises:
        BenchError: LAMMPS did other work than before.
    """
    for turn in range(turns):
        for row in rows:
            choice = row.choice
            sides = ("ours", "theirs") if choice else ("ours",)
            # who comes first takes turns too
            for side in sides if turn % 2 == 0 else reversed(sides):
                try:
                    if side == "ours":
                        row.ours.append(ours.run(row.layout, row.skin))
                    elif choice:
                        row.theirs.append(theirs.run(row.layout, choice, row.their_skin))
                except NotMeasured as error:
                    raise BenchError(f"{row.layout}: {error}") from error


def recomputed(ours: Ours, row: Row) -> tuple[Estimate, float]:
    """What metals' kept terms of pairs cost and save: the time without them over that with them, in
    one launch; bytes per atom without them."""
    both = ours.run(row.layout, row.skin, 2 * SAMPLES, "packed,recompute")
    ratio = estimates(both.result or {}, "ratio_packed")["recompute"]
    return ratio, ours.run(row.layout, row.skin, methods="recompute").memory


@dataclass
class Large:
    """One of the paper's large tests on one rank, at the skin that the kernel chooses."""

    test: str
    atoms: int = 0
    seconds: float = 0.0  # per step
    peak: float = 0.0  # memory of the process: bytes
    bytes_per_atom: float = 0.0
    error: str = ""  # why it was not measured


def large(kernel: Path, folder: Path, steps: int) -> Iterator[Large]:
    """The paper's three large tests."""
    for test in ("test10", "test20", "test30"):
        arguments = ["--case", test, *sampling(steps, 1)]
        try:
            result = launch(kernel, ONE.ranks, arguments, folder / f"{test}.json")
        except BenchError as error:
            yield Large(test, error=str(error))
            continue
        details = result["details"]
        seconds = entry(result, "packed")["metrics"]["time"]["value"]
        yield Large(test, details["atoms"], seconds, result["peak"], details["memory_per_atom"])
