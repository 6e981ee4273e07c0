"""Judges the network of a run by its launches of the kernel `pairs`."""

import contextlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from bisection.analysis.blame import BadComponent, Blame, judge
from bisection.analysis.pairs import KERNEL, Matrix, read
from bisection.core import paths
from bisection.core.reasons import Code, Reason
from bisection.core.topology import TopologyError, parse
from bisection.kernels.results import Result, ResultError, load
from bisection.runs.model import RunVerdict, TestResult

Launch = tuple[str | int, ...]


def launches(run: RunVerdict, kernel: str = KERNEL) -> Iterator[TestResult]:
    """The launches of a kernel in a run that ended well and whose files were kept."""
    for case in run.cases:
        ran = case.fixture and case.record.kernel == kernel and case not in run.bad
        if ran and case.files.endswith(".*") and file_of(case, "json").is_file():
            yield case


def file_of(case: TestResult, suffix: str) -> Path:
    """A kept file of a launch."""
    return Path(paths.ROOT, case.files[:-1] + suffix)


def results_of(run: RunVerdict, kernel: str) -> Iterator[tuple[TestResult, Result]]:
    """The launches of a kernel with their results, as far as these can be read."""
    for case in launches(run, kernel):
        with contextlib.suppress(ResultError):
            yield case, load(file_of(case, "json"), kernel)


def place_of(case: TestResult) -> str:
    """System, partition and environment of a launch, with its run where it was repeated."""
    return case.place + (f" run {case.run}" if case.run else "")


def matrix_of(case: TestResult) -> Matrix:
    """Returns what a launch measured, with the switches that Slurm knew then.

    Raises:
        ResultError: a file of it is missing, truncated or of something else.
    """
    matrix = read(file_of(case, "json"), file_of(case, "pairs"))
    try:
        return matrix.placed(parse(file_of(case, "topology").read_text()))
    except (OSError, TopologyError):  # the scheduler knows no switches
        return matrix


def blames(run: RunVerdict, earlier: Iterable[RunVerdict] = ()) -> tuple[list[Blame], list[Reason]]:
    """Judges all that a run measured between nodes.

    Args:
        run: the run.
        earlier: runs before it, oldest first; what they measured by the same launches is the past.

    Returns:
        A judgement per launch; why matrices could not be read.
    """
    judged, faults = [], []
    now = list(launches(run))
    past: dict[Launch, list[Matrix]] = defaultdict(list)
    for case in (case for before in earlier if now for case in launches(before)):
        try:
            past[case.launch[:-1]].append(matrix_of(case))
        except ResultError:
            continue  # its own run said so
    for case in now:
        try:
            blame = judge(matrix_of(case), past[case.launch[:-1]])
        except ResultError as error:
            faults.append(error.reason)
            continue
        blame.place = place_of(case)
        judged.append(blame)
    return judged, faults


def reason(component: BadComponent, drift: bool = False) -> Reason:
    """A bad component as a reason; `drift`: it is worse than it was, and named for that alone."""
    return Code.BAD_COMPONENT(**asdict(component), drift=drift or None)


def suspected(component: BadComponent) -> Reason:
    """A component that looks slow and was not measured again."""
    return Code.COMPONENT_SUSPECTED(component=reason(component))
