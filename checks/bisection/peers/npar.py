"""`bisection bench npar`: the NPAR kernel beside Quantum ESPRESSO and its own limits.

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
from bisection.kernels.local import BenchError, Ratio, entry, environment, launch, quartiles, ratios
from bisection.kernels.results import Result
from bisection.report.tables import columns

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
# What a limit is on: name -> at most (or, for a speed-up, at least).
LIMITS = {"fft": 1.0, "speedup": 1.8, "complex": 2.2, "overhead": 0.20, "memory": 0.10}
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
    """The result of one launch of some choices, one sample a round."""
    rounds = ["--repeats", str(repeats), "--block", "1", "--warmup", "0"]
    return launch(kernel, ranks, [*arguments, *rounds], folder / f"npar-{ranks}.json")


def seconds(result: Result, method: str) -> float:
    """A method's time per step (s)."""
    return entry(result, method)["metrics"]["time"]["value"]


def judged(what: str, ratio: Ratio | str, limit: str, good: bool) -> str:
    """A line: what was measured, the ratio, its limit, whether the limit is met."""
    return f"  {what:46} {ratio!s:22} {limit:18} {'met' if good else 'MISSED'}"


def ffts(kernel: Path, folder: Path) -> Iterator[str]:
    """Lines: our transforms over those of Quantum ESPRESSO."""
    yield "Hamiltonian's transforms, one rank, ns a point: ours, with the potential, over pw.x's"
    if not shutil.which("pw.x"):
        yield "  not measured: there is no pw.x on PATH (Debian: quantum-espresso)"
        return
    for name, (edge, cutoff, points, bands, real) in FFTS.items():
        ours, theirs = [], []
        for _ in range(TURNS):
            ours.append(our_fft(kernel, folder, edge, cutoff, points, bands, real))
            theirs.append(their_fft(edge, cutoff, points, bands, real))
        ratio = quartiles([a / b for a, b in zip(ours, theirs, strict=True)])
        what = f"{name}: {statistics.median(ours):.2f} over {statistics.median(theirs):.2f}"
        limit = LIMITS["fft"]
        yield judged(what, ratio, f"at most {limit}", ratio.value <= limit)


def our_fft(
    kernel: Path, folder: Path, edge: float, cutoff: float, points: int, bands: int, real: bool
) -> float:
    """Our time per transform and grid point (ns), with the potential's product."""
    size = ["--box", str(edge), "--cutoff", str(cutoff), "--grid", f"{points},{points},{points}"]
    size += ["--bands", str(bands), "--atoms", "1", "--method", "npar-1"]
    size += ["--gamma"] if real else ["--kpoints", "1"]
    result = step(kernel, folder, 1, *size, repeats=3)
    found = entry(result, "npar-1")
    taken = [found["samples"]["phases"][name] for name in FFT_PHASES]
    total = statistics.median([sum(times) for times in zip(*taken, strict=True)])
    fields = lambda n: (n + 1) // 2 if real else n  # noqa: E731
    inner = result["parameters"]["minimisations"]
    occupied = int(result["details"]["occupied"])
    transforms = 2 * (1 + inner) * fields(bands) + fields(occupied)
    return total / transforms / points**3 * 1e9


def their_fft(edge: float, cutoff: float, points: int, bands: int, real: bool) -> float:
    """pw.x's wave-function FFTs, of its own clock `fftw`."""
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
            ["mpirun", "-n", "1", "--bind-to", "core", "pw.x"],
            input=text, capture_output=True, text=True, timeout=600, env=environment(),
        )  # fmt: skip
    clock = re.search(r"^ *fftw +:.*CPU +([\d.]+)s WALL \( *(\d+) calls\)", done.stdout, re.M)
    grid = re.search(r"FFT dimensions: \( *(\d+), *(\d+), *(\d+)\)", done.stdout)
    if done.returncode not in (0, 2) or not clock or not grid:
        raise BenchError(f"pw.x said no time: {(done.stdout + done.stderr)[-400:]}")
    if {int(n) for n in grid.groups()} != {points}:
        raise BenchError(f"pw.x took the grid {grid[0]}, not {points}")
    return float(clock[1]) / int(clock[2]) / points**3 * 1e9


def speedups(kernel: Path, folder: Path) -> Iterator[str]:
    """Lines: one rank over two."""
    yield "One rank over two, best NPAR of each"
    for case, turns, repeats in (("mini1", TURNS, 5), ("bench1", TURNS, 2)):
        found = []
        for _ in range(turns):
            one = seconds(
                step(kernel, folder, 1, "--case", case, "--method", "npar-1", repeats=repeats),
                "npar-1",
            )
            pair = ("--case", case, "--method", "npar-1,npar-2")
            two = step(kernel, folder, 2, *pair, repeats=repeats)
            found.append(one / min(seconds(two, m) for m in ("npar-1", "npar-2")))
        ratio, limit = quartiles(found), LIMITS["speedup"]
        yield judged(case, ratio, f"at least {limit}", ratio.value >= limit)


def complex_over_real(kernel: Path, folder: Path) -> Iterator[str]:
    """Lines: complex waves over real ones."""
    yield "Complex waves over real ones, one rank, per k-point"
    found = []
    for _ in range(TURNS):
        times = [
            seconds(
                step(kernel, folder, 1, "--case", "mini1", "--method", "npar-1", *more), "npar-1"
            )
            for more in (("--kpoints", "1"), ("--gamma",))
        ]
        found.append(times[0] / times[1])
    ratio, limit = quartiles(found), LIMITS["complex"]
    yield judged("mini1", ratio, f"at most {limit}", ratio.value <= limit)


def overheads(kernel: Path, folder: Path) -> Iterator[str]:
    """Lines: the fraction of a step outside libraries and their exchanges."""
    yield "Share of a step outside FFTs, with their exchanges, and BLAS; and the harness's own"
    limit = LIMITS["overhead"]
    for case, ranks in (("mini1", 1), ("mini1", 2), ("bench1", 2)):
        method = f"npar-{ranks}"
        result = step(kernel, folder, ranks, "--case", case, "--method", method, repeats=2)
        metrics = entry(result, method)["metrics"]
        share = 1 - sum(metrics[f"{name}_share"]["value"] for name in (*FFT_PHASES, *BLAS_PHASES))
        harness = result["harness"]
        share += harness["overhead_s"] / harness["measure_s"]
        what = f"{case}, {ranks} rank{'s' * (ranks > 1)}, {method}"
        yield judged(what, f"{share:5.1%}", f"under {limit:.0%}", share < limit)


def memory(kernel: Path, folder: Path) -> Iterator[str]:
    """Lines: resident memory over what the sizes predict."""
    yield "Memory of a rank: resident over what the sizes say"
    limit = LIMITS["memory"]
    for case, ranks in (("bench1", 1), ("bench1", 2)):
        method = f"npar-{ranks}"
        result = step(kernel, folder, ranks, "--case", case, "--method", method, repeats=1)
        details = result["details"]
        ratio = details["memory_resident"] / details["memory_predicted"]
        yield judged(
            f"{case}, {ranks} rank{'s' * (ranks > 1)}: {details['memory_resident'] / 1e6:.0f} MB",
            f"{ratio:5.2f}", f"within {limit:.0%}", abs(ratio - 1) <= limit,
        )  # fmt: skip


def knobs(kernel: Path, folder: Path) -> Iterator[str]:
    """Lines: the ratio of each option under test to the base."""
    yield "Each choice over the base, round by round, with quartiles (findings V01 to V06)"
    names = tables.methods("npar")
    rows = [["case", "ranks", *names]]
    for case, ranks, repeats in (("mini1", 2, 25), ("mini5", 2, 12), ("mini1", 4, 12)):
        methods = ",".join(["npar-1", *names])
        result = step(kernel, folder, ranks, "--case", case, "--method", methods, repeats=repeats)
        found = ratios(result, "ratio_base")
        rows.append([case, str(ranks), *(str(found.get(knob, "not built")) for knob in names)])
    yield from ("  " + line for line in columns(rows))
    yield "  4 ranks share 2 cores; on one host a choice shows in what is sent, more than in time"


PARTS = (ffts, speedups, complex_over_real, overheads, memory, knobs)
