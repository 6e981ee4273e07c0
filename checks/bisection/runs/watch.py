"""ReFrame's process, watched: its output kept, one line of progress."""

import contextlib
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, TextIO

from bisection.core import paths


def environment() -> dict[str, str]:
    """ReFrame's environment variables; by them site files anywhere find common.py."""
    python = [str(paths.ROOT / "site-configs"), os.environ.get("PYTHONPATH")]
    ours = {"BISECTION_HOME": str(paths.home()), "PYTHONPATH": ":".join(filter(None, python))}
    return {**os.environ, **ours}


def watch(line: Sequence[str], log_file: Path) -> tuple[int, str]:
    """Runs a command with its output in `log_file` and a progress line here.

    Returns:
        Its exit code, and its output.
    """
    progress = Progress(sys.stdout)
    with open(log_file, "wb") as log:
        try:
            process = subprocess.Popen(
                line,
                cwd=paths.ROOT,
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


def listing(line: Sequence[str]) -> str:
    """ReFrame's list of the test cases that the command line `line` selects, "" if it has none."""
    command = [*line[:-1], "-lC"]  # instead of -r
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(
            command, cwd=paths.ROOT, env=environment(), capture_output=True, text=True, timeout=120
        ).stdout
    return ""


def follow(
    process: subprocess.Popen[bytes],
    ready: selectors.BaseSelector,
    log: BinaryIO,
    progress: "Progress",
) -> None:
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
    """One line: what runs, how many tests are done and how many failed.

    Rewritten in place on a terminal; elsewhere a new line now and then.
    """

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.live = stream, stream.isatty()
        self.began = self.shown = time.monotonic()
        self.done, self.total, self.failed, self.now = 0, "", 0, "loading checks"

    def read(self, line: str) -> None:
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

    def show(self) -> None:
        """Prints the line; elsewhere than on a terminal no more often than every ten seconds."""
        now = time.monotonic()
        failed = f", {self.failed} failed" if self.failed else ""
        done = f"{self.done}/{self.total}{failed}  " if self.total else ""
        text = f"{now - self.began:4.0f} s  {done}{self.now}"
        if self.live:
            width = shutil.get_terminal_size().columns - 1
            print(f"\r\033[K{text[:width]}", end="", file=self.stream, flush=True)
        elif now - self.shown >= 10:
            self.shown = now
            print(text, file=self.stream, flush=True)

    def clear(self) -> None:
        """Removes the line from a terminal."""
        if self.live:
            print("\r\033[K", end="", file=self.stream, flush=True)
