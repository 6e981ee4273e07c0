"""`bisection run`: one ReFrame run, watched, judged and kept; `bisection verdict`: judged again."""

import argparse
import json
import re
import shlex
import shutil
import sys
import time
from pathlib import Path

from bisection.analysis import observations
from bisection.core import paths
from bisection.core.verdicts import ALL_PASSED, TIERS
from bisection.report import gather, run
from bisection.runs import judge, reframe_log
from bisection.runs.command import (
    TAG,
    command,
    given,
    invocation,
    refused,
    site_file,
    system_name,
    without_names,
)
from bisection.runs.folder import keep, new_folder, point_to_latest, read_report
from bisection.runs.watch import listing, watch
from bisection.store import sync

USAGE = 2


def add_commands(commands):
    run = commands.add_parser(
        "run",
        help="run a tier of checks and judge this machine",
        description="Runs ReFrame and ends with a verdict. Arguments not listed here are ReFrame's "
        "(-n NAME, -S VAR=VALUE, ...). Exit code: 0 every selected check ran and passed, 1 a check "
        "failed, 2 usage, 3 not all was measured.",
        allow_abbrev=False,
    )
    run.add_argument("--tier", choices=TIERS, default="nightly", help="default: nightly")
    run.add_argument(
        "--system",
        default="generic",
        metavar="NAME",
        help="site-configs/NAME.py, or a site file elsewhere, DIR/NAME.py; also NAME:PARTITION; "
        "default: generic, this machine",
    )
    run.add_argument(
        "-p",
        "--environ",
        default="system",
        metavar="NAME",
        help="how the kernels are built: system (the default), spack, or one of the site's own",
    )
    run.add_argument(
        "--tag",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="kept with the session, to name it by later: --tag phase=before",
    )
    run.set_defaults(act=act_run, passes_on=True)

    again = commands.add_parser("verdict", help="print the verdict of an earlier run")
    again.add_argument(
        "folder",
        nargs="?",
        default=str(paths.home() / "results" / "latest"),
        help="a results folder, or a report file of ReFrame; default: the latest run",
    )
    again.set_defaults(act=act_verdict)


def act_run(options):
    site = site_file(options.system)
    if not site.is_file() or site.stem == "common":
        sites = sorted(
            p.stem for p in (paths.ROOT / "site-configs").glob("*.py") if p.stem != "common"
        )
        return usage(f"--system {options.system}: unknown; site-configs/ has {', '.join(sites)}")
    for argument in options.rest:
        if why := refused(argument):
            print(f"command: {shlex.join(command(options, site, None))} {argument}")
            return usage(f"{argument} is refused: {why}")

    for tag in options.tag:
        if not TAG.fullmatch(tag):
            return usage(f"--tag {tag}: not NAME=VALUE, without commas")

    folder = new_folder()
    line = command(options, site, folder)
    damaged = sync.prepare(paths.home())
    print(f"command: {shlex.join(line)}", flush=True)
    began = time.monotonic()
    code, log = watch(line, folder / "reframe.log")
    if words := re.search(r"^reframe: error: (.*)", log, re.M):
        shutil.rmtree(folder)
        point_to_latest(folder.parent)
        return usage(words[1])
    report = read_report(folder)
    found = judge.judge(report, log, lambda: listing(line))
    found.seconds = time.monotonic() - began
    if code != 0 and found.exit_code == ALL_PASSED:
        found.troubles.append(
            f"ReFrame exited with {code}, see {paths.shown(folder / 'reframe.log')}"
        )
    found.troubles += damaged
    keep(found, folder)
    store(found, report, folder)
    finish(found, folder, options, line)
    return found.exit_code


def usage(message):
    print(f"bisection run: error: {message}", file=sys.stderr)
    return USAGE


def store(found, report, folder):
    """Stores the run; what cannot be stored, and tests that are gone, make it incomplete."""
    found.troubles += sync.keep(report, folder, paths.home())
    found.troubles += observations.gone(report, paths.home())


def finish(found, folder, options, line):
    """Writes the verdict's files and prints it."""

    def rerun(selection):
        rest = without_names(options.rest) if selection else options.rest
        return shlex.join([*invocation(), "run", *given(options), *rest, *selection])

    text = [*run.table(found), "", *run.explanations(found, rerun)]
    text += ["" if text[-1] else None, found.sentence, f"results: {paths.shown(folder)}"]
    lines = [part for part in text if part is not None]
    more = {
        "command": line,
        "system": system_name(options.system),
        "environ": options.environ,
        "tier": options.tier,
    }
    kept = run.as_json(found, **more)
    (folder / "verdict.txt").write_text("\n".join(lines).lstrip("\n") + "\n")
    (folder / "verdict.json").write_text(json.dumps(kept, indent=1))
    (folder / "junit.xml").write_text(run.as_junit(found))
    print("\n".join(lines))
    if found.judged:
        print("\n".join(gather.report_lines(kept, folder, paths.home(), paths.shown)))


def act_verdict(options):
    path = Path(options.folder)
    try:
        if path.is_dir():
            print((path / "verdict.txt").read_text(), end="")
            return json.loads((path / "verdict.json").read_text())["exit_code"]
        report = reframe_log.load_report(path)
    except (OSError, ValueError, KeyError) as error:
        print(f"bisection verdict: error: no verdict in {path}: {error}", file=sys.stderr)
        return USAGE
    if report is None:
        print(f"bisection verdict: error: there is no {path}", file=sys.stderr)
        return USAGE
    found = judge.judge(report)
    plain = argparse.Namespace(tier="nightly", system="generic", environ="system")
    text = [*run.table(found), ""]
    text += run.explanations(
        found, lambda selection: shlex.join([*invocation(), "run", *given(plain), *selection])
    )
    print("\n".join([*text, found.sentence]))
    return found.exit_code
