"""`workshop bench eigen`: parallel eigensolvers beside LAPACK's dsyevd on one core.

Ratios are taken round by round within one launch, each with its quartiles over the rounds.
"""

from collections.abc import Iterator
from pathlib import Path

from bisection.kernels.local import Estimate, launch
from bisection.kernels.results import Result
from workshop.peers import WITHIN, Judged, Limit, entry

ROUNDS = {2000: 7, 3888: 3}
SOLVERS = {2000: ("pdsyevd", "pdsyevr", "elpa1"), 3888: ("pdsyevd", "elpa1")}
# Of rows from 2000 on, by ranks.
PDSYEVD = {1: Limit(1.05), 2: Limit(0.75)}
COLD, GUESSED = Limit(20), Limit(7)
GUESS = ("--guess-error", "1e-3")
JACOBI_ROWS = 2000
CROSSOVER = (128, 256, 384, 512, 768, 1024)
LARGEST = 7194  # rows, of the 2004 report: minutes a solution on two cores


def solved(
    kernel: Path, folder: Path, ranks: int, size: int, methods: str, *more: str, rounds: int = 5
) -> Result:
    """The result of one launch of some methods, beside dsyevd, one sample per round."""
    sampling = ["--repeats", str(rounds), "--block", "1", "--warmup", "0"]
    sampling += ["--limit", "3000", "--progress-timeout", "1200"]  # 7194 rows take 6 minutes
    arguments = ["--size", str(size), "--method", methods, *more, *sampling]
    return launch(kernel, ranks, arguments, folder / f"eigen-{size}-{ranks}.json")


def over_dsyevd(result: Result, method: str, ranks: int, limit: Limit | None) -> Judged:
    """A method's time over that of dsyevd in the same launch."""
    metric = entry(result, method)["metrics"]["ratio_dsyevd"]
    ratio = Estimate(metric["value"], metric["low"], metric["high"])
    both = [entry(result, name)["metrics"]["time"]["value"] for name in (method, "dsyevd")]
    name = f"{result['details']['size']:.0f} rows"
    return Judged(name, ranks, method, ratio, limit, tuple(both))


def available(result: Result, methods: tuple[str, ...]) -> list[str]:
    """Those of the methods that were built."""
    return [method for method in methods if entry(result, method)["applicable"]]


def solvers(kernel: Path, folder: Path) -> Iterator[Judged]:
    """The parallel solvers over dsyevd, on one rank and on two."""
    for size, methods in SOLVERS.items():
        for ranks, limit in PDSYEVD.items():
            result = solved(kernel, folder, ranks, size, ",".join(methods), rounds=ROUNDS[size])
            for method in available(result, methods):
                of_method = limit if method == "pdsyevd" else None
                yield over_dsyevd(result, method, ranks, of_method)


def jacobi(kernel: Path, folder: Path) -> Iterator[Judged]:
    """Block Jacobi over dsyevd, cold and with a guess that is wrong by a thousandth; its memory."""
    for ranks, name, limit, more in (
        (1, "cold", COLD, ()),
        (1, "guess 1e-3", GUESSED, GUESS),
        (2, "cold", None, ()),
    ):
        result = solved(kernel, folder, ranks, JACOBI_ROWS, "jacobi", *more, rounds=2)
        line = over_dsyevd(result, "jacobi", ranks, limit)
        sweeps = entry(result, "jacobi")["metrics"]["sweeps"]["value"]
        line.method = f"jacobi {name}, {sweeps:.0f} sweeps"
        yield line
        if not more:
            yield over_matrices(result, "jacobi", ranks, Limit(0.05, WITHIN))


def over_matrices(result: Result, method: str, ranks: int, limit: Limit | None) -> Judged:
    """Returns the workspace of a method per rank, as queried, over 2 n^2/ranks numbers."""
    metrics, rows = entry(result, method)["metrics"], result["details"]["size"]
    taken = metrics["matrices"]["value"] + metrics["workspace_asked"]["value"]
    whole = 2 * rows**2 * 8 / ranks
    ratio = Estimate(taken / whole, taken / whole, taken / whole)
    name = f"{rows:.0f} rows"
    return Judged(name, ranks, f"{method}, memory", ratio, limit, (taken, whole), "B")


def memory(kernel: Path, folder: Path) -> Iterator[Judged]:
    """The report's largest matrix by PDSYEVD on two ranks, once: it fits, and what it takes."""
    result = solved(kernel, folder, 2, LARGEST, "pdsyevd", rounds=1)
    yield over_dsyevd(result, "pdsyevd", 2, PDSYEVD[2])
    yield over_matrices(result, "pdsyevd", 2, None)


def crossover(kernel: Path, folder: Path) -> Iterator[tuple[int, Estimate]]:
    """PDSYEVD on two ranks over dsyevd, by the rows of the matrix."""
    for size in CROSSOVER:
        result = solved(kernel, folder, 2, size, "pdsyevd", rounds=7)
        yield size, over_dsyevd(result, "pdsyevd", 2, None).ratio


def costs(kernel: Path, folder: Path) -> Result:
    """One launch of all solvers on two ranks, for what they send and take."""
    return solved(kernel, folder, 2, min(ROUNDS), "all", rounds=1)
