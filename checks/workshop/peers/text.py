"""The kernels beside other codes, as tables of text."""

import os
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from bisection.core.format import amount, duration, plural
from bisection.kernels import results, tables
from bisection.kernels.local import Estimate
from bisection.kernels.results import Result, disturbed
from bisection.report.text_tables import indented
from workshop.peers import (
    AT_LEAST,
    WITHIN,
    Judged,
    Limit,
    NotMeasured,
    eigen,
    entry,
    estimates,
    halo,
    harness,
    npar,
    quartiles,
    restart,
    store_scale,
)
from workshop.peers.lammps import ONE, THREADS, Build
from workshop.peers.md import MIDDLE, THREADED, Choice, Large, Row, over
from workshop.peers.meshes import Meshes
from workshop.peers.potentials import System
from workshop.peers.store_scale import Timed
from workshop.peers.suite_scale import Figure
from workshop.peers.transpose import GRIDS, PEERS, Runs, against_limits

PARTS: dict[Callable[..., Iterable[Judged]], str] = {
    npar.ffts: "Hamiltonian's transforms per grid point: ours, with the potential, over pw.x's",
    npar.speedups: "One rank over two, best NPAR of each",
    npar.complex_over_real: "Complex waves over real ones, per k-point",
    npar.overheads: "Share of a step outside FFTs and their exchanges, and BLAS; with the harness",
    npar.memory: "Memory per rank: resident over what the sizes predict",
    eigen.solvers: "Solvers over LAPACK's dsyevd on one core, round by round",
    eigen.jacobi: "Block Jacobi over dsyevd, and its memory over 2 n^2/ranks numbers",
    halo.exchanges: "Halo exchange over that of PETSc's DMDA: the same ghosts",
    restart.bandwidths: "Restart files over fio's: as many processes, bytes, calls and syncs",
    harness.calls: "A counted call of MPI over the bare one, by the clock of the steps",
    harness.simulated: f"A transpose on {harness.RANKS:,} simulated ranks, seconds of a core",
    eigen.memory: "The 2004 report's largest matrix, once; memory over 2 n^2/ranks numbers",
}
OVER = {
    "ratio_serial": "serial FFTW",
    "ratio_fftw-mpi": "FFTW-MPI",
    "ratio_copy": "memcpy, exchange alone",
}
INSTALL = {
    "LAMMPS with MPI": "apt install lammps",
    "LAMMPS with threads": "make bench WHAT=md ARGS=--install-peers",
}


def spread_text(estimate: Estimate | None, unit: str = "ratio") -> str:
    """A median with its quartiles."""
    if estimate is None:
        return "-"
    numbers = (estimate.value, estimate.low, estimate.high)
    value, low, high = (f"{n:.2f}" if unit == "ratio" else amount(n, unit) for n in numbers)
    return f"{value} [{low} {high}]"


def limit_text(limit: Limit) -> str:
    """A limit as text: at most 0.6."""
    if limit.bound == WITHIN or limit.unit == "share":
        return f"{limit.bound} {limit.number:.0%}"
    plain = limit.unit == "ratio"
    return f"{limit.bound} {f'{limit.number:g}' if plain else amount(limit.number, limit.unit)}"


def verdict(ratio: Estimate, limit: Limit) -> str:
    """Returns words on a limit: met or not, by how much, and whether the quartiles include it."""
    word = "met" if limit.met(ratio.value) else "MISSED"
    if limit.bound == WITHIN:
        return word
    apart = " (within the spread)" if ratio.low < limit.number < ratio.high else ""
    return f"{word} by {abs(ratio.value / limit.number - 1):.1%}{apart}"


def _judged(line: Judged) -> list[str]:
    if line.limit is None:
        return [spread_text(line.ratio), "-", ""]
    alone = line.ratio.low == line.ratio.high  # one launch has no spread
    value = (
        amount(line.ratio.value, line.limit.unit)
        if alone
        else spread_text(line.ratio, line.limit.unit)
    )
    return [value, limit_text(line.limit), verdict(line.ratio, line.limit)]


# ---- transpose ----


def transpose_table(grid: str, ranks: int, transforms: Result, exchanges: Result) -> Iterator[str]:
    """Lines on one grid and number of ranks: the ratio of each method to each peer."""
    ratios = {
        "/ serial FFTW": estimates(transforms, "ratio_serial"),
        "/ FFTW-MPI": estimates(transforms, "ratio_fftw-mpi"),
        "/ SpFFT": estimates(transforms, "ratio_spfft"),
        "exchange / memcpy": estimates(exchanges, "ratio_copy"),
    }
    ratios = {head: by_method for head, by_method in ratios.items() if by_method}
    names = {part["method"] for part in transforms["results"] if part["metrics"]}
    seconds = {n: entry(transforms, n)["metrics"]["time"]["value"] for n in names}
    peers = ", ".join(f"{name} {duration(seconds[name])}" for name in PEERS if name in seconds)
    quiet = 1 - disturbed(transforms)
    yield (
        f"{GRIDS[grid]} on {plural(ranks, 'rank')}: {peers}; "
        f"{quiet:.0%} of the samples not disturbed"
    )
    rows = [["method", "time", *ratios]]
    for method in ratios["/ serial FFTW"]:
        cells = [spread_text(by_method.get(method)) for by_method in ratios.values()]
        rows.append([method, duration(seconds[method]), *cells])
    yield from indented(rows)


def transpose_limits(runs: Runs) -> Iterator[str]:
    """Lines: the best method beside each limit of the project, and the harness's own time."""
    yield "limits of the project (best of the methods named)"
    rows = [["grid", "ranks", "over", "best method", "ratio", "limit", ""]]
    for name, line in against_limits(runs):
        rows.append([GRIDS[line.case], str(line.ranks), OVER[name], line.method, *_judged(line)])
    yield from indented(rows)
    yield "the harness's own time, outside steps and the kernel's input"
    for (grid, ranks), (transforms, _) in runs.items():
        spent = transforms["harness"]
        share = spent["overhead_s"] / spent["measure_s"]
        yield f"  {GRIDS[grid]}, {plural(ranks, 'rank')}: {share:.1%} of {spent['measure_s']:.1f} s"


# ---- npar ----


def judged_part(part: Callable[..., Iterable[Judged]], *arguments: object) -> Iterator[str]:
    """Measures a part of a benchmark; its lines."""
    yield PARTS[part]
    rows = []
    try:
        for line in part(*arguments):
            where = ", ".join(filter(None, [line.case, plural(line.ranks, "rank"), line.method]))
            sides = " over ".join(amount(side, line.unit) for side in line.sides)
            rows.append([where, sides, *_judged(line)])
    except NotMeasured as error:
        yield f"  not measured: {error}"
    if rows:
        yield from indented([["case", "medians", "ratio", "limit", ""], *rows])


def knob_table(sweeps: Iterable[tuple[str, int, dict[str, Estimate]]]) -> Iterator[str]:
    """Lines: the ratio of each option under test to the base."""
    yield "Each choice over the base, round by round, with quartiles (findings V01 to V06)"
    names, cores = tables.methods("npar"), len(os.sched_getaffinity(0))
    rows, shared = [["case", "ranks", *names]], []
    for case, ranks, ratios in sweeps:
        cells = (spread_text(ratios[name]) if name in ratios else "not built" for name in names)
        rows.append([case, str(ranks), *cells])
        shared += [f"{ranks} ranks share {plural(cores, 'core')}; "] if ranks > cores else []
    yield from indented(rows)
    yield f"  {''.join(shared)}on one host a choice shows in what is sent, more than in time"


# ---- eigen ----


def crossover_table(ratios: Iterable[tuple[int, Estimate]]) -> Iterator[str]:
    """Lines: PDSYEVD on two ranks over dsyevd by rows, and from which size on it pays."""
    yield "PDSYEVD on two ranks over dsyevd, by rows"
    ratio_of = dict(ratios)
    lines = ([str(rows), spread_text(ratio)] for rows, ratio in ratio_of.items())
    yield from indented([["rows", "ratio"], *lines])
    slower = [size for size, ratio in ratio_of.items() if ratio.value >= 1]
    pays = [size for size in ratio_of if size > max(slower, default=0)]
    upto = f"do not pay up to {max(ratio_of, default=0)} rows"
    yield f"  two ranks {f'pay from {pays[0]} rows on' if pays else upto}"


def eigen_costs(result: Result) -> Iterator[str]:
    """Lines: what each solver sends and takes in one launch."""
    where = f"{result['details']['size']:.0f} rows, {plural(result['layout']['ranks'], 'rank')}"
    yield f"What a solution costs, messages and bytes of all ranks, workspace per rank: {where}"
    names = {
        "ratio_dsyevd": "over dsyevd",
        "mpi_share": "in MPI",
        "messages": "messages",
        "bytes": "sent",
        "workspace_asked": "workspace asked",
        "workspace_used": "used",
        "gflops": "rate",
    }
    rows = [["method", *names.values()]]
    for part in result["results"]:
        if not part["applicable"] or part["baseline"]:
            continue
        metrics = results.metrics([part])
        cells = (metrics.get(name) for name in names)
        rows.append([part["method"], *(amount(m["value"], m["unit"]) if m else "-" for m in cells)])
    yield from indented(rows)


# ---- md ----


def lammps_text(builds: Sequence[Build]) -> Iterator[str]:
    """Lines: which LAMMPS are installed, and how to install what is missing."""
    for build in builds:
        named: tuple[str, ...] = ("OPT", "OPENMP")
        has = [name for name in named if name in build.packages] or ["plain styles"]
        yield f"{build.name}: LAMMPS {build.version}, with {' and '.join(has)}"
    installed = {
        "LAMMPS with MPI": any(build.styles(ONE) and not build.variables for build in builds),
        "LAMMPS with threads": any(build.styles(THREADS) for build in builds),
    }
    yield from (
        f"missing: {name}: {INSTALL[name]}" for name, is_in in installed.items() if not is_in
    )


def meshes_text(meshes: Meshes) -> Iterator[str]:
    """Lines: the errors of forces of the kernel's mesh and of LAMMPS' that are as accurate."""
    yield f"  rms error of forces: ours {meshes.ours:.3g} eV/A"
    yield from (f"    LAMMPS {_mesh(mesh.lines)}: {mesh.error:.3g} eV/A" for mesh in meshes.theirs)


def preparation(row: Row) -> Iterator[str]:
    """Lines: the rates by which skins and LAMMPS were chosen."""
    head = f"  {row.layout!s:18}  "
    yield f"{head}ours, by skin: {_by_skin(row.skins)}"
    yield from (f"{head}{_title(c)} is left out: {error}" for c, error in row.unfit.items())
    if row.choice:
        yield f"{head}{_title(row.choice)}, by skin: {_by_skin(row.their_skins)}"
    slower = {choice: rate for choice, rate in row.rates.items() if choice != row.choice}
    if slower:
        rates = ", ".join(f"{_title(choice)} {rate / 1e6:.2f}" for choice, rate in slower.items())
        yield f"{'':22}slower at {MIDDLE} A: {rates}"


def _by_skin(rates: dict[float, float]) -> str:
    return ", ".join(f"{skin} A {rate / 1e6:.2f}" for skin, rate in rates.items())


def _title(choice: Choice) -> str:
    build, style, mesh = choice
    return " ".join(filter(None, [build.name, style, _mesh(mesh)]))


def _mesh(lines: Sequence[str]) -> str:
    return lines[-1].partition(" ")[2] if lines else ""  # what kspace_modify names


def md_table(system: System, rows: Sequence[Row]) -> Iterator[str]:
    """Lines: one per layout and one of the threads; then the memory."""
    yield "  Matom-steps/s, medians of the turns; ratios with quartiles"
    cells = [["", "ours", "skin", "LAMMPS", "by", "skin", "ratio", "at least", "", "not disturbed"]]
    for row in rows:
        line = [str(row.layout), _rate(row.ours), f"{row.skin}"]
        if row.theirs and row.choice:
            line += [_rate(row.theirs), _title(row.choice), f"{row.their_skin}"]
            line += [spread_text(row.ratio()), *_target(row.ratio(), system.target)]
            if row.layout.threads > 1:
                line[-2:] = ["", ""]  # threads have a target of their own, below
        else:
            line += ["missing", "", "", "", "", ""]
        cells.append([*line, _quiet(row)])
    runs = {row.layout: row.ours for row in rows}
    if ONE in runs and THREADS in runs:
        ratio = over(runs[THREADS], runs[ONE], THREADS.threads)
        line = [f"{THREADS} / twice {ONE}", "", "", "", "", "", spread_text(ratio)]
        cells.append([*line, *_target(ratio, THREADED), ""])
    yield from indented(cells)
    yield "  memory, bytes per atom: " + "; ".join(
        f"{row.layout} {row.ours[-1].memory:.0f}"
        + (f", LAMMPS {row.theirs[-1].memory:.0f}" if row.theirs else "")
        + (f", {limit_text(system.memory)}: {_met(row, system.memory)}" if system.memory else "")
        for row in rows
    )


def _met(row: Row, limit: Limit) -> str:
    """The verdict on the memory of a layout, over all turns."""
    return verdict(quartiles([run.memory for run in row.ours]), limit)


def without_terms(ratio: Estimate, memory: float) -> str:
    """What the method `recompute` takes, as a line."""
    time = spread_text(ratio)
    return f"  without kept terms of pairs: {time} of the time, {memory:.0f} bytes per atom"


def _rate(runs: Sequence[Any]) -> str:
    return f"{statistics.median(run.rate for run in runs) / 1e6:.2f}"


def _target(ratio: Estimate, target: float) -> tuple[str, str]:
    return f"{target}", verdict(ratio, Limit(target, AT_LEAST))


def _quiet(row: Row) -> str:
    """How quiet the machine was: the fraction of our samples that were not disturbed, and the least
    fraction of its cores that LAMMPS reports."""
    share = f"{1 - disturbed(*(run.result for run in row.ours if run.result)):.0%} of the samples"
    if row.theirs:
        share += f", LAMMPS had {min(run.used for run in row.theirs):.0%} of its cores"
    return share


def large_test(test: Large) -> str:
    """One of the paper's large tests, as a line."""
    if test.error:
        return f"  {test.test}: not measured: {test.error}"
    return (
        f"  {test.test}: {test.atoms:,.0f} atoms, {test.seconds:.3f} s per step, "
        f"{test.atoms / test.seconds / 1e6:.2f} Matom-steps/s; peak memory of the process "
        f"{test.peak / 1e6:.0f} MB, {test.bytes_per_atom:.0f} bytes per atom at the end"
    )


# ---- store ----


def filled_store(size: Timed) -> str:
    """Returns how long it took to fill a store, as a line."""
    return (
        f"{size.nights} nights x {size.metrics} metrics: stored in {size.stored_s:.1f} s, "
        f"{size.size_mib:.1f} MiB"
    )


def store_table(sizes: Sequence[Timed]) -> Iterator[str]:
    """Lines: what each command took on stores of all sizes, and how that grows."""
    rows = [["values", "command", "median s", "least to most", "limit", "peak MiB", "limit"]]
    for size in sizes:
        for command, seconds in size.seconds.items():
            most_s, most_mib = store_scale.LIMITS[command]
            row = [f"{size.nights * size.metrics:,}", command, f"{statistics.median(seconds):.2f}"]
            row += [f"{min(seconds):.2f} to {max(seconds):.2f}", str(most_s)]
            rows.append([*row, f"{size.peak_mib[command]:.0f}", str(most_mib)])
    yield from indented(rows)
    few, many = (f"{size.nights * size.metrics:,}" for size in sizes[-2:])
    for command in store_scale.LIMITS:
        power = store_scale.power(sizes[-2], sizes[-1], command)
        yield f"{command}: from {few} to {many} values as their number to the power {power:.2f}"


# ---- suite ----


def suite_figure(name: str, figure: Figure, unit: str, most: float | None) -> str:
    """A figure of the suite on many nodes beside its target, as a line."""
    value = figure.value
    parts = ["not measured: no Chromium" if value is None else f"{value:.3g} {unit}"]
    if figure.peak_mib is not None:
        parts.append(f"{figure.processor_s:.1f} s of processors, {figure.peak_mib:.0f} MiB")
    if most is not None:
        met = "" if value is None else ": MISSED" if value > most else ": met"
        parts.append(f"at most {most} {unit}{met}")
    return f"  {name}: {'; '.join(parts)}"
