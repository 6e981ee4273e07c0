"""What becomes of a run: stored, set beside the earlier ones, reported."""

import re
import time
from pathlib import Path

from bisection import samples
from bisection import store as stores
from bisection.comparison import (
    IMPROVED,
    MISSING,
    NEW,
    NOT_MEASURED,
    REGRESSED,
    UNCHANGED,
)
from bisection.selection import EARLIER, SelectionError, select

# Not what a session has of itself, or ReFrame records of it.
TAG = re.compile(rf"(?!({samples.RECORDED}|tier|system|environ|arguments)=)[A-Za-z][\w.-]*=[^,]*")


def prepare(home):
    """Sets aside databases that are damaged, so that the run to come is stored. Returns troubles,
    one line each."""
    troubles = []
    for path in (stores.record(home), stores.database(home)):
        if fault := stores.damage(path):
            try:
                told = f"is now {stores.set_aside(path).name}"
            except stores.StoreError as error:
                told = str(error)
            troubles.append(f"{path} was damaged ({fault}) and {told}")
    return troubles


def keep(report, folder, home):
    """Writes the run's samples to its folder and stores them. Returns troubles."""
    if report is None:
        return []
    try:
        session, cases = samples.of_report(report)
    except stores.BAD_REPORT as error:
        return [f"not stored: not a report of ReFrame: {error!r}"]
    troubles = []
    try:
        samples.write_samples(Path(folder) / samples.SPOOLED, session, cases)
    except stores.StoreError as error:
        troubles.append(str(error))
    try:
        with stores.Store(stores.database(home)) as store:
            store.add([(session, cases)])
            stores.synchronise(store, home)
    except stores.StoreError as error:
        troubles.append(f"not stored: {error}; `bisection import` stores it later")
    return troubles


def gone(report, home):
    """A trouble if tests of the last session of this kind are in this one no more."""
    from bisection.compare import Measured

    if report is None:
        return []
    try:
        with stores.Store(stores.database(home)) as store:
            now = select(report["session_info"]["uuid"], store)
            last = select("earlier:1", store, now)
            before, after = (set(Measured(store, side).outcomes) for side in (last, now))
    except (stores.StoreError, SelectionError):
        return []
    missing = sorted(" ".join(filter(None, key[3:])) for key in before - after)
    if not missing:
        return []
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return [f"{len(missing)} tests of the last session are gone: {', '.join(missing[:3])}{more}"]


def report(verdict, folder, home, shown):
    """Writes the report on a run into its folder, beside the earlier ones of its kind. Returns the
    lines to print; `verdict` is verdict.json's dictionary, `shown(path)` a path as it is printed.
    """
    from bisection import reporting

    try:
        with stores.Store(stores.database(home)) as store:
            now = select(verdict["session"], store)
            try:
                before = select(EARLIER, store, now)
            except SelectionError:
                before = []
            files, result, lately = reporting.write(
                store, before, now, folder, verdict, time.time()
            )
    except (stores.StoreError, SelectionError, OSError) as error:
        return [f"no report: {error}"]
    lines = [*lately, f"report: {shown(files['report.html'])}"]
    if result:
        count = f"{len(before)} earlier sessions" if len(before) > 1 else "the session before"
        lines.insert(0, f"beside {count}: {_beside(result)}")
        lines[1:1] = [f"unsafe: {result.unsafe}"] if result.unsafe else []
    return lines


def _beside(result):
    """What a comparison with earlier sessions says; of one night alone, what can be said of it."""
    if any(result.count(verdict) for verdict in (REGRESSED, IMPROVED, UNCHANGED)):
        return result.sentence
    counts = [f"{result.count(v)} {v}" for v in (MISSING, NOT_MEASURED, NEW) if result.count(v)]
    suspect = sum(row.suspect for row in result.rows)
    counts += [f"{suspect} unlike all of them"] if suspect else []
    counts.append(f"one session is not judged by itself (of {len(result.rows)} metrics)")
    return ", ".join(counts)
