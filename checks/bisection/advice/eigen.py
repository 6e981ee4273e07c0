"""From which number of rows and ranks on a parallel eigensolver pays."""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bisection.advice.sources import LITERATURE, Launched, Trial, best, circumstances
from bisection.kernels import results
from bisection.kernels.local import Estimate
from bisection.kernels.results import Result

# The direct solvers of libraries; jacobi pays by its memory, and by guesses.
SOLVERS = ("pdsyevd", "pdsyevr", "elpa1")
PLAIN = "fock-"  # cases of a diagonalisation alone


@dataclass
class Solved(Launched):
    """One launch: parallel solvers beside LAPACK on one core."""

    rows: int  # of the matrix
    ratios: dict[str, Estimate]  # solver -> its time over that of dsyevd, with quartiles
    seconds: dict[str, float]  # solver -> time of a solution (s)

    @property
    def best(self) -> str:
        """The solver with the smallest ratio."""
        return best({name: ratio.value for name, ratio in self.ratios.items()})

    @property
    def pays(self) -> bool:
        """True if the best solver is faster than one core, the upper quartile too."""
        return self.ratios[self.best].high < 1


def trials(ranks: int) -> Iterator[Trial]:
    """One launch of the direct solvers."""
    yield ranks, 1, ",".join(SOLVERS)


def solved(result: Result) -> Solved | None:
    """The Solved of a result; None if it is of other work, or has no solver beside dsyevd."""
    ratios, seconds = {}, {}
    for entry in result["results"]:
        metric = entry["metrics"].get("ratio_dsyevd")
        wrong = not entry["applicable"] or results.failed_checks(entry)
        if entry["method"] not in SOLVERS or wrong or not metric or metric["value"] is None:
            continue
        ratios[entry["method"]] = Estimate(metric["value"], metric["low"], metric["high"])
        seconds[entry["method"]] = entry["metrics"]["time"]["value"]
    plain = result["case"].startswith((PLAIN, "pdsyevd-")) and result["details"]["kpoints"] == 1
    if not ratios or not plain:
        return None
    rows = int(result["details"]["size"])
    return Solved(**circumstances(result), rows=rows, ratios=ratios, seconds=seconds)


def pays_from(launches: Sequence[Solved]) -> int | None:
    """The fewest rows from which on the best solver beats one core; None if it never does.

    Args:
        launches: of one number of ranks at one place.
    """
    from_here = None
    for launch in sorted(launches, key=lambda launch: launch.rows):
        from_here = (from_here or launch.rows) if launch.pays else None
    return from_here


def upgrade_ratios() -> list[tuple[str, int, float, float]]:
    """PDSYEVD in section 5.2 of HPCxTR0417 (2004): (matrix, processors, speed-up of the new system
    over the old at first, and after the software upgrade SP7)."""
    with open(LITERATURE / "hpcx_ratios.csv", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["code"] == "PDSYEVD"]
    names = "phase2_over_phase1", "phase2_sp7_over_phase1"
    return [
        (row["data"], int(row["processors"]), *(float(row[name]) for name in names)) for row in rows
    ]
