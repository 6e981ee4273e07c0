"""Prints the verdict of an earlier run.

If verdict.json is gone, it is made again of samples.jsonl, the record of the run.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from bisection.core import paths
from bisection.core.verdicts import BisectionError, Exit, NotMeasured
from bisection.judge import rule
from bisection.judge.hosts import with_slow_hosts
from bisection.report import verdict_text
from bisection.report.documents import VerdictDocument, add_json, shown
from bisection.runs import reframe_report
from bisection.runs.run_verdict import RunVerdict
from bisection.store.sample_file import SPOOLED, verdict_in

CODES = {Exit.FAILED: "", Exit.NOT_MEASURED: "or the run has no verdict", Exit.SLOWER: ""}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    which = "a results folder, or a report file of ReFrame; default: the latest run"
    latest = str(paths.home() / "results" / "latest")
    parser.add_argument("folder", nargs="?", default=latest, help=which)
    every = "print every test with its metrics and limits"
    parser.add_argument("--verbose", action="store_true", help=every)
    add_json(parser)


def act(options: argparse.Namespace) -> Exit:
    verdict = read(Path(options.folder))
    lines = [*verdict_text.text(verdict, options.verbose), *verdict_text.next_step(verdict)]
    document = VerdictDocument.of(verdict)
    print(shown(options, document, lines))
    return document.exit_code


def _kept(folder: Path) -> dict[str, Any]:
    """What verdict.json has; if it is gone, it is made again of the record."""
    file = folder / "verdict.json"
    if file.exists():
        return json.loads(paths.regular(file).read_text())
    kept = verdict_in(folder / SPOOLED) if (folder / SPOOLED).exists() else None
    if kept is None:
        raise NotMeasured(f"{folder} has no verdict: the run was stopped, or still runs")
    paths.write_whole(file, json.dumps(kept, indent=1))
    return kept


def read(path: Path) -> RunVerdict:
    """The verdict of a results folder, or on a report file.

    Raises:
        NotMeasured: the folder has none: the run was stopped, or still runs.
        BisectionError: it cannot be read.
    """
    try:
        if path.is_dir():
            return RunVerdict.from_dict(_kept(path))
        report = reframe_report.load_report(path)
    except OSError as error:
        raise BisectionError(f"no verdict in {path}: {error.strerror}") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise BisectionError(f"no verdict in {path}: {error}") from None
    return rule(with_slow_hosts(reframe_report.read(report)))
