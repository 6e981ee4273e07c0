"""A site file with all checks, loaded by ReFrame in a process of its own."""

import concurrent.futures
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bisection.core import paths
from bisection.core.reasons import Reason
from bisection.rfm import references

PATIENCE = 60  # seconds for a site file and all checks to load


@dataclass(frozen=True, order=True)
class Defect:
    """What is wrong, and where; line 1 where it concerns a file as a whole."""

    path: str
    line: int
    text: str
    cause: str = ""  # a Reason as JSON, which belongs behind the text

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text}"

    @property
    def reason(self) -> Reason | None:
        """The reason behind the defect; None if its text says all."""
        return Reason.read(self.cause)


@dataclass
class Site:
    """A site file with all checks, as ReFrame loads them; `checks` is empty if it does not."""

    name: str
    path: Path
    partitions: list[dict[str, Any]] = field(default_factory=list)
    environs: dict[str, dict[str, Any]] = field(default_factory=dict)
    checks: dict[str, dict[str, Any]] = field(default_factory=dict)  # by class name
    files: dict[str, int] = field(default_factory=dict)  # check file -> its tests
    tests: list[dict[str, Any]] = field(default_factory=list)  # also those that can run nowhere
    cases: list[dict[str, Any]] = field(default_factory=list)  # a test on a partition
    defects: list[Defect] = field(default_factory=list)


def site_names() -> list[str]:
    """The site files of site-configs/."""
    files = (paths.ROOT / "site-configs").glob("*.py")
    return sorted(path.stem for path in files if path.stem != "common")


def reference_files(system: str | None = None) -> list[Path]:
    """The reference files there are: of all systems, or of one."""
    if system is not None:
        file = references.path(system)
        return [file] if file.exists() else []
    return sorted(references.path("any").parent.glob("*.yaml"))


def line_of(path: Path | str, *words: str) -> int:
    """The line of the last of `words` that is found in quotes, each looked for behind the one
    before it; 1 if none is."""
    try:
        text = Path(path).read_text(errors="replace")
    except OSError:
        return 1
    at = 0
    for word in words:
        if match := re.compile(rf"[\"']{re.escape(word)}[\"']").search(text, at):
            at = match.start()
    return text.count("\n", 0, at) + 1


def load(names: Sequence[str]) -> dict[str, Site]:
    """Sites by name, each loaded by ReFrame with all checks, one per core at a time."""
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        return dict(zip(names, pool.map(load_site, names), strict=True))


def load_site(name: str) -> Site:
    """The site of one file, by a process of its own: what the file does there does no harm here."""
    site = Site(name, paths.ROOT / "site-configs" / f"{name}.py")
    with tempfile.TemporaryDirectory(prefix="bisection-doctor-") as folder:
        output = Path(folder, "facts.json")
        job = {"root": str(paths.ROOT), "system": name, "output": str(output)}
        job["attributes"] = indexed_attributes(references.path(name))
        program = "from bisection.sites.probe import probe; probe()"
        code: int | str = "no exit code"
        try:
            code = subprocess.run(
                [sys.executable, "-c", program, json.dumps(job)],
                cwd=paths.ROOT,
                env={**os.environ, "PYTHONPATH": python_path()},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
            ).returncode
            facts = json.loads(output.read_text())
        except subprocess.TimeoutExpired:
            facts = failure(site, f"does not load within {PATIENCE} s")
        except (OSError, ValueError):
            facts = failure(site, f"does not load: the process that tried ended with {code}")
    site.defects = [Defect(paths.shown(path), *rest) for path, *rest in facts.pop("defects")]
    for key, value in facts.items():
        setattr(site, key, value)
    site.files = {paths.shown(file): tests for file, tests in site.files.items()}
    for check in site.checks.values():
        check["path"] = paths.shown(check["path"])
    return site


def failure(site: Site, text: str) -> dict[str, Any]:
    """The facts of a site file that does not load."""
    return {"defects": [(site.path, 1, text)]}


def python_path() -> str:
    """PYTHONPATH by which another process finds this package, wherever this one found it."""
    mine = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(filter(None, [mine, os.environ.get("PYTHONPATH")]))


def indexed_attributes(file: Path) -> list[str]:
    """The names in all $index lists of a reference file; none if it cannot be read."""
    with contextlib.suppress(OSError, ValueError, yaml.YAMLError, RecursionError):
        content = yaml.safe_load(file.read_text())
        if isinstance(content, dict):
            lists = [entry.get("$index") for entry in content.values() if isinstance(entry, dict)]
            names = {name for names in lists if isinstance(names, list) for name in names}
            return sorted(name for name in names if isinstance(name, str))
    return []
