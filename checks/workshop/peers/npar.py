"""`workshop bench npar`: the NPAR kernel beside Quantum ESPRESSO and its own limits.

Ratios from launches that take turns, each with its quartiles over the turns or over rounds.
"""

import re
import shutil
import statistics
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from bisection.kernels import tables
from bisection.kernels.local import BenchError, Estimate, environment, launch, placement
from bisection.kernels.results import Result
from workshop.peers import AT_LEAST, WITHIN, Judged, Limit, NotMeasured, entry, estimates, judged

PSEUDOPOTENTIALS = Path("/usr/share/espresso/pseudo")
PSEUDOPOTENTIAL = "Si.pz-vbc.UPF"
FFT_PHASES = ("fft1d", "pack", "exchange", "unpack", "fft2d")
BLAS_PHASES = ("nonlocal", "subspace", "diagonalise", "rotate")
TURNS = 5
# A box and a cutoff whose sphere both codes put on the same grid, for their FFTs: edge in bohr,
# cutoff in Hartree, points along an edge, bands, gamma point or complex waves.
FFTS = {
    "44^3, real": (12.0, 13.75, 44, 64, True),
    "44^3, complex": (12.0, 13.75, 44, 64, False),
    "64^3, real": (21.7, 9.6, 64, 64, True),
}
QE_INPUT = """&control
  calculation = 'scf', prefix = 'fft', disk_io = 'none'
  outdir = '{folder}', pseudo_dir = '{pseudo}'
/
&system
  ibrav = 1, celldm(1) = {edge}, nat = 8, ntyp = 1, nbnd = {bands}
  ecutwfc = {rydberg}, nr1 = {points}, nr2 = {points}, nr3 = {points}
/
&electrons
  electron_maxstep = 2, conv_thr = 1e-20, diagonalization = 'david'
/
ATOMIC_SPECIES
Si 28.0 {file}
ATOMIC_POSITIONS crystal
Si 0.00 0.00 0.00
Si 0.50 0.50 0.00
Si 0.50 0.00 0.50
Si 0.00 0.50 0.50
Si 0.25 0.25 0.25
Si 0.75 0.75 0.25
Si 0.75 0.25 0.75
Si 0.25 0.75 0.75
K_POINTS {kpoints}
"""


def step(kernel: Path, folder: Path, ranks: int, *arguments: str, repeats: int = 5) -> Result:
    """The result of one launch of some choices, one sample per round."""
    rounds = ["--repeats", str(repeats), "--block", "1", "--warmup", "0"]
    return launch(kernel, ranks, [*arguments, *rounds], folder / f"npar-{ranks}.json")


def seconds(result: Result, method: str) -> float:
    """A method's time per step (s)."""
    return entry(result, method)["metrics"]["time"]["value"]


def ffts(kernel: Path, folder: Path) -> Iterator[Judged]:
    """Our transforms over those of Quantum ESPRESSO, in seconds per grid point.

    Raises:
        NotMeasured: it is not installed.
    """
    if not shutil.which("pw.x"):
        raise NotMeasured("there is no pw.x on PATH (Debian: quantum-espresso)")
    for name, (edge, cutoff, points, bands, real) in FFTS.items():
        pairs = [
            (
                our_fft(kernel, folder, edge, cutoff, points, bands, real),
                their_fft(edge, cutoff, points, bands, real),
            )
            for _ in range(TURNS)
        ]
        yield judged(name, 1, "", pairs, Limit(1.0))


def our_fft(
    kernel: Path, folder: Path, edge: float, cutoff: float, points: int, bands: int, real: bool
) -> float:
    """Our time per transform and grid point (s), with the potential's product."""
    size = ["--box", str(edge), "--cutoff", str(cutoff), "--grid", f"{points},{points},{points}"]
    size += ["--bands", str(bands), "--atoms", "1", "--method", "npar-1"]
    size += ["--gamma"] if real else ["--kpoints", "1"]
    result = step(kernel, folder, 1, *size, repeats=3)
    phases = entry(result, "npar-1")["samples"]["phases"]
    taken = [phases[name] for name in FFT_PHASES]
    total = statistics.median([sum(times) for times in zip(*taken, strict=True)])
    fields = lambda n: (n + 1) // 2 if real else n  # noqa: E731
    inner = result["parameters"]["minimisations"]
    occupied = int(result["details"]["occupied"])
    transforms = 2 * (1 + inner) * fields(bands) + fields(occupied)
    return total / transforms / points**3


def their_fft(edge: float, cutoff: float, points: int, bands: int, real: bool) -> float:
    """Time of a wave-function FFT of pw.x per grid point (s), by its own clock `fftw`.

    Raises:
        BenchError: it does not run, or takes another grid.
    """
    pseudo = PSEUDOPOTENTIALS / PSEUDOPOTENTIAL
    if not pseudo.exists():
        raise BenchError(f"there is no {pseudo} (Debian: quantum-espresso-data)")
    with tempfile.TemporaryDirectory() as scratch:
        text = QE_INPUT.format(
            folder=scratch,
            pseudo=PSEUDOPOTENTIALS,
            file=PSEUDOPOTENTIAL,
            edge=edge,
            bands=bands,
            rydberg=2 * cutoff,
            points=points,
            kpoints="gamma" if real else "crystal\n1\n0.0 0.0 0.0 1.0",
        )
        done = subprocess.run(
            ["mpirun", "-n", "1", *placement(1), "pw.x"],
            input=text, capture_output=True, text=True, timeout=600, env=environment(),
        )  # fmt: skip
    clock = re.search(r"^ *fftw +:.*CPU +([\d.]+)s WALL \( *(\d+) calls\)", done.stdout, re.M)
    grid = re.search(r"FFT dimensions: \( *(\d+), *(\d+), *(\d+)\)", done.stdout)
    if done.returncode not in (0, 2) or not clock or not grid:
        raise BenchError(f"pw.x printed no time: {(done.stdout + done.stderr)[-400:]}")
    if {int(n) for n in grid.groups()} != {points}:
        raise BenchError(f"pw.x took the grid {grid[0]}, not {points}")
    return float(clock[1]) / int(clock[2]) / points**3


def speedups(kernel: Path, folder: Path) -> Iterator[Judged]:
    """One rank over two, the best NPAR of each, in seconds per step."""
    for case, repeats in (("mini1", 5), ("bench1", 2)):
        pairs = []
        for _ in range(TURNS):
            alone = ("--case", case, "--method", "npar-1")
            both = ("--case", case, "--method", "npar-1,npar-2")
            serial = step(kernel, folder, 1, *alone, repeats=repeats)
            parallel = step(kernel, folder, 2, *both, repeats=repeats)
            best = min(seconds(parallel, method) for method in ("npar-1", "npar-2"))
            pairs.append((seconds(serial, "npar-1"), best))
        yield judged(case, 2, "", pairs, Limit(1.8, AT_LEAST))


def complex_over_real(kernel: Path, folder: Path) -> Iterator[Judged]:
    """Complex waves over real ones, in seconds per step and k-point."""
    case = ("--case", "mini1", "--method", "npar-1")

    def took(*waves: str) -> float:
        return seconds(step(kernel, folder, 1, *case, *waves), "npar-1")

    pairs = [(took("--kpoints", "1"), took("--gamma")) for _ in range(TURNS)]
    yield judged("mini1", 1, "npar-1", pairs, Limit(2.2))


def overheads(kernel: Path, folder: Path) -> Iterator[Judged]:
    """Seconds of a step outside FFTs, with their exchanges, and BLAS, over the whole step; with the
    harness's own."""
    for case, ranks in (("mini1", 1), ("mini1", 2), ("bench1", 2)):
        method = f"npar-{ranks}"
        result = step(kernel, folder, ranks, "--case", case, "--method", method, repeats=2)
        metrics, harness = entry(result, method)["metrics"], result["harness"]
        share = 1 - sum(metrics[f"{name}_share"]["value"] for name in (*FFT_PHASES, *BLAS_PHASES))
        share += harness["overhead_s"] / harness["measure_s"]
        whole = metrics["time"]["value"]
        yield judged(case, ranks, method, [(share * whole, whole)], Limit(0.20, unit="share"))


def memory(kernel: Path, folder: Path) -> Iterator[Judged]:
    """Resident memory per rank over what the sizes predict, in bytes."""
    for case, ranks in (("bench1", 1), ("bench1", 2)):
        method = f"npar-{ranks}"
        result = step(kernel, folder, ranks, "--case", case, "--method", method, repeats=1)
        bytes_ = [result["details"][f"memory_{kind}"] for kind in ("resident", "predicted")]
        yield judged(case, ranks, method, [tuple(bytes_)], Limit(0.10, WITHIN), "B")


PARTS = (ffts, speedups, complex_over_real, overheads, memory)


def knobs(kernel: Path, folder: Path) -> Iterator[tuple[str, int, dict[str, Estimate]]]:
    """Each option under test over the base, round by round (findings V01 to V06): case, ranks, and
    option -> ratio; options that were not built are absent."""
    methods = ",".join(["npar-1", *tables.methods("npar")])
    for case, ranks, repeats in (("mini1", 2, 25), ("mini5", 2, 12), ("mini1", 4, 12)):
        result = step(kernel, folder, ranks, "--case", case, "--method", methods, repeats=repeats)
        yield case, ranks, estimates(result, "ratio_base")
