"""The command line of ReFrame, and the command that runs tests again."""

import re
import shlex
import sys
from pathlib import Path

from bisection.core import paths

# ReFrame's options that would make a failure pass, or run nothing.
RUNS_NOTHING = "it runs nothing; use ReFrame itself, with the command line that is printed"
REFUSED = {
    "--max-retries": "a check that fails once has failed",
    "--skip-sanity-check": "a wrong answer would pass",
    "--skip-performance-check": "a slow method would pass",
    "--dry-run": RUNS_NOTHING,
    "--list": RUNS_NOTHING,
    "--list-detailed": RUNS_NOTHING,
    "--list-tags": RUNS_NOTHING,
    "--describe": RUNS_NOTHING,
    "--ci-generate": RUNS_NOTHING,
    "-l": RUNS_NOTHING,
    "-L": RUNS_NOTHING,
    "-lC": RUNS_NOTHING,
    "-LC": RUNS_NOTHING,
    "-lT": RUNS_NOTHING,
    "-LT": RUNS_NOTHING,
}


def site_file(system):
    """The site file of --system NAME or DIR/NAME.py, each with or without :PARTITION."""
    name = system.partition(":")[0]
    return (
        Path(name).absolute()
        if name.endswith(".py")
        else paths.ROOT / "site-configs" / f"{name}.py"
    )


def system_name(system):
    """ReFrame's name of --system: a site file is named as its system is."""
    return site_file(system).stem + "".join(system.partition(":")[1:])


# Variables of checks that say what is judged: set from outside they would let a failure pass.
JUDGING = re.compile(r"(^|[.=])(asserted|metrics|points|strict_check)=")


def refused(argument):
    """Why `argument` of ReFrame is not taken, None if it is; long ones may be abbreviated."""
    if JUDGING.search(argument):
        return "it changes what is judged"
    name = argument.partition("=")[0]
    for option, why in REFUSED.items():
        if option == name or (name.startswith("--") and len(name) > 4 and option.startswith(name)):
            return why
    return None


def command(options, site, folder):
    """ReFrame's command line. Without a folder: one to list or to run dry, by hand."""
    line = [reframe(), "-C", paths.shown(site), "--system", system_name(options.system)]
    line += ["-c", paths.shown(paths.ROOT / "checks"), "-p", options.environ, "-t", options.tier]
    if folder is None:
        return line
    return [
        *line,
        *("--exec-policy", "serial"),  # nothing else may run while a kernel is timed
        *("--prefix", paths.shown(folder), "--report-file", paths.shown(folder / "report.json")),
        *(word for tag in tags(options) for word in ("--session-extras", tag)),
        "--nocolor",
        *options.rest,
        "-r",
    ]


def tags(options):
    """What names the session in the store: sessions with the same of these are of one kind."""
    arguments = shlex.join(options.rest).replace(",", ";")
    kind = [f"tier={options.tier}", f"system={system_name(options.system)}"]
    kind += [f"environ={options.environ}"] + ([f"arguments={arguments}"] if arguments else [])
    return [*kind, *options.tag]


def reframe():
    """The ReFrame beside this Python, else the one on PATH."""
    beside = Path(sys.executable).with_name("reframe")
    return paths.shown(beside) if beside.exists() else "reframe"


# What ReFrame itself records of a session, and no tag may be called: a pattern.
RECORDED = "data_version|hostname|uuid|cmdline|config_files|log_files|user|version|workdir"
RECORDED += "|(prefix|time|num)_.*"
# Not what a session has of itself, or ReFrame records of it.
TAG = re.compile(rf"(?!({RECORDED}|tier|system|environ|arguments)=)[A-Za-z][\w.-]*=[^,]*")


def without_names(arguments):
    """ReFrame's arguments without those that select by name (-n NAME)."""
    kept, names = [], iter(arguments)
    for argument in names:
        if argument in ("-n", "--name"):
            next(names, None)
        elif not argument.startswith(("--name=", "-n")):
            kept.append(argument)
    return kept


def given(options):
    words = ["--tier", options.tier]
    if options.system != "generic":
        words += ["--system", options.system]
    if options.environ != "system":
        words += ["-p", options.environ]
    return words


def invocation():
    """How this program was started, as one types it."""
    beside = Path(sys.executable).with_name("bisection")
    return [paths.shown(beside)] if beside.exists() else [sys.executable, "-m", "bisection"]


def selection(verdict, cases):
    """ReFrame's arguments that select these cases again; of fixtures, what depends on them."""
    judged = [case for case in cases if not case.fixture]
    judged = judged or [case for case in verdict.judged if case.cause.startswith(cases[0].test)]
    if len(judged) <= 4:
        return [word for case in judged for word in ("-n", f"/{case.hash}")]
    places = dict.fromkeys((case.check, case.layout, case.case) for case in judged)
    if len(places) > 6:
        return []
    patterns = [f"^{check}%.*layout={layout}%launch.case={case}$" for check, layout, case in places]
    return [word for pattern in patterns for word in ("-n", pattern)]


def again(case, verdict):
    """The command that runs a case again; of a launch, everything that depends on it."""
    words = ["bisection", "run", "--tier", verdict["tier"]]
    words += ["--system", verdict["system"]] if verdict["system"] != "generic" else []
    words += ["-p", case["environ"]] if case["environ"] != "system" else []
    if case["fixture"]:
        return shlex.join([*words, "-n", f"layout={case['layout']}%launch.case={case['case']}$"])
    return shlex.join([*words, "-n", f"/{case['hash']}"])
