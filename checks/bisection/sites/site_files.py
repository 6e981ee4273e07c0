"""A site file with all checks, loaded by ReFrame in a process of its own."""

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

from bisection.core import paths
from bisection.core.format import duration
from bisection.core.verdicts import BisectionError, NotMeasured

PATIENCE = 600.0  # seconds for a site file and all checks to load: a few, on an idle host


@dataclass(frozen=True)
class Defect:
    """A defect, with its place; line 1 where it is one of a file as a whole."""

    path: str
    line: int
    text: str
    is_note: bool = False  # for a person, and no defect
    twice: bool = False  # two partitions have one name: no command can tell them apart

    @classmethod
    def of(
        cls, path: Path | str, line: int, text: str, *, is_note: bool = False, twice: bool = False
    ) -> "Defect":
        """The defect of a file, whose path is shown as one types it in the repository's root."""
        return cls(paths.shown(path), line, text, is_note, twice)


@dataclass
class Site:
    """A site file with checks, as ReFrame loads them; `partitions` is empty if it does not."""

    name: str
    path: Path
    partitions: list[dict[str, Any]] = field(default_factory=list)
    environs: dict[str, dict[str, Any]] = field(default_factory=dict)
    checks: dict[str, dict[str, Any]] = field(default_factory=dict)  # by class name
    files: dict[str, int] = field(default_factory=dict)  # check file -> its tests
    tests: list[dict[str, Any]] = field(default_factory=list)  # also those that can run nowhere
    cases: list[dict[str, Any]] = field(default_factory=list)  # a test on a partition
    defects: list[Defect] = field(default_factory=list)


def site_file(system: str) -> Path:
    """The site file of --system NAME or DIR/NAME.py, each with or without :PARTITION."""
    name = system.partition(":")[0]
    folder = paths.ROOT / "site-configs"
    return Path(name).absolute() if name.endswith(".py") else folder / f"{name}.py"


def site_names() -> list[str]:
    """The names of the site files in site-configs/, such as localhost and published/stella: all
    but common.py and what it imports."""
    folder = paths.ROOT / "site-configs"
    files = [path for path in sorted(folder.rglob("*.py")) if not path.stem.startswith("common")]
    return [path.relative_to(folder).with_suffix("").as_posix() for path in files]


def require_site(system: str) -> Path:
    """The site file of --system; BisectionError if there is none."""
    file = site_file(system)
    if file.is_file() and not file.stem.startswith("common"):
        return file
    known = ", ".join(site_names()) or "no site file"
    raise BisectionError(f"system {system}: unknown; site-configs/ has {known}")


def line_of(path: Path | str, *words: str) -> int:
    """The line of a file that a defect is shown at: that of the last word that is there, else 1.

    Words are looked for in quotes, or as word=, each behind the one before it. For quad-2, which is
    made of the partition "quad", that is taken where the file has no "quad-2".
    """
    text, at = paths.text_of(path), 0
    for word in words:
        for name in map(re.escape, (word, re.sub(r"-\d+$", "", word))):
            if match := re.compile(rf"[\"']{name}[\"']|\b{name}=").search(text, at):
                at = match.start()
                break
    return text.count("\n", 0, at) + 1


def load_site(system: str, names: Sequence[str] | None = None, reservation: str = "") -> Site:
    """Loads a site with all checks by a process of its own: what its file does there does no harm
    here. NotMeasured: it does not load within PATIENCE, which is no defect of the file.

    Args:
        system: the name of a site file in site-configs/, or the path of one elsewhere.
        names: patterns of ReFrame's option -n, for a run: only tests that one of them selects are
            made, each with those that do, and `cases` stays empty. None where no run follows.
        reservation: that all jobs use; "" for those of the site file.
    """
    path, code = site_file(system), 0
    program = "from bisection.sites.load_process import write_facts; write_facts()"
    # By which that process finds this package, and a site file common.py.
    folders = [Path(__file__).resolve().parents[2], paths.ROOT / "site-configs"]
    search = os.pathsep.join(filter(None, [*map(str, folders), os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory(prefix="bisection-doctor-") as folder:
        output = Path(folder, "facts.json")
        job = {"file": str(path), "checks": str(paths.ROOT / "checks"), "names": names}
        job["output"] = str(output)
        try:
            code = subprocess.run(
                [sys.executable, "-c", program, json.dumps(job)],
                cwd=paths.ROOT,
                env={**os.environ, "PYTHONPATH": search, paths.RESERVATION: reservation},
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PATIENCE,
            ).returncode
            facts = json.loads(output.read_text())
        except subprocess.TimeoutExpired:
            raise NotMeasured(
                f"not measured: {paths.shown(path)} does not load within {duration(PATIENCE)}: "
                "this host is too busy, or the file waits for something"
            ) from None
        except (OSError, ValueError):
            died = f"does not load: the process that tried ended with exit code {code}"
            facts = {"defects": [(path, 1, died, False)]}
    defects = facts.pop("defects")
    site = Site(path.stem, path, **facts)
    site.defects = [Defect.of(*place, twice=twice) for *place, twice in defects]
    site.files = {paths.shown(file): tests for file, tests in site.files.items()}
    for check in site.checks.values():
        check["path"] = paths.shown(check["path"])
    return site
