"""Prints the findings of the four papers beside what our kernels show on the papers' machines.

The machines are simulated: by the sessions of checks/scaling.py, or here with --simulate, which
goes on where it was ended: a launch with a result of the same kernels is not repeated. With
--change, a machine has other values, and the command prints which verdicts that turns. --explain
tests the changes of changes.csv: each must make a false finding true.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bisection.core import paths
from bisection.core.format import plural
from bisection.core.verdicts import BisectionError, Exit
from bisection.kernels import build_folder
from bisection.kernels.results import Result
from papers import observables
from papers.observables import Finding, Lookup
from workshop.papers import simulation
from workshop.papers.judging import Shown, exit_code, judged
from workshop.papers.simulation import Cost
from workshop.papers.text import costs, text, turned

CODES = {
    Exit.FAILED: "a finding is neither as its paper has it, nor explained",
    Exit.NOT_MEASURED: "launches are missing",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", metavar="ID", nargs="*", help="findings, such as G01; default: all")
    add_folders(parser)
    parser.add_argument(
        "--verbose", action="store_true", help="a row for each number, sign and order, too"
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--simulate", action="store_true", help="build the kernels, and launch what is needed, here"
    )
    how.add_argument(
        "--change",
        metavar="TEXT",
        action="append",
        help="the same on changed machines: 'hector-xt4 gap=0'; without a machine, on all",
    )
    how.add_argument(
        "--explain", action="store_true", help="the same with the changes of changes.csv"
    )
    how.add_argument(
        "--page", metavar="FILE", type=Path, help="write a page with the papers' figures, too"
    )
    parser.add_argument(
        "--keep",
        metavar="DIR",
        type=_folder,
        help="keep the results of --simulate or --change there",
    )


def _folder(name: str) -> Path:
    """A folder that SimGrid's smpirun can name to a kernel: it splits names at spaces."""
    if " " in name:
        raise argparse.ArgumentTypeError(f"'{name}': a folder without spaces is needed")
    return Path(name)


def add_folders(parser: argparse.ArgumentParser) -> None:
    """Declares where results are read from."""
    parser.add_argument(
        "--from",
        dest="folders",
        metavar="DIR",
        action="append",
        help="folders with result files, searched with all below; default: all results kept",
    )


def results_of(options: argparse.Namespace) -> list[Result]:
    """The simulated launches below the folders that the options name."""
    folders = [Path(name) for name in options.folders or []]
    for folder in folders:
        if not folder.is_dir():
            raise BisectionError(f"--from {folder}: no such folder")
    return simulation.read(folders or [paths.home() / "results", kept()])


def launches(options: argparse.Namespace) -> Lookup:
    """Metrics of the simulated launches below the folders that the options name."""
    return observables.lookup_in(results_of(options))


def kept() -> Path:
    """Returns where --simulate leaves results, beside those of sessions."""
    return paths.home() / "simulated"


def act(options: argparse.Namespace) -> Exit:
    listed = observables.findings()
    known = [finding.id for finding in listed]
    for name in options.ids:
        if name not in known:
            raise BisectionError(f"{name}: no finding; known: {known[0]} to {known[-1]}")
    chosen = [finding for finding in listed if finding.id in (options.ids or known)]
    if options.explain:
        return explain(chosen, results_of(options))
    if options.change:
        return compare(chosen, options)
    if options.simulate:
        folder = options.keep or kept()
        print("\n".join(costs(simulated(chosen, {}, folder))))
        lookup = observables.lookup_in(simulation.read([folder]))
    else:
        lookup = launches(options)
    rows = [judged(finding, lookup) for finding in chosen]
    print("\n".join(text(rows, options.verbose)))
    if options.page:
        from workshop.papers import published  # matplotlib, which takes a second

        _write_page(options.page, published.page(lookup, rows))
    return exit_code(rows)


def _write_page(file: Path, page: str) -> None:
    try:
        paths.write_whole(file, page)
    except OSError as error:
        raise BisectionError(f"{file}: {error.strerror}") from None


def simulated(chosen: Sequence[Finding], changed: dict[str, str], folder: Path) -> list[Cost]:
    """Launches what findings need; of changed machines, if there are any, alone. On the machines as
    they are, a launch has the methods of all findings: its result replaces the one that is kept."""
    every = observables.needed(chosen if changed else observables.findings())
    wanted = {
        launch: every[launch]
        for launch in observables.needed(chosen)
        if not changed or launch[0] in changed
    }
    kernels = simulation.build()
    for kernel, reason in build_folder.left_out(kernels).items():
        skipped = [launch for launch in wanted if launch[1] == kernel]
        wanted = {launch: wanted[launch] for launch in wanted if launch not in skipped}
        if skipped:
            print(f"{plural(len(skipped), 'launch', 'launches')} skipped, {reason}")
    plans = simulation.plans(kernels, wanted, changed, folder)
    due = [plan for plan in plans if not simulation.is_kept(plan)]
    if len(due) < len(plans):
        print(f"{len(plans) - len(due)} of {len(plans)} launches have results of these kernels")
    return simulation.simulate(due, print)


def changed_lookup(
    chosen: Sequence[Finding], changed: dict[str, str], folder: Path, before: Sequence[Result]
) -> Lookup:
    """Metrics with changed machines; those of the others are as they were."""
    simulated(chosen, changed, folder)
    others = [result for result in before if result["simulated"]["machine"] not in changed]
    return observables.lookup_in([*others, *simulation.read([folder], changed=True)])


def compare(chosen: Sequence[Finding], options: argparse.Namespace) -> Exit:
    """Prints which findings a change turns; exit code FAILED if it turns any."""
    changed, before = simulation.changes(options.change), results_of(options)
    lookup = observables.lookup_in(before)
    chosen = [
        row for row in chosen if {place[0] for place in observables.needed([row])} & {*changed}
    ]
    with tempfile.TemporaryDirectory() as name:
        after = changed_lookup(chosen, changed, options.keep or Path(name), before)
    pairs = [(judged(row, lookup), judged(row, after)) for row in chosen]
    print("\n".join(turned(pairs, options.verbose)))
    if any(row.verdict == Shown.NOT_RUN for pair in pairs for row in pair):
        return Exit.NOT_MEASURED
    return Exit.FAILED if any(a.verdict != b.verdict for a, b in pairs) else Exit.OK


def explain(chosen: Sequence[Finding], before: Sequence[Result]) -> Exit:
    """Tests the change that each finding names; exit code FAILED if one does not make it true."""
    code = Exit.OK
    for finding in (row for row in chosen if row.change):
        changed = simulation.changes([finding.change])
        with tempfile.TemporaryDirectory() as name:
            lookup = changed_lookup([finding], changed, Path(name), before)
        row = judged(finding, lookup)
        code = code if row.verdict == Shown.TRUE else Exit.FAILED
        parts = "; ".join(
            f"{part.observable.expression} = {part.value:.3g} ({part.observable.published})"
            for part in row.parts
            if part.value is not None
        )
        print(f"{finding.id}: with {finding.change}: {row.verdict}: {parts}")
    return code
