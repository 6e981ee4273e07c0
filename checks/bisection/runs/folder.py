"""The results folder of a run."""

import contextlib
import itertools
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from bisection.core import paths
from bisection.core.topology import TOPOLOGY
from bisection.kernels import launch_record
from bisection.runs.run_verdict import RunVerdict, TestResult

# ReFrame's files of a launch or a build, as patterns -> what they are kept as.
KEPT = {
    "result.json": "json",
    launch_record.FILE: "launch",
    "*.pairs": "pairs",
    TOPOLOGY: "topology",
    "rfm_job.sh": "sh",
    "rfm_job.out": "out",
    "rfm_job.err": "err",
    "rfm_build.sh": "build.sh",
    "rfm_build.out": "build.out",
    "rfm_build.err": "build.err",
}


def new_folder() -> Path:
    """A new results folder, named by the time in UTC; `latest` points to it."""
    stamp = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H%M%SZ")
    results = paths.home() / "results"
    results.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        folder = results / (f"{stamp}-{number}" if number > 1 else stamp)
        with contextlib.suppress(FileExistsError):  # of another run, maybe on another machine
            folder.mkdir()
            break
    point_to_latest(results)
    return folder


def discard(folder: Path) -> None:
    shutil.rmtree(folder)
    point_to_latest(folder.parent)


def point_to_latest(results: Path) -> None:
    """Points `latest` in the folder of results to the newest."""
    link = results / f".latest-{os.getpid()}"
    folders = [path for path in results.iterdir() if path.is_dir() and not path.is_symlink()]
    folders.sort(key=lambda path: (path.name[:18], len(path.name), path.name))
    if not folders:
        (results / "latest").unlink(missing_ok=True)
        return
    link.symlink_to(folders[-1].name)
    link.replace(results / "latest")


def named(verdict: RunVerdict, folder: Path) -> RunVerdict:
    """The verdict, whose tests refer to the files that keep() leaves in `folder`."""
    cases = []
    for case in verdict.cases:
        words = [case.record.kernel, case.case, case.layout] if case.record.kernel else ["build"]
        name = "-".join([*words, case.partition, case.environ]).replace("/", "_")
        name += f"-run{case.run}" if case.run else ""
        cases.append(replace(case, files=f"{paths.from_root(folder / 'kernels' / name)}.*"))
    return replace(verdict, cases=tuple(cases))


def keep(verdict: RunVerdict, folder: Path) -> None:
    """Keeps in `folder` what a person needs: kernels/ with each launch's result, script and
    output, under the names that its tests refer to."""
    (folder / "kernels").mkdir()
    for case in verdict.cases:
        for source, suffix in KEPT.items() if case.fixture else ():
            files = [file for left in case.folders for file in sorted(Path(left).glob(source))]
            for file in [file for file in files if file.is_file() and file.stat().st_size][:1]:
                shutil.copy2(file, paths.ROOT / f"{case.files[:-1]}{suffix}")


def kept_file(case: TestResult, suffix: str) -> Path:
    """The file of a launch that keep() left."""
    return Path(paths.ROOT, case.files[:-1] + suffix)


def kept_launches(run: RunVerdict, *kernels: str) -> Iterator[TestResult]:
    """The launches of these kernels that ended well and whose results were kept."""
    for case in run.cases:
        ran = case.fixture and case.record.kernel in kernels and not case.is_bad
        if ran and case.files.endswith(".*") and kept_file(case, "json").is_file():
            yield case


def clear(verdict: RunVerdict, folder: Path) -> None:
    """Removes what ReFrame left in `folder`; stage/ stays if something went wrong."""
    shutil.rmtree(folder / "output", ignore_errors=True)
    if not verdict.bad:
        shutil.rmtree(folder / "stage", ignore_errors=True)


def kept_verdicts(folders: Mapping[str, Path]) -> dict[str, RunVerdict]:
    """The verdicts on sessions that their results folders have, by session."""
    verdicts: dict[str, RunVerdict] = {}
    for session, folder in folders.items():
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):
            kept = json.loads((folder / "verdict.json").read_text())
            verdicts[session] = RunVerdict.from_dict(kept)
    return verdicts
