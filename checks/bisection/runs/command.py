"""ReFrame: its command line, the command that runs tests again, and its process."""

import contextlib
import ctypes
import json
import math
import os
import re
import selectors
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any, TextIO, cast

from bisection import schedulers
from bisection.core import paths
from bisection.core.identity import TestId
from bisection.core.reasons.base import Reason, Text
from bisection.core.thresholds import LIMITS
from bisection.core.verdicts import TIERS
from bisection.kernels.results import disturbed
from bisection.runs import waiting
from bisection.runs.reframe_report import RECORDED
from bisection.runs.run_verdict import Request, RunVerdict, TestResult
from bisection.schedulers.scheduler import DEADLINE, NODES, SPOTS

CAMPAIGN = "campaign"  # the tag of the sessions of a campaign over every node
# What sessions have anyway, or ReFrame records.
RESERVED = re.compile(rf"({RECORDED}|tier|system|environ|arguments|{CAMPAIGN})=.*")
TAG = re.compile(r"[A-Za-z][\w.-]*=[^,]*")


def tag(text: str) -> str:
    """A tag on the command line."""
    if RESERVED.fullmatch(text):
        raise ArgumentTypeError(f"{text!r}: the name {text.partition('=')[0]} is reserved")
    if not TAG.fullmatch(text) or not text.isprintable():
        raise ArgumentTypeError(f"{text!r}: not NAME=VALUE on one line, without commas")
    return text


def command(request: Request, site: Path, folder: Path, tags: Sequence[str] = ()) -> list[str]:
    """ReFrame's command line, by the site file, the results folder, and tags of the session."""
    settings = [*TIERS[request.tier].settings]
    if request.partitions:
        settings.append(f"valid_systems={','.join(request.partitions)}")
    # Sessions of one kind have these in common.
    kind = {"tier": request.tier, "system": request.system, "environ": request.environ}
    if request.arguments:
        kind["arguments"] = shlex.join(request.arguments).replace(",", ";")
    extras = [*(f"{name}={value}" for name, value in kind.items()), *tags]
    # Nothing else may run while a kernel is timed: where the scheduler starts one launch after the
    # other, all are queued at once.
    turns = schedulers.of(request.scheduler).turns(request.job_name) if request.job_name else []
    if request.spots:  # but each on nodes of its own
        turns = schedulers.of(request.scheduler).named(request.job_name)
    program = paths.program("reframe")  # beside this Python, else the one on PATH
    words = [paths.from_root(program) if program else "reframe", "-C", paths.from_root(site)]
    words += _each("-c", request.files or map(paths.from_root, check_files()))
    words += ["--system", request.system, "-p", request.environ, "-t", request.tier]
    words += _each("-S", settings)
    words += ["--exec-policy", "async" if turns else "serial", *turns]
    words += ["--prefix", paths.from_root(folder)]
    words += ["--report-file", paths.from_root(folder / "report.json")]
    words += _each("--session-extras", extras)
    words += ["--nocolor", *request.arguments]
    words += [f"--reruns={request.reruns}"] if request.reruns else []
    return [*words, "-r"]


def _each(option: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (option, value)]


def check_files() -> list[Path]:
    """The files of checks in the order in which they run: those of the network first."""
    files = (paths.ROOT / "checks").glob("*.py")
    return sorted(files, key=lambda file: (file.stem != "network", file.name))


# ---- running again ----


def rerun(tests: Iterable[TestId], request: Request, reruns: int = 0) -> str:
    """The command that runs tests again, launches and builds with everything that depends on them.
    `request` is that of their run, `reruns` how often each is repeated. That of a campaign over
    every node goes on with it."""
    selection = [] if request.campaign else _names(list(tests))
    system, colon, partition = request.system.partition(":")
    system = (request.site or system) + colon + partition
    words = ["run", *(["--tier", request.tier] if not request.campaign else [])]
    words += ["--system", system] if system != "localhost" else []
    words += ["-p", request.environ] if request.environ != "system" else []
    words += ["--reservation", request.reservation] if request.reservation else []
    arguments = once(request.arguments, NAMES) if selection else request.arguments
    words += once(arguments, REPEATS) if reruns else arguments
    words += _each("-n", selection)
    words += ["--every-node", request.campaign] if request.campaign else []
    words += [f"--reruns={reruns}"] if reruns else []
    return bisection_command(*words)


def _names(tests: Sequence[TestId]) -> list[str]:
    """ReFrame's -n patterns for these tests: hashes, else launches, else checks."""
    judged = [test for test in tests if not getattr(test, "fixture", False)]
    hashes = [getattr(test, "hash", "") for test in judged]
    if len(hashes) == len(tests) <= 4 and all(hashes):
        return [f"/{value}" for value in hashes]
    launches = list(dict.fromkeys(map(launch_pattern, tests)))
    if len(launches) <= 6:
        return [] if "" in launches else launches
    checks = dict.fromkeys(test.check for test in judged)
    return [f"^({'|'.join(checks)})%"] if checks else []


def launch_pattern(test: TestId) -> str:
    """Returns what selects all tests of the test's launch; "" for a build."""
    parts = [f"layout={test.layout}"] if test.layout else []
    parts += [f"launch.case={test.case}(%|$)"] if test.case else []
    if not getattr(test, "fixture", False):
        return f"^{test.check}%.*" + "%".join(parts)
    return "%".join(parts)


def dependents(verdict: RunVerdict, tests: Sequence[TestResult]) -> list[TestResult]:
    """These tests without fixtures; if they are fixtures only, what their failure stopped."""
    judged = [test for test in tests if not test.fixture]
    names = {test.name for test in tests}
    return judged or [case for case in verdict.judged if case.follows in names]


NAMES = ("-n", "--name")  # ReFrame's options that select by name
REPEATS = ("--reruns", "--duration")  # that repeat the run


def once(arguments: Sequence[str], options: Sequence[str] = (*NAMES, *REPEATS)) -> list[str]:
    """ReFrame's arguments without these options and their values."""
    parser = ArgumentParser(add_help=False, allow_abbrev=False)
    for option in options:
        parser.add_argument(option)
    return parser.parse_known_args(list(arguments))[1]


def invocation() -> list[str]:
    """The words that start this program with the same home folder, wherever they are pasted."""
    program = paths.program("bisection")
    words = [paths.shown(program)] if program else [sys.executable, "-m", "bisection"]
    default = program.parents[1] if program else paths.ROOT / ".bisection"
    home = paths.home()
    return words if home == default else ["env", f"BISECTION_HOME={home}", *words]


def bisection_command(*words: str) -> str:
    return shlex.join([*invocation(), *words])


def pasted(line: Sequence[str]) -> str:
    """A command line of ReFrame, for the repository's root, as it can be pasted into a shell."""
    text = shlex.join(line)
    return text if paths.in_root() else f"(cd {shlex.quote(str(paths.ROOT))} && {text})"


# ---- the process: its output kept, one line of progress ----


@contextlib.contextmanager
def environment(folder: Path, request: Request | None = None) -> Iterator[dict[str, str]]:
    """ReFrame's environment variables; by them site files anywhere find common.py.

    In `folder` ReFrame has a temporary folder of its own, as it leaves a log of its start there; it
    is removed at the end. Launches find the nodes of the request in a file there. On a full disk
    there is neither, and the scheduler chooses.
    """
    python = [str(paths.ROOT / "site-configs"), os.environ.get("PYTHONPATH")]
    ours = {"BISECTION_HOME": str(paths.home()), "PYTHONPATH": ":".join(filter(None, python))}
    ours["RFM_ENABLE_RESULTS_STORAGE"] = "0"  # sample files are the record
    ours[paths.RESERVATION] = request.reservation if request else ""
    if request and request.deadline:
        ours[DEADLINE] = f"{request.until} {request.deadline}"
    if request and request.spots:  # never without: launches would run on any node
        kept = {name: getattr(request, name) for name in ("spots", "first", "at_once")}
        ours[SPOTS] = str(paths.write_whole(folder / "spots.json", json.dumps(kept)))
    temporary = None
    with contextlib.suppress(OSError):
        temporary = tempfile.mkdtemp(prefix=".reframe-", dir=folder)
        ours |= {"TMPDIR": temporary, paths.TEMPORARY: os.environ.get("TMPDIR", "")}
        if request and request.nodes:
            file = paths.write_whole(folder / "nodes.json", json.dumps(request.nodes))
            ours[NODES] = str(file)
    try:
        secrets = (paths.AUTHORIZATION, paths.AUTHORIZATION_FILE)
        yield {name: text for name, text in os.environ.items() if name not in secrets} | ours
    finally:
        if temporary:
            shutil.rmtree(temporary, ignore_errors=True)


def watch(
    request: Request,
    folder: Path,
    say: Callable[[Reason | str], None],
    limit: float | None = None,
) -> tuple[int, str]:
    """Runs ReFrame with its output in reframe.log of the results folder and a progress line here.
    Returns its exit code, and its output. `say` is called with what a person should know before the
    run ends; after `limit` (s) ReFrame is stopped, with its jobs.

    Raises:
        KeyboardInterrupt: it was interrupted before the first launch, and has ended. Not with a
            limit.
    """
    progress = Progress(sys.stdout, folder / "stage", say)
    chosen = (nodes for sets in request.nodes.values() for nodes in sets)
    scheduler = schedulers.of(request.scheduler)
    jobs = waiting.Watch(scheduler, request.job_name, chosen, progress.say)
    until = math.inf if limit is None else time.monotonic() + limit
    output: list[bytes] = []
    interrupted = False

    def keep(chunk: bytes) -> None:
        """Keeps output here, and in a file as far as the disk has room."""
        output.append(chunk)
        with contextlib.suppress(OSError), open(folder / "reframe.log", "ab") as file:
            file.write(chunk)

    def stop(number: int) -> None:
        """Has ReFrame cancel its jobs, write its report and end; 0: it got the signal, too."""
        if request.job_name:  # first: ReFrame cancels one by one, while the next one starts
            waiting.cancel(scheduler, request.job_name, once=True)
        if number:
            process.send_signal(number)

    with environment(folder, request) as variables:
        try:
            process = subprocess.Popen(
                request.command,
                cwd=paths.ROOT,
                env=variables,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                # PR_SET_PDEATHSIG of linux/prctl.h: if this process is killed, nothing measures on.
                preexec_fn=lambda: ctypes.CDLL(None).prctl(1, signal.SIGTERM),
            )
        except OSError as error:
            keep(f"ERROR: cannot start {request.command[0]}: {error.strerror}\n".encode())
            return 1, b"".join(output).decode()
        with (
            on_termination(lambda number, _: stop(number)),
            cast("IO[bytes]", process.stdout) as pipe,
            selectors.DefaultSelector() as ready,
        ):
            ready.register(pipe, selectors.EVENT_READ)
            rest = b""
            while True:
                if time.monotonic() > until:
                    until = math.inf
                    stop(signal.SIGINT)
                try:
                    chunk = os.read(pipe.fileno(), 1 << 16) if ready.select(1) else None
                    if chunk is None:
                        jobs.look()
                except KeyboardInterrupt:
                    interrupted = True
                    stop(0 if sys.stdin.isatty() else signal.SIGINT)  # a terminal sends it to both
                    continue
                if chunk == b"":
                    break
                if chunk:
                    keep(chunk)
                    *lines, rest = (rest + chunk).split(b"\n")
                    for text in lines:
                        progress.read(text.decode(errors="replace"))
                progress.show()
            progress.clear()
            code = process.wait()
    if interrupted and limit is None and not progress.launched:
        raise KeyboardInterrupt
    if code < 0:  # while it loads tests, a signal ends it without a word
        keep(f"ERROR: run session stopped: {signal.Signals(-code).name}\n".encode())
    return code, b"".join(output).decode(errors="replace")


@contextlib.contextmanager
def on_termination(act: Callable[[int, Any], None]) -> Iterator[None]:
    """Has SIGTERM do this meanwhile."""
    before = signal.signal(signal.SIGTERM, act)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def listing(line: Sequence[str]) -> str:
    """ReFrame's list of the test cases that the command line `line` selects, "" if it has none."""
    how: dict[str, Any] = {"cwd": paths.ROOT, "capture_output": True, "text": True, "timeout": 120}
    failed = contextlib.suppress(OSError, subprocess.TimeoutExpired)
    with environment(paths.home()) as variables, failed:
        return subprocess.run([*line[:-1], "-lC"], env=variables, **how).stdout  # instead of -r
    return ""


class Progress:
    """One line: how many tests of all are done, and what runs. It is rewritten in place on a
    terminal; there is none elsewhere. `stage` is ReFrame's folder, which gets the results of
    launches; `say` is called with a warning."""

    def __init__(self, stream: TextIO, stage: Path, say: Callable[[Reason | str], None]) -> None:
        self.stream, self.live = stream, stream.isatty()
        self.stage: Path | None = stage
        self._say = say
        self.began = time.monotonic()
        self.done, self.now = "", "loading checks"
        self.launched = False  # whether anything but a build has begun
        self.begun: dict[str, str] = {}  # test that has not ended -> its words; the oldest first
        self.launches: dict[Path, bool] = {}  # result -> whether others took its cores

    def read(self, line: str) -> None:
        """Takes in one line of ReFrame's output."""
        if match := re.match(r"\[ RUN\s+\] ((.*?) (?:~|/[0-9a-f]{8}).*)", line):
            words = [word for word in match[2].split() if not word.startswith("%")]
            words = [words[0].removesuffix("Launch").lower(), *words[1:]]
            text = " ".join(words + re.findall(r"%\S+=(\S+)", match[2]))
            builds = words[0] == "build"
            self.begun[match[1]] = "building the kernels" if builds else text
            self.launched = self.launched or not builds
        elif match := re.match(r"\[\s+\w+ \] \(\s*(\d+/\d+)\) (.*)", line):
            self.done = f"{match[1]}  "
            self.begun.pop(re.sub(r" \[.*\]$", "", match[2]), None)
            self.look_at_launches()
        # Where launches wait for their turn, the scheduler starts the one that was queued first.
        self.now = next(iter(self.begun.values()), self.now)

    def look_at_launches(self) -> None:
        """Warns once, if the first few launches, one after the other, were disturbed."""
        for path in self.stage.glob("*/*/*/*/result.json") if self.stage else ():
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
                result = {} if path in self.launches else json.loads(path.read_text())
                if result["status"] == "complete":  # the next launch may run already
                    self.launches[path] = disturbed(result) > LIMITS.disturbed_launch
        if self.stage and len(self.launches) >= LIMITS.busy_launches:
            self.stage = None  # decided; a timed launch may be next
            if all(self.launches.values()):
                first = f"other processes used the cores of the first {len(self.launches)} launches"
                lost = "what they slow down is not measured. Ctrl-C ends the run"
                self.say(Text(f"{first}; {lost}; --wait 30m waits for a quiet machine first"))

    def say(self, reason: Reason | str) -> None:
        self.clear()
        self._say(reason)

    def show(self) -> None:
        """Prints the line."""
        text = f"{time.monotonic() - self.began:4.0f} s  {self.done}{self.now}"
        self._print(text[: shutil.get_terminal_size().columns - 1])

    def clear(self) -> None:
        self._print("")

    def _print(self, text: str) -> None:
        if self.live:
            print(f"\r\033[K{text}", end="", file=self.stream, flush=True)
