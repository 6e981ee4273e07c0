"""What a run measured of its network, read from its results folder and judged."""

import contextlib
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace

from bisection.analysis.nodes import recent
from bisection.core import paths
from bisection.core.reasons.base import Text
from bisection.core.topology import TopologyError, parse
from bisection.kernels.layouts import BUFFERS, ON_DEVICES
from bisection.kernels.results import ResultError, load
from bisection.runs.folder import kept_file, kept_launches, kept_verdicts
from bisection.runs.run_verdict import RunVerdict, TestResult
from bisection.store.database import Store
from bisection.store.marks import results_of
from bisection.store.sample_file import StoreError
from bisection.store.selection import SelectionError, select
from interconnect import blame, impact, pairs
from interconnect.blame import Blame
from interconnect.impact import Impact
from interconnect.pairs import Matrix

Launch = tuple[str | int, ...]


def of_run(
    run: RunVerdict, store: Store | None
) -> tuple[tuple[Blame, ...], tuple[Text, ...], tuple[Impact, ...]]:
    """A judgement per launch of pairs, beside earlier runs; why matrices could not be read; the
    impacts. `store`: None if none is stored."""
    earlier: list[RunVerdict] = []
    if store and any(kept_launches(run, pairs.KERNEL)):
        with contextlib.suppress(StoreError, SelectionError):  # a trouble of the run already
            (session,) = select(run.session, store)
            uuids = [s.uuid for s in recent(store, session) if s.uuid != session.uuid]
            kept = kept_verdicts(results_of(paths.home(), uuids))
            earlier = [kept[uuid] for uuid in uuids if uuid in kept]
    impacts: list[Impact] = []
    for case in kept_launches(run, impact.KERNEL):
        with contextlib.suppress(ResultError):
            judged = impact.judge(load(kept_file(case, "json"), impact.KERNEL))
            impacts += [replace(each, place=each.place + _memory(case)) for each in judged]
    return *blames(run, earlier), tuple(impacts)


def _memory(case: TestResult) -> str:
    """The memory that the messages of a launch on devices lie in, behind its place."""
    memory = dict(zip(ON_DEVICES, BUFFERS, strict=True)).get(case.layout)
    return f", {memory} memory" if memory else ""


def matrix_of(case: TestResult, most: int = -1) -> Matrix:
    """The matrix of a launch, or so many of its records, with the switches that Slurm knew then;
    ResultError if a file of it is missing, truncated or of something else."""
    matrix = pairs.read(kept_file(case, "json"), most)
    try:
        return matrix.placed(parse(kept_file(case, "topology").read_text()))
    except (OSError, TopologyError):  # the scheduler knows no switches
        return matrix


def blames(
    run: RunVerdict, earlier: Iterable[RunVerdict] = ()
) -> tuple[tuple[Blame, ...], tuple[Text, ...]]:
    """Judges all that a run measured between nodes: a judgement per launch, and why matrices could
    not be read. `earlier`: runs before it, oldest first, whose same launches are the past."""
    judged: list[Blame] = []
    faults: list[Text] = []
    past: dict[Launch, list[Matrix]] = defaultdict(list)
    for case in (case for before in earlier for case in kept_launches(before, pairs.KERNEL)):
        with contextlib.suppress(ResultError):  # a trouble of its own run
            past[case.launch[:-1]].append(matrix_of(case, blame.PAST))
    for case in kept_launches(run, pairs.KERNEL):
        try:
            judgement = blame.judge(matrix_of(case), past[case.launch[:-1]])
        except ResultError as error:
            faults.append(Text(str(error)))
            continue
        judgement.place = case.place + (f" run {case.run}" if case.run else "") + _memory(case)
        judged.append(judgement)
    return tuple(judged), tuple(faults)
