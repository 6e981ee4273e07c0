"""Prints the verdict of an earlier run."""

import argparse
import json
from pathlib import Path

from bisection.core import paths
from bisection.core.verdicts import BisectionError, Exit, NotMeasured
from bisection.judge import decision, rule
from bisection.judge.hosts import with_slow_hosts
from bisection.report import run as run_report
from bisection.runs import report as reframe_report
from bisection.runs.model import RunVerdict

CODES = {Exit.FAILED: "", Exit.NOT_MEASURED: "or the run has no verdict", Exit.SLOWER: ""}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = "a results folder, or a report file of ReFrame; default: the latest run"
    latest = str(paths.home() / "results" / "latest")
    parser.add_argument("folder", nargs="?", default=latest, help=which)
    every = "print every test with its metrics and limits"
    parser.add_argument("--verbose", action="store_true", help=every)


def act(options: argparse.Namespace) -> Exit:
    verdict = read(Path(options.folder))
    lines = [*run_report.text(verdict, options.verbose), *run_report.next_step(verdict)]
    print("\n".join(lines))
    return decision.of_run(verdict)


def read(path: Path) -> RunVerdict:
    """The verdict of a results folder, or on a report file.

    Raises:
        NotMeasured: the folder has none: the run was stopped, or still runs.
        BisectionError: it cannot be read.
    """
    try:
        if path.is_dir():
            if not (path / "verdict.json").exists():
                raise NotMeasured(f"{path} has no verdict: the run was stopped, or still runs")
            file = paths.regular(path / "verdict.json")
            return RunVerdict.from_dict(json.loads(file.read_text()))
        report = reframe_report.load_report(path)
    except OSError as error:
        raise BisectionError(f"no verdict in {path}: {error.strerror}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise BisectionError(f"no verdict in {path}: {error}") from None
    return rule(with_slow_hosts(reframe_report.read(report)))
