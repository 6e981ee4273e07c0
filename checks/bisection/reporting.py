"""`bisection report`: gathers what a report tells and writes it, as HTML and for other programs."""

import json
import shlex
import sys
import time
from pathlib import Path

from bisection import store as stores
from bisection.compare import add_options, compare, compared
from bisection.history import changes_of, histories, recent, series_of
from bisection.nodes import pairs
from bisection.phrases import group
from bisection.selection import EARLIER, HELP, SelectionError, select
from bisection.spack import home
from bisection.verdict import FAIL, NOT_MEASURED

USAGE = 2
PAST = 60  # sessions whose history is drawn


def add_commands(commands):
    command = commands.add_parser(
        "report",
        help="write a report on stored sessions: HTML, Markdown, JUnit, Prometheus",
        description="Writes report.html (one file, no script), report.md, report-junit.xml, "
        "bisection.prom and nodecheck.txt on the sessions AFTER, set beside those BEFORE. A group "
        f"of sessions is: {HELP}. Exit code: as `bisection compare`.",
    )
    command.add_argument("before", metavar="BEFORE", nargs="?", help="default: the 20 earlier ones")
    command.add_argument("after", metavar="AFTER", nargs="?", default="latest")
    add_options(command)
    command.add_argument(
        "-o", "--output", metavar="FOLDER", help="default: report/ beside the store, in .bisection/"
    )
    command.set_defaults(act=act)


def act(options):
    from bisection.report import write as render

    try:
        with stores.opened(home()) as store:
            result, sessions = _compared(store, options)
            verdict = _verdict_of(sessions[-1])
            made = gather(store, sessions, result, verdict, time.time())
        folder = Path(options.output or home() / "report")
        folder.mkdir(parents=True, exist_ok=True)
        files = render(made, folder)
    except (SelectionError, stores.StoreError) as error:
        print(f"bisection report: error: {error}", file=sys.stderr)
        return USAGE
    except OSError as error:
        print(f"bisection report: error: {folder}: {error.strerror}", file=sys.stderr)
        return USAGE
    print(result.sentence if result else "no earlier sessions of its kind to compare with")
    print("\n".join(f"{name}: {path}" for name, path in files.items()))
    return result.exit_code if result else verdict.get("exit_code", 0)


def _compared(store, options):
    """The Comparison, None if there are no earlier sessions and none were named; the sessions."""
    if options.before is None:
        sessions = select(options.after, store)
        try:
            select(EARLIER, store, sessions)
        except SelectionError:
            return None, sessions
        options.before = EARLIER
    result, sides = compared(store, options)
    return result, sides[1]


def write(store, before, now, folder, verdict, made):
    """Writes the report on a run into its folder: (its files, its comparison or None without
    sessions before, lines on what is worse since lately)."""
    from bisection.report import write as render

    result = compare(store, before, now) if before else None
    gathered = gather(store, now, result, verdict, made, verdict["exit_code"])
    return render(gathered, Path(folder)), result, recent(gathered.history)


def gather(store, sessions, result, verdict, made, code=None):
    """The Report on these sessions; `verdict` is verdict.json's dictionary of the last, or {}."""
    from bisection.report import Report

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


def again(case, verdict):
    """The command that runs a case again; of a launch, everything that depends on it."""
    words = ["bisection", "run", "--tier", verdict["tier"]]
    words += ["--system", verdict["system"]] if verdict["system"] != "generic" else []
    words += ["-p", case["environ"]] if case["environ"] != "system" else []
    if case["fixture"]:
        return shlex.join([*words, "-n", f"layout={case['layout']}%launch.case={case['case']}$"])
    return shlex.join([*words, "-n", f"/{case['hash']}"])


def _verdict_of(session):
    """verdict.json of a session, {} if it is not kept here."""
    for path in sorted((home() / "results").glob("*/verdict.json"), reverse=True):
        try:
            verdict = json.loads(path.read_text())
        except (OSError, ValueError):
            continue
        if verdict.get("session") == session.uuid:
            return verdict
    return {}
