"""What is wrong with Spack locks and with ReFrame's database."""

import contextlib
import json
import re
import sqlite3
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path

from bisection.core import paths
from bisection.core.format import one_line, some
from bisection.kernels.spack import externals
from bisection.kernels.spack.externals import AUTO, SpackError
from bisection.kernels.spack.lock import State, lock_facts, render
from bisection.sites.site import Defect, Site, line_of

Units = dict[str, dict[str, str]]  # check -> metric -> unit


def lock_findings(site: Site) -> tuple[list[Defect], list[str]]:
    """(defects, notes) on the Spack locks that a site's environments are built from.

    A lock is made when an environment is first built, so one that is not there is no defect.
    """
    found, notes = [], []
    base = paths.home() / "spack" / "environments"
    try:
        known = externals.systems()
    except SpackError as error:
        return [Defect(paths.shown(paths.ROOT / "spack-env"), 1, str(error))], []
    for environ, facts in site.environs.items():
        if "spack" not in facts["features"]:
            continue
        wanted = facts["extras"].get("spack_env", AUTO)
        if wanted != AUTO and wanted not in known:
            text = f"environment {environ}: spack_env is {wanted}: allowed are {some(known)}, auto"
            found.append(
                Defect(paths.shown(site.path), line_of(site.path, environ, "spack_env"), text)
            )
            continue
        names = known if wanted == AUTO else [wanted]
        locks = {name: base / name / "spack.lock" for name in names}
        there = {name: lock for name, lock in locks.items() if lock.is_file()}
        for name, lock in there.items():
            found += lock_defects(known[name], lock)
        if base.exists() and not there:
            text = f"nothing is built yet for spack_env {wanted}: there is no"
            notes.append(
                f"{site.name}, environment {environ}: {text} {paths.shown(base)}/*/spack.lock"
            )
    return found, notes


def lock_defects(file: Path, lock: Path) -> list[Defect]:
    """What is wrong with the lock that was made from the environment `file`."""
    where, again = paths.shown(lock), "`bisection run -p spack` makes it again"
    try:
        facts = lock_facts(lock)
    except (OSError, ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        text = f"is no lock of Spack ({type(error).__name__}: {one_line(error)}); {again}"
        return [Defect(where, 1, text)]
    known = State.load(lock.with_name("state.json")).installation.get("lock_hash")
    if known not in (None, facts["lock_hash"]):
        return [Defect(where, 1, f"was changed since the kernels were built from it; {again}")]
    try:
        made_from = lock.with_name("spack.yaml").read_text().splitlines()
        now = render(file, externals.survey_externals(file).installed).splitlines()
    except (OSError, ValueError) as error:
        return [Defect(where, 1, f"cannot be compared with {paths.shown(file)}: {one_line(error)}")]
    if made_from == now:
        return []
    pairs = zip_longest(made_from, now, fillvalue="")
    line, (old, new) = next((n, pair) for n, pair in enumerate(pairs, 1) if pair[0] != pair[1])
    text = f"{where} was made from {old.strip()!r}, which is now {new.strip()!r}; {again}"
    return [Defect(paths.shown(file), line, text)]


TABLES = {
    "sessions": {"uuid", "session_start_unix", "session_end_unix", "json_blob", "report_file"},
    "testcases": {"name", "system", "partition", "environ", "session_uuid", "uuid"},
}
LATEST = 10  # sessions that are asked for the names of metrics


def read_database(path: Path) -> tuple[list[Defect], Units]:
    """(defects of ReFrame's database, metrics that its latest sessions have recorded).

    The latter as check -> metric -> unit. A database that is not there is none of the defects.
    """
    if not path.exists():
        return [], {}
    where = paths.shown(path)
    try:
        with contextlib.closing(
            sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=10)
        ) as base:
            answers = [row[0] for row in base.execute("PRAGMA quick_check(3)")]
            if answers != ["ok"]:
                return [Defect(where, 1, f"is damaged: {one_line('; '.join(answers))}")], {}
            texts = [f"has no {text}" for text in missing_columns(base)]
            if texts:
                return [Defect(where, 1, text) for text in texts], {}
            return read_sessions(base, where)
    except sqlite3.Error as error:
        return [Defect(where, 1, f"SQLite cannot read it: {error}")], {}


def missing_columns(base: sqlite3.Connection) -> Iterator[str]:
    """Tables and columns that ReFrame reads, and are not there."""
    for table, wanted in TABLES.items():
        there = {row[1] for row in base.execute(f"PRAGMA table_info({table})")}
        if not there:
            yield f"table {table}, which ReFrame stores results in"
        elif wanted - there:
            yield f"column {', '.join(sorted(wanted - there))} in table {table}"


def read_sessions(base: sqlite3.Connection, where: str) -> tuple[list[Defect], Units]:
    """(defects, {check: {metric: unit}}) of the sessions in ReFrame's database."""
    found, recorded = [], {}
    query = "SELECT uuid, json_blob FROM sessions ORDER BY session_start_unix DESC"
    for number, (uuid, text) in enumerate(base.execute(query)):
        try:
            session = json.loads(text)
            runs = [entry for run in session["runs"] for entry in run["testcases"]]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            why = f"{type(error).__name__}: {one_line(error, 100)}"
            found.append(Defect(where, 1, f"session {uuid} is not a report of ReFrame ({why})"))
            continue
        for entry in runs if number < LATEST else ():
            with contextlib.suppress(AttributeError, KeyError, TypeError, IndexError):
                name = re.split(r"[ %]", entry["display_name"])[0]
                for metric, values in (entry["perfvalues"] or {}).items():
                    recorded.setdefault(name, {})[metric.rpartition(":")[2]] = values[4]
    return found, recorded
