"""Gathers what a report tells, and writes every form of it."""

import time
from pathlib import Path

from bisection.analysis.compare import compare
from bisection.analysis.history import changes_of, histories, recent, series_of
from bisection.analysis.nodes import pairs
from bisection.analysis.wording import group
from bisection.core import paths
from bisection.core.verdicts import FAIL, IMPROVED, MISSING, NEW, NOT_MEASURED, REGRESSED, UNCHANGED
from bisection.report import exports, page
from bisection.report.model import Report
from bisection.runs.command import again
from bisection.store.database import Store
from bisection.store.sample_file import StoreError
from bisection.store.selection import EARLIER, SelectionError, select

PAST = 60  # sessions whose history is drawn


def report_on_run(store, before, now, folder, verdict, made):
    """Writes the report on a run into its folder: (its files, its comparison or None without
    sessions before, lines on what is worse since lately)."""

    result = compare(store, before, now) if before else None
    gathered = gather(store, now, result, verdict, made, verdict["exit_code"])
    return write(gathered, Path(folder)), result, recent(gathered.history)


def gather(store, sessions, result, verdict, made, code=None):
    """The Report on these sessions; `verdict` is verdict.json's dictionary of the last, or {}."""

    everything = store.sessions()
    past = [s for s in everything if s.start <= sessions[-1].start][-PAST:]
    found = histories(store, past)
    points, series = changes_of(found, past)
    drawn = {one.key for one in series}
    series += [
        series_of(test, metric, indices, values, past)
        for test, metric, indices, values in found
        if metric.name == "time" and len(values) > 1 and (*test.identity, metric.name) not in drawn
    ]
    cases = verdict.get("cases") or []
    return Report(
        title=f"{sessions[-1].tags.get('system') or 'Bisection'}: "
        + group([{"uuid": s.uuid, "start": s.start} for s in sessions]),
        made=made,
        comparison=result,
        history=points,
        series=series,
        pairs=pairs(store, sessions),
        failures=[
            {**case, "again": again(case, verdict)}
            for case in cases
            if case["verdict"] in (FAIL, NOT_MEASURED)
        ],
        outcome=verdict.get("verdict") or "",
        code=code,
        latest=cases,
    )


FORMS = {
    "report.html": page.html,
    "report.md": exports.markdown,
    "report-junit.xml": exports.junit,
    "bisection.prom": exports.prometheus,
    "nodecheck.txt": exports.nodecheck,
}


def write(report, folder):
    """Every form of the report in `folder`; name -> path. A reader sees the old or the new file,
    never a part of one."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts = {name: form(report) for name, form in FORMS.items()}
    return {name: paths.write_whole(folder / name, text) for name, text in texts.items()}


def report_lines(verdict, folder, home, shown):
    """Writes the report on a run into its folder, beside the earlier ones of its kind. Returns the
    lines to print; `verdict` is verdict.json's dictionary, `shown(path)` a path as it is printed.
    """

    try:
        with Store(paths.store_db(home)) as store:
            now = select(verdict["session"], store)
            try:
                before = select(EARLIER, store, now)
            except SelectionError:
                before = []
            files, result, lately = report_on_run(store, before, now, folder, verdict, time.time())
    except (StoreError, SelectionError, OSError) as error:
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
