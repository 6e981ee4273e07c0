"""Facts of checks on a site's system, kept below the home by the content of all that decides them.

The site file itself is loaded each time: what it reads of the machine is never kept.
"""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import reframe

from bisection.core import paths, references

Facts = dict[str, Any]

ENTRIES = 24  # the newest are kept: more than the sites of a checkout
SHELL = ("_", "PWD", "OLDPWD", "SHLVL", "TERM", "COLUMNS", "LINES")  # decide nothing
STARTS = ("subprocess.Popen", "os.exec", "os.fork", "os.posix_spawn", "os.system", "socket.connect")
READS = ("open", "os.listdir", "os.scandir")


def kept(
    folder: Path,
    files: Mapping[str, bytes],
    known: Any,
    load: Callable[[], Facts],
    sound: Callable[[], bool],
) -> Facts:
    """Facts of an earlier load with the same inputs, else of a new one, which is kept.

    What a load reads beyond the inputs could change unseen. Then nothing is kept.

    Args:
        folder: of the entries.
        files: the inputs, as inputs() reads them.
        known: what else decides the facts: the site's configuration.
        load: returns the facts.
        sound: whether the facts that it returned may be kept.
    """
    entry = folder / f"{_digest(key(files, known))}.json"
    facts = read(entry)
    if facts is None:
        with watched() as seen:
            facts = load()
        if sound() and not strangers(seen, files):
            write(entry, facts)
    return facts


def inputs(root: Path, site: Path) -> dict[str, bytes]:
    """The files that decide what the checks are on a site's system, with their content.

    Args:
        root: the repository's root, which has the checks and site-configs/.
        site: the site file.
    """
    patterns = {
        site.parent: ["*.py", "*.json"],
        root / "checks": ["*.py"],
        root / "site-configs": ["*.py", "*.json"],
        paths.ROOT / "checks": [
            *("*.py", "bisection/**/*.py", "workshop/papers/*.py", "workshop/smpi/*.csv")
        ],
        paths.ROOT / "src": ["**/*.def", "**/*.f90"],
        paths.ROOT / "reference": ["**/*.csv", "**/*.yaml"],
        references.path(site.stem).parent: ["*.yaml"],
    }
    files = {file for place, names in patterns.items() for n in names for file in place.glob(n)}
    tests = paths.ROOT / "checks" / "bisection" / "tests"
    chosen = sorted(file for file in files if not file.is_relative_to(tests))
    return {str(file): _content(file) for file in chosen if file.is_file()}


def key(files: Mapping[str, bytes], known: Any) -> list[Any]:
    """All that decides the facts: content of files, environment, versions, this host.

    A variable counts where an input has its name, or if it is one of ReFrame's or Python's: others,
    as of a terminal or a service, differ each night and decide nothing.
    """
    text = b"\n".join(files.values())
    variables = [
        [name, value]
        for name, value in sorted(os.environ.items())
        if name.startswith(("RFM_", "PYTHON")) or (name not in SHELL and os.fsencode(name) in text)
    ]
    digests = [[name, hashlib.sha256(text).hexdigest()] for name, text in files.items()]
    versions = [sys.version, sys.prefix, reframe.VERSION]
    host = [*os.uname(), sorted(os.sched_getaffinity(0)), os.geteuid()]
    return [digests, variables, versions, host, known]


def read(entry: Path) -> Facts | None:
    """The facts of an entry; None if there is none, or if it is damaged."""
    with contextlib.suppress(OSError, ValueError):
        digest, _, text = entry.read_text(encoding="utf-8").partition("\n")
        if digest == hashlib.sha256(text.encode()).hexdigest():
            facts = json.loads(text)
            with contextlib.suppress(OSError):
                os.utime(entry)  # the oldest goes first
            return facts
    return None


def write(entry: Path, facts: Facts) -> None:
    """Keeps facts, and removes the oldest entries; nothing where the folder cannot be written."""
    text = json.dumps(facts, default=str)
    with contextlib.suppress(OSError):
        entry.parent.mkdir(parents=True, exist_ok=True)
        paths.write_whole(entry, f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}")
        entries = sorted(entry.parent.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for old in entries[:-ENTRIES]:
            old.unlink(missing_ok=True)


# ---- what a load reads ----


@contextlib.contextmanager
def watched() -> Iterator[set[str]]:
    """The paths that are read or listed meanwhile, and the names of events of STARTS."""
    seen: set[str] = set()
    watching = True

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if not watching:
            return
        if event in STARTS:
            seen.add(event)
        elif event in READS and isinstance(arguments[0], (str, bytes, os.PathLike)):
            path = os.fsdecode(arguments[0])
            imported = path.endswith(".pyc") if event == "open" else path in (".", *sys.path)
            written = event == "open" and arguments[2] & os.O_WRONLY
            if not imported and not written:
                seen.add(path)

    sys.addaudithook(watch)
    try:
        yield seen
    finally:
        watching = False


def strangers(seen: Iterable[str], files: Iterable[str]) -> set[str]:
    """Returns what was read and is neither an input nor a part of Python, with the files of
    modules."""
    modules = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    known = {os.path.realpath(file) for file in files}
    known |= {os.path.dirname(file) for file in known}
    python = (sys.prefix, sys.base_prefix, Path(reframe.__file__).parents[1])
    python = tuple(f"{os.path.realpath(place)}/" for place in python)
    real = {path: os.path.realpath(path) for path in {*seen, *modules} - {None}}
    return {path for path, at in real.items() if at not in known and not at.startswith(python)}


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:  # the load says so, if it needs the file
        return b""


def _digest(value: Any) -> str:
    text = json.dumps(value, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
