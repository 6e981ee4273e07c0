"""`bisection bench md`: the MD kernel beside LAMMPS, as ratios of atom-steps a second.

Both sides start from the same perfect crystal at 600 K and take the same steps, in launches that
take turns. Each runs at the skin that serves it best in that system and layout, found beforehand,
and LAMMPS by the fastest of the builds and styles that are there. What it reads is written here.
"""

import statistics
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bisection.kernels.local import (
    BenchError,
    Ratio,
    entry,
    environment,
    launch,
    launch_watched,
    quartiles,
)
from bisection.kernels.results import Result, preempted
from bisection.peers.lammps import (
    LAYOUTS,
    ONE,
    SETTLING,
    TEMPERATURE,
    THREADS,
    TIMESTEP,
    Build,
    Layout,
    Log,
    NotMeasured,
    parsed,
    script,
)
from bisection.peers.potentials import System
from bisection.report.tables import columns

Choice = tuple[Build, str]  # of LAMMPS: a build and a style

TURNS = 5
STEPS = 50
SAMPLES = 3
SKINS = (0.2, 0.4, 0.7, 1.0, 1.4, 2.0)  # A
MIDDLE = 1.0  # the skin at which LAMMPS' builds and styles are compared
THREADED = 0.92  # of twice the rate of one rank, what two threads reach at least


@dataclass
class Run:
    """A launch's rate in atom-steps/s, its memory in bytes an atom, how quiet the machine was."""

    rate: float
    memory: float
    result: Result | None = None  # ours
    used: float = 1.0  # the share of its cores that LAMMPS had


class Ours:
    """Our kernel on one system."""

    def __init__(self, kernel: Path, folder: Path, system: System, steps: int) -> None:
        self.kernel, self.folder, self.system, self.steps = kernel, folder, system, steps

    def run(self, layout: Layout, skin: float, samples: int = SAMPLES) -> Run:
        """One launch.

        Args:
            layout: ranks and threads.
            skin: of the neighbour list (A).
            samples: how many to take.

        Raises:
            BenchError: the launch failed, or had other atoms.
        """
        arguments = ["--case", self.system.case, "--cells", str(self.system.cells)]
        arguments += ["--skin", str(skin), *asked(self.steps, samples)]
        output = self.folder / f"{self.system.case}.json"
        result = launch(self.kernel, layout.ranks, arguments, output, layout.threads)
        details = result["details"]
        if details["atoms"] != self.system.atoms:
            raise BenchError(f"{self.system.case} has {details['atoms']:.0f} atoms")
        seconds = entry(result, "packed")["metrics"]["time"]["value"]
        return Run(self.system.atoms / seconds, details["memory_per_atom"], result)


def asked(steps: int, samples: int) -> list[str]:
    """The kernel's options that are the same in every launch."""
    words = ["--method", "packed", "--baseline", "none", "--block", "1", "--warmup", "0"]
    words += ["--timestep", str(TIMESTEP), "--temperature", str(TEMPERATURE)]
    return [*words, "--until", str(SETTLING), "--steps", str(steps), "--repeats", str(samples)]


class Theirs:
    """LAMMPS on one system, in each build that is installed."""

    def __init__(self, builds: Sequence[Build], folder: Path, system: System, steps: int) -> None:
        self.builds, self.folder, self.system, self.steps = builds, folder, system, steps
        self.potential = folder / f"{system.case}.potential"
        if builds:
            self.potential.write_text("\n".join(system.potential()) + "\n")

    def choices(self, layout: Layout) -> list[Choice]:
        """Builds and styles that run in a layout."""
        return [(found, style) for found in self.builds for style in found.styles(layout)]

    def run(self, layout: Layout, choice: Choice, skin: float, samples: int = SAMPLES) -> Run:
        """One launch, of the same work as ours.

        Args:
            layout: ranks and threads.
            choice: build and style.
            skin: of the neighbour list (A).
            samples: how many to take.

        Raises:
            NotMeasured: it failed, or did other work.
        """
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

    def check(self, log: Log, layout: Layout, samples: int) -> None:
        """That it did our work: a table gone wrong, or ranks that run alone, would be no peer."""
        atoms, cores = self.system.atoms, layout.ranks * layout.threads
        wanted = [(cores, steps, atoms) for steps in (SETTLING, *[self.steps] * samples)]
        if [tuple(counts) for _, *counts in log.loops] != wanted:
            raise NotMeasured(f"seconds, cores, steps and atoms were {log.loops}")
        if abs(log.energy - self.system.energy) > 1e-4:
            raise NotMeasured(f"{log.energy} eV an atom, it should be {self.system.energy}")


@dataclass
class Row:
    """A layout: launches of both sides, turn by turn, at their best skins."""

    layout: Layout
    skin: float
    choice: Choice | None = None  # LAMMPS' build and style; None: there is none that does this
    their_skin: float = 0.0
    ours: list[Run] = field(default_factory=list)
    theirs: list[Run] = field(default_factory=list)

    def rates(self) -> list[float]:
        """Our atom-steps per second, turn by turn."""
        return [run.rate for run in self.ours]

    def ratio(self) -> Ratio:
        """Our rate over that of LAMMPS, turn by turn."""
        pairs = zip(self.ours, self.theirs, strict=True)
        return quartiles([ours.rate / theirs.rate for ours, theirs in pairs])


def best_skin(
    rate: Callable[[float], float], known: dict[float, float], again: int = 3
) -> tuple[float, dict[float, float]]:
    """(the skin with the best rate, what was found): each once, the best once more, for a
    disturbance must not decide. `known` has rates that were found before."""
    found = {skin: known.get(skin) or rate(skin) for skin in SKINS}
    for skin in sorted(found, key=found.get, reverse=True)[:again]:
        found[skin] = max(found[skin], rate(skin))
    return max(found, key=found.get), found


def measure(ours: Ours, theirs: Theirs, turns: int) -> list[Row]:
    """Rows of all layouts, their launches in turns, so that drift hits both sides alike."""
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


def prepared(ours: Ours, theirs: Theirs, layout: Layout) -> Row:
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


def scanned(name: str, found: dict[float, float]) -> str:
    """The rates at each skin as one line."""
    return f"{name}, by skin: " + ", ".join(f"{s} A {r / 1e6:.2f}" for s, r in found.items())


def titled(choice: Choice) -> str:
    """Build and style as text."""
    found, style = choice
    return f"{found.name} {style}"


def verdict(ratio: Ratio, target: float) -> str:
    """Met or MISSED and by how much; and whether the turns are of one mind."""
    word = "met" if ratio.value >= target else "MISSED"
    apart = " (within the spread)" if ratio.low < target <= ratio.high else ""
    return f"{word} by {abs(ratio.value / target - 1):.1%}{apart}"


def table(system: System, rows: Sequence[Row]) -> Iterator[str]:
    """One line a layout and one of the threads; then the memory."""
    yield "  Matom-steps/s, medians of the turns; ratios with quartiles"
    cells = [["", "ours", "skin", "LAMMPS", "by", "skin", "ratio", "at least", "", "not preempted"]]
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
        ratio = quartiles([two / (THREADS.threads * one) for two, one in pairs])
        line = [f"{THREADS} / twice {ONE}", "", "", "", "", "", f"{ratio}", f"{THREADED}"]
        cells.append([*line, verdict(ratio, THREADED), ""])
    yield from ("  " + line for line in columns(cells))
    yield "  memory, bytes an atom: " + "; ".join(
        f"{row.layout} {row.ours[-1].memory:.0f}"
        + (f", LAMMPS {row.theirs[-1].memory:.0f}" if row.theirs else "")
        for row in rows
    )


def quiet(row: Row) -> str:
    """How quiet the machine was: the fraction of our samples that were not preempted, and the least
    fraction of its cores that LAMMPS reports."""
    share = f"{1 - preempted(*(run.result for run in row.ours)):.0%} of the samples"
    if row.theirs:
        share += f", LAMMPS had {min(run.used for run in row.theirs):.0%} of its cores"
    return share


def full(kernel: Path, folder: Path, steps: int) -> Iterator[str]:
    """Lines on the paper's three large tests: time per step, rate, memory."""
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
