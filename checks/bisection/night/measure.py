"""Runs of ReFrame: the first of a night, those of what was disturbed, and the retest."""

import contextlib
import functools
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bisection import schedulers
from bisection.analysis.retest_plan import Plan
from bisection.core.grouping import grouped
from bisection.core.reasons.base import Text
from bisection.core.verdicts import BisectionError, Exit
from bisection.judge import decision, rule
from bisection.night.prepare import tell
from bisection.runs import command, folder, reframe_report, waiting
from bisection.runs.run_verdict import Request, RunVerdict, TestResult


def measure(request: Request, results: Path, limit: float | None = None) -> RunVerdict:
    """Runs ReFrame with results in a folder; returns the run, without an identifier if ReFrame
    wrote no report. After `limit` (s) it is stopped.

    Raises:
        BisectionError: ReFrame does not take the command line, or it leaves no check.
        KeyboardInterrupt: a run without a limit was interrupted before its first launch.
    """
    began, scheduler = time.monotonic(), schedulers.of(request.scheduler)
    try:
        code, log = command.watch(request, results, tell, limit)
    except KeyboardInterrupt:  # there is nothing to keep
        if request.job_name:
            waiting.cancel(scheduler, request.job_name)
        folder.discard(results)
        raise
    left = waiting.cancel(scheduler, request.job_name) if request.job_name else None
    if error := reframe_report.usage_error(log):
        folder.discard(results)
        raise BisectionError(error)
    report = None
    with contextlib.suppress(FileNotFoundError, ValueError):  # none, or half a report
        report = reframe_report.load_report(results / "report.json")
    # Of a campaign, what did not run comes with the next batch.
    listing = None if request.spots else functools.partial(command.listing, request.command)
    run = reframe_report.read(report, log, listing, left, request.scheduler)
    run = replace(run, request=request, seconds=time.monotonic() - began)
    run = folder.named(run, results)
    if not run.cases and run.troubles == (reframe_report.NONE_SELECTED,):
        folder.discard(results)
        raise BisectionError(f"no check is left by {shlex.join(request.arguments)}")
    if code != 0 and decision.of_run(rule(run)) == Exit.OK:
        log_file = str(results / "reframe.log")
        run = run.adding(troubles=[Text(f"ReFrame exited with {code}, see {log_file}")])
    return run


def request_of_retest(
    agenda: Plan, verdict: RunVerdict, others: Mapping[str, tuple[str, ...]] | None = None
) -> Request:
    """Returns what ReFrame is asked for, to run the chosen launches in turns. `others` are nodes
    that the run did not have, by partition, for every second turn."""
    launches = grouped(verdict.judged, lambda test: test.launch[:-1])
    tests = []
    for launch in agenda.chosen:
        # The tests of the checks by which it is suspected; of all, if its cores alone are.
        checks = {row.check for row in agenda.slower.get(launch, ())}
        if checks or launch in [*agenda.nodes, *agenda.unusual]:
            there = launches.get(launch, [])
            tests += [test for test in there if test.check in checks] or there
    tests += launches.get(agenda.control or (), [])
    # Those that failed are judged again, not what else is of their launches.
    failed = [f"/{case.hash}" for case in agenda.failed if case.launch[:-1] in agenda.chosen]
    nodes = {
        name: [sets[0], *([others[name]] if others and name in others else [])]
        for name, sets in verdict.request.nodes.items()
    }
    return _again(verdict, tests, failed, nodes=nodes, reruns=agenda.repeats - 1)


def request_of_reruns(verdict: RunVerdict, launches: Sequence[TestResult]) -> Request:
    """Returns what ReFrame is asked for, to run these launches again, once each."""
    partitions = sorted({f"{launch.system}:{launch.partition}" for launch in launches})
    tests = (case for case in verdict.judged if any(map(case.takes, launches)))
    return _again(verdict, tests, reruns=0, partitions=partitions)


def _again(
    verdict: RunVerdict, tests: Iterable[TestResult], names: Sequence[str] = (), **more: Any
) -> Request:
    """The run's request for the launches of these tests alone, and what else has these names."""
    selected = dict.fromkeys([*names, *map(command.launch_pattern, tests)])
    arguments = command.once(verdict.request.arguments)
    arguments = [*arguments, *(f"--name={name}" for name in selected)]
    return replace(verdict.request, arguments=arguments, command=[], **more)
