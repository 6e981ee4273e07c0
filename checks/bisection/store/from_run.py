"""Sessions as stored, from reports of ReFrame."""

import re
import statistics
from pathlib import Path

from bisection.core.verdicts import NOT_APPLICABLE, PASS
from bisection.runs import judge, reframe_log
from bisection.runs.command import RECORDED
from bisection.store.sample_file import (
    OF_SESSION,
    SCHEMA,
    SPOOLED,
    VERSION,
    StoreError,
    finite_or_none,
    read_samples,
    told,
)

# What is raised for a report that is none.
BAD_REPORT = (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError)


def of_report(report, tags=None):
    """(session, cases) of ReFrame's report, as the two kinds of lines of a sample file."""
    info = report["session_info"]
    extras = {n: str(value) for n, value in info.items() if not re.fullmatch(RECORDED, n)}
    session = {
        "schema": SCHEMA,
        "version": VERSION,
        "session": info["uuid"],
        "start": info["time_start_unix"],
        "tags": {**extras, **(tags or {})},
        "facts": _facts(report),
    }
    for name in ("session", "start"):
        if not OF_SESSION[name](session[name]):
            raise ValueError(f"{name} is {session[name]!r}")
    return session, [line for run in report["runs"] for line in _cases(run, report)]


def _cases(run, report):
    judged = judge.judge({**report, "runs": [run]}).cases
    shares = {case.launch: case.disturbed for case in judged if case.fixture}
    for case, entry in zip(judged, run["testcases"], strict=True):
        case.disturbed = shares.get(case.launch, 0.0)
        if case.fixture:
            # Of a launch that was placed wrongly no time counts, that of the cores alone neither.
            yield from _controls(case, entry) if case.verdict == PASS else ()
        elif case.verdict != NOT_APPLICABLE:
            higher = entry.get("higher") or []
            metrics = {
                m.name: [finite_or_none(m.value), m.unit, "higher" if m.name in higher else "lower"]
                for m in case.metrics
            }
            yield {**_place(case), "hosts": entry.get("hosts") or [], "metrics": metrics}


def _controls(case, entry):
    for name, value in (entry.get("controls") or {}).items():
        metric = ["GHz", "higher"] if name == "clock" else ["s", "lower"]
        yield {
            **_place(case),
            "check": entry["kernel"],
            "method": name,
            "hosts": entry.get("hosts") or [],
            "control": True,
            "metrics": {"clock" if name == "clock" else "time": [finite_or_none(value), *metric]},
        }


def _place(case):
    return {
        "check": case.check,
        "case": case.case,
        "layout": case.layout,
        "method": case.method,
        "system": case.partition.partition(":")[0],
        "partition": case.partition.partition(":")[2],
        "environ": case.environ,
        "geometry": case.geometry,
        "run": case.run,
        "verdict": case.verdict,
        "cause": case.cause,
        "disturbed": case.disturbed,
        "again": f"/{case.hash}",
    }


LISTS = ("libraries", "nodes", "MPI environment")  # facts that are lists of their items


def _facts(report):
    """What the session's launches ran on and with; where they differ, every answer."""
    found, clocks = {}, []
    for entry in (entry for run in report["runs"] for entry in run["testcases"]):
        facts = dict(entry.get("facts") or {})
        for name in ("lock", "software"):
            facts[name] = entry.get(name) if entry["fixture"] else ""
        facts["nodes"] = ", ".join(entry.get("hosts") or [])
        for name, text in facts.items():
            items = text.split(", ") if name in LISTS and text else [text]
            found.setdefault(name, set()).update(filter(None, items))
        clocks += filter(finite_or_none, [(entry.get("controls") or {}).get("clock")])
    if clocks:
        found["clock"] = [f"{statistics.median(clocks):.1f} GHz"]
    return {name: ", ".join(sorted(items)) for name, items in sorted(found.items()) if items}


def contents(path):
    """All (session, cases) of a sample file, a report file of ReFrame, or a results folder."""
    source = Path(path)
    if source.is_dir():
        samples = source / SPOOLED
        source = samples if samples.exists() else source / "report.json"
    if source.suffix != ".json":
        return list(read_samples(source))
    try:
        report = reframe_log.load_report(source)
        if report is None:
            raise StoreError(f"there is no {source}")
        return [of_report(report)]
    except BAD_REPORT as error:
        raise StoreError(f"{source}: not a report of ReFrame: {told(error)}") from None
