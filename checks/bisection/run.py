"""`bisection run`: one ReFrame run, watched, judged and kept; `bisection verdict`: judged again."""

import argparse
import contextlib
import json
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import time
from datetime import datetime, timezone
from pathlib import Path

from bisection import TIERS, record, summary
from bisection import verdict as verdicts
from bisection.spack import home

ROOT = Path(__file__).resolve().parents[2]
USAGE = 2

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
        default=str(home() / "results" / "latest"),
        help="a results folder, or a report file of ReFrame; default: the latest run",
    )
    again.set_defaults(act=act_verdict)


# ---- bisection run ----


def act_run(options):
    site = site_file(options.system)
    if not site.is_file() or site.stem == "common":
        sites = sorted(p.stem for p in (ROOT / "site-configs").glob("*.py") if p.stem != "common")
        return usage(f"--system {options.system}: unknown; site-configs/ has {', '.join(sites)}")
    for argument in options.rest:
        if why := refused(argument):
            print(f"command: {shlex.join(command(options, site, None))} {argument}")
            return usage(f"{argument} is refused: {why}")

    for tag in options.tag:
        if not record.TAG.fullmatch(tag):
            return usage(f"--tag {tag}: not NAME=VALUE, without commas")

    folder = new_folder()
    line = command(options, site, folder)
    damaged = record.prepare(home())
    print(f"command: {shlex.join(line)}", flush=True)
    began = time.monotonic()
    code, log = watch(line, folder / "reframe.log")
    if words := re.search(r"^reframe: error: (.*)", log, re.M):
        shutil.rmtree(folder)
        point_to_latest(folder.parent)
        return usage(words[1])
    report = read_report(folder)
    found = verdicts.judge(report, log, lambda: listing(line))
    found.seconds = time.monotonic() - began
    if code != 0 and found.exit_code == verdicts.ALL_PASSED:
        found.troubles.append(f"ReFrame exited with {code}, see {shown(folder / 'reframe.log')}")
    found.troubles += damaged
    keep(found, folder)
    store(found, report, folder)
    finish(found, folder, options, line)
    return found.exit_code


def site_file(system):
    """The site file of --system NAME or DIR/NAME.py, each with or without :PARTITION."""
    name = system.partition(":")[0]
    return Path(name).absolute() if name.endswith(".py") else ROOT / "site-configs" / f"{name}.py"


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


def usage(message):
    print(f"bisection run: error: {message}", file=sys.stderr)
    return USAGE


def command(options, site, folder):
    """ReFrame's command line. Without a folder: one to list or to run dry, by hand."""
    line = [reframe(), "-C", shown(site), "--system", system_name(options.system)]
    line += ["-c", shown(ROOT / "checks"), "-p", options.environ, "-t", options.tier]
    if folder is None:
        return line
    return [
        *line,
        *("--exec-policy", "serial"),  # nothing else may run while a kernel is timed
        *("--prefix", shown(folder), "--report-file", shown(folder / "report.json")),
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
    return shown(beside) if beside.exists() else "reframe"


def shown(path):
    """A path as one types it in the repository's root, which is where ReFrame is started."""
    return os.path.relpath(path, ROOT) if Path(path).is_relative_to(ROOT) else str(path)


def new_folder():
    """A new results folder, named by the time in UTC; `latest` points to it."""
    stamp = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H%M%SZ")
    results = home() / "results"
    for suffix in ["", *(f"-{n}" for n in range(2, 100))]:
        folder = results / f"{stamp}{suffix}"
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            break
    point_to_latest(results)
    return folder


def point_to_latest(results):
    """`latest` in the folder of results points to the newest."""
    link = results / f".latest-{os.getpid()}"
    folders = [path for path in results.iterdir() if path.is_dir() and not path.is_symlink()]
    folders.sort(key=lambda path: (path.name[:18], len(path.name), path.name))
    if not folders:
        (results / "latest").unlink(missing_ok=True)
        return
    link.symlink_to(folders[-1].name)
    link.replace(results / "latest")


# ---- watching ReFrame ----


def environment():
    """Of ReFrame: site files anywhere find common.py."""
    paths = [str(ROOT / "site-configs"), os.environ.get("PYTHONPATH")]
    found = {"BISECTION_HOME": str(home()), "PYTHONPATH": ":".join(filter(None, paths))}
    return {**os.environ, **found}


def watch(line, log_file):
    """Runs ReFrame with its output in `log_file` and a progress line here: (exit code, output)."""
    progress = Progress(sys.stdout)
    with open(log_file, "wb") as log:
        try:
            process = subprocess.Popen(
                line,
                cwd=ROOT,
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
            signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        except OSError as error:
            log.write(f"ERROR: cannot start {line[0]}: {error.strerror}\n".encode())
            process = None
        if process is not None:
            with process.stdout, selectors.DefaultSelector() as ready:
                ready.register(process.stdout, selectors.EVENT_READ)
                follow(process, ready, log, progress)
    progress.clear()
    return (process.wait() if process else 1), log_file.read_text(errors="replace")


def listing(line):
    """ReFrame's list of the test cases that the command line `line` selects, "" if it has none."""
    command = [*line[:-1], "-lC"]  # instead of -r
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(
            command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=120
        ).stdout
    return ""


def follow(process, ready, log, progress):
    """Copies output to `log`, line by line to `progress`, until the process closes it."""
    rest = b""
    while True:
        try:
            chunk = os.read(process.stdout.fileno(), 1 << 16) if ready.select(timeout=1) else None
        except KeyboardInterrupt:
            # It cancels its jobs and writes its report. From a terminal it got the signal too.
            if not sys.stdin.isatty():
                process.send_signal(signal.SIGINT)
            continue
        if chunk == b"":
            return
        if chunk:
            log.write(chunk)
            log.flush()
            *lines, rest = (rest + chunk).split(b"\n")
            for text in lines:
                progress.read(text.decode(errors="replace"))
        progress.show()


class Progress:
    """One line that tells what runs, how many are done and how many failed.

    Rewritten in place on a terminal; elsewhere a new line now and then.
    """

    def __init__(self, stream):
        self.stream, self.live = stream, stream.isatty()
        self.began = self.told = time.monotonic()
        self.done, self.total, self.failed, self.now = 0, "", 0, "loading checks"

    def read(self, line):
        """Takes in one line of ReFrame's output."""
        if match := re.match(r"\[ RUN\s+\] (.*?) (?:~|/[0-9a-f]{8})", line):
            words = [word for word in match[1].split() if not word.startswith("%")]
            words = [words[0].removesuffix("Launch").lower(), *words[1:]]
            self.now = " ".join(words + re.findall(r"%\S+=(\S+)", match[1]))
            if words[0] == "build":
                self.now = "building the kernels"
        elif match := re.match(r"\[\s+(\w+) \] \(\s*(\d+)/(\d+)\)", line):
            self.done, self.total = int(match[2]), match[3]
            self.failed += match[1] in ("FAIL", "ABORT", "ERROR")

    def show(self):
        now = time.monotonic()
        failed = f", {self.failed} failed" if self.failed else ""
        done = f"{self.done}/{self.total}{failed}  " if self.total else ""
        text = f"{now - self.began:4.0f} s  {done}{self.now}"
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{text[:width]}", end="", file=self.stream, flush=True)
        elif now - self.told >= 10:
            self.told = now
            print(text, file=self.stream, flush=True)

    def clear(self):
        if self.live:
            print("\r\033[K", end="", file=self.stream, flush=True)


# ---- keeping and telling ----


def read_report(folder):
    try:
        return verdicts.load_report(folder / "report.json")
    except ValueError:
        return None


KEPT = {
    "result.json": "json",
    "rfm_job.sh": "sh",
    "rfm_job.out": "out",
    "rfm_job.err": "err",
    "rfm_build.sh": "build.sh",
    "rfm_build.out": "build.out",
    "rfm_build.err": "build.err",
}


def keep(found, folder):
    """Leaves in `folder` what a person needs: kernels/ with each launch's result, script and
    output, under the name that cases refer to; stage/ only if something went wrong."""
    kept = folder / "kernels"
    kept.mkdir()
    for case in found.cases:
        words = [case.kernel, case.case, case.layout] if case.kernel else ["build"]
        words += [case.partition.rpartition(":")[2], case.environ]
        name = "-".join(words) + (f"-run{case.run}" if case.run else "")
        case.files = f"{shown(kept / name)}.*"
        for source, suffix in KEPT.items() if case.fixture else ():
            files = [Path(left, source) for left in case.folders]
            for file in [file for file in files if file.is_file() and file.stat().st_size][:1]:
                shutil.copy2(file, kept / f"{name}.{suffix}")
    shutil.rmtree(folder / "output", ignore_errors=True)
    if not found.bad:
        shutil.rmtree(folder / "stage", ignore_errors=True)


def store(found, report, folder):
    """Stores the run; what cannot be stored, and tests that are gone, make it incomplete."""
    found.troubles += record.keep(report, folder, home())
    found.troubles += record.gone(report, home())


def finish(found, folder, options, line):
    """Writes the verdict's files and prints it."""

    def rerun(selection):
        rest = without_names(options.rest) if selection else options.rest
        return shlex.join([*invocation(), "run", *given(options), *rest, *selection])

    text = [*summary.table(found), "", *summary.explanations(found, rerun)]
    text += ["" if text[-1] else None, found.sentence, f"results: {shown(folder)}"]
    lines = [part for part in text if part is not None]
    more = {
        "command": line,
        "system": system_name(options.system),
        "environ": options.environ,
        "tier": options.tier,
    }
    kept = summary.as_json(found, **more)
    (folder / "verdict.txt").write_text("\n".join(lines).lstrip("\n") + "\n")
    (folder / "verdict.json").write_text(json.dumps(kept, indent=1))
    (folder / "junit.xml").write_text(summary.as_junit(found))
    print("\n".join(lines))
    if found.judged:
        print("\n".join(record.report(kept, folder, home(), shown)))


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
    return [shown(beside)] if beside.exists() else [sys.executable, "-m", "bisection"]


# ---- bisection verdict ----


def act_verdict(options):
    path = Path(options.folder)
    try:
        if path.is_dir():
            print((path / "verdict.txt").read_text(), end="")
            return json.loads((path / "verdict.json").read_text())["exit_code"]
        report = verdicts.load_report(path)
    except (OSError, ValueError, KeyError) as error:
        print(f"bisection verdict: error: no verdict in {path}: {error}", file=sys.stderr)
        return USAGE
    if report is None:
        print(f"bisection verdict: error: there is no {path}", file=sys.stderr)
        return USAGE
    found = verdicts.judge(report)
    plain = argparse.Namespace(tier="nightly", system="generic", environ="system")
    text = [*summary.table(found), ""]
    text += summary.explanations(
        found, lambda selection: shlex.join([*invocation(), "run", *given(plain), *selection])
    )
    print("\n".join([*text, found.sentence]))
    return found.exit_code
